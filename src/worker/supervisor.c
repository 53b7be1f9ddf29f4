/* SPDX-License-Identifier: MIT
 *
 * The worker's side of the supervisor: its table, its life, and entering and leaving.
 */
#include "worker/supervisor.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- its life ---------------------------------------------------------------------------- */

/* A fork that runs no handlers of pthread_atfork(), and whose end sends no signal and is seen by no
 * wait() of the application (exit signal 0). All arguments are 0, so their order does not matter. */
__attribute__((no_sanitize("thread"))) static pid_t quiet_fork(void)
{
    return (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
}

bool emq__fd_move_up(int *fd)
{
    enum { FIRST = 4 };

    if (*fd >= FIRST)
        return true;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST);
    if (moved < 0)
        return false;
    (void)close(*fd);
    *fd = moved;
    return true;
}

struct parts {
    int pair[2], timer, self;
};

static emq_status parts_open(struct parts *p, emq_error *err)
{
    *p = (struct parts){{-1, -1}, -1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p->pair) != 0)
        return emq__fail(err, EMQ_E_SYSTEM, errno, "supervisor", "no socket: %s", strerror(errno));
    /* It stays: a place that the application may use for its stdout is not for it. */
    if (!emq__fd_move_up(&p->pair[0]))
        return emq__fail(err, EMQ_E_SYSTEM, errno, "supervisor", "no descriptor: %s",
                         strerror(errno));
    p->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->timer < 0)
        return emq__fail(err, EMQ_E_SYSTEM, errno, "supervisor", "no timer: %s", strerror(errno));
#ifdef SYS_pidfd_open
    p->self = (int)syscall(SYS_pidfd_open, getpid(), 0U); /* without it the socket must do */
#endif
    return EMQ_OK;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* mu held, or before there are threads. */
static emq_status start(struct emq__supervisor *v, emq_error *err)
{
    struct parts p;
    sigset_t all, old;
    emq_status s = parts_open(&p, err);

    if (s != EMQ_OK)
        goto done;
    struct emq__supervisor_seat seat = {v->wards, p.pair[1], p.timer, p.self};
    atomic_store(&v->wards->sleeps_until_us, INT64_MIN);
    (void)sigfillset(&all);
    /* Blocked from its first instruction on, for good. */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = quiet_fork();
    if (pid == 0)
        emq__supervisor_main(&seat);
    int native = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0) {
        s = emq__fail(err, EMQ_E_SYSTEM, native, "supervisor",
                      "the process that guards programs could not be started: %s",
                      strerror(native));
        goto done;
    }
    v->pid = pid;
    if (v->fd < 0) {
        v->fd = p.pair[0];
        p.pair[0] = -1;
    } else if (dup3(p.pair[0], v->fd, O_CLOEXEC) < 0) {
        /* Closing our end ends the new one. */
        s = emq__fail(err, EMQ_E_SYSTEM, errno, "supervisor", "dup3: %s", strerror(errno));
        (void)kill(pid, SIGKILL);
        reap(pid);
        v->pid = 0;
    }
done:
    close_if_open(p.pair[0]);
    close_if_open(p.pair[1]);
    close_if_open(p.timer);
    close_if_open(p.self);
    return s;
}

emq_status emq__supervisor_open(struct emq__supervisor **out, int32_t wards,
                                const struct emq__log *log, emq_error *err)
{
    struct emq__supervisor *v = calloc(1, sizeof *v);

    if (!v)
        return emq__fail(err, EMQ_E_NOMEM, 0, "supervisor", "%zu bytes", sizeof *v);
    v->fd = -1;
    v->log = *log;
    v->size = sizeof *v->wards + (size_t)wards * sizeof v->wards->at[0];
    void *shared = mmap(NULL, v->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        free(v);
        return emq__fail(err, EMQ_E_NOMEM, errno, "supervisor", "%d wards", wards);
    }
    v->wards = shared; /* zeroed: all FREE */
    v->wards->n = wards;
    int rc = pthread_mutex_init(&v->mu, NULL);
    if (rc != 0) {
        (void)munmap(shared, v->size);
        free(v);
        return emq__fail(err, EMQ_E_SYSTEM, rc, "supervisor", "no mutex");
    }
    emq_status s = start(v, err);
    if (s != EMQ_OK) {
        emq__supervisor_drop(v);
        return s;
    }
    *out = v;
    return EMQ_OK;
}

void emq__supervisor_drop(struct emq__supervisor *v)
{
    if (!v)
        return;
    close_if_open(v->fd);
    (void)munmap(v->wards, v->size);
    (void)pthread_mutex_destroy(&v->mu);
    free(v);
}

void emq__supervisor_close(struct emq__supervisor *v)
{
    if (!v)
        return;
    for (int64_t i = 0; i < v->wards->n; i++) {
        struct emq__ward *w = &v->wards->at[i];
        if (atomic_load(&w->state) == EMQ__WARD_LIVE && atomic_load(&w->pgid) > 1)
            (void)kill(-atomic_load(&w->pgid), SIGKILL);
    }
    if (v->pid > 0) {
        (void)kill(v->pid, SIGKILL); /* also if somebody has stopped it */
        reap(v->pid);
    }
    emq__supervisor_drop(v);
}

static bool is_dead(const struct emq__supervisor *v)
{
    struct pollfd p = {v->fd, 0, 0};

    return v->pid <= 0 || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)));
}

emq_status emq__supervisor_check(struct emq__supervisor *v, emq_error *err)
{
    emq_status s = EMQ_OK;

    pthread_mutex_lock(&v->mu);
    bool dead = is_dead(v);
    if (dead) {
        if (v->pid > 0) {
            (void)kill(v->pid, SIGKILL);
            reap(v->pid);
            v->pid = 0;
        }
        /* What it was about to kill is the next one's to decide. */
        for (int64_t i = 0; i < v->wards->n; i++) {
            int32_t killing = EMQ__WARD_KILLING;
            (void)atomic_compare_exchange_strong(&v->wards->at[i].state, &killing, EMQ__WARD_LIVE);
        }
        s = start(v, err);
    }
    pthread_mutex_unlock(&v->mu);
    if (dead)
        emq__log_write(&v->log, s == EMQ_OK ? EMQ_LOG_WARN : EMQ_LOG_ERROR, "%s",
                       s == EMQ_OK ? "the supervisor of programs had died: another one was started"
                                   : "the supervisor of programs has died and can't be started");
    return s;
}

/* ---- wards ------------------------------------------------------------------------------- */

static void poke(const struct emq__supervisor *v, int64_t deadline_us)
{
    /* Full is fine: it will look. Dead is found by others. */
    if (deadline_us < atomic_load(&v->wards->sleeps_until_us))
        (void)send(v->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void emq__ward_prepare(struct emq__supervisor *v, int index)
{
    struct emq__ward *w = emq__supervisor_ward(v, index);

    EMQ_ASSERT(atomic_load(&w->state) == EMQ__WARD_FREE);
    atomic_store(&w->pgid, 0);
    atomic_store(&w->start_error, 0);
}

void emq__ward_enter(struct emq__supervisor *v, int index, pid_t pgid)
{
    struct emq__ward *w = emq__supervisor_ward(v, index);

    atomic_store(&w->pgid, pgid);
    atomic_store(&w->state, EMQ__WARD_LIVE);
    poke(v, atomic_load(&w->deadline_us));
}

void emq__ward_until(struct emq__supervisor *v, int index, int64_t deadline_us)
{
    struct emq__ward *w = emq__supervisor_ward(v, index);

    atomic_store(&w->deadline_us, deadline_us);
    if (atomic_load(&w->state) == EMQ__WARD_LIVE)
        poke(v, deadline_us);
}

void emq__ward_extend(struct emq__supervisor *v, int index, int64_t deadline_us)
{
    /* The caller's lock keeps other writers out. A later deadline needs no poke. */
    if (deadline_us > atomic_load(&emq__supervisor_ward(v, index)->deadline_us))
        atomic_store(&emq__supervisor_ward(v, index)->deadline_us, deadline_us);
}

bool emq__ward_leave(struct emq__supervisor *v, int index)
{
    enum { TRIES = 2000, PAUSE_NS = 1000000 };
    struct emq__ward *w = emq__supervisor_ward(v, index);
    const struct timespec pause = {0, PAUSE_NS};

    for (int tries = 0;; tries++) {
        int32_t state = atomic_load(&w->state);
        if (state == EMQ__WARD_FREE)
            return false;
        if (state == EMQ__WARD_KILLING && tries < TRIES) {
            /* Its kill() takes microseconds, unless it has died or is stopped in the middle. */
            if (tries < 10) {
                (void)sched_yield();
            } else {
                (void)nanosleep(&pause, NULL);
                (void)emq__supervisor_check(v, NULL);
            }
            continue;
        }
        if (atomic_compare_exchange_strong(&w->state, &state, EMQ__WARD_FREE))
            return state != EMQ__WARD_LIVE;
    }
}
