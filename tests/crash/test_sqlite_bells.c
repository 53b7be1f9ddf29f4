/* SPDX-License-Identifier: MIT
 *
 * Bells: waits between threads and processes, and the clocks of a handle.
 */
#include "ground.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static emq_status ring_queue(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)err;
    sq_ring_later(tx, EMQ_STR_LIT("emq"), emq_cstr(arg));
    return EMQ_OK;
}

EMQ_TEST(bell_rung_after_a_commit_wakes_another_process)
{
    static char queue[] = "mail";
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    struct helper h = HELPER("wait", path, "mail");

    helper_expect(&h, "waiting");
    CHECK_STATUS(sq_write(s, ring_queue, queue, NULL), EMQ_OK);
    helper_expect(&h, "rung");
    CHECK_INT(helper_end(&h), 0);
    ground_close(s);
}

static struct emq__wait_req wait_for(struct sq *s, const emq_str *queues, size_t n,
                                     const atomic_int *cancelled)
{
    struct emq__wait_req req = {.prefix = EMQ_STR_LIT("emq"),
                                .queues = queues,
                                .n = n,
                                .timeout_ms = 1000,
                                .cancelled = cancelled};

    req.ticket = s->base.ops->ticket(&s->base, req.prefix, queues, n);
    return req;
}

EMQ_TEST(ring_between_looking_and_sleeping_is_seen)
{
    static char queue[] = "a";
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    emq_str queues[3] = {EMQ_STR_LIT("b"), EMQ_STR_LIT("a"), EMQ_STR_LIT("c")};
    struct emq__wait_req req = wait_for(s, queues, 3, NULL);
    struct emq__wait_res res;

    CHECK_STATUS(sq_write(s, ring_queue, queue, NULL), EMQ_OK);
    CHECK_STATUS(s->base.ops->wait(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    req = wait_for(s, queues, 3, NULL);
    req.timeout_ms = 0;
    CHECK_STATUS(s->base.ops->wait(&s->base, &req, &res, NULL, NULL), EMQ_TIMEOUT);
    ground_close(s);
}

struct sleeper {
    struct sq *s;
    atomic_int cancelled, rounds;
    emq_status last;
};

static void *sleeps(void *arg)
{
    struct sleeper *p = arg;
    emq_str queue = EMQ_STR_LIT("quiet");

    do {
        struct emq__wait_req req = wait_for(p->s, &queue, 1, &p->cancelled);
        struct emq__wait_res res;
        atomic_fetch_add(&p->rounds, 1);
        p->last = p->s->base.ops->wait(&p->s->base, &req, &res, NULL, NULL);
    } while (p->last == EMQ_TIMEOUT);
    return NULL;
}

EMQ_TEST(interrupt_ends_every_wait_of_the_handle)
{
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct sleeper p[4];
    pthread_t t[4];

    for (int i = 0; i < 4; i++) {
        p[i] = (struct sleeper){.s = s};
        CHECK_INT(pthread_create(&t[i], NULL, sleeps, &p[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        while (atomic_load(&p[i].rounds) == 0)
            (void)usleep(1000);
        atomic_store(&p[i].cancelled, 1);
    }
    s->base.ops->interrupt(&s->base);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_join(t[i], NULL), 0);
        CHECK_STATUS(p[i].last, EMQ_CANCELLED);
    }
    ground_close(s);
}

EMQ_TEST(queues_of_one_name_under_two_prefixes_have_two_bells)
{
    struct sq *s = ground_open(":memory:", NULL, 0);
    emq_str q = EMQ_STR_LIT("mail");
    uint64_t a = s->base.ops->ticket(&s->base, EMQ_STR_LIT("one"), &q, 1);
    uint64_t b = s->base.ops->ticket(&s->base, EMQ_STR_LIT("two"), &q, 1);
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("one"), .queue = q};
    struct emq__wake_res res;

    CHECK_STATUS(s->base.ops->wake(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    CHECK(s->base.ops->ticket(&s->base, EMQ_STR_LIT("one"), &q, 1) != a);
    CHECK(s->base.ops->ticket(&s->base, EMQ_STR_LIT("two"), &q, 1) == b);
    ground_close(s);
}

EMQ_TEST(without_shared_memory_waiters_look_at_the_file)
{
    const char *path = ground_path("q.db");
    char side[4096];
    struct sq *s;
    emq_str queue = EMQ_STR_LIT("mail");

    (void)snprintf(side, sizeof side, "%s-emq", path);
    CHECK_INT(mkdir(side, 0700), 0); /* no side file can be made */
    s = ground_open(path, NULL, 0);
    CHECK(s->bell.poll);
    struct emq__wait_req req = wait_for(s, &queue, 1, NULL);
    struct emq__wait_res res;
    emq_status st;
    struct helper h = HELPER("loop", path, "off", "1", "1");
    int rounds = 20;
    do
        st = s->base.ops->wait(&s->base, &req, &res, NULL, NULL);
    while (st == EMQ_TIMEOUT && --rounds > 0);
    CHECK_STATUS(st, EMQ_OK);
    char line[64];
    helper_line(&h, line, sizeof line);
    CHECK_INT(helper_end(&h), 0);
    sqlite3_stmt *look = s->bell.look.stmt[SQ_SQL_data_version]; /* prepared once, for all looks */
    CHECK(look && sqlite3_stmt_status(look, SQLITE_STMTSTATUS_RUN, 0) > 1);
    ground_close(s);
}

EMQ_TEST(clocks_of_the_handle_move_forward_together)
{
    struct sq *s = ground_open(":memory:", NULL, 0);
    int64_t wall = sq_now_ms(s), boot = sq_boot_ms(s);

    CHECK_STATUS(s->base.ops->advance(&s->base, 86400000, NULL), EMQ_OK);
    CHECK(sq_now_ms(s) - wall >= 86400000);
    CHECK(sq_boot_ms(s) - boot >= 86400000);
    CHECK_STATUS(s->base.ops->advance(&s->base, -1, NULL), EMQ_E_INVALID);
    ground_close(s);
}
