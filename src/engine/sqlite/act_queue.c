/* SPDX-License-Identifier: MIT
 *
 * The acts `meta` and `dedup`: settings of a queue, and who holds a producer's dedup id.
 *
 * Settings are checked before anything is written. A dedup id is released by comparison with its owner.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/admin.h"

/* ---- meta ------------------------------------------------------------------------------------ */

struct meta_arg {
    const struct emq__meta_req *req;
    struct emq__meta_res *res;
    struct emq__arena *mem;
};

static emq_status meta_write(struct sq_tx *tx, struct sq_queue *q, const struct emq__meta_field *f,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, f->value.len ? SQ_SQL_meta_put : SQ_SQL_meta_drop, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, f->field);
    if (f->value.len)
        sq_bind_text(st, 3, f->value);
    emq_status s = sq_exec(tx->conn, st, "meta", err);
    q->dirty = q->wake = q->wake_events = true; /* more may run now, or less */
    if (s == EMQ_OK && emq__str_is(f->field, "paused")) {
        sq_event_begin(q, f->value.len ? "paused" : "resumed");
        sq_event_end(q);
    }
    if (s == EMQ_OK && emq__str_is(f->field, "opts.maxLenEvents") && emq__str_is(f->value, "0")) {
        /* No event will be written any more that would trim the old ones. */
        st = sq_stmt(tx->conn, SQ_SQL_meta_no_events, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, q->qid);
        s = sq_exec(tx->conn, st, "meta", err);
        q->event_count = 0;
        q->max_events = 0;
    }
    return s;
}

static emq_status meta_read(struct sq_tx *tx, const struct sq_queue *q, const struct meta_arg *a,
                            emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_meta_list, err);
    size_t cap = 0;
    bool got;
    emq_status s;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    while ((s = sq_step(tx->conn, st, &got, "meta", err)) == EMQ_OK && got) {
        struct emq__meta_field *f =
            sq_grow(a->mem, a->res->fields, a->res->n, &cap, sizeof *a->res->fields);
        if (f) {
            a->res->fields = f;
            f += a->res->n;
            f->field = sq_col_copy(st, 0, a->mem);
            f->value = sq_col_copy(st, 1, a->mem);
        }
        if (!f || !f->field.ptr || !f->value.ptr) {
            s = emq__fail(err, EMQ_E_NOMEM, 0, "meta", "%zu settings", a->res->n + 1);
            break;
        }
        a->res->n++;
    }
    sqlite3_reset(st);
    return s;
}

static emq_status meta_replay(const struct meta_arg *a, emq_str body, emq_error *err)
{
    struct sq_reader r = {(const unsigned char *)body.ptr,
                          (const unsigned char *)body.ptr + body.len, false};
    int64_t n = sq_get_i64(&r);
    size_t cap = 0;
    for (int64_t i = 0; i < n && !r.bad; i++) {
        struct emq__meta_field *f =
            sq_grow(a->mem, a->res->fields, a->res->n, &cap, sizeof *a->res->fields);
        if (!f)
            return emq__fail(err, EMQ_E_NOMEM, 0, "meta", "%lld settings", (long long)n);
        a->res->fields = f;
        f[a->res->n].field = sq_get_str(&r);
        f[a->res->n++].value = sq_get_str(&r);
    }
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "meta", "the stored receipt is damaged")
                 : EMQ_OK;
}

static emq_status meta_remember(struct sq_tx *tx, const struct meta_arg *a, emq_error *err)
{
    struct emq__buf b;
    if (!a->req->call.session.len)
        return EMQ_OK;
    emq__buf_init(&b, EMQ__BATCH_BYTES);
    sq_put_i64(&b, (int64_t)a->res->n);
    for (size_t i = 0; i < a->res->n; i++) {
        sq_put_str(&b, a->res->fields[i].field);
        sq_put_str(&b, a->res->fields[i].value);
    }
    emq_status s =
        b.failed ? emq__fail(err, b.failed, 0, "meta", "receipt of %zu settings", a->res->n)
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_META, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status meta_on(struct sq_tx *tx, struct sq_queue *q, const struct meta_arg *a,
                          emq_error *err)
{
    emq_status s = EMQ_OK;
    for (size_t i = 0; i < a->req->n_set && s == EMQ_OK; i++)
        s = meta_write(tx, q, &a->req->set[i], err);
    if (s == EMQ_OK)
        s = meta_read(tx, q, a, err);
    return s == EMQ_OK && a->req->n_set ? sq_queue_save(tx, q, err) : s;
}

static emq_status meta_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    const struct meta_arg *a = arg;
    struct sq_queue q;
    emq_str body;
    emq_status s = EMQ_NOT_FOUND;
    *a->res = (struct emq__meta_res){.now_ms = tx->now_ms};
    if (a->req->n_set)
        s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_META, a->mem, &body, err);
    if (s == EMQ_OK)
        return meta_replay(a, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    s = sq_queue_open(tx, a->req->prefix, a->req->queue, a->req->n_set > 0, &q, err);
    if (s == EMQ_OK)
        s = meta_on(tx, &q, a, err);
    sq_queue_close(&q);
    if (s == EMQ_OK && a->req->n_set)
        s = meta_remember(tx, a, err);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

emq_status sq_act_meta(struct emq__engine *e, const struct emq__meta_req *req,
                       struct emq__meta_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct meta_arg a = {req, res, mem};

    emq_status bad = emq__meta_check(req, err);
    if (bad != EMQ_OK)
        return bad;
    return req->n_set ? sq_write(s, meta_fn, &a, err) : sq_read(s, meta_fn, &a, err);
}

/* ---- dedup ----------------------------------------------------------------------------------- */

struct dedup_arg {
    const struct emq__dedup_req *req;
    struct emq__dedup_res *res;
    struct emq__arena *mem;
};

static emq_status dedup_apply(struct sq_tx *tx, struct sq_queue *q, const struct dedup_arg *a,
                              emq_error *err)
{
    struct sq_dedup d;
    struct sq_row row;
    bool done = false;
    emq_status s = sq_dedup_get(tx, q, a->req->dedup_id, a->mem, &d, err);
    if (s != EMQ_OK)
        return s;
    if (d.expires_at_ms == 0) { /* without a window it is held by a living job, or by nobody */
        s = sq_row_get(tx, q, d.owner, a->mem, &row, err);
        if (s == EMQ_OK && row.state == SQ_STAGED)
            s = EMQ_NOT_FOUND;
        if (s == EMQ_NOT_FOUND && a->req->release) {
            emq_status dropped = sq_dedup_release(tx, q, a->req->dedup_id, d.owner, &done, err);
            s = dropped == EMQ_OK ? EMQ_NOT_FOUND : dropped;
        }
        if (s != EMQ_OK)
            return s;
    }
    if (a->req->release) {
        s = sq_dedup_release(tx, q, a->req->dedup_id, a->req->owner, &done, err);
        if (s != EMQ_OK || !done)
            return s == EMQ_OK ? EMQ_NOT_FOUND : s;
    }
    a->res->owner = d.owner;
    a->res->ttl_ms = d.expires_at_ms ? d.expires_at_ms - tx->now_ms : 0;
    return EMQ_OK;
}

static emq_status dedup_replay(struct dedup_arg *a, emq_str body, emq_error *err)
{
    struct sq_reader r = {(const unsigned char *)body.ptr,
                          (const unsigned char *)body.ptr + body.len, false};
    emq_status s = (emq_status)sq_get_i64(&r);
    a->res->owner = sq_get_str(&r);
    a->res->ttl_ms = sq_get_i64(&r);
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "dedup", "the stored receipt is damaged") : s;
}

static emq_status dedup_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct dedup_arg *a = arg;
    emq_str body;
    emq_status s = EMQ_NOT_FOUND;
    *a->res = (struct emq__dedup_res){.now_ms = tx->now_ms};
    if (a->req->release)
        s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_DEDUP, a->mem, &body, err);
    if (s == EMQ_OK)
        return dedup_replay(a, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    s = dedup_apply(tx, q, a, err);
    if (s < 0 || !a->req->release || !a->req->call.session.len)
        return s;
    struct emq__buf b;
    emq__buf_init(&b, 1024);
    sq_put_i64(&b, s);
    sq_put_str(&b, a->res->owner);
    sq_put_i64(&b, a->res->ttl_ms);
    emq_status stored =
        b.failed ? emq__fail(err, b.failed, 0, "dedup", "receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_DEDUP, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return stored == EMQ_OK ? s : stored;
}

emq_status sq_act_dedup(struct emq__engine *e, const struct emq__dedup_req *req,
                        struct emq__dedup_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct dedup_arg a = {req, res, mem};

    *res = (struct emq__dedup_res){.now_ms = sq_now_ms(s)};
    return req->release ? sq_write_queue(s, req->prefix, req->queue, dedup_fn, &a, err)
                        : sq_read_queue(s, req->prefix, req->queue, dedup_fn, &a, err);
}
