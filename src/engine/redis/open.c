/* SPDX-License-Identifier: MIT
 *
 * Opening and closing.
 */
#include "engine/redis/redis.h"

#include "base/error.h"

emq_status emq__redis_open(struct emq__engine **out, const struct emq__engine_config *cfg,
                           struct emq__arena *mem, emq_error *err)
{
    (void)out, (void)cfg, (void)mem;
    return emq__fail(err, EMQ_E_INVALID, 0, "open", "not built");
}
