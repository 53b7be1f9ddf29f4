/* SPDX-License-Identifier: MIT
 *
 * Row work that the acts share: queues with their counters, jobs, moves between states, events,
 * retention, dedup ids, receipts, history. Everything here runs inside a transaction of tx.c.
 *
 * The one invariant: a queue's counters change only through sq_count(), which the moves below call,
 * so that they always equal the rows; they are written once per act, by sq_queue_save().
 *
 * How an act on one queue looks:
 *
 *     struct sq_queue q;
 *     emq_status s = sq_queue_open(tx, prefix, name, false, &q, err);   // EMQ_NOT_FOUND: no such queue
 *     if (s == EMQ_OK) { ... moves, events ...; s = sq_queue_save(tx, &q, err) unless s < 0; }
 *     sq_queue_close(&q);
 */
#ifndef EMQ_ENGINE_SQLITE_ROW_H
#define EMQ_ENGINE_SQLITE_ROW_H

#include "base/buf.h"
#include "engine/sqlite/sqlite.h"

enum { SQ_STAGED = 8, SQ_STATES = 9 };
enum { SQ_SIDE_DATA = 1, SQ_SIDE_RESULT = 2, SQ_SIDE_DEPENDENCY = 4, SQ_SIDE_HISTORY = 8 };
enum {
    SQ_INLINE_MAX = 1024,     /* longer payloads live in emq_data, emq_result */
    SQ_SLICE = 1000,          /* jobs that one act moves unasked, at most; its time ends it, too */
    SQ_EVENT_ROW_MAX = 100,   /* events in one row of emq_event */
    SQ_EVENTS_DEFAULT = 10000 /* opts.maxLenEvents when it is not set */
};

/* After sq_stmt() gave NULL. */
static inline emq_status sq_no_stmt(const emq_error *err)
{
    return err && err->status < 0 ? (emq_status)err->status : EMQ_E_STORE;
}

/* ---- queues (queue.c) ---------------------------------------------------------------------- */

struct sq_queue {
    emq_str prefix, name; /* borrowed from the caller */
    int64_t qid;
    /* columns of emq_queue */
    int64_t last_id, fence, front, back;
    int64_t count[SQ_STATES]; /* by state; [SQ_STAGED] unused */
    int64_t retry_delayed;
    struct emq__totals totals;
    int64_t limit_count, limit_until_ms, limit_max;
    int64_t event_ms, event_seq, event_count, publishing, visible;
    /* from emq_meta; 0 = not set */
    bool paused;
    int64_t concurrency, max, duration, max_events;
    /* during the act */
    bool dirty; /* set by everything below that changes a column; set it when you change one */
    bool wake;  /* sq_queue_save() rings the bell: work became ready, or a slot free */
    bool wake_events; /* and the other one, for those who wait for results; events set it too */
    struct emq__buf events; /* lines not yet stored */
    int64_t n_events;
    /* in this act: jobs that ended, records that retention has removed */
    int64_t finished, trimmed;
    /* retention of finished jobs waits until sq_retain_now(), a gain for batches */
    bool trim_later;
    bool trim[SQ_STATES];
    struct emq__keep trim_keep[SQ_STATES];
    int64_t oldest[SQ_STATES]; /* finished states: the oldest finished_at_ms, 0 = not known */
};

/* Reads the queue's row and settings. create: makes the row if absent, and visible (write
 * transactions only). A queue that only has unpublished stages is NOT_FOUND without create. EMQ_OK, EMQ_NOT_FOUND (*q is zero then; close is still allowed), failures. */
emq_status sq_queue_open(struct sq_tx *tx, emq_str prefix, emq_str name, bool create,
                         struct sq_queue *q, emq_error *err);
/* Also one that only has unpublished stages, as it is; EMQ_NOT_FOUND if there is no row. */
emq_status sq_queue_open_unseen(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_queue *q,
                                emq_error *err);
/* Stores events and the row if something changed; rings later if q->wake. */
emq_status sq_queue_save(struct sq_tx *tx, struct sq_queue *q, emq_error *err);
void sq_queue_close(struct sq_queue *q);
/* At the concurrency limit? */
bool sq_queue_maxed(const struct sq_queue *q);
/* Counts a job in or out of a state. */
void sq_count(struct sq_queue *q, int state, int64_t by);

/* An act on one queue whose jobs must all be in their places. A big stage is put in its places after
 * its publication, in slices; until then its jobs have state 8 in their rows though the counters
 * count them. These two finish that first (each slice an act of its own), then run fn with the queue
 * open; after a non-negative status the write form saves it. Every act that lists or changes jobs by
 * state uses them, or the third. EMQ_NOT_FOUND when there is no such queue (fn is not called). */
typedef emq_status (*sq_queue_fn)(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err);
emq_status sq_write_queue(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                          emq_error *err);
/* The write form, also of a queue that nobody sees because all it has is staged. */
emq_status sq_write_unseen(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                           emq_error *err);
emq_status sq_read_queue(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                         emq_error *err);
/* The read form, but as long as there are jobs out of their places `early` is run instead, before each slice.
 * EMQ_EMPTY: it can't tell yet. */
emq_status sq_read_early(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn early,
                         sq_queue_fn fn, void *arg, emq_error *err);

/* ---- jobs (row.c) -------------------------------------------------------------------------- */

/* The columns that moves need, in the order of the statements job_by_id and job_by_jid. Strings are
 * in the arena that the row was read with. */
struct sq_row {
    int64_t jid, ord1, ord2;
    int64_t fence, lock_end, lock_boot;
    int64_t delay_ms, timestamp_at_ms, finished_at_ms, expires_at_ms;
    int32_t state, priority, atm, ats, stalled, mode, cancel, logs, side;
    emq_str id, worker, dedup_id, deferred, parent_key, scheduler;
};

/* EMQ_OK, EMQ_NOT_FOUND, failures. */
emq_status sq_row_get(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                      struct emq__arena *mem, struct sq_row *row, emq_error *err);
/* From a stepped statement that selects the columns of job_by_id in that order. */
emq_status sq_row_read(sqlite3_stmt *st, struct emq__arena *mem, struct sq_row *row,
                       emq_error *err);
/* Is this the token of the hand-out in the row ("worker:fence")? */
bool sq_row_token_is(const struct sq_row *row, emq_str token);
/* Active, and its lock still runs (by tx->boot_ms, the time before waiting for the write lock). */
bool sq_row_locked(const struct sq_tx *tx, const struct sq_row *row);

/* The whole record from a stepped statement `SELECT * FROM emq_job …` (or `SELECT j.* …`): all
 * columns, in the order of the schema, nothing before them. Everything is copied into mem. prefix
 * and queue are stored as given, not copied. Reads side rows as needed. */
emq_status sq_job_read(struct sq_tx *tx, sqlite3_stmt *st, emq_str prefix, emq_str queue,
                       struct emq__arena *mem, struct emq__job **out, emq_error *err);
/* What moves need, from the same statement; the strings are the job's. */
void sq_row_of_job(sqlite3_stmt *st, const struct emq__job *j, struct sq_row *row);
/* By id; EMQ_NOT_FOUND leaves *out NULL. */
emq_status sq_job_get(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                      struct emq__arena *mem, struct emq__job **out, emq_error *err);

/* ---- moves (row.c): row and counters; no events, no totals ---------------------------------- */

/* What a move to waiting, prioritized or delayed writes beside the place. Fill it from the row with
 * sq_requeue_of(), change what is to change. The lock (mode, lock end, cancel) is cleared; fence and
 * worker stay: they are the last hand-out. */
struct sq_requeue {
    int32_t atm, ats, stalled, priority;
    int64_t delay_ms;        /* > 0: delayed until tx->now_ms + delay_ms; else into the line */
    int64_t processed_at_ms; /* -1 = leave */
    bool front;              /* of the line: of its own priority */
    emq_str failed_reason;   /* ptr NULL = leave */
    emq_str stacktrace;      /* JSON; empty = leave */
};
struct sq_requeue sq_requeue_of(const struct sq_row *row);
/* From any state. *row is brought up to date. Sets q->wake. */
emq_status sq_row_requeue(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                          const struct sq_requeue *to, emq_error *err);
/* The event that belongs to it: `waiting{jobId[,prev]}` or `delayed{jobId,delay}`. prev NULL = none. */
void sq_requeue_event(struct sq_queue *q, const struct sq_row *row, const char *prev);
/* finished -> line (RETRY of a finished job): clears finishedOn, processedOn, delay, failedReason or
 * result; reset: atm, ats and stc to 0; REDO: redo grows. */
emq_status sq_row_reprocess(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                            const struct emq__change *c, emq_error *err);
/* Deletes the job with everything of it (payloads, logs, dependencies, history) and counts it in
 * totals.removed. dedup: also the dedup id it owns and its stored next (every removal except
 * retention). Sets no event. */
emq_status sq_row_delete(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row, bool dedup,
                         emq_error *err);

/* active or unfinished -> completed or failed, whole: dedup window's end and the kept last duplicate,
 * retention, events (completed or failed, retries-exhausted), totals. `drained` is the settle act's. */
struct sq_finish {
    int32_t state; /* EMQ_COMPLETED_STATE, EMQ_FAILED_STATE */
    int32_t atm, ats, stalled;
    struct emq__payload result; /* completed */
    emq_str reason;             /* failed */
    emq_str stacktrace;         /* JSON; empty = leave */
    struct emq__keep keep;
    int32_t attempts; /* the job's limit, for retries-exhausted; 0 = no such event */
    const char *prev; /* of the event: "active", ... */
};
emq_status sq_finish(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                     const struct sq_finish *f, bool *gone, struct emq__arena *mem, emq_error *err);
/* The usual end of a job, settled by its owner: completed, with no dedup id and a short result.
 * *done = false: it is not that case (or not the owner), nothing happened. */
emq_status sq_finish_owned(struct sq_tx *tx, struct sq_queue *q, emq_str id, emq_str token,
                           struct emq__payload result, struct emq__keep keep, bool *done,
                           emq_error *err);
/* With q->trim_later: applies the retention that waits. Also done by whoever places the next job
 * under other rules. */
emq_status sq_retain_now(struct sq_tx *tx, struct sq_queue *q, emq_error *err);
/* The keep and attempts that a job's own opts text asks for (for admin acts, which bring none). */
emq_status sq_opts_of(struct sq_tx *tx, const struct sq_row *row, struct emq__arena *mem,
                      struct emq__opts *out, emq_error *err);
/* BullMQ's raw name for `prev` of a removed event ("wait", "delayed", ...). */
const char *sq_state_raw(int state);

/* ---- events (event.c) ---------------------------------------------------------------------- */

/* One event: begin, fields in the order of docs/protocol.md section 7, end. Buffered in the queue.
 * With opts.maxLenEvents = 0 nothing is written. */
void sq_event_begin(struct sq_queue *q, const char *event);
void sq_event_str(struct sq_queue *q, const char *field, emq_str value);
void sq_event_i64(struct sq_queue *q, const char *field, int64_t value);
void sq_event_json(struct sq_queue *q, const char *field, emq_str json); /* null when empty */
void sq_event_payload(struct sq_queue *q, const char *field,
                      struct emq__payload p); /* as JSON; null over 1024 bytes */
void sq_event_end(struct sq_queue *q);
/* Stores the buffered lines and trims the oldest rows: amortised, at most 256 rows. */
emq_status sq_events_flush(struct sq_tx *tx, struct sq_queue *q, emq_error *err);

/* ---- dedup ids (dedup.c): docs/protocol.md section 5.2 --------------------------------------- */

struct sq_dedup {
    emq_str owner;
    int64_t expires_at_ms;
    bool has_next;
};
/* A window that has ended counts as absent. EMQ_OK, EMQ_NOT_FOUND, failures. */
emq_status sq_dedup_get(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id,
                        struct emq__arena *mem, struct sq_dedup *out, emq_error *err);
/* Deletes the id and its stored next if `owner` holds it (empty = whoever does); *done says so. */
emq_status sq_dedup_release(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id,
                            emq_str owner, bool *done, emq_error *err);

/* ---- receipts (receipt.c) -------------------------------------------------------------------- */

/* The act's kind is part of the receipt: another act under the same sequence is E_INVALID, and so is
 * a sequence below the stored one. EMQ_OK: *body is the stored result (answer it, do nothing);
 * EMQ_NOT_FOUND: go on and call sq_receipt_store() before the end of the act. An empty session is
 * always EMQ_NOT_FOUND and is not stored. */
enum sq_receipt_act {
    SQ_RECEIPT_ADD = 1,
    SQ_RECEIPT_PUBLISH,
    SQ_RECEIPT_TAKE,
    SQ_RECEIPT_SETTLE,
    SQ_RECEIPT_WRITE,
    SQ_RECEIPT_CHANGE,
    SQ_RECEIPT_BULK,
    SQ_RECEIPT_OBLITERATE,
    SQ_RECEIPT_DEDUP,
    SQ_RECEIPT_META,
    SQ_RECEIPT_SWEEP,
    SQ_RECEIPT_MARK,
    SQ_RECEIPT_EFFECT
};
emq_status sq_receipt_find(struct sq_tx *tx, struct emq__call call, enum sq_receipt_act act,
                           struct emq__arena *mem, emq_str *body, emq_error *err);
emq_status sq_receipt_store(struct sq_tx *tx, struct emq__call call, enum sq_receipt_act act,
                            emq_str body, emq_error *err);
/* The body: a row of numbers and strings, written and read in the same order. */
void sq_put_i64(struct emq__buf *b, int64_t v);
void sq_put_str(struct emq__buf *b, emq_str s);
struct sq_reader {
    const unsigned char *p, *end;
    bool bad;
};
static inline struct sq_reader sq_reader_of(emq_str body)
{
    const unsigned char *p = (const unsigned char *)body.ptr;
    return (struct sq_reader){p, p + body.len, false};
}
int64_t sq_get_i64(struct sq_reader *r);
emq_str sq_get_str(struct sq_reader *r); /* points into the body */

/* ---- history (row.c) ------------------------------------------------------------------------- */

/* An exceptional entry of a job's life, for `why`: see the act history of engine.h. */
emq_status sq_history(struct sq_tx *tx, struct sq_row *row, const char *what, emq_str who,
                      emq_str detail, emq_error *err);
/* The last hand-out of a finished job, "completed" or "failed" when it was, before a retry forgets it. */
emq_status sq_history_keep(struct sq_tx *tx, struct sq_row *row, emq_error *err);

#endif
