/* SPDX-License-Identifier: MIT
 *
 * One slice of recovery: jobs whose lock has ended go back to their line, by the store's own decision in
 * one act. Nothing here remembers anything, so any number of workers may do it at once.
 */
#include "worker/runtime.h"

#include "base/error.h"

/* Small enough that the act is short, so that takes get their turn between slices. */
enum { SLICE = 100 };

emq_status emq__sweep_once(emq_worker *w, emq_str queue, bool *more, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__sweep_req req = {
        .prefix = w->c->prefix, .queue = queue, .max_stalled = w->cfg.max_stalled, .limit = SLICE};
    struct emq__sweep_res res;
    emq_status s = emq__do_sweep(w->c, &req, &res, &mem, err);

    *more = false;
    if (!emq__is_failure(s)) {
        for (size_t i = 0; i < res.n_recovered; i++)
            emq__event_queue(w, EMQ_EVENT_RECOVERED, queue, res.recovered[i],
                             EMQ_STR_LIT("its worker's lock had ended"));
        for (size_t i = 0; i < res.n_failed; i++)
            emq__log_write(&w->c->log, EMQ_LOG_WARN,
                           "worker %.*s: queue %.*s, job %.*s failed for good: its owner died",
                           EMQ_STR_ARG(w->cfg.name), EMQ_STR_ARG(queue),
                           EMQ_STR_ARG(res.failed[i]));
        *more = res.more;
    }
    emq__arena_free(&mem);
    return s;
}
