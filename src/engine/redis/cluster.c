/* SPDX-License-Identifier: MIT
 *
 * Slots: which there are, and who serves them.
 */
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/redis/error.h"

#include <string.h>

enum { ASK_AGAIN_MS = 100 };

/* CRC16 as XMODEM has it: polynomial 0x1021, no reflection, nothing added. */
static uint16_t crc16(emq_str s)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < s.len; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)s.ptr[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc;
}

/* What stands between the first '{' and the next '}', if it is something. */
static bool tag_of(emq_str s, emq_str *out)
{
    const char *open = s.len > 0 ? memchr(s.ptr, '{', s.len) : NULL;

    if (!open)
        return false;
    open++;
    size_t left = s.len - (size_t)(open - s.ptr);
    const char *close = left > 0 ? memchr(open, '}', left) : NULL;
    *out = emq_strn(open, close ? (size_t)(close - open) : 0);
    return out->len > 0;
}

uint16_t rd_slot_of_key(emq_str key)
{
    emq_str tag;

    return crc16(tag_of(key, &tag) ? tag : key) % RD_SLOTS;
}

bool rd_slot_of_queue(emq_str prefix, emq_str queue, uint16_t *out)
{
    emq_str tag;

    /* A '{' in the prefix without its end would reach into the queue's name, another way in B than in X. */
    if (prefix.len > 0 && memchr(prefix.ptr, '{', prefix.len)) {
        if (!tag_of(prefix, &tag))
            return false;
    } else if (!tag_of(queue, &tag)) {
        return false;
    }
    *out = crc16(tag) % RD_SLOTS;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static emq_status node_locked(struct rd_engine *e, const struct rd_addr *a, size_t *out,
                              emq_error *err)
{
    size_t n = atomic_load(&e->n_nodes);

    for (*out = 0; *out < n; (*out)++) {
        const struct rd_addr *has = &rd_node_at(e, *out)->addr;
        if (has->port == a->port && strcmp(has->host, a->host) == 0)
            return EMQ_OK;
    }
    return rd_node_add(e, a, false, out, err);
}

emq_status rd_cluster_node(struct rd_engine *e, const struct rd_addr *a, size_t *out,
                           emq_error *err)
{
    pthread_mutex_lock(&e->nodes_mu);
    emq_status s = node_locked(e, a, out, err);
    pthread_mutex_unlock(&e->nodes_mu);
    return s;
}

/* {host, port, …} of CLUSTER SLOTS. A node that does not know its own name is who was asked. */
static bool read_node(const struct rd_reply *r, const struct rd_addr *asked, struct rd_addr *out)
{
    emq_str host = rd_str(rd_at(r, 0));
    int64_t port = rd_i64(rd_at(r, 1));

    if (host.len > RD_HOST_MAX || port < 1 || port > 65535)
        return false;
    *out = *asked;
    out->port = (uint16_t)port;
    if (host.len == 0 || emq__str_is(host, "?"))
        return true;
    memcpy(out->host, host.ptr, host.len);
    out->host[host.len] = '\0';
    return true;
}

/* {{first, last, {host, port, …}, …}, …} */
static emq_status take_over(struct rd_engine *e, const struct rd_reply *slots,
                            const struct rd_addr *asked, emq_error *err)
{
    bool master[RD_NODES_MAX] = {false};

    for (size_t i = 0; i < slots->n; i++) {
        const struct rd_reply *range = rd_at(slots, i);
        int64_t first = rd_i64(rd_at(range, 0)), last = rd_i64(rd_at(range, 1));
        struct rd_addr addr;
        size_t node;
        if (first < 0 || last >= RD_SLOTS || !read_node(rd_at(range, 2), asked, &addr))
            continue;
        emq_status s = node_locked(e, &addr, &node, err);
        if (s != EMQ_OK)
            return s;
        master[node] = true;
        for (int64_t slot = first; slot <= last; slot++)
            atomic_store(&e->slots[slot], (uint16_t)node);
    }
    for (size_t i = 0; i < atomic_load(&e->n_nodes); i++)
        atomic_store(&e->is_master[i], master[i]);
    return EMQ_OK;
}

/* EMQ_NOT_FOUND: this one has nothing to say. */
static emq_status ask(struct rd_engine *e, size_t node, struct emq__mono end, emq_error *err)
{
    int64_t ms = emq__mono_diff_ms(emq__mono_now(), end);
    const struct rd_addr *addr = &rd_node_at(e, node)->addr;
    struct emq__arena mem = {0};
    const struct rd_reply *r;
    struct rd_cmd cmd;
    struct rd_said said;

    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "CLUSTER");
    rd_cmd_text(&cmd, "SLOTS");
    emq_status s = rd_command_once(e, node, &cmd, &mem, ms, &r, err);
    if (s == EMQ_OK && r->type == RD_ERR) {
        rd_error_read(r->s, &said);
        s = rd_error_fail(&said, addr, "cluster", err);
    } else if (s == EMQ_OK && r->type == RD_ARR && r->n > 0) {
        s = take_over(e, r, addr, err);
    } else if (s == EMQ_OK) {
        s = emq__fail(err, EMQ_E_UNAVAIL, 0, "cluster", "no slot is served");
    }
    emq__arena_free(&mem);
    return s;
}

emq_status rd_cluster_refresh(struct rd_engine *e, struct emq__mono end, emq_error *err)
{
    emq_status s = EMQ_E_UNAVAIL;

    /* Another thread's look is as good as this one's. */
    if (pthread_mutex_trylock(&e->nodes_mu) != 0)
        return EMQ_OK;
    size_t n = atomic_load(&e->n_nodes);
    uint64_t start;
    emq__random(&start, sizeof start);
    if (emq__mono_diff_ms(e->slots_at, emq__mono_now()) < ASK_AGAIN_MS) {
        s = EMQ_OK;
        n = 0;
    }
    for (size_t i = 0; i < n && s != EMQ_OK; i++) {
        struct emq__mono now = emq__mono_now();
        struct emq__mono share = {now.us + (end.us - now.us) / (int64_t)(n - i)};
        s = ask(e, (e->opened ? start + i : i) % n, share, err);
        if (s == EMQ_E_REFUSED)
            break;
    }
    if (s == EMQ_OK)
        e->slots_at = emq__mono_now();
    pthread_mutex_unlock(&e->nodes_mu);
    return s;
}
