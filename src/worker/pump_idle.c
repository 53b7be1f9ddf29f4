/* SPDX-License-Identifier: MIT
 *
 * The pump when there is nothing to do: waiting for the first of an outcome, work in the store, a time,
 * or a stop; and the two questions that are only asked then.
 *
 * The invariant: a poke before, during or after the decision to wait ends the wait.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"

enum { WAITS_NOT = 0, WAITS_IN_STORE = 1, WAITS_HERE = 2 };
enum { EMPTY_POLL_MS = 100, PLAIN_POLL_MS = 1000 };

void emq__pump_poke(emq_worker *w)
{
    if (atomic_exchange(&w->poke, 1))
        return; /* the pump has not looked since the last poke, so it does not wait */
    int waits = atomic_load(&w->pump_waits);
    if (waits == WAITS_IN_STORE)
        w->e->ops->interrupt(w->e);
    else if (waits == WAITS_HERE)
        emq__wake_ring(&w->pump_wake);
}

static void wait_here(emq_worker *w, int64_t ms)
{
    atomic_store(&w->pump_waits, WAITS_HERE);
    int seen = emq__wake_read(&w->pump_wake);
    if (!atomic_load(&w->poke))
        emq__wake_wait(&w->pump_wake, seen, ms);
    atomic_store(&w->pump_waits, WAITS_NOT);
}

static void wait_in_store(emq_worker *w, uint64_t ticket, int64_t ms)
{
    struct emq__arena mem = {0};
    struct emq__wait_req req = {.prefix = w->c->prefix,
                                .queues = w->names,
                                .n = w->n_queues,
                                .ticket = ticket,
                                .timeout_ms = ms,
                                .cancelled = &w->poke};
    struct emq__wait_res res;
    emq_error err = {0};

    atomic_store(&w->pump_waits, WAITS_IN_STORE);
    emq_status s = w->e->ops->wait(w->e, &req, &res, &mem, &err);
    atomic_store(&w->pump_waits, WAITS_NOT);
    emq__arena_free(&mem);
    if (emq__is_failure(s)) {
        emq__pump_trouble(w, (emq_str){0}, "waiting for work", &err);
        wait_here(w, emq__backoff_jitter_ms(w->pump.failures++));
    }
}

static void sooner(int64_t *until, int64_t at_us)
{
    if (at_us < *until)
        *until = at_us;
}

void emq__pump_wait(emq_worker *w, uint64_t ticket)
{
    struct emq__pump *p = &w->pump;
    int64_t now = emq__mono_now().us;
    int64_t until = now + EMQ__POLL_MS * INT64_C(1000);
    bool look = emq__pump_may_take(w, now) && emq__pump_places(w) > 0;

    if (p->retry_at_us > now) {
        /* Nothing goes out before then. */
        sooner(&until, p->retry_at_us);
        look = false;
    } else {
        for (const struct emq__slot *s = p->pending; s; s = s->next)
            sooner(&until, s->not_before_us);
    }
    if (look)
        sooner(&until, emq__queues_next_us(w));
    if (w->cfg.exit_when_empty && p->empty_at_us > now)
        sooner(&until, p->empty_at_us);
    if (emq__stopping(w)) {
        int64_t cancel_at = atomic_load(&w->cancel_at_us);
        if (cancel_at != INT64_MAX && cancel_at + EMQ__LAST_TRIES_MS * INT64_C(1000) > now)
            sooner(&until, cancel_at + EMQ__LAST_TRIES_MS * INT64_C(1000));
    }
    int64_t ms = until <= now ? 0 : (until - now + 999) / 1000;
    if (look)
        wait_in_store(w, ticket, ms);
    else
        wait_here(w, ms > 0 ? ms : 1);
}

/* ---- exit_when_empty --------------------------------------------------------------------- */

/* Adds up what is left of all queues and what was ever added. What a paused queue holds, and jobs in line
 * that takes of this worker pass over, are not left for it. false: can't tell. */
static bool add_up(emq_worker *w, int64_t *left, int64_t *added)
{
    *left = *added = 0;
    for (size_t i = 0; i < w->n_queues; i++) {
        struct emq__arena mem = {0};
        struct emq__stats_req req = {
            .prefix = w->c->prefix, .queue = w->names[i], .ending = true, .mode = w->cfg.mode};
        struct emq__stats_res res;
        emq_error err = {0};
        emq_status s = w->e->ops->stats(w->e, &req, &res, &mem, &err);
        emq__arena_free(&mem);
        if (emq__is_failure(s)) {
            emq__pump_trouble(w, w->names[i], "looking whether work is left", &err);
            return false;
        }
        *added += res.totals.added;
        if (!res.paused)
            *left += res.takeable + res.count[EMQ_ACTIVE] + res.retry_delayed;
    }
    return true;
}

bool emq__pump_is_empty(emq_worker *w, int64_t now_us)
{
    int64_t left, added, added_again;

    if (now_us < w->pump.empty_at_us || atomic_load(&w->paused))
        return false;
    w->pump.empty_at_us = now_us + EMPTY_POLL_MS * INT64_C(1000);
    if (!add_up(w, &left, &added) || left > 0)
        return false;
    /* Several queues are several looks: a job may have gone from one not yet seen to one seen already.
     * It is added there, so a second look with the same sum was no such case. */
    return w->n_queues == 1 ||
           (add_up(w, &left, &added_again) && left == 0 && added == added_again);
}

/* ---- prefetch ---------------------------------------------------------------------------- */

/* A queue with a limit, a rate, priorities or a pause wants every job decided at the last moment. */
void emq__pump_plain(emq_worker *w, struct emq__wqueue *q, int64_t now_us)
{
    if (now_us < q->plain_at_us)
        return;
    q->plain_at_us = now_us + PLAIN_POLL_MS * INT64_C(1000);
    q->plain = false;
    struct emq__arena mem = {0};
    struct emq__stats_req req = {.prefix = w->c->prefix, .queue = q->name};
    struct emq__stats_res res;
    struct emq__meta_req meta_req = {.prefix = w->c->prefix, .queue = q->name};
    struct emq__meta_res meta;
    emq_error err = {0};
    if (emq__is_failure(w->e->ops->stats(w->e, &req, &res, &mem, &err)) ||
        emq__is_failure(w->e->ops->meta(w->e, &meta_req, &meta, &mem, &err))) {
        emq__arena_free(&mem);
        return; /* no prefetch until the store says that it is allowed */
    }
    bool plain = !res.paused && !res.maxed && res.limited_ms == 0 && res.concurrency == 0 &&
                 res.count[EMQ_PRIORITIZED] == 0 && !q->grouped;
    for (size_t i = 0; i < meta.n; i++) {
        if (emq__str_is(meta.fields[i].field, "max") ||
            emq__str_is(meta.fields[i].field, "concurrency"))
            plain = false;
    }
    q->plain = plain;
    emq__arena_free(&mem);
}
