/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on this store, for echomq/effect.h.
 */
#ifndef EMQ_ENGINE_SQLITE_EFFECT_H
#define EMQ_ENGINE_SQLITE_EFFECT_H

#include "engine/engine.h"

struct sqlite3;

/* In one transaction of its own, never in a commit group: verifies the lock, calls fn under an authorizer and a
 * deadline, settles, commits. `e` is the engine itself, without decorators.
 * Outcomes: EMQ_FAILED (fn returned non-zero) and EMQ_TIMEOUT were rolled back. E_INVALID: fn asked for what the
 * authorizer refuses. */
emq_status emq__sqlite_effect(struct emq__engine *e, const struct emq__effect_req *req,
                              int (*fn)(struct sqlite3 *db, void *arg), void *arg, int64_t limit_ms,
                              struct emq__effect_res *res, struct emq__arena *mem, emq_error *err);

#endif
