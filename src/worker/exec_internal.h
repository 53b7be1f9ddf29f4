/* SPDX-License-Identifier: MIT
 *
 * Inside of exec: what its files share.
 *
 *   exec.c         opening, leases, closing; which way a job is run
 *   exec_find.c    finding the command
 *   exec_env.c     the environment of a program
 *   exec_child.c   one process: start, signals, end
 *   exec_pipe.c    reading and writing without blocking
 *   exec_turn.c    the loop of one job: waiting, stopping
 *   exec_run.c     one process a job
 *   exec_exit.c    what the end of a process means
 *   exec_line.c    lines on descriptor 3
 *   exec_effect.c  the files that they name
 *   exec_report.c  log lines and progress on their way to the store
 *   stream.c       one process for many jobs; stream_line.c its lines
 *   supervisor.c   ends programs when this process can't; supervisor_main.c is its process
 *
 * Locks: a place's `mu`, held for a few instructions, so that the keeper never waits for a program.
 */
#ifndef EMQ_WORKER_EXEC_INTERNAL_H
#define EMQ_WORKER_EXEC_INTERNAL_H

#include "worker/exec.h"
#include "worker/exec_report.h"
#include "worker/supervisor.h"

enum {
    EMQ__EXEC_CHUNK = 64 * 1024, /* bytes read at a time: what a pipe holds */
    EMQ__EXEC_STACK = 32 * 1024, /* of a process between its start and its program */
    EMQ__EXEC_TERM_MS = 5000,    /* from TERM to KILL, at most */
    EMQ__EXEC_LOOK_MS = 1000     /* no wait is longer */
};

/* One process and our ends of its pipes; -1 = closed. */
struct emq__child {
    pid_t pid; /* 0 = none */
    int pidfd; /* -1 = the kernel has none: looked at often */
    int in, out, err, ctl;
};

/* How a process ended. */
struct emq__exit {
    bool known; /* false: somebody else has taken its status */
    bool by_signal;
    bool dumped;
    int code; /* exit code, or the signal */
};

struct emq__stream;

struct emq__place {
    pthread_mutex_t mu; /* guards fence, and the ward's deadline against an old lease */
    int64_t fence;      /* of the job under way; 0 = none */
    char *chunk;        /* EMQ__EXEC_CHUNK bytes */
    struct emq__stream *stream;
};

struct emq__exec {
    struct emq__arena mem; /* of path, argv, env */
    const char *path;
    char **argv, **env; /* env: ours left out; NULL-terminated */
    size_t n_env;
    emq_str url, prefix, worker;
    int32_t concurrency;
    bool stream;
    pid_t pid; /* that opened it */
    struct emq__log log;
    struct emq__supervisor *supervisor;
    char *stacks; /* of processes that are being started, one a place */
    struct emq__place *places;
};

/* ---- exec_find.c, exec_env.c ------------------------------------------------------------- */

/* *out in mem: the path that is started. E_INVALID names the command and what is wrong with it. */
emq_status emq__exec_find(const char *command, struct emq__arena *mem, const char **out,
                          emq_error *err);
/* Copies the environment of this process, without what is set by us. Once, before threads. */
emq_status emq__exec_env_copy(struct emq__exec *x, emq_error *err);
/* job NULL: of a process that serves many jobs. NULL: no memory. */
char **emq__exec_env(const struct emq__exec *x, const emq_job *job, int64_t deadline_at_ms,
                     struct emq__arena *mem);

/* ---- exec_child.c ------------------------------------------------------------------------ */

/* Starts the command at a place, entered with the supervisor. data: of its one job, which are its whole
 * stdin, and it has descriptor 3; NULL: it serves many, and its stdin is a pipe. until: no more tries then.
 * E_SYSTEM: err->native tells whether the command can't be started at all. */
emq_status emq__child_start(struct emq__exec *x, int index, char *const *env, const emq_str *data,
                            struct emq__mono until, struct emq__child *out, emq_error *err);
/* The command, not the moment, is what is wrong. */
bool emq__child_unstartable(int native);
/* To the whole process group. */
void emq__child_signal(const struct emq__child *c, int sig);
/* Has it ended? It stays unreaped. */
bool emq__child_ended(const struct emq__child *c);
/* After its end: kills what is left of its group, leaves the supervisor, reaps, closes.
 * *supervisor_killed: not by us. */
struct emq__exit emq__child_finish(struct emq__exec *x, int index, struct emq__child *c,
                                   bool *supervisor_killed);
void emq__child_close_fds(struct emq__child *c);

/* ---- exec_pipe.c ------------------------------------------------------------------------- */

void emq__fd_close(int *fd);
/* A pipe whose ends are above the standard descriptors and closed on exec; -1 and errno. */
int emq__pipe_open(int *out_read, int *out_write);
/* A file in memory that begins with these bytes and has no others, above the standard descriptors; -1 and
 * errno. */
int emq__input_open(emq_str bytes);
bool emq__fd_nonblock(int fd);
/* Writes what fits now, advances. false: the reader is gone (raises no signal). */
bool emq__pipe_write(int fd, emq_str *left);
/* One read into chunk. > 0 bytes, 0 nothing now, -1 the end. */
ssize_t emq__pipe_read(int fd, char *chunk);
/* How much can be in it at once. */
size_t emq__pipe_holds(int fd);
/* Written and not read by the other side. */
size_t emq__pipe_unread(int fd);

/* ---- exec_exit.c ------------------------------------------------------------------------- */

/* 0..255 or 128 + signal; -1 = unknown. */
int emq__exit_status(const struct emq__exit *e);
/* Fills kind, reason, stack and retry_after_ms by the rules of exit codes. A 0 is DONE; the result
 * is the caller's. retry_after_ms: -1 = not said. */
void emq__exit_judge(const struct emq__exit *e, const struct emq__report *r, int64_t retry_after_ms,
                     struct emq__exec_result *out);
/* RETRY with that reason and the tail as its stack. */
void emq__exit_failed(const struct emq__report *r, struct emq__exec_result *out, const char *fmt,
                      ...) __attribute__((format(printf, 3, 4)));
/* We ended it. */
void emq__exit_stopped(const struct emq__report *r, struct emq__exec_result *out);

/* ---- exec_effect.c ----------------------------------------------------------------------- */

struct emq__asked_file {
    struct emq__asked_file *next;
    emq_str name; /* NUL-terminated */
    bool sql;
};
struct emq__asked { /* {0} = nothing */
    struct emq__asked_file *first, *last;
    int n;
    emq_status failed;
    emq_str wrong; /* the first line that may have asked for one and was not understood, and why */
};
void emq__asked_add(struct emq__asked *a, emq_str file, bool sql, struct emq__arena *mem);
/* A line that may have asked for one: what it asked for is not known, so the attempt will have failed. */
void emq__asked_wrong(struct emq__asked *a, emq_str line, const char *problem,
                      struct emq__arena *mem);
/* Reads the files into out->sql and out->commands. One that can't be read, or a wrong line: out becomes a failed
 * attempt. */
emq_status emq__asked_read(const struct emq__asked *a, const struct emq__report *r,
                           struct emq__exec_result *out, emq_error *err);

/* ---- exec_turn.c ------------------------------------------------------------------------- */

enum {
    EMQ__TURN_IN = 0,
    EMQ__TURN_OUT,
    EMQ__TURN_ERR,
    EMQ__TURN_CTL,
    EMQ__TURN_SLOT,
    EMQ__TURN_SUPERVISOR,
    EMQ__TURN_PID,
    EMQ__TURN_FDS
};
/* One job's loop: waiting for its process, and stopping it. */
struct emq__turn {
    struct emq__exec *x;
    struct emq__slot *s;
    struct emq__child *c;
    bool asked;                     /* TERM has been sent */
    bool killed;                    /* KILL has been sent */
    int64_t kill_at_us;             /* INT64_MAX = not asked */
    int64_t no_supervisor_until_us; /* it can't be started: not looked at until then */
    short ready[EMQ__TURN_FDS];     /* after the wait: which descriptors have something */
};
void emq__turn_init(struct emq__turn *t, struct emq__exec *x, struct emq__slot *s,
                    struct emq__child *c);
/* Signals what is due by the job's cancel and the clock, then waits until something is ready, due_us,
 * or the next look. writing: there is input left. */
void emq__turn_wait(struct emq__turn *t, bool writing, int64_t due_us);
/* We have signalled it. */
static inline bool emq__turn_stopping(const struct emq__turn *t)
{
    return t->asked || t->killed;
}

/* ---- exec.c, exec_run.c, stream.c -------------------------------------------------------- */

/* The job begins at its place: leases with its fence count from here to the end. */
void emq__exec_begin(struct emq__exec *x, struct emq__slot *s);
void emq__exec_end(struct emq__exec *x, struct emq__slot *s);
/* A start that failed: UNSTARTABLE, or E_SYSTEM. */
emq_status emq__exec_not_started(const emq_error *why, struct emq__exec_result *out,
                                 emq_error *err);
/* Ended by the supervisor and not by us: STOPPED, or E_SYSTEM when the lock was renewed after all. */
emq_status emq__exec_killed(struct emq__slot *s, const struct emq__report *r,
                            struct emq__exec_result *out, emq_error *err);

emq_status emq__exec_run_once(struct emq__exec *x, struct emq__slot *s,
                              struct emq__exec_result *out, emq_error *err);

emq_status emq__stream_open(struct emq__exec *x, emq_error *err);
emq_status emq__stream_run(struct emq__exec *x, struct emq__slot *s, struct emq__exec_result *out,
                           emq_error *err);
/* Ends all kept processes: end of input, then TERM, then KILL. */
void emq__stream_close(struct emq__exec *x);

#endif
