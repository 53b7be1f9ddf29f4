/* SPDX-License-Identifier: MIT
 *
 * The act `change`: an administrator changes single jobs.
 *
 * The one invariant: what a job's state and lock allow is decided in the transaction that changes
 * it. A dedup id is not touched by RETRY: a job that had let go of it does not take it again, so
 * that a newer owner keeps it; one with a window still running keeps it. REMOVE releases it by
 * comparison.
 */
#include "base/error.h"
#include "engine/sqlite/admin.h"
#include "engine/sqlite/marker.h"

struct change_arg {
    const struct emq__change_req *req;
    struct emq__change_res *res;
    struct emq__arena *mem;
};

static const char *name_of(const struct emq__change *c)
{
    switch (c->kind) {
    case EMQ__CHANGE_DELAY: return "delay";
    case EMQ__CHANGE_PRIORITY: return "priority";
    case EMQ__CHANGE_PROMOTE: return "promote";
    case EMQ__CHANGE_RETRY:
        return c->effects == EMQ__EFFECTS_REDO   ? "retry --redo"
               : c->effects == EMQ__EFFECTS_KEEP ? "retry --keep-effect"
                                                 : "retry";
    case EMQ__CHANGE_REMOVE: return "remove";
    case EMQ__CHANGE_CANCEL: return "cancel";
    }
    return "change";
}

static bool is_finished(int state)
{
    return state == EMQ_COMPLETED_STATE || state == EMQ_FAILED_STATE;
}

/* A retry that nobody has decided about: is it known that an effect of the job was done? */
static emq_status ask_effects(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                              emq_error *err)
{
    bool done;
    emq_status s = sq_marker_any_done(tx, q, row->id, row->timestamp_at_ms, &done, err);

    return s == EMQ_OK && done ? EMQ_EFFECT_DONE : s;
}

emq_status sq_change_allowed(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                             const struct emq__change *c, emq_error *err)
{
    if (row->state == SQ_STAGED)
        return EMQ_NOT_FOUND;
    switch (c->kind) {
    case EMQ__CHANGE_DELAY:
    case EMQ__CHANGE_PROMOTE: return row->state == EMQ_DELAYED ? EMQ_OK : EMQ_WRONG_STATE;
    case EMQ__CHANGE_PRIORITY: return EMQ_OK;
    case EMQ__CHANGE_RETRY:
        if (!is_finished(row->state))
            return EMQ_WRONG_STATE;
        return c->effects == EMQ__EFFECTS_ASK ? ask_effects(tx, q, row, err) : EMQ_OK;
    case EMQ__CHANGE_REMOVE: return sq_row_locked(tx, row) ? EMQ_LOCKED : EMQ_OK;
    case EMQ__CHANGE_CANCEL: return is_finished(row->state) ? EMQ_WRONG_STATE : EMQ_OK;
    }
    return EMQ_WRONG_STATE;
}

/* A delayed job stays delayed, also when it is due at once: the next take promotes it. */
static emq_status change_delay(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                               int64_t delay_ms, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_change_delay, err);
    if (!st)
        return sq_no_stmt(err);
    row->ord1 = emq__sat_add(tx->now_ms, delay_ms);
    row->ord2 = ++q->back;
    row->delay_ms = delay_ms;
    q->dirty = q->wake = true;
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, row->ord1);
    sq_bind_i64(st, 3, row->ord2);
    sq_bind_i64(st, 4, row->delay_ms);
    emq_status s = sq_exec(tx->conn, st, "change delay", err);
    if (s == EMQ_OK)
        sq_requeue_event(q, row, NULL);
    return s;
}

static emq_status change_priority(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                                  const struct emq__change *c, emq_error *err)
{
    if (row->state == EMQ_WAITING || row->state == EMQ_PRIORITIZED) {
        struct sq_requeue to = sq_requeue_of(row);
        to.priority = c->priority;
        to.front = c->lifo;
        to.delay_ms = 0;
        return sq_row_requeue(tx, q, row, &to, err);
    }
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_change_priority, err);
    if (!st)
        return sq_no_stmt(err);
    row->priority = c->priority;
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, c->priority);
    return sq_exec(tx->conn, st, "change priority", err);
}

static emq_status change_promote(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                                 emq_error *err)
{
    struct sq_requeue to = sq_requeue_of(row);
    to.delay_ms = 0;
    emq_status s = sq_row_requeue(tx, q, row, &to, err);
    if (s == EMQ_OK)
        sq_requeue_event(q, row, "delayed");
    return s;
}

static emq_status change_retry(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                               const struct emq__change *c, emq_error *err)
{
    const char *prev = emq_state_name(row->state);
    emq_status s = c->effects == EMQ__EFFECTS_REDO ? sq_marker_drop_job(tx, q, row, err)
                                                   : sq_marker_prolong_job(tx, q, row, err);
    if (s == EMQ_OK)
        s = sq_row_reprocess(tx, q, row, c, err);
    if (s != EMQ_OK)
        return s;
    q->totals.retried++;
    q->dirty = true;
    sq_requeue_event(q, row, prev);
    return EMQ_OK;
}

static emq_status change_remove(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row,
                                bool quiet, emq_error *err)
{
    emq_status s = sq_row_delete(tx, q, row, true, err);
    if (s != EMQ_OK || quiet)
        return s;
    sq_event_begin(q, "removed");
    sq_event_str(q, "jobId", row->id);
    sq_event_str(q, "prev", emq_cstr(sq_state_raw(row->state)));
    sq_event_end(q);
    return EMQ_OK;
}

static emq_status change_cancel(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                                bool *gone, struct emq__arena *mem, emq_error *err)
{
    if (row->state == EMQ_ACTIVE) {
        sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_change_cancel, err);
        if (!st)
            return sq_no_stmt(err);
        row->cancel = 1;
        q->dirty = q->wake = q->wake_events = true; /* the owner should hear before its renewal */
        sq_bind_i64(st, 1, row->jid);
        return sq_exec(tx->conn, st, "cancel", err);
    }
    struct emq__opts o;
    emq_status s = sq_opts_of(tx, row, mem, &o, err);
    if (s != EMQ_OK)
        return s;
    struct sq_finish f = {
        .state = EMQ_FAILED_STATE,
        .atm = row->atm,
        .ats = row->ats,
        .stalled = row->stalled,
        .reason = EMQ_STR_LIT(EMQ__TEXT_CANCELLED),
        .keep = o.keep_failed,
        .prev = emq_state_name(row->state),
    };
    return sq_finish(tx, q, row, &f, gone, mem, err);
}

emq_status sq_change_row(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                         const struct emq__change *c, bool quiet, struct emq__settled *out,
                         struct emq__arena *mem, emq_error *err)
{
    bool gone = false;
    emq_status s = EMQ_OK;

    *out = (struct emq__settled){sq_change_allowed(tx, q, row, c, err), row->state};
    if (out->outcome == EMQ_NOT_FOUND)
        out->state = 0;
    if (out->outcome != EMQ_OK)
        return emq__is_failure(out->outcome) ? out->outcome : EMQ_OK;
    if (c->kind == EMQ__CHANGE_RETRY)
        s = sq_history_keep(tx, row, err);
    if (s == EMQ_OK && c->admin.len && c->kind != EMQ__CHANGE_REMOVE) /* it would go with the job */
        s = sq_history(tx, row, "admin", c->admin, emq_cstr(name_of(c)), err);
    if (s != EMQ_OK)
        return s;
    switch (c->kind) {
    case EMQ__CHANGE_DELAY: s = change_delay(tx, q, row, c->delay_ms, err); break;
    case EMQ__CHANGE_PRIORITY: s = change_priority(tx, q, row, c, err); break;
    case EMQ__CHANGE_PROMOTE: s = change_promote(tx, q, row, err); break;
    case EMQ__CHANGE_RETRY: s = change_retry(tx, q, row, c, err); break;
    case EMQ__CHANGE_REMOVE:
        s = change_remove(tx, q, row, quiet, err);
        gone = true;
        break;
    case EMQ__CHANGE_CANCEL: s = change_cancel(tx, q, row, &gone, mem, err); break;
    }
    out->state = gone ? 0 : row->state;
    return s;
}

static emq_status replay(const struct change_arg *a, emq_str body, emq_error *err)
{
    struct sq_reader r = {(const unsigned char *)body.ptr,
                          (const unsigned char *)body.ptr + body.len, false};
    int64_t n = sq_get_i64(&r);
    if (n != (int64_t)a->req->n)
        return emq__fail(err, EMQ_E_INVALID, 0, "change",
                         "this sequence of the session was a change of %lld jobs, not of %zu",
                         (long long)n, a->req->n);
    for (size_t i = 0; i < a->req->n; i++) {
        a->res->changed[i].outcome = (emq_status)sq_get_i64(&r);
        a->res->changed[i].state = (int)sq_get_i64(&r);
    }
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "change", "the stored receipt is damaged")
                 : EMQ_OK;
}

static emq_status remember(struct sq_tx *tx, const struct change_arg *a, emq_error *err)
{
    struct emq__buf b;
    if (!a->req->call.session.len)
        return EMQ_OK;
    emq__buf_init(&b, 64 + a->req->n * 32);
    sq_put_i64(&b, (int64_t)a->req->n);
    for (size_t i = 0; i < a->req->n; i++) {
        sq_put_i64(&b, a->res->changed[i].outcome);
        sq_put_i64(&b, a->res->changed[i].state);
    }
    emq_status s =
        b.failed ? emq__fail(err, b.failed, 0, "change", "receipt of %zu jobs", a->req->n)
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_CHANGE, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status change_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct change_arg *a = arg;
    emq_str body;
    a->res->now_ms = tx->now_ms;
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_CHANGE, a->mem, &body, err);
    if (s == EMQ_OK)
        return replay(a, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    for (size_t i = 0; i < a->req->n; i++) {
        struct sq_row row;
        s = sq_row_get(tx, q, a->req->ids[i], a->mem, &row, err);
        if (s == EMQ_NOT_FOUND)
            a->res->changed[i] = (struct emq__settled){EMQ_NOT_FOUND, 0};
        else if (s == EMQ_OK)
            s = sq_change_row(tx, q, &row, &a->req->change, false, &a->res->changed[i], a->mem,
                              err);
        if (s < 0)
            return s;
    }
    return remember(tx, a, err);
}

emq_status sq_act_change(struct emq__engine *e, const struct emq__change_req *req,
                         struct emq__change_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct change_arg a = {req, res, mem};

    *res = (struct emq__change_res){.n = req->n};
    if (req->change.kind < EMQ__CHANGE_DELAY || req->change.kind > EMQ__CHANGE_CANCEL)
        return emq__fail(err, EMQ_E_INVALID, 0, "change", "no such kind of change: %d",
                         (int)req->change.kind);
    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "change", "%zu jobs; at most %d in one act", req->n,
                         EMQ__BATCH_MAX);
    res->changed = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->changed);
    if (!res->changed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "change", "%zu outcomes", req->n);
    emq_status st = sq_write_queue(s, req->prefix, req->queue, change_fn, &a, err);
    if (st != EMQ_NOT_FOUND)
        return st;
    for (size_t i = 0; i < req->n; i++)
        res->changed[i] = (struct emq__settled){EMQ_NOT_FOUND, 0};
    res->now_ms = sq_now_ms(s);
    return EMQ_OK;
}
