/* SPDX-License-Identifier: MIT
 *
 * Checks queues against their invariants, while they are used or not, and repairs them. What one reading shows
 * counts only when a second look, at that place alone and in one act of the store, shows it too; what a
 * worker's sweep would make good counts when none has done so within the patience.
 */
#ifndef EMQ_LAB_FSCK_H
#define EMQ_LAB_FSCK_H

#include "client/client.h"

#include <stdatomic.h>

struct emq__finding {
    emq_str queue; /* empty = of the store */
    emq_str id;    /* the job; empty = of none */
    emq_str flaw;  /* the kind, a short name */
    emq_str text;  /* what is wrong */
    /* what repairs it; empty = nothing does without losing or inventing something */
    emq_str remedy;
    bool repaired;
};
typedef void (*emq__finding_fn)(void *user, const struct emq__finding *f);

struct emq__fsck {
    emq_str queue; /* empty = all of the prefix, and what belongs to no queue */
    bool repair;
    int64_t patience_ms;
    const atomic_int *stop; /* not 0: the patience is over; NULL = none */
    emq__finding_fn found;  /* once each; what it points to lives during the call */
    void *user;
    int64_t n_queues, n_found, n_repaired; /* out */
};
enum { EMQ__FSCK_PATIENCE_MS = 15000 }; /* three of a worker's sweeps, with its default interval */

/* Reads every job of a queue, in slices, without holding up others; takes some 60 bytes of memory a job on a
 * server. Stops after 10,000 findings a queue. Repairs are single acts; a failure leaves those that are done. */
emq_status emq__fsck(emq_client *c, struct emq__fsck *f, emq_error *err);

#endif
