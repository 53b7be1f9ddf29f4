/* SPDX-License-Identifier: MIT
 *
 * One transaction: a list of calls, each in a savepoint of its own, and one COMMIT. Who runs which list, and when, is
 * group.c.
 *
 * The invariant: a caller is told "nothing happened" only when its transaction is known to be rolled
 * back, and success only when COMMIT succeeded on the files that the paths still name. All else is
 * EMQ_E_IN_DOUBT.
 */
#include "engine/sqlite/tx.h"

#include "base/error.h"

#include <time.h>

static const char where_write[] = "write";

/* A list ends when it has run for this long; the rest is the next one. */
enum { BATCH_US = 4000 };
/* How often a transaction is run again because its locks or its file were lost before COMMIT. */
enum { TRIES_MAX = 5 };

void sq_op_init(const struct sq *s, struct sq_op *op, sq_fn fn, void *arg, emq_error *err)
{
    *op = (struct sq_op){.fn = fn,
                         .arg = arg,
                         .err = err,
                         .now_ms = sq_now_ms(s),
                         .boot_ms = sq_boot_ms(s),
                         .until = emq__mono_add_ms(emq__mono_now(), s->io_timeout_ms)};
}

/* Sets the same failure on all of them, or only on those that would otherwise report success. */
static void fail_ops(struct sq_op *list, const emq_error *e, bool only_good)
{
    for (struct sq_op *op = list; op; op = op->next) {
        if (only_good && emq__is_failure(op->status))
            continue;
        op->status = (emq_status)e->status;
        if (op->err)
            *op->err = *e;
    }
}

static bool whole_gone(const struct sq_conn *c)
{
    return sqlite3_get_autocommit(c->db) != 0;
}

static void rollback(struct sq_conn *c)
{
    sq_conn_reset(c);
    if (!whole_gone(c))
        (void)sq_conn_run(c, SQ_SQL_rollback);
}

/* After an fsync of the log failed, frames before ours may be missing on the disk though the kernel
 * has them: nothing behind them is durable. So everything goes to the database file, and the log is
 * begun anew, before the next commit is acknowledged. */
static emq_status heal_log(struct sq *s, struct sq_conn *c, emq_error *err)
{
    struct timespec nap = {.tv_nsec = 2000000};
    int rc;

    /* SQLite calls no busy handler when another checkpoint is running. */
    while ((rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL)) ==
               SQLITE_BUSY &&
           emq__mono_now().us < c->busy_until.us)
        (void)nanosleep(&nap, NULL);
    if (rc != SQLITE_OK)
        return sq_error(c, rc, where_write, err);
    atomic_store(&s->log_suspect, false);
    return EMQ_OK;
}

static emq_status begin(struct sq *s, struct sq_conn *c, int sync, struct sq_tx *tx,
                        struct sq_rings *rings, struct emq__mono until, emq_error *err)
{
    emq_status st = sq_conn_ready(s, c, sync, err);

    if (st != EMQ_OK)
        return st;
    c->was_busy = false;
    c->busy_until = until;
    if (sync == SQ_SYNC_FULL && atomic_load(&s->log_suspect) &&
        (st = heal_log(s, c, err)) != EMQ_OK)
        return st;
    int rc = sq_conn_run(c, SQ_SQL_begin_write);
    if (rc != SQLITE_OK)
        return sq_error(c, rc, where_write, err);
    *tx = (struct sq_tx){.s = s,
                         .conn = c,
                         .write = true,
                         .rings = rings,
                         .boot_ms_late = sq_boot_ms(s),
                         .now_ms = sq_now_ms(s),
                         .boot_ms = sq_boot_ms(s)};
    st = sq_schema_check(tx, err);
    sq_conn_reset(c);
    if (st != EMQ_OK)
        rollback(c);
    return st;
}

/* COMMIT, and what its result means. EMQ_E_BUSY with *again: the locks were lost under us before
 * COMMIT, nothing happened, and a fresh connection can try again. */
static emq_status commit(struct sq *s, struct sq_conn *c, bool *again, emq_error *err)
{
    *again = false;
    if (!sq_write_locked(s)) {
        rollback(c);
        atomic_store(&s->stale, true);
        *again = true;
        return emq__fail(
            err, EMQ_E_BUSY, 0, where_write,
            "this process's locks on the file were lost: something in it opened and closed "
            "the file; nothing was changed");
    }
    int rc = sq_conn_run(c, SQ_SQL_commit);
    if (rc == SQLITE_OK) {
        if (sq_file_same(&s->file))
            return EMQ_OK;
        atomic_store(&s->same_at_us, 0); /* the next transaction opens the set anew */
        return emq__fail(
            err, EMQ_E_IN_DOUBT, 0, where_write,
            "'%s' or its log was replaced or deleted by another program: what was just "
            "committed may be lost",
            s->file.path);
    }

    emq_status st = sq_error(c, rc, where_write, err);
    rollback(c);
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_FULL: /* a frame could not be written, and the frame that commits is the last */
    case SQLITE_READONLY: return st;
    default:
        /* The frames may be in the log; whoever recovers it will find them. */
        if (!sq_in_memory(s)) {
            atomic_store(&s->log_suspect, true);
            sq_conn_close(c); /* in its state of error it would keep its snapshot of the log */
        }
        return emq__fail(err, EMQ_E_IN_DOUBT, rc, where_write,
                         "COMMIT failed (SQLite %d): it may or may not be stored; ask again", rc);
    }
}

static emq_status run_op(struct sq_tx *tx, struct sq_op *op, bool alone)
{
    struct sq_conn *c = tx->conn;

    tx->now_ms = op->now_ms;
    tx->boot_ms = op->boot_ms;
    tx->slice_end_us = emq__sat_add(sq_monotonic_us(), tx->s->slice_us);
    if (!alone) {
        int rc = sq_conn_run(c, SQ_SQL_savepoint);
        if (rc != SQLITE_OK)
            return sq_error(c, rc, where_write, op->err);
    }
    emq_status st = op->fn(tx, op->arg, op->err);
    sq_conn_reset(c);
    if (whole_gone(c)) {
        if (!emq__is_failure(st))
            st = emq__fail(op->err, EMQ_E_STORE, 0, where_write,
                           "the transaction was rolled back by SQLite");
        return st;
    }
    if (alone)
        return st;
    int rc = emq__is_failure(st) ? sq_conn_run(c, SQ_SQL_savepoint_undo) : SQLITE_OK;
    if (rc == SQLITE_OK)
        rc = sq_conn_run(c, SQ_SQL_savepoint_keep);
    if (rc != SQLITE_OK && !emq__is_failure(st))
        st = sq_error(c, rc, where_write, op->err);
    return st;
}

/* How a batch ended. */
enum ran {
    RAN,       /* all statuses are set */
    RAN_AGAIN, /* nothing happened, the locks were lost: on a fresh connection */
    RAN_FULL,  /* nothing happened for lack of space; all statuses are set */
    RAN_APART  /* nothing happened, SQLite undid all for the sake of one: each for itself */
};

/* Those that came later still have time to wait. */
static struct sq_op *cut_patient(struct sq_op *list)
{
    int64_t now_us = emq__mono_now().us;

    for (struct sq_op *op = list; op->next; op = op->next) {
        struct sq_op *next = op->next;
        if (next->until.us > now_us) {
            op->next = NULL;
            return next;
        }
    }
    return NULL;
}

/* Puts ops in front of what was cut off before. */
static void cut_off(struct sq_op *list, struct sq_op **rest)
{
    struct sq_op **end = &list;

    while (*end)
        end = &(*end)->next;
    *end = *rest;
    *rest = list;
}

/* What another program wrote over or deleted while our locks were lost reads as damage, and is none on a fresh
 * connection. */
static bool look_anew(struct sq *s, const struct sq_op *list)
{
    bool damaged = false;

    for (const struct sq_op *op = list; op; op = op->next)
        damaged = damaged || op->status == EMQ_E_CORRUPT;
    if (damaged)
        atomic_store(&s->stale, true);
    return damaged;
}

/* Runs `list` in one transaction. What does not fit its time is cut off into *rest. */
static enum ran run_once(struct sq *s, struct sq_conn *c, int sync, struct sq_op *list,
                         struct sq_rings *rings, struct sq_op **rest)
{
    struct sq_tx tx;
    emq_error e = {0};
    bool good = false, again = false;
    bool alone = !list->next;

    if (begin(s, c, sync, &tx, rings, list->until, &e) != EMQ_OK) {
        if (e.status == EMQ_E_BUSY)
            cut_off(cut_patient(list), rest);
        fail_ops(list, &e, false);
        return look_anew(s, list) ? RAN_AGAIN : RAN;
    }
    int64_t stop_us = sq_monotonic_us() + BATCH_US;
    for (struct sq_op *op = list; op; op = op->next) {
        op->status = run_op(&tx, op, alone);
        good = good || !emq__is_failure(op->status);
        if (whole_gone(c) && !alone)
            return RAN_APART;
        if (whole_gone(c) && look_anew(s, list))
            return RAN_AGAIN;
        if (whole_gone(c))
            return op->status == EMQ_E_FULL ? RAN_FULL : RAN;
        if (op->next && sq_monotonic_us() > stop_us) {
            cut_off(op->next, rest);
            op->next = NULL;
        }
    }
    if (!good) {
        again = look_anew(s, list);
        rollback(c);
        return again ? RAN_AGAIN : alone && list->status == EMQ_E_FULL ? RAN_FULL : RAN;
    }
    atomic_fetch_add(&s->n_commits, 1);
    if (commit(s, c, &again, &e) != EMQ_OK)
        fail_ops(list, &e, true);
    if (e.status == EMQ_E_FULL)
        return RAN_FULL;
    return again ? RAN_AGAIN : RAN;
}

static enum ran run_tries(struct sq *s, struct sq_conn *c, int sync, struct sq_op *list,
                          struct sq_rings *rings, struct sq_op **rest)
{
    enum ran r = RAN_AGAIN;
    bool made_room = false;

    for (int i = 0; r == RAN_AGAIN && i < TRIES_MAX; i++) {
        sq_set_enter(s);
        if (atomic_load(&s->checkpoint.no_room)) /* before the log takes what was freed meanwhile */
            made_room = sq_checkpoint_make_room(s, c);
        r = run_once(s, c, sync, list, rings, rest);
        if (r == RAN_FULL && !made_room) {
            made_room = true;
            r = sq_checkpoint_make_room(s, c) ? RAN_AGAIN : RAN_FULL;
        }
        sq_set_leave(s);
    }
    return r;
}

struct sq_op *sq_ops_run(struct sq *s, struct sq_conn *c, int sync, struct sq_op *list,
                         struct sq_rings *rings)
{
    struct sq_op *rest = NULL;

    *rings = (struct sq_rings){0};
    if (run_tries(s, c, sync, list, rings, &rest) != RAN_APART)
        return rest;
    for (struct sq_op *op = list, *next; op; op = next) {
        next = op->next;
        op->next = NULL;
        (void)run_tries(s, c, sync, op, rings, &rest);
        op->next = next;
    }
    return rest;
}

bool sq_slice_over(const struct sq_tx *tx, int64_t done)
{
    return done >= SQ_SLICE_MIN && sq_monotonic_us() >= tx->slice_end_us;
}
