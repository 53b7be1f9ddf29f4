/* SPDX-License-Identifier: MIT
 *
 * Effects of handlers under kill -9 at each point, in frozen workers, and without a store.
 */
#include "worker_effect.h"

#include <sys/wait.h>

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
