/* SPDX-License-Identifier: MIT
 *
 * See ground.h.
 */
#include "ground.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DEADLINE_MS = 20000 };

const char *ground_path(const char *name)
{
    static char path[32][PATH_MAX]; /* each name once: a path stays what it is for the whole test */
    static int next;
    char full[PATH_MAX];

    (void)snprintf(full, sizeof full, "%s/%s", test_temp_dir(), name);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(path); i++)
        if (strcmp(path[i], full) == 0)
            return path[i];
    next = (next + 1) % (int)EMQ_ARRAY_LEN(path);
    memcpy(path[next], full, sizeof full);
    return path[next];
}

static emq_status make_table(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc =
        sqlite3_exec(tx->conn->db, "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, pad TEXT)",
                     NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "table", err);
}

emq_status ground_open_only(const char *path, const char *sync, int64_t io_timeout_ms,
                            const struct emq__log *log, struct sq **out, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__engine *e = NULL;
    struct emq__engine_config cfg = {.io_timeout_ms = io_timeout_ms};

    if (log)
        cfg.log = *log;
    cfg.url.scheme = EMQ_STR_LIT("sqlite");
    cfg.url.path = emq_cstr(path);
    if (sync) {
        cfg.url.n_params = 1;
        cfg.url.params[0] = (struct emq__url_param){EMQ_STR_LIT("sync"), emq_cstr(sync)};
    }
    emq_status st = emq__sqlite_open(&e, &cfg, &mem, err);
    emq__arena_free(&mem);
    *out = (struct sq *)e;
    return st;
}

emq_status ground_try_open(const char *path, const char *sync, int64_t io_timeout_ms,
                           struct sq **out, emq_error *err)
{
    emq_status st = ground_open_only(path, sync, io_timeout_ms, NULL, out, err);

    return st == EMQ_OK ? sq_write(*out, make_table, NULL, err) : st;
}

struct sq *ground_open(const char *path, const char *sync, int64_t io_timeout_ms)
{
    emq_error err = {0};
    struct sq *s = NULL;

    CHECK_STATUS_ERR(ground_try_open(path, sync, io_timeout_ms, &s, &err), EMQ_OK, &err);
    return s;
}

void ground_close(struct sq *s)
{
    s->base.ops->close(&s->base);
}

static emq_status put(struct sq_tx *tx, void *arg, emq_error *err)
{
    const int64_t *n = arg;
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(tx->conn->db, "INSERT INTO t VALUES (?1, printf('%.200c', 'x'))",
                                -1, &st, NULL);

    if (rc == SQLITE_OK) {
        (void)sqlite3_bind_int64(st, 1, *n);
        rc = sqlite3_step(st);
    }
    emq_status status = rc == SQLITE_DONE ? EMQ_OK : sq_error(tx->conn, rc, "put", err);
    (void)sqlite3_finalize(st);
    return status;
}

emq_status ground_put(struct sq *s, int64_t n, emq_error *err)
{
    return sq_write(s, put, &n, err);
}

struct query {
    int64_t n, count, found;
};

static emq_status query(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct query *q = arg;
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(
        tx->conn->db, "SELECT count(*), count(*) FILTER (WHERE n = ?1) FROM t", -1, &st, NULL);

    if (rc == SQLITE_OK) {
        (void)sqlite3_bind_int64(st, 1, q->n);
        rc = sqlite3_step(st);
    }
    emq_status status = rc == SQLITE_ROW ? EMQ_OK : sq_error(tx->conn, rc, "query", err);
    if (rc == SQLITE_ROW) {
        q->count = sqlite3_column_int64(st, 0);
        q->found = sqlite3_column_int64(st, 1);
    }
    (void)sqlite3_finalize(st);
    return status;
}

bool ground_has(struct sq *s, int64_t n)
{
    struct query q = {.n = n};
    emq_error err = {0};

    CHECK_STATUS_ERR(sq_read(s, query, &q, &err), EMQ_OK, &err);
    return q.found == 1;
}

int64_t ground_count(struct sq *s)
{
    struct query q = {0};
    emq_error err = {0};

    CHECK_STATUS_ERR(sq_read(s, query, &q, &err), EMQ_OK, &err);
    return q.count;
}

/* ---- helpers -------------------------------------------------------------------------------- */

struct helper helper_start(const char *const *argv)
{
    struct helper h = {.pid = -1, .out = -1};
    int fds[2];
    posix_spawn_file_actions_t acts;
    char *args[12] = {0};

    for (size_t i = 0; argv[i] && i + 1 < EMQ_ARRAY_LEN(args); i++)
        args[i] = strdup(argv[i]);
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    CHECK_INT(posix_spawn_file_actions_init(&acts), 0);
    CHECK_INT(posix_spawn_file_actions_adddup2(&acts, fds[1], STDOUT_FILENO), 0);
    CHECK_INT(posix_spawn(&h.pid, args[0], &acts, NULL, args, environ), 0);
    (void)posix_spawn_file_actions_destroy(&acts);
    (void)close(fds[1]);
    h.out = fds[0];
    for (size_t i = 0; i < EMQ_ARRAY_LEN(args); i++)
        free(args[i]);
    return h;
}

void helper_line(struct helper *h, char *out, size_t cap)
{
    size_t n = 0;

    for (;;) {
        struct pollfd p = {.fd = h->out, .events = POLLIN};
        char ch;
        if (poll(&p, 1, DEADLINE_MS) != 1)
            fail_msg("a helper was silent for %d ms", DEADLINE_MS);
        if (read(h->out, &ch, 1) != 1)
            fail_msg("a helper ended instead of writing a line (after '%.*s')", (int)n, out);
        if (ch == '\n')
            break;
        if (n + 1 < cap)
            out[n++] = ch;
    }
    out[n] = '\0';
}

void helper_expect(struct helper *h, const char *line)
{
    char got[256];

    helper_line(h, got, sizeof got);
    assert_string_equal(got, line);
}

void helper_kill(struct helper *h, int sig)
{
    CHECK_INT(kill(h->pid, sig), 0);
}

int helper_end(struct helper *h)
{
    int status = 0;

    (void)close(h->out);
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void helper_killed(struct helper *h)
{
    helper_kill(h, SIGKILL);
    CHECK_INT(helper_end(h), 128 + SIGKILL);
}
