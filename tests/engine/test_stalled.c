/* SPDX-License-Identifier: MIT
 *
 * Recovery: what happens to a job whose owner died, and that nothing else is taken for dead.
 */
#include "lib/engine_fixture.h"

#include <pthread.h>

static void die(struct fx *t)
{
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
}

ENGINE_TEST(a_job_whose_lock_ended_goes_back_to_the_front)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    die(t);
    struct emq__sweep_res r = sweep(t, "q", 3);

    CHECK_INT(r.n_recovered, 1);
    CHECK_STR(r.recovered[0], "1");
    CHECK_INT(r.n_failed, 0);
    CHECK(!r.more);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
}

ENGINE_TEST(a_live_lock_is_left_alone)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    advance(t, FX_LOCK_MS - 5000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
}

ENGINE_TEST(a_long_job_with_a_heartbeat_is_never_recovered)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    for (int i = 0; i < 20; i++) {
        advance(t, FX_LOCK_MS / 3);
        CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
        CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    }
    settle_ok(t, j);
    CHECK_INT(must_get(t, "q", j->id)->attempts_started, 1);
}

ENGINE_TEST(a_delayed_job_holds_no_lock_and_is_never_swept)
{
    must_add_delayed(t, "q", 200000);
    for (int i = 0; i < 5; i++) {
        advance(t, FX_LOCK_MS + 1000);
        CHECK_INT(sweep(t, "q", 0).n_recovered, 0);
        assert_null(take_one(t, "q"));
    }
    advance(t, 100000);
    CHECK_INT(must_take(t, "q")->attempts_started, 1);
}

ENGINE_TEST(a_crash_charges_no_attempt)
{
    must_add(t, "q", "x");
    die(t);
    sweep(t, "q", 3);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 1);
    CHECK_INT(j->stalled, 1);
    CHECK_INT(stats(t, "q").totals.recovered, 1);
    CHECK_INT(stats(t, "q").totals.retried, 0);
}

ENGINE_TEST(over_the_limit_of_recoveries_the_job_fails_and_says_so)
{
    must_add(t, "q", "x");
    die(t);
    CHECK_INT(sweep(t, "q", 1).n_recovered, 1);
    die(t);
    struct emq__sweep_res r = sweep(t, "q", 1);
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(r.n_failed, 1);
    CHECK_STR(r.failed[0], "1");
    CHECK_INT(r.n_recovered, 0);
    CHECK_INT(j->state, EMQ_FAILED_STATE);
    CHECK_STR(j->failed_reason, EMQ__TEXT_STALLED);
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 2);
    CHECK_INT(j->stalled, 2);
    CHECK_INT(j->deferred_failure.len, 0);
}

ENGINE_TEST(a_limit_of_zero_fails_at_the_first_crash)
{
    must_add(t, "q", "x");
    die(t);
    CHECK_INT(sweep(t, "q", 0).n_failed, 1);
    CHECK_STATE(t, "q", S("1"), EMQ_FAILED_STATE);
}

ENGINE_TEST(a_poison_job_ends_failed_while_good_jobs_complete)
{
    struct emq__take one = fx_take(1);

    must_add_id(t, "q", "poison");
    for (int i = 0; i < 10; i++)
        must_add(t, "q", "good");
    for (int round = 0; round < 40; round++) {
        struct emq__taken taken = take_with(t, "q", one);
        if (taken.n && emq__str_is(taken.jobs[0]->id, "poison"))
            advance(t, FX_LOCK_MS + 1000);
        else if (taken.n)
            settle_ok(t, taken.jobs[0]);
        sweep(t, "q", 3);
    }
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.count[EMQ_COMPLETED_STATE], 10);
    CHECK_INT(s.count[EMQ_FAILED_STATE], 1);
    CHECK_INT(must_get(t, "q", S("poison"))->attempts_started, 4);
}

ENGINE_TEST(recovered_jobs_keep_their_order)
{
    for (int i = 0; i < 5; i++)
        must_add(t, "q", "x");
    take_n(t, "q", 4);
    advance(t, FX_LOCK_MS + 1000);
    struct emq__sweep_res r = sweep(t, "q", 3);

    CHECK_INT(r.n_recovered, 4);
    CHECK_STR(r.recovered[0], "1");
    CHECK_STR(r.recovered[3], "4");
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3 4 5");
}

ENGINE_TEST(a_recovered_job_keeps_its_priority_and_goes_before_its_equals)
{
    must_add_priority(t, "q", 1);
    must_add_priority(t, "q", 5);
    must_add_priority(t, "q", 5);
    take_n(t, "q", 2);
    advance(t, FX_LOCK_MS + 1000);
    must_add_priority(t, "q", 1);
    sweep(t, "q", 3);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1 4 2 3");
}

ENGINE_TEST(sweep_works_in_slices)
{
    struct emq__sweep_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 3, .limit = 10};
    struct emq__sweep_res res;

    for (int i = 0; i < 25; i++)
        must_add(t, "q", "x");
    take_n(t, "q", 25);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
    CHECK_INT(res.n_recovered, 10);
    CHECK(res.more);
    CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
    CHECK_INT(res.n_recovered, 10);
    CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
    CHECK_INT(res.n_recovered, 5);
    CHECK(!res.more);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 25);
}

ENGINE_TEST(sweep_leaves_other_queues_alone)
{
    must_add(t, "q", "x");
    must_add(t, "q2", "x");
    must_take(t, "q2");
    die(t);
    sweep(t, "q", 3);
    CHECK_STATE(t, "q2", S("1"), EMQ_ACTIVE);
    CHECK_INT(sweep(t, "q2", 3).n_recovered, 1);
}

ENGINE_TEST(sweep_of_an_unknown_queue_finds_nothing)
{
    struct emq__sweep_res r = sweep(t, "nowhere", 3);
    CHECK_INT(r.n_recovered + r.n_failed, 0);
    CHECK(!stats(t, "nowhere").exists);
}

ENGINE_TEST(a_second_sweep_finds_nothing_left)
{
    must_add(t, "q", "x");
    die(t);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 1);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    CHECK_INT(must_get(t, "q", S("1"))->stalled, 1);
}

struct sweeper {
    struct fx *t;
    pthread_barrier_t *gate;
    size_t recovered;
};

static void *sweep_once(void *arg)
{
    struct sweeper *w = arg;
    struct emq__arena mem = {0};
    struct emq__sweep_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 3, .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res;

    pthread_barrier_wait(w->gate);
    if (w->t->e->ops->sweep(w->t->e, &req, &res, &mem, NULL) == EMQ_OK)
        w->recovered = res.n_recovered;
    emq__arena_free(&mem);
    return NULL;
}

ENGINE_TEST(sixteen_sweeps_at_once_recover_each_job_once)
{
    enum { SWEEPERS = 16, JOBS = 200 };
    pthread_barrier_t gate;
    pthread_t threads[SWEEPERS];
    struct sweeper w[SWEEPERS];
    size_t sum = 0;

    for (int i = 0; i < JOBS; i++)
        must_add(t, "q", "x");
    CHECK_INT(take_n(t, "q", JOBS).n, JOBS);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(pthread_barrier_init(&gate, NULL, SWEEPERS), 0);
    for (int i = 0; i < SWEEPERS; i++) {
        w[i] = (struct sweeper){t, &gate, 0};
        CHECK_INT(pthread_create(&threads[i], NULL, sweep_once, &w[i]), 0);
    }
    for (int i = 0; i < SWEEPERS; i++) {
        pthread_join(threads[i], NULL);
        sum += w[i].recovered;
    }
    pthread_barrier_destroy(&gate);
    CHECK_INT(sum, JOBS);
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.stats.count[EMQ_WAITING], JOBS);
    for (size_t i = 0; i < d.n; i++)
        CHECK_INT(d.jobs[i]->stalled, 1);
}

ENGINE_TEST(a_settled_job_is_not_swept_even_if_its_lock_had_ended)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    settle_ok(t, j);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
}

ENGINE_TEST(a_job_deleted_on_completion_does_not_come_back)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    en.keep.count = 0;
    CHECK_INT(settle(t, j, en).state, 0);
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    CHECK_INT(dump(t, "q").n, 0);
}

ENGINE_TEST(settling_as_stalled_counts_like_the_sweep)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_STALLED);
    en.reason = S("killed by signal 11");
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
    j = must_get(t, "q", S("1"));
    CHECK_INT(j->stalled, 1);
    CHECK_INT(j->attempts_made, 0);
    CHECK_STR(j->failed_reason, "killed by signal 11");
    CHECK_INT(stats(t, "q").totals.recovered, 1);
}

ENGINE_TEST(settling_as_stalled_over_the_limit_fails_with_the_reason)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_STALLED);
    en.reason = S("killed by signal 11");
    en.max_stalled = 0;
    CHECK_INT(settle(t, j, en).state, EMQ_FAILED_STATE);
    CHECK_STR(must_get(t, "q", S("1"))->failed_reason, "killed by signal 11");
}

ENGINE_TEST(looking_at_a_job_does_not_renew_its_lock)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    for (int i = 0; i < 4; i++) {
        advance(t, 8000);
        must_get(t, "q", S("1"));
        dump(t, "q");
        sweep(t, "q", 3);
    }
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(a_dead_owners_slot_is_free_after_recovery)
{
    must_meta(t, "q", "concurrency", "1");
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    die(t);
    CHECK(take_n(t, "q", 1).maxed);
    sweep(t, "q", 3);
    CHECK_STR(must_take(t, "q")->id, "1");
}

ENGINE_TEST(state_and_order_survive_a_restart)
{
    must_add(t, "q", "x");
    must_add_priority(t, "q", 4);
    must_add_delayed(t, "q", 50000);
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    settle_ok(t, must_take(t, "q"));
    struct emq__dump_res before = dump(t, "q");
    for (int i = 0; i < 3; i++)
        fx_reopen(t);
    struct emq__dump_res after = dump(t, "q");

    CHECK_INT(after.n, before.n);
    for (size_t i = 0; i < after.n; i++) {
        CHECK_STR_EQ(after.jobs[i]->id, before.jobs[i]->id);
        CHECK_INT(after.jobs[i]->state, before.jobs[i]->state);
    }
    CHECK_INT(after.stats.totals.added, before.stats.totals.added);
    CHECK_INT(after.stats.totals.failed, before.stats.totals.failed);
    CHECK_INT(after.id_counter, before.id_counter);
    CHECK_INT(after.last_fence, before.last_fence);
}
