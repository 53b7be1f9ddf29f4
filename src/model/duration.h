/* SPDX-License-Identifier: MIT
 *
 * Spans of time as people write them ("500ms", "30s", "1h30m", "7d") and retention
 * ("1000", "7d", "1000,7d").
 */
#ifndef EMQ_MODEL_DURATION_H
#define EMQ_MODEL_DURATION_H

#include "base/base.h"
#include "model/opts.h"

/* The longest span anything accepts: 100 years of 365.25 days. */
#define EMQ__SPAN_MAX_MS INT64_C(3155760000000)

/* A number with a unit (ms s m h d w), several in falling order, or a bare 0. A bare number other
 * than 0 is refused with the hint to add a unit. Fractions ("1.5s") are allowed on the last part.
 * At most 100 years. */
emq_status emq__duration_parse(emq_str text, int64_t *out_ms, emq_error *err);
/* A short form that parses back: "1h30m", "250ms", "1.5s", "0"; '-' in front of a negative span.
 * Returns out. */
char *emq__duration_format(int64_t ms, char out[40]);
/* "all", "none", "1000", "7d", "1000,7d". An age alone keeps any number of that age. */
emq_status emq__keep_parse(emq_str text, struct emq__keep *out, emq_error *err);

#endif
