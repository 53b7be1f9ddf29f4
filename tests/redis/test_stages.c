/* SPDX-License-Identifier: MIT
 *
 * Stages beside BullMQ, who knows of none; how they are published.
 */
#include "redis/keys.h"

#include <errno.h>

static void stage_jobs(struct fx *t, const char *queue, size_t n)
{
    static struct emq__add_entry en[EMQ__BATCH_MAX];
    static const struct emq__add_entry *list[EMQ__BATCH_MAX];
    struct emq__add_req req = {.entries = list, .n = n, .stage = S("s")};
    struct emq__add_res res;

    for (size_t i = 0; i < n; i++) {
        en[i] = fx_entry(queue, "x");
        list[i] = &en[i];
    }
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
}

static void stage_id(struct fx *t, const char *id)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1, .stage = S("s")};
    struct emq__add_res res;

    en.id = emq_cstr(id);
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_STATUS(res.added[0].outcome, EMQ_OK);
}

static emq_status end(struct fx *t, bool drop, struct emq__publish_res *res)
{
    struct emq__publish_req req = {.prefix = FX_PREFIX, .stage = S("s"), .drop = drop};

    return FX_CALL(t, publish, &req, res);
}

static emq_status publish(struct fx *t, int64_t *count)
{
    struct emq__publish_res res;
    emq_status s = end(t, false, &res);

    *count = res.count;
    return s;
}

static void sweep_all(struct fx *t)
{
    for (int i = 0; sweep(t, "q", 3).more && i < 10; i++)
        ;
}

/* What the first script of a publication ("c"), or of a drop ("d"), does, by somebody who then dies. */
static void begin(struct fx *t, char what)
{
    char born[40], head[60];

    (void)snprintf(born, sizeof born, "%s", DO("LINDEX emq::emq::stage:s 0") + 1);
    (void)snprintf(head, sizeof head, "%c%s 0 0 0", what, born);
    CHECK_DO("OK", "RENAME emq::emq::stage:s emq::emq::stage:s:%s", born);
    CHECK_DO("OK", "LSET emq::emq::stage:s:%s 0 %s", born, head);
}

static void begin_to_publish(struct fx *t)
{
    begin(t, 'c');
}

REDIS_TEST(a_publication_whose_publisher_died_is_ended_by_sweeps)
{
    int64_t count;

    fx_unchecked(t);
    stage_jobs(t, "q", 10);
    stage_jobs(t, "r", EMQ__BATCH_MAX);
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    begin_to_publish(t);
    CHECK_STATUS(publish(t, &count), EMQ_NOT_FOUND);
    sweep_all(t);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], EMQ__BATCH_MAX + 10);
    CHECK_INT(stats(t, "r").count[EMQ_WAITING], EMQ__BATCH_MAX);
    CHECK_INT(stats(t, "q").totals.added, EMQ__BATCH_MAX + 10);
    CHECK_DO("0", "EXISTS emq::emq:q:stages emq::emq:r:stages");
    struct emq__taken taken = take_n(t, "q", 20);
    for (size_t i = 0; i < taken.n; i++)
        CHECK_INT(strtol(taken.jobs[i]->id.ptr, NULL, 10), i + 1);
}

REDIS_TEST(a_private_key_and_a_dedup_id_of_something_else_hold_up_no_publication)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1, .stage = S("s")};
    struct emq__add_res res;
    int64_t count;

    fx_unchecked(t);
    stage_id(t, "gone");
    stage_id(t, "good");
    en.id = S("unique");
    en.dedup.id = S("d");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_DO("OK", "SET emq::emq:q:staged:gone x");
    CHECK_DO("1", "RPUSH emq:q:de:d x");
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 2);
    CHECK_DO("x", "GET emq::emq:q:staged:gone");
    CHECK_STATE(t, "q", S("good"), EMQ_WAITING);
    CHECK_STATE(t, "q", S("unique"), EMQ_WAITING);
    must_add_id(t, "q", "gone"); /* nobody's id */
    stage_id(t, "more");
    en = fx_entry("q", "x");
    en.id = S("gone2");
    CHECK_DO("OK", "SET emq::emq:q:staged:gone2 x");
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK(strstr(t->err.text, "emq::emq:q:staged:gone2"));
}

REDIS_TEST(what_is_left_of_a_publication_whose_publisher_died_waits_for_a_week)
{
    static const char *const keys[] = {"emq::emq:q:staged:1", "emq::emq:q:staged:1500",
                                       "emq::emq:q:stages"};
    enum { DAY_MS = 24 * 60 * 60 * 1000 };

    fx_unchecked(t);
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++)
        CHECK(strtoll(DO("PTTL %s", keys[i]), NULL, 10) > 6 * (int64_t)DAY_MS);
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    CHECK(strtoll(DO("PTTL emq::emq:q:staged:1500"), NULL, 10) > 6 * (int64_t)DAY_MS);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], EMQ__BATCH_MAX - 1);
}

/* 2,000 jobs of a batch of 3,000 are there, and its publisher is gone. */
static void publish_in_part(struct fx *t)
{
    fx_unchecked(t);
    for (int i = 0; i < 3; i++)
        stage_jobs(t, "q", EMQ__BATCH_MAX);
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    CHECK(sweep(t, "q", 3).more);
    CHECK_DO("1", "HEXISTS emq:q:meta emq:pub");
}

static void published(struct fx *t, int64_t jobs)
{
    struct emq__stats_res s = stats(t, "q");

    CHECK_INT(s.totals.added, jobs);
    CHECK_INT(s.count[EMQ_WAITING] + s.count[EMQ_ACTIVE] + s.count[EMQ_COMPLETED_STATE], jobs);
    CHECK_DO("0", "EXISTS emq::emq:q:stages");
    (void)take_n(t, "q", 1);
    CHECK_DO("0", "HEXISTS emq:q:meta emq:pub");
}

REDIS_TEST(whoever_adds_goes_on_with_a_publication_whose_publisher_died)
{
    publish_in_part(t);
    for (int i = 0; i < 2; i++)
        must_add(t, "q", "x");
    published(t, 3 * EMQ__BATCH_MAX + 2);
}

REDIS_TEST(whoever_takes_goes_on_with_a_publication_whose_publisher_died)
{
    publish_in_part(t);
    for (int i = 0; i < 11; i++)
        CHECK_INT(take_n(t, "q", 1).n, 1);
    published(t, 3 * EMQ__BATCH_MAX);
}

REDIS_TEST(whoever_settles_goes_on_with_a_publication_whose_publisher_died)
{
    struct emq__taken taken;

    publish_in_part(t);
    taken = take_n(t, "q", 10);
    for (size_t i = 0; i < taken.n; i++)
        settle_ok(t, taken.jobs[i]);
    published(t, 3 * EMQ__BATCH_MAX);
}

REDIS_TEST(a_batch_added_again_finds_its_jobs_there_when_its_publisher_died)
{
    struct emq__add_entry en = fx_entry("q", "x");
    char ids[1002][8];

    fx_unchecked(t);
    for (int i = 0; i < 1002; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "b%d", i);
        stage_id(t, ids[i]);
    }
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    CHECK(sweep(t, "q", 3).more);
    en.id = emq_cstr(ids[1001]);
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DUPLICATE);
    CHECK_STATE(t, "q", emq_cstr(ids[1001]), EMQ_WAITING);
}

REDIS_TEST(a_publication_that_a_key_of_another_queue_stops_refuses_nobody_who_comes_by)
{
    fx_unchecked(t);
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    stage_jobs(t, "r", 10);
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    CHECK_DO("OK", "SET emq:r:wait x");
    must_add(t, "q", "x");
    settle_ok(t, take_n(t, "q", 1).jobs[0]);
    CHECK_DO("1", "HEXISTS emq:q:meta emq:pub");
    CHECK_DO("1", "DEL emq:r:wait");
    (void)take_n(t, "q", 1);
    CHECK_INT(stats(t, "r").count[EMQ_WAITING], 10);
    CHECK_DO("0", "HEXISTS emq:q:meta emq:pub");
}

REDIS_TEST(the_queue_that_comes_next_goes_on_when_a_publisher_died_between_two_queues)
{
    fx_unchecked(t);
    stage_jobs(t, "q", EMQ__BATCH_MAX - 1);
    stage_jobs(t, "r", 10);
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], EMQ__BATCH_MAX - 1);
    must_add(t, "r", "x");
    CHECK_INT(stats(t, "r").count[EMQ_WAITING], 11);
}

REDIS_TEST(a_queue_that_was_obliterated_while_a_publication_rests_is_not_there_afterwards)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = S("r"), .force = true, .limit = EMQ__BATCH_MAX};
    struct emq__obliterate_res res;

    fx_unchecked(t);
    stage_jobs(t, "q", EMQ__BATCH_MAX - 1);
    stage_jobs(t, "r", 10);
    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    sweep(t, "r", 3); /* whoever comes by there */
    CHECK_DO("0", "EXISTS emq:r:meta emq::emq:r:stages");
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], EMQ__BATCH_MAX - 1);
}

static struct emq__mend_res look_at_publication(struct fx *t, bool repair)
{
    struct emq__suspect x = {.flaw = S("publication"), .key = S("queue ")};
    struct emq__mend_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .suspect = &x, .repair = repair};
    struct emq__mend_res res;

    CHECK_STATUS(FX_CALL(t, mend, &req, &res), EMQ_OK);
    return res;
}

REDIS_TEST(a_publication_that_rests_is_a_flaw_and_is_repaired_to_its_end)
{
    int64_t count;

    publish_in_part(t);
    CHECK_INT(look_at_publication(t, false).outcome, EMQ__MEND_HEALTHY);
    advance(t, 11000);
    CHECK_INT(look_at_publication(t, false).outcome, EMQ__MEND_BROKEN);
    CHECK(look_at_publication(t, false).waits);
    for (int i = 0; i < 3; i++)
        stage_jobs(t, "q",
                   EMQ__BATCH_MAX - 1); /* goes on with the first one; each slice ends a part */
    begin_to_publish(t);
    CHECK(sweep(t, "q", 3).more);
    advance(t, 11000);
    CHECK_INT(look_at_publication(t, true).outcome, EMQ__MEND_REPAIRED);
    published(t, 6 * EMQ__BATCH_MAX - 3);
    CHECK_INT(look_at_publication(t, false).outcome, EMQ__MEND_HEALTHY);
    for (int i = 0; i < 2; i++)
        stage_jobs(t, "q", EMQ__BATCH_MAX);
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_DO("0", "HEXISTS emq:q:meta emq:pub");
    CHECK_DO("1", "HSET emq:q:meta emq:pub 1");
    CHECK_INT(look_at_publication(t, false).outcome, EMQ__MEND_HEALTHY);
}

REDIS_TEST(a_publication_that_is_refused_has_not_begun)
{
    struct emq__publish_req req = {.prefix = FX_PREFIX, .stage = S("s")};
    struct emq__publish_res res;

    fx_unchecked(t);
    stage_jobs(t, "q", 10);
    stage_jobs(t, "r", 10);
    CHECK_DO("OK", "SET emq:r:failed x");
    CHECK_STATUS(t->e->ops->publish(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK_INT(t->err.native, EEXIST);
    CHECK_STATUS(end(t, true, &res), EMQ_OK);
    CHECK_DO("1", "DEL emq:r:failed");
    sweep_all(t);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 0);
    CHECK_DO("0", "EXISTS emq::emq:q:stages emq::emq:r:stages");
}

REDIS_TEST(what_an_ended_stage_left_of_an_id_is_not_in_the_next_job_of_it)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1, .stage = S("s")};
    struct emq__add_res res;
    int64_t count;

    en.id = S("x");
    en.dedup.id = S("d");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_DO("2", "DEL emq::emq::stage:s emq::emq:q:stages"); /* an hour, and a sweep */
    advance(t, 3600000);
    stage_id(t, "x");
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_DO("0", "HEXISTS emq:q:x deid");
}

/* The other queue is named by what adds to it; this one's sweeps go on. */
REDIS_TEST(a_publication_that_a_key_of_another_queue_stops_holds_up_no_sweep)
{
    fx_unchecked(t);
    stage_jobs(t, "r", 10);
    stage_jobs(t, "q", 10);
    begin_to_publish(t);
    CHECK_DO("OK", "SET emq:r:wait x");
    sweep_all(t);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 0);
    CHECK_DO("1", "DEL emq:r:wait");
    sweep_all(t);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 10);
    CHECK_INT(stats(t, "r").count[EMQ_WAITING], 10);
}

REDIS_TEST(several_publications_whose_publishers_died_are_ended_by_sweeps)
{
    fx_unchecked(t);
    for (int i = 0; i < 3; i++) {
        stage_jobs(t, "q", 10);
        begin_to_publish(t);
        advance(t, 1);
    }
    stage_jobs(t, "q", 10);
    CHECK(sweep(t, "q", 3).more);
    CHECK(sweep(t, "q", 3).more);
    CHECK(!sweep(t, "q", 3).more);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 30);
    CHECK_DO("1", "HLEN emq::emq:q:stages");
}

REDIS_TEST(an_id_is_taken_until_its_job_is_published_and_the_stage_may_have_a_successor)
{
    int64_t count;

    fx_unchecked(t);
    stage_id(t, "a");
    begin_to_publish(t);
    struct emq__add_entry en = fx_entry("q", "x");
    en.id = S("a");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DUPLICATE);
    advance(t, 1);
    stage_id(t, "b");
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 1);
    sweep(t, "q", 3);
    CHECK_IDS(t, "q", EMQ_WAITING, "b a");
}

REDIS_TEST(a_large_publication_tells_of_all_jobs_of_a_small_queue_and_the_last_of_a_large_one)
{
    int64_t count;

    fx_unchecked(t);
    must_meta(t, "r", "opts.maxLenEvents", "500");
    stage_jobs(t, "q", 10);
    for (int i = 0; i < 3; i++)
        stage_jobs(t, "r", EMQ__BATCH_MAX);
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 3 * EMQ__BATCH_MAX + 10);
    CHECK_DO("20", "XLEN emq:q:events");
    CHECK(strtol(DO("XLEN emq:r:events"), NULL, 10) >= 500);
    CHECK_HAS(last_event(t, "r", "waiting"), "\"jobId\":\"3000\"");
}

/* BullMQ's removeOrphanedJobs() removes what looks like the record of a job and stands nowhere. */
REDIS_TEST(a_job_of_a_stage_has_no_key_that_a_job_of_bullmq_could_have)
{
    int64_t count;

    fx_unchecked(t);
    stage_jobs(t, "q", 3);
    CHECK_DO("emq:q:id", "KEYS emq:q:*");
    CHECK_DO("3", "EXISTS emq::emq:q:staged:1 emq::emq:q:staged:2 emq::emq:q:staged:3");
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 3);
    CHECK_DO("0", "EXISTS emq::emq:q:staged:1 emq::emq:q:staged:2 emq::emq:q:staged:3");
    CHECK_DO("-1", "PTTL emq:q:1");
    CHECK_DO("0", "HEXISTS emq:q:1 emq:stage");
}

REDIS_TEST(an_id_of_a_stage_that_bullmq_gives_away_meanwhile_stays_with_its_job)
{
    struct emq__publish_res res;

    fx_unchecked(t);
    stage_jobs(t, "q", 3);
    stage_id(t, "a");
    DO("HSET emq:q:a name theirs data {} opts {} timestamp 1700000000000 delay 0 priority 0");
    DO("ZADD emq:q:delayed 1800000000000 a");
    CHECK_STATUS(end(t, false, &res), EMQ_OK);
    CHECK_INT(res.count, 3);
    CHECK_INT(res.n_missed, 1);
    CHECK_INT(res.missed[0].rank, 3);
    CHECK_STATUS(res.missed[0].why.outcome, EMQ_DUPLICATE);
    CHECK_STR(res.missed[0].why.id, "a");
    CHECK_INT(res.missed[0].why.state, EMQ_DELAYED);
    CHECK_IDS(t, "q", EMQ_DELAYED, "a");
    CHECK_DO("theirs", "HGET emq:q:a name");
    CHECK_DO("0", "EXISTS emq::emq:q:staged:a");
    CHECK_HAS(last_event(t, "q", "duplicated"), "\"jobId\":\"a\"");
}

REDIS_TEST(a_job_of_the_counter_does_not_get_the_number_that_a_stage_holds)
{
    int64_t count;

    fx_unchecked(t);
    stage_id(t, "3");      /* counts 1 */
    must_add(t, "q", "x"); /* 2 */
    must_add(t, "q", "x"); /* not 3 */
    CHECK_STATUS(publish(t, &count), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 4 3");
}

REDIS_TEST(a_publication_names_all_that_were_not_published_however_many)
{
    enum { N = 2 * EMQ__BATCH_MAX };
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[EMQ__BATCH_MAX];
    struct emq__add_req req = {.entries = list, .n = EMQ__BATCH_MAX, .stage = S("s")};
    struct emq__add_res added;
    struct emq__publish_res res;

    fx_unchecked(t);
    en.dedup.id = S("one");
    for (int i = 0; i < EMQ__BATCH_MAX; i++)
        list[i] = &en;
    for (int i = 0; i < N / EMQ__BATCH_MAX; i++)
        CHECK_STATUS(FX_CALL(t, add, &req, &added), EMQ_OK);
    CHECK_STATUS(end(t, false, &res), EMQ_OK);
    CHECK_INT(res.count, 1);
    CHECK_INT(res.n_missed, N - 1);
    for (size_t i = 0; i < res.n_missed; i++) {
        CHECK_INT(res.missed[i].rank, i + 1);
        CHECK_STR(res.missed[i].why.id, "1");
    }
    CHECK_DO("0", "EXISTS emq::emq:q:stages");
}

REDIS_TEST(a_long_stage_is_dropped_and_none_of_its_records_is_left)
{
    struct emq__publish_res res;

    fx_unchecked(t);
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    stage_jobs(t, "r", EMQ__BATCH_MAX);
    stage_jobs(t, "q", 10);
    CHECK_STATUS(end(t, true, &res), EMQ_OK);
    CHECK_INT(res.count, 0);
    CHECK_INT(res.n_missed, 0);
    CHECK_DO("", "KEYS emq::emq:q:staged:*");
    CHECK_DO("", "KEYS emq::emq:r:staged:*");
    CHECK_DO("0", "EXISTS emq::emq:q:stages emq::emq:r:stages emq::emq::stage:s");
    CHECK(!stats(t, "q").exists);
}

REDIS_TEST(a_stage_whose_dropper_died_has_ended_and_sweeps_remove_it)
{
    struct emq__add_entry en = fx_entry("q", "x");
    struct emq__publish_res res;

    fx_unchecked(t);
    stage_id(t, "a");
    stage_jobs(t, "q", EMQ__BATCH_MAX);
    begin(t, 'd');
    CHECK_STATUS(end(t, false, &res), EMQ_NOT_FOUND);
    en.id = S("a");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_OK);
    sweep_all(t);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
    CHECK_DO("", "KEYS emq::emq:q:staged:*");
    CHECK_DO("0", "EXISTS emq::emq:q:stages");
}

REDIS_TEST(a_publication_that_has_begun_is_not_dropped)
{
    struct emq__publish_res res;

    fx_unchecked(t);
    stage_id(t, "a");
    begin_to_publish(t);
    CHECK_STATUS(end(t, true, &res), EMQ_NOT_FOUND);
    sweep_all(t);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
}
