/* SPDX-License-Identifier: MIT
 *
 * Administration: remove, cancel, writes to jobs, settings, obliterate, history.
 */
#include "lib/engine_fixture.h"

static struct emq__obliterate_res obliterate(struct fx *t, const char *queue, bool force,
                                             int32_t limit, emq_status want)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(queue), .force = force, .limit = limit};
    struct emq__obliterate_res res;

    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), want);
    return res;
}

ENGINE_TEST(a_job_of_every_state_can_be_removed)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    settle_ok(t, must_take(t, "q"));
    must_add(t, "q", "x");
    must_add_priority(t, "q", 3);
    must_add_delayed(t, "q", 5000);
    for (int i = 1; i <= 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        CHECK_STATUS(CHANGE(t, "q", S(id), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
        assert_null(get_job(t, "q", S(id)));
    }
    CHECK_INT(dump(t, "q").n, 0);
    CHECK_INT(dump(t, "q").stray, 0);
    CHECK_INT(stats(t, "q").totals.removed, 5);
}

ENGINE_TEST(a_job_under_a_live_lock_is_not_removed)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_LOCKED);
    settle_ok(t, j);
}

ENGINE_TEST(an_active_job_whose_lock_ended_can_be_removed)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_INT(stats(t, "q").count[EMQ_ACTIVE], 0);
}

ENGINE_TEST(removing_nothing_says_not_found)
{
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_REMOVE), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_change_answers_for_each_id)
{
    emq_str ids[3] = {S("1"), S("9"), S("2")};
    struct emq__change_req req = {.prefix = FX_PREFIX,
                                  .queue = S("q"),
                                  .ids = ids,
                                  .n = 3,
                                  .change.kind = EMQ__CHANGE_REMOVE};
    struct emq__change_res res;

    must_add(t, "q", "x");
    must_add(t, "q", "x");
    must_take(t, "q");
    CHECK_STATUS(FX_CALL(t, change, &req, &res), EMQ_OK);
    CHECK_STATUS(res.changed[0].outcome, EMQ_LOCKED);
    CHECK_STATUS(res.changed[1].outcome, EMQ_NOT_FOUND);
    CHECK_STATUS(res.changed[2].outcome, EMQ_OK);
    CHECK_INT(res.changed[2].state, 0);
}

ENGINE_TEST(cancelling_an_active_job_asks_its_owner_to_stop)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    CHECK(!extend(t, j, FX_LOCK_MS).cancel);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_CANCEL, .admin = S("root")), EMQ_OK);
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    CHECK_INT(must_get(t, "q", j->id)->cancel, 1);
    CHECK(extend(t, j, FX_LOCK_MS).cancel);
    settle_ok(t, j);
    CHECK_INT(must_get(t, "q", j->id)->cancel, 0);
}

ENGINE_TEST(a_cancel_request_ends_with_the_hand_out)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
    retry_ok(t, j, 0);
    CHECK_STATE(t, "q", j->id, EMQ_FAILED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_OK);
    j = must_take(t, "q");
    CHECK_INT(j->cancel, 0);
    CHECK(!extend(t, j, FX_LOCK_MS).cancel);
}

/* A job that is active and was asked to stop. */
static struct emq__job *asked_to_stop(struct fx *t)
{
    struct emq__added added = add_entry(t, fx_entry("q", "x"));
    struct emq__job *j = must_take(t, "q");

    CHECK_STR_EQ(j->id, added.id);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_CANCEL, .admin = S("root")), EMQ_OK);
    return j;
}

static struct emq__job *must_be_cancelled(struct fx *t, const struct emq__job *j)
{
    struct emq__job *end = must_get(t, "q", j->id);

    CHECK_INT(end->state, EMQ_FAILED_STATE);
    CHECK_STR(end->failed_reason, EMQ__TEXT_CANCELLED);
    assert_null(take_one(t, "q"));
    return end;
}

ENGINE_TEST(a_cancelled_job_whose_owner_died_is_failed_by_the_sweep)
{
    struct emq__job *j = asked_to_stop(t);

    advance(t, FX_LOCK_MS);
    assert_null(take_one(t, "q")); /* not before it has been swept, and not after */
    struct emq__sweep_res res = sweep(t, "q", 3);
    CHECK_INT(res.n_recovered, 0);
    CHECK_INT(res.n_failed, 1);
    j = must_be_cancelled(t, j);
    CHECK_INT(j->stalled, 1);
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(stats(t, "q").totals.recovered, 0);
}

ENGINE_TEST(a_cancelled_job_settled_as_stalled_fails_whatever_the_reason)
{
    struct emq__job *j = asked_to_stop(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_STALLED);

    en.reason = S("killed by signal 9");
    en.max_stalled = 3;
    struct emq__settled out = settle(t, j, en);
    CHECK_STATUS(out.outcome, EMQ_OK);
    CHECK_INT(out.state, EMQ_FAILED_STATE);
    CHECK_INT(must_be_cancelled(t, j)->stalled, 1);
}

ENGINE_TEST(a_cancelled_job_is_not_retried)
{
    struct emq__job *j = asked_to_stop(t);
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);

    en.reason = S("its own reason");
    en.stack = S("a trace");
    en.stack_limit = -1;
    en.delay_ms = 5000;
    struct emq__settled out = settle(t, j, en);
    CHECK_STATUS(out.outcome, EMQ_OK);
    CHECK_INT(out.state, EMQ_FAILED_STATE);
    j = must_be_cancelled(t, j);
    CHECK_INT(j->attempts_made, 1);
    CHECK_STR(j->stacktrace, "[\"a trace\"]");
    CHECK_INT(stats(t, "q").totals.retried, 0);
}

ENGINE_TEST(a_cancelled_job_is_not_given_back)
{
    struct emq__job *j = asked_to_stop(t);
    struct emq__settled out = settle(t, j, fx_settle(j, EMQ__SETTLE_RELEASE));

    CHECK_STATUS(out.outcome, EMQ_OK);
    CHECK_INT(out.state, EMQ_FAILED_STATE);
    j = must_be_cancelled(t, j);
    CHECK_INT(j->attempts_made, 0);
    CHECK_INT(j->attempts_started, 0);
}

ENGINE_TEST(a_cancelled_job_that_was_completed_all_the_same_is_completed)
{
    struct emq__job *j = asked_to_stop(t);

    settle_ok(t, j);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
}

ENGINE_TEST(cancelling_a_job_that_is_not_active_fails_it)
{
    must_add(t, "q", "x");
    must_add_priority(t, "q", 3);
    must_add_delayed(t, "q", 5000);
    for (int i = 1; i <= 3; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%d", i);
        CHECK_STATUS(CHANGE(t, "q", S(id), .kind = EMQ__CHANGE_CANCEL), EMQ_OK);
        struct emq__job *j = must_get(t, "q", S(id));
        CHECK_INT(j->state, EMQ_FAILED_STATE);
        CHECK_STR(j->failed_reason, EMQ__TEXT_CANCELLED);
        CHECK_INT(j->attempts_made, 0);
    }
    CHECK_INT(stats(t, "q").totals.failed, 3);
}

ENGINE_TEST(cancelling_a_finished_job_is_refused)
{
    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_STATUS(CHANGE(t, "q", S("1"), .kind = EMQ__CHANGE_CANCEL), EMQ_WRONG_STATE);
}

ENGINE_TEST(progress_data_and_log_are_the_owners)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__auth owner = {.token = j->token};

    CHECK_STATUS(write_job(t, "q", j->id, owner, EMQ__WRITE_PROGRESS, "{\"at\":40}", 0), EMQ_OK);
    CHECK_STATUS(write_job(t, "q", j->id, owner, EMQ__WRITE_DATA, "new data", 0), EMQ_OK);
    CHECK_STATUS(write_job(t, "q", j->id, owner, EMQ__WRITE_LOG, "line", 1000), EMQ_OK);
    j = must_get(t, "q", j->id);
    CHECK_STR(j->progress, "{\"at\":40}");
    CHECK_STR(j->data.bytes, "new data");
}

ENGINE_TEST(a_former_owner_can_write_nothing)
{
    static const enum emq__write_kind kinds[] = {EMQ__WRITE_PROGRESS, EMQ__WRITE_DATA,
                                                 EMQ__WRITE_LOG};
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__auth owner = {.token = j->token};
    settle_ok(t, j);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++)
        CHECK_STATUS(write_job(t, "q", j->id, owner, kinds[i], "7", -1), EMQ_LOST);
    j = must_get(t, "q", j->id);
    CHECK_STR(j->data.bytes, "x");
    CHECK_INT(j->progress.len, 0);
    CHECK_STATUS(write_job(t, "q", S("9"), owner, EMQ__WRITE_DATA, "7", -1), EMQ_NOT_FOUND);
    assert_null(get_job(t, "q", S("9")));
}

ENGINE_TEST(an_administrator_writes_to_any_job)
{
    struct emq__auth admin = {.admin = S("root")};
    must_add(t, "q", "x");
    CHECK_STATUS(write_job(t, "q", S("1"), admin, EMQ__WRITE_DATA, "fixed", 0), EMQ_OK);
    CHECK_STR(must_take(t, "q")->data.bytes, "fixed");
    CHECK_STATUS(write_job(t, "q", S("1"), admin, EMQ__WRITE_LOG, "note", -1), EMQ_OK);
    CHECK_STATUS(write_job(t, "q", S("9"), admin, EMQ__WRITE_LOG, "note", -1), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_write_of_nobody_is_refused)
{
    struct emq__write_req req = {.prefix = FX_PREFIX,
                                 .queue = S("q"),
                                 .id = S("1"),
                                 .kind = EMQ__WRITE_DATA,
                                 .value = {EMQ__KIND_TEXT, S("y")}};
    struct emq__write_res res;

    must_add(t, "q", "x");
    CHECK_STATUS(t->e->ops->write(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK_STR(must_get(t, "q", S("1"))->data.bytes, "x");
}

ENGINE_TEST(administrative_acts_and_refused_acks_are_in_the_history)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;

    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_LOST);
    CHECK_STATUS(
        write_job(t, "q", S("1"), (struct emq__auth){.admin = S("root")}, EMQ__WRITE_DATA, "y", 0),
        EMQ_OK);
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 3);
    CHECK_HAS(res.json[0], "\"recovered\"");
    CHECK_HAS(res.json[1], "\"refused\"");
    assert_non_null(memmem(res.json[1].ptr, res.json[1].len, j->token.ptr, j->token.len));
    CHECK_HAS(res.json[2], "\"root\"");
}

/* The newest entry. */
static emq_str last_entry(struct fx *t)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;

    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK(res.n > 0);
    return res.json[res.n - 1];
}

ENGINE_TEST(a_hand_out_that_ended_in_a_retry_or_was_given_back_is_in_the_history_with_its_token)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    en.reason = S("the \"other\" side said no");
    settle(t, j, en);
    CHECK_HAS(last_entry(t), "\"what\":\"retried\"");
    CHECK_HAS(last_entry(t), j->token.ptr);
    CHECK_HAS(last_entry(t), "\"detail\":\"the \\\"other\\\" side said no\"");
    j = must_take(t, "q");
    release_ok(t, j, 0);
    CHECK_HAS(last_entry(t), "\"what\":\"released\"");
    CHECK_HAS(last_entry(t), j->token.ptr);
    CHECK_HAS(last_entry(t), "\"detail\":\"\"");
    j = must_take(t, "q");
    en = fx_settle(j, EMQ__SETTLE_RELEASE);
    en.reason = S("the worker stopped");
    settle(t, j, en);
    CHECK_HAS(last_entry(t), "\"what\":\"released\"");
    CHECK_HAS(last_entry(t), "\"detail\":\"the worker stopped\"");
}

ENGINE_TEST(of_a_long_reason_the_history_has_the_beginning_in_whole_characters)
{
    char reason[400], expected[300];

    memset(reason, 'a', 199);
    memcpy(reason + 199, "\xc3\xa9zz", 5);
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    en.reason = S(reason);
    settle(t, j, en);
    reason[199] = '\0';
    (void)snprintf(expected, sizeof expected, "\"detail\":\"%s\"", reason);
    CHECK_HAS(last_entry(t), expected);
    CHECK_INT(must_get(t, "q", S("1"))->failed_reason.len, 203);
}

ENGINE_TEST(a_note_is_in_the_history_under_the_name_that_wrote_it_and_nowhere_else)
{
    const struct emq__auth ann = {.admin = EMQ_STR_LIT("ann")};

    must_add(t, "q", "x");
    emq_str before = event_cursor(t, "q");
    CHECK_STATUS(write_job(t, "q", S("1"), ann, EMQ__WRITE_NOTE, "renewals had stopped", 0),
                 EMQ_OK);
    CHECK_HAS(last_entry(t), "\"what\":\"note\"");
    CHECK_HAS(last_entry(t), "\"who\":\"ann\"");
    CHECK_HAS(last_entry(t), "\"detail\":\"renewals had stopped\"");
    CHECK_EVENTS(t, "q", before.ptr, "");
    CHECK_STATUS(write_job(t, "q", S("nobody"), ann, EMQ__WRITE_NOTE, "x", 0), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_note_is_not_an_owners)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__write_req req = {.prefix = FX_PREFIX,
                                 .queue = S("q"),
                                 .id = j->id,
                                 .auth = {.token = j->token},
                                 .kind = EMQ__WRITE_NOTE,
                                 .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("x")}};
    struct emq__write_res res;

    CHECK_STATUS(t->e->ops->write(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
}

ENGINE_TEST(a_history_keeps_its_last_hundred_entries)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;
    char text[20];

    must_add(t, "q", "x");
    for (int i = 1; i <= EMQ__HISTORY_MAX + 20; i++) {
        (void)snprintf(text, sizeof text, "note %d.", i);
        CHECK_STATUS(write_job(t, "q", S("1"), (struct emq__auth){.admin = S("ann")},
                               EMQ__WRITE_NOTE, text, 0),
                     EMQ_OK);
    }
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK_INT(res.n, EMQ__HISTORY_MAX);
    CHECK_HAS(res.json[0], "note 21.");
    CHECK_HAS(res.json[EMQ__HISTORY_MAX - 1], "note 120.");
}

ENGINE_TEST(a_normal_life_leaves_no_history)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;

    must_add(t, "q", "x");
    settle_ok(t, must_take(t, "q"));
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
}

ENGINE_TEST(pause_stops_new_hand_outs_only)
{
    must_add(t, "q", "x");
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    must_meta(t, "q", "paused", "1");
    struct emq__taken taken = take_n(t, "q", 1);
    CHECK_INT(taken.n, 0);
    CHECK(taken.paused);
    CHECK(stats(t, "q").paused);
    settle_ok(t, j);
    must_add(t, "q", "x");
    assert_null(take_one(t, "q"));
    must_meta(t, "q", "paused", "");
    CHECK_STR(must_take(t, "q")->id, "2");
}

ENGINE_TEST(a_recovered_job_waits_on_a_paused_queue)
{
    must_add(t, "q", "x");
    must_take(t, "q");
    must_meta(t, "q", "paused", "1");
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 3).n_recovered, 1);
    assert_null(take_one(t, "q"));
    CHECK_STATE(t, "q", S("1"), EMQ_WAITING);
}

ENGINE_TEST(resume_changes_the_ticket)
{
    emq_str q = S("q");
    uint64_t before;

    must_add(t, "q", "x");
    must_meta(t, "q", "paused", "1");
    before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    must_meta(t, "q", "paused", "");
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}

ENGINE_TEST(a_setting_that_no_queue_could_live_with_is_refused)
{
    static const struct emq__meta_field bad[] = {
        {{"concurrency", 11}, {"0", 1}},
        {{"concurrency", 11}, {"many", 4}},
        {{"max", 3}, {"-1", 2}},
        {{"opts.maxLenEvents", 17}, {"1e3", 3}},
        {{"duration", 8}, {"9007199254740993", 16}},
        {{"", 0}, {"1", 1}},
        {{"emq:fence", 9}, {"1", 1}},
    };
    struct emq__meta_res res;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__meta_req req = {
            .prefix = FX_PREFIX, .queue = S("q"), .admin = S("root"), .set = &bad[i], .n_set = 1};
        CHECK_STATUS(t->e->ops->meta(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    }
    CHECK(!stats(t, "q").exists);
}

ENGINE_TEST(settings_are_kept_as_text_and_sorted)
{
    struct emq__meta_req req = {.prefix = FX_PREFIX, .queue = S("q")};
    struct emq__meta_res res;

    must_meta(t, "q", "x-own", "any text ä");
    must_meta(t, "q", "concurrency", "5");
    must_meta(t, "q", "max", "9");
    must_meta(t, "q", "max", "");
    CHECK_STATUS(FX_CALL(t, meta, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 2);
    CHECK_STR(res.fields[0].field, "concurrency");
    CHECK_STR(res.fields[0].value, "5");
    CHECK_STR(res.fields[1].field, "x-own");
    CHECK_STR(res.fields[1].value, "any text ä");
}

ENGINE_TEST(reading_settings_makes_no_queue)
{
    struct emq__meta_req req = {.prefix = FX_PREFIX, .queue = S("nowhere")};
    struct emq__meta_res res;

    CHECK_STATUS(FX_CALL(t, meta, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 0);
    CHECK(!stats(t, "nowhere").exists);
}

ENGINE_TEST(obliterate_needs_a_paused_queue)
{
    must_add(t, "q", "x");
    obliterate(t, "q", false, 1000, EMQ_WRONG_STATE);
    must_meta(t, "q", "paused", "1");
    CHECK_INT(obliterate(t, "q", false, 1000, EMQ_OK).count, 1);
    CHECK(!stats(t, "q").exists);
}

ENGINE_TEST(obliterate_refuses_while_jobs_are_active)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    must_meta(t, "q", "paused", "1");
    obliterate(t, "q", false, 1000, EMQ_LOCKED);
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    CHECK_INT(obliterate(t, "q", true, 1000, EMQ_OK).count, 1);
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_NOT_FOUND);
    CHECK_STATUS(extend(t, j, FX_LOCK_MS).outcome, EMQ_LOST);
    CHECK(!stats(t, "q").exists);
}

ENGINE_TEST(obliterate_leaves_nothing_of_a_queue_with_every_state)
{
    struct emq__events_req ereq = {FX_PREFIX, S("q"), S(""), 100};
    struct emq__events_res eres;
    struct emq__queues_req qreq = {.prefix = FX_PREFIX};
    struct emq__queues_res qres;

    must_add(t, "other", "x");
    for (int i = 0; i < 4; i++)
        must_add(t, "q", "x");
    fail_ok(t, must_take(t, "q"), "broken");
    settle_ok(t, must_take(t, "q"));
    struct emq__job *j = must_take(t, "q");
    CHECK_STATUS(
        write_job(t, "q", j->id, (struct emq__auth){.token = j->token}, EMQ__WRITE_LOG, "line", -1),
        EMQ_OK);
    must_add_delayed(t, "q", 5000);
    must_add_priority(t, "q", 3);
    add_dedup(t, "q", (struct emq__dedup){.id = S("k"), .keep_last = true});
    must_meta(t, "q", "concurrency", "7");
    CHECK_INT(obliterate(t, "q", true, 1000, EMQ_OK).count, 7);

    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.n, 0);
    CHECK_INT(d.n_dedup, 0);
    CHECK_INT(d.stray, 0);
    CHECK_INT(d.id_counter, 0);
    CHECK_INT(d.stats.totals.added, 0);
    CHECK_STATUS(FX_CALL(t, events, &ereq, &eres), EMQ_OK);
    CHECK_INT(eres.n, 0);
    CHECK_STATUS(FX_CALL(t, queues, &qreq, &qres), EMQ_OK);
    CHECK_INT(qres.n, 1);
    CHECK_STR(qres.names[0], "other");
    CHECK_STR(must_add(t, "q", "x"), "1");
}

ENGINE_TEST(obliterate_works_in_slices)
{
    int64_t sum = 0;
    int calls = 0;

    for (int i = 0; i < 25; i++)
        must_add(t, "q", "x");
    for (bool more = true; more && calls < 20; calls++) {
        struct emq__obliterate_res r = obliterate(t, "q", true, 10, EMQ_OK);
        sum += r.count;
        more = r.more;
    }
    CHECK_INT(sum, 25);
    CHECK(calls >= 3);
    CHECK(!stats(t, "q").exists);
}

ENGINE_TEST(obliterate_of_an_unknown_queue_finds_nothing)
{
    struct emq__obliterate_res r = obliterate(t, "nowhere", false, 10, EMQ_OK);
    CHECK_INT(r.count, 0);
    CHECK(!r.more);
}
