/* SPDX-License-Identifier: MIT
 *
 * Tickets: counters of this process that grow when a queue may have got work. They hold no truth; what
 * other processes do is heard by waits.
 */
#include "engine/redis/ground.h"

#include "base/map.h"

static uint32_t bell_of(emq_str prefix, emq_str queue)
{
    uint64_t h = emq__hash(prefix) * UINT64_C(0x9e3779b97f4a7c15) ^ emq__hash(queue);

    h ^= h >> 32;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) % RD_BELLS;
}

/* Each counter only grows: the sum is unchanged only if each of them is. */
uint64_t rd_ticket(struct emq__engine *engine, emq_str prefix, const emq_str *queues, size_t n)
{
    struct rd_engine *e = rd_of(engine);
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += atomic_load(&e->bells[bell_of(prefix, queues[i])]);
    return sum;
}

void rd_bell_ring(struct rd_engine *e, emq_str prefix, emq_str queue)
{
    atomic_fetch_add(&e->bells[bell_of(prefix, queue)], 1);
}

void rd_bell_ring_all(struct rd_engine *e)
{
    for (size_t i = 0; i < RD_BELLS; i++)
        atomic_fetch_add(&e->bells[i], 1);
}

void rd_bell_maxed(struct rd_engine *e, emq_str prefix, emq_str queue, bool maxed)
{
    atomic_store(&e->maxed[bell_of(prefix, queue)], maxed);
}

bool rd_bell_was_maxed(struct rd_engine *e, emq_str prefix, emq_str queue)
{
    return atomic_load(&e->maxed[bell_of(prefix, queue)]);
}
