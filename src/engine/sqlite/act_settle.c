/* SPDX-License-Identifier: MIT
 *
 * settle: the end of hand-outs. The one invariant: state and token are compared in the transaction
 * that changes the job; a token that is not the job's changes nothing and is on record.
 */
#include "engine/sqlite/settle.h"
#include "engine/sqlite/stall.h"
#include "engine/sqlite/take.h"

#include "base/error.h"
#include "base/str.h"

struct settle {
    const struct emq__settle_req *req;
    struct emq__settle_res *res;
    struct emq__arena *mem;
    struct emq__arena scratch;
};

/* ---- one entry ------------------------------------------------------------------------------------ */

/* EMQ_OK: this entry may settle the job. */
static emq_status may_settle(struct sq_tx *tx, struct sq_row *row,
                             const struct emq__settle_entry *en, emq_error *err)
{
    bool active = row->state == EMQ_ACTIVE;
    bool back = en->kind == EMQ__SETTLE_RETRY || en->kind == EMQ__SETTLE_RELEASE;
    emq_status s;

    if (en->auth.token.len > 0) {
        if (active && sq_row_token_is(row, en->auth.token))
            return back && row->mode == EMQ_AT_MOST_ONCE ? EMQ_WRONG_STATE : EMQ_OK;
        s = sq_history(tx, row, "refused", en->auth.token, EMQ_STR_LIT("settle"), err);
        return s == EMQ_OK ? EMQ_LOST : s;
    }
    if (!active || (back && row->mode == EMQ_AT_MOST_ONCE))
        return EMQ_WRONG_STATE;
    return sq_history(tx, row, "admin", en->auth.admin, EMQ_STR_LIT("settle"), err);
}

/* The stack trace list with this entry's trace; empty = leave it as it is. */
static emq_status new_stack(struct sq_tx *tx, const struct sq_row *row,
                            const struct emq__settle_entry *en, struct emq__arena *mem,
                            emq_str *out, emq_error *err)
{
    struct emq__buf b;
    sqlite3_stmt *st;
    bool found = false;
    emq_status s;

    *out = emq_strn("", 0);
    if (en->stack.len == 0)
        return EMQ_OK;
    st = sq_stmt(tx->conn, SQ_SQL_job_stack, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    s = sq_step(tx->conn, st, &found, "settle", err);
    if (s == EMQ_OK) {
        emq__buf_init(&b, EMQ_DATA_MAX);
        emq__stack_append(found ? sq_col_str(st, 0) : *out, en->stack, en->stack_limit, &b);
        *out = b.failed ? emq_strn(NULL, 0) : emq__arena_str(mem, emq__buf_view(&b));
        emq__buf_free(&b);
    }
    sqlite3_reset(st);
    if (s == EMQ_OK && !out->ptr)
        s = emq__fail(err, EMQ_E_NOMEM, 0, "settle", "no memory for a stack trace");
    return s;
}

static emq_status complete(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                           const struct emq__settle_entry *en, bool *gone, struct emq__arena *mem,
                           emq_error *err)
{
    const struct sq_finish f = {.state = EMQ_COMPLETED_STATE,
                                .atm = row->atm + 1,
                                .ats = row->ats,
                                .stalled = row->stalled,
                                .result = en->value,
                                .keep = en->keep,
                                .prev = "active"};

    return sq_finish(tx, q, row, &f, gone, mem, err);
}

static emq_status fail(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                       const struct emq__settle_entry *en, bool *gone, struct emq__arena *mem,
                       emq_error *err)
{
    struct emq__opts o;
    emq_str stack;
    emq_status s = sq_opts_of(tx, row, mem, &o, err);

    if (s == EMQ_OK)
        s = new_stack(tx, row, en, mem, &stack, err);
    if (s != EMQ_OK)
        return s;
    const struct sq_finish f = {.state = EMQ_FAILED_STATE,
                                .atm = row->atm + 1,
                                .ats = row->ats,
                                .stalled = row->stalled,
                                .reason = en->reason,
                                .stacktrace = stack,
                                .keep = en->keep,
                                .attempts = o.attempts,
                                .prev = "active"};
    return sq_finish(tx, q, row, &f, gone, mem, err);
}

/* RETRY and RELEASE of a job that was asked to stop: it does not run again. The attempt is charged,
 * or put back, as if it did. */
static emq_status end_cancelled(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                                const struct emq__settle_entry *en, bool *gone,
                                struct emq__arena *mem, emq_error *err)
{
    bool retry = en->kind == EMQ__SETTLE_RETRY;
    struct emq__opts o;
    emq_str stack = {"", 0};
    emq_status s = sq_opts_of(tx, row, mem, &o, err);

    if (s == EMQ_OK && retry)
        s = new_stack(tx, row, en, mem, &stack, err);
    if (s != EMQ_OK)
        return s;
    const struct sq_finish f = {.state = EMQ_FAILED_STATE,
                                .atm = row->atm + (retry ? 1 : 0),
                                .ats = row->ats - (retry ? 0 : 1),
                                .stalled = row->stalled,
                                .reason = EMQ_STR_LIT(EMQ__TEXT_CANCELLED),
                                .stacktrace = stack,
                                .keep = o.keep_failed,
                                .attempts = retry ? o.attempts : 0,
                                .prev = "active"};
    return sq_finish(tx, q, row, &f, gone, mem, err);
}

/* RETRY and RELEASE. */
static emq_status go_back(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                          const struct emq__settle_entry *en, struct emq__arena *mem,
                          emq_error *err)
{
    struct sq_requeue to = sq_requeue_of(row);
    bool retry = en->kind == EMQ__SETTLE_RETRY;
    char token[EMQ_TOKEN_MAX + 1];

    emq__token_format(row->worker, row->fence, token);
    emq_status s = sq_history(tx, row, retry ? "retried" : "released", emq_cstr(token),
                              emq__detail(en->reason), err);
    if (s != EMQ_OK)
        return s;
    to.delay_ms = en->delay_ms;
    if (retry) {
        to.atm++;
        to.front = en->lifo;
        to.failed_reason = emq_strn(en->reason.len ? en->reason.ptr : "", en->reason.len);
        q->totals.retried++;
        s = new_stack(tx, row, en, mem, &to.stacktrace, err);
    } else {
        to.ats--;
        to.front = true;
    }
    if (s == EMQ_OK)
        s = sq_row_requeue(tx, q, row, &to, err);
    if (s == EMQ_OK)
        sq_requeue_event(q, row, "active");
    return s;
}

static emq_status settle_row(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                             const struct emq__settle_entry *en, bool *gone, struct emq__arena *mem,
                             emq_error *err)
{
    switch (en->kind) {
    case EMQ__SETTLE_COMPLETED: return complete(tx, q, row, en, gone, mem, err);
    case EMQ__SETTLE_FAILED: return fail(tx, q, row, en, gone, mem, err);
    case EMQ__SETTLE_RETRY:
    case EMQ__SETTLE_RELEASE:
        return row->cancel ? end_cancelled(tx, q, row, en, gone, mem, err)
                           : go_back(tx, q, row, en, mem, err);
    case EMQ__SETTLE_STALLED:
        return sq_stall(tx, q, row, en->max_stalled, en->reason, &en->keep, gone, mem, err);
    }
    return emq__fail(err, EMQ_E_INVALID, 0, "settle", "kind %d is not one", (int)en->kind);
}

static emq_status usual_end(struct sq_tx *tx, struct sq_queue *q,
                            const struct emq__settle_entry *en, struct emq__settled *out,
                            bool *done, emq_error *err)
{
    emq_status s;

    *done = false;
    if (en->kind != EMQ__SETTLE_COMPLETED || en->auth.token.len == 0)
        return EMQ_OK;
    s = sq_finish_owned(tx, q, en->id, en->auth.token, en->value, en->keep, done, err);
    *out = (struct emq__settled){.outcome = EMQ_OK,
                                 .state = en->keep.count != 0 ? EMQ_COMPLETED_STATE : 0};
    return s;
}

static emq_status find(struct sq_tx *tx, struct sq_queue *q, emq_str id, struct emq__arena *mem,
                       struct sq_row *row, emq_error *err)
{
    emq_status s = sq_row_get(tx, q, id, mem, row, err);

    if (s != EMQ_OK || !(q->trim[EMQ_COMPLETED_STATE] || q->trim[EMQ_FAILED_STATE]) ||
        (row->state != EMQ_COMPLETED_STATE && row->state != EMQ_FAILED_STATE))
        return s;
    s = sq_retain_now(tx, q, err); /* it may have been on its way out */
    return s == EMQ_OK ? sq_row_get(tx, q, id, mem, row, err) : s;
}

static emq_status settle_one(struct sq_tx *tx, struct sq_queue *q,
                             const struct emq__settle_entry *en, struct emq__settled *out,
                             struct emq__arena *mem, emq_error *err)
{
    struct sq_row row = {0};
    bool gone = false, done;
    emq_status s = usual_end(tx, q, en, out, &done, err);

    if (s != EMQ_OK || done)
        return s;
    s = find(tx, q, en->id, mem, &row, err);
    if (s == EMQ_NOT_FOUND || (s == EMQ_OK && row.state == SQ_STAGED)) {
        *out = (struct emq__settled){.outcome = EMQ_NOT_FOUND};
        return EMQ_OK;
    }
    if (s == EMQ_OK)
        s = may_settle(tx, &row, en, err);
    out->outcome = s;
    if (s == EMQ_OK)
        s = settle_row(tx, q, &row, en, &gone, mem, err);
    out->state = gone ? 0 : row.state;
    return emq__is_failure(s) ? s : EMQ_OK;
}

/* ---- the act -------------------------------------------------------------------------------------- */

static emq_status receipt_put(struct sq_tx *tx, const struct settle *a, emq_error *err)
{
    struct emq__buf b;
    emq_status s;

    if (a->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    sq_put_i64(&b, (int64_t)a->res->n);
    for (size_t i = 0; i < a->res->n; i++) {
        sq_put_i64(&b, a->res->settled[i].outcome);
        sq_put_i64(&b, a->res->settled[i].state);
    }
    sq_put_i64(&b, a->req->next != NULL);
    if (a->req->next)
        sq_taken_put(&b, &a->res->taken, a->req->next->mode);
    s = b.failed ? emq__fail(err, b.failed, 0, "settle", "no memory for the receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_SETTLE, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status repeat(struct sq_tx *tx, struct settle *a, const struct sq_queue *q, emq_str body,
                         emq_error *err)
{
    struct sq_reader r = sq_reader_of(body);
    int64_t n = sq_get_i64(&r);

    if (n < 0 || (size_t)n != a->req->n)
        return emq__fail(err, EMQ_E_INVALID, 0, "settle",
                         "this sequence was used for %lld entries, not %zu: number each act anew",
                         (long long)n, a->req->n);
    for (size_t i = 0; i < a->res->n; i++) {
        a->res->settled[i].outcome = (emq_status)sq_get_i64(&r);
        a->res->settled[i].state = (int)sq_get_i64(&r);
    }
    if (sq_get_i64(&r) != 0)
        return sq_taken_get(tx, q, &r, &a->res->taken, a->mem, err);
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "settle", "the stored answer cannot be read")
                 : EMQ_OK;
}

/* docs/protocol.md section 5.6: the last one out says so. */
static void drained(struct sq_queue *q, int64_t finished_before)
{
    if (q->totals.completed + q->totals.failed == finished_before || q->count[EMQ_WAITING] ||
        q->count[EMQ_PRIORITIZED] || q->count[EMQ_ACTIVE])
        return;
    sq_event_begin(q, "drained");
    sq_event_end(q);
}

emq_status sq_settle(struct sq_tx *tx, struct sq_queue *q, const struct emq__settle_entry *en,
                     struct emq__settled *out, struct emq__arena *mem, emq_error *err)
{
    int64_t finished = q->totals.completed + q->totals.failed;
    emq_status s = settle_one(tx, q, en, out, mem, err);

    if (s == EMQ_OK)
        drained(q, finished);
    return s;
}

static emq_status settle_all(struct sq_tx *tx, struct settle *a, struct sq_queue *q, emq_error *err)
{
    int64_t finished = q->totals.completed + q->totals.failed;
    emq_status s = EMQ_OK;

    q->trim_later = true;
    for (size_t i = 0; s == EMQ_OK && i < a->req->n; i++)
        s = settle_one(tx, q, a->req->entries[i], &a->res->settled[i], &a->scratch, err);
    if (s == EMQ_OK)
        s = sq_retain_now(tx, q, err);
    q->trim_later = false;
    if (s == EMQ_OK && a->req->next)
        s = sq_take(tx, q, a->req->next, &a->res->taken, a->mem, err);
    if (s == EMQ_OK)
        drained(q, finished);
    return s;
}

static emq_status settle_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct settle *a = arg;
    struct sq_queue q;
    emq_str body;
    emq_status found, s;

    a->res->now_ms = tx->now_ms;
    a->res->taken = (struct emq__taken){0};
    found = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    s = emq__is_failure(found)
            ? found
            : sq_receipt_find(tx, a->req->call, SQ_RECEIPT_SETTLE, a->mem, &body, err);
    if (s == EMQ_OK) {
        s = repeat(tx, a, found == EMQ_OK ? &q : NULL, body, err);
    } else if (s == EMQ_NOT_FOUND) {
        s = EMQ_OK;
        for (size_t i = 0; found != EMQ_OK && i < a->req->n; i++)
            a->res->settled[i] = (struct emq__settled){.outcome = EMQ_NOT_FOUND};
        if (found == EMQ_OK)
            s = settle_all(tx, a, &q, err);
        if (s == EMQ_OK)
            s = sq_queue_save(tx, &q, err);
        if (s == EMQ_OK)
            s = receipt_put(tx, a, err);
    }
    sq_queue_close(&q);
    emq__arena_free(&a->scratch);
    return s;
}

emq_status sq_act_settle(struct emq__engine *e, const struct emq__settle_req *req,
                         struct emq__settle_res *res, struct emq__arena *mem, emq_error *err)
{
    struct settle a = {.req = req, .res = res, .mem = mem};

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "settle", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    for (size_t i = 0; i < req->n; i++)
        if (req->entries[i]->auth.token.len == 0 && req->entries[i]->auth.admin.len == 0)
            return emq__fail(err, EMQ_E_INVALID, 0, "settle",
                             "entry %zu names neither a token nor an administrator", i);
    if (req->next && sq_take_check(req->next, err) != EMQ_OK)
        return EMQ_E_INVALID;
    res->n = req->n;
    res->settled = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->settled);
    if (!res->settled)
        return emq__fail(err, EMQ_E_NOMEM, 0, "settle", "no memory for %zu results", req->n);
    return sq_write((struct sq *)e, settle_act, &a, err);
}
