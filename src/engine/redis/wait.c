/* SPDX-License-Identifier: MIT
 *
 * Waiting.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <time.h>

emq_status rd_waits_new(struct rd_engine *e, emq_error *err)
{
    (void)e, (void)err;
    return EMQ_OK;
}

void rd_waits_free(struct rd_engine *e, bool forked)
{
    (void)e, (void)forked;
}

void rd_interrupt(struct emq__engine *e)
{
    (void)e;
}

void rd_worker_seen(struct rd_engine *e, emq_str prefix, emq_str queue, emq_str worker)
{
    (void)e, (void)prefix, (void)queue, (void)worker;
}

emq_status rd_wait(struct emq__engine *engine, const struct emq__wait_req *req,
                   struct emq__wait_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_engine *e = rd_of(engine);
    struct emq__mono end =
        emq__mono_add_ms(emq__mono_now(), req->timeout_ms < 1000 ? req->timeout_ms : 1000);

    (void)mem, (void)err;
    res->now_ms = rd_clock_now_ms(e);
    for (;;) {
        struct timespec t = {.tv_nsec = 5000000};
        if (req->cancelled && atomic_load(req->cancelled))
            return EMQ_CANCELLED;
        if (rd_ticket(engine, req->prefix, req->queues, req->n) != req->ticket)
            return EMQ_OK;
        if (emq__mono_now().us >= end.us)
            return EMQ_TIMEOUT;
        (void)nanosleep(&t, NULL);
    }
}
