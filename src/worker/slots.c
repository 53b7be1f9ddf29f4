/* SPDX-License-Identifier: MIT
 *
 * Jobs in hand and the threads that run them.
 *
 * The invariants: a slot is in exactly one place (ready, with a thread, or the pump's), its phase says
 * which, and it lives until the last reference goes. A handler is begun only while the lock is safe
 * and the worker may start something.
 */
#include "worker/runtime.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { START_AGAIN_MS = 1000 }; /* no hot loop while processes can't be made */

/* ---- the life of a slot ------------------------------------------------------------------ */

struct emq__slot *emq__slot_new(emq_worker *w, struct emq__wqueue *q)
{
    struct emq__slot *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->w = w;
    s->q = q;
    atomic_init(&s->refs, 1);
    atomic_init(&s->cancel, EMQ_GO_ON);
    atomic_init(&s->safe_until_us, INT64_MAX);
    atomic_init(&s->run_until_us, INT64_MAX);
    s->out.retry_after_ms = -1;
    return s;
}

void emq__slot_ref(struct emq__slot *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void emq__slot_unref(struct emq__slot *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->job) {
        s->job->slot = NULL;
        s->job->lender = NULL;
        emq_job_free(s->job);
    }
    free(s->out.result.own);
    free(s->out.reason.own);
    free(s->out.stack.own);
    emq__arena_free(&s->out.mem);
    free(s);
}

bool emq__slot_held(const struct emq__slot *s)
{
    return s->w->cfg.mode != EMQ_FIRE_AND_FORGET;
}

void emq__slot_arm(struct emq__slot *s, emq_job *job, int64_t sent_us, int64_t store_now_ms)
{
    const struct emq__config *cfg = &s->w->cfg;
    int64_t own = emq_job_timeout_ms(job);

    s->job = job;
    job->slot = s;
    job->lender = &emq__slot_lender;
    s->phase = EMQ__READY;
    s->taken_us = emq__mono_now().us;
    s->store_now_ms = store_now_ms;
    s->timeout_ms = own > 0 ? own : cfg->timeout_ms;
    if (emq__slot_held(s))
        atomic_store(&s->safe_until_us, sent_us + (cfg->lock_ms - cfg->margin_ms) * 1000);
    s->renew_at_us = sent_us;
}

void emq__slots_ready(emq_worker *w, struct emq__slot *first, int32_t n)
{
    pthread_mutex_lock(&w->mu);
    for (struct emq__slot *s = first, *next; s; s = next) {
        next = s->next;
        s->next = NULL;
        if (emq__slot_held(s))
            emq__keeper_add(s, s->renew_at_us);
        *w->ready_tail = s;
        w->ready_tail = &s->next;
    }
    w->n_ready += n;
    w->n_in_hand += n;
    for (int32_t i = 0; i < n && i < w->cfg.concurrency; i++)
        pthread_cond_signal(&w->ready_cv);
    pthread_mutex_unlock(&w->mu);
}

void emq__slot_done(struct emq__slot *s)
{
    emq_worker *w = s->w;

    pthread_mutex_lock(&w->mu);
    emq__keeper_remove(s);
    w->n_in_hand--;
    pthread_mutex_unlock(&w->mu);
    emq__slot_unref(s);
}

/* ---- what exec and handlers see ---------------------------------------------------------- */

emq_job *emq__slot_job(struct emq__slot *s)
{
    return s->job;
}

int emq__slot_index(const struct emq__slot *s)
{
    return s->thread ? s->thread->index : -1;
}

int emq__slot_fd(const struct emq__slot *s)
{
    return s->thread ? s->thread->fd : -1;
}

struct emq__mono emq__slot_safe_until(const struct emq__slot *s)
{
    return (struct emq__mono){atomic_load(&s->safe_until_us)};
}

int64_t emq__slot_deadline_at_ms(const struct emq__slot *s)
{
    if (s->timeout_ms <= 0)
        return 0;
    return s->store_now_ms + (s->started_us - s->taken_us) / 1000 + s->timeout_ms;
}

int emq__slot_cancelled(struct emq__slot *s)
{
    int reason = atomic_load(&s->cancel);

    if (reason != EMQ_GO_ON)
        return reason;
    int64_t now = emq__mono_now().us;
    if (now >= atomic_load(&s->safe_until_us))
        reason = EMQ_CANCEL_LOCK_LOST;
    else if (now >= atomic_load(&s->run_until_us))
        reason = EMQ_CANCEL_TIMEOUT;
    else if (now >= atomic_load(&s->w->cancel_at_us))
        reason = EMQ_CANCEL_SHUTDOWN;
    if (reason != EMQ_GO_ON) {
        int none = EMQ_GO_ON;
        if (!atomic_compare_exchange_strong(&s->cancel, &none, reason))
            reason = none;
    }
    return reason;
}

int64_t emq__slot_next_look_ms(struct emq__slot *s)
{
    int64_t next = atomic_load(&s->safe_until_us);
    int64_t run = atomic_load(&s->run_until_us);
    int64_t grace = atomic_load(&s->w->cancel_at_us);

    next = run < next ? run : next;
    next = grace < next ? grace : next;
    if (next == INT64_MAX)
        return INT64_MAX;
    int64_t left = next - emq__mono_now().us;
    return left <= 0 ? 0 : (left + 999) / 1000;
}

void emq__slot_cancel(struct emq__slot *s, int reason)
{
    int none = EMQ_GO_ON;

    if (!atomic_compare_exchange_strong(&s->cancel, &none, reason))
        return;
    if (s->phase == EMQ__RUNNING && s->thread && s->thread->fd >= 0)
        (void)eventfd_write(s->thread->fd, 1);
}

/* ---- the threads ------------------------------------------------------------------------- */

static enum emq__ending ending_of_exec(enum emq__exec_kind kind)
{
    switch (kind) {
    case EMQ__EXEC_DONE: return EMQ__END_DONE;
    case EMQ__EXEC_RETRY: return EMQ__END_RETRY;
    case EMQ__EXEC_FAIL: return EMQ__END_FAIL;
    case EMQ__EXEC_GIVE_BACK: return EMQ__END_GIVE_BACK;
    case EMQ__EXEC_STALLED: return EMQ__END_STALLED;
    case EMQ__EXEC_STOPPED: return EMQ__END_STOPPED;
    case EMQ__EXEC_UNSTARTABLE: return EMQ__END_RELEASE;
    }
    return EMQ__END_RELEASE;
}

static void run_exec(struct emq__slot *s)
{
    emq_worker *w = s->w;
    struct emq__exec_result res = {.retry_after_ms = -1, .exit_status = -1};
    emq_error err = {0};
    const char *doing = "starting the program";
    emq_status st = emq__exec_run(w->exec, s, &res, &err);

    if (st == EMQ_OK && res.kind == EMQ__EXEC_DONE && (res.sql.n || res.commands.n)) {
        doing = "the effect of the program";
        st = emq__slot_exec_effect(s, &res, &err);
    }
    if (st != EMQ_OK) {
        emq__event_error(w, s->q->name, doing, &err);
        s->out.ending = EMQ__END_RELEASE;
        s->out.retry_after_ms = START_AGAIN_MS;
        s->out.reason.s = emq__arena_printf(&res.mem, "%s failed", doing); /* the event says why */
    } else {
        s->out.ending = ending_of_exec(res.kind);
        if (res.exit_status >= 0)
            atomic_store(&w->exit_status, res.exit_status);
        s->out.retry_after_ms = res.retry_after_ms;
        s->out.reason.s = res.reason;
        s->out.stack.s = res.stack;
        s->out.result.s = res.result;
        if (res.kind == EMQ__EXEC_UNSTARTABLE) {
            s->out.reason.s = EMQ_STR_LIT("the program can't be started"); /* the event says why */
            if (!atomic_exchange(&w->unstartable, 1)) {
                emq__event_queue(w, EMQ_EVENT_ERROR, s->q->name, s->job->rec.id, res.reason);
                emq_worker_stop(w, 0);
            }
        }
    }
    s->out.mem = res.mem; /* moved, not copied: a result that is there can't be lost any more */
}

static void run_handler(struct emq__slot *s)
{
    emq_verdict v = s->w->cfg.handler(s->job, s->w->cfg.user);

    /* Looked at now, so that a late end is known as such although the handler never asked. */
    (void)emq__slot_cancelled(s);
    s->out.ending = EMQ__END_RETRY;
    switch (v) {
    case EMQ_DONE: s->out.ending = EMQ__END_DONE; break;
    case EMQ_RETRY: break;
    case EMQ_FAIL: s->out.ending = EMQ__END_FAIL; break;
    case EMQ_GIVE_BACK: s->out.ending = EMQ__END_GIVE_BACK; break;
    }
}

static void run(struct emq__slot *s)
{
    emq_worker *w = s->w;

    /* Past its safe point no job is begun; past the worker's end none that can be given back. */
    int reason = emq__slot_cancelled(s);
    if (reason != EMQ_GO_ON &&
        (w->cfg.mode == EMQ_AT_LEAST_ONCE || reason != EMQ_CANCEL_SHUTDOWN)) {
        s->out.ending = EMQ__END_STOPPED;
        s->begun = false;
        atomic_fetch_sub(&w->count.started, 1);
        return;
    }
    if (s->timeout_ms > 0)
        atomic_store(&s->run_until_us, s->started_us + s->timeout_ms * 1000);
    emq__event(w, EMQ_EVENT_STARTED, s, (emq_str){0});
    emq__point(&w->points, EMQ__P2);
    if (w->exec)
        run_exec(s);
    else
        run_handler(s);
    if (!s->settled)
        emq__point(&w->points, EMQ__P3);
}

/* mu held. Pausing stops starts, but what can't be given back is run when the worker ends. */
static struct emq__slot *ready_pop(emq_worker *w)
{
    struct emq__slot *s = w->ready;

    if (!s || (atomic_load(&w->paused) && atomic_load(&w->stop_level) == 0))
        return NULL;
    w->ready = s->next;
    if (!w->ready)
        w->ready_tail = &w->ready;
    s->next = NULL;
    w->n_ready--;
    w->n_running++;
    s->phase = EMQ__RUNNING;
    s->begun = true;
    s->started_us = emq__mono_now().us;
    atomic_fetch_add(&w->count.started, 1);
    return s;
}

/* mu held. */
static void ended_push(emq_worker *w, struct emq__slot *s)
{
    if (s->begun)
        w->run_us += ((double)(emq__mono_now().us - s->started_us) - w->run_us) / 16;
    w->n_running--;
    s->phase = EMQ__ENDED;
    s->thread = NULL;
    *w->ended_tail = s;
    w->ended_tail = &s->next;
}

void *emq__slot_main(void *thread)
{
    struct emq__thread *t = thread;
    emq_worker *w = t->w;

    pthread_mutex_lock(&w->mu);
    for (;;) {
        struct emq__slot *s = ready_pop(w);
        if (!s) {
            if (w->over)
                break;
            pthread_cond_wait(&w->ready_cv, &w->mu);
            continue;
        }
        s->thread = t;
        t->slot = s;
        pthread_mutex_unlock(&w->mu);
        run(s);
        pthread_mutex_lock(&w->mu);
        t->slot = NULL;
        ended_push(w, s);
        pthread_mutex_unlock(&w->mu);
        emq__pump_poke(w);
        pthread_mutex_lock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    emq__thread_end(w);
    return NULL;
}
