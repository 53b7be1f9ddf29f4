/* SPDX-License-Identifier: MIT
 *
 * Worker processes under test (crash_worker.c): starting, killing, waiting, and reading what they did.
 */
#ifndef EMQ_TESTS_HERD_H
#define EMQ_TESTS_HERD_H

#include "base/clock.h"
#include "lib/test.h"

#include <sys/types.h>

struct herd {
    emq_client *c;
    char url[600], effects[600];
    int n; /* processes started so far */
};

/* The URL of a fresh store: a file under this sync mode, or what EMQ_TEST_ENGINE asks for. */
void herd_url(char *url, size_t size, const char *sync);

void herd_open(struct herd *h, const char *sync);
void herd_close(struct herd *h); /* the sum rule holds */
void herd_add(struct herd *h, const char *id, int64_t delay_ms);

/* env: "NAME=VALUE" or NULL. Arguments as of crash_worker.c, separated by spaces. */
pid_t herd_start(struct herd *h, const char *env, const char *args);
/* Waits with a deadline; the wait status. */
int herd_wait(pid_t pid);
void herd_kill(pid_t pid);    /* SIGKILL, and waits */
void herd_stopped(pid_t pid); /* waits until it has been stopped by a signal */
/* Runs another worker until nothing is left. */
void herd_work_off(struct herd *h, const char *args);
/* What the nth process (from 1) printed at its end; static text. */
const char *herd_output(struct herd *h, int n);

/* Lines of the effects file: what ('A', 'B', 'E'), of one id (NULL = any), of one process (0 = any). */
int herd_count(struct herd *h, char what, const char *id, pid_t pid);
/* Distinct ids, and the largest number of lines one id has. */
int herd_distinct(struct herd *h, char what, int *most);
int64_t herd_state(struct herd *h, int state); /* jobs in it */
emq_job *herd_job(struct herd *h, const char *id);

#define HERD_WAIT_FOR(condition) HERD_WAIT_SECONDS(90, condition)
#define HERD_WAIT_SECONDS(seconds, condition)                                              \
    do {                                                                                   \
        int64_t until_ = emq__mono_now().us / 1000 + (seconds)*INT64_C(1000);              \
        while (!(condition)) {                                                             \
            if (emq__mono_now().us / 1000 > until_)                                        \
                fail_msg("%s:%d: waited %d s for: %s", __FILE__, __LINE__, (int)(seconds), \
                         #condition);                                                      \
            herd_nap(5);                                                                   \
        }                                                                                  \
    } while (0)
void herd_nap(int64_t ms);

#endif
