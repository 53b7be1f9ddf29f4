/* SPDX-License-Identifier: MIT
 *
 * Jobs that the store says are ours and that nobody here has.
 *
 * The invariant: only hand-outs of a doubt of our own are touched. A worker that is started under the
 * name of a dead one can't tell it from a living twin, so it leaves those jobs to their locks: the
 * death of a worker is charged, and a living one goes on renewing.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"

static emq_status claims(emq_worker *w, struct emq__claims_res *res, struct emq__arena *mem,
                         emq_error *err)
{
    struct emq__claims_req req = {w->c->prefix, w->cfg.name};

    return w->e->ops->claims(w->e, &req, res, mem, err);
}

void emq__adopt_at_start(emq_worker *w)
{
    struct emq__arena mem = {0};
    struct emq__claims_res res;
    emq_error err = {0};

    if (!emq__is_failure(claims(w, &res, &mem, &err)) && res.n > 0)
        emq__log_write(&w->c->log, EMQ_LOG_WARN,
                       "worker %.*s: jobs held under this name: %zu, by a worker that died or by "
                       "another of the same name; they come back when their locks end",
                       EMQ_STR_ARG(w->cfg.name), res.n);
    emq__arena_free(&mem);
}

/* The pump's lists and `mu`'s are all that can know a token; the renewal list has every held job that
 * is not lost. */
static bool known_here(emq_worker *w, emq_str token)
{
    bool known = false;

    pthread_mutex_lock(&w->mu);
    for (const struct emq__slot *s = w->renew_first; s && !known; s = s->later)
        known = emq__str_eq(s->job->rec.token, token);
    pthread_mutex_unlock(&w->mu);
    for (const struct emq__slot *s = w->pump.pending; s && !known; s = s->next)
        known = emq__str_eq(s->job->rec.token, token);
    for (const struct emq__slot *s = w->pump.round.slots; s && !known; s = s->next)
        known = emq__str_eq(s->job->rec.token, token);
    return known;
}

emq_status emq__untake(emq_worker *w, const struct emq__job *j, const char *why, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__settle_entry e = {.id = j->id,
                                  .auth = {.token = j->token},
                                  .kind = EMQ__SETTLE_RELEASE,
                                  .reason = emq_cstr(why)};
    const struct emq__settle_entry *one = &e;
    struct emq__settle_req req = {.prefix = j->prefix, .queue = j->queue, .entries = &one, .n = 1};
    struct emq__settle_res res;
    emq_status s = emq__do_settle(w->c, &req, &res, &mem, err);

    emq__arena_free(&mem);
    return s;
}

static bool serves(const emq_worker *w, emq_str queue)
{
    for (size_t i = 0; i < w->n_queues; i++) {
        if (emq__str_eq(w->names[i], queue))
            return true;
    }
    return false;
}

void emq__adopt_after_doubt(emq_worker *w, int64_t since_at_ms)
{
    struct emq__arena mem = {0};
    struct emq__claims_res res;
    emq_error err = {0};
    emq_status s = claims(w, &res, &mem, &err);

    for (size_t i = 0; !emq__is_failure(s) && i < res.n; i++) {
        const struct emq__job *j = res.jobs[i];
        if (j->processed_at_ms < since_at_ms || !serves(w, j->queue) || known_here(w, j->token))
            continue;
        emq__log_write(
            &w->c->log, EMQ_LOG_INFO,
            "worker %.*s: queue %.*s, job %.*s: handed out without an answer, given back",
            EMQ_STR_ARG(w->cfg.name), EMQ_STR_ARG(j->queue), EMQ_STR_ARG(j->id));
        s = emq__untake(w, j, "it was handed out without an answer", &err);
    }
    if (emq__is_failure(s))
        emq__event_error(w, (emq_str){0}, "looking for jobs handed out without an answer", &err);
    emq__arena_free(&mem);
}
