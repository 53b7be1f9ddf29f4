/* SPDX-License-Identifier: MIT
 *
 * Receipts: a repeated call with the same session and sequence changes nothing and is answered with
 * what the first one did. That settles every doubt.
 */
#include "lib/engine_fixture.h"

static struct emq__call call(uint64_t seq)
{
    return (struct emq__call){EMQ_STR_LIT("session-1"), seq};
}

ENGINE_TEST(a_repeated_add_adds_once)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(1), .entries = list, .n = 1};
    struct emq__add_res a, b;

    CHECK_STATUS(FX_CALL(t, add, &req, &a), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, add, &req, &b), EMQ_OK);
    CHECK_INT(b.n, 1);
    CHECK_STATUS(b.added[0].outcome, EMQ_OK);
    CHECK_STR_EQ(b.added[0].id, a.added[0].id);
    CHECK_INT(b.added[0].state, a.added[0].state);
    CHECK_INT(stats(t, "q").totals.added, 1);
}

ENGINE_TEST(the_next_sequence_is_a_new_act)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(1), .entries = list, .n = 1};
    struct emq__add_res res;

    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    req.call.seq = 2;
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(stats(t, "q").totals.added, 2);
}

ENGINE_TEST(a_sequence_that_goes_back_is_refused)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(5), .entries = list, .n = 1};
    struct emq__add_res res;

    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    req.call.seq = 4;
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK_INT(stats(t, "q").totals.added, 1);
}

ENGINE_TEST(two_sessions_do_not_know_of_each_other)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(1), .entries = list, .n = 1};
    struct emq__add_res res;

    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    req.call.session = S("session-2");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(stats(t, "q").totals.added, 2);
}

ENGINE_TEST(a_repeated_take_gives_the_same_hand_outs)
{
    struct emq__take_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(2)};
    struct emq__take_res a, b;

    for (int i = 0; i < 4; i++)
        must_add(t, "q", "{\"n\":1}");
    CHECK_STATUS(FX_CALL(t, take, &req, &a), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, take, &req, &b), EMQ_OK);
    CHECK_INT(b.taken.n, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_STR_EQ(b.taken.jobs[i]->id, a.taken.jobs[i]->id);
        CHECK_STR_EQ(b.taken.jobs[i]->token, a.taken.jobs[i]->token);
        CHECK_INT(b.taken.jobs[i]->fence, a.taken.jobs[i]->fence);
        CHECK_STR(b.taken.jobs[i]->data.bytes, "{\"n\":1}");
        CHECK_INT(b.taken.jobs[i]->data.kind, EMQ__KIND_JSON);
    }
    CHECK_INT(stats(t, "q").totals.started, 2);
    settle_ok(t, b.taken.jobs[0]);
}

ENGINE_TEST(a_repeated_take_never_gives_the_token_of_a_later_owner)
{
    struct emq__take_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(1)};
    struct emq__take_res a, b;

    must_add(t, "q", "x");
    CHECK_STATUS(FX_CALL(t, take, &req, &a), EMQ_OK);
    advance(t, FX_LOCK_MS + 1);
    (void)sweep(t, "q", 1);
    struct emq__job *later = must_take(t, "q");
    CHECK_STATUS(FX_CALL(t, take, &req, &b), EMQ_OK);
    CHECK_INT(b.taken.n, 1);
    CHECK_STR_EQ(b.taken.jobs[0]->token, a.taken.jobs[0]->token);
    CHECK_INT(b.taken.jobs[0]->fence, a.taken.jobs[0]->fence);
    const struct emq__job *mine = b.taken.jobs[0];
    CHECK_STATUS(settle(t, mine, fx_settle(mine, EMQ__SETTLE_COMPLETED)).outcome, EMQ_LOST);
    settle_ok(t, later);
}

ENGINE_TEST(a_repeated_fire_and_forget_take_gives_the_data_again)
{
    struct emq__take_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(1)};
    struct emq__take_res res;

    must_add(t, "q", "precious");
    req.take.mode = EMQ_FIRE_AND_FORGET;
    CHECK_STATUS(FX_CALL(t, take, &req, &res), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, take, &req, &res), EMQ_OK);
    CHECK_INT(res.taken.n, 1);
    CHECK_STR(res.taken.jobs[0]->data.bytes, "precious");
    CHECK_STR(res.taken.jobs[0]->id, "1");
    CHECK_STR(res.taken.jobs[0]->name, "job");
}

ENGINE_TEST(a_repeated_acknowledgement_is_not_refused)
{
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1};
    struct emq__settle_res res;

    en.keep.count = 0; /* whatever the retention */
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
        CHECK_STATUS(res.settled[0].outcome, EMQ_OK);
        CHECK_INT(res.settled[0].state, 0);
    }
    CHECK_INT(stats(t, "q").totals.completed, 1);
}

ENGINE_TEST(a_repeated_settle_gives_the_jobs_it_took_again)
{
    must_add(t, "q", "x");
    must_add(t, "q", "y");
    struct emq__job *j = must_take(t, "q");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = fx_take(1);
    struct emq__settle_req req = {.call = call(1),
                                  .prefix = FX_PREFIX,
                                  .queue = S("q"),
                                  .entries = list,
                                  .n = 1,
                                  .next = &next};
    struct emq__settle_res a, b;

    CHECK_STATUS(FX_CALL(t, settle, &req, &a), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, settle, &req, &b), EMQ_OK);
    CHECK_INT(b.taken.n, 1);
    CHECK_STR_EQ(b.taken.jobs[0]->token, a.taken.jobs[0]->token);
    CHECK_INT(stats(t, "q").totals.retried, 1);
    CHECK_INT(stats(t, "q").totals.started, 2);
}

ENGINE_TEST(a_repeated_sweep_counts_once)
{
    struct emq__sweep_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 3, .limit = 10};
    struct emq__sweep_res res;

    must_add(t, "q", "x");
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
        CHECK_INT(res.n_recovered, 1);
        CHECK_STR(res.recovered[0], "1");
    }
    CHECK_INT(stats(t, "q").totals.recovered, 1);
}

ENGINE_TEST(a_repeated_publish_is_answered_with_the_count)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req add = {.call = call(1), .entries = list, .n = 1, .stage = S("s")};
    struct emq__add_res added;
    struct emq__publish_req req = {.call = call(2), .prefix = FX_PREFIX, .stage = S("s")};
    struct emq__publish_res res;

    CHECK_STATUS(FX_CALL(t, add, &add, &added), EMQ_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, publish, &req, &res), EMQ_OK);
        CHECK_INT(res.count, 1);
    }
    CHECK_INT(stats(t, "q").totals.added, 1);
}

ENGINE_TEST(a_repeated_publish_names_the_same_jobs_that_were_not_published)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en, &en, &en};
    struct emq__add_req add = {.call = call(1), .entries = list, .n = 3, .stage = S("s")};
    struct emq__add_res added;
    struct emq__publish_req req = {.call = call(2), .prefix = FX_PREFIX, .stage = S("s")};
    struct emq__publish_res res;

    en.dedup.id = S("d");
    CHECK_STATUS(FX_CALL(t, add, &add, &added), EMQ_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, publish, &req, &res), EMQ_OK);
        CHECK_INT(res.count, 1);
        CHECK_INT(res.n_missed, 2);
        for (size_t k = 0; k < 2; k++) {
            CHECK_INT(res.missed[k].rank, k + 1);
            CHECK_STATUS(res.missed[k].why.outcome, EMQ_DEDUPLICATED);
            CHECK_INT(res.missed[k].why.state, EMQ_WAITING);
            CHECK_STR(res.missed[k].why.id, "1");
        }
        settle_ok(t, must_take(t, "q"));
        must_add(t, "q", "for the next take");
    }
}

ENGINE_TEST(a_repeated_log_line_is_written_once)
{
    struct emq__write_req req = {.call = call(1),
                                 .prefix = FX_PREFIX,
                                 .queue = S("q"),
                                 .id = S("1"),
                                 .auth.admin = S("root"),
                                 .kind = EMQ__WRITE_LOG,
                                 .value = {EMQ__KIND_TEXT, S("line")},
                                 .keep = -1};
    struct emq__write_res res;

    must_add(t, "q", "x");
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, write, &req, &res), EMQ_OK);
        CHECK_INT(res.logs, 1);
    }
}

ENGINE_TEST(a_repeated_change_and_bulk_are_done_once)
{
    emq_str id = S("1");
    struct emq__change_req creq = {.call = call(1),
                                   .prefix = FX_PREFIX,
                                   .queue = S("q"),
                                   .ids = &id,
                                   .n = 1,
                                   .change.kind = EMQ__CHANGE_REMOVE};
    struct emq__change_res cres;
    struct emq__bulk_req breq = {.call = call(2),
                                 .prefix = FX_PREFIX,
                                 .queue = S("q"),
                                 .change.kind = EMQ__CHANGE_REMOVE,
                                 .state = EMQ_WAITING,
                                 .limit = 2};
    struct emq__bulk_res bres;

    for (int i = 0; i < 6; i++)
        must_add(t, "q", "x");
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, change, &creq, &cres), EMQ_OK);
        CHECK_STATUS(cres.changed[0].outcome, EMQ_OK);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, bulk, &breq, &bres), EMQ_OK);
        CHECK_INT(bres.count, 2);
        CHECK(bres.more);
        CHECK_STR(bres.last_id, "3");
    }
    CHECK_IDS(t, "q", EMQ_WAITING, "4 5 6");
}

ENGINE_TEST(a_repeated_dedup_release_is_answered_the_same)
{
    struct emq__dedup_req req = {
        .call = call(1), .prefix = FX_PREFIX, .queue = S("q"), .dedup_id = S("k"), .release = true};
    struct emq__dedup_res res;

    struct emq__added a = add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(FX_CALL(t, dedup, &req, &res), EMQ_OK);
        CHECK_STR_EQ(res.owner, a.id);
    }
}

ENGINE_TEST(a_named_outcome_is_kept_in_the_receipt)
{
    struct emq__publish_req req = {.call = call(1), .prefix = FX_PREFIX, .stage = S("later")};
    struct emq__publish_res res;
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req add = {.entries = list, .n = 1, .stage = S("later")};
    struct emq__add_res added;

    CHECK_STATUS(FX_CALL(t, publish, &req, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(FX_CALL(t, add, &add, &added), EMQ_OK);
    CHECK_STATUS(FX_CALL(t, publish, &req, &res), EMQ_NOT_FOUND);
}

ENGINE_TEST(a_receipt_lives_for_ten_minutes_at_least)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(1), .entries = list, .n = 1};
    struct emq__add_res res;

    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    advance(t, 590 * 1000);
    must_add(t, "other", "x");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(stats(t, "q").totals.added, 1);
}

ENGINE_TEST(a_receipt_survives_a_restart)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = call(1), .entries = list, .n = 1};
    struct emq__add_res res;

    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    fx_reopen(t);
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(stats(t, "q").totals.added, 1);
}
