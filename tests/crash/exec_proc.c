/* SPDX-License-Identifier: MIT
 *
 * See exec_proc.h.
 */
#include "exec_proc.h"

#include "base/clock.h"

#include <dirent.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

int64_t now_us(void)
{
    return emq__mono_now().us;
}

void proc_until(bool (*is)(void *), void *arg, const char *what)
{
    const struct timespec pause = {0, 2000000};

    for (int64_t end = now_us() + PATIENCE_MS * 1000LL; !is(arg);) {
        if (now_us() > end)
            fail_msg("still not: %s", what);
        (void)nanosleep(&pause, NULL);
    }
}

bool is_gone(pid_t pid)
{
    char path[64], text[512];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return true;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    const char *state = strrchr(text, ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static bool gone(void *pid)
{
    return is_gone(*(pid_t *)pid);
}

void proc_gone(pid_t pid)
{
    proc_until(gone, &pid, "the end of a process");
}

int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

const char *temp_path(const char *name)
{
    static char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);

    assert_true(n > 0 && (size_t)n < sizeof path);
    return path;
}

struct pid_file {
    const char *path;
    pid_t *pids;
    int n;
};

static bool has_pids(void *arg)
{
    struct pid_file *p = arg;
    FILE *f = fopen(p->path, "re");
    int n = 0;

    if (!f)
        return false;
    char line[64];
    while (n < p->n && fgets(line, sizeof line, f) && strchr(line, '\n'))
        p->pids[n++] = (pid_t)strtol(line, NULL, 10);
    (void)fclose(f);
    return n == p->n;
}

void read_pids(const char *path, pid_t *pids, int n)
{
    struct pid_file p = {path, pids, n};

    proc_until(has_pids, &p, "the program has written its pids");
}
