/* SPDX-License-Identifier: MIT
 *
 * At which moment: bells ring after the commit, and a lock is judged by the time at which the sweep was
 * asked for, not by when it got the file.
 */
#include "ground.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* ---- bells ------------------------------------------------------------------------------- */

static const emq_str mail = EMQ_STR_INIT("mail");

static uint64_t ticket(struct sq *s)
{
    return s->base.ops->ticket(&s->base, EMQ_STR_LIT("emq"), &mail, 1);
}

struct ringing {
    uint64_t before;
    bool early;
    emq_status end;
};

static emq_status ring_and_look(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct ringing *r = arg;

    (void)err;
    sq_ring_later(tx, EMQ_STR_LIT("emq"), mail);
    r->early = ticket(tx->s) != r->before;
    return r->end;
}

EMQ_TEST(a_bell_is_rung_after_the_commit_and_not_before)
{
    struct sq *s = ground_open(ground_path("q.db"), "off", 0);
    struct ringing r = {.before = ticket(s), .end = EMQ_OK};

    CHECK_STATUS(sq_write(s, ring_and_look, &r, NULL), EMQ_OK);
    CHECK(!r.early);
    CHECK(ticket(s) != r.before);
    ground_close(s);
}

/* ---- expiry ------------------------------------------------------------------------------ */

enum { SHORT_MS = 1000, LONG_MS = 60000 };

static void add_and_take(struct sq *s, int64_t lock_ms, struct emq__arena *mem)
{
    struct emq__add_entry en = {.prefix = EMQ_STR_LIT("emq"),
                                .queue = EMQ_STR_LIT("q"),
                                .name = EMQ_STR_LIT("job"),
                                .opts = EMQ_STR_LIT("{}"),
                                .data = {EMQ__KIND_TEXT, EMQ_STR_LIT("x")}};
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req add = {.entries = list, .n = 1};
    struct emq__add_res added;
    struct emq__take_req take = {
        .prefix = EMQ_STR_LIT("emq"),
        .queue = EMQ_STR_LIT("q"),
        .take = {.worker = EMQ_STR_LIT("w"), .lock_ms = lock_ms, .count = 1}};
    struct emq__take_res taken;

    CHECK_STATUS(s->base.ops->add(&s->base, &add, &added, mem, NULL), EMQ_OK);
    CHECK_STATUS(s->base.ops->take(&s->base, &take, &taken, mem, NULL), EMQ_OK);
    CHECK_INT(taken.taken.n, 1);
}

struct sweeping {
    struct sq *s;
    emq_status status;
    size_t recovered;
};

static void *sweep(void *arg)
{
    struct sweeping *w = arg;
    struct emq__arena mem = {0};
    struct emq__sweep_req req = {
        .prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("q"), .max_stalled = 3, .limit = 10};
    struct emq__sweep_res res = {0};

    w->status = w->s->base.ops->sweep(&w->s->base, &req, &res, &mem, NULL);
    w->recovered = res.n_recovered;
    emq__arena_free(&mem);
    return NULL;
}

static bool leading(struct sq *s)
{
    pthread_mutex_lock(&s->group.mu);
    bool yes = s->group.leading;
    pthread_mutex_unlock(&s->group.mu);
    return yes;
}

/* Runs the call in a thread while a foreign program has the file, and lets a minute pass meanwhile: after
 * the call has looked at the clock, and before it gets the file. */
static void during_a_wait(struct sq *s, void *(*call)(void *), void *arg)
{
    struct helper h = HELPER("foreign-hold", ground_path("q.db"), "60000");
    pthread_t thread;

    helper_expect(&h, "held");
    CHECK_INT(pthread_create(&thread, NULL, call, arg), 0);
    for (int i = 0; !leading(s); i++) {
        CHECK(i < 20000);
        (void)usleep(1000);
    }
    CHECK_STATUS(s->base.ops->advance(&s->base, LONG_MS, NULL), EMQ_OK);
    helper_killed(&h);
    CHECK_INT(pthread_join(thread, NULL), 0);
}

EMQ_TEST(a_lock_that_ends_while_the_sweep_waits_for_the_file_is_left_alone)
{
    struct sq *s = ground_open(ground_path("q.db"), "off", 20000);
    struct emq__arena mem = {0};
    struct sweeping w = {.s = s};

    add_and_take(s, SHORT_MS, &mem);
    add_and_take(s, LONG_MS, &mem);
    CHECK_STATUS(s->base.ops->advance(&s->base, SHORT_MS, NULL), EMQ_OK); /* something to do */
    during_a_wait(s, sweep, &w);
    CHECK_STATUS(w.status, EMQ_OK);
    CHECK_INT(w.recovered, 1); /* the owner of the other may renew it first */
    (void)sweep(&w);
    CHECK_STATUS(w.status, EMQ_OK);
    CHECK_INT(w.recovered, 1);
    emq__arena_free(&mem);
    ground_close(s);
}

struct removing {
    struct sq *s;
    emq_status status, outcome;
};

static void *remove_first(void *arg)
{
    struct removing *r = arg;
    struct emq__arena mem = {0};
    emq_str id = EMQ_STR_LIT("1");
    struct emq__change_req req = {.prefix = EMQ_STR_LIT("emq"),
                                  .queue = EMQ_STR_LIT("q"),
                                  .ids = &id,
                                  .n = 1,
                                  .change = {.kind = EMQ__CHANGE_REMOVE}};
    struct emq__change_res res = {0};

    r->status = r->s->base.ops->change(&r->s->base, &req, &res, &mem, NULL);
    r->outcome = r->status == EMQ_OK ? res.changed[0].outcome : r->status;
    emq__arena_free(&mem);
    return NULL;
}

EMQ_TEST(a_job_whose_lock_ends_while_its_removal_waits_for_the_file_is_not_removed)
{
    struct sq *s = ground_open(ground_path("q.db"), "off", 20000);
    struct emq__arena mem = {0};
    struct removing r = {.s = s};

    add_and_take(s, LONG_MS, &mem);
    during_a_wait(s, remove_first, &r);
    CHECK_STATUS(r.status, EMQ_OK);
    CHECK_STATUS(r.outcome, EMQ_LOCKED);
    (void)remove_first(&r);
    CHECK_STATUS(r.outcome, EMQ_OK);
    emq__arena_free(&mem);
    ground_close(s);
}
