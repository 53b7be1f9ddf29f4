/* SPDX-License-Identifier: MIT
 *
 * publish: a script a slice, see lua/publish.lua. What was not published is read afterwards, in pages: whoever
 * published which slice.
 */
#include "engine/redis/path.h"

#include "base/error.h"

enum { OUTCOME = 1, COUNT, NEXT, LIST, MISSED }; /* the places of its answer */

static emq_status read_missed(struct emq__engine *e, emq_str prefix, emq_str key, size_t n,
                              struct emq__publish_res *res, struct emq__arena *mem, emq_error *err)
{
    res->missed = emq__arena_zalloc(mem, n, sizeof *res->missed);
    if (!res->missed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "publish", "no memory for what was not published");
    while (res->n_missed < n) {
        struct rd_args *a = rd_args_new_near(e, RD_LUA_missed, prefix, key, mem);
        const struct rd_reply *r;
        rd_arg_i64(a, (int64_t)res->n_missed);
        rd_arg_i64(a, EMQ__BATCH_MAX);
        emq_status s = rd_eval(a, &r, err);
        if (s != EMQ_OK)
            return s;
        const struct rd_reply *page = rd_at(r, 1);
        size_t got = page->n / 4;
        for (size_t i = 0; i < got && res->n_missed < n; i++)
            res->missed[res->n_missed++] =
                (struct emq__missed){.rank = rd_i64(rd_at(page, 4 * i)),
                                     .why = {.outcome = (emq_status)rd_i64(rd_at(page, 4 * i + 1)),
                                             .state = (int)rd_i64(rd_at(page, 4 * i + 2)),
                                             .id = rd_str(rd_at(page, 4 * i + 3))}};
        if (got == 0)
            return emq__fail(err, EMQ_E_IN_DOUBT, 0, "publish",
                             "%zu jobs were not published, and which has been forgotten", n);
    }
    return EMQ_OK;
}

/* Once it has begun it goes on to its end, whatever this handle is told. */
static emq_status begun(emq_status s, emq_error *err)
{
    emq_error inner = err ? *err : (emq_error){0};

    if (s == EMQ_E_IN_DOUBT || s == EMQ_E_NOMEM)
        return s;
    return emq__fail(err, EMQ_E_IN_DOUBT, inner.native, "publish",
                     "it has begun, and goes on with the next sweep: %s", inner.text);
}

emq_status rd_publish(struct emq__engine *e, const struct emq__publish_req *req,
                      struct emq__publish_res *res, struct emq__arena *mem, emq_error *err)
{
    emq_str stage = emq__arena_printf(mem, "%.*s::emq::stage:%.*s", EMQ_STR_ARG(req->prefix),
                                      EMQ_STR_ARG(req->stage));
    emq_str next = {0};
    emq_status s;

    for (;;) {
        struct rd_args *a =
            rd_args_new_near(e, RD_LUA_publish, req->prefix, next.len > 0 ? next : stage, mem);
        const struct rd_reply *r;
        rd_arg_call(a, req->call);
        rd_arg_str(a, req->stage);
        rd_arg_str(a, next);
        rd_arg_i64(a, req->drop);
        s = rd_eval(a, &r, err);
        if (s != EMQ_OK)
            return next.len == 0 ? s : begun(s, err);
        *res = (struct emq__publish_res){.now_ms = rd_i64(rd_at(r, 0)),
                                         .count = req->drop ? 0 : rd_i64(rd_at(r, COUNT))};
        next = rd_str(rd_at(r, NEXT));
        if (next.len > 0)
            continue;
        size_t n = req->drop ? 0 : (size_t)rd_i64(rd_at(r, MISSED));
        s = n > 0 ? read_missed(e, req->prefix, rd_str(rd_at(r, LIST)), n, res, mem, err) : EMQ_OK;
        return s == EMQ_OK ? (emq_status)rd_i64(rd_at(r, OUTCOME)) : begun(s, err);
    }
}
