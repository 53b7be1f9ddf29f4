/* SPDX-License-Identifier: MIT
 *
 * The act `dump`: one consistent picture of a whole queue, from one snapshot, for checks, tests and
 * fsck. It also counts the rows that nothing accounts for; a sound store has none.
 */
#include "base/error.h"
#include "engine/sqlite/admin.h"

struct dump_arg {
    const struct emq__dump_req *req;
    struct emq__dump_res *res;
    struct emq__arena *mem;
    size_t cap_jobs, cap_dedup;
};

static emq_status no_memory(emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, "dump", "no memory for the picture of a queue");
}

static emq_status dump_state(struct sq_tx *tx, const struct sq_queue *q, struct dump_arg *a,
                             int state, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_find_asc, err);
    bool got;
    emq_status s;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, state);
    sq_bind_i64(st, 3, INT64_MIN);
    sq_bind_i64(st, 4, INT64_MIN);
    sq_bind_i64(st, 5, -1);
    sq_bind_i64(st, 6, 0);
    sq_bind_i64(st, 7, INT64_MAX);
    while ((s = sq_step(tx->conn, st, &got, "dump", err)) == EMQ_OK && got) {
        struct emq__job **jobs =
            sq_grow(a->mem, a->res->jobs, a->res->n, &a->cap_jobs, sizeof *jobs);
        s = jobs ? sq_job_read(tx, st, a->req->prefix, a->req->queue, a->mem, &jobs[a->res->n], err)
                 : no_memory(err);
        if (s != EMQ_OK)
            break;
        a->res->jobs = jobs;
        a->res->n++;
    }
    sqlite3_reset(st);
    return s;
}

static emq_status dump_dedup(struct sq_tx *tx, const struct sq_queue *q, struct dump_arg *a,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dump_dedup, err);
    bool got;
    emq_status s;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    while ((s = sq_step(tx->conn, st, &got, "dump", err)) == EMQ_OK && got) {
        int64_t ends = sq_col_i64(st, 2);
        if (ends && ends <= tx->now_ms) /* a window that has ended counts as absent */
            continue;
        struct emq__dump_dedup *list =
            sq_grow(a->mem, a->res->dedup, a->res->n_dedup, &a->cap_dedup, sizeof *list);
        if (list)
            list[a->res->n_dedup] = (struct emq__dump_dedup){
                .id = sq_col_copy(st, 0, a->mem),
                .owner = sq_col_copy(st, 1, a->mem),
                .ttl_ms = ends ? ends - tx->now_ms : 0,
                .has_next = sq_col_i64(st, 3) != 0,
            };
        if (!list || !list[a->res->n_dedup].id.ptr || !list[a->res->n_dedup].owner.ptr) {
            s = no_memory(err);
            break;
        }
        a->res->dedup = list;
        a->res->n_dedup++;
    }
    sqlite3_reset(st);
    return s;
}

/* Adds the one number that a statement gives; qid 0 = it takes none. */
static emq_status add_count(struct sq_tx *tx, enum sq_sql id, int64_t qid, int64_t *sum,
                            emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, id, err);
    bool got = false;
    if (!st)
        return sq_no_stmt(err);
    if (qid)
        sq_bind_i64(st, 1, qid);
    emq_status s = sq_step(tx->conn, st, &got, "dump", err);
    if (s == EMQ_OK && got)
        *sum += sq_col_i64(st, 0);
    sqlite3_reset(st);
    return s;
}

static emq_status dump_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct dump_arg *a = arg;
    a->cap_jobs = a->cap_dedup = 0;
    *a->res = (struct emq__dump_res){.now_ms = tx->now_ms,
                                     .stats = {.now_ms = tx->now_ms},
                                     .last_fence = q->fence,
                                     .id_counter = q->last_id};
    emq_status s = sq_stats_fill(tx, q, &a->res->stats, err);
    for (int state = EMQ_WAITING; state <= EMQ_STATE_COUNT && s == EMQ_OK; state++)
        s = dump_state(tx, q, a, state, err);
    if (s == EMQ_OK)
        s = dump_dedup(tx, q, a, err);
    if (s == EMQ_OK)
        s = add_count(tx, SQ_SQL_dump_stray_queue, q->qid, &a->res->stray, err);
    if (s == EMQ_OK)
        s = add_count(tx, SQ_SQL_dump_stray_counters, q->qid, &a->res->stray, err);
    if (s == EMQ_OK)
        s = add_count(tx, SQ_SQL_dump_stray_store, 0, &a->res->stray, err);
    return s;
}

/* No such queue: the rows that belong to none. */
static emq_status dump_none(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct dump_arg *a = arg;
    *a->res = (struct emq__dump_res){.now_ms = tx->now_ms, .stats = {.now_ms = tx->now_ms}};
    return add_count(tx, SQ_SQL_dump_stray_store, 0, &a->res->stray, err);
}

emq_status sq_act_dump(struct emq__engine *e, const struct emq__dump_req *req,
                       struct emq__dump_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct dump_arg a = {.req = req, .res = res, .mem = mem};

    *res = (struct emq__dump_res){0};
    emq_status st = sq_read_queue(s, req->prefix, req->queue, dump_fn, &a, err);
    return st == EMQ_NOT_FOUND ? sq_read(s, dump_none, &a, err) : st;
}
