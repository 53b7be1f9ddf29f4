/* SPDX-License-Identifier: MIT
 *
 * Sentinels: who is the primary now.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

emq_status rd_sentinel_ask(struct rd_engine *e, struct emq__mono end, struct rd_addr *out,
                           emq_error *err)
{
    (void)e, (void)end, (void)out;
    return emq__fail(err, EMQ_E_INVALID, 0, "sentinel", "not built");
}
