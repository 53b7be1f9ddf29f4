/* SPDX-License-Identifier: MIT
 *
 * From the call of emq_add() in one process to the handler in another, one job every 5 ms, each
 * process on a CPU of its own. The reference does the same two transactions and a byte in a pipe.
 */
#include "bare.h"
#include "bench.h"
#include "store.h"

#include <echomq/worker.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GAP_NS = 5000000 };

static void nap(void)
{
    struct timespec t = {.tv_nsec = GAP_NS};

    (void)nanosleep(&t, NULL);
}

static emq_verdict stamp(emq_job *job, void *user)
{
    int64_t now = now_ns();
    char buf[32];

    (void)snprintf(buf, sizeof buf, "%.*s", (int)emq_job_data(job).len, emq_job_data(job).ptr);
    lap_value(user, now - strtoll(buf, NULL, 10));
    return EMQ_DONE;
}

static void consume(const struct plan *p, struct lap *l)
{
    emq_client *c = emq_open_plan(p);
    const emq_worker_queue queue = {.size = sizeof queue, .name = QUEUE};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = stamp,
                            .user = l,
                            .max_jobs = p->jobs};
    emq_worker *w = NULL;
    emq_error err = {0};

    emq_must(emq_worker_start(&w, c, &opts, &err), &err);
    lap_begin(l);
    emq_must(emq_worker_join(w, -1, &err), &err);
    lap_end(l, p->jobs, 0);
    emq_worker_free(w);
    emq_close(c);
}

static void ours(const struct plan *p, struct lap *l, int index)
{
    emq_client *c;
    emq_error err = {0};
    char data[32];

    lap_pin(index);
    if (index == 0) {
        consume(p, l);
        return;
    }
    c = emq_open_plan(p);
    lap_begin(l);
    for (int64_t i = 0; i < p->jobs; i++) {
        nap();
        (void)snprintf(data, sizeof data, "%lld", (long long)now_ns());
        emq_must(emq_add(c, QUEUE, emq_cstr(data), NULL, NULL, &err), &err);
    }
    lap_end(l, 0, 0);
    emq_close(c);
}

static void bare(const struct plan *p, struct lap *l, int index)
{
    struct bare *b = malloc(sizeof *b);
    char data[32], byte = 0;
    const char *list[] = {data};

    if (!b)
        die("no memory");
    lap_pin(index);
    bare_open(b, p, index);
    lap_begin(l);
    for (int64_t i = 0; i < p->jobs; i++) {
        if (index == 0) {
            if (read(p->pipe[0], &byte, 1) != 1 || bare_turn(b, 1) != 1)
                die("bare: no job");
            lap_value(l, now_ns() - b->hand[0].number);
            (void)bare_turn(b, 0);
        } else {
            nap();
            (void)snprintf(data, sizeof data, "%lld", (long long)now_ns());
            bare_add(b, list, 1);
            if (write(p->pipe[1], &byte, 1) != 1)
                die("pipe: %s", strerror(errno));
        }
    }
    lap_end(l, index == 0 ? p->jobs : 0, 0);
    bare_close(b);
}

static double at(const struct result *r, double share)
{
    if (r->n_values == 0)
        die("no samples");
    return (double)r->values[(int64_t)(share * (double)(r->n_values - 1))] / 1000;
}

static void latency(const struct options *o, int sync, int64_t samples)
{
    static const double shares[] = {0.5, 0.9, 0.99};
    enum { SHARES = 3 };
    struct contest c = {.ours = ours,
                        .bare = bare,
                        .plan = {.sync = sync, .procs = 2, .jobs = scaled(o, samples, 1)}};
    struct row r[SHARES];

    if (pipe(c.plan.pipe) != 0)
        die("pipe: %s", strerror(errno));
    for (int k = 0; k < SHARES; k++) {
        row_init(&r[k], "latency", "us", "add to handler p%.0f, %s", shares[k] * 100,
                 sync_name(sync));
        r[k].lower_is_better = true;
    }
    for (int i = 0; i < o->rounds; i++) {
        double mine[SHARES];
        struct result x = contest_lap(o, &c, true);
        for (int k = 0; k < SHARES; k++)
            mine[k] = at(&x, shares[k]);
        x = contest_lap(o, &c, false);
        for (int k = 0; k < SHARES; k++)
            row_value(&r[k], mine[k], at(&x, shares[k]));
    }
    for (int k = 0; k < SHARES; k++)
        row_print(o, &r[k]);
    (void)close(c.plan.pipe[0]);
    (void)close(c.plan.pipe[1]);
}

void cell_latency(const struct options *o)
{
    latency(o, SYNC_FULL, 150);
    latency(o, SYNC_NORMAL, 150);
}
