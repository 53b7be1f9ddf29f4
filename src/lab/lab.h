/* SPDX-License-Identifier: MIT
 *
 * The crash lab: what a cell of its matrix is, and what theory says of each. Pure; nothing here runs.
 *
 * A cell is one job under one delivery mode, with one strength of effect, and one fault at one of the six points of
 * its path (worker/points.h). cell.h runs it, with real processes.
 */
#ifndef EMQ_LAB_LAB_H
#define EMQ_LAB_LAB_H

#include "worker/points.h"

#include <echomq/effect.h>

enum lab_effect {
    LAB_PLAIN,         /* a line in a file */
    LAB_IDEMPOTENT,    /* a file renamed into place */
    LAB_TRANSACTIONAL, /* a row, or a counter, in the queue's own store */
    LAB_INBOX,         /* a row in another database, with an inbox table */
    LAB_REDO,          /* LAB_PLAIN inside of a marker, by policy */
    LAB_SKIP,
    LAB_PARK,
    LAB_PROBE,
    LAB_KEY, /* a payment, at a server that honours idempotency keys */
    LAB_EFFECTS,
    LAB_ANY_MARKER = LAB_EFFECTS
};

enum lab_fault {
    LAB_KILL,         /* SIGKILL */
    LAB_LOST_REQUEST, /* dropped before the store; the worker lives */
    LAB_LOST_ACK, /* the settlement is dropped before the store, and the worker dies before it sends it again */
    LAB_LOST_REPLY, /* the act is done, its answer is dropped; the worker lives */
    LAB_FREEZE, /* SIGSTOP until after the lock has ended and others have done what they would; then SIGCONT */
    LAB_CHILD,  /* the handler is a program; its worker is killed while it runs */
    LAB_SERVER, /* the server is killed and started again; the worker lives */
    LAB_FAULTS,
    LAB_NO_FAULT = LAB_FAULTS
};

enum lab_verdict { LAB_CLEAN, LAB_DUPLICATE, LAB_LOST };

/* By number, NULL-terminated. */
extern const char *const lab_effects[], *const lab_faults[], *const lab_points[],
                                                                 *const lab_verdicts[];
/* The name of a state; 0, no such job any more, is "gone". */
const char *lab_state(int state);
static inline bool lab_marked(int effect)
{
    return effect >= LAB_REDO && effect <= LAB_PROBE;
}

struct lab_cell {
    bool server; /* the store is a server, not a file */
    int mode;    /* an emq_mode */
    int effect, point, fault;
};

struct lab_outcome {
    int64_t deliveries, effects;
    int state; /* an emq_state; 0 = gone */
};
/* No effect is lost, more than one a duplicate. */
enum lab_verdict lab_judge(const struct lab_outcome *o);
bool lab_same(const struct lab_outcome *a, const struct lab_outcome *b);

/* What must come out, and why. false: there is no such cell, *why says why not. */
bool lab_theory(const struct lab_cell *cell, struct lab_outcome *out, const char **why);

enum { LAB_CELLS_MAX = 1000 };
/* All cells there are, in the order of modes, effects, faults, points. */
size_t lab_cells(bool server, struct lab_cell out[LAB_CELLS_MAX]);

#endif
