/* SPDX-License-Identifier: MIT
 *
 * Run twice, lost, or stuck: what the field reports about leases, sweeps and crashes.
 */
#include "crash/herd.h"
#include "field.h"
#include "shell.h"

#include "base/str.h"
#include "model/job.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- sweeps against finishing ------------------------------------------------------------ */

struct auditor {
    emq_client *c;
    atomic_int over, sweeps, wrong;
    _Atomic int64_t recovered;
};

/* Sweeps without a pause, and checks at any instant that nothing is in no place or in two. */
static void *sweep_and_audit(void *user)
{
    struct auditor *a = user;

    while (!atomic_load(&a->over)) {
        emq_queue_stats st = {.size = sizeof st};
        int64_t recovered = 0, failed = 0, present = 0;
        if (emq_sweep(a->c, S("q"), NULL, &recovered, &failed, NULL) != EMQ_OK ||
            emq_stats(a->c, S("q"), &st, NULL) != EMQ_OK)
            atomic_fetch_add(&a->wrong, 1);
        for (int state = 1; state <= EMQ_STATE_COUNT; state++)
            present += st.count[state];
        if (st.total_added != present + st.total_removed)
            atomic_fetch_add(&a->wrong, 1);
        atomic_fetch_add(&a->recovered, recovered + failed);
        atomic_fetch_add(&a->sweeps, 1);
    }
    return NULL;
}

static void add_numbered(emq_client *c, int n, emq_add_opts o)
{
    enum { SLICE = 500 };
    char ids[SLICE][16];
    emq_add_opts opts[SLICE];
    emq_new_job jobs[SLICE];
    const emq_new_job *pointers[SLICE];

    for (int done = 0; done < n;) {
        size_t k = 0;
        for (; k < SLICE && done < n; k++) {
            (void)snprintf(ids[k], sizeof ids[k], "j%d", ++done);
            opts[k] = o;
            opts[k].size = sizeof opts[k];
            opts[k].id = S(ids[k]);
            jobs[k] = (emq_new_job){sizeof jobs[k], S("q"), NONE, &opts[k]};
            pointers[k] = &jobs[k];
        }
        FIELD_OK(emq_add_many(c, pointers, k, NULL, err));
    }
}

EMQ_TEST(jobs_deleted_on_completion_run_once_while_somebody_sweeps_all_the_time)
{
    enum { JOBS = 4000, PROCESSES = 2 };
    struct herd h;
    struct auditor a = {0};
    pthread_t id;
    pid_t pid[PROCESSES];
    int most;

    herd_open(&h, "off");
    add_numbered(h.c, JOBS, (emq_add_opts){.keep_completed_count = EMQ_KEEP_NONE});
    a.c = h.c;
    CHECK_INT(pthread_create(&id, NULL, sweep_and_audit, &a), 0);
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = herd_start(&h, NULL, "concurrency=4 interval=50");
    HERD_WAIT_FOR(field_stats(h.c, "q").total_completed == JOBS);
    for (int i = 0; i < PROCESSES; i++)
        CHECK_INT(kill(pid[i], SIGTERM), 0);
    for (int i = 0; i < PROCESSES; i++) {
        int status = herd_wait(pid[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(strstr(herd_output(&h, i + 1), "failed 0 lost 0 recovered 0") != NULL);
    }
    atomic_store(&a.over, 1);
    pthread_join(id, NULL);
    CHECK_INT(a.wrong, 0);
    CHECK_INT(a.recovered, 0);
    CHECK(a.sweeps > 10);
    CHECK_INT(herd_distinct(&h, 'B', &most), JOBS);
    CHECK_INT(most, 1);
    emq_queue_stats st = field_stats(h.c, "q");
    CHECK_INT(st.total_removed, JOBS);
    CHECK_INT(st.total_recovered, 0);
    field_audit(h.c, "q");
    herd_close(&h);
}

/* ---- outside the worker ------------------------------------------------------------------ */

EMQ_TEST(a_running_job_that_an_administrator_failed_stays_failed)
{
    struct bench *b = bench_open("q");
    emq_settle_opts o = {
        .size = sizeof o, .kind = EMQ_SETTLE_FAILED, .force = 1, .value = S("stopped by hand")};

    wf_add(&b->f, "q", "a", "hold!");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    FIELD_OK(emq_settle(b->f.c, S("q"), S("a"), NONE, &o, err));
    b->p.gate = 1;
    WAIT_FOR(probe_saw(&b->p, "lost:a"));
    CHECK(!probe_saw(&b->p, "completed:a"));
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: stopped by hand");
    CHECK_INT(wf_count(&b->f, "q", EMQ_ACTIVE), 0);
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_cancelled_job_does_not_run_again_when_its_owner_dies)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "done");
    wf_orphan(&b->f, "q", 200);
    FIELD_OK(emq_cancel(b->f.c, S("q"), S("a"), NULL, err));
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 0);
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: cancelled");
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_cancelled_job_that_its_owner_retries_or_gives_back_ends_failed)
{
    static const int kinds[] = {EMQ_SETTLE_RETRY, EMQ_SETTLE_RELEASE};
    struct bench *b = bench_open("q");

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        emq_settle_opts o = {
            .size = sizeof o, .kind = kinds[i], .value = i ? NONE : S("its own"), .delay_ms = 10};
        char id[8];
        emq_job *j = NULL;
        (void)snprintf(id, sizeof id, "c%zu", i);
        wf_add(&b->f, "q", id, "");
        FIELD_OK(emq_take(b->f.c, S("q"), NULL, &j, err));
        FIELD_OK(emq_cancel(b->f.c, S("q"), S(id), NULL, err));
        FIELD_OK(emq_settle(b->f.c, S("q"), S(id), emq_job_token(j), &o, err));
        assert_string_equal(wf_end(&b->f, "q", id), "failed: cancelled");
        emq_job_free(j);
    }
    CHECK_INT(work_off(b).started, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_program_that_gives_its_cancelled_job_back_is_told_that_it_failed)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "hold! back after 10");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    FIELD_OK(emq_cancel(b->f.c, S("q"), S("a"), NULL, err));
    b->p.gate = 1; /* whether or not it has been told */
    WAIT_FOR(probe_saw(&b->p, "failed:a"));
    CHECK(!probe_saw(&b->p, "back:a"));
    assert_string_equal(wf_end(&b->f, "q", "a"), "failed: cancelled");
    wf_stop(w, 0);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- completion overtakes the add -------------------------------------------------------- */

EMQ_TEST(a_job_that_is_done_before_its_add_returns_is_added_all_the_same)
{
    enum { JOBS = 400 };
    struct bench *b = bench_open("q");

    b->o.o.concurrency = 2;
    b->o.o.on_event = NULL;
    emq_worker *w = wf_start(&b->f, &b->o);
    for (int i = 0; i < JOBS; i++) {
        bool keep = i % 2 == 0;
        emq_add_opts o = {.size = sizeof o,
                          .keep_completed_count = keep ? EMQ_KEEP_ALL : EMQ_KEEP_NONE};
        emq_added added = {.size = sizeof added};
        emq_job *j = NULL;
        FIELD_OK(emq_add(b->f.c, S("q"), NONE, &o, &added, err));
        emq_status s = emq_get(b->f.c, S("q"), S(added.id), &j, NULL);
        CHECK(s == EMQ_OK || (s == EMQ_NOT_FOUND && !keep));
        emq_job_free(j);
        CHECK_STATUS(emq_wait(b->f.c, S("q"), S(added.id), PATIENCE_MS, NULL, NULL),
                     keep ? EMQ_OK : EMQ_NOT_FOUND);
    }
    add_numbered(b->f.c, JOBS, (emq_add_opts){.keep_completed_count = EMQ_KEEP_NONE});
    WAIT_FOR(field_stats(b->f.c, "q").total_completed == 2 * JOBS);
    wf_stop(w, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- crashes ----------------------------------------------------------------------------- */

/* Counts, order and records of a queue as text, to be compared; released by free(). */
static char *picture(const char *url)
{
    emq_client *c = NULL;
    struct emq__buf b;
    char after[EMQ_ID_MAX + 1] = "";

    FIELD_OK(emq_open(&c, S(url), NULL, err));
    emq__buf_init(&b, 4 << 20);
    emq_queue_stats st = field_stats(c, "q");
    st.now_ms = 0;
    emq__buf_add(&b, (const char *)&st, sizeof st);
    for (size_t n = 1; n > 0;) {
        emq_find_opts o = {.size = sizeof o, .after_id = emq_cstr(after)};
        emq_list *l = NULL;
        FIELD_OK(emq_find(c, S("q"), &o, &l, err));
        n = emq_list_len(l);
        for (size_t i = 0; i < n; i++) {
            emq_str json = emq_job_json(emq_list_job(l, i));
            emq__buf_add(&b, json.ptr, json.len);
            (void)snprintf(after, sizeof after, "%.*s",
                           EMQ_STR_ARG(emq_job_id(emq_list_job(l, i))));
        }
        emq_list_free(l);
    }
    field_audit(c, "q");
    emq_close(c);
    CHECK(!b.failed);
    char *text = malloc(b.len + 1);
    CHECK(text != NULL);
    memcpy(text, b.ptr, b.len);
    text[b.len] = '\0';
    emq__buf_free(&b);
    return text;
}

EMQ_TEST(five_kills_and_restarts_leave_counters_order_and_states_as_they_were)
{
    struct bench *b = bench_open("q");
    char url[sizeof b->f.url];

    memcpy(url, b->f.url, sizeof url);
    wf_add(&b->f, "q", "broken", "fail");
    wf_add(&b->f, "q", "done", "result ok");
    wf_add_opts(
        &b->f, "q", "retried", "retry",
        (emq_add_opts){.attempts = 9, .backoff_type = EMQ_BACKOFF_FIXED, .backoff_ms = 86400000});
    b->o.o.max_jobs = 3;
    wf_finish(wf_start(&b->f, &b->o));
    for (int i = 0; i < 40; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "n%d", i);
        wf_add_opts(&b->f, "q", id, "x",
                    (emq_add_opts){.priority = i % 5, .delay_ms = i % 4 == 3 ? 3600000 : 0});
    }
    FIELD_OK(emq_pause(b->f.c, S("q"), err));
    bench_close(b);
    char *before = picture(url);
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) { /* looks, and is killed with everything open */
            emq_client *c = NULL;
            emq_job *j = NULL;
            if (emq_open(&c, S(url), NULL, NULL) == EMQ_OK &&
                emq_take(c, S("q"), NULL, &j, NULL) == EMQ_EMPTY)
                (void)raise(SIGKILL);
            _exit(1);
        }
        int status = herd_wait(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        char *after = picture(url);
        assert_string_equal(after, before);
        free(after);
    }
    free(before);
}

EMQ_TEST(jobs_whose_owner_always_dies_end_failed_and_are_counted_exactly)
{
    enum { JOBS = 60, DIES = 10, MAX_STALLED = 2 };
    struct bench *b = bench_open("q");
    emq_take_opts take = {.size = sizeof take, .lock_ms = EMQ_LOCK_MIN_MS};
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_sweep_opts sweep = {.size = sizeof sweep, .max_stalled = MAX_STALLED};
    int starts[JOBS + 1] = {0};
    char url[sizeof b->f.url];
    emq_client *c = NULL;

    memcpy(url, b->f.url, sizeof url);
    wf_add_n(&b->f, "q", JOBS, "");
    bench_close(b);
    FIELD_OK(emq_open(&c, S(url), NULL, err));
    emq_queue_stats st = field_stats(c, "q");
    for (bool reopened = false;
         st.count[EMQ_COMPLETED_STATE] + st.count[EMQ_FAILED_STATE] < JOBS;) {
        emq_job *j = NULL;
        emq_status s = emq_take(c, S("q"), &take, &j, NULL);
        if (s == EMQ_OK) {
            int64_t n = 0;
            emq_str id = emq_job_id(j);
            CHECK(emq__str_to_i64(emq_strn(id.ptr + 1, id.len - 1), &n));
            starts[n]++;
            if (n % DIES != 0)
                FIELD_OK(emq_settle(c, S("q"), id, emq_job_token(j), &done, err));
            emq_job_free(j);
        } else {
            CHECK_STATUS(s, EMQ_EMPTY);
            wf_nap(5);
        }
        FIELD_OK(emq_sweep(c, S("q"), &sweep, NULL, NULL, err));
        st = field_stats(c, "q");
        if (!reopened && st.count[EMQ_COMPLETED_STATE] > JOBS / 2) {
            reopened = true; /* in the middle, with locks running */
            emq_close(c);
            FIELD_OK(emq_open(&c, S(url), NULL, err));
        }
    }
    CHECK_INT(st.count[EMQ_FAILED_STATE], JOBS / DIES);
    CHECK_INT(st.total_recovered, JOBS / DIES * MAX_STALLED);
    for (int i = 1; i <= JOBS; i++) {
        char id[16];
        emq_job *j = NULL;
        (void)snprintf(id, sizeof id, "j%d", i);
        FIELD_OK(emq_get(c, S("q"), S(id), &j, err));
        CHECK_INT(emq_job_attempts_started(j), starts[i]);
        if (i % DIES == 0) {
            CHECK_STR(emq_job_failed_reason(j), EMQ__TEXT_STALLED);
            CHECK_INT(emq_job_stalled(j), MAX_STALLED + 1);
            CHECK_INT(starts[i], MAX_STALLED + 1);
        }
        emq_job_free(j);
    }
    field_audit(c, "q");
    emq_close(c);
}

EMQ_TEST(a_limit_lowered_and_raised_over_a_killed_worker_never_wedges_the_queue)
{
    enum { JOBS = 60 };
    struct herd h;

    herd_open(&h, "off");
    FIELD_OK(emq_set_concurrency(h.c, S("q"), 10, err));
    add_numbered(h.c, JOBS, (emq_add_opts){.keep_completed_count = EMQ_KEEP_ALL});
    pid_t pid = herd_start(&h, NULL, "concurrency=10 lock=500 interval=100 work=60000");
    HERD_WAIT_FOR(herd_state(&h, EMQ_ACTIVE) == 10);
    FIELD_OK(emq_set_concurrency(h.c, S("q"), 2, err));
    herd_kill(pid);
    CHECK_INT(herd_state(&h, EMQ_ACTIVE), 10); /* the real size, over the limit */
    pid = herd_start(&h, NULL, "concurrency=10 lock=500 interval=100 max_stalled=100 work=5");
    HERD_WAIT_FOR(herd_state(&h, EMQ_COMPLETED_STATE) >= 1);
    FIELD_OK(emq_set_concurrency(h.c, S("q"), 20, err));
    HERD_WAIT_FOR(herd_state(&h, EMQ_COMPLETED_STATE) == JOBS);
    CHECK_INT(herd_state(&h, EMQ_ACTIVE), 0);
    CHECK_INT(kill(pid, SIGTERM), 0);
    (void)herd_wait(pid);
    field_audit(h.c, "q");
    herd_close(&h);
}

/* ---- damaged records --------------------------------------------------------------------- */

SQLITE_TEST(damaged_rows_at_the_head_of_the_line_do_not_block_the_good_ones_behind)
{
    static const char *const damage[] = {
        "data = NULL, side = 1", /* its data is gone: must not run without it */
        "data_kind = 77, data = x'00ff00'",
        "opts = 'garbage{'", /* still whole: the data is what was given */
        "opts = ''",
        "data_kind = 1, data = '{\"cut\":'",
        "data = 3.5",
        "name = '', worker = 'x', deferred = ''",
        "attempts_made = -5, attempts_started = -1",
        "stacktrace = 'no json', progress = '{', failed_reason = ''",
        "parent_key = ':::', parent = 'no json'",
    };
    enum { BAD = EMQ_ARRAY_LEN(damage), LOST = 2, GOOD = 10 };
    struct bench *b = bench_open("q");
    char sql[300];

    wf_add_n(&b->f, "q", BAD + GOOD, "done");
    for (size_t i = 0; i < BAD; i++) {
        (void)snprintf(sql, sizeof sql, "UPDATE emq_job SET %s WHERE id = 'j%zu'", damage[i],
                       i + 1);
        field_sql(b->f.url, sql);
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    for (int i = BAD + 1; i <= BAD + GOOD; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        WAIT_FOR(wf_state(&b->f, "q", id) == EMQ_COMPLETED_STATE);
    }
    WAIT_FOR(field_stats(b->f.c, "q").count[EMQ_WAITING] == 0 &&
             field_stats(b->f.c, "q").count[EMQ_ACTIVE] == 0);
    wf_stop(w, 0);
    for (int i = 1; i <= BAD; i++) { /* ended, readable, removable */
        char id[16];
        (void)snprintf(id, sizeof id, "j%d", i);
        emq_job *j = wf_get(&b->f, "q", id);
        CHECK(j != NULL);
        CHECK_INT(probe_runs(&b->p, id), i > LOST);
        if (i <= LOST)
            assert_string_equal(wf_end(&b->f, "q", id), "failed: " EMQ__TEXT_DAMAGED);
        CHECK(emq_job_json(j).len > 2);
        emq_job_free(j);
        FIELD_OK(emq_remove(b->f.c, S("q"), S(id), err));
    }
    emq_queue_stats st = field_stats(b->f.c, "q");
    CHECK_INT(st.count[EMQ_COMPLETED_STATE], GOOD);
    CHECK_INT(st.total_added, GOOD + st.total_removed);
    b->p.wrong = 0;
    bench_close(b);
}
