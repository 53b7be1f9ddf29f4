/* SPDX-License-Identifier: MIT
 *
 * What the checks of this floor share: ranges, values in messages, sized option structs.
 */
#ifndef EMQ_MODEL_CHECK_H
#define EMQ_MODEL_CHECK_H

#include "base/base.h"

enum { EMQ__SHOWN_MAX = 72 };
/* A value as an error message may carry it: one line, valid UTF-8, cut. Returns out. */
const char *emq__shown(emq_str value, char out[EMQ__SHOWN_MAX]);

/* E_INVALID "<what> <value><unit> is outside <lo>..<hi><unit>" unless lo <= value <= hi. `unit` is
 * " ms" for spans (the longest one is then also named in words), or "". */
emq_status emq__check_range(const char *what, int64_t value, int64_t lo, int64_t hi,
                            const char *unit, emq_error *err);

/* A struct beyond this is none of any version: its size field is garbage. */
enum { EMQ__SIZED_MAX = 4096 };

/* Copies a caller's options struct that starts with its size into `dst` of dst_size bytes. Shorter
 * ones, down to min_size, leave the rest zero; longer ones must have nothing but zeros behind what
 * we know. NULL leaves dst all zero. dst's own size field becomes dst_size. */
emq_status emq__sized_read(void *dst, size_t dst_size, size_t min_size, const void *src,
                           const char *what, emq_error *err);

#endif
