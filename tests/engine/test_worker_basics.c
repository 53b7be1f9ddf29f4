/* SPDX-License-Identifier: MIT
 *
 * What a worker does with the verdicts of its handlers.
 */
#include "worker_fixture.h"

#include "base/str.h"

#include <stdio.h>
#include <unistd.h>

EMQ_TEST(a_job_is_run_once_and_completed_with_its_result)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "result {\"n\":1}");
    wf_add(&b->f, "q", "b", "");
    emq_worker_stats st = work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: {\"n\":1}");
    assert_string_equal(wf_end(&b->f, "q", "b"), "completed: null");
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    CHECK_INT(st.started, 2);
    CHECK_INT(st.completed, 2);
    CHECK_INT(st.failed + st.retried + st.given_back + st.lost + st.errors, 0);
    CHECK_INT(st.ended, 1);
    CHECK(probe_saw(&b->p, "ready:"));
    CHECK(probe_saw(&b->p, "started:a"));
    CHECK(probe_saw(&b->p, "completed:a"));
    CHECK(probe_saw(&b->p, "finished:"));
    bench_close(b);
}

EMQ_TEST(a_job_added_while_the_worker_is_idle_is_run)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);

    WAIT_FOR(wf_stats(w).takes > 0);
    wf_add(&b->f, "q", "a", "");
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_handler_that_fails_for_good_ends_the_job_with_its_reason)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "reason no-such-user fail");
    wf_add(&b->f, "q", "b", "fail");
    emq_worker_stats st = work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: no-such-user");
    CHECK_INT(wf_state(&b->f, "q", "b"), EMQ_FAILED_STATE);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_attempts_made(j), 1);
    CHECK_STR(emq_job_stacktrace_json(j), "[\"at line 1\"]");
    emq_job_free(j);
    CHECK_INT(st.failed, 2);
    bench_close(b);
}

/* Twice: alone, and with other jobs around so that every settlement also takes the next. */
static void retries_are_counted(int others)
{
    struct bench *b = bench_open("q");
    emq_add_opts o = {.attempts = 3, .backoff_type = EMQ_BACKOFF_FIXED, .backoff_ms = 200};

    wf_add_opts(&b->f, "q", "a", "retry reason broken", o);
    wf_add_n(&b->f, "q", others, "");
    int64_t before = emq__mono_now().us;
    emq_worker_stats st = work_off(b);
    int64_t ms = (emq__mono_now().us - before) / 1000;

    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: broken");
    CHECK_INT(probe_runs(&b->p, "a"), 3);
    CHECK_INT(st.retried, 2);
    CHECK_INT(st.failed, 1);
    CHECK_INT(st.completed, others);
    CHECK(ms >= 400);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_attempts_made(j), 3);
    CHECK_INT(emq_job_attempts_started(j), 3);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(a_failing_job_runs_exactly_as_often_as_it_has_attempts)
{
    retries_are_counted(0);
}

EMQ_TEST(a_failing_job_among_many_runs_exactly_as_often_as_it_has_attempts)
{
    retries_are_counted(1000);
}

EMQ_TEST(a_job_given_back_is_not_charged_and_comes_again_after_its_delay)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "back after 150", (emq_add_opts){.attempts = 1});
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_runs(&b->p, "a") >= 3);
    wf_stop(w, 0);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_attempts_made(j), 0);
    CHECK_INT(emq_job_attempts_started(j), 0);
    CHECK_INT(emq_job_stalled(j), 0);
    CHECK_INT(emq_job_state(j), EMQ_DELAYED);
    emq_job_free(j);
    CHECK_INT(b->p.event_count[EMQ_EVENT_FAILED] + b->p.event_count[EMQ_EVENT_RETRIED], 0);
    bench_close(b);
}

EMQ_TEST(a_job_that_is_given_back_for_ever_fails_after_100_hand_outs)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "back after 0");
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 100);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_FAILED_STATE);
    bench_close(b);
}

EMQ_TEST(a_handler_reports_progress_logs_and_data_as_the_owner)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "mine tell 40 log first log second data {\"x\":2}");
    (void)work_off(b);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_progress_json(j), "40");
    CHECK_STR(emq_job_data(j), "{\"x\":2}");
    emq_job_free(j);
    emq_list *l = NULL;
    CHECK_STATUS(emq_logs(b->f.c, S("q"), S("a"), 0, 0, &l, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(l), 2);
    CHECK_STR(emq_list_str(l, 1), "second");
    emq_list_free(l);
    bench_close(b);
}

EMQ_TEST(a_job_past_its_time_limit_is_told_and_retried)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "hold retry", (emq_add_opts){.attempts = 1, .timeout_ms = 150});
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: timed out after 150ms");
    CHECK_INT(b->p.cancel_seen, EMQ_CANCEL_TIMEOUT);

    b->o.o.timeout_ms = 100; /* the worker's own, for jobs without one */
    wf_add_opts(&b->f, "q", "b", "hold retry",
                (emq_add_opts){.attempts = 2, .backoff_type = EMQ_BACKOFF_NONE});
    emq_worker_stats st = work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "b"), "failed: timed out after 100ms");
    CHECK_INT(st.retried, 1);
    bench_close(b);
}

EMQ_TEST(a_handler_that_finishes_although_told_to_stop_is_believed)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "hold", (emq_add_opts){.timeout_ms = 100});
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: null");
    bench_close(b);
}

EMQ_TEST(a_cancelled_job_is_told_and_ends_failed)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);

    wf_add(&b->f, "q", "a", "hold retry");
    WAIT_FOR(b->p.running == 1);
    CHECK_STATUS(emq_cancel(b->f.c, S("q"), S("a"), NULL, NULL), EMQ_OK);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_FAILED_STATE);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: cancelled");
    CHECK_INT(b->p.cancel_seen, EMQ_CANCEL_USER);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(an_at_most_once_job_never_goes_back)
{
    struct bench *b = bench_open("q");

    b->o.o.mode = EMQ_AT_MOST_ONCE;
    wf_add(&b->f, "q", "a", "retry reason broken");
    wf_add(&b->f, "q", "b", "back");
    wf_add(&b->f, "q", "c", "");
    emq_worker_stats st = work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: at-most-once: not run again: broken");
    assert_string_equal(wf_end(&b->f, "q", "b"),
                        "failed: at-most-once: not run again: the handler gave it back");
    assert_string_equal(wf_end(&b->f, "q", "c"), "completed: null");
    CHECK_INT(st.failed, 2);
    CHECK_INT(b->p.started, 3);
    bench_close(b);
}

EMQ_TEST(a_fire_and_forget_job_is_gone_with_the_take_and_nothing_is_settled)
{
    struct bench *b = bench_open("q");

    b->o.o.mode = EMQ_FIRE_AND_FORGET;
    struct wf_fault *settle = wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);
    struct wf_fault *extend = wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    emq_worker *w = wf_start(&b->f, &b->o);
    wf_add(&b->f, "q", "a", "hold retry");
    WAIT_FOR(b->p.running == 1);
    CHECK_INT(wf_state(&b->f, "q", "a"), 0);
    b->p.gate = 1;
    WAIT_FOR(wf_stats(w).failed == 1);
    wf_add(&b->f, "q", "b", "");
    WAIT_FOR(wf_stats(w).completed == 1);
    wf_stop(w, 0);
    CHECK_INT(settle->seen + extend->seen, 0);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    bench_close(b);
}

EMQ_TEST(a_worker_ends_after_max_jobs_and_takes_no_more)
{
    struct bench *b = bench_open("q");

    wf_add_n(&b->f, "q", 20, "");
    b->o.o.max_jobs = 7;
    b->o.o.concurrency = 4;
    wf_finish(wf_start(&b->f, &b->o));
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), 7);
    CHECK_INT(wf_count(&b->f, "q", EMQ_WAITING), 13);
    bench_close(b);
}

EMQ_TEST(no_more_handlers_run_at_once_than_the_concurrency_says)
{
    struct bench *b = bench_open("q");

    wf_add_n(&b->f, "q", 40, "burn 5");
    b->o.o.concurrency = 3;
    (void)work_off(b);
    CHECK_INT(b->p.started, 40);
    CHECK(b->p.peak <= 3);
    bench_close(b);
}

EMQ_TEST(a_worker_takes_no_more_jobs_than_it_has_free_places)
{
    struct bench *b = bench_open("q");
    emq_worker *w;

    b->o.o.concurrency = 3;
    wf_add_n(&b->f, "q", 10, "hold");
    w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 3);
    CHECK_INT(wf_count(&b->f, "q", EMQ_ACTIVE), 3);
    CHECK_INT(wf_stats(w).in_hand, 0);
    b->p.gate = 1;
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 10);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(exit_when_empty_waits_for_retries_but_not_for_other_delayed_jobs)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "later", "", (emq_add_opts){.delay_ms = 3600 * 1000});
    wf_add_opts(
        &b->f, "q", "a", "retry",
        (emq_add_opts){.attempts = 2, .backoff_type = EMQ_BACKOFF_FIXED, .backoff_ms = 300});
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 2);
    CHECK_INT(wf_state(&b->f, "q", "later"), EMQ_DELAYED);
    bench_close(b);
}

EMQ_TEST(exit_when_empty_ends_at_a_paused_queue)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS(emq_pause(b->f.c, S("q"), NULL), EMQ_OK);
    (void)work_off(b);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_WAITING);
    bench_close(b);
}

EMQ_TEST(exit_when_empty_stays_for_a_job_that_somebody_else_holds_and_recovers_it)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    wf_orphan(&b->f, "q", 600);
    emq_worker_stats st = work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    CHECK_INT(st.recovered, 1);
    CHECK(probe_saw(&b->p, "recovered:a"));
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_stalled(j), 1);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(a_dump_tells_what_each_slot_does)
{
    struct bench *b = bench_open("q");
    char text[4000] = "";
    FILE *out = tmpfile();

    CHECK(out != NULL);
    wf_add(&b->f, "q", "the-job", "hold!");
    b->o.o.name = S("tester");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker_stop(w, 1);
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_SHUTDOWN);
    emq_worker_dump(w, fileno(out));
    rewind(out);
    CHECK(fread(text, 1, sizeof text - 1, out) > 0);
    fclose(out);
    CHECK(strstr(text, "worker tester: stopping now") != NULL);
    CHECK(strstr(text, "job the-job") != NULL);
    CHECK(strstr(text, "told: shutdown") != NULL);
    CHECK(strstr(text, "can't be killed") != NULL);
    b->p.gate = 1;
    wf_finish(w);
    bench_close(b);
}

EMQ_TEST(a_worker_without_a_name_is_host_pid_and_number)
{
    struct bench *b = bench_open("q");
    char pid[40];

    wf_add(&b->f, "q", "a", "");
    (void)work_off(b);
    emq_job *j = wf_get(&b->f, "q", "a");
    (void)snprintf(pid, sizeof pid, ":%ld:1", (long)getpid());
    emq_str by = emq_job_processed_by(j);
    CHECK(by.len > strlen(pid));
    CHECK_STR(emq_strn(by.ptr + by.len - strlen(pid), strlen(pid)), pid);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(options_out_of_their_range_are_refused_with_the_range)
{
    struct bench *b = bench_open("q");
    emq_worker *w = NULL;
    emq_error err = {0};
    emq_worker_opts good = b->o.o;

#define REFUSED(change, words)                                               \
    do {                                                                     \
        emq_worker_opts o = good;                                            \
        change;                                                              \
        CHECK_STATUS(emq_worker_start(&w, b->f.c, &o, &err), EMQ_E_INVALID); \
        if (!strstr(err.text, words))                                        \
            fail_msg("\"%s\" is not in: %s", words, err.text);               \
    } while (0)
    REFUSED(o.lock_ms = 199, "200 to");
    REFUSED(o.concurrency = 4097, "4096");
    REFUSED(o.concurrency = -2, "-1");
    REFUSED(o.prefetch = 65, "64");
    REFUSED(o.mode = 3, "0 to 2");
    REFUSED(o.grace_ms = -1, "grace_ms");
    REFUSED(o.n_queues = 0, "n_queues");
    REFUSED(o.handler = NULL, "give one");
    REFUSED(o.name = S("two words"), "space");
    REFUSED(o.stream = 1, "argv");
    REFUSED(o.size = 3, "size");
#undef REFUSED
    wf_opts(&b->o, "q q", &b->p);
    CHECK_STATUS(emq_worker_start(&w, b->f.c, &b->o.o, &err), EMQ_E_INVALID);
    wf_opts(&b->o, "q=2 r", &b->p);
    CHECK_STATUS(emq_worker_start(&w, b->f.c, &b->o.o, &err), EMQ_E_INVALID);
    CHECK(w == NULL);
    bench_close(b);
}

EMQ_TEST(a_job_that_is_not_lent_is_told_apart)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_STATUS(emq_job_is_mine(j, NULL), EMQ_E_INVALID);
    CHECK_STATUS(emq_job_set_result(j, S("1"), NULL), EMQ_E_INVALID);
    CHECK_INT(emq_job_cancelled(j), EMQ_GO_ON);
    emq_job_set_retry_after(j, 5);
    emq_job_free(j);
    bench_close(b);
}
