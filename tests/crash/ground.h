/* SPDX-License-Identifier: MIT
 *
 * For the tests of the SQLite engine's ground: numbers in a table of their own, written through
 * sq_write(), and helper processes that do things to the same file.
 */
#ifndef EMQ_TESTS_GROUND_H
#define EMQ_TESTS_GROUND_H

#include "engine/sqlite/ground.h"
#include "lib/test.h"

#include <sys/types.h>

/* Opens the engine and makes the table; a failure fails the test. query: "" or "sync=off", ... */
struct sq *ground_open(const char *path, const char *sync, int64_t io_timeout_ms);
emq_status ground_try_open(const char *path, const char *sync, int64_t io_timeout_ms,
                           struct sq **out, emq_error *err);
/* The engine alone: no table is made. log may be NULL. */
emq_status ground_open_only(const char *path, const char *sync, int64_t io_timeout_ms,
                            const struct emq__log *log, struct sq **out, emq_error *err);
void ground_close(struct sq *s);
/* One row with this number, in an act of its own. */
emq_status ground_put(struct sq *s, int64_t n, emq_error *err);
bool ground_has(struct sq *s, int64_t n);
int64_t ground_count(struct sq *s);
/* A path in the test's folder. */
const char *ground_path(const char *name);

/* A helper process with a pipe from its stdout. */
struct helper {
    pid_t pid;
    int out;
};
struct helper helper_start(const char *const *argv);
#define HELPER(...) helper_start((const char *const[]){SQ_HELPER, __VA_ARGS__, NULL})
/* Reads until a line comes; its text without the line end. Fails the test after 20 s. */
void helper_line(struct helper *h, char *out, size_t cap);
void helper_expect(struct helper *h, const char *line);
void helper_kill(struct helper *h, int sig);
int helper_end(struct helper *h);     /* waits; the exit status, 128 + signal */
void helper_killed(struct helper *h); /* SIGKILL, and its end by it */

#endif
