/* SPDX-License-Identifier: MIT
 */
#include "engine/redis/effect.h"
#include "engine/redis/path.h"

#include "base/error.h"

emq_status emq__redis_effect(struct emq__engine *e, const struct emq__effect_req *req,
                             const struct emq__redis_command *commands, size_t n,
                             struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)e, (void)req, (void)commands, (void)n, (void)res, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "effect", "not built yet");
}
