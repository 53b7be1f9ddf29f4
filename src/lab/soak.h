/* SPDX-License-Identifier: MIT
 *
 * Many jobs under random kills. What must come of it follows from what each dead worker left in the store: a job
 * that was active and whose effect had happened comes twice (at-least-once); one whose effect had not is lost
 * (at-most-once). So the numbers are predicted kill by kill, and counted at the end.
 *
 * Meanwhile a thread looks with fsck at the store, again and again, and once more when all has ended: a sound queue
 * has nothing to be found, whoever dies.
 */
#ifndef EMQ_LAB_SOAK_H
#define EMQ_LAB_SOAK_H

#include "lab/ground.h"

struct lab_soak {
    int mode;     /* an emq_mode */
    int64_t jobs; /* so many at first, and kept in line for for_ms; out: how many there were */
    int64_t kill_every_ms, for_ms;
    int64_t kills, lost, doubled; /* out: as counted in the ledger */
    int64_t expected_lost, expected_doubled;
    int64_t looks, found; /* out: of fsck */
    char what[300];       /* out: the first that it found */
};

/* Failures as of the store; E_SYSTEM also when the lab was stopped. */
emq_status lab_soak_run(struct lab_ground *g, struct lab_soak *s, emq_error *err);
/* The line that a worker leaves of each effect; one write. */
bool lab_soak_note(const char *dir, emq_str id, emq_str worker);

#endif
