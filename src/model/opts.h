/* SPDX-License-Identifier: MIT
 *
 * Job options: checking what a caller gave, the JSON text that is stored (BullMQ's short names),
 * and reading that text back, also when BullMQ wrote it. Our own keys beside BullMQ's: `timeout`,
 * `backoff.max`, `group`.
 */
#ifndef EMQ_MODEL_OPTS_H
#define EMQ_MODEL_OPTS_H

#include "base/arena.h"
#include "base/buf.h"

struct emq__backoff {
    int32_t type; /* an emq_backoff_type, never DEFAULT; 0 = a name we don't know */
    int64_t delay_ms;
    int64_t max_ms; /* 0 = no cap */
    double jitter;  /* 0..1 */
};

struct emq__keep {
    int64_t count;  /* -1 = all, 0 = none, n = the n newest */
    int64_t age_ms; /* 0 = no limit by age */
};

struct emq__dedup {
    emq_str id; /* empty = none */
    int64_t ttl_ms;
    bool extend, replace, keep_last;
};

/* Everything that the `opts` object of a job says, with the defaults filled in. */
struct emq__opts {
    struct emq__backoff backoff;
    struct emq__keep keep_completed, keep_failed;
    struct emq__dedup dedup;
    emq_str group;
    int64_t delay_ms, timestamp_at_ms, timeout_ms;
    int64_t keep_logs;   /* -1 = all */
    int64_t stack_limit; /* -1 = all */
    int32_t attempts;    /* >= 1 */
    int32_t priority;
    bool lifo;
};

/* The texts and numbers of the defaults. */
#define EMQ__DEFAULT_NAME "__default__"
enum {
    EMQ__DEFAULT_ATTEMPTS = 3,
    EMQ__DEFAULT_BACKOFF_MS = 1000,
    EMQ__DEFAULT_BACKOFF_MAX_MS = 3600 * 1000,
    EMQ__DEFAULT_KEEP_LOGS = 1000,
    EMQ__KEEP_LOGS_MAX = 1000000, /* that a user may write */
    EMQ__DEFAULT_STACK_LIMIT = 10
};

/* Checks a caller's options (NULL = defaults) and fills in the defaults: attempts 3, exponential
 * backoff 1 s capped at 1 h with jitter 0.25, keep 1000 or 24 h completed, 10000 or 30 d failed,
 * 1000 log lines, 10 stack traces. Also checks id, name and dedup id. Copies nothing: strings are
 * the caller's. E_INVALID names the option, the value and the range. A shorter struct of an older
 * caller is accepted; a longer one with unknown non-zero bytes is refused. */
emq_status emq__opts_from_public(const emq_add_opts *in, struct emq__opts *out, emq_str *id,
                                 emq_str *name, emq_error *err);
/* The JSON object to store. Everything that BullMQ needs to obey it is written explicitly. */
void emq__opts_write(const struct emq__opts *o, emq_str custom_id, struct emq__buf *out);
/* Reads a stored object. What is missing gets BullMQ's meaning (attempts 1, no backoff, keep all);
 * false only when the text is not a JSON object (out then has those defaults). */
bool emq__opts_read(emq_str json, struct emq__arena *mem, struct emq__opts *out);

/* "TYPE:D[,max=D][,jitter=F]", TYPE fixed or exponential, or "none". D is a span with its unit. */
emq_status emq__backoff_parse(emq_str text, struct emq__backoff *out, emq_error *err);
/* What a parsed text means in the public struct. */
void emq__backoff_to_public(const struct emq__backoff *b, emq_add_opts *out);
void emq__keep_to_public(const struct emq__keep *k, int64_t *out_count, int64_t *out_ms);
/* "simple", "extend", "replace", "keep-last". */
emq_status emq__dedup_mode_parse(emq_str text, int32_t *out, emq_error *err);

/* One line of a batch file: a JSON object in the public spelling. All keys may be left out, null
 * counts as left out, unknown keys are refused by name:
 *
 *   data           any JSON value: its exact bytes are the data; left out: no bytes
 *   text           a string: its characters, without quotes and escapes, are the data
 *   name, id, group                      strings
 *   delay, timeout                       a span: "5s", or whole milliseconds
 *   timestamp                            creation time, Unix milliseconds
 *   priority, attempts, keepLogs         whole numbers
 *   lifo                                 true or false
 *   backoff                              a string, as of emq__backoff_parse()
 *   dedup                                the id, or {"id","ttl","mode"}
 *   dedupTtl, dedupMode                  with "dedup" as a string
 *   keepCompleted, keepFailed            a string as of emq__keep_parse(), or a count
 *
 * Fills `out` (strings in mem) and *data, a slice of `line` or in mem. Values are checked as by
 * emq__opts_from_public(). */
emq_status emq__opts_from_batch(emq_str line, struct emq__arena *mem, emq_add_opts *out,
                                emq_str *data, emq_error *err);

#endif
