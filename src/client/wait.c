/* SPDX-License-Identifier: MIT
 *
 * Waiting that emq_interrupt() can end from any thread and from a signal handler: it only walks a
 * list that never shrinks while the client lives, and sets flags. An interrupt that meets no wait
 * is kept for the next one, so that "set a flag, interrupt" has no gap.
 */
#include "client/client.h"

#include "base/error.h"

#include <unistd.h>

enum { FREE = 0, WAITING = 1, INTERRUPTED = 2 };
enum { STEP_MAX_MS = 1000, LOOK_FIRST_MS = 20 };

void emq_interrupt(emq_client *c)
{
    bool met = false;

    if (!c || c->pid != getpid())
        return;
    /* Pending first: a call that begins to wait meanwhile sees either this or its own place hit. */
    atomic_store(&c->interrupt_pending, 1);
    for (struct emq__waiter *w = atomic_load(&c->waiters); w; w = w->next) {
        int waiting = WAITING;
        if (atomic_compare_exchange_strong(&w->state, &waiting, INTERRUPTED)) {
            atomic_store(&w->cancelled, 1);
            met = true;
        }
    }
    if (met)
        atomic_store(&c->interrupt_pending, 0);
    c->e->ops->interrupt(c->e);
}

static struct emq__waiter *find_place(emq_client *c)
{
    for (struct emq__waiter *w = atomic_load(&c->waiters); w; w = w->next) {
        int idle = FREE;
        if (atomic_compare_exchange_strong(&w->state, &idle, WAITING)) {
            atomic_store(&w->cancelled, 0);
            return w;
        }
    }
    struct emq__waiter *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    atomic_store(&w->state, WAITING);
    w->next = atomic_load(&c->waiters);
    while (!atomic_compare_exchange_weak(&c->waiters, &w->next, w))
        ;
    return w;
}

emq_status emq__wait_begin(emq_client *c, struct emq__waiter **out, emq_error *err)
{
    struct emq__waiter *w = find_place(c);

    if (!w)
        return emq__no_memory("wait", err);
    if (atomic_exchange(&c->interrupt_pending, 0)) {
        emq__wait_end(w);
        return EMQ_CANCELLED;
    }
    *out = w;
    return EMQ_OK;
}

void emq__wait_end(struct emq__waiter *w)
{
    if (w)
        atomic_store(&w->state, FREE);
}

emq_status emq__wait_step(emq_client *c, struct emq__waiter *w, emq_str bell, uint64_t ticket,
                          int64_t ms, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__wait_res res;

    if (atomic_load(&w->state) == INTERRUPTED)
        return EMQ_CANCELLED;
    struct emq__wait_req req = {
        .prefix = c->prefix,
        .queues = &bell,
        .n = 1,
        .ticket = ticket,
        .timeout_ms = ms < 1             ? 1
                      : ms > STEP_MAX_MS ? STEP_MAX_MS
                                         : ms,
        .cancelled = &w->cancelled,
    };
    emq_status s = c->e->ops->wait(c->e, &req, &res, &mem, err);
    emq__arena_free(&mem);
    if (atomic_load(&w->state) == INTERRUPTED)
        return EMQ_CANCELLED;
    if (s == EMQ_CANCELLED) { /* meant for an earlier owner of this place */
        atomic_store(&w->cancelled, 0);
        return EMQ_TIMEOUT;
    }
    return s;
}

emq_str emq__bell_of_events(emq_str queue, char out[EMQ__BELL_NAME_MAX])
{
    int n = snprintf(out, EMQ__BELL_NAME_MAX, "%.*s%s", EMQ_STR_ARG(queue), EMQ__BELL_EVENTS);

    return emq_strn(out, n > 0 && n < EMQ__BELL_NAME_MAX ? (size_t)n : 0);
}

int64_t emq__wait_left(struct emq__mono start, int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return INT64_MAX;
    int64_t left = timeout_ms - emq__mono_diff_ms(start, emq__mono_now());
    return left > 0 ? left : 0;
}

/* One look: OK or FAILED with *job filled when finished, TIMEOUT when not yet. */
static emq_status look(emq_client *c, emq_str queue, emq_str id, emq_job *job, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__job *rec;
    int64_t now_ms;

    emq_status s = emq__job_read(c, queue, id, &mem, &rec, &now_ms, err);
    if (s == EMQ_OK && rec->state == EMQ_FAILED_STATE)
        s = EMQ_FAILED;
    else if (s == EMQ_OK && rec->state != EMQ_COMPLETED_STATE)
        s = EMQ_TIMEOUT;
    if (s == EMQ_OK || s == EMQ_FAILED)
        emq__job_fill(job, rec, now_ms, false, &mem);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_wait(emq_client *c, emq_str queue, emq_str id, int64_t timeout_ms, emq_job **out,
                    emq_error *err)
{
    static const char where[] = "emq_wait";
    struct emq__mono start = emq__mono_now();
    struct emq__waiter *w = NULL;
    int64_t step_ms = LOOK_FIRST_MS;
    char name[EMQ__BELL_NAME_MAX];

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK && timeout_ms != -1)
        s = emq__check_span(timeout_ms, where, "timeout_ms", err);
    if (s != EMQ_OK)
        return s;
    emq_job *job = emq__job_new();
    if (!job)
        return emq__no_memory(where, err);
    emq_str bell = emq__bell_of_events(queue, name);
    if (timeout_ms != 0)
        s = emq__wait_begin(c, &w, err);
    while (s == EMQ_OK) {
        uint64_t ticket = c->e->ops->ticket(c->e, c->prefix, &bell, 1);
        s = look(c, queue, id, job, err);
        if (s != EMQ_TIMEOUT)
            break;
        int64_t left = emq__wait_left(start, timeout_ms);
        if (left == 0)
            break;
        /* A bell may be missed, and not every store has one: soon at first, then seldom. */
        s = emq__wait_step(c, w, bell, ticket, left < step_ms ? left : step_ms, err);
        if (s == EMQ_TIMEOUT)
            s = EMQ_OK;
        step_ms = step_ms * 2 < STEP_MAX_MS ? step_ms * 2 : STEP_MAX_MS;
    }
    emq__wait_end(w);
    if (out && (s == EMQ_OK || s == EMQ_FAILED))
        *out = job;
    else
        emq_job_free(job);
    return s;
}
