/* SPDX-License-Identifier: MIT
 *
 * Deferred failures: a job that is in line but is to be failed by whoever meets it. No act of the seam
 * leaves one in a line (a parent in BullMQ does), so the row is changed behind the library's back.
 */
#include "lib/engine_fixture.h"

#include <sqlite3.h>

#define DEFERRED_TEST(test_name)         \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    static void test_name(struct fx *t)

/* All jobs whose id begins like this. */
static void defer(struct fx *t, const char *ids)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;

    CHECK_INT(sqlite3_open_v2(t->file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db,
                                 "UPDATE emq_job SET deferred = 'child failed' WHERE id GLOB ?1",
                                 -1, &st, NULL),
              SQLITE_OK);
    CHECK_INT(sqlite3_bind_text(st, 1, ids, -1, SQLITE_STATIC), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_DONE);
    CHECK(sqlite3_changes(db) > 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static void check_failed(struct fx *t, const char *id, const char *prev)
{
    struct emq__job *j = must_get(t, "q", S(id));
    emq_str ev = last_event(t, "q", "failed");

    CHECK_INT(j->state, EMQ_FAILED_STATE);
    CHECK_STR(j->failed_reason, "child failed");
    CHECK_INT(j->deferred_failure.len, 0);
    CHECK_INT(j->attempts_started, 0);
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->fence, 0);
    CHECK_HAS(ev, "\"failedReason\":\"child failed\"");
    CHECK_HAS(ev, prev);
}

DEFERRED_TEST(a_job_with_a_deferred_failure_is_failed_by_the_take_and_not_handed_out)
{
    must_add_id(t, "q", "bad");
    must_add_id(t, "q", "good");
    defer(t, "bad");
    struct emq__taken taken = take_n(t, "q", 2);
    CHECK_INT(taken.n, 1);
    CHECK_STR(taken.jobs[0]->id, "good");
    CHECK_INT(taken.deferred, 1);
    check_failed(t, "bad", "\"prev\":\"waiting\"");
    CHECK_INT(stats(t, "q").totals.started, 1);
    CHECK_INT(stats(t, "q").totals.failed, 1);
    CHECK_INT(take_n(t, "q", 2).deferred, 0);
}

DEFERRED_TEST(a_deferred_failure_is_met_in_the_line_of_priorities_and_after_a_delay)
{
    must_add_priority(t, "q", 5);
    defer(t, "1");
    CHECK_INT(take_n(t, "q", 1).deferred, 1);
    check_failed(t, "1", "\"prev\":\"prioritized\"");
    must_add_delayed(t, "q", 5000);
    defer(t, "2");
    CHECK_INT(take_n(t, "q", 1).deferred, 0);
    CHECK_STATE(t, "q", S("2"), EMQ_DELAYED);
    advance(t, 5000);
    CHECK_INT(take_n(t, "q", 1).deferred, 1);
    check_failed(t, "2", "\"prev\":\"waiting\"");
}

DEFERRED_TEST(jobs_with_deferred_failures_do_not_stand_before_others)
{
    for (int i = 0; i < 200; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "bad-%d", i);
        must_add_id(t, "q", id);
    }
    must_add_id(t, "q", "good");
    defer(t, "bad-*");
    struct emq__taken taken = take_n(t, "q", 1);
    CHECK_INT(taken.deferred, 200);
    CHECK_INT(taken.n, 1);
    CHECK_STR(taken.jobs[0]->id, "good");
    CHECK_INT(stats(t, "q").count[EMQ_FAILED_STATE], 200);
}

DEFERRED_TEST(a_deferred_failure_follows_the_retention_of_the_jobs_own_options)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.id = S("bad");
    en.opts = S("{\"removeOnFail\":true}");
    must_add_entry(t, en);
    defer(t, "bad");
    CHECK_INT(take_n(t, "q", 1).deferred, 1);
    assert_null(get_job(t, "q", S("bad")));
    CHECK_INT(stats(t, "q").totals.failed, 1);
    CHECK_INT(stats(t, "q").totals.removed, 1);
}

DEFERRED_TEST(a_deferred_failure_is_not_charged_to_the_rate_limit)
{
    struct emq__take limited = fx_take(3);

    limited.limit_max = 1;
    limited.limit_duration_ms = 60000;
    must_add_id(t, "q", "bad-1");
    must_add_id(t, "q", "bad-2");
    must_add_id(t, "q", "good");
    defer(t, "bad-*");
    struct emq__taken taken = take_with(t, "q", limited);
    CHECK_INT(taken.deferred, 2);
    CHECK_INT(taken.n, 1);
    CHECK(taken.limited_ms > 0);
}

DEFERRED_TEST(a_deferred_failure_stops_a_pop_and_a_hand_out_at_most_once)
{
    const int32_t modes[] = {EMQ_FIRE_AND_FORGET, EMQ_AT_MOST_ONCE};
    const char *const ids[] = {"bad-1", "bad-2"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(modes); i++) {
        struct emq__take take = fx_take(1);
        take.mode = modes[i];
        must_add_id(t, "q", ids[i]);
        defer(t, ids[i]);
        struct emq__taken taken = take_with(t, "q", take);
        CHECK_INT(taken.n, 0);
        CHECK_INT(taken.deferred, 1);
        check_failed(t, ids[i], "\"prev\":\"waiting\"");
    }
}

DEFERRED_TEST(a_deferred_failure_ends_the_dedup_id_of_its_job)
{
    struct emq__dedup d = {.id = S("one")};
    struct emq__added first = add_dedup(t, "q", d);

    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_DEDUPLICATED);
    defer(t, first.id.ptr);
    CHECK_INT(take_n(t, "q", 1).deferred, 1);
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_OK);
}

DEFERRED_TEST(a_settlement_that_takes_more_fails_what_carries_a_deferred_failure)
{
    must_add_id(t, "q", "first");
    must_add_id(t, "q", "bad");
    must_add_id(t, "q", "good");
    struct emq__job *j = must_take(t, "q");
    defer(t, "bad");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = fx_take(1);
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1, .next = &next};
    struct emq__settle_res res;
    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_INT(res.taken.deferred, 1);
    CHECK_INT(res.taken.n, 1);
    CHECK_STR(res.taken.jobs[0]->id, "good");
    check_failed(t, "bad", "\"prev\":\"waiting\"");
}

DEFERRED_TEST(a_take_that_is_repeated_answers_the_same_and_fails_nothing_again)
{
    struct emq__take_req req = {
        .call = {S("session"), 1}, .prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(1)};
    struct emq__take_res first, again;

    must_add_id(t, "q", "bad-1");
    must_add_id(t, "q", "bad-2");
    defer(t, "bad-*");
    CHECK_STATUS(FX_CALL(t, take, &req, &first), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, take, &req, &again), EMQ_OK);
    CHECK_INT(first.taken.n, 0);
    CHECK_INT(first.taken.deferred, 2);
    CHECK_INT(again.taken.n, 0);
    CHECK_INT(again.taken.deferred, 2);
    CHECK_INT(stats(t, "q").totals.failed, 2);
}
