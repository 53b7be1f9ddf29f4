/* SPDX-License-Identifier: MIT
 *
 * The checkpoint thread: moves what the log holds into the database file, so that no caller has to.
 */
#ifndef EMQ_ENGINE_SQLITE_CHECKPOINT_H
#define EMQ_ENGINE_SQLITE_CHECKPOINT_H

#include "engine/sqlite/sqlite.h"

#include <pthread.h>
#include <stdatomic.h>

struct sq_turn;

struct sq_checkpoint {
    pthread_mutex_t mu; /* guards due, stop */
    pthread_cond_t changed;
    pthread_t thread;
    bool due, stop;
    atomic_int pages;    /* in the log after the last commit of this process */
    atomic_int ask_at;   /* pages at which a commit asks for a checkpoint */
    atomic_bool no_room; /* the disk was full: a writer tries to move the log before its act */
    struct sq_conn conn;
    struct sq_turn *turn;
    int naps;          /* how long a restart waits for one reader */
    emq_error failure; /* of the running checkpoint; status 0 = none */
};

emq_status sq_checkpoint_start(struct sq *s, emq_error *err);
void sq_checkpoint_stop(struct sq *s);
/* SQLite's hook after a commit: `pages` are in the log now. */
int sq_checkpoint_hook(void *arg, sqlite3 *db, const char *name, int pages);
/* The log lost its name while c has it open: moves everything into the database file and begins the log
 * anew, if the log's index is still the one of c's log. */
void sq_checkpoint_rescue(struct sq_conn *c);
/* The disk is full: moves everything into the database file, so that the room of the log is used again.
 * false: that did not succeed. c has no open transaction; the caller has the turn. */
bool sq_checkpoint_make_room(struct sq *s, struct sq_conn *c);
/* Moves everything and empties the log, if nobody is in the way; waits for nobody. */
void sq_checkpoint_last(struct sq_conn *c);

#endif
