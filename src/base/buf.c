/* SPDX-License-Identifier: MIT
 *
 * The growing buffer. Once `failed` is set nothing more is added: a reader never sees a text with
 * a hole in it.
 */
#include "base/buf.h"

#include <stdarg.h>

enum { FIRST_CAP = 64 };

void emq__buf_init(struct emq__buf *b, size_t max)
{
    *b = (struct emq__buf){.max = max};
}

void emq__buf_free(struct emq__buf *b)
{
    free(b->ptr);
    emq__buf_init(b, b->max);
}

void emq__buf_clear(struct emq__buf *b)
{
    b->len = 0;
    b->failed = EMQ_OK;
    if (b->ptr)
        b->ptr[0] = '\0';
}

/* Room for n more bytes and the NUL. */
static bool reserve(struct emq__buf *b, size_t n)
{
    if (b->failed)
        return false;
    if (n > b->max - b->len) {
        b->failed = EMQ_E_INVALID;
        return false;
    }
    size_t need; /* with the NUL */
    if (!emq__add_size(b->len + n, 1, &need)) {
        b->failed = EMQ_E_NOMEM;
        return false;
    }
    if (need <= b->cap)
        return true;

    size_t cap = b->cap > SIZE_MAX / 2 ? need : b->cap * 2;
    if (cap < FIRST_CAP)
        cap = FIRST_CAP;
    if (cap < need)
        cap = need;
    if (b->max < SIZE_MAX && cap > b->max + 1)
        cap = b->max + 1;
    char *p = realloc(b->ptr, cap);
    if (!p) {
        b->failed = EMQ_E_NOMEM;
        return false;
    }
    b->ptr = p;
    b->cap = cap;
    return true;
}

void emq__buf_add(struct emq__buf *b, const void *p, size_t n)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->ptr + b->len, p, n);
    b->len += n;
    b->ptr[b->len] = '\0';
}

void emq__buf_str(struct emq__buf *b, emq_str s)
{
    emq__buf_add(b, s.ptr, s.len);
}

void emq__buf_text(struct emq__buf *b, const char *s)
{
    emq__buf_add(b, s, strlen(s));
}

void emq__buf_char(struct emq__buf *b, char ch)
{
    emq__buf_add(b, &ch, 1);
}

void emq__buf_i64(struct emq__buf *b, int64_t v)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do {
        digits[--at] = (char)('0' + (int)(u % 10));
        u /= 10;
    } while (u);
    if (v < 0)
        digits[--at] = '-';
    emq__buf_add(b, digits + at, sizeof digits - at);
}

void emq__buf_printf(struct emq__buf *b, const char *fmt, ...)
{
    va_list args, again;

    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) {
        if (!b->failed)
            b->failed = EMQ_E_INVALID;
    } else if (n > 0 && reserve(b, (size_t)n)) {
        (void)vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}
