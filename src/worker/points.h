/* SPDX-License-Identifier: MIT
 *
 * The six named points on a job's path (ARCHITECTURE.md section 2) where a worker can be told to die
 * or to freeze: EMQ_CRASH_AT="P3" or "P3:2" (at the 2nd time) is SIGKILL, EMQ_STOP_AT is SIGSTOP.
 * Read when a worker starts. Off: one predictable branch.
 */
#ifndef EMQ_WORKER_POINTS_H
#define EMQ_WORKER_POINTS_H

#include "base/base.h"

#include <stdatomic.h>

enum emq__point {
    EMQ__P0 = 0, /* take.before */
    EMQ__P1,     /* take.after: handed out, no handler has begun */
    EMQ__P2,     /* effect.before */
    EMQ__P3,     /* effect.after: the effect is done, nothing is acknowledged */
    EMQ__P4,     /* ack.sent: the act is done in the store, its reply is not used yet */
    EMQ__P5,     /* ack.after */
    EMQ__POINT_COUNT
};

struct emq__point_trap {
    int at;          /* an emq__point; -1 = off */
    atomic_int left; /* passes until it fires */
};
struct emq__points {
    bool armed;
    struct emq__point_trap crash, stop;
};

/* E_INVALID: a variable is set to something else than the form above. */
emq_status emq__points_read(struct emq__points *p, emq_error *err);
void emq__point_hit(struct emq__points *p, enum emq__point at);
static inline void emq__point(struct emq__points *p, enum emq__point at)
{
    if (__builtin_expect(p->armed, 0))
        emq__point_hit(p, at);
}

#endif
