/* SPDX-License-Identifier: MIT
 *
 * The acts `meta` and `dedup`: settings of a queue, and who holds a producer's dedup id.
 *
 * Settings are checked before anything is written. A dedup id is released by comparison with its owner.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/redis/admin.h"

/* ---- meta ------------------------------------------------------------------------------------ */

static int by_field(const void *a, const void *b)
{
    return emq__str_cmp(((const struct emq__meta_field *)a)->field,
                        ((const struct emq__meta_field *)b)->field);
}

emq_status rd_meta(struct emq__engine *e, const struct emq__meta_req *req,
                   struct emq__meta_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_meta, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    *res = (struct emq__meta_res){0};
    emq_status bad = emq__meta_check(req, err);
    if (bad != EMQ_OK)
        return bad;
    if (req->n_set)
        rd_arg_call(a, req->call);
    for (size_t i = 0; i < req->n_set; i++) {
        rd_arg_str(a, req->set[i].field);
        rd_arg_str(a, req->set[i].value);
    }
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    res->fields = emq__arena_zalloc(mem, r->n / 2 + 1, sizeof *res->fields);
    if (!res->fields)
        return emq__fail(err, EMQ_E_NOMEM, 0, "meta", "%zu settings", r->n / 2);
    for (size_t i = 1; i + 1 < r->n; i += 2)
        res->fields[res->n++] =
            (struct emq__meta_field){rd_str(rd_at(r, i)), rd_str(rd_at(r, i + 1))};
    qsort(res->fields, res->n, sizeof *res->fields, by_field);
    return EMQ_OK;
}

/* ---- dedup ----------------------------------------------------------------------------------- */

emq_status rd_dedup(struct emq__engine *e, const struct emq__dedup_req *req,
                    struct emq__dedup_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_dedup, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    *res = (struct emq__dedup_res){0};
    if (req->release) {
        rd_arg_call(a, req->call);
    } else {
        rd_arg_str(a, (emq_str){0});
        rd_arg_i64(a, 0);
    }
    rd_arg_str(a, req->dedup_id);
    rd_arg_str(a, req->owner);
    rd_arg_i64(a, req->release);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    if (!rd_i64(rd_at(r, 1)))
        return EMQ_NOT_FOUND;
    res->owner = rd_str(rd_at(r, 2));
    res->ttl_ms = rd_i64(rd_at(r, 3));
    return EMQ_OK;
}
