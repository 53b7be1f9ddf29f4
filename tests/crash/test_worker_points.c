/* SPDX-License-Identifier: MIT
 *
 * A worker process killed, or frozen, at each of the six points of a job's path; then another worker.
 * What must come out is the table of ARCHITECTURE.md section 2.
 */
#include "herd.h"

#include "model/job.h"

#include <signal.h>
#include <sys/wait.h>

struct expected {
    const char *point;
    int effects, begun; /* over both workers */
    int stalled;
    int state; /* 0 = gone */
};

static void crash_at(const char *mode, const struct expected *x)
{
    struct herd h;
    char env[64], args[200];

    herd_open(&h, "full");
    herd_add(&h, "a", 0);
    (void)snprintf(env, sizeof env, "EMQ_CRASH_AT=%s", x->point);
    (void)snprintf(args, sizeof args, "lock=300 interval=100 mode=%s max_jobs=1", mode);
    int status = herd_wait(herd_start(&h, env, args));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s: the worker was not killed there (status %d)", x->point, status);
    (void)snprintf(args, sizeof args, "lock=300 mode=%s", mode);
    herd_work_off(&h, args);

    emq_job *j = herd_job(&h, "a");
    int state = j ? emq_job_state(j) : 0, stalled = j ? emq_job_stalled(j) : 0;
    int effects = herd_count(&h, 'E', NULL, 0), begun = herd_count(&h, 'B', NULL, 0);
    if (state != x->state || effects != x->effects || begun != x->begun ||
        (j && stalled != x->stalled))
        fail_msg("%s: state %d, effects %d, begun %d, stalled %d; expected %d, %d, %d, %d",
                 x->point, state, effects, begun, stalled, x->state, x->effects, x->begun,
                 x->stalled);
    if (j && state == EMQ_FAILED_STATE)
        CHECK_STR(emq_job_failed_reason(j), EMQ__TEXT_AT_MOST_ONCE);
    emq_job_free(j);
    herd_close(&h);
}

#define AT_LEAST_ONCE(name, ...)                        \
    EMQ_TEST(name)                                      \
    {                                                   \
        crash_at("0", &(struct expected){__VA_ARGS__}); \
    }
#define AT_MOST_ONCE(name, ...)                         \
    EMQ_TEST(name)                                      \
    {                                                   \
        crash_at("1", &(struct expected){__VA_ARGS__}); \
    }
#define FIRE_AND_FORGET(name, ...)                      \
    EMQ_TEST(name)                                      \
    {                                                   \
        crash_at("2", &(struct expected){__VA_ARGS__}); \
    }

AT_LEAST_ONCE(a_crash_before_the_take_changes_nothing, "P0", 1, 1, 0, EMQ_COMPLETED_STATE)
AT_LEAST_ONCE(a_crash_after_the_take_delivers_again_with_one_effect, "P1", 1, 1, 1,
              EMQ_COMPLETED_STATE)
AT_LEAST_ONCE(a_crash_before_the_effect_delivers_again_with_one_effect, "P2", 1, 1, 1,
              EMQ_COMPLETED_STATE)
AT_LEAST_ONCE(a_crash_in_the_gap_delivers_again_with_two_effects, "P3", 2, 2, 1,
              EMQ_COMPLETED_STATE)
AT_LEAST_ONCE(a_crash_before_the_acks_reply_is_read_is_clean, "P4", 1, 1, 0, EMQ_COMPLETED_STATE)
AT_LEAST_ONCE(a_crash_after_the_ack_is_clean, "P5", 1, 1, 0, EMQ_COMPLETED_STATE)

AT_MOST_ONCE(at_most_once_a_crash_before_the_take_changes_nothing, "P0", 1, 1, 0,
             EMQ_COMPLETED_STATE)
AT_MOST_ONCE(at_most_once_a_crash_after_the_take_loses_the_job_visibly, "P1", 0, 0, 1,
             EMQ_FAILED_STATE)
AT_MOST_ONCE(at_most_once_a_crash_before_the_effect_loses_the_job_visibly, "P2", 0, 0, 1,
             EMQ_FAILED_STATE)
AT_MOST_ONCE(at_most_once_a_crash_in_the_gap_leaves_one_effect, "P3", 1, 1, 1, EMQ_FAILED_STATE)
AT_MOST_ONCE(at_most_once_a_crash_before_the_acks_reply_is_read_is_clean, "P4", 1, 1, 0,
             EMQ_COMPLETED_STATE)

FIRE_AND_FORGET(fire_and_forget_a_crash_before_the_take_changes_nothing, "P0", 1, 1, 0, 0)
FIRE_AND_FORGET(fire_and_forget_a_crash_after_the_take_loses_the_job, "P1", 0, 0, 0, 0)
FIRE_AND_FORGET(fire_and_forget_a_crash_after_the_effect_is_clean, "P3", 1, 1, 0, 0)

/* The third time: two jobs are settled and acknowledged before. */
EMQ_TEST(a_crash_at_the_third_pass_of_a_point_leaves_the_first_two_alone)
{
    struct herd h;
    char id[20];

    herd_open(&h, "full");
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        herd_add(&h, id, 0);
    }
    int status = herd_wait(herd_start(&h, "EMQ_CRASH_AT=P3:3", "lock=300 interval=100 empty=1"));
    CHECK(WIFSIGNALED(status));
    CHECK_INT(herd_state(&h, EMQ_COMPLETED_STATE), 2);
    herd_work_off(&h, "lock=300");
    CHECK_INT(herd_count(&h, 'E', NULL, 0), 6);
    CHECK_INT(herd_count(&h, 'E', "j2", 0), 2);
    CHECK_INT(herd_state(&h, EMQ_COMPLETED_STATE), 5);
    herd_close(&h);
}

EMQ_TEST(a_misspelt_crash_point_is_refused)
{
    struct herd h;

    herd_open(&h, "full");
    int status = herd_wait(herd_start(&h, "EMQ_CRASH_AT=P9", "empty=1"));
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 1);
    herd_close(&h);
}

/* ---- frozen, not dead -------------------------------------------------------------------- */

/* The first job passes time, so that no other thread of the worker is inside the store when it freezes:
 * a frozen process that holds the file keeps everybody out, and nobody can take its jobs then. */
static void freeze_at(const char *point, int effects)
{
    struct herd h;
    char env[64];

    herd_open(&h, "full");
    herd_add(&h, "first", 0);
    herd_add(&h, "a", 0);
    (void)snprintf(env, sizeof env, "EMQ_STOP_AT=%s:2", point);
    pid_t frozen =
        herd_start(&h, env, "lock=1500 interval=3600000 max_jobs=2 work=250 name=frozen");
    herd_stopped(frozen);
    herd_work_off(&h, "lock=1500 name=second");
    emq_job *j = herd_job(&h, "a");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_processed_by(j), "second");
    int64_t finished_at = emq_job_finished_at_ms(j);
    emq_job_free(j);

    CHECK_INT(kill(frozen, SIGCONT), 0);
    int status = herd_wait(frozen);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    if (!strstr(herd_output(&h, 1), "completed 1 failed 0 lost 1 "))
        fail_msg("the frozen worker says: %s", herd_output(&h, 1));
    /* The second owner's result stands. */
    j = herd_job(&h, "a");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_processed_by(j), "second");
    CHECK_INT(emq_job_finished_at_ms(j), finished_at);
    CHECK_INT(emq_job_attempts_made(j), 1);
    emq_job_free(j);
    CHECK_INT(herd_count(&h, 'E', "a", 0), effects);
    herd_close(&h);
}

EMQ_TEST(a_worker_frozen_in_the_gap_has_its_late_ack_refused)
{
    freeze_at("P3", 2);
}

/* The act is done: whoever looks meanwhile finds nothing to do, and the worker learns so when it wakes. */
EMQ_TEST(a_worker_frozen_before_the_acks_reply_is_read_has_done_its_job_once)
{
    struct herd h;

    herd_open(&h, "full");
    herd_add(&h, "first", 0);
    herd_add(&h, "a", 0);
    pid_t frozen = herd_start(&h, "EMQ_STOP_AT=P4:2",
                              "lock=300 interval=3600000 max_jobs=2 work=250 name=frozen");
    herd_stopped(frozen);
    herd_work_off(&h, "lock=300 interval=100 name=second");
    CHECK_INT(kill(frozen, SIGCONT), 0);
    int status = herd_wait(frozen);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    if (!strstr(herd_output(&h, 1), "completed 2 failed 0 lost 0 "))
        fail_msg("the frozen worker says: %s", herd_output(&h, 1));
    emq_job *j = herd_job(&h, "a");
    CHECK_INT(emq_job_state(j), EMQ_COMPLETED_STATE);
    CHECK_STR(emq_job_processed_by(j), "frozen");
    emq_job_free(j);
    CHECK_INT(herd_count(&h, 'E', "a", 0), 1);
    herd_close(&h);
}

EMQ_TEST(a_worker_frozen_before_it_began_does_not_begin_past_its_safe_point)
{
    freeze_at("P1", 1);
}
