/* SPDX-License-Identifier: MIT
 *
 * The guarantee of a queue as it is used now.
 */
#include "lab/explain.h"

#include "base/error.h"
#include "base/str.h"

enum { PAGE = 500 };

/* The process of a worker's name: a name "host:pid:n" without its last part. */
static emq_str process_of(emq_str worker)
{
    size_t at = worker.len;

    while (at > 0 && emq__is_digit(worker.ptr[at - 1]))
        at--;
    return at > 1 && at < worker.len && worker.ptr[at - 1] == ':' ? emq_strn(worker.ptr, at - 1)
                                                                  : worker;
}

/* From a lock's end until the job is back. Of a hand-out by BullMQ, which may have no lock, a sweep counts only what an
 * earlier one has seen too, EMQ__SECOND_LOOK_MS ago or more. */
static int64_t back_ms(const struct emq__job *j, int64_t sweep_ms)
{
    int64_t sweeps = j->foreign ? 1 + (EMQ__SECOND_LOOK_MS + sweep_ms - 1) / sweep_ms : 1;

    return sweeps * sweep_ms;
}

static emq_status note(struct emq__explain *x, const struct emq__job *j, int64_t sweep_ms,
                       struct emq__map *held, struct emq__arena *mem, emq_error *err)
{
    emq_str process = process_of(j->processed_by);

    int64_t left_ms = j->lock_left_ms > 0 ? j->lock_left_ms : 0;
    int64_t recovery_ms = emq__sat_add(left_ms, back_ms(j, sweep_ms));

    x->ended += left_ms == 0;
    x->foreign += j->foreign;
    x->foreign_ended += j->foreign && left_ms == 0;
    if (recovery_ms > x->recovery_ms)
        x->recovery_ms = recovery_ms;
    if (j->mode == EMQ_AT_MOST_ONCE) {
        x->at_most_once++;
        return EMQ_OK;
    }
    x->at_least_once++;
    uintptr_t n = (uintptr_t)emq__map_get(held, process) + 1;
    if (!emq__map_put(held, process, (void *)n))
        return emq__no_memory("explain", err);
    if ((int64_t)n > x->worker_most) {
        x->worker_most = (int64_t)n;
        x->worker = emq__arena_str(mem, process);
    }
    return x->worker.ptr ? EMQ_OK : emq__no_memory("explain", err);
}

static emq_status look_at_active(emq_client *c, emq_str queue, int64_t sweep_ms,
                                 struct emq__explain *x, struct emq__arena *mem, emq_error *err)
{
    struct emq__map held = {0};
    struct emq__arena page = {0};
    struct emq__find_req req = {
        .prefix = c->prefix, .queue = queue, .state = EMQ_ACTIVE, .limit = PAGE};
    struct emq__find_res res = {.more = true};
    emq_status s = EMQ_OK;

    for (res.n = 1; s == EMQ_OK && res.n > 0 && req.offset < EMQ__EXPLAIN_ACTIVE_MAX;) {
        s = c->e->ops->find(c->e, &req, &res, &page, err);
        for (size_t i = 0; s == EMQ_OK && i < res.n; i++)
            s = note(x, res.jobs[i], sweep_ms, &held, mem, err);
        req.offset += s == EMQ_OK ? (int64_t)res.n : 0;
        emq__arena_free(&page);
    }
    emq__map_free(&held);
    return s;
}

emq_status emq__explain(emq_client *c, emq_str queue, int64_t sweep_ms, struct emq__arena *mem,
                        struct emq__explain *out, emq_error *err)
{
    struct emq__stats_req req = {.prefix = c->prefix, .queue = queue};
    struct emq__stats_res stats;
    struct emq__doctor d;
    emq_status s = emq__client_check_queue(c, queue, "explain", err);

    *out = (struct emq__explain){0};
    if (s == EMQ_OK)
        s = c->e->ops->stats(c->e, &req, &stats, mem, err);
    if (s != EMQ_OK)
        return s;
    if (!stats.exists)
        return EMQ_NOT_FOUND;
    out->active = stats.count[EMQ_ACTIVE];
    out->concurrency = stats.concurrency;
    s = look_at_active(c, queue, sweep_ms, out, mem, err);
    if (s == EMQ_OK)
        s = emq__doctor(c, mem, &d, err);
    if (s != EMQ_OK)
        return s;
    bool server = emq__str_is(emq__fact_of(&d, "engine"), "redis");
    out->server_loss = d.losses[server ? EMQ__LOSS_SERVER : EMQ__LOSS_MACHINE];
    return EMQ_OK;
}
