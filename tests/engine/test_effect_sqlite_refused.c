/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on SQLite: what its function may not do is refused, and nothing of it happens.
 */
#include "effect_sqlite.h"

EFFECT_TEST(what_would_end_the_transaction_or_touch_the_queue_is_refused_by_name)
{
    static const struct {
        const char *sql, *named;
    } list[] = {
        {"BEGIN", "BEGIN"},
        {"COMMIT", "COMMIT"},
        {"END", "COMMIT"},
        {"ROLLBACK", "ROLLBACK"},
        {"SAVEPOINT x", "savepoint"},
        {"ROLLBACK TO x", "savepoint"},
        {"RELEASE x", "savepoint"},
        {"ATTACH ':memory:' AS a", "ATTACH"},
        {"DETACH main", "DETACH"},
        {"PRAGMA user_version = 7", "PRAGMA user_version"},
        {"PRAGMA foreign_keys", "PRAGMA foreign_keys"},
        {"SELECT * FROM pragma_table_info('ledger')", "PRAGMA table_info"},
        {"SELECT count(*) FROM emq_job", "emq_job"},
        {"SELECT 1 FROM EMQ_Job", "EMQ_Job"},
        {"SELECT id FROM emq_jobs", "emq_"},
        {"INSERT INTO emq_meta VALUES (1, 'paused', '1')", "emq_meta"},
        {"UPDATE emq_job SET state = 1", "emq_job"},
        {"DELETE FROM emq_marker", "emq_marker"},
        {"DROP TABLE emq_job", "emq_job"},
        {"ALTER TABLE emq_job RENAME TO mine", "emq_job"},
        {"CREATE TABLE emq_mine (n)", "emq_mine"},
        {"CREATE TABLE EMQ_MINE (n)", "EMQ_MINE"},
        {"CREATE TABLE mine AS SELECT * FROM emq_event", "emq_event"},
        {"CREATE INDEX mine ON emq_job (name)", "emq_job"},
        {"CREATE INDEX emq_mine ON ledger (n)", "emq_mine"},
        {"CREATE VIEW emq_mine AS SELECT 1", "emq_mine"},
        {"CREATE TRIGGER mine AFTER INSERT ON emq_job BEGIN SELECT 1; END", "emq_job"},
        {"CREATE TEMP TABLE mine (n)", "mine"},
        {"ALTER TABLE ledger RENAME TO emq_mine", "emq_"},
        {"ALTER TABLE ledger RENAME TO EMQ_mine", "emq_"},
        {"ANALYZE", "emq_"},
        {"DROP INDEX emq_job_place", "emq_job"},
    };

    struct emq__job *j = start_with_table(t);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        struct script s = {.sql = (const char *const[]){INSERT, list[i].sql, NULL}};
        for (int deaf = 0; deaf < 2; deaf++) {
            s.deaf = deaf != 0;
            (void)effect_fn(t, j, run_script, &s, LIMIT_MS, EMQ_E_INVALID);
            if (!strstr(t->err.text, list[i].named))
                fail_msg("%s: \"%s\" does not name %s", list[i].sql, t->err.text, list[i].named);
        }
    }
    check_untouched(t, j);
    CHECK_INT(ask(t, "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%mine%'"), 0);
}

/* Without the authorizer it reaches the queue. */
static int go_around(sqlite3 *db, void *script)
{
    (void)sqlite3_set_authorizer(db, NULL, NULL);
    return run_script(db, script);
}

EFFECT_TEST(a_function_that_goes_around_its_guard_so_that_its_job_can_t_end_leaves_nothing)
{
    static const char *const list[] = {"DELETE FROM emq_job",
                                       "UPDATE emq_job SET fence = fence + 1",
                                       "UPDATE emq_job SET state = 1"};
    struct emq__job *j = start_with_table(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        struct script s = {.sql = (const char *const[]){INSERT, list[i], NULL}};
        (void)effect_fn(t, j, go_around, &s, LIMIT_MS, EMQ_E_INVALID);
        CHECK_HAS(S(t->err.text), "changed the queue");
        CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
        CHECK_INT(ledger(t), 0);
    }
    check_untouched(t, j);
}

EFFECT_TEST(a_trigger_of_the_application_does_not_reach_the_queue_either)
{
    struct emq__job *j = start_with_table(t);

    (void)effect_fn(t, j, run_script,
                    SCRIPT("CREATE TRIGGER mine AFTER INSERT ON ledger "
                           "BEGIN DELETE FROM emq_job; END",
                           INSERT),
                    LIMIT_MS, EMQ_E_INVALID);
    CHECK_HAS(S(t->err.text), "emq_job");
    check_untouched(t, j);
}

EFFECT_TEST(the_application_may_do_everything_with_tables_of_its_own)
{
    struct emq__job *j = start_with_table(t);

    CHECK_STATUS(effect(t, j,
                        SCRIPT("CREATE TABLE my_emq_copy (emq_id INTEGER PRIMARY KEY, n)",
                               "CREATE INDEX my_index ON my_emq_copy (n)",
                               "CREATE TRIGGER my_trigger AFTER INSERT ON my_emq_copy "
                               "BEGIN INSERT INTO ledger VALUES (new.emq_id); END",
                               "INSERT INTO my_emq_copy (n) VALUES (1), (2)",
                               "UPDATE my_emq_copy SET emq_id = 9 WHERE emq_id = 2",
                               "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
                               "WHERE n < 2000) INSERT INTO ledger SELECT n FROM c",
                               "ALTER TABLE my_emq_copy ADD COLUMN more",
                               "ALTER TABLE my_emq_copy RENAME TO my_other",
                               "ALTER TABLE my_other RENAME COLUMN more TO emq_more",
                               "ALTER TABLE my_other RENAME TO my_emq_copy",
                               "CREATE VIEW my_view AS SELECT sum(n) AS n FROM my_emq_copy",
                               "DELETE FROM ledger WHERE n > 2", "DROP TABLE my_emq_copy")),
                 EMQ_OK);
    CHECK_INT(ledger(t), 4);
}

EFFECT_TEST(a_statement_that_rolls_back_takes_all_with_it_and_nothing_behind_it_is_committed)
{
    struct emq__job *j = start_with_table(t);
    struct script s = {.sql =
                           (const char *const[]){INSERT, "CREATE UNIQUE INDEX once ON ledger (n)",
                                                 "INSERT OR ROLLBACK INTO ledger VALUES (1)",
                                                 "INSERT INTO ledger VALUES (2)", NULL}};

    CHECK_STATUS(effect(t, j, &s), EMQ_FAILED);
    s.deaf = true;
    (void)effect_fn(t, j, run_script, &s, LIMIT_MS, EMQ_E_INVALID);
    CHECK_HAS(S(t->err.text), "OR ROLLBACK");
    check_untouched(t, j);
}

EFFECT_TEST(the_foreign_keys_of_the_application_hold)
{
    struct emq__job *j = start_with_table(t);

    CHECK_STATUS(
        effect(t, j,
               SCRIPT("CREATE TABLE a (id INTEGER PRIMARY KEY)",
                      "CREATE TABLE b (a INTEGER REFERENCES a(id))",
                      "CREATE TABLE c (a INTEGER REFERENCES a(id) DEFERRABLE INITIALLY DEFERRED)")),
        EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(effect(t, j, SCRIPT(INSERT, "INSERT INTO b VALUES (7)")), EMQ_FAILED);
    (void)effect_fn(t, j, run_script, SCRIPT(INSERT, "INSERT INTO c VALUES (7)"), LIMIT_MS,
                    EMQ_E_INVALID);
    CHECK_HAS(S(t->err.text), "foreign key");
    check_untouched(t, j);
    j = add_and_take(t);
    CHECK_STATUS(effect(t, j, SCRIPT("INSERT INTO c VALUES (7)", "INSERT INTO a VALUES (7)")),
                 EMQ_OK);
}

static int leave_open(sqlite3 *db, void *arg)
{
    sqlite3_stmt **st = arg;

    if (sqlite3_exec(db, INSERT ";" INSERT, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT n FROM ledger", -1, st, NULL) != SQLITE_OK)
        return 1;
    return sqlite3_step(*st) == SQLITE_ROW ? 0 : 1;
}

EFFECT_TEST(a_statement_that_was_left_open_does_not_keep_the_transaction_open)
{
    struct emq__job *j = start_with_table(t);
    sqlite3_stmt *st = NULL;

    CHECK_STATUS(effect_fn(t, j, leave_open, &st, LIMIT_MS, EMQ_OK).outcome, EMQ_OK);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_INT(ledger(t), 2);
    sqlite3_finalize(st);
}
