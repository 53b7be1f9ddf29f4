/* SPDX-License-Identifier: MIT
 *
 * Rate limit and concurrency limit of a queue.
 */
#include "lib/engine_fixture.h"

static void add_many(struct fx *t, int n)
{
    for (int i = 0; i < n; i++)
        must_add(t, "q", "x");
}

static struct emq__take limited(int32_t count, int64_t max, int64_t duration_ms)
{
    struct emq__take take = fx_take(count);
    take.limit_max = max;
    take.limit_duration_ms = duration_ms;
    return take;
}

ENGINE_TEST(the_rate_limit_bounds_hand_outs_in_a_window)
{
    add_many(t, 5);
    struct emq__taken taken = take_with(t, "q", limited(10, 2, 10000));
    CHECK_INT(taken.n, 2);
    CHECK(taken.limited_ms > 0 && taken.limited_ms <= 10000);
    taken = take_with(t, "q", limited(10, 2, 10000));
    CHECK_INT(taken.n, 0);
    CHECK(taken.limited_ms > 0);
    advance(t, 11000);
    CHECK_INT(take_with(t, "q", limited(10, 2, 10000)).n, 2);
}

ENGINE_TEST(the_rate_limit_goes_on_after_the_first_window)
{
    int taken = 0;
    add_many(t, 10);
    for (int window = 0; window < 5; window++) {
        taken += (int)take_with(t, "q", limited(10, 2, 1000)).n;
        advance(t, 1500);
    }
    CHECK_INT(taken, 10);
    struct emq__dump_res d = dump(t, "q");
    for (size_t i = 0; i < d.n; i++)
        CHECK_INT(d.jobs[i]->attempts_made, 0);
}

ENGINE_TEST(the_limit_is_one_for_all_workers)
{
    struct emq__take a = limited(1, 2, 10000), b = limited(1, 2, 10000);
    add_many(t, 5);
    b.worker = S("other");
    CHECK_INT(take_with(t, "q", a).n, 1);
    CHECK_INT(take_with(t, "q", b).n, 1);
    CHECK_INT(take_with(t, "q", a).n, 0);
    CHECK_INT(take_with(t, "q", b).n, 0);
}

ENGINE_TEST(the_queues_own_maximum_goes_before_the_workers)
{
    must_meta(t, "q", "max", "3");
    must_meta(t, "q", "duration", "10000");
    add_many(t, 5);
    CHECK_INT(take_n(t, "q", 10).n, 3);
    CHECK(stats(t, "q").limited_ms > 0);
    CHECK_INT(take_with(t, "q", limited(10, 100, 10000)).n, 0);
}

ENGINE_TEST(a_limit_without_a_period_is_no_limit)
{
    must_meta(t, "q", "max", "1");
    add_many(t, 4);
    CHECK_INT(take_n(t, "q", 10).n, 4);
    CHECK_INT(stats(t, "q").limited_ms, 0);
}

ENGINE_TEST(removing_the_limit_frees_the_queue)
{
    must_meta(t, "q", "max", "1");
    must_meta(t, "q", "duration", "60000");
    add_many(t, 4);
    CHECK_INT(take_n(t, "q", 10).n, 1);
    must_meta(t, "q", "max", "");
    CHECK_INT(take_n(t, "q", 10).n, 3);
}

ENGINE_TEST(limited_jobs_keep_their_order)
{
    add_many(t, 4);
    take_with(t, "q", limited(10, 1, 1000));
    advance(t, 2000);
    CHECK_STR(take_with(t, "q", limited(10, 1, 1000)).jobs[0]->id, "2");
    CHECK_IDS(t, "q", EMQ_WAITING, "3 4");
}

ENGINE_TEST(a_worker_without_a_limit_is_not_limited)
{
    add_many(t, 4);
    CHECK_INT(take_with(t, "q", limited(10, 1, 60000)).n, 1);
    struct emq__taken taken = take_n(t, "q", 10);
    CHECK_INT(taken.n, 3);
    CHECK_INT(taken.limited_ms, 0);
}

ENGINE_TEST(the_concurrency_limit_bounds_active_jobs)
{
    must_meta(t, "q", "concurrency", "2");
    add_many(t, 5);
    struct emq__taken taken = take_n(t, "q", 10);
    CHECK_INT(taken.n, 2);
    CHECK(taken.maxed);
    CHECK(stats(t, "q").maxed);
    CHECK_INT(stats(t, "q").concurrency, 2);
    CHECK_INT(take_n(t, "q", 10).n, 0);
    settle_ok(t, taken.jobs[0]);
    CHECK(!stats(t, "q").maxed);
    CHECK_INT(take_n(t, "q", 10).n, 1);
}

ENGINE_TEST(a_freed_slot_is_used_in_the_act_that_frees_it)
{
    must_meta(t, "q", "concurrency", "1");
    add_many(t, 2);
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = fx_take(5);
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1, .next = &next};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_INT(res.taken.n, 1);
}

ENGINE_TEST(a_freed_slot_wakes_a_waiting_worker)
{
    emq_str q = S("q");
    uint64_t before;

    must_meta(t, "q", "concurrency", "1");
    add_many(t, 2);
    struct emq__job *j = must_take(t, "q");
    before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    settle_ok(t, j);
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}

ENGINE_TEST(lowering_and_raising_the_limit_never_wedges_the_queue)
{
    must_meta(t, "q", "concurrency", "10");
    add_many(t, 30);
    struct emq__taken taken = take_n(t, "q", 10);
    CHECK_INT(taken.n, 10);
    must_meta(t, "q", "concurrency", "2");
    CHECK_INT(take_n(t, "q", 10).n, 0);
    for (size_t i = 0; i < 5; i++)
        settle_ok(t, taken.jobs[i]);
    CHECK_INT(take_n(t, "q", 10).n, 0);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 5);
    CHECK_INT(take_n(t, "q", 10).n, 2);
    must_meta(t, "q", "concurrency", "20");
    CHECK_INT(take_n(t, "q", 30).n, 18);
    must_meta(t, "q", "concurrency", "");
    CHECK_INT(take_n(t, "q", 30).n, 5);
}
