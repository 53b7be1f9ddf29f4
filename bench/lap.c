/* SPDX-License-Identifier: MIT
 *
 * Laps: processes that begin together, and what they used from then on. The one invariant: only
 * what happens between lap_begin() and lap_end() is measured, in all processes of the lap, their
 * threads included.
 */
#include "bench.h"
#include "counters.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCS_MAX = 64 };

struct shared {
    atomic_int ready; /* processes at lap_begin() */
    int procs;
    struct lap lap[PROCS_MAX];
    atomic_llong n_values;
    int64_t values[VALUES_MAX];
    struct counters counters;
};

static struct shared *shared; /* mapped once, before the first fork */
static bool in_lap; /* this is a forked process: what atexit() was told is not its business */

_Noreturn void die(const char *fmt, ...)
{
    va_list ap;

    (void)fputs("emq-bench: ", stderr);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    (void)fflush(stderr);
    if (in_lap)
        _exit(1);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t now_us(void)
{
    return now_ns() / 1000;
}

static int64_t cpu_us(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

/* Of all threads of another process. */
static int64_t cpu_us_of(pid_t pid)
{
    char path[80];
    long long sum_ns = 0, ns;
    struct dirent *e;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    if (!d)
        die("%s: %s", path, strerror(errno));
    while ((e = readdir(d))) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (f && fscanf(f, "%lld", &ns) == 1)
            sum_ns += ns;
        if (f)
            (void)fclose(f);
    }
    (void)closedir(d);
    return sum_ns / 1000;
}

void lap_begin(struct lap *l)
{
    struct shared *s = l->shared;

    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->ready) < s->procs) {
        struct timespec nap = {.tv_nsec = 50000};
        (void)nanosleep(&nap, NULL);
    }
    if (l->counting)
        counters_start(l->counters);
    if (l->server)
        l->server_us = cpu_us_of(l->server);
    l->cpu_us = cpu_us();
    l->begin_us = now_us();
}

void lap_end(struct lap *l, int64_t jobs, int64_t acts)
{
    l->end_us = now_us();
    l->cpu_us = cpu_us() - l->cpu_us;
    if (l->server)
        l->server_us = cpu_us_of(l->server) - l->server_us;
    if (l->counting)
        counters_stop();
    l->jobs = jobs;
    l->acts = acts;
}

void lap_value(struct lap *l, int64_t value)
{
    long long i = atomic_fetch_add(&l->shared->n_values, 1);

    if (i < VALUES_MAX)
        l->shared->values[i] = value;
}

void lap_pin(int index)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    if (n < 2)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)(index % n), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static pid_t start(lap_fn fn, const struct plan *p, int index)
{
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    in_lap = true;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    if (p->server)
        lap_pin(1);
    fn(p, &shared->lap[index], index);
    _exit(0);
}

/* One that fails takes the others along: they may be waiting for it. */
static void wait_all(pid_t *pid, int n)
{
    for (int left = n; left > 0; left--) {
        int status = 0;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0)
            die("waitpid: %s", strerror(errno));
        if (status == 0)
            continue;
        for (int i = 0; i < n; i++)
            if (pid[i] != ended)
                (void)kill(pid[i], SIGKILL);
        die("a contender failed");
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

struct result lap_run(lap_fn fn, const struct plan *p)
{
    int n = p->procs > 0 ? p->procs : 1;
    pid_t pid[PROCS_MAX];
    struct result r = {0};
    int64_t begin = INT64_MAX, end = 0;

    if (!shared) {
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            die("mmap: %s", strerror(errno));
    }
    memset(shared, 0, sizeof *shared);
    shared->procs = n;
    for (int i = 0; i < n; i++) {
        shared->lap[i].shared = shared;
        shared->lap[i].counters = &shared->counters;
        shared->lap[i].counting = p->count;
        shared->lap[i].server = i == 0 && p->server ? p->server->pid : 0;
        pid[i] = start(fn, p, i);
    }
    wait_all(pid, n);
    for (int i = 0; i < n; i++) {
        const struct lap *l = &shared->lap[i];
        r.jobs += l->jobs;
        r.acts += l->acts;
        r.cpu_us += (double)l->cpu_us;
        r.server_us += (double)l->server_us;
        begin = l->begin_us < begin ? l->begin_us : begin;
        end = l->end_us > end ? l->end_us : end;
    }
    r.wall_us = (double)(end - begin);
    r.batch = r.acts > 0 ? (double)r.jobs / (double)r.acts : 0;
    r.n_values = (int64_t)atomic_load(&shared->n_values);
    if (r.n_values > VALUES_MAX)
        r.n_values = VALUES_MAX;
    r.values = shared->values;
    qsort(r.values, (size_t)r.n_values, sizeof *r.values, compare);
    r.counters = &shared->counters;
    return r;
}

void lap_prepare(lap_fn fn, const struct plan *p)
{
    (void)lap_run(fn, p);
}
