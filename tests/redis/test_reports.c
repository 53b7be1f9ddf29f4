/* SPDX-License-Identifier: MIT
 *
 * Faults that users of other queues reported and that only a server shows: tests/field/README.md has the table.
 */
#include "engine/worker_fixture.h"
#include "field/audit.h"
#include "redis/the_server.h"

#include "model/job.h"

#include <dirent.h>

/* What somebody else does in the database of `b`, in Lua. */
static const char *raw(const struct bench *b, const char *lua)
{
    char script[1000];

    int n = snprintf(script, sizeof script, "redis.call('SELECT', ARGV[1]) %s", lua);
    CHECK(n > 0 && (size_t)n < sizeof script);
    return SERVER_DO("EVAL %s 0 %s", script, strrchr(b->f.url, '/') + 1);
}

static void done(struct bench *b, emq_worker *w)
{
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- wake-ups ------------------------------------------------------------------------------------ */

EMQ_TEST(an_idle_worker_whose_marker_was_lost_still_finds_jobs_within_seconds)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);

    WAIT_FOR(probe_saw(&b->p, "ready:"));
    (void)raw(
        b,
        "local t = redis.call('TIME')[1] * 1000 "
        "for _, id in ipairs({'now', 'due'}) do redis.call('HSET', 'emq:q:' .. id, 'name', 'job', "
        "'data', '{}', 'opts', '{}', 'timestamp', t, 'delay', 0, 'priority', 0) end "
        "redis.call('LPUSH', 'emq:q:wait', 'now') "
        "redis.call('ZADD', 'emq:q:delayed', (t + 500) * 4096, 'due') "
        "redis.call('HINCRBY', 'emq:q:meta', 'emq:n:added', 2)");
    WAIT_FOR(wf_state(&b->f, "q", "now") == EMQ_COMPLETED_STATE);
    WAIT_FOR(wf_state(&b->f, "q", "due") == EMQ_COMPLETED_STATE);
    done(b, w);
}

/* The id of a connection on which somebody waits; 0 = nobody does. */
static long long waiting_connection(void)
{
    for (const char *line = SERVER_DO("CLIENT LIST"); line; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        const char *flags = strstr(line, " flags=b");
        if (flags && flags < line + strcspn(line, "\n"))
            return strtoll(line + strlen("id="), NULL, 10);
    }
    return 0;
}

EMQ_TEST(a_waiting_worker_that_is_thrown_out_of_its_wait_waits_again)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);
    long long id = 0;

    for (int i = 0; i < 5; i++) {
        char name[8];
        WAIT_FOR((id = waiting_connection()) != 0);
        (void)SERVER_DO("CLIENT UNBLOCK %lld ERROR", id);
        (void)snprintf(name, sizeof name, "j%d", i);
        wf_add(&b->f, "q", name, "done");
        WAIT_FOR(wf_state(&b->f, "q", name) == EMQ_COMPLETED_STATE);
    }
    done(b, w);
}

EMQ_TEST(a_server_held_by_a_script_when_jobs_are_due_delays_them_and_ends_no_duty)
{
    struct server *s = START(.conf = "busy-reply-threshold 20");
    struct bench *b = bench_open("q");
    emq_client *c = NULL;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 200};
    emq_add_opts due = {.size = sizeof due, .id = S("due"), .delay_ms = 300};
    emq_add_opts held = {.size = sizeof held, .id = S("held")};

    FIELD_OK(emq_open(&c, S(s->url), &o, err));
    b->o.o.lock_ms = 3000;
    b->o.o.stalled_interval_ms = 100;
    b->o.o.concurrency = 2;
    FIELD_OK(emq_add(c, S("q"), S("hold!"), &held, NULL, err));
    emq_worker *w = wf_start_on(c, &b->o);
    WAIT_FOR(b->p.running == 1);
    FIELD_OK(emq_add(c, S("q"), S("done"), &due, NULL, err));
    (void)server_command(s, "EVAL %s 0",
                         "local till = os.clock() + 1.5 while os.clock() < till do end");
    WAIT_FOR(probe_saw(&b->p, "completed:due"));
    wf_nap(500); /* some sweeps and renewals */
    b->p.gate = 1;
    WAIT_FOR(probe_saw(&b->p, "completed:held"));
    wf_stop(w, 0);
    CHECK_INT(probe_runs(&b->p, "held"), 1);
    CHECK_INT(probe_runs(&b->p, "due"), 1);
    field_audit(c, "q");
    emq_close(c);
    bench_close(b);
    server_end(s);
}

/* ---- results -------------------------------------------------------------------------------------- */

struct waiter {
    emq_client *c;
    char id[16];
    emq_status got;
    pthread_t thread;
};

static void *wait_main(void *user)
{
    struct waiter *x = user;

    x->got = emq_wait(x->c, S("q"), S(x->id), PATIENCE_MS, NULL, NULL);
    return NULL;
}

EMQ_TEST(waiters_whose_connections_are_cut_around_the_end_of_their_jobs_still_get_the_results)
{
    enum { WAITERS = 24 };
    struct bench *b = bench_open("q");
    struct waiter x[WAITERS];

    b->o.o.concurrency = WAITERS;
    for (int i = 0; i < WAITERS; i++) {
        x[i] = (struct waiter){.c = b->f.c};
        (void)snprintf(x[i].id, sizeof x[i].id, "w%d", i);
        wf_add(&b->f, "q", x[i].id, i % 2 ? "hold done" : "hold fail");
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == WAITERS);
    for (int i = 0; i < WAITERS; i++)
        CHECK_INT(pthread_create(&x[i].thread, NULL, wait_main, &x[i]), 0);
    WAIT_FOR(waiting_connection() != 0);
    (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
    b->p.gate = 1;
    for (int i = 0; i < 10; i++) {
        (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
        wf_nap(5);
    }
    for (int i = 0; i < WAITERS; i++) {
        CHECK_INT(pthread_join(x[i].thread, NULL), 0);
        CHECK_STATUS(x[i].got, i % 2 ? EMQ_OK : EMQ_FAILED);
    }
    done(b, w);
}

/* ---- scripts, memory, roles ------------------------------------------------------------------------- */

enum { BULK = 100 };

static emq_status add_bulk(emq_client *c, emq_error *err)
{
    static emq_new_job jobs[BULK];
    static const emq_new_job *pointers[BULK];

    for (int i = 0; i < BULK; i++) {
        jobs[i] = (emq_new_job){sizeof jobs[i], S("q"), S("done"), NULL};
        pointers[i] = &jobs[i];
    }
    return emq_add_many(c, pointers, BULK, NULL, err);
}

EMQ_TEST(bulks_of_jobs_are_whole_though_scripts_are_forgotten_all_the_time)
{
    enum { TIMES = 30 };
    struct bench *b = bench_open("q");

    for (int i = 0; i < TIMES; i++) {
        (void)SERVER_DO("SCRIPT FLUSH");
        FIELD_OK(add_bulk(b->f.c, err));
    }
    CHECK_INT(wf_count(&b->f, "q", EMQ_WAITING), TIMES * BULK);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_bulk_that_a_server_refuses_is_refused_whole)
{
    struct server *s = start_plain();
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 300};
    emq_client *c = NULL;

    FIELD_OK(emq_open(&c, S(s->url), &o, err));
    FIELD_OK(add_bulk(c, err));
    (void)server_command(s, "CONFIG SET maxmemory 1");
    CHECK_STATUS(add_bulk(c, NULL), EMQ_E_FULL);
    (void)server_command(s, "CONFIG SET maxmemory 0");
    CHECK_INT(field_stats(c, "q").count[EMQ_WAITING], BULK);
    (void)server_command(s, "REPLICAOF 127.0.0.1 %d", server_free_port());
    CHECK_STATUS(add_bulk(c, NULL), EMQ_E_UNAVAIL);
    (void)server_command(s, "REPLICAOF NO ONE");
    CHECK_INT(field_stats(c, "q").count[EMQ_WAITING], BULK);
    FIELD_OK(add_bulk(c, err));
    field_audit(c, "q");
    CHECK_INT(field_stats(c, "q").total_added, 2 * BULK);
    emq_close(c);
    server_end(s);
}

EMQ_TEST(locks_that_a_server_evicted_lose_no_job_and_fail_none)
{
    enum { JOBS = 60 };
    struct bench *b = bench_open("q");

    wf_add_n(&b->f, "q", JOBS, "burn 10 done");
    b->o.o.concurrency = 2;
    b->o.o.max_stalled = 1000;
    b->o.o.stalled_interval_ms = 50;
    emq_worker *w = wf_start(&b->f, &b->o);
    while (wf_count(&b->f, "q", EMQ_COMPLETED_STATE) < JOBS) {
        (void)raw(b, "for _, key in ipairs(redis.call('KEYS', 'emq:q:*:lock')) do "
                     "redis.call('DEL', key) end");
        wf_nap(20);
    }
    CHECK_INT(wf_count(&b->f, "q", EMQ_FAILED_STATE), 0);
    for (int i = 1; i <= JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        CHECK(probe_runs(&b->p, id) >= 1);
    }
    done(b, w);
}

/* ---- growth --------------------------------------------------------------------------------------- */

static int open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

static int connections(void)
{
    int n = 0;

    for (const char *p = SERVER_DO("CLIENT LIST"); (p = strchr(p, '\n')) != NULL; p++)
        n++;
    return n;
}

EMQ_TEST(handles_opened_and_closed_leave_no_connection_and_no_descriptor)
{
    enum { TIMES = 200 };
    struct bench *b = bench_open("q");
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 300};
    char nobody[60];

    wf_add(&b->f, "q", "a", "done");
    int descriptors = open_descriptors(), there = connections();
    (void)snprintf(nobody, sizeof nobody, "redis://127.0.0.1:%d", server_free_port());
    for (int i = 0; i < TIMES; i++) {
        emq_client *c = NULL;
        FIELD_OK(emq_open(&c, S(b->f.url), NULL, err));
        (void)field_stats(c, "q");
        emq_close(c);
        CHECK_STATUS(emq_open(&c, S(nobody), &o, NULL), EMQ_E_UNAVAIL);
    }
    CHECK_INT(open_descriptors(), descriptors);
    WAIT_FOR(connections() == there); /* the server closes when it gets to it */
    bench_close(b);
}

EMQ_TEST(the_keys_stop_growing_when_retention_keeps_a_hundred_jobs)
{
    enum { CYCLES = 6, JOBS = 300, KEPT = 100 };
    struct bench *b = bench_open("q");

    b->o.o.on_event = NULL;
    b->o.o.concurrency = 4;
    (void)raw(b, "redis.call('HSET', 'emq:q:meta', 'opts.maxLenEvents', 500)");
    for (int i = 0; i < CYCLES; i++) {
        static const emq_add_opts kept = {.size = sizeof kept, .keep_completed_count = KEPT};
        for (int k = 0; k < JOBS; k++)
            FIELD_OK(emq_add(b->f.c, S("q"), S("log line result ok"), &kept, NULL, err));
        (void)work_off(b);
        /* Of each job that is kept: its record and its log. And no private key stays for ever. */
        CHECK_INT(server_number(raw(b, "return #redis.call('KEYS', 'emq:q:[0-9]*')")), 2 * KEPT);
        CHECK_INT(server_number(raw(
                      b, "local n = 0 for _, key in ipairs(redis.call('KEYS', 'emq::emq:*')) do "
                         "if redis.call('PTTL', key) < 0 then n = n + 1 end end return n")),
                  0);
    }
    CHECK(server_number(raw(b, "return redis.call('XLEN', 'emq:q:events')")) < 1000);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), KEPT);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- damaged records ----------------------------------------------------------------------------- */

/* key: of the job. */
static const struct {
    const char *lua;
    const char *end; /* NULL: it runs; else how it ends without being run, "gone" = no record */
} damage[] = {
    {"redis.call('HDEL', key, 'data')", "failed: " EMQ__TEXT_DAMAGED},
    {"redis.call('DEL', key)", "gone"},
    {"redis.call('DEL', key) redis.call('SET', key, 'text')", "gone"},
    {"redis.call('DEL', key) redis.call('RPUSH', key, 'text')", "gone"},
    {"redis.call('HSET', key, 'opts', 'garbage{')", NULL},
    {"redis.call('HSET', key, 'opts', '')", NULL},
    {"redis.call('HDEL', key, 'opts')", NULL},
    {"redis.call('HSET', key, 'opts', "
     "'{\"attempts\":{\"a\":1},\"backoff\":[],\"keepLogs\":\"x\"}')",
     NULL},
    {"redis.call('HSET', key, 'atm', 'x', 'ats', '-1', 'stc', '9e99')", NULL},
    {"redis.call('HSET', key, 'delay', 'x', 'priority', 'y', 'timestamp', 'z')", NULL},
    {"redis.call('HSET', key, 'stacktrace', 'no json', 'progress', '{', 'failedReason', '')", NULL},
    {"redis.call('HSET', key, 'parentKey', ':::', 'parent', 'no json')", NULL},
    {"redis.call('HSET', key, 'parentKey', 'emq:q:meta', 'parent', '{}')", NULL},
    {"redis.call('HSET', key, 'emq:tk', 'x', 'emq:renc', 'y', 'emq:exp', 'z', 'emq:group', '')",
     NULL},
    {"redis.call('SADD', key .. ':lock', 'x')", NULL},
    {"redis.call('SET', key .. ':logs', 'x')", NULL},
    {"redis.call('SET', key .. ':processed', 'x')", NULL},
    {"redis.call('LPUSH', 'emq:q:wait', '', '0:', '0:0', '0:1700000000000')", NULL},
};

EMQ_TEST(damaged_records_at_the_head_of_the_line_do_not_block_the_good_ones_behind)
{
    enum { BAD = EMQ_ARRAY_LEN(damage), GOOD = 10 };
    struct bench *b = bench_open("q");
    char lua[600], id[16];

    wf_add_n(&b->f, "q", BAD + GOOD, "done");
    for (size_t i = 0; i < BAD; i++) {
        (void)snprintf(lua, sizeof lua, "local key = 'emq:q:j%zu' %s", i + 1, damage[i].lua);
        (void)raw(b, lua);
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    for (int i = BAD + 1; i <= BAD + GOOD; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        WAIT_FOR(wf_state(&b->f, "q", id) == EMQ_COMPLETED_STATE);
    }
    WAIT_FOR(wf_count(&b->f, "q", EMQ_WAITING) == 0 && wf_count(&b->f, "q", EMQ_ACTIVE) == 0);
    wf_stop(w, 0);
    for (size_t i = 0; i < BAD; i++) {
        (void)snprintf(id, sizeof id, "j%zu", i + 1);
        if (probe_runs(&b->p, id) != (damage[i].end == NULL))
            fail_msg("%s: run %d times", damage[i].lua, probe_runs(&b->p, id));
        const char *end = wf_end(&b->f, "q", id);
        if (strcmp(end, damage[i].end ? damage[i].end : "completed: null") != 0)
            fail_msg("%s: %s", damage[i].lua, end);
    }
    b->p.wrong = 0;
    bench_close(b);
}

EMQ_TEST(a_record_that_only_has_a_reason_blocks_its_id_for_nobody)
{
    struct bench *b = bench_open("q");

    (void)raw(b, "redis.call('HSET', 'emq:q:ghost', 'failedReason', 'late')");
    wf_add(&b->f, "q", "ghost", "result ok");
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "ghost"), "completed: ok");
    field_audit(b->f.c, "q");
    bench_close(b);
}
