/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on SQLite: what a function changes is committed with the completion of its job, or
 * nothing is.
 */
#include "effects.h"

#include "base/clock.h"
#include "engine/sqlite/effect.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 60000 }; /* of tests that are not about the limit */

#define EFFECT_TEST(test_name)           \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    FX_ON_SQLITE_MEMORY(test_name)       \
    static void test_name(struct fx *t)

/* ---- the application ----------------------------------------------------------------------------- */

/* Statements, run one after the other. */
struct script {
    const char *const *sql;
    bool deaf;  /* goes on behind one that failed, and says that all is well */
    int answer; /* when all is well */
    int runs;
    pthread_t thread;
};

static int run_script(sqlite3 *db, void *arg)
{
    struct script *s = arg;

    s->runs++;
    s->thread = pthread_self();
    for (size_t i = 0; s->sql[i]; i++)
        if (sqlite3_exec(db, s->sql[i], NULL, NULL, NULL) != SQLITE_OK && !s->deaf)
            return 1;
    return s->answer;
}

static struct emq__effect_res effect_fn(struct fx *t, const struct emq__job *j,
                                        int (*fn)(sqlite3 *, void *), void *arg, int64_t limit_ms,
                                        emq_status expected)
{
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {.prefix = FX_PREFIX,
                                        .queue = S("q"),
                                        .entry = &en,
                                        .step = S("ledger"),
                                        .keep_ms = KEEP_MS};
    struct emq__effect_res res;

    en.value = (struct emq__payload){EMQ__KIND_JSON, EMQ_STR_LIT("{\"done\":1}")};
    t->err = (emq_error){0};
    CHECK_STATUS_ERR(emq__sqlite_effect(t->e, &req, fn, arg, limit_ms, &res, &t->mem, &t->err),
                     expected, &t->err);
    return res;
}

static emq_status effect(struct fx *t, const struct emq__job *j, struct script *s)
{
    return effect_fn(t, j, run_script, s, LIMIT_MS, EMQ_OK).outcome;
}

#define SCRIPT(...)                  \
    &(struct script)                 \
    {                                \
        .sql = (const char *const[]) \
        {                            \
            __VA_ARGS__, NULL        \
        }                            \
    }
#define CREATE "CREATE TABLE IF NOT EXISTS ledger (n INTEGER)"
#define INSERT "INSERT INTO ledger VALUES (1)"

/* What a function finds: the number that a statement gives. */
struct query {
    const char *sql;
    int64_t answer;
};

static int run_query(sqlite3 *db, void *arg)
{
    struct query *q = arg;
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(db, q->sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        q->answer = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return 1; /* it only looks */
}

/* By an effect that is rolled back, of a job that stays as it is; -1: no answer. */
static int64_t ask(struct fx *t, const char *sql)
{
    struct query q = {sql, -1};

    must_add_id(t, "q", "asker");
    struct emq__take_req req = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(100)};
    struct emq__take_res res;
    CHECK_STATUS(FX_CALL(t, take, &req, &res), EMQ_OK);
    struct emq__job *j = res.taken.jobs[res.taken.n - 1];
    CHECK_STATUS(effect_fn(t, j, run_query, &q, LIMIT_MS, EMQ_OK).outcome, EMQ_FAILED);
    for (size_t i = 0; i + 1 < res.taken.n; i++)
        release_ok(t, res.taken.jobs[i], 0);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    return q.answer;
}

static int64_t ledger(struct fx *t)
{
    return ask(t, "SELECT count(*) FROM ledger");
}

static struct emq__job *start(struct fx *t)
{
    fx_unchecked(t);
    return add_and_take(t);
}

/* A table and nothing in it. */
static struct emq__job *start_with_table(struct fx *t)
{
    CHECK_STATUS(effect(t, start(t), SCRIPT(CREATE)), EMQ_OK);
    return add_and_take(t);
}

static void check_untouched(struct fx *t, const struct emq__job *j)
{
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    CHECK_INT(ledger(t), 0);
    CHECK_INT(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    CHECK_INT(dump(t, "q").stray, 0);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;
    req.step = S("ledger");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    settle_ok(t, j);
}

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

/* ---- what a function may not do ---------------------------------------------------------------- */

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

/* ---- others ------------------------------------------------------------------------------------- */

struct neighbour {
    struct fx *t;
    const struct emq__job *j;
    pthread_t thread;
    emq_status added, extended;
};

static void *work_beside(void *arg)
{
    struct neighbour *n = arg;
    struct emq__arena mem = {0};
    struct emq__add_entry en = fx_entry("q", "y");
    const struct emq__add_entry *list[] = {&en};
    const struct emq__add_req add = {.entries = list, .n = 1};
    struct emq__add_res added;
    const struct emq__extend_entry of = {FX_PREFIX, S("q"), n->j->id, n->j->token};
    const struct emq__extend_entry *entries[] = {&of};
    const struct emq__extend_req extend = {.entries = entries, .n = 1, .lock_ms = FX_LOCK_MS};
    struct emq__extend_res extended;

    n->added = n->t->e->ops->add(n->t->e, &add, &added, &mem, NULL);
    n->extended = n->t->e->ops->extend(n->t->e, &extend, &extended, &mem, NULL);
    if (n->extended == EMQ_OK)
        n->extended = extended.extended[0].outcome;
    emq__arena_free(&mem);
    return NULL;
}

static int start_neighbour(sqlite3 *db, void *arg)
{
    struct neighbour *n = arg;

    if (sqlite3_exec(db, INSERT, NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    return pthread_create(&n->thread, NULL, work_beside, n);
}

EFFECT_TEST(whoever_adds_or_renews_while_a_function_runs_is_served_behind_it)
{
    struct emq__job *other = start_with_table(t), *j = add_and_take(t);
    struct neighbour n = {.t = t, .j = other};

    CHECK_STATUS(effect_fn(t, j, start_neighbour, &n, LIMIT_MS, EMQ_OK).outcome, EMQ_OK);
    CHECK_INT(pthread_join(n.thread, NULL), 0);
    CHECK_STATUS(n.added, EMQ_OK);
    CHECK_STATUS(n.extended, EMQ_OK);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(nothing_is_held_while_an_effect_is_only_prepared)
{
    struct emq__job *j = start_with_table(t);
    struct neighbour n = {.t = t, .j = j};

    CHECK_STATUS(
        effect_fn(t, j, run_script, SCRIPT("INSERT INTO nowhere VALUES (1)"), LIMIT_MS, EMQ_OK)
            .outcome,
        EMQ_FAILED);
    (void)work_beside(&n);
    CHECK_STATUS(n.added, EMQ_OK);
    CHECK_STATUS(n.extended, EMQ_OK);
}

struct rival {
    struct fx *t;
    const struct emq__job *j;
    emq_status s;
    struct script script;
};

static void *make_effect(void *arg)
{
    struct rival *r = arg;
    struct emq__settle_entry en = fx_settle(r->j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res = {0};
    struct emq__arena mem = {0};

    r->s = emq__sqlite_effect(r->t->e, &req, run_script, &r->script, LIMIT_MS, &res, &mem, NULL);
    if (r->s == EMQ_OK)
        r->s = res.outcome;
    emq__arena_free(&mem);
    return NULL;
}

EFFECT_TEST(of_many_threads_with_one_hand_out_one_makes_the_effect)
{
    enum { THREADS = 16 };
    static const char *const sql[] = {INSERT, NULL};
    struct emq__job *j = start_with_table(t);
    struct rival r[THREADS];
    pthread_t id[THREADS];
    int ok = 0, lost = 0, runs = 0;

    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct rival){.t = t, .j = j, .script = {.sql = sql}};
        CHECK_INT(pthread_create(&id[i], NULL, make_effect, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        ok += r[i].s == EMQ_OK;
        lost += r[i].s == EMQ_LOST;
        runs += r[i].script.runs;
    }
    CHECK_INT(ok, 1);
    CHECK_INT(lost, THREADS - 1);
    CHECK_INT(runs, 1);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(effects_of_many_threads_are_all_made)
{
    enum { THREADS = 8 };
    static const char *const sql[] = {INSERT, NULL};
    struct rival r[THREADS];
    pthread_t id[THREADS];

    settle_ok(t, start_with_table(t));
    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct rival){.t = t, .j = add_and_take(t), .script = {.sql = sql}};
        CHECK_INT(pthread_create(&id[i], NULL, make_effect, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        CHECK_STATUS(r[i].s, EMQ_OK);
    }
    CHECK_INT(ledger(t), THREADS);
}

/* ---- a crash ------------------------------------------------------------------------------------- */

static int die(sqlite3 *db, void *arg)
{
    (void)arg;
    (void)sqlite3_exec(db, INSERT, NULL, NULL, NULL);
    (void)kill(getpid(), SIGKILL);
    return 0;
}

/* Another process takes the job, makes its effect, and is killed: in the function, or behind the commit. */
static void killed_worker(const char *file, bool in_fn)
{
    struct emq__arena mem = {0};
    struct emq__engine *e;
    struct emq__take_req take = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(1)};
    struct emq__take_res taken;
    struct emq__effect_res res;

    if (fx_open(FX_SQLITE_FILE, file, &e, &mem, NULL) != EMQ_OK ||
        e->ops->take(e, &take, &taken, &mem, NULL) != EMQ_OK || taken.taken.n != 1)
        _exit(1);
    struct emq__settle_entry en = fx_settle(taken.taken.jobs[0], EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    if (emq__sqlite_effect(e, &req, in_fn ? die : run_script, SCRIPT(INSERT), LIMIT_MS, &res, &mem,
                           NULL) != EMQ_OK)
        _exit(2);
    (void)kill(getpid(), SIGKILL);
}

static void run_killed_worker(struct fx *t, bool in_fn)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        killed_worker(t->file, in_fn);
        _exit(3);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#define CRASH_TEST(test_name)            \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    static void test_name(struct fx *t)

CRASH_TEST(nothing_of_an_effect_is_there_when_its_process_was_killed_in_it)
{
    settle_ok(t, start_with_table(t));
    emq_str id = must_add(t, "q", "x");
    run_killed_worker(t, true);
    CHECK_STATE(t, "q", id, EMQ_ACTIVE);
    advance(t, FX_LOCK_MS); /* the other process was later */
    struct emq__job *j = taken_again(t);
    CHECK_INT(j->attempts_started, 2);
    CHECK_INT(ledger(t), 0);
    CHECK_STATUS(effect(t, j, SCRIPT(INSERT)), EMQ_OK);
    CHECK_INT(ledger(t), 1);
}

CRASH_TEST(all_of_an_effect_is_there_when_its_process_was_killed_behind_the_commit)
{
    settle_ok(t, start_with_table(t));
    emq_str id = must_add(t, "q", "x");
    run_killed_worker(t, false);
    CHECK_STATE(t, "q", id, EMQ_COMPLETED_STATE);
    CHECK_INT(ledger(t), 1);
}
