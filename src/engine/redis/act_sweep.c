/* SPDX-License-Identifier: MIT
 *
 * sweep and promote: what anybody may do for a queue.
 */
#include "engine/redis/redis.h"

#include "base/error.h"

static emq_status read_ids(const struct rd_reply *list, struct emq__arena *mem, emq_str **out,
                           size_t *n, emq_error *err)
{
    *n = list->type == RD_ARR ? list->n : 0;
    *out = emq__arena_zalloc(mem, *n ? *n : 1, sizeof **out);
    if (!*out)
        return emq__fail(err, EMQ_E_NOMEM, 0, "sweep", "no memory for %zu ids", *n);
    for (size_t i = 0; i < *n; i++)
        (*out)[i] = rd_str(rd_at(list, i));
    return EMQ_OK;
}

emq_status rd_sweep(struct emq__engine *e, const struct emq__sweep_req *req,
                    struct emq__sweep_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_sweep, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    rd_arg_call(a, req->call);
    rd_arg_i64(a, req->max_stalled);
    rd_arg_i64(a, req->limit > 0 ? req->limit : EMQ__BATCH_MAX);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    *res = (struct emq__sweep_res){.now_ms = rd_i64(rd_at(r, 0)), .more = rd_i64(rd_at(r, 1)) != 0};
    s = read_ids(rd_at(r, 2), mem, &res->recovered, &res->n_recovered, err);
    return s == EMQ_OK ? read_ids(rd_at(r, 3), mem, &res->failed, &res->n_failed, err) : s;
}

emq_status rd_promote(struct emq__engine *e, const struct emq__promote_req *req,
                      struct emq__promote_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_promote, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    rd_arg_writes(a);
    rd_arg_i64(a, req->limit > 0 && req->limit < EMQ__BATCH_MAX ? req->limit : EMQ__BATCH_MAX);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    *res = (struct emq__promote_res){.now_ms = rd_i64(rd_at(r, 0)),
                                     .count = rd_i64(rd_at(r, 1)),
                                     .next_due_at_ms = rd_i64(rd_at(r, 2)),
                                     .more = rd_i64(rd_at(r, 3)) != 0};
    return EMQ_OK;
}
