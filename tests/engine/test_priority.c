/* SPDX-License-Identifier: MIT
 *
 * Order by priority holds at each take, whatever brought a job back.
 */
#include "lib/engine_fixture.h"

ENGINE_TEST(a_lower_number_runs_first)
{
    must_add_priority(t, "q", 50);
    must_add_priority(t, "q", 1);
    must_add_priority(t, "q", 25);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2 3 1");
    CHECK_STR(must_take(t, "q")->id, "2");
}

ENGINE_TEST(equal_priorities_run_first_come_first_served)
{
    for (int i = 0; i < 4; i++)
        must_add_priority(t, "q", 7);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1 2 3 4");
}

ENGINE_TEST(the_highest_priority_number_is_kept)
{
    emq_str id = must_add_priority(t, "q", EMQ_PRIORITY_MAX);
    CHECK_INT(must_get(t, "q", id)->priority, EMQ_PRIORITY_MAX);
    CHECK_STR_EQ(must_take(t, "q")->id, id);
}

ENGINE_TEST(a_retried_job_goes_to_the_end_of_its_priority)
{
    must_add_priority(t, "q", 25);
    must_add_priority(t, "q", 25);
    must_add_priority(t, "q", 50);
    retry_ok(t, must_take(t, "q"), 0);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2 1 3");
}

ENGINE_TEST(a_lifo_retry_goes_to_the_front_of_its_priority)
{
    must_add_priority(t, "q", 25);
    must_add_priority(t, "q", 25);
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    en.lifo = true;
    settle(t, j, en);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1 2");
}

ENGINE_TEST(order_by_priority_holds_when_every_first_run_fails)
{
    static const int32_t priorities[] = {30, 10, 20};
    int32_t last = 0;

    must_meta(t, "q", "paused", "1");
    for (int i = 0; i < 15; i++)
        must_add_priority(t, "q", priorities[i % 3]);
    must_meta(t, "q", "paused", "");
    for (int i = 0; i < 30; i++) {
        struct emq__job *j = must_take(t, "q");
        CHECK(j->priority >= last);
        last = j->priority;
        if (j->attempts_made == 0)
            retry_ok(t, j, 0);
        else
            settle_ok(t, j);
    }
    assert_null(take_one(t, "q"));
}

ENGINE_TEST(a_job_back_from_backoff_has_its_priority)
{
    must_add_priority(t, "q", 5);
    retry_ok(t, must_take(t, "q"), 1000);
    must_add_priority(t, "q", 9);
    must_add_priority(t, "q", 1);
    advance(t, 2000);
    CHECK_STR(must_take(t, "q")->id, "3");
    CHECK_STR(must_take(t, "q")->id, "1");
    CHECK_STR(must_take(t, "q")->id, "2");
}

ENGINE_TEST(a_released_job_goes_to_the_front_of_its_priority)
{
    must_add_priority(t, "q", 1);
    must_add_priority(t, "q", 2);
    must_add_priority(t, "q", 2);
    struct emq__taken taken = take_n(t, "q", 2);
    release_ok(t, taken.jobs[1], 0);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2 3");
}

ENGINE_TEST(a_manual_retry_keeps_the_priority)
{
    must_add_priority(t, "q", 8);
    fail_ok(t, must_take(t, "q"), "broken");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_STATE(t, "q", S("1"), EMQ_PRIORITIZED);
}

ENGINE_TEST(changing_the_priority_moves_a_waiting_job)
{
    must_add(t, "q", "x");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PRIORITY, .priority = 3), EMQ_OK);
    CHECK_STATE(t, "q", S("1"), EMQ_PRIORITIZED);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PRIORITY, .priority = 0), EMQ_OK);
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(changing_the_priority_puts_the_job_at_the_end_or_with_lifo_at_the_front)
{
    for (int i = 0; i < 3; i++)
        must_add_priority(t, "q", 5);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PRIORITY, .priority = 5), EMQ_OK);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2 3 1");
    CHECK_STATUS(CHANGE(t, "q", S("3"), .kind = EMQ__CHANGE_PRIORITY, .priority = 5, .lifo = true),
                 EMQ_OK);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "3 2 1");
}

ENGINE_TEST(the_priority_of_an_active_or_delayed_job_counts_when_it_comes_back)
{
    must_add(t, "q", "x");
    must_add_delayed(t, "q", 1000);
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PRIORITY, .priority = 9), EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", S("2"), .kind = EMQ__CHANGE_PRIORITY, .priority = 4), EMQ_OK);
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
    CHECK_STATE(t, "q", S("2"), EMQ_DELAYED);
    retry_ok(t, j, 0);
    advance(t, 2000);
    CHECK_STR(must_take(t, "q")->id, "2");
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1");
}

ENGINE_TEST(changing_the_priority_of_nothing_says_not_found)
{
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PRIORITY, .priority = 4),
                 EMQ_NOT_FOUND);
}
