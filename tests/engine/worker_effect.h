/* SPDX-License-Identifier: MIT
 *
 * Handlers with effects, for the tests of a worker: those that commit with the acknowledgement, and marked ones.
 * What handlers are to do is in `todo`; the ledger of the store's own effects is a table, or a key of the server.
 */
#ifndef EMQ_TESTS_WORKER_EFFECT_H
#define EMQ_TESTS_WORKER_EFFECT_H

#include "worker_fixture.h"

#include "base/error.h"
#include "base/str.h"
#include "client/effect.h"
#ifdef EMQ_HAVE_REDIS
#include "lib/server.h"
#endif

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_MS = 300 };

static struct {
    emq_client *c;
    struct probe *p;
    bool server;
    int policy, probe;  /* of marked effects */
    atomic_int effects; /* that a marked effect made */
    atomic_int probes;
    atomic_int said; /* what the call answered; -100 = it was not made */
    emq_verdict effect_says, then;
    const char *kill_at; /* "M0"…"M3" */
    const char *freeze_at;
    atomic_int frozen; /* once: the next one passes */
    char ledger[600];  /* a file, or a folder of keys */
} todo;

static inline void reach(const char *point)
{
    int none = 0;

    if (todo.kill_at && strcmp(todo.kill_at, point) == 0)
        (void)raise(SIGKILL);
    if (!todo.freeze_at || strcmp(todo.freeze_at, point) != 0 ||
        !atomic_compare_exchange_strong(&todo.frozen, &none, 1))
        return;
    while (!atomic_load(&todo.p->gate))
        wf_nap(2);
}

static inline struct bench *effects_open(void)
{
    struct bench *b = bench_open("q");

    memset(&todo, 0, sizeof todo);
    todo.c = b->f.c;
    todo.p = &b->p;
    todo.server = strncmp(b->f.url, "redis", 5) == 0;
    todo.policy = EMQ_DOUBT_REDO;
    atomic_store(&todo.said, -100);
    b->o.o.lock_ms = LOCK_MS;
    b->o.o.stalled_interval_ms = 100;
    return b;
}

/* ---- the store's own effects ------------------------------------------------------------- */

static inline sqlite3 *open_file(const struct wf *f)
{
    char path[600];
    const char *from = f->url + strlen("sqlite:");
    sqlite3 *db;

    (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(from, "?"), from);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, PATIENCE_MS), SQLITE_OK);
    return db;
}

static inline void ledger_make(const struct wf *f)
{
    if (todo.server)
        return;
    sqlite3 *db = open_file(f);
    CHECK_INT(sqlite3_exec(db, "CREATE TABLE ledger (job TEXT)", 0, 0, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static inline long long ledger_count(const struct wf *f)
{
#ifdef EMQ_HAVE_REDIS
    if (todo.server) {
        const char *valkey = getenv("EMQ_TEST_ENGINE");
        struct server *s = server_of_program(
            valkey && strcmp(valkey, "valkey") == 0 ? SERVER_VALKEY : SERVER_REDIS);
        return server_number(server_command(
            s, "EVAL %s 0 %s",
            "redis.call('SELECT', ARGV[1]) return tonumber(redis.call('GET', 'ledger') or 0)",
            strrchr(f->url, '/') + 1));
    }
#endif
    sqlite3 *db = open_file(f);
    sqlite3_stmt *st;
    CHECK_INT(sqlite3_prepare_v2(db, "SELECT count(*) FROM ledger", -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    long long n = sqlite3_column_int64(st, 0);
    CHECK_INT(sqlite3_finalize(st), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    return n;
}

static inline int insert_row(struct sqlite3 *db, void *arg)
{
    const char *bad = arg;

    reach("M1");
    int rc = sqlite3_exec(db, "INSERT INTO ledger VALUES ('x')", 0, 0, NULL);
    reach("M2");
    return bad ? 1 : rc;
}

/* bad: it can't be done. */
static inline emq_status own_effect(emq_job *job, bool bad, emq_error *err)
{
    static char failing[] = "failing";
    emq_effect_opts o = {.size = sizeof o, .result = S("{\"by\":\"effect\"}")};

    if (!todo.server)
        return emq_effect_sqlite(todo.c, job, insert_row, bad ? failing : NULL, &o, err);
    const emq_str incr[] = {S("INCR"), S("ledger")}, wrong[] = {S("LPUSH"), S("ledger"), S("1")};
    const emq_redis_command first = {sizeof first, incr, 2}, second = {sizeof second, wrong, 3};
    const emq_redis_command *const all[] = {&first, &second};
    reach("M1");
    return emq_effect_redis(todo.c, job, all, bad ? 2 : 1, &o, err);
}

static inline emq_verdict own_handler(emq_job *job, void *user)
{
    emq_error err = {0};

    (void)user;
    reach("M0");
    emq_status s = own_effect(job, false, &err);
    if (emq__is_failure(s))
        fprintf(stderr, "handler: %s: %s\n", emq_status_name(s), err.text);
    atomic_store(&todo.said, (int)s);
    reach("M3");
    return s == EMQ_OK ? todo.then : EMQ_RETRY;
}

static inline emq_verdict overruled_first(emq_job *job, void *user)
{
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED, .force = 1};

    if (emq_settle(todo.c, emq_job_queue(job), emq_job_id(job), NONE, &o, NULL) != EMQ_OK)
        atomic_fetch_add(&todo.p->wrong, 1);
    return own_handler(job, user);
}

/* ---- marked effects ---------------------------------------------------------------------- */

static inline emq_verdict make_effect(emq_job *job, void *arg)
{
    emq_error err = {0};

    (void)arg;
    reach("M1");
    atomic_fetch_add(&todo.effects, 1);
    if (todo.ledger[0]) {
        int fd = open(todo.ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, ".", 1) != 1 || fsync(fd) != 0)
            atomic_fetch_add(&todo.p->wrong, 1);
        (void)close(fd);
    }
    reach("M2");
    if (emq_job_set_result(job, S("receipt"), &err) != EMQ_OK)
        atomic_fetch_add(&todo.p->wrong, 1);
    return todo.effect_says;
}

static inline emq_probe_answer ask(emq_job *job, void *arg)
{
    (void)job, (void)arg;
    atomic_fetch_add(&todo.probes, 1);
    return (emq_probe_answer)todo.probe;
}

static inline emq_effect_plan plan_of(void)
{
    return (emq_effect_plan){.size = sizeof(emq_effect_plan),
                             .step = S("pay"),
                             .effect = make_effect,
                             .probe = ask,
                             .policy = todo.policy};
}

static inline emq_verdict marked_handler(emq_job *job, void *user)
{
    emq_effect_plan plan = plan_of();
    emq_error err = {0};

    (void)user;
    reach("M0");
    emq_status s = emq_effect_run(todo.c, job, &plan, &err);
    if (emq__is_failure(s))
        fprintf(stderr, "handler: %s: %s\n", emq_status_name(s), err.text);
    atomic_store(&todo.said, (int)s);
    reach("M3");
    return s == EMQ_OK ? todo.then : s == EMQ_PARKED ? EMQ_FAIL : EMQ_RETRY;
}

static inline int marker_state(struct bench *b)
{
    emq_effect **list = NULL;
    size_t n = 0;

    CHECK_STATUS(emq_effect_list(b->f.c, S("q"), S("a"), NULL, 0, &list, &n, NULL), EMQ_OK);
    int state = n ? emq_effect_get_state(list[0]) : EMQ_EFFECT_NONE;
    for (size_t i = 0; i < n; i++)
        emq_effect_free(list[i]);
    free(list);
    return state;
}

#endif
