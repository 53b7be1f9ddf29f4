/* SPDX-License-Identifier: MIT
 *
 * Counting. Statements come from SQLite's own trace hook, set on every connection of the process;
 * syncs and writes from standing in front of libc's functions, which the shared libsqlite3 calls.
 */
#include "counters.h"

#include "bench.h"
#include "sql.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(struct counters *) counting;
static pthread_mutex_t texts_mu = PTHREAD_MUTEX_INITIALIZER;

int fdatasync(int fd);
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at);

static int is_log(int fd)
{
    char link[32], path[PATH_LEN];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    return n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    struct counters *c = atomic_load_explicit(&counting, memory_order_relaxed);

    if (c) {
        atomic_fetch_add(&c->syncs, 1);
        if (!is_log(fd))
            atomic_fetch_add(&c->syncs_db, 1);
    }
    return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *bytes, size_t n,
                                                        off64_t at)
{
    struct counters *c = atomic_load_explicit(&counting, memory_order_relaxed);

    if (c) {
        atomic_fetch_add(&c->writes, 1);
        atomic_fetch_add(&c->written, (long long)n);
    }
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}

/* The engine's name of a statement, else its first words. */
static void name_of(const char *sql, char out[STATEMENT_LEN])
{
    for (int i = 0; i < SQ_SQL_COUNT; i++)
        if (strncmp(sq_sql_text[i], sql, strlen(sql)) == 0 && strlen(sql) > 20) {
            (void)snprintf(out, STATEMENT_LEN, "%s", sq_sql_name[i]);
            return;
        }
    (void)snprintf(out, STATEMENT_LEN, "%.40s", sql);
}

static int on_statement(unsigned event, void *user, void *stmt, void *text)
{
    struct counters *c = atomic_load(&counting);
    const char *sql = sqlite3_sql(stmt);
    char name[STATEMENT_LEN];
    int i = 0;

    (void)event;
    (void)user;
    (void)text;
    if (!c || !sql)
        return 0;
    atomic_fetch_add(&c->statements, 1);
    if (strncmp(sql, "COMMIT", 6) == 0)
        atomic_fetch_add(&c->commits, 1);
    name_of(sql, name);
    pthread_mutex_lock(&texts_mu);
    while (i < c->n_texts && strcmp(c->texts[i].text, name) != 0)
        i++;
    if (i < STATEMENTS_MAX) {
        if (i == c->n_texts) {
            (void)snprintf(c->texts[i].text, STATEMENT_LEN, "%s", name);
            c->n_texts++;
        }
        c->texts[i].n++;
    }
    pthread_mutex_unlock(&texts_mu);
    return 0;
}

static int on_connection(sqlite3 *db, char **message, const void *api)
{
    (void)message;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

void counters_install(void)
{
    if (sqlite3_auto_extension((void (*)(void))on_connection) != SQLITE_OK)
        die("sqlite3_auto_extension failed");
}

void counters_start(struct counters *c)
{
    atomic_store(&counting, c);
}

void counters_stop(void)
{
    atomic_store(&counting, NULL);
}

void counters_trace(void *user, int level, const char *text, size_t len)
{
    struct counters *c = atomic_load(&counting);
    char name[ACT_LEN];
    char line[128];
    int i = 0;

    (void)user;
    (void)level;
    (void)snprintf(line, sizeof line, "%.*s", (int)len, text);
    if (!c || sscanf(line, "engine %*s %15s", name) != 1)
        return;
    pthread_mutex_lock(&texts_mu);
    while (i < c->n_acts && strcmp(c->acts[i].name, name) != 0)
        i++;
    if (i < ACTS_MAX) {
        if (i == c->n_acts) {
            (void)snprintf(c->acts[i].name, ACT_LEN, "%s", name);
            c->n_acts++;
        }
        c->acts[i].n++;
    }
    pthread_mutex_unlock(&texts_mu);
}
