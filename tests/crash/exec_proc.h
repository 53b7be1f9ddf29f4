/* SPDX-License-Identifier: MIT
 *
 * Looking at processes from a test: conditions with a deadline, never a sleep for luck.
 */
#ifndef EMQ_TESTS_EXEC_PROC_H
#define EMQ_TESTS_EXEC_PROC_H

#include "lib/test.h"

#include <sys/types.h>

int64_t now_us(void); /* boottime */
/* Waits for a condition; fails the test after 60 s. */
void proc_until(bool (*is)(void *), void *arg, const char *what);
bool is_gone(pid_t pid);   /* no such process, or a zombie */
void proc_gone(pid_t pid); /* waits for it */
int open_fds(void);
/* A file of the test's folder; static, until the next call. */
const char *temp_path(const char *name);
/* The pids in a file, a line each, once there are n of them. */
void read_pids(const char *path, pid_t *pids, int n);

#endif
