/* SPDX-License-Identifier: MIT
 *
 * Pausing, waiting for results, failures with any text, handles across fork().
 */
#include "crash/herd.h"
#include "field.h"
#include "shell.h"

#include "base/str.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    return emq__mono_now().us / 1000;
}

/* ---- local pause ------------------------------------------------------------------------- */

EMQ_TEST(a_pause_of_an_idle_worker_returns_at_once_and_the_next_job_runs_elsewhere_once)
{
    struct bench *b = bench_open("q");

    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_saw(&b->p, "ready:"));
    int64_t before = now_ms();
    emq_worker_pause(w); /* while it waits for work */
    int64_t took = now_ms() - before;
    if (took >= 5 * 500)
        fail_msg("the pause took %lld ms", (long long)took);
    wf_add(&b->f, "q", "a", "done");
    emq_worker_free(w); /* at once, no grace */
    CHECK_INT(probe_runs(&b->p, "a"), 0);
    emq_job *j = wf_get(&b->f, "q", "a");
    CHECK_INT(emq_job_state(j), EMQ_WAITING);
    CHECK_INT(emq_job_attempts_started(j) + emq_job_stalled(j), 0);
    emq_job_free(j);
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_pause_does_not_wait_for_the_running_job)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "hold!");
    wf_add(&b->f, "q", "b", "done");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker_pause(w); /* would never return if it did */
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(wf_state(&b->f, "q", "b"), EMQ_WAITING);
    emq_worker_resume(w);
    WAIT_FOR(wf_state(&b->f, "q", "b") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- waiting for results ----------------------------------------------------------------- */

struct waiter {
    emq_client *c;
    char id[16];
    emq_status got;
    int64_t took_ms;
    pthread_t thread;
};

static void *wait_main(void *user)
{
    struct waiter *x = user;
    int64_t before = now_ms();

    x->got = emq_wait(x->c, S("q"), S(x->id), PATIENCE_MS, NULL, NULL);
    x->took_ms = now_ms() - before;
    return NULL;
}

static void wait_start(struct waiter *x, emq_client *c, const char *id)
{
    *x = (struct waiter){.c = c};
    (void)snprintf(x->id, sizeof x->id, "%s", id);
    CHECK_INT(pthread_create(&x->thread, NULL, wait_main, x), 0);
}

static void wait_end(struct waiter *x, emq_status want)
{
    CHECK_INT(pthread_join(x->thread, NULL), 0);
    CHECK_STATUS(x->got, want);
    CHECK(x->took_ms < PATIENCE_MS);
}

EMQ_TEST(every_waiter_is_told_how_its_job_ended_or_that_it_is_gone)
{
    enum { WAITERS = 24 };
    static const struct {
        const char *data;
        emq_status want;
        emq_add_opts o;
    } kinds[] = {
        {"hold done", EMQ_OK, {0}},
        {"hold fail", EMQ_FAILED, {0}},
        {"hold done", EMQ_NOT_FOUND, {.keep_completed_count = EMQ_KEEP_NONE}},
        {"hold fail", EMQ_NOT_FOUND, {.keep_failed_count = EMQ_KEEP_NONE}},
        {"removed while it waits", EMQ_NOT_FOUND, {.delay_ms = 3600000}},
        {"cancelled while it waits", EMQ_FAILED, {.delay_ms = 3600000}},
    };
    enum { KINDS = EMQ_ARRAY_LEN(kinds) };
    struct bench *b = bench_open("q");
    struct waiter x[WAITERS];
    char id[16];

    b->o.o.concurrency = WAITERS;
    for (int i = 0; i < WAITERS; i++) {
        (void)snprintf(id, sizeof id, "w%d", i);
        wf_add_opts(&b->f, "q", id, kinds[i % KINDS].data, kinds[i % KINDS].o);
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == WAITERS / KINDS * 4);
    for (int i = 0; i < WAITERS; i++) {
        (void)snprintf(id, sizeof id, "w%d", i);
        wait_start(&x[i], b->f.c, id);
    }
    b->p.gate = 1;
    for (int i = 0; i < WAITERS; i++) {
        if (i % KINDS == 4)
            FIELD_OK(emq_remove(b->f.c, S("q"), S(x[i].id), err));
        else if (i % KINDS == 5)
            FIELD_OK(emq_cancel(b->f.c, S("q"), S(x[i].id), NULL, err));
    }
    for (int i = 0; i < WAITERS; i++)
        wait_end(&x[i], kinds[i % KINDS].want);
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

SQLITE_TEST(a_waiter_whose_bell_was_lost_still_gets_the_result_within_seconds)
{
    struct herd h;
    struct waiter x;

    herd_open(&h, "off");
    herd_add(&h, "a", 0);
    wait_start(&x, h.c, "a");
    herd_nap(50); /* it sleeps by now, or has not looked yet: both are the case */
    field_lose_bells(h.url);
    herd_work_off(&h, ""); /* another process, which rings another bell */
    wait_end(&x, EMQ_OK);
    if (x.took_ms > 20000)
        fail_msg("it took %lld ms", (long long)x.took_ms);
    field_audit(h.c, "q");
    herd_close(&h);
}

/* ---- failures with any text -------------------------------------------------------------- */

/* A megabyte of emoji, broken UTF-8, NULs and terminal codes. */
static emq_str ugly_text(void)
{
    static const char pieces[] =
        "\xF0\x9F\x92\xA5 boom \0 \x1B[31mred\x1B[0m \x1B]0;title\a \xFF\xFE "
        "\xED\xA0\x80 \xF0\x9F <script>alert(1)</script> \r\n";
    static char text[1 << 20];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = pieces[i % (sizeof pieces - 1)];
    return emq_strn(text, sizeof text);
}

static emq_verdict fail_ugly(emq_job *job, void *user)
{
    emq_str text = ugly_text();
    bool again = emq__str_is(emq_job_data(job), "retry");

    (void)user;
    if (emq__str_is(emq_job_data(job), "done"))
        return EMQ_DONE;
    if (emq_job_set_failure(job, text, text, NULL) != EMQ_OK ||
        emq_job_log(job, emq_strn(text.ptr, 20000), NULL) != EMQ_OK)
        return EMQ_DONE; /* seen by the test */
    return again ? EMQ_RETRY : EMQ_FAIL;
}

static void check_clean(emq_str s)
{
    CHECK(s.len > 0);
    CHECK(emq__utf8_valid(s));
    for (size_t i = 0; i < s.len; i++) {
        unsigned char byte = (unsigned char)s.ptr[i];
        if (byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r')
            fail_msg("byte %zu of %zu is 0x%02x", i, s.len, byte);
    }
}

EMQ_TEST(a_failure_is_recorded_whatever_its_text_and_the_worker_goes_on)
{
    struct bench *b = bench_open("q");

    b->o.o.handler = fail_ugly;
    wf_add(&b->f, "q", "a", "fail");
    wf_add_opts(&b->f, "q", "b", "retry",
                (emq_add_opts){.attempts = 2, .backoff_type = EMQ_BACKOFF_NONE});
    wf_add(&b->f, "q", "c", "done");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.failed, 2);
    CHECK_INT(st.completed, 1);
    for (const char *const *id = (const char *const[]){"a", "b", NULL}; *id; id++) {
        emq_list *lines = NULL;
        emq_job *j = wf_get(&b->f, "q", *id);
        CHECK_INT(emq_job_state(j), EMQ_FAILED_STATE);
        check_clean(emq_job_failed_reason(j));
        check_clean(emq_job_stacktrace_json(j));
        CHECK(emq_job_failed_reason(j).len < 1 << 20);
        CHECK(emq_job_json(j).len > 0);
        emq_job_free(j);
        FIELD_OK(emq_logs(b->f.c, S("q"), S(*id), 0, 0, &lines, err));
        CHECK(emq_list_len(lines) > 0);
        for (size_t i = 0; i < emq_list_len(lines); i++) {
            CHECK(emq__utf8_valid(emq_list_str(lines, i)));
            CHECK(emq_list_str(lines, i).len <= EMQ_LOG_LINE_MAX);
        }
        emq_list_free(lines);
    }
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- fork -------------------------------------------------------------------------------- */

enum { CHILDREN = 8, EACH = 100 };

/* Adds and finishes EACH jobs by hand; the number of what went wrong. */
static int by_hand(emq_client *c, int who)
{
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    int wrong = 0;

    for (int i = 0; i < EACH; i++) {
        char id[32];
        emq_add_opts o = {.size = sizeof o, .keep_completed_count = EMQ_KEEP_ALL};
        emq_job *j = NULL;
        (void)snprintf(id, sizeof id, "p%d-%d", who, i);
        o.id = emq_cstr(id);
        wrong += emq_add(c, S("q"), S(id), &o, NULL, NULL) != EMQ_OK;
        emq_status s = emq_take(c, S("q"), NULL, &j, NULL); /* somebody else's, or none */
        if (s == EMQ_OK)
            wrong += !emq__str_eq(emq_job_data(j), emq_job_id(j)) ||
                     emq_settle(c, S("q"), emq_job_id(j), emq_job_token(j), &done, NULL) != EMQ_OK;
        else
            wrong += s != EMQ_EMPTY;
        emq_job_free(j);
    }
    return wrong;
}

static void must_all_succeed(const pid_t *pid)
{
    for (int i = 0; i < CHILDREN; i++) {
        int status = herd_wait(pid[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("child %d ended with status 0x%x", i, (unsigned)status);
    }
}

static void must_be_whole(emq_client *c, const char *url, int adders)
{
    emq_queue_stats st = field_stats(c, "q");

    CHECK_INT(st.total_added, adders * EACH);
    CHECK_INT(st.total_started, st.total_completed);
    CHECK_INT(st.count[EMQ_WAITING] + st.count[EMQ_COMPLETED_STATE], st.total_added);
    if (field_is_file(url))
        CHECK_INT(field_sql_i64(url, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                  1);
    field_audit(c, "q");
}

EMQ_TEST(eight_children_forked_before_the_open_work_on_one_store_with_their_parent)
{
    char url[600];
    emq_client *c = NULL;
    pid_t pid[CHILDREN];

    herd_url(url, sizeof url, "off");
    (void)fflush(NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (pid[i] == 0) {
            (void)alarm(PATIENCE_MS / 1000);
            int wrong = emq_open(&c, S(url), NULL, NULL) != EMQ_OK || by_hand(c, i) != 0;
            if (i % 2)
                emq_close(c);
            _exit(wrong);
        }
    }
    FIELD_OK(emq_open(&c, S(url), NULL, err));
    CHECK_INT(by_hand(c, CHILDREN), 0);
    must_all_succeed(pid);
    must_be_whole(c, url, CHILDREN + 1);
    emq_close(c);
}

/* A child leaves what SQLite holds of its parent alone; to its leak checker that is a leak. */
static bool is_heir;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_heir;
}

/* What a child may do with the parent's handle, and the ways in which it may end. */
static _Noreturn void child_main(emq_client *inherited, int who)
{
    emq_job *j = NULL;
    int wrong = 0;

    is_heir = true;
    (void)alarm(PATIENCE_MS / 1000);
    wrong += emq_add(inherited, S("q"), NONE, NULL, NULL, NULL) != EMQ_E_FORKED;
    wrong += emq_take(inherited, S("q"), NULL, &j, NULL) != EMQ_E_FORKED;
    if (who % 2)
        emq_close(inherited);
    if (who % 3 == 0)
        exit(wrong != 0); /* with what runs at exit */
    if (who % 3 == 1)
        _exit(wrong != 0);
    (void)execl("/bin/sh", "sh", "-c", wrong ? "exit 1" : "exit 0", (char *)NULL);
    _exit(1);
}

EMQ_TEST(eight_children_that_inherit_a_handle_harm_neither_it_nor_the_store)
{
    enum { ROUNDS = 4 };
    char url[600];
    emq_client *c = NULL;
    pid_t pid[CHILDREN];

    herd_url(url, sizeof url, "off");
    FIELD_OK(emq_open(&c, S(url), NULL, err));
    (void)fflush(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CHILDREN; i++) {
            pid[i] = fork();
            CHECK(pid[i] >= 0);
            if (pid[i] == 0)
                child_main(c, i);
        }
        CHECK_INT(by_hand(c, round), 0); /* at the same time */
        must_all_succeed(pid);
    }
    must_be_whole(c, url, ROUNDS);
    emq_close(c);
}
