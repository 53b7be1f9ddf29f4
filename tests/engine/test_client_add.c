/* SPDX-License-Identifier: MIT
 *
 * Adding through the client: outcomes, limits, the size rule, and many at once.
 */
#include "client_fixture.h"

EMQ_TEST(an_added_job_reads_back_byte_for_byte)
{
    struct fixture f;
    emq_added added = {.size = sizeof added};
    emq_add_opts o = {.size = sizeof o, .name = S("mail"), .priority = 7, .attempts = 5};
    const char bytes[] = {'\0', 'a', '\xff', '\n'};

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, emq_strn(bytes, sizeof bytes), &o, &added, NULL), EMQ_OK);
    CHECK_INT(added.outcome, EMQ_OK);
    CHECK_INT(added.state, EMQ_PRIORITIZED);
    emq_job *job = get(&f, added.id);
    CHECK_STR_EQ(emq_job_data(job), emq_strn(bytes, sizeof bytes));
    CHECK_STR(emq_job_name(job), "mail");
    CHECK_STR(emq_job_queue(job), "q");
    CHECK_STR(emq_job_prefix(job), "emq");
    CHECK_STR(emq_job_token(job), "");
    CHECK_STR(emq_job_progress_json(job), "0");
    CHECK_STR(emq_job_stacktrace_json(job), "[]");
    CHECK_STR(emq_job_result(job), "");
    CHECK_INT(emq_job_priority(job), 7);
    CHECK_INT(emq_job_attempts(job), 5);
    CHECK_INT(emq_job_state(job), EMQ_PRIORITIZED);
    CHECK(emq_job_timestamp_at_ms(job) > 0);
    CHECK(emq_job_json(job).len > 2);
    CHECK_STR_EQ(emq_job_json(job), emq_job_json(job));
    CHECK(emq_job_idempotency_key(job).len > 4);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_second_job_with_the_same_id_is_a_duplicate)
{
    struct fixture f;
    emq_added added = {.size = sizeof added};
    emq_add_opts o = {.size = sizeof o, .id = S("only-one")};

    fixture_open(&f);
    add_id(&f, "only-one");
    CHECK_STATUS(emq_add(f.c, Q, S("2"), &o, &added, NULL), EMQ_DUPLICATE);
    CHECK_INT(added.outcome, EMQ_DUPLICATE);
    CHECK_STR(S(added.id), "only-one");
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
}

EMQ_TEST(a_live_dedup_id_drops_the_second_submission_and_can_be_released)
{
    struct fixture f;
    emq_added first = {.size = sizeof first}, second = {.size = sizeof second};
    emq_add_opts o = {.size = sizeof o, .dedup_id = S("user-1")};
    char owner[EMQ_ID_MAX + 1];
    int64_t ttl = -5;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, &first, NULL), EMQ_OK);
    CHECK_STATUS(emq_add(f.c, Q, S("2"), &o, &second, NULL), EMQ_DEDUPLICATED);
    CHECK_STR(S(second.id), first.id);
    CHECK_STATUS(emq_dedup_show(f.c, Q, S("user-1"), owner, &ttl, NULL), EMQ_OK);
    CHECK_STR(S(owner), first.id);
    CHECK_INT(ttl, 0);
    CHECK_STATUS(emq_dedup_release(f.c, Q, S("user-1"), S("other"), NULL), EMQ_NOT_FOUND);
    CHECK_STATUS(emq_dedup_release(f.c, Q, S("user-1"), S(first.id), NULL), EMQ_OK);
    CHECK_STATUS(emq_dedup_show(f.c, Q, S("user-1"), owner, &ttl, NULL), EMQ_NOT_FOUND);
    CHECK_STATUS(emq_add(f.c, Q, S("3"), &o, NULL, NULL), EMQ_OK);
    fixture_close(&f);
}

EMQ_TEST(data_beyond_the_limit_is_refused_with_the_size_and_the_limit)
{
    struct fixture f;
    emq_error err = {0};
    size_t n = EMQ_DATA_MAX + 1;
    char *big = calloc(1, n);

    assert_non_null(big);
    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, emq_strn(big, n), NULL, NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "16777217") && strstr(err.text, "16777216"));
    CHECK_INT(err.cls, EMQ_CLASS_CALLER);
    CHECK_STATUS_ERR(emq_add(f.c, Q, emq_strn(big, n - 1), NULL, NULL, &err), EMQ_OK, &err);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
    free(big);
}

EMQ_TEST(a_longer_options_struct_is_accepted_when_what_is_unknown_is_zero)
{
    struct fixture f;
    emq_error err = {0};
    struct {
        emq_take_opts o;
        int64_t newer;
    } longer = {.o = {.size = sizeof longer}};
    emq_take_opts forgotten = {0};
    size_t shorter = offsetof(emq_take_opts, wait_ms);
    emq_job *job;

    fixture_open(&f);
    CHECK_STATUS(emq_take(f.c, Q, &longer.o, &job, &err), EMQ_EMPTY);
    longer.newer = 1;
    CHECK_STATUS(emq_take(f.c, Q, &longer.o, &job, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "emq_take_opts"));
    CHECK_STATUS(emq_take(f.c, Q, &forgotten, &job, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "sizeof"));
    longer.o = (emq_take_opts){.size = shorter, .wait_ms = 999999999};
    CHECK_STATUS(emq_take(f.c, Q, &longer.o, &job, &err), EMQ_EMPTY);
    fixture_close(&f);
}

EMQ_TEST(a_shorter_out_struct_is_written_only_as_far_as_it_reaches)
{
    struct fixture f;
    emq_added added;

    fixture_open(&f);
    memset(&added, 0x5a, sizeof added);
    added.size = offsetof(emq_added, id);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, &added, NULL), EMQ_OK);
    CHECK_INT(added.state, EMQ_WAITING);
    CHECK_INT(added.id[0], 0x5a);
    CHECK_INT(added.size, offsetof(emq_added, id));
    added.size = 0;
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, &added, NULL), EMQ_E_INVALID);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
}

/* ---- many -------------------------------------------------------------------------------- */

static void add_many(struct fixture *f, size_t n, size_t bytes, emq_status expected, size_t bad,
                     emq_error *err)
{
    emq_new_job *jobs = calloc(n, sizeof *jobs);
    const emq_new_job **list = calloc(n, sizeof *list);
    emq_added *added = calloc(n, sizeof *added);
    emq_added **out = calloc(n, sizeof *out);
    char *data = malloc(bytes);

    assert_true(jobs && list && added && out && data);
    memset(data, '7', bytes);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (emq_new_job){.size = sizeof jobs[i],
                                .queue = i == bad ? S("a:b")
                                         : i % 2  ? S("odd")
                                                  : Q,
                                .data = emq_strn(data, bytes)};
        list[i] = &jobs[i];
        added[i].size = sizeof added[i];
        out[i] = &added[i];
    }
    CHECK_STATUS_ERR(emq_add_many(f->c, list, n, out, err), expected, err);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(added[i].outcome, EMQ_OK);
        CHECK_INT(added[i].state, expected == EMQ_OK ? EMQ_WAITING : 0);
        CHECK((added[i].id[0] != '\0') == (expected == EMQ_OK));
    }
    free(data);
    free(out);
    free(added);
    free(list);
    free(jobs);
}

EMQ_TEST(a_thousand_jobs_of_several_queues_are_one_act)
{
    struct fixture f;
    emq_queue_stats odd = {.size = sizeof odd};

    fixture_open(&f);
    f.plan.act = "add";
    add_many(&f, 1000, 1, EMQ_OK, SIZE_MAX, NULL);
    CHECK_INT(f.plan.seen, 1);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 500);
    CHECK_STATUS(emq_stats(f.c, S("odd"), &odd, NULL), EMQ_OK);
    CHECK_INT(odd.count[EMQ_WAITING], 500);
    fixture_close(&f);
}

EMQ_TEST(more_than_a_thousand_jobs_are_staged_and_published_by_one_act)
{
    struct fixture f;

    fixture_open(&f);
    f.plan.act = "add";
    add_many(&f, 2001, 1, EMQ_OK, SIZE_MAX, NULL);
    CHECK_INT(f.plan.seen, 3);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1001);
    emq_job *job = take_one(&f);
    CHECK_STR(emq_job_id(job), "1");
    emq_job_free(job);
    fixture_close(&f);
}

struct watcher {
    struct fixture *f;
    size_t calls, done, total;
};

static int watch_slices(size_t done, size_t total, void *user)
{
    struct watcher *w = user;

    CHECK(done > w->done);
    CHECK_INT(count_of_state(w->f, EMQ_WAITING), 0);
    w->calls++;
    w->done = done;
    w->total = total;
    return 0;
}

EMQ_TEST(who_watches_a_long_batch_is_told_after_each_slice_and_sees_nothing_before_the_end)
{
    enum { N = 2500 };
    struct fixture f;
    emq_new_job job = {.size = sizeof job, .queue = Q, .data = S("1")};
    const emq_new_job *list[N];
    struct watcher w = {.f = &f};

    fixture_open(&f);
    for (size_t i = 0; i < N; i++)
        list[i] = &job;
    CHECK_STATUS(emq_add_many_watched(f.c, list, N, NULL, watch_slices, &w, NULL), EMQ_OK);
    CHECK_INT(w.calls, 3);
    CHECK_INT(w.done, N);
    CHECK_INT(w.total, N);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N);
    fixture_close(&f);
}

EMQ_TEST(more_than_eight_megabytes_are_sliced_by_size)
{
    struct fixture f;

    fixture_open(&f);
    f.plan.act = "add";
    add_many(&f, 5, 3 * 1024 * 1024, EMQ_OK, SIZE_MAX, NULL);
    CHECK_INT(f.plan.seen, 3);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 3);
    fixture_close(&f);
}

EMQ_TEST(staged_entries_that_dedup_dropped_are_reported_as_such)
{
    enum { N = 1002 };
    struct fixture f;
    static emq_new_job jobs[N];
    static const emq_new_job *list[N];
    static emq_added added[N], *out[N];
    emq_add_opts o = {.size = sizeof o, .dedup_id = S("one"), .delay_ms = 60000};

    fixture_open(&f);
    for (size_t i = 0; i < N; i++) {
        jobs[i] = (emq_new_job){.size = sizeof jobs[i], .queue = Q, .data = S("1")};
        if (i == 3 || i == 1001)
            jobs[i].opts = &o;
        list[i] = &jobs[i];
        added[i] = (emq_added){.size = sizeof added[i]};
        out[i] = &added[i];
    }
    CHECK_STATUS(emq_add_many(f.c, list, N, out, NULL), EMQ_OK);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N - 2);
    CHECK_INT(added[3].outcome, EMQ_OK);
    CHECK_INT(added[3].state, EMQ_DELAYED);
    CHECK_INT(added[1001].outcome, EMQ_DEDUPLICATED);
    CHECK_STR(S(added[1001].id), added[3].id);
    CHECK_INT(added[1001].state, EMQ_DELAYED);
    fixture_close(&f);
}

EMQ_TEST(one_bad_entry_of_many_is_named_and_nothing_is_added)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open(&f);
    f.plan.act = "add";
    add_many(&f, 1500, 1, EMQ_E_INVALID, 1234, &err);
    CHECK(strstr(err.text, "entry 1234"));
    CHECK_INT(f.plan.seen, 0);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 0);
    fixture_close(&f);
}

EMQ_TEST(a_failure_in_the_middle_of_many_leaves_nothing_visible)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open(&f);
    f.plan = (struct fault_plan){.act = "publish", .fault = EMQ__FAULT_UNAVAIL, .times = 1};
    add_many(&f, 1500, 1, EMQ_E_UNAVAIL, SIZE_MAX, &err);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 0);
    add_many(&f, 1500, 1, EMQ_OK, SIZE_MAX, &err);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 750);
    fixture_close(&f);
}

EMQ_TEST(no_jobs_at_all_are_added_without_an_act)
{
    struct fixture f;

    fixture_open(&f);
    f.plan.act = "add";
    CHECK_STATUS(emq_add_many(f.c, NULL, 0, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_add_many(f.c, NULL, 1, NULL, NULL), EMQ_E_INVALID);
    CHECK_INT(f.plan.seen, 0);
    fixture_close(&f);
}
