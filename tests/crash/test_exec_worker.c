/* SPDX-License-Identifier: MIT
 *
 * Programs under real workers and a real store: what arrives in the job's record, and that two runs of
 * a job never overlap, whatever becomes of the worker.
 */
#include "exec_proc.h"
#include "lib/test.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"

#include <echomq/worker.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char url[PATH_MAX];

static emq_client *store(void)
{
    emq_client *c;
    emq_error err = {0};

    (void)snprintf(url, sizeof url, "sqlite:%s/q.db?sync=off", test_temp_dir());
    CHECK_STATUS_ERR(emq_open(&c, emq_cstr(url), NULL, &err), EMQ_OK, &err);
    return c;
}

static void add(emq_client *c, const char *id, const char *data, int attempts)
{
    emq_add_opts o = {.size = sizeof o,
                      .id = emq_cstr(id),
                      .attempts = attempts,
                      .backoff_type = EMQ_BACKOFF_NONE};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_add(c, emq_cstr("q"), emq_cstr(data), &o, NULL, &err), EMQ_OK, &err);
}

static emq_job *job(emq_client *c, const char *id)
{
    emq_job *j;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_get(c, emq_cstr("q"), emq_cstr(id), &j, &err), EMQ_OK, &err);
    return j;
}

struct plan {
    const char *script;
    int64_t lock_ms, timeout_ms, max_stalled;
    int stream, until_empty, mode;
};

/* In this process: runs until the queue is empty, or the worker ends by itself. */
static emq_worker_stats work_off(emq_client *c, struct plan p)
{
    const emq_worker_queue q = {.size = sizeof q, .name = emq_cstr("q")};
    const emq_worker_queue *const queues[] = {&q};
    const char *argv[] = {"sh", "-c", p.script, NULL};
    emq_worker_opts o = {.size = sizeof o,
                         .queues = queues,
                         .n_queues = 1,
                         .argv = argv,
                         .lock_ms = p.lock_ms ? p.lock_ms : 5000,
                         .stalled_interval_ms = 200,
                         .timeout_ms = p.timeout_ms,
                         .max_stalled = p.max_stalled,
                         .mode = p.mode,
                         .stream = p.stream,
                         .exit_when_empty = 1};
    emq_worker *w;
    emq_error err = {0};
    emq_worker_stats stats = {.size = sizeof stats};

    CHECK_STATUS_ERR(emq_worker_start(&w, c, &o, &err), EMQ_OK, &err);
    CHECK_STATUS(emq_worker_join(w, 60000, &err), EMQ_OK);
    emq_worker_get_stats(w, &stats);
    emq_worker_free(w);
    return stats;
}

/* In a process of its own. */
static pid_t start_worker(struct plan p)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    emq_client *c = store();
    (void)work_off(c, p);
    emq_close(c);
    _exit(0);
}

static emq_str log_text(emq_client *c, const char *id, struct emq__arena *mem)
{
    emq_list *l;
    emq_str all = emq_strn("", 0);

    CHECK_STATUS(emq_logs(c, emq_cstr("q"), emq_cstr(id), 0, 0, &l, NULL), EMQ_OK);
    for (size_t i = 0; i < emq_list_len(l); i++)
        all =
            emq__arena_printf(mem, "%.*s%.*s\n", EMQ_STR_ARG(all), EMQ_STR_ARG(emq_list_str(l, i)));
    emq_list_free(l);
    return all;
}

EMQ_TEST(what_a_program_says_is_in_the_record)
{
    emq_client *c = store();
    struct emq__arena mem = {0};

    add(c, "ok", "{\"n\":1}", 1);
    add(c, "bad", "{\"n\":2}", 1);
    emq_worker_stats stats = work_off(
        c,
        (struct plan){
            .script = "data=$(cat); echo \"job $EMQ_JOB_ID\" >&2; echo 'progress {\"p\":1}' >&3; "
                      "if [ $EMQ_JOB_ID = bad ]; then echo 'no such file' >&2; exit 3; fi; "
                      "printf '%s' \"$data\""});
    CHECK_INT(stats.completed, 1);
    CHECK_INT(stats.failed, 1);
    CHECK_INT(stats.exit_status, 3);

    emq_job *j = job(c, "ok");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_result(j), "{\"n\":1}");
    CHECK_STR(emq_job_progress_json(j), "{\"p\":1}");
    emq_job_free(j);
    CHECK_STR(log_text(c, "ok", &mem), "job ok\n");
    j = job(c, "bad");
    CHECK_INT(emq_job_state(j), EMQ_FAILED_STATE);
    CHECK_STR(emq_job_failed_reason(j), "exited with 3: no such file");
    CHECK_STR(emq_job_stacktrace_json(j), "[\"job bad\\nno such file\\n\"]");
    emq_job_free(j);
    CHECK_STR(log_text(c, "bad", &mem), "job bad\nno such file\n");
    emq__arena_free(&mem);
    emq_close(c);
}

EMQ_TEST(all_bytes_pass_through_the_store)
{
    emq_client *c = store();
    char all[256 * 4];

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)(i * 7);
    emq_add_opts o = {.size = sizeof o, .id = emq_cstr("x")};
    CHECK_STATUS(emq_add(c, emq_cstr("q"), emq_strn(all, sizeof all), &o, NULL, NULL), EMQ_OK);
    (void)work_off(c, (struct plan){.script = "cat"});
    emq_job *j = job(c, "x");
    CHECK_STR_EQ(emq_job_result(j), emq_strn(all, sizeof all));
    emq_job_free(j);
    emq_close(c);
}

EMQ_TEST(a_give_back_charges_no_attempt)
{
    emq_client *c = store();
    char script[2048];

    (void)snprintf(
        script, sizeof script,
        "echo x >>%s/runs; [ $(wc -l <%s/runs) -lt 3 ] || { echo $EMQ_ATTEMPT; exit 0; }; "
        "echo retry-after 10ms >&3; exit 75",
        test_temp_dir(), test_temp_dir());
    add(c, "x", "1", 1);
    emq_worker_stats stats = work_off(c, (struct plan){.script = script});
    CHECK_INT(stats.given_back, 2);
    emq_job *j = job(c, "x");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_result(j), "1\n");
    CHECK_INT(emq_job_attempts_made(j), 1);
    emq_job_free(j);
    emq_close(c);
}

EMQ_TEST(a_job_is_not_given_back_for_ever)
{
    emq_client *c = store();

    add(c, "x", "1", 1);
    emq_worker_stats stats =
        work_off(c, (struct plan){.script = "echo retry-after 1ms >&3; echo busy >&2; exit 75"});
    CHECK_INT(stats.given_back, 99);
    CHECK_INT(stats.failed, 1);
    emq_job *j = job(c, "x");
    CHECK_INT(emq_job_state(j), EMQ_FAILED_STATE);
    CHECK_STR(emq_job_failed_reason(j), "given back 100 times: exited with 75: busy");
    emq_job_free(j);
    emq_close(c);
}

EMQ_TEST(a_run_limit_is_an_attempt)
{
    emq_client *c = store();

    add(c, "x", "1", 1);
    emq_worker_stats stats = work_off(c, (struct plan){.script = "sleep 300", .timeout_ms = 300});
    CHECK_INT(stats.failed, 1);
    CHECK_INT(stats.exit_status, 128 + SIGTERM);
    emq_job *j = job(c, "x");
    CHECK_STR(emq_job_failed_reason(j), "timed out after 300ms");
    emq_job_free(j);
    emq_close(c);
}

EMQ_TEST(a_crashing_program_is_a_poison_pill_that_ends_failed)
{
    emq_client *c = store();

    add(c, "x", "1", 10);
    (void)work_off(c, (struct plan){.script = "ulimit -c 0; echo broken >&2; kill -ABRT $$",
                                    .max_stalled = 2});
    emq_job *j = job(c, "x");
    CHECK_INT(emq_job_state(j), EMQ_FAILED_STATE);
    CHECK_INT(emq_job_stalled(j), 3);
    emq_job_free(j);
    emq_close(c);
}

EMQ_TEST(a_kept_program_serves_a_queue)
{
    emq_client *c = store();
    char id[16];

    for (int i = 0; i < 50; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        add(c, id, "1", 1);
    }
    emq_worker_stats stats =
        work_off(c, (struct plan){.stream = 1,
                                  .script = "while read -r line; do echo '{\"log\":\"seen\"}'; "
                                            "echo '{\"result\":'$$'}'; done"});
    CHECK_INT(stats.completed, 50);
    emq_job *first = job(c, "j0"), *last = job(c, "j49");
    CHECK_STR_EQ(emq_job_result(first), emq_job_result(last));
    emq_job_free(first);
    emq_job_free(last);
    emq_close(c);
}

/* ---- killed and frozen -------------------------------------------------------------------- */

/* Each run looks whether a process of an earlier run is alive, says so, then works on: the first run
 * for ever and deaf to TERM, with a process in the background; the later ones end at once. */
static const char *watchful(void)
{
    static char script[4 * PATH_MAX];
    const char *d = test_temp_dir();

    (void)snprintf(
        script, sizeof script,
        "trap '' TERM; for p in $(cat %s/pids 2>/dev/null); do "
        "s=$(sed 's/.*) //' /proc/$p/stat 2>/dev/null | cut -c1); "
        "case $s in ''|Z|X) ;; *) echo $p >>%s/overlap;; esac; done; "
        "if [ -e %s/pids ]; then echo second; exit 0; fi; "
        "sleep 300 & echo $$ $! >%s/pids.t; mv %s/pids.t %s/pids; while :; do sleep 0.05; done",
        d, d, d, d, d, d);
    return script;
}

static bool exists(void *name)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", test_temp_dir(), (const char *)name);
    return access(path, F_OK) == 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0)
        CHECK_INT(errno, EINTR);
}

static void check_second_run(void)
{
    char overlap[] = "overlap";
    emq_client *c = store();
    emq_job *j = job(c, "x");

    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_result(j), "second\n");
    CHECK_INT(emq_job_stalled(j), 1);
    CHECK(!exists(overlap));
    emq_job_free(j);
    emq_close(c);
}

static void add_one(void)
{
    emq_client *c = store();

    add(c, "x", "1", 3);
    emq_close(c);
}

EMQ_TEST(the_next_run_begins_after_a_killed_workers_programs_are_dead)
{
    struct plan p = {.script = watchful(), .lock_ms = 1000};
    char pids[] = "pids";

    add_one();
    pid_t first = start_worker(p);
    proc_until(exists, pids, "the first run has begun");
    CHECK_INT(kill(first, SIGKILL), 0);
    reap(first);
    reap(start_worker(p));
    check_second_run();
}

EMQ_TEST(the_next_run_begins_after_a_frozen_workers_programs_are_dead)
{
    struct plan p = {.script = watchful(), .lock_ms = 1000};
    char pids[] = "pids";

    add_one();
    pid_t first = start_worker(p);
    proc_until(exists, pids, "the first run has begun");
    CHECK_INT(kill(first, SIGSTOP), 0);
    reap(start_worker(p));
    CHECK_INT(kill(first, SIGCONT), 0);
    reap(first); /* its outcome is refused, and the queue is empty */
    check_second_run();
}
