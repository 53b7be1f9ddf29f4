/* SPDX-License-Identifier: MIT
 *
 * A job's path over keys that BullMQ shares: flows, hand-outs of others, markers, encodings.
 */
#include "engine/redis/path.h"
#include "redis/keys.h"

static void make_job(struct fx *t, const char *queue, const char *id)
{
    DO("HSET emq:%s:%s name job data {} opts {} timestamp 1700000000000 delay 0 priority 0", queue,
       id);
}

/* ---- flows --------------------------------------------------------------------------------------- */

/* A parent in queue p that waits for the jobs a and b of q, whose failures are treated as `policy` says. */
static void make_flow(struct fx *t, const char *policy)
{
    fx_unchecked(t); /* what BullMQ adds is in nobody's totals */
    make_job(t, "p", "parent");
    DO("ZADD emq:p:waiting-children 1700000000000 parent");
    for (const char *id = "a"; *id <= 'b' && *id; id = *id == 'a' ? "b" : "") {
        make_job(t, "q", id);
        DO("HSET emq:q:%s parentKey emq:p:parent parent "
           "{\"id\":\"parent\",\"queueKey\":\"emq:p\"%s}",
           id, policy);
        DO("LPUSH emq:q:wait %s", id);
        DO("SADD emq:p:parent:dependencies emq:q:%s", id);
    }
}

static void complete_next(struct fx *t, const char *json)
{
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);

    en.value.bytes = S(json);
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
}

REDIS_TEST(the_last_child_that_completes_lets_its_parent_go_with_the_results)
{
    make_flow(t, "");
    complete_next(t, "{\"n\":1}");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING_CHILDREN);
    complete_next(t, "2");
    CHECK_DO("{\"n\":1}", "HGET emq:p:parent:processed emq:q:a");
    CHECK_DO("2", "HGET emq:p:parent:processed emq:q:b");
    CHECK_DO("parent", "LRANGE emq:p:wait 0 -1");
    CHECK_DO("0", "EXISTS emq:p:waiting-children emq:p:parent:dependencies");
    CHECK_HAS(last_event(t, "p", "waiting"), "\"prev\":\"waiting-children\"");
    CHECK_DO("0\n0", "ZRANGE emq:p:marker 0 -1 WITHSCORES");
}

REDIS_TEST(a_parent_goes_to_its_own_priority_or_waits_for_its_own_delay)
{
    make_flow(t, "");
    DO("HSET emq:p:parent priority 7");
    complete_next(t, "1");
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_PRIORITIZED);
    DO("FLUSHALL");
    make_flow(t, "");
    DO("HSET emq:p:parent delay 5000");
    complete_next(t, "1");
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_DELAYED);
    advance(t, 6000);
    CHECK_STR(must_take(t, "p")->id, "parent");
}

REDIS_TEST(a_failed_child_without_a_policy_holds_its_parent)
{
    make_flow(t, "");
    fail_ok(t, must_take(t, "q"), "no");
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING_CHILDREN);
    CHECK_DO("emq:q:a", "SMEMBERS emq:p:parent:dependencies");
}

REDIS_TEST(a_failed_child_that_is_not_kept_holds_nobody)
{
    make_flow(t, "");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.keep.count = 0;
    settle(t, j, en);
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING);
}

REDIS_TEST(a_child_that_fails_its_parent_makes_it_fail_as_soon_as_it_is_taken)
{
    make_flow(t, ",\"fpof\":true");
    fail_ok(t, must_take(t, "q"), "no");
    CHECK_DO("child emq:q:a failed", "HGET emq:p:parent defa");
    CHECK_DO("emq:q:a", "ZRANGE emq:p:parent:unsuccessful 0 -1");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING);
    CHECK_INT(take_n(t, "p", 1).deferred, 1);
    CHECK_STATE(t, "p", S("parent"), EMQ_FAILED_STATE);
    CHECK_STR(must_get(t, "p", S("parent"))->failed_reason, "child emq:q:a failed");
}

REDIS_TEST(a_child_whose_failure_is_passed_on_lets_its_parent_go_at_once)
{
    make_flow(t, ",\"cpof\":true");
    fail_ok(t, must_take(t, "q"), "no");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING);
    CHECK_DO("no", "HGET emq:p:parent:failed emq:q:a");
}

REDIS_TEST(a_child_whose_failure_is_ignored_counts_as_ended)
{
    make_flow(t, ",\"idof\":true");
    fail_ok(t, must_take(t, "q"), "no");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING_CHILDREN);
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING);
    CHECK_DO("no", "HGET emq:p:parent:failed emq:q:a");
}

REDIS_TEST(a_child_whose_dependency_is_dropped_counts_as_ended_and_leaves_nothing)
{
    make_flow(t, ",\"rdof\":true");
    fail_ok(t, must_take(t, "q"), "no");
    complete_next(t, "2");
    CHECK_STATE(t, "p", S("parent"), EMQ_WAITING);
    CHECK_DO("0", "EXISTS emq:p:parent:failed");
}

REDIS_TEST(a_job_whose_children_are_not_done_or_have_failed_may_not_complete_and_is_still_held)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    DO("ZADD emq:q:1:unsuccessful 1700000000000 emq:q:failed");
    DO("SADD emq:q:1:dependencies emq:q:child");
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_PENDING_CHILDREN);
    DO("DEL emq:q:1:dependencies");
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_FAILED_CHILD);
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
    DO("DEL emq:q:1:unsuccessful");
    settle_ok(t, j);
}

REDIS_TEST(a_job_that_may_not_complete_holds_up_nothing_of_its_act)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    must_add(t, "q", "y");
    must_add(t, "q", "z");
    struct emq__job *parent = must_take(t, "q"), *other = must_take(t, "q");
    const struct emq__settle_entry a = fx_settle(parent, EMQ__SETTLE_COMPLETED),
                                   b = fx_settle(other, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *entries[] = {&a, &b, &a};
    struct emq__take next = {.worker = S("w"), .lock_ms = FX_LOCK_MS, .count = 1};
    struct emq__settle_req req = {
        .prefix = S("emq"), .queue = S("q"), .entries = entries, .n = 3, .next = &next};
    struct emq__settle_res res;
    emq_error err = {0};

    DO("SADD emq:q:1:dependencies emq:q:child");
    CHECK_STATUS_ERR(t->e->ops->settle(t->e, &req, &res, &t->mem, &err), EMQ_OK, &err);
    CHECK_STATUS(res.settled[0].outcome, EMQ_PENDING_CHILDREN);
    CHECK_STATUS(res.settled[1].outcome, EMQ_OK);
    CHECK_STATUS(res.settled[2].outcome, EMQ_PENDING_CHILDREN);
    CHECK_INT(res.taken.n, 1);
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
    CHECK_STATE(t, "q", S("2"), EMQ_COMPLETED_STATE);
}

/* ---- hand-outs of others ------------------------------------------------------------------------- */

/* The job is active as if a BullMQ worker had it, without a lock. */
static void held_by_bullmq(struct fx *t)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    DO("RPOPLPUSH emq:q:wait emq:q:active");
    DO("HSET emq:q:1 processedOn 1700000000001 ats 1");
}

REDIS_TEST(a_job_of_bullmq_without_a_lock_is_recovered_at_the_second_look)
{
    held_by_bullmq(t);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    advance(t, 1000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    advance(t, 5000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 1);
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

REDIS_TEST(a_job_that_bullmq_took_again_is_looked_at_twice_again)
{
    held_by_bullmq(t);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    advance(t, 6000);
    DO("HSET emq:q:1 processedOn 1700000007001 ats 2");
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    advance(t, 5000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 1);
}

REDIS_TEST(a_sweep_leaves_the_check_of_bullmq_alone)
{
    held_by_bullmq(t);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
    CHECK_DO("0", "EXISTS emq:q:stalled-check");
}

REDIS_TEST(a_job_of_bullmq_with_a_lock_is_left_alone)
{
    held_by_bullmq(t);
    for (int i = 0; i < 3; i++) {
        DO("SET emq:q:1:lock theirs PX 30000");
        CHECK_INT(sweep(t, "q", 3).n_recovered, 0);
        advance(t, 20000);
    }
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
}

REDIS_TEST(a_hand_out_of_ours_ends_when_bullmq_takes_the_job)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    release_ok(t, j, 0);
    advance(t, 5);
    DO("RPOPLPUSH emq:q:wait emq:q:active");
    DO("HSET emq:q:1 processedOn 1700000000001");
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_LOST);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    CHECK_STATUS(write_job(t, "q", j->id, (struct emq__auth){.token = j->token},
                           EMQ__WRITE_PROGRESS, "1", 0),
                 EMQ_LOST);
    CHECK_STATE(t, "q", S("1"), EMQ_ACTIVE);
}

REDIS_TEST(renewing_and_settling_takes_a_job_out_of_bullmqs_suspects)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    DO("SADD emq:q:stalled 1");
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    CHECK_DO("0", "EXISTS emq:q:stalled");
    DO("SADD emq:q:stalled 1");
    settle_ok(t, j);
    CHECK_DO("0", "EXISTS emq:q:stalled");
}

static bool takeable(struct fx *t)
{
    struct emq__stats_req req = {.prefix = FX_PREFIX, .queue = S("q"), .ending = true};
    struct emq__stats_res res;

    CHECK_STATUS(FX_CALL(t, stats, &req, &res), EMQ_OK);
    return res.takeable;
}

REDIS_TEST(the_pending_job_of_a_scheduler_stays_in_line_for_bullmq)
{
    fx_unchecked(t);
    make_job(t, "q", "repeat:nightly:1700000000000");
    DO("HSET emq:q:repeat:nightly:1700000000000 rjk nightly");
    DO("LPUSH emq:q:wait repeat:nightly:1700000000000");
    DO("ZADD emq:q:repeat 1700000000000 nightly");
    must_add(t, "q", "x");
    for (int i = 0; i < 2; i++)
        must_add(t, "q", "y");
    CHECK_STR(must_take(t, "q")->data.bytes, "x");
    CHECK(takeable(t));
    CHECK_INT(take_n(t, "q", 10).n, 2);
    CHECK_DO("repeat:nightly:1700000000000", "LRANGE emq:q:wait 0 -1");
    CHECK(!takeable(t));
    DO("LPOP emq:q:wait");
    DO("ZADD emq:q:prioritized 1 repeat:nightly:1700000000000");
    CHECK(!takeable(t));
    DO("ZADD emq:q:repeat 1700000060000 nightly"); /* it has been advanced: this one is a job now */
    CHECK(takeable(t));
    CHECK_STR(must_take(t, "q")->scheduler, "nightly");
}

REDIS_TEST(entries_that_old_producers_left_in_the_line_are_dropped)
{
    must_add(t, "q", "x");
    DO("RPUSH emq:q:wait 0:0 0:5000");
    CHECK_STR(must_take(t, "q")->data.bytes, "x");
    CHECK_DO("0", "EXISTS emq:q:wait");
}

REDIS_TEST(a_rate_limit_whose_counter_has_no_end_is_begun_anew)
{
    struct emq__take take = fx_take(5);

    take.limit_max = 2;
    take.limit_duration_ms = 10000;
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    DO("SET emq:q:limiter 99");
    CHECK_INT(take_with(t, "q", take).n, 2);
    CHECK_DO("2", "GET emq:q:limiter");
    CHECK(strtol(DO("PTTL emq:q:limiter"), NULL, 10) > 0);
}

/* ---- places and markers -------------------------------------------------------------------------- */

REDIS_TEST(there_is_room_before_the_first_of_a_priority_that_bullmq_counts_from_one)
{
    DO("SET emq:q:pc 1"); /* one of BullMQ is gone already */
    for (int i = 0; i < 3; i++)
        must_add_priority(t, "q", 5);
    struct emq__job *j = must_take(t, "q");
    release_ok(t, j, 0);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "1 2 3");
    CHECK_DO("21474836482", "ZSCORE emq:q:prioritized 1");
}

REDIS_TEST(a_take_leaves_a_marker_for_the_next_worker_while_there_is_work)
{
    for (int i = 0; i < 3; i++)
        must_add(t, "q", "x");
    DO("DEL emq:q:marker");
    must_take(t, "q");
    CHECK_DO("0", "ZRANGE emq:q:marker 0 -1");
    DO("DEL emq:q:marker");
    CHECK_INT(take_n(t, "q", 10).n, 2);
    CHECK_DO("0", "EXISTS emq:q:marker");
}

REDIS_TEST(a_queue_at_its_concurrency_limit_gets_a_marker_when_a_slot_is_free)
{
    must_meta(t, "q", "concurrency", "1");
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    DO("DEL emq:q:marker");
    must_add(t, "q", "y");
    CHECK_DO("0", "EXISTS emq:q:marker");
    settle_ok(t, j);
    CHECK_DO("0", "ZRANGE emq:q:marker 0 -1");
}

REDIS_TEST(an_idle_take_writes_nothing)
{
    must_add_delayed(t, "q", 60000);
    must_add_priority(t, "q", 3);
    must_take(t, "q");
    take_n(t, "q", 1);
    const char *before = DO("INFO replication");
    long long offset = strtoll(strstr(before, "master_repl_offset:") + 19, NULL, 10);
    take_n(t, "q", 1);
    const char *after = DO("INFO replication");
    CHECK_INT(strtoll(strstr(after, "master_repl_offset:") + 19, NULL, 10), offset);
}

/* ---- many ------------------------------------------------------------------------------------------ */

static void add_thousand(struct fx *t)
{
    static struct emq__add_entry en[EMQ__BATCH_MAX];

    for (size_t i = 0; i < EMQ__BATCH_MAX; i++)
        en[i] = fx_entry("q", "x");
    must_add_many(t, en, EMQ__BATCH_MAX);
}

REDIS_TEST(a_sweep_of_a_long_list_goes_on_where_the_last_one_stopped)
{
    struct emq__sweep_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 3, .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res = {.more = true};
    size_t recovered = 0;

    fx_unchecked(t);
    for (int i = 0; i < 6; i++)
        add_thousand(t);
    for (int i = 0; i < 5; i++)
        CHECK_INT(take_n(t, "q", EMQ__BATCH_MAX).n, EMQ__BATCH_MAX);
    for (int i = 0; i < 2; i++) {
        struct emq__take take = fx_take(EMQ__BATCH_MAX / 2);
        take.lock_ms = i == 0 ? 1000 : FX_LOCK_MS;
        CHECK_INT(take_with(t, "q", take).n, EMQ__BATCH_MAX / 2);
    }
    advance(t, 2000);
    for (int i = 0; res.more && i < 10; i++) {
        CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
        recovered += res.n_recovered;
    }
    CHECK_INT(recovered, EMQ__BATCH_MAX / 2);
    CHECK(!res.more);
}

REDIS_TEST(an_expired_record_behind_many_that_stay_is_found_by_later_sweeps)
{
    fx_unchecked(t);
    for (int i = 0; i < 2; i++) {
        add_thousand(t);
        struct emq__taken taken = take_n(t, "q", EMQ__BATCH_MAX);
        for (size_t k = 0; k < taken.n; k++) {
            struct emq__settle_entry en = fx_settle(taken.jobs[k], EMQ__SETTLE_COMPLETED);
            if (i == 1 && k == 500)
                en.keep.age_ms = 5000;
            settle(t, taken.jobs[k], en);
        }
        advance(t, 1000);
    }
    advance(t, 10000);
    for (int i = 0; i < 3; i++) {
        sweep(t, "q", 3);
        advance(t, 2000);
    }
    CHECK_INT(stats(t, "q").totals.removed, 1);
}

/* ---- encodings --------------------------------------------------------------------------------- */

static void write_data(struct fx *t, const char *bytes)
{
    CHECK_STATUS(write_job(t, "q", S("1"), (struct emq__auth){.admin = S("root")}, EMQ__WRITE_DATA,
                           bytes, 0),
                 EMQ_OK);
    CHECK_STR(must_get(t, "q", S("1"))->data.bytes, bytes);
}

REDIS_TEST(bullmq_reads_how_data_is_encoded_in_the_options)
{
    struct emq__add_entry en = fx_entry("q", "plain text");

    en.opts = S("{\"attempts\":2}");
    must_add_entry(t, en);
    CHECK_DO("\"plain text\"", "HGET emq:q:1 data");
    CHECK_DO("{\"attempts\":2,\"emqEnc\":\"text\"}", "HGET emq:q:1 opts");
    write_data(t, "[1]");
    CHECK_DO("{\"attempts\":2}", "HGET emq:q:1 opts");
    write_data(t, "\xff");
    CHECK_DO("{\"attempts\":2,\"emqEnc\":\"base64\"}", "HGET emq:q:1 opts");
    CHECK_DO("\"/w==\"", "HGET emq:q:1 data");
    CHECK_STR(must_get(t, "q", S("1"))->opts, "{\"attempts\":2}");
}

REDIS_TEST(options_that_are_no_object_have_the_encoding_beside)
{
    struct emq__add_entry en = fx_entry("q", "plain text");

    en.opts = S("nonsense");
    must_add_entry(t, en);
    CHECK_DO("nonsense", "HGET emq:q:1 opts");
    CHECK_STR(must_get(t, "q", S("1"))->data.bytes, "plain text");
    write_data(t, "[1]");
    write_data(t, "other text");
    write_data(t, "\xff");
    CHECK_STR(must_take(t, "q")->data.bytes, "\xff");
}

REDIS_TEST(data_of_others_that_is_no_json_is_taken_as_it_is)
{
    must_add(t, "q", "x");
    DO("HSET emq:q:1 data not-json opts {}");
    struct emq__job *j = must_take(t, "q");
    CHECK_STR(j->data.bytes, "not-json");
    CHECK_INT(j->data.kind, EMQ__KIND_TEXT);
}

EMQ_TEST(options_come_back_as_they_were_whatever_they_look_like)
{
    static const char *const texts[] = {
        "{}",
        "{ }",
        "{\"a\":1}",
        " {\"a\":1 } \n",
        "{\"a\":1,}",
        "[]",
        "",
        "{",
        "}",
        "nonsense}",
        "{\"x\":\"}\"}",
        "{\"x\":\"\\\"emqEnc\\\":\\\"text\\\"\"}",
    };
    static const char *const encodings[] = {"", "text", "base64"};
    struct emq__arena mem = {0};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < EMQ_ARRAY_LEN(encodings); k++) {
            bool marked;
            emq_str encoding, opts = rd_opts_mark(S(texts[i]), S(encodings[k]), &mem, &marked);
            CHECK_STR(rd_opts_unmark(opts, &mem, &encoding), texts[i]);
            CHECK_STR(encoding, marked ? encodings[k] : "");
        }
    emq__arena_free(&mem);
}

EMQ_TEST(an_encoding_that_somebody_wrote_in_another_place_is_found)
{
    struct emq__arena mem = {0};
    emq_str encoding;

    CHECK_STR(rd_opts_unmark(S("{\"emqEnc\":\"base64\",\"attempts\":1}"), &mem, &encoding),
              "{\"emqEnc\":\"base64\",\"attempts\":1}");
    CHECK_STR(encoding, "base64");
    emq__arena_free(&mem);
}

/* ---- what a worker holds ------------------------------------------------------------------------- */

REDIS_TEST(each_take_keeps_the_queues_of_its_worker_known_for_a_week)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_take(t, "q");
    CHECK_DO("1", "PEXPIRE emq::emq::w:w 5000");
    must_take(t, "q");
    CHECK(strtoll(DO("PTTL emq::emq::w:w"), NULL, 10) > 6 * 24 * 3600 * (int64_t)1000);
}
