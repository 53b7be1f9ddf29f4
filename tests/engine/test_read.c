/* SPDX-License-Identifier: MIT
 *
 * Reading: find, jobs, stats, queues, logs.
 */
#include "lib/engine_fixture.h"

static const char *found(struct fx *t, struct emq__find_req req)
{
    struct emq__find_res res;
    struct emq__buf b;

    req.prefix = FX_PREFIX;
    req.queue = S("q");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    emq__buf_init(&b, 1 << 20);
    for (size_t i = 0; i < res.n; i++)
        emq__buf_printf(&b, "%s%.*s", i ? " " : "", EMQ_STR_ARG(res.jobs[i]->id));
    emq_str s = emq__arena_str(&t->mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return s.len ? s.ptr : "";
}

#define FIND(...) found(t, (struct emq__find_req){.state = EMQ_WAITING, __VA_ARGS__})

ENGINE_TEST(find_lists_a_state_by_rank)
{
    for (int i = 0; i < 6; i++)
        must_add(t, "q", "x");
    assert_string_equal(FIND(.limit = 3), "1 2 3");
    assert_string_equal(FIND(.limit = 3, .offset = 2), "3 4 5");
    assert_string_equal(FIND(.limit = 3, .offset = 5), "6");
    assert_string_equal(FIND(.limit = 3, .offset = 6), "");
}

ENGINE_TEST(find_newest_first_turns_the_order_round)
{
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    assert_string_equal(FIND(.limit = 2, .newest_first = true), "4 3");
    assert_string_equal(FIND(.limit = 2, .newest_first = true, .offset = 1), "3 2");
}

ENGINE_TEST(find_goes_on_behind_a_job)
{
    for (int i = 0; i < 5; i++)
        must_add(t, "q", "x");
    assert_string_equal(FIND(.limit = 2, .after_id = S("2")), "3 4");
    assert_string_equal(FIND(.limit = 9, .after_id = S("5")), "");
    assert_string_equal(FIND(.limit = 2, .after_id = S("4"), .newest_first = true), "3 2");
}

ENGINE_TEST(find_behind_a_job_that_left_the_state_says_not_found)
{
    struct emq__find_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .state = EMQ_WAITING, .limit = 5, .after_id = S("1")};
    struct emq__find_res res;

    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_take(t, "q");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_NOT_FOUND);
    req.after_id = S("99");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_NOT_FOUND);
}

ENGINE_TEST(paging_by_the_last_id_shows_every_job_once)
{
    static const int states[] = {EMQ_WAITING,     EMQ_ACTIVE,          EMQ_DELAYED,
                                 EMQ_PRIORITIZED, EMQ_COMPLETED_STATE, EMQ_FAILED_STATE};
    for (int i = 0; i < 14; i++)
        must_add(t, "q", "x");
    for (int i = 0; i < 7; i++) {
        must_add_delayed(t, "q", 5000 + i % 2);
        must_add_priority(t, "q", 1 + i % 3);
    }
    struct emq__taken taken = take_n(t, "q", 14);
    for (size_t i = 0; i < 7; i += 2) {
        settle_ok(t, taken.jobs[i]);
        fail_ok(t, taken.jobs[i + 1], "broken");
    }
    for (size_t s = 0; s < EMQ_ARRAY_LEN(states); s++) {
        struct emq__find_req req = {
            .prefix = FX_PREFIX, .queue = S("q"), .state = states[s], .limit = 3};
        struct emq__find_res res;
        struct emq__buf b;
        emq__buf_init(&b, 4096);
        do {
            CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
            for (size_t i = 0; i < res.n; i++) {
                emq__buf_printf(&b, "%s%.*s", b.len ? " " : "", EMQ_STR_ARG(res.jobs[i]->id));
                req.after_id = res.jobs[i]->id;
            }
        } while (res.n == 3);
        CHECK_IDS(t, "q", states[s], b.len ? b.ptr : "");
        emq__buf_free(&b);
    }
}

ENGINE_TEST(find_ends_behind_eight_megabytes_with_at_least_one_job)
{
    static const size_t sizes[] = {5 << 20, 5 << 20, 9 << 20, 10};
    struct emq__find_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .state = EMQ_WAITING, .limit = 1000};
    struct emq__find_res res;

    fx_unchecked(t);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++)
        must_add_long(t, "q", sizes[i]);
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 2);
    CHECK(res.more);
    req.after_id = S("2");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK(res.more);
    req.after_id = S("3");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK(!res.more);
    req.after_id = S("4");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
    req.after_id = S("1");
    req.limit = 1;
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK(!res.more);
}

ENGINE_TEST(finished_jobs_stand_in_the_order_in_which_they_finished)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    struct emq__taken taken = take_n(t, "q", 3);
    settle_ok(t, taken.jobs[2]);
    settle_ok(t, taken.jobs[0]);
    settle_ok(t, taken.jobs[1]);
    CHECK_IDS(t, "q", EMQ_COMPLETED_STATE, "3 1 2");
}

ENGINE_TEST(jobs_are_read_in_the_order_asked_with_gaps_for_missing_ones)
{
    emq_str ids[3] = {S("2"), S("nope"), S("1")};
    struct emq__jobs_req req = {FX_PREFIX, S("q"), ids, 3};
    struct emq__jobs_res res;

    must_add(t, "q", "a");
    must_add(t, "q", "b");
    CHECK_STATUS(FX_CALL(t, jobs, &req, &res), EMQ_OK);
    CHECK_STR(res.jobs[0]->data.bytes, "b");
    assert_null(res.jobs[1]);
    CHECK_STR(res.jobs[2]->data.bytes, "a");
}

ENGINE_TEST(an_unknown_queue_has_zeros)
{
    struct emq__stats_res s = stats(t, "nowhere");

    CHECK(!s.exists && !s.paused && !s.maxed);
    for (int i = 1; i <= EMQ_STATE_COUNT; i++)
        CHECK_INT(s.count[i], 0);
    CHECK_INT(s.next_due_at_ms, 0);
    CHECK_INT(s.totals.added, 0);
}

ENGINE_TEST(stats_count_what_is_there)
{
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    must_add_priority(t, "q", 2);
    emq_str d = must_add_delayed(t, "q", 5000);
    settle_ok(t, must_take(t, "q"));
    fail_ok(t, must_take(t, "q"), "broken");
    must_take(t, "q");
    struct emq__stats_res s = stats(t, "q");

    CHECK(s.exists);
    CHECK_INT(s.count[EMQ_WAITING], 1);
    CHECK_INT(s.count[EMQ_ACTIVE], 1);
    CHECK_INT(s.count[EMQ_DELAYED], 1);
    CHECK_INT(s.count[EMQ_PRIORITIZED], 1);
    CHECK_INT(s.count[EMQ_COMPLETED_STATE], 1);
    CHECK_INT(s.count[EMQ_FAILED_STATE], 1);
    CHECK_INT(s.next_due_at_ms, must_get(t, "q", d)->due_at_ms);
    CHECK_INT(s.oldest_waiting_at_ms, must_get(t, "q", S("4"))->timestamp_at_ms);
    CHECK_INT(s.retry_delayed, 0);
}

ENGINE_TEST(queues_are_listed_sorted_and_by_prefix)
{
    struct emq__queues_req req = {.prefix = FX_PREFIX};
    struct emq__queues_res res;
    struct emq__add_entry en = fx_entry("elsewhere", "x");

    must_add(t, "b", "x");
    must_add(t, "a", "x");
    must_meta(t, "c", "paused", "1");
    en.prefix = S("other");
    must_add_entry(t, en);
    CHECK_STATUS(FX_CALL(t, queues, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 3);
    CHECK_STR(res.names[0], "a");
    CHECK_STR(res.names[1], "b");
    CHECK_STR(res.names[2], "c");
}

static void add_log(struct fx *t, const char *line, int64_t keep)
{
    CHECK_STATUS(write_job(t, "q", S("1"), (struct emq__auth){.admin = S("root")}, EMQ__WRITE_LOG,
                           line, keep),
                 EMQ_OK);
}

static struct emq__logs_res logs(struct fx *t, int64_t start, int64_t count)
{
    struct emq__logs_req req = {FX_PREFIX, S("q"), S("1"), start, count};
    struct emq__logs_res res;

    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_OK);
    return res;
}

ENGINE_TEST(log_lines_are_read_oldest_first)
{
    must_add(t, "q", "x");
    add_log(t, "one", -1);
    add_log(t, "two", -1);
    add_log(t, "three", -1);
    struct emq__logs_res r = logs(t, 0, 0);
    CHECK_INT(r.n, 3);
    CHECK_INT(r.total, 3);
    CHECK_STR(r.lines[0], "one");
    r = logs(t, 1, 1);
    CHECK_INT(r.n, 1);
    CHECK_STR(r.lines[0], "two");
    CHECK_INT(r.total, 3);
    CHECK_INT(logs(t, 9, 1).n, 0);
}

ENGINE_TEST(only_the_newest_log_lines_are_kept)
{
    must_add(t, "q", "x");
    for (int i = 0; i < 6; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d", i);
        add_log(t, line, 3);
    }
    struct emq__logs_res r = logs(t, 0, 0);
    CHECK_INT(r.total, 3);
    CHECK_STR(r.lines[0], "3");
    CHECK_STR(r.lines[2], "5");
}

ENGINE_TEST(clearing_the_log_keeps_the_newest_lines)
{
    struct emq__auth admin = {.admin = S("root")};
    must_add(t, "q", "x");
    for (int i = 0; i < 4; i++)
        add_log(t, i == 3 ? "last" : "line", -1);
    CHECK_STATUS(write_job(t, "q", S("1"), admin, EMQ__WRITE_CLEAR_LOGS, "", 1), EMQ_OK);
    struct emq__logs_res r = logs(t, 0, 0);
    CHECK_INT(r.n, 1);
    CHECK_STR(r.lines[0], "last");
    CHECK_STATUS(write_job(t, "q", S("1"), admin, EMQ__WRITE_CLEAR_LOGS, "", 0), EMQ_OK);
    CHECK_INT(logs(t, 0, 0).total, 0);
    add_log(t, "again", -1);
    CHECK_INT(logs(t, 0, 0).total, 1);
}

ENGINE_TEST(writing_a_log_line_answers_how_many_there_are)
{
    struct emq__write_req req = {.prefix = FX_PREFIX,
                                 .queue = S("q"),
                                 .id = S("1"),
                                 .auth.admin = S("root"),
                                 .kind = EMQ__WRITE_LOG,
                                 .value = {EMQ__KIND_TEXT, S("line")},
                                 .keep = 2};
    struct emq__write_res res;

    must_add(t, "q", "x");
    for (int i = 1; i <= 3; i++) {
        CHECK_STATUS(FX_CALL(t, write, &req, &res), EMQ_OK);
        CHECK_INT(res.logs, i < 2 ? i : 2);
    }
}

ENGINE_TEST(logs_of_an_unknown_job_say_not_found)
{
    struct emq__logs_req req = {FX_PREFIX, S("q"), S("1"), 0, 0};
    struct emq__logs_res res;

    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_NOT_FOUND);
    must_add(t, "q", "x");
    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

ENGINE_TEST(a_job_added_again_has_no_logs_of_the_former)
{
    must_add_id(t, "q", "a");
    CHECK_STATUS(write_job(t, "q", S("a"), (struct emq__auth){.admin = S("root")}, EMQ__WRITE_LOG,
                           "old", -1),
                 EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    must_add_id(t, "q", "a");
    struct emq__logs_req req = {FX_PREFIX, S("q"), S("a"), 0, 0};
    struct emq__logs_res res;
    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_OK);
    CHECK_INT(res.total, 0);
}
