/* SPDX-License-Identifier: MIT
 *
 * Settling: only the owner of the hand-out, only once.
 */
#include "lib/engine_fixture.h"

static struct emq__job *one_taken(struct fx *t)
{
    must_add(t, "q", "x");
    return must_take(t, "q");
}

ENGINE_TEST(a_completed_job_keeps_its_result)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.value.bytes = S("{\"ok\": true}");
    struct emq__settled s = settle(t, j, en);
    int64_t now = t->now_ms;

    CHECK_STATUS(s.outcome, EMQ_OK);
    CHECK_INT(s.state, EMQ_COMPLETED_STATE);
    j = must_get(t, "q", j->id);
    CHECK_STR(j->result.bytes, "{\"ok\": true}");
    CHECK_INT(j->result.kind, EMQ__KIND_JSON);
    CHECK_INT(j->attempts_made, 1);
    CHECK_INT(j->finished_at_ms, now);
}

ENGINE_TEST(a_failed_job_keeps_its_reason_and_trace)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.reason = S("no route");
    en.stack = S("at line 1");
    struct emq__settled s = settle(t, j, en);

    CHECK_STATUS(s.outcome, EMQ_OK);
    CHECK_INT(s.state, EMQ_FAILED_STATE);
    j = must_get(t, "q", j->id);
    CHECK_STR(j->failed_reason, "no route");
    CHECK_STR(j->stacktrace, "[\"at line 1\"]");
    CHECK_INT(j->attempts_made, 1);
    CHECK(j->finished_at_ms > 0);
}

ENGINE_TEST(traces_beyond_the_limit_are_forgotten_oldest_first)
{
    static const char *const traces[] = {"one", "two", "three"};
    must_add(t, "q", "x");
    for (int i = 0; i < 3; i++) {
        struct emq__job *j = must_take(t, "q");
        struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
        en.stack = S(traces[i]);
        en.stack_limit = 2;
        CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
    }
    CHECK_STR(must_get(t, "q", S("1"))->stacktrace, "[\"two\",\"three\"]");
}

ENGINE_TEST(a_success_after_a_retry_keeps_the_reason_of_the_failed_attempt)
{
    retry_ok(t, one_taken(t), 0);
    settle_ok(t, must_take(t, "q"));
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_STR(j->failed_reason, "again");
    CHECK_INT(j->attempts_made, 2);
}

ENGINE_TEST(a_second_acknowledgement_is_refused)
{
    struct emq__job *j = one_taken(t);
    settle_ok(t, j);
    struct emq__settled s = settle(t, j, fx_settle(j, EMQ__SETTLE_FAILED));

    CHECK_STATUS(s.outcome, EMQ_LOST);
    CHECK_INT(s.state, EMQ_COMPLETED_STATE);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_INT(stats(t, "q").totals.failed, 0);
}

ENGINE_TEST(an_acknowledgement_names_one_job_and_its_claim)
{
    must_add(t, "q", "a");
    must_add(t, "q", "b");
    struct emq__job *a = must_take(t, "q"), *b = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(a, EMQ__SETTLE_COMPLETED);

    en.auth.token = b->token;
    CHECK_STATUS(settle(t, a, en).outcome, EMQ_LOST);
    CHECK_STATE(t, "q", a->id, EMQ_ACTIVE);
    settle_ok(t, b);
    CHECK_STATE(t, "q", a->id, EMQ_ACTIVE);
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    CHECK_STR_EQ(must_take(t, "q")->id, a->id);
}

ENGINE_TEST(a_wrong_token_changes_nothing)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.auth.token = S("w:1");

    CHECK_STATUS(settle(t, j, en).outcome, EMQ_LOST);
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    settle_ok(t, j);
}

ENGINE_TEST(the_owner_of_an_earlier_hand_out_is_refused)
{
    struct emq__job *old = one_taken(t);
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    CHECK_STATUS(settle(t, old, fx_settle(old, EMQ__SETTLE_COMPLETED)).outcome, EMQ_LOST);
    struct emq__job *now = must_take(t, "q");
    CHECK_STATUS(settle(t, old, fx_settle(old, EMQ__SETTLE_FAILED)).outcome, EMQ_LOST);
    settle_ok(t, now);
    CHECK_STATE(t, "q", now->id, EMQ_COMPLETED_STATE);
    CHECK_INT(stats(t, "q").totals.failed, 0);
}

ENGINE_TEST(a_late_owner_may_settle_while_nobody_has_recovered_the_job)
{
    struct emq__job *j = one_taken(t);
    advance(t, FX_LOCK_MS + 1000);
    settle_ok(t, j);
}

ENGINE_TEST(settling_a_removed_job_says_not_found_and_makes_no_record)
{
    struct emq__job *j = one_taken(t);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_FAILED)).outcome, EMQ_NOT_FOUND);
    assert_null(get_job(t, "q", j->id));
    struct emq__add_entry en = fx_entry("q", "x");
    en.id = S("ghost");
    must_add_entry(t, en);
}

ENGINE_TEST(settling_in_an_unknown_queue_says_not_found)
{
    struct emq__job *j = one_taken(t), other = *j;
    other.queue = S("nowhere");
    CHECK_STATUS(settle(t, &other, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_NOT_FOUND);
    CHECK(!stats(t, "nowhere").exists);
}

ENGINE_TEST(an_administrator_may_settle_an_active_job)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.auth = (struct emq__auth){.admin = S("root")};
    en.reason = S("stopped by hand");

    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
    CHECK_STATE(t, "q", j->id, EMQ_FAILED_STATE);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_LOST);
}

ENGINE_TEST(an_administrator_may_not_settle_a_job_that_is_not_active)
{
    emq_str id = must_add(t, "q", "x");
    struct emq__job *j = must_get(t, "q", id);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.auth = (struct emq__auth){.admin = S("root")};

    CHECK_STATUS(settle(t, j, en).outcome, EMQ_WRONG_STATE);
    CHECK_STATE(t, "q", id, EMQ_WAITING);
}

ENGINE_TEST(each_entry_of_a_batch_is_settled_for_itself)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    struct emq__taken taken = take_n(t, "q", 3);
    struct emq__settle_entry en[3];
    const struct emq__settle_entry *list[3];
    for (int i = 0; i < 3; i++) {
        en[i] = fx_settle(taken.jobs[i], EMQ__SETTLE_COMPLETED);
        list[i] = &en[i];
    }
    en[1].auth.token = S("w:1");
    en[2].id = S("nobody");
    struct emq__settle_req req = {.prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 3};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_STATUS(res.settled[0].outcome, EMQ_OK);
    CHECK_STATUS(res.settled[1].outcome, EMQ_LOST);
    CHECK_STATUS(res.settled[2].outcome, EMQ_NOT_FOUND);
    CHECK_IDS(t, "q", EMQ_ACTIVE, "2 3");
}

ENGINE_TEST(the_same_job_twice_in_a_batch_is_settled_once)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en, &en};
    struct emq__settle_req req = {.prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 2};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_STATUS(res.settled[0].outcome, EMQ_OK);
    CHECK_STATUS(res.settled[1].outcome, EMQ_LOST);
    CHECK_INT(stats(t, "q").totals.completed, 1);
}

ENGINE_TEST(settle_and_take_the_next_are_one_act)
{
    must_add(t, "q", "a");
    must_add(t, "q", "b");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = fx_take(5);
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1, .next = &next};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_STATUS(res.settled[0].outcome, EMQ_OK);
    CHECK_INT(res.taken.n, 1);
    CHECK_STR(res.taken.jobs[0]->data.bytes, "b");
}

ENGINE_TEST(a_retried_job_may_be_taken_in_the_act_that_retried_it)
{
    struct emq__job *j = one_taken(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = fx_take(1);
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1, .next = &next};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_INT(res.taken.n, 1);
    CHECK_STR_EQ(res.taken.jobs[0]->id, j->id);
    CHECK_INT(res.taken.jobs[0]->attempts_made, 1);
    CHECK_INT(res.taken.jobs[0]->attempts_started, 2);
}

ENGINE_TEST(extend_renews_the_lock_of_its_owner)
{
    struct emq__job *j = one_taken(t);
    advance(t, 20000);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    advance(t, 20000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    settle_ok(t, j);
}

ENGINE_TEST(extend_renews_a_lock_that_has_ended_but_was_not_recovered)
{
    struct emq__job *j = one_taken(t);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
}

ENGINE_TEST(extend_with_a_lost_token_says_lost)
{
    struct emq__job *j = one_taken(t);
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    struct emq__job *again = must_take(t, "q");
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    CHECK_STATUS(extend(t, again, FX_LOCK_MS).outcome, EMQ_OK);
}

ENGINE_TEST(extend_of_a_finished_job_says_lost_and_changes_nothing)
{
    struct emq__job *j = one_taken(t);
    settle_ok(t, j);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
}
