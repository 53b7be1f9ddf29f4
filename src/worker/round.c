/* SPDX-License-Identifier: MIT
 *
 * One act of the pump: settle k outcomes of one queue and take more of it, or either alone.
 *
 * The invariants: an outcome leaves the worker only when the store has answered it, or when its
 * lock is lost; an act in doubt is repeated under the same receipt number, so its answer is the true
 * one; one entry that the store can't digest ends up alone and does not hold up the others.
 */
#include "worker/runtime.h"

#include "base/error.h"

enum { HARD_BACKOFF_US = 1000 * 1000, DOUBT_REFUSALS_MAX = 3, DOUBT_FAILURES = 3 };

int64_t emq__backoff_jitter_ms(int32_t failures)
{
    int shift = failures < 8 ? failures : 8;
    int64_t ms = (int64_t)EMQ__BACKOFF_MIN_MS << shift;

    if (ms > EMQ__BACKOFF_MAX_MS)
        ms = EMQ__BACKOFF_MAX_MS;
    return ms / 2 + (int64_t)(emq__random_unit() * (double)(ms / 2));
}

void emq__pump_trouble(emq_worker *w, emq_str queue, const char *doing, const emq_error *err)
{
    if (w->pump.told == err->status)
        return;
    w->pump.told = err->status;
    emq__event_error(w, queue, doing, err);
}

/* ---- setting up -------------------------------------------------------------------------- */

static size_t outcome_bytes(const struct emq__slot *s)
{
    return s->out.result.s.len + s->out.reason.s.len + s->out.stack.s.len + 256;
}

bool emq__round_fill(emq_worker *w, struct emq__wqueue *q, int32_t want, int64_t now_us)
{
    struct emq__pump *p = &w->pump;
    struct emq__round *r = &p->round;
    struct emq__slot **end = &r->slots, **at = &p->pending;
    size_t bytes = 0;

    *r = (struct emq__round){.q = q};
    while (*at && r->n < q->cap) {
        struct emq__slot *s = *at;
        if (s->q != q || s->not_before_us > now_us) {
            at = &s->next;
            continue;
        }
        bytes += outcome_bytes(s);
        if (r->n > 0 && bytes > EMQ__BATCH_BYTES)
            break;
        *at = s->next;
        s->next = NULL;
        *end = s;
        end = &s->next;
        r->n++;
    }
    for (p->pending_tail = &p->pending; *p->pending_tail;)
        p->pending_tail = &(*p->pending_tail)->next;
    /* A take that fails must not take settlements down with it. */
    if (r->n > 0 && now_us < q->single_until_us)
        want = 0;
    r->want = want < EMQ__BATCH_MAX ? want : EMQ__BATCH_MAX;
    if (r->n == 0 && r->want <= 0)
        r->q = NULL;
    return r->q != NULL;
}

static void put_first(struct emq__pump *p, struct emq__slot *first, struct emq__slot *last)
{
    last->next = p->pending;
    if (!p->pending)
        p->pending_tail = &last->next;
    p->pending = first;
}

/* Back to the front of the line, in order. */
static void round_put_back(emq_worker *w)
{
    struct emq__round *r = &w->pump.round;

    if (r->slots) {
        struct emq__slot *last = r->slots;
        while (last->next)
            last = last->next;
        put_first(&w->pump, r->slots, last);
    }
    *r = (struct emq__round){0};
}

/* ---- the answer -------------------------------------------------------------------------- */

void emq__outcome_over(emq_worker *w, struct emq__slot *s, emq_event_kind kind, emq_str text)
{
    struct emq__map *m = &w->pump.given_back;

    if (m->len > 0 && kind != EMQ_EVENT_GIVEN_BACK)
        (void)emq__map_take(m, emq_job_idempotency_key(s->job));
    if (s->refused_for)
        emq__outcome_taken(w, s);
    emq__event(w, kind, s, text);
    emq__slot_done(s);
}

static void give_back_count(emq_worker *w, const struct emq__slot *s)
{
    enum { GIVEN_BACK_JOBS_MAX = 10000 };
    struct emq__map *m = &w->pump.given_back;
    emq_str key = emq_job_idempotency_key(s->job);

    if (m->len >= GIVEN_BACK_JOBS_MAX)
        emq__map_free(m);
    uintptr_t n = (uintptr_t)emq__map_get(m, key);
    /* Without memory the count is late, never wrong in the job's disfavour. */
    (void)emq__map_put(m, key, (void *)(n + 1));
}

/* A refused outcome whose lock had ended by time: the history shall tell for how long nobody renewed it. */
static void note_refused(const struct emq__slot *s)
{
    const struct emq__config *cfg = &s->w->cfg;
    int64_t safe_us = atomic_load(&s->safe_until_us);
    int64_t renewed_us = safe_us - (cfg->lock_ms - cfg->margin_ms) * 1000;
    int64_t ms = ((s->lost ? s->lost_us : emq__mono_now().us) - renewed_us) / 1000;

    if (ms < cfg->lock_ms)
        return;
    if (ms < 10000)
        emq__note(s, "renewals had stopped for %lld ms", (long long)ms);
    else
        emq__note(s, "renewals had stopped for %lld s", (long long)(ms / 1000));
}

/* A parent that may not complete is still ours: what its handler did is settled as an attempt that failed, for
 * good when a child has failed it. */
static bool failed_by_children(emq_worker *w, struct emq__slot *s, emq_status outcome)
{
    if (outcome != EMQ_PENDING_CHILDREN && outcome != EMQ_FAILED_CHILD)
        return false;
    s->converted = true;
    s->out.ending = outcome == EMQ_FAILED_CHILD ? EMQ__END_FAIL : EMQ__END_RETRY;
    emq__text_own(&s->out.reason, NULL, 0);
    s->out.reason.s = emq_cstr(emq_status_text(outcome));
    put_first(&w->pump, s, s);
    return true;
}

static void settled_apply(emq_worker *w, struct emq__slot *s, const struct emq__settle_entry *e,
                          const struct emq__settled *x)
{
    emq_event_kind kind = EMQ_EVENT_LOST;
    emq_str text = e->reason;

    if (failed_by_children(w, s, x->outcome))
        return;
    if (x->outcome == EMQ_OK) {
        switch (e->kind) {
        case EMQ__SETTLE_COMPLETED: kind = EMQ_EVENT_COMPLETED; break;
        case EMQ__SETTLE_FAILED: kind = EMQ_EVENT_FAILED; break;
        case EMQ__SETTLE_RETRY: kind = EMQ_EVENT_RETRIED; break;
        case EMQ__SETTLE_STALLED:
            kind = x->state == EMQ_WAITING || x->state == EMQ_PRIORITIZED ? EMQ_EVENT_RETRIED
                                                                          : EMQ_EVENT_FAILED;
            break;
        case EMQ__SETTLE_RELEASE:
            kind = EMQ_EVENT_GIVEN_BACK;
            if (s->out.ending == EMQ__END_GIVE_BACK)
                give_back_count(w, s);
            if (!s->begun)
                w->pump.handed--;
            break;
        }
        if (e->kind != EMQ__SETTLE_COMPLETED && x->state == EMQ_FAILED_STATE) {
            kind = EMQ_EVENT_FAILED; /* a job that was asked to stop does not go back */
            if (e->kind == EMQ__SETTLE_RETRY || e->kind == EMQ__SETTLE_RELEASE)
                text = EMQ_STR_LIT(EMQ__TEXT_CANCELLED);
        }
        /* Back in line or delayed by this very act: its own queue must be looked at for it. */
        if (e->delay_ms > 0 && e->delay_ms < EMQ__POLL_MS) {
            int64_t at = emq__mono_now().us + e->delay_ms * 1000;
            if (at < s->q->look_at_us)
                s->q->look_at_us = at;
        }
    } else {
        if (x->outcome == EMQ_LOST)
            note_refused(s);
        text = x->outcome == EMQ_NOT_FOUND ? EMQ_STR_LIT("the job is gone")
                                           : EMQ_STR_LIT("the lock is no longer ours");
    }
    emq__outcome_over(w, s, kind, text);
}

/* Memory for a taken job was missing: it goes back as if it had not been taken. */
static void untake_all(emq_worker *w, struct emq__wqueue *q, struct emq__job *const *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        emq_error err = {0};
        if (emq__is_failure(emq__untake(w, jobs[i], "its worker has no memory", &err)))
            emq__event_error(w, q->name, "giving back a job that there is no memory for", &err);
    }
}

static void note_doubt(const struct emq__slot *s, const char *act)
{
    emq__note(s, "the answer of %s was lost; the receipt settled it", act);
}

static int32_t taken_apply(emq_worker *w, const struct emq__round *r, const struct emq__taken *t,
                           int64_t store_now_ms)
{
    struct emq__wqueue *q = r->q;
    struct emq__slot *first = NULL, **end = &first;
    int32_t n = 0;

    if (t->n > 0) {
        emq__point(&w->points, EMQ__P1);
        q->grouped = false;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct emq__slot *s = emq__slot_new(w, q);
        emq_job *job = s ? emq__job_wrap(t->jobs[i]) : NULL;
        if (!job) {
            if (s)
                emq__slot_unref(s);
            untake_all(w, q, t->jobs + i, t->n - i);
            break;
        }
        q->grouped = q->grouped || job->rec.group.len > 0;
        if (job->rec.priority > 0 || q->grouped)
            q->plain = false;
        emq__slot_arm(s, job, r->sent_us, store_now_ms);
        if (r->doubt)
            note_doubt(s, "take");
        *end = s;
        end = &s->next;
        n++;
    }
    if (t->paused || t->maxed || t->limited_ms > 0)
        q->plain = false;
    w->pump.handed += n;
    if (n > 0)
        emq__slots_ready(w, first, n);
    return n;
}

/* ---- failures ---------------------------------------------------------------------------- */

static void back_off(emq_worker *w)
{
    struct emq__pump *p = &w->pump;

    /* What a take in doubt may have given us can't be renewed: its locks run. */
    int32_t n = p->round.doubt && p->failures > DOUBT_FAILURES ? DOUBT_FAILURES : p->failures;
    p->retry_at_us = emq__mono_now().us + emq__backoff_jitter_ms(n) * 1000;
    p->failures++;
}

static void hard_failure(emq_worker *w, const emq_error *err)
{
    struct emq__round *r = &w->pump.round;
    struct emq__wqueue *q = r->q;
    int64_t now = emq__mono_now().us;

    /* Invalid may be one of the outcomes, which is then stored as a failure: that, and a take, have nothing that
     * could be wrong with them. */
    if (!emq__outcome_blamed(err) || r->n == 0 || (r->n == 1 && r->slots->converted)) {
        if (!w->pump.refused_since_us)
            w->pump.refused_since_us = now;
        w->pump.refused_with = *err;
    }
    if (r->n == 0) {
        emq__pump_trouble(w, q->name, "taking jobs", err);
        q->hold_until_us = now + HARD_BACKOFF_US;
    } else if (r->want > 0) {
        q->single_until_us = now + HARD_BACKOFF_US;
    } else if (r->n > 1) {
        q->cap = r->n / 2;
    } else {
        r->slots->tries++;
        emq__outcome_refused(w, r->slots, err);
    }
    round_put_back(w);
}

/* The store refuses to say what became of the act. Settling it anew is safe (tokens are compared); what
 * a take may have given us is looked for by token. */
static void forget_doubt(emq_worker *w)
{
    struct emq__pump *p = &w->pump;

    emq__random_id(p->session);
    p->seq = 0;
    p->round.doubt = false;
    if (p->round.want > 0)
        emq__adopt_after_doubt(w, p->round.began_at_ms);
}

static void round_failed(emq_worker *w, emq_status st, const emq_error *err)
{
    struct emq__round *r = &w->pump.round;

    switch (st) {
    case EMQ_E_IN_DOUBT: r->doubt = true; break;
    case EMQ_E_UNAVAIL:
    case EMQ_E_BUSY:
    case EMQ_E_NOMEM: break;
    default: /* every other failure is about this act */
        if (r->doubt && ++r->refused < DOUBT_REFUSALS_MAX)
            break;
        if (r->doubt)
            forget_doubt(w);
        hard_failure(w, err);
        return;
    }
    emq__pump_trouble(w, r->q->name, r->n > 0 ? "storing outcomes" : "taking jobs", err);
    back_off(w);
    r->tries++;
    for (struct emq__slot *s = r->slots; s; s = s->next)
        s->tries++;
    if (!r->doubt)
        round_put_back(w);
}

/* ---- the act ----------------------------------------------------------------------------- */

struct act {
    struct emq__settle_entry *entries;
    const struct emq__settle_entry **pointers;
    struct emq__take take;
    struct emq__taken taken;
    struct emq__settled *settled;
    int64_t now_ms;
};

static emq_status act_build(emq_worker *w, struct act *a, struct emq__arena *mem, emq_error *err)
{
    struct emq__round *r = &w->pump.round;
    size_t n = (size_t)r->n;

    a->take = (struct emq__take){
        .worker = w->cfg.name, .lock_ms = w->cfg.lock_ms, .count = r->want, .mode = w->cfg.mode};
    if (n == 0)
        return EMQ_OK;
    a->entries = emq__arena_zalloc(mem, n, sizeof *a->entries);
    a->pointers = emq__arena_zalloc(mem, n, sizeof *a->pointers);
    if (!a->entries || !a->pointers)
        return emq__fail(err, EMQ_E_NOMEM, 0, "worker", "%zu outcomes", n);
    size_t i = 0;
    for (struct emq__slot *s = r->slots; s; s = s->next, i++) {
        emq__verdict_entry(w, s, mem, &a->entries[i]);
        a->pointers[i] = &a->entries[i];
    }
    return EMQ_OK;
}

static emq_status act_send(emq_worker *w, struct act *a, struct emq__arena *mem, emq_error *err)
{
    struct emq__pump *p = &w->pump;
    struct emq__round *r = &p->round;
    struct emq__call call = {.session = emq_cstr(p->session), .seq = p->seq + 1};

    if (r->n == 0) {
        struct emq__take_req req = {call, w->c->prefix, r->q->name, a->take};
        struct emq__take_res res;
        emq_status s = w->e->ops->take(w->e, &req, &res, mem, err);
        if (!emq__is_failure(s)) {
            a->taken = res.taken;
            a->now_ms = res.now_ms;
        }
        return s;
    }
    /* No take from a stop on, on any path. A stored answer does not look at the request. */
    bool next = r->want > 0 && !emq__stopping(w);
    struct emq__settle_req req = {call,        w->c->prefix, r->q->name,
                                  a->pointers, (size_t)r->n, next ? &a->take : NULL};
    struct emq__settle_res res;
    emq_status s = w->e->ops->settle(w->e, &req, &res, mem, err);
    if (!emq__is_failure(s)) {
        a->settled = res.settled;
        a->taken = res.taken;
        a->now_ms = res.now_ms;
        if (!next && res.taken.n == 0)
            r->want = 0;
    }
    return s;
}

static int32_t act_apply(emq_worker *w, struct act *a, uint64_t ticket, int64_t sent_us)
{
    struct emq__pump *p = &w->pump;
    struct emq__round r = p->round;
    int64_t now = emq__mono_now().us;
    int32_t got = 0;

    p->round = (struct emq__round){0};
    p->seq++;
    p->failures = 0;
    p->told = 0;
    if (r.n > 0 || a->taken.n > 0) /* a look that finds nothing writes nothing */
        p->refused_since_us = 0;
    p->now_ms = a->now_ms;
    p->act_us += ((double)(now - sent_us) - p->act_us) / 16;
    r.q->cap = r.q->cap < EMQ__BATCH_MAX / 2 ? r.q->cap * 2 : EMQ__BATCH_MAX;
    if (r.n > 0)
        emq__point(&w->points, EMQ__P4);
    if (r.want > 0) {
        got = taken_apply(w, &r, &a->taken, a->now_ms);
        emq__queue_took(w, r.q, r.want, ticket, &a->taken, a->now_ms, now);
    }
    size_t i = 0;
    for (struct emq__slot *s = r.slots, *next; s; s = next, i++) {
        next = s->next;
        if (r.doubt)
            note_doubt(s, "settle");
        settled_apply(w, s, &a->entries[i], &a->settled[i]);
    }
    if (r.n > 0)
        emq__point(&w->points, EMQ__P5);
    if (r.doubt && r.want > 0)
        emq__adopt_after_doubt(w, r.began_at_ms);
    return got;
}

int32_t emq__round_run(emq_worker *w)
{
    struct emq__round *r = &w->pump.round;
    struct emq__arena mem = {0};
    struct act a = {0};
    emq_error err = {0};
    int32_t got = 0;

    /* A take alone that has not gone out yet is not sent after a stop. */
    if (r->n == 0 && !r->doubt && emq__stopping(w)) {
        *r = (struct emq__round){0};
        return 0;
    }
    uint64_t ticket = w->e->ops->ticket(w->e, w->c->prefix, &r->q->name, 1);
    int64_t sent_us = emq__mono_now().us;
    bool takes = r->want > 0;
    emq_status s = act_build(w, &a, &mem, &err);
    if (r->sent_us == 0) {
        r->sent_us = sent_us;
        r->began_at_ms = w->pump.now_ms;
    }
    if (takes)
        emq__point(&w->points, EMQ__P0);
    if (s == EMQ_OK)
        s = act_send(w, &a, &mem, &err);
    if (emq__is_failure(s)) {
        if (err.status == 0)
            err.status = s;
        round_failed(w, s, &err);
    } else {
        got = act_apply(w, &a, ticket, sent_us);
    }
    if (takes && emq__is_failure(s))
        atomic_fetch_add(&w->count.takes_failed, 1);
    if (takes)
        atomic_fetch_add(&w->count.takes, 1);
    emq__arena_free(&mem);
    return got;
}

void emq__round_abandon(emq_worker *w)
{
    round_put_back(w);
}
