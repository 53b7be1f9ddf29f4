/* SPDX-License-Identifier: MIT
 *
 * The line of a job's life: each entry as a sentence, in the order in which things happened.
 */
#include "lab/why_read.h"

#include "base/error.h"
#include "base/str.h"
#include "model/duration.h"

static const struct emq__handout *handout_of_event(const struct why *w, size_t event)
{
    const struct emq__handout *h = w->out->handouts;

    while (h->event != event)
        h++;
    return h;
}

static bool entry_add(struct why *w, int64_t at_ms, const char *what, emq_str who, int32_t attempt,
                      emq_str text)
{
    w->out->entries[w->out->n++] = (struct emq__why_entry){at_ms, what, who, text, attempt};
    return text.ptr != NULL;
}

static bool say_added(struct why *w, const struct emq__trail *t)
{
    const struct emq__job *j = w->out->job;
    int64_t at_ms = t ? t->at_ms : j->timestamp_at_ms;
    int64_t off = j && t ? j->timestamp_at_ms - t->at_ms : 0;
    struct emq__buf b;
    char span[40];

    emq__buf_init(&b, 4096);
    emq__buf_text(&b, "added");
    if (j && j->scheduler.len)
        emq__buf_printf(&b, " by the scheduler %.*s", EMQ_STR_ARG(j->scheduler));
    else if (j && j->parent_key.len)
        emq__buf_printf(&b, " as a child of %.*s", EMQ_STR_ARG(j->parent_key));
    if (j && j->dedup_id.len)
        emq__buf_printf(&b, " under the dedup id %.*s", EMQ_STR_ARG(j->dedup_id));
    if (off > EMQ__SAME_ACT_MS || off < -EMQ__SAME_ACT_MS)
        emq__buf_printf(&b,
                        "; its creation time is %s %s the store's: its producer gave it, or has "
                        "another clock",
                        emq__duration_format(off > 0 ? off : -off, span),
                        off > 0 ? "ahead of" : "behind");
    emq_str text = emq__arena_str(w->mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return entry_add(w, at_ms, "added", EMQ_STR_LIT(""), 0, text);
}

static bool say_handout(struct why *w, const struct emq__handout *h)
{
    emq_str text;

    if (h->pid)
        text = emq__arena_printf(
            w->mem, "attempt %d: taken by %.*s on host %.*s, process %lld, fence %lld", h->attempt,
            EMQ_STR_ARG(h->worker), EMQ_STR_ARG(h->host), (long long)h->pid, (long long)h->fence);
    else if (h->worker.len && h->fence)
        text = emq__arena_printf(w->mem, "attempt %d: taken by %.*s, fence %lld", h->attempt,
                                 EMQ_STR_ARG(h->worker), (long long)h->fence);
    else if (h->worker.len)
        text = emq__arena_printf(w->mem, "attempt %d: taken by %.*s, a worker of BullMQ",
                                 h->attempt, EMQ_STR_ARG(h->worker));
    else if (h->guest)
        text = emq__arena_printf(w->mem, "attempt %d: taken by a worker of BullMQ without a name",
                                 h->attempt);
    else
        text = emq__arena_printf(w->mem, "attempt %d: taken; by whom is not known any more",
                                 h->attempt);
    return entry_add(w, h->at_ms, "taken", h->worker, h->attempt, text);
}

/* The step that such a line begins with, and what stands behind it. */
static emq_str split_step(emq_str detail, emq_str *rest)
{
    const char *space = detail.len ? memchr(detail.ptr, ' ', detail.len) : NULL;
    size_t n = space ? (size_t)(space - detail.ptr) : detail.len;

    *rest = space ? emq_strn(space + 1, detail.len - n - 1) : EMQ_STR_LIT("");
    return emq_strn(detail.ptr, n);
}

/* An effect without a name is the only one of its job. */
static emq_str effect_named(struct why *w, emq_str key)
{
    return key.len ? emq__arena_printf(w->mem, "the effect %.*s", EMQ_STR_ARG(key))
                   : EMQ_STR_LIT("the effect of the job");
}

/* "effect settle KEY ANSWER" and "effect forget KEY", as an act on an effect names itself. */
static emq_str administered(struct why *w, const struct emq__trail *t)
{
    static const char settle[] = "effect settle ", forget[] = "effect forget ";
    size_t skip = sizeof settle - 1;
    emq_str d = t->detail;

    if (!emq__str_starts(d, settle) && !emq__str_starts(d, forget))
        return emq__arena_printf(w->mem, "%.*s by %.*s", EMQ_STR_ARG(d), EMQ_STR_ARG(t->who));
    emq_str answer, key = split_step(emq_strn(d.ptr + skip, d.len - skip), &answer);
    emq_str effect = effect_named(w, key);
    if (!effect.ptr)
        return effect;
    if (emq__str_starts(d, forget))
        return emq__arena_printf(w->mem, "%.*s was settled as not done by %.*s",
                                 EMQ_STR_ARG(effect), EMQ_STR_ARG(t->who));
    return emq__arena_printf(w->mem, "%.*s was settled as done by %.*s%s%.*s", EMQ_STR_ARG(effect),
                             EMQ_STR_ARG(t->who), answer.len ? ": " : "", EMQ_STR_ARG(answer));
}

/* An effect that an earlier hand-out had claimed and not ended. */
static emq_str of_doubt(struct why *w, const struct emq__trail *t)
{
    struct emq__trail claim = {.what = t->what};
    emq_str effect = effect_named(w, split_step(t->detail, &claim.who));
    const struct emq__handout *h = emq__handout_of(w, &claim);
    emq_str whose = h ? emq__arena_printf(w->mem, "attempt %d", h->attempt) : claim.who;

    if (!whose.ptr || !effect.ptr)
        return (emq_str){0};
    if (is(t, "doubt"))
        return emq__arena_printf(w->mem,
                                 "%.*s is in doubt: %.*s claimed it and did not say how it ended",
                                 EMQ_STR_ARG(effect), EMQ_STR_ARG(whose));
    return emq__arena_printf(w->mem, "took over %.*s, in doubt since %.*s, to %s",
                             EMQ_STR_ARG(effect), EMQ_STR_ARG(whose),
                             is(t, "redo") ? "do it again"
                                           : "record it as done without doing it again");
}

/* What follows "attempt 1: "; h is NULL when its hand-out is not known. */
static emq_str of_handout(struct why *w, const struct emq__trail *t, const struct emq__handout *h)
{
    static const struct {
        const char *what, *text; /* and ": ", the line's detail if it has one */
    } ends[] = {
        {"retried", "failed, to be tried again"},      {"failed", "failed for good"},
        {"released", "given back, not charged"},       {"completed", "completed"},
        {"recovered", "broke off, the job went back"},
    };
    size_t i = 0;

    if (is(t, "doubt") || is(t, "redo") || is(t, "settled"))
        return of_doubt(w, t);
    if (is(t, "claimed") || is(t, "done")) {
        emq_str effect = effect_named(w, t->detail);
        bool done = is(t, "done");
        return effect.ptr
                   ? emq__arena_printf(w->mem, "%s%.*s%s", done ? "" : "claimed ",
                                       EMQ_STR_ARG(effect), done ? " is recorded as done" : "")
                   : effect;
    }
    if (is(t, "refused") && !h)
        return emq__arena_printf(w->mem,
                                 "%.*s with the token %.*s was refused: no hand-out that is known "
                                 "had this token",
                                 EMQ_STR_ARG(t->detail), EMQ_STR_ARG(t->who));
    if (is(t, "refused"))
        return emq__arena_printf(w->mem,
                                 "%.*s came too late and was refused: the job was not this "
                                 "hand-out's any more",
                                 EMQ_STR_ARG(t->detail));
    if (is(t, "recovered") && emq__str_is(t->detail, EMQ__TEXT_LOCK_ENDED))
        return EMQ_STR_LIT("its lock had ended; a sweep took the job back");
    while (i + 1 < EMQ_ARRAY_LEN(ends) && !is(t, ends[i].what))
        i++;
    return emq__arena_printf(w->mem, "%s%s%.*s", ends[i].text, t->detail.len ? ": " : "",
                             EMQ_STR_ARG(t->detail));
}

static bool say_history(struct why *w, const struct emq__trail *t)
{
    static const char *const whats[] = {"refused", "recovered", "retried", "released",
                                        "failed",  "completed", "claimed", "done",
                                        "doubt",   "redo",      "settled", "admin"};
    const struct emq__handout *h = emq__handout_of(w, t);
    int32_t n = h ? h->attempt : 0;
    const char *what = "note";
    emq_str text;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(whats); i++)
        if (is(t, whats[i]))
            what = whats[i];
    if (is(t, "admin"))
        text = administered(w, t);
    else if (emq__str_is(emq_cstr(what), "note"))
        text = emq__arena_printf(w->mem, "%.*s says: %.*s", EMQ_STR_ARG(t->who),
                                 EMQ_STR_ARG(t->detail));
    else
        text = of_handout(w, t, h);
    if (h && text.ptr)
        text = emq__arena_printf(w->mem, "attempt %d: %.*s", n, EMQ_STR_ARG(text));
    return entry_add(w, t->at_ms, what, t->who, n, text);
}

static bool say_event(struct why *w, const struct emq__trail *t)
{
    emq_str text;
    const char *what = emq__arena_str(w->mem, t->what).ptr;

    if (is(t, "failed"))
        text = emq__arena_printf(w->mem, "failed for good: %.*s", EMQ_STR_ARG(t->detail));
    else if (is(t, "delayed") && t->due_at_ms > t->at_ms) {
        char span[40];
        text = emq__arena_printf(w->mem, "delayed for %s",
                                 emq__duration_format(t->due_at_ms - t->at_ms, span));
    } else if (is(t, "stalled"))
        text = emq__arena_printf(w->mem, "its lock had ended (stalled)");
    else if (is(t, "deduplicated") || is(t, "debounced"))
        text = emq__arena_printf(w->mem, "an add under its dedup id %.*s was dropped",
                                 EMQ_STR_ARG(t->detail));
    else if (is(t, "duplicated"))
        text = emq__arena_printf(w->mem, "an add under its id was dropped");
    else if (t->prev.len)
        text =
            emq__arena_printf(w->mem, "%.*s, was %.*s", EMQ_STR_ARG(t->what), EMQ_STR_ARG(t->prev));
    else
        text = emq__arena_str(w->mem, t->what);
    return what && entry_add(w, t->at_ms, what, EMQ_STR_LIT(""), 0, text);
}

enum { NEAR_MS = 100 };

static bool near(const struct emq__trail *a, const struct emq__trail *b)
{
    return a->at_ms - b->at_ms < NEAR_MS && b->at_ms - a->at_ms < NEAR_MS;
}

/* Does another line tell this one too, and better? */
static bool told(const struct why *w, const struct emq__trail *t)
{
    bool back =
        t->event && (is(t, "stalled") || (is(t, "waiting") && emq__str_is(t->prev, "active")));
    bool end = !t->event && (is(t, "completed") || is(t, "failed"));
    bool claim = !t->event && is(t, "claimed");
    emq_str rest;

    for (size_t i = 0; (back || end || claim) && i < w->trails.n; i++) {
        const struct emq__trail *o = &w->trails.list[i];
        if ((back && !o->event && near(o, t) &&
             (is(o, "recovered") || is(o, "retried") || is(o, "released"))) ||
            (end && o->event && near(o, t) && emq__str_eq(o->what, t->what)) ||
            (claim && (is(o, "redo") || is(o, "settled")) && emq__str_eq(o->who, t->who) &&
             emq__str_eq(split_step(o->detail, &rest), t->detail)))
            return true;
    }
    return false;
}

static bool is_one_of(const struct emq__why_entry *e, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (emq__str_is(emq_cstr(e->what), names[i]))
            return true;
    return false;
}

/* In one millisecond: does x come before y, which was told first? */
static bool goes_before(const struct emq__why_entry *x, const struct emq__why_entry *y)
{
    static const char *const taken[] = {"taken"}, *const ends[] = {"completed", "failed"},
                             *const effects[] = {"claimed", "doubt", "redo", "settled", "done"};

    if (x->attempt == 0)
        return false;
    if (is_one_of(y, taken, 1))
        return y->attempt > x->attempt;
    return is_one_of(x, taken, 1)     ? y->attempt >= x->attempt
           : is_one_of(x, effects, 5) ? is_one_of(y, ends, 2)
                                      : false;
}

/* Insertion keeps the order of what happened in one millisecond, as far as the events tell it; what the history
 * tells of an attempt stands before the next one and before its end. */
static void sort_entries(struct emq__why_entry *e, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct emq__why_entry x = e[i];
        size_t k = i;
        while (k > 0 && e[k - 1].at_ms > x.at_ms)
            k--;
        for (size_t j = k; j > 0 && e[j - 1].at_ms == x.at_ms; j--)
            if (goes_before(&x, &e[j - 1]))
                k = j - 1;
        memmove(&e[k + 1], &e[k], (i - k) * sizeof *e);
        e[k] = x;
    }
}

emq_status emq__why_tell(struct why *w)
{
    struct emq__why *out = w->out;
    bool ok = true, added = false;

    out->entries =
        emq__arena_zalloc(w->mem, w->trails.n + out->n_handouts + 1, sizeof *out->entries);
    if (!out->entries)
        return emq__no_memory("why", w->err);
    for (size_t i = 0; ok && i < w->trails.n; i++) {
        const struct emq__trail *t = &w->trails.list[i];
        if (!t->event)
            continue;
        if (is(t, "active")) {
            ok = say_handout(w, handout_of_event(w, i + 1));
        } else if (is(t, "added")) {
            ok = say_added(w, t);
            added = true;
        } else if (!told(w, t)) {
            ok = say_event(w, t);
        }
    }
    if (ok && !added && out->job)
        ok = say_added(w, NULL);
    for (size_t i = 0; ok && i < w->trails.n; i++)
        if (!w->trails.list[i].event && !told(w, &w->trails.list[i]))
            ok = say_history(w, &w->trails.list[i]);
    for (size_t i = 0; ok && i < out->n_handouts; i++)
        if (!out->handouts[i].event)
            ok = say_handout(w, &out->handouts[i]);
    if (!ok)
        return emq__no_memory("why", w->err);
    sort_entries(out->entries, out->n);
    return EMQ_OK;
}
