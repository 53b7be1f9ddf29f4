/* SPDX-License-Identifier: MIT
 *
 * Comparing and copying emq_str. A pointer is never touched when its length is zero: it may be
 * NULL.
 */
#include "base/str.h"

bool emq__str_eq(emq_str a, emq_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool emq__str_is(emq_str a, const char *text)
{
    return emq__str_eq(a, emq_cstr(text));
}

bool emq__str_starts(emq_str s, const char *head)
{
    size_t n = strlen(head);

    return n == 0 || (s.len >= n && memcmp(s.ptr, head, n) == 0);
}

int emq__str_cmp(emq_str a, emq_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int r = n ? memcmp(a.ptr, b.ptr, n) : 0;

    if (r)
        return r;
    return a.len < b.len ? -1 : a.len > b.len;
}

char *emq__str_dup(emq_str s)
{
    size_t size;

    if (!emq__add_size(s.len, 1, &size))
        return NULL;
    char *p = malloc(size);
    if (!p)
        return NULL;
    if (s.len)
        memcpy(p, s.ptr, s.len);
    p[s.len] = '\0';
    return p;
}
