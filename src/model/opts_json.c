/* SPDX-License-Identifier: MIT
 *
 * The stored form of the options: BullMQ's names and meanings (docs/protocol.md section 2.1). What
 * is written reads back as the same options; what others wrote is read with their meaning, and
 * numbers out of any range are brought into ours rather than refused: the job exists already.
 */
#include "model/opts.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"

#include <inttypes.h>

static void put_true_if(struct emq__buf *out, const char *key, bool v)
{
    if (!v)
        return;
    emq__json_key(out, key);
    emq__buf_text(out, "true");
}

static void put_text_if(struct emq__buf *out, const char *key, emq_str s)
{
    if (!s.len)
        return;
    emq__json_key(out, key);
    emq__json_quote(out, s);
}

/* BullMQ: true = keep none, false = keep all, else an object whose age is in seconds. */
static void put_keep(struct emq__buf *out, const char *key, const struct emq__keep *k)
{
    emq__json_key(out, key);
    if (k->count == 0) {
        emq__buf_text(out, "true");
        return;
    }
    if (k->count < 0 && k->age_ms == 0) {
        emq__buf_text(out, "false");
        return;
    }
    emq__buf_char(out, '{');
    if (k->count > 0)
        emq__json_i64_member(out, "count", k->count);
    if (k->age_ms) {
        emq__json_i64_member(out, "age", k->age_ms / 1000);
        if (k->age_ms % 1000)
            emq__buf_printf(out, ".%03d", (int)(k->age_ms % 1000));
    }
    emq__buf_char(out, '}');
}

static void put_backoff(struct emq__buf *out, const struct emq__backoff *b)
{
    if (b->type != EMQ_BACKOFF_FIXED && b->type != EMQ_BACKOFF_EXPONENTIAL)
        return;
    emq__json_key(out, "backoff");
    emq__buf_printf(out, "{\"type\":\"%s\"",
                    b->type == EMQ_BACKOFF_FIXED ? "fixed" : "exponential");
    emq__json_i64_member(out, "delay", b->delay_ms);
    emq__json_i64_member_if(out, "max", b->max_ms);
    if (b->jitter > 0) {
        emq__json_key(out, "jitter");
        emq__json_double_out(out, b->jitter);
    }
    emq__buf_char(out, '}');
}

static void put_dedup(struct emq__buf *out, const struct emq__dedup *d)
{
    if (!d->id.len)
        return;
    emq__json_key(out, "de");
    emq__buf_char(out, '{');
    put_text_if(out, "id", d->id);
    emq__json_i64_member_if(out, "ttl", d->ttl_ms);
    put_true_if(out, "extend", d->extend);
    put_true_if(out, "replace", d->replace);
    put_true_if(out, "keepLastIfActive", d->keep_last);
    emq__buf_char(out, '}');
}

void emq__opts_write(const struct emq__opts *o, emq_str custom_id, struct emq__buf *out)
{
    emq__buf_char(out, '{');
    emq__json_i64_member(out, "attempts", o->attempts);
    put_backoff(out, &o->backoff);
    put_text_if(out, "jobId", custom_id);
    emq__json_i64_member_if(out, "delay", o->delay_ms);
    emq__json_i64_member_if(out, "priority", o->priority);
    put_true_if(out, "lifo", o->lifo);
    emq__json_i64_member_if(out, "timestamp", o->timestamp_at_ms);
    emq__json_i64_member_if(out, "timeout", o->timeout_ms);
    put_dedup(out, &o->dedup);
    put_text_if(out, "group", o->group);
    put_keep(out, "removeOnComplete", &o->keep_completed);
    put_keep(out, "removeOnFail", &o->keep_failed);
    if (o->keep_logs >= 0)
        emq__json_i64_member(out, "kl", o->keep_logs);
    if (o->stack_limit >= 0)
        emq__json_i64_member(out, "stackTraceLimit", o->stack_limit);
    emq__buf_char(out, '}');
}

/* ---- reading ------------------------------------------------------------------------------ */

/* A number, or a number in a string as JavaScript would take it; fractions are cut, what is beyond
 * int64 saturates. */
static bool read_number(struct emq__json v, int64_t *out)
{
    double d;

    if (v.type == EMQ__JSON_STRING && v.raw.len > 2) {
        v.raw = emq_strn(v.raw.ptr + 1, v.raw.len - 2);
        return emq__str_to_i64(v.raw, out);
    }
    if (emq__json_i64(v, out))
        return true;
    if (!emq__json_double(v, &d)) {
        if (v.type != EMQ__JSON_NUMBER)
            return false;
        d = v.raw.ptr[0] == '-' ? -1e300 : 1e300; /* 1e999 */
    }
    *out = d >= 9e18 ? INT64_MAX : d <= -9e18 ? INT64_MIN : (int64_t)d;
    return true;
}

static void read_clamped(struct emq__json v, int64_t lo, int64_t hi, int64_t *out)
{
    int64_t n;

    if (read_number(v, &n))
        *out = n < lo ? lo : n > hi ? hi : n;
}

static void read_span(struct emq__json v, int64_t *out)
{
    read_clamped(v, 0, EMQ__SPAN_MAX_MS, out);
}

static void read_i32(struct emq__json v, int32_t lo, int32_t hi, int32_t *out)
{
    int64_t n = *out;

    read_clamped(v, lo, hi, &n);
    *out = (int32_t)n;
}

/* What JavaScript calls true. */
static bool read_flag(struct emq__json v)
{
    double d;

    switch (v.type) {
    case EMQ__JSON_NULL:
    case EMQ__JSON_FALSE: return false;
    case EMQ__JSON_NUMBER: return !emq__json_double(v, &d) || d < 0 || d > 0;
    case EMQ__JSON_STRING: return v.raw.len > 2;
    case EMQ__JSON_TRUE:
    case EMQ__JSON_ARRAY:
    case EMQ__JSON_OBJECT: return true;
    }
    return false;
}

/* Ids may have been given as numbers: then their digits are the id. */
static void read_text(struct emq__json v, struct emq__arena *mem, emq_str *out)
{
    if (v.type == EMQ__JSON_STRING)
        emq__json_str(v, mem, out);
    else if (v.type == EMQ__JSON_NUMBER)
        *out = emq__arena_str(mem, v.raw);
    if (!out->ptr)
        out->len = 0;
}

/* Is the raw key this plain name? Escapes in keys are legal, though nobody writes them. */
static bool key_is(emq_str raw, const char *name, struct emq__arena *mem)
{
    emq_str plain = raw;

    if (raw.len && memchr(raw.ptr, '\\', raw.len)) {
        struct emq__json quoted = {EMQ__JSON_STRING, emq_strn(raw.ptr - 1, raw.len + 2)};
        if (!emq__json_str(quoted, mem, &plain))
            return false;
    }
    return emq__str_is(plain, name);
}

static void read_backoff(struct emq__json v, struct emq__arena *mem, struct emq__backoff *out)
{
    struct emq__backoff b = {.type = 0};
    struct emq__json m;
    emq_str key, type = {0};
    size_t pos = 0;

    *out = (struct emq__backoff){.type = EMQ_BACKOFF_NONE};
    if (v.type != EMQ__JSON_OBJECT) {
        read_span(v, &b.delay_ms);
        if (b.delay_ms > 0)
            *out = (struct emq__backoff){.type = EMQ_BACKOFF_FIXED, .delay_ms = b.delay_ms};
        return;
    }
    while (emq__json_next(v, &pos, &key, &m)) {
        if (key_is(key, "type", mem)) {
            read_text(m, mem, &type);
        } else if (key_is(key, "delay", mem)) {
            read_span(m, &b.delay_ms);
        } else if (key_is(key, "max", mem)) {
            read_span(m, &b.max_ms);
        } else if (key_is(key, "jitter", mem)) {
            b.jitter = 0;
            if (emq__json_double(m, &b.jitter))
                b.jitter = b.jitter > 0 ? (b.jitter < 1 ? b.jitter : 1) : 0;
            else
                b.jitter = 0;
        }
    }
    if (emq__str_is(type, "fixed"))
        b.type = EMQ_BACKOFF_FIXED;
    else if (emq__str_is(type, "exponential"))
        b.type = EMQ_BACKOFF_EXPONENTIAL;
    *out = b;
}

static void read_keep(struct emq__json v, struct emq__arena *mem, struct emq__keep *out)
{
    struct emq__json m;
    emq_str key;
    size_t pos = 0;
    double seconds;

    *out = (struct emq__keep){.count = -1};
    if (v.type == EMQ__JSON_TRUE)
        out->count = 0;
    if (v.type != EMQ__JSON_OBJECT) {
        read_clamped(v, -1, INT64_MAX, &out->count);
        return;
    }
    while (emq__json_next(v, &pos, &key, &m)) {
        if (key_is(key, "count", mem)) {
            read_clamped(m, -1, INT64_MAX, &out->count);
        } else if (key_is(key, "age", mem) && emq__json_double(m, &seconds)) {
            double ms = seconds * 1000 + 0.5;
            if (ms < 1) /* BullMQ: everything up to now is too old, this job too */
                out->count = 0;
            else
                out->age_ms = ms > (double)EMQ__SPAN_MAX_MS ? EMQ__SPAN_MAX_MS : (int64_t)ms;
        }
    }
    if (out->count == 0)
        out->age_ms = 0;
}

static void read_dedup(struct emq__json v, struct emq__arena *mem, struct emq__dedup *out)
{
    struct emq__json m;
    emq_str key;
    size_t pos = 0;

    *out = (struct emq__dedup){0};
    while (v.type == EMQ__JSON_OBJECT && emq__json_next(v, &pos, &key, &m)) {
        if (key_is(key, "id", mem))
            read_text(m, mem, &out->id);
        else if (key_is(key, "ttl", mem))
            read_span(m, &out->ttl_ms);
        else if (key_is(key, "extend", mem))
            out->extend = read_flag(m);
        else if (key_is(key, "replace", mem))
            out->replace = read_flag(m);
        else if (key_is(key, "keepLastIfActive", mem))
            out->keep_last = read_flag(m);
    }
}

/* "group" is ours, a string; BullMQ's own paid edition writes {"id":...}. */
static void read_group(struct emq__json v, struct emq__arena *mem, emq_str *out)
{
    struct emq__json id;

    if (v.type == EMQ__JSON_OBJECT && emq__json_get(v, "id", &id))
        v = id;
    read_text(v, mem, out);
}

/* 0 and what is no number mean "no limit", as for Node. */
static void read_keep_logs(struct emq__json v, int64_t *out)
{
    *out = -1;
    read_clamped(v, -1, INT64_MAX, out);
    if (*out == 0)
        *out = -1;
}

static void read_member(emq_str key, struct emq__json v, struct emq__arena *mem,
                        struct emq__opts *o)
{
    if (key_is(key, "attempts", mem))
        read_i32(v, 1, INT32_MAX, &o->attempts);
    else if (key_is(key, "backoff", mem))
        read_backoff(v, mem, &o->backoff);
    else if (key_is(key, "delay", mem))
        read_span(v, &o->delay_ms);
    else if (key_is(key, "priority", mem))
        read_i32(v, 0, EMQ_PRIORITY_MAX, &o->priority);
    else if (key_is(key, "lifo", mem))
        o->lifo = read_flag(v);
    else if (key_is(key, "timestamp", mem))
        read_clamped(v, 0, INT64_MAX, &o->timestamp_at_ms);
    else if (key_is(key, "timeout", mem))
        read_span(v, &o->timeout_ms);
    else if (key_is(key, "de", mem))
        read_dedup(v, mem, &o->dedup);
    else if (key_is(key, "group", mem))
        read_group(v, mem, &o->group);
    else if (key_is(key, "removeOnComplete", mem))
        read_keep(v, mem, &o->keep_completed);
    else if (key_is(key, "removeOnFail", mem))
        read_keep(v, mem, &o->keep_failed);
    else if (key_is(key, "kl", mem))
        read_keep_logs(v, &o->keep_logs);
    else if (key_is(key, "stackTraceLimit", mem))
        read_clamped(v, -1, INT64_MAX, &o->stack_limit);
}

bool emq__opts_read(emq_str json, struct emq__arena *mem, struct emq__opts *out)
{
    struct emq__json root, v;
    emq_str key;
    size_t pos = 0;

    *out = (struct emq__opts){
        .backoff = {.type = EMQ_BACKOFF_NONE},
        .keep_completed = {.count = -1},
        .keep_failed = {.count = -1},
        .keep_logs = -1,
        .stack_limit = -1,
        .attempts = 1,
    };
    if (!emq__json_valid(json, NULL))
        return false;
    root = emq__json_root(json);
    if (root.type != EMQ__JSON_OBJECT)
        return false;
    while (emq__json_next(root, &pos, &key, &v))
        read_member(key, v, mem, out);
    return true;
}
