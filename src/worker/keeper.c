/* SPDX-License-Identifier: MIT
 *
 * The keeper renews locks and does nothing else: it never waits for a handler, and only the act of
 * renewing can hold it up. It does not decide that a lock is lost by time: clocks do, wherever
 * somebody asks (emq__slot_cancelled), so that a keeper stuck in a frozen store harms nobody.
 *
 * The invariants: a deadline counts from the moment the renewal was sent; the renewal list is sorted by
 * due time; after an error the beats go on.
 */
#include "worker/runtime.h"

#include "base/error.h"

/* ---- the renewal list (mu held) ---------------------------------------------------------- */

void emq__keeper_remove(struct emq__slot *s)
{
    emq_worker *w = s->w;

    if (!s->renewed)
        return;
    s->renewed = false;
    if (s->sooner)
        s->sooner->later = s->later;
    else
        w->renew_first = s->later;
    if (s->later)
        s->later->sooner = s->sooner;
    else
        w->renew_last = s->sooner;
    s->sooner = s->later = NULL;
}

/* New due times are nearly always the latest: the walk from the end is short. */
static void list_insert(struct emq__slot *s)
{
    emq_worker *w = s->w;
    struct emq__slot *before = w->renew_last;

    while (before && before->renew_at_us > s->renew_at_us)
        before = before->sooner;
    s->sooner = before;
    s->later = before ? before->later : w->renew_first;
    if (s->later)
        s->later->sooner = s;
    else
        w->renew_last = s;
    if (before)
        before->later = s;
    else
        w->renew_first = s;
    s->renewed = true;
}

void emq__keeper_add(struct emq__slot *s, int64_t sent_us)
{
    emq_worker *w = s->w;

    s->renew_at_us = sent_us + w->cfg.renew_ms * 1000;
    list_insert(s);
    if (atomic_load(&w->keeper_asleep) && atomic_exchange(&w->keeper_asleep, 0))
        emq__wake_ring(&w->keeper_wake);
}

/* ---- one renewal ------------------------------------------------------------------------- */

struct beat {
    struct emq__slot *slots[EMQ__RENEW_SLICE];
    struct emq__extend_entry entries[EMQ__RENEW_SLICE];
    const struct emq__extend_entry *pointers[EMQ__RENEW_SLICE];
    size_t n;
    int64_t sent_us;
};

static void beat_entry(struct beat *b, emq_str prefix, emq_str queue, emq_str id, emq_str token)
{
    b->entries[b->n] = (struct emq__extend_entry){prefix, queue, id, token};
    b->pointers[b->n] = &b->entries[b->n];
    b->n++;
}

/* The oldest deadlines that are due. Returns when the next one is. */
static int64_t beat_collect(emq_worker *w, struct beat *b, int64_t now_us)
{
    int64_t next = INT64_MAX;

    b->n = 0;
    pthread_mutex_lock(&w->mu);
    for (struct emq__slot *s = w->renew_first; s; s = s->later) {
        if (s->renew_at_us > now_us || b->n == EMQ__RENEW_SLICE) {
            next = s->renew_at_us;
            break;
        }
        emq__slot_ref(s);
        b->slots[b->n] = s;
        const struct emq__job *j = &s->job->rec;
        beat_entry(b, j->prefix, j->queue, j->id, j->token);
    }
    pthread_mutex_unlock(&w->mu);
    return next;
}

/* mu held. true: its exec child must hear of the new deadline. */
static bool renewed_apply(struct emq__slot *s, const struct emq__extended *x, int64_t sent_us)
{
    emq_worker *w = s->w;

    /* Settled meanwhile, or being settled: what the store says about the lock is old. */
    if (!s->renewed)
        return false;
    if (x->outcome != EMQ_OK) {
        emq__keeper_remove(s);
        if (s->phase == EMQ__ENDED)
            return false;
        s->lost = true;
        s->lost_us = sent_us;
        emq__slot_cancel(s, EMQ_CANCEL_LOCK_LOST);
        return false;
    }
    atomic_store(&s->safe_until_us, sent_us + (w->cfg.lock_ms - w->cfg.margin_ms) * 1000);
    emq__keeper_remove(s);
    s->renew_at_us = sent_us + w->cfg.renew_ms * 1000;
    list_insert(s);
    if (x->cancel)
        emq__slot_cancel(s, EMQ_CANCEL_USER);
    return s->phase == EMQ__RUNNING && w->exec;
}

static void beat_apply(emq_worker *w, struct beat *b, const struct emq__extend_res *res)
{
    for (size_t i = 0; i < b->n; i++) {
        struct emq__slot *s = b->slots[i];
        if (!s)
            continue;
        pthread_mutex_lock(&w->mu);
        bool lease = renewed_apply(s, &res->extended[i], b->sent_us);
        int index = lease ? emq__slot_index(s) : -1;
        pthread_mutex_unlock(&w->mu);
        if (index >= 0)
            emq__exec_lease(w->exec, index, s->job->rec.fence, emq__slot_safe_until(s));
    }
}

/* mu held by nobody. The same entries again at `again_us`. */
static void beat_postpone(emq_worker *w, struct beat *b, int64_t again_us)
{
    pthread_mutex_lock(&w->mu);
    for (size_t i = 0; i < b->n; i++) {
        struct emq__slot *s = b->slots[i];
        if (!s || !s->renewed)
            continue;
        emq__keeper_remove(s);
        s->renew_at_us = again_us;
        list_insert(s);
    }
    pthread_mutex_unlock(&w->mu);
}

static emq_status beat_send(emq_worker *w, struct beat *b, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__extend_req req = {.entries = b->pointers, .n = b->n, .lock_ms = w->cfg.lock_ms};
    struct emq__extend_res res;

    b->sent_us = emq__mono_now().us;
    atomic_store(&w->beat_since_us, b->sent_us);
    emq_status s = w->e->ops->extend(w->e, &req, &res, &mem, err);
    atomic_store(&w->beat_since_us, 0);
    if (!emq__is_failure(s) && res.n == b->n)
        beat_apply(w, b, &res);
    emq__arena_free(&mem);
    return s;
}

static void beat_release(struct beat *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->slots[i])
            emq__slot_unref(b->slots[i]);
    }
    b->n = 0;
}

/* ---- the thread -------------------------------------------------------------------------- */

struct health {
    int32_t failures;
    int32_t told;
};

static int64_t health_apply(emq_worker *w, struct health *h, emq_status s, const emq_error *err)
{
    if (!emq__is_failure(s)) {
        h->failures = 0;
        h->told = 0;
        if (atomic_exchange(&w->keeper_sick, 0)) {
            emq__log_write(&w->c->log, EMQ_LOG_INFO, "worker %.*s: locks are renewed again",
                           EMQ_STR_ARG(w->cfg.name));
            emq__pump_poke(w);
        }
        return 0;
    }
    h->failures++;
    atomic_store(&w->keeper_sick, 1);
    if (h->told != s) {
        h->told = s;
        emq__event_error(w, (emq_str){0}, "renewing locks", err);
    }
    int64_t ms = emq__backoff_jitter_ms(h->failures);
    return ms < w->cfg.renew_ms ? ms : w->cfg.renew_ms;
}

bool emq__keeper_can_beat(emq_worker *w, int64_t now_us)
{
    int64_t since = atomic_load(&w->beat_since_us);

    if (atomic_load(&w->keeper_sick))
        return false;
    return since == 0 || now_us - since < w->cfg.lock_ms * 1000 / 3;
}

/* Sleeps until the next renewal is due. With nothing to renew it first sleeps one interval, and only
 * then asks to be woken, so that short jobs one after the other cost no wake-ups. */
static void keeper_sleep(emq_worker *w, int seen, int64_t next_us, bool *idle)
{
    int64_t interval_us = w->cfg.renew_ms * 1000;
    int64_t now = emq__mono_now().us;

    if (next_us != INT64_MAX || !*idle) {
        *idle = next_us == INT64_MAX;
        int64_t left = next_us == INT64_MAX ? interval_us : next_us - now;
        emq__wake_wait(&w->keeper_wake, seen, left <= 0 ? 0 : (left + 999) / 1000);
        return;
    }
    atomic_store(&w->keeper_asleep, 1);
    pthread_mutex_lock(&w->mu);
    bool none = !w->renew_first && !w->over;
    pthread_mutex_unlock(&w->mu);
    if (none)
        emq__wake_wait(&w->keeper_wake, seen, 60 * 1000);
    atomic_store(&w->keeper_asleep, 0);
    *idle = false;
}

/* While sick and with nothing to renew: an entry that no store has, to learn that renewals work. */
static void beat_probe(emq_worker *w, struct beat *b)
{
    b->slots[0] = NULL;
    b->n = 0;
    beat_entry(b, w->c->prefix, w->names[0], EMQ_STR_LIT("probe"), EMQ_STR_LIT("probe:0"));
}

void *emq__keeper_main(void *thread)
{
    struct emq__thread *t = thread;
    emq_worker *w = t->w;
    struct beat b = {.n = 0};
    struct health h = {0};
    int64_t retry_us = 0;
    bool idle = false;

    for (;;) {
        int seen = emq__wake_read(&w->keeper_wake);
        int64_t now = emq__mono_now().us;
        pthread_mutex_lock(&w->mu);
        bool over = w->over;
        pthread_mutex_unlock(&w->mu);
        if (over)
            break;
        if (now < retry_us) {
            emq__wake_wait(&w->keeper_wake, seen, (retry_us - now + 999) / 1000);
            continue;
        }
        int64_t next = beat_collect(w, &b, now);
        if (b.n == 0 && h.failures > 0 && next == INT64_MAX)
            beat_probe(w, &b);
        if (b.n == 0) {
            keeper_sleep(w, seen, next, &idle);
            continue;
        }
        emq_error err = {0};
        emq_status s = beat_send(w, &b, &err);
        int64_t wait_ms = health_apply(w, &h, s, &err);
        if (wait_ms > 0) {
            retry_us = emq__mono_now().us + wait_ms * 1000;
            beat_postpone(w, &b, retry_us);
        }
        beat_release(&b);
    }
    emq__thread_end(w);
    return NULL;
}
