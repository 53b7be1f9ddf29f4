/* SPDX-License-Identifier: MIT
 *
 * What becomes of an active job whose owner is gone, the same for the sweep and for a worker that
 * reports it itself.
 */
#ifndef EMQ_ENGINE_SQLITE_STALL_H
#define EMQ_ENGINE_SQLITE_STALL_H

#include "engine/sqlite/row.h"

/* stc + 1 and the front of its line; over max_stalled, or held at-most-once: failed with `reason`, or
 * the text of model/job.h when that is empty; asked to stop: failed, "cancelled". keep NULL: what the job's own options say. *gone: the
 * record was not kept. With events and totals. */
emq_status sq_stall(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row, int64_t max_stalled,
                    emq_str reason, const struct emq__keep *keep, bool *gone,
                    struct emq__arena *mem, emq_error *err);

#endif
