/* SPDX-License-Identifier: MIT
 *
 * Decimal numbers. Every conversion is exact or correctly rounded, whatever the length of the text
 * and whatever the program set as its locale.
 */
#include "base/number.h"

#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>

size_t emq__number_scan(emq_str s, bool *valid)
{
    size_t i = 0, from;

    *valid = false;
    if (i < s.len && s.ptr[i] == '-')
        i++;
    if (i >= s.len || !emq__is_digit(s.ptr[i]))
        return i;
    i = s.ptr[i] == '0' ? i + 1 : emq__skip_digits(s, i);
    if (i < s.len && s.ptr[i] == '.') {
        from = ++i;
        i = emq__skip_digits(s, i);
        if (i == from)
            return i;
    }
    if (i < s.len && (s.ptr[i] == 'e' || s.ptr[i] == 'E')) {
        i++;
        if (i < s.len && (s.ptr[i] == '+' || s.ptr[i] == '-'))
            i++;
        from = i;
        i = emq__skip_digits(s, i);
        if (i == from)
            return i;
    }
    *valid = true;
    return i;
}

/* sign * digits * 10^exp10, with digits = the `count` digits between first and last, a point among
 * them skipped. Neither the first nor the last digit is 0; count 0 is zero. */
struct decimal {
    bool neg;
    const char *first;
    size_t count;
    int64_t exp10;
};

/* Far more than any double needs, far less than would overflow when the digits are counted in. */
static const int64_t exp10_limit = INT64_MAX / 4;

/* The number after 'e', saturating. */
static int64_t read_exponent(emq_str s, size_t i)
{
    int64_t v = 0;
    bool neg = i < s.len && s.ptr[i] == '-';

    if (i < s.len && (s.ptr[i] == '-' || s.ptr[i] == '+'))
        i++;
    for (; i < s.len; i++)
        v = v > exp10_limit / 16 ? exp10_limit : v * 10 + (s.ptr[i] - '0');
    return neg ? -v : v;
}

static struct decimal decimal_read(emq_str s)
{
    struct decimal d = {0};
    size_t i = 0, zeros = 0; /* zeros seen since the last digit that counts */
    bool point = false;

    if (s.len && s.ptr[0] == '-') {
        d.neg = true;
        i++;
    }
    for (; i < s.len && s.ptr[i] != 'e' && s.ptr[i] != 'E'; i++) {
        if (s.ptr[i] == '.') {
            point = true;
            continue;
        }
        if (point)
            d.exp10--;
        if (s.ptr[i] == '0') {
            zeros++;
            continue;
        }
        if (!d.first)
            d.first = s.ptr + i;
        else
            d.count += zeros;
        d.count++;
        zeros = 0;
    }
    d.exp10 += (int64_t)zeros;
    if (i < s.len)
        d.exp10 += read_exponent(s, i + 1);
    if (d.count == 0)
        d.exp10 = 0;
    return d;
}

/* The digits as an integer; count is at most 19, so it fits. */
static uint64_t decimal_digits(const struct decimal *d)
{
    uint64_t v = 0;
    const char *p = d->first;

    for (size_t left = d->count; left > 0; p++) {
        if (*p == '.')
            continue;
        v = v * 10 + (uint64_t)(*p - '0');
        left--;
    }
    return v;
}

/* v is at most INT64_MAX, or one more when negative. */
static bool with_sign(bool neg, uint64_t v, int64_t *out)
{
    if (v > (uint64_t)INT64_MAX + (neg ? 1 : 0))
        return false;
    if (neg)
        *out = v ? -(int64_t)(v - 1) - 1 : 0;
    else
        *out = (int64_t)v;
    return true;
}

bool emq__number_i64(emq_str number, int64_t *out)
{
    enum { DIGITS_MAX = 19 };
    struct decimal d = decimal_read(number);

    if (d.exp10 < 0 || d.count > DIGITS_MAX || d.exp10 > DIGITS_MAX - (int64_t)d.count)
        return false;
    uint64_t v = decimal_digits(&d);
    for (int64_t i = 0; i < d.exp10; i++)
        v *= 10;
    return with_sign(d.neg, v, out);
}

/* Where products and quotients of doubles are rounded once, m * 10^e is exact when both are. */
static bool double_fast(const struct decimal *d, double *out)
{
#if FLT_EVAL_METHOD == 0
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->count > 15 || d->exp10 > 22 || d->exp10 < -22)
        return false;
    double v = (double)decimal_digits(d);
    v = d->exp10 < 0 ? v / pow10[-d->exp10] : v * pow10[d->exp10];
    *out = d->neg ? -v : v;
    return true;
#else
    (void)d;
    (void)out;
    return false;
#endif
}

double emq__strtod(const char *text, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    if (!c)
        return (double)NAN;
    double v = strtod_l(text, end, c);
    int why = errno;
    freelocale(c);
    errno = why;
    return v;
}

bool emq__number_double(emq_str number, double *out)
{
    /* No double lies between two decimals that agree in their first 768 digits, unless one of them
     * ends there: what follows is represented by one digit that is not zero. */
    enum { DIGITS_MAX = 770 };
    char text[DIGITS_MAX + 32];
    size_t n = 0;
    struct decimal d = decimal_read(number);

    if (double_fast(&d, out))
        return true;
    if (d.count == 0) {
        *out = d.neg ? -0.0 : 0.0;
        return true;
    }
    if (d.neg)
        text[n++] = '-';
    size_t left = d.count < DIGITS_MAX ? d.count : DIGITS_MAX;
    size_t dropped = d.count - left;
    for (const char *p = d.first; left > 0; p++)
        if (*p != '.') {
            text[n++] = *p;
            left--;
        }
    if (dropped > 0)
        text[n++] = '1';
    int64_t exponent = d.exp10 + (int64_t)dropped - (dropped > 0 ? 1 : 0);
    if (exponent > 99999)
        exponent = 99999;
    if (exponent < -99999)
        exponent = -99999;
    (void)snprintf(text + n, sizeof text - n, "e%d", (int)exponent);

    double v = emq__strtod(text, NULL);
    if (!isfinite(v))
        return false;
    *out = v;
    return true;
}

bool emq__str_to_i64(emq_str s, int64_t *out)
{
    bool neg = s.len > 0 && s.ptr[0] == '-';
    size_t i = neg ? 1 : 0;
    uint64_t v = 0;

    if (i == s.len)
        return false;
    for (; i < s.len; i++) {
        if (!emq__is_digit(s.ptr[i]))
            return false;
        if (v > (uint64_t)INT64_MAX / 10)
            return false;
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    return with_sign(neg, v, out);
}

bool emq__str_to_double(emq_str s, double *out)
{
    bool valid;

    return emq__number_scan(s, &valid) == s.len && valid && emq__number_double(s, out);
}

void emq__json_double_out(struct emq__buf *b, double v)
{
    char text[40];
    double back;

    EMQ_ASSERT(isfinite(v));
    if (!isfinite(v)) {
        emq__buf_text(b, "null"); /* as JSON.stringify does */
        return;
    }
    /* Fifteen digits give back every shorter decimal, except below the normal range. */
    for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        size_t n = 0;
        int len = snprintf(text, sizeof text, "%.*g", digits, v);
        /* The locale's decimal point, one or more bytes, becomes a '.'. */
        for (int i = 0; i < len; i++) {
            char ch = text[i];
            if (emq__is_digit(ch) || ch == '-' || ch == '+' || ch == 'e')
                text[n++] = ch;
            else if (n > 0 && text[n - 1] != '.')
                text[n++] = '.';
        }
        text[n] = '\0';
        if (digits == 17 || (emq__number_double(emq_strn(text, n), &back) && back == v)) {
            emq__buf_add(b, text, n);
            return;
        }
    }
}
