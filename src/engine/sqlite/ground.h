/* SPDX-License-Identifier: MIT
 *
 * The ground of the SQLite engine: the handle and what its own files share. Acts don't include this;
 * they see sqlite.h only.
 *
 * Locks, in the order in which they may be taken:
 *   being the group's leader, renewal.mu, effect.mu, a reader's slot, bell.mu  >  one_mu  >  set_lock  >  guard_mu.
 *   group.mu, readers.mu and checkpoint.mu are innermost and guard only fields.
 */
#ifndef EMQ_ENGINE_SQLITE_GROUND_H
#define EMQ_ENGINE_SQLITE_GROUND_H

#include "engine/sqlite/bell.h"
#include "engine/sqlite/checkpoint.h"
#include "engine/sqlite/file.h"
#include "engine/sqlite/sqlite.h"
#include "engine/sqlite/turn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define SQ_STRING_(x) #x
#define SQ_STRING(x)  SQ_STRING_(x)

/* After a restart of the log its file is cut to this. Also in a PRAGMA's text. */
#define SQ_WAL_KEEP_BYTES 16777216

enum { SQ_SYNC_OFF = 0, SQ_SYNC_NORMAL = 1, SQ_SYNC_FULL = 2 };
enum { SQ_READERS = 4 };

struct sq_op;

/* Calls that share commits (group.c). */
struct sq_group {
    pthread_mutex_t mu; /* guards head, tail, leading, lane */
    struct sq_op *head, **tail;
    bool leading;             /* some thread is the leader: it alone uses conn and rings */
    unsigned lane;            /* of the open batch */
    _Atomic uint32_t word[2]; /* members of a batch sleep on the word of its lane */
    struct sq_conn conn;
    struct sq_turn *turn;
    struct sq_rings rings;
};

/* A connection whose transactions are shared with nobody (group.c). */
struct sq_apart {
    pthread_mutex_t mu; /* guards the others */
    struct sq_conn conn;
    struct sq_turn *turn;
    bool asked; /* for its turn, once */
};

/* Connections for reading (read.c). */
struct sq_readers {
    pthread_mutex_t mu; /* guards busy */
    pthread_cond_t freed;
    struct {
        struct sq_conn conn;
        bool busy;
    } slot[SQ_READERS];
};

struct sq {
    struct emq__engine base; /* first */
    struct emq__log log;
    int64_t io_timeout_ms;
    int sync;  /* SQ_SYNC_* of the group's connection */
    pid_t pid; /* of the process that opened it */

    atomic_llong advance_ms;
    bool stopped; /* the clocks stand still at: */
    int64_t stopped_wall_ms, stopped_boot_ms;
    atomic_llong boot;       /* row number of this boot */
    atomic_bool log_suspect; /* an fsync of the log failed */
    atomic_bool take_hot;    /* see sq_take_hot() */
    int64_t slice_us;        /* of one act, see sq_slice_over() */
    atomic_llong n_commits;  /* statistics, for tests */

    /* Every use of a connection holds it shared; all connections are closed and opened anew under it
     * alone. Guards: which files `file` means, set_up. */
    pthread_rwlock_t set_lock;
    bool set_up;              /* the file has been prepared by a connection of this set */
    atomic_llong same_at_us;  /* when the paths were last seen to name our files; 0 = look again */
    atomic_bool stale;        /* the set must be opened anew: its locks were lost, a sync failed */
    struct sq_file file;      /* its paths never change */
    pthread_mutex_t guard_mu; /* guards the guard's fields of file, under set_lock shared */

    pthread_mutex_t one_mu; /* in memory: guards one */
    struct sq_conn one;     /* in memory: the only connection */

    struct sq_group group;
    struct sq_apart renewal, effect;
    struct sq_readers readers;
    struct sq_bell bell;
    struct sq_checkpoint checkpoint;
};

static inline bool sq_in_memory(const struct sq *s)
{
    return !s->file.path;
}

/* open.c */
emq_status sq_check_fork(const struct sq *s, emq_error *err);
/* Log mode, schema, guard, on the first connection of a set. */
emq_status sq_setup(struct sq *s, struct sq_conn *c, emq_error *err);
bool sq_write_locked(struct sq *s);
/* Without a side file, or when another has just deleted it, there are no turns: *out is NULL. */
emq_status sq_turn_open(struct sq *s, bool first, struct sq_turn **out, emq_error *err);
/* Around every use of a connection. Not nested. */
void sq_set_enter(struct sq *s);
void sq_set_leave(struct sq *s);
void sq_one_lock(struct sq *s); /* nothing when not in memory */
void sq_one_unlock(struct sq *s);

/* conn.c */
/* Opens c, which will be the first connection of the set, and looks: a file that is not ours, or of a
 * newer schema, is refused before anything is made beside it. *ready: see sq_schema_look(). */
emq_status sq_conn_look(struct sq *s, struct sq_conn *c, bool *ready, emq_error *err);
/* Makes c usable: opens it if it is not, or the whole set anew when its locks were lost or the file or
 * its log replaced. The caller is in the set; it may be left and entered again in between. */
emq_status sq_conn_ready(struct sq *s, struct sq_conn *c, int sync, emq_error *err);
void sq_conn_close(struct sq_conn *c);
/* Waiting for foreign writers is bounded from now by the I/O timeout. */
void sq_conn_patience(const struct sq *s, struct sq_conn *c);
/* Resets all statements in use: they would keep the transaction's snapshot. */
void sq_conn_reset(struct sq_conn *c);
/* Runs a statement without parameters or rows that matter; SQLITE_OK or the failure. */
int sq_conn_run(struct sq_conn *c, enum sq_sql id);

/* tx.c */
/* For an act's statements. Its pages still have to be written, and all of it together is to keep others
 * waiting for 5 ms at most. */
enum { SQ_SLICE_US = 2000 };
/* group.c */
emq_status sq_group_init(struct sq_group *g, emq_error *err);
void sq_group_close(struct sq_group *g);
/* Closes all connections; the caller has the set for itself. */
void sq_set_close(struct sq *s);
/* read.c */
emq_status sq_readers_init(struct sq_readers *r, emq_error *err);
void sq_readers_close(struct sq_readers *r);

#endif
