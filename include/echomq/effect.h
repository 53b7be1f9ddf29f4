/* SPDX-License-Identifier: MIT
 *
 * effect.h - exactly-once effect, on top of at-least-once delivery.
 *
 * A job may be handed out twice: its worker died, or its acknowledgement was lost. What can be made sure
 * of is that its effect happens once. Five strengths, see docs/guarantees.md:
 *   0  the effect is the same twice (an upsert, a rename): nothing of this header is needed;
 *   1  transactional: the effect is in the queue's own store and commits with the acknowledgement:
 *      emq_effect_sqlite(), emq_effect_redis();
 *   2  an inbox table in another SQL database, in the effect's transaction: emq_inbox_sql();
 *   3  a marker around an effect elsewhere: emq_effect_run(), or emq_effect_claim() and emq_effect_done();
 *   4  the other side deduplicates: give it emq_job_idempotency_key().
 * None of this is the producer's dedup (emq_add_opts.dedup_id), which drops a second *submission* and knows
 * nothing of a second delivery.
 *
 * The only header in which a native handle of a store appears. A program that calls SQLite itself is
 * linked with it: pkg-config --cflags --libs echomq sqlite3.
 */
#ifndef ECHOMQ_EFFECT_H
#define ECHOMQ_EFFECT_H

#include <echomq/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* Adds a job inside the application's own open transaction on the file of the queue: commit or
 * rollback decides both.
 *
 * db      a connection of the application to the same file that `c` has open, inside a transaction
 *         (BEGIN IMMEDIATE is advised), using the same libsqlite3 as this library. Not closed here;
 *         the caller's statements, hooks and transaction are left as they are.
 *
 * Outcomes as of emq_add(). E_INVALID: no open transaction, another file, another libsqlite3, or
 * `c` is not an SQLite store. After the commit, emq_wake() wakes idle workers at once; without it
 * they look within a second. The thread that owns `db`. One savepoint, no fsync of its own.
 */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add_on(emq_client *c, struct sqlite3 *db, emq_str queue,
                                                   emq_str data, const emq_add_opts *opts,
                                                   emq_added *out, emq_error *err);

/* The libsqlite3 that this library uses, as its sqlite3_sourceid() says: a `db` of another copy in the
 * same process is refused. A constant; any thread. */
ECHOMQ_API const char *emq_sqlite_source_id(void);

/* ---- 1: the effect commits with the acknowledgement ---------------------------------------------- */

typedef struct emq_effect_opts {
    size_t size;
    emq_str step;     /* 0..64 bytes of A-Z a-z 0-9 . _ -; empty = the job has one effect */
    emq_str result;   /* of the job */
    int64_t limit_ms; /* SQLite: the longest that fn may take; 0 = lock / 4, at most 1 s */
    int64_t keep_ms;  /* how long it is known to be done; 0 = as long as the job can come again: see
                         emq_effect_claim() */
} emq_effect_opts;

/* Runs inside the engine's own transaction, on the caller's thread. 0 = commit. Statements on `db` only: tables
 * whose names begin with emq_, transactions, savepoints, ATTACH, PRAGMA and what is temporary are refused; declared
 * foreign keys hold. It calls nothing of this library. It may be run again, from the start, when what it did before
 * was rolled back. `db` is not the caller's afterwards. */
typedef int (*emq_effect_sqlite_fn)(struct sqlite3 *db, void *arg);

/* Ends a handler: in one transaction of the queue's file the lock is verified, `fn` makes its changes, the
 * job is completed, and both are committed, or neither. Compute first, without a transaction; `fn` should
 * take milliseconds: others can't write to the file meanwhile. A value, a row and a statement have at most
 * 17 MiB in it, a pattern of LIKE or GLOB 100 bytes: a call of a function is not ended by limit_ms.
 *
 * job  taken by emq_take(), or lent to a handler, at-least-once or at-most-once. After EMQ_OK it is
 *      completed: what the handler returns is not used.
 * EMQ_OK; it was done before and only the acknowledgement was missing counts as that, `fn` is not run.
 * Otherwise nothing of it happened: EMQ_LOST; EMQ_FAILED (`fn` returned non-zero); EMQ_TIMEOUT (over
 * limit_ms); EMQ_E_INVALID (not an SQLite store, a forbidden statement, one over a bound); failures. E_IN_DOUBT:
 * as of emq_settle(). One transaction and its fsync, shared with nobody. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_sqlite(emq_client *c, emq_job *job,
                                                          emq_effect_sqlite_fn fn, void *arg,
                                                          const emq_effect_opts *opts,
                                                          emq_error *err);

typedef struct emq_redis_command {
    size_t size;
    const emq_str *args; /* the command and its arguments, as bytes */
    size_t n;
} emq_redis_command;

enum { EMQ_REDIS_COMMANDS_MAX = 100, EMQ_REDIS_COMMAND_BYTES_MAX = 1024 * 1024 };

/* The same on Redis: one script verifies the lock, does the commands in order, and completes the job.
 * Redis does not roll back. So everything that can be known before is: the commands are of a list (those
 * that write strings, hashes, lists, sets, sorted sets, streams and expiries), their keys are not of a queue
 * under this prefix, have the right types, and on a cluster the queue's slot; numbers and options are such as a
 * server takes, a sum has 64 bits; the first one that fails has done nothing. Not known before: whether an LSET is
 * within its list and an id of XADD above the last; a sum on what APPEND, SETRANGE, SETBIT, INCRBYFLOAT or a
 * conditional SET of the same effect left, and one of floats beyond all numbers; a string beyond 512 MiB; options
 * of a later server; what the server's user may not do; memory. What fails so behind others ends the job as failed
 * for good, "partial effect: command N ...", which no retry by hand repeats unless it is told to (emq_retry()).
 *
 * EMQ_OK, EMQ_LOST, EMQ_PENDING_CHILDREN and EMQ_FAILED_CHILD as of emq_settle() (nothing happened),
 * EMQ_E_INVALID (the text names the command; nothing happened), EMQ_FAILED (a partial effect, the job has
 * failed), failures. E_IN_DOUBT as of emq_settle(). One script. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_redis(emq_client *c, emq_job *job,
                                                         const emq_redis_command *const *commands,
                                                         size_t n, const emq_effect_opts *opts,
                                                         emq_error *err);

/* ---- 2: an inbox in another SQL database ---------------------------------------------------------- */

typedef enum emq_sql_dialect { EMQ_SQL_SQLITE = 1, EMQ_SQL_POSTGRESQL = 2 } emq_sql_dialect;
typedef enum emq_inbox_statement {
    EMQ_INBOX_CREATE = 1, /* makes the table emq_inbox unless it is there */
    EMQ_INBOX_CLAIM =
        2, /* one parameter, the idempotency key: one row inserted = do the effect in this same
                             transaction; none = it was done */
    EMQ_INBOX_TRIM =
        3 /* one parameter, an age in seconds: forgets older keys; longer than any job lives */
} emq_inbox_statement;
/* The text of a statement; static; NULL for another number. Any thread. */
ECHOMQ_API const char *emq_inbox_sql(int dialect, int statement);

/* ---- 3: a marker around an effect elsewhere -------------------------------------------------------- */

/* Which effect, and by whom. */
typedef struct emq_effect_key {
    size_t size;
    emq_str queue, id;
    emq_str token; /* of the hand-out: a former owner is told EMQ_LOST */
    emq_str step;  /* as in emq_effect_opts */
    /* what the effect is about: claimed again with another one is EMQ_CONFLICT; empty = not
     * compared. Only a fingerprint of it is stored */
    emq_str payload;
} emq_effect_key;
/* Fills all but step and payload, which become empty; `size` is set by the caller. Borrows from `job`. */
ECHOMQ_API void emq_effect_key_of(const emq_job *job, emq_effect_key *key);

typedef enum emq_effect_state {
    EMQ_EFFECT_NONE = 0,
    EMQ_EFFECT_FRESH = 1,   /* claimed by this very call: do it, then emq_effect_done() */
    EMQ_EFFECT_IS_DONE = 2, /* with a result: don't do it again */
    EMQ_EFFECT_IN_DOUBT =
        3, /* an earlier hand-out claimed it and its lock is gone: it may have happened.
                                Never "done": decide */
    EMQ_EFFECT_BUSY =
        4 /* claimed by this very hand-out before: another thread or process is at it, or ended
                                without a word */
} emq_effect_state;

/* What is known of an effect. Strings live as long as it does. */
typedef struct emq_effect emq_effect;
ECHOMQ_API void emq_effect_free(emq_effect *e); /* NULL is allowed */
ECHOMQ_API int emq_effect_get_state(const emq_effect *e);
ECHOMQ_API emq_str emq_effect_result(const emq_effect *e);
ECHOMQ_API emq_str emq_effect_id(const emq_effect *e); /* of the job, with its creation time */
ECHOMQ_API int64_t emq_effect_timestamp_at_ms(const emq_effect *e);
ECHOMQ_API emq_str emq_effect_step(const emq_effect *e);
ECHOMQ_API emq_str emq_effect_token(const emq_effect *e); /* of the hand-out that claimed it last */
ECHOMQ_API int64_t emq_effect_claimed_at_ms(const emq_effect *e);
ECHOMQ_API int64_t emq_effect_done_at_ms(const emq_effect *e);    /* 0 = not done */
ECHOMQ_API int64_t emq_effect_expires_at_ms(const emq_effect *e); /* forgotten then */
/* "none", "fresh", "done", "in-doubt", "busy"; static. */
ECHOMQ_API const char *emq_effect_state_name(int state);
/* {"queue","id","timestamp","step","state","token","claimedAt","doneAt","expiresAt","result"}, one line. */
ECHOMQ_API emq_str emq_effect_json(const emq_effect *e);

typedef enum emq_claim_flags {
    EMQ_CLAIM_TAKE_OVER = 1, /* what is IN_DOUBT or BUSY becomes FRESH, this hand-out's */
    EMQ_CLAIM_SETTLES =
        2 /* with TAKE_OVER: it will be recorded as done, not done again. For `emq why` */
} emq_claim_flags;
/* Claims an effect: at most one call ever gets FRESH for a key, until it is released or taken over. Two
 * clocks: an unfinished claim is as good as its hand-out, and in doubt as soon as the job has gone back; what is
 * done is known for `keep_ms`. A retry by hand lets either be known for as long again.
 *
 * keep_ms  0 = as long as the job can come again: its delay, all its attempts with their longest backoff, and how
 *          long its record is kept in `failed` and `completed`; at least 7 days, at most 400 days. A shorter
 *          one than that is taken and warned of in the client's log; it shortens what is known as done, no claim.
 * out      EMQ_OK only; end with emq_effect_free().
 * EMQ_OK (look at the state), EMQ_LOST (no hand-out, or a later one, has the job; recorded),
 * EMQ_NOT_FOUND (no such job), EMQ_CONFLICT, failures. One read and one act; the store's clock alone. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_claim(emq_client *c, const emq_effect_key *key,
                                                         int flags, int64_t keep_ms,
                                                         emq_effect **out, emq_error *err);
/* Records a claimed effect as done. EMQ_OK (also when this hand-out has done so: the first result stays),
 * EMQ_LOST, EMQ_WRONG_STATE (not claimed by this hand-out), EMQ_NOT_FOUND, failures. One read and one act. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_done(emq_client *c, const emq_effect_key *key,
                                                        emq_str result, int64_t keep_ms,
                                                        emq_error *err);
/* Gives a claim back: the effect has certainly not happened. Compares and deletes. As emq_effect_done(), without
 * the read. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_release(emq_client *c, const emq_effect_key *key,
                                                           emq_error *err);

/* What to do about an effect in doubt. There is no default: it depends on the effect. */
typedef enum emq_doubt_policy {
    EMQ_DOUBT_REDO = 1, /* do it (perhaps again): what plain at-least-once does */
    EMQ_DOUBT_SKIP = 2, /* count it as done (perhaps it was not) */
    EMQ_DOUBT_PARK =
        3, /* the job fails for good, and somebody looks: emq_effect_resolve(), emq_retry() */
    EMQ_DOUBT_PROBE =
        4 /* ask the other side; no answer parks. The answer is of that moment: the former owner may be
                           frozen, not dead, and do the effect after it. Where that must not be, give the other side
                           emq_job_idempotency_key(), or the job's fence, to refuse the later one */
} emq_doubt_policy;

/* A probe that finds that it happened may say its result with emq_job_set_result(). */
typedef enum emq_probe_answer {
    EMQ_PROBE_HAPPENED = 1,
    EMQ_PROBE_DID_NOT = 2,
    EMQ_PROBE_UNKNOWN = 3
} emq_probe_answer;

/* The effect itself. EMQ_DONE: it happened; the result is what emq_job_set_result() was given, else empty.
 * Anything else: it certainly did not happen, and the claim is given back. */
typedef emq_verdict (*emq_effect_fn)(emq_job *job, void *arg);
typedef emq_probe_answer (*emq_probe_fn)(emq_job *job, void *arg);

typedef struct emq_effect_plan {
    size_t size;
    emq_str step, payload; /* as in emq_effect_key */
    emq_effect_fn effect;
    emq_probe_fn probe; /* PROBE */
    void *arg;          /* for both */
    int64_t keep_ms;
    int32_t policy; /* an emq_doubt_policy; required */
    int32_t reserved;
} emq_effect_plan;

/* Claim, effect and record in one call, for a handler.
 *
 * job  lent to a handler; or taken by hand, where there is no place for a result.
 * EMQ_OK: the effect is recorded as done, by this call or before; its result is the job's result.
 * EMQ_FAILED: `effect` said that it did not happen. EMQ_PARKED: it is in doubt, by PARK or a PROBE without an
 * answer; the handler should return EMQ_FAIL, for which the failure's text is set. EMQ_LOCKED: another thread of
 * this hand-out is at it, or ended without a word. EMQ_LOST, EMQ_CONFLICT, failures: return EMQ_RETRY. After a
 * failure that came behind the effect, the next hand-out finds it in doubt. Two reads and two acts beside the
 * effect; one of each when it is done. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_run(emq_client *c, emq_job *job,
                                                       const emq_effect_plan *plan, emq_error *err);

/* ---- administration of markers --------------------------------------------------------------------- */

/* Markers of a queue (id empty) or of a job, at most `limit` (0 = 100, at most 1000), behind `after`
 * (NULL = from the start). *out: n effects, each to be ended with emq_effect_free(), in an array that ends
 * with NULL and that free() releases. EMQ_OK, failures. One read a thousand. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_list(emq_client *c, emq_str queue, emq_str id,
                                                        const emq_effect *after, size_t limit,
                                                        emq_effect ***out, size_t *n,
                                                        emq_error *err);
/* An administrator knows better: done = 1 records it as done with this result, 0 forgets it. Recorded.
 * EMQ_OK, EMQ_NOT_FOUND (no such job; 0: no such marker), failures. */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_effect_resolve(emq_client *c, emq_str queue, emq_str id,
                                                           emq_str step, int done, emq_str result,
                                                           emq_error *err);

#ifdef __cplusplus
}
#endif
#endif
