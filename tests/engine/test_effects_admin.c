/* SPDX-License-Identifier: MIT
 *
 * What is known of effects, for those who look after them: lists, decisions of an administrator, retries of
 * finished jobs; and repeated calls.
 */
#include "effects.h"

/* ---- an administrator --------------------------------------------------------------------------- */

ENGINE_TEST(an_administrator_makes_an_effect_done_whatever_it_was)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = admin_req(j, EMQ__MARK_SETTLE);
    struct emq__marker m;

    req.result.bytes = S("1");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK); /* there was none */
    CHECK_INT(m.state, EMQ__MARKER_DONE);
    CHECK_STR(m.token, "");
    CHECK_STR(m.result.bytes, "1");
    CHECK_INT(m.done_at_ms, t->now_ms);
    CHECK_INT(m.claimed_at_ms, t->now_ms);
    CHECK_INT(m.expires_at_ms, t->now_ms + KEEP_MS);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
    req.result.bytes = S("2");
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK); /* it was done */
    CHECK_STR(m.result.bytes, "2");
    CHECK_HAS(last_history(t, j->id), "\"what\":\"admin\"");
    CHECK_HAS(last_history(t, j->id), "\"who\":\"ann\"");
    CHECK_HAS(last_history(t, j->id), "effect settle");
    CHECK_HAS(last_history(t, j->id), " 2\""); /* what the answer is */
}

ENGINE_TEST(what_an_administrator_settles_its_claimer_no_longer_ends)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = admin_req(j, EMQ__MARK_SETTLE);

    claim_fresh(t, j);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_STATUS(mark(t, j, EMQ__MARK_DONE), EMQ_WRONG_STATE);
    CHECK_STATUS(mark(t, j, EMQ__MARK_RELEASE), EMQ_WRONG_STATE);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
}

ENGINE_TEST(an_administrator_forgets_an_effect_and_it_is_fresh)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = admin_req(j, EMQ__MARK_FORGET);
    struct emq__marker m;

    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_NOT_FOUND);
    CHECK_STR(last_history(t, j->id), "");
    claim_fresh(t, j);
    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    CHECK_INT(m.state, 0);
    CHECK_HAS(last_history(t, j->id), "effect forget");
    claim_fresh(t, j);
    done_ok(t, j, "1");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    claim_fresh(t, j);
}

ENGINE_TEST(an_administrator_decides_about_jobs_in_every_state)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = admin_req(j, EMQ__MARK_SETTLE);

    claim_fresh(t, j);
    fail_ok(t, j, "parked");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.kind = EMQ__MARK_FORGET;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
}

/* ---- lists ------------------------------------------------------------------------------------- */

/* "id/step state" of each, joined by spaces. */
static const char *list(struct fx *t, struct emq__markers_req req, struct emq__marker *last)
{
    static const char *const states[] = {"", "fresh", "done", "doubt", "busy"};
    struct emq__markers_res res;
    emq_str text = emq_cstr("");

    req.prefix = FX_PREFIX;
    req.queue = S("q");
    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    for (size_t i = 0; i < res.n; i++)
        text = emq__arena_printf(&t->mem, "%s%s%s/%s %s", text.ptr, i ? " " : "",
                                 res.markers[i].id.ptr, res.markers[i].step.ptr,
                                 states[res.markers[i].state]);
    if (last && res.n)
        *last = res.markers[res.n - 1];
    return text.ptr;
}

static void claim_step(struct fx *t, const struct emq__job *j, const char *step)
{
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    req.step = S(step);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
}

ENGINE_TEST(an_empty_list_is_empty)
{
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "");
    add_and_take(t);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "");
}

ENGINE_TEST(markers_are_listed_by_id_and_step_and_say_whether_their_hand_out_lives)
{
    static const char *const ids[] = {"b", "a-b", "a", "a:b", "B"};
    struct emq__job *j[5], *again;

    for (int i = 0; i < 5; i++) {
        must_add_id(t, "q", ids[i]);
        j[i] = must_take(t, "q");
        claim_step(t, j[i], "z");
        claim_step(t, j[i], "");
    }
    done_ok(t, j[2], "1");
    settle_ok(t, j[4]);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 100}, NULL),
                        "B/ doubt B/z doubt a/ done a/z busy a-b/ busy a-b/z busy a:b/ busy "
                        "a:b/z busy b/ busy b/z busy");
    for (int i = 0; i < 4; i++)
        if (i != 1)
            settle_ok(t, j[i]);
    again = taken_again(t);
    claim_step(t, again, "new");
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 100, .id = S("a-b")}, NULL),
                        "a-b/ doubt a-b/new busy a-b/z doubt");
}

ENGINE_TEST(a_list_goes_on_behind_a_marker_of_the_page_before)
{
    struct emq__marker last;

    for (int i = 0; i < 3; i++) {
        struct emq__job *j = add_and_take(t);
        claim_step(t, j, "a");
        claim_step(t, j, "b");
        advance(t, 1);
    }
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 3}, &last),
                        "1/a busy 1/b busy 2/a busy");
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 2, .after = &last}, &last),
                        "2/b busy 3/a busy");
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 2, .after = &last}, &last),
                        "3/b busy");
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 2, .after = &last}, NULL), "");
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 1, .id = S("2")}, &last),
                        "2/a busy");
    assert_string_equal(
        list(t, (struct emq__markers_req){.limit = 9, .id = S("2"), .after = &last}, NULL),
        "2/b busy");
}

ENGINE_TEST(a_former_job_of_an_id_is_listed_before_the_present_one_and_apart_from_it)
{
    struct emq__marker last;

    for (int i = 0; i < 2; i++) {
        must_add_id(t, "q", "order-1");
        struct emq__job *j = must_take(t, "q");
        claim_step(t, j, "");
        if (i == 0) {
            done_ok(t, j, "1");
            settle_ok(t, j);
            CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
            advance(t, 1);
        }
    }
    struct emq__markers_req req = {.limit = 1, .id = S("order-1")};
    assert_string_equal(list(t, req, &last), "order-1/ done");
    req.after = &last;
    assert_string_equal(list(t, req, NULL), "order-1/ busy");
}

ENGINE_TEST(a_marker_past_its_end_is_not_listed)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    claim_step(t, j, "lasting");
    req.step = S("brief");
    req.keep_ms = 1000;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 1000);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "1/lasting busy");
}

ENGINE_TEST(what_a_list_shows_of_a_marker_is_all_of_it)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    req.step = S("mail");
    req.fingerprint = S("f1");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 7);
    req.kind = EMQ__MARK_DONE;
    req.result = (struct emq__payload){EMQ__KIND_BYTES, EMQ_STR_LIT("\xff\x00z")};
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, &m), "1/mail done");
    CHECK_STR_EQ(m.token, j->token);
    CHECK_STR(m.fingerprint, "f1");
    CHECK_INT(m.timestamp_at_ms, j->timestamp_at_ms);
    CHECK_INT(m.done_at_ms - m.claimed_at_ms, 7);
    CHECK_INT(m.expires_at_ms, m.done_at_ms + KEEP_MS);
    CHECK_INT(m.result.kind, EMQ__KIND_BYTES);
    CHECK_STR_EQ(m.result.bytes, req.result.bytes);
}

ENGINE_TEST(the_markers_of_a_queue_go_when_it_is_obliterated)
{
    struct emq__obliterate_req req = {.prefix = FX_PREFIX, .queue = S("q"), .force = true};
    struct emq__obliterate_res res;

    for (int i = 0; i < 5; i++) {
        struct emq__job *j = add_and_take(t);
        claim_step(t, j, "");
        claim_step(t, j, "b");
    }
    do
        CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
    while (res.more);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "");
    add_and_take(t);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "");
    CHECK_INT(dump(t, "q").stray, 0);
}

/* ---- retries ----------------------------------------------------------------------------------- */

/* A job that has ended, whose effect is known to be done. */
static emq_str ended(struct fx *t, bool failed)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    done_ok(t, j, "1");
    if (failed)
        fail_ok(t, j, "no");
    else
        settle_ok(t, j);
    return j->id;
}

ENGINE_TEST(a_retry_of_a_job_whose_effect_is_done_asks_and_changes_nothing)
{
    for (int failed = 0; failed < 2; failed++) {
        emq_str id = ended(t, failed != 0);
        CHECK_STATUS(CHANGE(t, "q", id, .kind = EMQ__CHANGE_RETRY, .admin = S("ann")),
                     EMQ_EFFECT_DONE);
        CHECK_STATE(t, "q", id, failed ? EMQ_FAILED_STATE : EMQ_COMPLETED_STATE);
        CHECK_STR(last_history(t, id), "");
    }
    CHECK_INT(stats(t, "q").totals.retried, 0);
}

ENGINE_TEST(a_retry_that_keeps_the_effect_finds_it_done)
{
    emq_str id = ended(t, true);

    CHECK_STATUS(CHANGE(t, "q", id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP),
                 EMQ_OK);
    struct emq__job *j = must_take(t, "q");
    CHECK_INT(j->redo, 0);
    CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
}

ENGINE_TEST(a_retry_that_redoes_the_effect_finds_it_fresh_and_the_job_with_another_identity)
{
    emq_str id = ended(t, true);

    for (int i = 1; i <= 2; i++) {
        CHECK_STATUS(CHANGE(t, "q", id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                     EMQ_OK);
        struct emq__job *j = must_take(t, "q");
        CHECK_INT(j->redo, i);
        claim_fresh(t, j);
        done_ok(t, j, "2");
        settle_ok(t, j);
        CHECK_INT(must_get(t, "q", id)->redo, i);
    }
}

ENGINE_TEST(an_effect_that_is_only_claimed_or_past_its_end_is_not_asked_about)
{
    struct emq__job *j = add_and_take(t);

    claim_fresh(t, j);
    fail_ok(t, j, "no");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    j = must_take(t, "q");
    CHECK_INT(claim(t, j), EMQ__MARKER_IN_DOUBT);
    fail_ok(t, j, "no");

    emq_str id = ended(t, true);
    advance(t, KEEP_MS);
    CHECK_STATUS(CHANGE(t, "q", id, .kind = EMQ__CHANGE_RETRY), EMQ_OK);
}

ENGINE_TEST(what_is_known_of_effects_is_known_for_as_long_again_after_a_retry)
{
    struct emq__job *j = add_and_take(t);

    claim_step(t, j, "open");
    claim_fresh(t, j);
    done_ok(t, j, "1");
    fail_ok(t, j, "no");
    for (int i = 0; i < 3; i++) {
        advance(t, KEEP_MS / 2);
        CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP,
                            .admin = S("ann")),
                     EMQ_OK);
        CHECK_HAS(last_history(t, j->id), "retry --keep-effect");
        j = must_take(t, "q");
        advance(t, KEEP_MS / 5 * 2);
        CHECK_INT(claim(t, j), EMQ__MARKER_DONE);
        struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
        struct emq__marker m;
        req.step = S("open");
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
        CHECK_INT(m.state, EMQ__MARKER_IN_DOUBT);
        fail_ok(t, j, "no");
    }
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO,
                        .admin = S("ann")),
                 EMQ_OK);
    CHECK_HAS(last_history(t, j->id), "retry --redo");
}

ENGINE_TEST(a_retry_asks_about_every_step)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    claim_step(t, j, "a");
    claim_step(t, j, "b");
    req.step = S("b");
    req.kind = EMQ__MARK_DONE;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    fail_ok(t, j, "no");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_EFFECT_DONE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "");
}

ENGINE_TEST(a_bulk_retry_passes_over_jobs_whose_effect_is_done_unless_it_is_told_what_to_do)
{
    struct emq__bulk_req req = {.queue = S("q"),
                                .change = {.kind = EMQ__CHANGE_RETRY},
                                .state = EMQ_FAILED_STATE,
                                .limit = 2};

    for (int i = 0; i < 2; i++) {
        (void)ended(t, true);
        fail_ok(t, add_and_take(t), "no");
    }
    struct emq__bulk_res res = bulk(t, req);
    CHECK_INT(res.count, 2);
    CHECK(!res.more);
    CHECK_IDS(t, "q", EMQ_WAITING, "2 4");
    CHECK_IDS(t, "q", EMQ_FAILED_STATE, "1 3");
    CHECK_INT(bulk(t, req).count, 0);
    req.change.effects = EMQ__EFFECTS_KEEP;
    req.limit = 1;
    res = bulk(t, req);
    CHECK_INT(res.count, 1);
    CHECK(res.more);
    CHECK_INT(must_get(t, "q", S("1"))->redo, 0);
    req.change.effects = EMQ__EFFECTS_REDO;
    CHECK_INT(bulk(t, req).count, 1);
    CHECK_INT(must_get(t, "q", S("3"))->redo, 1);
    assert_string_equal(list(t, (struct emq__markers_req){.limit = 10}, NULL), "1/ done");
}

/* ---- repeated calls ------------------------------------------------------------------------------ */

static struct emq__call call(uint64_t seq)
{
    return (struct emq__call){EMQ_STR_LIT("session-1"), seq};
}

ENGINE_TEST(a_repeated_claim_is_told_again_that_it_is_fresh)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker a, b;

    req.call = call(1);
    req.step = S("mail");
    CHECK_STATUS(mark_with(t, &req, &a), EMQ_OK);
    advance(t, 3);
    CHECK_STATUS(mark_with(t, &req, &b), EMQ_OK);
    CHECK_INT(b.state, EMQ__MARKER_FRESH);
    CHECK_STR_EQ(b.token, j->token);
    CHECK_STR(b.step, "mail");
    CHECK_INT(b.claimed_at_ms, a.claimed_at_ms);
    req.call = call(2);
    CHECK_STATUS(mark_with(t, &req, &b), EMQ_OK);
    CHECK_INT(b.state, EMQ__MARKER_BUSY);
}

ENGINE_TEST(every_repeated_mark_answers_what_it_did_and_does_it_once)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;
    uint64_t seq = 0;

    claim_fresh(t, j);
    req = mark_req(j, EMQ__MARK_DONE);
    req.call = call(++seq);
    req.result.bytes = S("7");
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
        CHECK_INT(m.state, EMQ__MARKER_DONE);
        CHECK_STR(m.result.bytes, "7");
    }
    req = admin_req(j, EMQ__MARK_FORGET);
    req.call = call(++seq);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    claim_fresh(t, j);
    req = mark_req(j, EMQ__MARK_RELEASE);
    req.call = call(++seq);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    claim_fresh(t, j);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK); /* it does not give back the new claim */
    CHECK_INT(claim(t, j), EMQ__MARKER_BUSY);
}

ENGINE_TEST(a_refusal_is_answered_again_and_is_on_record_once)
{
    struct emq__job *j = add_and_take(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__history_req history = {FX_PREFIX, S("q"), j->id};
    struct emq__history_res res;

    req.call = call(1);
    req.auth.token = S("w:1");
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(mark_with(t, &req, NULL), EMQ_LOST);
    CHECK_STATUS(FX_CALL(t, history, &history, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
}
