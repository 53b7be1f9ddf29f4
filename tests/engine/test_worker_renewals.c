/* SPDX-License-Identifier: MIT
 *
 * Renewals: how often, how many at once, in which order, from which moment they count, and what a worker
 * does not do while they fail.
 */
#include "hook_engine.h"
#include "worker_fixture.h"

#include "base/str.h"

EMQ_TEST(a_lock_of_ten_minutes_is_renewed_within_seconds_so_that_a_cancel_is_seen_soon)
{
    struct bench *b = bench_open("q");
    struct wf_fault *extend = wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);

    b->o.o.lock_ms = 600 * 1000; /* a third of it is longer than any patience here */
    wf_add(&b->f, "q", "a", "hold retry");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    WAIT_FOR(extend->seen > 0);
    CHECK_STATUS(emq_cancel(b->f.c, S("q"), S("a"), NULL, NULL), EMQ_OK);
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_USER);
    wf_stop(w, 0);
    bench_close(b);
}

/* ---- slices ------------------------------------------------------------------------------ */

enum { MANY = 620, SLICE = 500 };

struct slices {
    struct hook hook;
    pthread_mutex_t mu; /* guards open */
    pthread_cond_t opened;
    bool open;
    atomic_int running;
    atomic_int full, wrong;
    int turn;           /* of the keeper's thread alone, as the rest */
    int last[MANY + 1]; /* the call in which j1… was renewed last */
};

/* Renewed now are those that were renewed the longest time ago, oldest first. */
static bool oldest_first(struct slices *x, const struct emq__extend_req *r)
{
    int before = 0;

    for (size_t i = 0; i < r->n; i++) {
        emq_str id = r->entries[i]->id;
        int64_t n = 0;
        if (!emq__str_to_i64(emq_strn(id.ptr + 1, id.len - 1), &n) || n < 1 || n > MANY ||
            x->last[n] < before)
            return false;
        before = x->last[n];
        x->last[n] = x->turn;
    }
    for (int n = 1; n <= MANY; n++)
        if (x->last[n] < before)
            return false;
    return true;
}

static emq_status slices_before(void *user, const char *act, const void *req)
{
    struct slices *x = user;
    const struct emq__extend_req *r = req;

    if (strcmp(act, "extend") != 0)
        return EMQ_OK;
    x->turn++;
    if (r->n > SLICE || !oldest_first(x, r))
        atomic_fetch_add(&x->wrong, 1);
    if (r->n == SLICE)
        atomic_fetch_add(&x->full, 1);
    return EMQ_OK;
}

/* So many handlers must not use the CPU while they wait. */
static emq_verdict sleep_until_open(emq_job *job, void *user)
{
    struct slices *x = user;

    (void)job;
    atomic_fetch_add(&x->running, 1);
    pthread_mutex_lock(&x->mu);
    while (!x->open)
        pthread_cond_wait(&x->opened, &x->mu);
    pthread_mutex_unlock(&x->mu);
    return EMQ_DONE;
}

EMQ_TEST(many_locks_are_renewed_in_slices_of_500_the_oldest_deadline_first)
{
    const char *preload = getenv("LD_PRELOAD");
    test_require(!preload || !strstr(preload, "valgrind"), "threads",
                 "valgrind allows 500 of them");
    struct bench *b = bench_open("q");
    static struct slices x = {.mu = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

    x.hook.before = slices_before;
    x.hook.user = &x;
    hook_wrap(&b->f.c->e, &x.hook);
    b->o.o.concurrency = MANY;
    b->o.o.handler = sleep_until_open;
    b->o.o.user = &x;
    b->o.o.on_event = NULL;
    wf_add_n(&b->f, "q", MANY, "");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(x.running == MANY);
    WAIT_FOR(x.full >= 3);
    CHECK_INT(x.wrong, 0);
    pthread_mutex_lock(&x.mu);
    x.open = true;
    pthread_cond_broadcast(&x.opened);
    pthread_mutex_unlock(&x.mu);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == MANY);
    CHECK_INT(wf_stats(w).lost, 0);
    wf_stop(w, 0);
    bench_close(b);
}

/* ---- from when --------------------------------------------------------------------------- */

struct slow_reply {
    struct hook hook;
    _Atomic int64_t sent_us;
    atomic_int replies;
};

static emq_status slow_before(void *user, const char *act, const void *req)
{
    struct slow_reply *x = user;

    (void)req;
    if (strcmp(act, "extend") == 0 && atomic_load(&x->replies) == 0)
        atomic_store(&x->sent_us, emq__mono_now().us);
    return EMQ_OK;
}

static emq_status slow_after(void *user, const char *act, const void *req, emq_status s)
{
    struct slow_reply *x = user;

    (void)req;
    if (strcmp(act, "extend") != 0)
        return s;
    if (atomic_fetch_add(&x->replies, 1) > 0)
        return EMQ_E_UNAVAIL; /* no other renewal */
    wf_nap(1500);
    return s;
}

static int64_t safe_until_us(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    int64_t us = w->renew_first ? atomic_load(&w->renew_first->safe_until_us) : 0;
    pthread_mutex_unlock(&w->mu);
    return us;
}

EMQ_TEST(a_renewed_lock_counts_from_when_the_renewal_was_sent_however_late_the_answer)
{
    struct bench *b = bench_open("q");
    struct slow_reply x = {.replies = 0};

    x.hook.before = slow_before;
    x.hook.after = slow_after;
    x.hook.user = &x;
    hook_wrap(&b->f.c->e, &x.hook);
    b->o.o.lock_ms = 5000;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    int64_t taken = safe_until_us(w);
    WAIT_FOR(x.replies > 0 && safe_until_us(w) != taken);
    CHECK(safe_until_us(w) > taken);
    CHECK(safe_until_us(w) <= x.sent_us + 5000 * 1000);
    b->p.gate = 1;
    wf_stop(w, 1);
    bench_close(b);
}

/* ---- while they fail --------------------------------------------------------------------- */

EMQ_TEST(a_worker_whose_renewals_fail_does_not_sweep)
{
    struct bench *b = bench_open("q");
    struct wf_fault *sweep = wf_fault(&b->f, "sweep", EMQ__FAULT_NONE, 0);

    b->o.o.lock_ms = 3000;
    b->o.o.stalled_interval_ms = 20;
    wf_add(&b->f, "q", "a", "hold!");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1 && sweep->seen > 3);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    WAIT_FOR(b->p.event_count[EMQ_EVENT_ERROR] == 1);
    wf_nap(100); /* one may have been under way */
    int seen = sweep->seen;
    wf_nap(500);
    CHECK_INT(sweep->seen, seen);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    WAIT_FOR(sweep->seen > seen + 3);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    wf_stop(w, 0);
    bench_close(b);
}
