/* SPDX-License-Identifier: MIT
 *
 * Producer dedup: which add is dropped, who blocks it, and when the id is free again.
 */
#include "lib/engine_fixture.h"

#define DEDUP(...) ((struct emq__dedup){__VA_ARGS__})

ENGINE_TEST(a_dedup_id_lets_one_job_in_until_it_is_finished)
{
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k")));
    struct emq__added b = add_dedup(t, "q", DEDUP(.id = S("k")));

    CHECK_STATUS(a.outcome, EMQ_OK);
    CHECK_STATUS(b.outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(b.id, a.id);
    CHECK_INT(b.state, EMQ_WAITING);
    CHECK_INT(stats(t, "q").totals.deduplicated, 1);
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
    settle_ok(t, j);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(the_job_remembers_its_dedup_id)
{
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k")));
    CHECK_STR(must_get(t, "q", a.id)->dedup_id, "k");
}

ENGINE_TEST(dedup_ids_of_two_queues_are_apart)
{
    CHECK_STATUS(add_dedup(t, "a", DEDUP(.id = S("k"))).outcome, EMQ_OK);
    CHECK_STATUS(add_dedup(t, "b", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(a_failed_job_frees_its_dedup_id)
{
    add_dedup(t, "q", DEDUP(.id = S("k")));
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(a_retry_does_not_end_the_window)
{
    add_dedup(t, "q", DEDUP(.id = S("k")));
    retry_ok(t, must_take(t, "q"), 0);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
    retry_ok(t, must_take(t, "q"), 5000);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
}

ENGINE_TEST(a_window_outlives_the_job)
{
    add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.count = 0;
    settle(t, j, en);
    advance(t, 3000);
    struct emq__added late = add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    CHECK_STATUS(late.outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(late.id, j->id);
    CHECK_INT(late.state, 0);
    advance(t, 8000);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000)).outcome, EMQ_OK);
}

ENGINE_TEST(a_window_ends_though_the_job_is_still_there)
{
    add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    advance(t, 11000);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000)).outcome, EMQ_OK);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 2);
}

ENGINE_TEST(a_duplicate_does_not_renew_a_plain_window)
{
    add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    advance(t, 6000);
    add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    advance(t, 6000);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000)).outcome, EMQ_OK);
}

ENGINE_TEST(a_duplicate_renews_an_extending_window)
{
    struct emq__dedup d = DEDUP(.id = S("k"), .ttl_ms = 10000, .extend = true);
    add_dedup(t, "q", d);
    advance(t, 6000);
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_DEDUPLICATED);
    advance(t, 6000);
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_DEDUPLICATED);
    advance(t, 11000);
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_OK);
}

ENGINE_TEST(replace_puts_the_new_job_in_place_of_a_delayed_one)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.delay_ms = 20000;
    en.dedup = DEDUP(.id = S("k"), .replace = true);
    emq_str first = must_add_entry(t, en);
    en.data.bytes = S("second");
    emq_str second = must_add_entry(t, en);

    assert_null(get_job(t, "q", first));
    CHECK_STATE(t, "q", second, EMQ_DELAYED);
    CHECK_INT(stats(t, "q").totals.added, 2);
    CHECK_INT(stats(t, "q").totals.removed, 1);
    advance(t, 30000);
    CHECK_STR(must_take(t, "q")->data.bytes, "second");
    assert_null(take_one(t, "q"));
}

ENGINE_TEST(replace_does_not_touch_a_job_that_is_not_delayed)
{
    struct emq__dedup d = DEDUP(.id = S("k"), .replace = true);
    struct emq__added a = add_dedup(t, "q", d);
    struct emq__added b = add_dedup(t, "q", d);

    CHECK_STATUS(b.outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(b.id, a.id);
    must_take(t, "q");
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_DEDUPLICATED);
}

ENGINE_TEST(replace_keeps_what_is_left_of_the_window)
{
    struct emq__add_entry en = fx_entry("q", "x");
    struct emq__dedup_res res;
    en.delay_ms = 100000;
    en.dedup = DEDUP(.id = S("k"), .ttl_ms = 60000, .replace = true);
    must_add_entry(t, en);
    advance(t, 40000);
    must_add_entry(t, en);
    CHECK_STATUS(dedup(t, "q", "k", "", false, &res), EMQ_OK);
    CHECK(res.ttl_ms > 0 && res.ttl_ms <= 20000);
}

ENGINE_TEST(keep_last_runs_the_last_duplicate_after_the_active_job)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.dedup = DEDUP(.id = S("k"), .keep_last = true);
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.data.bytes = S("second");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DEDUPLICATED);
    en.data.bytes = S("third");
    struct emq__added a = add_entry(t, en);
    CHECK_STATUS(a.outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(a.id, j->id);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 0);
    settle_ok(t, j);
    struct emq__job *next = must_take(t, "q");
    CHECK_STR(next->data.bytes, "third");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DEDUPLICATED);
    CHECK_INT(stats(t, "q").totals.added, 2);
}

ENGINE_TEST(keep_last_runs_the_kept_job_after_a_failure_too_but_not_after_a_retry)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.dedup = DEDUP(.id = S("k"), .keep_last = true);
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.data.bytes = S("last");
    add_entry(t, en);
    retry_ok(t, j, 0);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
    j = must_take(t, "q");
    CHECK_STR(j->data.bytes, "first");
    fail_ok(t, j, "broken");
    CHECK_STR(must_take(t, "q")->data.bytes, "last");
}

ENGINE_TEST(keep_last_with_a_waiting_owner_is_a_plain_duplicate)
{
    struct emq__dedup d = DEDUP(.id = S("k"), .keep_last = true);
    add_dedup(t, "q", d);
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_DEDUPLICATED);
    settle_ok(t, must_take(t, "q"));
    assert_null(take_one(t, "q"));
    CHECK_STATUS(add_dedup(t, "q", d).outcome, EMQ_OK);
}

ENGINE_TEST(the_kept_job_honours_its_delay_and_priority)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.dedup = DEDUP(.id = S("k"), .keep_last = true);
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.delay_ms = 9000;
    en.priority = 4;
    add_entry(t, en);
    settle_ok(t, j);
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.stats.count[EMQ_DELAYED], 1);
    advance(t, 10000);
    CHECK_INT(must_take(t, "q")->priority, 4);
}

ENGINE_TEST(a_kept_job_whose_id_was_used_meanwhile_gets_a_new_one)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.dedup = DEDUP(.id = S("k"), .keep_last = true);
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.id = S("mine");
    en.data.bytes = S("kept");
    add_entry(t, en);
    must_add_id(t, "q", "mine");
    settle_ok(t, j);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 2);
    CHECK_STR(must_take(t, "q")->id, "mine");
    CHECK_STR(must_take(t, "q")->data.bytes, "kept");
}

ENGINE_TEST(removing_the_job_frees_its_dedup_id)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.delay_ms = 600000;
    en.dedup = DEDUP(.id = S("k"), .ttl_ms = 3600000);
    emq_str id = must_add_entry(t, en);
    CHECK_STATUS(CHANGE(t, "q", id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    must_add_entry(t, en);
}

ENGINE_TEST(cleaning_the_jobs_frees_their_dedup_ids)
{
    add_dedup(t, "q", DEDUP(.id = S("k")));
    struct emq__bulk_res r = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                                            .change.kind = EMQ__CHANGE_REMOVE,
                                                            .state = EMQ_WAITING,
                                                            .limit = 100});
    CHECK_INT(r.count, 1);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(cancelling_a_waiting_job_frees_its_dedup_id)
{
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k")));
    CHECK_STATUS(CHANGE(t, "q", a.id, .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(obliterate_frees_the_dedup_ids)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .force = true, .limit = 1000};
    struct emq__obliterate_res res;

    add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 3600000));
    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(recovery_goes_past_dedup_and_duplicates_stay_out)
{
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k")));
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 1);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
    struct emq__job *j = must_take(t, "q");
    CHECK_STR_EQ(j->id, a.id);
    settle_ok(t, j);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(a_job_that_died_for_good_frees_its_dedup_id)
{
    add_dedup(t, "q", DEDUP(.id = S("k")));
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 0).n_failed, 1);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(trimming_a_finished_job_leaves_a_newer_owner_alone)
{
    struct emq__dedup_res res;
    add_dedup(t, "q", DEDUP(.id = S("k")));
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.count = 1;
    settle(t, j, en);
    struct emq__added b = add_dedup(t, "q", DEDUP(.id = S("k")));
    must_add(t, "q", "x");
    must_take(t, "q");
    j = must_take(t, "q");
    en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.count = 1;
    settle(t, j, en);
    CHECK_STATUS(dedup(t, "q", "k", "", false, &res), EMQ_OK);
    CHECK_STR_EQ(res.owner, b.id);
}

ENGINE_TEST(dedup_shows_owner_and_window)
{
    struct emq__dedup_res res;
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k"), .ttl_ms = 10000));
    struct emq__added b = add_dedup(t, "q", DEDUP(.id = S("forever")));

    CHECK_STATUS(dedup(t, "q", "k", "", false, &res), EMQ_OK);
    CHECK_STR_EQ(res.owner, a.id);
    CHECK(res.ttl_ms > 5000 && res.ttl_ms <= 10000);
    CHECK_STATUS(dedup(t, "q", "forever", "", false, &res), EMQ_OK);
    CHECK_STR_EQ(res.owner, b.id);
    CHECK_INT(res.ttl_ms, 0);
    CHECK_STATUS(dedup(t, "q", "nothing", "", false, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(dedup(t, "nowhere", "k", "", false, &res), EMQ_NOT_FOUND);
}

ENGINE_TEST(release_by_owner_frees_only_that_owners_id)
{
    struct emq__dedup_res res;
    struct emq__added a = add_dedup(t, "q", DEDUP(.id = S("k")));
    char owner[32];

    (void)snprintf(owner, sizeof owner, "%.*s", EMQ_STR_ARG(a.id));
    CHECK_STATUS(dedup(t, "q", "k", "somebody", true, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_DEDUPLICATED);
    CHECK_STATUS(dedup(t, "q", "k", owner, true, &res), EMQ_OK);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(release_without_owner_frees_the_id)
{
    struct emq__dedup_res res;
    add_dedup(t, "q", DEDUP(.id = S("k")));
    CHECK_STATUS(dedup(t, "q", "k", "", true, &res), EMQ_OK);
    CHECK_STATUS(dedup(t, "q", "k", "", true, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(add_dedup(t, "q", DEDUP(.id = S("k"))).outcome, EMQ_OK);
}

ENGINE_TEST(the_same_dedup_id_twice_in_one_batch_lets_one_in)
{
    struct emq__add_entry en[2] = {fx_entry("q", "a"), fx_entry("q", "b")};
    en[0].dedup = en[1].dedup = DEDUP(.id = S("k"));
    struct emq__added *added = must_add_many(t, en, 2);

    CHECK_STATUS(added[0].outcome, EMQ_OK);
    CHECK_STATUS(added[1].outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(added[1].id, added[0].id);
}
