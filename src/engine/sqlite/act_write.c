/* SPDX-License-Identifier: MIT
 *
 * The act `write`: progress, data and log lines of one job.
 *
 * The one invariant: an owner's token is compared with the row in the same transaction as the
 * write, and a write never makes a record. A refused owner leaves a history entry and nothing else.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/admin.h"

struct write_arg {
    const struct emq__write_req *req;
    struct emq__write_res *res;
    struct emq__arena *mem;
};

static const char *kind_name(enum emq__write_kind kind)
{
    switch (kind) {
    case EMQ__WRITE_PROGRESS: return "progress";
    case EMQ__WRITE_DATA: return "data";
    case EMQ__WRITE_LOG: return "log";
    case EMQ__WRITE_CLEAR_LOGS: return "clear-logs";
    case EMQ__WRITE_NOTE: return "note";
    }
    return "write";
}

static emq_status write_progress(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row,
                                 const struct emq__write_req *req, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_write_progress, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_text(st, 2, req->value.bytes);
    emq_status s = sq_exec(tx->conn, st, "write progress", err);
    if (s != EMQ_OK)
        return s;
    sq_event_begin(q, "progress");
    sq_event_str(q, "jobId", row->id);
    sq_event_json(q, "data", req->value.bytes);
    sq_event_end(q);
    q->wake_events = true;
    return EMQ_OK;
}

/* Long data lives in its own table, so that moves do not rewrite it. */
static emq_status write_data(struct sq_tx *tx, struct sq_row *row, const struct emq__write_req *req,
                             emq_error *err)
{
    bool was_side = row->side & SQ_SIDE_DATA, side = req->value.bytes.len > SQ_INLINE_MAX;
    row->side = side ? row->side | SQ_SIDE_DATA : row->side & ~SQ_SIDE_DATA;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_write_data, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, req->value.kind);
    if (!side) /* else it stays NULL */
        sq_bind_payload(st, 3, req->value);
    sq_bind_i64(st, 4, row->side);
    emq_status s = sq_exec(tx->conn, st, "write data", err);
    if (s != EMQ_OK || (!side && !was_side))
        return s;
    st = sq_stmt(tx->conn, side ? SQ_SQL_write_data_side : SQ_SQL_write_data_unside, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    if (side)
        sq_bind_payload(st, 2, req->value);
    return sq_exec(tx->conn, st, "write data", err);
}

static emq_status last_line(struct sq_tx *tx, int64_t jid, int64_t *n, emq_error *err)
{
    bool got = false;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_write_log_last, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    emq_status s = sq_step(tx->conn, st, &got, "write log", err);
    *n = s == EMQ_OK && got ? sq_col_i64(st, 0) : 0;
    sqlite3_reset(st);
    return s;
}

/* LOG and CLEAR_LOGS: add `line` (NULL = none), keep the newest lines. */
static emq_status write_logs(struct sq_tx *tx, const struct sq_row *row, const emq_str *line,
                             int64_t keep, int64_t *logs, emq_error *err)
{
    int64_t last = 0, count = row->logs;
    sqlite3_stmt *st;
    emq_status s = last_line(tx, row->jid, &last, err);
    if (s != EMQ_OK)
        return s;
    if (line && keep != 0) {
        st = sq_stmt(tx->conn, SQ_SQL_write_log_add, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, row->jid);
        sq_bind_i64(st, 2, ++last);
        sq_bind_text(st, 3, *line);
        s = sq_exec(tx->conn, st, "write log", err);
        count++;
    }
    if (s == EMQ_OK && keep >= 0 && count > keep) {
        st = sq_stmt(tx->conn, SQ_SQL_write_log_trim, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, row->jid);
        sq_bind_i64(st, 2, last - keep);
        s = sq_exec(tx->conn, st, "write log", err);
        count = keep;
    }
    *logs = count;
    if (s != EMQ_OK || count == row->logs)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_write_logs, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, count);
    return sq_exec(tx->conn, st, "write log", err);
}

static emq_status write_apply(struct sq_tx *tx, struct sq_queue *q, const struct write_arg *a,
                              emq_error *err)
{
    const struct emq__write_req *req = a->req;
    struct sq_row row;
    emq_status s = sq_row_get(tx, q, req->id, a->mem, &row, err);
    if (s != EMQ_OK)
        return s;
    if (row.state == SQ_STAGED)
        return EMQ_NOT_FOUND;
    if (req->auth.token.len &&
        (row.state != EMQ_ACTIVE || !sq_row_token_is(&row, req->auth.token))) {
        s = sq_history(tx, &row, "refused", req->auth.token, emq_cstr(kind_name(req->kind)), err);
        return s == EMQ_OK ? EMQ_LOST : s;
    }
    a->res->logs = row.logs;
    switch (req->kind) {
    case EMQ__WRITE_PROGRESS: s = write_progress(tx, q, &row, req, err); break;
    case EMQ__WRITE_DATA: s = write_data(tx, &row, req, err); break;
    case EMQ__WRITE_LOG:
        s = write_logs(tx, &row, &req->value.bytes, req->keep, &a->res->logs, err);
        break;
    case EMQ__WRITE_CLEAR_LOGS:
        s = write_logs(tx, &row, NULL, req->keep, &a->res->logs, err);
        break;
    case EMQ__WRITE_NOTE:
        return sq_history(tx, &row, "note", req->auth.admin, emq__detail(req->value.bytes), err);
    }
    if (s == EMQ_OK && !req->auth.token.len)
        s = sq_history(tx, &row, "admin", req->auth.admin, emq_cstr(kind_name(req->kind)), err);
    return s;
}

static emq_status write_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct write_arg *a = arg;
    emq_str body;
    *a->res = (struct emq__write_res){.now_ms = tx->now_ms};
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_WRITE, a->mem, &body, err);
    if (s == EMQ_OK) {
        struct sq_reader r = {(const unsigned char *)body.ptr,
                              (const unsigned char *)body.ptr + body.len, false};
        s = (emq_status)sq_get_i64(&r);
        a->res->logs = sq_get_i64(&r);
        return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "write", "the stored receipt is damaged")
                     : s;
    }
    if (s != EMQ_NOT_FOUND)
        return s;
    s = write_apply(tx, q, a, err);
    if (s < 0 || !a->req->call.session.len)
        return s;
    struct emq__buf b;
    emq__buf_init(&b, 64);
    sq_put_i64(&b, s);
    sq_put_i64(&b, a->res->logs);
    emq_status stored =
        sq_receipt_store(tx, a->req->call, SQ_RECEIPT_WRITE, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return stored == EMQ_OK ? s : stored;
}

emq_status sq_act_write(struct emq__engine *e, const struct emq__write_req *req,
                        struct emq__write_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct write_arg a = {req, res, mem};
    *res = (struct emq__write_res){0};
    if (req->kind < EMQ__WRITE_PROGRESS || req->kind > EMQ__WRITE_NOTE)
        return emq__fail(err, EMQ_E_INVALID, 0, "write", "no such kind of write: %d",
                         (int)req->kind);
    if (!req->auth.token.len && !req->auth.admin.len)
        return emq__fail(err, EMQ_E_INVALID, 0, "write",
                         "neither the owner's token nor an administrator's name was given");
    if (req->kind == EMQ__WRITE_NOTE && req->auth.token.len)
        return emq__fail(err, EMQ_E_INVALID, 0, "write",
                         "a note is an administrator's: give a name instead of a token");
    res->now_ms = sq_now_ms(s);
    return sq_write_queue(s, req->prefix, req->queue, write_fn, &a, err);
}
