/* SPDX-License-Identifier: MIT
 *
 * Helpers for emq_str.
 */
#ifndef EMQ_BASE_STR_H
#define EMQ_BASE_STR_H

#include "base/base.h"

bool emq__str_eq(emq_str a, emq_str b);
bool emq__str_is(emq_str a, const char *text);
bool emq__str_starts(emq_str s, const char *head);
int emq__str_cmp(emq_str a, emq_str b); /* by bytes, then by length */
/* A NUL-terminated copy; NULL when out of memory. */
char *emq__str_dup(emq_str s);
/* Decimal, optional '-', whole text, no spaces; false if it is no int64. */
bool emq__str_to_i64(emq_str s, int64_t *out);
bool emq__str_to_double(emq_str s, double *out); /* JSON number syntax, no locale */
static inline bool emq__is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}
/* Index of the first byte from i on that is no digit. */
static inline size_t emq__skip_digits(emq_str s, size_t i)
{
    while (i < s.len && emq__is_digit(s.ptr[i]))
        i++;
    return i;
}
/* Valid UTF-8 (RFC 3629: no surrogates, no overlong forms)? */
bool emq__utf8_valid(emq_str s);
/* Replaces invalid bytes by U+FFFD and control characters other than \t \n by '?'; cuts to max
 * bytes at a character and appends " [cut]" then. Writes into out (>= max + 8 bytes), returns its length. */
size_t emq__text_clean(emq_str s, size_t max, char *out);

#endif
