/* SPDX-License-Identifier: MIT
 *
 * Delivery modes: at-least-once, at-most-once, fire-and-forget.
 */
#include "lib/engine_fixture.h"

static struct emq__taken take_mode(struct fx *t, emq_mode mode, int32_t count)
{
    struct emq__take take = fx_take(count);
    take.mode = (int32_t)mode;
    return take_with(t, "q", take);
}

static struct emq__job *once(struct fx *t)
{
    must_add(t, "q", "x");
    struct emq__taken taken = take_mode(t, EMQ_AT_MOST_ONCE, 1);
    CHECK_INT(taken.n, 1);
    return taken.jobs[0];
}

ENGINE_TEST(an_at_most_once_job_carries_its_failure_from_the_take_on)
{
    struct emq__job *j = once(t);
    CHECK_STR(must_get(t, "q", j->id)->deferred_failure, EMQ__TEXT_AT_MOST_ONCE);
    CHECK_INT(must_get(t, "q", j->id)->mode, EMQ_AT_MOST_ONCE);
}

ENGINE_TEST(an_at_most_once_job_completes_as_any_other)
{
    struct emq__job *j = once(t);
    settle_ok(t, j);
    j = must_get(t, "q", j->id);
    CHECK_INT(j->state, EMQ_COMPLETED_STATE);
    CHECK_INT(j->deferred_failure.len, 0);
    CHECK_INT(j->failed_reason.len, 0);
}

ENGINE_TEST(an_at_most_once_job_whose_worker_died_fails_visibly)
{
    struct emq__job *j = once(t);
    advance(t, FX_LOCK_MS + 1000);
    struct emq__sweep_res r = sweep(t, "q", 100);
    CHECK_INT(r.n_recovered, 0);
    CHECK_INT(r.n_failed, 1);
    j = must_get(t, "q", j->id);
    CHECK_INT(j->state, EMQ_FAILED_STATE);
    CHECK_STR(j->failed_reason, EMQ__TEXT_AT_MOST_ONCE);
    CHECK_INT(j->attempts_started, 1);
    assert_null(take_one(t, "q"));
}

ENGINE_TEST(an_at_most_once_job_may_not_go_back)
{
    struct emq__job *j = once(t);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_RETRY)).outcome, EMQ_WRONG_STATE);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_RELEASE)).outcome, EMQ_WRONG_STATE);
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    fail_ok(t, j, "broken");
    CHECK_STATE(t, "q", j->id, EMQ_FAILED_STATE);
}

ENGINE_TEST(an_at_most_once_job_settled_as_stalled_fails)
{
    struct emq__job *j = once(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_STALLED);
    en.max_stalled = 100;
    CHECK_INT(settle(t, j, en).state, EMQ_FAILED_STATE);
    CHECK_STR(must_get(t, "q", j->id)->failed_reason, EMQ__TEXT_AT_MOST_ONCE);
}

ENGINE_TEST(a_heartbeat_keeps_an_at_most_once_job)
{
    struct emq__job *j = once(t);
    advance(t, 20000);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    advance(t, 20000);
    CHECK_INT(sweep(t, "q", 3).n_failed, 0);
    settle_ok(t, j);
}

ENGINE_TEST(a_manual_retry_of_an_at_most_once_job_is_a_new_decision)
{
    struct emq__job *j = once(t);
    fail_ok(t, j, "broken");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    j = must_take(t, "q");
    CHECK_INT(j->mode, EMQ_AT_LEAST_ONCE);
    CHECK_INT(j->deferred_failure.len, 0);
    retry_ok(t, j, 0);
}

ENGINE_TEST(fire_and_forget_removes_the_job_in_the_take)
{
    must_add(t, "q", "payload");
    struct emq__taken taken = take_mode(t, EMQ_FIRE_AND_FORGET, 1);
    CHECK_INT(taken.n, 1);
    CHECK_STR(taken.jobs[0]->data.bytes, "payload");
    assert_null(get_job(t, "q", taken.jobs[0]->id));
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.count[EMQ_ACTIVE], 0);
    CHECK_INT(s.totals.started, 1);
    CHECK_INT(s.totals.removed, 1);
    CHECK_INT(s.totals.completed, 0);
    CHECK_EVENTS(t, "q", "", "added 1, waiting 1, active 1, removed 1");
}

ENGINE_TEST(fire_and_forget_brings_a_kept_next_job_into_line_before_those_behind_it)
{
    struct emq__add_entry en = fx_entry("q", "owner"), later = fx_entry("q", "later");
    en.dedup = (struct emq__dedup){.id = S("k"), .keep_last = true};
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.data.bytes = S("kept");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DEDUPLICATED);
    release_ok(t, j, 0);
    later.priority = 1;
    must_add_entry(t, later);
    struct emq__taken taken = take_mode(t, EMQ_FIRE_AND_FORGET, 3);
    CHECK_INT(taken.n, 3);
    CHECK_STR(taken.jobs[0]->data.bytes, "owner");
    CHECK_STR(taken.jobs[1]->data.bytes, "kept");
    CHECK_STR(taken.jobs[2]->data.bytes, "later");
}

ENGINE_TEST(fire_and_forget_leaves_nothing_to_settle)
{
    must_add(t, "q", "x");
    struct emq__job *j = take_mode(t, EMQ_FIRE_AND_FORGET, 1).jobs[0];
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_NOT_FOUND);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
}

ENGINE_TEST(fire_and_forget_passes_over_jobs_with_a_parent_or_a_scheduler)
{
    struct emq__add_entry child = fx_entry("q", "child"), planned = fx_entry("q", "planned");
    child.parent_key = S("emq:p:1");
    child.parent = S("{\"id\":\"1\",\"queueKey\":\"emq:p\"}");
    planned.scheduler = S("nightly");
    must_add_entry(t, child);
    must_add_entry(t, planned);
    must_add(t, "q", "plain");
    struct emq__taken taken = take_mode(t, EMQ_FIRE_AND_FORGET, 10);
    CHECK_INT(taken.n, 1);
    CHECK_STR(taken.jobs[0]->data.bytes, "plain");
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
    CHECK_STR(must_take(t, "q")->data.bytes, "child");
}

static bool takeable(struct fx *t, int32_t mode)
{
    struct emq__stats_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .ending = true, .mode = mode};
    struct emq__stats_res res;

    CHECK_STATUS(FX_CALL(t, stats, &req, &res), EMQ_OK);
    return res.takeable;
}

ENGINE_TEST(who_would_end_is_told_whether_its_takes_find_a_job_in_line)
{
    struct emq__add_entry child = fx_entry("q", "child");
    child.parent_key = S("emq:p:1");
    child.parent = S("{\"id\":\"1\",\"queueKey\":\"emq:p\"}");

    CHECK(!takeable(t, EMQ_AT_LEAST_ONCE));
    must_add_entry(t, child);
    child.priority = 3;
    must_add_entry(t, child);
    CHECK(takeable(t, EMQ_AT_LEAST_ONCE) && takeable(t, EMQ_AT_MOST_ONCE));
    CHECK(!takeable(t, EMQ_FIRE_AND_FORGET));
    must_add_priority(t, "q", 5);
    CHECK(takeable(t, EMQ_FIRE_AND_FORGET));
    CHECK_INT(take_mode(t, EMQ_FIRE_AND_FORGET, 3).n, 1);
    CHECK(!takeable(t, EMQ_FIRE_AND_FORGET));
    must_add_delayed(t, "q", 60000);
    CHECK_INT(take_mode(t, EMQ_AT_LEAST_ONCE, 3).n, 2);
    CHECK(!takeable(t, EMQ_AT_LEAST_ONCE));
}

ENGINE_TEST(fire_and_forget_frees_the_dedup_id)
{
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    CHECK_INT(take_mode(t, EMQ_FIRE_AND_FORGET, 1).n, 1);
    CHECK_STATUS(add_dedup(t, "q", (struct emq__dedup){.id = S("k")}).outcome, EMQ_OK);
}

ENGINE_TEST(a_fire_and_forget_job_taken_before_may_be_taken_again_by_another_mode)
{
    must_add(t, "q", "x");
    release_ok(t, must_take(t, "q"), 0);
    CHECK_INT(take_mode(t, EMQ_FIRE_AND_FORGET, 1).n, 1);
    CHECK_INT(dump(t, "q").n, 0);
}
