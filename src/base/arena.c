/* SPDX-License-Identifier: MIT
 *
 * The arena: a list of blocks, the newest first. Blocks double up to a ceiling, so that a small
 * result costs one malloc and a large one few; a request that does not fit gets its own block.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>

enum { BLOCK_FIRST = 1024, BLOCK_LARGEST = 256 * 1024, ALIGN = 16 };

struct emq__arena_block {
    struct emq__arena_block *next;
    size_t cap; /* bytes of `bytes` */
    alignas(16) char bytes[];
};

static bool round_up(size_t n, size_t *out)
{
    if (!emq__add_size(n, ALIGN - 1, out))
        return false;
    *out &= ~(size_t)(ALIGN - 1);
    return true;
}

static struct emq__arena_block *block_new(size_t cap)
{
    size_t total;
    struct emq__arena_block *b;

    if (!emq__add_size(sizeof *b, cap, &total))
        return NULL;
    b = malloc(total);
    if (b)
        b->cap = cap;
    return b;
}

void *emq__arena_alloc(struct emq__arena *a, size_t n)
{
    size_t need;
    struct emq__arena_block *head = a->head;

    if (!round_up(n ? n : 1, &need))
        return NULL;
    if (head && need <= head->cap - a->used) {
        void *p = head->bytes + a->used;
        a->used += need;
        return p;
    }

    size_t next_cap = !head                            ? BLOCK_FIRST
                      : head->cap >= BLOCK_LARGEST / 2 ? BLOCK_LARGEST
                                                       : head->cap * 2;
    bool oversize = need > next_cap;
    struct emq__arena_block *b = block_new(oversize ? need : next_cap);
    if (!b)
        return NULL;
    if (oversize && head) {
        /* The head still has room: the large one goes behind it. */
        b->next = head->next;
        head->next = b;
        return b->bytes;
    }
    b->next = head;
    a->head = b;
    a->used = need;
    return b->bytes;
}

void *emq__arena_zalloc(struct emq__arena *a, size_t count, size_t size)
{
    size_t n;

    if (!emq__mul_size(count, size, &n))
        return NULL;
    void *p = emq__arena_alloc(a, n);
    if (p)
        memset(p, 0, n);
    return p;
}

emq_str emq__arena_str(struct emq__arena *a, emq_str s)
{
    size_t n;

    if (s.len == 0)
        return emq_strn("", 0);
    if (!emq__add_size(s.len, 1, &n))
        return emq_strn(NULL, 0);
    char *p = emq__arena_alloc(a, n);
    if (!p)
        return emq_strn(NULL, 0);
    memcpy(p, s.ptr, s.len);
    p[s.len] = '\0';
    return emq_strn(p, s.len);
}

emq_str emq__arena_printf(struct emq__arena *a, const char *fmt, ...)
{
    va_list args, again;
    emq_str out = {NULL, 0};

    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0) {
        char *p = emq__arena_alloc(a, (size_t)n + 1);
        if (p && vsnprintf(p, (size_t)n + 1, fmt, again) == n)
            out = emq_strn(p, (size_t)n);
    }
    va_end(again);
    va_end(args);
    return out;
}

void emq__arena_free(struct emq__arena *a)
{
    struct emq__arena_block *b = a->head;

    while (b) {
        struct emq__arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (struct emq__arena){0};
}
