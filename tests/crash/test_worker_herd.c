/* SPDX-License-Identifier: MIT
 *
 * Many worker processes on one store: each job once without crashes, at least once with them, and
 * nothing that was acknowledged is ever missing. EMQ_HERD_JOBS: how many for the four processes.
 */
#include "herd.h"

#include "model/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4 };

static int jobs_of_four(void)
{
    const char *text = getenv("EMQ_HERD_JOBS");
    int n = text ? (int)strtol(text, NULL, 10) : 0;

    return n > 0 ? n / PROCESSES * PROCESSES : 10000;
}

EMQ_TEST(four_processes_add_and_work_on_one_queue_and_each_job_is_done_once)
{
    const int jobs = jobs_of_four();
    struct herd h;
    pid_t pid[PROCESSES];
    int go[2], most;
    char args[200];

    herd_open(&h, "normal");
    CHECK_INT(pipe2(go, O_CLOEXEC), 0);
    CHECK(dup2(go[0], 100) == 100); /* inherited */
    for (int i = 0; i < PROCESSES; i++) {
        (void)snprintf(args, sizeof args, "go=100 concurrency=4 add=%d", jobs / PROCESSES);
        pid[i] = herd_start(&h, NULL, args);
    }
    close(100);
    close(go[0]);
    close(go[1]);
    HERD_WAIT_SECONDS(90 + jobs / 100, herd_state(&h, EMQ_COMPLETED_STATE) == jobs);
    for (int i = 0; i < PROCESSES; i++)
        (void)kill(pid[i], SIGTERM);
    for (int i = 0; i < PROCESSES; i++) {
        int status = herd_wait(pid[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK_INT(herd_distinct(&h, 'E', &most), jobs);
    CHECK_INT(most, 1);
    CHECK_INT(herd_count(&h, 'B', NULL, 0), jobs);
    for (int i = 0; i < PROCESSES; i++) {
        int share = herd_count(&h, 'E', NULL, pid[i]);
        if (share < jobs / PROCESSES / 2)
            fail_msg("process %d of %d did %d of %d jobs", i + 1, PROCESSES, share, jobs);
    }
    herd_close(&h);
}

static bool ended(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == pid;
}

/* Kills a random process every `every_ms` and starts another, until all jobs are completed. */
static void storm(struct herd *h, int jobs, int64_t every_ms, const char *args)
{
    pid_t pid[PROCESSES];
    uint64_t seed = test_seed();
    int kills = 0;

    for (int i = 0; i < PROCESSES; i++)
        pid[i] = herd_start(h, NULL, args);
    int64_t until = emq__mono_now().us / 1000 + 120000;
    while (herd_state(h, EMQ_COMPLETED_STATE) < jobs) {
        int i = (int)(test_random(&seed) % PROCESSES);
        herd_nap(every_ms);
        herd_kill(pid[i]);
        kills++;
        pid[i] = herd_start(h, NULL, args);
        if (emq__mono_now().us / 1000 > until)
            fail_msg("%lld of %d jobs are completed after 120 s and %d kills",
                     (long long)herd_state(h, EMQ_COMPLETED_STATE), jobs, kills);
    }
    for (int i = 0; i < PROCESSES; i++)
        herd_kill(pid[i]);
    CHECK(kills > 0);
}

static void add_jobs(struct herd *h, int n, int64_t delay_ms)
{
    for (int i = 0; i < n; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "j%d", i);
        herd_add(h, id, delay_ms);
    }
}

EMQ_TEST(workers_killed_at_random_do_every_job_at_least_once)
{
    enum { JOBS = 600 };
    struct herd h;
    int most;

    herd_open(&h, "normal");
    add_jobs(&h, JOBS, 0);
    storm(&h, JOBS, 150, "concurrency=4 lock=500 interval=100 max_stalled=1000 work=10");
    CHECK_INT(herd_distinct(&h, 'E', &most), JOBS);
    CHECK_INT(herd_state(&h, EMQ_WAITING) + herd_state(&h, EMQ_ACTIVE) +
                  herd_state(&h, EMQ_FAILED_STATE),
              0);
    herd_close(&h);
}

EMQ_TEST(jobs_that_fall_due_while_workers_are_killed_are_neither_lost_nor_stuck)
{
    enum { JOBS = 500 };
    struct herd h;
    int most;

    herd_open(&h, "normal");
    add_jobs(&h, JOBS, 1500);
    storm(&h, JOBS, 100, "concurrency=4 lock=500 interval=100 max_stalled=1000 work=5");
    CHECK_INT(herd_distinct(&h, 'E', &most), JOBS);
    CHECK_INT(herd_state(&h, EMQ_DELAYED), 0);
    herd_close(&h);
}

EMQ_TEST(no_acknowledged_add_is_missing_after_its_producer_was_killed)
{
    struct herd h;
    int most;
    uint64_t seed = test_seed();

    herd_open(&h, "full");
    for (int i = 0; i < 5; i++) {
        pid_t pid =
            herd_start(&h, NULL, "add=100000 concurrency=2 lock=500 interval=100 max_stalled=1000");
        HERD_WAIT_FOR(herd_count(&h, 'A', NULL, pid) > 20);
        herd_nap((int64_t)(test_random(&seed) % 100));
        herd_kill(pid);
    }
    herd_work_off(&h, "concurrency=4 lock=500 max_stalled=1000");
    int acknowledged = herd_distinct(&h, 'A', &most);
    CHECK_INT(most, 1);
    int done = herd_distinct(&h, 'E', &most);
    /* Each killed producer may have one add more in the store than it was told of. */
    if (done < acknowledged || done > acknowledged + 5)
        fail_msg("%d adds were acknowledged, %d jobs were done", acknowledged, done);
    CHECK_INT(herd_state(&h, EMQ_COMPLETED_STATE), done);
    herd_close(&h);
}

EMQ_TEST(a_job_that_kills_every_worker_ends_failed_and_the_others_are_done)
{
    enum { JOBS = 100 };
    struct herd h;
    char id[20];
    const char *args = "lock=400 interval=100 poison=poison max_stalled=2";
    pid_t pid[PROCESSES];

    herd_open(&h, "normal");
    herd_add(&h, "poison", 0);
    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        herd_add(&h, id, 0);
    }
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = herd_start(&h, NULL, args);
    while (herd_state(&h, EMQ_COMPLETED_STATE) < JOBS || herd_state(&h, EMQ_FAILED_STATE) < 1) {
        for (int i = 0; i < PROCESSES; i++) { /* a restart loop */
            if (ended(pid[i]))
                pid[i] = herd_start(&h, NULL, args);
        }
        herd_nap(10);
        CHECK(h.n < 200);
    }
    for (int i = 0; i < PROCESSES; i++)
        herd_kill(pid[i]);
    emq_job *j = herd_job(&h, "poison");
    CHECK_STR(emq_job_failed_reason(j), EMQ__TEXT_STALLED);
    CHECK_INT(emq_job_stalled(j), 3);
    emq_job_free(j);
    CHECK_INT(herd_count(&h, 'B', "poison", 0), 3);
    herd_close(&h);
}

EMQ_TEST(a_worker_killed_while_it_stops_frees_its_job_and_the_place_it_held)
{
    struct herd h;
    emq_error err = {0};

    herd_open(&h, "normal");
    CHECK_STATUS_ERR(emq_set_concurrency(h.c, emq_cstr("q"), 1, &err), EMQ_OK, &err);
    herd_add(&h, "a", 0);
    herd_add(&h, "b", 0);
    pid_t pid = herd_start(&h, NULL, "lock=500 interval=100 work=60000");
    HERD_WAIT_FOR(herd_count(&h, 'B', "a", pid) == 1);
    CHECK_INT(kill(pid, SIGTERM), 0);
    herd_nap(200);
    CHECK_INT(herd_state(&h, EMQ_ACTIVE), 1);
    herd_kill(pid);
    herd_work_off(&h, "lock=500");
    CHECK_INT(herd_state(&h, EMQ_COMPLETED_STATE), 2);
    CHECK_INT(herd_count(&h, 'E', NULL, 0), 2);
    herd_close(&h);
}

EMQ_TEST(a_terminated_worker_records_what_runs_and_takes_no_more)
{
    struct herd h;

    herd_open(&h, "full");
    herd_add(&h, "a", 0);
    herd_add(&h, "b", 0);
    pid_t pid = herd_start(&h, NULL, "lock=1000 work=500");
    HERD_WAIT_FOR(herd_count(&h, 'B', "a", pid) == 1);
    CHECK_INT(kill(pid, SIGTERM), 0);
    int status = herd_wait(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_INT(herd_state(&h, EMQ_COMPLETED_STATE), 1);
    CHECK_INT(herd_state(&h, EMQ_WAITING), 1);
    herd_close(&h);
}
