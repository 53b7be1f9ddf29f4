/* SPDX-License-Identifier: MIT
 *
 * The life of one job, put together of its record, its history, its markers and the events that are left: what happened
 * in which order, each hand-out with its end, and why there was more than one. Also of jobs that BullMQ's
 * workers have touched: of those only the last hand-out names its worker.
 */
#ifndef EMQ_LAB_WHY_H
#define EMQ_LAB_WHY_H

#include "client/client.h"

enum emq__handout_end {
    EMQ__END_UNKNOWN = 0, /* what would tell is gone */
    EMQ__END_RUNNING,
    EMQ__END_COMPLETED,
    EMQ__END_FAILED, /* for good */
    EMQ__END_RETRIED,
    EMQ__END_RELEASED,
    EMQ__END_KILLED, /* it broke off: its program was killed by somebody else */
    EMQ__END_LOST    /* its lock ended, a sweep took the job back or failed it */
};
const char *emq__handout_end_name(enum emq__handout_end end);

struct emq__handout {
    int32_t attempt;      /* 1, 2, … */
    int64_t at_ms, fence; /* fence 0: by a worker of BullMQ, or by whom is not known */
    bool guest;           /* by a worker of BullMQ: the record says so */
    emq_str worker, host; /* empty = not known; host and pid of a name "host:pid:n" of ours */
    int64_t pid;
    enum emq__handout_end end;
    int64_t ended_at_ms;
    emq_str reason;        /* why it failed, was retried or given back */
    int64_t refused_at_ms; /* the first time that it came too late; 0 = never */
    emq_str stopped;       /* "41 s": its renewals had stopped for so long, by its own word */
    size_t event;          /* 1 + the place of its event among those read; 0 = it is gone */
};

struct emq__why_entry {
    int64_t at_ms;
    /* added, taken, recovered, retried, released, refused, claimed, doubt, redo, done, admin,
     * note, or an event */
    const char *what;
    emq_str who;     /* worker, token or administrator */
    emq_str text;    /* a line for people */
    int32_t attempt; /* 0 = of none */
};

struct emq__why {
    struct emq__job *job; /* NULL: it is gone, only events tell of it */
    int64_t now_ms, logs;
    struct emq__handout *handouts;
    size_t n_handouts;
    struct emq__why_entry *entries;
    size_t n;
    emq_str *because; /* a sentence for each hand-out after the first */
    size_t n_because;
    bool begins;     /* its add is among the events that are left */
    bool may_forget; /* its history is full: earlier entries may be gone */
    size_t nameless; /* hand-outs whose worker is not known */
};
static inline bool emq__why_whole(const struct emq__why *y)
{
    return y->begins && !y->may_forget && y->nameless == 0;
}

/* EMQ_NOT_FOUND: neither the job nor an event of it. Reads at most EMQ__WHY_EVENTS_MAX events; the arena
 * grows with the job's own entries only. */
enum { EMQ__WHY_EVENTS_MAX = 50000 };
emq_status emq__why(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                    struct emq__why *out, emq_error *err);

#endif
