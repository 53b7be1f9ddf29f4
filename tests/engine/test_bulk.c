/* SPDX-License-Identifier: MIT
 *
 * Changes over all jobs of a state, in slices.
 */
#include "lib/engine_fixture.h"

static struct emq__bulk_res all(struct fx *t, enum emq__change_kind kind, int state, int32_t limit)
{
    return bulk(t, (struct emq__bulk_req){
                       .queue = S("q"), .change.kind = kind, .state = state, .limit = limit});
}

ENGINE_TEST(bulk_retry_brings_back_all_failed_jobs_oldest_first)
{
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    for (int i = 0; i < 4; i++)
        fail_ok(t, must_take(t, "q"), "broken");
    struct emq__bulk_res r = all(t, EMQ__CHANGE_RETRY, EMQ_FAILED_STATE, 100);
    CHECK_INT(r.count, 4);
    CHECK(!r.more);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3 4");
}

ENGINE_TEST(bulk_retry_keeps_priorities)
{
    must_add_priority(t, "q", 5);
    must_add_priority(t, "q", 2);
    fail_ok(t, must_take(t, "q"), "broken");
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_INT(all(t, EMQ__CHANGE_RETRY, EMQ_FAILED_STATE, 100).count, 2);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2 1");
}

ENGINE_TEST(bulk_promote_makes_all_delayed_jobs_ready)
{
    must_add_delayed(t, "q", 90000);
    must_add_delayed(t, "q", 50000);
    CHECK_INT(all(t, EMQ__CHANGE_PROMOTE, EMQ_DELAYED, 100).count, 2);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 1");
}

ENGINE_TEST(bulk_works_in_slices_and_says_whether_there_is_more)
{
    for (int i = 0; i < 5; i++)
        must_add(t, "q", "x");
    struct emq__bulk_res r = all(t, EMQ__CHANGE_REMOVE, EMQ_WAITING, 2);
    CHECK_INT(r.count, 2);
    CHECK(r.more);
    CHECK_IDS(t, "q", EMQ_WAITING, "3 4 5");
    CHECK(all(t, EMQ__CHANGE_REMOVE, EMQ_WAITING, 2).more);
    r = all(t, EMQ__CHANGE_REMOVE, EMQ_WAITING, 2);
    CHECK_INT(r.count, 1);
    CHECK(!r.more);
}

ENGINE_TEST(bulk_remove_passes_over_jobs_under_a_live_lock)
{
    struct emq__take brief = fx_take(1);

    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    must_take(t, "q");
    brief.lock_ms = 1000;
    take_with(t, "q", brief);
    must_take(t, "q");
    advance(t, 5000);
    struct emq__bulk_res r = all(t, EMQ__CHANGE_REMOVE, EMQ_ACTIVE, 1);
    CHECK_INT(r.count, 1);
    CHECK(!r.more);
    CHECK_IDS(t, "q", EMQ_ACTIVE, "1 3");
}

ENGINE_TEST(bulk_takes_only_jobs_that_are_old_enough)
{
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    advance(t, 60000);
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    struct emq__bulk_res r = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                                            .change.kind = EMQ__CHANGE_REMOVE,
                                                            .state = EMQ_FAILED_STATE,
                                                            .older_ms = 30000,
                                                            .limit = 100});
    CHECK_INT(r.count, 1);
    CHECK_IDS(t, "q", EMQ_FAILED_STATE, "2");
}

ENGINE_TEST(for_unfinished_jobs_the_age_counts_from_the_add)
{
    must_add(t, "q", "x");
    advance(t, 60000);
    must_add(t, "q", "x");
    struct emq__bulk_res r = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                                            .change.kind = EMQ__CHANGE_REMOVE,
                                                            .state = EMQ_WAITING,
                                                            .older_ms = 30000,
                                                            .limit = 100});
    CHECK_INT(r.count, 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "2");
}

ENGINE_TEST(a_job_that_is_too_young_hides_none_behind_it)
{
    struct emq__add_entry front = fx_entry("q", "x");

    must_add(t, "q", "x");
    advance(t, 60000);
    front.lifo = true;
    must_add_entry(t, front);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 1");
    struct emq__bulk_res r = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                                            .change.kind = EMQ__CHANGE_CANCEL,
                                                            .state = EMQ_WAITING,
                                                            .older_ms = 30000,
                                                            .limit = 100});
    CHECK_INT(r.count, 1);
    CHECK_STR(r.last_id, "1");
    CHECK_IDS(t, "q", EMQ_WAITING, "2");
}

ENGINE_TEST(bulk_cancel_goes_on_behind_the_last_one)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    take_n(t, "q", 3);
    struct emq__bulk_res r = all(t, EMQ__CHANGE_CANCEL, EMQ_ACTIVE, 2);
    CHECK_INT(r.count, 2);
    CHECK(r.more);
    CHECK_STR(r.last_id, "2");
    r = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                       .change.kind = EMQ__CHANGE_CANCEL,
                                       .state = EMQ_ACTIVE,
                                       .limit = 2,
                                       .after_id = r.last_id});
    CHECK_INT(r.count, 1);
    CHECK(!r.more);
    for (int i = 1; i <= 3; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        CHECK_INT(must_get(t, "q", S(id))->cancel, 1);
    }
}

ENGINE_TEST(bulk_cancel_fails_what_is_not_active)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    CHECK_INT(all(t, EMQ__CHANGE_CANCEL, EMQ_WAITING, 100).count, 2);
    CHECK_IDS(t, "q", EMQ_FAILED_STATE, "1 2");
}

ENGINE_TEST(a_change_that_a_state_does_not_allow_changes_nothing)
{
    must_add(t, "q", "x");
    CHECK_INT(all(t, EMQ__CHANGE_RETRY, EMQ_WAITING, 100).count, 0);
    CHECK_INT(all(t, EMQ__CHANGE_PROMOTE, EMQ_WAITING, 100).count, 0);
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(bulk_on_an_unknown_queue_finds_nothing)
{
    struct emq__bulk_res r = bulk(t, (struct emq__bulk_req){.queue = S("nowhere"),
                                                            .change.kind = EMQ__CHANGE_REMOVE,
                                                            .state = EMQ_WAITING,
                                                            .limit = 100});
    CHECK_INT(r.count, 0);
    CHECK(!r.more);
}

ENGINE_TEST(draining_while_a_job_runs_leaves_it_alone)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_add_priority(t, "q", 4);
    struct emq__job *j = must_take(t, "q");
    CHECK_INT(all(t, EMQ__CHANGE_REMOVE, EMQ_WAITING, 100).count, 1);
    CHECK_INT(all(t, EMQ__CHANGE_REMOVE, EMQ_PRIORITIZED, 100).count, 1);
    settle_ok(t, j);
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.n, 1);
    CHECK_INT(d.stray, 0);
}
