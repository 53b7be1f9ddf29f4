/* SPDX-License-Identifier: MIT
 *
 * See herd.h. Processes are started with posix_spawn and killed by their id alone.
 */
#include "herd.h"

#include "base/map.h"
#include "base/str.h"
#include "field/audit.h"
#ifdef EMQ_HAVE_REDIS
#include "lib/server.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { ARGS_MAX = 24, ENV_MAX = 256, DEADLINE_MS = 90000 };

void herd_nap(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

void herd_url(char *url, size_t size, const char *sync)
{
#ifdef EMQ_HAVE_REDIS
    const char *asked = server_asked();
    if (asked) {
        (void)snprintf(url, size, "%s", asked);
        return;
    }
#endif
    (void)snprintf(url, size, "sqlite:%s/q.db?sync=%s", test_temp_dir(), sync);
}

void herd_open(struct herd *h, const char *sync)
{
    emq_error err = {0};

    memset(h, 0, sizeof *h);
    herd_url(h->url, sizeof h->url, sync);
    (void)snprintf(h->effects, sizeof h->effects, "%s/effects", test_temp_dir());
    CHECK_STATUS_ERR(emq_open(&h->c, emq_cstr(h->url), NULL, &err), EMQ_OK, &err);
}

void herd_close(struct herd *h)
{
    field_audit(h->c, "q");
    emq_close(h->c);
}

void herd_add(struct herd *h, const char *id, int64_t delay_ms)
{
    emq_add_opts o = {.size = sizeof o,
                      .id = emq_cstr(id),
                      .delay_ms = delay_ms,
                      .keep_completed_count = EMQ_KEEP_ALL};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_add(h->c, emq_cstr("q"), emq_cstr(""), &o, NULL, &err), EMQ_OK, &err);
}

pid_t herd_start(struct herd *h, const char *env, const char *args)
{
    char *argv[ARGS_MAX], *envp[ENV_MAX], text[600], output[700];
    posix_spawn_file_actions_t files;
    pid_t pid = 0;
    size_t n = 0, k = 0;
    static char program[] = CRASH_WORKER;

    argv[n++] = program;
    argv[n++] = h->url;
    argv[n++] = h->effects;
    (void)snprintf(text, sizeof text, "%s", args);
    char *save = text;
    for (char *word; (word = strsep(&save, " ")) != NULL && n < ARGS_MAX - 1;) {
        if (*word)
            argv[n++] = word;
    }
    argv[n] = NULL;
    char extra[200];
    (void)snprintf(extra, sizeof extra, "%s", env ? env : "HERD=1");
    envp[k++] = extra;
    for (char **e = environ; *e && k < ENV_MAX - 1; e++)
        envp[k++] = *e;
    envp[k] = NULL;
    (void)snprintf(output, sizeof output, "%s/out%d", test_temp_dir(), ++h->n);
    CHECK_INT(posix_spawn_file_actions_init(&files), 0);
    CHECK_INT(
        posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600), 0);
    CHECK_INT(posix_spawn(&pid, CRASH_WORKER, &files, NULL, argv, envp), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    return pid;
}

static int wait_until(pid_t pid, int flags)
{
    int64_t until = emq__mono_now().us / 1000 + DEADLINE_MS;
    int status = 0;

    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG | flags);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            fail_msg("waitpid: %s", strerror(errno));
        if (emq__mono_now().us / 1000 > until) {
            (void)kill(pid, SIGKILL);
            fail_msg("process %ld did not end within %d s", (long)pid, DEADLINE_MS / 1000);
        }
        herd_nap(2);
    }
}

int herd_wait(pid_t pid)
{
    return wait_until(pid, 0);
}

void herd_kill(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)wait_until(pid, 0);
}

void herd_stopped(pid_t pid)
{
    int status = wait_until(pid, WUNTRACED);

    CHECK(WIFSTOPPED(status));
}

void herd_work_off(struct herd *h, const char *args)
{
    char text[600];

    (void)snprintf(text, sizeof text, "empty=1 interval=100 %s", args);
    int status = herd_wait(herd_start(h, NULL, text));
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
}

const char *herd_output(struct herd *h, int n)
{
    static char text[300];
    char path[700];

    (void)h;
    (void)snprintf(path, sizeof path, "%s/out%d", test_temp_dir(), n);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    size_t len = fread(text, 1, sizeof text - 1, f);
    text[len] = '\0';
    fclose(f);
    return text;
}

/* ---- effects ----------------------------------------------------------------------------- */

struct effect {
    char what;
    char id[280];
    long pid;
};

static bool effect_next(FILE *f, struct effect *e)
{
    return fscanf(f, " %c %279s %ld", &e->what, e->id, &e->pid) == 3;
}

int herd_count(struct herd *h, char what, const char *id, pid_t pid)
{
    struct effect e;
    int n = 0;
    FILE *f = fopen(h->effects, "re");

    if (!f)
        return 0;
    while (effect_next(f, &e))
        n += e.what == what && (!id || strcmp(e.id, id) == 0) && (pid == 0 || e.pid == pid);
    fclose(f);
    return n;
}

int herd_distinct(struct herd *h, char what, int *most)
{
    struct effect e;
    struct emq__map seen = {0};
    FILE *f = fopen(h->effects, "re");

    *most = 0;
    CHECK(f != NULL);
    while (effect_next(f, &e)) {
        if (e.what != what)
            continue;
        uintptr_t n = (uintptr_t)emq__map_get(&seen, emq_cstr(e.id)) + 1;
        CHECK(emq__map_put(&seen, emq_cstr(e.id), (void *)n));
        *most = (int)n > *most ? (int)n : *most;
    }
    fclose(f);
    int n = (int)seen.len;
    emq__map_free(&seen);
    return n;
}

int64_t herd_state(struct herd *h, int state)
{
    emq_queue_stats st = {.size = sizeof st};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_stats(h->c, emq_cstr("q"), &st, &err), EMQ_OK, &err);
    return st.count[state];
}

emq_job *herd_job(struct herd *h, const char *id)
{
    emq_job *j = NULL;
    emq_error err = {0};
    emq_status s = emq_get(h->c, emq_cstr("q"), emq_cstr(id), &j, &err);

    if (s != EMQ_NOT_FOUND)
        CHECK_STATUS_ERR(s, EMQ_OK, &err);
    return j;
}
