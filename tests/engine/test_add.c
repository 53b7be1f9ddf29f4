/* SPDX-License-Identifier: MIT
 *
 * Adding: what is stored, where it is placed, duplicates.
 */
#include "lib/engine_fixture.h"

ENGINE_TEST(add_stores_the_job_as_it_was_given)
{
    struct emq__add_entry en = fx_entry("q", "{\"a\":1}");
    en.name = S("mail");
    en.opts = S("{\"attempts\":5,\"x\":[]}");
    en.group = S("g1");
    en.scheduler = S("nightly");
    en.parent_key = S("emq:p:7");
    en.parent = S("{\"id\":\"7\",\"queueKey\":\"emq:p\"}");
    struct emq__job *j = must_get(t, "q", must_add_entry(t, en));

    CHECK_STR(j->prefix, "emq");
    CHECK_STR(j->queue, "q");
    CHECK_STR(j->id, "1");
    CHECK_STR(j->name, "mail");
    CHECK_STR(j->data.bytes, "{\"a\":1}");
    CHECK_INT(j->data.kind, EMQ__KIND_JSON);
    CHECK_STR(j->opts, "{\"attempts\":5,\"x\":[]}");
    CHECK_STR(j->group, "g1");
    CHECK_STR(j->scheduler, "nightly");
    CHECK_STR(j->parent_key, "emq:p:7");
    CHECK_STR(j->parent, "{\"id\":\"7\",\"queueKey\":\"emq:p\"}");
    CHECK_INT(j->state, EMQ_WAITING);
}

ENGINE_TEST(a_new_job_has_no_trace_of_work)
{
    struct emq__job *j = must_get(t, "q", must_add(t, "q", "x"));

    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 0);
    CHECK_INT(j->stalled, 0);
    CHECK_INT(j->processed_at_ms, 0);
    CHECK_INT(j->finished_at_ms, 0);
    CHECK_INT(j->fence, 0);
    CHECK_INT(j->token.len, 0);
    CHECK_INT(j->result.kind, 0);
    CHECK_INT(j->failed_reason.len, 0);
    CHECK_INT(j->stacktrace.len, 0);
    CHECK_INT(j->progress.len, 0);
}

ENGINE_TEST(the_timestamp_is_the_stores_clock)
{
    advance(t, 5000);
    emq_str id = must_add(t, "q", "x");
    int64_t now = t->now_ms;
    struct emq__job *j = must_get(t, "q", id);

    CHECK_INT(j->timestamp_at_ms, now);
}

ENGINE_TEST(a_timestamp_given_by_the_user_is_kept)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.timestamp_at_ms = 1234567890123;

    CHECK_INT(must_get(t, "q", must_add_entry(t, en))->timestamp_at_ms, 1234567890123);
}

ENGINE_TEST(automatic_ids_count_every_entry)
{
    CHECK_STR(must_add(t, "q", "a"), "1");
    CHECK_STR(must_add_id(t, "q", "mine"), "mine");
    CHECK_STR(must_add(t, "q", "b"), "3");
}

ENGINE_TEST(ids_of_two_queues_are_apart)
{
    CHECK_STR(must_add(t, "q1", "a"), "1");
    CHECK_STR(must_add(t, "q2", "a"), "1");
}

ENGINE_TEST(two_prefixes_are_apart)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add(t, "q", "x");
    en.prefix = S("other");
    CHECK_STR(must_add_entry(t, en), "1");
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
}

ENGINE_TEST(a_job_without_delay_waits_at_the_end_of_the_line)
{
    must_add(t, "q", "a");
    must_add(t, "q", "b");
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
}

ENGINE_TEST(lifo_goes_to_the_front_of_the_line)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add(t, "q", "a");
    en.lifo = true;
    must_add_entry(t, en);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 1");
}

ENGINE_TEST(lifo_with_a_priority_goes_to_the_front_of_that_priority)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add_priority(t, "q", 1);
    must_add_priority(t, "q", 5);
    en.priority = 5;
    en.lifo = true;
    must_add_entry(t, en);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1 3 2");
}

ENGINE_TEST(a_job_with_priority_is_prioritized)
{
    emq_str id = must_add_priority(t, "q", 3);
    CHECK_STATE(t, "q", id, EMQ_PRIORITIZED);
    CHECK_INT(must_get(t, "q", id)->priority, 3);
}

ENGINE_TEST(a_delayed_job_is_due_after_its_delay)
{
    emq_str id = must_add_delayed(t, "q", 60000);
    int64_t now = t->now_ms;
    struct emq__job *j = must_get(t, "q", id);

    CHECK_INT(j->state, EMQ_DELAYED);
    CHECK_INT(j->delay_ms, 60000);
    CHECK_INT(j->due_at_ms, now + 60000);
}

ENGINE_TEST(the_delay_counts_from_the_users_timestamp)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add(t, "other", "x");
    en.timestamp_at_ms = t->now_ms - 50000;
    en.delay_ms = 60000;
    CHECK_INT(must_get(t, "q", must_add_entry(t, en))->due_at_ms, en.timestamp_at_ms + 60000);
}

ENGINE_TEST(a_delay_of_a_hundred_years_stays_delayed)
{
    int64_t years = INT64_C(100) * 365 * 86400 * 1000;
    emq_str id = must_add_delayed(t, "q", years);

    advance(t, INT64_C(30) * 86400 * 1000);
    CHECK_INT(take_n(t, "q", 1).n, 0);
    CHECK_STATE(t, "q", id, EMQ_DELAYED);
}

ENGINE_TEST(a_custom_id_that_exists_is_a_duplicate)
{
    struct emq__add_entry en = fx_entry("q", "second");
    must_add_id(t, "q", "a");
    en.id = S("a");
    struct emq__added added = add_entry(t, en);

    CHECK_STATUS(added.outcome, EMQ_DUPLICATE);
    CHECK_STR(added.id, "a");
    CHECK_INT(added.state, EMQ_WAITING);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
    CHECK_STR(must_get(t, "q", S("a"))->data.bytes, "x");
}

ENGINE_TEST(a_failed_job_with_the_id_is_named_as_failed)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add_id(t, "q", "nightly");
    fail_ok(t, must_take(t, "q"), "broken");
    en.id = S("nightly");
    struct emq__added added = add_entry(t, en);

    CHECK_STATUS(added.outcome, EMQ_DUPLICATE);
    CHECK_INT(added.state, EMQ_FAILED_STATE);
}

ENGINE_TEST(a_bulk_add_marks_each_duplicate_by_itself)
{
    struct emq__add_entry en[3] = {fx_entry("q", "1"), fx_entry("q", "2"), fx_entry("q", "3")};
    must_add_id(t, "q", "x");
    en[0].id = S("x");
    en[1].id = S("y");
    en[2].id = S("y");
    struct emq__added *added = must_add_many(t, en, 3);

    CHECK_STATUS(added[0].outcome, EMQ_DUPLICATE);
    CHECK_STATUS(added[1].outcome, EMQ_OK);
    CHECK_STATUS(added[2].outcome, EMQ_DUPLICATE);
    CHECK_IDS(t, "q", EMQ_WAITING, "x y");
}

ENGINE_TEST(one_batch_may_hold_jobs_of_many_queues)
{
    struct emq__add_entry en[3] = {fx_entry("a", "1"), fx_entry("b", "2"), fx_entry("a", "3")};
    must_add_many(t, en, 3);

    CHECK_IDS(t, "a", EMQ_WAITING, "1 2");
    CHECK_IDS(t, "b", EMQ_WAITING, "1");
}

ENGINE_TEST(a_batch_of_a_thousand_is_added_in_order)
{
    struct emq__add_entry *en = calloc(1000, sizeof *en);
    for (int i = 0; i < 1000; i++)
        en[i] = fx_entry("q", "x");
    struct emq__added *added = must_add_many(t, en, 1000);
    free(en);

    CHECK_STR(added[999].id, "1000");
    CHECK_STR(must_take(t, "q")->id, "1");
    CHECK_INT(stats(t, "q").totals.added, 1000);
}

ENGINE_TEST(an_id_is_free_again_when_its_record_has_passed_its_age)
{
    struct emq__settle_entry en;
    struct emq__job *j;

    must_add_id(t, "q", "a");
    j = must_take(t, "q");
    en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.age_ms = 2000;
    settle(t, j, en);
    advance(t, 1000);
    struct emq__add_entry again = fx_entry("q", "again");
    again.id = S("a");
    CHECK_STATUS(add_entry(t, again).outcome, EMQ_DUPLICATE);
    advance(t, 4000);
    CHECK_STATUS(add_entry(t, again).outcome, EMQ_OK);
    CHECK_STATE(t, "q", S("a"), EMQ_WAITING);
    CHECK_INT(stats(t, "q").count[EMQ_COMPLETED_STATE], 0);
}

ENGINE_TEST(a_removed_id_may_be_added_again)
{
    must_add_id(t, "q", "a");
    CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    must_add_id(t, "q", "a");
    CHECK_STATE(t, "q", S("a"), EMQ_WAITING);
}

ENGINE_TEST(ids_and_names_may_hold_any_text)
{
    struct emq__add_entry en = fx_entry("warteschlange-ä", "x");
    en.id = S("größe/Ω'\"; DROP TABLE emq_job;--");
    en.name = S("näme 'quoted'");
    struct emq__job *j = must_get(t, "warteschlange-ä", must_add_entry(t, en));

    CHECK_STR_EQ(j->id, en.id);
    CHECK_STR_EQ(j->name, en.name);
}

ENGINE_TEST(add_finishes_before_the_answer_so_the_id_can_be_read_at_once)
{
    for (int i = 0; i < 50; i++) {
        emq_str id = must_add(t, "q", "x");
        assert_non_null(get_job(t, "q", id));
        settle_ok(t, must_take(t, "q"));
        CHECK_STATE(t, "q", id, EMQ_COMPLETED_STATE);
    }
}

ENGINE_TEST(too_many_entries_are_refused_and_nothing_is_added)
{
    static const struct emq__add_entry *list[EMQ__BATCH_MAX + 1];
    struct emq__add_entry en = fx_entry("q", "x");
    struct emq__add_req req = {.entries = list, .n = EMQ__BATCH_MAX + 1};
    struct emq__add_res res;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        list[i] = &en;
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK_INT(stats(t, "q").totals.added, 0);
}
