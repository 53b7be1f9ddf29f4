/* SPDX-License-Identifier: MIT
 *
 * Ending a program: by its run limit, a cancel, the end of its lock; and what it leaves behind.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <echomq/worker.h>

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

EMQ_TEST(a_child_of_the_program_that_holds_stdout_does_not_hold_the_slot)
{
    struct rig *r;
    int64_t begin = now_us();

    CHECK_INT(rig_sh_run(&r, "sleep 300 & echo $!"), EMQ__EXEC_DONE);
    CHECK(now_us() - begin < 10 * 1000000LL);
    pid_t pid = (pid_t)strtol(r->res.result.ptr, NULL, 10);
    CHECK(pid > 1);
    proc_gone(pid);
    rig_close(r);
}

struct stopping {
    struct emq__slot *s;
    int reason; /* USER: it is asked to stop; TIMEOUT: its time is over */
};

static void *stop_when_running(void *arg)
{
    const struct stopping *stop = arg;

    while (stop->s->entries == 0) /* it has said a word */
        (void)usleep(1000);
    if (stop->reason == EMQ_CANCEL_TIMEOUT)
        stop->s->run_until_us = now_us();
    else
        stop->s->cancel = stop->reason;
    (void)eventfd_write(stop->s->fd, 1);
    return NULL;
}

/* Runs a program that says a word when it is ready to be stopped. Returns how long it took then. */
static int64_t stop_it(struct rig *r, int reason)
{
    struct stopping stop = {.reason = reason};
    pthread_t thread;

    rig_slot(r, EMQ_STR_LIT(""));
    stop.s = r->s;
    CHECK_INT(pthread_create(&thread, NULL, stop_when_running, &stop), 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    CHECK_INT(pthread_join(thread, NULL), 0);
    return r->s->run_until_us == INT64_MAX ? 0 : now_us() - r->s->run_until_us;
}

EMQ_TEST(a_timeout_is_TERM_first)
{
    struct rig *r = rig_sh("trap 'echo cleaning up >&2; exit 0' TERM; echo running >&2; "
                           "while :; do sleep 0.02; done");

    CHECK(stop_it(r, EMQ_CANCEL_TIMEOUT) < 4 * 1000000LL);
    CHECK(has(emq__buf_view(&r->s->log), "cleaning up"));
    CHECK_INT(emq__slot_cancelled(r->s), EMQ_CANCEL_TIMEOUT);
    rig_close(r);
}

EMQ_TEST(who_ignores_TERM_is_killed_with_its_children)
{
    struct rig *r =
        rig_sh("trap '' TERM; sleep 300 & echo $$ $! >&2; while :; do sleep 0.05; done");

    int64_t took = stop_it(r, EMQ_CANCEL_TIMEOUT);
    CHECK(took > 5 * 1000000LL - 200000 && took < 15 * 1000000LL);
    CHECK_INT(r->res.exit_status, 128 + SIGKILL);
    char *end;
    pid_t leader = (pid_t)strtol(r->s->log.ptr, &end, 10);
    pid_t other = (pid_t)strtol(end, NULL, 10);
    CHECK(leader > 1 && is_gone(leader));
    CHECK(other > 1);
    proc_gone(other);
    rig_close(r);
}

EMQ_TEST(at_the_safe_point_it_is_KILL_at_once)
{
    struct rig *r = rig_sh("trap '' TERM; while :; do sleep 0.05; done");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->run_until_us = now_us() + 100000;
    r->s->safe_until_us = now_us() + 600000;
    int64_t begin = now_us();
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    CHECK(now_us() - begin < 3 * 1000000LL);
    rig_close(r);
}

EMQ_TEST(a_cancel_is_seen_at_once)
{
    struct rig *r = rig_sh("echo running >&2; sleep 300");

    (void)stop_it(r, EMQ_CANCEL_USER);
    CHECK_INT(r->res.exit_status, 128 + SIGTERM);
    rig_close(r);
}

EMQ_TEST(a_job_that_is_cancelled_already_is_not_started)
{
    struct rig *r = rig_sh("echo started >&2");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->cancel = EMQ_CANCEL_SHUTDOWN;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    CHECK_INT(r->s->entries, 0);
    CHECK_INT(r->res.exit_status, -1);
    rig_close(r);
}
