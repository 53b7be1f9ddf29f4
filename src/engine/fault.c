/* SPDX-License-Identifier: MIT
 *
 * Decorator: fails calls by plan, as a broken link or a dying store would. The plan is a callback; it
 * is asked before each mutating act and before wait. What the act under it does is never altered.
 */
#include "engine/engine.h"

#include "base/error.h"

struct fault {
    struct emq__engine e;
    struct emq__engine *under;
    emq__fault_fn fn;
    void *user;
};

static bool is_asked(const char *act, int mutating)
{
    return mutating || strcmp(act, "wait") == 0;
}

/* What the plan means before the act; EMQ_OK = let it run. */
static emq_status before(enum emq__fault plan, const char *act, emq_error *err)
{
    switch (plan) {
    case EMQ__FAULT_NONE:
    case EMQ__FAULT_LOSE_REPLY: return EMQ_OK;
    case EMQ__FAULT_UNAVAIL:
        return emq__fail(err, EMQ_E_UNAVAIL, 0, act, "fault injected: the request was not sent");
    case EMQ__FAULT_LOSE_REQUEST:
        return emq__fail(err, EMQ_E_IN_DOUBT, 0, act, "fault injected: no answer came");
    }
    return EMQ_OK;
}

#define FAULT_ACT(act, mutating)                                                                  \
    static emq_status fault_##act(struct emq__engine *e, const struct emq__##act##_req *req,      \
                                  struct emq__##act##_res *res, struct emq__arena *mem,           \
                                  emq_error *err)                                                 \
    {                                                                                             \
        const struct fault *f = (const struct fault *)e;                                          \
        enum emq__fault plan = is_asked(#act, mutating) ? f->fn(f->user, #act) : EMQ__FAULT_NONE; \
        emq_status s = before(plan, #act, err);                                                   \
        if (s != EMQ_OK)                                                                          \
            return s;                                                                             \
        s = f->under->ops->act(f->under, req, res, mem, err);                                     \
        if (plan == EMQ__FAULT_LOSE_REPLY)                                                        \
            return emq__fail(err, EMQ_E_IN_DOUBT, 0, #act, "fault injected: no answer came");     \
        return s;                                                                                 \
    }
EMQ__ACTS(FAULT_ACT)
#undef FAULT_ACT

static uint64_t fault_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    struct emq__engine *under = ((struct fault *)e)->under;
    return under->ops->ticket(under, prefix, queues, n);
}

static void fault_interrupt(struct emq__engine *e)
{
    struct emq__engine *under = ((struct fault *)e)->under;
    under->ops->interrupt(under);
}

static emq_status fault_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct emq__engine *under = ((struct fault *)e)->under;
    return under->ops->advance(under, ms, err);
}

static void fault_close(struct emq__engine *e)
{
    struct emq__engine *under = ((struct fault *)e)->under;
    under->ops->close(under);
    free(e);
}

static const struct emq__engine_ops fault_ops = {
    .name = "fault",
#define FAULT_OP(act, mutating) .act = fault_##act,
    EMQ__ACTS(FAULT_OP)
#undef FAULT_OP
        .ticket = fault_ticket,
    .interrupt = fault_interrupt,
    .advance = fault_advance,
    .close = fault_close,
};

emq_status emq__fault_wrap(struct emq__engine **e, emq__fault_fn fn, void *user, emq_error *err)
{
    struct fault *f = calloc(1, sizeof *f);
    if (!f)
        return emq__fail(err, EMQ_E_NOMEM, 0, "fault", "%zu bytes", sizeof *f);
    f->e.ops = &fault_ops;
    f->under = *e;
    f->fn = fn;
    f->user = user;
    *e = &f->e;
    return EMQ_OK;
}
