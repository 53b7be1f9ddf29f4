/* SPDX-License-Identifier: MIT
 *
 * Adding: one job a call, and 1,000 a call.
 */
#include "bench.h"

#include <stdio.h>

static void one_by_one(const struct options *o, int sync, int64_t jobs)
{
    struct contest c = {.ours = emq_lap_add,
                        .bare = bare_lap_add,
                        .plan = {.sync = sync, .jobs = scaled(o, jobs, 1), .batch = 1}};
    struct row r;

    row_init(&r, "add", "jobs/s", "emq_add, %s", sync_name(sync));
    if (!row_wanted(o, &r))
        return;
    contest_run(o, &c, &r);
    row_print(o, &r);
}

static void bulk(const struct options *o, int sync, int batch, int64_t jobs)
{
    struct contest c = {.ours = emq_lap_add_many,
                        .bare = bare_lap_add,
                        .plan = {.sync = sync, .jobs = scaled(o, jobs, batch), .batch = batch}};
    struct row r;

    row_init(&r, "add", "jobs/s", "emq_add_many %d, %s", batch, sync_name(sync));
    if (!row_wanted(o, &r))
        return;
    contest_run(o, &c, &r);
    row_print(o, &r);
}

void cell_add(const struct options *o)
{
    one_by_one(o, SYNC_FULL, 1000);
    one_by_one(o, SYNC_NORMAL, 3000);
    bulk(o, SYNC_FULL, 1000, 20000);
    bulk(o, SYNC_NORMAL, 1000, 20000);
    bulk(o, SYNC_NORMAL, 100, 20000);
}
