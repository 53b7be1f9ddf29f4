/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on SQLite: what a function changes is committed with the completion of its job, or
 * nothing is.
 */
#include "effect_sqlite.h"

#include "base/buf.h"
#include "base/clock.h"
#include "engine/sqlite/effect_text.h"

#include <unistd.h>

/* ---- both, or neither ----------------------------------------------------------------------------- */

EFFECT_TEST(an_effect_and_the_completion_of_its_job_are_there_together)
{
    struct emq__job *j = start_with_table(t);
    emq_str before = event_cursor(t, "q");
    struct script s = {.sql = (const char *const[]){INSERT, INSERT, NULL}};
    struct emq__effect_res res = effect_fn(t, j, run_script, &s, LIMIT_MS, EMQ_OK);

    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_INT(res.state, EMQ_COMPLETED_STATE);
    CHECK_INT(res.now_ms, t->now_ms);
    CHECK_INT(s.runs, 1);
    CHECK(pthread_equal(s.thread, pthread_self()));
    CHECK_EVENTS(t, "q", before.ptr, "completed 2, drained");
    CHECK_INT(stats(t, "q").totals.completed, 2);
    struct emq__job *ended = must_get(t, "q", j->id);
    CHECK_INT(ended->state, EMQ_COMPLETED_STATE);
    CHECK_INT(ended->attempts_made, 1);
    CHECK_STR(ended->result.bytes, "{\"done\":1}");
    CHECK_INT(ledger(t), 2);
}

EFFECT_TEST(an_effect_is_known_to_be_done)
{
    struct emq__job *j = start_with_table(t);
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S("q"), .id = j->id, .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(effect(t, j, SCRIPT(INSERT)), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK_STR(res.markers[0].step, "ledger");
    CHECK_INT(res.markers[0].state, EMQ__MARKER_DONE);
    CHECK_STR_EQ(res.markers[0].token, j->token);
    CHECK_STR(res.markers[0].result.bytes, "{\"done\":1}");
    CHECK_INT(res.markers[0].done_at_ms, t->now_ms);
    CHECK_INT(res.markers[0].expires_at_ms, t->now_ms + KEEP_MS);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_EFFECT_DONE);
}

EFFECT_TEST(an_effect_that_is_known_to_be_done_is_left_out_and_its_job_completed)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql = (const char *const[]){INSERT, NULL}};

    CHECK_STATUS(effect(t, j, &s), EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP),
                 EMQ_OK);
    CHECK_STATUS(effect(t, must_take(t, "q"), &s), EMQ_OK);
    CHECK_INT(s.runs, 1);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    CHECK_STATUS(effect(t, must_take(t, "q"), &s), EMQ_OK);
    CHECK_INT(s.runs, 2);
    CHECK_INT(ledger(t), 2);
}

EFFECT_TEST(an_effect_that_was_only_claimed_is_made)
{
    struct emq__job *j = start_with_table(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    req.step = S("ledger");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_STATUS(effect(t, taken_again(t), SCRIPT(INSERT)), EMQ_OK);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(a_function_that_says_no_leaves_nothing)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql = (const char *const[]){INSERT, NULL}, .answer = 3};
    struct emq__effect_res res = effect_fn(t, j, run_script, &s, LIMIT_MS, EMQ_OK);

    CHECK_STATUS(res.outcome, EMQ_FAILED);
    CHECK_INT(res.state, EMQ_ACTIVE);
    CHECK_INT(s.runs, 1);
    check_untouched(t, j);
}

EFFECT_TEST(a_function_whose_statement_fails_leaves_nothing)
{
    struct emq__job *j = start_with_table(t);

    CHECK_STATUS(effect(t, j, SCRIPT(INSERT, "INSERT INTO nowhere VALUES (1)")), EMQ_FAILED);
    check_untouched(t, j);
}

static int sleep_over(sqlite3 *db, void *arg)
{
    int64_t end = emq__mono_now().us + 5000;

    (void)arg;
    (void)sqlite3_exec(db, INSERT, NULL, NULL, NULL);
    while (emq__mono_now().us < end)
        usleep(1000);
    return 0;
}

EFFECT_TEST(a_function_that_takes_longer_than_its_limit_leaves_nothing)
{
    struct emq__job *j = start_with_table(t);
    struct emq__effect_res res = effect_fn(t, j, sleep_over, NULL, 5, EMQ_OK);

    CHECK_STATUS(res.outcome, EMQ_TIMEOUT);
    CHECK_INT(res.state, EMQ_ACTIVE);
    check_untouched(t, j);
}

EFFECT_TEST(a_statement_that_does_not_end_is_ended_by_the_limit)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql = (const char *const[]){
                           INSERT,
                           "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
                           "SELECT count(*) FROM c",
                           NULL}};

    CHECK_STATUS(effect_fn(t, j, run_script, &s, 20, EMQ_OK).outcome, EMQ_TIMEOUT);
    check_untouched(t, j);
}

static int insert_on_and_on(sqlite3 *db, void *arg)
{
    int rc = SQLITE_OK;

    (void)arg;
    while (rc == SQLITE_OK)
        rc = sqlite3_exec(db, INSERT, NULL, NULL, NULL);
    return rc;
}

EFFECT_TEST(short_statements_that_do_not_end_are_ended_by_the_limit)
{
    struct emq__job *j = start_with_table(t);

    CHECK_STATUS(effect_fn(t, j, insert_on_and_on, NULL, 20, EMQ_OK).outcome, EMQ_TIMEOUT);
    check_untouched(t, j);
}

/* The largest piece of memory that SQLite asked for. */
static int run_text_watched(sqlite3 *db, void *arg)
{
    char problem[200];
    int statements, now, *largest = arg;
    struct emq__buf text;

    emq__buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 10000; i++)
        emq__buf_printf(&text, "%s;\n", INSERT);
    (void)sqlite3_status(SQLITE_STATUS_MALLOC_SIZE, &now, largest, 1);
    int rc = emq__sqlite_run_text(db, emq__buf_view(&text), &statements, problem, sizeof problem);
    (void)sqlite3_status(SQLITE_STATUS_MALLOC_SIZE, &now, largest, 0);
    CHECK_INT(statements, 10000);
    emq__buf_free(&text);
    return rc;
}

EFFECT_TEST(a_long_text_is_not_copied_for_each_of_its_statements)
{
    struct emq__job *j = start_with_table(t);
    int largest = 0;

    CHECK_STATUS(effect_fn(t, j, run_text_watched, &largest, 60000, EMQ_OK).outcome, EMQ_OK);
    CHECK(largest > 0 && largest < 200000);
}

/* ---- whose job it is ------------------------------------------------------------------------------ */

EFFECT_TEST(a_former_owner_is_told_that_it_is_lost_and_its_function_is_not_run)
{
    struct emq__job *old = start_with_table(t);
    struct script s = {.sql = (const char *const[]){INSERT, NULL}};
    struct emq__job *j = taken_again(t);
    struct emq__effect_res res = effect_fn(t, old, run_script, &s, LIMIT_MS, EMQ_OK);

    CHECK_STATUS(res.outcome, EMQ_LOST);
    CHECK_INT(res.state, EMQ_ACTIVE);
    CHECK_INT(s.runs, 0);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"refused\"");
    check_untouched(t, j);
}

EFFECT_TEST(a_lock_that_ended_is_enough_until_somebody_recovers_the_job)
{
    struct emq__job *j = start_with_table(t);

    advance(t, FX_LOCK_MS + 1);
    CHECK_STATUS(effect(t, j, SCRIPT(INSERT)), EMQ_OK);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(an_effect_of_a_job_or_queue_that_is_not_there_is_not_run)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql = (const char *const[]){INSERT, NULL}};

    settle_ok(t, j);
    CHECK_STATUS(effect(t, j, &s), EMQ_LOST);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATUS(effect(t, j, &s), EMQ_NOT_FOUND);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("nowhere"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res;
    CHECK_STATUS(emq__sqlite_effect(t->e, &req, run_script, &s, LIMIT_MS, &res, &t->mem, &t->err),
                 EMQ_OK);
    CHECK_STATUS(res.outcome, EMQ_NOT_FOUND);
    CHECK_INT(s.runs, 0);
}

EFFECT_TEST(an_effect_is_a_completion_by_its_owner_with_a_limit_and_an_end)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql = (const char *const[]){INSERT, NULL}};

    for (int i = 0; i < 4; i++) {
        struct emq__settle_entry en =
            fx_settle(j, i == 0 ? EMQ__SETTLE_FAILED : EMQ__SETTLE_COMPLETED);
        struct emq__effect_req req = {
            .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = i == 1 ? 0 : KEEP_MS};
        struct emq__effect_res res;
        if (i == 2)
            en.auth = (struct emq__auth){.admin = EMQ_STR_LIT("ann")};
        CHECK_STATUS(emq__sqlite_effect(t->e, &req, run_script, &s, i == 3 ? 0 : LIMIT_MS, &res,
                                        &t->mem, &t->err),
                     EMQ_E_INVALID);
    }
    CHECK_INT(s.runs, 0);
    check_untouched(t, j);
}

EFFECT_TEST(an_effect_of_a_job_whose_record_is_not_kept_leaves_the_effect_alone)
{
    struct emq__job *j = start_with_table(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res;

    en.keep = (struct emq__keep){.count = 0};
    CHECK_STATUS(emq__sqlite_effect(t->e, &req, run_script, SCRIPT(INSERT), LIMIT_MS, &res, &t->mem,
                                    &t->err),
                 EMQ_OK);
    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_INT(res.state, 0);
    CHECK_STATE(t, "q", j->id, 0);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(a_repeated_effect_is_answered_by_its_receipt_and_not_made_again)
{
    struct emq__job *j = start_with_table(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    struct emq__effect_req req = {.call = {EMQ_STR_LIT("session-1"), 1},
                                  .prefix = FX_PREFIX,
                                  .queue = S("q"),
                                  .entry = &en,
                                  .keep_ms = KEEP_MS};
    struct emq__effect_res res;
    struct script s = {.sql = (const char *const[]){INSERT, NULL}};

    for (int i = 0; i < 2; i++) {
        CHECK_STATUS_ERR(
            emq__sqlite_effect(t->e, &req, run_script, &s, LIMIT_MS, &res, &t->mem, &t->err),
            EMQ_OK, &t->err);
        CHECK_STATUS(res.outcome, EMQ_OK);
        CHECK_INT(res.state, EMQ_COMPLETED_STATE);
        CHECK_INT(s.runs, 1);
    }
    CHECK_INT(ledger(t), 1);
}
