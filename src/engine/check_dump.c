/* SPDX-License-Identifier: MIT
 *
 * What must be true of a whole queue between any two acts: the invariants of docs/protocol.md
 * section 10.2 that a dump can show, and the sum rule added = present + removed. Pure.
 */
#include "engine/engine.h"

#include "base/map.h"
#include "base/str.h"

#include <stdarg.h>

struct check {
    emq__broken_fn fn;
    void *user;
    int broken;
};

__attribute__((format(printf, 3, 4))) static void say(struct check *c, const struct emq__job *j,
                                                      const char *fmt, ...)
{
    char text[200], line[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (j)
        (void)snprintf(line, sizeof line, "job %.*s (%s): %s", EMQ_STR_ARG(j->id),
                       emq_state_name(j->state), text);
    else
        (void)snprintf(line, sizeof line, "queue: %s", text);
    c->broken++;
    c->fn(c->user, line);
}

static bool is_finished(const struct emq__job *j)
{
    return j->state == EMQ_COMPLETED_STATE || j->state == EMQ_FAILED_STATE;
}

/* Does the token end in ":<fence>"? */
static bool token_has_fence(const struct emq__job *j)
{
    char tail[32];
    int n = snprintf(tail, sizeof tail, ":%lld", (long long)j->fence);

    return n > 0 && j->token.len > (size_t)n &&
           memcmp(j->token.ptr + j->token.len - (size_t)n, tail, (size_t)n) == 0;
}

static void check_active(struct check *c, const struct emq__job *j, int64_t last_fence)
{
    if (j->fence <= 0 || j->fence > last_fence)
        say(c, j, "fence %lld, last of the queue %lld", (long long)j->fence, (long long)last_fence);
    if (!token_has_fence(j))
        say(c, j, "token \"%.*s\" does not end in fence %lld", EMQ_STR_ARG(j->token),
            (long long)j->fence);
    if (j->attempts_started < 1 || j->processed_at_ms <= 0)
        say(c, j, "ats %d, processed at %lld", (int)j->attempts_started,
            (long long)j->processed_at_ms);
    if (j->mode == EMQ_AT_MOST_ONCE && !emq__str_is(j->deferred_failure, EMQ__TEXT_AT_MOST_ONCE))
        say(c, j, "held at-most-once without its deferred failure");
    if (j->mode == EMQ_FIRE_AND_FORGET)
        say(c, j, "fire-and-forget leaves no record");
}

static void check_job(struct check *c, const struct emq__job *j, int64_t last_fence)
{
    bool active = j->state == EMQ_ACTIVE;

    if (j->state < 1 || j->state > EMQ_STATE_COUNT)
        say(c, j, "state %d", (int)j->state);
    if (!j->id.len || !j->name.len || !j->opts.len || j->timestamp_at_ms <= 0)
        say(c, j, "id, name, opts or timestamp is missing");
    if (active)
        check_active(c, j, last_fence);
    else if (j->lock_left_ms || j->mode || j->cancel)
        say(c, j, "lock %lld ms, mode %d, cancel %d outside active", (long long)j->lock_left_ms,
            (int)j->mode, (int)j->cancel);
    if ((j->due_at_ms > 0) != (j->state == EMQ_DELAYED))
        say(c, j, "due at %lld", (long long)j->due_at_ms);
    if ((j->state == EMQ_WAITING && j->priority != 0) ||
        (j->state == EMQ_PRIORITIZED && j->priority < 1))
        say(c, j, "priority %d in this line", (int)j->priority);
    if ((j->finished_at_ms > 0) != is_finished(j))
        say(c, j, "finished at %lld", (long long)j->finished_at_ms);
    if (is_finished(j) && j->deferred_failure.len)
        say(c, j, "finished with a deferred failure");
    if (j->attempts_made > j->attempts_started || j->attempts_made < 0 || j->stalled < 0)
        say(c, j, "atm %d, ats %d, stc %d", (int)j->attempts_made, (int)j->attempts_started,
            (int)j->stalled);
}

/* b stands right behind a: may it? */
static void check_order(struct check *c, const struct emq__job *a, const struct emq__job *b)
{
    bool ok = a->state < b->state;

    if (a->state == b->state) {
        ok = true;
        if (a->state == EMQ_PRIORITIZED)
            ok = a->priority <= b->priority;
        else if (a->state == EMQ_DELAYED)
            ok = a->due_at_ms <= b->due_at_ms;
        else if (a->state == EMQ_ACTIVE)
            ok = a->fence < b->fence;
        else if (is_finished(a))
            ok = a->finished_at_ms <= b->finished_at_ms;
    }
    if (!ok)
        say(c, b, "stands behind job %.*s (%s)", EMQ_STR_ARG(a->id), emq_state_name(a->state));
}

static void check_totals(struct check *c, const struct emq__dump_res *d)
{
    const struct emq__totals *t = &d->stats.totals;

    if (t->added - t->removed != (int64_t)d->n)
        say(c, NULL, "added %lld - removed %lld, but %zu present", (long long)t->added,
            (long long)t->removed, d->n);
    if (t->added < 0 || t->removed < 0 || t->started < 0 || t->completed < 0 || t->failed < 0 ||
        t->retried < 0 || t->recovered < 0 || t->deduplicated < 0)
        say(c, NULL, "a total is negative");
    if (d->stats.count[EMQ_ACTIVE] > t->started)
        say(c, NULL, "%lld active, %lld ever started", (long long)d->stats.count[EMQ_ACTIVE],
            (long long)t->started);
}

static void check_stats(struct check *c, const struct emq__dump_res *d)
{
    const struct emq__stats_res *s = &d->stats;
    int64_t count[EMQ_STATE_COUNT + 1] = {0}, due = 0, retry_delayed = 0, oldest = 0;

    for (size_t i = 0; i < d->n; i++) {
        const struct emq__job *j = d->jobs[i];
        if (j->state < 1 || j->state > EMQ_STATE_COUNT)
            continue;
        if (j->state == EMQ_WAITING && count[EMQ_WAITING] == 0)
            oldest = j->timestamp_at_ms;
        if (j->state == EMQ_PRIORITIZED && !oldest)
            oldest = j->timestamp_at_ms;
        if (j->state == EMQ_DELAYED && count[EMQ_DELAYED] == 0)
            due = j->due_at_ms;
        retry_delayed += j->state == EMQ_DELAYED && j->fence > 0;
        count[j->state]++;
    }
    for (int i = 1; i <= EMQ_STATE_COUNT; i++)
        if (count[i] != s->count[i])
            say(c, NULL, "%lld counted as %s, %lld there", (long long)s->count[i],
                emq_state_name(i), (long long)count[i]);
    if (s->next_due_at_ms != due)
        say(c, NULL, "next due %lld, first delayed %lld", (long long)s->next_due_at_ms,
            (long long)due);
    if (s->oldest_waiting_at_ms != oldest)
        say(c, NULL, "oldest waiting %lld, first in line %lld", (long long)s->oldest_waiting_at_ms,
            (long long)oldest);
    if (s->retry_delayed != retry_delayed)
        say(c, NULL, "retry_delayed %lld, %lld there", (long long)s->retry_delayed,
            (long long)retry_delayed);
    if (s->maxed != (s->concurrency > 0 && count[EMQ_ACTIVE] >= s->concurrency))
        say(c, NULL, "maxed %d with %lld active of %lld", (int)s->maxed,
            (long long)count[EMQ_ACTIVE], (long long)s->concurrency);
    if (d->n > 0 && !s->exists)
        say(c, NULL, "jobs in a queue that does not exist");
}

static void check_dedup(struct check *c, const struct emq__dump_res *d, const struct emq__map *ids)
{
    for (size_t i = 0; i < d->n_dedup; i++) {
        const struct emq__dump_dedup *k = &d->dedup[i];
        const struct emq__job *owner = emq__map_get(ids, k->owner);
        bool living = owner && !is_finished(owner);
        if (k->ttl_ms == 0 && !living)
            say(c, owner, "dedup id \"%.*s\" without a window is held by %.*s, which is not living",
                EMQ_STR_ARG(k->id), EMQ_STR_ARG(k->owner));
        if (k->has_next && !living)
            say(c, owner, "dedup id \"%.*s\" keeps a next job, but its owner is not living",
                EMQ_STR_ARG(k->id));
    }
}

int emq__check_dump(const struct emq__dump_res *d, emq__broken_fn fn, void *user)
{
    struct check c = {fn, user, 0};
    struct emq__map ids = {0};

    for (size_t i = 0; i < d->n; i++) {
        struct emq__job *j = d->jobs[i];
        check_job(&c, j, d->last_fence);
        if (i > 0)
            check_order(&c, d->jobs[i - 1], j);
        if (emq__map_get(&ids, j->id))
            say(&c, j, "is in two places");
        if (!emq__map_put(&ids, j->id, j))
            say(&c, NULL, "out of memory while checking");
    }
    check_stats(&c, d);
    check_totals(&c, d);
    check_dedup(&c, d, &ids);
    if (d->stray != 0)
        say(&c, NULL, "%lld rows or keys belong to no job", (long long)d->stray);
    emq__map_free(&ids);
    return c.broken;
}
