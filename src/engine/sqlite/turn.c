/* SPDX-License-Identifier: MIT
 *
 * A turnstile of two locks of open file descriptions on the side file: take Q, take M, drop Q. Only the
 * holder of Q waits for M, so nobody who comes later overtakes it. The kernel drops both when the
 * holder dies.
 *
 * The kernel's blocking wait has no time limit, and the library must not use signals to get out of it.
 * So a thread waits, started at the first real contention, and callers wait for the thread with a
 * limit. Who gives up leaves the thread waiting; it drops what it gets when nobody wants it any more.
 */
#include "engine/sqlite/turn.h"

#include "engine/sqlite/bell.h"
#include "engine/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { DISTRUST_MS = 30000, CLOSE_MS = 200 };

struct sq_turn {
    int fd;
    bool first;
    int64_t distrust_until_us;
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool started, waiting; /* the thread exists; it is in the kernel's wait */
    bool wanted, granted;
    bool closing, gone;
};

static bool wait_lock(int fd, off_t at)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int rc;

    do
        rc = fcntl(fd, F_OFD_SETLKW, &l);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

struct sq_turn *sq_turn_new(int fd, bool first)
{
    struct sq_turn *t = calloc(1, sizeof *t);
    pthread_condattr_t attr;

    if (!t)
        goto fail_fd;
    *t = (struct sq_turn){.fd = fd, .first = first};
    if (pthread_mutex_init(&t->mu, NULL) != 0)
        goto fail_memory;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&t->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (rc == 0)
        return t;
    pthread_mutex_destroy(&t->mu);
fail_memory:
    free(t);
fail_fd:
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

static void destroy(struct sq_turn *t)
{
    (void)close(t->fd);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mu);
    free(t);
}

static bool wait_in_kernel(const struct sq_turn *t)
{
    bool got = t->first || wait_lock(t->fd, SQ_BYTE_Q);

    if (got)
        got = wait_lock(t->fd, SQ_BYTE_M);
    if (!t->first)
        (void)sq_ofd_lock(t->fd, F_UNLCK, SQ_BYTE_Q);
    return got;
}

static void *run(void *arg)
{
    struct sq_turn *t = arg;
    bool abandoned;

    pthread_mutex_lock(&t->mu);
    while (!t->closing) {
        if (!t->wanted || t->granted) {
            pthread_cond_wait(&t->changed, &t->mu);
            continue;
        }
        t->waiting = true;
        pthread_mutex_unlock(&t->mu);
        bool got = wait_in_kernel(t);
        pthread_mutex_lock(&t->mu);
        t->waiting = false;
        if (got && t->wanted && !t->closing)
            t->granted = true;
        else if (got)
            (void)sq_ofd_lock(t->fd, F_UNLCK, SQ_BYTE_M);
        if (!got)
            t->wanted = false; /* no memory for locks: the caller goes on without */
        pthread_cond_broadcast(&t->changed);
    }
    abandoned = t->gone;
    t->gone = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mu);
    if (abandoned)
        destroy(t);
    return NULL;
}

static bool start(struct sq_turn *t)
{
    sigset_t all, old;

    if (t->started)
        return true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    t->started = pthread_create(&t->thread, NULL, run, t) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return t->started;
}

static bool take_now(const struct sq_turn *t)
{
    if (t->first)
        return sq_ofd_lock(t->fd, F_WRLCK, SQ_BYTE_M);
    if (!sq_ofd_lock(t->fd, F_WRLCK, SQ_BYTE_Q))
        return false;
    if (!sq_ofd_lock(t->fd, F_WRLCK, SQ_BYTE_M))
        return false; /* Q is kept: the thread goes on from here */
    (void)sq_ofd_lock(t->fd, F_UNLCK, SQ_BYTE_Q);
    return true;
}

enum sq_turn_result sq_turn_take(struct sq_turn *t, int64_t until_us)
{
    struct timespec end = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};

    if (!t || sq_monotonic_us() < t->distrust_until_us)
        return SQ_TURN_NONE;
    pthread_mutex_lock(&t->mu);
    bool got = !t->waiting && take_now(t);
    if (!got && start(t)) {
        int rc = 0;
        t->wanted = true;
        pthread_cond_broadcast(&t->changed);
        while (t->wanted && !t->granted && rc == 0)
            rc = pthread_cond_timedwait(&t->changed, &t->mu, &end);
        got = t->granted;
        t->wanted = t->granted = false;
    } else if (!got && !t->waiting) {
        (void)sq_ofd_lock(t->fd, F_UNLCK, SQ_BYTE_Q); /* no thread to wait with */
    }
    pthread_mutex_unlock(&t->mu);
    return got ? SQ_TURN_MINE : SQ_TURN_LATE;
}

void sq_turn_give(struct sq_turn *t)
{
    (void)sq_ofd_lock(t->fd, F_UNLCK, SQ_BYTE_M);
}

void sq_turn_distrust(struct sq_turn *t)
{
    if (t)
        t->distrust_until_us = sq_monotonic_us() + DISTRUST_MS * 1000;
}

void sq_turn_user(struct sq_turn *t)
{
    if (t)
        (void)sq_ofd_lock(t->fd, F_RDLCK, SQ_BYTE_USER);
}

bool sq_turn_last_user(struct sq_turn *t)
{
    return !t || sq_ofd_lock(t->fd, F_WRLCK, SQ_BYTE_USER);
}

void sq_turn_free(struct sq_turn *t, bool forked)
{
    if (!t)
        return;
    if (forked) { /* mutex and condition may be in any state, and need no end */
        (void)close(t->fd);
        free(t);
        return;
    }
    if (!t->started) {
        destroy(t);
        return;
    }
    int64_t until_us = sq_monotonic_us() + CLOSE_MS * 1000;
    struct timespec end = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int rc = 0;
    pthread_t thread = t->thread;

    pthread_mutex_lock(&t->mu);
    t->closing = true;
    pthread_cond_broadcast(&t->changed);
    while (!t->gone && rc == 0)
        rc = pthread_cond_timedwait(&t->changed, &t->mu, &end);
    bool gone = t->gone;
    t->gone = true; /* the thread, still in the kernel's wait, now owns *t */
    pthread_mutex_unlock(&t->mu);
    if (gone) {
        (void)pthread_join(thread, NULL);
        destroy(t);
    } else {
        (void)pthread_detach(thread);
    }
}
