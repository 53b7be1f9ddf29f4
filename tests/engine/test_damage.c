/* SPDX-License-Identifier: MIT
 *
 * Records that were damaged behind the library's back: the queue goes on, and what is wrong can be
 * seen. Only for the SQLite file, whose rows can be reached.
 */
#include "lib/engine_fixture.h"

#include <sqlite3.h>

static void sql(struct fx *t, const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    CHECK_INT(sqlite3_open_v2(t->file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

#define DAMAGE_TEST(test_name)           \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    static void test_name(struct fx *t)

/* Takes and completes until nothing comes any more. */
static int64_t work_off(struct fx *t)
{
    struct emq__taken taken;

    do {
        taken = take_n(t, "q", 3);
        for (size_t i = 0; i < taken.n; i++)
            settle_ok(t, taken.jobs[i]);
    } while (taken.n || taken.deferred);
    return stats(t, "q").totals.completed;
}

static void good_jobs_run(struct fx *t, const char *damage)
{
    fx_unchecked(t);
    must_add_id(t, "q", "bad");
    for (int i = 0; i < 10; i++)
        must_add(t, "q", "good");
    sql(t, damage);
    CHECK(work_off(t) >= 10);
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.count[EMQ_WAITING], 0);
    CHECK_INT(s.count[EMQ_ACTIVE], 0);
}

DAMAGE_TEST(a_first_job_with_broken_options_does_not_block_the_queue)
{
    good_jobs_run(t, "UPDATE emq_job SET opts = '{\"attempts\":' WHERE id = 'bad'");
}

DAMAGE_TEST(a_first_job_without_data_does_not_block_the_queue)
{
    good_jobs_run(t, "UPDATE emq_job SET data = NULL WHERE id = 'bad'");
}

DAMAGE_TEST(a_first_job_with_an_unknown_kind_of_data_does_not_block_the_queue)
{
    good_jobs_run(t, "UPDATE emq_job SET data_kind = 99 WHERE id = 'bad'");
}

DAMAGE_TEST(a_first_job_whose_data_is_a_number_does_not_block_the_queue)
{
    good_jobs_run(t, "UPDATE emq_job SET data = 12.5 WHERE id = 'bad'");
}

DAMAGE_TEST(a_broken_list_of_traces_does_not_stop_a_failure_from_being_recorded)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    sql(t, "UPDATE emq_job SET stacktrace = '[\"half'");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.reason = S("reason");
    en.stack = S("trace");
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
    CHECK_STR(must_get(t, "q", j->id)->failed_reason, "reason");
}

DAMAGE_TEST(a_dedup_id_whose_job_vanished_lets_a_new_job_in)
{
    struct emq__dedup d = {.id = S("k")};

    fx_unchecked(t);
    add_dedup(t, "q", d);
    sql(t, "DELETE FROM emq_job");
    struct emq__added a = add_dedup(t, "q", d);
    CHECK_STATUS(a.outcome, EMQ_OK);
    a = add_dedup(t, "q", d);
    CHECK_STATUS(a.outcome, EMQ_DEDUPLICATED);
    CHECK_STATE(t, "q", a.id, EMQ_WAITING);
}

DAMAGE_TEST(a_vanished_job_can_be_settled_by_nobody_and_is_not_made_again)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    sql(t, "DELETE FROM emq_job");
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_FAILED)).outcome, EMQ_NOT_FOUND);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    assert_null(get_job(t, "q", j->id));
}

static int broken_lines;

static void count_broken(void *user, const char *line)
{
    (void)user;
    (void)line;
    broken_lines++;
}

DAMAGE_TEST(a_dump_shows_counters_and_rows_that_do_not_fit)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(emq__check_dump(&d, count_broken, NULL), 0);
    sql(t, "DELETE FROM emq_job WHERE id = '1'");
    d = dump(t, "q");
    CHECK(emq__check_dump(&d, count_broken, NULL) > 0);
}

DAMAGE_TEST(a_dump_counts_rows_that_belong_to_no_job)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    sql(t, "INSERT INTO emq_log (jid, n, line) VALUES (4711, 1, 'nobody''s')");
    CHECK(dump(t, "q").stray > 0);
}
