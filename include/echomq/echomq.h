/* SPDX-License-Identifier: MIT
 *
 * echomq.h - the client API of EchoMQ, a job queue that is honest about delivery.
 *
 * A job is added, taken under a lock with a TTL, and leaves when it is settled with the token of
 * that lock. Until then it can be recovered and run again: never lost, possibly twice.
 *
 * Rules that hold for every function here:
 *   status     0 is success. A positive status is an outcome named in that function's comment:
 *              handle it there. A negative status is a failure: pass it up. The detail goes to the
 *              caller's emq_error, which may be NULL and is written only on a negative status.
 *   strings    pointer and length; no NUL is needed or assumed. Input is borrowed for the call.
 *   time       int64_t; `_ms` is a span, `_at_ms` an instant in Unix milliseconds by the store's
 *              clock. 0 means "default" or "none", as the field says.
 *   options    structs that start with `size`: initialise with { sizeof(type) } and set what you
 *              need; zero means the default in every field.
 *   out        out-parameters are written on EMQ_OK only, unless the comment says otherwise.
 *   threads    an emq_client may be used from any number of threads at once. An emq_job belongs to
 *              one thread at a time.
 *   fork       handles do not survive fork(): in the child every call answers EMQ_E_FORKED;
 *              emq_close() there frees memory and touches nothing that the parent uses. A child that
 *              wants a client of its own calls exec() first, or is forked before the parent opens
 *              one: a client has threads, and one of them may hold a lock inside of SQLite at the
 *              moment of the fork, which then stays taken in the child.
 *   signals    the library installs no handler and blocks all signals in its own threads.
 */
#ifndef ECHOMQ_ECHOMQ_H
#define ECHOMQ_ECHOMQ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ECHOMQ_API        __attribute__((visibility("default")))
#define ECHOMQ_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ECHOMQ_API
#define ECHOMQ_MUST_CHECK
#endif

/* ---- strings ---------------------------------------------------------------------------- */

typedef struct emq_str {
    const char *ptr;
    size_t len;
} emq_str;

static inline emq_str emq_strn(const char *ptr, size_t len)
{
    emq_str s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* The text of a NUL-terminated string; NULL gives the empty string. */
static inline emq_str emq_cstr(const char *text)
{
    return emq_strn(text, text ? strlen(text) : 0);
}

/* ---- status ------------------------------------------------------------------------------ */

/* One list: the enum, the texts and the documentation come from it. Numbers are never reused. */
#define EMQ_STATUS_MAP(X)                                                          \
    X(OK, 0, "success")                                                            \
    X(EMPTY, 1, "no job is ready")                                                 \
    X(DUPLICATE, 2, "a job with this id exists")                                   \
    X(DEDUPLICATED, 3, "a job with this dedup id is live")                         \
    X(LOST, 4, "the lock is no longer yours")                                      \
    X(NOT_FOUND, 5, "no such job or queue")                                        \
    X(WRONG_STATE, 6, "the job's state does not allow this")                       \
    X(TIMEOUT, 7, "the deadline passed")                                           \
    X(CANCELLED, 8, "it was interrupted")                                          \
    X(FAILED, 9, "the job, or its effect, failed")                                 \
    X(LOCKED, 10, "the job is being worked on")                                    \
    X(CONFLICT, 11, "this effect was claimed with another payload")                \
    X(PARKED, 12, "an effect is in doubt; it waits for a decision")                \
    X(EFFECT_DONE, 13, "its effect is recorded as done: keep it, or redo it?")     \
    X(PENDING_CHILDREN, 14, "not completed: children of the job are not done")     \
    X(FAILED_CHILD, 15, "not completed: a child has failed, which fails the job")  \
    X(NEXT_RUN, 16, "the job is the next run of a scheduler")                      \
    X(CHILD_LOCKED, 17, "a child of the job is being worked on")                   \
    X(E_INVALID, -1, "an argument is outside its documented range")                \
    X(E_NOMEM, -2, "out of memory")                                                \
    X(E_STORE, -3, "the store failed")                                             \
    X(E_UNAVAIL, -4, "not sent: the store cannot be reached; repeating is safe")   \
    X(E_IN_DOUBT, -5, "sent, but no answer came: it may or may not have happened") \
    X(E_FORKED, -6, "this handle belongs to the parent process")                   \
    X(E_VERSION, -7, "the store was written by another, incompatible version")     \
    X(E_CORRUPT, -8, "a stored record cannot be read")                             \
    X(E_FULL, -9, "the store is full")                                             \
    X(E_REFUSED, -10, "the store refused: permission, password or read-only")      \
    X(E_BUSY, -11, "the store is held by somebody else; try again")                \
    X(E_CLOSED, -12, "the handle is closing")                                      \
    X(E_SYSTEM, -13, "the operating system refused a resource")

typedef enum emq_status {
#define EMQ_STATUS_ENUM(name, number, text) EMQ_##name = (number),
    EMQ_STATUS_MAP(EMQ_STATUS_ENUM)
#undef EMQ_STATUS_ENUM
} emq_status;

/* What a caller may do about a failure. */
typedef enum emq_class {
    EMQ_CLASS_NONE = 0,
    EMQ_CLASS_RETRY_SAFE = 1,      /* nothing happened: repeat */
    EMQ_CLASS_RETRY_DUPLICATE = 2, /* it may have happened: repeating may do it twice */
    EMQ_CLASS_FATAL = 3,           /* repeating will not help */
    EMQ_CLASS_CALLER = 4           /* the caller's mistake; nothing changed */
} emq_class;

typedef struct emq_error {
    int32_t status; /* an emq_status */
    int32_t cls;    /* an emq_class */
    int32_t native; /* errno or the store's own code; 0 = none */
    int32_t reserved;
    char where[48]; /* the operation that failed */
    char text[256]; /* what was wrong, with which value, and what to do */
} emq_error;

/* The text of a status; never NULL. Static, thread-safe. */
ECHOMQ_API const char *emq_status_text(emq_status s);
/* "DUPLICATE", "E_INVALID", ...: the name without EMQ_. */
ECHOMQ_API const char *emq_status_name(emq_status s);
/* "0.1.0". */
ECHOMQ_API const char *emq_version(void);

/* ---- limits ------------------------------------------------------------------------------ */

enum {
    EMQ_QUEUE_NAME_MAX = 128,        /* bytes; no ':', no control bytes */
    EMQ_ID_MAX = 255,                /* bytes of a job id */
    EMQ_WORKER_NAME_MAX = 128,       /* bytes; no spaces, no control bytes */
    EMQ_TOKEN_MAX = 160,             /* bytes of a lock token */
    EMQ_PRIORITY_MAX = 2097151,      /* 0 = none; 1 runs first */
    EMQ_DATA_MAX = 16 * 1024 * 1024, /* bytes of data */
    EMQ_RESULT_MAX = 1024 * 1024,    /* bytes of a result */
    EMQ_LOG_LINE_MAX = 8 * 1024,     /* bytes of one log line; longer ones are cut and marked */
    EMQ_CURSOR_MAX = 63,             /* bytes of an event's id */
    EMQ_LOCK_MIN_MS = 200
};

/* ---- client ------------------------------------------------------------------------------ */

typedef struct emq_client emq_client;

typedef enum emq_log_level {
    EMQ_LOG_ERROR = 1,
    EMQ_LOG_WARN = 2,
    EMQ_LOG_INFO = 3,
    EMQ_LOG_DEBUG = 4
} emq_log_level;

/* Called from any thread, without a lock held; must not call back into the library. */
typedef void (*emq_log_fn)(void *user, int level, emq_str message);

typedef struct emq_open_opts {
    size_t size;
    emq_str prefix;        /* empty = the URL's ?prefix=, else "emq" */
    emq_str who;           /* name in admin records; empty = "host:pid" */
    int64_t io_timeout_ms; /* how long one call may wait for the store, and for a server's answer
                              when it has been sent as long again; 0 = 10 s */
    emq_log_fn log;        /* NULL = silent */
    void *log_user;
} emq_open_opts;

/* Opens a store.
 *
 * url     "sqlite:PATH[?sync=full|normal|off]" (PATH is percent-decoded), "sqlite::memory:",
 *         a bare path that starts with '/' or '.', or empty: EMQ_URL, else
 *         $XDG_STATE_HOME/echomq/queue.db (made with its folder, mode 0700/0600).
 *         "redis://user:password@host:port/db", with TLS "rediss://…", "redis+unix:///path",
 *         "redis+sentinel://host,host/NAME", "redis+cluster://host,host"; ?prefix=, ?wait=REPLICAS,
 *         ?ca=, ?cert=, ?key=, ?insecure=1. "redis:" is REDIS_URL. No password is ever shown.
 *
 * Not in a child of fork() whose parent has a client open: see `fork` above.
 *
 * EMQ_OK, EMQ_E_INVALID, EMQ_E_NOMEM, EMQ_E_STORE, EMQ_E_REFUSED, EMQ_E_VERSION, EMQ_E_BUSY,
 * EMQ_E_UNAVAIL, EMQ_E_SYSTEM (too few descriptors or threads: raise the limit, or try again). The
 * caller owns *out and ends it with emq_close().
 */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_open(emq_client **out, emq_str url,
                                                 const emq_open_opts *opts, emq_error *err);
/* Ends the client. No other call may be running. NULL is allowed. */
ECHOMQ_API void emq_close(emq_client *c);

/* Makes every wait of this client return EMQ_CANCELLED, now; when no call waits, the next one that
 * would. Any thread; async-signal-safe. */
ECHOMQ_API void emq_interrupt(emq_client *c);

/* ---- adding ------------------------------------------------------------------------------ */

typedef enum emq_state {
    EMQ_WAITING = 1,
    EMQ_ACTIVE = 2,
    EMQ_DELAYED = 3,
    EMQ_PRIORITIZED = 4,
    EMQ_WAITING_CHILDREN = 5,
    EMQ_COMPLETED_STATE = 6,
    EMQ_FAILED_STATE = 7
} emq_state;
enum { EMQ_STATE_COUNT = 7 };

/* BullMQ's name of a state ("waiting", "waiting-children", ...); "unknown" for anything else. */
ECHOMQ_API const char *emq_state_name(int state);
/* 0 when the text is no state. */
ECHOMQ_API int emq_state_parse(emq_str text);

typedef enum emq_backoff_type {
    EMQ_BACKOFF_DEFAULT = 0, /* exponential, 1 s, max 1 h, jitter 0.25 */
    EMQ_BACKOFF_NONE = 1,    /* retry at once */
    EMQ_BACKOFF_FIXED = 2,
    EMQ_BACKOFF_EXPONENTIAL = 3 /* delay * 2^(attempt - 1) */
} emq_backoff_type;

typedef enum emq_dedup_mode {
    EMQ_DEDUP_SIMPLE = 0,  /* until finished; with a TTL: one in the window */
    EMQ_DEDUP_EXTEND = 1,  /* each duplicate renews the window (needs a TTL) */
    EMQ_DEDUP_REPLACE = 2, /* a delayed owner is replaced by the new job */
    EMQ_DEDUP_KEEP_LAST =
        3 /* while the owner is active, the last duplicate is kept and runs next */
} emq_dedup_mode;

/* How many finished jobs stay, and for how long. Whichever limit is met first removes. */
enum { EMQ_KEEP_DEFAULT = 0, EMQ_KEEP_NONE = -1, EMQ_KEEP_ALL = -2 };

typedef struct emq_add_opts {
    size_t size;
    /* Custom id; empty = the queue's counter. Not all digits, not "0:...", not the name of a key that a
     * queue has on a server ("id", "wait", "failed", …). */
    emq_str id;
    emq_str name;            /* empty = "__default__" */
    emq_str dedup_id;        /* producer dedup: empty = none */
    emq_str group;           /* opaque */
    int64_t delay_ms;        /* 0 = now */
    int64_t timestamp_at_ms; /* creation time given by the user; 0 = the store's now */
    int64_t timeout_ms;      /* run limit of one attempt; 0 = none */
    int64_t dedup_ttl_ms;    /* 0 = until the job is finished */
    int64_t backoff_ms;
    int64_t backoff_max_ms;       /* cap; 0 = 1 h for the default type, none otherwise */
    double backoff_jitter;        /* 0..1, used when backoff_type is given */
    int64_t keep_completed_count; /* > 0, or EMQ_KEEP_*: default 1000 */
    int64_t keep_completed_ms;    /* age; 0 = default 24 h, unless the count is given */
    int64_t keep_failed_count;    /* default 10000 */
    int64_t keep_failed_ms;       /* default 30 d */
    int32_t backoff_type;         /* an emq_backoff_type */
    int32_t dedup_mode;           /* an emq_dedup_mode */
    int32_t priority;  /* 0 = first come first served, before all; else 1..EMQ_PRIORITY_MAX */
    int32_t attempts;  /* 0 = 3 */
    int32_t lifo;      /* 1 = to the front of the line */
    int32_t keep_logs; /* log lines kept; 0 = 1000 */
} emq_add_opts;

typedef struct emq_added {
    size_t size;
    int32_t outcome; /* EMQ_OK, EMQ_DUPLICATE or EMQ_DEDUPLICATED; see also emq_add_many() */
    int32_t state;   /* the state of the job that `id` names, right after the add */
    char id[EMQ_ID_MAX + 1]; /* the new job, or the living one that stands in its way */
} emq_added;

/* Adds one job.
 *
 * data    0..EMQ_DATA_MAX bytes, any content; handlers get the same bytes.
 * out     written on EMQ_OK, EMQ_DUPLICATE and EMQ_DEDUPLICATED; may be NULL.
 *
 * EMQ_OK, EMQ_DUPLICATE (a job with this id exists; nothing changed), EMQ_DEDUPLICATED (producer
 * dedup dropped it); failures: E_INVALID, E_NOMEM, E_STORE, E_FULL, E_REFUSED, E_UNAVAIL,
 * E_BUSY (also: the custom id belongs to a batch of more than 1,000 jobs that is not whole yet, or whose program
 * died less than an hour ago: nobody knows whether that job will ever be), E_IN_DOUBT: the job may or may not be
 * stored; the call has already asked the store again for io_timeout_ms. Add again with the same custom id to be sure.
 * One act of the store; with sync=full one fsync, shared with other threads' calls.
 */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add(emq_client *c, emq_str queue, emq_str data,
                                                const emq_add_opts *opts, emq_added *out,
                                                emq_error *err);

typedef struct emq_new_job {
    size_t size;
    emq_str queue;
    emq_str data;
    const emq_add_opts *opts; /* NULL = defaults */
} emq_new_job;

/* Adds many jobs, all or none.
 *
 * Up to 1,000 jobs and 8 MB are one act; more are staged in slices, invisible, and published by
 * one act. Duplicates and deduplicated entries are outcomes, not
 * failures: they do not stop the rest.
 * out     n pointers, each may be NULL; or NULL. Of staged jobs they tell what became of them when they were
 *         published: dedup decides then; DUPLICATE also when BullMQ, which knows of no stages, gave the id
 *         away meanwhile; EMQ_NOT_FOUND when its queue was obliterated meanwhile.
 * EMQ_OK or a failure as of emq_add(); on E_INVALID the error names the entry, from 0.
 * A failure other than E_IN_DOUBT: none was added. What was staged is dropped then, and its custom ids are free; if
 * the store can't be asked they are held for an hour, as those of a program that dies, and the error says so.
 * E_IN_DOUBT: all were added, or none, and then the ids are held for an hour. On a server a publication may also
 * have stopped in its middle: whoever adds to, takes from, settles in or sweeps one of its queues next, within a week,
 * goes on with it.
 */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add_many(emq_client *c, const emq_new_job *const *jobs,
                                                     size_t n, emq_added *const *out,
                                                     emq_error *err);
/* The same; `progress` is told after each slice how many of `total` the store has: nothing of a
 * staged batch is visible before the end. When it answers anything but 0, a staged batch is dropped: EMQ_CANCELLED,
 * none was added. Once it is being published nobody is asked any more. From the calling thread, without a lock held. */
typedef int (*emq_progress_fn)(size_t done, size_t total, void *user);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add_many_watched(emq_client *c,
                                                             const emq_new_job *const *jobs,
                                                             size_t n, emq_added *const *out,
                                                             emq_progress_fn progress, void *user,
                                                             emq_error *err);

/* ---- one job ----------------------------------------------------------------------------- */

/* A job as read or taken: a snapshot. Strings of getters live as long as the job. */
typedef struct emq_job emq_job;

ECHOMQ_API void emq_job_free(emq_job *j); /* NULL is allowed; not for jobs lent to a handler */

ECHOMQ_API emq_str emq_job_id(const emq_job *j);
ECHOMQ_API emq_str emq_job_queue(const emq_job *j);
ECHOMQ_API emq_str emq_job_prefix(const emq_job *j);
ECHOMQ_API emq_str emq_job_name(const emq_job *j);
ECHOMQ_API emq_str emq_job_data(const emq_job *j);      /* the bytes that were added */
ECHOMQ_API emq_str emq_job_opts_json(const emq_job *j); /* BullMQ's opts object */
ECHOMQ_API emq_str emq_job_result(const emq_job *j);    /* empty until completed */
ECHOMQ_API emq_str emq_job_failed_reason(const emq_job *j);
ECHOMQ_API emq_str emq_job_stacktrace_json(const emq_job *j); /* array of strings, oldest first */
ECHOMQ_API emq_str emq_job_progress_json(const emq_job *j);   /* "0" until reported */
/* Empty also for a worker of BullMQ without a name. */
ECHOMQ_API emq_str emq_job_processed_by(const emq_job *j);
ECHOMQ_API emq_str emq_job_dedup_id(const emq_job *j);
ECHOMQ_API emq_str emq_job_token(const emq_job *j); /* of a take or of claims; else empty */
ECHOMQ_API int emq_job_state(const emq_job *j);     /* an emq_state */
ECHOMQ_API int64_t emq_job_fence(const emq_job *j); /* grows with each hand-out of the queue */
ECHOMQ_API int32_t emq_job_priority(const emq_job *j);
/* 1 = the next run of a BullMQ scheduler: emq_remove() and emq_cancel() refuse it. As of the read. */
ECHOMQ_API int emq_job_is_next_run(const emq_job *j);
ECHOMQ_API int32_t emq_job_attempts(const emq_job *j);      /* the limit */
ECHOMQ_API int32_t emq_job_attempts_made(const emq_job *j); /* settled attempts */
/* Hand-outs that were not given back: a release takes its own off again. */
ECHOMQ_API int32_t emq_job_attempts_started(const emq_job *j);
ECHOMQ_API int32_t emq_job_stalled(const emq_job *j); /* owners that died */
ECHOMQ_API int64_t emq_job_delay_ms(const emq_job *j);
ECHOMQ_API int64_t emq_job_timeout_ms(const emq_job *j);
ECHOMQ_API int64_t emq_job_timestamp_at_ms(const emq_job *j);
ECHOMQ_API int64_t emq_job_due_at_ms(const emq_job *j);       /* delayed jobs; else 0 */
ECHOMQ_API int64_t emq_job_processed_at_ms(const emq_job *j); /* last hand-out; 0 = never */
ECHOMQ_API int64_t emq_job_finished_at_ms(const emq_job *j);  /* 0 = not finished */
ECHOMQ_API int64_t emq_job_lock_until_ms(const emq_job *j);   /* active: end of the lock; else 0 */
/* prefix, queue, id and creation time: the same for every attempt of this job, another for a later
 * job that uses the id again, and after EMQ_RETRY_REDO_EFFECT. Give it to whoever can honour an idempotency key. */
ECHOMQ_API emq_str emq_job_idempotency_key(const emq_job *j);
/* The job as one JSON object with BullMQ's names, as `emq show --json` prints it. */
ECHOMQ_API emq_str emq_job_json(const emq_job *j);

/* Reads one job. EMQ_OK (end with emq_job_free), EMQ_NOT_FOUND, failures. One read. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_get(emq_client *c, emq_str queue, emq_str id,
                                                emq_job **out, emq_error *err);

/* Waits until the job is finished. timeout_ms 0 = look once, -1 = for ever.
 * EMQ_OK completed; EMQ_FAILED failed for good; EMQ_NOT_FOUND no such job, or it was removed while
 * waiting (a job whose retention keeps nothing counts as removed); EMQ_TIMEOUT; EMQ_CANCELLED.
 * *out is written on EMQ_OK and EMQ_FAILED; may be NULL. The state is read again at least once a
 * second: a lost event delays the answer, it does not lose it. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_wait(emq_client *c, emq_str queue, emq_str id,
                                                 int64_t timeout_ms, emq_job **out, emq_error *err);

/* Reads log lines of a job, oldest first. start from 0; count 0 = all. *out: strings in one block,
 * released with emq_list_free(). EMQ_OK, EMQ_NOT_FOUND (no such job), failures. */
typedef struct emq_list emq_list; /* an owned array, of strings or of jobs */
ECHOMQ_API size_t emq_list_len(const emq_list *l);
ECHOMQ_API emq_str emq_list_str(const emq_list *l, size_t i);
ECHOMQ_API const emq_job *emq_list_job(const emq_list *l, size_t i);
ECHOMQ_API void emq_list_free(emq_list *l);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_logs(emq_client *c, emq_str queue, emq_str id,
                                                 size_t start, size_t count, emq_list **out,
                                                 emq_error *err);

/* ---- working by hand --------------------------------------------------------------------- */

typedef enum emq_mode {
    EMQ_AT_LEAST_ONCE = 0,  /* leaves after the ack; a crash in between runs it again */
    EMQ_AT_MOST_ONCE = 1,   /* never handed out twice; a lost one ends failed, visibly */
    EMQ_FIRE_AND_FORGET = 2 /* the take removes it; a crash loses it silently */
} emq_mode;

typedef struct emq_take_opts {
    size_t size;
    emq_str worker;  /* name in processedBy and in the token; empty = "host:pid:n" */
    int64_t lock_ms; /* 0 = 30 s; else >= EMQ_LOCK_MIN_MS */
    int64_t wait_ms; /* 0 = do not wait; -1 = for ever */
    int32_t mode;    /* an emq_mode */
    int32_t reserved;
} emq_take_opts;

/* Takes the next job of a queue under a lock. EMQ_OK, EMQ_EMPTY (nothing, or paused, or at the
 * concurrency limit, within wait_ms), EMQ_CANCELLED, failures. The token of the lock is
 * emq_job_token(*out); without a renewal the job is recovered when the lock ends.
 * EMQ_E_IN_DOUBT: a job may have been handed out; emq_claims() of the worker that the error names
 * has it then. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_take(emq_client *c, emq_str queue,
                                                 const emq_take_opts *opts, emq_job **out,
                                                 emq_error *err);

/* The active jobs that are held under a worker's name, in all queues of the prefix, with their
 * tokens: to go on with, or to give back, what a take in doubt or a program that ended left behind.
 * A name that several use at once has the jobs of all. On a server what was taken more than 7 days ago may be
 * left out.
 *
 * *out: jobs, none included; end with emq_list_free(). A job's token serves emq_extend() and
 * emq_settle(), which say EMQ_LOST when the lock has gone meanwhile.
 * EMQ_OK, failures. Thread-safe. One read, of every queue's active jobs of that name. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_claims(emq_client *c, emq_str worker, emq_list **out,
                                                   emq_error *err);

/* Renews a lock for lock_ms (0 = 30 s) from now. EMQ_OK, EMQ_LOST (no such job counts as that),
 * failures. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_extend(emq_client *c, emq_str queue, emq_str id,
                                                   emq_str token, int64_t lock_ms, emq_error *err);

typedef enum emq_settle_kind {
    EMQ_SETTLE_COMPLETED = 1, /* value = the result */
    EMQ_SETTLE_FAILED = 2,    /* value = the reason; for good, whatever attempts are left */
    EMQ_SETTLE_RETRY = 3,     /* value = the reason; an attempt is charged; again after delay_ms */
    EMQ_SETTLE_RELEASE = 4    /* value = why; given back, nothing charged; again after delay_ms */
} emq_settle_kind;

typedef struct emq_settle_opts {
    size_t size;
    int32_t kind;  /* an emq_settle_kind */
    int32_t force; /* 1 = administrator: no token is compared, the owner's later ack is refused */
    emq_str value;
    emq_str stack;    /* one stack trace, appended; empty = none */
    int64_t delay_ms; /* RETRY, RELEASE. RETRY: -1 = by the job's backoff, and failed for good when
                         no attempt is left */
    int32_t *out_state; /* NULL, or written on EMQ_OK: the emq_state after it, 0 = removed by its
                         retention. A job that was asked to stop does not go back: RETRY and RELEASE
                         end it failed, "cancelled" */
} emq_settle_opts;

/* Ends a hand-out. EMQ_OK, EMQ_LOST (the lock ended or belongs to another hand-out: nothing
 * changed), EMQ_NOT_FOUND, EMQ_WRONG_STATE (not active; or an at-most-once job was asked to go
 * back), failures. E_IN_DOUBT as of emq_add(). One act.
 * A parent of BullMQ's flows may not be COMPLETED, and stays active under its lock, while children of it are
 * not done (EMQ_PENDING_CHILDREN: settle it as RETRY, or wait for them under the lock), or when one has failed
 * that fails it (EMQ_FAILED_CHILD: settle it as FAILED). */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_settle(emq_client *c, emq_str queue, emq_str id,
                                                   emq_str token, const emq_settle_opts *opts,
                                                   emq_error *err);

/* Writes to a job. With a token: as its owner, EMQ_LOST when the lock is not this token's any more
 * and nothing is changed. With an empty token: as an administrator, recorded.
 * EMQ_OK, EMQ_LOST, EMQ_NOT_FOUND, failures. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_set_progress(emq_client *c, emq_str queue, emq_str id,
                                                         emq_str token, emq_str json,
                                                         emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_set_data(emq_client *c, emq_str queue, emq_str id,
                                                     emq_str token, emq_str data, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add_log(emq_client *c, emq_str queue, emq_str id,
                                                    emq_str token, emq_str line, emq_error *err);
/* Keeps the newest `keep` lines. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_clear_logs(emq_client *c, emq_str queue, emq_str id,
                                                       int64_t keep, emq_error *err);

/* ---- reading queues ---------------------------------------------------------------------- */

typedef struct emq_queue_stats {
    size_t size;
    int64_t count[EMQ_STATE_COUNT + 1]; /* by emq_state; [0] unused */
    int64_t limited_ms;                 /* time until the rate limit ends; 0 = not limited */
    int64_t next_due_at_ms;             /* earliest delayed job; 0 = none */
    int64_t oldest_waiting_at_ms;       /* timestamp of the next job; 0 = none */
    int64_t concurrency;                /* limit over all workers; 0 = none */
    int64_t now_ms;
    /* since the queue was made; they survive trimming and restarts */
    int64_t total_added, total_started, total_completed, total_failed, total_retried,
        total_recovered, total_deduplicated, total_removed;
    int32_t paused;
    int32_t maxed; /* at the concurrency limit */
} emq_queue_stats;

/* EMQ_OK (an unknown queue has zeros), failures. Constant cost: finished jobs are counted, and found by
 * emq_find() and emq_get(), until they are removed. A job past its retention goes when the next one with
 * the same retention ends in its state, or with a sweep (each stalled interval, emq_sweep()), which looks
 * at the 1,000 oldest of a state; an add under its id takes it for absent before. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_stats(emq_client *c, emq_str queue,
                                                  emq_queue_stats *out, emq_error *err);
/* Names of all queues under this prefix, sorted. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_queues(emq_client *c, emq_list **out, emq_error *err);

typedef struct emq_find_opts {
    size_t size;
    int32_t state; /* an emq_state; 0 = all states, in emq_state order */
    int32_t newest_first;
    /* by rank; with after_id: about where that job stands, if you know, for speed */
    int64_t offset;
    int64_t limit;    /* 0 = 100; at most 1000 a call */
    emq_str after_id; /* go on after this job; empty = from the start */
} emq_find_opts;
/* Jobs of a state in the order in which they would be taken, fall due, or were finished. A page also
 * ends behind 8 MB of payload, with at least one job: go on after its last job until one is empty.
 * EMQ_OK, EMQ_NOT_FOUND (after_id has left the state), failures. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_find(emq_client *c, emq_str queue,
                                                 const emq_find_opts *opts, emq_list **out,
                                                 emq_error *err);

/* Reads events after a cursor ("ms-seq", "" = from the oldest kept, "$" = only new ones).
 *
 * limit       0 = 100; at most 1000 a call.
 * wait_ms     how long to wait for the first one; 0 = look once, -1 = for ever.
 * out         one JSON object a string: {"id","event","jobId",...}, fields as in docs/protocol.md
 *             section 7; end with emq_list_free().
 * out_cursor  where to go on: the next call with it misses nothing in between. Written on EMQ_OK,
 *             EMQ_TIMEOUT and EMQ_CANCELLED; may be NULL; `after` may lie in it.
 *
 * EMQ_OK, EMQ_TIMEOUT, EMQ_CANCELLED, failures. A read a look; looks come with the events' bell, and
 * at least twice a second. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_events(emq_client *c, emq_str queue, emq_str after,
                                                   size_t limit, int64_t wait_ms, emq_list **out,
                                                   char out_cursor[EMQ_CURSOR_MAX + 1],
                                                   emq_error *err);

/* ---- administration ---------------------------------------------------------------------- */

/* Each act on one job: EMQ_OK, EMQ_NOT_FOUND, failures. EMQ_WRONG_STATE: retry of a job that is not
 * finished, promote or set_delay of one that is not delayed, cancel of one that is finished.
 * EMQ_LOCKED: remove of an active job under a live lock; use cancel, or wait. EMQ_CHILD_LOCKED: remove of a
 * parent below which one is; a parent takes its children along, in all queues. EMQ_NEXT_RUN: remove or cancel
 * of the next run of a BullMQ scheduler, without which that would make no more: remove the scheduler, with
 * BullMQ. The bulk forms pass over what is locked itself, and over next runs. set_priority of a job that does
 * not wait counts from its next return to the line. */
typedef enum emq_retry_flags {
    EMQ_RETRY_RESET_ATTEMPTS = 1, /* full budget and backoff from the start; else one more run */
    /* For a job with an effect that is recorded as done (effect.h); without one of them such a job is not
     * retried: EMQ_EFFECT_DONE. */
    EMQ_RETRY_KEEP_EFFECT = 2, /* the next run finds it done */
    EMQ_RETRY_REDO_EFFECT = 4  /* its markers go, and its idempotency key becomes another */
} emq_retry_flags;
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_retry(emq_client *c, emq_str queue, emq_str id,
                                                  int flags, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_promote(emq_client *c, emq_str queue, emq_str id,
                                                    emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_remove(emq_client *c, emq_str queue, emq_str id,
                                                   emq_error *err);
/* Asks the owner of an active job to stop: its handler sees emq_job_cancelled(). The job does not run
 * again: if its owner gives it back, retries it or dies, it ends failed with the reason "cancelled".
 * A job that is not active is failed at once with that reason. *out_state (or NULL), written on EMQ_OK,
 * tells them apart: EMQ_ACTIVE, asked; EMQ_FAILED_STATE, or 0 when its retention removed it, failed. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_cancel(emq_client *c, emq_str queue, emq_str id,
                                                   int32_t *out_state, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_set_priority(emq_client *c, emq_str queue, emq_str id,
                                                         int32_t priority, int lifo,
                                                         emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_set_delay(emq_client *c, emq_str queue, emq_str id,
                                                      int64_t delay_ms, emq_error *err);

ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_pause(emq_client *c, emq_str queue, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_resume(emq_client *c, emq_str queue, emq_error *err);
/* Limit of active jobs over all workers, at most 2^53; 0 removes it. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_set_concurrency(emq_client *c, emq_str queue,
                                                            int64_t limit, emq_error *err);
/* Removes all waiting and prioritized jobs, with_delayed also the delayed ones. Bounded slices
 * until done; *out_count jobs. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_drain(emq_client *c, emq_str queue, int with_delayed,
                                                  int64_t *out_count, emq_error *err);
/* Removes jobs of a state that are older than older_ms (finished: since they finished; else since
 * they were added), at most `limit` (0 = all). Active jobs only without a live lock. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_clean(emq_client *c, emq_str queue, int state,
                                                  int64_t older_ms, int64_t limit,
                                                  int64_t *out_count, emq_error *err);
/* Removes a queue and everything of it. EMQ_WRONG_STATE: not paused, and not forced;
 * EMQ_LOCKED: jobs are active, and not forced. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_obliterate(emq_client *c, emq_str queue, int force,
                                                       int64_t *out_count, emq_error *err);
/* Bulk forms, in bounded slices until done: failed or completed jobs go back to work; delayed jobs
 * become ready; jobs of a state are cancelled (active ones: their owners are asked to stop). */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_retry_all(emq_client *c, emq_str queue, int state,
                                                      int flags, int64_t *out_count,
                                                      emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_promote_all(emq_client *c, emq_str queue,
                                                        int64_t *out_count, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_cancel_all(emq_client *c, emq_str queue, int state,
                                                       int64_t *out_count, emq_error *err);

typedef struct emq_sweep_opts {
    size_t size;
    int64_t max_stalled; /* recoveries a job may have; 0 = 3, -1 = none */
} emq_sweep_opts;
/* Returns jobs whose lock has ended to their queue; those over the limit fail. Finished jobs past their
 * retention are removed. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_sweep(emq_client *c, emq_str queue,
                                                  const emq_sweep_opts *opts,
                                                  int64_t *out_recovered, int64_t *out_failed,
                                                  emq_error *err);

/* Producer dedup. show: *out_owner gets the job that holds the id, *out_ttl_ms what is left of its
 * window (0 = until finished). release: with owner, only if the id still names that job.
 * EMQ_OK, EMQ_NOT_FOUND (nobody holds it, or another job does). */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_dedup_show(emq_client *c, emq_str queue,
                                                       emq_str dedup_id,
                                                       char out_owner[EMQ_ID_MAX + 1],
                                                       int64_t *out_ttl_ms, emq_error *err);
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_dedup_release(emq_client *c, emq_str queue,
                                                          emq_str dedup_id, emq_str owner,
                                                          emq_error *err);

/* ---- event loops ------------------------------------------------------------------------- */

/* A descriptor that becomes readable when the queue may have work (or at least once a second).
 * Owned by the client, one per queue; read 8 bytes from it, then emq_take() until EMQ_EMPTY. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_fd(emq_client *c, emq_str queue, int *out_fd,
                                               emq_error *err);
/* Tells waiting workers to look at a queue. Only needed after emq_add_on() was committed. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_wake(emq_client *c, emq_str queue, emq_error *err);

#ifdef __cplusplus
}
#endif
#endif
