/* SPDX-License-Identifier: MIT
 *
 * Recovery: whose jobs come back, when, and what goes on meanwhile.
 */
#include "worker_fixture.h"

#include "base/str.h"

static int64_t now_ms(void)
{
    return emq__mono_now().us / 1000;
}

/* n jobs held by a worker that is gone; ids j1… */
static void orphans(struct bench *b, int n, int64_t lock_ms)
{
    wf_add_n(&b->f, "q", n, "");
    while (n > 0) {
        struct emq__arena mem = {0};
        struct emq__take_req req = {
            .prefix = b->f.c->prefix,
            .queue = S("q"),
            .take = {.worker = S("dead"), .lock_ms = lock_ms, .count = EMQ__BATCH_MAX}};
        struct emq__take_res res;
        emq_error err = {0};
        CHECK_STATUS_ERR(b->f.c->e->ops->take(b->f.c->e, &req, &res, &mem, &err), EMQ_OK, &err);
        CHECK(res.taken.n > 0);
        n -= (int)res.taken.n;
        emq__arena_free(&mem);
    }
}

/* A worker counts when the store has answered it, a little after others can see what was done. */
static int64_t recovered_by(emq_worker *const *w, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += wf_stats(w[i]).recovered;
    return sum;
}

EMQ_TEST(a_dead_workers_job_is_recovered_at_the_start_and_later_too)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "early", "");
    wf_orphan(&b->f, "q", 200);
    wf_nap(250);
    b->o.o.stalled_interval_ms = 3600 * 1000; /* only the look at the start */
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_state(&b->f, "q", "early") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);

    b->o.o.stalled_interval_ms = 100;
    w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_saw(&b->p, "ready:"));
    emq_worker_pause(w); /* the orphan is made before it can take the job */
    wf_add(&b->f, "q", "late", "");
    wf_orphan(&b->f, "q", 300);
    int64_t before = now_ms();
    emq_worker_resume(w);
    WAIT_FOR(wf_state(&b->f, "q", "late") == EMQ_COMPLETED_STATE);
    CHECK(now_ms() - before < 5 * (300 + 100));
    WAIT_FOR(recovered_by(&w, 1) >= 1);
    CHECK_INT(recovered_by(&w, 1), 1);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_worker_that_does_not_sweep_says_so_and_leaves_dead_workers_jobs_alone)
{
    struct bench *b = bench_open("q");

    b->o.o.stalled_interval_ms = -1;
    wf_add(&b->f, "q", "a", "");
    wf_orphan(&b->f, "q", 200);
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_logged(&b->f, "does not sweep"));
    wf_nap(600);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_ACTIVE);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_job_whose_workers_die_again_and_again_fails_and_the_others_are_done)
{
    struct bench *b = bench_open("q");

    b->o.o.max_stalled = 2;
    wf_add(&b->f, "q", "poison", "");
    for (int i = 0; i < 2; i++) {
        int64_t recovered = 0;
        wf_orphan(&b->f, "q", 200);
        WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL) == EMQ_OK &&
                 recovered == 1);
    }
    wf_orphan(&b->f, "q", 200);
    wf_add_n(&b->f, "q", 50, "");
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "poison"), "failed: " EMQ__TEXT_STALLED);
    CHECK_INT(probe_runs(&b->p, "poison"), 0);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), 50);
    emq_job *j = wf_get(&b->f, "q", "poison");
    CHECK_INT(emq_job_stalled(j), 3);
    CHECK_INT(emq_job_attempts_made(j), 0);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(a_crash_uses_up_no_attempt)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "fail", (emq_add_opts){.attempts = 1});
    wf_orphan(&b->f, "q", 200);
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_attempts_made(j), 1);
    CHECK_INT(emq_job_attempts_started(j), 2);
    CHECK_INT(emq_job_stalled(j), 1);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(thousands_of_stalled_jobs_do_not_hold_up_the_first_start)
{
    enum { N = 3000 };
    struct bench *b = bench_open("q");

    orphans(b, N, 200);
    wf_nap(250);
    b->o.o.concurrency = 4;
    int64_t before = now_ms();
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.started > 0);
    CHECK(now_ms() - before < 5000);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == N);
    CHECK_INT(b->p.started, N);
    WAIT_FOR(recovered_by(&w, 1) >= N);
    CHECK_INT(recovered_by(&w, 1), N);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(many_workers_sweeping_at_once_recover_each_job_once)
{
    enum { N = 300, WORKERS = 6 };
    struct bench *b = bench_open("q");
    emq_worker *w[WORKERS];

    orphans(b, N, 200);
    wf_nap(250);
    b->o.o.start_paused = 1;
    b->o.o.stalled_interval_ms = 50;
    for (int i = 0; i < WORKERS; i++)
        w[i] = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_WAITING) == N);
    WAIT_FOR(recovered_by(w, WORKERS) >= N);
    for (int i = 0; i < WORKERS; i++)
        emq_worker_resume(w[i]);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == N);
    CHECK_INT(b->p.started, N);
    CHECK_INT(recovered_by(w, WORKERS), N);
    for (int i = 0; i < WORKERS; i++)
        CHECK_INT(wf_stats(w[i]).errors, 0);
    emq_job *j = wf_get(&b->f, "q", "j7");
    CHECK_INT(emq_job_stalled(j), 1);
    emq_job_free(j);
    for (int i = 0; i < WORKERS; i++)
        wf_stop(w[i], 0);
    bench_close(b);
}

EMQ_TEST(a_worker_leaves_jobs_of_queues_it_does_not_serve_alone)
{
    struct bench *b = bench_open("mine");

    wf_add(&b->f, "other", "a", "");
    wf_orphan(&b->f, "other", 200);
    wf_add(&b->f, "mine", "b", "");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_state(&b->f, "mine", "b") == EMQ_COMPLETED_STATE);
    wf_nap(600);
    int state = wf_state(&b->f, "other", "a");
    CHECK(state == EMQ_ACTIVE || state == EMQ_WAITING);
    CHECK_INT(probe_runs(&b->p, "a"), 0);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(rolling_restarts_do_not_keep_a_dead_workers_job_from_coming_back)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    wf_orphan(&b->f, "q", 1000);
    for (int i = 0; i < 6; i++) { /* each stops before the lock ends */
        emq_worker *w = wf_start(&b->f, &b->o);
        wf_nap(100);
        wf_stop(w, 1);
    }
    int64_t before = now_ms();
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK(now_ms() - before < 5 * (1000 + 200));
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(due_jobs_join_their_line_while_every_place_is_taken)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "long", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    wf_add_opts(&b->f, "q", "due", "", (emq_add_opts){.delay_ms = 200});
    WAIT_FOR(wf_state(&b->f, "q", "due") == EMQ_WAITING);
    CHECK_INT(b->p.running, 1);
    b->p.gate = 1;
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(delayed_jobs_run_when_they_are_due_and_once)
{
    struct bench *b = bench_open("q");
    emq_worker *w[3];

    for (int i = 0; i < 3; i++)
        w[i] = wf_start(&b->f, &b->o);
    int64_t before = now_ms();
    for (int i = 0; i < 20; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "d%d", i);
        wf_add_opts(&b->f, "q", id, "", (emq_add_opts){.delay_ms = 400});
    }
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 20);
    CHECK(now_ms() - before >= 400);
    CHECK(now_ms() - before < 5 * (400 + EMQ__POLL_MS));
    CHECK_INT(b->p.started, 20);
    for (int i = 0; i < 3; i++)
        wf_stop(w[i], 0);
    bench_close(b);
}
