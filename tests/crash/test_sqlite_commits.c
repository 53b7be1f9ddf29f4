/* SPDX-License-Identifier: MIT
 *
 * How calls of many threads share commits, and that the log stays bounded meanwhile.
 */
#include "ground.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* ---- shared commits ---------------------------------------------------------------------------- */

struct crowd {
    struct sq *s;
    atomic_llong next;
    atomic_int good, refused;
    int each, threads;
};

static void *one_of_the_crowd(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++)
        if (ground_put(c->s, atomic_fetch_add(&c->next, 1), NULL) == EMQ_OK)
            atomic_fetch_add(&c->good, 1);
    return NULL;
}

static int runs_of(const struct sq_conn *c, enum sq_sql id)
{
    return c->stmt[id] ? sqlite3_stmt_status(c->stmt[id], SQLITE_STMTSTATUS_RUN, 0) : 0;
}

EMQ_TEST(transactions_are_begun_and_ended_by_the_same_prepared_statements)
{
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    const struct sq_conn *c = &s->group.conn;
    int begun = runs_of(c, SQ_SQL_begin_write), ended = runs_of(c, SQ_SQL_commit);

    for (int i = 0; i < 10; i++)
        CHECK_STATUS(ground_put(s, i, NULL), EMQ_OK);
    CHECK_INT(runs_of(c, SQ_SQL_begin_write), begun + 10);
    CHECK_INT(runs_of(c, SQ_SQL_commit), ended + 10);
    ground_close(s);
}

/* Keeps the write transaction open until every thread is about to write. */
static emq_status gate(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct crowd *c = arg;

    (void)tx;
    (void)err;
    while (atomic_load(&c->next) < c->threads)
        (void)usleep(1000);
    return EMQ_OK;
}

static void *guard_of_the_gate(void *arg)
{
    struct crowd *c = arg;

    CHECK_STATUS(sq_write(c->s, gate, c, NULL), EMQ_OK);
    return NULL;
}

EMQ_TEST(sixty_four_threads_share_commits)
{
    enum { THREADS = 64, EACH = 10 };
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct crowd c = {.s = s, .each = EACH, .threads = THREADS};
    pthread_t t[THREADS], g;
    int64_t before = atomic_load(&s->n_commits);

    CHECK_INT(pthread_create(&g, NULL, guard_of_the_gate, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    CHECK_INT(pthread_join(g, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH);
    CHECK_INT(ground_count(s), THREADS * EACH);
    int64_t commits = atomic_load(&s->n_commits) - before;
    if (commits > THREADS * EACH / 2)
        fail_msg("%lld commits for %d acts", (long long)commits, THREADS * EACH);
    ground_close(s);
}

static void *duplicate_of_the_crowd(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++) {
        int64_t n = atomic_fetch_add(&c->next, 1);
        emq_status st = ground_put(c->s, n / 2, NULL); /* each number twice */
        if (st == EMQ_OK)
            atomic_fetch_add(&c->good, 1);
        else if (st == EMQ_E_STORE)
            atomic_fetch_add(&c->refused, 1);
    }
    return NULL;
}

EMQ_TEST(failure_of_one_call_in_a_shared_commit_touches_no_other)
{
    enum { THREADS = 16, EACH = 20 };
    struct sq *s = ground_open(ground_path("q.db"), "normal", 0);
    struct crowd c = {.s = s, .each = EACH};
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, duplicate_of_the_crowd, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH / 2);
    CHECK_INT(atomic_load(&c.refused), THREADS * EACH / 2);
    CHECK_INT(ground_count(s), THREADS * EACH / 2);
    ground_close(s);
}

static emq_status undo_everything(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    /* What SQLite does by itself when the disk is full. */
    (void)sqlite3_exec(tx->conn->db, "ROLLBACK", NULL, NULL, NULL);
    if (err)
        err->status = EMQ_E_FULL;
    return EMQ_E_FULL;
}

static void *undoer(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++)
        if (sq_write(c->s, undo_everything, NULL, NULL) == EMQ_E_FULL)
            atomic_fetch_add(&c->refused, 1);
    return NULL;
}

EMQ_TEST(transaction_undone_for_one_call_is_done_again_for_the_others)
{
    enum { THREADS = 12, EACH = 10 };
    struct sq *s = ground_open(ground_path("q.db"), "normal", 0);
    struct crowd c = {.s = s, .each = EACH};
    pthread_t t[THREADS], u;

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    CHECK_INT(pthread_create(&u, NULL, undoer, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(pthread_join(u, NULL), 0);
    CHECK_INT(atomic_load(&c.refused), EACH);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH);
    CHECK_INT(ground_count(s), THREADS * EACH);
    ground_close(s);
}

static emq_status renew(struct sq_tx *tx, void *arg, emq_error *err)
{
    int rc =
        sqlite3_exec(tx->conn->db, "UPDATE t SET pad = 'renewed' WHERE n = 1", NULL, NULL, NULL);

    atomic_fetch_add((atomic_int *)arg, 1);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "renew", err);
}

EMQ_TEST(renewals_get_through_a_crowd_of_writers)
{
    enum { THREADS = 16, RENEWALS = 50 };
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct crowd c = {.s = s, .each = 20};
    pthread_t t[THREADS];
    atomic_int runs = 0;
    emq_error err = {0};

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    for (int i = 0; i < RENEWALS; i++)
        CHECK_STATUS_ERR(sq_write_renewal(s, renew, &runs, &err), EMQ_OK, &err);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&runs), RENEWALS);
    CHECK_INT(atomic_load(&c.good), THREADS * 20);
    ground_close(s);
}

/* ---- log ---------------------------------------------------------------------------------------- */

struct overlap {
    struct sq *s;
    atomic_bool stop;
};

static emq_status dwell(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct timespec nap = {.tv_nsec = 2000000};

    (void)arg;
    int rc =
        sqlite3_exec(tx->conn->db, "SELECT count(*) FROM generate_series_of_100", NULL, NULL, NULL);
    (void)nanosleep(&nap, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "dwell", err);
}

static void *reader(void *arg)
{
    struct overlap *o = arg;

    while (!atomic_load(&o->stop))
        CHECK_STATUS(sq_read(o->s, dwell, NULL, NULL), EMQ_OK);
    return NULL;
}

static emq_status put_much(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc = sqlite3_exec(tx->conn->db,
                          "INSERT INTO t SELECT NULL, printf('%.3000c', 'y') FROM "
                          "generate_series_of_100",
                          NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put_much", err);
}

static emq_status make_series(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc = sqlite3_exec(
        tx->conn->db,
        "CREATE TABLE generate_series_of_100 AS WITH RECURSIVE c(x) AS (SELECT 1 UNION "
        "ALL SELECT x+1 FROM c WHERE x < 100) SELECT x FROM c",
        NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "series", err);
}

EMQ_TEST(log_is_bounded_while_readers_overlap)
{
    enum { READERS = 3, ACTS = 300, PAGE = 4096 };
    struct sq *s = ground_open(ground_path("q.db"), "full", 0);
    struct overlap o = {.s = s};
    pthread_t t[READERS];
    int64_t most = 0;
    emq_error err = {0};

    CHECK_STATUS_ERR(sq_write(s, make_series, NULL, &err), EMQ_OK, &err);
    for (int i = 0; i < READERS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, reader, &o), 0);
    for (int i = 0; i < ACTS; i++) { /* about 30,000 pages in all */
        CHECK_STATUS_ERR(sq_write(s, put_much, NULL, &err), EMQ_OK, &err);
        int64_t bytes = sq_file_wal_bytes(&s->file);
        most = bytes > most ? bytes : most;
    }
    atomic_store(&o.stop, true);
    for (int i = 0; i < READERS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    if (most > (int64_t)15000 * PAGE)
        fail_msg("the log grew to %lld pages", (long long)(most / PAGE));
    ground_close(s);
}
