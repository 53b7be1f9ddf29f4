/* SPDX-License-Identifier: MIT
 *
 * One program for many jobs: its lines, and what happens when it breaks the rules or dies.
 */
#include "exec_fake.h"

#include "base/json.h"
#include "base/str.h"

#include <echomq/worker.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define EACH_LINE "while IFS= read -r line; do "

static emq_str run(struct rig *r, const char *data)
{
    CHECK_INT(rig_run(r, emq_cstr(data)), EMQ__EXEC_DONE);
    return r->res.result;
}

EMQ_TEST(one_program_serves_many_jobs)
{
    struct rig *r = rig_sh_stream(EACH_LINE "echo '{\"result\": '$$'}'; done");

    int64_t first = strtol(run(r, "1").ptr, NULL, 10);
    for (int i = 0; i < 20; i++)
        CHECK_INT(strtol(run(r, "2").ptr, NULL, 10), first);
    CHECK_INT(r->res.exit_status, -1);
    rig_close(r);
}

EMQ_TEST(the_request_is_one_line_about_the_job)
{
    struct rig *r = rig_sh_stream(EACH_LINE "printf '{\"result\":%s}\\n' \"$line\"; done");
    static const char *const parts[] = {"\"id\":\"7\"",
                                        "\"queue\":\"q\"",
                                        "\"name\":\"a name\"",
                                        "\"data\":{\"a\": [1, 2]}",
                                        "\"attempt\":2",
                                        "\"token\":\"w:1000\"",
                                        "\"idempotencyKey\":\"emq:q:7:1700000000000\"",
                                        "\"deadlineAtMs\":1234567890123",
                                        "\"fence\":"};

    emq_str request = run(r, "{\"a\": [1,\n2]}");
    CHECK(emq__json_valid(request, NULL));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(parts); i++)
        if (!has(request, parts[i]))
            fail_msg("%s is missing", parts[i]);
    CHECK(!has(request, "dataEncoding"));
    request = run(r, "plain text");
    CHECK(has(request, "\"data\":\"plain text\",\"dataEncoding\":\"text\""));
    request = run(r, "\xff\xfe");
    CHECK(has(request, "\"data\":\"//4=\",\"dataEncoding\":\"base64\""));
    rig_close(r);
}

EMQ_TEST(results_are_JSON_text_or_bytes)
{
    struct rig *r = rig_sh_stream(
        EACH_LINE
        "case $line in *one*) echo '{\"result\":{\"a\" : 1}}';; *two*) echo '{\"result\":null}';; "
        "*four*) echo '{\"result\":\"AP8=\",\"resultEncoding\":\"base64\"}';; esac; done");

    CHECK_STR(run(r, "one"), "{\"a\" : 1}");
    assert_null(run(r, "two").ptr);
    CHECK_STR_EQ(run(r, "four"), EMQ_STR_LIT("\0\xff"));
    rig_close(r);
}

EMQ_TEST(progress_and_log_come_before_the_answer)
{
    struct rig *r = rig_sh_stream(
        EACH_LINE
        "echo '{\"log\":\"begun\"}'; echo '{\"progress\":{\"done\":50}}'; echo words >&2; "
        "echo '{\"progress\":100,\"log\":\"nearly\"}'; echo '{\"result\":1}'; done");

    CHECK_STR(run(r, "1"), "1");
    emq_str log = emq__buf_view(&r->s->log);
    CHECK(has(log, "begun\n") && has(log, "words\n") && has(log, "nearly\n"));
    CHECK_STR_EQ(emq__buf_view(&r->s->progress), EMQ_STR_LIT("100"));
    rig_close(r);
}

EMQ_TEST(errors_are_failures_retries_and_give_backs)
{
    struct rig *r = rig_sh_stream(
        EACH_LINE
        "case $line in *one*) echo '{\"error\":\"no luck\"}';; *two*) echo "
        "'{\"error\":\"bad\",\"final\":true}';; "
        "*three*) echo '{\"error\":\"later\",\"retryAfter\":\"30s\",\"stack\":\"at x\"}';; "
        "*four*) echo '{\"giveBack\":true,\"retryAfter\":\"5s\"}';; esac; done");

    CHECK_INT(rig_run(r, EMQ_STR_LIT("one")), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "no luck");
    CHECK_INT(r->res.retry_after_ms, -1);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("two")), EMQ__EXEC_FAIL);
    CHECK_STR(r->res.reason, "bad");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("three")), EMQ__EXEC_RETRY);
    CHECK_INT(r->res.retry_after_ms, 30000);
    CHECK_STR(r->res.stack, "at x");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("four")), EMQ__EXEC_GIVE_BACK);
    CHECK_INT(r->res.retry_after_ms, 5000);
    rig_close(r);
}

EMQ_TEST(effects_of_a_kept_program_are_files_of_the_job_that_named_them)
{
    struct rig *r = rig_sh_stream(
        "f=$(mktemp); echo 'select 1;' >\"$f\"; echo '[\"INCR\",\"n\"]' >\"$f.2\"; " EACH_LINE
        "case $line in *one*) echo '{\"sql\":\"'$f'\"}'; echo '{\"sql\":\"'$f'\",\"result\":1}';; "
        "*two*) echo '{\"redis\":\"'$f.2'\",\"log\":\"x\"}'; echo '{\"result\":2}';; "
        "*three*) echo '{\"result\":3}';; *four*) echo '{\"sql\":\"'$f'\",\"error\":\"no\"}';; "
        "*five*) echo '{\"sql\":\"/nowhere/file\",\"result\":5}';; esac; done");

    CHECK_STR(run(r, "one"), "1");
    CHECK_INT(r->res.sql.n, 2);
    CHECK_STR(r->res.sql.list[1], "select 1;\n");
    CHECK_INT(r->res.commands.n, 0);
    CHECK_STR(run(r, "two"), "2");
    CHECK_INT(r->res.commands.n, 1);
    CHECK_STR(r->res.commands.list[0], "[\"INCR\",\"n\"]\n");
    CHECK_INT(r->res.sql.n, 0);
    CHECK_STR(run(r, "three"), "3"); /* nothing of the jobs before */
    CHECK_INT(r->res.sql.n, 0);
    CHECK_INT(r->res.commands.n, 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("four")), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "no");
    CHECK_INT(r->res.sql.n, 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("five")), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "sql /nowhere/file") && has(r->res.reason, "No such file"));
    CHECK_STR(run(r, "one"), "1");
    rig_close(r);
}

/* Fails the attempt, and the next job meets a fresh process. */
static void breaks(const char *answer, const char *what)
{
    char script[2048];
    (void)snprintf(script, sizeof script,
                   EACH_LINE "case $line in *bad*) %s;; *) echo '{\"result\":1}';; esac; done",
                   answer);
    struct rig *r = rig_sh_stream(script);

    CHECK_STR(run(r, "good"), "1");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("bad")), EMQ__EXEC_RETRY);
    if (!has(r->res.reason, what))
        fail_msg("\"%.*s\" does not say %s", EMQ_STR_ARG(r->res.reason), what);
    CHECK_STR(run(r, "good"), "1");
    rig_close(r);
}

EMQ_TEST(a_broken_protocol_fails_the_attempt_and_replaces_the_program)
{
    breaks("echo hello", "not JSON");
    breaks("echo '[1]'", "not a JSON object");
    breaks("echo '{\"other\":1}'", "none of result");
    breaks("echo '{\"result\":1,\"id\":\"another\"}'", "another job");
    breaks("echo '{\"result\":1,\"error\":\"x\"}'", "both");
    breaks("echo '{\"error\":\"x\",\"retryAfter\":30}'", "retryAfter");
    breaks("echo '{\"sql\":1}'", "names of files");
    breaks("echo '{\"redis\":\"\",\"result\":1}'", "names of files");
    breaks("echo '{\"sql\":\"a\\\\u0000b\"}'", "names of files");
    breaks("exec 1>&-; sleep 300", "closed its stdout");
    breaks("head -c 9000000 /dev/zero | tr '\\\\0' x; echo", "8 MiB");
    breaks("exit 0", "without an answer");
    breaks("printf '{\"result\":1}\\n{\"sql\":\"file\"}\\n'", "a line after the answer");
}

EMQ_TEST(a_dying_program_follows_the_exit_rules)
{
    struct rig *r = rig_sh_stream(
        EACH_LINE
        "case $line in *three*) echo oh no >&2; exit 3;; *never*) exit 65;; *later*) exit 75;; "
        "*kill*) kill -KILL $$;; *) echo '{\"result\":1}';; esac; done");

    CHECK_INT(rig_run(r, EMQ_STR_LIT("three")), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 3: oh no");
    CHECK_INT(r->res.exit_status, 3);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("never")), EMQ__EXEC_FAIL);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("later")), EMQ__EXEC_GIVE_BACK);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("kill")), EMQ__EXEC_STALLED);
    CHECK_STR(run(r, "good"), "1");
    rig_close(r);
}

EMQ_TEST(a_program_that_leaves_after_its_answer_costs_no_job)
{
    struct rig *r = rig_sh_stream("IFS= read -r line; echo '{\"result\":1}'");
    int before = open_fds();

    for (int i = 0; i < 30; i++)
        CHECK_STR(run(r, "x"), "1");
    CHECK(open_fds() <= before + 6);
    rig_close(r);
}

EMQ_TEST(a_program_that_never_reads_fails_the_attempt)
{
    struct rig *r = rig_sh_stream("exit 0");

    CHECK_INT(rig_run(r, EMQ_STR_LIT("x")), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "without reading"));
    rig_close(r);
}

static bool is_removed(void *path)
{
    return access(path, F_OK) != 0;
}

/* The second one comes when the first has been taken. */
EMQ_TEST(a_second_answer_is_never_taken_for_the_next_job)
{
    char script[700], go[300];
    const char *dir = test_temp_dir();

    (void)snprintf(go, sizeof go, "%s/go", dir);
    (void)snprintf(script, sizeof script,
                   "n=0; cd '%s'; " EACH_LINE "n=$((n+1)); echo '{\"result\":'$n'}'; "
                   "until [ -e go ]; do sleep 0.01; done; echo '{\"result\":9}'; rm go; done",
                   dir);
    struct rig *r = rig_sh_stream(script);
    for (int i = 0; i < 5; i++) {
        CHECK_STR(run(r, "x"), "1");
        int fd = open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && close(fd) == 0);
        proc_until(is_removed, go, "the program has answered twice");
    }
    rig_close(r);
}

EMQ_TEST(a_timeout_ends_the_program_and_the_next_job_gets_another)
{
    struct rig *r = rig_sh_stream(
        EACH_LINE "case $line in *slow*) sleep 300;; *) echo '{\"result\":'$$'}';; esac; done");

    int64_t first = strtol(run(r, "x").ptr, NULL, 10);
    rig_slot(r, EMQ_STR_LIT("slow"));
    r->s->run_until_us = now_us() + 300000;
    r->res.kind = 0;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("slow")), EMQ__EXEC_STOPPED);
    CHECK(is_gone((pid_t)first));
    int64_t second = strtol(run(r, "x").ptr, NULL, 10);
    CHECK(first != second);
    rig_close(r);
}

EMQ_TEST(data_of_16_MiB_arrives_in_one_line)
{
    char *data = malloc(EMQ_DATA_MAX);
    assert_non_null(data);
    memset(data, 'x', EMQ_DATA_MAX);
    struct rig *r = rig_sh_stream("n=$(head -n 1 | wc -c); echo \"{\\\"result\\\":$n}\"");

    CHECK_INT(rig_run(r, emq_strn(data, EMQ_DATA_MAX)), EMQ__EXEC_DONE);
    CHECK(strtol(r->res.result.ptr, NULL, 10) > EMQ_DATA_MAX);
    rig_close(r);
    free(data);
}

EMQ_TEST(a_program_may_finish_when_its_input_ends)
{
    const char *path = temp_path("bye");
    char script[1024];
    (void)snprintf(script, sizeof script,
                   EACH_LINE "echo '{\"result\":1}'; done; seq 1 20000 >&2; "
                             "echo bye > %s",
                   path);
    struct rig *r = rig_sh_stream(script);

    CHECK_STR(run(r, "x"), "1");
    rig_close(r);
    CHECK_INT(access(path, F_OK), 0);
}

static bool is_there(void *path)
{
    return access(path, F_OK) == 0;
}

EMQ_TEST(words_between_jobs_are_no_jobs)
{
    char path[4096], script[8192];
    (void)snprintf(path, sizeof path, "%s/said", test_temp_dir());
    (void)snprintf(
        script, sizeof script,
        "IFS= read -r line; echo '{\"result\":1}'; sleep 0.2; echo between >&2; echo >%s; "
        "IFS= read -r line; echo '{\"result\":2}'; cat >/dev/null",
        path);
    struct rig *r = rig_sh_stream(script);

    CHECK_STR(run(r, "x"), "1");
    proc_until(is_there, path, "the program has said something between jobs");
    CHECK_STR(run(r, "x"), "2");
    CHECK(!has(emq__buf_view(&r->s->log), "between"));
    rig_close(r);
}
