/* SPDX-License-Identifier: MIT
 *
 * The acts `mark` and `markers`.
 */
#include "engine/redis/effect.h"
#include "engine/redis/path.h"

#include "base/error.h"

emq_status rd_mark(struct emq__engine *e, const struct emq__mark_req *req,
                   struct emq__mark_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)e, (void)req, (void)res, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "mark", "not built yet");
}

emq_status rd_markers(struct emq__engine *e, const struct emq__markers_req *req,
                      struct emq__markers_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)e, (void)req, (void)res, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "markers", "not built yet");
}

emq_status emq__redis_effect(struct emq__engine *e, const struct emq__effect_req *req,
                             const struct emq__redis_command *commands, size_t n,
                             struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)e, (void)req, (void)commands, (void)n, (void)res, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "effect", "not built yet");
}
