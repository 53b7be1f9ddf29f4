/* SPDX-License-Identifier: MIT
 *
 * A script met a key of another type: the server does not say which one, so it is looked for.
 */
#include "engine/redis/script.h"

#include "base/error.h"

emq_status rd_script_failed(const struct rd_args *a, const struct rd_said *said, size_t node,
                            emq_error *err)
{
    const struct rd_addr *at = &rd_node_at(a->e, node)->addr;
    const struct rd_reply *r = NULL;

    if (!said->wrong_type || a->n_keys == 0 || a->script == RD_LUA_types)
        return rd_error_fail(said, at, rd_lua_name[a->script], err);
    struct rd_args *look = rd_args_new(&a->e->base, RD_LUA_types, a->prefix, a->queue, a->mem);
    if (rd_eval(look, &r, NULL) != EMQ_OK || rd_at(r, 1)->type != RD_STR)
        return emq__fail(
            err, EMQ_E_INVALID, 0, rd_lua_name[a->script],
            "a key of the queue \"%.*s\" under the prefix \"%.*s\" belongs to something "
            "else: %.*s",
            EMQ_STR_ARG(a->queue), EMQ_STR_ARG(a->prefix), EMQ_STR_ARG(said->text));
    emq_str key = rd_str(rd_at(r, 1)), is = rd_str(rd_at(r, 2)), want = rd_str(rd_at(r, 3));
    return emq__fail(
        err, EMQ_E_INVALID, 0, rd_lua_name[a->script],
        "the key \"%.*s\" is a %.*s and not a %.*s: it belongs to something else; move it "
        "away, or use another prefix",
        EMQ_STR_ARG(key), EMQ_STR_ARG(is), EMQ_STR_ARG(want));
}
