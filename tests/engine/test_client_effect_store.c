/* SPDX-License-Identifier: MIT
 *
 * Effects that commit with the acknowledgement, by hand: what each outcome leaves behind, misuse, and the same as
 * text. On a store that can't do it, that is said.
 */
#include "client_fixture.h"

#include "base/str.h"
#include "client/effect.h"

#include <sqlite3.h>

static bool store_is(const struct fixture *f, const char *name)
{
    return strcmp(f->c->base->ops->name, name) == 0;
}

static int run_sql(struct sqlite3 *db, void *arg)
{
    return sqlite3_exec(db, arg, NULL, NULL, NULL);
}

static int count_rows(void *user, int n, char **values, char **names)
{
    (void)n, (void)names;
    *(int *)user = values[0][0] - '0';
    return 0;
}

static int read_rows(struct sqlite3 *db, void *arg)
{
    return sqlite3_exec(db, "SELECT count(*) FROM ledger", count_rows, arg, NULL);
}

/* One effect on either store; the job's result is "r". */
static emq_status effect(struct fixture *f, emq_job *job, emq_error *err)
{
    static char sql[] = "CREATE TABLE IF NOT EXISTS ledger (x); INSERT INTO ledger VALUES (1)";
    const emq_effect_opts o = {.size = sizeof o, .result = S("r")};
    const emq_str incr[] = {S("INCR"), S("ledger")};
    const emq_redis_command one = {sizeof one, incr, 2};
    const emq_redis_command *const all[] = {&one};

    return store_is(f, "redis") ? emq_effect_redis(f->c, job, all, 1, &o, err)
                                : emq_effect_sqlite(f->c, job, run_sql, sql, &o, err);
}

static emq_job *take_a(struct fixture *f)
{
    add_id(f, "a");
    return take_one(f);
}

EMQ_TEST(an_effect_by_hand_completes_the_job_with_its_result)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open(&f);
    emq_job *job = take_a(&f);
    if (store_is(&f, "sqlite") || store_is(&f, "redis")) {
        CHECK_STATUS_ERR(effect(&f, job, &err), EMQ_OK, &err);
        emq_job *now = get(&f, "a");
        CHECK_INT(emq_job_state(now), EMQ_COMPLETED_STATE);
        CHECK_STR(emq_job_result(now), "r");
        CHECK_INT(emq_job_attempts_made(now), 1);
        emq_job_free(now);
        /* It has ended: this hand-out owns nothing any more. */
        CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RETRY, "late", 0), EMQ_LOST);
        CHECK_STATUS(effect(&f, job, &err), EMQ_LOST);
    } else {
        CHECK_STATUS(effect(&f, job, &err), EMQ_E_INVALID);
        CHECK(strstr(err.text, "this queue's store is \""));
        CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
    }
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(an_effect_of_a_former_owner_is_not_made)
{
    struct fixture f;
    emq_error err = {0};
    int64_t recovered = 0;
    int rows = -1;

    fixture_open(&f);
    emq_job *zombie = take_a(&f);
    if (store_is(&f, "sqlite")) {
        fixture_advance(&f, 30001);
        CHECK_STATUS(emq_sweep(f.c, Q, NULL, &recovered, NULL, NULL), EMQ_OK);
        emq_job *job = take_one(&f);
        CHECK_STATUS(effect(&f, zombie, &err), EMQ_LOST);
        CHECK_STATUS_ERR(effect(&f, job, &err), EMQ_OK, &err);
        emq_job_free(job);
        add_id(&f, "b");
        job = take_one(&f);
        CHECK_STATUS_ERR(emq_effect_sqlite(f.c, job, read_rows, &rows, NULL, &err), EMQ_OK, &err);
        CHECK_INT(rows, 1);
        emq_job_free(job);
    }
    emq_job_free(zombie);
    fixture_close(&f);
}

struct refusal {
    const char *sql;
    emq_status outcome;
};

EMQ_TEST(what_an_effect_may_not_do_is_rolled_back_and_the_job_stays)
{
    static const struct refusal refusals[] = {
        {"CREATE TABLE t (x); INSERT INTO nowhere VALUES (1)", EMQ_FAILED},
        {"CREATE TABLE t (x); DELETE FROM emq_job", EMQ_E_INVALID},
        {"CREATE TABLE t (x); COMMIT", EMQ_E_INVALID},
        {"CREATE TABLE t (x); SAVEPOINT s", EMQ_E_INVALID},
        {"CREATE TABLE t (x); PRAGMA user_version = 7", EMQ_E_INVALID},
        {"CREATE TABLE t (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
         "SELECT count(*) FROM n",
         EMQ_TIMEOUT},
    };
    const emq_effect_opts o = {.size = sizeof o, .limit_ms = 60};
    struct fixture f;

    fixture_open(&f);
    emq_job *job = take_a(&f);
    for (size_t i = 0; store_is(&f, "sqlite") && i < EMQ_ARRAY_LEN(refusals); i++) {
        emq_error err = {0};
        char *sql = strdup(refusals[i].sql);
        CHECK(sql != NULL);
        emq_status s = emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err);
        if (s != refusals[i].outcome)
            fail_msg("\"%s\" is %s, not %s: %s", sql, emq_status_name(s),
                     emq_status_name(refusals[i].outcome), err.text);
        free(sql);
        CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
        assert_null(strstr(emq_status_text(s), "for good")); /* the job goes on */
    }
    /* The table that each of them made first is not there. */
    static char table[] = "CREATE TABLE t (x)";
    if (store_is(&f, "sqlite"))
        CHECK_STATUS(emq_effect_sqlite(f.c, job, run_sql, table, NULL, NULL), EMQ_OK);
    emq_job_free(job);
    fixture_close(&f);
}

/* ---- as text ----------------------------------------------------------------------------- */

#define SQL(f, job, problem, err, ...)                           \
    emq__effect_sql((f)->c, job, (const emq_str[]){__VA_ARGS__}, \
                    sizeof((const emq_str[]){__VA_ARGS__}) / sizeof(emq_str), NULL, problem, err)
#define COMMANDS(f, job, err, ...)                                    \
    emq__effect_commands((f)->c, job, (const emq_str[]){__VA_ARGS__}, \
                         sizeof((const emq_str[]){__VA_ARGS__}) / sizeof(emq_str), NULL, err)

EMQ_TEST(a_text_of_statements_is_one_effect_and_says_what_is_wrong_with_it)
{
    struct fixture f;
    char problem[EMQ__PROBLEM_MAX];
    emq_error err = {0};

    fixture_open(&f);
    emq_job *job = take_a(&f);
    if (store_is(&f, "sqlite")) {
        CHECK_STATUS(SQL(&f, job, problem, &err,
                         S("create table t(x); -- so\n insert into u(x) values(1);")),
                     EMQ_FAILED);
        CHECK_STR(S(problem), "statement 2: no such table: u");
        CHECK_STATUS(SQL(&f, job, problem, &err, S("selec 1")), EMQ_FAILED);
        CHECK(strstr(problem, "statement 1: near \"selec\""));
        CHECK_STATUS(SQL(&f, job, problem, &err, {"select 1;\0x", 11}), EMQ_FAILED);
        CHECK(strstr(problem, "a NUL byte"));
        CHECK_STATUS_ERR(SQL(&f, job, problem, &err,
                             S("create table t(x);\n\n/* two */ insert into t values(1);"
                               "select * from t; -- end")),
                         EMQ_OK, &err);
        CHECK_STR(S(problem), "");
    }
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(several_texts_of_statements_are_one_effect_and_each_is_a_text_of_its_own)
{
    struct fixture f;
    char problem[EMQ__PROBLEM_MAX];
    emq_error err = {0};
    int rows = -1;

    fixture_open(&f);
    emq_job *job = take_a(&f);
    if (store_is(&f, "sqlite")) {
        /* An open comment, an open statement and an open string are no beginning of the next text. */
        CHECK_STATUS(
            SQL(&f, job, problem, &err, S("create table ledger(x); select '"), S("'; select 1")),
            EMQ_FAILED);
        CHECK(strstr(problem, "file 1 of 2, statement 2: "));
        CHECK_STATUS(SQL(&f, job, problem, &err, S("create table ledger(x)"), S(" where 0;")),
                     EMQ_FAILED);
        CHECK(strstr(problem, "file 2 of 2, statement 1: "));
        CHECK_STATUS_ERR(SQL(&f, job, problem, &err,
                             S("create table ledger(x); insert into ledger values(1); /* end"),
                             S("insert into ledger values(2)"), S("insert into ledger values(3)")),
                         EMQ_OK, &err);
        emq_job_free(job);
        add_id(&f, "b");
        job = take_one(&f);
        CHECK_STATUS_ERR(emq_effect_sqlite(f.c, job, read_rows, &rows, NULL, &err), EMQ_OK, &err);
        CHECK_INT(rows, 3);
    }
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_text_with_nothing_in_it_is_refused_on_either_store)
{
    struct fixture f;
    char problem[EMQ__PROBLEM_MAX];
    emq_error err = {0};

    fixture_open(&f);
    emq_job *job = take_a(&f);
    if (store_is(&f, "sqlite")) {
        CHECK_STATUS(SQL(&f, job, problem, &err, S("")), EMQ_E_INVALID);
        CHECK(strstr(err.text, "there is no statement in it"));
        CHECK_STATUS(SQL(&f, job, problem, &err, S("create table t(x)"), S(" ; -- nothing\n")),
                     EMQ_E_INVALID);
        CHECK(strstr(err.text, "file 2 of 2, there is no statement in it"));
    }
    CHECK_STATUS(COMMANDS(&f, job, &err, S("[\"INCR\",\"n\"]"), S("\n")), EMQ_E_INVALID);
    CHECK(strstr(err.text, "file 2 of 2, there is no command in it"));
    CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(lines_of_commands_are_checked_before_the_first_is_done)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "no command"},
        {" \n\n", "no command"},
        {"[\"INCR\",\"n\"]\nINCR n", "line 2 is not JSON"},
        {"{}", "line 1 is not an array of strings"},
        {"[]", "line 1 is not an array of strings"},
        {"[\"INCRBY\",\"n\",3]", "line 1 is not an array of strings"},
    };
    struct fixture f;
    struct emq__buf many;

    fixture_open(&f);
    emq_job *job = take_a(&f);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        emq_error err = {0};
        CHECK_STATUS_ERR(COMMANDS(&f, job, &err, S(bad[i].text)), EMQ_E_INVALID, &err);
        if (!strstr(err.text, bad[i].words))
            fail_msg("\"%s\" lacks \"%s\"", err.text, bad[i].words);
    }
    emq__buf_init(&many, SIZE_MAX / 2);
    for (int i = 0; i <= EMQ_REDIS_COMMANDS_MAX; i++)
        emq__buf_text(&many, "[\"INCR\",\"n\"]\n");
    emq_error err = {0};
    CHECK_STATUS(COMMANDS(&f, job, &err, emq__buf_view(&many)), EMQ_E_INVALID);
    CHECK(strstr(err.text, "line 101 is one command too many"));
    emq__buf_free(&many);
    CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
    if (store_is(&f, "redis"))
        CHECK_STATUS_ERR(COMMANDS(&f, job, &err, S("[\"SET\",\"k\",\"\\u00e9 \\n\"]\r\n")), EMQ_OK,
                         &err);
    emq_job_free(job);
    fixture_close(&f);
}

/* ---- misuse ------------------------------------------------------------------------------ */

static void refused(emq_status s, const emq_error *err, const char *words)
{
    CHECK_STATUS_ERR(s, EMQ_E_INVALID, err);
    if (!strstr(err->text, words))
        fail_msg("\"%s\" lacks \"%s\"", err->text, words);
}

static void check_commands(struct fixture *f, emq_job *job)
{
    const emq_str words[] = {S("INCR"), S("n")}, hole[] = {S("SET"), {NULL, 3}};
    const emq_redis_command good = {sizeof good, words, 2}, none = {sizeof none, words, 0},
                            small = {3, words, 2}, holed = {sizeof holed, hole, 2};
    const emq_redis_command *list[] = {&good, NULL};
    emq_error err = {0};

    refused(emq_effect_redis(f->c, job, NULL, 1, NULL, &err), &err, "at NULL");
    refused(emq_effect_redis(f->c, job, list, 0, NULL, &err), &err, "0 commands");
    refused(emq_effect_redis(f->c, job, list, 101, NULL, &err), &err, "1 to 100");
    refused(emq_effect_redis(f->c, job, list, 2, NULL, &err), &err, "command 2 is NULL");
    list[1] = &none;
    refused(emq_effect_redis(f->c, job, list, 2, NULL, &err), &err, "command 2 has no words");
    list[1] = &small;
    refused(emq_effect_redis(f->c, job, list, 2, NULL, &err), &err, "size");
    list[1] = &holed;
    refused(emq_effect_redis(f->c, job, list, 2, NULL, &err), &err, "word 2 has 3 bytes at NULL");
}

EMQ_TEST(misuse_of_effects_is_named_and_changes_nothing)
{
    struct fixture f;
    emq_error err = {0};
    static char sql[] = "SELECT 1";
    emq_effect_opts o = {.size = sizeof o};

    fixture_open(&f);
    emq_job *job = take_a(&f);
    refused(emq_effect_sqlite(NULL, job, run_sql, sql, NULL, &err), &err, "client is NULL");
    refused(emq_effect_sqlite(f.c, NULL, run_sql, sql, NULL, &err), &err, "job is NULL");
    emq_job *seen = get(&f, "a");
    refused(emq_effect_sqlite(f.c, seen, run_sql, sql, NULL, &err), &err, "not held under a lock");
    emq_job_free(seen);
    if (store_is(&f, "sqlite")) {
        refused(emq_effect_redis(f.c, job, NULL, 0, NULL, &err), &err, "store is \"sqlite\"");
        refused(emq_effect_sqlite(f.c, job, NULL, NULL, NULL, &err), &err, "fn is NULL");
        o.step = S("a b");
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err), &err, "\"a b\"");
        o = (emq_effect_opts){.size = sizeof o, .limit_ms = -1};
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err), &err, "limit_ms is -1");
        o = (emq_effect_opts){.size = sizeof o, .keep_ms = -1};
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err), &err, "keep_ms is -1");
        o = (emq_effect_opts){.size = sizeof o, .result = {"", EMQ_RESULT_MAX + 1}};
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err), &err, "the result has");
        o = (emq_effect_opts){.size = 2};
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, &o, &err), &err, "size");
    }
    if (store_is(&f, "redis")) {
        refused(emq_effect_sqlite(f.c, job, run_sql, sql, NULL, &err), &err, "store is \"redis\"");
        check_commands(&f, job);
    }
    CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
    emq_job_free(job);
    fixture_close(&f);
}
