/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on a server: commands of the application in the script that completes the job, both or
 * neither; what fails in the middle ends the job.
 */
#include "redis/effects.h"

/* ---- both, or neither ----------------------------------------------------------------------------- */

EFFECT_TEST(an_effect_and_the_completion_of_its_job_are_there_together)
{
    struct emq__job *j = start(t);
    emq_str before = event_cursor(t, "q");
    struct emq__effect_res res =
        EFFECT(t, j, "SET account:1 90", "incrby account:2 10", "RPUSH log a b");

    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_INT(res.state, EMQ_COMPLETED_STATE);
    CHECK_DO("90", "GET account:1");
    CHECK_DO("10", "GET account:2");
    CHECK_DO("2", "LLEN log");
    CHECK_EVENTS(t, "q", before.ptr, "completed 1, drained");
    CHECK_INT(stats(t, "q").totals.completed, 1);
    struct emq__job *ended = must_get(t, "q", j->id);
    CHECK_INT(ended->state, EMQ_COMPLETED_STATE);
    CHECK_INT(ended->attempts_made, 1);
    CHECK_STR(ended->result.bytes, "d\xc3\xb6ne");
    CHECK_INT(ended->result.kind, EMQ__KIND_TEXT);
    CHECK_INT(dump(t, "q").stray, 0);
}

EFFECT_TEST(an_effect_is_known_to_be_done)
{
    struct emq__job *j = start(t);
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S("q"), .id = j->id, .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK_STR(res.markers[0].step, "ledger");
    CHECK_INT(res.markers[0].state, EMQ__MARKER_DONE);
    CHECK_STR_EQ(res.markers[0].token, j->token);
    CHECK_STR(res.markers[0].result.bytes, "d\xc3\xb6ne");
    CHECK_INT(res.markers[0].result.kind, EMQ__KIND_TEXT);
    CHECK_INT(res.markers[0].expires_at_ms, res.markers[0].done_at_ms + KEEP_MS);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_EFFECT_DONE);
}

EFFECT_TEST(an_effect_that_is_known_to_be_done_is_left_out_and_its_job_completed)
{
    struct emq__job *j = start(t);

    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP),
                 EMQ_OK);
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("1", "GET n");
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("2", "GET n");
}

EFFECT_TEST(a_repeated_effect_is_answered_by_its_receipt_and_not_made_again)
{
    struct emq__job *j = start(t);
    const struct emq__call call = {EMQ_STR_LIT("session-1"), 1};
    struct commands *c = commands(t, TEXTS("INCR n"));

    for (int i = 0; i < 2; i++) {
        struct emq__effect_res res = effect_of(t, j, call, c, EMQ_OK);
        CHECK_STATUS(res.outcome, EMQ_OK);
        CHECK_INT(res.state, EMQ_COMPLETED_STATE);
        CHECK_DO("1", "GET n");
    }
}

EFFECT_TEST(a_former_owner_is_told_that_it_is_lost_and_its_commands_are_not_done)
{
    struct emq__job *old = start(t), *j = taken_again(t);
    struct emq__effect_res res = EFFECT(t, old, "SET good 1");

    CHECK_STATUS(res.outcome, EMQ_LOST);
    CHECK_INT(res.state, EMQ_ACTIVE);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"refused\"");
    check_untouched(t, j);
}

EFFECT_TEST(a_lock_that_ended_is_enough_until_somebody_recovers_the_job)
{
    struct emq__job *j = start(t);

    advance(t, FX_LOCK_MS + 1);
    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_DO("1", "GET n");
}

EFFECT_TEST(a_lock_without_its_job_in_active_is_not_enough)
{
    struct emq__job *j = start(t);

    CHECK_DO("1", "LREM emq:q:active 1 %s", j->id.ptr);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_LOST);
    CHECK_NONE("good");
}

EFFECT_TEST(an_effect_of_a_job_that_is_not_there_or_has_ended_is_not_made)
{
    struct emq__job *j = start(t);

    settle_ok(t, j);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_LOST);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_NOT_FOUND);
    CHECK_NONE("good");
}

EFFECT_TEST(a_parent_whose_children_are_not_done_or_have_failed_is_not_completed_by_its_effect)
{
    struct emq__job *j = start(t);

    CHECK_DO("1", "SADD emq:q:%s:dependencies emq:q:child", j->id.ptr);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_PENDING_CHILDREN);
    CHECK_DO("1", "DEL emq:q:%s:dependencies", j->id.ptr);
    CHECK_DO("1", "ZADD emq:q:%s:unsuccessful 1 emq:q:child", j->id.ptr);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_FAILED_CHILD);
    CHECK_NONE("good");
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
}

EFFECT_TEST(a_job_with_a_dedup_id_and_a_limit_of_one_ends_as_it_would_without_an_effect)
{
    fx_unchecked(t);
    must_meta(t, "q", "concurrency", "1");
    CHECK_STATUS(add_dedup(t, "q", (struct emq__dedup){.id = S("d")}).outcome, EMQ_OK);
    must_add(t, "q", "y");
    struct emq__job *j = must_take(t, "q");
    assert_null(take_one(t, "q"));
    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_NONE("emq:q:de:d");
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("2", "GET n");
}

/* ---- what fails nevertheless ------------------------------------------------------------------------ */

EFFECT_TEST(a_first_command_that_fails_has_done_nothing)
{
    struct emq__job *j = start(t);

    REFUSED(t, j, "command 1 (LSET)", "LSET nothing 0 a", "SET good 1");
    check_untouched(t, j);
}

EFFECT_TEST(a_command_that_fails_behind_others_ends_the_job_for_good_as_a_partial_effect)
{
    fx_unchecked(t);
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("{\"attempts\":5}");
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    const struct emq__call call = {EMQ_STR_LIT("session-1"), 1};
    struct commands *c = commands(t, TEXTS("INCR n", "LSET nothing 0 a", "SET good 1"));

    for (int i = 0; i < 2; i++) { /* once, and as its receipt says */
        struct emq__effect_res res = effect_of(t, j, call, c, EMQ_OK);
        CHECK_STATUS(res.outcome, EMQ_FAILED);
        CHECK_INT(res.state, EMQ_FAILED_STATE);
    }
    struct emq__job *ended = must_get(t, "q", j->id);
    CHECK_INT(ended->state, EMQ_FAILED_STATE);
    CHECK_HAS(ended->failed_reason, "partial effect: command 2 (LSET): ERR no such key");
    CHECK_INT(ended->attempts_made, 1);
    CHECK_DO("1", "GET n");
    CHECK_NONE("good");
    CHECK_INT(stats(t, "q").totals.failed, 1);
    CHECK_INT(step_state(t, j), EMQ__MARKER_IN_DOUBT);
    CHECK_HAS(last_event(t, "q", "failed"), "partial effect");
    CHECK_INT(dump(t, "q").stray, 0);
}

EFFECT_TEST(a_job_with_a_partial_effect_is_retried_only_by_who_says_what_shall_become_of_it)
{
    fx_unchecked(t);
    struct emq__job *j = start(t);
    struct commands *c = commands(t, TEXTS("INCR n", "LSET nothing 0 a"));
    const struct emq__call none = {0};

    CHECK_STATUS(effect_of(t, j, none, c, EMQ_OK).outcome, EMQ_FAILED);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_EFFECT_DONE);
    CHECK_STATE(t, "q", j->id, EMQ_FAILED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP),
                 EMQ_OK);
    j = must_take(t, "q");
    CHECK_INT(step_state(t, j), EMQ__MARKER_IN_DOUBT);
    CHECK_STATUS(effect_of(t, j, none, c, EMQ_OK).outcome, EMQ_OK);
    CHECK_DO("1", "GET n"); /* left out */
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    j = must_take(t, "q");
    CHECK_STATUS(effect_of(t, j, none, c, EMQ_OK).outcome, EMQ_FAILED);
    CHECK_DO("2", "GET n");
}

EFFECT_TEST(a_server_whose_memory_is_full_makes_the_effect_all_the_same)
{
    struct emq__job *j = start(t);

    CHECK_DO("OK", "CONFIG SET maxmemory 1");
    struct commands *c = commands(t, TEXTS("SET good 1", "RPUSH l a"));
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res = {0};
    emq_status s = emq__redis_effect(t->e, &req, c->list, c->n, &res, &t->mem, &t->err);
    CHECK_DO("OK", "CONFIG SET maxmemory 0");
    CHECK_STATUS_ERR(s, EMQ_OK, &t->err);
    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_DO("1", "GET good");
    CHECK_DO("1", "LLEN l");
}

/* ---- the keys of markers ---------------------------------------------------------------------------- */

EFFECT_TEST(every_key_of_a_marker_has_an_end_and_the_one_that_ends_last_keeps_the_others)
{
    struct emq__job *j = start(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    const char *keys[] = {"ef", "ef-end", NULL};

    keys[2] =
        emq__arena_printf(&t->mem, "ef:%s:%lld", j->id.ptr, (long long)j->timestamp_at_ms).ptr;
    req.step = S("lasting");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.step = S("brief");
    req.keep_ms = 1000;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++) {
        long long left = server_number(DO("PTTL emq::emq:q:%s", keys[i]));
        CHECK(left > KEEP_MS - 600000 && left <= KEEP_MS);
    }
}

EFFECT_TEST(markers_that_have_ended_leave_no_keys_once_others_are_made)
{
    enum { JOBS = 20 };
    struct emq__job *j = start(t);

    for (int i = 0; i < JOBS; i++, j = add_and_take(t)) {
        struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
        req.keep_ms = 1000;
        CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
        settle_ok(t, j);
    }
    CHECK_DO("20", "ZCARD emq::emq:q:ef");
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 2000);
    for (int i = 0; i < JOBS / 4; i++) {
        j = add_and_take(t);
        CHECK_INT(claim(t, j), EMQ__MARKER_FRESH);
        settle_ok(t, j);
    }
    CHECK_DO("6", "ZCARD emq::emq:q:ef");
    CHECK_DO("6", "ZCARD emq::emq:q:ef-end");
}

EFFECT_TEST(steps_of_a_job_that_have_ended_do_not_pile_up)
{
    enum { STEPS = 600, LIVING = 20, BOUND = 2 * LIVING + 30 };
    struct emq__job *j = start(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    const char *key = emq__arena_printf(&t->mem, "emq::emq:q:ef:%s:%lld", j->id.ptr,
                                        (long long)j->timestamp_at_ms)
                          .ptr;
    struct emq__marker m;

    req.step = S("lasting");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.keep_ms = LIVING * 1000;
    for (int i = 0; i < STEPS; i++) {
        char step[20];
        (void)snprintf(step, sizeof step, "step-%d", i);
        req.step = S(step);
        CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
        advance(t, 1000);
        CHECK_INT(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    }
    long long left = server_number(DO("HLEN %s", key));
    if (left > BOUND)
        fail_msg("%lld steps are left of %d, of which %d have not ended", left, STEPS, LIVING);
    CHECK(left > LIVING / 2);
    /* None that has not ended was forgotten. */
    req.step = S("lasting");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_BUSY);
    req.step = S("step-590");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_BUSY);
}

EFFECT_TEST(what_is_forgotten_leaves_no_key)
{
    struct emq__job *j = start(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.kind = EMQ__MARK_RELEASE;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_NONE("emq::emq:q:ef");
    CHECK_NONE("emq::emq:q:ef-end");
    claim_fresh(t, j);
    fail_ok(t, j, "no");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    CHECK_NONE("emq::emq:q:ef");
    CHECK_DO("1", "HGET emq:q:%s emq:redo", j->id.ptr);
}
