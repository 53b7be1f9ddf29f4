/* SPDX-License-Identifier: MIT
 *
 * Other processes of the ground's tests. Each writes a line to stdout when it has done what the test
 * waits for. A failure ends it with status 1 and a line on stderr.
 *
 *   loop PATH SYNC FIRST MS   prints "waiting", waits for the bell of "go" (MS under 100: does not);
 *                             puts FIRST, FIRST + 1, ... for MS; prints how many were acknowledged
 *   acks PATH SYNC FIRST      the same without end, one line a number once it is acknowledged
 *   hold PATH                 holds turn and write lock for ever; prints "held"
 *   hold-orphan PATH          the same, after a fork; prints "held" and the child's process id
 *   foreign-hold PATH MS      a program without turns: BEGIN IMMEDIATE, "held", MS, COMMIT
 *   foreign-look PATH         opens with plain SQLite, reads, closes
 *   ring PATH QUEUE           wakes who waits for the queue
 *   wait PATH QUEUE           prints "waiting", waits, prints "rung" or "timeout"
 */
#include "engine/sqlite/ground.h"

#include "base/str.h"

#include <time.h>
#include <unistd.h>

static _Noreturn void die(const char *what, const emq_error *err)
{
    fprintf(stderr, "sq_helper: %s: %s: %s\n", what, emq_status_name((emq_status)err->status),
            err->text);
    exit(1);
}

static void say(const char *line)
{
    (void)!write(STDOUT_FILENO, line, strlen(line));
}

static void say_number(int64_t n)
{
    char line[32];

    (void)snprintf(line, sizeof line, "%lld\n", (long long)n);
    say(line);
}

static void sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

static int64_t number(const char *text)
{
    int64_t n = 0;

    if (!emq__str_to_i64(emq_cstr(text), &n))
        die(text, &(emq_error){.text = "no number"});
    return n;
}

static struct sq *open_at(const char *path, const char *sync)
{
    struct emq__arena mem = {0};
    struct emq__engine *e = NULL;
    struct emq__engine_config cfg = {.url = {.path = emq_cstr(path), .n_params = 1}};
    emq_error err = {0};

    cfg.url.params[0] = (struct emq__url_param){EMQ_STR_LIT("sync"), emq_cstr(sync)};
    if (emq__sqlite_open(&e, &cfg, &mem, &err) != EMQ_OK)
        die("open", &err);
    emq__arena_free(&mem);
    return (struct sq *)e;
}

static emq_status put(struct sq_tx *tx, void *arg, emq_error *err)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%lld, 'helper')", *(long long *)arg);
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put", err);
}

static int64_t put_for(struct sq *s, long long first, int64_t ms, bool say_each)
{
    int64_t end = sq_monotonic_us() + ms * 1000, done = 0;
    emq_error err = {0};

    for (; say_each || sq_monotonic_us() < end; done++, first++) {
        if (sq_write(s, put, &first, &err) != EMQ_OK)
            die("put", &err);
        if (say_each)
            say_number(first);
    }
    return done;
}

static _Noreturn emq_status hold(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    say("held\n");
    for (;;)
        (void)pause();
}

/* A child that outlives its parent keeps the parent's open file descriptions, and what they lock. */
static _Noreturn emq_status hold_orphan(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    pid_t child = fork();
    if (child == 0)
        for (;;)
            (void)pause();
    say("held\n");
    say_number(child);
    for (;;)
        (void)pause();
}

static void plain(const char *path, const char *sql, int64_t ms)
{
    sqlite3 *db = NULL;
    char *text = NULL;
    int rc = sqlite3_open(path, &db);

    if (rc == SQLITE_OK)
        (void)sqlite3_busy_timeout(db, 5000);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, sql, NULL, NULL, &text);
    if (rc != SQLITE_OK) {
        fprintf(stderr, "sq_helper: plain SQLite: %d %s\n", rc, text ? text : "");
        exit(1);
    }
    if (ms > 0) {
        say("held\n");
        sleep_ms(ms);
        (void)sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    }
    (void)sqlite3_close(db);
}

static void ring(struct sq *s, const char *queue)
{
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("emq"), .queue = emq_cstr(queue)};
    struct emq__wake_res res;
    emq_error err = {0};

    if (s->base.ops->wake(&s->base, &req, &res, NULL, &err) != EMQ_OK)
        die("ring", &err);
}

static bool wait_for(struct sq *s, const char *queue)
{
    emq_str q = emq_cstr(queue);
    struct emq__wait_req req = {
        .prefix = EMQ_STR_LIT("emq"), .queues = &q, .n = 1, .timeout_ms = 1000};
    struct emq__wait_res res;
    emq_error err = {0};

    req.ticket = s->base.ops->ticket(&s->base, req.prefix, &q, 1);
    say("waiting\n");
    emq_status st;
    int rounds = 20;
    do
        st = s->base.ops->wait(&s->base, &req, &res, NULL, &err);
    while (st == EMQ_TIMEOUT && --rounds > 0);
    return st == EMQ_OK;
}

static void loop(struct sq *s, int64_t first, int64_t ms)
{
    if (ms >= 100 && !wait_for(s, "go"))
        die("go", &(emq_error){.text = "was never rung"});
    say_number(put_for(s, first, ms, false));
}

int main(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[1] : "";
    const char *path = argc > 2 ? argv[2] : "";
    struct sq *s = NULL;

    if (strcmp(verb, "foreign-hold") == 0 && argc == 4) {
        plain(path, "BEGIN IMMEDIATE", number(argv[3]));
        return 0;
    }
    if (strcmp(verb, "foreign-look") == 0) {
        plain(path, "SELECT count(*) FROM sqlite_schema", 0);
        return 0;
    }
    s = open_at(path, argc > 4 ? argv[3] : "full");
    if (strcmp(verb, "loop") == 0 && argc == 6)
        loop(s, number(argv[4]), number(argv[5]));
    else if (strcmp(verb, "acks") == 0 && argc == 5)
        (void)put_for(s, number(argv[4]), 0, true);
    else if (strcmp(verb, "hold") == 0)
        (void)sq_write(s, hold, NULL, NULL);
    else if (strcmp(verb, "hold-orphan") == 0)
        (void)sq_write(s, hold_orphan, NULL, NULL);
    else if (strcmp(verb, "ring") == 0 && argc == 4)
        ring(s, argv[3]);
    else if (strcmp(verb, "wait") == 0 && argc == 4)
        say(wait_for(s, argv[3]) ? "rung\n" : "timeout\n");
    else
        die(verb, &(emq_error){.text = "no such verb"});
    s->base.ops->close(&s->base);
    return 0;
}
