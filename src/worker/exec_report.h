/* SPDX-License-Identifier: MIT
 *
 * What a program says about its job while it runs: log lines, progress, and the end of its stderr,
 * which becomes the reason of a failure.
 *
 * The invariant: a line that came is stored once, in order, or counted and named as lost; and however
 * fast lines come, they cost few acts of the store: lines that came together share an entry.
 */
#ifndef EMQ_WORKER_EXEC_REPORT_H
#define EMQ_WORKER_EXEC_REPORT_H

#include "base/arena.h"
#include "base/log.h"
#include "worker/exec_line.h"
#include "worker/slot.h"

enum { EMQ__REPORT_TAIL = 4096 };

struct emq__report {
    emq_job *job; /* NULL = between jobs: lines go to the worker's log */
    struct emq__log log;
    struct emq__lines err;    /* stderr */
    struct emq__buf pending;  /* clean lines, each with its line feed */
    struct emq__buf progress; /* the newest; empty = none */
    int64_t n_pending, n_lost;
    int64_t due_us;        /* flush then; INT64_MAX = nothing to flush */
    int64_t hold_until_us; /* the store fails: not before */
    bool over;             /* the job is no longer ours */
    bool gone;   /* the store has no such job (fire-and-forget): lines go to the worker's log */
    char *clean; /* EMQ_LOG_LINE_MAX + 16 bytes */
    size_t tail_len;
    bool tail_cut;
    char tail[EMQ__REPORT_TAIL];
};

emq_status emq__report_init(struct emq__report *r, emq_job *job, const struct emq__log *log,
                            emq_error *err);
void emq__report_free(struct emq__report *r);
/* Bytes of stderr. */
void emq__report_stderr(struct emq__report *r, emq_str bytes);
/* A log line, or several; any bytes. */
void emq__report_line(struct emq__report *r, emq_str line);
void emq__report_warn(struct emq__report *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Valid JSON; one that is not stored yet is replaced. */
void emq__report_progress(struct emq__report *r, emq_str json);
/* Stores what is due, or everything that came. Blocks for its acts of the store. */
void emq__report_flush(struct emq__report *r, int64_t now_us);
/* The last chance: the program has ended. */
void emq__report_finish(struct emq__report *r);
/* The last line of stderr that is not blank, for people; empty = none. */
emq_str emq__report_last_line(const struct emq__report *r, struct emq__arena *mem);
/* The last lines of stderr, clean. */
emq_str emq__report_tail(const struct emq__report *r, struct emq__arena *mem);

#endif
