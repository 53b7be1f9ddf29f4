/* SPDX-License-Identifier: MIT
 *
 * Acts that are not written yet: weak, so that the tree links. Goes when all of them exist.
 */
#include "engine/redis/redis.h"

#include "base/error.h"

#define RD_MISSING(act, mutating)                                                             \
    __attribute__((weak))                                                                     \
    emq_status rd_##act(struct emq__engine *e, const struct emq__##act##_req *req,            \
                        struct emq__##act##_res *res, struct emq__arena *mem, emq_error *err) \
    {                                                                                         \
        (void)e, (void)req, (void)res, (void)mem;                                             \
        return emq__fail(err, EMQ_E_INVALID, 0, #act, "not built into this engine");          \
    }
EMQ__ACTS(RD_MISSING)

__attribute__((weak)) struct emq__job *
rd_job_read(const struct rd_reply *hash, const struct rd_job_extra *x, struct emq__arena *mem)
{
    (void)hash, (void)x, (void)mem;
    return NULL;
}
