/* SPDX-License-Identifier: MIT
 *
 * Options that have a text form of their own, and what such a text means in the public struct.
 */
#include "model/opts.h"

#include "base/error.h"
#include "base/str.h"
#include "model/check.h"
#include "model/duration.h"

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "backoff", __VA_ARGS__)
#define BACKOFF_FORM \
    "none, or TYPE:DELAY[,max=D][,jitter=F] such as exponential:1s,max=1h,jitter=0.25"

/* The part of *rest up to `end`; *rest moves behind it. */
static emq_str cut(emq_str *rest, char end, bool *found)
{
    const char *at = rest->len ? memchr(rest->ptr, end, rest->len) : NULL;
    emq_str head = *rest;

    *found = at != NULL;
    if (!at) {
        *rest = emq_strn("", 0);
        return head;
    }
    head.len = (size_t)(at - rest->ptr);
    *rest = emq_strn(at + 1, rest->len - head.len - 1);
    return head;
}

static emq_status read_setting(emq_str text, emq_str setting, struct emq__backoff *b, bool seen[2],
                               emq_error *err)
{
    char shown[EMQ__SHOWN_MAX], part[EMQ__SHOWN_MAX];
    bool has_value;
    emq_str value = setting, key = cut(&value, '=', &has_value);
    emq_status s;

    bool max = emq__str_is(key, "max"), jitter = emq__str_is(key, "jitter");
    if (!has_value || (!max && !jitter))
        return FAIL("\"%s\": \"%s\" is neither max=D nor jitter=F", emq__shown(text, shown),
                    emq__shown(setting, part));
    if (seen[max])
        return FAIL("\"%s\" gives %s twice", emq__shown(text, shown), max ? "max" : "jitter");
    seen[max] = true;
    if (jitter) {
        if (!emq__str_to_double(value, &b->jitter) || !(b->jitter >= 0 && b->jitter <= 1))
            return FAIL("\"%s\": jitter \"%s\" is outside 0..1", emq__shown(text, shown),
                        emq__shown(value, part));
        return EMQ_OK;
    }
    s = emq__duration_parse(value, &b->max_ms, err);
    if (s != EMQ_OK)
        return s;
    if (b->max_ms < b->delay_ms)
        return FAIL("\"%s\": max %s is below the delay", emq__shown(text, shown),
                    emq__shown(value, part));
    return EMQ_OK;
}

emq_status emq__backoff_parse(emq_str text, struct emq__backoff *out, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    struct emq__backoff b = {.type = EMQ_BACKOFF_NONE};
    emq_str rest = text;
    bool more, seen[2] = {false, false};

    if (emq__str_is(text, "none")) {
        *out = b;
        return EMQ_OK;
    }
    emq_str type = cut(&rest, ':', &more);
    if (emq__str_is(type, "fixed"))
        b.type = EMQ_BACKOFF_FIXED;
    else if (emq__str_is(type, "exponential"))
        b.type = EMQ_BACKOFF_EXPONENTIAL;
    if (b.type == EMQ_BACKOFF_NONE || !more)
        return FAIL("\"%s\" is no backoff: write " BACKOFF_FORM, emq__shown(text, shown));
    emq_str delay = cut(&rest, ',', &more);
    emq_status s = emq__duration_parse(delay, &b.delay_ms, err);
    if (s != EMQ_OK)
        return s;
    if (b.delay_ms == 0)
        return FAIL("\"%s\" has a delay of 0; write none to retry at once",
                    emq__shown(text, shown));
    while (more) {
        emq_str setting = cut(&rest, ',', &more);
        s = read_setting(text, setting, &b, seen, err);
        if (s != EMQ_OK)
            return s;
    }
    *out = b;
    return EMQ_OK;
}

void emq__backoff_to_public(const struct emq__backoff *b, emq_add_opts *out)
{
    out->backoff_type = b->type;
    out->backoff_ms = b->delay_ms;
    out->backoff_max_ms = b->max_ms;
    out->backoff_jitter = b->jitter;
}

void emq__keep_to_public(const struct emq__keep *k, int64_t *out_count, int64_t *out_ms)
{
    *out_count = k->count < 0 ? EMQ_KEEP_ALL : k->count == 0 ? EMQ_KEEP_NONE : k->count;
    *out_ms = k->age_ms;
}

emq_status emq__dedup_mode_parse(emq_str text, int32_t *out, emq_error *err)
{
    static const char *const modes[] = {
        [EMQ_DEDUP_SIMPLE] = "simple",
        [EMQ_DEDUP_EXTEND] = "extend",
        [EMQ_DEDUP_REPLACE] = "replace",
        [EMQ_DEDUP_KEEP_LAST] = "keep-last",
    };
    char shown[EMQ__SHOWN_MAX];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(modes); i++) {
        if (emq__str_is(text, modes[i])) {
            *out = (int32_t)i;
            return EMQ_OK;
        }
    }
    return emq__fail(err, EMQ_E_INVALID, 0, "dedup mode",
                     "\"%s\" is no dedup mode: simple, extend, replace or keep-last",
                     emq__shown(text, shown));
}
