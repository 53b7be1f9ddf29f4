/* SPDX-License-Identifier: MIT
 *
 * Who writes. Calls from many threads share commits: whoever finds no leader leads, runs everything that has queued
 * up in one transaction (tx.c), and wakes the batch with one call. Renewals and effects have transactions of their
 * own, beside the group. Each transaction waits for its turn among the processes (turn.c).
 */
#include "engine/sqlite/tx.h"

#include "base/error.h"

#include <limits.h>

/* The most calls of a batch; the rest is the next batch. */
enum { BATCH_MAX = 256 };

/* ---- turns ---------------------------------------------------------------------------------- */

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
        rest = sq_ops_run(s, c, s->sync, list, &g->rings);
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
    sq_op_init(s, &op, fn, arg, err);
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
    sq_op_init(s, &op, fn, arg, err);
    pthread_mutex_lock(&a->mu);
    if (!a->asked) /* of effects: many programs have none */
        st = sq_turn_open(s, false, &a->turn, err);
    a->asked = st == EMQ_OK;
    if (st == EMQ_OK) {
        sq_one_lock(s);
        enum sq_turn_result turn = sq_turn_take(a->turn, turn_until_us(op.until));
        (void)sq_ops_run(s, c, sync, &op, &rings);
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
