/* SPDX-License-Identifier: MIT
 *
 * Delays, wake-ups that got lost, duties that must survive an error, budgets of attempts.
 */
#include "crash/herd.h"
#include "field.h"
#include "shell.h"

#include "base/str.h"
#include "model/job.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>

static int64_t now_ms(void)
{
    return emq__mono_now().us / 1000;
}

static int64_t cpu_ms(void)
{
    struct timespec t;

    CHECK_INT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- long delays ------------------------------------------------------------------------- */

EMQ_TEST(delays_of_30_days_400_days_and_100_years_stay_and_the_idle_worker_sleeps)
{
    static const int64_t DAY = 86400000;
    const int64_t delays[] = {30 * DAY, 400 * DAY, 36500 * DAY};
    enum { IDLE_MS = 2000 };
    struct bench *b = bench_open("q");
    emq_add_opts beyond = {.size = sizeof beyond, .delay_ms = INT64_MAX};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(delays); i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "d%zu", i);
        wf_add_opts(&b->f, "q", id, "done", (emq_add_opts){.delay_ms = delays[i]});
        emq_job *j = wf_get(&b->f, "q", id);
        CHECK_INT(emq_job_due_at_ms(j) - emq_job_timestamp_at_ms(j), delays[i]);
        emq_job_free(j);
    }
    CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &beyond, NULL, NULL), EMQ_E_INVALID);
    b->o.o.stalled_interval_ms = 0; /* as delivered */
    b->o.o.concurrency = 4;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_saw(&b->p, "ready:"));
    int64_t before = cpu_ms(), takes = wf_stats(w).takes;
    wf_nap(IDLE_MS); /* an absence is measured over a while */
    int64_t used = cpu_ms() - before;
    if (used > IDLE_MS / 20) /* a timer that overflowed uses all of it */
        fail_msg("an idle worker used %lld ms of CPU in %d ms", (long long)used, IDLE_MS);
    CHECK(wf_stats(w).takes - takes < 20);
    CHECK_INT(b->p.started, 0);
    CHECK_INT(wf_count(&b->f, "q", EMQ_DELAYED), 3);
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- lost wake-ups ----------------------------------------------------------------------- */

SQLITE_TEST(an_idle_worker_whose_bell_was_lost_still_finds_jobs_within_seconds)
{
    struct herd h;

    herd_open(&h, "off");
    herd_add(&h, "first", 0);
    pid_t pid = herd_start(&h, NULL, "interval=60000");
    HERD_WAIT_FOR(herd_count(&h, 'E', "first", 0) == 1);
    field_lose_bells(h.url);
    emq_close(h.c);
    FIELD_OK(emq_open(&h.c, S(h.url), NULL, err)); /* rings where nobody listens */
    int64_t before = now_ms();
    herd_add(&h, "now", 0);
    herd_add(&h, "later", 700);
    HERD_WAIT_FOR(herd_count(&h, 'E', "now", 0) == 1 && herd_count(&h, 'E', "later", 0) == 1);
    if (now_ms() - before > 5 * (1000 + 700))
        fail_msg("it took %lld ms", (long long)(now_ms() - before));
    HERD_WAIT_FOR(herd_state(&h, EMQ_COMPLETED_STATE) == 3);
    CHECK_INT(kill(pid, SIGTERM), 0);
    CHECK_INT(herd_wait(pid), 0);
    field_audit(h.c, "q");
    herd_close(&h);
}

/* ---- duties survive errors --------------------------------------------------------------- */

EMQ_TEST(one_failed_act_of_each_duty_ends_none_of_them)
{
    static const char *const duties[] = {"take", "promote", "sweep", "extend", "settle"};
    struct bench *b = bench_open("q");
    struct wf_fault *fault[EMQ_ARRAY_LEN(duties)];

    b->o.o.lock_ms = 3000;
    b->o.o.stalled_interval_ms = 100;
    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "orphan", "done");
    wf_orphan(&b->f, "q", 400);
    wf_add(&b->f, "q", "held", "hold!");
    wf_add_opts(&b->f, "q", "due", "done", (emq_add_opts){.delay_ms = 400});
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(duties); i++)
        fault[i] = wf_fault(&b->f, duties[i], EMQ__FAULT_UNAVAIL, 2);
    WAIT_FOR(wf_state(&b->f, "q", "due") == EMQ_COMPLETED_STATE);
    WAIT_FOR(wf_state(&b->f, "q", "orphan") == EMQ_COMPLETED_STATE);
    WAIT_FOR(fault[3]->seen >= 3); /* renewals go on */
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "held") == EMQ_COMPLETED_STATE);
    CHECK(fault[2]->seen >= 3);
    wf_stop(w, 0);
    CHECK_INT(probe_runs(&b->p, "held"), 1);
    CHECK_INT(probe_runs(&b->p, "due"), 1);
    field_audit(b->f.c, "q");
    bench_close(b);
}

SQLITE_TEST(a_file_that_a_foreign_program_holds_delays_work_and_loses_nothing)
{
    enum { HELD_MS = 2000 };
    struct bench *b = bench_open("q");
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 300};
    emq_client *c = NULL;

    FIELD_OK(emq_open(&c, S(b->f.url), &o, err));
    b->o.o.lock_ms = 1500;
    b->o.o.stalled_interval_ms = 100;
    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "held", "hold!");
    wf_add_opts(&b->f, "q", "due", "done", (emq_add_opts){.delay_ms = HELD_MS / 2});
    emq_worker *w = wf_start_on(c, &b->o);
    WAIT_FOR(b->p.running == 1);
    sqlite3 *db = field_shell(b->f.url);
    CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    emq_error e = {0};
    CHECK_STATUS(emq_add(c, S("q"), NONE, NULL, NULL, &e), EMQ_E_BUSY);
    CHECK_INT(e.cls, EMQ_CLASS_RETRY_SAFE);
    wf_nap(HELD_MS); /* longer than the lock and than a call may wait */
    CHECK_INT(b->p.started, 1);
    CHECK_INT(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    WAIT_FOR(wf_state(&b->f, "q", "due") == EMQ_COMPLETED_STATE);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "held") == EMQ_COMPLETED_STATE);
    CHECK_INT(probe_runs(&b->p, "held"), 1); /* renewed before anybody swept */
    wf_stop(w, 0);
    emq_close(c);
    field_audit(b->f.c, "q");
    CHECK_INT(field_stats(b->f.c, "q").total_added, 2);
    bench_close(b);
}

/* ---- budgets ----------------------------------------------------------------------------- */

EMQ_TEST(a_manual_retry_gives_one_run_more_and_with_reset_the_whole_budget)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "reason broken retry",
                (emq_add_opts){.attempts = 3, .backoff_type = EMQ_BACKOFF_FIXED, .backoff_ms = 20});
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 3);
    FIELD_OK(emq_retry(b->f.c, S("q"), S("a"), 0, err));
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 4);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: broken");
    FIELD_OK(emq_retry(b->f.c, S("q"), S("a"), EMQ_RETRY_RESET_ATTEMPTS, err));
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 7);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_attempts_made(j), 3);
    CHECK(emq_job_stacktrace_json(j).len > 20); /* of the earlier attempts too */
    emq_job_free(j);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_job_that_died_and_is_not_kept_tells_its_end_in_the_events)
{
    struct bench *b = bench_open("q");
    emq_sweep_opts o = {.size = sizeof o, .max_stalled = -1};
    emq_list *l = NULL;
    int64_t failed = 0;
    int told = 0;

    wf_add_opts(&b->f, "q", "a", "",
                (emq_add_opts){.name = S("mail"), .keep_failed_count = EMQ_KEEP_NONE});
    wf_orphan(&b->f, "q", 200);
    WAIT_FOR(emq_sweep(b->f.c, S("q"), &o, NULL, &failed, NULL) == EMQ_OK && failed == 1);
    CHECK_INT(wf_state(&b->f, "q", "a"), 0);
    FIELD_OK(emq_events(b->f.c, S("q"), NONE, 0, 0, &l, NULL, err));
    for (size_t i = 0; i < emq_list_len(l); i++) {
        char text[500];
        (void)snprintf(text, sizeof text, "%.*s", EMQ_STR_ARG(emq_list_str(l, i)));
        told += strstr(text, "\"event\":\"failed\"") && strstr(text, "\"jobId\":\"a\"") &&
                strstr(text, "\"failedReason\":\"" EMQ__TEXT_STALLED "\"");
    }
    CHECK_INT(told, 1);
    emq_list_free(l);
    field_audit(b->f.c, "q");
    bench_close(b);
}
