/* SPDX-License-Identifier: MIT
 *
 * Processes of the lab, and its folder. Any thread; a thread ends only after the processes that it started.
 */
#ifndef EMQ_LAB_PROC_H
#define EMQ_LAB_PROC_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

enum lab_end {
    LAB_EXITED,  /* *status is its exit code */
    LAB_KILLED,  /* *status is the signal */
    LAB_STOPPED, /* by a signal; it is still there */
    LAB_LATE,    /* neither within the time; it is still there */
};

enum { LAB_PATH_MAX = 400 };

/* argv[0] is a path. Its input is empty, its output and messages are appended to the file `log`. From the
 * environment it gets everything but EMQ_*, and `env` (NAME=VALUE, NULL-terminated). 0, or errno. */
int lab_spawn(const char *const *argv, const char *const *env, const char *log, pid_t *out);
/* In a process that was lab_spawn()ed: from now on it is killed when the one that did it ends, even when it is
 * stopped. false: that one has ended already. */
bool lab_dies_with_parent(void);
/* Waits; ended processes are reaped. `stop` ends the wait as if the time were over. */
enum lab_end lab_wait(pid_t pid, int64_t ms, const atomic_int *stop, int *status);
/* SIGKILL, and reaps it. 0 is allowed: nothing. */
void lab_kill(pid_t pid);

/* Looks every few milliseconds until `yes` answers true. false: the time is over, or `stop`. */
bool lab_until(bool (*yes)(void *arg), void *arg, int64_t ms, const atomic_int *stop);
bool lab_exists(void *path);
/* An empty file. */
bool lab_touch(const char *path);
/* Whether nobody holds lab_hold() of this file. */
bool lab_is_free(void *path);
/* Held until the process ends. */
bool lab_hold(const char *path);

/* The program that is running. false: it can't be known. */
bool lab_self(char out[LAB_PATH_MAX]);
/* A fresh folder, below `where` or TMPDIR (NULL); an absolute path. 0, or errno. */
int lab_folder(const char *where, char out[LAB_PATH_MAX]);
/* With all that is in it, LAB_MARK last: who ends before the mark is gone leaves a folder that is marked still. */
void lab_remove(const char *folder);
#define LAB_MARK "held"

#endif
