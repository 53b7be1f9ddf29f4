/* SPDX-License-Identifier: MIT
 *
 * Slots: which there are, and who serves them.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <string.h>

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

emq_status rd_cluster_refresh(struct rd_engine *e, struct emq__mono end, emq_error *err)
{
    (void)e, (void)end;
    return emq__fail(err, EMQ_E_INVALID, 0, "cluster", "not built");
}

emq_status rd_cluster_node(struct rd_engine *e, const struct rd_addr *a, size_t *out,
                           emq_error *err)
{
    (void)e, (void)a, (void)out;
    return emq__fail(err, EMQ_E_INVALID, 0, "cluster", "not built");
}
