/* SPDX-License-Identifier: MIT
 *
 * One program for one job: what it is given, what becomes of what it says, and what its end means.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <echomq/worker.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has(emq_str s, const char *part)
{
    return s.len && memmem(s.ptr, s.len, part, strlen(part)) != NULL;
}

static char *fill(size_t n)
{
    char *p = malloc(n);
    uint64_t seed = test_seed();

    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)test_random(&seed);
    return p;
}

static enum emq__exec_kind sh_once(struct rig **out, const char *script)
{
    *out = rig_sh(script);
    return rig_run(*out, EMQ_STR_LIT("data"));
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

    CHECK_INT(sh_once(&r, "cat >/dev/null"), EMQ__EXEC_DONE);
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

    CHECK_INT(sh_once(&r, "head -c 2097152 /dev/zero && echo all written >&2"), EMQ__EXEC_RETRY);
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

    CHECK_INT(sh_once(&r, "no-such-command-at-all"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "exited with 127 (a command inside it was not found: check PATH)"));
    rig_close(r);
    CHECK_INT(sh_once(&r, "/etc/passwd"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "check its permissions"));
    rig_close(r);
}

EMQ_TEST(a_job_is_not_given_back_for_ever)
{
    struct rig *r = rig_sh("exit 75");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->job->rec.attempts_started = 99;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_GIVE_BACK);
    rig_slot(r, EMQ_STR_LIT(""));
    r->res.kind = 0;
    r->s->job->rec.attempts_started = 100;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_FAIL);
    CHECK(has(r->res.reason, "handed out 100 times"));
    CHECK(has(r->res.reason, "exited with 75"));
    rig_close(r);
}

EMQ_TEST(a_signal_that_is_not_ours_counts_as_a_stall)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "ulimit -c 0; echo about to crash >&2; kill -SEGV $$"),
              EMQ__EXEC_STALLED);
    CHECK_STR(r->res.reason, "killed by signal 11 (SIGSEGV): about to crash");
    CHECK_INT(r->res.exit_status, 128 + 11);
    rig_close(r);
    CHECK_INT(sh_once(&r, "kill -KILL $$"), EMQ__EXEC_STALLED);
    CHECK(has(r->res.reason, "SIGKILL"));
    rig_close(r);
}

EMQ_TEST(the_last_words_are_the_reason)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "printf 'first\\nno such customer\\n\\n \\n' >&2; exit 3"),
              EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 3: no such customer");
    CHECK_STR(r->res.stack, "first\nno such customer\n\n \n");
    rig_close(r);
    CHECK_INT(sh_once(&r, "exit 4"), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 4");
    CHECK_INT(r->res.stack.len, 0);
    rig_close(r);
}

EMQ_TEST(only_the_end_of_a_long_stderr_is_the_stack)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "seq 1 100000 >&2; exit 1"), EMQ__EXEC_RETRY);
    CHECK_STR(r->res.reason, "exited with 1: 100000");
    CHECK(r->res.stack.len <= 4096 && r->res.stack.len > 4000);
    CHECK(has(r->res.stack, "\n99999\n100000\n"));
    CHECK(r->res.stack.ptr[0] == '9'); /* a whole line */
    rig_close(r);
}

/* ---- the job's log ------------------------------------------------------------------------ */

EMQ_TEST(stderr_is_the_log_in_order)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "echo one >&2; echo log two >&3; sleep 0.1; printf 'three' >&2"),
              EMQ__EXEC_DONE);
    emq_str log = emq__buf_view(&r->s->log);
    CHECK(has(log, "one\n") && has(log, "two\n") && has(log, "three\n"));
    CHECK_INT(log.len, strlen("one\ntwo\nthree\n"));
    rig_close(r);
}

EMQ_TEST(many_lines_cost_few_writes_and_none_is_lost)
{
    struct rig *r;
    struct emq__buf all;

    emq__buf_init(&all, 1 << 24);
    for (int i = 1; i <= 50000; i++)
        emq__buf_printf(&all, "%d\n", i);
    CHECK_INT(sh_once(&r, "seq 1 50000 >&2"), EMQ__EXEC_DONE);
    CHECK_STR_EQ(emq__buf_view(&r->s->log), emq__buf_view(&all));
    CHECK(r->s->entries < 200);
    emq__buf_free(&all);
    rig_close(r);
}

EMQ_TEST(a_megabyte_of_rubbish_on_stderr_is_recorded_clean)
{
    char *junk = malloc(1 << 20);
    assert_non_null(junk);
    static const char pattern[] = "\xF0\x9F\x98\x80\xFF\xC3\x28\x1b[31m\0x<b>";
    for (size_t i = 0; i < 1 << 20; i++)
        junk[i] = pattern[i % (sizeof pattern - 1)];
    struct rig *r = rig_sh("cat >&2; exit 1");

    CHECK_INT(rig_run(r, emq_strn(junk, 1 << 20)), EMQ__EXEC_RETRY);
    emq_str log = emq__buf_view(&r->s->log);
    CHECK_INT(r->s->entries, 1);
    CHECK(log.len <= EMQ_LOG_LINE_MAX + 1);
    CHECK(has(log, "[cut]"));
    CHECK(emq__utf8_valid(log) && emq__utf8_valid(r->res.reason) && emq__utf8_valid(r->res.stack));
    for (size_t i = 0; i < r->res.reason.len; i++)
        CHECK((unsigned char)r->res.reason.ptr[i] >= 0x20);
    CHECK(emq__str_starts(r->res.reason, "exited with 1: "));
    CHECK(r->res.reason.len < 2048);
    rig_close(r);
    free(junk);
}

EMQ_TEST(a_store_that_fails_does_not_stop_a_program_and_loses_are_counted)
{
    struct rig *r = rig_sh("seq 1 20 >&2; echo done");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->store = EMQ_E_UNAVAIL;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "done\n");
    CHECK(r->s->entries >= 1 && r->s->entries <= 4);
    rig_close(r);
}

EMQ_TEST(nothing_is_written_for_a_job_that_is_lost)
{
    struct rig *r = rig_sh("echo a >&2; echo progress 1 >&3; sleep 0.2; seq 1 100 >&2");

    rig_slot(r, EMQ_STR_LIT(""));
    r->s->store = EMQ_LOST;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    CHECK_INT(r->s->entries, 1);
    rig_close(r);
}

struct heard {
    struct emq__buf text;
};

static void hear(void *user, int level, emq_str message)
{
    struct heard *h = user;

    (void)level;
    emq__buf_str(&h->text, message);
    emq__buf_char(&h->text, '\n');
}

EMQ_TEST(words_about_a_job_that_left_the_store_are_in_the_workers_log)
{
    struct rig *r = rig_sh("seq 1 20 >&2; sleep 0.1; echo last >&2");
    struct heard h;

    emq__buf_init(&h.text, 1 << 20);
    r->x->log = (struct emq__log){hear, &h};
    rig_slot(r, EMQ_STR_LIT(""));
    r->s->store = EMQ_NOT_FOUND;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
    CHECK(r->s->entries <= 2);
    CHECK(has(emq__buf_view(&h.text), "job 7 of q: 1\n"));
    CHECK(has(emq__buf_view(&h.text), "job 7 of q: 20\njob 7 of q: last\n"));
    emq__buf_free(&h.text);
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

/* ---- descriptor 3 ------------------------------------------------------------------------- */

EMQ_TEST(progress_is_reported_and_the_newest_stands)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "i=0; while [ $i -lt 1000 ]; do echo progress $i; i=$((i+1)); done >&3; "
                          "echo 'progress {\"at\": [1, 2]}' >&3"),
              EMQ__EXEC_DONE);
    CHECK_STR_EQ(emq__buf_view(&r->s->progress), EMQ_STR_LIT("{\"at\": [1, 2]}"));
    CHECK(r->s->progresses < 200);
    rig_close(r);
}

EMQ_TEST(retry_after_delays_a_give_back_and_a_failure)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "echo retry-after 1m30s >&3; exit 75"), EMQ__EXEC_GIVE_BACK);
    CHECK_INT(r->res.retry_after_ms, 90000);
    rig_close(r);
    CHECK_INT(sh_once(&r, "printf 'retry-after 30s' >&3; exit 1"), EMQ__EXEC_RETRY);
    CHECK_INT(r->res.retry_after_ms, 30000);
    rig_close(r);
}

EMQ_TEST(bad_lines_are_warnings_in_the_log)
{
    struct rig *r;

    CHECK_INT(
        sh_once(&r, "printf 'progress forty\\nnonsense 1\\nretry-after 30\\n\\n' >&3; echo ok"),
        EMQ__EXEC_DONE);
    emq_str log = emq__buf_view(&r->s->log);
    CHECK(has(log, "\"progress forty\""));
    CHECK(has(log, "\"nonsense 1\""));
    CHECK(has(log, "retry-after takes a duration with a unit"));
    CHECK_STR(r->res.result, "ok\n");
    rig_close(r);
}

EMQ_TEST(an_effect_that_is_not_built_in_is_no_success)
{
    struct rig *r;

    CHECK_INT(sh_once(&r, "echo sql /tmp/file.sql >&3; exit 0"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "not built in"));
    CHECK(has(emq__buf_view(&r->s->log), "not built in"));
    rig_close(r);
}

/* ---- its surroundings --------------------------------------------------------------------- */

EMQ_TEST(the_environment_tells_about_the_job)
{
    struct rig *r;

    CHECK_INT(setenv("EMQ_TOKEN", "stale", 1), 0);
    CHECK_INT(setenv("MINE", "kept", 1), 0);
    CHECK_INT(sh_once(&r, "env"), EMQ__EXEC_DONE);
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
    CHECK_INT(sh_once(&r, "grep -E 'Sig(Blk|Ign)' /proc/self/status; "
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

/* ---- ending it ---------------------------------------------------------------------------- */

EMQ_TEST(a_child_of_the_program_that_holds_stdout_does_not_hold_the_slot)
{
    struct rig *r;
    int64_t begin = now_us();

    CHECK_INT(sh_once(&r, "sleep 300 & echo $!"), EMQ__EXEC_DONE);
    CHECK(now_us() - begin < 10 * 1000000LL);
    pid_t pid = (pid_t)strtol(r->res.result.ptr, NULL, 10);
    CHECK(pid > 1);
    for (int64_t end = now_us() + 10 * 1000000LL; !is_gone(pid);)
        CHECK(now_us() < end);
    rig_close(r);
}

static void *cancel_when_running(void *arg)
{
    struct emq__slot *s = arg;

    while (s->entries == 0) /* it has said a word */
        (void)usleep(1000);
    s->cancel = EMQ_CANCEL_USER;
    (void)eventfd_write(s->fd, 1);
    return NULL;
}

static void *time_out_when_running(void *arg)
{
    struct emq__slot *s = arg;

    while (s->entries == 0)
        (void)usleep(1000);
    s->run_until_us = now_us();
    (void)eventfd_write(s->fd, 1);
    return NULL;
}

/* Runs a program that says a word when it is ready to be stopped. Returns how long it took then. */
static int64_t stop_it(struct rig *r, void *(*how)(void *))
{
    pthread_t thread;

    rig_slot(r, EMQ_STR_LIT(""));
    CHECK_INT(pthread_create(&thread, NULL, how, r->s), 0);
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_STOPPED);
    CHECK_INT(pthread_join(thread, NULL), 0);
    return r->s->run_until_us == INT64_MAX ? 0 : now_us() - r->s->run_until_us;
}

EMQ_TEST(a_timeout_is_TERM_first)
{
    struct rig *r = rig_sh("trap 'echo cleaning up >&2; exit 0' TERM; echo running >&2; "
                           "while :; do sleep 0.02; done");

    CHECK(stop_it(r, time_out_when_running) < 4 * 1000000LL);
    CHECK(has(emq__buf_view(&r->s->log), "cleaning up"));
    CHECK_INT(emq__slot_cancelled(r->s), EMQ_CANCEL_TIMEOUT);
    rig_close(r);
}

EMQ_TEST(who_ignores_TERM_is_killed_with_its_children)
{
    struct rig *r =
        rig_sh("trap '' TERM; sleep 300 & echo $$ $! >&2; while :; do sleep 0.05; done");

    int64_t took = stop_it(r, time_out_when_running);
    CHECK(took > 5 * 1000000LL - 200000 && took < 15 * 1000000LL);
    CHECK_INT(r->res.exit_status, 128 + SIGKILL);
    char *end;
    pid_t leader = (pid_t)strtol(r->s->log.ptr, &end, 10);
    pid_t other = (pid_t)strtol(end, NULL, 10);
    CHECK(leader > 1 && is_gone(leader));
    CHECK(other > 1);
    for (int64_t patience = now_us() + 10 * 1000000LL; !is_gone(other);)
        CHECK(now_us() < patience);
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

    (void)stop_it(r, cancel_when_running);
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
