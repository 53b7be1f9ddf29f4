/* SPDX-License-Identifier: MIT
 *
 * A bump allocator: results of one call live and die together. Not thread-safe.
 */
#ifndef EMQ_BASE_ARENA_H
#define EMQ_BASE_ARENA_H

#include "base/base.h"

struct emq__arena_block;
struct emq__arena {
    struct emq__arena_block *head;
    size_t used; /* of the head block */
};

/* {0} is an empty arena. */
void *emq__arena_alloc(struct emq__arena *a,
                       size_t n); /* 16-aligned, not cleared; NULL: no memory */
void *emq__arena_zalloc(struct emq__arena *a, size_t count, size_t size);
/* A copy with a NUL behind it (not counted). ptr is NULL only when out of memory, never for an
 * empty s. */
emq_str emq__arena_str(struct emq__arena *a, emq_str s);
emq_str emq__arena_printf(struct emq__arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void emq__arena_free(struct emq__arena *a); /* leaves it empty and usable */

#endif
