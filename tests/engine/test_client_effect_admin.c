/* SPDX-License-Identifier: MIT
 *
 * Marked effects and who looks after them: lists, settling, retries by hand; misuse; the inbox.
 */
#include "client_effect.h"

/* ---- administration ---------------------------------------------------------------------- */

EMQ_TEST(markers_are_listed_in_order_page_by_page)
{
    struct fixture f;
    emq_effect **page = NULL;
    char seen[200] = "";
    size_t n = 0;

    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        char id[3] = {'j', (char)('1' + i), 0};
        add_id(&f, id);
        emq_job *job = take_one(&f);
        CHECK_INT(claimed(&f, job, "x", 0), EMQ_EFFECT_FRESH);
        CHECK_INT(claimed(&f, job, "y", 0), EMQ_EFFECT_FRESH);
        CHECK_STATUS(done(&f, job, "y", "r"), EMQ_OK);
        settle_done(&f, job);
    }
    emq_effect *after = NULL;
    do {
        CHECK_STATUS(emq_effect_list(f.c, Q, NONE, after, 4, &page, &n, NULL), EMQ_OK);
        CHECK(page[n] == NULL);
        emq_effect_free(after);
        after = NULL;
        for (size_t i = 0; i < n; i++) {
            size_t at = strlen(seen);
            (void)snprintf(seen + at, sizeof seen - at, "%.*s.%.*s=%s ",
                           EMQ_STR_ARG(emq_effect_id(page[i])),
                           EMQ_STR_ARG(emq_effect_step(page[i])),
                           emq_effect_state_name(emq_effect_get_state(page[i])));
            emq_effect_free(i + 1 < n ? page[i] : NULL);
        }
        after = n ? page[n - 1] : NULL;
        free(page);
    } while (n == 4);
    emq_effect_free(after);
    CHECK_STR(S(seen), "j1.x=in-doubt j1.y=done j2.x=in-doubt j2.y=done j3.x=in-doubt j3.y=done ");
    CHECK_STATUS(emq_effect_list(f.c, Q, S("j2"), NULL, 0, &page, &n, NULL), EMQ_OK);
    CHECK_INT(n, 2);
    emq_str json = emq_effect_json(page[1]);
    CHECK(emq__str_starts(json, "{\"queue\":\"q\",\"id\":\"j2\",\"timestamp\":"));
    CHECK(strstr(json.ptr, "\"step\":\"y\",\"state\":\"done\",\"token\":\""));
    CHECK(strstr(json.ptr, "\"result\":\"r\"}"));
    for (size_t i = 0; i < n; i++)
        emq_effect_free(page[i]);
    free(page);
    fixture_close(&f);
}

EMQ_TEST(an_administrator_settles_what_is_in_doubt_either_way)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 0, NONE, NULL), EMQ_NOT_FOUND);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("nobody"), NONE, 1, NONE, NULL), EMQ_NOT_FOUND);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 1, S("seen"), NULL), EMQ_OK);
    check_done(&f, job, "", "seen");
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 0, NONE, NULL), EMQ_OK);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    /* One that was never claimed, too. */
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), S("mail"), 1, S("sent"), NULL), EMQ_OK);
    check_done(&f, job, "mail", "sent");
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- manual retries ---------------------------------------------------------------------- */

static emq_job *job_done_and_failed(struct fixture *f, const char *id)
{
    add_id(f, id);
    emq_job *job = take_one(f);
    CHECK_INT(claimed(f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(done(f, job, "", "r"), EMQ_OK);
    CHECK_STATUS(settle(f, job, EMQ_SETTLE_FAILED, "late trouble", 0), EMQ_OK);
    return job;
}

EMQ_TEST(a_retry_of_a_job_whose_effect_is_done_asks_what_to_do_with_it)
{
    struct fixture f;

    fixture_open(&f);
    emq_job *failed = job_done_and_failed(&f, "a");
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_EFFECT_DONE);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 1);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), EMQ_RETRY_KEEP_EFFECT, NULL), EMQ_OK);
    emq_job *again = take_one(&f);
    check_done(&f, again, "", "r");
    CHECK_STR_EQ(emq_job_idempotency_key(again), emq_job_idempotency_key(failed));
    CHECK_STATUS(settle(&f, again, EMQ_SETTLE_FAILED, "again", 0), EMQ_OK);
    emq_job_free(again);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), EMQ_RETRY_REDO_EFFECT, NULL), EMQ_OK);
    again = take_one(&f);
    CHECK_INT(claimed(&f, again, "", 0), EMQ_EFFECT_FRESH);
    CHECK(!emq__str_eq(emq_job_idempotency_key(again), emq_job_idempotency_key(failed)));
    emq_job_free(failed);
    settle_done(&f, again);
    fixture_close(&f);
}

EMQ_TEST(a_retry_of_a_job_whose_effect_is_only_claimed_asks_nothing)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "parked", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_OK);
    job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_IN_DOUBT);
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_retry_of_all_passes_over_jobs_whose_effect_is_done_unless_it_is_told)
{
    struct fixture f;
    int64_t count = 0;

    fixture_open(&f);
    emq_job_free(job_done_and_failed(&f, "a"));
    add_id(&f, "b");
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 1);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, EMQ_RETRY_KEEP_EFFECT, &count, NULL),
                 EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 0);
    fixture_close(&f);
}

/* More of them than one slice looks at. */
EMQ_TEST(a_retry_of_all_reaches_what_lies_behind_many_that_it_passes_over)
{
    enum { MANY = 600 };
    struct fixture f;
    int64_t count = 0;

    fixture_open_unchecked(&f);
    for (int i = 0; i < MANY; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "d%d", i);
        add_id(&f, id);
        CHECK_STATUS(emq_effect_resolve(f.c, Q, S(id), NONE, 1, NONE, NULL), EMQ_OK);
        emq_job *job = take_one(&f);
        CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
        emq_job_free(job);
    }
    add_id(&f, "last");
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), MANY);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, EMQ_RETRY_REDO_EFFECT, &count, NULL),
                 EMQ_OK);
    CHECK_INT(count, MANY);
    fixture_close(&f);
}

/* ---- misuse ------------------------------------------------------------------------------ */

static void refused(emq_status s, const emq_error *err, const char *words)
{
    CHECK_STATUS_ERR(s, EMQ_E_INVALID, err);
    if (!strstr(err->text, words))
        fail_msg("\"%s\" lacks \"%s\"", err->text, words);
}

EMQ_TEST(misuse_of_markers_is_named_and_changes_nothing)
{
    struct fixture f;
    emq_effect *e = NULL, **list = NULL;
    emq_error err = {0};
    size_t n = 0;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key good = key_of(job, ""), k = good;
    refused(emq_effect_claim(NULL, &k, 0, 0, &e, &err), &err, "client is NULL");
    refused(emq_effect_claim(f.c, NULL, 0, 0, &e, &err), &err, "key is NULL");
    refused(emq_effect_claim(f.c, &k, 0, 0, NULL, &err), &err, "out is NULL");
    refused(emq_effect_claim(f.c, &k, 6, 0, &e, &err), &err, "flags is 0x6");
    refused(emq_effect_claim(f.c, &k, EMQ_CLAIM_SETTLES, 0, &e, &err), &err, "EMQ_CLAIM_TAKE_OVER");
    refused(emq_effect_claim(f.c, &k, 0, -1, &e, &err), &err, "keep_ms is -1");
    refused(emq_effect_done(f.c, &k, NONE, -1, &err), &err, "keep_ms is -1");
    k.token = NONE;
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "the token has 0 bytes");
    k = good;
    k.step = S("two words");
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "\"two words\"");
    refused(emq_effect_release(f.c, &k, &err), &err, "\"two words\"");
    k.step = S("12345678901234567890123456789012345678901234567890123456789012345");
    refused(emq_effect_done(f.c, &k, NONE, 0, &err), &err, "0 to 64 bytes");
    k = good;
    k.queue = S("a:b");
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "a:b");
    k = good;
    k.size = 3;
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "size");
    k = good;
    k.payload = (emq_str){NULL, 7};
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "7 bytes at NULL");
    refused(emq_effect_list(f.c, Q, NONE, NULL, 1001, &list, &n, &err), &err, "limit is 1001");
    refused(emq_effect_list(f.c, Q, NONE, NULL, 0, NULL, &n, &err), &err, "out is NULL");
    refused(emq_effect_resolve(f.c, Q, S("a"), S("?"), 1, NONE, &err), &err, "\"?\"");
    refused(emq_retry(f.c, Q, S("a"), EMQ_RETRY_KEEP_EFFECT | EMQ_RETRY_REDO_EFFECT, &err), &err,
            "kept and redone");
    CHECK(e == NULL);
    CHECK_STATUS(emq_effect_list(f.c, Q, NONE, NULL, 0, &list, &n, NULL), EMQ_OK);
    CHECK_INT(n, 0);
    free(list);
    emq_effect_free(NULL);
    CHECK_INT(emq_effect_get_state(NULL), EMQ_EFFECT_NONE);
    CHECK_STR(emq_effect_result(NULL), "");
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- an inbox elsewhere ------------------------------------------------------------------ */

static int claim_inbox(sqlite3 *db, const char *key)
{
    sqlite3_stmt *st;

    CHECK_INT(sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CLAIM), -1, &st, NULL),
              SQLITE_OK);
    CHECK_INT(sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    return sqlite3_changes(db);
}

EMQ_TEST(an_inbox_lets_a_key_in_once)
{
    sqlite3 *db;

    CHECK_INT(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (int i = 0; i < 2; i++)
        CHECK_INT(sqlite3_exec(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CREATE), 0, 0, NULL),
                  SQLITE_OK);
    CHECK_INT(claim_inbox(db, "k1"), 1);
    CHECK_INT(claim_inbox(db, "k1"), 0);
    CHECK_INT(claim_inbox(db, "k2"), 1);
    CHECK_INT(sqlite3_exec(db, "UPDATE emq_inbox SET at = at - 100 WHERE key = 'k1'", 0, 0, NULL),
              SQLITE_OK);
    sqlite3_stmt *st;
    CHECK_INT(sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_TRIM), -1, &st, NULL),
              SQLITE_OK);
    CHECK_INT(sqlite3_bind_int(st, 1, 50), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_DONE);
    CHECK_INT(sqlite3_changes(db), 1);
    sqlite3_finalize(st);
    CHECK_INT(claim_inbox(db, "k1"), 1);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

EMQ_TEST(statements_that_do_not_exist_are_null)
{
    CHECK(emq_inbox_sql(EMQ_SQL_POSTGRESQL, EMQ_INBOX_TRIM) != NULL);
    CHECK(emq_inbox_sql(0, EMQ_INBOX_CREATE) == NULL);
    CHECK(emq_inbox_sql(3, EMQ_INBOX_CREATE) == NULL);
    CHECK(emq_inbox_sql(EMQ_SQL_SQLITE, 0) == NULL);
    CHECK(emq_inbox_sql(EMQ_SQL_SQLITE, 4) == NULL);
}
