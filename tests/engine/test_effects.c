/* SPDX-License-Identifier: MIT
 *
 * Claiming the effect of a job: who may do it, what a later hand-out is told, and how long it is known.
 */
#include "effects.h"

#include <pthread.h>

/* ---- one hand-out ----------------------------------------------------------------------------- */

ENGINE_TEST(the_first_claim_is_fresh_and_says_whose_it_is)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    req.step = S("mail");
    req.fingerprint = S("f1");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    CHECK_STR_EQ(m.id, j->id);
    CHECK_STR(m.step, "mail");
    CHECK_STR_EQ(m.token, j->token);
    CHECK_STR(m.fingerprint, "f1");
    CHECK_INT(m.timestamp_at_ms, j->timestamp_at_ms);
    CHECK_INT(m.claimed_at_ms, t->now_ms);
    CHECK_INT(m.done_at_ms, 0);
    CHECK_INT(m.expires_at_ms, t->now_ms + KEEP_MS);
    CHECK_INT(m.result.kind, 0);
}

ENGINE_TEST(a_second_claim_by_the_same_hand_out_is_told_that_it_is_busy_and_changes_nothing)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker first, again;

    CHECK_STATUS(mark_with(t, &req, &first), EMQ_OK);
    advance(t, 1000);
    CHECK_STATUS(mark_with(t, &req, &again), EMQ_OK);
    CHECK_INT(again.state, EMQ__MARKER_BUSY);
    CHECK_INT(again.claimed_at_ms, first.claimed_at_ms);
    CHECK_INT(again.expires_at_ms, first.expires_at_ms);
}

ENGINE_TEST(an_effect_that_is_done_answers_its_result)
{
    static const struct emq__payload results[] = {
        {EMQ__KIND_JSON, EMQ_STR_INIT("{\"a\": 1e400}")},
        {EMQ__KIND_TEXT, EMQ_STR_INIT("caf\xc3\xa9 \"x\"\n")},
        {EMQ__KIND_TEXT, EMQ_STR_INIT("")},
        {EMQ__KIND_BYTES, EMQ_STR_INIT("\xff\x01\x02")},
        {0, EMQ_STR_INIT("")},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(results); i++) {
        struct emq__job *j = add_and_take(t);
        struct emq__mark_req req = mark_req(j, EMQ__MARK_DONE);
        struct emq__marker m;
        claim_fresh(t, j);
        advance(t, 5);
        req.result = results[i];
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
        CHECK_INT(m.state, EMQ__MARKER_DONE);
        req.kind = EMQ__MARK_CLAIM;
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
        CHECK_INT(m.state, EMQ__MARKER_DONE);
        CHECK_INT(m.result.kind, results[i].kind);
        CHECK_STR_EQ(m.result.bytes, results[i].bytes);
        CHECK_INT(m.done_at_ms, m.claimed_at_ms + 5);
        CHECK_INT(m.expires_at_ms, m.done_at_ms + KEEP_MS);
        settle_ok(t, j);
    }
}

ENGINE_TEST(the_longest_result_is_kept)
{
    struct emq__job *j = add_and_take(t);
    char *big = malloc(EMQ_RESULT_MAX);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_DONE);
    struct emq__marker m;

    assert_non_null(big);
    memset(big, 'x', EMQ_RESULT_MAX);
    claim_fresh(t, j);
    req.result = (struct emq__payload){EMQ__KIND_TEXT, emq_strn(big, EMQ_RESULT_MAX)};
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.kind = EMQ__MARK_CLAIM;
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.result.bytes.len, EMQ_RESULT_MAX);
    CHECK(memcmp(m.result.bytes.ptr, big, EMQ_RESULT_MAX) == 0);
    free(big);
}

ENGINE_TEST(what_this_hand_out_has_done_twice_keeps_the_first_result)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_DONE);
    struct emq__marker m;

    claim_fresh(t, j);
    done_ok(t, j, "1");
    req.result.bytes = S("2");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_DONE);
    CHECK_STR(m.result.bytes, "1");
}

ENGINE_TEST(a_claim_that_was_given_back_is_free)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_RELEASE);
    struct emq__marker m;

    claim_fresh(t, j);
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, 0);
    claim_fresh(t, j);
}

ENGINE_TEST(what_was_not_claimed_can_be_neither_done_nor_given_back)
{
    struct emq__job *j = add_and_take(t);

    CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_WRONG_STATE);
    CHECK_STATUS(mark(t, j, EMQ__MARK_RELEASE), EMQ_WRONG_STATE);
    claim_fresh(t, j);
}

ENGINE_TEST(what_is_done_can_not_be_given_back)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    done_ok(t, j, "1");
    CHECK_STATUS(mark(t, j, EMQ__MARK_RELEASE), EMQ_WRONG_STATE);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
}

ENGINE_TEST(the_steps_of_a_job_are_effects_of_their_own)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    claim_fresh(t, j);
    done_ok(t, j, "1");
    req.step = S("mail");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    req.step = S("Mail");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    req.step = S("mail");
    req.kind = EMQ__MARK_RELEASE;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
}

ENGINE_TEST(one_key_with_another_payload_is_a_conflict_whatever_its_state)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    req.fingerprint = S("f1");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    req.fingerprint = S("f2");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_CONFLICT);
    CHECK_INT(m.state, EMQ__MARKER_BUSY);
    req.kind = EMQ__MARK_TAKE_OVER;
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_CONFLICT);
    CHECK_STR(m.fingerprint, "f1");
    req.fingerprint = S("f1");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    done_ok(t, j, "1");
    req.fingerprint = S("f2");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_CONFLICT);
    CHECK_INT(m.state, EMQ__MARKER_DONE);
}

ENGINE_TEST(an_empty_fingerprint_is_not_compared)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    CHECK_INT(claim(t, j), EMQ__MARKER_FRESH);
    req.fingerprint = S("f1");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_BUSY);
    CHECK_STR(m.fingerprint, "");
    req.kind = EMQ__MARK_TAKE_OVER;
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_STR(m.fingerprint, "f1");
    req.fingerprint = S("");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_STR(m.fingerprint, "f1");
}

/* ---- a later hand-out ------------------------------------------------------------------------- */

ENGINE_TEST(the_claim_of_a_hand_out_that_died_is_in_doubt_as_soon_as_the_job_is_handed_out_again)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    j = taken_again(t);
    CHECK_INT(claim(t, j), EMQ__MARKER_IN_DOUBT);
    CHECK_INT(claim(t, j), EMQ__MARKER_IN_DOUBT);
}

ENGINE_TEST(a_claim_in_doubt_is_never_done_unless_somebody_decides)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    j = taken_again(t);
    CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_WRONG_STATE);
    CHECK_STATUS(mark(t, j, EMQ__MARK_RELEASE), EMQ_WRONG_STATE);
    CHECK_INT(claim(t, j), EMQ__MARKER_IN_DOUBT);
}

ENGINE_TEST(what_is_in_doubt_or_busy_is_taken_over_by_the_hand_out_that_asks_for_it)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req;
    struct emq__marker m;

    claim_fresh(t, j);
    j = taken_again(t);
    req = mark_req(j, EMQ__MARK_TAKE_OVER);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
        CHECK_INT(m.state, EMQ__MARKER_FRESH);
        CHECK_STR_EQ(m.token, j->token);
        CHECK_INT(m.claimed_at_ms, t->now_ms);
        CHECK_INT(m.expires_at_ms, t->now_ms + KEEP_MS);
        advance(t, 10);
    }
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
    done_ok(t, j, "1");
}

ENGINE_TEST(who_meets_an_effect_in_doubt_or_takes_it_over_leaves_a_line_and_nobody_else)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req;

    claim_fresh(t, j);
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
    CHECK_STR(last_history(t, j->id), "");
    j = taken_again(t);
    CHECK_INT(claim(t, j), EMQ__MARKER_IN_DOUBT);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"doubt\"");
    CHECK_HAS(last_history(t, j->id), j->token.ptr);
    req = mark_req(j, EMQ__MARK_TAKE_OVER);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"redo\"");
    j = taken_again(t);
    req = mark_req(j, EMQ__MARK_TAKE_OVER);
    req.settles = true;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"settled\"");
}

ENGINE_TEST(a_take_over_of_what_is_free_is_a_claim_and_of_what_is_done_is_nothing)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_TAKE_OVER);
    struct emq__marker m;

    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
    done_ok(t, j, "7");
    j = taken_again(t);
    req = mark_req(j, EMQ__MARK_TAKE_OVER);
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_DONE);
    CHECK_STR(m.result.bytes, "7");
}

ENGINE_TEST(what_one_hand_out_has_done_every_later_one_finds_done)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    done_ok(t, j, "1");
    for (int i = 0; i < 3; i++) {
        j = taken_again(t);
        CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
        CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_WRONG_STATE);
    }
}

ENGINE_TEST(a_former_owner_is_told_that_it_is_lost_changes_nothing_and_is_on_record)
{
    static const enum emq__mark_kind kinds[] = {EMQ__MARK_CLAIM, EMQ__MARK_TAKE_OVER,
                                                EMQ__MARK_DONE, EMQ__MARK_RELEASE};
    struct emq__job *old = add_and_take(t), *j;
    struct emq__mark_req req;

    claim_fresh(t, old);
    j = taken_again(t);
    req = mark_req(j, EMQ__MARK_TAKE_OVER);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        struct emq__marker m;
        req = mark_req(old, kinds[i]);
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_LOST);
        CHECK_INT(m.state, 0);
        CHECK_HAS(last_history(t, j->id), "\"what\":\"refused\"");
        CHECK_HAS(last_history(t, j->id), old->token.ptr);
        CHECK_HAS(last_history(t, j->id), "effect");
    }
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
}

ENGINE_TEST(a_job_that_is_not_active_can_not_be_marked_by_its_last_owner)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    settle_ok(t, j);
    CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_LOST);
    CHECK_STATUS(mark(t, j, EMQ__MARK_CLAIM), EMQ_LOST);
}

ENGINE_TEST(a_lock_that_has_ended_is_its_owners_until_somebody_recovers_the_job)
{
    struct emq__job *j = add_and_take(t);

    advance(t, FX_LOCK_MS + 1);
    claim_fresh(t, j);
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
    done_ok(t, j, "1");
}

ENGINE_TEST(a_job_or_queue_that_is_not_there_is_not_found)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    req.id = S("nobody");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_NOT_FOUND);
    req.queue = S("nowhere");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_NOT_FOUND);
    req = admin_req(j, EMQ__MARK_SETTLE);
    req.id = S("nobody");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_NOT_FOUND);
}

ENGINE_TEST(an_id_that_is_used_again_is_a_new_job_with_a_fresh_effect)
{
    must_add_id(t, "q", "order-1");
    struct emq__job *j = must_take(t, "q");

    claim_fresh(t, j);
    done_ok(t, j, "1");
    settle_ok(t, j);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    advance(t, 1);
    must_add_id(t, "q", "order-1");
    claim_fresh(t, must_take(t, "q"));
}

/* ---- how long ----------------------------------------------------------------------------------- */

ENGINE_TEST(a_marker_past_its_end_is_absent)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    done_ok(t, j, "1");
    extend(t, j, 2 * KEEP_MS);
    advance(t, KEEP_MS - 1000);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
    advance(t, 1000);
    claim_fresh(t, j);
}

ENGINE_TEST(a_claim_past_its_end_can_not_be_done)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    req.keep_ms = 1000;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 1000);
    CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_WRONG_STATE);
    CHECK_STATUS(mark(t, j, EMQ__MARK_RELEASE), EMQ_WRONG_STATE);
}

ENGINE_TEST(how_long_it_is_known_counts_anew_from_when_it_is_done)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    req.keep_ms = 1000;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 900);
    done_ok(t, j, "1");
    advance(t, 5000);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
}

ENGINE_TEST(the_effects_of_one_job_end_each_at_its_own_time)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req brief = mark_req(j, EMQ__MARK_CLAIM), lasting = brief;
    struct emq__marker m;

    brief.step = S("brief");
    brief.keep_ms = 1000;
    lasting.step = S("lasting");
    CHECK_STATUS(mark_with(t, &lasting, NULL), EMQ_OK);
    CHECK_STATUS(mark_with(t, &brief, NULL), EMQ_OK);
    advance(t, 2000);
    CHECK_STATUS(mark_with(t, &lasting, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_BUSY);
    CHECK_STATUS(mark_with(t, &brief, &m), EMQ_OK);
    CHECK_INT(m.state, EMQ__MARKER_FRESH);
}

ENGINE_TEST(a_marker_without_an_end_or_with_one_that_is_over_is_refused)
{
    static const enum emq__mark_kind kinds[] = {EMQ__MARK_CLAIM, EMQ__MARK_TAKE_OVER,
                                                EMQ__MARK_DONE, EMQ__MARK_SETTLE};
    struct emq__job *j = add_and_take(t);
    struct emq__mark_res res;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++)
        for (int64_t keep = -1000; keep <= 0; keep += 1000) {
            struct emq__mark_req req = mark_req(j, kinds[i]);
            req.auth.admin = S("ann");
            req.keep_ms = keep;
            CHECK_STATUS(t->e->ops->mark(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
        }
    claim_fresh(t, j);
}

ENGINE_TEST(the_longest_time_is_kept_without_overflow)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    req.keep_ms = INT64_C(400) * 24 * 3600 * 1000;
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.expires_at_ms, t->now_ms + req.keep_ms);
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
}

ENGINE_TEST(an_owner_needs_a_token_and_an_administrator_a_name)
{
    static const enum emq__mark_kind kinds[] = {EMQ__MARK_CLAIM,
                                                EMQ__MARK_TAKE_OVER,
                                                EMQ__MARK_DONE,
                                                EMQ__MARK_RELEASE,
                                                EMQ__MARK_SETTLE,
                                                EMQ__MARK_FORGET,
                                                0,
                                                EMQ__MARK_FORGET + 1};
    struct emq__job *j = add_and_take(t);
    struct emq__mark_res res;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        struct emq__mark_req req = mark_req(j, kinds[i]);
        bool admin = kinds[i] == EMQ__MARK_SETTLE || kinds[i] == EMQ__MARK_FORGET;
        if (!admin)
            req.auth = (struct emq__auth){.admin = EMQ_STR_LIT("ann")};
        CHECK_STATUS(t->e->ops->mark(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    }
    claim_fresh(t, j);
}

/* ---- many at once ------------------------------------------------------------------------------- */

struct claimer {
    struct fx *t;
    const struct emq__job *j;
    pthread_barrier_t *gate;
    emq_status s;
    int state;
};

static void *claim_at_once(void *arg)
{
    struct claimer *c = arg;
    struct emq__mark_req req = mark_req(c->j, EMQ__MARK_CLAIM);
    struct emq__mark_res res = {0};
    struct emq__arena mem = {0};

    pthread_barrier_wait(c->gate);
    c->s = c->t->e->ops->mark(c->t->e, &req, &res, &mem, NULL);
    c->state = res.marker.state;
    emq__arena_free(&mem);
    return NULL;
}

ENGINE_TEST(of_a_hundred_threads_that_claim_one_effect_one_is_told_that_it_is_fresh)
{
    enum { THREADS = 100 };
    struct emq__job *j = add_and_take(t);
    struct claimer c[THREADS];
    pthread_t id[THREADS];
    pthread_barrier_t gate;
    int fresh = 0, busy = 0;

    CHECK_INT(pthread_barrier_init(&gate, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct claimer){.t = t, .j = j, .gate = &gate};
        CHECK_INT(pthread_create(&id[i], NULL, claim_at_once, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        CHECK_STATUS(c[i].s, EMQ_OK);
        fresh += c[i].state == EMQ__MARKER_FRESH;
        busy += c[i].state == EMQ__MARKER_BUSY;
    }
    pthread_barrier_destroy(&gate);
    CHECK_INT(fresh, 1);
    CHECK_INT(busy, THREADS - 1);
}
