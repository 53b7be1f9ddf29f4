/* SPDX-License-Identifier: MIT
 *
 * Lets whoever waits for a queue look at it.
 */
#include "engine/redis/redis.h"

emq_status rd_wake(struct emq__engine *e, const struct emq__wake_req *req,
                   struct emq__wake_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r;
    struct rd_args *a = rd_args_new(e, RD_LUA_wake, req->prefix, req->queue, mem);

    rd_arg_writes(a);
    emq_status s = rd_eval(a, &r, err);
    if (s == EMQ_OK)
        res->now_ms = rd_i64(rd_at(r, 0));
    return s;
}
