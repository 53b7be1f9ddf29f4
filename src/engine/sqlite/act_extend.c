/* SPDX-License-Identifier: MIT
 *
 * extend and claims: an owner and its locks. The one invariant: a lock is renewed only while the row
 * still carries the token, compared in the renewing transaction; the new end counts from the moment
 * the write lock was got, never from before it.
 */
#include "engine/sqlite/row.h"

#include "base/error.h"
#include "base/str.h"

/* ---- extend --------------------------------------------------------------------------------------- */

struct extend {
    const struct emq__extend_req *req;
    struct emq__extend_res *res;
    int64_t qid; /* of the entry before; 0 = no such queue */
};

static emq_status queue_of(struct sq_tx *tx, struct extend *a, size_t i, emq_error *err)
{
    const struct emq__extend_entry *en = a->req->entries[i];
    const struct emq__extend_entry *before = i > 0 ? a->req->entries[i - 1] : NULL;
    sqlite3_stmt *st;
    bool found = false;
    emq_status s;

    if (before && emq__str_eq(before->queue, en->queue) && emq__str_eq(before->prefix, en->prefix))
        return EMQ_OK;
    st = sq_stmt(tx->conn, SQ_SQL_queue_qid, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, en->prefix);
    sq_bind_text(st, 2, en->queue);
    s = sq_step(tx->conn, st, &found, "extend", err);
    a->qid = s == EMQ_OK && found ? sq_col_i64(st, 0) : 0;
    sqlite3_reset(st);
    return s;
}

static emq_status renew(struct sq_tx *tx, const struct extend *a, int64_t jid, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_extend, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    sq_bind_i64(st, 2, emq__sat_add(tx->boot_ms_late, a->req->lock_ms));
    sq_bind_i64(st, 3, sq_boot(tx->s));
    return sq_exec(tx->conn, st, "extend", err);
}

static emq_status extend_one(struct sq_tx *tx, struct extend *a, size_t i, emq_error *err)
{
    const struct emq__extend_entry *en = a->req->entries[i];
    struct emq__extended *out = &a->res->extended[i];
    sqlite3_stmt *st;
    bool found = false;
    int64_t jid = 0;
    emq_status s = queue_of(tx, a, i, err);

    *out = (struct emq__extended){.outcome = EMQ_LOST};
    if (s != EMQ_OK || a->qid == 0)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_job_lock, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, a->qid);
    sq_bind_text(st, 2, en->id);
    s = sq_step(tx->conn, st, &found, "extend", err);
    if (s == EMQ_OK && found) {
        struct sq_row row = {.fence = sq_col_i64(st, 2), .worker = sq_col_str(st, 3)};
        if (sq_col_i64(st, 1) == EMQ_ACTIVE && sq_row_token_is(&row, en->token))
            jid = sq_col_i64(st, 0);
        out->cancel = jid != 0 && sq_col_i64(st, 4) != 0;
    }
    sqlite3_reset(st);
    if (s == EMQ_OK && jid != 0) {
        out->outcome = EMQ_OK;
        s = renew(tx, a, jid, err);
    }
    return s;
}

static emq_status extend_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct extend *a = arg;
    emq_status s = EMQ_OK;

    a->res->now_ms = tx->now_ms;
    for (size_t i = 0; s == EMQ_OK && i < a->req->n; i++)
        s = extend_one(tx, a, i, err);
    return s;
}

emq_status sq_act_extend(struct emq__engine *e, const struct emq__extend_req *req,
                         struct emq__extend_res *res, struct emq__arena *mem, emq_error *err)
{
    struct extend a = {.req = req, .res = res};

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "extend", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    res->n = req->n;
    res->extended = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->extended);
    if (!res->extended)
        return emq__fail(err, EMQ_E_NOMEM, 0, "extend", "no memory for %zu results", req->n);
    return sq_write_renewal((struct sq *)e, extend_act, &a, err);
}

/* ---- claims --------------------------------------------------------------------------------------- */

struct claims {
    const struct emq__claims_req *req;
    struct emq__claims_res *res;
    struct emq__arena *mem;
    size_t cap;
};

static emq_status claim_add(struct claims *a, struct emq__job *j, emq_error *err)
{
    struct emq__claims_res *res = a->res;

    if (res->n == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 32;
        struct emq__job **grown = emq__arena_zalloc(a->mem, cap, sizeof(struct emq__job *));
        if (!grown)
            return emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory for %zu jobs", cap);
        if (res->n > 0)
            memcpy(grown, res->jobs, res->n * sizeof(struct emq__job *));
        res->jobs = grown;
        a->cap = cap;
    }
    res->jobs[res->n++] = j;
    return EMQ_OK;
}

static emq_status claims_of(struct sq_tx *tx, struct claims *a, int64_t qid, emq_str prefix,
                            emq_str queue, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_claims, err);
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, qid);
    sq_bind_text(st, 2, a->req->worker);
    while ((s = sq_step(tx->conn, st, &row, "claims", err)) == EMQ_OK && row) {
        struct emq__job *j;
        s = sq_job_read(tx, st, prefix, queue, a->mem, &j, err);
        if (s == EMQ_OK)
            s = claim_add(a, j, err);
        if (s != EMQ_OK)
            break;
    }
    sqlite3_reset(st);
    return s;
}

static emq_status claims_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct claims *a = arg;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queue_of_prefix, err);
    emq_str prefix = emq__arena_str(a->mem, a->req->prefix);
    bool row;
    emq_status s;

    *a->res = (struct emq__claims_res){.now_ms = tx->now_ms};
    a->cap = 0;
    if (!st)
        return sq_no_stmt(err);
    if (!prefix.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory");
    sq_bind_text(st, 1, prefix);
    while ((s = sq_step(tx->conn, st, &row, "claims", err)) == EMQ_OK && row) {
        emq_str queue = sq_col_copy(st, 1, a->mem);
        if (!queue.ptr)
            s = emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory");
        else
            s = claims_of(tx, a, sq_col_i64(st, 0), prefix, queue, err);
        if (s != EMQ_OK)
            break;
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_act_claims(struct emq__engine *e, const struct emq__claims_req *req,
                         struct emq__claims_res *res, struct emq__arena *mem, emq_error *err)
{
    struct claims a = {.req = req, .res = res, .mem = mem};

    return sq_read((struct sq *)e, claims_act, &a, err);
}
