/* SPDX-License-Identifier: MIT
 *
 * See ground.h.
 */
#include "lab/ground.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "lab/keys.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { START_MS = 20000, IO_MS = 20000, SOCKET_PATH_MAX = 107 };

static emq_status failed(int why, const char *what, emq_error *err)
{
    return emq__fail(err, EMQ_E_SYSTEM, why, "lab", "%s: %s", what, strerror(why));
}

/* The end of a log. */
static void said(const char *log, char *out, size_t cap)
{
    FILE *f = fopen(log, "re");

    out[0] = '\0';
    if (!f)
        return;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) > (long)cap - 1)
        (void)fseek(f, -(long)cap + 1, SEEK_END);
    else
        rewind(f);
    size_t n = fread(out, 1, cap - 1, f);
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
        n--;
    out[n] = '\0';
    (void)fclose(f);
}

/* ---- servers ----------------------------------------------------------------------------- */

static bool takes_calls(void *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(a.sun_path, path, strlen(path) + 1);
    bool yes = fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        (void)close(fd);
    return yes;
}

/* Starts a process that listens on a unix socket, and waits until it does. */
static emq_status start(const struct lab_ground *g, const char *const *argv, const char *log,
                        char *socket_path, pid_t *pid, emq_error *err)
{
    char text[150];
    int status = 0;

    if (strlen(socket_path) > SOCKET_PATH_MAX)
        return emq__fail(err, EMQ_E_SYSTEM, ENAMETOOLONG, "lab",
                         "%s is too long for a socket: set TMPDIR to a shorter folder",
                         socket_path);
    int rc = lab_spawn(argv, NULL, log, pid);
    if (rc)
        return failed(rc, argv[0], err);
    for (int i = 0; i < START_MS / 50 && !atomic_load(&g->stop); i++) {
        if (lab_until(takes_calls, socket_path, 50, &g->stop))
            return EMQ_OK;
        enum lab_end end = lab_wait(*pid, 0, NULL, &status);
        if (end == LAB_EXITED || end == LAB_KILLED) {
            *pid = 0;
            break;
        }
    }
    lab_kill(*pid);
    *pid = 0;
    said(log, text, sizeof text);
    return emq__fail(err, EMQ_E_UNAVAIL, 0, "lab", "%s did not start (status %d)%s%s",
                     argv[4] ? argv[4] : argv[2], status, text[0] ? ": " : "", text);
}

/* Redis or Valkey on a unix socket in a folder; `keeps`: what it acknowledged survives a kill. */
static emq_status start_server(const struct lab_ground *g, const char *dir, bool keeps, pid_t *pid,
                               emq_error *err)
{
    char path[LAB_PATH_MAX + 20], log[LAB_PATH_MAX + 20];

    (void)snprintf(path, sizeof path, "%s/server", dir);
    (void)snprintf(log, sizeof log, "%s/server.log", dir);
    (void)unlink(path);
    const char *const argv[] = {g->exe,
                                LAB_VERB,
                                "exec",
                                "--",
                                g->program,
                                "--port",
                                "0",
                                "--unixsocket",
                                path,
                                "--dir",
                                dir,
                                "--save",
                                "",
                                "--appendonly",
                                keeps ? "yes" : "no",
                                "--appendfsync",
                                "always",
                                NULL};
    return start(g, argv, log, path, pid, err);
}

static void server_url(const char *dir, char out[LAB_PATH_MAX])
{
    (void)snprintf(out, LAB_PATH_MAX, "redis+unix://%.*s/server", LAB_PATH_MAX - 40, dir);
}

/* ---- the ground -------------------------------------------------------------------------- */

static emq_status start_pay(struct lab_ground *g, emq_error *err)
{
    char log[LAB_PATH_MAX + 20];

    (void)snprintf(g->pay, sizeof g->pay, "%.*s/pay", LAB_PATH_MAX - 20, g->dir);
    (void)snprintf(log, sizeof log, "%s/pay.log", g->dir);
    const char *const argv[] = {g->exe, LAB_VERB, "pay", g->pay, NULL};
    return start(g, argv, log, g->pay, &g->pay_pid, err);
}

emq_status lab_ground_open(struct lab_ground *g, emq_error *err)
{
    char id[EMQ__RANDOM_ID_LEN + 1];
    int rc = lab_folder(g->where, g->dir);

    if (rc == 0)
        rc = lab_folder_claim(g->dir);
    if (rc)
        return failed(rc, g->where ? g->where : "no folder below TMPDIR", err);
    emq__random_id(id);
    /* On a cluster a queue's keys, and the counter beside them, are of one slot. */
    bool cluster = g->url && emq__str_starts(emq_cstr(g->url), "redis+cluster");
    (void)snprintf(g->prefix, sizeof g->prefix, cluster ? "{emq-lab-%s}" : "emq-lab-%s", id);
    if (!lab_self(g->exe))
        return failed(errno, "/proc/self/exe", err);
    emq_status s = g->url ? lab_pulse_start(g->url, g->prefix, &g->pulse, err) : EMQ_OK;
    if (s == EMQ_OK)
        s = start_pay(g, err);
    if (s == EMQ_OK && g->program) {
        s = start_server(g, g->dir, false, &g->server_pid, err);
        server_url(g->dir, g->own_url);
    }
    return s;
}

emq_status lab_ground_close(struct lab_ground *g, emq_error *err)
{
    emq_status s = EMQ_OK;

    lab_pulse_stop(g->pulse);
    if (g->pulse) {
        const emq_open_opts o = {.size = sizeof o, .prefix = emq_cstr(g->prefix)};
        emq_client *c;
        s = emq_open(&c, emq_cstr(g->url), &o, err);
        if (s == EMQ_OK) {
            s = lab_keys_remove(c, g->prefix, err);
            emq_close(c);
        }
    }
    lab_kill(g->server_pid);
    lab_kill(g->pay_pid);
    if (g->dir[0])
        lab_remove(g->dir);
    return s;
}

/* ---- stores ------------------------------------------------------------------------------ */

emq_status lab_store_open(struct lab_ground *g, struct lab_store *s, bool own_server,
                          emq_error *err)
{
    int n = atomic_fetch_add(&g->stores, 1);

    *s = (struct lab_store){.server = lab_on_server(g)};
    (void)snprintf(s->dir, sizeof s->dir, "%.*s/%d", LAB_PATH_MAX - 60, g->dir, n);
    (void)snprintf(s->queue, sizeof s->queue, "q%d", n);
    (void)snprintf(s->log, sizeof s->log, "%.*s/log", LAB_PATH_MAX - 20, s->dir);
    if (mkdir(s->dir, 0700) != 0)
        return failed(errno, s->dir, err);
    if (own_server) {
        server_url(s->dir, s->url);
        return start_server(g, s->dir, true, &s->server_pid, err);
    }
    if (s->server)
        (void)snprintf(s->url, sizeof s->url, "%s", g->url ? g->url : g->own_url);
    else
        (void)snprintf(s->url, sizeof s->url, "%.*s/queue.db", LAB_PATH_MAX - 20, s->dir);
    return EMQ_OK;
}

emq_status lab_store_again(struct lab_ground *g, struct lab_store *s, emq_error *err)
{
    return start_server(g, s->dir, true, &s->server_pid, err);
}

void lab_store_close(struct lab_store *s)
{
    lab_kill(s->server_pid);
    s->server_pid = 0;
    if (s->dir[0])
        lab_remove(s->dir);
}

emq_status lab_store_client(const struct lab_ground *g, const struct lab_store *s, emq_client **out,
                            emq_error *err)
{
    const emq_open_opts o = {
        .size = sizeof o, .prefix = emq_cstr(g->prefix), .io_timeout_ms = IO_MS};

    return emq_open(out, emq_cstr(s->url), &o, err);
}

void lab_store_said(const struct lab_store *s, char *out, size_t cap)
{
    said(s->log, out, cap);
}
