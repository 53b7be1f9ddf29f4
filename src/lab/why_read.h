/* SPDX-License-Identifier: MIT
 *
 * Inside of `why`: what the store tells of a job, as it is read.
 */
#ifndef EMQ_LAB_WHY_READ_H
#define EMQ_LAB_WHY_READ_H

#include "base/str.h"
#include "lab/why.h"

/* An entry of the history, or an event. */
struct emq__trail {
    int64_t at_ms;
    emq_str what, who, detail;
    emq_str prev;      /* events: the state before */
    int64_t due_at_ms; /* event `delayed` */
    bool event;
    bool told; /* by another entry */
};
struct emq__trails {
    struct emq__trail *list;
    size_t n, cap;
};

/* EMQ_E_NOMEM, or EMQ_OK. */
emq_status emq__trail_add(struct emq__trails *t, struct emq__trail entry, struct emq__arena *mem,
                          emq_error *err);
struct why {
    struct emq__why *out;
    struct emq__trails trails;
    struct emq__arena *mem;
    emq_error *err;
};
static inline bool is(const struct emq__trail *t, const char *what)
{
    return emq__str_is(t->what, what);
}

/* Record, history, events, lines of the log. Events of a former job of this id are left out. */
emq_status emq__why_read(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                         struct emq__why *out, struct emq__trails *trails, emq_error *err);

/* The hand-out that a line of the history is of: its token's, or without one the last by a worker of BullMQ.
 * NULL: none, or none that is known. */
struct emq__handout *emq__handout_of(const struct why *w, const struct emq__trail *t);
/* Fills entries. */
emq_status emq__why_tell(struct why *w);

/* A fence and its event are written by one act; a group of acts may wait for the disk in between. */
enum { EMQ__SAME_ACT_MS = 2000 };

#endif
