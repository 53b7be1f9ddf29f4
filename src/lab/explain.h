/* SPDX-License-Identifier: MIT
 *
 * The guarantee of a queue as it is used now: how its jobs are held, when they come back after a crash, and how many
 * a crash can make run twice.
 */
#ifndef EMQ_LAB_EXPLAIN_H
#define EMQ_LAB_EXPLAIN_H

#include "lab/doctor.h"

enum { EMQ__EXPLAIN_ACTIVE_MAX = 10000 };
struct emq__explain {
    int64_t active, concurrency; /* concurrency 0 = no limit */
    int64_t at_least_once,
        at_most_once;        /* of those that are active, as far as they were looked at */
    int64_t ended;           /* active, their locks ended: they run twice already */
    int64_t foreign_ended;   /* of these, handed out by BullMQ: back only with a second sweep */
    int64_t foreign;         /* active, handed out by BullMQ */
    int64_t worker_most;     /* the most that one process holds at-least-once */
    emq_str worker;          /* which */
    int64_t recovery_ms;     /* from a crash of all workers now until the last job is back */
    const char *server_loss; /* of emq__doctor(): what a crash of the store loses */
};
/* Looks at EMQ__EXPLAIN_ACTIVE_MAX active jobs. sweep_ms: the interval at which workers sweep. EMQ_NOT_FOUND: no such
 * queue. */
emq_status emq__explain(emq_client *c, emq_str queue, int64_t sweep_ms, struct emq__arena *mem,
                        struct emq__explain *out, emq_error *err);

#endif
