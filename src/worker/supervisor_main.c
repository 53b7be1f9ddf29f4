/* SPDX-License-Identifier: MIT
 *
 * The supervisor's process. It is a fork of a process with threads, so nothing here allocates, locks
 * or writes memory of the process it came from; and it gives up all descriptors first, because locks
 * on files live as long as the last copy of their descriptor.
 */
#include "worker/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* How long a dead worker's child that is just being started may take to enter, ms. */
enum { LATE_MS = 1000, FDS_FALLBACK_MAX = 65536 };

static void close_span(unsigned first, unsigned last)
{
    if (first > last)
        return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0U) == 0)
        return;
#endif
    struct rlimit limit;
    unsigned end = FDS_FALLBACK_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
        end = (unsigned)limit.rlim_cur;
    for (unsigned fd = first; fd <= last && fd < end; fd++)
        (void)close((int)fd);
}

void emq__close_others(const int *kept, size_t n)
{
    unsigned first = 0;

    for (size_t i = 0; i < n; i++) {
        if (kept[i] < 0)
            continue;
        if ((unsigned)kept[i] > first)
            close_span(first, (unsigned)kept[i] - 1);
        first = (unsigned)kept[i] + 1;
    }
    close_span(first, UINT_MAX);
}

static int64_t boottime_us(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Kills what is due, everything with `all`. Returns the earliest deadline that is left. */
static int64_t end_wards(struct emq__wards *w, bool all)
{
    int64_t next = INT64_MAX, now = boottime_us();

    for (int64_t i = 0; i < w->n; i++) {
        struct emq__ward *at = &w->at[i];
        int32_t live = EMQ__WARD_LIVE;
        int64_t deadline = atomic_load(&at->deadline_us);
        if (atomic_load(&at->state) != EMQ__WARD_LIVE)
            continue;
        if (!all && deadline > now) {
            next = deadline < next ? deadline : next;
            continue;
        }
        /* From here to KILLED the process is not reaped: the number is still its own. */
        if (!atomic_compare_exchange_strong(&at->state, &live, EMQ__WARD_KILLING))
            continue;
        deadline = atomic_load(&at->deadline_us);
        if (!all && deadline > now) { /* renewed, or another one's */
            atomic_store(&at->state, EMQ__WARD_LIVE);
            next = deadline < next ? deadline : next;
            continue;
        }
        int32_t pgid = atomic_load(&at->pgid);
        if (pgid > 1)
            (void)kill(-pgid, SIGKILL);
        atomic_store(&at->state, EMQ__WARD_KILLED);
    }
    return next;
}

static int64_t earliest(const struct emq__wards *w)
{
    int64_t next = INT64_MAX;

    for (int64_t i = 0; i < w->n; i++) {
        const struct emq__ward *at = &w->at[i];
        int64_t deadline = atomic_load(&at->deadline_us);
        if (atomic_load(&at->state) == EMQ__WARD_LIVE && deadline < next)
            next = deadline;
    }
    return next;
}

static void timer_set(int fd, int64_t at_us)
{
    struct itimerspec t = {0};

    if (at_us != INT64_MAX) {
        t.it_value.tv_sec = at_us / 1000000;
        t.it_value.tv_nsec = (long)(at_us % 1000000) * 1000;
    }
    /* An absolute time on a clock that counts suspend: it fires at once after a resume. */
    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* false: the other side is gone. */
static bool take_pokes(int sock)
{
    char byte;

    for (;;) {
        ssize_t n = recv(sock, &byte, sizeof byte, MSG_DONTWAIT);
        if (n > 0 || (n < 0 && errno == EINTR))
            continue;
        return n < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS);
    }
}

static void watch(const struct emq__supervisor_seat *seat)
{
    bool dead = false;
    int64_t leave_us = INT64_MAX;

    for (;;) {
        int64_t next = end_wards(seat->wards, dead);
        if (boottime_us() >= leave_us)
            return;
        /* Said before the second look: whoever enters later sees it and pokes. */
        atomic_store(&seat->wards->sleeps_until_us, next);
        if (earliest(seat->wards) < next)
            continue;
        timer_set(seat->timer, next);

        struct pollfd fds[] = {{seat->sock, POLLIN, 0},
                               {seat->timer, POLLIN, 0},
                               {dead ? -1 : seat->worker, POLLIN, 0}};
        (void)poll(fds, EMQ_ARRAY_LEN(fds), dead ? 5 : -1);
        uint64_t ticks;
        if (fds[1].revents & POLLIN)
            (void)!read(seat->timer, &ticks, sizeof ticks);
        if (!take_pokes(seat->sock)) {
            (void)end_wards(seat->wards, true);
            return;
        }
        /* Its descriptor may live on in a process that it forked: its death counts, not the socket. */
        if (!dead && (fds[2].revents & POLLIN)) {
            dead = true;
            leave_us = boottime_us() + LATE_MS * 1000;
        }
    }
}

_Noreturn void emq__supervisor_main(const struct emq__supervisor_seat *seat)
{
    int kept[] = {seat->sock, seat->timer, seat->worker};

    for (size_t i = 1; i < EMQ_ARRAY_LEN(kept); i++)
        for (size_t k = i; k > 0 && kept[k] < kept[k - 1]; k--) {
            int swap = kept[k];
            kept[k] = kept[k - 1];
            kept[k - 1] = swap;
        }
    emq__close_others(kept, EMQ_ARRAY_LEN(kept));
    /* A session of its own: what the terminal or a job control sends to the worker is not for it. */
    (void)setsid();
    (void)!chdir("/");
    (void)prctl(PR_SET_NAME, "emq-supervisor", 0, 0, 0);
    watch(seat);
    _exit(0);
}
