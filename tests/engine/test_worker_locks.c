/* SPDX-License-Identifier: MIT
 *
 * Locks: who keeps them alive, who is told when one is lost, and what a former owner can still do.
 */
#include "worker_fixture.h"

#include "base/str.h"

#include <sys/resource.h>
#include <unistd.h>

/* ---- a loaded host ----------------------------------------------------------------------- */

struct load {
    pthread_t threads[4];
    atomic_int over;
};

static void *load_main(void *user)
{
    struct load *l = user;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 5);
    while (!atomic_load(&l->over)) {
    }
    return NULL;
}

static void load_start(struct load *l)
{
    atomic_store(&l->over, 0);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(l->threads); i++)
        CHECK_INT(pthread_create(&l->threads[i], NULL, load_main, l), 0);
}

static void load_stop(struct load *l)
{
    atomic_store(&l->over, 1);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(l->threads); i++)
        pthread_join(l->threads[i], NULL);
}

EMQ_TEST(a_handler_that_burns_the_cpu_keeps_its_lock_on_a_loaded_host)
{
    struct bench *b = bench_open("q");
    struct load l;

    b->o.o.lock_ms = 4000; /* longer than a host may stand still as a whole */
    wf_add(&b->f, "q", "a", "burn 10000");
    emq_worker *one = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker *two = wf_start(&b->f, &b->o);
    load_start(&l);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    load_stop(&l);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    CHECK_INT(wf_stats(one).lost + wf_stats(two).lost, 0);
    CHECK_INT(wf_stats(one).recovered + wf_stats(two).recovered, 0);
    wf_stop(one, 0);
    wf_stop(two, 0);
    bench_close(b);
}

/* ---- losing it --------------------------------------------------------------------------- */

static emq_verdict done_handler(emq_job *job, void *user)
{
    (void)job;
    atomic_fetch_add(&((struct probe *)user)->started, 1);
    return EMQ_DONE;
}

EMQ_TEST(the_failure_of_a_former_owner_changes_nothing_and_is_told_once)
{
    struct bench *b = bench_open("q");
    struct probe p2;
    struct wf_opts o2;
    emq_client *c2 = wf_client(&b->f);

    probe_init(&p2);
    wf_opts(&o2, "q", &p2);
    o2.o.handler = done_handler;
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    b->o.o.lock_ms = 500;
    b->o.o.stalled_interval_ms = -1;
    wf_add(&b->f, "q", "a", "hold! fail");
    emq_worker *one = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker *two = wf_start_on(c2, &o2);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_LOCK_LOST);

    b->p.gate = 1; /* the late failure */
    WAIT_FOR(wf_stats(one).lost == 1);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: null");
    CHECK_INT(wf_stats(one).failed, 0);
    CHECK_INT(b->p.event_count[EMQ_EVENT_LOST], 1);
    CHECK_INT(b->p.event_count[EMQ_EVENT_FAILED], 0);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_stalled(j), 1);
    CHECK_INT(emq_job_attempts_made(j), 1);
    CHECK_INT(emq_job_attempts_started(j), 2);
    emq_job_free(j);
    wf_stop(two, 0);

    /* ... and it goes on with the next one. */
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    wf_add(&b->f, "q", "b", "");
    WAIT_FOR(wf_state(&b->f, "q", "b") == EMQ_COMPLETED_STATE);
    wf_stop(one, 0);
    emq_close(c2);
    probe_free(&p2);
    bench_close(b);
}

static emq_verdict late_handler(emq_job *job, void *user)
{
    struct probe *p = user;

    atomic_fetch_add(&p->started, 1);
    while (!atomic_load(&p->gate))
        wf_nap(1);
    if (emq_job_is_mine(job, NULL) == EMQ_LOST &&
        emq_job_report_progress(job, S("50"), NULL) == EMQ_LOST &&
        emq_job_log(job, S("zombie"), NULL) == EMQ_LOST &&
        emq_job_replace_data(job, S("zombie"), NULL) == EMQ_LOST)
        atomic_fetch_add(&p->ended, 1);
    return EMQ_DONE;
}

EMQ_TEST(a_former_owner_asks_and_is_told_and_can_write_nothing)
{
    struct bench *b = bench_open("q");

    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    b->o.o.lock_ms = 1500; /* begun before it ends, on a busy host too */
    b->o.o.handler = late_handler;
    b->o.o.stalled_interval_ms = -1;
    wf_add(&b->f, "q", "a", "x");
    emq_worker *one = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.started == 1);
    int64_t recovered = 0;
    WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL) == EMQ_OK && recovered == 1);
    b->p.gate = 1;
    WAIT_FOR(wf_stats(one).lost == 1);
    CHECK_INT(b->p.ended, 1);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_state(j), EMQ_WAITING);
    CHECK_STR(emq_job_data(j), "x");
    emq_job_free(j);
    wf_stop(one, 1);
    bench_close(b);
}

EMQ_TEST(a_keeper_that_is_stuck_in_the_store_does_not_keep_a_handler_from_being_told)
{
    struct bench *b = bench_open("q");

    wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1)->delay_ms = 3000;
    b->o.o.lock_ms = 400;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    int64_t before = emq__mono_now().us;
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_LOCK_LOST);
    CHECK((emq__mono_now().us - before) / 1000 < 2000);
    b->f.faults[0].delay_ms = 0;
    wf_stop(w, 1);
    bench_close(b);
}

EMQ_TEST(a_worker_that_cannot_beat_takes_nothing_new_and_recovers_by_itself)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 300;
    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    WAIT_FOR(b->p.event_count[EMQ_EVENT_ERROR] == 1);
    wf_add(&b->f, "q", "b", "");
    /* Twice the lock: the first job is lost, nothing new is begun. */
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_LOCK_LOST);
    int64_t takes = wf_stats(w).takes;
    wf_nap(600);
    CHECK_INT(wf_stats(w).takes, takes);
    CHECK_INT(probe_runs(&b->p, "b"), 0);
    CHECK_INT(b->p.event_count[EMQ_EVENT_ERROR], 1); /* said once */

    b->p.gate = 1;
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    WAIT_FOR(wf_state(&b->f, "q", "b") == EMQ_COMPLETED_STATE);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(probe_runs(&b->p, "b"), 1);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_lock_that_ended_while_nobody_could_sweep_is_renewed)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 300;
    b->o.o.stalled_interval_ms = -1;
    wf_add(&b->f, "q", "a", "hold! ");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_LOCK_LOST);
    wf_nap(300);
    struct wf_fault *extend = wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    int seen = extend->seen;
    WAIT_FOR(extend->seen >= seen + 2);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(wf_stats(w).lost, 0);
    wf_stop(w, 0);
    bench_close(b);
}

/* ---- keeping it -------------------------------------------------------------------------- */

EMQ_TEST(short_jobs_under_a_short_lock_finish_without_a_word)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 200; /* renewed every 66 ms */
    b->o.o.concurrency = 8;
    wf_add_n(&b->f, "q", 3000, "burn 1");
    wf_add(&b->f, "q", "long", "burn 500");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, 3001);
    CHECK_INT(b->p.overlaps, 0); /* one callback at a time */
    CHECK_INT(st.lost + st.errors + st.recovered + st.failed + st.retried, 0);
    CHECK_INT(b->f.log_errors + b->f.log_warnings, 0);
    bench_close(b);
}

EMQ_TEST(a_long_job_runs_once_and_a_dead_workers_job_comes_back)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 400;
    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "dead", "");
    wf_orphan(&b->f, "q", 400);
    wf_add(&b->f, "q", "long", "hold");
    int64_t before = emq__mono_now().us;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_state(&b->f, "q", "dead") == EMQ_COMPLETED_STATE);
    CHECK((emq__mono_now().us - before) / 1000 < 5 * (400 + 200));
    /* Many times the lock. */
    wf_nap(2000);
    CHECK_INT(wf_state(&b->f, "q", "long"), EMQ_ACTIVE);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "long") == EMQ_COMPLETED_STATE);
    CHECK_INT(probe_runs(&b->p, "long"), 1);
    CHECK_INT(probe_runs(&b->p, "dead"), 1);
    wf_stop(w, 0);
    bench_close(b);
}

struct sweeper {
    emq_client *c;
    atomic_int over, wrong;
    int64_t recovered, failed, sweeps;
};

static void *sweeper_main(void *user)
{
    struct sweeper *s = user;

    while (!atomic_load(&s->over)) {
        int64_t recovered = 0, failed = 0;
        if (emq_sweep(s->c, S("q"), NULL, &recovered, &failed, NULL) != EMQ_OK)
            atomic_fetch_add(&s->wrong, 1);
        s->recovered += recovered;
        s->failed += failed;
        s->sweeps++;
        wf_nap(1);
    }
    return NULL;
}

EMQ_TEST(sweeping_all_the_time_finds_nothing_while_workers_work)
{
    struct bench *b = bench_open("q");
    struct sweeper s = {.c = wf_client(&b->f)};
    pthread_t id;

    b->o.o.concurrency = 8;
    wf_add_n(&b->f, "q", 5000, "");
    CHECK_INT(pthread_create(&id, NULL, sweeper_main, &s), 0);
    emq_worker_stats st = work_off(b);
    atomic_store(&s.over, 1);
    pthread_join(id, NULL);
    CHECK_INT(st.completed, 5000);
    CHECK_INT(st.failed + st.lost + st.recovered, 0);
    CHECK_INT(s.wrong, 0);
    CHECK_INT(s.recovered + s.failed, 0);
    CHECK(s.sweeps > 10);
    emq_close(s.c);
    bench_close(b);
}

EMQ_TEST(jobs_in_hand_that_have_not_begun_keep_their_locks_too)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 900;
    b->o.o.prefetch = 16;
    wf_add_n(&b->f, "q", 300, "");
    for (int i = 0; i < 12; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "slow%d", i);
        wf_add(&b->f, "q", id, "burn 300");
    }
    emq_worker *one = wf_start(&b->f, &b->o);
    struct wf_opts o2 = b->o;
    emq_client *c2 = wf_client(&b->f);
    o2.o.queues = o2.p;
    WAIT_FOR(wf_stats(one).completed >= 250);
    emq_worker *two = wf_start_on(c2, &o2);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 312);
    CHECK_INT(b->p.started, 312);
    CHECK_INT(wf_stats(one).lost + wf_stats(two).lost, 0);
    CHECK_INT(wf_stats(one).recovered + wf_stats(two).recovered, 0);
    wf_stop(one, 0);
    wf_stop(two, 0);
    emq_close(c2);
    bench_close(b);
}

EMQ_TEST(an_at_most_once_job_whose_worker_died_fails_without_running_again)
{
    struct bench *b = bench_open("q");
    emq_take_opts o = {
        .size = sizeof o, .worker = S("dead"), .lock_ms = 300, .mode = EMQ_AT_MOST_ONCE};
    emq_job *j = NULL;

    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS(emq_take(b->f.c, S("q"), &o, &j, NULL), EMQ_OK);
    emq_job_free(j);
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: " EMQ__TEXT_AT_MOST_ONCE);
    CHECK_INT(probe_runs(&b->p, "a"), 0);
    bench_close(b);
}
