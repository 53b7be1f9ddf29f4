/* SPDX-License-Identifier: MIT
 *
 * Effects of handlers: those that commit with the acknowledgement, marked ones by each policy, and both under
 * kill -9 at each point; and what a worker notes for the history of its jobs.
 *
 * What handlers are to do is in `todo`; the ledger of the store's own effects is a table, or a key of the server.
 */
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
#include <sys/wait.h>
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

static void reach(const char *point)
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

static struct bench *effects_open(void)
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

static sqlite3 *open_file(const struct wf *f)
{
    char path[600];
    const char *from = f->url + strlen("sqlite:");
    sqlite3 *db;

    (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(from, "?"), from);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, PATIENCE_MS), SQLITE_OK);
    return db;
}

static void ledger_make(const struct wf *f)
{
    if (todo.server)
        return;
    sqlite3 *db = open_file(f);
    CHECK_INT(sqlite3_exec(db, "CREATE TABLE ledger (job TEXT)", 0, 0, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static long long ledger_count(const struct wf *f)
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

static int insert_row(struct sqlite3 *db, void *arg)
{
    const char *bad = arg;

    reach("M1");
    int rc = sqlite3_exec(db, "INSERT INTO ledger VALUES ('x')", 0, 0, NULL);
    reach("M2");
    return bad ? 1 : rc;
}

/* bad: it can't be done. */
static emq_status own_effect(emq_job *job, bool bad, emq_error *err)
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

static emq_verdict own_handler(emq_job *job, void *user)
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

EMQ_TEST(a_job_that_its_effect_has_completed_is_not_settled_again_and_counts_as_any)
{
    struct bench *b = effects_open();
    struct wf_fault *settle = wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);

    ledger_make(&b->f);
    todo.then = EMQ_FAIL; /* is not used */
    b->o.o.handler = own_handler;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_OK);
    CHECK_INT(settle->seen, 0);
    CHECK_INT(ledger_count(&b->f), 1);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: {\"by\":\"effect\"}");
    CHECK_INT(st.started, 1);
    CHECK_INT(st.completed, 1);
    CHECK_INT(st.failed + st.retried + st.lost + st.given_back + st.errors, 0);
    CHECK_INT(st.running + st.in_hand, 0);
    assert_string_equal(b->p.events, "ready: started:a completed:a finished: ");
    bench_close(b);
}

EMQ_TEST(many_jobs_with_effects_have_one_each)
{
    enum { JOBS = 60 };
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.concurrency = 4;
    b->o.o.lock_ms = 30000;
    wf_add_n(&b->f, "q", JOBS, "");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, JOBS);
    CHECK_INT(ledger_count(&b->f), JOBS);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), JOBS);
    bench_close(b);
}

static emq_verdict goes_on(emq_job *job, void *user)
{
    struct emq__mono until;
    emq_verdict v = own_handler(job, user);

    /* For three locks, of which nobody renews one. */
    until = emq__mono_add_ms(emq__mono_now(), 3 * LOCK_MS);
    while (emq__mono_diff_ms(emq__mono_now(), until) > 0) {
        if (emq_job_cancelled(job) != EMQ_GO_ON)
            atomic_fetch_add(&todo.p->wrong, 1);
        wf_nap(2);
    }
    return v;
}

EMQ_TEST(a_handler_that_goes_on_behind_its_effect_is_not_told_to_stop)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = goes_on;
    b->o.o.timeout_ms = 2 * LOCK_MS;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, 1);
    CHECK_INT(st.lost, 0);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

static emq_verdict fails_first(emq_job *job, void *user)
{
    emq_error err = {0};

    if (emq_job_attempts_made(job) > 0)
        return own_handler(job, user);
    atomic_store(&todo.said, (int)own_effect(job, true, &err));
    return EMQ_RETRY;
}

EMQ_TEST(an_effect_that_can_t_be_made_leaves_nothing_and_the_job_goes_on)
{
    struct bench *b = effects_open();
    emq_add_opts o = {.backoff_type = EMQ_BACKOFF_NONE};

    ledger_make(&b->f);
    b->o.o.handler = fails_first;
    wf_add_opts(&b->f, "q", "a", "", o);
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.retried, 1);
    CHECK_INT(st.completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

static emq_verdict overruled_first(emq_job *job, void *user)
{
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED, .force = 1};

    if (emq_settle(todo.c, emq_job_queue(job), emq_job_id(job), NONE, &o, NULL) != EMQ_OK)
        atomic_fetch_add(&todo.p->wrong, 1);
    return own_handler(job, user);
}

EMQ_TEST(an_effect_behind_a_lost_lock_is_not_made)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = overruled_first;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_LOST);
    CHECK_INT(st.lost, 1);
    CHECK_INT(ledger_count(&b->f), 0);
    bench_close(b);
}

EMQ_TEST(an_effect_under_at_most_once_completes_its_job_too)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.mode = EMQ_AT_MOST_ONCE;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

EMQ_TEST(a_job_without_a_lock_has_no_acknowledgement_to_commit_with)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.mode = EMQ_FIRE_AND_FORGET;
    wf_add(&b->f, "q", "a", "");
    (void)work_off(b);
    CHECK_STATUS(todo.said, EMQ_E_INVALID);
    CHECK_INT(ledger_count(&b->f), 0);
    bench_close(b);
}

/* A retry by hand that keeps the effect: the marker is done, so the function is left out. */
EMQ_TEST(an_effect_that_is_recorded_is_left_out_and_the_job_completed)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).completed, 1);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), 0, NULL), EMQ_EFFECT_DONE);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), EMQ_RETRY_KEEP_EFFECT, NULL), EMQ_OK);
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), EMQ_RETRY_REDO_EFFECT, NULL), EMQ_OK);
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 2);
    bench_close(b);
}

static emq_verdict partial(emq_job *job, void *user)
{
    const emq_str set[] = {S("SET"), S("top"), S("1")};
    const emq_str first[] = {S("INCR"), S("ledger")},
                  last[] = {S("LSET"), S("list"), S("0"), S("a")};
    const emq_redis_command one = {sizeof one, set, 3}, two = {sizeof two, first, 2},
                            three = {sizeof three, last, 4};
    const emq_redis_command *const all[] = {&one, &two, &three};
    emq_error err = {0};

    (void)user;
    atomic_store(&todo.said, (int)emq_effect_redis(todo.c, job, all, 3, NULL, &err));
    return EMQ_RETRY;
}

/* Whether a list is that long only the command itself finds out. */
EMQ_TEST(an_effect_that_breaks_in_the_middle_on_a_server_ends_the_job_for_good)
{
    struct bench *b = effects_open();

    if (todo.server) {
        b->o.o.handler = partial;
        wf_add(&b->f, "q", "a", "");
        emq_worker_stats st = work_off(b);
        CHECK_STATUS(todo.said, EMQ_FAILED);
        CHECK_INT(st.failed, 1);
        CHECK_INT(st.retried, 0);
        CHECK(probe_saw(&b->p, "failed:a"));
        CHECK(strstr(wf_end(&b->f, "q", "a"), "failed: partial effect: command 3 (LSET)"));
        CHECK_INT(ledger_count(&b->f), 1);
    }
    bench_close(b);
}

/* ---- marked effects ---------------------------------------------------------------------- */

static emq_verdict make_effect(emq_job *job, void *arg)
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

static emq_probe_answer ask(emq_job *job, void *arg)
{
    (void)job, (void)arg;
    atomic_fetch_add(&todo.probes, 1);
    return (emq_probe_answer)todo.probe;
}

static emq_effect_plan plan_of(void)
{
    return (emq_effect_plan){.size = sizeof(emq_effect_plan),
                             .step = S("pay"),
                             .effect = make_effect,
                             .probe = ask,
                             .policy = todo.policy};
}

static emq_verdict marked_handler(emq_job *job, void *user)
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

/* Job a, whose effect an earlier hand-out claimed before it died. */
static struct bench *doubt_open(int policy)
{
    struct bench *b = effects_open();
    emq_take_opts o = {.size = sizeof o, .worker = S("dead"), .lock_ms = LOCK_MS};
    emq_effect_key key = {.size = sizeof key};
    emq_effect *e = NULL;
    emq_job *job = NULL;
    emq_error err = {0};

    todo.policy = policy;
    b->o.o.handler = marked_handler;
    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS_ERR(emq_take(b->f.c, S("q"), &o, &job, &err), EMQ_OK, &err);
    emq_effect_key_of(job, &key);
    key.step = S("pay");
    CHECK_STATUS_ERR(emq_effect_claim(b->f.c, &key, 0, 0, &e, &err), EMQ_OK, &err);
    emq_effect_free(e);
    emq_job_free(job);
    return b;
}

static int marker_state(struct bench *b)
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

static void doubt_close(struct bench *b, int effects, int said, const char *end, int marker)
{
    (void)work_off(b);
    CHECK_INT(todo.effects, effects);
    CHECK_STATUS(todo.said, said);
    CHECK_INT(marker_state(b), marker);
    if (!strstr(wf_end(&b->f, "q", "a"), end))
        fail_msg("the job is \"%s\", not \"%s\"", wf_end(&b->f, "q", "a"), end);
    bench_close(b);
}

EMQ_TEST(in_doubt_redo_does_it_again)
{
    doubt_close(doubt_open(EMQ_DOUBT_REDO), 1, EMQ_OK, "completed: receipt", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_skip_counts_it_as_done)
{
    doubt_close(doubt_open(EMQ_DOUBT_SKIP), 0, EMQ_OK, "completed", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_park_fails_the_job_for_good)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PARK);

    doubt_close(b, 0, EMQ_PARKED, "failed: its effect pay is in doubt: dead:", EMQ_EFFECT_IN_DOUBT);
}

EMQ_TEST(in_doubt_a_probe_that_found_it_counts_it_as_done)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_HAPPENED;
    doubt_close(b, 0, EMQ_OK, "completed", EMQ_EFFECT_IS_DONE);
    CHECK_INT(todo.probes, 1);
}

EMQ_TEST(in_doubt_a_probe_that_missed_it_does_it)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_DID_NOT;
    doubt_close(b, 1, EMQ_OK, "completed: receipt", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_a_probe_without_an_answer_parks)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_UNKNOWN;
    doubt_close(b, 0, EMQ_PARKED, "failed: its effect pay is in doubt", EMQ_EFFECT_IN_DOUBT);
}

EMQ_TEST(an_effect_that_says_it_did_not_happen_is_free_again)
{
    struct bench *b = effects_open();

    b->o.o.handler = marked_handler;
    todo.effect_says = EMQ_RETRY;
    wf_add_opts(&b->f, "q", "a", "", (emq_add_opts){.backoff_type = EMQ_BACKOFF_NONE});
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_FAILED);
    CHECK_INT(st.retried, 2);
    CHECK_INT(st.failed, 1);
    CHECK_INT(todo.effects, 3);
    CHECK_INT(marker_state(b), EMQ_EFFECT_NONE);
    bench_close(b);
}

static emq_verdict twice(emq_job *job, void *user)
{
    todo.then = emq_job_attempts_made(job) == 0 ? EMQ_RETRY : EMQ_DONE;
    return marked_handler(job, user);
}

EMQ_TEST(an_effect_met_again_is_left_out_and_its_result_is_the_job_s)
{
    struct bench *b = effects_open();

    b->o.o.handler = twice;
    wf_add_opts(&b->f, "q", "a", "", (emq_add_opts){.backoff_type = EMQ_BACKOFF_NONE});
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.retried, 1);
    CHECK_INT(todo.effects, 1);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: receipt");
    bench_close(b);
}

static emq_verdict claims_first(emq_job *job, void *user)
{
    emq_effect_key key = {.size = sizeof key};
    emq_effect *e = NULL;

    emq_effect_key_of(job, &key);
    key.step = S("pay");
    if (emq_effect_claim(todo.c, &key, 0, 0, &e, NULL) != EMQ_OK)
        atomic_fetch_add(&todo.p->wrong, 1);
    emq_effect_free(e);
    (void)marked_handler(job, user);
    return EMQ_FAIL;
}

EMQ_TEST(an_effect_that_this_hand_out_is_at_is_locked)
{
    struct bench *b = effects_open();

    b->o.o.handler = claims_first;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).failed, 1);
    CHECK_STATUS(todo.said, EMQ_LOCKED);
    CHECK_INT(todo.effects, 0);
    bench_close(b);
}

EMQ_TEST(a_plan_without_a_policy_or_an_effect_is_refused)
{
    struct bench *b = effects_open();
    emq_effect_plan good = plan_of(), plan = good;
    emq_error err = {0};
    emq_job *job = NULL;

    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS(emq_take(b->f.c, S("q"), NULL, &job, NULL), EMQ_OK);
    CHECK_STATUS(emq_effect_run(NULL, job, &plan, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_effect_run(b->f.c, NULL, &plan, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_effect_run(b->f.c, job, NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "plan is NULL"));
    plan.policy = 0;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "say what to do when the effect is in doubt"));
    plan.policy = EMQ_DOUBT_PROBE + 1;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    plan = good;
    plan.effect = NULL;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    plan = good;
    plan.policy = EMQ_DOUBT_PROBE;
    plan.probe = NULL;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "plan.probe is NULL"));
    plan = good;
    plan.size = 8;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK_INT(todo.effects, 0);
    CHECK_INT(marker_state(b), EMQ_EFFECT_NONE);
    emq_job_free(job);
    bench_close(b);
}

/* ---- killed at each point ---------------------------------------------------------------- */

/* A worker process that dies at the point. The store's handle must not be open over a fork: the client of this
 * process is another one afterwards. */
static void die_at(struct bench *b, const char *point)
{
    emq_error err = {0};
    int status = 0;

    wf_close(&b->f);
    pid_t pid = fork();
    if (pid == 0) {
        emq_worker *w = NULL;
        if (point[0] == 'P')
            (void)setenv("EMQ_CRASH_AT", point, 1);
        else
            todo.kill_at = point;
        if (emq_open(&todo.c, S(b->f.url), NULL, &err) == EMQ_OK &&
            emq_worker_start(&w, todo.c, &b->o.o, &err) == EMQ_OK &&
            emq_worker_join(w, PATIENCE_MS, &err) == EMQ_OK)
            _exit(1);
        _exit(2);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s: the worker was not killed there (status %d)", point, status);
    CHECK_STATUS_ERR(emq_open(&b->f.c, S(b->f.url), NULL, &err), EMQ_OK, &err);
    todo.c = b->f.c;
}

static void check_end(struct bench *b, const char *point, long long effects, long long expected)
{
    if (effects != expected || wf_state(&b->f, "q", "a") != EMQ_COMPLETED_STATE)
        fail_msg("%s: %lld effects, expected %lld; the job is \"%s\"", point, effects, expected,
                 wf_end(&b->f, "q", "a"));
}

static void own_effect_killed_at(const char *point)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.max_jobs = 1;
    wf_add(&b->f, "q", "a", "");
    die_at(b, point);
    b->o.o.max_jobs = 0;
    (void)work_off(b);
    check_end(b, point, ledger_count(&b->f), 1);
    bench_close(b);
}

EMQ_TEST(kill_9_before_an_effect_of_the_store_s_own_one_effect)
{
    own_effect_killed_at("M0");
}

EMQ_TEST(kill_9_in_the_transaction_before_the_effect_one_effect)
{
    own_effect_killed_at("M1");
}

EMQ_TEST(kill_9_in_the_transaction_behind_the_effect_one_effect)
{
    own_effect_killed_at("P3");
}

EMQ_TEST(kill_9_behind_the_commit_one_effect)
{
    own_effect_killed_at("P4");
    own_effect_killed_at("M3");
    own_effect_killed_at("P5");
}

static long long file_effects(void)
{
    struct stat st;

    return stat(todo.ledger, &st) == 0 ? (long long)st.st_size : 0;
}

static void marked_killed_at(const char *point, int policy, long long expected)
{
    struct bench *b = effects_open();

    (void)snprintf(todo.ledger, sizeof todo.ledger, "%s/ledger", test_temp_dir());
    (void)unlink(todo.ledger);
    todo.policy = policy;
    b->o.o.handler = marked_handler;
    b->o.o.max_jobs = 1;
    wf_add(&b->f, "q", "a", "");
    die_at(b, point);
    b->o.o.max_jobs = 0;
    (void)work_off(b);
    check_end(b, point, file_effects(), expected);
    CHECK_INT(marker_state(b), EMQ_EFFECT_IS_DONE);
    bench_close(b);
}

EMQ_TEST(kill_9_around_a_marked_effect_is_one_effect_but_in_the_gap)
{
    marked_killed_at("M0", EMQ_DOUBT_REDO, 1);
    marked_killed_at("M1", EMQ_DOUBT_REDO, 1);
    marked_killed_at("M3", EMQ_DOUBT_REDO, 1);
    marked_killed_at("P4", EMQ_DOUBT_REDO, 1);
}

/* Between the effect and its record nobody can know: redo repeats it, skip never does, and so leaves out what was
 * only claimed. */
EMQ_TEST(kill_9_in_the_gap_of_a_marked_effect_is_as_the_policy_says)
{
    marked_killed_at("M2", EMQ_DOUBT_REDO, 2);
    marked_killed_at("M2", EMQ_DOUBT_SKIP, 1);
    marked_killed_at("M1", EMQ_DOUBT_SKIP, 0);
}

/* A worker that stops at the point, and renews nothing; another one does the job; then the first goes on, and its
 * outcome is refused. */
static void freeze_at(struct bench *b, const char *point)
{
    struct wf_opts other = b->o;
    emq_client *c = wf_client(&b->f);

    todo.freeze_at = point;
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    b->o.o.stalled_interval_ms = -1;
    b->o.o.max_jobs = 1;
    wf_add(&b->f, "q", "a", "");
    emq_worker *frozen = wf_start(&b->f, &b->o);
    WAIT_FOR(todo.frozen == 1);
    other.o.queues = other.p;
    other.p[0] = &other.q[0];
    other.o.exit_when_empty = 1;
    wf_finish(wf_start_on(c, &other));
    atomic_store(&b->p.gate, 1);
    WAIT_FOR(b->p.event_count[EMQ_EVENT_LOST] == 1);
    wf_finish(frozen);
    emq_close(c);
}

static void marked_frozen_at(const char *point, int policy, long long expected)
{
    struct bench *b = effects_open();

    (void)snprintf(todo.ledger, sizeof todo.ledger, "%s/ledger", test_temp_dir());
    (void)unlink(todo.ledger);
    todo.policy = policy;
    b->o.o.handler = marked_handler;
    freeze_at(b, point);
    check_end(b, point, file_effects(), expected);
    CHECK_INT(marker_state(b), EMQ_EFFECT_IS_DONE);
    assert_string_equal(wf_end(&b->f, "q", "a"),
                        policy == EMQ_DOUBT_SKIP ? "completed: null" : "completed: receipt");
    bench_close(b);
}

EMQ_TEST(a_frozen_worker_that_wakes_claims_nothing_and_records_nothing)
{
    marked_frozen_at("M0", EMQ_DOUBT_REDO, 1);
    marked_frozen_at("M3", EMQ_DOUBT_REDO, 1);
}

/* Frozen in the effect itself it ends it when it wakes: only the other side can refuse that. */
EMQ_TEST(a_frozen_worker_that_wakes_in_its_effect_is_as_the_policy_says)
{
    marked_frozen_at("M1", EMQ_DOUBT_REDO, 2);
    marked_frozen_at("M2", EMQ_DOUBT_REDO, 2);
    marked_frozen_at("M2", EMQ_DOUBT_SKIP, 1);
}

EMQ_TEST(a_frozen_worker_that_wakes_makes_no_effect_of_the_store_s_own)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    freeze_at(b, "M0");
    CHECK_STATUS(todo.said, EMQ_LOST);
    check_end(b, "M0", ledger_count(&b->f), 1);
    bench_close(b);
}

EMQ_TEST(without_the_store_no_marked_effect_is_made)
{
    struct bench *b = effects_open();

    b->o.o.handler = marked_handler;
    (void)wf_fault(&b->f, "mark", EMQ__FAULT_UNAVAIL, 1);
    todo.then = EMQ_DONE;
    wf_add_opts(&b->f, "q", "a", "", (emq_add_opts){.attempts = 1});
    CHECK_INT(work_off(b).failed, 1);
    CHECK_STATUS(todo.said, EMQ_E_UNAVAIL);
    CHECK_INT(todo.effects, 0);
    bench_close(b);
}

/* The other side: each key it has not seen is one effect. */
static emq_verdict provider(emq_job *job, void *arg)
{
    char path[1200];
    emq_str key = emq_job_idempotency_key(job);

    (void)arg;
    reach("M1");
    (void)snprintf(path, sizeof path, "%s/%.*s", todo.ledger, EMQ_STR_ARG(key));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        atomic_fetch_add(&todo.effects, 1);
        (void)close(fd);
    }
    reach("M2");
    return EMQ_DONE;
}

static emq_verdict keyed_handler(emq_job *job, void *user)
{
    emq_effect_plan plan = plan_of();
    emq_error err = {0};

    (void)user;
    reach("M0");
    plan.effect = provider;
    emq_status s = emq_effect_run(todo.c, job, &plan, &err);
    reach("M3");
    return s == EMQ_OK ? EMQ_DONE : EMQ_RETRY;
}

EMQ_TEST(kill_9_anywhere_around_an_effect_with_a_key_is_one_effect)
{
    static const char *const points[] = {"M0", "M1", "M2", "M3", "P4"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(points); i++) {
        struct bench *b = effects_open();
        bool before = i < 2;

        (void)snprintf(todo.ledger, sizeof todo.ledger, "%s/keys%zu", test_temp_dir(), i);
        CHECK_INT(mkdir(todo.ledger, 0700), 0);
        b->o.o.handler = keyed_handler;
        b->o.o.max_jobs = 1;
        wf_add(&b->f, "q", "a", "");
        die_at(b, points[i]);
        b->o.o.max_jobs = 0;
        (void)work_off(b);
        /* Of the second worker: one where the first had none. */
        check_end(b, points[i], todo.effects, before ? 1 : 0);
        bench_close(b);
    }
}

/* ---- notes ------------------------------------------------------------------------------- */

static bool noted(struct bench *b, const char *words)
{
    struct emq__arena mem = {0};
    struct emq__history_req req = {.prefix = b->f.c->prefix, .queue = S("q"), .id = S("a")};
    struct emq__history_res res;
    bool found = false;

    CHECK_STATUS(b->f.c->e->ops->history(b->f.c->e, &req, &res, &mem, NULL), EMQ_OK);
    for (size_t i = 0; i < res.n; i++) {
        if (getenv("EMQ_TEST_VERBOSE"))
            fprintf(stderr, "  history %.*s\n", EMQ_STR_ARG(res.json[i]));
        char *line = emq__str_dup(res.json[i]);
        CHECK(line != NULL);
        found = found || (strstr(line, "\"what\":\"note\"") && strstr(line, words));
        free(line);
    }
    emq__arena_free(&mem);
    return found;
}

EMQ_TEST(a_doubt_that_a_receipt_settled_is_noted)
{
    static const char *const acts[] = {"take", "settle"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(acts); i++) {
        struct bench *b = effects_open();
        char words[100];

        (void)wf_fault(&b->f, acts[i], EMQ__FAULT_LOSE_REPLY, 1);
        wf_add(&b->f, "q", "a", "done");
        CHECK_INT(work_off(b).completed, 1);
        (void)snprintf(words, sizeof words, "the answer of %s was lost; the receipt settled it",
                       acts[i]);
        CHECK(noted(b, words));
        bench_close(b);
    }
}

EMQ_TEST(a_path_without_trouble_is_noted_nowhere)
{
    struct bench *b = effects_open();

    wf_add(&b->f, "q", "a", "done");
    CHECK_INT(work_off(b).completed, 1);
    CHECK(!noted(b, ""));
    bench_close(b);
}

EMQ_TEST(a_refused_outcome_is_noted_with_how_long_renewals_had_stopped)
{
    struct bench *b = effects_open();
    int64_t recovered = 0;

    b->o.o.stalled_interval_ms = -1;
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    wf_add(&b->f, "q", "a", "hold! done");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL) == EMQ_OK && recovered == 1);
    atomic_store(&b->p.gate, 1);
    WAIT_FOR(b->p.event_count[EMQ_EVENT_LOST] == 1);
    wf_stop(w, 0);
    CHECK(noted(b, "renewals had stopped for "));
    bench_close(b);
}

EMQ_TEST(an_outcome_that_an_administrator_overruled_says_nothing_of_renewals)
{
    struct bench *b = effects_open();

    b->o.o.handler = overruled_first;
    ledger_make(&b->f);
    b->o.o.lock_ms = 30000;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).lost, 1);
    CHECK(!noted(b, "renewals"));
    bench_close(b);
}
