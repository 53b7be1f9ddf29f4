/* SPDX-License-Identifier: MIT
 *
 * What the end of a run means for the job. One function from (delivery mode, why it was stopped, what
 * the handler said) to one settle entry; no store, no lists.
 *
 * The invariants: what is our own doing (shutdown, a lost lock, a failed start) is never charged to the
 * job; an at-most-once job never goes back; a handler that says DONE or FAIL is believed, because only
 * it knows whether its effect has happened.
 */
#include "worker/runtime.h"

#include "model/duration.h"
#include "model/policy.h"

enum { GIVE_BACK_MIN_MS = 1000 }; /* when neither handler nor backoff gives a delay: no hot loop */

struct decision {
    enum emq__ending ending;
    emq_str reason;
};

static emq_str outcome_reason(const struct emq__slot *s, const char *otherwise)
{
    return s->out.reason.s.len > 0 ? s->out.reason.s : emq_cstr(otherwise);
}

static emq_str timeout_reason(const struct emq__slot *s, struct emq__arena *mem)
{
    char span[40];

    return emq__arena_printf(mem, "timed out after %s", emq__duration_format(s->timeout_ms, span));
}

/* The handler did not finish by itself, or asked for another try, after it was told to stop. */
static struct decision stopped_decide(struct emq__slot *s, int cancel, struct emq__arena *mem)
{
    if (cancel == EMQ_CANCEL_TIMEOUT)
        return (struct decision){EMQ__END_RETRY, timeout_reason(s, mem)};
    if (cancel == EMQ_CANCEL_LOCK_LOST)
        return (struct decision){EMQ__END_RELEASE, EMQ_STR_LIT("the lock ended")};
    return (struct decision){EMQ__END_RELEASE, EMQ_STR_LIT("the worker stopped")};
}

static struct decision decide(struct emq__slot *s, struct emq__arena *mem)
{
    int cancel = atomic_load(&s->cancel);
    enum emq__ending ending = s->out.ending;

    if (ending == EMQ__END_DONE)
        return (struct decision){ending, {0}};
    if (s->converted) /* by the pump, which has let the handler end */
        return (struct decision){ending, s->out.reason.s};
    if (cancel == EMQ_CANCEL_USER)
        return (struct decision){EMQ__END_FAIL, EMQ_STR_LIT(EMQ__TEXT_CANCELLED)};
    switch (ending) {
    case EMQ__END_DONE: break;
    case EMQ__END_FAIL:
        return (struct decision){ending, outcome_reason(s, "the handler failed it for good")};
    case EMQ__END_STALLED:
        return (struct decision){ending, outcome_reason(s, "the handler's process died")};
    case EMQ__END_RELEASE:
        return (struct decision){ending, outcome_reason(s, "the worker gave it back")};
    case EMQ__END_STOPPED: return stopped_decide(s, cancel, mem);
    case EMQ__END_RETRY:
        if (cancel != EMQ_GO_ON)
            return stopped_decide(s, cancel, mem);
        return (struct decision){ending, outcome_reason(s, "the handler failed without a reason")};
    case EMQ__END_GIVE_BACK:
        if (cancel != EMQ_GO_ON)
            return stopped_decide(s, cancel, mem);
        return (struct decision){ending, outcome_reason(s, "the handler gave it back")};
    }
    return (struct decision){EMQ__END_RELEASE, EMQ_STR_LIT("the worker gave it back")};
}

/* How often this worker has given the job back; the store keeps no such count. */
static bool gave_back_too_often(const emq_worker *w, const struct emq__slot *s)
{
    if (w->pump.given_back.len == 0)
        return false;
    uintptr_t n = (uintptr_t)emq__map_get(&w->pump.given_back, emq_job_idempotency_key(s->job));
    return n + 1 >= EMQ__GIVE_BACK_MAX;
}

static int64_t give_back_delay(const struct emq__slot *s, double r)
{
    if (s->out.retry_after_ms >= 0)
        return s->out.retry_after_ms;
    int64_t delay =
        emq__backoff_ms(&emq__job_opts(s->job)->backoff, s->job->rec.attempts_made + 1, r);
    return delay > 0 ? delay : GIVE_BACK_MIN_MS;
}

static struct decision mode_decide(emq_worker *w, struct emq__slot *s, struct decision d,
                                   struct emq__arena *mem)
{
    if (d.ending == EMQ__END_GIVE_BACK && gave_back_too_often(w, s)) {
        d.ending = EMQ__END_FAIL;
        d.reason = emq__arena_printf(mem, "given back %d times: %.*s", EMQ__GIVE_BACK_MAX,
                                     EMQ_STR_ARG(d.reason));
    }
    if (w->cfg.mode == EMQ_AT_MOST_ONCE && d.ending != EMQ__END_DONE && d.ending != EMQ__END_FAIL) {
        d.ending = EMQ__END_FAIL;
        d.reason = emq__arena_printf(mem, "at-most-once: not run%s: %.*s", s->begun ? " again" : "",
                                     EMQ_STR_ARG(d.reason));
    }
    return d;
}

void emq__verdict_entry(emq_worker *w, struct emq__slot *s, struct emq__arena *mem,
                        struct emq__settle_entry *out)
{
    const struct emq__job *j = &s->job->rec;
    struct decision d = mode_decide(w, s, decide(s, mem), mem);
    double r = emq__random_unit();
    emq_settle_opts how = {
        .size = sizeof how, .kind = EMQ_SETTLE_RELEASE, .value = d.reason, .stack = s->out.stack.s};

    switch (d.ending) {
    case EMQ__END_DONE:
        how.kind = EMQ_SETTLE_COMPLETED;
        how.value = s->out.result.s;
        break;
    case EMQ__END_RETRY:
        how.kind = EMQ_SETTLE_RETRY;
        how.delay_ms = -1;
        break;
    case EMQ__END_FAIL:
    case EMQ__END_STALLED: how.kind = EMQ_SETTLE_FAILED; break;
    case EMQ__END_GIVE_BACK: how.delay_ms = give_back_delay(s, r); break;
    case EMQ__END_RELEASE:
    case EMQ__END_STOPPED:
        if (s->out.ending == EMQ__END_RELEASE)
            how.delay_ms = s->out.retry_after_ms;
        break;
    }
    emq__settle_entry_make(j, emq__job_opts(s->job), j->token, &how, r, mem, out);
    if (out->kind == EMQ__SETTLE_RETRY && s->out.retry_after_ms >= 0)
        out->delay_ms = s->out.retry_after_ms;
    if (d.ending == EMQ__END_STALLED) {
        /* Made as a failure for its retention; the store decides whether it is one. */
        out->kind = EMQ__SETTLE_STALLED;
        out->max_stalled = w->cfg.max_stalled;
    }
}
