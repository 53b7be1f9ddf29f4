/* SPDX-License-Identifier: MIT
 *
 * Decorator: one log line a call, with the act, its status and how long it took. Changes nothing.
 */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/error.h"

struct trace {
    struct emq__engine e;
    struct emq__engine *under;
    struct emq__log log;
};

static void line(const struct trace *t, const char *act, emq_status s, struct emq__mono start)
{
    emq__log_write(&t->log, EMQ_LOG_DEBUG, "engine %s %s %s %lld us", t->under->ops->name, act,
                   emq_status_name(s), (long long)(emq__mono_now().us - start.us));
}

#define TRACE_ACT(act, mutating)                                                             \
    static emq_status trace_##act(struct emq__engine *e, const struct emq__##act##_req *req, \
                                  struct emq__##act##_res *res, struct emq__arena *mem,      \
                                  emq_error *err)                                            \
    {                                                                                        \
        const struct trace *t = (const struct trace *)e;                                     \
        struct emq__mono start = emq__mono_now();                                            \
        emq_status s = t->under->ops->act(t->under, req, res, mem, err);                     \
        line(t, #act, s, start);                                                             \
        return s;                                                                            \
    }
EMQ__ACTS(TRACE_ACT)
#undef TRACE_ACT

static uint64_t trace_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    struct emq__engine *under = ((struct trace *)e)->under;
    return under->ops->ticket(under, prefix, queues, n);
}

static void trace_interrupt(struct emq__engine *e)
{
    struct emq__engine *under = ((struct trace *)e)->under;
    under->ops->interrupt(under);
}

static emq_status trace_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct emq__engine *under = ((struct trace *)e)->under;
    return under->ops->advance(under, ms, err);
}

static void trace_close(struct emq__engine *e)
{
    struct emq__engine *under = ((struct trace *)e)->under;
    under->ops->close(under);
    free(e);
}

static const struct emq__engine_ops trace_ops = {
    .name = "trace",
#define TRACE_OP(act, mutating) .act = trace_##act,
    EMQ__ACTS(TRACE_OP)
#undef TRACE_OP
        .ticket = trace_ticket,
    .interrupt = trace_interrupt,
    .advance = trace_advance,
    .close = trace_close,
};

emq_status emq__trace_wrap(struct emq__engine **e, const struct emq__log *log, emq_error *err)
{
    struct trace *t = calloc(1, sizeof *t);
    if (!t)
        return emq__fail(err, EMQ_E_NOMEM, 0, "trace", "%zu bytes", sizeof *t);
    t->e.ops = &trace_ops;
    t->under = *e;
    t->log = *log;
    *e = &t->e;
    return EMQ_OK;
}
