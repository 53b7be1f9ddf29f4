/* SPDX-License-Identifier: MIT
 *
 * The acts `bulk` and `obliterate`: changes over whole states, in slices that hold the store for a
 * few milliseconds each. One act is as many slices, under the same sequence, as it takes to do what
 * was asked; where a slice has ended is what the next one begins with.
 */
#include "base/error.h"
#include "engine/redis/admin.h"

static int64_t limit_of(int32_t limit)
{
    return limit > 0 && limit < EMQ__BATCH_MAX ? limit : EMQ__BATCH_MAX;
}

/* ---- bulk ------------------------------------------------------------------------------------ */

/* The places of its answer. */
enum { SLICES = 1, COUNT, LAST_ID, RANK, BEFORE, MORE, SEARCHED, DONE, FOUND, IDS };

static emq_status bulk_slice(struct emq__engine *e, const struct emq__bulk_req *req,
                             const struct rd_reply **last, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_bulk, req->prefix, req->queue, mem);

    rd_arg_call(a, req->call);
    rd_arg_change(a, &req->change);
    rd_arg_i64(a, req->state);
    rd_arg_i64(a, req->older_ms);
    rd_arg_i64(a, limit_of(req->limit));
    rd_arg_i64(a, req->event);
    rd_arg_str(a, req->after_id);
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, SLICES)) : 0);
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, COUNT)) : 0);
    rd_arg_str(a, *last ? rd_str(rd_at(*last, LAST_ID)) : (emq_str){0});
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, RANK)) : 0);
    rd_arg_str(a, *last ? rd_str(rd_at(*last, BEFORE)) : (emq_str){0});
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, MORE)) : 0);
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, SEARCHED)) : 0);
    for (size_t i = IDS; *last && i < (*last)->n; i++)
        rd_arg_str(a, rd_str(rd_at(*last, i)));
    return rd_eval(a, last, err);
}

emq_status rd_bulk(struct emq__engine *e, const struct emq__bulk_req *req,
                   struct emq__bulk_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r = NULL;
    emq_status s = rd_change_check(&req->change, "bulk", err);

    *res = (struct emq__bulk_res){0};
    if (s != EMQ_OK)
        return s;
    if (req->state < EMQ_WAITING || req->state > EMQ_STATE_COUNT)
        return emq__fail(err, EMQ_E_INVALID, 0, "bulk", "no such state: %d", (int)req->state);
    for (int64_t slices = 0;; slices++) {
        s = bulk_slice(e, req, &r, mem, err);
        if (s != EMQ_OK)
            return rd_partly(s, slices, "bulk", err);
        res->now_ms = rd_i64(rd_at(r, 0));
        res->count = rd_i64(rd_at(r, COUNT));
        res->last_id = rd_str(rd_at(r, LAST_ID));
        res->more = rd_i64(rd_at(r, MORE)) != 0;
        if (!rd_i64(rd_at(r, FOUND)))
            return EMQ_NOT_FOUND;
        if (rd_i64(rd_at(r, DONE)))
            return EMQ_OK;
    }
}

/* ---- obliterate ------------------------------------------------------------------------------ */

enum { CURSOR = 3, GONE, OUTCOME }; /* behind SLICES and COUNT */

static emq_status obliterate_slice(struct emq__engine *e, const struct emq__obliterate_req *req,
                                   const struct rd_reply **last, struct emq__arena *mem,
                                   emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_obliterate, req->prefix, req->queue, mem);

    rd_arg_call(a, req->call);
    rd_arg_i64(a, req->force);
    rd_arg_i64(a, limit_of(req->limit));
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, SLICES)) : 0);
    rd_arg_i64(a, *last ? rd_i64(rd_at(*last, COUNT)) : 0);
    rd_arg_str(a, *last ? rd_str(rd_at(*last, CURSOR)) : (emq_str){0});
    return rd_eval(a, last, err);
}

emq_status rd_obliterate(struct emq__engine *e, const struct emq__obliterate_req *req,
                         struct emq__obliterate_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r = NULL;

    *res = (struct emq__obliterate_res){0};
    for (int64_t slices = 0;; slices++) {
        emq_status s = obliterate_slice(e, req, &r, mem, err);
        if (s != EMQ_OK)
            return rd_partly(s, slices, "obliterate", err);
        emq_status outcome = (emq_status)rd_i64(rd_at(r, OUTCOME));
        bool searching = rd_str(rd_at(r, CURSOR)).len > 0;
        res->now_ms = rd_i64(rd_at(r, 0));
        if (outcome != EMQ_OK && slices == 0)
            return outcome;
        if (outcome == EMQ_OK)
            res->count = rd_i64(rd_at(r, COUNT));
        res->more = !rd_i64(rd_at(r, GONE));
        if (!res->more || outcome != EMQ_OK || (res->count >= limit_of(req->limit) && !searching))
            return EMQ_OK;
    }
}
