/* SPDX-License-Identifier: MIT
 *
 * Take and ack of jobs whose handler does nothing: by hand, and by the worker runtime. The
 * reference settles and takes as many jobs a transaction as the worker came to on average.
 */
#include "bench.h"

#include <stdio.h>

static void worker(const struct options *o, int sync, int procs, int concurrency, int prefetch,
                   int64_t jobs)
{
    int64_t each = scaled(o, jobs / procs, 1);
    struct contest c = {.fill = emq_lap_fill,
                        .fill_plan = {.jobs = each * procs},
                        .ours = emq_lap_work,
                        .bare = bare_lap_work,
                        .match_batch = true,
                        .plan = {.sync = sync,
                                 .procs = procs,
                                 .jobs = each,
                                 .batch = 1,
                                 .concurrency = concurrency,
                                 .prefetch = prefetch}};
    struct row r;
    char extra[40] = "";

    if (prefetch > 0)
        (void)snprintf(extra, sizeof extra, " prefetch %d", prefetch);
    row_init(&r, "take", "jobs/s", "%sconc %d%s, %s", procs > 1 ? "2 procs x " : "worker ",
             concurrency, extra, sync_name(sync));
    if (!row_wanted(o, &r))
        return;
    contest_run(o, &c, &r);
    (void)snprintf(r.note, sizeof r.note, "%.1f jobs an act", c.our_batch);
    row_print(o, &r);
}

static void by_hand(const struct options *o, int sync, int64_t jobs)
{
    struct contest c = {.fill = emq_lap_fill,
                        .fill_plan = {.jobs = scaled(o, jobs, 1)},
                        .ours = emq_lap_by_hand,
                        .bare = bare_lap_by_hand,
                        .plan = {.sync = sync, .jobs = scaled(o, jobs, 1), .batch = 1}};
    struct row r;

    row_init(&r, "take", "jobs/s", "emq_take, emq_settle, %s", sync_name(sync));
    if (!row_wanted(o, &r))
        return;
    contest_run(o, &c, &r);
    row_print(o, &r);
}

void cell_take(const struct options *o)
{
    by_hand(o, SYNC_FULL, 500);
    by_hand(o, SYNC_NORMAL, 1500);
    for (int sync = SYNC_FULL; sync >= SYNC_NORMAL; sync--) {
        int64_t k = sync == SYNC_FULL ? 1 : 2;
        worker(o, sync, 1, 1, 0, 800 * k);
        worker(o, sync, 1, 4, 0, 2000 * k);
        worker(o, sync, 1, 16, 0, 4000 * k);
        worker(o, sync, 1, 16, 64, 8000 * k);
        worker(o, sync, 2, 1, 0, 800 * k);
        worker(o, sync, 2, 16, 0, 4000 * k);
    }
}
