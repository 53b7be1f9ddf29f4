/* SPDX-License-Identifier: MIT
 *
 * Writing requests and reading answers of a program that serves many jobs. An answer is one JSON
 * object a line; what it holds beyond the members below is left alone.
 */
#include "worker/stream_line.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"

static void put_text(struct emq__buf *out, const char *key, emq_str s)
{
    emq__json_key(out, key);
    emq__json_quote(out, s);
}

static void put_data(struct emq__buf *out, const struct emq__payload *p)
{
    emq__json_key(out, "data");
    switch (p->kind) {
    case EMQ__KIND_JSON: emq__json_line(out, p->bytes); return;
    case EMQ__KIND_TEXT:
        emq__json_quote(out, p->bytes);
        emq__json_key(out, "dataEncoding");
        emq__buf_text(out, "\"text\"");
        return;
    case EMQ__KIND_BYTES:
        emq__buf_char(out, '"');
        emq__base64(out, p->bytes);
        emq__buf_char(out, '"');
        emq__json_key(out, "dataEncoding");
        emq__buf_text(out, "\"base64\"");
        return;
    }
    emq__buf_text(out, "null");
}

void emq__stream_request(const struct emq__job *j, int64_t deadline_at_ms, struct emq__buf *out)
{
    struct emq__buf key;

    emq__buf_char(out, '{');
    put_text(out, "id", j->id);
    put_text(out, "queue", j->queue);
    put_text(out, "name", j->name);
    put_data(out, &j->data);
    emq__json_i64_member(out, "attempt", (int64_t)j->attempts_made + 1);
    emq__json_i64_member(out, "fence", j->fence);
    put_text(out, "token", j->token);
    emq__buf_init(&key, 16 * 1024);
    emq__job_identity(j, &key);
    put_text(out, "idempotencyKey", emq__buf_view(&key));
    if (key.failed == EMQ_E_NOMEM)
        out->failed = EMQ_E_NOMEM;
    emq__buf_free(&key);
    emq__json_i64_member(out, "deadlineAtMs", deadline_at_ms);
    emq__buf_text(out, "}\n");
}

/* ---- answers ------------------------------------------------------------------------------ */

static bool is_true(struct emq__json object, const char *name)
{
    struct emq__json v;

    return emq__json_get(object, name, &v) && v.type == EMQ__JSON_TRUE;
}

/* A string as its text; any other value as its JSON. */
static emq_str text_of(struct emq__json v, struct emq__arena *mem)
{
    emq_str s;

    return v.type == EMQ__JSON_STRING && emq__json_str(v, mem, &s) ? s : v.raw;
}

static const char *read_result(struct emq__json object, struct emq__json v, struct emq__arena *mem,
                               emq_str *out)
{
    struct emq__json encoding;
    emq_str text;

    *out = v.type == EMQ__JSON_NULL ? emq_strn(NULL, 0) : v.raw;
    if (!emq__json_get(object, "resultEncoding", &encoding))
        return NULL;
    if (!emq__json_str(v, mem, &text))
        return "a \"result\" with \"resultEncoding\" is a string";
    if (!emq__json_exact(v))
        return "the \"result\" is no text: it has half of a surrogate pair";
    if (emq__str_is(encoding.raw, "\"text\"")) {
        *out = text;
        return NULL;
    }
    if (!emq__str_is(encoding.raw, "\"base64\""))
        return "\"resultEncoding\" is \"text\" or \"base64\"";
    return emq__base64_decode(text, mem, out) ? NULL : "the \"result\" is not base64";
}

static const char *read_error(struct emq__json object, struct emq__arena *mem,
                              struct emq__answer *out)
{
    struct emq__json v;
    emq_str text;

    out->final = is_true(object, "final");
    if (emq__json_get(object, "stack", &v))
        out->stack = text_of(v, mem);
    if (!emq__json_get(object, "retryAfter", &v))
        return NULL;
    if (!emq__json_str(v, mem, &text) ||
        emq__duration_parse(text, &out->retry_after_ms, NULL) != EMQ_OK ||
        out->retry_after_ms < 0) {
        out->retry_after_ms = -1;
        return "\"retryAfter\" is a duration with a unit: \"30s\"";
    }
    return NULL;
}

/* Empty, and no such member, is none. */
static const char *read_file_name(struct emq__json object, const char *member,
                                  struct emq__arena *mem, emq_str *out)
{
    struct emq__json v;

    if (!emq__json_get(object, member, &v))
        return NULL;
    if (v.type != EMQ__JSON_STRING || !emq__json_str(v, mem, out) || out->len == 0 ||
        memchr(out->ptr, '\0', out->len))
        return "\"sql\" and \"redis\" are names of files";
    return NULL;
}

const char *emq__answer_parse(emq_str line, struct emq__arena *mem, struct emq__answer *out)
{
    struct emq__json object, v, result;

    *out = (struct emq__answer){.end = EMQ__ANSWER_GOES_ON, .retry_after_ms = -1};
    if (!emq__json_valid(line, NULL))
        return "not JSON";
    object = emq__json_root(line);
    if (object.type != EMQ__JSON_OBJECT)
        return "not a JSON object";
    if (emq__json_get(object, "id", &v)) {
        out->has_id = true;
        out->id = text_of(v, mem);
    }
    if (emq__json_get(object, "progress", &v)) {
        out->has_progress = true;
        out->progress = v.raw;
    }
    if (emq__json_get(object, "log", &v)) {
        out->has_log = true;
        out->log = text_of(v, mem);
    }
    const char *wrong = read_file_name(object, "sql", mem, &out->sql);
    if (!wrong)
        wrong = read_file_name(object, "redis", mem, &out->redis);
    if (wrong)
        return wrong;
    bool has_result = emq__json_get(object, "result", &result);
    bool has_error = emq__json_get(object, "error", &v);
    bool give_back = is_true(object, "giveBack");
    if (has_error)
        out->error = text_of(v, mem);
    if (has_result + (has_error || give_back) > 1)
        return "both a result and an error";
    if (has_result) {
        out->end = EMQ__ANSWER_RESULT;
        return read_result(object, result, mem, &out->result);
    }
    if (has_error || give_back) {
        out->end = give_back ? EMQ__ANSWER_GIVE_BACK : EMQ__ANSWER_ERROR;
        return read_error(object, mem, out);
    }
    return out->has_progress || out->has_log || out->sql.len || out->redis.len
               ? NULL
               : "none of result, error, giveBack, progress, log, sql, redis";
}
