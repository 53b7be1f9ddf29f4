/* SPDX-License-Identifier: MIT
 *
 * Taking: who gets which job, and what a hand-out carries.
 */
#include "lib/engine_fixture.h"

ENGINE_TEST(take_gives_the_oldest_waiting_job)
{
    must_add(t, "q", "first");
    must_add(t, "q", "second");
    CHECK_STR(must_take(t, "q")->data.bytes, "first");
    CHECK_STR(must_take(t, "q")->data.bytes, "second");
}

ENGINE_TEST(take_on_an_unknown_queue_gives_nothing)
{
    struct emq__taken taken = take_n(t, "nowhere", 5);

    CHECK_INT(taken.n, 0);
    CHECK(!taken.paused && !taken.maxed);
    CHECK_INT(taken.limited_ms, 0);
    CHECK_INT(taken.next_due_at_ms, 0);
    CHECK(!stats(t, "nowhere").exists);
}

ENGINE_TEST(a_taken_job_is_active_under_a_lock)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    int64_t now = t->now_ms;

    CHECK_INT(j->state, EMQ_ACTIVE);
    CHECK_INT(j->attempts_started, 1);
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->processed_at_ms, now);
    CHECK_STR(j->processed_by, "w");
    CHECK(j->lock_left_ms > FX_LOCK_MS - 5000 && j->lock_left_ms <= FX_LOCK_MS);
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
}

ENGINE_TEST(the_token_is_the_worker_and_the_fence)
{
    char token[EMQ_TOKEN_MAX + 1];
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");

    emq__token_format(S("w"), j->fence, token);
    CHECK_STR(j->token, token);
    CHECK(j->fence > 0);
}

ENGINE_TEST(fences_grow_with_every_hand_out)
{
    int64_t last = 0;
    for (int i = 0; i < 5; i++)
        must_add(t, "q", "x");
    struct emq__taken taken = take_n(t, "q", 5);

    CHECK_INT(taken.n, 5);
    for (size_t i = 0; i < taken.n; i++) {
        CHECK(taken.jobs[i]->fence > last);
        last = taken.jobs[i]->fence;
    }
    release_ok(t, taken.jobs[0], 0);
    CHECK(must_take(t, "q")->fence > last);
}

ENGINE_TEST(two_hand_outs_of_a_job_have_different_tokens)
{
    must_add(t, "q", "x");
    struct emq__job *a = must_take(t, "q");
    retry_ok(t, a, 0);
    struct emq__job *b = must_take(t, "q");

    CHECK_STR_EQ(a->id, b->id);
    CHECK(!emq__str_eq(a->token, b->token));
}

ENGINE_TEST(a_job_is_handed_out_once)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    assert_null(take_one(t, "q"));
}

ENGINE_TEST(take_gives_at_most_count_jobs)
{
    for (int i = 0; i < 5; i++)
        must_add(t, "q", "x");
    CHECK_INT(take_n(t, "q", 3).n, 3);
    CHECK_INT(take_n(t, "q", 3).n, 2);
    CHECK_INT(take_n(t, "q", 3).n, 0);
}

ENGINE_TEST(a_batch_comes_in_line_order)
{
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    struct emq__taken taken = take_n(t, "q", 4);

    CHECK_STR(taken.jobs[0]->id, "1");
    CHECK_STR(taken.jobs[3]->id, "4");
    CHECK_IDS(t, "q", EMQ_ACTIVE, "1 2 3 4");
}

ENGINE_TEST(take_does_not_touch_other_queues)
{
    must_add(t, "a", "x");
    must_add(t, "b", "x");
    CHECK_INT(take_n(t, "a", 10).n, 1);
    CHECK_INT(stats(t, "b").count[EMQ_WAITING], 1);
}

ENGINE_TEST(waiting_goes_before_prioritized)
{
    must_add_priority(t, "q", 1);
    must_add(t, "q", "x");
    CHECK_STR(must_take(t, "q")->id, "2");
    CHECK_STR(must_take(t, "q")->id, "1");
}

ENGINE_TEST(a_count_out_of_range_is_refused)
{
    struct emq__take_req req = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(0)};
    struct emq__take_res res;

    CHECK_STATUS(t->e->ops->take(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    req.take.count = EMQ__BATCH_MAX + 1;
    CHECK_STATUS(t->e->ops->take(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
}

ENGINE_TEST(take_tells_when_the_next_delayed_job_is_due)
{
    must_add_delayed(t, "q", 90000);
    emq_str id = must_add_delayed(t, "q", 60000);
    struct emq__taken taken = take_n(t, "q", 1);

    CHECK_INT(taken.n, 0);
    CHECK_INT(taken.next_due_at_ms, must_get(t, "q", id)->due_at_ms);
}

ENGINE_TEST(the_worker_names_itself_on_the_job)
{
    struct emq__take take = fx_take(1);
    must_add(t, "q", "x");
    take.worker = S("host:42:1");
    struct emq__taken taken = take_with(t, "q", take);

    CHECK_STR(taken.jobs[0]->processed_by, "host:42:1");
    CHECK(emq__str_starts(taken.jobs[0]->token, "host:42:1:"));
}

ENGINE_TEST(claims_lists_what_a_worker_holds_in_all_queues)
{
    struct emq__claims_req req = {FX_PREFIX, S("w")};
    struct emq__claims_res res;
    struct emq__take other = fx_take(1);

    other.worker = S("w2");
    must_add(t, "a", "x");
    must_add(t, "a", "x");
    must_add(t, "b", "x");
    take_with(t, "a", other);
    struct emq__job *j1 = must_take(t, "a"), *j2 = must_take(t, "b");
    CHECK_STATUS(FX_CALL(t, claims, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 2);
    bool in_order = emq__str_eq(res.jobs[0]->queue, S("a"));
    CHECK_STR_EQ(res.jobs[in_order ? 0 : 1]->token, j1->token);
    CHECK_STR_EQ(res.jobs[in_order ? 1 : 0]->token, j2->token);
}

ENGINE_TEST(claims_takes_a_name_with_a_longer_tail_for_another_worker)
{
    struct emq__claims_req req = {FX_PREFIX, S("w")};
    struct emq__claims_res res;
    struct emq__take other = fx_take(1);

    other.worker = S("w:7");
    must_add(t, "q", "x");
    take_with(t, "q", other);
    CHECK_STATUS(FX_CALL(t, claims, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

ENGINE_TEST(a_settled_job_is_no_claim_any_more)
{
    struct emq__claims_req req = {FX_PREFIX, S("w")};
    struct emq__claims_res res;

    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_STATUS(FX_CALL(t, claims, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

ENGINE_TEST(an_added_job_changes_the_ticket)
{
    emq_str q = S("q");
    uint64_t before;

    must_add(t, "q", "x");
    take_n(t, "q", 1);
    before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    must_add(t, "q", "x");
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}

ENGINE_TEST(wait_returns_at_once_when_work_came_after_the_ticket)
{
    emq_str q = S("q");
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 60000};
    struct emq__wait_res res;

    must_add(t, "q", "x");
    req.ticket = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    must_add(t, "q", "y");
    CHECK_STATUS(FX_CALL(t, wait, &req, &res), EMQ_OK);
}

ENGINE_TEST(wait_without_news_times_out)
{
    emq_str q = S("q");
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 20};
    struct emq__wait_res res;

    must_add(t, "q", "x");
    req.ticket = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    emq_status s = FX_CALL(t, wait, &req, &res);
    if (s == EMQ_OK) { /* a store may tell once of what was there before the ticket */
        req.ticket = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
        s = FX_CALL(t, wait, &req, &res);
    }
    CHECK_STATUS(s, EMQ_TIMEOUT);
}

ENGINE_TEST(a_cancelled_wait_says_so)
{
    emq_str q = S("q");
    atomic_int cancelled = 1;
    struct emq__wait_req req = {
        .prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 60000, .cancelled = &cancelled};
    struct emq__wait_res res;

    must_add(t, "q", "x");
    req.ticket = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    t->e->ops->interrupt(t->e);
    CHECK_STATUS(FX_CALL(t, wait, &req, &res), EMQ_CANCELLED);
}

ENGINE_TEST(wake_changes_the_ticket)
{
    emq_str q = S("q");
    struct emq__wake_req req = {FX_PREFIX, q};
    struct emq__wake_res res;
    uint64_t before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);

    CHECK_STATUS(FX_CALL(t, wake, &req, &res), EMQ_OK);
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}
