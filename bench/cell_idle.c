/* SPDX-License-Identifier: MIT
 *
 * What ten workers use while there is nothing to do: in ten processes, and in one. The reference
 * reads the queue's row once a second, ten times.
 */
#include "bare.h"
#include "bench.h"
#include "store.h"

#include <echomq/worker.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS = 10 };

static void wait_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

static emq_verdict nothing(emq_job *job, void *user)
{
    (void)job;
    (void)user;
    return EMQ_DONE;
}

static void ours(const struct plan *p, struct lap *l, int index)
{
    emq_client *c = emq_open_plan(p);
    const emq_worker_queue queue = {.size = sizeof queue, .name = QUEUE};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {
        .size = sizeof opts, .queues = queues, .n_queues = 1, .handler = nothing};
    emq_worker *w[WORKERS] = {NULL};
    int n = p->threads > 0 ? p->threads : 1;
    emq_error err = {0};

    (void)index;
    for (int i = 0; i < n; i++)
        emq_must(emq_worker_start(&w[i], c, &opts, &err), &err);
    wait_ms(500);
    lap_begin(l);
    wait_ms(p->seconds * 1000);
    lap_end(l, 0, 0);
    for (int i = 0; i < n; i++)
        emq_worker_free(w[i]);
    emq_close(c);
}

static void bare(const struct plan *p, struct lap *l, int index)
{
    struct bare *b = malloc(sizeof *b);
    int n = p->threads > 0 ? p->threads : 1;

    if (!b)
        die("no memory");
    bare_open(b, p, index);
    lap_begin(l);
    for (int s = 0; s < p->seconds; s++) {
        wait_ms(1000);
        for (int i = 0; i < n; i++)
            bare_look(b);
    }
    lap_end(l, 0, 0);
    bare_close(b);
}

static void idle(const struct options *o, int procs, int seconds)
{
    struct contest c = {
        .fill = emq_lap_fill,
        .fill_plan = {.jobs = 1, .delay_ms = 3600000},
        .ours = ours,
        .bare = bare,
        .plan = {
            .sync = SYNC_FULL, .procs = procs, .threads = WORKERS / procs, .seconds = seconds}};
    struct row r;

    row_init(&r, "idle", "ms/s", "%d workers, %d process%s: CPU", WORKERS, procs,
             procs > 1 ? "es" : "");
    r.lower_is_better = true;
    for (int i = 0; i < (o->full ? 3 : 1); i++) {
        struct result x = contest_lap(o, &c, true), y = contest_lap(o, &c, false);
        row_value(&r, x.cpu_us / 1000 / seconds, y.cpu_us / 1000 / seconds);
    }
    row_print(o, &r);
}

void cell_idle(const struct options *o)
{
    idle(o, WORKERS, o->full ? 5 : 3);
    idle(o, 1, o->full ? 5 : 3);
}
