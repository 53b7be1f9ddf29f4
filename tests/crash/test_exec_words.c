/* SPDX-License-Identifier: MIT
 *
 * What a program says while it runs: lines for the job's log, and its words on descriptor 3.
 */
#include "exec_fake.h"

#include "base/str.h"

/* ---- the job's log ------------------------------------------------------------------------ */

EMQ_TEST(stderr_is_the_log_in_order)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "echo one >&2; echo log two >&3; sleep 0.1; printf 'three' >&2"),
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
    CHECK_INT(rig_sh_run(&r, "seq 1 50000 >&2"), EMQ__EXEC_DONE);
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

/* A program that ends well, over a store that answers its words so. */
static void run_over(struct rig *r, emq_status store)
{
    rig_slot(r, EMQ_STR_LIT(""));
    r->s->store = store;
    CHECK_INT(rig_run(r, EMQ_STR_LIT("")), EMQ__EXEC_DONE);
}

EMQ_TEST(a_store_that_fails_does_not_stop_a_program_and_loses_are_counted)
{
    struct rig *r = rig_sh("seq 1 20 >&2; echo done");

    run_over(r, EMQ_E_UNAVAIL);
    CHECK_STR(r->res.result, "done\n");
    CHECK(r->s->entries >= 1 && r->s->entries <= 4);
    rig_close(r);
}

EMQ_TEST(nothing_is_written_for_a_job_that_is_lost)
{
    struct rig *r = rig_sh("echo a >&2; echo progress 1 >&3; sleep 0.2; seq 1 100 >&2");

    run_over(r, EMQ_LOST);
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
    run_over(r, EMQ_NOT_FOUND);
    CHECK(r->s->entries <= 2);
    CHECK(has(emq__buf_view(&h.text), "job 7 of q: 1\n"));
    CHECK(has(emq__buf_view(&h.text), "job 7 of q: 20\njob 7 of q: last\n"));
    emq__buf_free(&h.text);
    rig_close(r);
}

/* ---- descriptor 3 ------------------------------------------------------------------------- */

EMQ_TEST(progress_is_reported_and_the_newest_stands)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r,
                         "i=0; while [ $i -lt 1000 ]; do echo progress $i; i=$((i+1)); done >&3; "
                         "echo 'progress {\"at\": [1, 2]}' >&3"),
              EMQ__EXEC_DONE);
    CHECK_STR_EQ(emq__buf_view(&r->s->progress), EMQ_STR_LIT("{\"at\": [1, 2]}"));
    CHECK(r->s->progresses < 200);
    rig_close(r);
}

EMQ_TEST(retry_after_delays_a_give_back_and_a_failure)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "echo retry-after 1m30s >&3; exit 75"), EMQ__EXEC_GIVE_BACK);
    CHECK_INT(r->res.retry_after_ms, 90000);
    rig_close(r);
    CHECK_INT(rig_sh_run(&r, "printf 'retry-after 30s' >&3; exit 1"), EMQ__EXEC_RETRY);
    CHECK_INT(r->res.retry_after_ms, 30000);
    rig_close(r);
}

EMQ_TEST(progress_and_delays_that_are_not_understood_are_warnings_in_the_log)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "printf 'progress forty\\nretry-after 30\\n\\n' >&3; echo ok"),
              EMQ__EXEC_DONE);
    emq_str log = emq__buf_view(&r->s->log);
    CHECK(has(log, "\"progress forty\""));
    CHECK(has(log, "retry-after takes a duration with a unit"));
    CHECK_STR(r->res.result, "ok\n");
    rig_close(r);
}

EMQ_TEST(files_of_an_effect_are_read_when_the_program_has_ended_well)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "f=$(mktemp); echo sql \"$f\" >&3; echo \"  sql $f.2 \" >&3\n"
                             "echo 'select 1;' >\"$f\"; echo 'select 2;' >\"$f.2\"; echo ok"),
              EMQ__EXEC_DONE);
    CHECK_INT(r->res.sql.n, 2);
    CHECK_STR(r->res.sql.list[0], "select 1;\n");
    CHECK_STR(r->res.sql.list[1], "select 2;\n");
    CHECK_INT(r->res.commands.n, 0);
    CHECK_STR(r->res.result, "ok\n");
    rig_close(r);
    CHECK_INT(rig_sh_run(&r, "f=$(mktemp); echo redis \"$f\" >&3; echo '[\"INCR\",\"n\"]' >\"$f\""),
              EMQ__EXEC_DONE);
    CHECK_INT(r->res.commands.n, 1);
    CHECK_STR(r->res.commands.list[0], "[\"INCR\",\"n\"]\n");
    CHECK_INT(r->res.sql.n, 0);
    rig_close(r);
}

EMQ_TEST(an_effect_whose_file_can_t_be_read_is_no_success)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "echo sql /nowhere/file.sql >&3"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "sql /nowhere/file.sql"));
    CHECK(has(r->res.reason, "No such file"));
    rig_close(r);
    /* Its end would be waited for as long as the lock lasts. */
    CHECK_INT(rig_sh_run(&r, "f=$(mktemp -u); mkfifo $f; echo redis $f >&3"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "not a file"));
    rig_close(r);
}

EMQ_TEST(a_line_that_may_have_asked_for_an_effect_is_not_left_out)
{
    static const char *const list[] = {"sql", "redis ", "SQL /etc/passwd", "nonsense 1"};
    char script[200];
    struct rig *r;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        (void)snprintf(script, sizeof script, "echo '%s' >&3; echo progress 1 >&3; echo ok",
                       list[i]);
        CHECK_INT(rig_sh_run(&r, script), EMQ__EXEC_RETRY);
        CHECK(has(r->res.reason, "a line on descriptor 3 was not understood: \""));
        CHECK(has(r->res.reason, list[i]));
        CHECK(has(r->res.reason, "sql"));
        CHECK(r->res.result.ptr == NULL);
        rig_close(r);
    }
    CHECK_INT(rig_sh_run(&r, "{ printf 'sql '; head -c 2000000 /dev/zero | tr '\\0' x; } >&3"),
              EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "more than 1 MiB"));
    rig_close(r);
}

EMQ_TEST(a_program_that_fails_has_no_effect)
{
    struct rig *r;

    CHECK_INT(rig_sh_run(&r, "echo sql /etc/passwd >&3; exit 3"), EMQ__EXEC_RETRY);
    CHECK(has(r->res.reason, "exited with 3"));
    CHECK_INT(r->res.sql.n, 0);
    rig_close(r);
}
