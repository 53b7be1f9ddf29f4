/* SPDX-License-Identifier: MIT
 *
 * Makes the nth allocation of the code under test fail. Works by wrapping malloc, calloc and
 * realloc when the test program is linked: link failmalloc_dep. Shared libraries are not affected.
 */
#ifndef EMQ_TESTS_FAILMALLOC_H
#define EMQ_TESTS_FAILMALLOC_H

#include "base/base.h"

/* Counts from now on in this thread: allocation `nth` (1 = the next) fails, once. 0 = none. */
void test_fail_alloc(size_t nth);
/* Did it? Also ends the counting. */
bool test_alloc_failed(void);

#endif
