/* SPDX-License-Identifier: MIT
 *
 * Does a job cost more when many others are there? CPU time a job, for adding and for take and ack,
 * with 1,000 up to 1,000,000 jobs waiting, delayed, or kept completed in the same queue. Both
 * contenders work on the same file; what a lap adds, the next takes, so the backlog stays.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum kind { WAITING, DELAYED, COMPLETED };
static const char *const kind_name[] = {"waiting", "delayed", "completed"};

enum { CONCURRENCY = 16, DELAY_MS = 24 * 60 * 60 * 1000 };

/* Brings the backlog from `have` to `want`. */
static void fill(const char *path, enum kind kind, int64_t have, int64_t want)
{
    struct plan p = {.jobs = want - have,
                     .keep_all = true,
                     .concurrency = CONCURRENCY,
                     .prefetch = 64,
                     .sync = SYNC_OFF,
                     .delay_ms = kind == DELAYED ? DELAY_MS : 0};

    (void)snprintf(p.path, sizeof p.path, "%s", path);
    if (p.jobs <= 0)
        return;
    lap_prepare(emq_lap_fill, &p);
    if (kind == COMPLETED)
        lap_prepare(emq_lap_work, &p);
}

struct lines {
    struct row add, bulk, take;
};

static void rounds(const struct options *o, const char *path, int64_t jobs, struct lines *x)
{
    struct plan one = {.sync = SYNC_NORMAL,
                       .jobs = jobs,
                       .batch = 1,
                       .keep_all = true,
                       .concurrency = CONCURRENCY};
    struct plan bulk = one;
    double batch = 1;

    (void)snprintf(one.path, sizeof one.path, "%s", path);
    bulk = one;
    bulk.batch = 100;
    for (int i = 0; i < o->rounds; i++) {
        struct result a, b;
        struct plan take = one;
        a = lap_run(emq_lap_add, &one);
        b = lap_run(bare_lap_add, &one);
        row_rates(&x->add, &a, &b);
        a = lap_run(emq_lap_add_many, &bulk);
        b = lap_run(bare_lap_add, &bulk);
        row_rates(&x->bulk, &a, &b);
        take.jobs = jobs * 2;
        a = lap_run(emq_lap_work, &take);
        batch = a.batch;
        take.batch = batch < 1 ? 1 : (int)(batch + 0.5);
        b = lap_run(bare_lap_work, &take);
        row_rates(&x->take, &a, &b);
    }
    (void)snprintf(x->take.note, sizeof x->take.note, "%.1f jobs an act", batch);
}

static void growth(const struct options *o, enum kind kind)
{
    char path[PATH_LEN];
    int64_t have = 0, jobs = scaled(o, 1000, 1);

    path_fresh(o, path);
    for (int64_t n = 1000; n <= o->max_backlog; n *= 10) {
        struct lines x;
        fill(path, kind, have, n);
        have = n;
        row_init(&x.add, "growth", "jobs/s", "emq_add, %lld %s", (long long)n, kind_name[kind]);
        row_init(&x.bulk, "growth", "jobs/s", "emq_add_many 100, %lld %s", (long long)n,
                 kind_name[kind]);
        row_init(&x.take, "growth", "jobs/s", "worker conc 16, %lld %s", (long long)n,
                 kind_name[kind]);
        rounds(o, path, jobs, &x);
        if (kind == COMPLETED) /* all that was taken is kept */
            have += jobs * 4 * o->rounds;
        row_print(o, &x.add);
        row_print(o, &x.bulk);
        row_print(o, &x.take);
    }
    path_remove(path);
}

void cell_growth(const struct options *o)
{
    growth(o, WAITING);
    growth(o, DELAYED);
    growth(o, COMPLETED);
}
