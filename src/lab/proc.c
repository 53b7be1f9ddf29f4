/* SPDX-License-Identifier: MIT
 *
 * See proc.h.
 */
#include "lab/proc.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 4 };
#define PARENT "EMQ_LAB_PID"

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
}

/* The environment without EMQ_*, and with `parent` and `env`; free() it. */
static char **make_env(char *parent, const char *const *env)
{
    size_t n = 1, at = 0;

    for (char **e = environ; *e; e++)
        n++;
    for (size_t i = 0; env && env[i]; i++)
        n++;
    char **out = calloc(n + 1, sizeof *out);
    for (char **e = environ; out && *e; e++)
        if (strncmp(*e, "EMQ_", 4) != 0)
            out[at++] = *e;
    if (out)
        out[at++] = parent;
    for (size_t i = 0; out && env && env[i]; i++)
        memcpy(&out[at++], &env[i], sizeof *out);
    return out;
}

static int spawn_with(const char *const *argv, char **env, const char *log, pid_t *out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char **args;

    memcpy(&args, &argv, sizeof args);
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!rc)
        rc = posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!rc)
        rc = posix_spawnattr_setsigmask(&attr, &none);
    if (!rc)
        rc = posix_spawnattr_setsigdefault(&attr, &all);
    /* A group of its own: what the terminal sends is for the lab, which then ends the others. */
    if (!rc)
        rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
    if (!rc)
        rc = posix_spawn(out, argv[0], &files, &attr, args, env);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

int lab_spawn(const char *const *argv, const char *const *env, const char *log, pid_t *out)
{
    char parent[sizeof PARENT + 24];

    (void)snprintf(parent, sizeof parent, PARENT "=%lld", (long long)getpid());
    char **all = make_env(parent, env);
    int rc = all ? spawn_with(argv, all, log, out) : ENOMEM;

    free(all);
    return rc;
}

bool lab_dies_with_parent(void)
{
    const char *parent = getenv(PARENT);
    char now[24];

    /* It may have ended before the kernel was asked to tell. */
    bool told = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    (void)snprintf(now, sizeof now, "%lld", (long long)getppid());
    return told && parent && strcmp(parent, now) == 0;
}

enum lab_end lab_wait(pid_t pid, int64_t ms, const atomic_int *stop, int *status)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), ms);
    int st = 0;

    for (;;) {
        pid_t got = waitpid(pid, &st, WNOHANG | WUNTRACED);
        if (got == pid && WIFEXITED(st)) {
            *status = WEXITSTATUS(st);
            return LAB_EXITED;
        }
        if (got == pid && WIFSIGNALED(st)) {
            *status = WTERMSIG(st);
            return LAB_KILLED;
        }
        if (got == pid && WIFSTOPPED(st))
            return LAB_STOPPED;
        if (emq__mono_diff_ms(emq__mono_now(), end) <= 0 || (stop && atomic_load(stop)))
            return LAB_LATE;
        nap();
    }
}

void lab_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

bool lab_until(bool (*yes)(void *arg), void *arg, int64_t ms, const atomic_int *stop)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), ms);

    while (!yes(arg)) {
        if (emq__mono_diff_ms(emq__mono_now(), end) <= 0 || (stop && atomic_load(stop)))
            return false;
        nap();
    }
    return true;
}

bool lab_exists(void *path)
{
    return access(path, F_OK) == 0;
}

bool lab_touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 && close(fd) == 0;
}

bool lab_is_free(void *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0)
        (void)close(fd);
    return is_free;
}

bool lab_hold(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 && flock(fd, LOCK_EX) == 0;
}

bool lab_self(char out[LAB_PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, LAB_PATH_MAX - 1);

    if (n <= 0 || n >= LAB_PATH_MAX - 1)
        return false;
    out[n] = '\0';
    return true;
}

int lab_folder(const char *where, char out[LAB_PATH_MAX])
{
    const char *base = where ? where : getenv("TMPDIR");
    char *whole = realpath(base && *base ? base : "/tmp", NULL);

    if (!whole)
        return errno;
    int n = snprintf(out, LAB_PATH_MAX / 2, "%s/emq-lab-XXXXXX", whole);
    free(whole);
    if (n < 0 || n >= LAB_PATH_MAX / 2)
        return ENAMETOOLONG;
    return mkdtemp(out) ? 0 : errno;
}

/* All but the folder and the mark in it. */
static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind;
    if (ftw->level == 0 || (ftw->level == 1 && strcmp(path + ftw->base, LAB_MARK) == 0))
        return 0;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1; /* another lab may be at it too */
}

void lab_remove(const char *folder)
{
    char path[LAB_PATH_MAX + 320];

    if (getenv("EMQ_TEST_KEEP") || nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        return;
    (void)snprintf(path, sizeof path, "%s/%s", folder, LAB_MARK);
    (void)unlink(path);
    (void)rmdir(folder);
}
