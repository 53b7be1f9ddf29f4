/* SPDX-License-Identifier: MIT
 *
 * The table of the seam. Around each act stands what is the same for all of them: the process that it
 * is called in, and the tickets of what it may have made ready.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <unistd.h>

emq_status rd_check_fork(const struct rd_engine *e, emq_error *err)
{
    if (e->pid == getpid())
        return EMQ_OK;
    return emq__fail(err, EMQ_E_FORKED, 0, "redis",
                     "opened by process %ld, used in %ld: open the store after fork()",
                     (long)e->pid, (long)getpid());
}

/* ---- what an act may have made ready ---------------------------------------------------------- */

#define RING_QUEUE(act)                                                              \
    static void after_##act(struct rd_engine *e, const struct emq__##act##_req *req) \
    {                                                                                \
        rd_bell_ring(e, req->prefix, req->queue);                                    \
    }
#define RING_NOTHING(act)                                                            \
    static void after_##act(struct rd_engine *e, const struct emq__##act##_req *req) \
    {                                                                                \
        (void)e, (void)req;                                                          \
    }

RING_QUEUE(sweep)
RING_QUEUE(promote)
RING_QUEUE(wake)
RING_QUEUE(change)
RING_QUEUE(bulk)
RING_NOTHING(extend)
RING_NOTHING(claims)
RING_NOTHING(wait)
RING_NOTHING(write)
RING_NOTHING(obliterate)
RING_NOTHING(dedup)
RING_NOTHING(jobs)
RING_NOTHING(stats)
RING_NOTHING(find)
RING_NOTHING(queues)
RING_NOTHING(logs)
RING_NOTHING(events)
RING_NOTHING(history)
RING_NOTHING(dump)

static void after_add(struct rd_engine *e, const struct emq__add_req *req)
{
    for (size_t i = 0; req->stage.len == 0 && i < req->n; i++)
        rd_bell_ring(e, req->entries[i]->prefix, req->entries[i]->queue);
}

static void after_publish(struct rd_engine *e, const struct emq__publish_req *req)
{
    (void)req; /* of whatever queues */
    rd_bell_ring_all(e);
}

static void after_take(struct rd_engine *e, const struct emq__take_req *req)
{
    rd_worker_seen(e, req->prefix, req->queue, req->take.worker);
}

static void after_settle(struct rd_engine *e, const struct emq__settle_req *req)
{
    bool back = false;

    for (size_t i = 0; i < req->n; i++)
        back = back || (req->entries[i]->kind != EMQ__SETTLE_COMPLETED &&
                        req->entries[i]->kind != EMQ__SETTLE_FAILED);
    if (back)
        rd_bell_ring(e, req->prefix, req->queue);
    if (req->next)
        rd_worker_seen(e, req->prefix, req->queue, req->next->worker);
}

static void after_meta(struct rd_engine *e, const struct emq__meta_req *req)
{
    if (req->n_set > 0)
        rd_bell_ring(e, req->prefix, req->queue);
}

#define OP(act, mutating)                                                                 \
    static emq_status op_##act(struct emq__engine *e, const struct emq__##act##_req *req, \
                               struct emq__##act##_res *res, struct emq__arena *mem,      \
                               emq_error *err)                                            \
    {                                                                                     \
        emq_status s = rd_check_fork(rd_of(e), err);                                      \
                                                                                          \
        if (s == EMQ_OK)                                                                  \
            s = rd_##act(e, req, res, mem, err);                                          \
        if (s == EMQ_OK || s == EMQ_E_IN_DOUBT)                                           \
            after_##act(rd_of(e), req);                                                   \
        return s;                                                                         \
    }
EMQ__ACTS(OP)
#undef OP

const struct emq__engine_ops rd_ops = {
    .name = "redis",
#define OP_MEMBER(act, mutating) .act = op_##act,
    EMQ__ACTS(OP_MEMBER)
#undef OP_MEMBER
        .ticket = rd_ticket,
    .interrupt = rd_interrupt,
    .advance = rd_clock_advance,
    .close = rd_close,
};
