/* SPDX-License-Identifier: MIT
 *
 * Work that no script may do at once goes on in the next one, and a repeated act where its first try ended.
 */
#include "redis/keys.h"

enum { LONG = 3000, SOME = 100 };

static struct emq__change_res change_all(struct fx *t, const emq_str *ids, size_t n,
                                         enum emq__change_kind kind, struct emq__call call)
{
    struct emq__change_req req = {.call = call,
                                  .prefix = FX_PREFIX,
                                  .queue = S("q"),
                                  .ids = ids,
                                  .n = n,
                                  .change = {.kind = kind, .priority = 5}};
    struct emq__change_res res;

    CHECK_STATUS(FX_CALL(t, change, &req, &res), EMQ_OK);
    return res;
}

static void add_long(struct fx *t)
{
    struct emq__add_entry *en = calloc(SOME, sizeof *en);

    fx_unchecked(t);
    assert_non_null(en);
    for (int i = 0; i < SOME; i++)
        en[i] = fx_entry("q", "x");
    for (int i = 0; i < LONG; i += SOME)
        must_add_many(t, en, SOME);
    free(en);
}

static int64_t scripts_run(struct fx *t)
{
    emq_str info = emq_cstr(DO("INFO commandstats"));
    const char *at = memmem(info.ptr, info.len, "cmdstat_evalsha:calls=", 22);
    return at ? strtoll(at + 22, NULL, 10) : 0;
}

REDIS_TEST(many_jobs_of_a_long_list_are_changed_in_several_scripts_and_once)
{
    emq_str ids[SOME];
    char text[SOME][16];
    struct emq__call call = {S("session"), 1};

    add_long(t);
    for (int i = 0; i < SOME; i++) {
        (void)snprintf(text[i], sizeof text[i], "%d", 1000 + i);
        ids[i] = emq_cstr(text[i]);
    }
    for (int times = 0; times < 2; times++) {
        int64_t before = scripts_run(t);
        struct emq__change_res res = change_all(t, ids, SOME, EMQ__CHANGE_REMOVE, call);
        CHECK(times == 0 ? scripts_run(t) > before + 1 : scripts_run(t) == before + 1);
        for (int i = 0; i < SOME; i++)
            CHECK_STATUS(res.changed[i].outcome, EMQ_OK);
        CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG - SOME);
    }
}

REDIS_TEST(a_repeated_change_goes_on_where_its_first_try_ended)
{
    emq_str ids[SOME];
    char text[SOME][16];
    struct emq__change_res res;

    add_long(t);
    for (int i = 0; i < SOME; i++) {
        (void)snprintf(text[i], sizeof text[i], "%d", 1000 + i);
        ids[i] = emq_cstr(text[i]);
    }
    /* The receipt of a try that ended behind two jobs, and those two gone. */
    change_all(t, ids, 2, EMQ__CHANGE_REMOVE, (struct emq__call){0});
    DO("EVAL %s 0",
       "local done = {0, 100, 0, 0, 0, 0} "
       "redis.call('SET', 'emq::emq:q:rc:session', '1 change ' .. cmsgpack.pack(done))");
    res = change_all(t, ids, SOME, EMQ__CHANGE_REMOVE, (struct emq__call){S("session"), 1});
    for (int i = 0; i < SOME; i++)
        CHECK_STATUS(res.changed[i].outcome, EMQ_OK);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG - SOME);
}

REDIS_TEST(a_thousand_jobs_are_cleaned_in_several_scripts_with_one_event)
{
    struct emq__bulk_req req = {.call = {S("session"), 1},
                                .queue = S("q"),
                                .change.kind = EMQ__CHANGE_REMOVE,
                                .state = EMQ_WAITING,
                                .limit = 1000,
                                .event = true};
    add_long(t);
    for (int times = 0; times < 2; times++) {
        int64_t before = scripts_run(t);
        struct emq__bulk_res res = bulk(t, req);
        CHECK(times == 0 ? scripts_run(t) > before + 1 : scripts_run(t) == before + 1);
        CHECK_INT(res.count, 1000);
        CHECK(res.more);
        CHECK_STR(res.last_id, "1000");
        CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG - 1000);
    }
    CHECK_HAS(emq_cstr(DO("XREVRANGE emq:q:events + - COUNT 1")), "cleaned\ncount\n1000");
    CHECK_HAS(emq_cstr(DO("XREVRANGE emq:q:events + - COUNT 2")), "waiting");
}

REDIS_TEST(jobs_that_are_passed_over_do_not_end_a_bulk_change)
{
    struct emq__add_entry old = fx_entry("q", "x");

    add_long(t);
    advance(t, 60000);
    old.timestamp_at_ms = 1700000000000;
    must_add_entry(t, old);
    struct emq__bulk_res res = bulk(t, (struct emq__bulk_req){.queue = S("q"),
                                                              .change.kind = EMQ__CHANGE_REMOVE,
                                                              .state = EMQ_WAITING,
                                                              .older_ms = 100000,
                                                              .limit = 10});
    CHECK_INT(res.count, 1);
    CHECK(!res.more);
    assert_null(get_job(t, "q", S("3001")));
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG);
}

REDIS_TEST(a_page_of_a_long_list_is_read_in_several_scripts_and_in_order)
{
    struct emq__find_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .state = EMQ_WAITING, .offset = 500, .limit = 1000};
    struct emq__find_res res;

    add_long(t);
    int64_t before = scripts_run(t);
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    CHECK(scripts_run(t) > before + 1);
    CHECK_INT(res.n, 1000);
    CHECK(!res.more);
    for (int i = 0; i < 1000; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", 501 + i);
        CHECK_STR(res.jobs[i]->id, id);
    }
}

/* ---- what puts jobs back where the search comes by ------------------------------------------------- */

static void add_delayed(struct fx *t, int n)
{
    struct emq__add_entry *en = calloc(SOME, sizeof *en);

    fx_unchecked(t);
    assert_non_null(en);
    for (int i = 0; i < SOME; i++) {
        en[i] = fx_entry("q", "x");
        en[i].delay_ms = 100000;
        en[i].priority = i % 2;
    }
    for (int i = 0; i < n; i += SOME)
        must_add_many(t, en, SOME);
    free(en);
}

REDIS_TEST(a_thousand_delays_are_changed_in_several_scripts_and_each_once)
{
    struct emq__bulk_req req = {.call = {S("session"), 1},
                                .queue = S("q"),
                                .change = {.kind = EMQ__CHANGE_DELAY, .delay_ms = 50000},
                                .state = EMQ_DELAYED,
                                .limit = 1000};

    add_delayed(t, LONG);
    for (int times = 0; times < 2; times++) {
        int64_t before = scripts_run(t);
        struct emq__bulk_res res = bulk(t, req);
        CHECK(times == 0 ? scripts_run(t) > before + 2 : scripts_run(t) == before + 1);
        CHECK_INT(res.count, 1000);
        CHECK(res.more);
        CHECK_STR(res.last_id, "1000");
    }
    CHECK_DO("1000", "ZCOUNT emq:q:delayed -inf (%lld",
             (long long)(must_get(t, "q", S("1001"))->due_at_ms * 4096));
    CHECK_DO("1\n2", "ZRANGE emq:q:delayed 0 1");
    CHECK_INT(must_get(t, "q", S("1000"))->delay_ms, 50000);
    CHECK_INT(must_get(t, "q", S("1001"))->delay_ms, 100000);
}

REDIS_TEST(a_thousand_priorities_are_changed_in_several_scripts_and_each_once)
{
    struct emq__bulk_req req = {.call = {S("session"), 1},
                                .queue = S("q"),
                                .change = {.kind = EMQ__CHANGE_PRIORITY, .priority = 0},
                                .state = EMQ_WAITING,
                                .limit = 1000};

    add_long(t);
    int64_t before = scripts_run(t);
    struct emq__bulk_res res = bulk(t, req); /* to the end of the same line */
    CHECK(scripts_run(t) > before + 2);
    CHECK_INT(res.count, 1000);
    CHECK(res.more);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG);
    CHECK_DO(
        "1001\n1000", "EVAL %s 0",
        "local b = 'emq:q:wait' return {redis.call('LINDEX', b, -1), redis.call('LINDEX', b, 0)}");
}

REDIS_TEST(all_delayed_jobs_are_promoted_into_their_lines)
{
    struct emq__bulk_req req = {
        .queue = S("q"), .change.kind = EMQ__CHANGE_PROMOTE, .state = EMQ_DELAYED, .limit = 1000};
    int64_t count = 0;

    add_delayed(t, LONG);
    for (bool more = true; more;) {
        struct emq__bulk_res res = bulk(t, req);
        count += res.count;
        more = res.more;
    }
    CHECK_INT(count, LONG);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], LONG / 2);
    CHECK_INT(stats(t, "q").count[EMQ_PRIORITIZED], LONG / 2);
}

/* ---- long lists ------------------------------------------------------------------------------------ */

REDIS_TEST(a_job_far_inside_a_long_list_is_found_in_several_scripts)
{
    struct emq__find_req req = {.prefix = FX_PREFIX,
                                .queue = S("q"),
                                .state = EMQ_WAITING,
                                .after_id = S("g30000"),
                                .limit = 1};
    struct emq__find_res res;

    fx_unchecked(t);
    must_add(t, "q", "x");
    DO("EVAL %s 0", "for i = 1, 60000 do redis.call('LPUSH', 'emq:q:wait', 'g' .. i) end "
                    "redis.call('COPY', 'emq:q:1', 'emq:q:g30001')"
                    "redis.call('COPY', 'emq:q:1', 'emq:q:g29999')");
    for (int newest = 0; newest < 2; newest++) {
        req.newest_first = newest;
        for (int hint = 0; hint < 2; hint++) {
            req.offset = !hint ? 0 : newest ? 30000 : 30000 + 77;
            int64_t before = scripts_run(t);
            CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
            CHECK(hint ? scripts_run(t) == before + 1 : scripts_run(t) > before + 1);
            CHECK_INT(res.n, 1);
            CHECK_STR(res.jobs[0]->id, newest ? "g29999" : "g30001");
        }
    }
    req.after_id = S("nowhere");
    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_NOT_FOUND);
}

REDIS_TEST(a_retry_that_is_due_behind_thousands_of_delayed_jobs_is_known)
{
    struct emq__stats_req req = {.prefix = FX_PREFIX, .queue = S("q")};
    struct emq__stats_res res;

    add_delayed(t, LONG);
    CHECK_INT(stats(t, "q").retry_delayed, 0);
    must_add(t, "q", "x");
    retry_ok(t, must_take(t, "q"), 200000);
    CHECK_STATUS(FX_CALL(t, stats, &req, &res), EMQ_OK); /* not asked to look everywhere */
    CHECK_INT(res.retry_delayed, 0);
    req.ending = true;
    CHECK_STATUS(FX_CALL(t, stats, &req, &res), EMQ_OK);
    CHECK(res.retry_delayed > 0);
}
