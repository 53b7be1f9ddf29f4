/* SPDX-License-Identifier: MIT
 *
 * Making and checking the schema. The one invariant: a file of a newer version is refused before
 * anything in it is changed, and a step is applied whole or not at all.
 */
#include "engine/sqlite/ground.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>

/* The last step; kept in emq_schema, because user_version is the application's. */
enum { SCHEMA_VERSION = 1, SCHEMA_TABLES = 20 };

/* steps[v] leads from version v to v + 1. */
static const enum sq_sql steps[SCHEMA_VERSION] = {SQ_SQL_schema_create};

static emq_status run(struct sq_conn *c, const char *sql, emq_error *err)
{
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(c, rc, "schema", err);
}

/* How many of our tables there are, and whether the schema's record is one of them: in one statement,
 * because another process may be making them. */
static emq_status tables_of(struct sq_conn *c, int64_t *tables, bool *record, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(c, SQ_SQL_schema_tables, err);
    bool row = false;

    if (!st)
        return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
    emq_status s = sq_step(c, st, &row, "schema", err);
    *tables = row ? sq_col_i64(st, 0) : 0;
    *record = row && sq_col_i64(st, 1) > 0;
    (void)sqlite3_reset(st);
    return s;
}

/* The number that a statement gives, 0 without a row. */
static emq_status number_of(struct sq_conn *c, enum sq_sql id, int64_t *out, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(c, id, err);
    bool row = false;
    emq_status s;

    if (!st)
        return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
    s = sq_step(c, st, &row, "schema", err);
    *out = row ? sq_col_i64(st, 0) : 0;
    (void)sqlite3_reset(st);
    return s;
}

static emq_status refuse_newer(int64_t version, emq_error *err)
{
    return emq__fail(err, EMQ_E_VERSION, 0, "schema",
                     "the file has schema version %lld, this program knows up to %d: use a newer "
                     "program; nothing was changed",
                     (long long)version, SCHEMA_VERSION);
}

/* 0 = no schema of ours yet. */
static emq_status version_of(struct sq_conn *c, int64_t *version, emq_error *err)
{
    static const char advice[] = "move the file away or restore a backup; nothing was changed";
    const char *path = sqlite3_db_filename(c->db, "main");
    int64_t tables;
    bool record;
    emq_status s = tables_of(c, &tables, &record, err);

    *version = 0;
    if (s == EMQ_OK && record)
        s = number_of(c, SQ_SQL_schema_version, version, err);
    if (s != EMQ_OK || tables == 0)
        return s;
    if (*version == 0)
        return emq__fail(err, EMQ_E_VERSION, 0, "schema",
                         "'%s' has tables of EchoMQ but no schema record: it was written by an "
                         "incompatible version or damaged; %s",
                         path, advice);
    if (*version > SCHEMA_VERSION)
        return refuse_newer(*version, err);
    if (*version == SCHEMA_VERSION && tables < SCHEMA_TABLES)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "schema",
                         "'%s' has %lld of the %d tables of schema version %d: it was damaged or "
                         "written by an incompatible version; %s",
                         path, (long long)tables, SCHEMA_TABLES, SCHEMA_VERSION, advice);
    return EMQ_OK;
}

static emq_status migrate(struct sq_conn *c, int64_t version, emq_error *err)
{
    emq_status s = EMQ_OK;

    for (; s == EMQ_OK && version < SCHEMA_VERSION; version++)
        s = run(c, sq_sql_text[steps[version]], err);
    if (s != EMQ_OK)
        return s;
    sqlite3_stmt *st = sq_stmt(c, SQ_SQL_schema_set_version, err);
    if (!st)
        return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
    sq_bind_i64(st, 1, SCHEMA_VERSION);
    return sq_exec(c, st, "schema", err);
}

/* The row of this boot; locks carry its number. *known = false: there is none yet. */
static emq_status find_boot(struct sq *s, struct sq_conn *c, bool *known, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(c, SQ_SQL_boot_get, err);
    emq_status status;

    *known = false;
    if (!st)
        return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
    sq_bind_text(st, 1, emq__boot_id());
    status = sq_step(c, st, known, "schema", err);
    if (status == EMQ_OK && *known)
        sq_set_boot(s, sq_col_i64(st, 0));
    (void)sqlite3_reset(st);
    return status;
}

static emq_status note_boot(struct sq *s, struct sq_conn *c, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(c, SQ_SQL_boot_note, err);
    bool known;
    emq_status status;

    if (!st)
        return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
    sq_bind_text(st, 1, emq__boot_id());
    sq_bind_i64(st, 2, sq_now_ms(s));
    status = sq_exec(c, st, "schema", err);
    return status == EMQ_OK ? find_boot(s, c, &known, err) : status;
}

/* May this file, which is no store, be made one? */
static emq_status may_make(const struct sq_file *f, struct sq_conn *c, emq_error *err)
{
    struct stat st;
    int64_t others = 0;
    emq_status s = EMQ_OK;

    if (!f->path || f->making == EMQ__MAKE_ANYWHERE)
        return EMQ_OK;
    s = number_of(c, SQ_SQL_schema_others, &others, err);
    if (s != EMQ_OK || (f->making == EMQ__MAKE_NEW && others == 0))
        return s;
    bool empty = stat(f->path, &st) == 0 && st.st_size == 0;
    return emq__fail(err, EMQ_E_STORE, ENODATA, "schema",
                     "'%s' is %s: a store is made by what adds to it; nothing was changed", f->path,
                     empty ? "an empty file" : "an SQLite file without EchoMQ's tables");
}

static emq_status look(struct sq *s, struct sq_conn *c, int64_t *version, bool *ready,
                       emq_error *err)
{
    emq_status status = version_of(c, version, err);

    *ready = false;
    if (status == EMQ_OK && *version == SCHEMA_VERSION)
        status = find_boot(s, c, ready, err);
    return status;
}

emq_status sq_schema_look(struct sq *s, struct sq_conn *c, bool *ready, emq_error *err)
{
    int64_t version;
    emq_status status = look(s, c, &version, ready, err);

    return status == EMQ_OK && version == 0 ? may_make(&s->file, c, err) : status;
}

emq_status sq_schema_setup(struct sq *s, struct sq_conn *c, emq_error *err)
{
    int64_t version = 0;
    bool ready;
    emq_status status = sq_schema_look(s, c, &ready, err);

    /* Who only reads must not wait for a writer. */
    if (status != EMQ_OK || ready)
        return status;
    status = run(c, "BEGIN IMMEDIATE", err);
    if (status != EMQ_OK)
        return status;
    status = look(s, c, &version, &ready, err); /* another may have done it */
    if (status == EMQ_OK && version < SCHEMA_VERSION)
        status = migrate(c, version, err);
    if (status == EMQ_OK && !ready)
        status = note_boot(s, c, err);
    if (status == EMQ_OK)
        status = run(c, "COMMIT", err);
    if (status != EMQ_OK)
        (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

emq_status sq_schema_check(struct sq_tx *tx, emq_error *err)
{
    int64_t version = 0;
    emq_status s = number_of(tx->conn, SQ_SQL_schema_version, &version, err);

    if (s != EMQ_OK || version == SCHEMA_VERSION)
        return s;
    if (version > SCHEMA_VERSION)
        return refuse_newer(version, err);
    return emq__fail(err, EMQ_E_VERSION, 0, "schema",
                     "the file has schema version %lld, expected %d: it was replaced; open it anew",
                     (long long)version, SCHEMA_VERSION);
}
