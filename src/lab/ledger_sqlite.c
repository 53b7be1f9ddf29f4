/* SPDX-License-Identifier: MIT
 *
 * Effects that are rows. The table in the queue's file is written through the library alone, and otherwise opened
 * only while no client of this process has that file open: closing it drops the locks of the whole process.
 */
#include "lab/ledger.h"

#include "base/error.h"

#include <sqlite3.h>

enum { BUSY_MS = 20000 };

const char lab_row_sql[] = "INSERT INTO lab_effect DEFAULT VALUES;";
static const char row_table[] = "CREATE TABLE lab_effect (at INTEGER DEFAULT (unixepoch()));";

static emq_status failed(sqlite3 *db, const char *what, emq_error *err)
{
    return emq__fail(err, EMQ_E_SYSTEM, sqlite3_extended_errcode(db), "lab", "the ledger: %s: %s",
                     what, sqlite3_errmsg(db));
}

static emq_status open_db(const char *path, sqlite3 **out, emq_error *err)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_busy_timeout(db, BUSY_MS) == SQLITE_OK) {
        *out = db;
        return EMQ_OK;
    }
    emq_status s = failed(db, path, err);
    (void)sqlite3_close(db);
    return s;
}

static emq_status run(const char *path, const char *sql, emq_error *err)
{
    sqlite3 *db;
    emq_status s = open_db(path, &db, err);

    if (s != EMQ_OK)
        return s;
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        s = failed(db, path, err);
    (void)sqlite3_close(db);
    return s;
}

static emq_status count(const char *path, int64_t *out, emq_error *err)
{
    sqlite3_stmt *st = NULL;
    sqlite3 *db;
    emq_status s = open_db(path, &db, err);

    if (s != EMQ_OK)
        return s;
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM lab_effect", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW)
        s = failed(db, path, err);
    else
        *out = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
    return s;
}

/* ---- in the queue's file ----------------------------------------------------------------- */

emq_status lab_row_open(const char *file, emq_error *err)
{
    return run(file, row_table, err);
}

static int insert(sqlite3 *db, void *arg)
{
    (void)arg;
    return sqlite3_exec(db, lab_row_sql, NULL, NULL, NULL);
}

emq_status lab_row_commit(emq_client *c, emq_job *job, emq_error *err)
{
    return emq_effect_sqlite(c, job, insert, NULL, NULL, err);
}

emq_status lab_row_count(const char *file, int64_t *out, emq_error *err)
{
    return count(file, out, err);
}

/* ---- with an inbox ----------------------------------------------------------------------- */

static void inbox_path(const char *dir, char out[LAB_PATH_MAX])
{
    (void)snprintf(out, LAB_PATH_MAX, "%s/shop.db", dir);
}

emq_status lab_inbox_open(const char *dir, emq_error *err)
{
    char path[LAB_PATH_MAX];

    inbox_path(dir, path);
    emq_status s = run(path, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CREATE), err);
    return s == EMQ_OK ? run(path, row_table, err) : s;
}

/* Claims the key; the effect, when nobody had claimed it. */
static int claim_and_insert(sqlite3 *db, emq_str key)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CLAIM), -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 1, key.ptr, (int)key.len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        }
    bool fresh = rc == SQLITE_DONE && sqlite3_changes(db) == 1;
    (void)sqlite3_finalize(st);
    if (rc != SQLITE_DONE)
        return rc;
    return fresh ? sqlite3_exec(db, lab_row_sql, NULL, NULL, NULL) : SQLITE_OK;
}

emq_status lab_inbox_make(const char *dir, emq_str key, emq_error *err)
{
    char path[LAB_PATH_MAX];
    sqlite3 *db;

    inbox_path(dir, path);
    emq_status s = open_db(path, &db, err);
    if (s != EMQ_OK)
        return s;
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
        claim_and_insert(db, key) != SQLITE_OK ||
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        s = failed(db, path, err);
    (void)sqlite3_close(db);
    return s;
}

emq_status lab_inbox_count(const char *dir, int64_t *out, emq_error *err)
{
    char path[LAB_PATH_MAX];

    inbox_path(dir, path);
    return count(path, out, err);
}
