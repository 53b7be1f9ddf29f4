/* SPDX-License-Identifier: MIT
 *
 * One step through UTF-8 text: the only place that knows what a well-formed sequence is.
 */
#ifndef EMQ_BASE_UTF8_H
#define EMQ_BASE_UTF8_H

#include "base/base.h"

/* Bytes of the character at p; n > 0 bytes are readable. When it is ill-formed, *valid is false and
 * the length is that of the longest piece to be replaced by one U+FFFD, as browsers and Node do. */
size_t emq__utf8_step(const char *p, size_t n, bool *valid);
/* Length of the ASCII run at p. */
size_t emq__utf8_ascii(const char *p, size_t n);
/* Writes 1..4 bytes; code is a Unicode scalar value. */
size_t emq__utf8_put(uint32_t code, char out[4]);

#define EMQ__UTF8_REPLACEMENT "\xEF\xBF\xBD"

#endif
