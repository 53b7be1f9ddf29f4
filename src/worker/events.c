/* SPDX-License-Identifier: MIT
 *
 * Counters and the user's callback. One callback at a time, under event_mu alone, so that it may call
 * any function of the worker but join and free.
 */
#include "worker/runtime.h"

#include "base/str.h"

static void count(emq_worker *w, emq_event_kind kind)
{
    switch (kind) {
    case EMQ_EVENT_COMPLETED: atomic_fetch_add(&w->count.completed, 1); break;
    case EMQ_EVENT_FAILED: atomic_fetch_add(&w->count.failed, 1); break;
    case EMQ_EVENT_RETRIED: atomic_fetch_add(&w->count.retried, 1); break;
    case EMQ_EVENT_GIVEN_BACK: atomic_fetch_add(&w->count.given_back, 1); break;
    case EMQ_EVENT_LOST: atomic_fetch_add(&w->count.lost, 1); break;
    case EMQ_EVENT_RECOVERED: atomic_fetch_add(&w->count.recovered, 1); break;
    case EMQ_EVENT_ERROR: atomic_fetch_add(&w->count.errors, 1); break;
    case EMQ_EVENT_STARTED: /* counted where its phase changes */
    case EMQ_EVENT_READY:
    case EMQ_EVENT_FINISHED: break;
    }
}

/* What has a listener is told to it alone, so that nobody is told twice. */
static void log_unheard(emq_worker *w, const emq_event *ev)
{
    const struct emq__log *log = &w->c->log;
    emq_str name = w->cfg.name;

    if (ev->kind == EMQ_EVENT_ERROR)
        emq__log_write(log, EMQ_LOG_ERROR, "worker %.*s: %.*s%s%.*s", EMQ_STR_ARG(name),
                       EMQ_STR_ARG(ev->queue), ev->queue.len ? ": " : "", EMQ_STR_ARG(ev->text));
    else if (ev->kind == EMQ_EVENT_LOST)
        emq__log_write(
            log, EMQ_LOG_WARN, "worker %.*s: %.*s: job %.*s: its outcome was refused: %.*s",
            EMQ_STR_ARG(name), EMQ_STR_ARG(ev->queue), EMQ_STR_ARG(ev->id), EMQ_STR_ARG(ev->text));
    else if (ev->kind == EMQ_EVENT_FINISHED)
        emq__log_write(log, EMQ_LOG_INFO, "worker %.*s: %.*s", EMQ_STR_ARG(name),
                       EMQ_STR_ARG(ev->text));
}

static void say(emq_worker *w, const emq_event *ev)
{
    count(w, (emq_event_kind)ev->kind);
    if (!w->cfg.on_event) {
        log_unheard(w, ev);
        return;
    }
    pthread_mutex_lock(&w->event_mu);
    w->cfg.on_event(ev, w->cfg.user);
    pthread_mutex_unlock(&w->event_mu);
}

void emq__event(emq_worker *w, emq_event_kind kind, struct emq__slot *s, emq_str text)
{
    emq_event ev = {
        .size = sizeof ev,
        .kind = (int32_t)kind,
        .attempt = s->job->rec.attempts_made + 1,
        .queue = s->job->rec.queue,
        .id = s->job->rec.id,
        .text = text,
        .job = s->job,
    };
    say(w, &ev);
}

void emq__event_queue(emq_worker *w, emq_event_kind kind, emq_str queue, emq_str id, emq_str text)
{
    emq_event ev = {
        .size = sizeof ev, .kind = (int32_t)kind, .queue = queue, .id = id, .text = text};

    say(w, &ev);
}

void emq__event_error(emq_worker *w, emq_str queue, const char *doing, const emq_error *err)
{
    char text[400];
    /* "An argument" of our own call says nothing to who reads this. */
    bool ours = err->cls == EMQ_CLASS_CALLER;
    int n = snprintf(text, sizeof text, "%s%s%s: %s", doing, ours ? "" : ": ",
                     ours ? "" : emq_status_text((emq_status)err->status), err->text);

    emq__event_queue(w, EMQ_EVENT_ERROR, queue, (emq_str){0},
                     emq_strn(text, n < 0                     ? 0
                                    : (size_t)n < sizeof text ? (size_t)n
                                                              : sizeof text - 1));
}
