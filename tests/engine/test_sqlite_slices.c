/* SPDX-License-Identifier: MIT
 *
 * Acts whose work has no bound of its own end when their time is over: each does something, says that
 * there is more, and the calls together do all of it. Here the time is over at once.
 */
#include "client/client.h"
#include "engine/sqlite/ground.h"
#include "engine/sqlite/stage.h"
#include "lib/test.h"

#include <unistd.h>

enum { JOBS = 3 * SQ_SLICE_MIN + 5 };

#define P EMQ_STR_LIT("emq")
#define Q EMQ_STR_LIT("q")

struct fixture {
    struct emq__engine *e;
    struct emq__arena mem;
    emq_error err;
    char path[600];
};

static struct fixture f; /* of the running test */

#define CALL(act, req, res) \
    CHECK_STATUS_ERR(f.e->ops->act(f.e, req, res, &f.mem, &f.err), EMQ_OK, &f.err)

static void begin(void)
{
    struct emq__engine_config cfg = {.stop_clock = true};

    f = (struct fixture){0};
    snprintf(f.path, sizeof f.path, "%s/q.db", test_temp_dir());
    cfg.url.path = emq_cstr(f.path);
    CHECK_STATUS_ERR(emq__sqlite_open(&f.e, &cfg, &f.mem, &f.err), EMQ_OK, &f.err);
    ((struct sq *)f.e)->slice_us = 0;
}

static void end(void)
{
    f.e->ops->close(f.e);
    emq__arena_free(&f.mem);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    CHECK_INT(sqlite3_open_v2(f.path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

static void advance(int64_t ms)
{
    CHECK_STATUS(f.e->ops->advance(f.e, ms, NULL), EMQ_OK);
}

static void add_jobs(int64_t delay_ms, const char *stage)
{
    struct emq__add_entry en = {.prefix = P,
                                .queue = Q,
                                .name = EMQ_STR_LIT("n"),
                                .opts = EMQ_STR_LIT("{}"),
                                .data = {EMQ__KIND_JSON, EMQ_STR_LIT("1")},
                                .delay_ms = delay_ms};
    const struct emq__add_entry *list[JOBS];
    struct emq__add_req req = {.entries = list, .n = JOBS, .stage = emq_cstr(stage)};
    struct emq__add_res res;

    for (int i = 0; i < JOBS; i++)
        list[i] = &en;
    CALL(add, &req, &res);
}

static struct emq__taken take(int32_t count)
{
    struct emq__take_req req = {
        .prefix = P,
        .queue = Q,
        .take = {.worker = EMQ_STR_LIT("w"), .lock_ms = 1000, .count = count}};
    struct emq__take_res res;

    CALL(take, &req, &res);
    return res.taken;
}

static void fail_all(struct emq__keep keep)
{
    struct emq__taken t = take(JOBS);
    struct emq__settle_entry en[JOBS];
    const struct emq__settle_entry *list[JOBS];
    struct emq__settle_req req = {.prefix = P, .queue = Q, .entries = list, .n = t.n};
    struct emq__settle_res res;

    CHECK_INT(t.n, JOBS);
    for (size_t i = 0; i < t.n; i++) {
        en[i] = (struct emq__settle_entry){.id = t.jobs[i]->id,
                                           .auth.token = t.jobs[i]->token,
                                           .kind = EMQ__SETTLE_FAILED,
                                           .keep = keep};
        list[i] = &en[i];
    }
    CALL(settle, &req, &res);
}

static int64_t count_of(int state)
{
    struct emq__stats_req req = {.prefix = P, .queue = Q};
    struct emq__stats_res res;

    CALL(stats, &req, &res);
    return res.count[state];
}

static int64_t rows(const char *where)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    char text[200];

    snprintf(text, sizeof text, "SELECT count(*) FROM %s", where);
    CHECK_INT(sqlite3_open(f.path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, text, -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

/* One call of an act over all jobs: how many it changed; *more as it says. */
typedef int64_t (*act_fn)(bool *more);

/* Goes on until an act says that it was all; that took several, and each did a part. */
static void takes_several_acts(act_fn act)
{
    int64_t sum = 0;
    int acts = 0;

    for (bool more = true; more; acts++) {
        int64_t n = act(&more);
        CHECK(acts < 20);
        CHECK(!more || n >= SQ_SLICE_MIN);
        CHECK(n < JOBS);
        sum += n;
    }
    CHECK_INT(sum, JOBS);
    CHECK(acts > 1);
}

static int64_t bulk(enum emq__change_kind kind, int state, bool *more)
{
    struct emq__bulk_req req = {
        .prefix = P, .queue = Q, .change.kind = kind, .state = state, .limit = EMQ__BATCH_MAX};
    struct emq__bulk_res res;

    CALL(bulk, &req, &res);
    *more = res.more;
    return res.count;
}

static int64_t retry(bool *more)
{
    return bulk(EMQ__CHANGE_RETRY, EMQ_FAILED_STATE, more);
}

static int64_t promote_all(bool *more)
{
    return bulk(EMQ__CHANGE_PROMOTE, EMQ_DELAYED, more);
}

static int64_t remove_all(bool *more)
{
    return bulk(EMQ__CHANGE_REMOVE, EMQ_WAITING, more);
}

EMQ_TEST(bulk_changes_end_with_their_time_and_say_so)
{
    begin();
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = -1});
    takes_several_acts(retry);
    CHECK_INT(count_of(EMQ_WAITING), JOBS);
    takes_several_acts(remove_all);
    add_jobs(60000, "");
    takes_several_acts(promote_all);
    CHECK_INT(count_of(EMQ_WAITING), JOBS);
    end();
}

EMQ_TEST(a_bulk_cancel_of_active_jobs_goes_on_behind_its_last_one)
{
    char last[EMQ_ID_MAX];
    struct emq__bulk_req req = {.prefix = P,
                                .queue = Q,
                                .change.kind = EMQ__CHANGE_CANCEL,
                                .state = EMQ_ACTIVE,
                                .limit = EMQ__BATCH_MAX};
    struct emq__bulk_res res = {.more = true};
    int64_t sum = 0;
    int acts = 0;

    begin();
    add_jobs(0, "");
    CHECK_INT(take(JOBS).n, JOBS);
    for (; res.more; acts++) {
        CALL(bulk, &req, &res);
        memcpy(last, res.last_id.ptr, res.last_id.len);
        req.after_id = emq_strn(last, res.last_id.len);
        sum += res.count;
    }
    CHECK_INT(sum, JOBS);
    CHECK(acts > 1);
    CHECK_INT(rows("emq_job WHERE cancel = 1"), JOBS);
    end();
}

static int64_t obliterate(bool *more)
{
    struct emq__obliterate_req req = {
        .prefix = P, .queue = Q, .force = true, .limit = EMQ__BATCH_MAX};
    struct emq__obliterate_res res;

    CALL(obliterate, &req, &res);
    *more = res.more;
    return res.count;
}

EMQ_TEST(obliteration_ends_with_its_time_and_leaves_nothing_in_the_end)
{
    begin();
    add_jobs(0, "");
    add_jobs(0, "unpublished");
    for (int i = 0; i < JOBS; i++) /* each act an event of its own */
        sql("INSERT INTO emq_event SELECT qid, 1, 1 + (SELECT count(*) FROM emq_event), 1, '{}' || "
            "char(10) FROM emq_queue; UPDATE emq_queue SET event_count = event_count + 1");
    int64_t sum = 0;
    int acts = 0;
    for (bool more = true; more; acts++) {
        sum += obliterate(&more);
        CHECK(acts < 50);
        CHECK(!more || rows("emq_queue") == 1);
        CHECK(!more || rows("emq_queue AS q WHERE event_count <> (SELECT coalesce(sum(n), 0) FROM "
                            "emq_event)") == 0);
    }
    CHECK_INT(sum, JOBS);
    CHECK(acts > 3);
    CHECK_INT(rows("emq_job") + rows("emq_event") + rows("emq_queue") + rows("emq_stage_queue"), 0);
    end();
}

EMQ_TEST(a_publication_between_the_slices_of_an_obliteration_counts_what_there_is)
{
    struct emq__publish_req req = {.prefix = P, .stage = EMQ_STR_LIT("s")};
    struct emq__publish_res res;
    bool more;

    begin();
    add_jobs(0, "");
    add_jobs(0, "s");
    while (rows("emq_stage_queue") > 0)
        (void)obliterate(&more);
    CHECK(more);
    add_jobs(0, "s");
    CALL(publish, &req, &res);
    CHECK(res.count > JOBS);
    CHECK_INT(rows("emq_job WHERE state = 1"), res.count);
    CHECK_INT(rows("emq_queue WHERE n_waiting = (SELECT count(*) FROM emq_job)"), 1);
    for (int acts = 0; more; acts++) {
        (void)obliterate(&more);
        CHECK(acts < 50);
    }
    CHECK_INT(rows("emq_job") + rows("emq_queue"), 0);
    end();
}

static int64_t promote_due(bool *more)
{
    struct emq__promote_req req = {P, Q, EMQ__BATCH_MAX};
    struct emq__promote_res res;

    CALL(promote, &req, &res);
    *more = res.more;
    return res.count;
}

EMQ_TEST(promotion_of_due_jobs_ends_with_its_time_and_says_so)
{
    begin();
    add_jobs(1000, "");
    advance(1000);
    takes_several_acts(promote_due);
    CHECK_INT(count_of(EMQ_WAITING), JOBS);
    end();
}

EMQ_TEST(a_take_promotes_a_slice_and_says_that_more_is_due)
{
    begin();
    add_jobs(1000, "");
    advance(1000);
    struct emq__taken t = take(1);
    CHECK_INT(t.n, 1);
    CHECK(t.next_due_at_ms > 0);
    CHECK(count_of(EMQ_DELAYED) > 0);
    end();
}

static int64_t sweep(bool *more)
{
    struct emq__sweep_req req = {
        .prefix = P, .queue = Q, .max_stalled = 3, .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res;

    CALL(sweep, &req, &res);
    *more = res.more;
    return (int64_t)res.n_recovered;
}

EMQ_TEST(recovery_in_slices_keeps_the_order_of_the_jobs)
{
    begin();
    add_jobs(0, "");
    CHECK_INT(take(JOBS).n, JOBS);
    advance(2000);
    takes_several_acts(sweep);
    struct emq__taken t = take(JOBS);
    CHECK_INT(t.n, JOBS);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i + 1);
        CHECK_STR(t.jobs[i]->id, id);
    }
    end();
}

EMQ_TEST(expired_records_and_stages_leave_in_slices)
{
    bool more;
    int acts = 0;

    begin();
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = -1, .age_ms = 1000});
    add_jobs(0, "given up");
    advance(2 * SQ_STAGE_LIFE_MS);
    do {
        (void)sweep(&more);
        CHECK(++acts < 20);
    } while (more);
    CHECK(acts > 1);
    CHECK_INT(rows("emq_job") + rows("emq_stage") + rows("emq_stage_queue"), 0);
    CHECK_INT(count_of(EMQ_FAILED_STATE), 0);
    end();
}

EMQ_TEST(retention_catches_up_though_each_act_removes_little)
{
    begin();
    for (int i = 0; i < 3; i++) {
        add_jobs(0, "");
        fail_all((struct emq__keep){.count = -1});
    }
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = 10}); /* as many finish as are to go */
    CHECK(count_of(EMQ_FAILED_STATE) <= 2 * JOBS);
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = 10});
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = 10});
    CHECK_INT(count_of(EMQ_FAILED_STATE), 10);
    end();
}

EMQ_TEST(a_long_stage_is_dropped_and_none_of_its_rows_is_left)
{
    struct emq__publish_req req = {.prefix = P, .stage = EMQ_STR_LIT("s"), .drop = true};
    struct emq__publish_res res;

    begin();
    add_jobs(0, "s");
    add_jobs(0, "s");
    CALL(publish, &req, &res);
    CHECK_INT(res.count, 0);
    CHECK_INT(rows("emq_job"), 0);
    CHECK_INT(rows("emq_stage"), 0);
    CHECK_INT(rows("emq_stage_queue"), 0);
    end();
}

EMQ_TEST(a_published_stage_is_put_in_its_places_in_slices)
{
    struct emq__publish_req req = {.prefix = P, .stage = EMQ_STR_LIT("s")};
    struct emq__publish_res res;

    begin();
    add_jobs(0, "s");
    add_jobs(0, "s");
    CALL(publish, &req, &res);
    CHECK_INT(res.count, 2 * JOBS);
    CHECK(rows("emq_job WHERE state = 8") > 0);
    CHECK_INT(take(1).n, 1);
    int acts = 0;
    for (bool more = true; more; acts++)
        (void)promote_due(&more);
    CHECK(acts < 20);
    CHECK_INT(rows("emq_job WHERE state = 8"), 0);
    CHECK_INT(take(EMQ__BATCH_MAX).n, 2 * JOBS - 1);
    end();
}

static size_t find(int state, int limit, bool newest_first, const char *after, const char *first)
{
    struct emq__find_req req = {.prefix = P,
                                .queue = Q,
                                .state = state,
                                .limit = limit,
                                .newest_first = newest_first,
                                .after_id = emq_cstr(after)};
    struct emq__find_res res;

    CALL(find, &req, &res);
    if (res.n > 0)
        CHECK_STR(res.jobs[0]->id, first);
    return res.n;
}

EMQ_TEST(what_is_in_its_place_is_read_though_a_published_stage_is_not_all_in_its_places)
{
    struct emq__publish_req req = {.prefix = P, .stage = EMQ_STR_LIT("s")};
    struct emq__publish_res res;
    emq_str ids[] = {EMQ_STR_LIT("2")};
    struct emq__jobs_req get = {.prefix = P, .queue = Q, .ids = ids, .n = 1};
    struct emq__jobs_res got;

    begin();
    add_jobs(0, "");
    add_jobs(0, "s");
    add_jobs(0, "s");
    CALL(publish, &req, &res);
    add_jobs(0, ""); /* behind the stage */
    CHECK_INT(take(1).n, 1);
    int64_t before = rows("emq_job WHERE state = 8");
    CHECK(before > 0);
    CHECK_INT(find(EMQ_WAITING, 5, false, "", "2"), 5);
    CHECK_INT(find(EMQ_WAITING, 5, false, "3", "4"), 5);
    CHECK_INT(find(EMQ_ACTIVE, 5, true, "", "1"), 1);
    CHECK_INT(find(EMQ_FAILED_STATE, 5, false, "", ""), 0);
    CALL(jobs, &get, &got);
    CHECK_STR(got.jobs[0]->id, "2");
    CHECK_INT(rows("emq_job WHERE state = 8"), before);
    /* What is not, is put there first. */
    CHECK_INT(find(EMQ_WAITING, 1000, false, "", "2"), 4 * JOBS - 1);
    CHECK_INT(rows("emq_job WHERE state = 8"), 0);
    end();
}

EMQ_TEST(a_job_of_a_published_stage_is_found_before_it_is_in_its_place)
{
    struct emq__publish_req req = {.prefix = P, .stage = EMQ_STR_LIT("s")};
    struct emq__publish_res res;
    char last[16];
    emq_str ids[1];
    struct emq__jobs_req get = {.prefix = P, .queue = Q, .ids = ids, .n = 1};
    struct emq__jobs_res got;

    snprintf(last, sizeof last, "%d", 2 * JOBS);
    ids[0] = emq_cstr(last);
    for (int by = 0; by < 3; by++) {
        begin();
        add_jobs(0, "s");
        add_jobs(0, "s");
        CALL(publish, &req, &res);
        CHECK(rows("emq_job WHERE state = 8") > 0);
        if (by == 0) {
            CALL(jobs, &get, &got);
            CHECK_STR(got.jobs[0]->id, last);
        } else if (by == 1) {
            CHECK_INT(find(EMQ_WAITING, 3, true, "", last), 3);
        } else {
            CHECK_INT(find(EMQ_WAITING, 3, false, last, ""), 0);
        }
        end();
        CHECK_INT(unlink(f.path), 0);
    }
}

EMQ_TEST(calls_of_the_client_go_on_until_all_is_done)
{
    emq_client *c = NULL;
    emq_error err = {0};
    int64_t n = 0;

    begin(); /* jobs are added through this handle */
    CHECK_STATUS_ERR(emq_open(&c, emq_cstr(f.path), NULL, &err), EMQ_OK, &err);
    ((struct sq *)c->e)->slice_us = 0;
    add_jobs(0, "");
    fail_all((struct emq__keep){.count = -1});
    CHECK_STATUS(emq_retry_all(c, Q, EMQ_FAILED_STATE, 0, &n, NULL), EMQ_OK);
    CHECK_INT(n, JOBS);
    CHECK_INT(take(JOBS).n, JOBS);
    CHECK_STATUS(emq_cancel_all(c, Q, EMQ_ACTIVE, &n, NULL), EMQ_OK);
    CHECK_INT(n, JOBS);
    add_jobs(60000, "");
    CHECK_STATUS(emq_promote_all(c, Q, &n, NULL), EMQ_OK);
    CHECK_INT(n, JOBS);
    CHECK_STATUS(emq_drain(c, Q, 0, &n, NULL), EMQ_OK);
    CHECK_INT(n, JOBS);
    add_jobs(0, "");
    CHECK_STATUS(emq_clean(c, Q, EMQ_WAITING, 0, 0, &n, NULL), EMQ_OK);
    CHECK_INT(n, JOBS);
    add_jobs(0, "");
    CHECK_STATUS(emq_obliterate(c, Q, 1, &n, NULL), EMQ_OK);
    CHECK_INT(n, 2 * JOBS);
    emq_close(c);
    end();
}
