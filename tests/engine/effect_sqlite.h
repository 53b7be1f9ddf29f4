/* SPDX-License-Identifier: MIT
 *
 * The application of the tests of transactional effects on SQLite.
 */
#ifndef EMQ_TESTS_EFFECT_SQLITE_H
#define EMQ_TESTS_EFFECT_SQLITE_H

#include "effects.h"

#include "engine/sqlite/effect.h"

#include <pthread.h>
#include <sqlite3.h>

enum { LIMIT_MS = 60000 }; /* of tests that are not about the limit */

#define EFFECT_TEST(test_name)           \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    FX_ON_SQLITE_MEMORY(test_name)       \
    static void test_name(struct fx *t)

/* Statements, run one after the other. */
struct script {
    const char *const *sql;
    bool deaf;  /* goes on behind one that failed, and says that all is well */
    int answer; /* when all is well */
    int runs;
    pthread_t thread;
};

static inline int run_script(sqlite3 *db, void *arg)
{
    struct script *s = arg;

    s->runs++;
    s->thread = pthread_self();
    for (size_t i = 0; s->sql[i]; i++)
        if (sqlite3_exec(db, s->sql[i], NULL, NULL, NULL) != SQLITE_OK && !s->deaf)
            return 1;
    return s->answer;
}

static inline struct emq__effect_res effect_fn(struct fx *t, const struct emq__job *j,
                                               int (*fn)(sqlite3 *, void *), void *arg,
                                               int64_t limit_ms, emq_status expected)
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

static inline emq_status effect(struct fx *t, const struct emq__job *j, struct script *s)
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

static inline int run_query(sqlite3 *db, void *arg)
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
static inline int64_t ask(struct fx *t, const char *sql)
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

static inline int64_t ledger(struct fx *t)
{
    return ask(t, "SELECT count(*) FROM ledger");
}

static inline struct emq__job *start(struct fx *t)
{
    fx_unchecked(t);
    return add_and_take(t);
}

/* A table and nothing in it. */
static inline struct emq__job *start_with_table(struct fx *t)
{
    CHECK_STATUS(effect(t, start(t), SCRIPT(CREATE)), EMQ_OK);
    return add_and_take(t);
}

static inline void check_untouched(struct fx *t, const struct emq__job *j)
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

#endif
