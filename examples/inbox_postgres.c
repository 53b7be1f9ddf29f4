/* SPDX-License-Identifier: MIT
 *
 * Strength 2 on PostgreSQL: the effect is in a database of the application's own, which also holds an inbox of
 * keys.
 *   inbox_postgres CONNINFO QUEUE   works off a queue of the default store, whose jobs are amounts of money
 * The key goes in with the effect, in one transaction; a job that comes again finds it there.
 *
 * cc inbox_postgres.c $(pkg-config --cflags --libs echomq libpq)
 */
#include <echomq/effect.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows that a statement with at most one parameter has changed; -1 = failed. */
static int run(PGconn *db, const char *sql, const char *parameter)
{
    PGresult *r = PQexecParams(db, sql, parameter ? 1 : 0, NULL, &parameter, NULL, NULL, 0);
    int rows = PQresultStatus(r) == PGRES_COMMAND_OK ? (int)strtol(PQcmdTuples(r), NULL, 10) : -1;

    PQclear(r);
    return rows;
}

static emq_verdict handler(emq_job *job, void *user)
{
    PGconn *db = user;
    int fresh = -1, rc = run(db, "BEGIN", NULL);

    if (rc >= 0) /* the key is text that ends with a NUL */
        fresh = run(db, emq_inbox_sql(EMQ_SQL_POSTGRESQL, EMQ_INBOX_CLAIM),
                    emq_job_idempotency_key(job).ptr);
    if (fresh == 1)
        rc = run(db, "INSERT INTO bookings VALUES ($1)", emq_job_data(job).ptr);
    if (fresh >= 0 && rc >= 0 && run(db, "COMMIT", NULL) >= 0)
        return EMQ_DONE;
    fprintf(stderr, "job %s: %s", emq_job_id(job).ptr, PQerrorMessage(db));
    (void)run(db, "ROLLBACK", NULL);
    return EMQ_RETRY;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_worker *w;
    emq_error err = {0};

    if (argc != 3)
        return fprintf(stderr, "usage: inbox_postgres CONNINFO QUEUE\n"), 64;
    PGconn *db = PQconnectdb(argv[1]);
    if (PQstatus(db) != CONNECTION_OK ||
        run(db, "CREATE TABLE IF NOT EXISTS bookings(cents bigint)", NULL) < 0 ||
        run(db, emq_inbox_sql(EMQ_SQL_POSTGRESQL, EMQ_INBOX_CREATE), NULL) < 0)
        return fprintf(stderr, "%s", PQerrorMessage(db)), 69;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_worker_queue queue = {.size = sizeof queue, .name = emq_cstr(argv[2])};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = handler, /* one at a time: one connection will do */
                            .user = db,
                            .lock_ms = 1000,
                            .stalled_interval_ms = 200,
                            .exit_when_empty = 1};
    emq_status s = emq_worker_start(&w, c, &opts, &err);
    if (s == EMQ_OK) {
        s = emq_worker_join(w, -1, &err);
        emq_worker_free(w);
    }
    if (s != EMQ_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    emq_close(c);
    PQfinish(db);
    return s != EMQ_OK;
}
