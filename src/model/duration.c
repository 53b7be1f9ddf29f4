/* SPDX-License-Identifier: MIT
 *
 * Spans and retention as text. Integer arithmetic only: what is written is exactly what is meant,
 * and nothing is rounded.
 */
#include "model/duration.h"

#include "base/error.h"
#include "base/str.h"
#include "model/check.h"

#include <inttypes.h>

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "duration", __VA_ARGS__)

static const struct {
    const char *name;
    int64_t ms;
} units[] = {
    {"w", INT64_C(604800000)},
    {"d", 86400000},
    {"h", 3600000},
    {"m", 60000},
    {"s", 1000},
    {"ms", 1},
};

/* Digits as a number; more than fits becomes INT64_MAX. */
static int64_t read_digits(emq_str s)
{
    int64_t v = 0;

    for (size_t i = 0; i < s.len; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.ptr[i] - '0', &v))
            return INT64_MAX;
    return v;
}

static emq_status too_long(emq_str text, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];

    return FAIL("\"%s\" is more than 100 years (36525d)", emq__shown(text, shown));
}

/* The unit at *i; *i moves behind it. -1: none. */
static int read_unit(emq_str text, size_t *i)
{
    size_t from = *i, end = from;

    while (end < text.len && text.ptr[end] >= 'a' && text.ptr[end] <= 'z')
        end++;
    for (size_t u = 0; u < EMQ_ARRAY_LEN(units); u++) {
        if (emq__str_is(emq_strn(text.ptr + from, end - from), units[u].name)) {
            *i = end;
            return (int)u;
        }
    }
    return -1;
}

/* 0.<digits> of a unit, in ms; false when that is no whole number of them. */
static bool read_fraction(emq_str digits, int64_t unit_ms, int64_t *out_ms)
{
    int64_t scale = 1, part = 0;

    while (digits.len && digits.ptr[digits.len - 1] == '0')
        digits.len--;
    if (digits.len > 10) /* a week has 2^10 * 5^5 * 189 ms: no whole number of them needs more */
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        part = part * 10 + (digits.ptr[i] - '0');
        scale *= 10;
    }
    *out_ms = part * unit_ms / scale;
    return part * unit_ms % scale == 0;
}

struct part {
    emq_str whole, fraction; /* digits; `fraction` is empty without a point */
    bool point;
    int unit;
};

/* One number with its unit at *i. */
static emq_status read_part(emq_str text, size_t *i, struct part *out, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    size_t end = emq__skip_digits(text, *i);

    *out = (struct part){.whole = emq_strn(text.ptr + *i, end - *i)};
    if (end < text.len && text.ptr[end] == '.') {
        size_t from = end + 1;
        out->point = true;
        end = emq__skip_digits(text, from);
        out->fraction = emq_strn(text.ptr + from, end - from);
    }
    if (out->whole.len == 0 || (out->point && out->fraction.len == 0))
        return FAIL(
            "\"%s\" is no span at offset %zu; write numbers with units, such as 500ms, 30s, "
            "5m, 1h30m, 7d",
            emq__shown(text, shown), *i);
    if (end == text.len)
        return FAIL("\"%s\" has no unit at its end; write ms, s, m, h, d or w behind the number, "
                    "such as %.*ss",
                    emq__shown(text, shown), EMQ_STR_ARG(out->whole));
    *i = end;
    out->unit = read_unit(text, i);
    if (out->unit < 0)
        return FAIL("\"%s\" has an unknown unit at offset %zu; the units are ms, s, m, h, d, w",
                    emq__shown(text, shown), *i);
    return EMQ_OK;
}

emq_status emq__duration_parse(emq_str text, int64_t *out_ms, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    int64_t total = 0;
    int last = -1;

    if (text.len == 0)
        return FAIL("a span is empty; write 500ms, 30s, 5m, 1h30m, 7d");
    if (emq__str_is(text, "0")) {
        *out_ms = 0;
        return EMQ_OK;
    }
    if (text.ptr[0] == '-')
        return FAIL("\"%s\" is negative; a span is 0..100 years", emq__shown(text, shown));
    for (size_t i = 0; i < text.len;) {
        struct part p;
        int64_t ms, fraction = 0;
        emq_status s = read_part(text, &i, &p, err);
        if (s != EMQ_OK)
            return s;
        if (p.unit <= last)
            return FAIL("\"%s\": the unit %s stands behind %s; larger units come first, each once",
                        emq__shown(text, shown), units[p.unit].name, units[last].name);
        last = p.unit;
        if (p.point && i < text.len)
            return FAIL("\"%s\": only the last part may have a fraction", emq__shown(text, shown));
        if (__builtin_mul_overflow(read_digits(p.whole), units[p.unit].ms, &ms))
            return too_long(text, err);
        if (!read_fraction(p.fraction, units[p.unit].ms, &fraction))
            return FAIL("\"%s\" is no whole number of milliseconds", emq__shown(text, shown));
        total = emq__sat_add(total, emq__sat_add(ms, fraction));
    }
    if (total > EMQ__SPAN_MAX_MS)
        return too_long(text, err);
    *out_ms = total;
    return EMQ_OK;
}

char *emq__duration_format(int64_t ms, char out[40])
{
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    size_t n = 0;

    if (ms < 0)
        out[n++] = '-';
    for (size_t u = 1; units[u].ms >= 1000; u++) { /* weeks are read, not written */
        uint64_t unit = (uint64_t)units[u].ms, count = left / unit;
        left %= unit;
        if (count == 0)
            continue;
        n += (size_t)snprintf(out + n, 40 - n, "%" PRIu64, count);
        if (unit == 1000 && left != 0) {
            n += (size_t)snprintf(out + n, 40 - n, ".%03d", (int)left);
            while (out[n - 1] == '0')
                n--;
            left = 0;
        }
        n += (size_t)snprintf(out + n, 40 - n, "%s", units[u].name);
    }
    if (left != 0)
        n += (size_t)snprintf(out + n, 40 - n, "%" PRIu64 "ms", left);
    if (n == 0)
        out[n++] = '0';
    out[n] = '\0';
    return out;
}

emq_status emq__keep_parse(emq_str text, struct emq__keep *out, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    struct emq__keep k = {.count = -1};
    emq_str age = text;

    if (emq__str_is(text, "all") || emq__str_is(text, "none")) {
        *out = (struct emq__keep){.count = text.ptr[0] == 'a' ? -1 : 0};
        return EMQ_OK;
    }
    size_t n = emq__skip_digits(text, 0);
    if (n > 0 && (n == text.len || text.ptr[n] == ',')) {
        k.count = read_digits(emq_strn(text.ptr, n));
        if (k.count > INT64_C(9007199254740991))
            return emq__fail(err, EMQ_E_INVALID, 0, "retention",
                             "the count of \"%s\" is outside 0..9007199254740991",
                             emq__shown(text, shown));
        age = n == text.len ? emq_strn(NULL, 0) : emq_strn(text.ptr + n + 1, text.len - n - 1);
        if (n == text.len) {
            *out = k;
            return EMQ_OK;
        }
    }
    emq_error why;
    emq_status s = emq__duration_parse(age, &k.age_ms, &why);
    if (s != EMQ_OK)
        return emq__fail(err, s, 0, "retention",
                         "\"%s\" is no retention: all, none, a count (1000), an age (7d) or both "
                         "(1000,7d): %.110s",
                         emq__shown(text, shown), why.text);
    if (k.age_ms == 0 || k.count == 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "retention",
                         "\"%s\" keeps nothing, by its %s; write none for that",
                         emq__shown(text, shown), k.count == 0 ? "count 0" : "age 0");
    *out = k;
    return EMQ_OK;
}
