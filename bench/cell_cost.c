/* SPDX-License-Identifier: MIT
 *
 * What one job costs in the store: acts, transactions, statements, syncs and bytes, counted, not
 * timed, for the engine and for the bare loop. With --verbose the statements by name: the two lists
 * show what the bare loop leaves out.
 */
#include "bench.h"
#include "counters.h"

#include <stdio.h>
#include <string.h>

struct seen {
    struct counters c;
    double jobs, batch;
};

static struct seen look(const struct options *o, struct contest *c, bool ours)
{
    struct result r = contest_lap(o, c, ours);
    struct seen s = {.c = *r.counters, .jobs = (double)r.jobs, .batch = r.batch};

    return s;
}

static void line(const struct options *o, const char *what, const char *unit, double ours,
                 double bare, const char *note)
{
    struct row r;

    row_init(&r, "cost", unit, "%s", what);
    r.lower_is_better = true;
    row_value(&r, ours, bare);
    (void)snprintf(r.note, sizeof r.note, "%s", note);
    row_print(o, &r);
}

static void list(const char *who, const struct seen *s)
{
    (void)printf("    %s, a job:", who);
    for (int i = 0; i < s->c.n_texts; i++)
        (void)printf(" %s %.3f", s->c.texts[i].text, (double)s->c.texts[i].n / s->jobs);
    (void)putchar('\n');
}

static void cost(const struct options *o, const char *what, struct contest *c)
{
    struct seen a, b;
    char text[80], acts[120] = "";
    int at = 0;

    if (o->match && !strstr(what, o->match))
        return;
    c->plan.count = true;
    a = look(o, c, true);
    b = look(o, c, false);
    for (int i = 0; i < a.c.n_acts && at < (int)sizeof acts; i++)
        at +=
            snprintf(acts + at, sizeof acts - (size_t)at, "%s%s %.3f",
                     at ? ", " : "acts a job: ", a.c.acts[i].name, (double)a.c.acts[i].n / a.jobs);
#define COST_LINE(field, unit, note)               \
    (void)snprintf(text, sizeof text, "%s", what); \
    line(o, text, unit, (double)a.c.field / a.jobs, (double)b.c.field / b.jobs, note)
    COST_LINE(commits, "commits", acts);
    COST_LINE(statements, "stmts", "");
    COST_LINE(syncs, "syncs", "");
    COST_LINE(syncs_db, "db sync", "of which: of the database file, by checkpoints");
    COST_LINE(written, "bytes", "");
#undef COST_LINE
    if (o->verbose && !o->json) {
        list("emq", &a);
        list("bare", &b);
    }
}

static void cost_take(const struct options *o, const char *what, int concurrency, int prefetch,
                      int64_t jobs)
{
    struct contest c = {.fill = emq_lap_fill,
                        .fill_plan = {.jobs = scaled(o, jobs, 1)},
                        .ours = emq_lap_work,
                        .bare = bare_lap_work,
                        .match_batch = true,
                        .plan = {.sync = SYNC_FULL,
                                 .jobs = scaled(o, jobs, 1),
                                 .batch = 1,
                                 .concurrency = concurrency,
                                 .prefetch = prefetch}};

    cost(o, what, &c);
}

void cell_cost(const struct options *o)
{
    struct contest add = {.ours = emq_lap_add,
                          .bare = bare_lap_add,
                          .plan = {.sync = SYNC_FULL, .jobs = scaled(o, 1000, 1), .batch = 1}};
    struct contest many = {
        .ours = emq_lap_add_many,
        .bare = bare_lap_add,
        .plan = {.sync = SYNC_FULL, .jobs = scaled(o, 10000, 1000), .batch = 1000}};
    struct contest hand = {.fill = emq_lap_fill,
                           .fill_plan = {.jobs = scaled(o, 1000, 1)},
                           .ours = emq_lap_by_hand,
                           .bare = bare_lap_by_hand,
                           .plan = {.sync = SYNC_FULL, .jobs = scaled(o, 1000, 1), .batch = 1}};

    cost(o, "emq_add", &add);
    cost(o, "emq_add_many 1000", &many);
    cost(o, "emq_take, emq_settle", &hand);
    cost_take(o, "worker conc 1", 1, 0, 1500);
    cost_take(o, "worker conc 16", 16, 0, 5000);
    cost_take(o, "worker conc 16 prefetch 64", 16, 64, 10000);
}
