/* SPDX-License-Identifier: MIT
 *
 * Administration and reading of queues through the client.
 */
#include "client_fixture.h"

#include "base/str.h"

static void add_n(struct fixture *f, size_t n, int64_t delay_ms, int32_t priority)
{
    emq_add_opts o = {.size = sizeof o, .delay_ms = delay_ms, .priority = priority};

    for (size_t i = 0; i < n; i++)
        CHECK_STATUS(emq_add(f->c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
}

/* Takes and fails (or completes) n jobs. */
static void finish_n(struct fixture *f, size_t n, int32_t kind)
{
    for (size_t i = 0; i < n; i++) {
        emq_job *job = take_one(f);
        CHECK_STATUS(settle(f, job, kind, "1", 0), EMQ_OK);
        emq_job_free(job);
    }
}

EMQ_TEST(single_jobs_are_promoted_moved_cancelled_removed_and_retried)
{
    struct fixture f;
    emq_add_opts late = {.size = sizeof late, .id = S("late"), .delay_ms = 60000};
    emq_job *job;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &late, NULL, NULL), EMQ_OK);
    add_id(&f, "a");
    CHECK_STATUS(emq_promote(f.c, Q, S("a"), NULL), EMQ_WRONG_STATE);
    CHECK_STATUS(emq_set_delay(f.c, Q, S("late"), 5000, NULL), EMQ_OK);
    CHECK_STATUS(emq_set_delay(f.c, Q, S("late"), -1, NULL), EMQ_E_INVALID);
    CHECK_STATUS(emq_promote(f.c, Q, S("late"), NULL), EMQ_OK);
    CHECK_STATUS(emq_set_priority(f.c, Q, S("a"), 5, 0, NULL), EMQ_OK);
    CHECK_STATUS(emq_set_priority(f.c, Q, S("a"), EMQ_PRIORITY_MAX + 1, 0, NULL), EMQ_E_INVALID);
    CHECK_INT(count_of_state(&f, EMQ_PRIORITIZED), 1);
    CHECK_STATUS(emq_cancel(f.c, Q, S("a"), NULL, NULL), EMQ_OK);
    job = get(&f, "a");
    CHECK_INT(emq_job_state(job), EMQ_FAILED_STATE);
    CHECK_STR(emq_job_failed_reason(job), "cancelled");
    emq_job_free(job);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), EMQ_RETRY_RESET_ATTEMPTS, NULL), EMQ_OK);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_WRONG_STATE);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 64, NULL), EMQ_E_INVALID);
    job = take_one(&f);
    CHECK_STATUS(emq_remove(f.c, Q, emq_job_id(job), NULL), EMQ_LOCKED);
    emq_job_free(job);
    CHECK_STATUS(emq_remove(f.c, Q, S("a"), NULL), EMQ_OK);
    CHECK_STATUS(emq_remove(f.c, Q, S("a"), NULL), EMQ_NOT_FOUND);
    fixture_close(&f);
}

EMQ_TEST(a_paused_queue_hands_out_nothing_until_it_is_resumed)
{
    struct fixture f;
    emq_queue_stats st = {.size = sizeof st};
    emq_job *job;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_pause(f.c, Q, NULL), EMQ_OK);
    CHECK_STATUS(emq_stats(f.c, Q, &st, NULL), EMQ_OK);
    CHECK_INT(st.paused, 1);
    CHECK_STATUS(emq_take(f.c, Q, NULL, &job, NULL), EMQ_EMPTY);
    CHECK_STATUS(emq_resume(f.c, Q, NULL), EMQ_OK);
    emq_job_free(take_one(&f));
    fixture_close(&f);
}

EMQ_TEST(a_concurrency_limit_holds_over_all_takers)
{
    struct fixture f;
    emq_job *job;

    fixture_open(&f);
    add_n(&f, 2, 0, 0);
    CHECK_STATUS(emq_set_concurrency(f.c, Q, 1, NULL), EMQ_OK);
    CHECK_STATUS(emq_set_concurrency(f.c, Q, -1, NULL), EMQ_E_INVALID);
    emq_job_free(take_one(&f));
    CHECK_STATUS(emq_take(f.c, Q, NULL, &job, NULL), EMQ_EMPTY);
    CHECK_STATUS(emq_set_concurrency(f.c, Q, 0, NULL), EMQ_OK);
    emq_job_free(take_one(&f));
    fixture_close(&f);
}

EMQ_TEST(a_drain_removes_what_waits_in_slices)
{
    struct fixture f;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 300, 0, 0);
    add_n(&f, 3, 0, 9);
    add_n(&f, 2, 60000, 0);
    CHECK_STATUS(emq_drain(f.c, Q, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 303);
    CHECK_INT(count_of_state(&f, EMQ_DELAYED), 2);
    CHECK_STATUS(emq_drain(f.c, Q, 1, &count, NULL), EMQ_OK);
    CHECK_INT(count, 2);
    CHECK_STATUS(emq_drain(f.c, S("unknown"), 1, &count, NULL), EMQ_OK);
    CHECK_INT(count, 0);
    fixture_close(&f);
}

EMQ_TEST(a_clean_removes_old_jobs_up_to_the_limit)
{
    struct fixture f;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 5, 0, 0);
    finish_n(&f, 4, EMQ_SETTLE_COMPLETED);
    fixture_advance(&f, 5000);
    finish_n(&f, 1, EMQ_SETTLE_COMPLETED);
    CHECK_STATUS(emq_clean(f.c, Q, EMQ_COMPLETED_STATE, 4000, 3, &count, NULL), EMQ_OK);
    CHECK_INT(count, 3);
    CHECK_STATUS(emq_clean(f.c, Q, EMQ_COMPLETED_STATE, 4000, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_COMPLETED_STATE), 1);
    CHECK_STATUS(emq_clean(f.c, Q, 0, 0, 0, &count, NULL), EMQ_E_INVALID);
    fixture_close(&f);
}

EMQ_TEST(all_failed_jobs_go_back_to_work_once)
{
    struct fixture f;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 260, 0, 0);
    finish_n(&f, 260, EMQ_SETTLE_FAILED);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 260);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 260);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_WAITING, 0, &count, NULL), EMQ_E_INVALID);
    fixture_close(&f);
}

EMQ_TEST(all_delayed_jobs_become_ready)
{
    struct fixture f;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 3, 60000, 0);
    CHECK_STATUS(emq_promote_all(f.c, Q, &count, NULL), EMQ_OK);
    CHECK_INT(count, 3);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 3);
    fixture_close(&f);
}

EMQ_TEST(all_jobs_of_a_state_are_cancelled_and_owners_are_asked_to_stop)
{
    struct fixture f;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 260, 0, 0);
    for (int i = 0; i < 255; i++)
        emq_job_free(take_one(&f));
    CHECK_STATUS(emq_cancel_all(f.c, Q, EMQ_WAITING, &count, NULL), EMQ_OK);
    CHECK_INT(count, 5);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 5);
    CHECK_STATUS(emq_cancel_all(f.c, Q, EMQ_ACTIVE, &count, NULL), EMQ_OK);
    CHECK_INT(count, 255);
    CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 255);
    CHECK_STATUS(emq_cancel_all(f.c, Q, EMQ_FAILED_STATE, &count, NULL), EMQ_E_INVALID);
    fixture_close(&f);
}

EMQ_TEST(a_cancel_tells_a_job_that_was_asked_to_stop_from_one_that_failed)
{
    struct fixture f;
    static const char *const ids[] = {"held", "waits", "gone"};
    int32_t state = -1;

    fixture_open(&f);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(ids); i++) {
        emq_add_opts o = {.size = sizeof o, .id = emq_cstr(ids[i])};
        o.keep_failed_count = i == 2 ? EMQ_KEEP_NONE : EMQ_KEEP_DEFAULT;
        CHECK_STATUS(emq_add(f.c, Q, S("x"), &o, NULL, NULL), EMQ_OK);
    }
    emq_job_free(take_one(&f));
    CHECK_STATUS(emq_cancel(f.c, Q, S("held"), &state, NULL), EMQ_OK);
    CHECK_INT(state, EMQ_ACTIVE);
    CHECK_STATUS(emq_cancel(f.c, Q, S("waits"), &state, NULL), EMQ_OK);
    CHECK_INT(state, EMQ_FAILED_STATE);
    CHECK_STATUS(emq_cancel(f.c, Q, S("waits"), &state, NULL), EMQ_WRONG_STATE);
    CHECK_INT(state, EMQ_FAILED_STATE);
    CHECK_STATUS(emq_cancel(f.c, Q, S("gone"), &state, NULL), EMQ_OK);
    CHECK_INT(state, 0);
    fixture_close(&f);
}

EMQ_TEST(obliterate_wants_a_paused_idle_queue_or_force)
{
    struct fixture f;
    emq_list *names;
    int64_t count = -1;

    fixture_open(&f);
    add_n(&f, 301, 0, 0);
    emq_job_free(take_one(&f));
    CHECK_STATUS(emq_obliterate(f.c, Q, 0, &count, NULL), EMQ_WRONG_STATE);
    CHECK_STATUS(emq_pause(f.c, Q, NULL), EMQ_OK);
    CHECK_STATUS(emq_obliterate(f.c, Q, 0, &count, NULL), EMQ_LOCKED);
    CHECK_INT(count, -1);
    CHECK_STATUS(emq_obliterate(f.c, Q, 1, &count, NULL), EMQ_OK);
    CHECK_INT(count, 301);
    CHECK_STATUS(emq_queues(f.c, &names, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(names), 0);
    emq_list_free(names);
    fixture_close(&f);
}

EMQ_TEST(queues_are_listed_by_name_and_an_unknown_one_has_zeros)
{
    struct fixture f;
    emq_queue_stats st = {.size = sizeof st};
    emq_list *names;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, S("zebra"), S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_add(f.c, S("ant"), S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_queues(f.c, &names, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(names), 2);
    CHECK_STR(emq_list_str(names, 0), "ant");
    CHECK_STR(emq_list_str(names, 1), "zebra");
    emq_list_free(names);
    CHECK_STATUS(emq_stats(f.c, S("nobody"), &st, NULL), EMQ_OK);
    CHECK_INT(st.count[EMQ_WAITING], 0);
    CHECK(st.now_ms > 0);
    fixture_close(&f);
}

EMQ_TEST(jobs_are_found_by_state_by_rank_and_behind_a_job)
{
    struct fixture f;
    emq_list *l;
    emq_find_opts o = {.size = sizeof o};

    fixture_open(&f);
    add_n(&f, 4, 0, 0);         /* 1..4 waiting */
    add_n(&f, 2, 60000, 0);     /* 5, 6 delayed */
    add_n(&f, 1, 0, 3);         /* 7 prioritized */
    emq_job_free(take_one(&f)); /* 1 active */

    CHECK_STATUS(emq_find(f.c, Q, NULL, &l, NULL), EMQ_OK); /* in the order of the states */
    static const char *const all[] = {"2", "3", "4", "1", "5", "6", "7"};
    CHECK_INT(emq_list_len(l), EMQ_ARRAY_LEN(all));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(all); i++)
        CHECK_STR(emq_job_id(emq_list_job(l, i)), all[i]);
    CHECK_STR(emq_job_token(emq_list_job(l, 3)), "");
    CHECK(emq_job_lock_until_ms(emq_list_job(l, 3)) > 0);
    CHECK(emq_job_json(emq_list_job(l, 3)).len > 2);
    emq_list_free(l);

    o.offset = 4;
    o.limit = 2;
    CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(l), 2);
    CHECK_STR(emq_job_id(emq_list_job(l, 0)), "5");
    emq_list_free(l);

    o = (emq_find_opts){.size = sizeof o, .after_id = S("4"), .limit = 2};
    CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(l), 2);
    CHECK_STR(emq_job_id(emq_list_job(l, 0)), "1");
    CHECK_STR(emq_job_id(emq_list_job(l, 1)), "5");
    emq_list_free(l);

    o = (emq_find_opts){.size = sizeof o, .state = EMQ_WAITING, .newest_first = 1, .limit = 1};
    CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_OK);
    CHECK_STR(emq_job_id(emq_list_job(l, 0)), "4");
    emq_list_free(l);

    o = (emq_find_opts){.size = sizeof o, .state = EMQ_WAITING, .after_id = S("1")};
    CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_NOT_FOUND);
    o = (emq_find_opts){.size = sizeof o, .limit = 1001};
    CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_E_INVALID);
    fixture_close(&f);
}

EMQ_TEST(a_page_of_long_jobs_ends_early_and_none_is_skipped)
{
    enum { LONG = 5 << 20, JOBS = 4 };
    struct fixture f;
    char *bytes = malloc(LONG), after[EMQ_ID_MAX + 1] = "";
    int seen = 0;

    fixture_open(&f);
    CHECK(bytes != NULL);
    memset(bytes, 'x', LONG);
    for (int i = 0; i < JOBS; i++) {
        emq_add_opts o = {.size = sizeof o, .delay_ms = i % 2 ? 60000 : 0};
        CHECK_STATUS(emq_add(f.c, Q, emq_strn(bytes, LONG), &o, NULL, NULL), EMQ_OK);
    }
    for (size_t n = 1; n > 0;) {
        emq_find_opts o = {.size = sizeof o, .limit = 1000, .after_id = S(after)};
        emq_list *l;
        CHECK_STATUS(emq_find(f.c, Q, &o, &l, NULL), EMQ_OK);
        n = emq_list_len(l);
        CHECK(n <= 2);
        for (size_t i = 0; i < n; i++) {
            emq_str id = emq_job_id(emq_list_job(l, i));
            CHECK_INT(emq_job_data(emq_list_job(l, i)).len, LONG);
            (void)snprintf(after, sizeof after, "%.*s", EMQ_STR_ARG(id));
            seen++;
        }
        emq_list_free(l);
    }
    CHECK_INT(seen, JOBS);
    free(bytes);
    fixture_close(&f);
}

EMQ_TEST(names_and_handles_are_checked_before_anything_happens)
{
    struct fixture f;
    emq_error err = {0};
    emq_job *job;

    fixture_open(&f);
    CHECK_STATUS(emq_add(NULL, Q, S("1"), NULL, NULL, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_add(f.c, S("a:b"), S("1"), NULL, NULL, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_get(f.c, Q, NONE, &job, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_get(f.c, Q, S("a"), NULL, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_take(f.c, NONE, NULL, &job, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_extend(f.c, Q, S("a"), S("t:1"), 199, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "199") && strstr(err.text, "200"));
    CHECK_INT(emq_job_state(NULL), 0);
    CHECK_STR(emq_job_id(NULL), "");
    emq_job_free(NULL);
    emq_list_free(NULL);
    emq_close(NULL);
    emq_interrupt(NULL);
    fixture_close(&f);
}
