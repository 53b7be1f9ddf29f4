/* SPDX-License-Identifier: MIT
 *
 * Markers as rows of emq_marker, keyed by the job's identity and a step.
 */
#include "engine/sqlite/marker.h"

#include "base/error.h"
#include "base/str.h"
#include "model/policy.h"

/* Removed by one act: more than one, so that the table shrinks. */
enum { EXPIRE_MAX = 4 };

static const char where[] = "effect";

static void bind_key(sqlite3_stmt *st, const struct sq_queue *q, emq_str id,
                     int64_t timestamp_at_ms)
{
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, id);
    sq_bind_i64(st, 3, timestamp_at_ms);
}

static emq_status read_row(struct sq_tx *tx, sqlite3_stmt *st, struct emq__arena *mem,
                           struct emq__marker *m, emq_error *err)
{
    m->state = (int32_t)sq_col_i64(st, 0);
    m->token = sq_col_copy(st, 1, mem);
    m->fingerprint = sq_col_copy(st, 2, mem);
    m->claimed_at_ms = sq_col_i64(st, 3);
    m->done_at_ms = sq_col_i64(st, 4);
    m->expires_at_ms = sq_col_i64(st, 5);
    m->result.kind = (enum emq__kind)sq_col_i64(st, 6);
    m->result.bytes = sq_col_copy(st, 7, mem);
    if (!m->token.ptr || !m->fingerprint.ptr || !m->result.bytes.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "no memory for a marker");
    return m->expires_at_ms > tx->now_ms ? EMQ_OK : EMQ_NOT_FOUND;
}

emq_status sq_marker_get(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                         emq_str step, struct emq__arena *mem, struct emq__marker *m,
                         emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_get, err);
    bool found = false;

    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, row->id, row->timestamp_at_ms);
    sq_bind_text(st, 4, step);
    *m = (struct emq__marker){.id = row->id, .timestamp_at_ms = row->timestamp_at_ms, .step = step};
    emq_status s = sq_step(tx->conn, st, &found, where, err);
    if (s == EMQ_OK)
        s = found ? read_row(tx, st, mem, m, err) : EMQ_NOT_FOUND;
    sqlite3_reset(st);
    return s;
}

static emq_status expire(struct sq_tx *tx, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_expire, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, tx->now_ms);
    sq_bind_i64(st, 2, EXPIRE_MAX);
    return sq_exec(tx->conn, st, where, err);
}

emq_status sq_marker_put(struct sq_tx *tx, const struct sq_queue *q, const struct emq__marker *m,
                         emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_put, err);

    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, m->id, m->timestamp_at_ms);
    sq_bind_text(st, 4, m->step);
    sq_bind_i64(st, 5, m->state);
    sq_bind_text(st, 6, m->token);
    sq_bind_text(st, 7, m->fingerprint);
    sq_bind_i64(st, 8, m->claimed_at_ms);
    sq_bind_i64(st, 9, m->done_at_ms);
    sq_bind_i64(st, 10, m->expires_at_ms);
    sq_bind_i64(st, 11, m->result.kind);
    sq_bind_payload(st, 12, m->result);
    emq_status s = sq_exec(tx->conn, st, where, err);
    return s == EMQ_OK ? expire(tx, err) : s;
}

emq_status sq_marker_drop(struct sq_tx *tx, const struct sq_queue *q, const struct emq__marker *m,
                          emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_drop, err);

    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, m->id, m->timestamp_at_ms);
    sq_bind_text(st, 4, m->step);
    return sq_exec(tx->conn, st, where, err);
}

emq_status sq_marker_any_done(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                              int64_t timestamp_at_ms, bool *done, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_done, err);

    *done = false;
    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, id, timestamp_at_ms);
    sq_bind_i64(st, 4, tx->now_ms);
    emq_status s = sq_step(tx->conn, st, done, where, err);
    sqlite3_reset(st);
    return s;
}

emq_status sq_marker_prolong_job(struct sq_tx *tx, const struct sq_queue *q,
                                 const struct sq_row *row, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_prolong_job, err);

    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, row->id, row->timestamp_at_ms);
    sq_bind_i64(st, 4, tx->now_ms);
    sq_bind_i64(st, 5, EMQ__KNOWN_MAX_MS);
    return sq_exec(tx->conn, st, where, err);
}

emq_status sq_marker_drop_job(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                              emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_marker_drop_job, err);

    if (!st)
        return sq_no_stmt(err);
    bind_key(st, q, row->id, row->timestamp_at_ms);
    return sq_exec(tx->conn, st, where, err);
}
