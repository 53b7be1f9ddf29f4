/* SPDX-License-Identifier: MIT
 *
 * Keys that were damaged behind the library's back: the queue goes on, and what is wrong can be seen.
 */
#include "redis/keys.h"

/* Takes and completes until nothing comes any more. */
static int64_t work_off(struct fx *t)
{
    struct emq__taken taken;

    do {
        taken = take_n(t, "q", 3);
        for (size_t i = 0; i < taken.n; i++)
            settle_ok(t, taken.jobs[i]);
    } while (taken.n || taken.deferred);
    return stats(t, "q").totals.completed;
}

static void ten_good_ones_behind_a_bad_one(struct fx *t)
{
    fx_unchecked(t);
    must_add_id(t, "q", "bad");
    for (int i = 0; i < 10; i++)
        must_add(t, "q", "good");
}

static void good_jobs_run(struct fx *t)
{
    CHECK(work_off(t) >= 10);
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.count[EMQ_WAITING], 0);
    CHECK_INT(s.count[EMQ_ACTIVE], 0);
}

REDIS_TEST(a_first_job_with_broken_options_does_not_block_the_queue)
{
    ten_good_ones_behind_a_bad_one(t);
    DO("HSET emq:q:bad opts {\"attempts\":");
    good_jobs_run(t);
}

REDIS_TEST(a_first_job_without_data_does_not_block_the_queue)
{
    ten_good_ones_behind_a_bad_one(t);
    DO("HDEL emq:q:bad data");
    good_jobs_run(t);
}

REDIS_TEST(a_first_job_without_a_record_does_not_block_the_queue)
{
    ten_good_ones_behind_a_bad_one(t);
    DO("DEL emq:q:bad");
    good_jobs_run(t);
}

REDIS_TEST(a_first_job_whose_record_is_no_hash_does_not_block_the_queue)
{
    ten_good_ones_behind_a_bad_one(t);
    DO("DEL emq:q:bad");
    DO("SET emq:q:bad text");
    CHECK_IDS(t, "q", EMQ_WAITING, "2 3 4 5 6 7 8 9 10 11");
    assert_null(get_job(t, "q", S("bad")));
    good_jobs_run(t);
}

REDIS_TEST(a_broken_list_of_traces_does_not_stop_a_failure_from_being_recorded)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    DO("HSET emq:q:1 stacktrace [\"half");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.reason = S("reason");
    en.stack = S("trace");
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
    CHECK_STR(must_get(t, "q", j->id)->failed_reason, "reason");
}

REDIS_TEST(a_dedup_id_whose_job_vanished_lets_a_new_job_in)
{
    struct emq__dedup d = {.id = S("k")};

    fx_unchecked(t);
    add_dedup(t, "q", d);
    DO("DEL emq:q:1 emq:q:wait");
    struct emq__added a = add_dedup(t, "q", d);
    CHECK_STATUS(a.outcome, EMQ_OK);
    a = add_dedup(t, "q", d);
    CHECK_STATUS(a.outcome, EMQ_DEDUPLICATED);
    CHECK_STATE(t, "q", a.id, EMQ_WAITING);
}

REDIS_TEST(a_dedup_id_whose_job_vanished_is_held_by_nobody)
{
    struct emq__dedup_res res;

    fx_unchecked(t);
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    DO("DEL emq:q:1 emq:q:wait");
    CHECK_STATUS(dedup(t, "q", "k", "", false, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(dedup(t, "q", "k", "", true, &res), EMQ_NOT_FOUND);
    CHECK_NONE("emq:q:de:k");
}

REDIS_TEST(a_vanished_job_can_be_settled_by_nobody_and_is_not_made_again)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    DO("DEL emq:q:1");
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_FAILED)).outcome, EMQ_NOT_FOUND);
    assert_null(get_job(t, "q", j->id));
    CHECK_NONE("emq:q:1");
}

static int broken_lines;

static void count_broken(void *user, const char *line)
{
    (void)user;
    (void)line;
    broken_lines++;
}

REDIS_TEST(a_dump_shows_counters_and_keys_that_do_not_fit)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(emq__check_dump(&d, count_broken, NULL), 0);
    DO("DEL emq:q:1");
    DO("LREM emq:q:wait 0 1");
    d = dump(t, "q");
    CHECK(emq__check_dump(&d, count_broken, NULL) > 0);
}

REDIS_TEST(a_dump_counts_keys_and_entries_that_belong_to_no_job)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    CHECK_INT(dump(t, "q").stray, 0);
    DO("RPUSH emq:q:4711:logs nobody's");
    DO("SET emq:q:1:lock token"); /* of a job that is not active */
    DO("RPUSH emq:q:wait ghost");
    DO("HSET emq:q:lost timestamp 1700000000000");
    DO("HSET emq:q:dn:k jid 7");
    DO("RPUSH emq::emq:q:hist:4711 {}");
    CHECK_INT(dump(t, "q").stray, 6);
}
