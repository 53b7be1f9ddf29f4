/* SPDX-License-Identifier: MIT
 *
 * What a process asks of SQLite and SQLite of the system: statements, syncs, bytes. The one
 * invariant: nothing is counted, and next to nothing is spent, while no counting was asked for.
 */
#ifndef EMQ_BENCH_COUNTERS_H
#define EMQ_BENCH_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { STATEMENTS_MAX = 48, STATEMENT_LEN = 80, ACTS_MAX = 32, ACT_LEN = 16 };

struct counters {
    atomic_llong syncs, syncs_db, writes,
        written; /* fdatasync (of which: of the file); pwrite; bytes */
    atomic_llong statements, commits;
    int n_texts;
    struct {
        char text[STATEMENT_LEN];
        long long n;
    } texts[STATEMENTS_MAX];
    int n_acts;
    struct {
        char name[ACT_LEN];
        long long n;
    } acts[ACTS_MAX];
};

/* Before the first connection is opened: SQLite tells of each statement from now on. */
void counters_install(void);
void counters_start(struct counters *c);
void counters_stop(void);
/* A line of the engine's trace (EMQ_TRACE=engine). */
void counters_trace(void *user, int level, const char *text, size_t len);

#endif
