/* SPDX-License-Identifier: MIT
 *
 * Which queue next. Strict order: the first queue that may have work gets every free place. Weighted:
 * each job handed out moves its queue's pass forward by 1/weight, and the smallest pass goes next, so
 * shares hold over any window in which the queues have work; an idle queue saves nothing up.
 *
 * The invariant: a queue that may have work is looked at within EMQ__POLL_MS, whatever the bells say.
 */
#include "worker/runtime.h"

enum { PASS_ONE = 1 << 20, MAXED_POLL_MS = 200 };

void emq__queues_init(emq_worker *w, int64_t now_us)
{
    for (size_t i = 0; i < w->n_queues; i++) {
        struct emq__wqueue *q = &w->queues[i];
        q->hungry = true;
        q->look_at_us = now_us;
        q->cap = EMQ__BATCH_MAX;
    }
}

static bool is_worth(emq_worker *w, const struct emq__wqueue *q, int64_t now_us)
{
    if (now_us < q->hold_until_us)
        return false;
    return q->hungry || now_us >= q->look_at_us ||
           w->e->ops->ticket(w->e, w->c->prefix, &q->name, 1) != q->ticket;
}

/* A queue that had no backlog starts where the others are. */
static uint64_t pass_of(const emq_worker *w, const struct emq__wqueue *q, bool hungry)
{
    return hungry || q->pass > w->pump.pass_now ? q->pass : w->pump.pass_now;
}

static void want_weighted(emq_worker *w, int32_t free_places, const bool *worth, int32_t *want)
{
    uint64_t pass[EMQ__QUEUES_MAX];

    for (size_t i = 0; i < w->n_queues; i++)
        pass[i] = pass_of(w, &w->queues[i], w->queues[i].hungry);
    for (; free_places > 0; free_places--) {
        size_t best = w->n_queues;
        for (size_t i = 0; i < w->n_queues; i++) {
            if (worth[i] && (best == w->n_queues || pass[i] < pass[best]))
                best = i;
        }
        if (best == w->n_queues)
            return;
        want[best]++;
        pass[best] += PASS_ONE / (uint64_t)w->queues[best].weight;
    }
}

void emq__queues_want(emq_worker *w, int32_t free_places, int64_t now_us, int32_t *want)
{
    bool worth[EMQ__QUEUES_MAX];

    for (size_t i = 0; i < w->n_queues; i++) {
        worth[i] = free_places > 0 && is_worth(w, &w->queues[i], now_us);
        want[i] = worth[i] && !w->cfg.weighted ? free_places : 0;
    }
    if (w->cfg.weighted)
        want_weighted(w, free_places, worth, want);
}

void emq__queue_took(emq_worker *w, struct emq__wqueue *q, int32_t want, uint64_t ticket,
                     const struct emq__taken *t, int64_t store_now_ms, int64_t now_us)
{
    bool was_hungry = q->hungry;

    q->ticket = ticket;
    q->hungry = (int64_t)t->n + t->deferred >= want && !t->paused && t->limited_ms == 0;
    q->look_at_us = now_us + (t->maxed ? MAXED_POLL_MS : EMQ__POLL_MS) * INT64_C(1000);
    if (t->next_due_at_ms > 0) {
        int64_t due_ms = t->next_due_at_ms - store_now_ms;
        if (due_ms < 1)
            due_ms = 1; /* what is due already was more than one act promotes */
        if (due_ms < EMQ__POLL_MS && now_us + due_ms * 1000 < q->look_at_us)
            q->look_at_us = now_us + due_ms * 1000;
    }
    if (t->limited_ms > 0)
        q->hold_until_us = now_us + t->limited_ms * 1000;
    if (w->cfg.weighted && t->n > 0) {
        q->pass = pass_of(w, q, was_hungry);
        w->pump.pass_now = q->pass;
        q->pass += PASS_ONE / (uint64_t)q->weight * t->n;
    }
}

int64_t emq__queues_next_us(const emq_worker *w)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < w->n_queues; i++) {
        const struct emq__wqueue *q = &w->queues[i];
        int64_t at = q->hungry ? 0 : q->look_at_us;
        if (at < q->hold_until_us)
            at = q->hold_until_us;
        if (at < next)
            next = at;
    }
    return next;
}
