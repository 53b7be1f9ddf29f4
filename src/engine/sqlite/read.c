/* SPDX-License-Identifier: MIT
 *
 * Read transactions: a few connections, each call one snapshot. Readers never wait for writers, and
 * never write, so that nothing here is in doubt.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"

#include <errno.h>
#include <time.h>

static const char where_read[] = "read";

emq_status sq_readers_init(struct sq_readers *r, emq_error *err)
{
    pthread_condattr_t attr;
    int rc = pthread_mutex_init(&r->mu, NULL);

    if (rc != 0)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(&r->freed, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (rc != 0) {
        pthread_mutex_destroy(&r->mu);
        return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "condition");
    }
    return EMQ_OK;
}

void sq_readers_close(struct sq_readers *r)
{
    pthread_cond_destroy(&r->freed);
    pthread_mutex_destroy(&r->mu);
}

/* The slot that was used last comes first, so that idle programs have one open. */
static int acquire(struct sq *s, emq_error *err)
{
    struct sq_readers *r = &s->readers;
    int64_t end_us = sq_monotonic_us() + s->io_timeout_ms * 1000;
    struct timespec t = {.tv_sec = end_us / 1000000, .tv_nsec = end_us % 1000000 * 1000};
    int found = -1, rc = 0;

    pthread_mutex_lock(&r->mu);
    while (found < 0 && rc == 0) {
        for (int i = 0; found < 0 && i < SQ_READERS; i++)
            if (!r->slot[i].busy)
                found = i;
        if (found < 0)
            rc = pthread_cond_timedwait(&r->freed, &r->mu, &t);
    }
    if (found >= 0)
        r->slot[found].busy = true;
    pthread_mutex_unlock(&r->mu);
    if (found < 0)
        (void)emq__fail(err, EMQ_E_BUSY, 0, where_read,
                        "no reading connection became free in %lld ms",
                        (long long)s->io_timeout_ms);
    return found;
}

static void release(struct sq_readers *r, int i)
{
    pthread_mutex_lock(&r->mu);
    r->slot[i].busy = false;
    pthread_cond_signal(&r->freed);
    pthread_mutex_unlock(&r->mu);
}

static emq_status run(struct sq *s, struct sq_conn *c, sq_fn fn, void *arg, emq_error *err)
{
    struct sq_tx tx = {.s = s, .conn = c, .now_ms = sq_now_ms(s), .boot_ms = sq_boot_ms(s)};
    emq_status st = sq_conn_ready(s, c, s->sync, err);

    if (st != EMQ_OK)
        return st;
    sq_conn_patience(s, c);
    tx.boot_ms_late = tx.boot_ms;
    int rc = sq_conn_run(c, SQ_SQL_begin_read);
    if (rc != SQLITE_OK)
        return sq_error(c, rc, where_read, err);
    st = fn(&tx, arg, err);
    sq_conn_reset(c);
    if (sqlite3_get_autocommit(c->db) == 0)
        (void)sq_conn_run(c, SQ_SQL_rollback); /* nothing was written; COMMIT would be the same */
    return st;
}

emq_status sq_read(struct sq *s, sq_fn fn, void *arg, emq_error *err)
{
    emq_status st = sq_check_fork(s, err);

    if (st != EMQ_OK)
        return st;
    int i = sq_in_memory(s) ? 0 : acquire(s, err);
    if (i < 0)
        return EMQ_E_BUSY;
    sq_one_lock(s);
    sq_set_enter(s);
    st = run(s, sq_in_memory(s) ? &s->one : &s->readers.slot[i].conn, fn, arg, err);
    sq_set_leave(s);
    sq_one_unlock(s);
    if (!sq_in_memory(s))
        release(&s->readers, i);
    return st;
}
