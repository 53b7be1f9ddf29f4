/* SPDX-License-Identifier: MIT
 *
 * sweep and promote: the duties that every worker does now and then. The one invariant: a lock is
 * judged by the time before the wait for the write lock, and state and lock are compared again in
 * the transaction that recovers the job. Looking never writes: with nothing to do there is no write
 * transaction.
 */
#include "engine/sqlite/stage.h"
#include "engine/sqlite/stall.h"
#include "engine/sqlite/take.h"

#include "base/error.h"

enum {
    LOOK_MAX = 16 * SQ_SLICE, /* ended locks that are looked at to find the earliest */
    EXPIRED_LOOK = SQ_SLICE,  /* oldest finished records that are looked at */
    DEDUPS = 256              /* dedup ids whose window has ended that one act removes */
};

/* ---- recovery ------------------------------------------------------------------------------------- */

static void event_of(struct sq_queue *q, const char *event, emq_str id)
{
    sq_event_begin(q, event);
    sq_event_str(q, "jobId", id);
    sq_event_end(q);
}

static emq_status stall_for_good(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                                 emq_str reason, const struct emq__keep *keep, bool *gone,
                                 struct emq__arena *mem, emq_error *err)
{
    struct emq__opts o = {0};
    emq_status s = keep ? EMQ_OK : sq_opts_of(tx, row, mem, &o, err);

    if (s != EMQ_OK)
        return s;
    if (reason.len == 0)
        reason = row->mode == EMQ_AT_MOST_ONCE ? EMQ_STR_LIT(EMQ__TEXT_AT_MOST_ONCE)
                                               : EMQ_STR_LIT(EMQ__TEXT_STALLED);
    event_of(q, "stalled", row->id);
    const struct sq_finish f = {.state = EMQ_FAILED_STATE,
                                .atm = row->atm,
                                .ats = row->ats,
                                .stalled = row->stalled + 1,
                                .reason = reason,
                                .keep = keep ? *keep : o.keep_failed,
                                .prev = "active"};
    return sq_finish(tx, q, row, &f, gone, mem, err);
}

emq_status sq_stall(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row, int64_t max_stalled,
                    emq_str reason, const struct emq__keep *keep, bool *gone,
                    struct emq__arena *mem, emq_error *err)
{
    struct sq_requeue to = sq_requeue_of(row);
    char token[EMQ_TOKEN_MAX + 1];
    emq_status s;

    *gone = false;
    if (row->cancel)
        reason = EMQ_STR_LIT(EMQ__TEXT_CANCELLED);
    if (row->cancel || row->mode == EMQ_AT_MOST_ONCE || (int64_t)row->stalled + 1 > max_stalled)
        return stall_for_good(tx, q, row, reason, keep, gone, mem, err);
    emq__token_format(row->worker, row->fence, token);
    s = sq_history(tx, row, "recovered", emq_cstr(token),
                   reason.len > 0 ? emq__detail(reason) : EMQ_STR_LIT(EMQ__TEXT_LOCK_ENDED), err);
    if (s != EMQ_OK)
        return s;
    to.stalled++;
    to.front = true;
    if (reason.len > 0)
        to.failed_reason = reason;
    q->totals.recovered++;
    s = sq_row_requeue(tx, q, row, &to, err);
    sq_requeue_event(q, row, "active");
    event_of(q, "stalled", row->id);
    return s;
}

/* ---- sweep ---------------------------------------------------------------------------------------- */

struct ended {
    int64_t jid, fence, lock_end;
};
struct old {
    int64_t jid;
};

struct sweep {
    const struct emq__sweep_req *req;
    struct emq__sweep_res *res;
    struct emq__arena *mem;
    int64_t limit;
    struct ended *ended; /* in mem, by fence */
    size_t n_ended;
    struct old *old;
    size_t n_old;
    bool stages, dedups;
    bool repeated; /* answered by the receipt */
};

static int by_lock_end(const void *a, const void *b)
{
    const struct ended *x = a, *y = b;

    if (x->lock_end != y->lock_end)
        return x->lock_end < y->lock_end ? -1 : 1;
    return x->fence < y->fence ? -1 : x->fence > y->fence;
}

static int by_fence(const void *a, const void *b)
{
    const struct ended *x = a, *y = b;

    return x->fence < y->fence ? -1 : x->fence > y->fence;
}

static emq_status find_ended(struct sq_tx *tx, struct sweep *a, const struct sq_queue *q,
                             emq_error *err)
{
    sqlite3_stmt *st;
    int64_t cap = q->count[EMQ_ACTIVE] < LOOK_MAX ? q->count[EMQ_ACTIVE] : LOOK_MAX;
    size_t n = 0;
    bool row;
    emq_status s;

    a->n_ended = 0;
    a->res->more = false;
    if (cap <= 0)
        return EMQ_OK;
    a->ended = emq__arena_zalloc(a->mem, (size_t)cap, sizeof *a->ended);
    if (!a->ended)
        return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory for %lld locks", (long long)cap);
    st = sq_stmt(tx->conn, SQ_SQL_job_lock_ended, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, sq_boot(tx->s));
    sq_bind_i64(st, 3, tx->boot_ms);
    sq_bind_i64(st, 4, cap);
    while ((s = sq_step(tx->conn, st, &row, "sweep", err)) == EMQ_OK && row && n < (size_t)cap)
        a->ended[n++] = (struct ended){sq_col_i64(st, 0), sq_col_i64(st, 1), sq_col_i64(st, 2)};
    sqlite3_reset(st);
    if (s != EMQ_OK)
        return s;
    if (n > 1)
        qsort(a->ended, n, sizeof *a->ended, by_lock_end);
    a->n_ended = (int64_t)n < a->limit ? n : (size_t)a->limit;
    a->res->more = a->n_ended < n || n == LOOK_MAX;
    if (a->n_ended > 1)
        qsort(a->ended, a->n_ended, sizeof *a->ended, by_fence);
    return EMQ_OK;
}

/* Finished records past their own retention, among the oldest. */
static emq_status find_old(struct sq_tx *tx, struct sweep *a, const struct sq_queue *q,
                           emq_error *err)
{
    const int32_t states[] = {EMQ_COMPLETED_STATE, EMQ_FAILED_STATE};
    emq_status s = EMQ_OK;

    a->n_old = 0;
    a->old = emq__arena_zalloc(a->mem, EXPIRED_LOOK, sizeof *a->old);
    if (!a->old)
        return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory");
    for (size_t i = 0; s == EMQ_OK && i < EMQ_ARRAY_LEN(states); i++) {
        sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_expired, err);
        bool row;
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, q->qid);
        sq_bind_i64(st, 2, states[i]);
        sq_bind_i64(st, 3, tx->now_ms);
        sq_bind_i64(st, 4, EXPIRED_LOOK);
        while ((s = sq_step(tx->conn, st, &row, "sweep", err)) == EMQ_OK && row &&
               a->n_old < EXPIRED_LOOK)
            a->old[a->n_old++].jid = sq_col_i64(st, 0);
        sqlite3_reset(st);
    }
    return s;
}

static emq_status any_dedup_ended(struct sq_tx *tx, bool *any, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_expired, err);
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, tx->now_ms);
    sq_bind_i64(st, 2, 1);
    s = sq_step(tx->conn, st, any, "sweep", err);
    sqlite3_reset(st);
    return s;
}

static emq_status repeat(struct sq_tx *tx, struct sweep *a, emq_error *err)
{
    struct emq__sweep_res *res = a->res;
    struct {
        emq_str **ids;
        size_t *n;
    } lists[] = {{&res->recovered, &res->n_recovered}, {&res->failed, &res->n_failed}};
    struct sq_reader r;
    emq_str body;
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_SWEEP, a->mem, &body, err);

    a->repeated = s == EMQ_OK;
    if (s != EMQ_OK)
        return s == EMQ_NOT_FOUND ? EMQ_OK : s;
    r = sq_reader_of(body);
    res->more = sq_get_i64(&r) != 0;
    for (size_t k = 0; k < EMQ_ARRAY_LEN(lists); k++) {
        int64_t n = sq_get_i64(&r);
        if (r.bad || n < 0 || n > EMQ__BATCH_MAX)
            return emq__fail(err, EMQ_E_CORRUPT, 0, "sweep", "the stored answer cannot be read");
        emq_str *ids = emq__arena_zalloc(a->mem, (size_t)n + 1, sizeof *ids);
        if (!ids)
            return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory for %lld ids", (long long)n);
        for (int64_t i = 0; i < n; i++)
            ids[i] = sq_get_str(&r);
        *lists[k].ids = ids;
        *lists[k].n = (size_t)n;
    }
    return EMQ_OK;
}

static emq_status receipt_put(struct sq_tx *tx, const struct sweep *a, emq_error *err)
{
    const struct emq__sweep_res *res = a->res;
    struct emq__buf b;
    emq_status s;

    if (a->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    sq_put_i64(&b, res->more);
    sq_put_i64(&b, (int64_t)res->n_recovered);
    for (size_t i = 0; i < res->n_recovered; i++)
        sq_put_str(&b, res->recovered[i]);
    sq_put_i64(&b, (int64_t)res->n_failed);
    for (size_t i = 0; i < res->n_failed; i++)
        sq_put_str(&b, res->failed[i]);
    s = b.failed ? emq__fail(err, b.failed, 0, "sweep", "no memory for the receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_SWEEP, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status look_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct sweep *a = arg;
    struct sq_queue q;
    emq_status s;

    *a->res = (struct emq__sweep_res){.now_ms = tx->now_ms};
    a->n_ended = a->n_old = 0;
    a->stages = a->dedups = false;
    s = repeat(tx, a, err);
    if (s != EMQ_OK || a->repeated)
        return s;
    s = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    if (s == EMQ_OK)
        s = find_ended(tx, a, &q, err);
    if (s == EMQ_OK && q.count[EMQ_COMPLETED_STATE] + q.count[EMQ_FAILED_STATE] > 0)
        s = find_old(tx, a, &q, err);
    sq_queue_close(&q);
    if (!emq__is_failure(s))
        s = sq_stage_any_expired(tx, &a->stages, err);
    if (!emq__is_failure(s))
        s = any_dedup_ended(tx, &a->dedups, err);
    return s;
}

static emq_status row_of(struct sq_tx *tx, int64_t jid, struct emq__arena *mem, struct sq_row *row,
                         bool *found, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_by_jid, err);
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    s = sq_step(tx->conn, st, found, "sweep", err);
    if (s == EMQ_OK && *found)
        s = sq_row_read(st, mem, row, err);
    sqlite3_reset(st);
    return s;
}

/* From the highest fence to the lowest: each goes to the front, so the lowest comes first again. The
 * ids are written from the end, so that they come out by fence. */
static emq_status recover(struct sq_tx *tx, struct sweep *a, struct sq_queue *q, emq_error *err)
{
    struct emq__sweep_res *res = a->res;
    emq_str *recovered = emq__arena_zalloc(a->mem, a->n_ended + 1, sizeof *recovered);
    emq_str *failed = emq__arena_zalloc(a->mem, a->n_ended + 1, sizeof *failed);
    emq_status s = EMQ_OK;

    if (!recovered || !failed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory for %zu ids", a->n_ended);
    res->recovered = recovered + a->n_ended;
    res->failed = failed + a->n_ended;
    res->n_recovered = res->n_failed = 0;
    for (size_t i = a->n_ended; s == EMQ_OK && i-- > 0;) {
        struct sq_row row = {0};
        bool found = false, gone;
        if (sq_slice_over(tx, (int64_t)(res->n_recovered + res->n_failed))) {
            res->more = true;
            break;
        }
        s = row_of(tx, a->ended[i].jid, a->mem, &row, &found, err);
        if (s != EMQ_OK || !found || row.state != EMQ_ACTIVE || row.fence != a->ended[i].fence ||
            sq_row_locked(tx, &row))
            continue;
        s = sq_stall(tx, q, &row, a->req->max_stalled, emq_strn("", 0), NULL, &gone, a->mem, err);
        if (row.state == EMQ_FAILED_STATE || gone) {
            *--res->failed = row.id;
            res->n_failed++;
        } else {
            *--res->recovered = row.id;
            res->n_recovered++;
        }
    }
    return s;
}

static emq_status remove_old(struct sq_tx *tx, struct sweep *a, struct sq_queue *q, emq_error *err)
{
    emq_status s = EMQ_OK;

    a->res->more = a->res->more || a->n_old == EXPIRED_LOOK;
    for (size_t i = 0; s == EMQ_OK && i < a->n_old; i++) {
        struct sq_row row = {0};
        bool found = false;
        if (sq_slice_over(tx, (int64_t)i)) {
            a->res->more = true;
            break;
        }
        s = row_of(tx, a->old[i].jid, a->mem, &row, &found, err);
        if (s == EMQ_OK && found && row.finished_at_ms > 0 && row.expires_at_ms > 0 &&
            row.expires_at_ms <= tx->now_ms)
            s = sq_row_delete(tx, q, &row, false, err);
    }
    return s;
}

static emq_status remove_dedups(struct sq_tx *tx, struct sweep *a, emq_error *err)
{
    struct {
        int64_t qid;
        emq_str id;
    } list[DEDUPS];
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_expired, err);
    size_t n = 0;
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, tx->now_ms);
    sq_bind_i64(st, 2, DEDUPS);
    while ((s = sq_step(tx->conn, st, &row, "sweep", err)) == EMQ_OK && row) {
        list[n].qid = sq_col_i64(st, 0);
        list[n].id = sq_col_copy(st, 1, a->mem);
        if (!list[n++].id.ptr)
            return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory for a dedup id");
    }
    sqlite3_reset(st);
    for (size_t i = 0; s == EMQ_OK && i < n; i++) {
        st = sq_stmt(tx->conn, SQ_SQL_dedup_delete, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, list[i].qid);
        sq_bind_text(st, 2, list[i].id);
        s = sq_exec(tx->conn, st, "sweep", err);
    }
    return s;
}

static emq_status sweep_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct sweep *a = arg;
    struct sq_queue q;
    bool more = false;
    emq_status s;

    a->res->now_ms = tx->now_ms;
    s = repeat(tx, a, err);
    if (s != EMQ_OK || a->repeated)
        return s;
    s = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    if (s == EMQ_OK)
        s = remove_old(tx, a, &q, err);
    if (s == EMQ_OK)
        s = recover(tx, a, &q, err);
    if (s == EMQ_OK)
        s = sq_queue_save(tx, &q, err);
    sq_queue_close(&q);
    if (!emq__is_failure(s) && a->stages)
        s = sq_stage_expire(tx, &more, err);
    a->res->more = a->res->more || more;
    if (!emq__is_failure(s) && a->dedups)
        s = remove_dedups(tx, a, err);
    return emq__is_failure(s) ? s : receipt_put(tx, a, err);
}

emq_status sq_act_sweep(struct emq__engine *e, const struct emq__sweep_req *req,
                        struct emq__sweep_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sweep a = {.req = req, .res = res, .mem = mem};
    emq_status s;

    a.limit = req->limit > 0 && req->limit < EMQ__BATCH_MAX ? req->limit : EMQ__BATCH_MAX;
    s = sq_read((struct sq *)e, look_act, &a, err);
    if (s == EMQ_OK && (a.n_ended > 0 || a.n_old > 0 || a.stages || a.dedups))
        s = sq_write((struct sq *)e, sweep_act, &a, err);
    return s;
}

/* ---- promote -------------------------------------------------------------------------------------- */

struct promote {
    const struct emq__promote_req *req;
    struct emq__promote_res *res;
};

static emq_status promote_look(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct promote *a = arg;
    struct sq_queue q;
    emq_status s;

    *a->res = (struct emq__promote_res){.now_ms = tx->now_ms};
    s = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    if (s == EMQ_OK)
        s = sq_next_due(tx, &q, &a->res->next_due_at_ms, err);
    if (s == EMQ_OK && q.publishing > 0)
        a->res->more = true;
    sq_queue_close(&q);
    return emq__is_failure(s) ? s : EMQ_OK;
}

static emq_status promote_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct promote *a = arg;
    struct sq_queue q;
    int64_t limit = a->req->limit > 0 ? a->req->limit : EMQ__BATCH_MAX;
    emq_status s;

    *a->res = (struct emq__promote_res){.now_ms = tx->now_ms};
    s = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    if (s == EMQ_OK && q.publishing > 0)
        s = sq_stage_place(tx, &q, err);
    if (s == EMQ_OK)
        s = sq_promote_due(tx, &q, limit, &a->res->count, err);
    if (s == EMQ_OK)
        s = sq_next_due(tx, &q, &a->res->next_due_at_ms, err);
    if (s == EMQ_OK)
        s = sq_queue_save(tx, &q, err);
    a->res->more =
        q.publishing > 0 || (a->res->next_due_at_ms > 0 && a->res->next_due_at_ms <= tx->now_ms);
    sq_queue_close(&q);
    return emq__is_failure(s) ? s : EMQ_OK;
}

emq_status sq_act_promote(struct emq__engine *e, const struct emq__promote_req *req,
                          struct emq__promote_res *res, struct emq__arena *mem, emq_error *err)
{
    struct promote a = {.req = req, .res = res};
    emq_status s = sq_read((struct sq *)e, promote_look, &a, err);

    (void)mem;
    if (s != EMQ_OK ||
        !(res->more || (res->next_due_at_ms > 0 && res->next_due_at_ms <= res->now_ms)))
        return s;
    return sq_write((struct sq *)e, promote_act, &a, err);
}
