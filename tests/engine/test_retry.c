/* SPDX-License-Identifier: MIT
 *
 * Attempts: what a retry, a release and a manual retry charge, and where the job goes.
 */
#include "lib/engine_fixture.h"

ENGINE_TEST(a_retried_job_goes_to_the_end_of_its_line)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 0);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 3 1");
}

ENGINE_TEST(a_lifo_retry_goes_to_the_front_of_its_line)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    en.lifo = true;
    settle(t, j, en);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3");
}

ENGINE_TEST(a_retry_charges_one_attempt_and_keeps_the_reason)
{
    must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 0);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->attempts_made, 1);
    CHECK_INT(j->attempts_started, 1);
    CHECK_STR(j->failed_reason, "again");
    CHECK_INT(j->finished_at_ms, 0);
    CHECK_INT(stats(t, "q").totals.retried, 1);
    CHECK_INT(stats(t, "q").totals.failed, 0);
}

ENGINE_TEST(a_retry_with_backoff_is_delayed_and_comes_back_when_due)
{
    must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 10000);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->state, EMQ_DELAYED);
    CHECK_INT(j->delay_ms, 10000);
    CHECK_INT(stats(t, "q").retry_delayed, 1);
    assert_null(take_one(t, "q"));
    advance(t, 10000);
    j = must_take(t, "q");
    CHECK_INT(j->attempts_started, 2);
    CHECK_INT(j->delay_ms, 0);
    CHECK_INT(stats(t, "q").retry_delayed, 0);
}

ENGINE_TEST(a_job_that_always_fails_runs_as_often_as_it_was_settled)
{
    must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 200);
    advance(t, 1000);
    retry_ok(t, must_take(t, "q"), 200);
    advance(t, 1000);
    fail_ok(t, must_take(t, "q"), "third");
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->attempts_made, 3);
    CHECK_INT(j->attempts_started, 3);
    CHECK_INT(j->state, EMQ_FAILED_STATE);
    advance(t, 100000);
    assert_null(take_one(t, "q"));
}

ENGINE_TEST(attempts_are_counted_the_same_when_the_next_job_is_taken_in_the_act)
{
    struct emq__job *j;

    for (int i = 0; i < 20; i++)
        must_add(t, "q", "x");
    j = must_take(t, "q");
    for (int run = 0; run < 3; run++) {
        struct emq__settle_entry en =
            fx_settle(j, run < 2 ? EMQ__SETTLE_RETRY : EMQ__SETTLE_FAILED);
        const struct emq__settle_entry *list[] = {&en};
        struct emq__take next = fx_take(1);
        struct emq__settle_req req = {
            .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1, .next = &next};
        struct emq__settle_res res;
        en.lifo = true; /* so that it is the next one again */
        CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
        CHECK_INT(res.taken.n, 1);
        j = res.taken.jobs[0];
    }
    CHECK_STR(j->id, "2");
    CHECK_INT(must_get(t, "q", S("1"))->attempts_made, 3);
}

ENGINE_TEST(a_released_job_is_charged_nothing_and_goes_to_the_front)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    release_ok(t, must_take(t, "q"), 0);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 0);
    CHECK_INT(j->stalled, 0);
    CHECK_INT(stats(t, "q").totals.retried, 0);
}

ENGINE_TEST(a_job_may_be_given_back_with_a_delay_many_times)
{
    struct emq__job *j;

    must_add_id(t, "q", "a");
    j = must_take(t, "q");
    CHECK_STATUS(write_job(t, "q", j->id, (struct emq__auth){.token = j->token},
                           EMQ__WRITE_PROGRESS, "40", 0),
                 EMQ_OK);
    for (int i = 0; i < 10; i++) {
        release_ok(t, j, 5000);
        CHECK_STATE(t, "q", S("a"), EMQ_DELAYED);
        advance(t, 5000);
        j = must_take(t, "q");
        CHECK_STR(j->id, "a");
        CHECK_STR(j->progress, "40");
        CHECK_STR(j->data.bytes, "x");
    }
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 1);
}

ENGINE_TEST(a_released_batch_keeps_its_order_when_released_last_to_first)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    struct emq__taken taken = take_n(t, "q", 3);
    for (size_t i = taken.n; i-- > 0;)
        release_ok(t, taken.jobs[i], 0);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3");
}

ENGINE_TEST(a_manual_retry_brings_a_failed_job_back)
{
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->state, EMQ_WAITING);
    CHECK_INT(j->finished_at_ms, 0);
    CHECK_INT(j->processed_at_ms, 0);
    CHECK_INT(j->failed_reason.len, 0);
    CHECK_INT(j->attempts_made, 1);
    CHECK_INT(j->attempts_started, 1);
}

ENGINE_TEST(a_manual_retry_keeps_the_traces_of_earlier_attempts)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.stack = S("trace");
    settle(t, j, en);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_STR(must_get(t, "q", S("1"))->stacktrace, "[\"trace\"]");
}

ENGINE_TEST(a_manual_retry_with_reset_gives_the_full_budget)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY, .reset_attempts = true), EMQ_OK);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 0);
    CHECK_INT(j->stalled, 0);
}

ENGINE_TEST(a_manual_retry_of_a_completed_job_forgets_its_result)
{
    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_INT(must_get(t, "q", S("1"))->result.kind, 0);
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(a_manual_retry_of_a_job_that_is_not_finished_is_refused)
{
    must_add(t, "q", "x");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_WRONG_STATE);
    must_take(t, "q");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_WRONG_STATE);
    CHECK_STATUS(CHANGE(t, "q", S("9"), .kind = EMQ__CHANGE_RETRY), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_manual_lifo_retry_goes_to_the_front)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY, .lifo = true), EMQ_OK);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
}

/* The history of job 1, of queue q. */
static struct emq__history_res history_of(struct fx *t)
{
    const struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;

    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    return res;
}

ENGINE_TEST(a_manual_retry_keeps_who_had_the_job_and_how_it_ended)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    settle_ok(t, j);
    CHECK_INT(history_of(t).n, 0);
    int64_t ended_ms = must_get(t, "q", S("1"))->finished_at_ms;
    advance(t, 10000);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY, .admin = S("ann")), EMQ_OK);
    struct emq__history_res res = history_of(t);
    char at[40], who[EMQ_TOKEN_MAX + 20];

    CHECK_INT(res.n, 2);
    (void)snprintf(at, sizeof at, "{\"at\":%lld,", (long long)ended_ms);
    (void)snprintf(who, sizeof who, "\"who\":\"%.*s\"", EMQ_STR_ARG(j->token));
    CHECK_HAS(res.json[0], at);
    CHECK_HAS(res.json[0], who);
    CHECK_HAS(res.json[0], "\"what\":\"completed\"");
    CHECK_HAS(res.json[1], "\"detail\":\"retry\"");
}

ENGINE_TEST(a_retry_of_a_job_that_was_cancelled_unrun_tells_of_no_hand_out)
{
    must_add(t, "q", "x");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_INT(history_of(t).n, 0);
}
