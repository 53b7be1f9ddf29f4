/* SPDX-License-Identifier: MIT
 *
 * The act `change`: an administrator changes single jobs. What a job's state and lock allow is decided
 * in the script that changes it. A script does only so much at a time; the rest goes into the next one,
 * under the same sequence.
 */
#include "base/error.h"
#include "engine/redis/admin.h"

void rd_arg_change(struct rd_args *a, const struct emq__change *c)
{
    rd_arg_i64(a, c->kind);
    rd_arg_str(a, c->admin);
    rd_arg_i64(a, c->delay_ms);
    rd_arg_i64(a, c->priority);
    rd_arg_i64(a, c->lifo);
    rd_arg_i64(a, c->reset_attempts);
    rd_arg_i64(a, c->effects);
}

emq_status rd_change_check(const struct emq__change *c, const char *where, emq_error *err)
{
    if (c->kind >= EMQ__CHANGE_DELAY && c->kind <= EMQ__CHANGE_CANCEL)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where, "no such kind of change: %d", (int)c->kind);
}

emq_status rd_partly(emq_status s, int64_t slices, const char *where, emq_error *err)
{
    if (s != EMQ_E_UNAVAIL || slices == 0)
        return s;
    return emq__fail(err, EMQ_E_IN_DOUBT, 0, where,
                     "the store went away behind %lld parts of it: repeat it with its sequence",
                     (long long)slices);
}

/* One script; *done grows. */
static emq_status change_slice(struct emq__engine *e, const struct emq__change_req *req,
                               struct emq__change_res *res, size_t *done, struct emq__arena *mem,
                               emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_change, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    rd_arg_call(a, req->call);
    rd_arg_change(a, &req->change);
    rd_arg_i64(a, (int64_t)*done);
    for (size_t i = 0; i < req->n; i++)
        rd_arg_str(a, req->ids[i]);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    for (size_t i = 2; i + 1 < r->n && *done < req->n; i += 2)
        res->changed[(*done)++] =
            (struct emq__settled){(emq_status)rd_i64(rd_at(r, i)), (int)rd_i64(rd_at(r, i + 1))};
    return EMQ_OK;
}

emq_status rd_change(struct emq__engine *e, const struct emq__change_req *req,
                     struct emq__change_res *res, struct emq__arena *mem, emq_error *err)
{
    size_t done = 0;
    emq_status s = rd_change_check(&req->change, "change", err);

    *res = (struct emq__change_res){.n = req->n};
    if (s != EMQ_OK)
        return s;
    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "change", "%zu jobs; at most %d in one act", req->n,
                         EMQ__BATCH_MAX);
    res->changed = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->changed);
    if (!res->changed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "change", "%zu outcomes", req->n);
    for (int64_t slices = 0; slices == 0 || done < req->n; slices++) {
        s = change_slice(e, req, res, &done, mem, err);
        if (s != EMQ_OK)
            return rd_partly(s, slices, "change", err);
    }
    return EMQ_OK;
}
