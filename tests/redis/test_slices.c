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
