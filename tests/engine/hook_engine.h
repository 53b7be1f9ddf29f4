/* SPDX-License-Identifier: MIT
 *
 * Decorator for one test program: a hook sees each act with its request before it runs, and may fail
 * it, and sees its end. For faults that depend on what an act is about.
 */
#ifndef EMQ_TESTS_HOOK_ENGINE_H
#define EMQ_TESTS_HOOK_ENGINE_H

#include "base/error.h"
#include "engine/engine.h"

/* before: EMQ_OK lets the act run; a negative status is its answer. after: may turn the answer. */
struct hook {
    struct emq__engine e;
    struct emq__engine *under;
    emq_status (*before)(void *user, const char *act, const void *req);
    emq_status (*after)(void *user, const char *act, const void *req, emq_status s);
    void *user;
};

#define HOOK_ACT(act, mutating)                                                             \
    static emq_status hook_##act(struct emq__engine *e, const struct emq__##act##_req *req, \
                                 struct emq__##act##_res *res, struct emq__arena *mem,      \
                                 emq_error *err)                                            \
    {                                                                                       \
        const struct hook *h = (const struct hook *)e;                                      \
        emq_status s = h->before ? h->before(h->user, #act, req) : EMQ_OK;                  \
        if (s != EMQ_OK)                                                                    \
            return emq__fail(err, s, 0, #act, "hooked");                                    \
        s = h->under->ops->act(h->under, req, res, mem, err);                               \
        emq_status turned = h->after ? h->after(h->user, #act, req, s) : s;                 \
        return turned == s ? s : emq__fail(err, turned, 0, #act, "hooked");                 \
    }
EMQ__ACTS(HOOK_ACT)
#undef HOOK_ACT

static uint64_t hook_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    struct emq__engine *under = ((struct hook *)e)->under;
    return under->ops->ticket(under, prefix, queues, n);
}

static void hook_interrupt(struct emq__engine *e)
{
    struct emq__engine *under = ((struct hook *)e)->under;
    under->ops->interrupt(under);
}

static emq_status hook_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct emq__engine *under = ((struct hook *)e)->under;
    return under->ops->advance(under, ms, err);
}

static void hook_close(struct emq__engine *e)
{
    struct emq__engine *under = ((struct hook *)e)->under;
    under->ops->close(under);
}

static const struct emq__engine_ops hook_ops = {
    .name = "hook",
#define HOOK_OP(act, mutating) .act = hook_##act,
    EMQ__ACTS(HOOK_OP)
#undef HOOK_OP
        .ticket = hook_ticket,
    .interrupt = hook_interrupt,
    .advance = hook_advance,
    .close = hook_close,
};

/* h lives as long as the client. */
static inline void hook_wrap(struct emq__engine **e, struct hook *h)
{
    h->e.ops = &hook_ops;
    h->under = *e;
    *e = &h->e;
}

#endif
