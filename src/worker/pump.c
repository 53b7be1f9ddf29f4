/* SPDX-License-Identifier: MIT
 *
 * The pump: the only thread that takes and settles. Each turn goes through the queues and does one act
 * per queue, so that finishing k jobs and taking k more is one commit, and outcomes that come in during
 * a commit share the next.
 *
 * The invariants: no more jobs are in hand than there are places; after a stop nothing is taken; the
 * pump ends only when no job is in hand.
 */
#include "worker/runtime.h"

#include "base/str.h"
#include "model/duration.h"

bool emq__stopping(const emq_worker *w)
{
    return atomic_load(&w->stop_level) > 0;
}

static void pending_add(emq_worker *w, struct emq__slot *s)
{
    s->next = NULL;
    *w->pump.pending_tail = s;
    w->pump.pending_tail = &s->next;
}

/* ---- what comes in ----------------------------------------------------------------------- */

/* Fire-and-forget: there is nothing left to settle. */
static void unheld_over(emq_worker *w, struct emq__slot *s)
{
    emq_str reason = s->out.reason.s;

    if (s->out.ending == EMQ__END_DONE)
        emq__outcome_over(w, s, EMQ_EVENT_COMPLETED, (emq_str){0});
    else
        emq__outcome_over(w, s, EMQ_EVENT_FAILED,
                          reason.len > 0 ? reason : EMQ_STR_LIT("fire-and-forget: not run again"));
}

/* Its effect has ended it in the store. */
static void settled_over(emq_worker *w, struct emq__slot *s)
{
    bool failed = s->settled == EMQ_FAILED_STATE;

    emq__outcome_over(w, s, failed ? EMQ_EVENT_FAILED : EMQ_EVENT_COMPLETED,
                      failed ? EMQ_STR_LIT("partial effect") : (emq_str){0});
    emq__point(&w->points, EMQ__P5);
}

static void collect(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    struct emq__slot *s = w->ended;
    w->ended = NULL;
    w->ended_tail = &w->ended;
    pthread_mutex_unlock(&w->mu);
    for (struct emq__slot *next; s; s = next) {
        next = s->next;
        if (s->settled)
            settled_over(w, s);
        else if (emq__slot_held(s))
            pending_add(w, s);
        else
            unheld_over(w, s);
    }
}

/* Paused or ending: what was taken and not begun goes back at once. What can't go back stays: it runs
 * after the pause, or before the end. */
static void give_back_unstarted(emq_worker *w)
{
    if (w->cfg.mode != EMQ_AT_LEAST_ONCE)
        return;
    pthread_mutex_lock(&w->mu);
    struct emq__slot *s = w->ready;
    w->ready = NULL;
    w->ready_tail = &w->ready;
    w->n_ready = 0;
    for (struct emq__slot *i = s; i; i = i->next)
        i->phase = EMQ__ENDED;
    pthread_mutex_unlock(&w->mu);
    for (struct emq__slot *next; s; s = next) {
        next = s->next;
        s->out.ending = EMQ__END_RELEASE;
        s->out.reason.s =
            emq_cstr(emq__stopping(w) ? "the worker stopped" : "the worker was paused");
        pending_add(w, s);
    }
}

/* ---- places ------------------------------------------------------------------------------ */

bool emq__pump_may_take(emq_worker *w, int64_t now_us)
{
    if (emq__stopping(w) || atomic_load(&w->paused) || !emq__keeper_can_beat(w, now_us))
        return false;
    return w->cfg.max_jobs == 0 || w->pump.handed < w->cfg.max_jobs;
}

/* Jobs in hand beyond the free threads: only as many as are done during one act. How long a handler
 * runs is not known before one has ended. */
static int32_t prefetch_places(const emq_worker *w, double run_us)
{
    const struct emq__pump *p = &w->pump;

    if (w->cfg.prefetch == 0 || p->act_us < 1 || run_us <= 0 || run_us >= p->act_us)
        return 0;
    for (size_t i = 0; i < w->n_queues; i++) {
        if (!w->queues[i].plain)
            return 0;
    }
    double during = (double)w->cfg.concurrency * p->act_us / (run_us < 1 ? 1 : run_us);
    return during >= w->cfg.prefetch ? w->cfg.prefetch : (int32_t)during;
}

int32_t emq__pump_capacity(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    double run_us = w->run_us;
    pthread_mutex_unlock(&w->mu);
    return w->cfg.concurrency + prefetch_places(w, run_us);
}

int32_t emq__pump_places(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    int32_t used = w->n_ready + w->n_running;
    pthread_mutex_unlock(&w->mu);
    int32_t places = emq__pump_capacity(w) - used - w->pump.n_refused;
    if (w->cfg.max_jobs > 0 && places > w->cfg.max_jobs - w->pump.handed)
        places = (int32_t)(w->cfg.max_jobs - w->pump.handed);
    return places;
}

/* ---- turns ------------------------------------------------------------------------------- */

/* One act per queue that has something to settle or is worth a look. true: something was done. */
static bool turn(emq_worker *w)
{
    struct emq__pump *p = &w->pump;
    int32_t want[EMQ__QUEUES_MAX];
    int64_t now = emq__mono_now().us;
    bool did = false;

    if (now < p->retry_at_us)
        return false;
    if (p->round.q) {
        (void)emq__round_run(w);
        return true;
    }
    int32_t places = emq__pump_may_take(w, now) ? emq__pump_places(w) : 0;
    emq__queues_want(w, places > 0 ? places : 0, now, want);
    for (size_t i = 0; i < w->n_queues; i++) {
        struct emq__wqueue *q = &w->queues[i];
        if (w->cfg.prefetch > 0)
            emq__pump_plain(w, q, now);
        int32_t n = want[i] < places ? want[i] : places;
        if (!emq__round_fill(w, q, n, now))
            continue;
        did = true;
        places -= emq__round_run(w);
        if (p->round.q || now < p->retry_at_us)
            break; /* the store fails: no use in asking for the next queue */
    }
    return did;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void finished(emq_worker *w, const char *why)
{
    if (w->pump.drained)
        return;
    w->pump.drained = true;
    emq__event_queue(w, EMQ_EVENT_FINISHED, (emq_str){0}, (emq_str){0}, emq_cstr(why));
}

/* The store fails and time is up: these jobs come back when their locks end. */
static void abandon(emq_worker *w, int64_t now_us)
{
    struct emq__pump *p = &w->pump;
    int64_t cancel_at = atomic_load(&w->cancel_at_us);
    int32_t n = 0;

    if (cancel_at == INT64_MAX || now_us < cancel_at + EMQ__LAST_TRIES_MS * INT64_C(1000))
        return;
    if (p->round.q && p->round.tries < 2)
        return;
    if (p->round.q)
        emq__round_abandon(w);
    for (struct emq__slot **at = &p->pending; *at;) {
        struct emq__slot *s = *at;
        if (s->tries == 0) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        emq__slot_done(s);
        n++;
    }
    for (p->pending_tail = &p->pending; *p->pending_tail;)
        p->pending_tail = &(*p->pending_tail)->next;
    if (n == 0)
        return;
    char text[128];
    (void)snprintf(
        text, sizeof text,
        "the end: outcomes that could not be stored: %d; their jobs come back when their locks end",
        (int)n);
    emq__event_queue(w, EMQ_EVENT_ERROR, (emq_str){0}, (emq_str){0}, emq_cstr(text));
}

static int32_t in_hand(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    int32_t n = w->n_in_hand;
    pthread_mutex_unlock(&w->mu);
    return n;
}

/* A worker that is to end by itself, and a store that refuses what writes for as long as a lock: no lock is
 * renewed, nothing is taken or settled. What runs is waited for. */
static bool gives_up(emq_worker *w, int64_t now_us)
{
    const struct emq__pump *p = &w->pump;
    bool ends = w->cfg.exit_when_empty || (w->cfg.max_jobs > 0 && p->handed >= w->cfg.max_jobs);
    int64_t ms = w->cfg.lock_ms < EMQ__REFUSED_MAX_MS ? w->cfg.lock_ms : EMQ__REFUSED_MAX_MS;
    const emq_error *with = &p->refused_with;
    char text[128 + sizeof with->text], span[40];

    if (!ends || !p->refused_since_us || now_us - p->refused_since_us < ms * 1000)
        return false;
    pthread_mutex_lock(&w->mu);
    bool busy = w->n_ready + w->n_running > 0;
    pthread_mutex_unlock(&w->mu);
    if (busy)
        return false;
    atomic_store(&w->gave_up, with->status);
    (void)snprintf(text, sizeof text,
                   "giving up: nothing could be stored for %s: %s; free or repair the store, then "
                   "start again: no job is lost",
                   emq__duration_format(ms, span),
                   with->status == EMQ_E_INVALID ? with->text /* which key, say */
                                                 : emq_status_text((emq_status)with->status));
    emq__event_queue(w, EMQ_EVENT_ERROR, (emq_str){0}, (emq_str){0}, emq_cstr(text));
    finished(w, "the store refuses all writes");
    emq_worker_stop(w, 1);
    return true;
}

/* true: nothing is left to do, ever. */
static bool at_end(emq_worker *w, int64_t now_us)
{
    const struct emq__pump *p = &w->pump;

    if (emq__stopping(w)) {
        finished(w, "stopping");
        abandon(w, now_us);
        return in_hand(w) == 0 && !p->round.q;
    }
    if (p->round.q || gives_up(w, now_us) || in_hand(w) > 0)
        return false;
    if (w->cfg.max_jobs > 0 && p->handed >= w->cfg.max_jobs) {
        finished(w, "max_jobs reached");
        emq_worker_stop(w, 0);
        return true;
    }
    if (w->cfg.exit_when_empty && emq__pump_is_empty(w, now_us)) {
        finished(w, "nothing is left");
        emq_worker_stop(w, 0);
        return true;
    }
    return false;
}

void *emq__pump_main(void *thread)
{
    struct emq__thread *t = thread;
    emq_worker *w = t->w;
    bool ran_last = false; /* what can't be given back was let go */

    emq__event_queue(w, EMQ_EVENT_READY, (emq_str){0}, (emq_str){0}, (emq_str){0});
    emq__adopt_at_start(w);
    emq__queues_init(w, emq__mono_now().us);
    for (;;) {
        /* Order: lower the flag, read the ticket, look. What happens later raises one of them. */
        atomic_store(&w->poke, 0);
        uint64_t ticket = w->e->ops->ticket(w->e, w->c->prefix, w->names, w->n_queues);
        collect(w);
        if (emq__stopping(w) || atomic_load(&w->paused))
            give_back_unstarted(w);
        if (emq__stopping(w) && !ran_last) {
            ran_last = true;
            pthread_mutex_lock(&w->mu);
            pthread_cond_broadcast(&w->ready_cv);
            pthread_mutex_unlock(&w->mu);
        }
        if (turn(w))
            continue;
        if (at_end(w, emq__mono_now().us))
            break;
        emq__pump_wait(w, ticket);
    }
    emq__worker_over(w);
    emq__thread_end(w);
    return NULL;
}
