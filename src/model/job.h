/* SPDX-License-Identifier: MIT
 *
 * A job's record as it is stored, with BullMQ's meaning of every field (docs/protocol.md section
 * 2). Strings live in the arena of the call that read the record.
 *
 * To add a field: here, in the SQLite schema (a migration step), in both readers, in job_json.c and
 * in the dump that the model comparison uses.
 */
#ifndef EMQ_MODEL_JOB_H
#define EMQ_MODEL_JOB_H

#include "base/base.h"
#include "base/buf.h"

/* How bytes are stored (docs/protocol.md; ARCHITECTURE.md section 8). The values are on disk. */
enum emq__kind {
    EMQ__KIND_JSON = 1, /* one valid JSON value, kept byte for byte */
    EMQ__KIND_TEXT = 2, /* other UTF-8 */
    EMQ__KIND_BYTES = 3
};
enum emq__kind emq__kind_of(emq_str bytes); /* an empty payload is TEXT */

struct emq__payload {
    enum emq__kind kind; /* 0 = absent */
    emq_str bytes;
};

struct emq__job {
    emq_str prefix, queue, id, name;
    struct emq__payload data;
    struct emq__payload result;
    emq_str opts;             /* JSON object, BullMQ's short names */
    emq_str failed_reason;    /* raw text */
    emq_str stacktrace;       /* JSON array of strings, oldest first; empty = none */
    emq_str progress;         /* JSON; empty = none */
    emq_str processed_by;     /* empty = not known: a worker of BullMQ may have no name */
    emq_str deferred_failure; /* `defa`: fail with this text instead of running */
    emq_str dedup_id;
    emq_str group;
    emq_str parent_key, parent; /* BullMQ's parentKey and parent JSON */
    emq_str scheduler;          /* BullMQ's rjk */
    emq_str token;              /* of the living or last lock; empty = none */
    int64_t timestamp_at_ms;
    int64_t delay_ms;
    int64_t due_at_ms;       /* delayed: when; else 0 */
    int64_t processed_at_ms; /* 0 = never */
    int64_t finished_at_ms;  /* 0 = not finished */
    int64_t lock_left_ms;    /* active: time left by the store's clock, <= 0 = ended; else 0 */
    int64_t fence;           /* of the last hand-out; 0 = never */
    int32_t state;           /* an emq_state */
    int32_t priority;
    int32_t attempts_made;    /* atm */
    int32_t attempts_started; /* ats */
    int32_t stalled;          /* stc */
    int32_t mode;             /* the emq_mode it is held under; 0 when not active */
    bool foreign;             /* its last hand-out that is on record was by BullMQ, not by us */
    int32_t redo;             /* how often its effects were asked for anew: part of its identity */
    int32_t cancel;           /* 1 = an administrator asked the owner to stop */
    bool next_run;            /* of its scheduler, which makes no more without it */
    bool damaged; /* its data is not in the store, or of no known kind: it must not run */
};

/* Identity for effects and idempotency keys: prefix, queue, id, creation time, and `redo` unless it is 0;
 * each part is percent-encoded where it holds ':' or '%', joined by ':'. */
void emq__job_identity(const struct emq__job *j, struct emq__buf *out);
/* The object that `emq show --json` prints: BullMQ's names, one line. Data and result are embedded
 * as they are (line breaks between JSON tokens become spaces); bytes that are no text as base64,
 * with "dataEncoding" or "returnvalueEncoding":"base64" beside. The token of an active job is
 * printed when it is there: readers that must not see it clear it first. */
void emq__job_json(const struct emq__job *j, struct emq__buf *out);
/* One member of such an object: data or a result; absent is null. */
void emq__payload_json(struct emq__buf *out, const char *key, const char *encoding_key,
                       const struct emq__payload *p);
/* Bytes of what can be long in a record: data, result, stack traces, progress, options. */
size_t emq__job_bytes(const struct emq__job *j);
/* The token of a hand-out: "<worker>:<fence>". */
void emq__token_format(emq_str worker, int64_t fence, char out[EMQ_TOKEN_MAX + 1]);
/* The fence after `last` at store time now_us: max(last + 1, now_us), below 2^53. A clock that is
 * off by centuries (past 2^52 us) is not followed: it would use up the numbers. */
int64_t emq__fence_next(int64_t last, int64_t now_us);
/* Appends one trace to a JSON array of strings ("" and what is no array count as []), keeping the
 * last `limit` (-1 = all, 0 = none). An empty trace appends nothing. */
void emq__stack_append(emq_str json, emq_str trace, int64_t limit, struct emq__buf *out);

/* A text as the detail of an entry of the history: its beginning, whole characters, at most EMQ__DETAIL_MAX
 * bytes. */
enum { EMQ__DETAIL_MAX = 200 };
emq_str emq__detail(emq_str text);
/* The same of an act on an effect: what (may be ""), step and the answer, if it is text, with a space between. */
emq_str emq__effect_detail(const char *what, emq_str step, const struct emq__payload *answer,
                           char out[EMQ__DETAIL_MAX + 1]);

/* Texts that end up as data; the first two are BullMQ's. */
#define EMQ__TEXT_STALLED      "job stalled more than allowable limit"
#define EMQ__TEXT_AT_MOST_ONCE "at-most-once: the worker that took it died"
#define EMQ__TEXT_CANCELLED    "cancelled"
#define EMQ__TEXT_LOCK_ENDED   "the lock had ended" /* of a history */
#define EMQ__TEXT_DAMAGED      "undecodable: the data of this record is missing or of no known kind"

#endif
