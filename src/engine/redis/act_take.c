/* SPDX-License-Identifier: MIT
 *
 * take, and what settle shares with it.
 */
#include "engine/redis/path.h"

#include "base/error.h"

enum { JOBS = 5 }; /* in what take() answers, behind paused, maxed, limited, next due, deferred */

emq_status rd_take_check(const struct emq__take *t, emq_error *err)
{
    if (t->count < 1 || t->count > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "take", "count %d; 1..%d", (int)t->count,
                         EMQ__BATCH_MAX);
    return EMQ_OK;
}

emq_str rd_claims_key(struct emq__engine *e, emq_str prefix, emq_str queue, emq_str worker,
                      struct emq__arena *mem)
{
    if (!rd_same_slot(e, prefix, EMQ_STR_LIT(""), prefix, queue))
        return EMQ_STR_LIT("");
    return emq__arena_printf(mem, "%.*s::emq::w:%.*s", EMQ_STR_ARG(prefix), EMQ_STR_ARG(worker));
}

void rd_arg_take(struct rd_args *a, struct emq__engine *e, emq_str prefix, emq_str queue,
                 const struct emq__take *t, struct emq__arena *mem)
{
    static const struct emq__take none = {0};

    rd_arg_i64(a, t ? t->count : 0);
    t = t ? t : &none;
    rd_arg_str(a, t->worker);
    rd_arg_i64(a, t->lock_ms);
    rd_arg_i64(a, t->limit_max);
    rd_arg_i64(a, t->limit_duration_ms);
    rd_arg_i64(a, t->mode);
    rd_arg_str(a, t->worker.len ? rd_claims_key(e, prefix, queue, t->worker, mem) : (emq_str){0});
}

/* The script answers the record as it was before it was handed out. */
static void hand_out(struct emq__job *j, const struct emq__take *t, emq_str worker, int64_t now_ms)
{
    j->attempts_started++;
    j->processed_at_ms = now_ms;
    j->processed_by = worker;
    j->foreign = false;
    j->mode = t->mode;
    if (t->mode == EMQ_AT_MOST_ONCE)
        j->deferred_failure = EMQ_STR_LIT(EMQ__TEXT_AT_MOST_ONCE);
}

/* A row of lua/lib/take.lua. NULL: no memory. */
static struct emq__job *read_row(const struct rd_reply *row, const struct rd_hand_out *by,
                                 emq_str worker, struct emq__arena *mem)
{
    static const struct rd_reply fields[] = {
        {.type = RD_STR, .s = EMQ_STR_INIT("name")},
        {.type = RD_STR, .s = EMQ_STR_INIT("data")},
        {.type = RD_STR, .s = EMQ_STR_INIT("opts")},
        {.type = RD_STR, .s = EMQ_STR_INIT("timestamp")},
        {.type = RD_STR, .s = EMQ_STR_INIT("delay")},
        {.type = RD_STR, .s = EMQ_STR_INIT("priority")},
    };
    enum { FIELDS = EMQ_ARRAY_LEN(fields), NEW = FIELDS + 3, AGAIN = 5 };
    const struct rd_reply *pairs[2 * FIELDS];
    struct rd_reply hash = {.type = RD_ARR, .items = pairs, .n = 2 * FIELDS};
    struct rd_job_extra x = {.prefix = by->prefix,
                             .queue = by->queue,
                             .id = rd_str(rd_at(row, 0)),
                             .token = rd_str(rd_at(row, row->n == AGAIN ? 3 : row->n - 1)),
                             .lock_left_ms = rd_i64(rd_at(row, 1)),
                             .state = EMQ_ACTIVE};

    for (size_t i = 0; row->n == NEW && i < FIELDS; i++) {
        pairs[2 * i] = &fields[i];
        pairs[2 * i + 1] = rd_at(row, i + 2);
    }
    struct emq__job *j = rd_job_read(row->n == NEW ? &hash : rd_at(row, 2), &x, mem);
    if (j)
        j->fence = rd_fence_of(j->token);
    if (j && row->n != AGAIN)
        hand_out(j, by->take, worker, by->now_ms);
    return j;
}

emq_status rd_taken_read(const struct rd_reply *r, size_t at, const struct rd_hand_out *by,
                         struct emq__arena *mem, struct emq__taken *out, emq_error *err)
{
    size_t n = r->n > at + JOBS ? r->n - at - JOBS : 0;
    emq_str worker = emq__arena_str(mem, by->take->worker);

    *out = (struct emq__taken){
        .jobs = emq__arena_zalloc(mem, n ? n : 1, sizeof(struct emq__job *)),
        .paused = rd_i64(rd_at(r, at)) != 0,
        .maxed = rd_i64(rd_at(r, at + 1)) != 0,
        .limited_ms = rd_i64(rd_at(r, at + 2)),
        .next_due_at_ms = rd_i64(rd_at(r, at + 3)),
        .deferred = rd_i64(rd_at(r, at + 4)),
    };
    if (!out->jobs || !worker.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for %zu jobs", n);
    for (size_t i = 0; i < n; i++) {
        struct emq__job *j = read_row(rd_at(r, at + JOBS + i), by, worker, mem);
        if (!j)
            return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for %zu jobs", n);
        out->jobs[out->n++] = j;
    }
    return EMQ_OK;
}

emq_status rd_take(struct emq__engine *e, const struct emq__take_req *req,
                   struct emq__take_res *res, struct emq__arena *mem, emq_error *err)
{
    emq_status s = rd_take_check(&req->take, err);
    const struct rd_reply *r;

    if (s != EMQ_OK)
        return s;
    struct rd_args *a = rd_args_new(e, RD_LUA_take, req->prefix, req->queue, mem);
    rd_arg_call(a, req->call);
    rd_arg_take(a, e, req->prefix, req->queue, &req->take, mem);
    s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    struct rd_hand_out by = {req->prefix, req->queue, &req->take, res->now_ms};
    return rd_taken_read(r, 1, &by, mem, &res->taken, err);
}
