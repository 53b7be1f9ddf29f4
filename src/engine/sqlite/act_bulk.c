/* SPDX-License-Identifier: MIT
 *
 * The acts `bulk` and `obliterate`: changes over whole states, in bounded slices.
 *
 * A bulk act first looks for the jobs in a read transaction, however many it has to pass over, and
 * then changes them in a write transaction that decides for each job again. So the write lock is
 * held for at most `limit` changes, and for the time of a slice; a job that moved in between is left
 * alone.
 */
#include "base/error.h"
#include "engine/sqlite/admin.h"

struct bulk_arg {
    const struct emq__bulk_req *req;
    struct emq__bulk_res *res;
    struct emq__arena *mem;
    emq_str *ids;
    size_t n, cap;
    bool more, done;
};

static int32_t limit_of(int32_t limit)
{
    return limit > 0 && limit < EMQ__BATCH_MAX ? limit : EMQ__BATCH_MAX;
}

static bool by_finish(int32_t state)
{
    return state == EMQ_COMPLETED_STATE || state == EMQ_FAILED_STATE;
}

static bool old_enough(const struct sq_tx *tx, const struct sq_row *row, int64_t older_ms)
{
    int64_t since = by_finish(row->state) ? row->finished_at_ms : row->timestamp_at_ms;
    return older_ms <= 0 || since <= tx->now_ms - older_ms;
}

static emq_status bulk_replay(struct sq_tx *tx, struct bulk_arg *a, emq_error *err)
{
    emq_str body;
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_BULK, a->mem, &body, err);
    if (s != EMQ_OK)
        return s;
    struct sq_reader r = {(const unsigned char *)body.ptr,
                          (const unsigned char *)body.ptr + body.len, false};
    a->res->count = sq_get_i64(&r);
    a->res->more = sq_get_i64(&r) != 0;
    a->res->last_id = sq_get_str(&r);
    a->done = true;
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "bulk", "the stored receipt is damaged")
                 : EMQ_OK;
}

/* Where the scan begins: behind after_id, or before everything. */
static emq_status bulk_start(struct sq_tx *tx, const struct sq_queue *q, const struct bulk_arg *a,
                             int64_t *ord1, int64_t *ord2, emq_error *err)
{
    struct sq_row row;
    *ord1 = *ord2 = INT64_MIN;
    if (!a->req->after_id.len)
        return EMQ_OK;
    emq_status s = sq_row_get(tx, q, a->req->after_id, a->mem, &row, err);
    if (s != EMQ_OK)
        return s;
    *ord1 = row.ord1;
    *ord2 = row.ord2;
    return row.state == a->req->state ? EMQ_OK : EMQ_NOT_FOUND;
}

/* Would the change take this job of the scan? *end: neither it nor any behind it. */
static emq_status bulk_wants(struct sq_tx *tx, const struct sq_queue *q, const struct bulk_arg *a,
                             const struct sq_row *row, bool *wants, bool *end, emq_error *err)
{
    emq_status s = EMQ_WRONG_STATE;
    bool old = old_enough(tx, row, a->req->older_ms);

    *end = !old && by_finish(row->state); /* these are in the order of their age */
    if (old)
        s = sq_change_allowed(tx, q, row, &a->req->change, err);
    *wants = s == EMQ_OK;
    return emq__is_failure(s) ? s : EMQ_OK;
}

static emq_status bulk_scan(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct bulk_arg *a = arg;
    int64_t ord1, ord2;
    bool got, end = false;
    a->res->now_ms = tx->now_ms;
    emq_status s = bulk_replay(tx, a, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    s = bulk_start(tx, q, a, &ord1, &ord2, err);
    if (s != EMQ_OK)
        return s;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_bulk_scan, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, a->req->state);
    sq_bind_i64(st, 3, ord1);
    sq_bind_i64(st, 4, ord2);
    a->n = 0;
    while (!end && !a->more && (s = sq_step(tx->conn, st, &got, "bulk", err)) == EMQ_OK && got) {
        bool wants;
        struct sq_row row = {.jid = sq_col_i64(st, 0),
                             .id = sq_col_str(st, 1),
                             .lock_end = sq_col_i64(st, 2),
                             .lock_boot = sq_col_i64(st, 3),
                             .timestamp_at_ms = sq_col_i64(st, 4),
                             .finished_at_ms = sq_col_i64(st, 5),
                             .state = a->req->state};
        s = bulk_wants(tx, q, a, &row, &wants, &end, err);
        if (s != EMQ_OK)
            break;
        if (!wants)
            continue;
        if (a->n == (size_t)limit_of(a->req->limit)) {
            a->more = true;
            continue;
        }
        a->ids = sq_grow(a->mem, a->ids, a->n, &a->cap, sizeof *a->ids);
        if (a->ids)
            a->ids[a->n] = sq_col_copy(st, 1, a->mem);
        if (!a->ids || !a->ids[a->n].ptr) {
            s = emq__fail(err, EMQ_E_NOMEM, 0, "bulk", "%zu ids", a->n + 1);
            break;
        }
        a->n++;
    }
    sqlite3_reset(st);
    return s;
}

static emq_status bulk_one(struct sq_tx *tx, struct sq_queue *q, struct bulk_arg *a, emq_str id,
                           emq_error *err)
{
    struct sq_row row;
    struct emq__settled out;
    emq_status s = sq_row_get(tx, q, id, a->mem, &row, err);
    if (s == EMQ_NOT_FOUND)
        return EMQ_OK;
    if (s != EMQ_OK || row.state != a->req->state || !old_enough(tx, &row, a->req->older_ms))
        return s;
    s = sq_change_row(tx, q, &row, &a->req->change, true, &out, a->mem, err);
    if (s == EMQ_OK && out.outcome == EMQ_OK) {
        a->res->count++;
        a->res->last_id = id;
    }
    return s;
}

static emq_status bulk_apply(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct bulk_arg *a = arg;
    a->res->now_ms = tx->now_ms;
    emq_status s = bulk_replay(tx, a, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    a->res->count = 0;
    a->res->last_id = (emq_str){0};
    a->res->more = false;
    s = EMQ_OK;
    for (size_t i = 0; i < a->n && s == EMQ_OK && !a->res->more; i++) {
        s = bulk_one(tx, q, a, a->ids[i], err);
        a->res->more = i + 1 < a->n && sq_slice_over(tx, a->res->count);
    }
    a->res->more = a->res->more || a->more;
    if (s != EMQ_OK)
        return s;
    if (a->req->change.kind == EMQ__CHANGE_REMOVE && a->req->event && a->res->count > 0) {
        sq_event_begin(q, "cleaned");
        sq_event_i64(q, "count", a->res->count);
        sq_event_end(q);
    }
    if (!a->req->call.session.len)
        return EMQ_OK;
    struct emq__buf b;
    emq__buf_init(&b, 1024);
    sq_put_i64(&b, a->res->count);
    sq_put_i64(&b, a->res->more);
    sq_put_str(&b, a->res->last_id);
    s = b.failed ? emq__fail(err, b.failed, 0, "bulk", "receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_BULK, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

emq_status sq_act_bulk(struct emq__engine *e, const struct emq__bulk_req *req,
                       struct emq__bulk_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct bulk_arg a = {.req = req, .res = res, .mem = mem};

    *res = (struct emq__bulk_res){.now_ms = sq_now_ms(s)};
    if (req->change.kind < EMQ__CHANGE_DELAY || req->change.kind > EMQ__CHANGE_CANCEL)
        return emq__fail(err, EMQ_E_INVALID, 0, "bulk", "no such kind of change: %d",
                         (int)req->change.kind);
    if (req->state < EMQ_WAITING || req->state > EMQ_STATE_COUNT)
        return emq__fail(err, EMQ_E_INVALID, 0, "bulk", "no such state: %d", (int)req->state);
    emq_status st = sq_read_queue(s, req->prefix, req->queue, bulk_scan, &a, err);
    if (st == EMQ_NOT_FOUND)
        return req->after_id.len ? EMQ_NOT_FOUND : EMQ_OK;
    if (st != EMQ_OK || a.done)
        return st;
    if (a.n == 0 && !req->call.session.len)
        return EMQ_OK;
    st = sq_write_queue(s, req->prefix, req->queue, bulk_apply, &a, err);
    return st == EMQ_NOT_FOUND ? EMQ_OK : st;
}

/* ---- obliterate ------------------------------------------------------------------------------ */

struct obliterate_arg {
    const struct emq__obliterate_req *req;
    struct emq__obliterate_res *res;
    struct emq__arena *mem;
};

enum { REST_PAGE = 250 }; /* rows that are no jobs, in one statement */

static emq_status obliterate_replay(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct obliterate_arg *a = arg;
    emq_str body;
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_OBLITERATE, a->mem, &body, err);
    if (s != EMQ_OK)
        return s;
    struct sq_reader r = {(const unsigned char *)body.ptr,
                          (const unsigned char *)body.ptr + body.len, false};
    a->res->count = sq_get_i64(&r);
    a->res->more = sq_get_i64(&r) != 0;
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "obliterate", "the stored receipt is damaged")
                 : EMQ_OK;
}

/* One statement over the queue. page: its ?2, the most that it deletes; 0 = it has none. */
static emq_status on_qid(struct sq_tx *tx, struct sq_queue *q, enum sq_sql id, int64_t page,
                         emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, id, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    if (page > 0)
        sq_bind_i64(st, 2, page);
    return sq_exec(tx->conn, st, "obliterate", err);
}

/* At most `max` jobs of one state and a page; *n were there. */
static emq_status obliterate_page(struct sq_tx *tx, struct sq_queue *q, int state, int64_t max,
                                  int64_t *n, emq_error *err)
{
    struct emq__arena mem = {0};
    struct sq_row rows[SQ_SLICE_MIN];
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_obliterate_page, err);
    bool got;
    emq_status s = EMQ_OK;
    *n = 0;
    if (!st)
        return sq_no_stmt(err);
    if (max > SQ_SLICE_MIN)
        max = SQ_SLICE_MIN;
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, state);
    sq_bind_i64(st, 3, max);
    while (*n < max && (s = sq_step(tx->conn, st, &got, "obliterate", err)) == EMQ_OK && got &&
           (s = sq_row_read(st, &mem, &rows[*n], err)) == EMQ_OK)
        ++*n;
    sqlite3_reset(st);
    for (int64_t i = 0; i < *n && s == EMQ_OK; i++)
        s = sq_row_delete(tx, q, &rows[i], true, err);
    emq__arena_free(&mem);
    return s;
}

/* The jobs, as many as the slice may have. */
static emq_status obliterate_jobs(struct sq_tx *tx, struct sq_queue *q, struct obliterate_arg *a,
                                  emq_error *err)
{
    const int64_t limit = limit_of(a->req->limit);
    int64_t *done = &a->res->count, n;
    emq_status s = EMQ_OK;
    for (int state = EMQ_WAITING; state <= EMQ_STATE_COUNT; state++)
        for (n = 1; s == EMQ_OK && n > 0 && *done < limit && !sq_slice_over(tx, *done);) {
            s = obliterate_page(tx, q, state, limit - *done, &n, err);
            *done += n;
        }
    return s;
}

/* Jobs of stages that were not published: they were never counted. */
static emq_status obliterate_staged(struct sq_tx *tx, struct sq_queue *q, int64_t *done,
                                    emq_error *err)
{
    int64_t n = 1;
    emq_status s = on_qid(tx, q, SQ_SQL_obliterate_stages, 0, err);
    while (s == EMQ_OK && n > 0 && !sq_slice_over(tx, *done)) {
        s = obliterate_page(tx, q, SQ_STAGED, SQ_SLICE_MIN, &n, err);
        q->totals.removed -= n;
        *done += n;
    }
    return s;
}

/* Rows that are no jobs. */
static emq_status obliterate_rows(struct sq_tx *tx, struct sq_queue *q, enum sq_sql id,
                                  int64_t *done, emq_error *err)
{
    int64_t n = 1;
    emq_status s = EMQ_OK;
    while (s == EMQ_OK && n > 0 && !sq_slice_over(tx, *done)) {
        s = on_qid(tx, q, id, REST_PAGE, err);
        n = sqlite3_changes(tx->conn->db);
        *done += n;
    }
    return s;
}

/* While a forced obliteration goes on nobody takes its jobs. */
static emq_status obliterate_pause(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_meta_put, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, EMQ_STR_LIT("paused"));
    sq_bind_text(st, 3, EMQ_STR_LIT("1"));
    return sq_exec(tx->conn, st, "obliterate", err);
}

/* The queue's row counts the events that a slice has left. */
static emq_status count_events(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_obliterate_events_left, err);
    bool got;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    emq_status s = sq_step(tx->conn, st, &got, "obliterate", err);
    if (s == EMQ_OK && got)
        q->event_count = sq_col_i64(st, 0);
    sqlite3_reset(st);
    return s;
}

/* What is left of a queue without jobs, and then the queue itself. */
static emq_status obliterate_rest(struct sq_tx *tx, struct sq_queue *q, struct obliterate_arg *a,
                                  emq_error *err)
{
    static const enum sq_sql sliced[] = {SQ_SQL_obliterate_dedup_next, SQ_SQL_obliterate_dedup,
                                         SQ_SQL_obliterate_events,     SQ_SQL_obliterate_metrics,
                                         SQ_SQL_obliterate_schedulers, SQ_SQL_obliterate_markers};
    static const enum sq_sql whole[] = {SQ_SQL_obliterate_meta, SQ_SQL_obliterate_queue};
    int64_t done = a->res->count;
    emq_status s = obliterate_staged(tx, q, &done, err);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sliced) && s == EMQ_OK; i++)
        s = obliterate_rows(tx, q, sliced[i], &done, err);
    if (s == EMQ_OK && sq_slice_over(tx, done))
        return count_events(tx, q, err);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(whole) && s == EMQ_OK; i++)
        s = on_qid(tx, q, whole[i], 0, err);
    q->dirty = false; /* the row is gone: nothing to save */
    a->res->more = false;
    return s;
}

static emq_status obliterate_slice(struct sq_tx *tx, struct sq_queue *q, struct obliterate_arg *a,
                                   emq_error *err)
{
    int64_t jobs = 0;
    *a->res = (struct emq__obliterate_res){.now_ms = tx->now_ms, .more = true};
    emq_status s = obliterate_jobs(tx, q, a, err);
    for (int state = EMQ_WAITING; state <= EMQ_STATE_COUNT; state++)
        jobs += q->count[state];
    q->dirty = true;
    sq_ring_events_later(tx, q->prefix, q->name);
    if (s == EMQ_OK && jobs == 0)
        s = obliterate_rest(tx, q, a, err);
    if (s == EMQ_OK && a->res->more && !q->paused)
        s = obliterate_pause(tx, q, err);
    return s;
}

static emq_status obliterate_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct obliterate_arg *a = arg;
    a->res->now_ms = tx->now_ms;
    emq_status s = obliterate_replay(tx, a, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    if (!q->paused && !a->req->force)
        return EMQ_WRONG_STATE;
    if (q->count[EMQ_ACTIVE] > 0 && !a->req->force)
        return EMQ_LOCKED;
    s = obliterate_slice(tx, q, a, err);
    if (s != EMQ_OK || !a->req->call.session.len)
        return s;
    struct emq__buf b;
    emq__buf_init(&b, 64);
    sq_put_i64(&b, a->res->count);
    sq_put_i64(&b, a->res->more);
    s = b.failed
            ? emq__fail(err, b.failed, 0, "obliterate", "receipt")
            : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_OBLITERATE, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

emq_status sq_act_obliterate(struct emq__engine *e, const struct emq__obliterate_req *req,
                             struct emq__obliterate_res *res, struct emq__arena *mem,
                             emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct obliterate_arg a = {.req = req, .res = res, .mem = mem};

    *res = (struct emq__obliterate_res){.now_ms = sq_now_ms(s)};
    emq_status st = (req->force ? sq_write_unseen : sq_write_queue)(s, req->prefix, req->queue,
                                                                    obliterate_fn, &a, err);
    if (st != EMQ_NOT_FOUND)
        return st;
    /* No such queue: unknown, or this very call has ended it before. */
    st = req->call.session.len ? sq_read(s, obliterate_replay, &a, err) : EMQ_OK;
    return st == EMQ_NOT_FOUND ? EMQ_OK : st;
}
