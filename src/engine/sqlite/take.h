/* SPDX-License-Identifier: MIT
 *
 * Handing out, as `take` and `settle` with a next take do it, and promotion. The one invariant: a
 * job is handed out with a fence that no other hand-out of the queue has.
 */
#ifndef EMQ_ENGINE_SQLITE_TAKE_H
#define EMQ_ENGINE_SQLITE_TAKE_H

#include "engine/sqlite/row.h"

emq_status sq_take_check(const struct emq__take *t, emq_error *err);
/* Promotes, then takes. *out lives in mem. q->wake is set when work is left for others. */
emq_status sq_take(struct sq_tx *tx, struct sq_queue *q, const struct emq__take *t,
                   struct emq__taken *out, struct emq__arena *mem, emq_error *err);
/* Delayed jobs that are due, at most `limit`, into their lines, with events. */
emq_status sq_promote_due(struct sq_tx *tx, struct sq_queue *q, int64_t limit, int64_t *count,
                          emq_error *err);
/* 0 = none. */
emq_status sq_next_due(struct sq_tx *tx, const struct sq_queue *q, int64_t *due_at_ms,
                       emq_error *err);

/* The receipt of a take: ids and tokens; whole records where the take removed them. */
void sq_taken_put(struct emq__buf *b, const struct emq__taken *t, int32_t mode);
/* q NULL: the queue is gone. */
emq_status sq_taken_get(struct sq_tx *tx, const struct sq_queue *q, struct sq_reader *r,
                        struct emq__taken *out, struct emq__arena *mem, emq_error *err);

#endif
