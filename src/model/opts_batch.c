/* SPDX-License-Identifier: MIT
 *
 * One line of a batch file. A line is read whole or refused: an unknown key, a wrong type or a
 * value out of its range is never passed over.
 */
#include "model/opts.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "model/check.h"
#include "model/duration.h"

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "batch", __VA_ARGS__)

struct line {
    emq_add_opts *out;
    emq_str *data;
    bool has_data;
    struct emq__arena *mem;
    emq_str key; /* being read */
};

typedef emq_status (*read_fn)(struct line *l, struct emq__json v, void *field, emq_error *err);

static emq_status wrong_type(const struct line *l, struct emq__json v, const char *wanted,
                             emq_error *err)
{
    char key[EMQ__SHOWN_MAX], shown[EMQ__SHOWN_MAX];

    return FAIL("\"%s\": %s is not %s", emq__shown(l->key, key), emq__shown(v.raw, shown), wanted);
}

/* The reason of a value's own parser, with the key in front. */
static emq_status with_key(const struct line *l, emq_status s, const emq_error *why, emq_error *err)
{
    char key[EMQ__SHOWN_MAX];

    if (s == EMQ_OK)
        return s;
    return emq__fail(err, s, 0, "batch", "\"%s\": %.180s", emq__shown(l->key, key), why->text);
}

static emq_status read_string(struct line *l, struct emq__json v, emq_str *out, emq_error *err)
{
    emq_str s;

    if (v.type != EMQ__JSON_STRING)
        return wrong_type(l, v, "a string", err);
    if (!emq__json_exact(v))
        return wrong_type(l, v, "text: it has half of a surrogate pair (\\uD800 to \\uDFFF)", err);
    if (!emq__json_str(v, l->mem, &s))
        return emq__fail(err, EMQ_E_NOMEM, 0, "batch", "no memory for a string of %zu bytes",
                         v.raw.len);
    *out = s;
    return EMQ_OK;
}

static emq_status read_text(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    emq_str text = {0};
    emq_status s = read_string(l, v, &text, err);

    if (s != EMQ_OK)
        return s;
    if (text.len == 0)
        return wrong_type(l, v, "a string of 1 byte or more; leave the key out", err);
    memcpy(field, &text, sizeof text);
    return EMQ_OK;
}

static emq_status read_span(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    emq_error why = {0};
    emq_str text = {0};
    int64_t ms;

    if (v.type == EMQ__JSON_STRING) {
        emq_status s = read_text(l, v, &text, err);
        if (s != EMQ_OK)
            return s;
        s = emq__duration_parse(text, &ms, &why);
        if (s != EMQ_OK)
            return with_key(l, s, &why, err);
    } else if (!emq__json_i64(v, &ms)) {
        return wrong_type(l, v, "a span such as \"5s\" or whole milliseconds", err);
    }
    memcpy(field, &ms, sizeof ms);
    return EMQ_OK;
}

static emq_status read_i64(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    int64_t n;

    if (!emq__json_i64(v, &n))
        return wrong_type(l, v, "a whole number", err);
    memcpy(field, &n, sizeof n);
    return EMQ_OK;
}

static emq_status read_i32(struct line *l, struct emq__json v, int32_t min, int32_t max,
                           void *field, emq_error *err)
{
    int64_t n = 0;
    int32_t narrow;
    char wanted[64];

    if (!emq__json_i64(v, &n) || n < min || n > max) {
        (void)snprintf(wanted, sizeof wanted, "a whole number within %d..%d", (int)min, (int)max);
        return wrong_type(l, v, wanted, err);
    }
    narrow = (int32_t)n;
    memcpy(field, &narrow, sizeof narrow);
    return EMQ_OK;
}

static emq_status read_priority(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    return read_i32(l, v, 0, EMQ_PRIORITY_MAX, field, err);
}

static emq_status read_attempts(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    return read_i32(l, v, 1, INT32_MAX, field, err);
}

static emq_status read_keep_logs(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    return read_i32(l, v, 1, EMQ__KEEP_LOGS_MAX, field, err);
}

static emq_status read_bool(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    int32_t on = v.type == EMQ__JSON_TRUE;

    if (v.type != EMQ__JSON_TRUE && v.type != EMQ__JSON_FALSE)
        return wrong_type(l, v, "true or false", err);
    memcpy(field, &on, sizeof on);
    return EMQ_OK;
}

static emq_status read_data(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    (void)field;
    if (l->has_data)
        return FAIL("\"text\" and \"data\" exclude each other");
    l->has_data = true;
    *l->data = v.raw;
    return EMQ_OK;
}

static emq_status read_plain(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    (void)field;
    if (l->has_data)
        return FAIL("\"text\" and \"data\" exclude each other");
    l->has_data = true;
    return read_string(l, v, l->data, err);
}

static emq_status read_backoff(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    emq_error why = {0};
    emq_str text = {0};
    struct emq__backoff b;
    emq_status s = read_text(l, v, &text, err);

    (void)field;
    if (s != EMQ_OK)
        return s;
    s = emq__backoff_parse(text, &b, &why);
    if (s == EMQ_OK)
        emq__backoff_to_public(&b, l->out);
    return with_key(l, s, &why, err);
}

static emq_status read_keep(struct line *l, struct emq__json v, int64_t *count, int64_t *age_ms,
                            emq_error *err)
{
    emq_error why = {0};
    emq_str text = v.raw;
    struct emq__keep k;
    emq_status s = EMQ_OK;

    if (v.type == EMQ__JSON_STRING)
        s = read_text(l, v, &text, err);
    else if (v.type != EMQ__JSON_NUMBER)
        return wrong_type(l, v, "a retention such as 1000, \"7d\" or \"1000,7d\"", err);
    if (s != EMQ_OK)
        return s;
    s = emq__keep_parse(text, &k, &why);
    if (s == EMQ_OK)
        emq__keep_to_public(&k, count, age_ms);
    return with_key(l, s, &why, err);
}

static emq_status read_keep_completed(struct line *l, struct emq__json v, void *field,
                                      emq_error *err)
{
    (void)field;
    return read_keep(l, v, &l->out->keep_completed_count, &l->out->keep_completed_ms, err);
}

static emq_status read_keep_failed(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    (void)field;
    return read_keep(l, v, &l->out->keep_failed_count, &l->out->keep_failed_ms, err);
}

static emq_status read_dedup_mode(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    emq_error why = {0};
    emq_str text = {0};
    emq_status s = read_text(l, v, &text, err);

    (void)field;
    if (s != EMQ_OK)
        return s;
    s = emq__dedup_mode_parse(text, &l->out->dedup_mode, &why);
    return with_key(l, s, &why, err);
}

struct key {
    const char *name;
    read_fn read;
    size_t offset; /* of the field in emq_add_opts; 0 = the reader knows */
};

static emq_status read_object(struct line *l, struct emq__json object, const struct key *keys,
                              size_t n_keys, emq_error *err);

static const struct key dedup_keys[] = {
    {"id", read_text, offsetof(emq_add_opts, dedup_id)},
    {"ttl", read_span, offsetof(emq_add_opts, dedup_ttl_ms)},
    {"mode", read_dedup_mode, 0},
};

static emq_status read_dedup(struct line *l, struct emq__json v, void *field, emq_error *err)
{
    (void)field;
    if (v.type == EMQ__JSON_OBJECT) {
        emq_str key = l->key;
        emq_status s = read_object(l, v, dedup_keys, EMQ_ARRAY_LEN(dedup_keys), err);
        l->key = key;
        if (s == EMQ_OK && l->out->dedup_id.len == 0)
            return wrong_type(l, v, "a dedup object: it has no \"id\"", err);
        return s;
    }
    if (v.type != EMQ__JSON_STRING)
        return wrong_type(l, v, "a dedup id or {\"id\",\"ttl\",\"mode\"}", err);
    return read_text(l, v, &l->out->dedup_id, err);
}

static const struct key line_keys[] = {
    {"data", read_data, 0},
    {"text", read_plain, 0},
    {"name", read_text, offsetof(emq_add_opts, name)},
    {"id", read_text, offsetof(emq_add_opts, id)},
    {"group", read_text, offsetof(emq_add_opts, group)},
    {"delay", read_span, offsetof(emq_add_opts, delay_ms)},
    {"timeout", read_span, offsetof(emq_add_opts, timeout_ms)},
    {"timestamp", read_i64, offsetof(emq_add_opts, timestamp_at_ms)},
    {"priority", read_priority, offsetof(emq_add_opts, priority)},
    {"attempts", read_attempts, offsetof(emq_add_opts, attempts)},
    {"keepLogs", read_keep_logs, offsetof(emq_add_opts, keep_logs)},
    {"lifo", read_bool, offsetof(emq_add_opts, lifo)},
    {"backoff", read_backoff, 0},
    {"dedup", read_dedup, 0},
    {"dedupTtl", read_span, offsetof(emq_add_opts, dedup_ttl_ms)},
    {"dedupMode", read_dedup_mode, 0},
    {"keepCompleted", read_keep_completed, 0},
    {"keepFailed", read_keep_failed, 0},
};

/* The names of a table, for a message. */
static void list_keys(const struct key *keys, size_t n, char *out, size_t cap)
{
    size_t len = 0;

    for (size_t i = 0; i < n && len < cap; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? ", " : "", keys[i].name);
}

static emq_status read_object(struct line *l, struct emq__json object, const struct key *keys,
                              size_t n_keys, emq_error *err)
{
    struct emq__json v;
    emq_str raw;
    size_t pos = 0;
    uint32_t seen = 0;

    while (emq__json_next(object, &pos, &raw, &v)) {
        struct emq__json quoted = {EMQ__JSON_STRING, emq_strn(raw.ptr - 1, raw.len + 2)};
        size_t k = 0;
        if (!emq__json_str(quoted, l->mem, &l->key))
            return emq__fail(err, EMQ_E_NOMEM, 0, "batch", "no memory for a key of %zu bytes",
                             raw.len);
        while (k < n_keys && !emq__str_is(l->key, keys[k].name))
            k++;
        char shown[EMQ__SHOWN_MAX], known[sizeof err->text];
        if (k == n_keys) {
            list_keys(keys, n_keys, known, sizeof known);
            return FAIL("unknown key \"%.40s\"; known: %s", emq__shown(l->key, shown), known);
        }
        if (seen & 1u << k)
            return FAIL("the key \"%s\" is given twice", emq__shown(l->key, shown));
        seen |= 1u << k;
        if (v.type == EMQ__JSON_NULL && keys[k].read != read_data)
            continue;
        emq_status s = keys[k].read(l, v, (char *)l->out + keys[k].offset, err);
        if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}

emq_status emq__opts_from_batch(emq_str line, struct emq__arena *mem, emq_add_opts *out,
                                emq_str *data, emq_error *err)
{
    emq_add_opts own = {.size = sizeof own};
    emq_str own_data = emq_strn("", 0), id, name;
    struct line l = {.out = &own, .data = &own_data, .mem = mem};
    struct emq__opts checked;
    size_t fault = 0;

    if (!emq__json_valid(line, &fault))
        return FAIL("no valid JSON at byte %zu; one object a line, such as {\"data\":{},\"name\":"
                    "\"mail\"}",
                    fault);
    struct emq__json root = emq__json_root(line);
    if (root.type != EMQ__JSON_OBJECT) {
        char shown[EMQ__SHOWN_MAX];
        return FAIL("%s is no JSON object; a line is one, such as {\"data\":{},\"name\":\"mail\"}",
                    emq__shown(root.raw, shown));
    }
    emq_status s = read_object(&l, root, line_keys, EMQ_ARRAY_LEN(line_keys), err);
    if (s == EMQ_OK)
        s = emq__opts_from_public(&own, &checked, &id, &name, err);
    if (s != EMQ_OK)
        return s;
    *out = own;
    *data = own_data;
    return EMQ_OK;
}
