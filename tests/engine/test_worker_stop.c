/* SPDX-License-Identifier: MIT
 *
 * Stopping and pausing: what ends, what goes on, what goes back, and how long it may take.
 */
#include "worker_fixture.h"

#include "base/str.h"

#include <signal.h>

static int64_t now_ms(void)
{
    return emq__mono_now().us / 1000;
}

EMQ_TEST(outcomes_of_running_jobs_are_recorded_before_a_worker_ends)
{
    struct bench *b = bench_open("q");

    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "good", "hold result 7");
    wf_add(&b->f, "q", "bad", "hold reason oh fail");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 2);
    wf_add(&b->f, "q", "next", "");
    emq_worker_stop(w, 0);
    WAIT_FOR(probe_saw(&b->p, "finished:"));
    CHECK_INT(b->p.running, 2);
    CHECK_INT(b->p.cancel_seen, EMQ_GO_ON);
    b->p.gate = 1;
    wf_finish(w);
    assert_string_equal(wf_end(&b->f, "q", "good"), "completed: 7");
    assert_string_equal(wf_end(&b->f, "q", "bad"), "failed: oh");
    CHECK_INT(wf_state(&b->f, "q", "next"), EMQ_WAITING);
    bench_close(b);
}

EMQ_TEST(an_idle_worker_stops_within_a_second)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);

    WAIT_FOR(wf_stats(w).takes > 0);
    wf_nap(50);
    int64_t before = now_ms();
    wf_stop(w, 0);
    CHECK(now_ms() - before < 1000);
    bench_close(b);
}

EMQ_TEST(a_job_that_always_asks_for_another_turn_does_not_hold_up_a_stop)
{
    struct bench *b = bench_open("q");

    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "a", "back after 1");
    wf_add_opts(&b->f, "q", "b", "retry",
                (emq_add_opts){.attempts = 1000000, .backoff_type = EMQ_BACKOFF_NONE});
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_runs(&b->p, "a") >= 2 && probe_runs(&b->p, "b") >= 5);
    emq_worker_stop(w, 0);
    WAIT_FOR(probe_saw(&b->p, "finished:"));
    wf_finish(w);
    CHECK_INT(wf_count(&b->f, "q", EMQ_ACTIVE), 0);
    bench_close(b);
}

EMQ_TEST(nothing_is_taken_after_a_stop_on_any_path)
{
    struct bench *b = bench_open("q");

    b->o.o.concurrency = 4;
    wf_add_n(&b->f, "q", 4, "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 4);
    for (int i = 0; i < 50; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "next%d", i);
        wf_add(&b->f, "q", id, "");
    }
    emq_worker_stop(w, 0);
    b->p.gate = 1;
    wf_finish(w);
    CHECK_INT(b->p.started, 4);
    CHECK_INT(wf_count(&b->f, "q", EMQ_WAITING), 50);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), 4);
    bench_close(b);
}

EMQ_TEST(a_worker_whose_store_is_gone_ends_within_its_grace)
{
    struct bench *b = bench_open("q");

    b->o.o.grace_ms = 500;
    b->o.o.lock_ms = 1000;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_UNAVAIL, -1);
    (void)wf_fault(&b->f, "take", EMQ__FAULT_UNAVAIL, -1);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    b->p.gate = 1;
    WAIT_FOR(b->p.event_count[EMQ_EVENT_ERROR] > 0);
    int64_t before = now_ms();
    wf_stop(w, 0);
    CHECK(now_ms() - before < 5 * (500 + EMQ__LAST_TRIES_MS));
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);
    (void)wf_fault(&b->f, "take", EMQ__FAULT_NONE, 0);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    /* The job is not lost: another worker gets it. */
    (void)work_off(b);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_COMPLETED_STATE);
    bench_close(b);
}

EMQ_TEST(a_second_stop_cancels_and_gives_back_uncharged)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "hold retry", (emq_add_opts){.attempts = 1});
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker_stop(w, 0);
    WAIT_FOR(probe_saw(&b->p, "finished:"));
    CHECK_INT(b->p.running, 1);
    int64_t before = now_ms();
    wf_stop(w, 1);
    CHECK(now_ms() - before < 5000);
    CHECK_INT(b->p.cancel_seen, EMQ_CANCEL_SHUTDOWN);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_state(j), EMQ_WAITING);
    CHECK_INT(emq_job_attempts_made(j), 0);
    CHECK_INT(emq_job_attempts_started(j), 0);
    CHECK_INT(emq_job_stalled(j), 0);
    emq_job_free(j);
    CHECK(probe_saw(&b->p, "back:a"));
    bench_close(b);
}

EMQ_TEST(locks_are_renewed_during_the_grace_period)
{
    struct bench *b = bench_open("q");
    emq_client *c2 = wf_client(&b->f);
    struct probe p2;
    struct wf_opts o2;

    probe_init(&p2);
    wf_opts(&o2, "q", &p2);
    b->o.o.lock_ms = 300;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *one = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker *two = wf_start_on(c2, &o2);
    emq_worker_stop(one, 0);
    wf_nap(1500); /* five locks */
    CHECK_INT(b->p.running, 1);
    CHECK_INT(p2.started, 0);
    b->p.gate = 1;
    wf_finish(one);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: null");
    CHECK_INT(wf_stats(two).recovered, 0);
    wf_stop(two, 0);
    emq_close(c2);
    probe_free(&p2);
    bench_close(b);
}

EMQ_TEST(after_the_grace_period_running_jobs_are_told_and_given_back)
{
    struct bench *b = bench_open("q");

    b->o.o.grace_ms = 200;
    wf_add(&b->f, "q", "a", "hold back");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    wf_stop(w, 0);
    CHECK_INT(b->p.cancel_seen, EMQ_CANCEL_SHUTDOWN);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_WAITING);
    bench_close(b);
}

EMQ_TEST(a_handler_that_does_not_listen_is_waited_for_and_its_outcome_counts)
{
    struct bench *b = bench_open("q");
    emq_error err = {0};

    wf_add(&b->f, "q", "a", "hold! result 5");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker_stop(w, 1);
    CHECK_STATUS(emq_worker_join(w, 200, &err), EMQ_TIMEOUT);
    b->p.gate = 1;
    wf_finish(w);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: 5");
    bench_close(b);
}

EMQ_TEST(jobs_in_hand_that_have_not_begun_go_back_at_once_when_a_worker_stops)
{
    struct bench *b = bench_open("q");

    b->o.o.prefetch = 32;
    wf_add_n(&b->f, "q", 400, "");
    for (int i = 0; i < 40; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "held%d", i);
        wf_add(&b->f, "q", id, "hold");
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1 && wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 400);
    wf_nap(20);
    emq_worker_stop(w, 0);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_ACTIVE) == 1);
    CHECK_INT(wf_stats(w).in_hand, 0);
    b->p.gate = 1;
    wf_finish(w);
    CHECK_INT(wf_count(&b->f, "q", EMQ_WAITING), 39);
    emq_job *j = wf_get(&b->f, "q", "held1");
    CHECK_INT(emq_job_attempts_started(j), 0);
    CHECK_INT(emq_job_stalled(j), 0);
    emq_job_free(j);
    bench_close(b);
}

static emq_worker *_Atomic signalled;

static void on_signal(int sig)
{
    (void)sig;
    emq_worker_stop(signalled, 0);
}

EMQ_TEST(a_worker_can_be_stopped_from_a_signal_handler)
{
    struct bench *b = bench_open("q");
    struct sigaction act = {.sa_handler = on_signal}, before;

    emq_worker *w = wf_start(&b->f, &b->o);
    signalled = w;
    CHECK_INT(sigaction(SIGUSR1, &act, &before), 0);
    CHECK_INT(raise(SIGUSR1), 0);
    wf_finish(w);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), 0);
    bench_close(b);
}

/* ---- pausing ----------------------------------------------------------------------------- */

/* A job that arrives while the worker is being paused: taken, and not begun. */
static emq_worker *paused_during_a_take(struct bench *b)
{
    struct wf_fault *take = wf_fault(&b->f, "take", EMQ__FAULT_NONE, 0);
    emq_worker *w = wf_start(&b->f, &b->o);

    WAIT_FOR(wf_stats(w).takes > 0);
    atomic_store(&take->delay_ms, 300);
    int seen = take->seen;
    wf_add(&b->f, "q", "a", "");
    WAIT_FOR(take->seen > seen);
    int64_t before = now_ms();
    emq_worker_pause(w);
    CHECK(now_ms() - before < 500);
    return w;
}

EMQ_TEST(a_job_taken_while_a_worker_is_being_paused_goes_back_and_runs_elsewhere_once)
{
    struct bench *b = bench_open("q");
    emq_worker *w = paused_during_a_take(b);
    emq_client *c2 = wf_client(&b->f);
    struct probe p2;
    struct wf_opts o2;

    WAIT_FOR(probe_saw(&b->p, "back:a"));
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_state(j), EMQ_WAITING);
    CHECK_INT(emq_job_attempts_started(j), 0);
    emq_job_free(j);
    probe_init(&p2);
    wf_opts(&o2, "q", &p2);
    emq_worker *two = wf_start_on(c2, &o2);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(b->p.started, 0);
    CHECK_INT(p2.started, 1);
    wf_stop(two, 0);
    wf_stop(w, 0);
    emq_close(c2);
    probe_free(&p2);
    bench_close(b);
}

EMQ_TEST(an_at_most_once_job_taken_while_a_worker_is_being_paused_runs_before_its_end)
{
    struct bench *b = bench_open("q");

    b->o.o.mode = EMQ_AT_MOST_ONCE;
    emq_worker *w = paused_during_a_take(b);
    WAIT_FOR(wf_stats(w).in_hand == 1);
    CHECK_INT(b->p.started, 0);
    wf_stop(w, 0);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: null");
    bench_close(b);
}

EMQ_TEST(a_paused_worker_starts_nothing_and_running_jobs_go_on)
{
    struct bench *b = bench_open("q");

    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "running", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker_pause(w);
    wf_add(&b->f, "q", "next", "");
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "running") == EMQ_COMPLETED_STATE);
    wf_nap(100);
    CHECK_INT(wf_state(&b->f, "q", "next"), EMQ_WAITING);
    emq_worker_resume(w);
    WAIT_FOR(wf_state(&b->f, "q", "next") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(pausing_and_resuming_1000_times_loses_nothing_and_never_wedges)
{
    struct bench *b = bench_open("q");
    uint64_t seed = test_seed();

    b->o.o.concurrency = 3;
    wf_add_n(&b->f, "q", 2000, "");
    emq_worker *w = wf_start(&b->f, &b->o);
    for (int i = 0; i < 1000; i++) {
        if (test_random(&seed) % 2)
            emq_worker_pause(w);
        else
            emq_worker_resume(w);
        if (test_random(&seed) % 8 == 0)
            wf_nap(1);
    }
    emq_worker_pause(w);
    emq_worker_resume(w);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 2000);
    wf_add(&b->f, "q", "last", "");
    WAIT_FOR(wf_state(&b->f, "q", "last") == EMQ_COMPLETED_STATE);
    CHECK_INT(b->p.started, 2001);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_worker_started_paused_starts_nothing_until_it_is_resumed)
{
    struct bench *b = bench_open("q");

    b->o.o.start_paused = 1;
    wf_add(&b->f, "q", "a", "");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_saw(&b->p, "ready:"));
    wf_nap(200);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_WAITING);
    emq_worker_resume(w);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_paused_queue_starts_neither_due_nor_recovered_jobs)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "orphan", "");
    wf_orphan(&b->f, "q", 300);
    wf_add_opts(&b->f, "q", "due", "", (emq_add_opts){.delay_ms = 300});
    CHECK_STATUS(emq_pause(b->f.c, S("q"), NULL), EMQ_OK);
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_state(&b->f, "q", "orphan") == EMQ_WAITING &&
             wf_state(&b->f, "q", "due") == EMQ_WAITING);
    wf_nap(300);
    CHECK_INT(b->p.started, 0);
    CHECK_STATUS(emq_resume(b->f.c, S("q"), NULL), EMQ_OK);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 2);
    wf_stop(w, 0);
    bench_close(b);
}
