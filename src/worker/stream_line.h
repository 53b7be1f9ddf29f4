/* SPDX-License-Identifier: MIT
 *
 * The lines of --stream: a job as one line of JSON, and the answers. Pure.
 */
#ifndef EMQ_WORKER_STREAM_LINE_H
#define EMQ_WORKER_STREAM_LINE_H

#include "base/arena.h"
#include "base/buf.h"
#include "model/job.h"

enum emq__answer_end {
    EMQ__ANSWER_GOES_ON = 1, /* progress, log, sql, redis: more follows */
    EMQ__ANSWER_RESULT,
    EMQ__ANSWER_ERROR,
    EMQ__ANSWER_GIVE_BACK
};

struct emq__answer {
    enum emq__answer_end end;
    bool has_progress, has_log, has_id;
    bool final;       /* ERROR: for good */
    emq_str progress; /* JSON */
    emq_str log, id, error, stack;
    emq_str sql, redis;     /* names of files; empty = none */
    emq_str result;         /* the bytes to store; ptr NULL = null */
    int64_t retry_after_ms; /* -1 = not said */
};

/* "{...}\n": id, queue, name, data (as in emq__job_json), attempt, fence, token, idempotencyKey,
 * deadlineAtMs (0 = none). */
void emq__stream_request(const struct emq__job *j, int64_t deadline_at_ms, struct emq__buf *out);
/* NULL, or what is wrong with the line (static). Strings live in mem or in the line. */
const char *emq__answer_parse(emq_str line, struct emq__arena *mem, struct emq__answer *out);

#endif
