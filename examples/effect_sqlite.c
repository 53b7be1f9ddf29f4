/* SPDX-License-Identifier: MIT
 *
 * Strength 1 on SQLite: the effect is in the queue's own file and commits with the acknowledgement.
 *   effect_sqlite FILE QUEUE      works off a queue whose jobs are amounts of money
 * Whenever this process is killed: each job is booked once.
 *
 * cc effect_sqlite.c $(pkg-config --cflags --libs echomq sqlite3)
 */
#include <echomq/effect.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct booking {
    emq_str id;
    long long cents;
};

/* Runs in the engine's transaction, for milliseconds: no network, no computing. */
static int book(sqlite3 *db, void *arg)
{
    const struct booking *b = arg;
    sqlite3_stmt *insert = NULL;
    int rc = sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS bookings(job TEXT, cents INTEGER)", NULL,
                          NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db, "INSERT INTO bookings VALUES (?, ?)", -1, &insert, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(insert, 1, b->id.ptr, (int)b->id.len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(insert, 2, b->cents);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(insert) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
    sqlite3_finalize(insert);
    return rc;
}

static emq_verdict handler(emq_job *job, void *user)
{
    /* All that takes time comes first, without a transaction. */
    struct booking b = {emq_job_id(job), strtoll(emq_job_data(job).ptr, NULL, 10)};
    emq_error err = {0};
    emq_effect_opts opts = {.size = sizeof opts, .result = emq_cstr("{\"booked\":true}")};

    emq_status s = emq_effect_sqlite(user, job, book, &b, &opts, &err);
    if (s == EMQ_OK)
        return EMQ_DONE; /* the job is completed already */
    fprintf(stderr, "job %s: %s\n", b.id.ptr, s < 0 ? err.text : emq_status_text(s));
    return EMQ_RETRY;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_worker *w;
    emq_error err = {0};
    char url[4200];

    if (argc != 3)
        return fprintf(stderr, "usage: effect_sqlite FILE QUEUE\n"), 64;
    snprintf(url, sizeof url, "sqlite:%s", argv[1]);
    if (emq_open(&c, emq_cstr(url), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_worker_queue queue = {.size = sizeof queue, .name = emq_cstr(argv[2])};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = handler,
                            .user = c,
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
    return s != EMQ_OK;
}
