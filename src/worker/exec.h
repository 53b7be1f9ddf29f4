/* SPDX-License-Identifier: MIT
 *
 * Programs as handlers: what the worker needs from exec, and nothing about how it is done.
 *
 * The worker opens one emq__exec, calls run from its slot threads (at most `concurrency` at once, each
 * with its own index), and lease from the keeper's thread. The invariant asked for: no process of a
 * job is alive after the job's safe point, also when this process is stopped or killed.
 */
#ifndef EMQ_WORKER_EXEC_H
#define EMQ_WORKER_EXEC_H

#include "worker/slot.h"

struct emq__exec;

struct emq__exec_config {
    const char *const *argv;     /* NULL-terminated; borrowed for open only */
    emq_str url, prefix, worker; /* for the child's environment; outlive the exec */
    int32_t concurrency;         /* indexes 0..concurrency-1 */
    bool stream;                 /* one child per index is kept and fed JSON lines */
    struct emq__log log;
};

enum emq__exec_kind {
    EMQ__EXEC_DONE = 1,
    EMQ__EXEC_RETRY,     /* this attempt failed; the job's policy decides */
    EMQ__EXEC_FAIL,      /* failed for good */
    EMQ__EXEC_GIVE_BACK, /* not now, nothing charged */
    EMQ__EXEC_STALLED,   /* killed by a signal that was not ours: counted as a stall */
    EMQ__EXEC_STOPPED,   /* killed by us: emq__slot_cancelled() says why and decides what follows */
    EMQ__EXEC_UNSTARTABLE /* the command can't be started: given back uncharged, the worker ends */
};

/* Of files, each a text of its own. */
struct emq__texts {
    const emq_str *list;
    size_t n; /* 0 = nothing */
};

struct emq__exec_result {
    enum emq__exec_kind kind;
    emq_str result; /* DONE; ptr NULL = none (null) */
    struct emq__texts sql,
        commands;           /* DONE: what is to be done together with its acknowledgement */
    emq_str reason;         /* RETRY, FAIL, STALLED, UNSTARTABLE */
    emq_str stack;          /* appended as a stack trace; empty = none */
    int64_t retry_after_ms; /* GIVE_BACK, RETRY; -1 = by the job's backoff */
    int32_t exit_status;    /* of the program; 128 + n for signal n; -1 = it did not run */
    struct emq__arena mem;  /* owns the strings; {0} before run, freed by the caller */
};

/* Checks that the command can be started and starts what must be alive before the first job.
 * Called before the worker has threads. E_INVALID (names the command), E_NOMEM, E_SYSTEM. */
emq_status emq__exec_open(struct emq__exec **out, const struct emq__exec_config *cfg,
                          emq_error *err);

/* Runs one job; blocks in the slot's thread until its processes have ended. Ends them (TERM, then
 * KILL, to the process group) when emq__slot_cancelled() is not 0; at once with KILL at the safe
 * point. EMQ_OK with *out filled in; a failure (E_NOMEM, E_SYSTEM) gives the job back. */
emq_status emq__exec_run(struct emq__exec *x, struct emq__slot *s, struct emq__exec_result *out,
                         emq_error *err);

/* The lock of the job that index runs has been renewed: it is safe until then. May be called when
 * nothing runs at index, or when another job has begun there: `fence` tells. Must not block. */
void emq__exec_lease(struct emq__exec *x, int index, int64_t fence, struct emq__mono safe_until);

/* No run is under way. Ends kept children. NULL is allowed. */
void emq__exec_close(struct emq__exec *x);

#endif
