/* SPDX-License-Identifier: MIT
 *
 * What the acts of administration and reading share beside row.h.
 */
#ifndef EMQ_ENGINE_SQLITE_ADMIN_H
#define EMQ_ENGINE_SQLITE_ADMIN_H

#include "engine/sqlite/row.h"

/* Room for one more element behind n in an array that lives in mem; *cap is 0 at first. The old
 * array stays in the arena. NULL: no memory. */
void *sq_grow(struct emq__arena *mem, void *array, size_t n, size_t *cap, size_t elem);

/* What the state, lock and effects of a job say to a change: EMQ_OK, EMQ_WRONG_STATE, EMQ_LOCKED,
 * EMQ_EFFECT_DONE, EMQ_NOT_FOUND for a job that is only staged, failures. */
emq_status sq_change_allowed(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                             const struct emq__change *c, emq_error *err);
/* Does it, if allowed; quiet: without the event `removed`. */
emq_status sq_change_row(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                         const struct emq__change *c, bool quiet, struct emq__settled *out,
                         struct emq__arena *mem, emq_error *err);

/* Everything of the stats but now_ms. A bounded number of index probes. */
emq_status sq_stats_fill(struct sq_tx *tx, const struct sq_queue *q, struct emq__stats_res *out,
                         emq_error *err);

#endif
