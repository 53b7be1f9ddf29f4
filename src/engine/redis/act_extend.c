/* SPDX-License-Identifier: MIT
 *
 * extend: one script for each slot that the entries are in.
 */
#include "engine/redis/path.h"

#include "base/error.h"
#include "base/str.h"

struct extending {
    const struct emq__extend_req *req;
    struct emq__extend_res *res;
    const struct emq__extend_entry **queues; /* of this slot: the first entry of each queue */
    size_t n_queues;
    size_t *mine; /* indices of this slot's entries */
    size_t n_mine;
    bool *done;
};

static size_t queue_of(struct extending *x, const struct emq__extend_entry *en)
{
    for (size_t i = x->n_queues; i-- > 0;)
        if (emq__str_eq(x->queues[i]->queue, en->queue) &&
            emq__str_eq(x->queues[i]->prefix, en->prefix))
            return i;
    x->queues[x->n_queues] = en;
    return x->n_queues++;
}

/* The entries that may travel with the first that is left. */
static void gather(struct extending *x, struct emq__engine *e, size_t from)
{
    const struct emq__extend_entry *first = x->req->entries[from];

    x->n_queues = x->n_mine = 0;
    for (size_t i = from; i < x->req->n; i++) {
        const struct emq__extend_entry *en = x->req->entries[i];
        if (x->done[i] || !rd_same_slot(e, first->prefix, first->queue, en->prefix, en->queue))
            continue;
        x->done[i] = true;
        (void)queue_of(x, en);
        x->mine[x->n_mine++] = i;
    }
}

static emq_status extend_slot(struct extending *x, struct emq__engine *e, struct emq__arena *mem,
                              emq_error *err)
{
    struct rd_args *a =
        rd_args_new(e, RD_LUA_extend, x->queues[0]->prefix, x->queues[0]->queue, mem);
    const struct rd_reply *r;

    rd_arg_writes(a);
    rd_arg_i64(a, x->req->lock_ms);
    rd_arg_i64(a, (int64_t)x->n_queues);
    for (size_t i = 0; i < x->n_queues; i++)
        rd_arg_queue(a, x->queues[i]->prefix, x->queues[i]->queue);
    for (size_t i = 0; i < x->n_mine; i++) {
        const struct emq__extend_entry *en = x->req->entries[x->mine[i]];
        rd_arg_i64(a, (int64_t)queue_of(x, en) + 1);
        rd_arg_str(a, en->id);
        rd_arg_str(a, en->token);
    }
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    x->res->now_ms = rd_i64(rd_at(r, 0));
    for (size_t i = 0; i < x->n_mine; i++)
        x->res->extended[x->mine[i]] =
            (struct emq__extended){(emq_status)rd_i64(rd_at(rd_at(r, 1), 2 * i)),
                                   rd_i64(rd_at(rd_at(r, 1), 2 * i + 1)) != 0};
    return EMQ_OK;
}

/* No entries, but a result has the store's time. */
emq_status rd_now(struct emq__engine *e, int64_t *now_ms, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_extend, EMQ_STR_LIT("emq"), EMQ_STR_LIT(""), mem);
    const struct rd_reply *r;

    rd_arg_i64(a, 0);
    rd_arg_i64(a, 0);
    emq_status s = rd_eval(a, &r, err);
    if (s == EMQ_OK)
        *now_ms = rd_i64(rd_at(r, 0));
    return s;
}

emq_status rd_extend(struct emq__engine *e, const struct emq__extend_req *req,
                     struct emq__extend_res *res, struct emq__arena *mem, emq_error *err)
{
    struct extending x = {.req = req, .res = res};
    size_t n = req->n ? req->n : 1;
    emq_status s = EMQ_OK;

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "extend", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    *res = (struct emq__extend_res){.n = req->n};
    res->extended = emq__arena_zalloc(mem, n, sizeof *res->extended);
    x.queues = emq__arena_zalloc(mem, n, sizeof(const struct emq__extend_entry *));
    x.mine = emq__arena_zalloc(mem, n, sizeof *x.mine);
    x.done = emq__arena_zalloc(mem, n, sizeof *x.done);
    if (!res->extended || !x.queues || !x.mine || !x.done)
        return emq__fail(err, EMQ_E_NOMEM, 0, "extend", "no memory for %zu entries", req->n);
    if (req->n == 0)
        return rd_now(e, &res->now_ms, mem, err);
    for (size_t i = 0; s == EMQ_OK && i < req->n; i++) {
        if (x.done[i])
            continue;
        gather(&x, e, i);
        s = extend_slot(&x, e, mem, err);
    }
    return s;
}
