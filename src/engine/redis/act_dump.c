/* SPDX-License-Identifier: MIT
 *
 * The act `dump`: one consistent picture of a whole queue, from one script, for checks, tests and
 * fsck. It also counts the keys and entries that nothing accounts for; a sound store has none.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/redis/admin.h"

enum { FENCE = 1, ID_COUNTER, STRAY, STATS, DEDUP, ROWS }; /* the places of its answer */

static int by_id(const void *a, const void *b)
{
    return emq__str_cmp(((const struct emq__dump_dedup *)a)->id,
                        ((const struct emq__dump_dedup *)b)->id);
}

static bool read_dedup(const struct rd_reply *list, struct emq__dump_res *res,
                       struct emq__arena *mem)
{
    res->dedup = emq__arena_zalloc(mem, list->n / 4 + 1, sizeof *res->dedup);
    if (!res->dedup)
        return false;
    for (size_t i = 0; i + 3 < list->n; i += 4)
        res->dedup[res->n_dedup++] = (struct emq__dump_dedup){
            .id = rd_str(rd_at(list, i)),
            .owner = rd_str(rd_at(list, i + 1)),
            .ttl_ms = rd_i64(rd_at(list, i + 2)),
            .has_next = rd_i64(rd_at(list, i + 3)) != 0,
        };
    qsort(res->dedup, res->n_dedup, sizeof *res->dedup, by_id);
    return true;
}

static bool read_jobs(const struct rd_reply *r, const struct emq__dump_req *req,
                      struct emq__dump_res *res, struct emq__arena *mem)
{
    size_t n = r->n > ROWS ? r->n - ROWS : 0;

    res->jobs = emq__arena_zalloc(mem, n + 1, sizeof(struct emq__job *));
    if (!res->jobs)
        return false;
    for (; res->n < n; res->n++) {
        res->jobs[res->n] = rd_row_job(rd_at(r, res->n + ROWS), req->prefix, req->queue, mem);
        if (!res->jobs[res->n])
            return false;
    }
    return true;
}

emq_status rd_dump(struct emq__engine *e, const struct emq__dump_req *req,
                   struct emq__dump_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_dump, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    *res = (struct emq__dump_res){0};
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = res->stats.now_ms = rd_i64(rd_at(r, 0));
    res->stray = rd_i64(rd_at(r, STRAY));
    rd_stats_read(rd_at(r, STATS), 0, &res->stats);
    if (res->stats.exists) { /* else it has at most counted what is staged */
        res->last_fence = rd_i64(rd_at(r, FENCE));
        res->id_counter = rd_i64(rd_at(r, ID_COUNTER));
    }
    if (!read_dedup(rd_at(r, DEDUP), res, mem) || !read_jobs(r, req, res, mem))
        return emq__fail(err, EMQ_E_NOMEM, 0, "dump", "no memory for the picture of a queue");
    return EMQ_OK;
}
