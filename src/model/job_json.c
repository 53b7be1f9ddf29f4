/* SPDX-License-Identifier: MIT
 *
 * A job as one JSON object with BullMQ's names. Whatever is stored, the result is one valid JSON
 * text on one line.
 */
#include "model/job.h"

#include "base/json.h"

/* A stored text that is no JSON becomes a string. */
static void put_json(struct emq__buf *out, emq_str text)
{
    if (emq__json_valid(text, NULL))
        emq__json_line(out, text);
    else
        emq__json_quote(out, text);
}

void emq__payload_json(struct emq__buf *out, const char *key, const char *encoding_key,
                       const struct emq__payload *p)
{
    emq__json_key(out, key);
    switch (p->kind) {
    case EMQ__KIND_JSON: put_json(out, p->bytes); return;
    case EMQ__KIND_TEXT: emq__json_quote(out, p->bytes); return;
    case EMQ__KIND_BYTES:
        emq__buf_char(out, '"');
        emq__base64(out, p->bytes);
        emq__buf_char(out, '"');
        emq__json_key(out, encoding_key);
        emq__buf_text(out, "\"base64\"");
        return;
    }
    emq__buf_text(out, "null");
}

static void put_text(struct emq__buf *out, const char *key, emq_str s)
{
    emq__json_key(out, key);
    emq__json_quote(out, s);
}

static void put_text_if(struct emq__buf *out, const char *key, emq_str s)
{
    if (s.len)
        put_text(out, key, s);
}

static void put_json_if(struct emq__buf *out, const char *key, emq_str text)
{
    if (!text.len)
        return;
    emq__json_key(out, key);
    put_json(out, text);
}

/* An instant: null = it has not come yet. */
static void put_instant(struct emq__buf *out, const char *key, int64_t at_ms)
{
    emq__json_key(out, key);
    if (at_ms)
        emq__buf_i64(out, at_ms);
    else
        emq__buf_text(out, "null");
}

static void put_outcome(struct emq__buf *out, const struct emq__job *j)
{
    emq__payload_json(out, "returnvalue", "returnvalueEncoding", &j->result);
    emq__json_key(out, "failedReason");
    if (j->failed_reason.len)
        emq__json_quote(out, j->failed_reason);
    else
        emq__buf_text(out, "null");
    put_json_if(out, "stacktrace", j->stacktrace);
    emq__json_key(out, "progress");
    if (j->progress.len)
        put_json(out, j->progress);
    else
        emq__buf_char(out, '0');
}

static void put_hand_out(struct emq__buf *out, const struct emq__job *j)
{
    static const char *const modes[] = {"at-least-once", "at-most-once", "fire-and-forget"};

    emq__json_i64_member_if(out, "fence", j->fence);
    if (j->state != EMQ_ACTIVE)
        return;
    emq__json_i64_member(out, "lockLeftMs", j->lock_left_ms);
    put_text_if(out, "token", j->token);
    if (j->mode > 0 && (size_t)j->mode < EMQ_ARRAY_LEN(modes)) {
        emq__json_key(out, "mode");
        emq__buf_printf(out, "\"%s\"", modes[j->mode]);
    }
    if (j->cancel) {
        emq__json_key(out, "cancelRequested");
        emq__buf_text(out, "true");
    }
}

void emq__job_json(const struct emq__job *j, struct emq__buf *out)
{
    emq__buf_char(out, '{');
    put_text(out, "id", j->id);
    put_text(out, "name", j->name);
    put_text_if(out, "queue", j->queue);
    emq__payload_json(out, "data", "dataEncoding", &j->data);
    put_json_if(out, "opts", j->opts);
    put_text(out, "state", emq_cstr(emq_state_name(j->state)));
    emq__json_i64_member(out, "attemptsMade", j->attempts_made);
    emq__json_i64_member(out, "attemptsStarted", j->attempts_started);
    emq__json_i64_member(out, "stalledCounter", j->stalled);
    emq__json_i64_member(out, "priority", j->priority);
    emq__json_i64_member(out, "delay", j->delay_ms);
    emq__json_i64_member_if(out, "dueAt", j->due_at_ms);
    emq__json_i64_member(out, "timestamp", j->timestamp_at_ms);
    put_instant(out, "processedOn", j->processed_at_ms);
    put_instant(out, "finishedOn", j->finished_at_ms);
    put_text_if(out, "processedBy", j->processed_by);
    put_outcome(out, j);
    put_text_if(out, "deferredFailure", j->deferred_failure);
    put_text_if(out, "deduplicationId", j->dedup_id);
    put_text_if(out, "group", j->group);
    put_text_if(out, "parentKey", j->parent_key);
    put_json_if(out, "parent", j->parent);
    put_text_if(out, "repeatJobKey", j->scheduler);
    put_hand_out(out, j);
    emq__buf_char(out, '}');
}
