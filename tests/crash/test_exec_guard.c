/* SPDX-License-Identifier: MIT
 *
 * Programs do not outlive their lock, whatever becomes of the worker: killed, frozen, or without its
 * supervisor.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <echomq/worker.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Leads a group with a child of its own; both ignore TERM. Writes both pids, then waits. */
static const char *stubborn(const char *path)
{
    static char script[4096];

    (void)snprintf(script, sizeof script,
                   "trap '' TERM; sleep 300 & echo $$ >%s.t; echo $! >>%s.t; mv %s.t %s; "
                   "while :; do sleep 0.05; done",
                   path, path, path, path);
    return script;
}

static bool both_gone(void *arg)
{
    const pid_t *pids = arg;

    return is_gone(pids[0]) && is_gone(pids[1]);
}

static bool stopped(void *arg)
{
    char path[64], text[512] = "";
    const pid_t *pid = arg;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)*pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    (void)!fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'T';
}

/* A process that runs one job under a lock that is safe until then. Ends with the result's kind, or
 * 99 for a failure. */
static pid_t worker(const char *script, bool stream, int64_t safe_until_us)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    const char *argv[] = {"sh", "-c", script, NULL};
    struct emq__exec_config cfg = {.argv = argv, .concurrency = 1, .stream = stream};
    struct emq__exec *x;
    struct emq__exec_result res = {0};
    if (emq__exec_open(&x, &cfg, NULL) != EMQ_OK)
        _exit(98);
    struct emq__slot *s = fake_slot(EMQ_STR_LIT("1"), 0);
    s->safe_until_us = safe_until_us;
    emq_status st = emq__exec_run(x, s, &res, NULL);
    emq__exec_close(x);
    _exit(st == EMQ_OK ? (int)res.kind : 99);
}

static int end_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        CHECK_INT(errno, EINTR);
    return status;
}

EMQ_TEST(a_killed_worker_takes_its_programs_with_it)
{
    const char *path = temp_path("pids");
    pid_t pids[2], pid = worker(stubborn(path), false, now_us() + 3600 * 1000000LL);

    read_pids(path, pids, 2);
    CHECK(!is_gone(pids[0]) && !is_gone(pids[1]));
    int64_t begin = now_us();
    CHECK_INT(kill(pid, SIGKILL), 0);
    proc_until(both_gone, pids, "the programs of a killed worker are dead");
    CHECK(now_us() - begin < 5 * 1000000LL);
    CHECK(WIFSIGNALED(end_of(pid)));
}

EMQ_TEST(a_killed_worker_takes_its_kept_program_with_it)
{
    const char *path = temp_path("pids");
    pid_t pids[2], pid = worker(stubborn(path), true, now_us() + 3600 * 1000000LL);

    read_pids(path, pids, 2);
    CHECK_INT(kill(pid, SIGKILL), 0);
    proc_until(both_gone, pids, "the kept program of a killed worker is dead");
    CHECK(WIFSIGNALED(end_of(pid)));
}

static void frozen_worker(bool stream)
{
    const char *path = temp_path("pids");
    /* Room for a slow start; what is measured begins at the safe point. */
    int64_t safe = now_us() + 3 * 1000000LL;
    pid_t pids[2], pid = worker(stubborn(path), stream, safe);

    read_pids(path, pids, 2);
    CHECK_INT(kill(pid, SIGSTOP), 0);
    proc_until(stopped, &pid, "the worker is frozen");
    CHECK(now_us() < safe);
    CHECK(!is_gone(pids[0]));
    proc_until(both_gone, pids, "the programs of a frozen worker are dead");
    int64_t at = now_us();
    CHECK(at >= safe);
    CHECK(at < safe + 2500000);
    CHECK_INT(kill(pid, SIGCONT), 0);
    int status = end_of(pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), EMQ__EXEC_STOPPED);
}

EMQ_TEST(programs_of_a_frozen_worker_are_dead_when_its_lock_ends)
{
    frozen_worker(false);
}

EMQ_TEST(a_kept_program_of_a_frozen_worker_is_dead_when_its_lock_ends)
{
    frozen_worker(true);
}

EMQ_TEST(the_supervisor_ends_with_the_worker)
{
    struct rig *r = rig_sh("true");
    pid_t pid = r->x->supervisor->pid;

    CHECK(!is_gone(pid));
    rig_close(r);
    CHECK(is_gone(pid));
}

/* Descriptors of a process that are not those of a supervisor. */
static bool holds_only_its_own(void *arg)
{
    const pid_t *pid = arg;
    char path[64], target[256];
    int own = 0;

    for (int fd = 0; fd < 1024; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)*pid, fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len < 0)
            continue;
        target[len] = '\0';
        if (!strstr(target, "socket:") && !strstr(target, "[timerfd]") && !strstr(target, "pidfd"))
            return false;
        own++;
    }
    return own == 2 || own == 3;
}

EMQ_TEST(the_supervisor_holds_no_descriptor_of_the_worker)
{
    struct rig *r = rig_sh("true");
    pid_t pid = r->x->supervisor->pid;

    proc_until(holds_only_its_own, &pid, "the supervisor has closed what it inherited");
    rig_close(r);
}

struct renewing {
    struct rig *r;
    int64_t fence;
    atomic_int stop;
};

static void *renew(void *arg)
{
    struct renewing *me = arg;

    while (!me->stop) {
        me->r->s->safe_until_us = now_us() + 1500000;
        emq__exec_lease(me->r->x, 0, me->fence, (struct emq__mono){me->r->s->safe_until_us});
        (void)usleep(20000);
    }
    return NULL;
}

EMQ_TEST(a_renewed_lock_keeps_its_program)
{
    struct rig *r = rig_sh("sleep 3; echo ok");
    struct renewing me = {.r = r};
    pthread_t thread;

    rig_slot(r, EMQ_STR_LIT(""));
    me.fence = r->s->job->rec.fence;
    r->s->safe_until_us = now_us() + 1500000;
    CHECK_INT(pthread_create(&thread, NULL, renew, &me), 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    me.stop = 1;
    CHECK_INT(pthread_join(thread, NULL), 0);
    rig_close(r);
}

EMQ_TEST(a_lease_of_another_job_keeps_nothing)
{
    struct rig *r = rig_sh("sleep 300");

    rig_slot(r, EMQ_STR_LIT(""));
    emq__exec_lease(r->x, 0, 1, (struct emq__mono){INT64_MAX});
    r->s->safe_until_us = now_us() + 500000;
    emq__exec_begin(r->x, r->s);
    emq__exec_lease(r->x, 0, r->s->job->rec.fence + 1, (struct emq__mono){INT64_MAX});
    emq__exec_lease(r->x, 99, r->s->job->rec.fence, (struct emq__mono){INT64_MAX});
    CHECK_INT(emq__supervisor_ward(r->x->supervisor, 0)->deadline_us, r->s->safe_until_us);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    rig_close(r);
}

/* The worker believes in a renewal, but its lease never came: the job goes back uncharged. */
EMQ_TEST(a_program_that_the_supervisor_ended_too_early_charges_nobody)
{
    struct rig *r = rig_sh("sleep 300");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->safe_until_us = now_us() + 60 * 1000000LL;
    struct emq__exec_result res = {0};
    emq_error err = {0};
    /* As soon as it has begun its deadline is moved to now. */
    pid_t helper = fork();
    CHECK(helper >= 0);
    if (helper == 0) { /* the table of wards is shared with it */
        struct emq__ward *w = emq__supervisor_ward(r->x->supervisor, 0);
        while (w->state != EMQ__WARD_LIVE)
            (void)usleep(1000);
        emq__ward_until(r->x->supervisor, 0, now_us());
        _exit(0);
    }
    CHECK_STATUS(emq__exec_run(r->x, r->s, &res, &err), EMQ_E_SYSTEM);
    CHECK(strstr(err.text, "lock") != NULL);
    (void)end_of(helper);
    emq__arena_free(&res.mem);
    rig_close(r);
}

struct killer {
    struct emq__slot *s;
    pid_t pid;
};

static void *kill_when_running(void *arg)
{
    struct killer *k = arg;

    while (k->s->entries == 0)
        (void)usleep(1000);
    (void)kill(k->pid, SIGKILL);
    return NULL;
}

EMQ_TEST(a_dead_supervisor_is_replaced_while_the_program_runs)
{
    struct rig *r = rig_sh("echo running >&2; sleep 1; echo ok");
    pthread_t thread;

    rig_slot(r, EMQ_STR_LIT(""));
    pid_t first = r->x->supervisor->pid;
    struct killer k = {r->s, first};
    CHECK_INT(pthread_create(&thread, NULL, kill_when_running, &k), 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    CHECK_INT(pthread_join(thread, NULL), 0);
    pid_t second = r->x->supervisor->pid;
    CHECK(second > 0 && second != first);
    CHECK(is_gone(first) && !is_gone(second));
    rig_close(r);
}

EMQ_TEST(a_supervisor_that_died_between_jobs_is_replaced_before_the_next)
{
    struct rig *r = rig_sh("sleep 300");
    pid_t first = r->x->supervisor->pid;

    CHECK_INT(kill(first, SIGKILL), 0);
    rig_slot(r, EMQ_STR_LIT(""));
    r->s->safe_until_us = now_us() + 300000;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    CHECK(r->x->supervisor->pid != first);
    rig_close(r);
}

EMQ_TEST(a_fork_of_the_worker_can_close_without_harm)
{
    struct rig *r = rig_sh("cat");
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        emq__exec_close(r->x);
        _exit(0);
    }
    CHECK_INT(end_of(pid), 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("x")), EMQ__EXEC_DONE);
    CHECK(!is_gone(r->x->supervisor->pid));
    rig_close(r);
}

/* A worker that dies while somebody else holds copies of its descriptors. */
EMQ_TEST(a_killed_worker_with_a_living_fork_takes_its_programs_with_it)
{
    const char *path = temp_path("pids");
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const char *argv[] = {"sh", "-c", stubborn(path), NULL};
        struct emq__exec_config cfg = {.argv = argv, .concurrency = 1};
        struct emq__exec *x;
        struct emq__exec_result res = {0};
        if (emq__exec_open(&x, &cfg, NULL) != EMQ_OK)
            _exit(98);
        pid_t copy = fork();
        if (copy == 0) { /* lives until the test ends */
            char byte;
            (void)close(ends[1]);
            (void)!read(ends[0], &byte, 1);
            _exit(0);
        }
        (void)emq__exec_run(x, fake_slot(EMQ_STR_LIT(""), 0), &res, NULL);
        _exit(99);
    }
    pid_t pids[2];
    read_pids(path, pids, 2);
    CHECK_INT(kill(pid, SIGKILL), 0);
    (void)end_of(pid);
    proc_until(both_gone, pids, "the programs are dead although a fork lives");
    (void)close(ends[0]);
    (void)close(ends[1]);
}
