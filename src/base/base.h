/* SPDX-License-Identifier: MIT
 *
 * What every file may use: the public types, checked arithmetic, assertions, banned functions.
 */
#ifndef EMQ_BASE_BASE_H
#define EMQ_BASE_BASE_H

#include <echomq/echomq.h>

#include <stdbool.h>
#include <stdio.h> /* before the poison below: it declares some of the banned */
#include <stdlib.h>

/* An invariant: stops debug builds, costs nothing in releases. */
#ifdef NDEBUG
#define EMQ_ASSERT(x) ((void)0)
#else
#include <assert.h>
#define EMQ_ASSERT(x) assert(x)
#endif

#define EMQ_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define EMQ_STR_LIT(s)   ((emq_str){(s), sizeof(s) - 1})
/* The same for tables: initialises a static emq_str. */
#define EMQ_STR_INIT(s)    \
    {                      \
        (s), sizeof(s) - 1 \
    }
/* For printf: "%.*s" with EMQ_STR_ARG(s). */
#define EMQ_STR_ARG(s) (int)((s).len > 4096 ? 4096 : (s).len), (s).ptr ? (s).ptr : ""

/* false on overflow; *out is then unspecified. */
static inline bool emq__add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool emq__mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
/* Saturating: instants and spans never wrap. */
static inline int64_t emq__sat_add(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return r;
}

/* clang with _FORTIFY_SOURCE makes macros of some; gcc builds watch for both. */
#ifndef __clang__
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol strncpy gets
#endif

#endif
