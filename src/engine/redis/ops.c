/* SPDX-License-Identifier: MIT
 *
 * The table of the seam. Around each act stands what is the same for all of them: the process that it
 * is called in, what becomes of an act whose answer found no memory, and the tickets of what it may have
 * made ready.
 */
#include "engine/redis/ground.h"
#include "engine/redis/path.h"

#include "base/error.h"

#include <errno.h>
#include <unistd.h>

emq_status rd_check_fork(const struct rd_engine *e, emq_error *err)
{
    if (e->pid == getpid())
        return EMQ_OK;
    return emq__fail(err, EMQ_E_FORKED, 0, "redis",
                     "opened by process %ld, used in %ld: open the store after fork()",
                     (long)e->pid, (long)getpid());
}

/* ---- may it be asked twice? ------------------------------------------------------------------- */

#define WITH_RECEIPT(act)                                       \
    static bool twice_##act(const struct emq__##act##_req *req) \
    {                                                           \
        return req->call.session.len > 0;                       \
    }
#define HARMLESS(act)                                           \
    static bool twice_##act(const struct emq__##act##_req *req) \
    {                                                           \
        (void)req;                                              \
        return true;                                            \
    }
WITH_RECEIPT(add)
WITH_RECEIPT(publish)
WITH_RECEIPT(take)
WITH_RECEIPT(settle)
WITH_RECEIPT(sweep)
WITH_RECEIPT(write)
WITH_RECEIPT(change)
WITH_RECEIPT(bulk)
WITH_RECEIPT(obliterate)
WITH_RECEIPT(dedup)
WITH_RECEIPT(meta)
WITH_RECEIPT(mark)
HARMLESS(extend)
HARMLESS(promote)
HARMLESS(claims)
HARMLESS(wait)
HARMLESS(wake)
HARMLESS(jobs)
HARMLESS(stats)
HARMLESS(find)
HARMLESS(queues)
HARMLESS(logs)
HARMLESS(events)
HARMLESS(history)
HARMLESS(dump)
HARMLESS(markers)
HARMLESS(suspects)
HARMLESS(mend)
HARMLESS(facts)

/* The act may have been done although this process could not hold the answer. */
static emq_status no_memory(bool sent, emq_error *err)
{
    if (!sent)
        return EMQ_E_NOMEM;
    return emq__fail(err, EMQ_E_IN_DOUBT, ENOMEM, "redis",
                     "out of memory: it may have been done, but there was no room for the answer");
}

/* ---- what an act may have made ready ---------------------------------------------------------- */

#define RINGS(act)                                                                   \
    static void after_##act(struct rd_engine *e, const struct emq__##act##_req *req, \
                            const struct emq__##act##_res *res)                      \
    {                                                                                \
        (void)res;                                                                   \
        rd_bell_ring(e, req->prefix, req->queue);                                    \
    }
#define SILENT(act)                                                                  \
    static void after_##act(struct rd_engine *e, const struct emq__##act##_req *req, \
                            const struct emq__##act##_res *res)                      \
    {                                                                                \
        (void)e, (void)req, (void)res;                                               \
    }
RINGS(wake)
RINGS(change)
RINGS(bulk)
SILENT(extend)
SILENT(claims)
SILENT(wait)
SILENT(write)
SILENT(obliterate)
SILENT(dedup)
SILENT(jobs)
SILENT(stats)
SILENT(find)
SILENT(queues)
SILENT(logs)
SILENT(events)
SILENT(history)
SILENT(dump)
SILENT(mark)
SILENT(markers)
SILENT(suspects)
SILENT(facts)
RINGS(mend)

static void after_sweep(struct rd_engine *e, const struct emq__sweep_req *req,
                        const struct emq__sweep_res *res)
{
    if (!res || res->n_recovered > 0)
        rd_bell_ring(e, req->prefix, req->queue);
}

static void after_promote(struct rd_engine *e, const struct emq__promote_req *req,
                          const struct emq__promote_res *res)
{
    if (!res || res->count > 0)
        rd_bell_ring(e, req->prefix, req->queue);
}

static void after_add(struct rd_engine *e, const struct emq__add_req *req,
                      const struct emq__add_res *res)
{
    (void)res;
    for (size_t i = 0; req->stage.len == 0 && i < req->n; i++)
        rd_bell_ring(e, req->entries[i]->prefix, req->entries[i]->queue);
}

static void after_publish(struct rd_engine *e, const struct emq__publish_req *req,
                          const struct emq__publish_res *res)
{
    (void)req, (void)res; /* of whatever queues */
    rd_bell_ring_all(e);
}

static void taken(struct rd_engine *e, emq_str prefix, emq_str queue, emq_str worker,
                  const struct emq__taken *t)
{
    rd_bell_maxed(e, prefix, queue, t && t->maxed);
    rd_worker_seen(e, prefix, queue, worker);
}

static void after_take(struct rd_engine *e, const struct emq__take_req *req,
                       const struct emq__take_res *res)
{
    taken(e, req->prefix, req->queue, req->take.worker, res ? &res->taken : NULL);
}

static void after_settle(struct rd_engine *e, const struct emq__settle_req *req,
                         const struct emq__settle_res *res)
{
    bool news = req->n > 0 && rd_bell_was_maxed(e, req->prefix, req->queue);

    for (size_t i = 0; i < req->n; i++)
        news = news || (req->entries[i]->kind != EMQ__SETTLE_COMPLETED &&
                        req->entries[i]->kind != EMQ__SETTLE_FAILED);
    if (news)
        rd_bell_ring(e, req->prefix, req->queue);
    if (req->next)
        taken(e, req->prefix, req->queue, req->next->worker, res ? &res->taken : NULL);
}

static void after_meta(struct rd_engine *e, const struct emq__meta_req *req,
                       const struct emq__meta_res *res)
{
    (void)res;
    if (req->n_set > 0)
        rd_bell_ring(e, req->prefix, req->queue);
}

/* ---- the table -------------------------------------------------------------------------------- */

#define OP(act, mutating)                                                                 \
    static emq_status op_##act(struct emq__engine *e, const struct emq__##act##_req *req, \
                               struct emq__##act##_res *res, struct emq__arena *mem,      \
                               emq_error *err)                                            \
    {                                                                                     \
        struct rd_op op = {.e = rd_of(e)};                                                \
        emq_status s = rd_check_fork(op.e, err);                                          \
                                                                                          \
        if (s == EMQ_OK)                                                                  \
            s = rd_##act(&op.base, req, res, mem, err);                                   \
        if (s == EMQ_E_NOMEM && op.sent && twice_##act(req))                              \
            s = rd_##act(&op.base, req, res, mem, err);                                   \
        if (s == EMQ_E_NOMEM)                                                             \
            s = no_memory(op.sent, err);                                                  \
        if (s == EMQ_OK || s == EMQ_E_IN_DOUBT)                                           \
            after_##act(op.e, req, s == EMQ_OK ? res : NULL);                             \
        return s;                                                                         \
    }
EMQ__ACTS(OP)
#undef OP

emq_status emq__redis_effect(struct emq__engine *e, const struct emq__effect_req *req,
                             const struct emq__redis_command *commands, size_t n,
                             struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_op op = {.e = rd_of(e)};
    emq_status s = rd_check_fork(op.e, err);

    if (s == EMQ_OK)
        s = rd_effect(&op.base, req, commands, n, res, mem, err);
    if (s == EMQ_E_NOMEM && op.sent && req->call.session.len > 0)
        s = rd_effect(&op.base, req, commands, n, res, mem, err);
    if (s == EMQ_E_NOMEM)
        s = no_memory(op.sent, err);
    if ((s == EMQ_OK || s == EMQ_E_IN_DOUBT) && rd_bell_was_maxed(op.e, req->prefix, req->queue))
        rd_bell_ring(op.e, req->prefix, req->queue);
    return s;
}

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
