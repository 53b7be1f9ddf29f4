/* SPDX-License-Identifier: MIT
 *
 * Inside of the SQLite engine: what its files share. Nothing of this crosses the seam.
 *
 *   open.c      emq__sqlite_open, close: the ops table, the order of setting up and tearing down
 *   file.c      THE function that opens the database file; identity of the file (inode of db and WAL)
 *   conn.c      one connection with its prepared statements
 *   group.c     who writes: calls from many threads share commits
 *   tx.c        a transaction: a savepoint a call, doubts are named
 *   turn.c      fair turns of processes at the write lock (OFD locks on the side file)
 *   bell.c      wake-ups between threads and processes (futex words in the side file)
 *   side.c      the side file itself: making, checking, mapping it
 *   checkpoint.c  the checkpoint thread
 *   schema.c    creating, checking and migrating the schema (sql/schema.sql)
 *   row.c       shared row work: read a job, move it between states, counters, events, retention
 *   receipt.c   (session, sequence) -> stored result
 *   marker.c    what is known of the effects of jobs
 *   effect.c    a function of the application inside the transaction that completes its job
 *   act_*.c     the acts
 */
#ifndef EMQ_ENGINE_SQLITE_SQLITE_H
#define EMQ_ENGINE_SQLITE_SQLITE_H

#include "base/clock.h"
#include "engine/engine.h"

#include <sqlite3.h>

#include "sql.h" /* generated from sql/ *.sql: enum sq_sql { SQ_SQL_<name>…, SQ_SQL_COUNT }, sq_sql_text[] */

struct sq; /* the engine handle; its first member is struct emq__engine */

/* One connection. Used by one thread at a time. */
struct sq_conn {
    sqlite3 *db;
    sqlite3_stmt *stmt[SQ_SQL_COUNT]; /* prepared on first use */
    /* Statements given out since the transaction (or savepoint) began: they are reset at its end. */
    bool in_use[SQ_SQL_COUNT];
    uint16_t used[SQ_SQL_COUNT];
    size_t n_used;
    struct emq__mono busy_until; /* how long to wait for a writer that takes no turns */
    bool was_busy;               /* there was one */
};

struct sq_rings;

/* A transaction as an act sees it. */
struct sq_tx {
    struct sq *s;
    struct sq_conn *conn;
    int64_t now_ms;       /* wall clock, taken before waiting for the write lock */
    int64_t boot_ms;      /* lock clock (CLOCK_BOOTTIME), taken at the same moment */
    int64_t boot_ms_late; /* lock clock after the write lock was got: for new lock ends */
    bool write;
    int64_t slice_end_us;   /* CLOCK_MONOTONIC: see sq_slice_over() */
    struct sq_rings *rings; /* bells to ring after the commit; NULL = nobody will (add_on) */
};

/* The statement, reset and with bindings cleared. NULL with err on failure. */
sqlite3_stmt *sq_stmt(struct sq_conn *c, enum sq_sql id, emq_error *err);
/* Steps a statement that returns no row. */
emq_status sq_exec(struct sq_conn *c, sqlite3_stmt *st, const char *where, emq_error *err);
/* SQLITE_ROW -> *row true, SQLITE_DONE -> false, else the failure. */
emq_status sq_step(struct sq_conn *c, sqlite3_stmt *st, bool *row, const char *where,
                   emq_error *err);
/* The status and text that a SQLite result code means (FULL, READONLY, BUSY, CORRUPT, IOERR, …). */
emq_status sq_error(struct sq_conn *c, int rc, const char *where, emq_error *err);

/* Binding and reading. Bound bytes are borrowed until the next reset. */
void sq_bind_text(sqlite3_stmt *st, int i, emq_str s);         /* empty = '' */
void sq_bind_text_or_null(sqlite3_stmt *st, int i, emq_str s); /* empty = NULL */
void sq_bind_i64(sqlite3_stmt *st, int i, int64_t v);
void sq_bind_i64_or_null(sqlite3_stmt *st, int i, int64_t v); /* 0 = NULL */
void sq_bind_payload(sqlite3_stmt *st, int i,
                     struct emq__payload p); /* TEXT or BLOB by kind, NULL if absent */
emq_str sq_col_str(sqlite3_stmt *st, int i); /* valid until the next step */
emq_str sq_col_copy(sqlite3_stmt *st, int i, struct emq__arena *mem);
int64_t sq_col_i64(sqlite3_stmt *st, int i);

/* The work of one act. Called with a transaction open; may be called again from the start if the
 * group had to be repeated: it must only write to its results, and to the database through tx. */
typedef emq_status (*sq_fn)(struct sq_tx *tx, void *arg, emq_error *err);

/* Runs fn inside a write transaction (BEGIN IMMEDIATE), in a savepoint of its own; calls from many
 * threads share one commit. A negative status of fn rolls back its savepoint only; a positive one is
 * kept like EMQ_OK. When fn's effects may or may not be durable: EMQ_E_IN_DOUBT. */
emq_status sq_write(struct sq *s, sq_fn fn, void *arg, emq_error *err);
/* The same on the renewal connection (synchronous=NORMAL, goes before other writers). */
emq_status sq_write_renewal(struct sq *s, sq_fn fn, void *arg, emq_error *err);
/* Runs fn in a transaction that it shares with nobody, on the calling thread. */
emq_status sq_write_effect(struct sq *s, sq_fn fn, void *arg, emq_error *err);
/* Runs fn inside a read transaction: one snapshot. */
emq_status sq_read(struct sq *s, sq_fn fn, void *arg, emq_error *err);
/* Inside fn, for work that may be left to the next act, after `done` jobs of it: is it enough? True when
 * the act has had its time, but not before SQ_SLICE_MIN jobs, so that every act gets on. */
enum { SQ_SLICE_MIN = 32 };
bool sq_slice_over(const struct sq_tx *tx, int64_t done);
/* Inside fn: ring this queue's bell after the commit: one waiter wakes. Acts that make work ready call
 * it, and takes that leave work behind (the woken one wakes the next). */
void sq_ring_later(struct sq_tx *tx, emq_str prefix, emq_str queue);
/* The queue's other bell, for those who wait for its events and results (they wait for the queue name
 * with EMQ__BELL_EVENTS behind it): all of them wake. Acts that finish or remove jobs call it. */
void sq_ring_events_later(struct sq_tx *tx, emq_str prefix, emq_str queue);

/* This boot, as the number of its row in `boot` (a lock of another boot has ended). */
int64_t sq_boot(const struct sq *s);
void sq_set_boot(struct sq *s, int64_t boot); /* by sq_schema_setup() */
const struct emq__log *sq_log(const struct sq *s);
/* A hint of the take act to itself: the last take of this handle got jobs. */
atomic_bool *sq_take_hot(struct sq *s);
int64_t sq_now_ms(const struct sq *s);  /* wall clock with the tests' advance */
int64_t sq_boot_ms(const struct sq *s); /* CLOCK_BOOTTIME with the tests' advance */

/* The application's connection as one of ours, for emq_add_on(): begin checks that it is inside a
 * transaction and has our file open (E_INVALID); end finalises what was prepared, nothing else. */
emq_status sq_borrow_begin(struct sq *s, sqlite3 *db, struct sq_conn *c, struct sq_tx *tx,
                           emq_error *err);
void sq_borrow_end(struct sq_conn *c);

/* schema.c: looks without changing anything. *ready: the schema is ours and this boot is known, so that
 * nothing needs to be written; sq_set_boot() was called then. E_VERSION: a newer schema. */
emq_status sq_schema_look(struct sq *s, struct sq_conn *c, bool *ready, emq_error *err);
/* Called by open (and after the file was replaced) with a connection outside a transaction: makes ready
 * what is not, in a transaction of its own. Calls sq_set_boot(). */
emq_status sq_schema_setup(struct sq *s, struct sq_conn *c, emq_error *err);
/* The schema's version must still be ours. E_VERSION otherwise. sq_write() calls it once a transaction, so that
 * acts need not; emq__sqlite_add_on() calls it itself. */
emq_status sq_schema_check(struct sq_tx *tx, emq_error *err);

/* For emq_add_on(): the add act on a connection of the application, inside its transaction. */
emq_status emq__sqlite_add_on(struct emq__engine *e, sqlite3 *db, const struct emq__add_req *req,
                              struct emq__add_res *res, struct emq__arena *mem, emq_error *err);

/* The acts, for the ops table: sq_act_add(), ... */
#define SQ_ACT_DECL(act, mutating)                                                 \
    emq_status sq_act_##act(struct emq__engine *, const struct emq__##act##_req *, \
                            struct emq__##act##_res *, struct emq__arena *mem, emq_error *err);
EMQ__ACTS(SQ_ACT_DECL)
#undef SQ_ACT_DECL

#endif
