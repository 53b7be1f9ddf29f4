/* SPDX-License-Identifier: MIT
 *
 * The syntax of a JSON number and its exact value, without the C library's locale.
 */
#ifndef EMQ_BASE_NUMBER_H
#define EMQ_BASE_NUMBER_H

#include "base/base.h"

/* Scans the longest JSON number at s. Returns its length; *valid is false when the text stops being
 * a number at that offset (`-`, `1.`, `1e+`). A digit after a leading zero is left
 * to the caller. */
size_t emq__number_scan(emq_str s, bool *valid);
/* The value of a scanned number if it is whole and an int64: 1e3, 1.50e1 and -0 are. */
bool emq__number_i64(emq_str number, int64_t *out);
/* The nearest double; false when it is beyond the range of finite doubles. */
bool emq__number_double(emq_str number, double *out);
/* strtod() as in the C locale, whatever the program's is; NAN when out of memory, *end untouched. */
double emq__strtod(const char *text, char **end);

#endif
