/* SPDX-License-Identifier: MIT
 *
 * Outcomes that the store refuses, each alone in its act. One that is to blame itself is stored as a failure
 * instead. Any other is kept until the store takes it, in a place of the worker: that is told once a cause and
 * queue, again when no place is left, and when it is over.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>

bool emq__outcome_blamed(const emq_error *err)
{
    return err->status == EMQ_E_INVALID && err->native != EEXIST;
}

static void tell_kept(emq_worker *w, struct emq__wqueue *q, bool known, const emq_error *err)
{
    struct emq__pump *p = &w->pump;
    bool full = p->n_refused >= emq__pump_capacity(w);

    if (known && (!full || p->full))
        return;
    p->full = full;
    emq__event_error(w, q->name,
                     full ? "storing an outcome, which is kept and tried again (no place is left: "
                            "this worker takes no job of any queue until then)"
                          : "storing an outcome, which is kept and tried again",
                     err);
}

/* It will never be accepted as it is; the job must not run again for that. */
static void convert(struct emq__slot *s, const emq_error *err)
{
    char text[sizeof err->text + 64];
    int n = snprintf(text, sizeof text, "its outcome could not be stored: %s", err->text);
    char *reason = n > 0 ? malloc((size_t)n + 1) : NULL;

    if (!reason)
        return; /* at the next try */
    s->converted = true;
    memcpy(reason, text, (size_t)n + 1);
    emq__text_own(&s->out.reason, reason, (size_t)n);
    emq__text_own(&s->out.stack, NULL, 0);
    s->out.ending = EMQ__END_FAIL;
}

void emq__outcome_refused(emq_worker *w, struct emq__slot *s, const emq_error *err)
{
    struct emq__wqueue *q = s->q;
    uint64_t cause = emq__hash(emq_cstr(err->text)) | 1;
    bool known = s->refused_for == cause;

    s->not_before_us = emq__mono_now().us + emq__backoff_jitter_ms(s->tries) * 1000;
    if (!s->refused_for) {
        q->n_refused++;
        w->pump.n_refused++;
    }
    s->refused_for = cause;
    if (emq__outcome_blamed(err) && !s->converted) {
        if (!known)
            emq__event_error(w, q->name, "storing an outcome", err);
        convert(s, err);
        return;
    }
    tell_kept(w, q, known || q->kept_for == cause, err);
    q->kept_for = cause;
}

void emq__outcome_taken(emq_worker *w, const struct emq__slot *s)
{
    struct emq__wqueue *q = s->q;

    w->pump.n_refused--;
    w->pump.full = w->pump.full && w->pump.n_refused >= emq__pump_capacity(w);
    if (--q->n_refused > 0 || !q->kept_for)
        return;
    q->kept_for = 0;
    emq__log_write(&w->c->log, EMQ_LOG_WARN, "worker %.*s: %.*s: outcomes are stored again",
                   EMQ_STR_ARG(w->cfg.name), EMQ_STR_ARG(q->name));
}
