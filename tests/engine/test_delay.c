/* SPDX-License-Identifier: MIT
 *
 * Delayed jobs: due by the store's clock, promoted once, by whoever comes first.
 */
#include "lib/engine_fixture.h"

#include <pthread.h>

static struct emq__promote_res promote(struct fx *t, const char *queue, int32_t limit)
{
    struct emq__promote_req req = {FX_PREFIX, emq_cstr(queue), limit};
    struct emq__promote_res res;

    CHECK_STATUS(FX_CALL(t, promote, &req, &res), EMQ_OK);
    return res;
}

ENGINE_TEST(a_delayed_job_is_not_taken_before_it_is_due)
{
    must_add_delayed(t, "q", 20000);
    advance(t, 15000);
    assert_null(take_one(t, "q"));
    advance(t, 5000);
    CHECK_STR(must_take(t, "q")->id, "1");
}

ENGINE_TEST(delayed_jobs_stand_in_the_order_in_which_they_are_due)
{
    must_add_delayed(t, "q", 30000);
    must_add_delayed(t, "q", 10000);
    must_add_delayed(t, "q", 20000);
    CHECK_IDS(t, "q", EMQ_DELAYED, "2 3 1");
    advance(t, 60000);
    promote(t, "q", 10);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 3 1");
}

ENGINE_TEST(jobs_due_at_the_same_instant_keep_their_order)
{
    struct emq__add_entry en[5];
    for (int i = 0; i < 5; i++) {
        en[i] = fx_entry("q", "x");
        en[i].delay_ms = 10000;
    }
    must_add_many(t, en, 5);
    CHECK_IDS(t, "q", EMQ_DELAYED, "1 2 3 4 5");
    advance(t, 11000);
    promote(t, "q", 10);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3 4 5");
}

ENGINE_TEST(a_promoted_job_stands_behind_those_that_wait)
{
    must_add_delayed(t, "q", 1000);
    must_add(t, "q", "x");
    advance(t, 2000);
    CHECK_STR(must_take(t, "q")->id, "2");
    CHECK_STR(must_take(t, "q")->id, "1");
}

ENGINE_TEST(a_promoted_job_with_a_priority_is_prioritized)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.delay_ms = 1000;
    en.priority = 3;
    must_add_entry(t, en);
    advance(t, 2000);
    CHECK_INT(promote(t, "q", 10).count, 1);
    CHECK_STATE(t, "q", S("1"), EMQ_PRIORITIZED);
    CHECK_INT(must_get(t, "q", S("1"))->delay_ms, 0);
    CHECK_INT(must_get(t, "q", S("1"))->due_at_ms, 0);
}

ENGINE_TEST(promotion_works_in_slices_and_tells_what_is_next)
{
    for (int i = 0; i < 5; i++)
        must_add_delayed(t, "q", 1000);
    emq_str id = must_add_delayed(t, "q", 100000);
    int64_t due = must_get(t, "q", id)->due_at_ms;
    advance(t, 5000);
    struct emq__promote_res r = promote(t, "q", 3);
    CHECK_INT(r.count, 3);
    CHECK(r.more);
    r = promote(t, "q", 3);
    CHECK_INT(r.count, 2);
    CHECK(!r.more);
    CHECK_INT(r.next_due_at_ms, due);
}

ENGINE_TEST(promotion_of_an_unknown_queue_finds_nothing)
{
    struct emq__promote_res r = promote(t, "nowhere", 10);
    CHECK_INT(r.count, 0);
    CHECK_INT(r.next_due_at_ms, 0);
}

struct promoter {
    struct fx *t;
    int64_t count;
};

static void *promote_all(void *arg)
{
    struct promoter *p = arg;
    struct emq__promote_req req = {FX_PREFIX, S("q"), 7};
    struct emq__promote_res res = {.more = true};

    while (res.more) {
        struct emq__arena mem = {0};
        if (p->t->e->ops->promote(p->t->e, &req, &res, &mem, NULL) != EMQ_OK)
            res.more = false;
        p->count += res.count;
        emq__arena_free(&mem);
    }
    return NULL;
}

ENGINE_TEST(eight_promoters_at_once_promote_each_job_once)
{
    enum { PROMOTERS = 8, JOBS = 200 };
    struct emq__add_entry *en = calloc(JOBS, sizeof *en);
    pthread_t threads[PROMOTERS];
    struct promoter p[PROMOTERS];
    int64_t sum = 0;

    for (int i = 0; i < JOBS; i++) {
        en[i] = fx_entry("q", "x");
        en[i].delay_ms = 1000;
    }
    must_add_many(t, en, JOBS);
    free(en);
    advance(t, 5000);
    for (int i = 0; i < PROMOTERS; i++) {
        p[i] = (struct promoter){t, 0};
        CHECK_INT(pthread_create(&threads[i], NULL, promote_all, &p[i]), 0);
    }
    for (int i = 0; i < PROMOTERS; i++) {
        pthread_join(threads[i], NULL);
        sum += p[i].count;
    }
    CHECK_INT(sum, JOBS);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], JOBS);
    CHECK_INT(stats(t, "q").count[EMQ_DELAYED], 0);
}

ENGINE_TEST(a_paused_queue_promotes_but_starts_nothing)
{
    must_add_delayed(t, "q", 1000);
    must_meta(t, "q", "paused", "1");
    advance(t, 5000);
    struct emq__taken taken = take_n(t, "q", 1);
    CHECK_INT(taken.n, 0);
    CHECK(taken.paused);
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(promote_by_hand_makes_a_job_ready_at_once)
{
    must_add_delayed(t, "q", 100000);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PROMOTE), EMQ_OK);
    CHECK_STR(must_take(t, "q")->id, "1");
}

ENGINE_TEST(promote_by_hand_of_a_job_that_is_not_delayed_is_refused)
{
    must_add(t, "q", "x");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_PROMOTE), EMQ_WRONG_STATE);
    CHECK_STATUS(CHANGE(t, "q", S("2"), .kind = EMQ__CHANGE_PROMOTE), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_changed_delay_counts_from_now)
{
    must_add_delayed(t, "q", 100000);
    advance(t, 50000);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_DELAY, .delay_ms = 7000), EMQ_OK);
    int64_t now = t->now_ms;
    struct emq__job *j = must_get(t, "q", S("1"));

    CHECK_INT(j->due_at_ms, now + 7000);
    CHECK_INT(j->delay_ms, 7000);
}

ENGINE_TEST(the_delay_of_a_job_that_is_not_delayed_cannot_be_changed)
{
    must_add(t, "q", "x");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_DELAY, .delay_ms = 7000),
                 EMQ_WRONG_STATE);
}

ENGINE_TEST(a_new_delayed_job_tells_the_waiting_worker)
{
    emq_str q = S("q");
    uint64_t before;

    must_add(t, "q", "x");
    before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    must_add_delayed(t, "q", 500);
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}
