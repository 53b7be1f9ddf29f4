/* SPDX-License-Identifier: MIT
 *
 * Notes for the history of jobs: what a worker knows and the store can't see. Any thread leaves them; the
 * housekeeping thread writes them. They are a comfort: without memory, or while the store fails for long, they
 * are dropped.
 */
#include "worker/runtime.h"

#include "base/error.h"

#include <stdarg.h>

enum { NOTES_MAX = 1000, NOTE_TEXT_MAX = 160 };

struct emq__note {
    struct emq__note *next;
    const struct emq__wqueue *q;
    char id[EMQ_ID_MAX];
    char text[NOTE_TEXT_MAX];
    size_t id_len;
};

void emq__note(const struct emq__slot *s, const char *fmt, ...)
{
    emq_worker *w = s->w;
    emq_str id = s->job->rec.id;
    struct emq__note *n = id.len <= sizeof n->id ? calloc(1, sizeof *n) : NULL;
    va_list args;

    if (!n)
        return;
    n->q = s->q;
    n->id_len = id.len;
    memcpy(n->id, id.ptr, id.len);
    va_start(args, fmt);
    (void)vsnprintf(n->text, sizeof n->text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&w->mu);
    bool room = w->n_notes < NOTES_MAX;
    if (room) {
        *w->notes_tail = n;
        w->notes_tail = &n->next;
        w->n_notes++;
    }
    pthread_mutex_unlock(&w->mu);
    if (room)
        emq__wake_ring(&w->house_wake);
    else
        free(n);
}

static struct emq__note *notes_take(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    struct emq__note *first = w->notes;
    w->notes = NULL;
    w->notes_tail = &w->notes;
    w->n_notes = 0;
    pthread_mutex_unlock(&w->mu);
    return first;
}

static emq_status note_write(emq_worker *w, const struct emq__note *n)
{
    struct emq__arena mem = {0};
    struct emq__write_req req = {
        .prefix = w->c->prefix,
        .queue = n->q->name,
        .id = emq_strn(n->id, n->id_len),
        .auth = {.admin = w->cfg.name},
        .kind = EMQ__WRITE_NOTE,
        .value = {EMQ__KIND_TEXT, emq_cstr(n->text)},
    };
    struct emq__write_res res;
    emq_error err;
    emq_status s = w->e->ops->write(w->e, &req, &res, &mem, &err);

    emq__arena_free(&mem);
    return s;
}

static void put_back(emq_worker *w, struct emq__note *first)
{
    struct emq__note *last = first;
    int32_t n = 1;

    for (; last->next; last = last->next)
        n++;
    pthread_mutex_lock(&w->mu);
    last->next = w->notes;
    if (!w->notes)
        w->notes_tail = &last->next;
    w->notes = first;
    w->n_notes += n;
    pthread_mutex_unlock(&w->mu);
}

void emq__notes_write(emq_worker *w)
{
    for (struct emq__note *n = notes_take(w), *next; n; n = next) {
        emq_status s = note_write(w, n);
        /* Not now: the next turn of the housekeeping tries again. In doubt: twice would be worse. */
        if (emq__is_failure(s) && s != EMQ_E_IN_DOUBT) {
            put_back(w, n);
            return;
        }
        next = n->next;
        free(n);
    }
}

void emq__notes_free(emq_worker *w)
{
    for (struct emq__note *n = notes_take(w), *next; n; n = next) {
        next = n->next;
        free(n);
    }
}
