/* SPDX-License-Identifier: MIT
 *
 * One process of a program: its start, signals to its group, its end.
 *
 * The invariants: the process has entered with the supervisor before the program's first instruction
 * runs, and its pid is reaped only after it has left, so that no signal of ours meets a stranger; it
 * inherits descriptors 0 to 3 and nothing else, no blocked and no ignored signal.
 */
#include "worker/exec_internal.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
/* Its own clone() takes this for a fork and refuses new threads from then on. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

enum { TRY_MS = 1000, TRY_PAUSE_MS = 20 };

/* ---- in the new process ------------------------------------------------------------------ */

struct birth {
    struct emq__exec *x;
    int index;
    int fds[4]; /* what becomes 0..3; -1 = closed */
    char *const *env;
};

/* Until exec it shares our memory while our thread is suspended: system calls only, and raw ones where
 * a library around the C library's (a sanitizer's) keeps books, which would be our process's. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static int born(void *arg)
{
    const struct birth *b = arg;
    const unsigned long plain[8] = {0}; /* the kernel's sigaction of SIG_DFL, or an empty mask */
    const size_t mask_bytes = NSIG / 8;
    int last = -1;

    /* Handlers are the application's and must not run here. All signals are blocked until then. */
    for (int sig = 1; sig < NSIG; sig++)
        (void)syscall(SYS_rt_sigaction, sig, plain, NULL, mask_bytes);
    /* Not reached by what the terminal sends to the worker, and a group to signal. */
    (void)setsid();
    emq__ward_enter(b->x->supervisor, b->index, getpid());
    for (int i = 0; i < 4; i++) {
        if (b->fds[i] < 0)
            continue;
        if (syscall(SYS_dup3, b->fds[i], i, 0) < 0)
            goto failed;
        last = i;
    }
    const int kept[] = {0, 1, 2, last == 3 ? 3 : -1};
    emq__close_others(kept, EMQ_ARRAY_LEN(kept));
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, plain, NULL, mask_bytes);
    (void)execve(b->x->path, b->x->argv, b->env);
failed:
    atomic_store(&emq__supervisor_ward(b->x->supervisor, b->index)->start_error, errno);
    _exit(127);
}

/* ---- starting ---------------------------------------------------------------------------- */

bool emq__child_unstartable(int native)
{
    switch (native) {
    case ENOENT:
    case EACCES:
    case ENOEXEC:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EPERM:
    case EINVAL:
    case ELIBBAD:
    case E2BIG: return true;
    default: return false;
    }
}

static bool may_pass(int native)
{
    return native == EAGAIN || native == ENOMEM || native == EMFILE || native == ENFILE ||
           native == ETXTBSY;
}

static void close_ends(int ends[4])
{
    for (int i = 0; i < 4; i++)
        emq__fd_close(&ends[i]);
}

void emq__child_close_fds(struct emq__child *c)
{
    emq__fd_close(&c->in);
    emq__fd_close(&c->out);
    emq__fd_close(&c->err);
    emq__fd_close(&c->ctl);
}

/* 0 or errno. ends: the child's; data: see emq__child_start(). */
static int open_ends(struct emq__child *c, int ends[4], const emq_str *data)
{
    if (data)
        ends[0] = emq__input_open(*data);
    else if (emq__pipe_open(&ends[0], &c->in) != 0 || !emq__fd_nonblock(c->in))
        return errno;
    if (ends[0] < 0 || emq__pipe_open(&c->out, &ends[1]) != 0 ||
        emq__pipe_open(&c->err, &ends[2]) != 0 || (data && emq__pipe_open(&c->ctl, &ends[3]) != 0))
        return errno;
    if (!emq__fd_nonblock(c->out) || !emq__fd_nonblock(c->err) ||
        (data && !emq__fd_nonblock(c->ctl)))
        return errno;
    return 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* 0 or errno: of the start, or of the new process before its program ran. */
static int give_birth(struct birth *b, struct emq__child *c)
{
    struct emq__exec *x = b->x;
    char *stack = x->stacks + (size_t)b->index * EMQ__EXEC_STACK;
    sigset_t all, old;
    int pidfd = -1, native = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    /* Our thread goes on when the program runs or the start has failed. No copy of our memory. */
    int pid = clone(born, stack + EMQ__EXEC_STACK, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
                    b, &pidfd);
    if (pid < 0)
        native = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return native;
    native = atomic_load(&emq__supervisor_ward(x->supervisor, b->index)->start_error);
    if (native != 0) {
        (void)emq__ward_leave(x->supervisor, b->index);
        reap(pid);
        emq__fd_close(&pidfd);
        return native;
    }
    c->pid = pid;
    c->pidfd = pidfd;
    return 0;
}

static int start_once(struct birth *b, const emq_str *data, struct emq__child *c)
{
    *c = (struct emq__child){.pidfd = -1, .in = -1, .out = -1, .err = -1, .ctl = -1};
    for (int i = 0; i < 4; i++)
        b->fds[i] = -1;
    emq__ward_prepare(b->x->supervisor, b->index);
    int native = open_ends(c, b->fds, data);
    if (native == 0)
        native = give_birth(b, c);
    close_ends(b->fds);
    if (native != 0)
        emq__child_close_fds(c);
    return native;
}

emq_status emq__child_start(struct emq__exec *x, int index, char *const *env, const emq_str *data,
                            struct emq__mono until, struct emq__child *out, emq_error *err)
{
    struct birth b = {.x = x, .index = index, .env = env};
    const struct timespec pause = {0, TRY_PAUSE_MS * 1000000L};
    struct emq__mono begin = emq__mono_now();
    int native = start_once(&b, data, out);

    /* A shortage is waited out here for a moment: the next worker would meet it too. */
    while (native != 0 && may_pass(native)) {
        struct emq__mono now = emq__mono_now();
        if (now.us >= until.us || emq__mono_diff_ms(begin, now) >= TRY_MS)
            break;
        (void)nanosleep(&pause, NULL);
        native = start_once(&b, data, out);
    }
    if (native == 0)
        return EMQ_OK;
    const char *hint = "";
    if (native == ENOENT && access(x->path, F_OK) == 0)
        hint = " (it is there; the interpreter that its first line names is not)";
    else if (native == ENOEXEC)
        hint = " (a script begins with #! and its interpreter)";
    return emq__fail(err, EMQ_E_SYSTEM, native, "exec", "the command \"%s\" can't be started: %s%s",
                     x->path, strerror(native), hint);
}

/* ---- signals and end --------------------------------------------------------------------- */

void emq__child_signal(const struct emq__child *c, int sig)
{
    /* Not reaped yet: pid and group are its own. */
    if (c->pid > 1)
        (void)kill(-c->pid, sig);
}

bool emq__child_ended(const struct emq__child *c)
{
    siginfo_t info;

    info.si_pid = 0;
    for (;;) {
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
            return info.si_pid != 0;
        if (errno != EINTR)
            return true; /* somebody else has reaped it */
    }
}

static struct emq__exit read_exit(pid_t pid)
{
    siginfo_t info;

    info.si_pid = 0;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) != 0)
        if (errno != EINTR)
            return (struct emq__exit){.known = false};
    return (struct emq__exit){.known = true,
                              .by_signal = info.si_code != CLD_EXITED,
                              .dumped = info.si_code == CLD_DUMPED,
                              .code = info.si_status};
}

struct emq__exit emq__child_finish(struct emq__exec *x, int index, struct emq__child *c,
                                   bool *supervisor_killed)
{
    emq__child_signal(c, SIGKILL); /* processes that it left behind in its group */
    *supervisor_killed = emq__ward_leave(x->supervisor, index);
    struct emq__exit e = read_exit(c->pid);
    emq__child_close_fds(c);
    emq__fd_close(&c->pidfd);
    c->pid = 0;
    return e;
}
