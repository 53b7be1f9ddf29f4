/* SPDX-License-Identifier: MIT
 *
 * emq-bench: EchoMQ's embedded engine beside a bare SQLite loop of the same statements, and its
 * Redis engine beside BullMQ and bare commands. The one invariant: it works in a folder of its own
 * and removes it, whatever happens to it.
 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const struct options *);
    const char *what;
    bool asked; /* runs when it is named, or with --full */
} cells[] = {
    {"add", cell_add, "adding one by one and 1,000 at a time", false},
    {"take", cell_take, "take and ack: by hand, worker concurrency 1, 4, 16, two processes", false},
    {"group", cell_group, "64 threads beside one: shared commits", false},
    {"latency", cell_latency, "from emq_add() in one process to the handler in another", false},
    {"idle", cell_idle, "CPU of ten waiting workers", false},
    {"cost", cell_cost, "acts, statements, syncs and bytes a job", false},
    {"growth", cell_growth, "CPU a job with many jobs in the queue", false},
    {"redis", cell_redis, "a server: beside BullMQ on Node, and beside bare LPUSH, LMOVE, LREM",
     true},
};

enum { CELLS = sizeof cells / sizeof cells[0] };

static char dir_to_remove[PATH_LEN];
static pid_t owner, server;

const char *sync_name(int sync)
{
    static const char *const names[] = {
        [SYNC_OFF] = "off", [SYNC_NORMAL] = "normal", [SYNC_FULL] = "full"};
    return names[sync];
}

int64_t scaled(const struct options *o, int64_t n, int64_t unit)
{
    int64_t want = (int64_t)((double)n * o->scale);

    want -= want % unit;
    return want < unit ? unit : want;
}

/* ---- the folder ------------------------------------------------------------------------------ */

void path_fresh(const struct options *o, char out[PATH_LEN])
{
    static int n;
    (void)snprintf(out, PATH_LEN, "%s/%d.db", o->dir, n++);
}

static void remove_where(const char *folder, const char *prefix)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
}

void path_remove(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char folder[PATH_LEN];

    (void)snprintf(folder, sizeof folder, "%.*s", (int)(name - 1 - path), path);
    remove_where(folder, name);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    (void)remove(path);
    return 0;
}

static void remove_dir(void)
{
    if (getpid() != owner || !dir_to_remove[0])
        return;
    (void)nftw(dir_to_remove, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void dies_with_us(pid_t pid)
{
    server = pid;
}

static void on_signal(int sig)
{
    if (server > 0 && kill(server, SIGKILL) == 0) /* it would write its log anew */
        (void)waitpid(server, NULL, 0);
    remove_dir(); /* the processes of a lap die with this one */
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
}

static void make_dir(struct options *o, const char *under)
{
    int n = snprintf(o->dir, sizeof o->dir, "%s/emq-bench-XXXXXX", under);

    if (n < 0 || n >= (int)sizeof o->dir || !mkdtemp(o->dir))
        die("can't make a folder in '%s': %s", under, strerror(errno));
    owner = getpid();
    (void)snprintf(dir_to_remove, sizeof dir_to_remove, "%s", o->dir);
    (void)atexit(remove_dir);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGHUP, on_signal);
}

/* ---- options --------------------------------------------------------------------------------- */

static void usage(FILE *to)
{
    (void)fprintf(
        to,
        "usage: bench/run [OPTION...]\n"
        "  --cells LIST    comma-separated, of those below; default all but redis, with\n"
        "                  --full all\n"
        "  --match TEXT    only cases with this in their names (add, take, cost)\n"
        "  --rounds N      laps of each contender, 1..%d; default 3, with --full 5\n"
        "  --scale F       multiplies the jobs of a lap; default 1, with --full 4\n"
        "  --backlog N     growth: the largest backlog; default 10000, with --full 1000000\n"
        "  --full          long laps, backlogs up to a million: about 15 minutes\n"
        "  --server KIND   redis: redis or valkey; default redis\n"
        "  --dir DIR       where the files go (a folder in it, removed at the end); default\n"
        "                  $TMPDIR, else /var/tmp: a file system in memory has no syncs to pay\n"
        "  --json          one JSON object a line\n"
        "  --verbose       cost: the statements by name\n"
        "cells:\n",
        ROUNDS_MAX);
    for (size_t i = 0; i < CELLS; i++)
        (void)fprintf(to, "  %-8s %s\n", cells[i].name, cells[i].what);
}

static double number(const char *text, const char *option, double min, double max)
{
    char *end = NULL;
    double v = strtod(text, &end);

    if (end == text || *end || !(v >= min && v <= max)) {
        (void)fprintf(stderr, "emq-bench: %s '%s': a number, %g to %g\n", option, text, min, max);
        exit(64);
    }
    return v;
}

static bool is_valkey(const char *kind)
{
    bool valkey = strcmp(kind, "valkey") == 0;

    if (!valkey && strcmp(kind, "redis") != 0) {
        (void)fprintf(stderr, "emq-bench: --server '%s': redis or valkey\n", kind);
        exit(64);
    }
    return valkey;
}

static bool chosen(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    return !list;
}

static void check_cells(const char *list)
{
    size_t wanted = list != NULL, found = 0;

    for (const char *p = list; p && *p; p++)
        wanted += *p == ',';
    for (size_t i = 0; list && i < CELLS; i++)
        found += chosen(list, cells[i].name);
    if (found == wanted)
        return;
    (void)fprintf(stderr, "emq-bench: --cells '%s': one of its names is no cell, or twice there\n",
                  list);
    usage(stderr);
    exit(64);
}

int main(int argc, char **argv)
{
    static const struct option long_opts[] = {
        {"cells", required_argument, NULL, 'c'}, {"rounds", required_argument, NULL, 'r'},
        {"scale", required_argument, NULL, 's'}, {"backlog", required_argument, NULL, 'b'},
        {"match", required_argument, NULL, 'm'}, {"server", required_argument, NULL, 'S'},
        {"dir", required_argument, NULL, 'd'},   {"full", no_argument, NULL, 'f'},
        {"json", no_argument, NULL, 'j'},        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},        {0}};
    struct options o = {0};
    const char *dir = getenv("TMPDIR");

    for (int c; (c = getopt_long(argc, argv, "hv", long_opts, NULL)) != -1;) {
        switch (c) {
        case 'c': o.cells = optarg; break;
        case 'r': o.rounds = (int)number(optarg, "--rounds", 1, ROUNDS_MAX); break;
        case 's': o.scale = number(optarg, "--scale", 0.001, 1000); break;
        case 'b': o.max_backlog = (int64_t)number(optarg, "--backlog", 1000, 1e8); break;
        case 'm': o.match = optarg; break;
        case 'S': o.valkey = is_valkey(optarg); break;
        case 'd': dir = optarg; break;
        case 'f': o.full = true; break;
        case 'j': o.json = true; break;
        case 'v': o.verbose = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 64;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "emq-bench: '%s': no arguments are taken\n", argv[optind]);
        return 64;
    }
    check_cells(o.cells);
    o.rounds = o.rounds ? o.rounds : o.full ? 5 : 3;
    o.scale = o.scale > 0 ? o.scale : o.full ? 4 : 1;
    o.max_backlog = o.max_backlog ? o.max_backlog : o.full ? 1000000 : 10000;
    make_dir(&o, dir && *dir ? dir : "/var/tmp");
    report_head(&o);
    for (size_t i = 0; i < CELLS; i++)
        if (chosen(o.cells, cells[i].name) && (o.cells || o.full || !cells[i].asked))
            cells[i].run(&o);
    return 0;
}
