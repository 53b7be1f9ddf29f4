/* SPDX-License-Identifier: MIT
 *
 * THE seam: what a store can do for us. One act is one atomic act of the store (one transaction, one
 * script). Whatever can be composed above is not an act.
 *
 * Rules for every act:
 *   - Requests are borrowed for the call; results live in `mem`, the caller's arena. `res` need not
 *     be cleared by the caller. On a negative status `res` is unspecified.
 *   - Every result carries the store's now_ms. Callers pass spans, never instants of their own clock.
 *   - A mutating act with a session stores (session, sequence) with its compact result in the same
 *     transaction. The same session and sequence again changes nothing and returns that result.
 *     One session has one act under way at a time, and its sequence grows by one per act.
 *   - EMQ_E_UNAVAIL, E_BUSY, E_FULL, E_REFUSED, E_INVALID, E_NOMEM: nothing happened. E_INVALID with the native
 *     EEXIST: the request is not to blame, something else is in its place in the store.
 *     EMQ_E_IN_DOUBT: it may have. Nothing else may leave the caller guessing.
 *   - An act is bounded: the caller passes at most EMQ__BATCH_MAX entries and EMQ__BATCH_BYTES bytes.
 *   - All functions may be called from any thread at once.
 *   - Waiting workers are woken by the act that made work ready, after its commit.
 */
#ifndef EMQ_ENGINE_ENGINE_H
#define EMQ_ENGINE_ENGINE_H

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "model/job.h"
#include "model/opts.h"
#include "model/url.h"

#include <stdatomic.h>

enum { EMQ__BATCH_MAX = 1000, EMQ__BATCH_BYTES = 8 * 1024 * 1024 };

struct emq__engine;

/* Receipt identity. An empty session asks for no receipt. */
struct emq__call {
    emq_str session;
    uint64_t seq;
};

/* Who writes to a running job: its owner by token, or an administrator by name; the other is empty. */
struct emq__auth {
    emq_str token, admin;
};

/* ---- path -------------------------------------------------------------------------------- */

struct emq__add_entry {
    emq_str prefix, queue;
    emq_str id; /* empty = the queue's counter */
    emq_str name;
    struct emq__payload data;
    emq_str opts; /* JSON text, stored as it is */
    emq_str group, parent_key, parent, scheduler;
    struct emq__dedup dedup;
    /* the user's instant; 0 = the store's now. The due time is this + delay */
    int64_t timestamp_at_ms;
    int64_t delay_ms;
    int32_t priority;
    bool lifo;
};
struct emq__add_req {
    struct emq__call call;
    const struct emq__add_entry *const *entries;
    size_t n;
    emq_str stage; /* not empty: store invisibly under this name until publish; expires after 1 h */
    /* with a stage that has begun: E_STORE when that is gone, and its first jobs with it */
    bool goes_on;
};
#define EMQ__TEXT_STAGE_GONE \
    "the staged jobs expired before they could be published: none was added; try again"
struct emq__added {
    emq_status outcome; /* EMQ_OK, EMQ_DUPLICATE, EMQ_DEDUPLICATED */
    emq_str id;
    int state;
};
/* All entries or none. Duplicates of entries of the same batch count too. E_BUSY: the id of an entry belongs to
 * another stage, which is not published: nobody knows whether that job will ever be. */
#define EMQ__TEXT_HELD_BY_STAGE                                                                   \
    "job \"%.*s\" belongs to a batch that is not published yet: try again when it is, or, if it " \
    "was "                                                                                        \
    "given up, an hour after its last part"
struct emq__add_res {
    int64_t now_ms;
    struct emq__added *added;
    size_t n;
};

/* Ends a stage. It makes it visible, in the order it was added; or with `drop` it gives it up: its ids are free
 * at once, and what it held goes in slices. NOT_FOUND: no such stage (or expired); for `drop` also one whose
 * publication has begun, which goes on. */
struct emq__publish_req {
    struct emq__call call;
    emq_str prefix, stage;
    bool drop;
};
/* A job of a stage that did not come to be. */
struct emq__missed {
    int64_t rank; /* among what the stage took, from 0 */
    /* DUPLICATE: BullMQ, who knows of no stages, gave the id away; DEDUPLICATED; NOT_FOUND, without an id: its
     * queue was obliterated meanwhile. */
    struct emq__added why;
};
struct emq__publish_res {
    int64_t now_ms;
    int64_t count;              /* jobs that came to be */
    struct emq__missed *missed; /* all others of the stage, in no order */
    size_t n_missed;
};

struct emq__take {
    emq_str worker;
    int64_t lock_ms;
    int64_t limit_max, limit_duration_ms; /* the worker's own rate limiter; 0 = none */
    int32_t count;                        /* at most this many, 1..EMQ__BATCH_MAX */
    int32_t mode;                         /* an emq_mode */
};
struct emq__taken {
    struct emq__job **jobs; /* with token and fence; FIRE_AND_FORGET: already removed */
    size_t n;
    int64_t limited_ms;     /* > 0: the rate limit ends then */
    int64_t next_due_at_ms; /* the earliest delayed job; 0 = none */
    int64_t deferred; /* jobs that carried a deferred failure and were failed, not handed out */
    bool paused, maxed;
};
/* Promotes what is due (at most EMQ__BATCH_MAX), then takes: `waiting` in line order, then
 * `prioritized`. Paused or at the concurrency limit: nothing. EMQ_OK also when n = 0. */
struct emq__take_req {
    struct emq__call call;
    emq_str prefix, queue;
    struct emq__take take;
};
struct emq__take_res {
    int64_t now_ms;
    struct emq__taken taken;
};

enum emq__settle_kind {
    EMQ__SETTLE_COMPLETED = 1, /* atm + 1 */
    EMQ__SETTLE_FAILED = 2,    /* atm + 1; for good */
    EMQ__SETTLE_RETRY = 3,   /* atm + 1; back to the end of its line (front with lifo) or delayed */
    EMQ__SETTLE_RELEASE = 4, /* nothing charged, ats put back; front of its line, or delayed */
    EMQ__SETTLE_STALLED = 5 /* as the sweep: stc + 1, front of its line; over max_stalled: failed */
};
struct emq__settle_entry {
    emq_str id;
    struct emq__auth auth;
    enum emq__settle_kind kind;
    struct emq__payload value; /* COMPLETED: the result */
    emq_str reason;            /* why it ended; of RELEASE only the history has it */
    emq_str stack;             /* one trace to append; empty = none */
    struct emq__keep keep;     /* COMPLETED, FAILED, STALLED: retention of the state it ends in */
    int64_t stack_limit;
    int64_t delay_ms;    /* RETRY, RELEASE */
    int64_t max_stalled; /* STALLED */
    bool lifo;           /* RETRY */
};
struct emq__settled {
    emq_status outcome; /* EMQ_OK, EMQ_LOST, EMQ_NOT_FOUND, EMQ_WRONG_STATE */
    int state;          /* after it; 0 = gone */
};
/* Each entry for itself. A job held at-most-once may not be retried or released: WRONG_STATE. COMPLETED of a
 * parent of BullMQ's flows changes nothing while its children are not all done, EMQ_PENDING_CHILDREN, or when one has
 * failed that fails it, EMQ_FAILED_CHILD.
 * A job that was asked to stop does not go back: RETRY, RELEASE and STALLED end it failed,
 * EMQ__TEXT_CANCELLED. With `next` the same act then takes more. */
struct emq__settle_req {
    struct emq__call call;
    emq_str prefix, queue;
    const struct emq__settle_entry *const *entries;
    size_t n;
    const struct emq__take *next; /* NULL = settle only */
};
struct emq__settle_res {
    int64_t now_ms;
    struct emq__settled *settled;
    size_t n;
    struct emq__taken taken;
};

struct emq__extend_entry {
    emq_str prefix, queue, id, token;
};
struct emq__extend_req {
    const struct emq__extend_entry *const *entries;
    size_t n;
    int64_t lock_ms;
};
struct emq__extended {
    emq_status outcome; /* EMQ_OK, EMQ_LOST */
    bool cancel;        /* an administrator asked to stop */
};
/* A lock that has ended but whose job nobody has recovered yet is renewed. */
struct emq__extend_res {
    int64_t now_ms;
    struct emq__extended *extended;
    size_t n;
};

/* Active jobs whose token is of this worker ("<worker>:<fence>"). On a server it is told of those that it took in
 * the last 7 days; older ones may be left out. */
struct emq__claims_req {
    emq_str prefix, worker;
};
struct emq__claims_res {
    int64_t now_ms;
    struct emq__job **jobs;
    size_t n;
};

/* What BullMQ handed out may have no lock: it goes back when a sweep so long after the first that saw none sees none
 * either (LOOK_MS of sweep.lua). */
enum { EMQ__SECOND_LOOK_MS = 5000 };
/* Active jobs without a live lock go back to the front of their line (stc + 1); over max_stalled, or
 * held at-most-once, or asked to stop, they fail with the text of model/job.h. At most `limit` a
 * call. */
struct emq__sweep_req {
    struct emq__call call;
    emq_str prefix, queue;
    int64_t max_stalled;
    int32_t limit;
};
struct emq__sweep_res {
    int64_t now_ms;
    emq_str *recovered, *failed; /* ids */
    size_t n_recovered, n_failed;
    bool more;
};

struct emq__promote_req {
    emq_str prefix, queue;
    int32_t limit;
};
struct emq__promote_res {
    int64_t now_ms;
    int64_t count, next_due_at_ms;
    bool more;
};

/* Waits until one of the queues may have work since the ticket was read, the timeout (at most 1 s is
 * slept at a time by the engine; longer ones return TIMEOUT early), or *cancelled became non-zero and
 * interrupt() was called. EMQ_OK (look), EMQ_TIMEOUT (look too), EMQ_CANCELLED. */
struct emq__wait_req {
    emq_str prefix;
    const emq_str *queues;
    size_t n;
    uint64_t ticket; /* of ops->ticket(), read BEFORE looking for work */
    int64_t timeout_ms;
    const atomic_int *cancelled;
};
struct emq__wait_res {
    int64_t now_ms;
};

/* Workers wait for a queue's name: one of them is woken by what makes work ready. Who waits for events
 * or results of a queue waits for its name with this behind it (also in ticket()): all are woken. */
#define EMQ__BELL_EVENTS ":events"

struct emq__wake_req {
    emq_str prefix, queue;
};
struct emq__wake_res {
    int64_t now_ms;
};

/* ---- one job ----------------------------------------------------------------------------- */

enum emq__write_kind {
    EMQ__WRITE_PROGRESS = 1,
    EMQ__WRITE_DATA,
    EMQ__WRITE_LOG,
    EMQ__WRITE_CLEAR_LOGS,
    EMQ__WRITE_NOTE /* an entry of the history, "note"; by an administrator's name alone */
};
struct emq__write_req {
    struct emq__call call;
    emq_str prefix, queue, id;
    struct emq__auth auth;
    enum emq__write_kind kind;
    struct emq__payload value; /* PROGRESS: JSON; LOG, NOTE: text, of a note its emq__detail() */
    int64_t keep;              /* LOG, CLEAR_LOGS: lines kept; -1 = all */
};
/* EMQ_OK, EMQ_LOST, EMQ_NOT_FOUND. An owner's token is compared with the job's in the same act. */
struct emq__write_res {
    int64_t now_ms;
    int64_t logs;
};

enum emq__change_kind {
    EMQ__CHANGE_DELAY = 1, /* delayed only */
    EMQ__CHANGE_PRIORITY,  /* any state; moves waiting and prioritized jobs */
    EMQ__CHANGE_PROMOTE,   /* delayed only */
    EMQ__CHANGE_RETRY,     /* completed or failed */
    EMQ__CHANGE_REMOVE, /* not under a live lock: LOCKED; nor with a child that is: CHILD_LOCKED */
    EMQ__CHANGE_CANCEL /* active: flag for the owner; finished: WRONG_STATE; else failed "cancelled" */
};
/* RETRY of a job with a marker that is done. */
enum emq__effects {
    EMQ__EFFECTS_ASK = 0, /* outcome EMQ_EFFECT_DONE, nothing changes; bulk passes over it */
    EMQ__EFFECTS_KEEP,
    EMQ__EFFECTS_REDO /* its markers go, its `redo` grows by one */
};
struct emq__change {
    enum emq__change_kind kind;
    emq_str admin;
    int64_t delay_ms;
    int32_t priority;
    bool lifo, reset_attempts;
    enum emq__effects effects;
};
struct emq__change_req {
    struct emq__call call;
    emq_str prefix, queue;
    const emq_str *ids;
    size_t n;
    struct emq__change change;
};
/* Outcome per id: EMQ_OK, EMQ_NOT_FOUND, EMQ_WRONG_STATE, EMQ_LOCKED, EMQ_CHILD_LOCKED, EMQ_EFFECT_DONE;
 * EMQ_NEXT_RUN: REMOVE or CANCEL of what BullMQ's scheduler needs for making its next one. */
struct emq__change_res {
    int64_t now_ms;
    struct emq__settled *changed;
    size_t n;
};

/* ---- effects ----------------------------------------------------------------------------- */

/* Consumer idempotency: what is known of one effect of one job. Its key is the job's identity (prefix,
 * queue, id, creation time) and a step. It says nothing about adding: that is dedup. */
enum emq__marker_state {
    EMQ__MARKER_FRESH = 1, /* this very call claimed it */
    EMQ__MARKER_DONE,
    EMQ__MARKER_IN_DOUBT, /* claimed by an earlier hand-out, whose lock is gone; never marked done */
    EMQ__MARKER_BUSY /* claimed by this very hand-out before, not done; in lists: by the living one */
};
struct emq__marker {
    emq_str id, step;
    emq_str token; /* of the hand-out that claimed it last; done by an administrator: empty */
    emq_str fingerprint;
    struct emq__payload result; /* DONE */
    int64_t timestamp_at_ms;    /* of the job */
    int64_t claimed_at_ms, done_at_ms, expires_at_ms;
    int32_t state;
};

enum emq__mark_kind {
    EMQ__MARK_CLAIM = 1, /* free: FRESH, claimed. Else nothing changes, and the state is told */
    EMQ__MARK_TAKE_OVER, /* the same, but what is IN_DOUBT or BUSY becomes FRESH, this hand-out's */
    EMQ__MARK_DONE,      /* claimed by this hand-out: done, with its result */
    EMQ__MARK_RELEASE,   /* claimed by this hand-out: gone, as if never claimed */
    EMQ__MARK_SETTLE,    /* an administrator: done, whatever it was; makes one if there is none */
    EMQ__MARK_FORGET     /* an administrator: gone */
};
/* Compares the owner's token with the job's in the same act, as `write` does; a refused owner is recorded.
 * EMQ_OK; EMQ_LOST; EMQ_NOT_FOUND (no such job; FORGET: no such marker); EMQ_CONFLICT (claimed with another
 * fingerprint, neither of them empty); EMQ_WRONG_STATE (DONE, RELEASE: this hand-out has not claimed it).
 * DONE of what this hand-out has done already: OK, the first result stays. A marker past expires_at_ms
 * is absent. */
struct emq__mark_req {
    struct emq__call call;
    emq_str prefix, queue, id, step;
    struct emq__auth auth; /* SETTLE, FORGET: an administrator; else the owner */
    enum emq__mark_kind kind;
    bool settles; /* TAKE_OVER, for the history: it will be recorded as done, not done again */
    emq_str fingerprint;        /* CLAIM, TAKE_OVER */
    struct emq__payload result; /* DONE, SETTLE */
    int64_t keep_ms; /* >= 1, how long it is known from now on; CLAIM, TAKE_OVER, DONE, SETTLE */
};
struct emq__mark_res {
    int64_t now_ms;
    struct emq__marker marker; /* after the act; state 0 = none */
};

/* Markers of a queue, or of one id, sorted by id, timestamp and step; behind a marker of an earlier call. */
struct emq__markers_req {
    emq_str prefix, queue;
    emq_str id; /* empty = all */
    const struct emq__marker *after;
    int32_t limit;
};
struct emq__markers_res {
    int64_t now_ms;
    struct emq__marker *markers;
    size_t n;
};

/* The transactional effect is no act of this table: it carries what only one store understands. Each is the
 * settlement COMPLETED of one entry by its owner, with a receipt, and a marker DONE of `step`. A marker that is
 * done already: the effect is left out, the settlement is done. */
struct emq__effect_req {
    struct emq__call call;
    emq_str prefix, queue;
    const struct emq__settle_entry *entry;
    emq_str step;
    int64_t keep_ms;
};
struct emq__effect_res {
    int64_t now_ms;
    emq_status outcome; /* of the settlement; EMQ_FAILED, EMQ_TIMEOUT */
    int state;          /* of the job after it */
};

/* ---- a queue ----------------------------------------------------------------------------- */

/* The same changes over the jobs of one state, oldest first, at most `limit` a call. Jobs that the
 * change does not allow are passed over. PROMOTE and RETRY keep priorities. */
struct emq__bulk_req {
    struct emq__call call;
    emq_str prefix, queue;
    struct emq__change change;
    int32_t state;
    int64_t older_ms; /* only jobs finished (else: added) at least this long ago */
    int32_t limit;
    bool event;       /* REMOVE: one event `cleaned` with the count */
    emq_str after_id; /* go on behind this job: for CANCEL, which leaves jobs where they are */
};
struct emq__bulk_res {
    int64_t now_ms;
    int64_t count;
    bool more;
    emq_str last_id;
};

/* WRONG_STATE: not paused and not forced. LOCKED: active jobs and not forced. Everything of the
 * queue goes, in every state, with dedup ids, events, meta and counters; at most `limit` jobs. */
struct emq__obliterate_req {
    struct emq__call call;
    emq_str prefix, queue;
    bool force;
    int32_t limit;
};
struct emq__obliterate_res {
    int64_t now_ms;
    int64_t count;
    bool more;
};

/* Producer dedup: read, or release by compare-and-delete (`owner` empty = whoever holds it).
 * NOT_FOUND: nobody holds it, or (release) another job does. */
struct emq__dedup_req {
    struct emq__call call;
    emq_str prefix, queue, dedup_id, owner;
    bool release;
};
struct emq__dedup_res {
    int64_t now_ms;
    emq_str owner;
    int64_t ttl_ms;
};

/* Settings as text (docs/protocol.md section 3: paused, concurrency, max, duration,
 * opts.maxLenEvents). An empty value removes the field. Setting `paused` emits its event. */
struct emq__meta_field {
    emq_str field, value;
};
struct emq__meta_req {
    struct emq__call call;
    emq_str prefix, queue;
    emq_str admin;
    const struct emq__meta_field *set;
    size_t n_set; /* 0 = only read */
};
struct emq__meta_res {
    int64_t now_ms;
    struct emq__meta_field *fields;
    size_t n;
}; /* sorted by name */
/* What is to be set, before an engine writes anything: E_INVALID with the name, the value and what is allowed. */
emq_status emq__meta_check(const struct emq__meta_req *req, emq_error *err);

/* ---- reading ----------------------------------------------------------------------------- */

struct emq__jobs_req {
    emq_str prefix, queue;
    const emq_str *ids;
    size_t n;
};
struct emq__jobs_res {
    int64_t now_ms;
    struct emq__job **jobs;
    size_t n;
}; /* NULL where missing */

struct emq__totals {
    int64_t added, started, completed, failed, retried, recovered, deduplicated, removed;
};
struct emq__stats_req {
    emq_str prefix, queue;
    bool beginning; /* of a worker with the queue: told is what would refuse its acts */
    /* For a worker that ends when nothing is left: `takeable`, and every delayed job is looked at if need
     * be, in slices. */
    bool ending;
    int32_t mode; /* ... an emq_mode: the takes of that worker */
};
struct emq__stats_res {
    int64_t now_ms;
    int64_t count[EMQ_STATE_COUNT + 1]; /* by emq_state */
    int64_t limited_ms, next_due_at_ms, oldest_waiting_at_ms, concurrency;
    struct emq__totals totals;
    /* Delayed jobs that have been handed out before. A server may count only among the 1000 next due;
     * with `ending` it is 0 only if there is none. */
    int64_t retry_delayed;
    /* With `ending`: among as many jobs in line as a take looks at is one that it does not leave to others. */
    bool takeable;
    bool paused, maxed, exists;
    bool read_only; /* the store takes no acts that change anything: E_REFUSED */
};

/* Jobs of one state in the order in which they would be taken, due, or were finished. Bounded by bytes
 * too: once EMQ__BATCH_BYTES of emq__job_bytes() have been read it stops, with at least one job, and
 * says `more`. */
struct emq__find_req {
    emq_str prefix, queue;
    int32_t state;
    bool newest_first;
    int64_t offset;   /* by rank; with after_id: about where that job stands, 0 = unknown */
    emq_str after_id; /* keyset: behind this job; NOT_FOUND if it left the state */
    int32_t limit;
};
struct emq__find_res {
    int64_t now_ms;
    struct emq__job **jobs;
    size_t n;
    bool more; /* stopped by the bytes, not by `limit` or the end of the state */
};

struct emq__queues_req {
    emq_str prefix;
    bool unseen; /* also those that have jobs, but have lost what makes them seen: for suspects() */
};
struct emq__queues_res {
    int64_t now_ms;
    emq_str *names;
    size_t n;
}; /* sorted */

struct emq__logs_req {
    emq_str prefix, queue, id;
    int64_t start, count;
}; /* count 0 = all */
struct emq__logs_res {
    int64_t now_ms;
    emq_str *lines;
    size_t n;
    int64_t total;
};

struct emq__event {
    emq_str id;
    emq_str json;
}; /* "ms-seq"; {"id","event",…} as in protocol.md 7 */
struct emq__events_req {
    emq_str prefix, queue, after;
    int32_t limit;
}; /* after: "", "$", or an id */
struct emq__events_res {
    int64_t now_ms;
    struct emq__event *events;
    size_t n;
    emq_str last_id;
};

/* The last exceptional entries of a job's life, oldest first: "refused" (LOST), "recovered", "retried" and "released"
 * (a hand-out that ended without an end of the job; who = its token, detail = the reason), "completed" and "failed" (one
 * that ended the job; written when it is retried by hand), "doubt", "redo" and "settled" (who met the effect of an
 * earlier hand-out in doubt, took it over to do it again, or to record it as done; detail = its step, a space, the token
 * that had claimed it), "admin", "note". */
enum { EMQ__HISTORY_MAX = 100 };
struct emq__history_req {
    emq_str prefix, queue, id;
};
struct emq__history_res {
    int64_t now_ms;
    emq_str *json;
    size_t n;
}; /* {"at","what","who","detail"} */

/* One consistent picture of a whole queue, for `check`, tests and fsck. Small queues only. */
struct emq__dump_dedup {
    emq_str id, owner;
    int64_t ttl_ms;
    bool has_next;
};
struct emq__dump_req {
    emq_str prefix, queue;
};
struct emq__dump_res {
    int64_t now_ms;
    struct emq__job **jobs; /* by emq_state, within it in find order */
    size_t n;
    struct emq__dump_dedup *dedup; /* sorted by id */
    size_t n_dedup;
    struct emq__stats_res stats;
    int64_t last_fence, id_counter;
    int64_t stray; /* rows or keys that belong to no job: logs, locks, lists; must be 0 */
};

/* ---- looking after ----------------------------------------------------------------------- */

/* What a slice of a reading shows to be against docs/protocol.md section 10.2, or against the store's own
 * schema. Other acts may have come between the parts of it: only mend() knows. */
struct emq__suspect {
    emq_str flaw; /* the kind, a short name */
    emq_str id;   /* the job; empty = of none */
    emq_str key;  /* for mend(): the engine's own */
    emq_str text; /* what is wrong */
};
struct emq__suspects_req {
    emq_str prefix, queue; /* queue empty: what belongs to no queue of the store */
    emq_str after;         /* empty, then `next` of the answer before */
    /* of one walk: {0} at first; the caller ends it with emq__suspects_end() */
    struct emq__suspect_ids *met;
};
/* A walk over a queue: each call a slice of some thousand jobs. */
struct emq__suspects_res {
    int64_t now_ms;
    struct emq__suspect *suspects;
    size_t n;
    emq_str next; /* empty: the walk is over */
};
/* What an engine remembers of a walk: some 60 bytes a job. */
struct emq__suspect_ids {
    struct emq__map places;
    int64_t greatest; /* id that the counter may have given */
};
static inline void emq__suspects_end(struct emq__suspect_ids *met)
{
    emq__map_free(&met->places);
}

enum emq__mended {
    EMQ__MEND_HEALTHY = 1, /* it is no violation, or none any more */
    EMQ__MEND_BROKEN,
    EMQ__MEND_REPAIRED
};
/* Looks at one suspect, and with `repair` makes it good, in the same act. What can't be made good without
 * losing or inventing something stays broken. Doing it twice does no harm. */
struct emq__mend_req {
    emq_str prefix, queue;
    const struct emq__suspect *suspect;
    bool repair;
};
struct emq__mend_res {
    int64_t now_ms;
    int32_t outcome; /* an emq__mended */
    /* BROKEN, REPAIRED: what would be, or was, done; empty = it can't be repaired */
    emq_str remedy;
    bool waits; /* BROKEN: a worker's sweep would make it good; it counts when none does */
};

/* What a doctor asks about the store: names and values, both plain text. The names are in lab/doctor.c. */
struct emq__fact {
    emq_str name, value;
};
struct emq__facts_req {
    emq_str prefix;
};
struct emq__facts_res {
    int64_t now_ms;
    struct emq__fact *facts;
    size_t n;
};

/* ---- the table --------------------------------------------------------------------------- */

/* name, mutating. Everything that must exist per act is generated from this list. */
/* clang-format off */
#define EMQ__ACTS(X)                                                                             \
    X(add, 1) X(publish, 1) X(take, 1) X(settle, 1) X(extend, 1) X(claims, 0) X(sweep, 1)        \
    X(promote, 1) X(wait, 0) X(wake, 0) X(write, 1) X(change, 1) X(bulk, 1) X(obliterate, 1)     \
    X(dedup, 1) X(meta, 1) X(jobs, 0) X(stats, 0) X(find, 0) X(queues, 0) X(logs, 0)             \
    X(events, 0) X(history, 0) X(dump, 0) X(mark, 1) X(markers, 0)                   \
    X(suspects, 0) X(mend, 1) X(facts, 0)
/* clang-format on */

struct emq__engine_ops {
    const char *name; /* "sqlite" */
#define EMQ__ACT_MEMBER(act, mutating)                                       \
    emq_status (*act)(struct emq__engine *, const struct emq__##act##_req *, \
                      struct emq__##act##_res *, struct emq__arena *mem, emq_error *err);
    EMQ__ACTS(EMQ__ACT_MEMBER)
#undef EMQ__ACT_MEMBER
    /* A number that changes whenever one of the queues may have got work. No store access. */
    uint64_t (*ticket)(struct emq__engine *, emq_str prefix, const emq_str *queues, size_t n);
    /* Lets all waits of this handle look at their `cancelled` again. Async-signal-safe. */
    void (*interrupt)(struct emq__engine *);
    /* Tests only: moves the store's clocks (wall and lock clock) forward. */
    emq_status (*advance)(struct emq__engine *, int64_t ms, emq_error *err);
    /* No other call may be running. */
    void (*close)(struct emq__engine *);
};

/* Every engine and decorator starts with this. */
struct emq__engine {
    const struct emq__engine_ops *ops;
};

/* Where opening may make a store. What is none then is E_STORE with the native ENODATA, and untouched. */
enum emq__making {
    EMQ__MAKE_ANYWHERE, /* beside another program's tables too */
    EMQ__MAKE_NEW,      /* a new or empty file */
    EMQ__MAKE_NONE
};

struct emq__engine_config {
    struct emq__url url;
    int64_t io_timeout_ms;
    struct emq__log log;
    enum emq__making making;
    bool stop_clock; /* tests only: the store's clocks stand still, advance() alone moves them */
};

/* Engines. */
emq_status emq__sqlite_open(struct emq__engine **out, const struct emq__engine_config *cfg,
                            struct emq__arena *mem, emq_error *err);
emq_status emq__redis_open(struct emq__engine **out, const struct emq__engine_config *cfg,
                           struct emq__arena *mem, emq_error *err);

/* ---- decorators: each owns the engine under it and closes it ----------------------------- */

/* One line a call to `log` (level debug): act, status, µs. EMQ_TRACE=engine switches it on. */
emq_status emq__trace_wrap(struct emq__engine **e, const struct emq__log *log, emq_error *err);

enum emq__fault {
    EMQ__FAULT_NONE = 0,
    EMQ__FAULT_UNAVAIL,      /* not sent; E_UNAVAIL */
    EMQ__FAULT_LOSE_REQUEST, /* dropped before the act; E_IN_DOUBT */
    EMQ__FAULT_LOSE_REPLY    /* the act is done; E_IN_DOUBT */
};
/* Asked before each mutating act (and before wait); may sleep to delay it. */
typedef enum emq__fault (*emq__fault_fn)(void *user, const char *act);
emq_status emq__fault_wrap(struct emq__engine **e, emq__fault_fn fn, void *user, emq_error *err);

/* After each mutating act: the invariants of docs/protocol.md section 10.2 over dump() of the queues it
 * touched. A violation calls `on_broken` with one line; NULL = print to stderr and abort(). */
typedef void (*emq__broken_fn)(void *user, const char *line);
emq_status emq__check_wrap(struct emq__engine **e, emq__broken_fn on_broken, void *user,
                           emq_error *err);
/* The check itself: number of violations, each given to fn. */
int emq__check_dump(const struct emq__dump_res *d, emq__broken_fn fn, void *user);

#endif
