/* SPDX-License-Identifier: MIT
 *
 * Events: which ones, in which order, and how they are read.
 */
#include "lib/engine_fixture.h"

#include "base/json.h"

ENGINE_TEST(a_plain_life_is_told_in_order)
{
    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_EVENTS(t, "q", "", "added 1, waiting 1, active 1, completed 1, drained");
}

ENGINE_TEST(a_delayed_life_is_told_in_order)
{
    must_add_delayed(t, "q", 1000);
    advance(t, 2000);
    must_take(t, "q");
    CHECK_EVENTS(t, "q", "", "added 1, delayed 1, waiting 1, active 1");
}

ENGINE_TEST(a_retry_tells_waiting_or_delayed_and_no_failure)
{
    must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 0);
    retry_ok(t, must_take(t, "q"), 5000);
    CHECK_EVENTS(t, "q", "", "added 1, waiting 1, active 1, waiting 1, active 1, delayed 1");
}

ENGINE_TEST(the_last_failure_tells_that_retries_are_exhausted)
{
    must_add(t, "q", "x"); /* no attempts in its opts: one */
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_EVENTS(t, "q", "",
                 "added 1, waiting 1, active 1, failed 1, retries-exhausted 1, drained");
}

ENGINE_TEST(a_failure_for_good_with_attempts_left_tells_only_failed)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("{\"attempts\":5}");
    must_add_entry(t, en);
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_EVENTS(t, "q", "", "added 1, waiting 1, active 1, failed 1, drained");
}

ENGINE_TEST(recovery_tells_waiting_and_stalled)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 1);
    CHECK_EVENTS(t, "q", "", "added 1, waiting 1, active 1, waiting 1, stalled 1");
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 1);
    emq_str ev = last_event(t, "q", "failed");
    CHECK_HAS(ev, EMQ__TEXT_STALLED);
}

ENGINE_TEST(a_refused_acknowledgement_tells_nothing)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    settle_ok(t, j);
    emq_str cursor = event_cursor(t, "q");
    settle(t, j, fx_settle(j, EMQ__SETTLE_FAILED));
    char after[64];
    (void)snprintf(after, sizeof after, "%.*s", EMQ_STR_ARG(cursor));
    CHECK_EVENTS(t, "q", after, "");
}

ENGINE_TEST(duplicates_are_told)
{
    struct emq__add_entry en = fx_entry("q", "x");
    must_add_id(t, "q", "a");
    en.id = S("a");
    add_entry(t, en);
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    CHECK_EVENTS(t, "q", "",
                 "added a, waiting a, duplicated a, added 3, waiting 3, deduplicated 3");
    emq_str ev = last_event(t, "q", "deduplicated");
    CHECK_HAS(ev, "\"deduplicationId\":\"k\"");
    CHECK_HAS(ev, "\"deduplicatedJobId\":\"4\"");
}

ENGINE_TEST(a_removal_is_told_with_the_state_it_left)
{
    must_add_delayed(t, "q", 5000);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    emq_str ev = last_event(t, "q", "removed");
    CHECK_HAS(ev, "\"prev\":\"delayed\"");
}

ENGINE_TEST(a_cleaning_is_told_once_with_its_count)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                   .change.kind = EMQ__CHANGE_REMOVE,
                                   .state = EMQ_WAITING,
                                   .limit = 100,
                                   .event = true});
    emq_str ev = last_event(t, "q", "cleaned");
    CHECK_HAS(ev, "\"count\":3");
    CHECK_INT(last_event(t, "q", "removed").len, 0);
}

ENGINE_TEST(pause_and_resume_are_told)
{
    must_meta(t, "q", "paused", "1");
    must_meta(t, "q", "paused", "");
    must_meta(t, "q", "concurrency", "3");
    CHECK_EVENTS(t, "q", "", "paused, resumed");
}

ENGINE_TEST(drained_is_told_when_nothing_is_left_to_do)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_INT(last_event(t, "q", "drained").len, 0);
    settle_ok(t, must_take(t, "q"));
    CHECK(last_event(t, "q", "drained").len > 0);
}

ENGINE_TEST(progress_is_told_with_its_json)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(write_job(t, "q", j->id, (struct emq__auth){.token = j->token},
                           EMQ__WRITE_PROGRESS, "{\"at\":[1,2]}", 0),
                 EMQ_OK);
    emq_str ev = last_event(t, "q", "progress");
    struct emq__json v;
    CHECK(emq__json_get(emq__json_root(ev), "data", &v));
    CHECK_STR(v.raw, "{\"at\":[1,2]}");
}

ENGINE_TEST(completed_always_carries_a_json_value)
{
    static const struct {
        enum emq__kind kind;
        const char *bytes, *json;
    } cases[] = {
        {EMQ__KIND_JSON, "{\"ok\":true}", "{\"ok\":true}"},
        {EMQ__KIND_TEXT, "plain \"text\"", "\"plain \\\"text\\\"\""},
        {0, "", "null"},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        must_add(t, "q", "x");
        struct emq__job *j = must_take(t, "q");
        struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
        en.value = (struct emq__payload){cases[i].kind, S(cases[i].bytes)};
        settle(t, j, en);
        emq_str ev = last_event(t, "q", "completed");
        struct emq__json v;
        CHECK(emq__json_get(emq__json_root(ev), "returnvalue", &v));
        CHECK_STR(v.raw, cases[i].json);
    }
}

ENGINE_TEST(a_large_result_is_not_copied_into_the_event)
{
    char *big = malloc(200001);
    struct emq__job *j;
    struct emq__json v;

    must_add(t, "q", "x");
    j = must_take(t, "q");
    memset(big, '1', 200000);
    big[200000] = '\0';
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.value.bytes = emq_strn(big, 200000);
    settle(t, j, en);
    free(big);
    emq_str ev = last_event(t, "q", "completed");
    CHECK(ev.len < 4096);
    CHECK(emq__json_get(emq__json_root(ev), "returnvalue", &v));
    CHECK_STR(v.raw, "null");
}

ENGINE_TEST(a_failed_job_that_is_not_kept_is_still_told_with_its_reason)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.keep.count = 0;
    en.reason = S("no \"route\"");
    settle(t, j, en);
    emq_str ev = last_event(t, "q", "failed");
    CHECK_HAS(ev, "\"failedReason\":\"no \\\"route\\\"\"");
}

ENGINE_TEST(delayed_is_told_with_the_instant_it_is_due)
{
    emq_str id = must_add_delayed(t, "q", 5000);
    struct emq__json v;
    int64_t due = 0;

    CHECK(emq__json_get(emq__json_root(last_event(t, "q", "delayed")), "delay", &v));
    CHECK(emq__json_i64(v, &due));
    CHECK_INT(due, must_get(t, "q", id)->due_at_ms);
}

ENGINE_TEST(reading_goes_on_behind_a_cursor)
{
    struct emq__events_req req = {FX_PREFIX, S("q"), S(""), 2};
    struct emq__events_res res;

    must_add(t, "q", "x");
    must_add(t, "q", "x");
    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 2);
    CHECK_STR_EQ(res.last_id, res.events[1].id);
    req.after = res.last_id;
    req.limit = 10;
    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 2);
    req.after = res.last_id;
    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
    CHECK_STR_EQ(res.last_id, req.after);
}

ENGINE_TEST(the_dollar_cursor_shows_only_what_comes_later)
{
    char after[64];

    must_add(t, "q", "x");
    emq_str cursor = event_cursor(t, "q");
    (void)snprintf(after, sizeof after, "%.*s", EMQ_STR_ARG(cursor));
    must_add(t, "q", "x");
    CHECK_EVENTS(t, "q", after, "added 2, waiting 2");
}

ENGINE_TEST(event_ids_grow_and_stand_in_the_events)
{
    struct emq__events_req req = {FX_PREFIX, S("q"), S(""), 100};
    struct emq__events_res res;
    long long ms = 0, seq = -1;

    for (int i = 0; i < 5; i++) {
        must_add(t, "q", "x");
        if (i % 2)
            advance(t, 3);
    }
    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 10);
    for (size_t i = 0; i < res.n; i++) {
        long long m, s;
        struct emq__json v;
        emq_str id;
        CHECK_INT(sscanf(res.events[i].id.ptr, "%lld-%lld", &m, &s), 2);
        CHECK(m > ms || (m == ms && s > seq));
        ms = m;
        seq = s;
        CHECK(emq__json_get(emq__json_root(res.events[i].json), "id", &v));
        CHECK(emq__json_str(v, &t->mem, &id));
        CHECK_STR_EQ(id, res.events[i].id);
    }
}

ENGINE_TEST(the_stream_is_bounded_by_the_queues_own_setting)
{
    struct emq__events_req req = {FX_PREFIX, S("q"), S(""), 20000};
    struct emq__events_res res;

    must_meta(t, "q", "opts.maxLenEvents", "100");
    for (int i = 0; i < 300; i++)
        must_add(t, "q", "x");
    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    CHECK(res.n >= 50 && res.n <= 300); /* trimming may be in steps, never by much */
    CHECK_STR_EQ(res.last_id, event_cursor(t, "q"));
}

ENGINE_TEST(events_can_be_switched_off)
{
    must_meta(t, "q", "opts.maxLenEvents", "0");
    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_EVENTS(t, "q", "", "");
}

ENGINE_TEST(a_cursor_that_is_none_is_refused)
{
    struct emq__events_req req = {FX_PREFIX, S("q"), S("yesterday"), 10};
    struct emq__events_res res;

    must_add(t, "q", "x");
    CHECK_STATUS(t->e->ops->events(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
}

ENGINE_TEST(an_unknown_queue_has_no_events)
{
    CHECK_EVENTS(t, "nowhere", "", "");
    CHECK_EVENTS(t, "nowhere", "$", "");
}
