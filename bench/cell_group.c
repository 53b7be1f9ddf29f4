/* SPDX-License-Identifier: MIT
 *
 * Group commit: 64 threads that add one job each, again and again, beside one thread. The
 * references are a bare loop of one job a transaction, and of 64.
 */
#include "bench.h"

#include <stdio.h>

enum { THREADS = 64 };

static double rate(struct result r)
{
    return r.wall_us > 0 ? (double)r.jobs * 1e6 / r.wall_us : 0;
}

static void group(const struct options *o, int sync, int64_t one_jobs, int64_t each)
{
    struct contest one = {.ours = emq_lap_add,
                          .bare = bare_lap_add,
                          .plan = {.sync = sync, .jobs = scaled(o, one_jobs, 1), .batch = 1}};
    struct contest many = {.ours = emq_lap_add,
                           .bare = bare_lap_add,
                           .plan = {.sync = sync, .threads = THREADS, .jobs = scaled(o, each, 1)}};
    struct plan bare_plan = {.sync = sync, .jobs = many.plan.jobs * THREADS, .batch = THREADS};
    struct plan ours_plan = many.plan;
    struct row r1, r64, gain;

    row_init(&r1, "group", "jobs/s", "1 thread, %s", sync_name(sync));
    row_init(&r64, "group", "jobs/s", "%d threads (bare: 64 a commit), %s", THREADS,
             sync_name(sync));
    row_init(&gain, "group", "times", "%d threads / 1 thread, %s", THREADS, sync_name(sync));
    for (int i = 0; i < o->rounds; i++) {
        struct result a = contest_lap(o, &one, true), b = contest_lap(o, &one, false), x, y;
        many.plan = ours_plan;
        x = contest_lap(o, &many, true);
        many.plan = bare_plan;
        y = contest_lap(o, &many, false);
        row_rates(&r1, &a, &b);
        row_rates(&r64, &x, &y);
        row_value(&gain, rate(x) / rate(a), rate(y) / rate(b));
    }
    row_print(o, &r1);
    row_print(o, &r64);
    row_print(o, &gain);
}

void cell_group(const struct options *o)
{
    group(o, SYNC_FULL, 500, 50);
    group(o, SYNC_NORMAL, 2000, 100);
}
