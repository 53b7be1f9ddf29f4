/* SPDX-License-Identifier: MIT
 *
 * The acts `jobs`, `stats`, `find`, `queues` and `logs`: reading, each from one snapshot.
 *
 * Jobs of a stage that is not published are invisible to all of them. Stats cost a bounded number
 * of index probes whatever the queue holds; find costs what it returns, plus a walk along the index
 * for an offset.
 */
#include "base/error.h"
#include "engine/sqlite/admin.h"
#include "engine/sqlite/stage.h"

void *sq_grow(struct emq__arena *mem, void *array, size_t n, size_t *cap, size_t elem)
{
    size_t bytes;
    if (n < *cap)
        return array;
    size_t wanted = *cap ? *cap * 2 : 16;
    if (!emq__mul_size(wanted, elem, &bytes))
        return NULL;
    void *p = emq__arena_alloc(mem, bytes);
    if (!p)
        return NULL;
    if (n)
        memcpy(p, array, n * elem);
    *cap = wanted;
    return p;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct jobs_arg {
    const struct emq__jobs_req *req;
    struct emq__jobs_res *res;
    struct emq__arena *mem;
};

static emq_status jobs_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct jobs_arg *a = arg;
    a->res->now_ms = tx->now_ms;
    for (size_t i = 0; i < a->req->n; i++) {
        emq_status s = sq_job_get(tx, q, a->req->ids[i], a->mem, &a->res->jobs[i], err);
        if (s == EMQ_NOT_FOUND)
            a->res->jobs[i] = NULL;
        else if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}

/* A job in its place is known by its id whatever else is not. */
static emq_status jobs_early(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    const struct jobs_arg *a = arg;
    emq_status s = jobs_fn(tx, q, arg, err);

    for (size_t i = 0; i < a->req->n && s == EMQ_OK; i++)
        if (!a->res->jobs[i])
            s = EMQ_EMPTY;
    return s;
}

emq_status sq_act_jobs(struct emq__engine *e, const struct emq__jobs_req *req,
                       struct emq__jobs_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct jobs_arg a = {req, res, mem};

    *res = (struct emq__jobs_res){.now_ms = sq_now_ms(s), .n = req->n};
    res->jobs = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof(struct emq__job *));
    if (!res->jobs)
        return emq__fail(err, EMQ_E_NOMEM, 0, "jobs", "%zu jobs", req->n);
    emq_status st = sq_read_early(s, req->prefix, req->queue, jobs_early, jobs_fn, &a, err);
    return st == EMQ_NOT_FOUND ? EMQ_OK : st;
}

/* ---- stats ----------------------------------------------------------------------------------- */

/* The first job of a state: its ord1 and its timestamp. Left alone when there is none. */
static emq_status first_of(struct sq_tx *tx, const struct sq_queue *q, int state, int64_t *ord1,
                           int64_t *timestamp, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stats_first, err);
    bool got = false;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, state);
    emq_status s = sq_step(tx->conn, st, &got, "stats", err);
    if (s == EMQ_OK && got && ord1)
        *ord1 = sq_col_i64(st, 0);
    if (s == EMQ_OK && got && timestamp)
        *timestamp = sq_col_i64(st, 1);
    sqlite3_reset(st);
    return s;
}

emq_status sq_stats_fill(struct sq_tx *tx, const struct sq_queue *q, struct emq__stats_res *out,
                         emq_error *err)
{
    int64_t max = q->max > 0 ? q->max : q->limit_max;
    emq_status s = EMQ_OK;

    for (int state = EMQ_WAITING; state <= EMQ_STATE_COUNT; state++)
        out->count[state] = q->count[state];
    if (max > 0 && q->limit_count >= max && q->limit_until_ms > tx->now_ms)
        out->limited_ms = q->limit_until_ms - tx->now_ms;
    out->concurrency = q->concurrency;
    out->totals = q->totals;
    out->retry_delayed = q->retry_delayed;
    out->paused = q->paused;
    out->maxed = sq_queue_maxed(q);
    out->exists = true;
    if (q->count[EMQ_DELAYED] > 0)
        s = first_of(tx, q, EMQ_DELAYED, &out->next_due_at_ms, NULL, err);
    if (s == EMQ_OK && q->count[EMQ_WAITING] > 0)
        s = first_of(tx, q, EMQ_WAITING, NULL, &out->oldest_waiting_at_ms, err);
    if (s == EMQ_OK && !out->oldest_waiting_at_ms && q->count[EMQ_PRIORITIZED] > 0)
        s = first_of(tx, q, EMQ_PRIORITIZED, NULL, &out->oldest_waiting_at_ms, err);
    /* A published stage that is still being put in its places. */
    if (s == EMQ_OK && !out->oldest_waiting_at_ms && q->publishing > 0)
        s = first_of(tx, q, SQ_STAGED, NULL, &out->oldest_waiting_at_ms, err);
    return s;
}

/* Would a take of this mode find a job in line? A published stage that is still being put in its places has
 * some that nobody has looked at. */
static emq_status takeable(struct sq_tx *tx, const struct sq_queue *q, int32_t mode, bool *out,
                           emq_error *err)
{
    emq_status s = EMQ_OK;

    *out = q->publishing > 0 ||
           (mode != EMQ_FIRE_AND_FORGET && q->count[EMQ_WAITING] + q->count[EMQ_PRIORITIZED] > 0);
    for (int line = 0; s == EMQ_OK && mode == EMQ_FIRE_AND_FORGET && !*out && line < 2; line++) {
        sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stats_takeable, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, q->qid);
        sq_bind_i64(st, 2, line == 0 ? EMQ_WAITING : EMQ_PRIORITIZED);
        sq_bind_i64(st, 3, SQ_SLICE);
        s = sq_step(tx->conn, st, out, "stats", err);
        sqlite3_reset(st);
    }
    return s;
}

struct stats_arg {
    const struct emq__stats_req *req;
    struct emq__stats_res *res;
};

/* Without placing a published stage first: the counters count it already, and this act is to be
 * cheap at any moment. */
static emq_status stats_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    const struct stats_arg *a = arg;
    struct sq_queue q;
    *a->res = (struct emq__stats_res){.now_ms = tx->now_ms};
    emq_status s = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    if (s == EMQ_OK)
        s = sq_stats_fill(tx, &q, a->res, err);
    if (s == EMQ_OK && a->req->ending)
        s = takeable(tx, &q, a->req->mode, &a->res->takeable, err);
    sq_queue_close(&q);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

emq_status sq_act_stats(struct emq__engine *e, const struct emq__stats_req *req,
                        struct emq__stats_res *res, struct emq__arena *mem, emq_error *err)
{
    struct stats_arg a = {req, res};
    (void)mem;
    return sq_read((struct sq *)e, stats_fn, &a, err);
}

/* ---- find ------------------------------------------------------------------------------------ */

struct find_arg {
    const struct emq__find_req *req;
    struct emq__find_res *res;
    struct emq__arena *mem;
    int64_t barrier; /* positions from here on are not looked at */
};

static emq_status find_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct find_arg *a = arg;
    const struct emq__find_req *req = a->req;
    int64_t edge = req->newest_first ? INT64_MAX : INT64_MIN;
    struct sq_row from = {.ord1 = edge, .ord2 = edge};
    size_t cap = 0, bytes = 0;
    bool got;
    emq_status s = EMQ_OK;

    *a->res = (struct emq__find_res){.now_ms = tx->now_ms};
    if (req->after_id.len)
        s = sq_row_get(tx, q, req->after_id, a->mem, &from, err);
    if (s == EMQ_OK && req->after_id.len && from.state != req->state)
        s = EMQ_NOT_FOUND;
    if (s != EMQ_OK)
        return s;
    sqlite3_stmt *st =
        sq_stmt(tx->conn, req->newest_first ? SQ_SQL_find_desc : SQ_SQL_find_asc, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, req->state);
    sq_bind_i64(st, 3, from.ord1);
    sq_bind_i64(st, 4, from.ord2);
    sq_bind_i64(st, 5, req->limit > 0 ? req->limit : 0);
    sq_bind_i64(st, 6, req->after_id.len || req->offset < 0 ? 0 : req->offset);
    if (!req->newest_first)
        sq_bind_i64(st, 7, a->barrier);
    while ((s = sq_step(tx->conn, st, &got, "find", err)) == EMQ_OK && got) {
        if (bytes >= EMQ__BATCH_BYTES) {
            a->res->more = true;
            break;
        }
        struct emq__job **jobs = sq_grow(a->mem, a->res->jobs, a->res->n, &cap, sizeof *jobs);
        if (!jobs)
            s = emq__fail(err, EMQ_E_NOMEM, 0, "find", "%zu jobs", a->res->n + 1);
        else
            s = sq_job_read(tx, st, req->prefix, req->queue, a->mem, &jobs[a->res->n], err);
        if (s != EMQ_OK)
            break;
        bytes += emq__job_bytes(jobs[a->res->n]);
        a->res->jobs = jobs;
        a->res->n++;
    }
    sqlite3_reset(st);
    return s;
}

/* No published job is put into the states behind the line, and in the line what stands before the barrier is
 * in its place: a page of that is answered. */
static emq_status find_early(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct find_arg *a = arg;
    const struct emq__find_req *req = a->req;
    emq_status s = EMQ_OK;

    if (req->state == EMQ_DELAYED || req->state == EMQ_PRIORITIZED ||
        (req->state == EMQ_WAITING && req->newest_first))
        return EMQ_EMPTY;
    if (req->state == EMQ_WAITING)
        s = sq_stage_barrier(tx, q, &a->barrier, err);
    if (s == EMQ_OK)
        s = find_fn(tx, q, a, err);
    bool short_page = req->state == EMQ_WAITING && !a->res->more &&
                      (int64_t)a->res->n < (req->limit > 0 ? req->limit : 0);
    a->barrier = INT64_MAX;
    return s == EMQ_NOT_FOUND || (s == EMQ_OK && short_page) ? EMQ_EMPTY : s;
}

emq_status sq_act_find(struct emq__engine *e, const struct emq__find_req *req,
                       struct emq__find_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct find_arg a = {req, res, mem, INT64_MAX};

    *res = (struct emq__find_res){.now_ms = sq_now_ms(s)};
    if (req->state < EMQ_WAITING || req->state > EMQ_STATE_COUNT)
        return emq__fail(err, EMQ_E_INVALID, 0, "find", "no such state: %d", (int)req->state);
    emq_status st = sq_read_early(s, req->prefix, req->queue, find_early, find_fn, &a, err);
    return st == EMQ_NOT_FOUND && !req->after_id.len ? EMQ_OK : st;
}

/* ---- queues ---------------------------------------------------------------------------------- */

struct queues_arg {
    const struct emq__queues_req *req;
    struct emq__queues_res *res;
    struct emq__arena *mem;
};

static emq_status queues_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    const struct queues_arg *a = arg;
    size_t cap = 0;
    bool got;
    emq_status s;
    *a->res = (struct emq__queues_res){.now_ms = tx->now_ms};
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queues_list, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, a->req->prefix);
    sq_bind_i64(st, 2, a->req->unseen);
    while ((s = sq_step(tx->conn, st, &got, "queues", err)) == EMQ_OK && got) {
        emq_str *names = sq_grow(a->mem, a->res->names, a->res->n, &cap, sizeof *names);
        if (names)
            names[a->res->n] = sq_col_copy(st, 0, a->mem);
        if (!names || !names[a->res->n].ptr) {
            s = emq__fail(err, EMQ_E_NOMEM, 0, "queues", "%zu names", a->res->n + 1);
            break;
        }
        a->res->names = names;
        a->res->n++;
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_act_queues(struct emq__engine *e, const struct emq__queues_req *req,
                         struct emq__queues_res *res, struct emq__arena *mem, emq_error *err)
{
    struct queues_arg a = {req, res, mem};
    return sq_read((struct sq *)e, queues_fn, &a, err);
}

/* ---- logs ------------------------------------------------------------------------------------ */

struct logs_arg {
    const struct emq__logs_req *req;
    struct emq__logs_res *res;
    struct emq__arena *mem;
};

static emq_status logs_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct logs_arg *a = arg;
    struct sq_row row;
    int64_t start = a->req->start > 0 ? a->req->start : 0;
    bool got;
    *a->res = (struct emq__logs_res){.now_ms = tx->now_ms};
    emq_status s = sq_row_get(tx, q, a->req->id, a->mem, &row, err);
    if (s != EMQ_OK || row.state == SQ_STAGED)
        return s == EMQ_OK ? EMQ_NOT_FOUND : s;
    a->res->total = row.logs;
    int64_t wanted = row.logs > start ? row.logs - start : 0;
    if (a->req->count > 0 && a->req->count < wanted)
        wanted = a->req->count;
    a->res->lines = emq__arena_zalloc(a->mem, (size_t)wanted + 1, sizeof(emq_str));
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_logs_list, err);
    if (!a->res->lines)
        return emq__fail(err, EMQ_E_NOMEM, 0, "logs", "%lld lines", (long long)wanted);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row.jid);
    sq_bind_i64(st, 2, start);
    sq_bind_i64(st, 3, wanted);
    while ((int64_t)a->res->n < wanted &&
           (s = sq_step(tx->conn, st, &got, "logs", err)) == EMQ_OK && got) {
        emq_str line = sq_col_copy(st, 0, a->mem);
        if (!line.ptr) {
            s = emq__fail(err, EMQ_E_NOMEM, 0, "logs", "line %zu", a->res->n);
            break;
        }
        a->res->lines[a->res->n++] = line;
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_act_logs(struct emq__engine *e, const struct emq__logs_req *req,
                       struct emq__logs_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct logs_arg a = {req, res, mem};

    *res = (struct emq__logs_res){.now_ms = sq_now_ms(s)};
    return sq_read_queue(s, req->prefix, req->queue, logs_fn, &a, err);
}
