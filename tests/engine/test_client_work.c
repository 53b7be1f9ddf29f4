/* SPDX-License-Identifier: MIT
 *
 * Working by hand: take, extend, settle with the job's own policy, and writes by owner and by
 * admin.
 */
#include "client_fixture.h"

#include "base/str.h"

EMQ_TEST(the_options_of_a_job_are_parsed_once)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .attempts = 7, .timeout_ms = 1500};

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    CHECK_INT(emq_job_attempts(job), 7);
    job->rec.opts = S("{}"); /* is not looked at again */
    CHECK_INT(emq_job_attempts(job), 7);
    CHECK_INT(emq_job_timeout_ms(job), 1500);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_taken_job_is_settled_with_its_token_and_only_once)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STR(emq_job_id(job), "a");
    CHECK(emq_job_token(job).len > 0 && emq_job_fence(job) > 0);
    CHECK_INT(emq_job_state(job), EMQ_ACTIVE);
    CHECK_INT(emq_job_attempts_started(job), 1);
    CHECK_INT(emq_job_lock_until_ms(job) - emq_job_processed_at_ms(job), 30000);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "{\"n\":1}", 0), EMQ_OK);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "late", 0), EMQ_LOST);
    emq_job *done = get(&f, "a");
    CHECK_INT(emq_job_state(done), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_result(done), "{\"n\":1}");
    CHECK_STR(emq_job_token(done), "");
    CHECK_INT(emq_job_attempts_made(done), 1);
    CHECK_INT(emq_job_lock_until_ms(done), 0);
    CHECK_STR_EQ(emq_job_idempotency_key(done), emq_job_idempotency_key(job));
    emq_job_free(done);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(default_worker_names_differ_from_take_to_take)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    add_id(&f, "b");
    emq_job *a = take_one(&f), *b = take_one(&f);
    CHECK(!emq__str_eq(emq_job_processed_by(a), emq_job_processed_by(b)));
    emq_job_free(a);
    emq_job_free(b);
    fixture_close(&f);
}

EMQ_TEST(a_result_that_is_not_given_is_null)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED};
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &o, NULL), EMQ_OK);
    emq_job_free(job);
    job = get(&f, "a");
    CHECK_STR(emq_job_result(job), "null");
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_failed_attempt_comes_back_after_its_backoff_until_none_is_left)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o,
                      .id = S("a"),
                      .attempts = 2,
                      .backoff_type = EMQ_BACKOFF_FIXED,
                      .backoff_ms = 1000};

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "first", -1), EMQ_OK);
    emq_job_free(job);
    CHECK_INT(count_of_state(&f, EMQ_DELAYED), 1);
    CHECK_STATUS(emq_take(f.c, Q, NULL, &job, NULL), EMQ_EMPTY);
    fixture_advance(&f, 1001);
    job = take_one(&f);
    CHECK_INT(emq_job_attempts_made(job), 1);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "second", -1), EMQ_OK);
    emq_job_free(job);
    job = get(&f, "a");
    CHECK_INT(emq_job_state(job), EMQ_FAILED_STATE);
    CHECK_STR(emq_job_failed_reason(job), "second");
    CHECK_INT(emq_job_attempts_made(job), 2);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_retry_with_a_delay_of_its_own_does_not_ask_the_policy)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .id = S("a"), .attempts = 1};

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "again", 0), EMQ_OK);
    emq_job_free(job);
    job = take_one(&f);
    CHECK_INT(emq_job_attempts_made(job), 1);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "again", 60000), EMQ_OK);
    emq_job_free(job);
    CHECK_INT(count_of_state(&f, EMQ_DELAYED), 1);
    fixture_close(&f);
}

EMQ_TEST(a_job_given_back_is_not_charged)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RELEASE, NULL, 0), EMQ_OK);
    emq_job_free(job);
    job = get(&f, "a");
    CHECK_INT(emq_job_state(job), EMQ_WAITING);
    CHECK_INT(emq_job_attempts_made(job), 0);
    CHECK_INT(emq_job_attempts_started(job), 0);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(an_at_most_once_job_never_goes_back)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .mode = EMQ_AT_MOST_ONCE};
    emq_job *job;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_OK);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RELEASE, NULL, 0), EMQ_WRONG_STATE);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "x", 0), EMQ_WRONG_STATE);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "x", -1), EMQ_OK);
    emq_job_free(job);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 1);
    fixture_close(&f);
}

EMQ_TEST(an_administrator_settles_by_force_and_the_owner_is_refused_afterwards)
{
    struct fixture f;
    emq_settle_opts o = {
        .size = sizeof o, .kind = EMQ_SETTLE_FAILED, .force = 1, .value = S("enough")};

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), NONE, &o, NULL), EMQ_OK);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_LOST);
    CHECK_STATUS(emq_settle(f.c, Q, S("nobody"), NONE, &o, NULL), EMQ_NOT_FOUND);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(settle_tells_the_state_after_it)
{
    struct fixture f;
    int32_t state = -1;
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_RETRY, .out_state = &state};

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), S("other:1"), &o, NULL), EMQ_LOST);
    CHECK_INT(state, -1);
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &o, NULL), EMQ_OK);
    CHECK_INT(state, EMQ_WAITING);
    emq_job_free(job);
    job = take_one(&f);
    CHECK_STATUS(emq_cancel(f.c, Q, S("a"), NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &o, NULL), EMQ_OK);
    CHECK_INT(state, EMQ_FAILED_STATE);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(settle_refuses_what_it_cannot_mean)
{
    struct fixture f;
    emq_error err = {0};
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED};

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), NONE, &o, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "token"));
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), S("t:1"), NULL, &err), EMQ_E_INVALID);
    o.kind = 0;
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), S("t:1"), &o, &err), EMQ_E_INVALID);
    o.kind = EMQ_SETTLE_RELEASE;
    o.delay_ms = -1;
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), S("t:1"), &o, &err), EMQ_E_INVALID);
    char *big = calloc(1, EMQ_RESULT_MAX + 1);
    assert_non_null(big);
    o = (emq_settle_opts){
        .size = sizeof o, .kind = EMQ_SETTLE_COMPLETED, .value = {big, EMQ_RESULT_MAX + 1}};
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), S("t:1"), &o, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "1048577"));
    free(big);
    fixture_close(&f);
}

EMQ_TEST(failure_texts_are_cleaned_and_cut)
{
    struct fixture f;
    char text[20000];

    fixture_open(&f);
    add_id(&f, "a");
    memset(text, 'x', sizeof text);
    text[0] = '\x1b';
    text[sizeof text - 1] = '\0';
    emq_job *job = take_one(&f);
    emq_settle_opts o = {
        .size = sizeof o, .kind = EMQ_SETTLE_FAILED, .value = S(text), .stack = S("at main()")};
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &o, NULL), EMQ_OK);
    emq_job_free(job);
    job = get(&f, "a");
    CHECK_INT(emq_job_failed_reason(job).ptr[0], '?');
    CHECK(emq_job_failed_reason(job).len <= 16 * 1024 + 8);
    CHECK_STR(emq_job_stacktrace_json(job), "[\"at main()\"]");
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_renewed_lock_lasts_and_a_lost_one_says_so)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .lock_ms = 1000};
    emq_job *job;
    int64_t recovered = -1, failed = -1;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_OK);
    fixture_advance(&f, 900);
    CHECK_STATUS(emq_extend(f.c, Q, S("a"), emq_job_token(job), 1000, NULL), EMQ_OK);
    fixture_advance(&f, 900);
    CHECK_STATUS(emq_sweep(f.c, Q, NULL, &recovered, &failed, NULL), EMQ_OK);
    CHECK_INT(recovered, 0);
    fixture_advance(&f, 200);
    CHECK_STATUS(emq_sweep(f.c, Q, NULL, &recovered, &failed, NULL), EMQ_OK);
    CHECK_INT(recovered, 1);
    CHECK_INT(failed, 0);
    CHECK_STATUS(emq_extend(f.c, Q, S("a"), emq_job_token(job), 1000, NULL), EMQ_LOST);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_LOST);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_sweep_that_allows_no_recovery_fails_the_job)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .lock_ms = 1000};
    emq_sweep_opts none = {.size = sizeof none, .max_stalled = -1};
    emq_job *job;
    int64_t failed = 0;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_OK);
    emq_job_free(job);
    fixture_advance(&f, 1001);
    CHECK_STATUS(emq_sweep(f.c, Q, &none, NULL, &failed, NULL), EMQ_OK);
    CHECK_INT(failed, 1);
    job = get(&f, "a");
    CHECK_INT(emq_job_state(job), EMQ_FAILED_STATE);
    CHECK_INT(emq_job_stalled(job), 1);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(an_owner_writes_progress_data_and_logs_until_its_lock_is_lost)
{
    struct fixture f;
    emq_error err = {0};
    emq_list *logs;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_str token = emq_job_token(job);
    CHECK_STATUS(emq_set_progress(f.c, Q, S("a"), token, S("{\"pct\":40}"), NULL), EMQ_OK);
    CHECK_STATUS(emq_set_progress(f.c, Q, S("a"), token, S("40%"), &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "JSON"));
    CHECK_STATUS(emq_set_data(f.c, Q, S("a"), token, S("[2]"), NULL), EMQ_OK);
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), token, S("one\x01"), NULL), EMQ_OK);
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), NONE, S("two"), NULL), EMQ_OK);
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), S("other:1"), S("three"), NULL), EMQ_LOST);
    CHECK_STATUS(emq_set_data(f.c, Q, S("a"), S("other:1"), S("[3]"), NULL), EMQ_LOST);
    CHECK_STATUS(emq_set_data(f.c, Q, S("b"), NONE, S("[3]"), NULL), EMQ_NOT_FOUND);
    emq_job *now = get(&f, "a");
    CHECK_STR(emq_job_progress_json(now), "{\"pct\":40}");
    CHECK_STR(emq_job_data(now), "[2]");
    emq_job_free(now);
    CHECK_STATUS(emq_logs(f.c, Q, S("a"), 0, 0, &logs, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(logs), 2);
    CHECK_STR(emq_list_str(logs, 0), "one?");
    CHECK_STR(emq_list_str(logs, 1), "two");
    CHECK_STR(emq_list_str(logs, 2), "");
    CHECK(emq_list_job(logs, 0) == NULL);
    emq_list_free(logs);
    CHECK_STATUS(emq_clear_logs(f.c, Q, S("a"), 1, NULL), EMQ_OK);
    CHECK_STATUS(emq_logs(f.c, Q, S("a"), 0, 0, &logs, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(logs), 1);
    emq_list_free(logs);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_log_line_beyond_the_limit_is_cut_and_marked)
{
    struct fixture f;
    emq_list *logs;
    size_t n = EMQ_LOG_LINE_MAX + 1;
    char *line = malloc(n);

    assert_non_null(line);
    memset(line, 'x', n);
    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), NONE, emq_strn(line, n - 1), NULL), EMQ_OK);
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), NONE, emq_strn(line, n), NULL), EMQ_OK);
    CHECK_STATUS(emq_logs(f.c, Q, S("a"), 0, 0, &logs, NULL), EMQ_OK);
    CHECK_INT(emq_list_str(logs, 0).len, EMQ_LOG_LINE_MAX);
    CHECK(emq_list_str(logs, 1).len <= EMQ_LOG_LINE_MAX);
    CHECK(strstr(emq_list_str(logs, 1).ptr, "[cut]"));
    emq_list_free(logs);
    free(line);
    fixture_close(&f);
}

EMQ_TEST(fire_and_forget_leaves_nothing_to_settle)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .mode = EMQ_FIRE_AND_FORGET};
    emq_job *job, *gone;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_OK);
    CHECK_STR(emq_job_data(job), "{}");
    emq_job_free(job);
    CHECK_STATUS(emq_get(f.c, Q, S("a"), &gone, NULL), EMQ_NOT_FOUND);
    fixture_close(&f);
}
