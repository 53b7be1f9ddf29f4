/* SPDX-License-Identifier: MIT
 *
 * The engine on a server, beside BullMQ on the same one, and beside bare commands. The server has
 * CPU 0, the contender CPU 1.
 */
#include "bench.h"
#include "server.h"

#include <stdio.h>

enum { BULK = 1000 };

static void run(const struct options *o, struct contest *c, const char *what)
{
    struct row r;

    row_init(&r, "redis", "jobs/s", "%s", what);
    if (!row_wanted(o, &r))
        return;
    c->plan.server = server_place(o);
    contest_run(o, c, &r);
    if (c->plan.concurrency > 0)
        (void)snprintf(r.note, sizeof r.note, "%.1f jobs an act", c->our_batch);
    row_print(o, &r);
}

static void add(const struct options *o, const char *what, lap_fn bare, int in_flight, int64_t jobs)
{
    struct contest c = {
        .ours = emq_lap_add,
        .bare = bare,
        .plan = {.threads = in_flight, .jobs = scaled(o, jobs / in_flight, 1), .batch = 1}};

    run(o, &c, what);
}

static void bulk(const struct options *o, int64_t jobs)
{
    struct contest c = {.ours = emq_lap_add_many,
                        .bare = bullmq_lap_bulk,
                        .plan = {.jobs = scaled(o, jobs, BULK), .batch = BULK}};

    run(o, &c, "emq_add_many 1000 / addBulk");
}

static void work(const struct options *o, int concurrency, int prefetch, int64_t jobs)
{
    struct contest c = {
        .fill = emq_lap_fill,
        .fill_plan = {.jobs = scaled(o, jobs, 1)},
        .ours = emq_lap_work,
        .bare = bullmq_lap_work,
        .plan = {.jobs = scaled(o, jobs, 1), .concurrency = concurrency, .prefetch = prefetch}};
    char what[80], extra[40] = "";

    if (prefetch > 0)
        (void)snprintf(extra, sizeof extra, " prefetch %d", prefetch);
    (void)snprintf(what, sizeof what, "worker conc %d%s / BullMQ", concurrency, extra);
    run(o, &c, what);
}

static void both(const struct options *o, const char *what, lap_fn bare, int64_t jobs)
{
    struct contest c = {.ours = emq_lap_both,
                        .bare = bare,
                        .plan = {.jobs = scaled(o, jobs, BULK), .batch = BULK, .concurrency = 100}};

    run(o, &c, what);
}

void cell_redis(const struct options *o)
{
    char bullmq[80], server[80];
    bool present = bullmq_present(bullmq);

    (void)server_place(o);
    server_version(server);
    if (!o->json)
        (void)printf("redis    %s on CPU 0; %s\n", server, present ? bullmq : "without BullMQ");
    if (!present)
        (void)fputs("emq-bench: redis: no rows beside BullMQ: they want node, and in "
                    "tests/interop/node_modules what `scripts/install test` puts there\n",
                    stderr);
    if (present) {
        add(o, "emq_add / BullMQ add", bullmq_lap_add, 1, 5000);
        add(o, "emq_add, 100 in flight / BullMQ", bullmq_lap_add, 100, 20000);
        bulk(o, 40000);
        work(o, 1, 0, 5000);
        work(o, 10, 0, 15000);
        work(o, 100, 0, 20000);
        work(o, 100, 64, 20000);
        both(o, "add_many and work, 100 / BullMQ", bullmq_lap_both, 20000);
    }
    add(o, "emq_add / LPUSH", raw_lap_push, 1, 5000);
    both(o, "add_many and work / LPUSH LMOVE LREM", raw_lap_path, 20000);
}
