/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on SQLite: what one call of a function works on is bounded, since SQLite does not end a call.
 */
#include "effect_sqlite.h"

#define MANY(n, text) "replace(hex(zeroblob(" #n ")), '00', '" text "')"

EFFECT_TEST(a_call_that_would_take_too_long_is_refused_by_name)
{
    static const struct {
        const char *sql, *named;
    } slow[] = {
        {"SELECT " MANY(4000000, "aa") " LIKE '%' || " MANY(20000, "a") " || 'b'",
         "LIKE or GLOB with a pattern of more than 100 bytes"},
        {"SELECT " MANY(4000000, "aa") " GLOB '*' || " MANY(20000, "a") " || 'b'",
         "LIKE or GLOB with a pattern of more than 100 bytes"},
        {"SELECT zeroblob(300000000)", "more than 17 MiB"},
        {"SELECT randomblob(300000000)", "more than 17 MiB"},
        {"SELECT hex(zeroblob(300000000))", "more than 17 MiB"},
        {"SELECT hex(zeroblob(9000000))", "more than 17 MiB"},
        {"SELECT replace(hex(zeroblob(1000000)), '0', '0123456789')", "more than 17 MiB"},
        {"SELECT group_concat(t) FROM (SELECT hex(zeroblob(6000000)) AS t UNION ALL "
         "SELECT hex(zeroblob(6000000)))",
         "more than 17 MiB"},
        {"CREATE TABLE wide AS SELECT zeroblob(9000000) AS a, zeroblob(9000000) AS b",
         "more than 17 MiB"},
    };
    struct emq__job *j = start_with_table(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(slow); i++) {
        struct script s = {.sql = (const char *const[]){INSERT, slow[i].sql, NULL}};
        (void)effect_fn(t, j, run_script, &s, LIMIT_MS, EMQ_E_INVALID);
        if (!strstr(t->err.text, slow[i].named))
            fail_msg("%s: \"%s\" does not name %s", slow[i].sql, t->err.text, slow[i].named);
    }
    check_untouched(t, j);
}

static int run_long_statement(sqlite3 *db, void *arg)
{
    return sqlite3_exec(db, arg, NULL, NULL, NULL);
}

EFFECT_TEST(a_statement_of_too_many_bytes_is_refused)
{
    enum { BYTES = 18 * 1024 * 1024 };
    struct emq__job *j = start_with_table(t);
    char *sql = malloc(BYTES + 1);

    CHECK(sql);
    memset(sql, ' ', BYTES);
    memcpy(sql, "SELECT", 6);
    memcpy(sql + BYTES - 1, "1", 2);
    (void)effect_fn(t, j, run_long_statement, sql, LIMIT_MS, EMQ_E_INVALID);
    CHECK_HAS(S(t->err.text), "more than 17 MiB");
    free(sql);
    check_untouched(t, j);
}

/* None of them is refused. */
EFFECT_TEST(behind_a_long_call_the_limit_ends_the_effect)
{
    static const char *const list[] = {
        MANY(500000, "aa") " LIKE '%' || " MANY(98, "a") " || 'b'",
        MANY(500000, "aa") " GLOB '*["
                           "bcdefghijklmnopqrstuvwxyzbcdefghijklmnopqrstuvwxyz"
                           "]'",
    };
    struct emq__job *j = start_with_table(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        char sql[600];
        (void)snprintf(sql, sizeof sql,
                       "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
                       "SELECT %s FROM c",
                       list[i]);
        struct script s = {.sql = (const char *const[]){INSERT, sql, NULL}};
        CHECK_STATUS(effect_fn(t, j, run_script, &s, 20, EMQ_OK).outcome, EMQ_TIMEOUT);
    }
    check_untouched(t, j);
}

/* The bounds are the effect's: what else the store does on the same connection has its own. */
EFFECT_TEST(data_are_as_large_as_ever_behind_an_effect_and_have_a_place_in_one)
{
    enum { BYTES = 16 * 1024 * 1024 };
    char *data = malloc(BYTES);

    CHECK(data);
    memset(data, '7', BYTES);
    CHECK_STATUS(effect(t, start(t), SCRIPT(CREATE, INSERT)), EMQ_OK);
    struct emq__add_entry en = fx_entry("q", "x");
    en.data = (struct emq__payload){EMQ__KIND_JSON, {data, BYTES}};
    en.id = S("large");
    must_add_entry(t, en);
    struct emq__job *j = take_one(t, "q");
    CHECK_INT(j->data.bytes.len, BYTES);
    CHECK_STATUS(
        effect(t, j, SCRIPT(INSERT, "CREATE TABLE copy AS SELECT zeroblob(16777216) AS data")),
        EMQ_OK);
    CHECK_INT(ledger(t), 2);
    free(data);
}
