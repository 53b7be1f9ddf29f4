/* SPDX-License-Identifier: MIT
 *
 * Turns: in which order processes may try to write. They are for fairness and speed only: what keeps
 * writers apart is SQLite's own lock, so whoever can't get a turn in time goes on without.
 */
#ifndef EMQ_ENGINE_SQLITE_TURN_H
#define EMQ_ENGINE_SQLITE_TURN_H

#include "base/base.h"

struct sq_turn;

/* fd: a descriptor of the side file of its own (the locks belong to it); taken over. first: goes
 * before those that queue up. NULL: no memory or no mutex; the descriptor is closed then. */
struct sq_turn *sq_turn_new(int fd, bool first);
/* forked: the thread is the parent's; only memory of this process is given back. NULL is allowed. */
void sq_turn_free(struct sq_turn *t, bool forked);
enum sq_turn_result {
    SQ_TURN_NONE, /* there are no turns (NULL, or distrusted) */
    SQ_TURN_LATE, /* until_us came first */
    SQ_TURN_MINE
};
/* Waits until until_us (CLOCK_MONOTONIC); whoever does not get it goes on without. One thread at a time. */
enum sq_turn_result sq_turn_take(struct sq_turn *t, int64_t until_us);
void sq_turn_give(struct sq_turn *t);
/* The turn could not be had, yet nobody was writing: don't wait for it for a while. */
void sq_turn_distrust(struct sq_turn *t);

/* Is this the last handle, of all processes, that counts itself as a user of the file? */
void sq_turn_user(struct sq_turn *t);
bool sq_turn_last_user(struct sq_turn *t);

#endif
