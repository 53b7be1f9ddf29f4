/* SPDX-License-Identifier: MIT
 *
 * The transactional effect: a function of the application between the look at the lock and the settlement.
 */
#include "engine/sqlite/effect.h"

#include "base/error.h"

emq_status emq__sqlite_effect(struct emq__engine *e, const struct emq__effect_req *req,
                              int (*fn)(struct sqlite3 *db, void *arg), void *arg, int64_t limit_ms,
                              struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)e, (void)req, (void)fn, (void)arg, (void)limit_ms, (void)res, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "effect", "not built yet");
}
