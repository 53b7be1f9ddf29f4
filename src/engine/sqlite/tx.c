/* SPDX-License-Identifier: MIT
 *
 * Transactions. Calls from many threads share commits: whoever finds no leader leads, runs everything
 * that has queued up, each in a savepoint of its own, commits once, and wakes the batch with one call.
 *
 * The invariant: a caller is told "nothing happened" only when its transaction is known to be rolled
 * back, and success only when COMMIT succeeded on the files that the paths still name. All else is
 * EMQ_E_IN_DOUBT.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"

#include <limits.h>
#include <time.h>

static const char where_write[] = "write";

/* A batch ends when it has this many calls or has run for this long; the rest is the next batch. */
enum { BATCH_MAX = 256, BATCH_US = 4000 };
/* How often a transaction is run again because its locks or its file were lost before COMMIT. */
enum { TRIES_MAX = 5 };

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

static void op_init(const struct sq *s, struct sq_op *op, sq_fn fn, void *arg, emq_error *err)
{
    *op = (struct sq_op){.fn = fn,
                         .arg = arg,
                         .err = err,
                         .now_ms = sq_now_ms(s),
                         .boot_ms = sq_boot_ms(s),
                         .until = emq__mono_add_ms(emq__mono_now(), s->io_timeout_ms)};
}

/* ---- one transaction ------------------------------------------------------------------------ */

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
        return RAN;
    }
    int64_t stop_us = sq_monotonic_us() + BATCH_US;
    for (struct sq_op *op = list; op; op = op->next) {
        op->status = run_op(&tx, op, alone);
        good = good || !emq__is_failure(op->status);
        if (whole_gone(c) && !alone)
            return RAN_APART;
        if (whole_gone(c))
            return op->status == EMQ_E_FULL ? RAN_FULL : RAN;
        if (op->next && sq_monotonic_us() > stop_us) {
            cut_off(op->next, rest);
            op->next = NULL;
        }
    }
    if (!good) {
        rollback(c);
        return alone && list->status == EMQ_E_FULL ? RAN_FULL : RAN;
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

/* Runs a batch to its end. Returns what was cut off from it. */
static struct sq_op *run_list(struct sq *s, struct sq_conn *c, int sync, struct sq_op *list,
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

/* Waiting for the turn leaves a fifth of the time for waiting at SQLite's own lock: a turn can be held
 * by a process that is stopped, or by a forked child of one that died. */
static int64_t turn_until_us(struct emq__mono until)
{
    int64_t left_us = until.us - emq__mono_now().us;

    return sq_monotonic_us() + (left_us > 0 ? left_us / 5 * 4 : 0);
}

static void end_turn(struct sq_turn *t, enum sq_turn_result r, const struct sq_conn *c)
{
    if (r == SQ_TURN_MINE)
        sq_turn_give(t);
    else if (r == SQ_TURN_LATE && !c->was_busy)
        sq_turn_distrust(t);
}

/* ---- the group ------------------------------------------------------------------------------ */

/* Takes what a batch may hold; the rest stays queued for the next one. */
static struct sq_op *take_batch(struct sq_group *g, unsigned *lane)
{
    struct sq_op *list, *last;
    int n = 1;

    pthread_mutex_lock(&g->mu);
    list = last = g->head;
    *lane = g->lane;
    g->lane ^= 1;
    for (; last && last->next && n < BATCH_MAX; n++)
        last = last->next;
    if (last) {
        g->head = last->next;
        last->next = NULL;
    }
    if (!g->head)
        g->tail = &g->head;
    for (struct sq_op *op = g->head; op; op = op->next)
        atomic_store(&op->lane, g->lane);
    pthread_mutex_unlock(&g->mu);
    return list;
}

/* Puts ops back in front of the queue. */
static void put_back(struct sq_group *g, struct sq_op *list)
{
    struct sq_op *last = list;

    if (!list)
        return;
    pthread_mutex_lock(&g->mu);
    for (struct sq_op *op = list; op; op = op->next) {
        atomic_store(&op->lane, g->lane);
        last = op;
    }
    last->next = g->head;
    if (!g->head)
        g->tail = &last->next;
    g->head = list;
    pthread_mutex_unlock(&g->mu);
}

/* Gives every member its result. After `done` a member may be gone. */
static void publish(struct sq_group *g, struct sq_op *list, unsigned lane, bool alone)
{
    for (struct sq_op *op = list, *next; op; op = next) {
        next = op->next;
        atomic_store_explicit(&op->done, true, memory_order_release);
    }
    if (alone)
        return;
    atomic_fetch_add(&g->word[lane], 1);
    sq_futex_wake(&g->word[lane], INT_MAX, false);
}

/* The one that has waited longest decides how long the turn is waited for. */
static struct emq__mono oldest(struct sq_group *g)
{
    pthread_mutex_lock(&g->mu);
    struct emq__mono until = g->head ? g->head->until : emq__mono_now();
    pthread_mutex_unlock(&g->mu);
    return until;
}

static void lead(struct sq *s, const struct sq_op *own)
{
    struct sq_group *g = &s->group;
    struct sq_conn *c = sq_in_memory(s) ? &s->one : &g->conn;
    unsigned lane;

    sq_one_lock(s);
    enum sq_turn_result turn = sq_turn_take(g->turn, turn_until_us(oldest(g)));
    /* Only now: whoever called while this thread waited for the turn is in the batch. */
    struct sq_op *list = take_batch(g, &lane), *rest = NULL;
    if (list)
        rest = run_list(s, c, s->sync, list, &g->rings);
    end_turn(g->turn, turn, c);
    sq_one_unlock(s);
    if (list) {
        sq_bell_ring(s, &g->rings);
        put_back(g, rest);
        publish(g, list, lane, list == own && !list->next && !rest);
    }

    pthread_mutex_lock(&g->mu);
    g->leading = false;
    bool more = g->head != NULL;
    unsigned next = g->lane;
    pthread_mutex_unlock(&g->mu);
    if (more) { /* one of those that wait leads next */
        atomic_fetch_add(&g->word[next], 1);
        sq_futex_wake(&g->word[next], 1, false);
    }
}

static bool try_lead(struct sq_group *g)
{
    pthread_mutex_lock(&g->mu);
    bool mine = !g->leading;
    g->leading = true;
    pthread_mutex_unlock(&g->mu);
    return mine;
}

emq_status sq_write(struct sq *s, sq_fn fn, void *arg, emq_error *err)
{
    struct sq_group *g = &s->group;
    struct sq_op op;
    emq_status st = sq_check_fork(s, err);

    if (st != EMQ_OK)
        return st;
    op_init(s, &op, fn, arg, err);
    pthread_mutex_lock(&g->mu);
    *g->tail = &op;
    g->tail = &op.next;
    atomic_store(&op.lane, g->lane);
    pthread_mutex_unlock(&g->mu);

    for (;;) {
        unsigned lane = atomic_load(&op.lane);
        uint32_t word = atomic_load(&g->word[lane]);

        if (atomic_load_explicit(&op.done, memory_order_acquire))
            return op.status;
        if (lane != atomic_load(&op.lane))
            continue;
        if (try_lead(g))
            lead(s, &op);
        else
            sq_futex_wait(&g->word[lane], word, 0, false);
    }
}

/* ---- apart from the group ------------------------------------------------------------------- */

static emq_status run_apart(struct sq *s, struct sq_apart *a, int sync, sq_fn fn, void *arg,
                            emq_error *err)
{
    struct sq_op op;
    struct sq_rings rings = {0};
    emq_status st = sq_check_fork(s, err);
    struct sq_conn *c = sq_in_memory(s) ? &s->one : &a->conn;

    if (st != EMQ_OK)
        return st;
    op_init(s, &op, fn, arg, err);
    pthread_mutex_lock(&a->mu);
    if (!a->asked) /* of effects: many programs have none */
        st = sq_turn_open(s, false, &a->turn, err);
    a->asked = st == EMQ_OK;
    if (st == EMQ_OK) {
        sq_one_lock(s);
        enum sq_turn_result turn = sq_turn_take(a->turn, turn_until_us(op.until));
        (void)run_list(s, c, sync, &op, &rings);
        end_turn(a->turn, turn, c);
        sq_one_unlock(s);
        st = op.status;
    }
    pthread_mutex_unlock(&a->mu);
    sq_bell_ring(s, &rings);
    return st;
}

emq_status sq_write_renewal(struct sq *s, sq_fn fn, void *arg, emq_error *err)
{
    if (sq_in_memory(s))
        return sq_write(s, fn, arg, err);
    return run_apart(s, &s->renewal, s->sync == SQ_SYNC_OFF ? SQ_SYNC_OFF : SQ_SYNC_NORMAL, fn, arg,
                     err);
}

emq_status sq_write_effect(struct sq *s, sq_fn fn, void *arg, emq_error *err)
{
    return run_apart(s, &s->effect, s->sync, fn, arg, err);
}

bool sq_slice_over(const struct sq_tx *tx, int64_t done)
{
    return done >= SQ_SLICE_MIN && sq_monotonic_us() >= tx->slice_end_us;
}

emq_status sq_group_init(struct sq_group *g, emq_error *err)
{
    int rc = pthread_mutex_init(&g->mu, NULL);

    if (rc != 0)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
    g->tail = &g->head;
    return EMQ_OK;
}

void sq_group_close(struct sq_group *g)
{
    pthread_mutex_destroy(&g->mu);
}
