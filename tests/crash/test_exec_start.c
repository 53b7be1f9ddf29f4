/* SPDX-License-Identifier: MIT
 *
 * Starting a program: what surrounds it, what it leaves open, and commands that can't be started.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- its surroundings --------------------------------------------------------------------- */

EMQ_TEST(the_environment_tells_about_the_job)
{
    struct rig *r;

    CHECK_INT(setenv("EMQ_TOKEN", "stale", 1), 0);
    CHECK_INT(setenv("MINE", "kept", 1), 0);
    CHECK_INT(rig_sh_run(&r, "env"), EMQ__EXEC_DONE);
    static const char *const expected[] = {"EMQ_URL=sqlite:/tmp/x.db\n",
                                           "EMQ_PREFIX=emq\n",
                                           "EMQ_QUEUE=q\n",
                                           "EMQ_WORKER=host:1:1\n",
                                           "EMQ_JOB_ID=7\n",
                                           "EMQ_JOB_NAME=a name\n",
                                           "EMQ_ATTEMPT=2\n",
                                           "EMQ_TOKEN=w:1000\n",
                                           "EMQ_IDEMPOTENCY_KEY=emq:q:7:1700000000000\n",
                                           "EMQ_DEADLINE_AT_MS=1234567890123\n",
                                           "MINE=kept\n"};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(expected); i++)
        if (!has(r->res.result, expected[i]))
            fail_msg("%s is missing", expected[i]);
    char fence[64];
    (void)snprintf(fence, sizeof fence, "EMQ_FENCE=%lld\n", (long long)r->s->job->rec.fence);
    CHECK(has(r->res.result, fence));
    CHECK(!has(r->res.result, "stale"));
    rig_close(r);
    CHECK_INT(unsetenv("EMQ_TOKEN"), 0);
}

EMQ_TEST(a_program_starts_with_plain_signals_and_four_descriptors)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigset_t all, mask;
    int leak = open("/dev/null", O_RDONLY); /* not closed on exec, as careless code does */

    CHECK_INT(sigaction(SIGPIPE, &ignore, &old), 0);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    struct rig *r;
    CHECK_INT(rig_sh_run(&r, "grep -E 'Sig(Blk|Ign)' /proc/self/status; "
                             "i=0; while [ $i -lt 200 ]; do [ -e /proc/$$/fd/$i ] && echo fd $i; "
                             "i=$((i+1)); done; set -- $(cat /proc/$$/stat); "
                             "[ $5 = $$ ] && [ $6 = $$ ] && echo leads"),
              EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
                             "fd 0\nfd 1\nfd 2\nfd 3\nleads\n");
    rig_close(r);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    (void)sigaction(SIGPIPE, &old, NULL);
    (void)close(leak);
}

EMQ_TEST(a_worker_without_standard_descriptors_can_start_programs)
{
    int saved[3];

    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        (void)close(i);
    }
    struct rig *r = rig_sh("cat; echo err >&2; echo log ctl >&3");
    enum emq__exec_kind kind = rig_run(r, EMQ_STR_LIT("through"));
    for (int i = 0; i < 3; i++)
        if (saved[i] >= 0) {
            (void)dup2(saved[i], i);
            (void)close(saved[i]);
        }
    CHECK_INT(kind, EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "through");
    CHECK(has(emq__buf_view(&r->s->log), "err\n") && has(emq__buf_view(&r->s->log), "ctl\n"));
    rig_close(r);
}

EMQ_TEST(children_leave_no_descriptor_behind)
{
    struct rig *r = rig_sh("cat");
    int before = open_fds();

    for (int i = 0; i < 300; i++)
        CHECK_INT(rig_run(r, EMQ_STR_LIT("x")), EMQ__EXEC_DONE);
    fake_free(r->s);
    r->s = NULL;
    CHECK_INT(open_fds(), before);
    rig_close(r);
}

EMQ_TEST(opening_and_closing_leaves_no_descriptor_behind)
{
    int before = open_fds();

    for (int i = 0; i < 20; i++)
        rig_close(rig_sh("true"));
    CHECK_INT(open_fds(), before);
}

struct racer {
    struct emq__exec *x;
    int index, wrong;
};

static void *race(void *arg)
{
    struct racer *me = arg;

    for (int i = 0; i < 40; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%d of %d", i, me->index);
        struct emq__slot *s = fake_slot(emq_cstr(text), me->index);
        struct emq__exec_result res = {0};
        emq_status st = emq__exec_run(me->x, s, &res, NULL);
        me->wrong += st != EMQ_OK || res.kind != EMQ__EXEC_DONE || !emq__str_is(res.result, text);
        emq__arena_free(&res.mem);
        fake_free(s);
    }
    return NULL;
}

EMQ_TEST(children_started_at_once_do_not_hold_each_others_pipes)
{
    /* cat ends at the end of its input: a copy of the pipe in another child would delay it. */
    struct rig *r = rig_sh("cat");
    struct racer racers[8];
    pthread_t threads[8];

    for (int i = 0; i < 8; i++) {
        racers[i] = (struct racer){r->x, i, 0};
        CHECK_INT(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
        CHECK_INT(racers[i].wrong, 0);
    }
    rig_close(r);
}

/* ---- commands that can't be started ------------------------------------------------------- */

static void refused(const char *command, const char *text)
{
    const char *argv[] = {command, NULL};
    struct emq__exec_config cfg = {.argv = argv, .concurrency = 1};
    struct emq__exec *x = NULL;
    emq_error err = {0};

    CHECK_STATUS(emq__exec_open(&x, &cfg, &err), EMQ_E_INVALID);
    if (!strstr(err.text, command) || !strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err.text, command, text);
}

static void write_script(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    CHECK(fputs(text, f) >= 0);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(chmod(path, mode), 0);
}

EMQ_TEST(a_command_that_can_not_be_found_is_refused_at_open)
{
    refused("no-such-command-at-all", "not found in PATH");
    refused("/no/such/file", "not found: check the path");
    refused("/tmp", "directory");
    const char *path = temp_path("plain");
    write_script(path, "echo hi\n", 0644);
    refused(path, "chmod +x");
}

EMQ_TEST(a_command_that_went_away_ends_the_worker_not_the_job)
{
    const char *path = temp_path("script");
    write_script(path, "#!/bin/sh\necho hi\n", 0755);
    const char *argv[] = {path, NULL};
    struct rig *r = rig_open(argv, false);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "hi\n");

    write_script(path, "#!/no/such/interpreter\n", 0755);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_UNSTARTABLE);
    CHECK(has(r->res.reason, "interpreter"));
    CHECK_INT(r->res.exit_status, -1);
    write_script(path, "echo no first line\n", 0755);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_UNSTARTABLE);
    CHECK(has(r->res.reason, "#!"));
    CHECK_INT(unlink(path), 0);
    int before = open_fds();
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_UNSTARTABLE);
    CHECK(has(r->res.reason, path));
    CHECK_INT(open_fds(), before);
    rig_close(r);
}

EMQ_TEST(an_ignored_SIGCHLD_is_refused_because_it_eats_exit_codes)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;

    CHECK_INT(sigaction(SIGCHLD, &ignore, &old), 0);
    const char *argv[] = {"true", NULL};
    struct emq__exec_config cfg = {.argv = argv, .concurrency = 1};
    struct emq__exec *x = NULL;
    emq_error err = {0};
    emq_status s = emq__exec_open(&x, &cfg, &err);
    (void)sigaction(SIGCHLD, &old, NULL);
    CHECK_STATUS(s, EMQ_E_INVALID);
    CHECK(strstr(err.text, "SIGCHLD") != NULL);
}
