/* SPDX-License-Identifier: MIT
 *
 * The model engine has nothing to repair: its queues are what they are.
 */
#include "lib/naive_internal.h"

static emq_status do_suspects(struct naive *n, const struct emq__suspects_req *req,
                              struct emq__suspects_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)n, (void)req, (void)res, (void)mem, (void)err;
    return EMQ_OK;
}
NV_ACT(suspects)

static emq_status do_mend(struct naive *n, const struct emq__mend_req *req,
                          struct emq__mend_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)n, (void)req, (void)mem, (void)err;
    res->outcome = EMQ__MEND_HEALTHY;
    return EMQ_OK;
}
NV_ACT(mend)

static emq_status do_facts(struct naive *n, const struct emq__facts_req *req,
                           struct emq__facts_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)n, (void)req, (void)res, (void)mem, (void)err;
    return EMQ_OK;
}
NV_ACT(facts)
