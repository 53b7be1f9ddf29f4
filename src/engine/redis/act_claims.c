/* SPDX-License-Identifier: MIT
 *
 * claims: which queues a worker has taken from is known by a set of its own; where that can't be kept
 * (see rd_claims_key), all queues of the prefix are looked at.
 */
#include "engine/redis/path.h"

#include "base/error.h"

static emq_status add_claims(const struct rd_reply *r, emq_str prefix, struct emq__claims_res *res,
                             struct emq__arena *mem, emq_error *err)
{
    size_t more = r->n > 1 ? r->n - 1 : 0;
    struct emq__job **jobs = emq__arena_zalloc(mem, res->n + more + 1, sizeof(struct emq__job *));

    res->now_ms = rd_i64(rd_at(r, 0));
    if (!jobs)
        return emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory for %zu jobs", more);
    for (size_t i = 0; i < res->n; i++)
        jobs[i] = res->jobs[i];
    res->jobs = jobs;
    for (size_t i = 1; i <= more; i++) {
        const struct rd_reply *row = rd_at(r, i);
        struct rd_job_extra x = {.prefix = prefix,
                                 .queue = rd_str(rd_at(row, 0)),
                                 .id = rd_str(rd_at(row, 1)),
                                 .token = rd_str(rd_at(row, 2)),
                                 .lock_left_ms = rd_i64(rd_at(row, 3)),
                                 .state = EMQ_ACTIVE};
        res->jobs[res->n] = rd_job_read(rd_at(row, 4), &x, mem);
        if (!res->jobs[res->n++])
            return emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory for a job");
    }
    return EMQ_OK;
}

static emq_status ask(struct emq__engine *e, const struct emq__claims_req *req, emq_str queue,
                      emq_str key, struct emq__claims_res *res, struct emq__arena *mem,
                      emq_error *err)
{
    struct rd_args *a = key.len > 0 ? rd_args_new_near(e, RD_LUA_claims, req->prefix, key, mem)
                                    : rd_args_new(e, RD_LUA_claims, req->prefix, queue, mem);
    const struct rd_reply *r;

    rd_arg_str(a, req->worker);
    rd_arg_str(a, key);
    emq_status s = rd_eval(a, &r, err);
    return s == EMQ_OK ? add_claims(r, req->prefix, res, mem, err) : s;
}

emq_status rd_claims(struct emq__engine *e, const struct emq__claims_req *req,
                     struct emq__claims_res *res, struct emq__arena *mem, emq_error *err)
{
    /* Any queue tells whether a prefix has the braces itself. */
    emq_str key = rd_claims_key(e, req->prefix, EMQ_STR_LIT("q"), req->worker, mem);
    struct emq__queues_req all = {.prefix = req->prefix};
    struct emq__queues_res found;

    *res = (struct emq__claims_res){0};
    if (!key.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "claims", "no memory for a key");
    if (key.len > 0)
        return ask(e, req, EMQ_STR_LIT(""), key, res, mem, err);
    emq_status s = rd_queues(e, &all, &found, mem, err);
    for (size_t i = 0; s == EMQ_OK && i < found.n; i++)
        s = ask(e, req, found.names[i], EMQ_STR_LIT(""), res, mem, err);
    if (s == EMQ_OK && found.n == 0)
        res->now_ms = found.now_ms;
    return s;
}
