/* SPDX-License-Identifier: MIT
 *
 * One settlement inside a transaction that does something else, too.
 */
#ifndef EMQ_ENGINE_SQLITE_SETTLE_H
#define EMQ_ENGINE_SQLITE_SETTLE_H

#include "engine/sqlite/row.h"

/* As the act does it with one entry. EMQ_OK (look at the outcome), failures. */
emq_status sq_settle(struct sq_tx *tx, struct sq_queue *q, const struct emq__settle_entry *en,
                     struct emq__settled *out, struct emq__arena *mem, emq_error *err);

#endif
