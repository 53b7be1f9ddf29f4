/* SPDX-License-Identifier: MIT
 *
 * Administration of keys that others made: BullMQ's flows and schedulers, and what its removals leave.
 */
#include "redis/keys.h"

/* A job as a BullMQ flow leaves it; `where` is a command that puts it in its place. */
static void make_job(struct fx *t, const char *queue, const char *id, const char *parent_id)
{
    DO("HSET emq:%s:%s name job data {} opts {} timestamp 1700000000000 delay 0 priority 0", queue,
       id);
    if (parent_id)
        DO("HSET emq:%s:%s parentKey emq:q:%s parent {\"id\":\"%s\",\"queueKey\":\"emq:q\"}", queue,
           id, parent_id, parent_id);
    DO("HSETNX emq:%s:meta opts.maxLenEvents 10000", queue);
}

static void make_child(struct fx *t, const char *queue, const char *id, const char *parent_id)
{
    make_job(t, queue, id, parent_id);
    DO("LPUSH emq:%s:wait %s", queue, id);
    DO("SADD emq:q:%s:dependencies emq:%s:%s", parent_id, queue, id);
}

/* A parent in q that waits for its children a and b in `queue`. */
static void make_flow(struct fx *t, const char *queue)
{
    fx_unchecked(t); /* what BullMQ adds is in nobody's totals */
    make_job(t, "q", "parent", NULL);
    DO("ZADD emq:q:waiting-children 1700000000000 parent");
    make_child(t, queue, "a", "parent");
    make_child(t, queue, "b", "parent");
}

static struct emq__bulk_res clean(struct fx *t, const char *queue, int32_t state)
{
    return bulk(t, (struct emq__bulk_req){.queue = emq_cstr(queue),
                                          .change.kind = EMQ__CHANGE_REMOVE,
                                          .state = state,
                                          .limit = 1000,
                                          .event = true});
}

static struct emq__obliterate_res obliterate(struct fx *t, int32_t limit)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .force = true, .limit = limit};
    struct emq__obliterate_res res;

    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
    return res;
}

/* ---- what is no job --------------------------------------------------------------------------- */

REDIS_TEST(keys_of_the_queue_are_no_jobs)
{
    static const char *const names[] = {"meta", "id", "wait", "events", "repeat:nightly"};

    must_add(t, "q", "x");
    DO("HSET emq:q:repeat:nightly name tick data {} ic 1");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(names); i++) {
        assert_null(get_job(t, "q", S(names[i])));
        CHECK_STATUS(CHANGE(t, "q", S(names[i]), .kind = EMQ__CHANGE_REMOVE), EMQ_NOT_FOUND);
        CHECK_STATUS(CHANGE(t, "q", S(names[i]), .kind = EMQ__CHANGE_CANCEL), EMQ_NOT_FOUND);
        CHECK_DO("1", "EXISTS emq:q:%s", names[i]);
    }
}

REDIS_TEST(keys_of_the_queue_have_no_logs)
{
    struct emq__logs_req req = {FX_PREFIX, S("q"), S("meta"), 0, 0};
    struct emq__logs_res res;

    must_add(t, "q", "x");
    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_NOT_FOUND);
    req.id = S("wait");
    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_NOT_FOUND);
}

REDIS_TEST(a_request_to_stop_that_a_bullmq_worker_passed_over_ends_with_a_retry)
{
    fx_unchecked(t); /* what BullMQ finishes is in nobody's totals */
    must_add(t, "q", "x");
    must_take(t, "q");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
    DO("DEL emq:q:active emq:q:1:lock");
    DO("HSET emq:q:1 finishedOn 1700000000000 returnvalue 1");
    DO("ZADD emq:q:completed 1700000000000 1");
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_INT(must_take(t, "q")->cancel, 0);
}

REDIS_TEST(a_job_has_no_history_of_a_former_one_that_bullmq_removed)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), S("a")};
    struct emq__history_res res;

    fx_unchecked(t); /* what BullMQ removes is in nobody's totals */
    must_add_id(t, "q", "a");
    CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_PRIORITY, .admin = S("root")), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    DO("DEL emq:q:a emq:q:wait");
    advance(t, 1000);
    must_add_id(t, "q", "a");
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

REDIS_TEST(ids_without_a_record_are_shown_to_nobody_and_dropped_by_a_bulk_change)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    DO("RPUSH emq:q:wait ghost 0:5");
    must_add(t, "q", "x");
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2");
    CHECK_INT(dump(t, "q").stray, 2);
    CHECK_INT(clean(t, "q", EMQ_WAITING).count, 2);
    CHECK_NONE("emq:q:wait");
}

REDIS_TEST(a_record_that_stands_nowhere_can_be_removed)
{
    fx_unchecked(t);
    make_job(t, "q", "lost", NULL);
    CHECK_INT(dump(t, "q").stray, 1);
    CHECK_STATUS(CHANGE(t, "q", S("lost"), .kind = EMQ__CHANGE_PRIORITY, .priority = 3),
                 EMQ_WRONG_STATE);
    CHECK_STATUS(CHANGE(t, "q", S("lost"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_NONE("emq:q:lost");
    CHECK_INT(dump(t, "q").stray, 0);
}

/* ---- flows ------------------------------------------------------------------------------------ */

REDIS_TEST(a_parent_is_removed_with_all_below_it)
{
    make_flow(t, "children");
    make_child(t, "children", "grandchild", "elsewhere");
    DO("SADD emq:children:a:dependencies emq:children:grandchild");
    DO("HSET emq:q:parent:processed emq:children:done 1");
    make_job(t, "children", "done", "parent");
    DO("HSET emq:children:done finishedOn 1700000000000");
    DO("ZADD emq:children:completed 1700000000000 done");
    CHECK_STATUS(CHANGE(t, "q", S("parent"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_DO("", "KEYS emq:q:parent*");
    CHECK_DO("", "KEYS emq:children:[abdg]*");
    CHECK_NONE("emq:children:wait");
    CHECK_NONE("emq:children:completed");
    CHECK_NONE("emq:q:wait");
    CHECK_EVENTS(t, "q", "", "removed parent");
}

REDIS_TEST(a_tree_with_a_locked_job_stays_as_it_is)
{
    make_flow(t, "children");
    DO("SET emq:children:b:lock token");
    CHECK_STATUS(CHANGE(t, "q", S("parent"), .kind = EMQ__CHANGE_REMOVE), EMQ_CHILD_LOCKED);
    CHECK_DO("2", "SCARD emq:q:parent:dependencies");
    CHECK_DO("2", "LLEN emq:children:wait");
}

REDIS_TEST(a_large_tree_is_removed_in_parts_and_never_lets_its_parent_go)
{
    make_flow(t, "children");
    for (int i = 0; i < 600; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "c%d", i);
        make_child(t, "children", id, "parent");
    }
    CHECK_STATUS(CHANGE(t, "q", S("parent"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_NONE("emq:q:waiting-children");
    CHECK_NONE("emq:children:wait");
    CHECK_EVENTS(t, "q", "", "removed parent");
}

REDIS_TEST(the_last_child_that_is_removed_lets_its_parent_go)
{
    make_flow(t, "q");
    CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATE(t, "q", S("parent"), EMQ_WAITING_CHILDREN);
    CHECK_STATUS(CHANGE(t, "q", S("b"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATE(t, "q", S("parent"), EMQ_WAITING);
    CHECK_DO("0", "ZSCORE emq:q:marker 0");
}

REDIS_TEST(the_last_child_that_is_cleaned_takes_its_parent_of_the_same_queue_along)
{
    make_flow(t, "q");
    CHECK_INT(clean(t, "q", EMQ_WAITING).count, 2);
    CHECK_DO("", "KEYS emq:q:parent*");
    CHECK_NONE("emq:q:waiting-children");
    CHECK_NONE("emq:q:wait");
}

REDIS_TEST(the_last_child_that_is_cleaned_lets_a_parent_of_another_queue_go)
{
    make_flow(t, "children");
    CHECK_INT(clean(t, "children", EMQ_WAITING).count, 2);
    CHECK_STATE(t, "q", S("parent"), EMQ_WAITING);
}

REDIS_TEST(a_child_that_is_retried_is_waited_for_again)
{
    make_flow(t, "children");
    DO("RPOP emq:children:wait 2");
    DO("DEL emq:q:parent:dependencies");
    DO("ZADD emq:children:completed 1700000000000 a");
    DO("ZADD emq:children:failed 1700000000000 b");
    DO("HSET emq:children:a finishedOn 1700000000000 returnvalue 1");
    DO("HSET emq:children:b finishedOn 1700000000000 failedReason broken");
    DO("HSET emq:q:parent:processed emq:children:a 1");
    DO("ZADD emq:q:parent:unsuccessful 1700000000000 emq:children:b");
    CHECK_STATUS(CHANGE(t, "children", S("a"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_STATUS(CHANGE(t, "children", S("b"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    CHECK_DO("2", "SCARD emq:q:parent:dependencies");
    CHECK_NONE("emq:q:parent:processed");
    CHECK_NONE("emq:q:parent:unsuccessful");
    CHECK_STATE(t, "q", S("parent"), EMQ_WAITING_CHILDREN);
}

REDIS_TEST(a_cancelled_child_fails_its_parent_as_its_policy_says)
{
    make_flow(t, "children");
    DO("HSET emq:children:a parent {\"id\":\"parent\",\"queueKey\":\"emq:q\",\"fpof\":true}");
    CHECK_STATUS(CHANGE(t, "children", S("a"), .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
    CHECK_STR(must_get(t, "q", S("parent"))->deferred_failure, "child emq:children:a failed");
    CHECK_STATE(t, "q", S("parent"), EMQ_WAITING);
}

/* ---- schedulers ------------------------------------------------------------------------------- */

REDIS_TEST(the_next_run_of_a_scheduler_is_neither_removed_nor_cancelled_and_readers_know_it)
{
    fx_unchecked(t);
    make_job(t, "q", "repeat:nightly:1800000000000", NULL);
    DO("HSET emq:q:repeat:nightly:1800000000000 rjk nightly");
    DO("LPUSH emq:q:wait repeat:nightly:1800000000000");
    DO("ZADD emq:q:repeat 1800000000000 nightly");
    CHECK_STATUS(CHANGE(t, "q", S("repeat:nightly:1800000000000"), .kind = EMQ__CHANGE_REMOVE),
                 EMQ_NEXT_RUN);
    CHECK_STATUS(CHANGE(t, "q", S("repeat:nightly:1800000000000"), .kind = EMQ__CHANGE_CANCEL),
                 EMQ_NEXT_RUN);
    CHECK(must_get(t, "q", S("repeat:nightly:1800000000000"))->next_run);
    static const enum emq__change_kind kinds[] = {EMQ__CHANGE_REMOVE, EMQ__CHANGE_CANCEL};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        must_add(t, "q", "x");
        struct emq__bulk_res res =
            bulk(t, (struct emq__bulk_req){
                        .queue = S("q"), .state = EMQ_WAITING, .change = {.kind = kinds[i]}});
        CHECK_INT(res.count, 1);
        CHECK_IDS(t, "q", EMQ_WAITING, "repeat:nightly:1800000000000");
    }
    DO("ZADD emq:q:repeat 1800000060000 nightly");
    CHECK(!must_get(t, "q", S("repeat:nightly:1800000000000"))->next_run);
    CHECK_STATUS(CHANGE(t, "q", S("repeat:nightly:1800000000000"), .kind = EMQ__CHANGE_REMOVE),
                 EMQ_OK);
}

/* ---- obliterate ------------------------------------------------------------------------------- */

REDIS_TEST(obliterate_leaves_no_key_of_the_queue)
{
    make_flow(t, "q");
    must_add(t, "q", "x");
    make_job(t, "q", "lost", NULL);
    DO("SET emq:q:de:gone 7 PX 100000");
    DO("HSET emq:q:dn:k name x jid 9");
    DO("HSET emq:q:repeat:nightly name tick ic 1");
    DO("ZADD emq:q:repeat 1800000000000 nightly");
    DO("HSET emq:q:metrics:completed count 1");
    DO("LPUSH emq:q:metrics:completed:data 1");
    DO("SET emq:q:limiter 4 PX 100000");
    DO("SET emq:q:7:lock token");
    DO("LPUSH emq:q:7:logs line");
    DO("SADD emq:q:stalled 7");
    DO("LPUSH emq:q:paused 8");
    CHECK_INT(obliterate(t, 1000).count, 4);
    CHECK_DO("", "KEYS emq:q:*");
}

REDIS_TEST(obliterate_leaves_a_queue_alone_whose_prefix_begins_like_it)
{
    struct emq__add_entry en = fx_entry("nested", "x");
    struct emq__take_req take = {.prefix = S("emq:q"), .queue = S("nested"), .take = fx_take(1)};
    struct emq__take_res taken;

    fx_unchecked(t);
    en.prefix = S("emq:q");
    must_add_entry(t, en);
    must_add_entry(t, en);
    CHECK_STATUS(FX_CALL(t, take, &take, &taken), EMQ_OK);
    must_add(t, "q", "x");
    CHECK_INT(obliterate(t, 1000).count, 1);
    CHECK_DO("7", "EXISTS emq:q:nested:meta emq:q:nested:id emq:q:nested:wait emq:q:nested:active "
                  "emq:q:nested:1 emq:q:nested:1:lock emq:q:nested:2");
}

REDIS_TEST(a_queue_that_is_obliterated_in_parts_is_paused_until_it_is_gone)
{
    fx_unchecked(t);
    for (int i = 0; i < 20; i++)
        must_add(t, "q", "x");
    CHECK(obliterate(t, 5).more);
    assert_null(take_one(t, "q"));
    CHECK(stats(t, "q").paused);
    CHECK(!obliterate(t, 1000).more);
    CHECK_DO("", "KEYS emq:q:*");
}

/* ---- settings and events ----------------------------------------------------------------------- */

REDIS_TEST(the_engines_own_fields_are_no_settings)
{
    struct emq__meta_field set = {S("emq:fence"), S("1")};
    struct emq__meta_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .admin = S("root"), .set = &set, .n_set = 1};
    struct emq__meta_res res;

    must_add(t, "q", "x");
    must_take(t, "q");
    CHECK_STATUS(t->e->ops->meta(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    req.n_set = 0;
    CHECK_STATUS(FX_CALL(t, meta, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

REDIS_TEST(pause_and_resume_move_the_markers_that_wake_other_workers)
{
    must_add_delayed(t, "q", 5000);
    must_meta(t, "q", "paused", "1");
    CHECK_NONE("emq:q:marker");
    must_meta(t, "q", "paused", "");
    CHECK_DO("1", "ZRANGE emq:q:marker 0 -1");
    must_add(t, "q", "x");
    must_meta(t, "q", "paused", "1");
    CHECK_NONE("emq:q:marker");
    must_meta(t, "q", "paused", "");
    CHECK_DO("0", "ZRANGE emq:q:marker 0 -1");
}

REDIS_TEST(a_limit_that_is_lifted_wakes_other_workers)
{
    must_meta(t, "q", "concurrency", "1");
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_take(t, "q");
    DO("DEL emq:q:marker");
    must_meta(t, "q", "concurrency", "");
    CHECK_DO("0", "ZSCORE emq:q:marker 0");
}

REDIS_TEST(jobs_that_an_old_bullmq_set_aside_wait_in_front_after_a_resume)
{
    fx_unchecked(t);
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_meta(t, "q", "paused", "1");
    DO("RPOP emq:q:wait 2");
    DO("LPUSH emq:q:paused 1 2");
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 3);
    CHECK_STATE(t, "q", S("2"), EMQ_WAITING);
    must_meta(t, "q", "paused", "");
    CHECK_IDS(t, "q", EMQ_WAITING, "1 2 3");
    CHECK_NONE("emq:q:paused");
}

REDIS_TEST(events_of_others_become_json_whatever_they_hold)
{
    DO("XADD emq:q:events * event hello data {\"a\":1} text a\"b delay 12 id 7");
    DO("XADD emq:q:events * event broken data {\"a\": returnvalue nonsense count x");
    CHECK_EVENTS(t, "q", "", "hello, broken");
    emq_str ev = last_event(t, "q", "hello");
    CHECK_HAS(ev, "\"data\":{\"a\":1},\"text\":\"a\\\"b\",\"delay\":12}");
    ev = last_event(t, "q", "broken");
    CHECK_HAS(ev, "\"data\":\"{\\\"a\\\":\",\"returnvalue\":\"nonsense\",\"count\":\"x\"}");
}

REDIS_TEST(queues_are_found_by_a_prefix_of_any_characters)
{
    static const char *const prefixes[] = {"a*", "a?", "[ab]", "a\\b", "{tag}", "x:y"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(prefixes); i++) {
        struct emq__queues_req req = {.prefix = emq_cstr(prefixes[i])};
        struct emq__queues_res res;
        struct emq__add_entry en = fx_entry("q", "x");
        en.prefix = req.prefix;
        must_add_entry(t, en);
        CHECK_STATUS(FX_CALL(t, queues, &req, &res), EMQ_OK);
        CHECK_INT(res.n, 1);
        CHECK_STR(res.names[0], "q");
    }
    struct emq__queues_req req = {.prefix = S("x")};
    struct emq__queues_res res;
    CHECK_STATUS(FX_CALL(t, queues, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}
