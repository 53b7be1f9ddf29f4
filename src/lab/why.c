/* SPDX-License-Identifier: MIT
 *
 * The life of one job. Hand-outs are known by the event `active` and by tokens: the fence that ends a token
 * is about the store's microsecond of the hand-out, so both tell of the same one when they are close.
 */
#include "lab/why_read.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

const char *emq__handout_end_name(enum emq__handout_end end)
{
    static const char *const names[] = {"unknown", "running",  "completed", "failed",
                                        "retried", "released", "killed",    "lost"};

    return names[end];
}

/* ---- hand-outs --------------------------------------------------------------------------- */

/* "worker:fence". */
static bool token_split(emq_str token, emq_str *worker, int64_t *fence)
{
    size_t at = token.len;

    while (at > 0 && token.ptr[at - 1] != ':')
        at--;
    if (at < 2 || !emq__str_to_i64(emq_strn(token.ptr + at, token.len - at), fence) || *fence <= 0)
        return false;
    *worker = emq_strn(token.ptr, at - 1);
    return true;
}

/* Host and pid of a worker's name "host:pid:n"; other names tell neither. */
static void worker_split(struct emq__handout *h)
{
    emq_str rest;
    int64_t n;

    if (token_split(h->worker, &rest, &n) && token_split(rest, &h->host, &h->pid))
        return;
    h->host = EMQ_STR_LIT("");
    h->pid = 0;
}

static void note_worker(struct emq__handout *h, emq_str worker, int64_t fence)
{
    h->worker = worker;
    h->fence = fence;
    worker_split(h);
}

static void note_guest(struct emq__handout *h, emq_str worker)
{
    h->worker = worker;
    h->guest = true;
}

/* The hand-out that began at this time and whose worker is not known yet; NULL: there is none. */
static struct emq__handout *handout_near(struct why *w, int64_t at_ms)
{
    struct emq__why *out = w->out;
    struct emq__handout *best = NULL;
    int64_t best_ms = EMQ__SAME_ACT_MS;

    for (size_t i = 0; i < out->n_handouts; i++) {
        struct emq__handout *h = &out->handouts[i];
        int64_t ms = h->at_ms > at_ms ? h->at_ms - at_ms : at_ms - h->at_ms;
        if (h->worker.len == 0 && !h->guest && ms < best_ms) {
            best = h;
            best_ms = ms;
        }
    }
    return best;
}

/* The same, or a new one. */
static struct emq__handout *handout_at(struct why *w, int64_t at_ms)
{
    struct emq__handout *h = handout_near(w, at_ms);

    if (!h) {
        h = &w->out->handouts[w->out->n_handouts++];
        *h = (struct emq__handout){.at_ms = at_ms};
    }
    return h;
}

static struct emq__handout *handout_of_fence(const struct why *w, int64_t fence)
{
    for (size_t i = 0; i < w->out->n_handouts; i++)
        if (w->out->handouts[i].fence == fence)
            return &w->out->handouts[i];
    return NULL;
}

struct emq__handout *emq__handout_of(const struct why *w, const struct emq__trail *t)
{
    struct emq__handout *found = NULL;
    emq_str worker;
    int64_t fence;

    if (is(t, "admin") || is(t, "note"))
        return NULL;
    if (token_split(t->who, &worker, &fence))
        return handout_of_fence(w, fence);
    if (is(t, "refused"))
        return NULL;
    for (size_t i = 0; i < w->out->n_handouts && w->out->handouts[i].at_ms <= t->at_ms; i++)
        if (w->out->handouts[i].fence == 0)
            found = &w->out->handouts[i];
    return found;
}

static int by_begin(const void *a, const void *b)
{
    const struct emq__handout *x = a, *y = b;

    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    if (x->event && y->event)
        return (x->event > y->event) - (x->event < y->event);
    return (x->fence > y->fence) - (x->fence < y->fence);
}

static emq_status find_handouts(struct why *w)
{
    struct emq__why *out = w->out;
    const struct emq__job *j = out->job;
    emq_str worker;
    int64_t fence;

    out->handouts = emq__arena_zalloc(w->mem, w->trails.n + 2, sizeof *out->handouts);
    if (!out->handouts)
        return emq__no_memory("why", w->err);
    for (size_t i = 0; i < w->trails.n; i++)
        if (w->trails.list[i].event && is(&w->trails.list[i], "active"))
            out->handouts[out->n_handouts++] =
                (struct emq__handout){.at_ms = w->trails.list[i].at_ms, .event = i + 1};
    for (size_t i = 0; i < w->trails.n; i++) {
        const struct emq__trail *t = &w->trails.list[i];
        if (t->event || !token_split(t->who, &worker, &fence) || is(t, "admin") || is(t, "note") ||
            handout_of_fence(w, fence))
            continue;
        /* What was refused may have come with any token: it makes no hand-out known. */
        struct emq__handout *h =
            is(t, "refused") ? handout_near(w, fence / 1000) : handout_at(w, fence / 1000);
        if (h)
            note_worker(h, worker, fence);
    }
    /* A hand-out by BullMQ after one of ours leaves that one's token in the record. */
    bool lock_of_guest = j && j->foreign && j->state == EMQ_ACTIVE;
    if (j && !lock_of_guest && token_split(j->token, &worker, &fence) &&
        !handout_of_fence(w, fence))
        note_worker(handout_at(w, fence / 1000), worker, fence);
    if (j && j->foreign && j->processed_at_ms > 0)
        note_guest(handout_at(w, j->processed_at_ms), j->processed_by);
    if (out->n_handouts > 1)
        qsort(out->handouts, out->n_handouts, sizeof *out->handouts, by_begin);
    /* Earlier ones that nothing tells of any more have had their numbers. */
    int32_t first = 1;
    if (j && !out->begins && j->attempts_started > (int64_t)out->n_handouts)
        first += j->attempts_started - (int32_t)out->n_handouts;
    for (size_t i = 0; i < out->n_handouts; i++)
        out->handouts[i].attempt = first + (int32_t)i;
    return EMQ_OK;
}

/* ---- how they ended ---------------------------------------------------------------------- */

static bool failed_by_sweep(emq_str reason)
{
    return emq__str_is(reason, EMQ__TEXT_STALLED) || emq__str_is(reason, EMQ__TEXT_AT_MOST_ONCE);
}

/* As which end a line of the history counts; EMQ__END_UNKNOWN: it is of none. */
static enum emq__handout_end end_named(const struct emq__trail *t)
{
    if (is(t, "recovered"))
        return emq__str_is(t->detail, EMQ__TEXT_LOCK_ENDED) ? EMQ__END_LOST : EMQ__END_KILLED;
    if (is(t, "failed"))
        return failed_by_sweep(t->detail) ? EMQ__END_LOST : EMQ__END_FAILED;
    return is(t, "retried")     ? EMQ__END_RETRIED
           : is(t, "released")  ? EMQ__END_RELEASED
           : is(t, "completed") ? EMQ__END_COMPLETED
                                : EMQ__END_UNKNOWN;
}

static void end_by_history(struct why *w, struct emq__trail *t)
{
    struct emq__handout *h = emq__handout_of(w, t);
    enum emq__handout_end end = end_named(t);
    static const char word[] = "renewals had stopped for ";

    if (h && is(t, "refused")) {
        if (!h->refused_at_ms)
            h->refused_at_ms = t->at_ms;
    } else if (h && end != EMQ__END_UNKNOWN && h->end == EMQ__END_UNKNOWN) {
        h->end = end;
        h->ended_at_ms = t->at_ms;
        h->reason = end == EMQ__END_LOST && is(t, "recovered") ? EMQ_STR_LIT("") : t->detail;
    } else if (is(t, "note") && emq__str_starts(t->detail, word)) {
        /* By the worker's name: of its last hand-out before that came too late. */
        for (size_t i = w->out->n_handouts; i-- > 0;) {
            h = &w->out->handouts[i];
            if (emq__str_eq(h->worker, t->who) && h->at_ms <= t->at_ms && !h->stopped.len) {
                h->stopped =
                    emq_strn(t->detail.ptr + sizeof word - 1, t->detail.len - (sizeof word - 1));
                return;
            }
        }
    }
}

static void end_by_event(struct emq__handout *h, const struct emq__trail *t)
{
    if (is(t, "stalled"))
        h->end = EMQ__END_LOST;
    else if (is(t, "completed"))
        h->end = EMQ__END_COMPLETED;
    else if (is(t, "failed"))
        h->end = failed_by_sweep(t->detail) ? EMQ__END_LOST
                 : h->end == EMQ__END_LOST  ? EMQ__END_KILLED
                                            : EMQ__END_FAILED;
    else if (h->end == EMQ__END_UNKNOWN && (is(t, "delayed") || is(t, "waiting")))
        h->end = EMQ__END_RETRIED;
    else
        return;
    h->ended_at_ms = t->at_ms;
    if (is(t, "failed"))
        h->reason = t->detail;
}

/* Its events until the next hand-out begins: by their places, since much may happen in a millisecond. */
static void end_by_events(struct why *w, size_t i)
{
    struct emq__handout *h = &w->out->handouts[i];
    const struct emq__handout *next = i + 1 < w->out->n_handouts ? h + 1 : NULL;
    size_t to = next && next->event ? next->event - 1 : w->trails.n;
    bool known = h->end != EMQ__END_UNKNOWN;

    for (size_t k = h->event; !known && k < to; k++) {
        const struct emq__trail *t = &w->trails.list[k];
        if (t->event && t->at_ms >= h->at_ms && (!next || t->at_ms <= next->at_ms) &&
            !is(t, "active"))
            end_by_event(h, t);
    }
}

static emq_str first_line(emq_str text)
{
    const char *end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    emq_str line = end ? emq_strn(text.ptr, (size_t)(end - text.ptr)) : text;

    return emq__str_starts(line, "Error: ") ? emq_strn(line.ptr + 7, line.len - 7) : line;
}

/* Why attempts of BullMQ's workers failed: the event of a retry does not tell it, but the record keeps a trace
 * of each failure, and the last ones are the last attempts'. */
static void reasons_of_guests(struct why *w)
{
    struct emq__why *out = w->out;
    emq_str text = out->job ? out->job->failed_reason : EMQ_STR_LIT(""), key;
    struct emq__json all = {0}, v;
    size_t n = 0, at = 0;

    if (out->job && out->job->stacktrace.len && emq__json_valid(out->job->stacktrace, NULL))
        all = emq__json_root(out->job->stacktrace);
    while (all.type == EMQ__JSON_ARRAY && emq__json_next(all, &at, &key, &v))
        n++;
    for (size_t i = out->n_handouts; i-- > 0;) {
        struct emq__handout *h = &out->handouts[i];
        if (h->end != EMQ__END_RETRIED && h->end != EMQ__END_FAILED)
            continue;
        at = 0;
        for (size_t k = 0; k < n; k++)
            (void)emq__json_next(all, &at, &key, &v);
        if (n > 0 && emq__json_str(v, w->mem, &text))
            text = first_line(text);
        if (h->reason.len == 0)
            h->reason = emq__detail(text);
        else if (n == 0 || !emq__str_eq(emq__detail(text), h->reason))
            continue; /* ours, which left no trace */
        n -= n > 0;
        text = EMQ_STR_LIT("");
    }
}

static void find_ends(struct why *w)
{
    struct emq__why *out = w->out;
    const struct emq__job *j = out->job;

    for (size_t i = 0; i < w->trails.n; i++)
        if (!w->trails.list[i].event)
            end_by_history(w, &w->trails.list[i]);
    for (size_t i = 0; i < out->n_handouts; i++)
        end_by_events(w, i);
    reasons_of_guests(w);
    if (!j || out->n_handouts == 0)
        return;
    struct emq__handout *last = &out->handouts[out->n_handouts - 1];
    if (j->state == EMQ_ACTIVE && last->at_ms >= j->processed_at_ms - EMQ__SAME_ACT_MS) {
        last->end = EMQ__END_RUNNING;
        last->ended_at_ms = 0;
    } else if (last->end == EMQ__END_UNKNOWN && j->finished_at_ms >= last->at_ms) {
        last->end = j->state == EMQ_COMPLETED_STATE     ? EMQ__END_COMPLETED
                    : j->state != EMQ_FAILED_STATE      ? EMQ__END_UNKNOWN
                    : failed_by_sweep(j->failed_reason) ? EMQ__END_LOST
                                                        : EMQ__END_FAILED;
        last->ended_at_ms = j->finished_at_ms;
        last->reason =
            j->state == EMQ_FAILED_STATE ? emq__detail(j->failed_reason) : EMQ_STR_LIT("");
    }
}

/* ---- why more than once -------------------------------------------------------------------- */

static const struct emq__trail *asked_again(const struct why *w, const struct emq__handout *before,
                                            const struct emq__handout *next)
{
    for (size_t i = 0; i < w->trails.n; i++) {
        const struct emq__trail *t = &w->trails.list[i];
        if (!t->event && is(t, "admin") && emq__str_starts(t->detail, "retry") &&
            t->at_ms >= before->at_ms && t->at_ms <= next->at_ms)
            return t;
    }
    return NULL;
}

static emq_str because_lost(struct why *w, const struct emq__handout *p, int32_t n)
{
    if (p->stopped.len)
        return emq__arena_printf(
            w->mem,
            "attempt %d began because renewals stopped for %.*s: the process was "
            "frozen, or cut off from the store",
            n, EMQ_STR_ARG(p->stopped));
    if (p->refused_at_ms)
        return emq__arena_printf(
            w->mem,
            "attempt %d began because the lock of attempt %d ended unrenewed; its "
            "worker came back: it was frozen or lost the store",
            n, p->attempt);
    return emq__arena_printf(
        w->mem,
        "attempt %d began because the lock of attempt %d ended unrenewed: its worker "
        "died or lost the store",
        n, p->attempt);
}

/* A lost one that has a reason ended its job: nothing took it back. */
static emq_str because_asked(struct why *w, const struct emq__handout *p, int32_t n, emq_str who)
{
    bool failed = p->end == EMQ__END_LOST && p->reason.len;

    return emq__arena_printf(
        w->mem, "attempt %d began because %.*s asked for it after attempt %d had ended (%s%.*s)", n,
        EMQ_STR_ARG(who), p->attempt, failed ? "failed for good: " : emq__handout_end_name(p->end),
        failed ? (int)p->reason.len : 0, failed ? p->reason.ptr : "");
}

static emq_str because(struct why *w, const struct emq__handout *p, const struct emq__handout *h)
{
    const struct emq__trail *again = asked_again(w, p, h);

    if (p->end == EMQ__END_RETRIED || p->end == EMQ__END_RELEASED)
        return emq__arena_printf(w->mem, "attempt %d began because attempt %d %s%s%.*s", h->attempt,
                                 p->attempt,
                                 p->end == EMQ__END_RETRIED ? "failed" : "was given back",
                                 p->reason.len ? ": " : "", EMQ_STR_ARG(p->reason));
    if (p->end == EMQ__END_KILLED)
        return emq__arena_printf(w->mem, "attempt %d began because attempt %d broke off: %.*s",
                                 h->attempt, p->attempt, EMQ_STR_ARG(p->reason));
    if (again)
        return because_asked(w, p, h->attempt, again->who);
    if (p->end == EMQ__END_LOST)
        return because_lost(w, p, h->attempt);
    if (p->end == EMQ__END_COMPLETED || p->end == EMQ__END_FAILED)
        return emq__arena_printf(
            w->mem,
            "attempt %d began because the job was put back into its line after "
            "attempt %d had ended (%s)",
            h->attempt, p->attempt, emq__handout_end_name(p->end));
    return emq__arena_printf(
        w->mem, "why attempt %d began is not known any more: the events are gone", h->attempt);
}

static emq_status find_reasons(struct why *w)
{
    struct emq__why *out = w->out;

    if (out->n_handouts < 2)
        return EMQ_OK;
    out->because = emq__arena_zalloc(w->mem, out->n_handouts - 1, sizeof *out->because);
    if (!out->because)
        return emq__no_memory("why", w->err);
    for (size_t i = 1; i < out->n_handouts; i++) {
        out->because[i - 1] = because(w, &out->handouts[i - 1], &out->handouts[i]);
        if (!out->because[i - 1].ptr)
            return emq__no_memory("why", w->err);
        out->n_because++;
    }
    return EMQ_OK;
}

emq_status emq__why(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                    struct emq__why *out, emq_error *err)
{
    struct why w = {.out = out, .mem = mem, .err = err};

    *out = (struct emq__why){0};
    emq_status s = emq__why_read(c, queue, id, mem, out, &w.trails, err);
    if (s != EMQ_OK)
        return s;
    if (!out->job && w.trails.n == 0)
        return EMQ_NOT_FOUND;
    s = find_handouts(&w);
    if (s != EMQ_OK)
        return s;
    find_ends(&w);
    for (size_t i = 0; i < out->n_handouts; i++)
        out->nameless += out->handouts[i].worker.len == 0;
    s = emq__why_tell(&w);
    return s == EMQ_OK ? find_reasons(&w) : s;
}
