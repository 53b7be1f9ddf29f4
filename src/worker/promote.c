/* SPDX-License-Identifier: MIT
 *
 * One slice of promotion: delayed jobs that are due join their line, so that they are seen there and
 * wake idle workers while this one is busy. Taking promotes by itself; this is for the rest of the time.
 */
#include "worker/runtime.h"

#include "base/error.h"

enum { SLICE = 500 };

emq_status emq__promote_once(emq_worker *w, emq_str queue, bool *more, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__promote_req req = {.prefix = w->c->prefix, .queue = queue, .limit = SLICE};
    struct emq__promote_res res;
    emq_status s = w->e->ops->promote(w->e, &req, &res, &mem, err);

    *more = !emq__is_failure(s) && res.more;
    emq__arena_free(&mem);
    return s;
}
