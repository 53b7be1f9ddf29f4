/* SPDX-License-Identifier: MIT
 *
 * BullMQ as a contender: a Node process, warmed up before the lap begins, that says when it began
 * and ended and what CPU time it used meanwhile. What it prepares is not measured.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

bool bullmq_present(char versions[80])
{
    FILE *f = popen("exec node '" EMQ_BENCH_BULLMQ "' 2>/dev/null", "r");

    versions[0] = '\0';
    if (f && fgets(versions, 80, f))
        versions[strcspn(versions, "\n")] = '\0';
    return f && pclose(f) == 0 && versions[0];
}

struct node {
    pid_t pid;
    FILE *to, *from;
};

/* Of all that are in flight together. */
static int64_t jobs_of(const struct plan *p)
{
    return p->jobs * (p->threads > 0 ? p->threads : 1);
}

static void run_node(const struct plan *p, const char *what, const int in[2], const int out[2])
{
    char jobs[24], batch[24], concurrency[24], in_flight[24];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(jobs, sizeof jobs, "%lld", (long long)jobs_of(p));
    (void)snprintf(batch, sizeof batch, "%d", p->batch);
    (void)snprintf(concurrency, sizeof concurrency, "%d", p->concurrency);
    (void)snprintf(in_flight, sizeof in_flight, "%d", p->threads > 0 ? p->threads : 1);
    if (dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
        _exit(126);
    for (int i = 0; i < 2; i++) {
        (void)close(in[i]);
        (void)close(out[i]);
    }
    (void)execlp("node", "node", EMQ_BENCH_BULLMQ, p->server->url, what, jobs, batch, concurrency,
                 in_flight, (char *)NULL);
    _exit(127);
}

static struct node start(const struct plan *p, const char *what)
{
    struct node n;
    int in[2], out[2];

    if (pipe(in) != 0 || pipe(out) != 0)
        die("pipe: %s", strerror(errno));
    n.pid = fork();
    if (n.pid < 0)
        die("fork: %s", strerror(errno));
    if (n.pid == 0)
        run_node(p, what, in, out);
    (void)close(in[0]);
    (void)close(out[1]);
    n.to = fdopen(in[1], "w");
    n.from = fdopen(out[0], "r");
    if (!n.to || !n.from)
        die("no memory");
    return n;
}

static void next_line(struct node *n, char line[200])
{
    if (!fgets(line, 200, n->from))
        die("BullMQ's process ended before its lap did");
}

static void lap(const struct plan *p, struct lap *l, const char *what)
{
    struct node n = start(p, what);
    char line[200];
    long long jobs, begin, end, cpu;

    next_line(&n, line);
    if (strcmp(line, "ready\n") != 0)
        die("BullMQ's process said: %s", line);
    lap_begin(l);
    if (fputs("go\n", n.to) < 0 || fflush(n.to) != 0)
        die("BullMQ's process ended before its lap");
    next_line(&n, line);
    lap_end(l, jobs_of(p), jobs_of(p));
    if (sscanf(line, "{\"jobs\":%lld,\"begin\":%lld,\"end\":%lld,\"cpu\":%lld}", &jobs, &begin,
               &end, &cpu) != 4 ||
        jobs != jobs_of(p))
        die("BullMQ's process said: %s", line);
    l->begin_us = begin; /* by the same clock */
    l->end_us = end;
    l->cpu_us = cpu;
    (void)waitpid(n.pid, NULL, 0);
}

void bullmq_lap_add(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, "add");
}

void bullmq_lap_bulk(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, "bulk");
}

void bullmq_lap_work(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, "work");
}

void bullmq_lap_both(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, "both");
}
