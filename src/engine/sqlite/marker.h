/* SPDX-License-Identifier: MIT
 *
 * Markers: what is known of the effects of jobs. Inside a transaction of tx.c. One past its end is absent,
 * and goes when another one is made.
 */
#ifndef EMQ_ENGINE_SQLITE_MARKER_H
#define EMQ_ENGINE_SQLITE_MARKER_H

#include "engine/sqlite/row.h"

enum { SQ_MARKER_CLAIMED = 1, SQ_MARKER_DONE = 2 }; /* emq_marker.state; also m->state below */

/* The marker of a job and a step. EMQ_OK, EMQ_NOT_FOUND, failures. */
emq_status sq_marker_get(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                         emq_str step, struct emq__arena *mem, struct emq__marker *m,
                         emq_error *err);
/* Writes it, old or new; removes a few that are past their end. */
emq_status sq_marker_put(struct sq_tx *tx, const struct sq_queue *q, const struct emq__marker *m,
                         emq_error *err);
emq_status sq_marker_drop(struct sq_tx *tx, const struct sq_queue *q, const struct emq__marker *m,
                          emq_error *err);
/* Is any effect of the job known to be done? */
emq_status sq_marker_any_done(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                              int64_t timestamp_at_ms, bool *done, emq_error *err);
/* What is known of the job's effects is so for at least as long again, at most EMQ__KNOWN_MAX_MS. */
emq_status sq_marker_prolong_job(struct sq_tx *tx, const struct sq_queue *q,
                                 const struct sq_row *row, emq_error *err);
emq_status sq_marker_drop_job(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                              emq_error *err);

#endif
