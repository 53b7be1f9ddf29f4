/* SPDX-License-Identifier: MIT
 *
 * One program for one job: the bytes that it is given and gives back, and what its end means.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <signal.h>

static char *fill(size_t n)
{
    char *p = malloc(n);
    uint64_t seed = test_seed();

    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)test_random(&seed);
    return p;
}

/* ---- bytes -------------------------------------------------------------------------------- */

EMQ_TEST(all_bytes_come_back_as_they_went)
{
    char all[256 * 4];

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)i;
    struct rig *r = rig_sh("cat");
    CHECK_INT(rig_run(r, emq_strn(all, sizeof all)), EMQ__EXEC_DONE);
    CHECK_STR_EQ(r->res.result, emq_strn(all, sizeof all));
    CHECK_INT(r->res.exit_status, 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("\0\0")), EMQ__EXEC_DONE);
    CHECK_STR_EQ(r->res.result, EMQ_STR_LIT("\0\0"));
    rig_close(r);
}

EMQ_TEST(no_output_is_no_result)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "cat >/dev/null"), EMQ__EXEC_DONE);
    assert_null(r->res.result.ptr);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    rig_close(r);
}

EMQ_TEST(data_of_16_MiB_arrives)
{
    char *data = fill(EMQ_DATA_MAX);
    struct rig *r = rig_sh("wc -c");

    CHECK_INT(rig_run(r, emq_strn(data, EMQ_DATA_MAX)), EMQ__EXEC_DONE);
    CHECK(has(r->res.result, "16777216"));
    rig_close(r);
    free(data);
}

EMQ_TEST(a_result_of_1_MiB_is_kept)
{
    char *data = fill(EMQ_RESULT_MAX);
    struct rig *r = rig_sh("cat");

    CHECK_INT(rig_run(r, emq_strn(data, EMQ_RESULT_MAX)), EMQ__EXEC_DONE);
    CHECK_STR_EQ(r->res.result, emq_strn(data, EMQ_RESULT_MAX));
    rig_close(r);
    free(data);
}

EMQ_TEST(a_result_over_the_limit_fails_the_attempt_and_is_drained)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "head -c 2097152 /dev/zero && echo all written >&2"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "2097152 bytes"));
    CHECK(has(r->res.reason, "1048576"));
    CHECK_STR_EQ(emq__buf_view(&r->s->log), EMQ_STR_LIT("all written\n"));
    assert_null(r->res.result.ptr);
    rig_close(r);
}

EMQ_TEST(a_program_need_not_read_its_data)
{
    char *data = fill(EMQ_DATA_MAX);
    struct rig *r = rig_sh("exec 0<&-; echo ok");

    CHECK_INT(rig_run(r, emq_strn(data, EMQ_DATA_MAX)), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "ok\n");
    sigset_t pending;
    (void)sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
    rig_close(r);
    free(data);
}

/* ---- exit codes --------------------------------------------------------------------------- */

EMQ_TEST(exit_codes_mean_what_the_table_says)
{
    static const struct {
        int code;
        enum emq__exec_kind kind;
    } table[] = {{0, EMQ__EXEC_DONE},    {1, EMQ__EXEC_RETRY},       {2, EMQ__EXEC_RETRY},
                 {64, EMQ__EXEC_RETRY},  {65, EMQ__EXEC_FAIL},       {75, EMQ__EXEC_GIVE_BACK},
                 {100, EMQ__EXEC_FAIL},  {111, EMQ__EXEC_GIVE_BACK}, {126, EMQ__EXEC_RETRY},
                 {127, EMQ__EXEC_RETRY}, {130, EMQ__EXEC_RETRY},     {255, EMQ__EXEC_RETRY}};
    struct rig *r = rig_sh("exit $(cat)");

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        char code[8], reason[32];
        (void)snprintf(code, sizeof code, "%d", table[i].code);
        (void)snprintf(reason, sizeof reason, "exited with %d", table[i].code);
        CHECK_INT(rig_run(r, emq_cstr(code)), table[i].kind);
        CHECK_INT(r->res.exit_status, table[i].code);
        CHECK_INT(r->res.retry_after_ms, -1);
        if (table[i].code)
            CHECK(emq__str_starts(r->res.reason, reason));
    }
    rig_close(r);
}

EMQ_TEST(shell_codes_hint_at_permissions_and_path)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "no-such-command-at-all"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "exited with 127 (a command inside it was not found: check PATH)"));
    rig_close(r);
    CHECK_INT(rig_sh_run(&r, "/etc/passwd"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "check its permissions"));
    rig_close(r);
}

EMQ_TEST(a_job_with_many_attempts_behind_it_can_be_given_back)
{
    struct rig *r = rig_sh("exit 75");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->job->rec.attempts_started = 1000;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_GIVE_BACK);
    rig_close(r);
}

EMQ_TEST(a_signal_that_is_not_ours_counts_as_a_stall)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "ulimit -c 0; echo about to crash >&2; kill -SEGV $$"),
              EMQ__EXEC_STALLED);
    CHECK_STR(r->res.reason, "killed by signal 11 (SIGSEGV): about to crash");
    CHECK_INT(r->res.exit_status, 128 + 11);
    rig_close(r);
    CHECK_INT(rig_sh_run(&r, "kill -KILL $$"), EMQ__EXEC_STALLED);
    CHECK(has(r->res.reason, "SIGKILL"));
    rig_close(r);
}

EMQ_TEST(the_last_words_are_the_reason)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "printf 'first\\nno such customer\\n\\n \\n' >&2; exit 3"),
              EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 3: no such customer");
    CHECK_STR(r->res.stack, "first\nno such customer\n\n \n");
    rig_close(r);
    CHECK_INT(rig_sh_run(&r, "exit 4"), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 4");
    CHECK_INT(r->res.stack.len, 0);
    rig_close(r);
}

EMQ_TEST(only_the_end_of_a_long_stderr_is_the_stack)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "seq 1 100000 >&2; exit 1"), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 1: 100000");
    CHECK(r->res.stack.len <= 4096 && r->res.stack.len > 4000);
    CHECK(has(r->res.stack, "\n99999\n100000\n"));
    CHECK(r->res.stack.ptr[0] == '9'); /* a whole line */
    rig_close(r);
}

EMQ_TEST(the_example_programs_work)
{
    const char *once[] = {EXAMPLES "/words.sh", NULL};
    struct rig *r = rig_open(once, false);

    CHECK_INT(rig_run(r, EMQ_STR_LIT("three words here")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "{\"words\":3}\n");
    CHECK_STR_EQ(emq__buf_view(&r->s->progress), EMQ_STR_LIT("100"));
    CHECK(has(emq__buf_view(&r->s->log), "attempt 2"));
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_FAIL);
    CHECK(has(r->res.reason, "exited with 65: "));
    rig_close(r);

    const char *kept[] = {"node", EXAMPLES "/stream.js", NULL};
    r = rig_open(kept, true);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("{\"a\":2,\"b\":3}")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "{\"sum\":5}");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("{\"a\":2}")), EMQ__EXEC_FAIL);
    CHECK_STR(r->res.reason, "a and b must be numbers");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("{\"a\":1,\"b\":1}")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "{\"sum\":2}");
    rig_close(r);
}
