/* SPDX-License-Identifier: MIT
 *
 * What a file has lost of its schema, by comparison with one that is made anew in memory. Tables are looked at when
 * a file is opened.
 */
#include "engine/sqlite/fsck.h"

#include "base/error.h"
#include "engine/sqlite/file.h"

static emq_status model_open(sqlite3 **db, emq_error *err)
{
    const struct sq_file memory = {.shm_fd = -1};
    emq_status s = sq_file_open_db(&memory, db, err);

    if (s != EMQ_OK)
        return s;
    if (sqlite3_exec(*db, sq_sql_text[SQ_SQL_schema_create], NULL, NULL, NULL) == SQLITE_OK)
        return EMQ_OK;
    sqlite3_close(*db);
    return emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "no memory for a schema to compare with");
}

static emq_status is_there(struct sq_tx *tx, emq_str name, bool *there, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_has, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, name);
    emq_status s = sq_step(tx->conn, st, there, "fsck", err);
    sqlite3_reset(st);
    return s;
}

emq_status sq_fsck_missing(struct sq_tx *tx, struct emq__arena *mem,
                           struct sq_missing out[SQ_MISSING_MAX], size_t *n, emq_error *err)
{
    sqlite3 *model;
    sqlite3_stmt *st = NULL;
    emq_status s = model_open(&model, err);
    bool there;

    *n = 0;
    if (s != EMQ_OK)
        return s;
    if (sqlite3_prepare_v2(model, sq_sql_text[SQ_SQL_fsck_model], -1, &st, NULL) != SQLITE_OK)
        s = emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "no memory for a schema to compare with");
    while (s == EMQ_OK && *n < SQ_MISSING_MAX && sqlite3_step(st) == SQLITE_ROW) {
        struct sq_missing *m = &out[*n];
        *m = (struct sq_missing){sq_col_copy(st, 0, mem), sq_col_copy(st, 1, mem)};
        if (!m->name.ptr || !m->sql.ptr)
            s = emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "no memory for what is gone");
        else if ((s = is_there(tx, m->name, &there, err)) == EMQ_OK && !there)
            ++*n;
    }
    sqlite3_finalize(st);
    sqlite3_close(model);
    return s;
}
