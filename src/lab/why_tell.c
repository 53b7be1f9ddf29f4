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
    else
        text = emq__arena_printf(w->mem, "attempt %d: taken; by whom is not known any more",
                                 h->attempt);
    return entry_add(w, h->at_ms, "taken", h->worker, h->attempt, text);
}

static bool say_history(struct why *w, const struct emq__trail *t)
{
    static const char *const whats[] = {"refused",  "recovered", "retried",
                                        "released", "admin",     "note"};
    const struct emq__handout *h =
        is(t, "admin") || is(t, "note") ? NULL : emq__handout_of(w, t->who);
    int32_t n = h ? h->attempt : 0;
    const char *what = "note";
    emq_str text;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(whats); i++)
        if (is(t, whats[i]))
            what = whats[i];
    if (is(t, "refused"))
        text = emq__arena_printf(
            w->mem,
            "attempt %d: %.*s came too late and was refused: another owns the job "
            "or it has ended",
            n, EMQ_STR_ARG(t->detail));
    else if (is(t, "recovered"))
        text = emq__arena_printf(w->mem,
                                 "attempt %d: its lock had ended; a sweep took the job back", n);
    else if (is(t, "retried"))
        text = emq__arena_printf(w->mem, "attempt %d: failed, to be tried again: %.*s", n,
                                 EMQ_STR_ARG(t->detail));
    else if (is(t, "released"))
        text = emq__arena_printf(w->mem, "attempt %d: given back, not charged", n);
    else if (is(t, "admin"))
        text =
            emq__arena_printf(w->mem, "%.*s by %.*s", EMQ_STR_ARG(t->detail), EMQ_STR_ARG(t->who));
    else
        text = emq__arena_printf(w->mem, "%.*s says: %.*s", EMQ_STR_ARG(t->who),
                                 EMQ_STR_ARG(t->detail));
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

/* The history tells better what these events tell too. */
static bool told_by_history(const struct why *w, const struct emq__trail *t)
{
    enum { NEAR_MS = 100 };

    if (!(is(t, "stalled") || (is(t, "waiting") && emq__str_is(t->prev, "active"))))
        return false;
    for (size_t i = 0; i < w->trails.n; i++) {
        const struct emq__trail *h = &w->trails.list[i];
        if (!h->event && (is(h, "recovered") || is(h, "retried") || is(h, "released")) &&
            h->at_ms - t->at_ms < NEAR_MS && t->at_ms - h->at_ms < NEAR_MS)
            return true;
    }
    return false;
}

/* Insertion keeps the order of what happened in one millisecond. */
static void sort_entries(struct emq__why_entry *e, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct emq__why_entry x = e[i];
        size_t k = i;
        for (; k > 0 && e[k - 1].at_ms > x.at_ms; k--)
            e[k] = e[k - 1];
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
        } else if (!told_by_history(w, t)) {
            ok = say_event(w, t);
        }
    }
    if (ok && !added && out->job)
        ok = say_added(w, NULL);
    for (size_t i = 0; ok && i < w->trails.n; i++)
        if (!w->trails.list[i].event)
            ok = say_history(w, &w->trails.list[i]);
    for (size_t i = 0; ok && i < out->n_handouts; i++)
        if (!out->handouts[i].event)
            ok = say_handout(w, &out->handouts[i]);
    if (!ok)
        return emq__no_memory("why", w->err);
    sort_entries(out->entries, out->n);
    return EMQ_OK;
}
