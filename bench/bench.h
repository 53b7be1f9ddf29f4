/* SPDX-License-Identifier: MIT
 *
 * What the benches share. The one invariant: a figure of ours never stands alone; beside it is what
 * a reference, a bare loop or BullMQ, did for the same work in the same run, with the contenders
 * taking turns.
 *
 * Every contender runs in processes of its own, forked for one lap: memory, caches, threads and
 * CPU time of one never count for another.
 */
#ifndef EMQ_BENCH_BENCH_H
#define EMQ_BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ROUNDS_MAX = 15, VALUES_MAX = 20000, PATH_LEN = 300 };
enum { DATA_BYTES = 100 }; /* of every job's payload, JSON */

enum sync { SYNC_OFF, SYNC_NORMAL, SYNC_FULL };
const char *sync_name(int sync);

/* ---- options (main.c) ------------------------------------------------------------------------ */

struct options {
    bool json, full, verbose;
    int rounds;
    double scale;            /* multiplies the jobs of a lap */
    int64_t max_backlog;     /* growth: the largest backlog */
    bool valkey;             /* the redis cell's server */
    const char *cells;       /* comma-separated; NULL = all, the redis cell with --full only */
    const char *match;       /* only cases with this in their names; NULL = all */
    char dir[PATH_LEN - 64]; /* ours alone, removed at the end */
};

/* `n` jobs by --scale, a multiple of `unit`, at least one. */
int64_t scaled(const struct options *o, int64_t n, int64_t unit);

/* ---- laps (lap.c) ---------------------------------------------------------------------------- */

struct counters;

/* A server that all laps share; they run on CPU 1, it has CPU 0. */
struct place {
    const char *url;
    pid_t pid;           /* whose CPU time is reported beside the contender's */
    void (*empty)(void); /* before each lap */
};

/* What a contender is asked to do. */
struct plan {
    const struct place *server; /* NULL = a database file */
    char path[PATH_LEN];        /* of that file */
    int sync;
    int procs;                 /* processes that do it together; 0 = 1 */
    int threads;               /* that call at once; 0 = 1 */
    int64_t jobs;              /* of one process */
    int batch;                 /* jobs of one act */
    int concurrency, prefetch; /* of a worker */
    int seconds;
    int64_t delay_ms; /* of the jobs that are added */
    bool keep_all;    /* completed jobs stay, all of them */
    bool count;       /* count statements, syncs and bytes (counters.h) */
    int pipe[2];
};

/* One process of one lap, in memory that all of them share. */
struct lap {
    int64_t jobs, acts;
    int64_t begin_us, end_us, cpu_us;
    pid_t server;      /* 0 = none, or another process of the lap watches it */
    int64_t server_us; /* CPU time of it */
    struct shared *shared;
    struct counters *counters; /* NULL = not counting */
    bool counting;
};

/* What a lap came to. */
struct result {
    int64_t jobs, acts;
    double wall_us, cpu_us; /* from the first begin to the last end; CPU of all processes */
    double server_us;       /* CPU of the server meanwhile */
    double batch;           /* jobs an act */
    int64_t n_values;       /* samples, sorted */
    int64_t *values;        /* valid until the next lap */
    const struct counters *counters; /* likewise */
};

/* Runs in the `index`th process. Everything between lap_begin() and lap_end() counts. */
typedef void (*lap_fn)(const struct plan *p, struct lap *l, int index);

void lap_begin(struct lap *l); /* waits for the other processes of the lap */
void lap_end(struct lap *l, int64_t jobs, int64_t acts);
void lap_value(struct lap *l, int64_t value); /* any thread, any process of the lap */

/* Runs one lap; a process that fails ends the program. */
struct result lap_run(lap_fn fn, const struct plan *p);
/* The same, outside of what is measured: filling a queue. */
void lap_prepare(lap_fn fn, const struct plan *p);
/* Binds this process to one CPU, if there are several. */
void lap_pin(int index);

int64_t now_us(void); /* monotonic */
int64_t now_ns(void);
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- files ----------------------------------------------------------------------------------- */

/* A fresh database path in the options' folder. */
void path_fresh(const struct options *o, char out[PATH_LEN]);
/* A process that writes into the options' folder: a signal that ends the program ends it first. */
void dies_with_us(pid_t pid);
/* Removes the file and what stands beside it. */
void path_remove(const char *path);

/* ---- report (report.c) ----------------------------------------------------------------------- */

/* One line: our figure and the reference's, a value a round. */
struct row {
    const char *cell;
    char what[80];
    const char *unit;
    bool lower_is_better;
    int n;
    double ours[ROUNDS_MAX], bare[ROUNDS_MAX];
    double our_cpu[ROUNDS_MAX], bare_cpu[ROUNDS_MAX];       /* µs a job; 0 = does not apply */
    double our_server[ROUNDS_MAX], bare_server[ROUNDS_MAX]; /* likewise */
    char note[120];
};

void row_init(struct row *r, const char *cell, const char *unit, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Rates and CPU of one round. */
void row_rates(struct row *r, const struct result *ours, const struct result *bare);
void row_value(struct row *r, double ours, double bare);
void row_print(const struct options *o, struct row *r);
bool row_wanted(const struct options *o, const struct row *r); /* by --match */
void report_head(const struct options *o);
double median(const double *v, int n);

/* ---- contenders ------------------------------------------------------------------------------ */

/* One rate cell: prepares, then both contenders take turns for o->rounds. `fill` may be NULL. */
struct contest {
    lap_fn
        fill; /* by the engine, into the file of each lap; on a server the reference fills its own */
    struct plan fill_plan;
    lap_fn ours, bare;
    struct plan plan;
    bool match_batch; /* bare: as many jobs an act as the engine came to */
    double our_batch;
};
/* One lap of either on a fresh file. */
struct result contest_lap(const struct options *o, struct contest *c, bool ours);
void contest_run(const struct options *o, struct contest *c, struct row *r);

/* store.c: the engine by its public API. */
void emq_lap_add(const struct plan *p, struct lap *l, int index);      /* one call a job */
void emq_lap_add_many(const struct plan *p, struct lap *l, int index); /* p->batch jobs a call */
void emq_lap_work(const struct plan *p, struct lap *l,
                  int index); /* worker, handler does nothing */
void emq_lap_by_hand(const struct plan *p, struct lap *l, int index); /* emq_take, emq_settle */
void emq_lap_fill(const struct plan *p, struct lap *l,
                  int index); /* p->jobs waiting or delayed jobs */

void emq_lap_both(const struct plan *p, struct lap *l,
                  int index); /* adds p->batch jobs a call while a worker works them off */

/* bare.c: SQLite alone. */
void bare_lap_add(const struct plan *p, struct lap *l, int index); /* p->batch jobs a transaction */
void bare_lap_work(const struct plan *p, struct lap *l, int index); /* settles and takes p->batch */
void bare_lap_by_hand(const struct plan *p, struct lap *l, int index);

/* raw.c: commands alone on one connection. */
void raw_lap_push(const struct plan *p, struct lap *l, int index); /* LPUSH, one by one */
void raw_lap_path(const struct plan *p, struct lap *l,
                  int index); /* LPUSH, LMOVE, LREM, 128 jobs in flight */

/* bullmq.c: the same as the laps of store.c, by BullMQ. */
bool bullmq_present(char versions[80]);
void bullmq_lap_add(const struct plan *p, struct lap *l, int index); /* p->threads in flight */
void bullmq_lap_bulk(const struct plan *p, struct lap *l, int index);
void bullmq_lap_work(const struct plan *p, struct lap *l, int index);
void bullmq_lap_both(const struct plan *p, struct lap *l, int index);

/* ---- cells ----------------------------------------------------------------------------------- */

void cell_add(const struct options *o);
void cell_take(const struct options *o);
void cell_group(const struct options *o);
void cell_latency(const struct options *o);
void cell_idle(const struct options *o);
void cell_growth(const struct options *o);
void cell_cost(const struct options *o);
void cell_redis(const struct options *o);

#endif
