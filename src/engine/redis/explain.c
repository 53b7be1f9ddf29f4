/* SPDX-License-Identifier: MIT
 *
 * Keys of a queue that belong to something else. A script that meets one can't take back what it wrote before,
 * so they are looked for before a handle's first act on a queue; and again when a script has met one all the
 * same, since the server does not say which one it was.
 */
#include "engine/redis/script.h"

#include "base/error.h"
#include "base/map.h"

static emq_status look(const struct rd_args *a, const struct rd_reply **found, emq_error *err)
{
    const struct rd_reply *r = NULL;
    struct rd_args *types = rd_args_new(&a->e->base, RD_LUA_types, a->prefix, a->queue, a->mem);

    if (types) {
        types->what = a->what;
        types->goes_on = false; /* it writes nothing */
    }
    emq_status s = rd_eval(types, &r, err);
    *found = s == EMQ_OK && rd_at(r, 1)->type == RD_STR ? r : NULL;
    return s;
}

static emq_status name_it(const struct rd_args *a, const struct rd_reply *found, emq_error *err)
{
    emq_str key = rd_str(rd_at(found, 1)), is = rd_str(rd_at(found, 2)),
            want = rd_str(rd_at(found, 3));

    return emq__fail(
        err, EMQ_E_INVALID, 0, a->what,
        "the key \"%.*s\" is a %.*s and not a %.*s: it belongs to something else; move it "
        "away, or use another prefix",
        EMQ_STR_ARG(key), EMQ_STR_ARG(is), EMQ_STR_ARG(want));
}

emq_status rd_queue_looked_at(struct rd_args *a, emq_error *err)
{
    if (!a->writes || a->queue.len == 0)
        return EMQ_OK;
    uint64_t hash = emq__hash(a->prefix) * 31 + emq__hash(a->queue);
    _Atomic uint64_t *seen = &a->e->seen[hash % RD_SEEN];
    const struct rd_reply *found;

    if (atomic_load(seen) == hash)
        return EMQ_OK;
    emq_status s = look(a, &found, err);
    if (found)
        return name_it(a, found, err);
    if (s == EMQ_OK)
        atomic_store(seen, hash);
    return s;
}

emq_status rd_script_failed(const struct rd_args *a, const struct rd_said *said, size_t node,
                            emq_error *err)
{
    const struct rd_reply *found;

    if (!said->wrong_type || a->n_keys == 0 || a->script == RD_LUA_types)
        return rd_error_fail(said, &rd_node_at(a->e, node)->addr, a->what, err);
    (void)look(a, &found, NULL);
    if (found)
        return name_it(a, found, err);
    return emq__fail(err, EMQ_E_INVALID, 0, a->what,
                     "a key of the queue \"%.*s\" under the prefix \"%.*s\" belongs to something "
                     "else: %.*s",
                     EMQ_STR_ARG(a->queue), EMQ_STR_ARG(a->prefix), EMQ_STR_ARG(said->text));
}
