/* SPDX-License-Identifier: MIT
 *
 * Strength 2: the effect is in a database of the application's own, which also holds an inbox of keys.
 *   inbox_sqlite DATABASE QUEUE   works off a queue of the default store, whose jobs are amounts of money
 * The key goes in with the effect, in one transaction; a job that comes again finds it there.
 *
 * cc inbox_sqlite.c $(pkg-config --cflags --libs echomq sqlite3)
 */
#include <echomq/effect.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct app {
    sqlite3 *db;
};

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* 1 = the key is new, 0 = it was there, -1 = failed. */
static int claim(sqlite3 *db, emq_str key)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CLAIM), -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 1, key.ptr, (int)key.len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? sqlite3_changes(db) : -1;
}

static int book(sqlite3 *db, long long cents)
{
    char sql[100];

    snprintf(sql, sizeof sql, "INSERT INTO bookings VALUES (%lld)", cents);
    return run(db, sql);
}

static emq_verdict handler(emq_job *job, void *user)
{
    sqlite3 *db = ((struct app *)user)->db;
    int fresh = -1, rc = run(db, "BEGIN IMMEDIATE");

    if (rc == SQLITE_OK)
        fresh = claim(db, emq_job_idempotency_key(job));
    if (fresh == 1)
        rc = book(db, strtoll(emq_job_data(job).ptr, NULL, 10));
    if (fresh >= 0 && rc == SQLITE_OK && run(db, "COMMIT") == SQLITE_OK)
        return EMQ_DONE;
    fprintf(stderr, "job %s: %s\n", emq_job_id(job).ptr, sqlite3_errmsg(db));
    (void)run(db, "ROLLBACK");
    return EMQ_RETRY;
}

static int open_database(const char *path, sqlite3 **db)
{
    return sqlite3_open(path, db) == SQLITE_OK && sqlite3_busy_timeout(*db, 5000) == SQLITE_OK &&
           run(*db, "CREATE TABLE IF NOT EXISTS bookings(cents INTEGER)") == SQLITE_OK &&
           run(*db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CREATE)) == SQLITE_OK;
}

int main(int argc, char **argv)
{
    struct app app = {NULL};
    emq_client *c;
    emq_worker *w;
    emq_error err = {0};

    if (argc != 3)
        return fprintf(stderr, "usage: inbox_sqlite DATABASE QUEUE\n"), 64;
    if (!open_database(argv[1], &app.db))
        return fprintf(stderr, "%s: %s\n", argv[1], sqlite3_errmsg(app.db)), 69;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_worker_queue queue = {.size = sizeof queue, .name = emq_cstr(argv[2])};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = handler, /* one at a time: one connection will do */
                            .user = &app,
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
    sqlite3_close(app.db);
    return s != EMQ_OK;
}
