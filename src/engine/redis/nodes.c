/* SPDX-License-Identifier: MIT
 *
 * The servers: one, or those of a cluster. A node that was met stays until the handle is closed, so
 * that threads may hold on to it.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <string.h>

struct rd_node *rd_node_at(struct rd_engine *e, size_t i)
{
    return atomic_load(&e->nodes[i]);
}

static void node_free(struct rd_node *n, bool forked)
{
    for (size_t i = 0; i < RD_LINKS; i++)
        rd_link_close(&n->links[i], forked);
    free(n);
}

emq_status rd_node_add(struct rd_engine *e, const struct rd_addr *a, bool ask_sentinels,
                       size_t *out, emq_error *err)
{
    size_t at = atomic_load(&e->n_nodes);
    struct rd_node *n = at < RD_NODES_MAX ? calloc(1, sizeof *n) : NULL;

    if (!n)
        return emq__fail(err, EMQ_E_NOMEM, 0, "nodes", "no room for another of %zu nodes", at);
    n->addr = *a;
    for (size_t i = 0; i < RD_LINKS; i++) {
        emq_status s = rd_link_init(&n->links[i], e, ask_sentinels ? NULL : &n->addr, err);
        if (s == EMQ_OK)
            continue;
        while (i > 0)
            rd_link_close(&n->links[--i], false);
        free(n);
        return s;
    }
    atomic_store(&e->nodes[at], n);
    atomic_store(&e->n_nodes, at + 1);
    *out = at;
    return EMQ_OK;
}

void rd_nodes_free(struct rd_engine *e, bool forked)
{
    for (size_t i = 0; i < atomic_load(&e->n_nodes); i++)
        node_free(rd_node_at(e, i), forked);
    atomic_store(&e->n_nodes, 0);
}

size_t rd_nodes(struct emq__engine *engine)
{
    struct rd_engine *e = rd_of(engine);
    size_t n = 0;

    if (!e->cluster)
        return 1;
    for (size_t i = 0; i < atomic_load(&e->n_nodes); i++)
        n += atomic_load(&e->is_master[i]);
    return n;
}

size_t rd_nth_master(struct rd_engine *e, size_t n)
{
    size_t all = atomic_load(&e->n_nodes), last = 0;

    for (size_t i = 0; e->cluster && i < all; i++) {
        if (!atomic_load(&e->is_master[i]))
            continue;
        last = i;
        if (n-- == 0)
            break;
    }
    return last;
}

emq_status rd_where(struct rd_engine *e, const struct rd_link *l, struct emq__mono end,
                    struct rd_addr *out, emq_error *err)
{
    if (!l->addr)
        return rd_sentinel_ask(e, end, out, err);
    *out = *l->addr;
    return EMQ_OK;
}
