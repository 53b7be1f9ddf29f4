/* SPDX-License-Identifier: MIT
 *
 * What stays of finished jobs, and that totals survive trimming.
 */
#include "lib/engine_fixture.h"

static struct emq__settled finish(struct fx *t, enum emq__settle_kind kind, struct emq__keep keep)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, kind);
    en.keep = keep;
    en.reason = S("reason");
    struct emq__settled s = settle(t, j, en);
    CHECK_STATUS(s.outcome, EMQ_OK);
    return s;
}

ENGINE_TEST(keep_all_keeps_every_finished_job)
{
    for (int i = 0; i < 5; i++)
        finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = -1});
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "1 2 3 4 5");
}

ENGINE_TEST(keep_none_removes_the_job_at_once)
{
    struct emq__settled s = finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = 0});

    CHECK_INT(s.state, 0);
    assert_null(get_job(t, "q", S("1")));
    CHECK_INT(stats(t, "q").totals.completed, 1);
    CHECK_INT(stats(t, "q").totals.removed, 1);
}

ENGINE_TEST(keep_n_keeps_the_newest)
{
    for (int i = 0; i < 5; i++)
        finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = 2});
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "4 5");
    CHECK_INT(stats(t, "q").totals.completed, 5);
}

ENGINE_TEST(old_finished_jobs_go_when_another_finishes)
{
    struct emq__keep keep = {.count = -1, .age_ms = 10000};
    finish(t, EMQ__SETTLE_COMPLETED, keep);
    advance(t, 6000);
    finish(t, EMQ__SETTLE_COMPLETED, keep);
    advance(t, 6000);
    finish(t, EMQ__SETTLE_COMPLETED, keep);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "2 3");
}

ENGINE_TEST(count_and_age_are_both_kept_to)
{
    struct emq__keep keep = {.count = 2, .age_ms = 10000};
    for (int i = 0; i < 3; i++)
        finish(t, EMQ__SETTLE_COMPLETED, keep);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "2 3");
    advance(t, 11000);
    finish(t, EMQ__SETTLE_COMPLETED, keep);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "4");
}

ENGINE_TEST(completed_and_failed_are_kept_apart)
{
    finish(t, EMQ__SETTLE_FAILED, (struct emq__keep){.count = -1});
    finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = 1});
    finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = 1});
    CHECK_IDS(t, "q", EMQ_FAILED_STATE, "1");
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "3");
}

ENGINE_TEST(an_expired_record_leaves_with_the_next_sweep)
{
    finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = -1, .age_ms = 5000});
    finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = -1});
    advance(t, 6000);
    sweep(t, "q", 3);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "2");
    CHECK_INT(stats(t, "q").totals.removed, 1);
}

ENGINE_TEST(a_record_past_its_age_is_read_and_counted_until_it_is_removed)
{
    finish(t, EMQ__SETTLE_COMPLETED, (struct emq__keep){.count = -1, .age_ms = 5000});
    finish(t, EMQ__SETTLE_FAILED, (struct emq__keep){.count = -1, .age_ms = 5000});
    advance(t, 6000);
    CHECK_INT(stats(t, "q").count[EMQ_COMPLETED_STATE], 1);
    CHECK_INT(stats(t, "q").count[EMQ_FAILED_STATE], 1);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "1");
    CHECK_STATE(t, "q", S("1"), EMQ_COMPLETED_STATE);
    sweep(t, "q", 3);
    CHECK_INT(stats(t, "q").count[EMQ_COMPLETED_STATE], 0);
    CHECK_INT(stats(t, "q").count[EMQ_FAILED_STATE], 0);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "");
    assert_null(get_job(t, "q", S("1")));
}

ENGINE_TEST(trimmed_jobs_leave_nothing_behind)
{
    for (int i = 0; i < 4; i++) {
        must_add(t, "q", "x");
        struct emq__job *j = must_take(t, "q");
        CHECK_STATUS(write_job(t, "q", j->id, (struct emq__auth){.token = j->token}, EMQ__WRITE_LOG,
                               "line", -1),
                     EMQ_OK);
        struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
        en.keep.count = 1;
        en.stack = S("trace");
        settle(t, j, en);
    }
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.n, 1);
    CHECK_INT(d.stray, 0);
}

ENGINE_TEST(a_trimmed_id_may_be_used_again)
{
    must_add_id(t, "q", "a");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.count = 0;
    settle(t, j, en);
    must_add_id(t, "q", "a");
    CHECK_STATE(t, "q", S("a"), EMQ_WAITING);
    CHECK_INT(must_get(t, "q", S("a"))->attempts_started, 0);
}

ENGINE_TEST(jobs_that_the_sweep_fails_follow_the_retention_of_their_own_options)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("{\"removeOnFail\":true}");
    must_add_entry(t, en);
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    struct emq__sweep_res r = sweep(t, "q", 0);
    CHECK_INT(r.n_failed, 1);
    CHECK_STR(r.failed[0], "1");
    assert_null(get_job(t, "q", S("1")));
    emq_str ev = last_event(t, "q", "failed");
    CHECK_HAS(ev, EMQ__TEXT_STALLED);
}

ENGINE_TEST(totals_only_grow_and_the_sum_rule_holds)
{
    for (int i = 0; i < 60; i++) {
        must_add(t, "q", "x");
        struct emq__job *j = must_take(t, "q");
        if (i % 10 == 0)
            retry_ok(t, j, 0), j = must_take(t, "q");
        struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
        en.keep.count = 5;
        settle(t, j, en);
    }
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.totals.added, 60);
    CHECK_INT(s.totals.started, 66);
    CHECK_INT(s.totals.completed, 60);
    CHECK_INT(s.totals.retried, 6);
    CHECK_INT(s.totals.removed, 55);
    CHECK_INT(s.count[EMQ_COMPLETED_STATE], 5);
    CHECK_INT(s.count[EMQ_ACTIVE], 0);
    fx_reopen(t);
    CHECK_INT(stats(t, "q").totals.completed, 60);
}
