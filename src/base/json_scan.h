/* SPDX-License-Identifier: MIT
 *
 * What the JSON files share: skipping white space and the plain bytes of a string.
 */
#ifndef EMQ_BASE_JSON_SCAN_H
#define EMQ_BASE_JSON_SCAN_H

#include "base/base.h"

/* Offset of the first byte at or after i that is no white space. */
static inline size_t emq__json_space(emq_str s, size_t i)
{
    while (i < s.len &&
           (s.ptr[i] == ' ' || s.ptr[i] == '\n' || s.ptr[i] == '\t' || s.ptr[i] == '\r'))
        i++;
    return i;
}

/* Offset of the first byte at or after i that can't be copied as it is: a quote, a backslash, a
 * control byte or a byte of a character beyond ASCII. */
size_t emq__json_plain(emq_str s, size_t i);

#endif
