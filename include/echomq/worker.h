/* SPDX-License-Identifier: MIT
 *
 * worker.h - the worker runtime: handlers as C callbacks or as programs.
 *
 * A worker takes jobs, keeps their locks alive from a thread of its own, runs handlers in
 * `concurrency` threads or child processes, settles what they return, and sweeps and promotes in
 * bounded slices. It takes only as many jobs as it has free slots.
 */
#ifndef ECHOMQ_WORKER_H
#define ECHOMQ_WORKER_H

#include <echomq/echomq.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct emq_worker emq_worker;

/* What a handler returns. */
typedef enum emq_verdict {
    EMQ_DONE = 0,     /* completed; the result is emq_job_set_result()'s, else null */
    EMQ_RETRY = 1,    /* this attempt failed: again by the job's backoff while attempts are left */
    EMQ_FAIL = 2,     /* failed for good */
    EMQ_GIVE_BACK = 3 /* not now: again after emq_job_set_retry_after(), nothing charged */
} emq_verdict;

/* Runs in a worker thread, without a lock held. `job` is lent until it returns. Handlers that take
 * long look at emq_job_cancelled() now and then. */
typedef emq_verdict (*emq_handler)(emq_job *job, void *user);

/* Why a handler should stop; 0 = go on. Any thread, no store access. */
typedef enum emq_cancel_reason {
    EMQ_GO_ON = 0,
    EMQ_CANCEL_LOCK_LOST = 1, /* another worker may have the job: its outcome will be refused */
    EMQ_CANCEL_TIMEOUT = 2,
    EMQ_CANCEL_SHUTDOWN = 3, /* the grace period is over: the job is given back */
    EMQ_CANCEL_USER = 4      /* emq_cancel(): ends failed with the reason "cancelled" */
} emq_cancel_reason;
ECHOMQ_API int emq_job_cancelled(const emq_job *job);
/* Asks the store: is this hand-out still the owner? EMQ_OK, EMQ_LOST, failures. One read. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_is_mine(emq_job *job, emq_error *err);

/* For a handler; all copied. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_set_result(emq_job *job, emq_str bytes,
                                                           emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_set_failure(emq_job *job, emq_str reason,
                                                            emq_str stack, emq_error *err);
ECHOMQ_API void emq_job_set_retry_after(emq_job *job, int64_t delay_ms);
/* As owner: EMQ_OK, EMQ_LOST, EMQ_NOT_FOUND, failures. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_report_progress(emq_job *job, emq_str json,
                                                                emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_log(emq_job *job, emq_str line, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_job_replace_data(emq_job *job, emq_str data,
                                                             emq_error *err);

typedef enum emq_event_kind {
    EMQ_EVENT_STARTED = 1, /* handed to a handler */
    EMQ_EVENT_COMPLETED = 2,
    EMQ_EVENT_FAILED = 3,  /* for good */
    EMQ_EVENT_RETRIED = 4, /* an attempt failed; it runs again */
    EMQ_EVENT_GIVEN_BACK = 5,
    EMQ_EVENT_LOST = 6,      /* the lock was lost: the outcome was refused */
    EMQ_EVENT_RECOVERED = 7, /* this worker's sweep returned somebody's stalled job (id set) */
    EMQ_EVENT_ERROR = 8,     /* `text` says what failed; an act that failed is tried again,
                                or the worker gives up: see exit_when_empty */
    EMQ_EVENT_READY = 9,     /* the first contact with the store succeeded */
    EMQ_EVENT_FINISHED = 10  /* exit_when_empty: nothing is left; or stop was asked; draining */
} emq_event_kind;

typedef struct emq_event {
    size_t size;
    int32_t kind;    /* an emq_event_kind */
    int32_t attempt; /* STARTED..LOST: from 1; else 0 */
    emq_str queue, id, text;
    const emq_job *job; /* STARTED..LOST; else NULL */
} emq_event;
/* From worker threads, one call at a time, without a lock held. Must not block for long. ERROR,
 * LOST and FINISHED go to the client's log where there is no callback. */
typedef void (*emq_event_fn)(const emq_event *event, void *user);

typedef struct emq_worker_queue {
    size_t size;
    emq_str name;
    int32_t weight; /* 0 on all: strict priority in the given order; > 0 on all: shares */
    int32_t reserved;
} emq_worker_queue;

typedef struct emq_worker_opts {
    size_t size;
    const emq_worker_queue *const *queues; /* n_queues pointers */
    size_t n_queues;
    emq_handler handler;         /* or argv */
    void *user;                  /* for handler and on_event */
    const char *const *argv;     /* a program as handler (see emq-work(1)); NULL-terminated */
    emq_event_fn on_event;       /* NULL = none */
    emq_str name;                /* empty = "host:pid:n" */
    int64_t lock_ms;             /* 0 = 30 s; renewed at a third */
    int64_t stalled_interval_ms; /* 0 = 5 s; -1 = this worker does not sweep */
    int64_t max_stalled;         /* 0 = 3; -1 = none */
    int64_t timeout_ms;          /* run limit for jobs without their own; 0 = none */
    int64_t grace_ms;            /* emq_worker_stop(): how long running jobs may go on; 0 = 25 s */
    int32_t concurrency;         /* 0 = 1; -1 = number of CPUs */
    int32_t mode;                /* an emq_mode */
    int32_t prefetch;            /* jobs in hand beyond the free slots, 0..64; 0 = none */
    int32_t exit_when_empty;     /* end when nothing is waiting, prioritized, active or delayed by a
                                retry. What a paused queue holds does not count, nor what this worker
                                leaves to others: the next run of a BullMQ scheduler; of fire-and-
                                forget all jobs of schedulers and those with a parent. A store that
                                refuses all writes (full, read-only, damaged, a key that belongs to
                                something else) for as long as a lock, at most 30 s, ends it too, as it
                                ends a worker that has had max_jobs */
    int32_t stream;              /* argv: one child is kept and fed JSON lines */
    int32_t start_paused;
    int64_t max_jobs; /* end after this many jobs; 0 = no limit */
} emq_worker_opts;

/* Starts the threads. The client must outlive the worker. EMQ_OK, E_INVALID, E_NOMEM, E_SYSTEM,
 * or the store's failure when it can't be reached at all within io_timeout_ms, or refuses to serve one of the
 * queues. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_worker_start(emq_worker **out, emq_client *c,
                                                         const emq_worker_opts *opts,
                                                         emq_error *err);
/* Asks the worker to end: no new job is taken from now on; running ones go on, with their locks
 * renewed, for the grace period; then they are cancelled and given back. Returns at once; any
 * thread; async-signal-safe. now = 1: no grace. */
ECHOMQ_API void emq_worker_stop(emq_worker *w, int now);
/* Waits until it has ended; -1 = for ever. EMQ_OK, EMQ_TIMEOUT. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_worker_join(emq_worker *w, int64_t timeout_ms,
                                                        emq_error *err);
/* Stops (now), joins, frees. NULL is allowed. */
ECHOMQ_API void emq_worker_free(emq_worker *w);

/* Local pause: returns at once, nothing new is started afterwards; running jobs go on. */
ECHOMQ_API void emq_worker_pause(emq_worker *w);
ECHOMQ_API void emq_worker_resume(emq_worker *w);

typedef struct emq_worker_stats {
    size_t size;
    int64_t started, completed, failed, retried, given_back, lost, recovered, errors;
    int32_t running;     /* handlers at work */
    int32_t in_hand;     /* taken, not begun */
    int32_t ended;       /* 1 = all threads have ended */
    int32_t unstartable; /* 1 = the program could not be started (the CLI ends with 78) */
    /* argv: of the program that ended last; 128 + n for signal n; -1 = none yet */
    int32_t exit_status;
    int32_t gave_up;      /* 0, or the emq_status for which it ended: see exit_when_empty */
    int64_t takes;        /* acts that asked the store for work, whatever they got */
    int64_t takes_failed; /* of them: the store failed */
} emq_worker_stats;
ECHOMQ_API void emq_worker_get_stats(emq_worker *w, emq_worker_stats *out);
/* Writes a few lines on each slot, lock and thread to a descriptor. */
ECHOMQ_API void emq_worker_dump(emq_worker *w, int fd);

#ifdef __cplusplus
}
#endif
#endif
