/* SPDX-License-Identifier: MIT
 *
 * A cell run for real: one job in a queue of its own, a worker process that the fault strikes, then another worker
 * that does what is left, then a look at the store and at the ledger.
 */
#ifndef EMQ_LAB_CELL_H
#define EMQ_LAB_CELL_H

#include "lab/ground.h"

struct lab_result {
    struct lab_cell cell;
    struct lab_outcome expected, seen;
    const char *why; /* of what is expected; static */
    enum { LAB_RAN, LAB_NOT_RUN, LAB_BROKEN } how;
    char text[600]; /* NOT_RUN, BROKEN: why; not as expected: what its workers said */
};
static inline bool lab_as_expected(const struct lab_result *r)
{
    return r->how == LAB_NOT_RUN || (r->how == LAB_RAN && lab_same(&r->expected, &r->seen));
}

/* Runs one cell that exists. Any thread. BROKEN: it could not be measured, or the lab was stopped. */
void lab_cell_run(struct lab_ground *g, struct lab_result *r);

/* Runs n cells, up to `threads` side by side; `done` is told after each, by one thread at a time. results[i].cell is
 * set by the caller. */
typedef void (*lab_done_fn)(size_t done, void *user);
void lab_cells_run(struct lab_ground *g, struct lab_result *results, size_t n, int threads,
                   lab_done_fn done, void *user);

#endif
