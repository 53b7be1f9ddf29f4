/* SPDX-License-Identifier: MIT
 *
 * What tx.c does for group.c.
 */
#ifndef EMQ_ENGINE_SQLITE_TX_H
#define EMQ_ENGINE_SQLITE_TX_H

#include "engine/sqlite/ground.h"

struct sq_op {
    sq_fn fn;
    void *arg;
    emq_error *err;
    int64_t now_ms, boot_ms;
    struct emq__mono until; /* no waiting for other writers after this */
    emq_status status;
    struct sq_op *next;
    atomic_uint lane; /* which word its thread sleeps on */
    atomic_bool done; /* set last: the op is the sleeping thread's again */
};

void sq_op_init(const struct sq *s, struct sq_op *op, sq_fn fn, void *arg, emq_error *err);
/* Runs a list of calls to its end, in one transaction, or each for itself when SQLite undid all for the sake of one.
 * Returns what was cut off from it: it did not fit the time. The caller has the turn, and the connection to itself. */
struct sq_op *sq_ops_run(struct sq *s, struct sq_conn *c, int sync, struct sq_op *list,
                         struct sq_rings *rings);

#endif
