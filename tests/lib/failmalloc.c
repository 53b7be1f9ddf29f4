/* SPDX-License-Identifier: MIT
 *
 * The wrapped allocators. The counter belongs to a thread, so that a background thread of the code
 * under test does not take the failure that was meant for the caller.
 */
#include "lib/failmalloc.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

static _Thread_local size_t left; /* 0 = not counting */
static _Thread_local bool failed;

void test_fail_alloc(size_t nth)
{
    left = nth;
    failed = false;
}

bool test_alloc_failed(void)
{
    left = 0;
    return failed;
}

static bool fails_now(void)
{
    if (left == 0 || --left > 0)
        return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : __real_realloc(p, n);
}
