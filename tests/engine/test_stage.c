/* SPDX-License-Identifier: MIT
 *
 * Staged adds: invisible until one act publishes all of them.
 */
#include "lib/engine_fixture.h"

static struct emq__added *stage(struct fx *t, struct emq__add_entry *en, size_t n, const char *name)
{
    const struct emq__add_entry *list[16];
    struct emq__add_req req = {.entries = list, .n = n, .stage = emq_cstr(name)};
    struct emq__add_res res;

    for (size_t i = 0; i < n; i++)
        list[i] = &en[i];
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(res.n, n);
    return res.added;
}

static struct emq__added stage_one(struct fx *t, const char *queue, const char *id,
                                   const char *name)
{
    struct emq__add_entry en = fx_entry(queue, "x");
    en.id = emq_cstr(id);
    return *stage(t, &en, 1, name);
}

static struct emq__publish_res end(struct fx *t, const char *name, bool drop, emq_status want)
{
    struct emq__publish_req req = {.prefix = FX_PREFIX, .stage = emq_cstr(name), .drop = drop};
    struct emq__publish_res res;

    CHECK_STATUS(FX_CALL(t, publish, &req, &res), want);
    return res;
}

static int64_t publish(struct fx *t, const char *name, emq_status want)
{
    return end(t, name, false, want).count;
}

static void obliterate(struct fx *t, const char *queue)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(queue), .force = true, .limit = 1000};
    struct emq__obliterate_res res;

    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
}

/* Why the job of this rank was not published. */
static struct emq__added why(const struct emq__publish_res *res, int64_t rank)
{
    for (size_t i = 0; i < res->n_missed; i++)
        if (res->missed[i].rank == rank)
            return res->missed[i].why;
    return (struct emq__added){.outcome = EMQ_OK};
}

ENGINE_TEST(a_staged_job_is_invisible)
{
    struct emq__added a = stage_one(t, "q", "", "s");

    CHECK_STATUS(a.outcome, EMQ_OK);
    CHECK_STR(a.id, "1");
    assert_null(get_job(t, "q", a.id));
    assert_null(take_one(t, "q"));
    CHECK(!stats(t, "q").exists);
    CHECK_INT(dump(t, "q").n, 0);
    CHECK_STATUS(CHANGE(t, "q", a.id, .kind = EMQ__CHANGE_REMOVE), EMQ_NOT_FOUND);
    CHECK_EVENTS(t, "q", "", "");
}

ENGINE_TEST(publish_makes_all_jobs_visible_in_their_order)
{
    struct emq__add_entry en[3] = {fx_entry("q", "a"), fx_entry("q", "b"), fx_entry("r", "c")};
    must_add(t, "q", "before");
    stage(t, en, 3, "s");
    stage(t, en, 1, "s");
    must_add(t, "q", "between");
    CHECK_INT(publish(t, "s", EMQ_OK), 4);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 5);
    CHECK_IDS(t, "q", EMQ_WAITING, "1 5 2 3 4");
    CHECK_IDS(t, "r", EMQ_WAITING, "1");
    CHECK_INT(stats(t, "q").totals.added, 5);
}

ENGINE_TEST(publish_places_each_job_by_its_options)
{
    struct emq__add_entry en[4] = {fx_entry("q", "a"), fx_entry("q", "b"), fx_entry("q", "c"),
                                   fx_entry("q", "d")};
    en[0].delay_ms = 60000;
    en[1].priority = 5;
    en[3].lifo = true;
    stage(t, en, 4, "s");
    publish(t, "s", EMQ_OK);
    CHECK_IDS(t, "q", EMQ_DELAYED, "1");
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "2");
    CHECK_IDS(t, "q", EMQ_WAITING, "4 3");
    CHECK_STR(must_take(t, "q")->data.bytes, "d");
}

ENGINE_TEST(a_second_publish_finds_no_stage)
{
    stage_one(t, "q", "", "s");
    CHECK_INT(publish(t, "s", EMQ_OK), 1);
    publish(t, "s", EMQ_NOT_FOUND);
    publish(t, "never", EMQ_NOT_FOUND);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
}

ENGINE_TEST(an_abandoned_stage_expires)
{
    stage_one(t, "q", "a", "s");
    advance(t, 2 * 3600 * 1000);
    publish(t, "s", EMQ_NOT_FOUND);
    must_add_id(t, "q", "a");
    CHECK_INT(dump(t, "q").stray, 0);
    CHECK_INT(stats(t, "q").totals.added, 1);
}

ENGINE_TEST(a_part_that_goes_on_with_a_stage_that_is_gone_is_refused)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1, .stage = S("s"), .goes_on = true};
    struct emq__add_res res;

    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_STORE);
    stage_one(t, "q", "a", "s");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    advance(t, 2 * 3600 * 1000);
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_STORE);
    publish(t, "s", EMQ_NOT_FOUND);
    CHECK_INT(stats(t, "q").totals.added, 0);
}

ENGINE_TEST(two_stages_are_apart)
{
    stage_one(t, "q", "a", "s1");
    stage_one(t, "q", "b", "s2");
    CHECK_INT(publish(t, "s2", EMQ_OK), 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "b");
    CHECK_INT(publish(t, "s1", EMQ_OK), 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "b a");
}

ENGINE_TEST(a_staged_job_that_was_obliterated_does_not_come_in_place_of_one_staged_after_it)
{
    struct emq__add_entry en = fx_entry("q", "x");

    must_add(t, "q", "x");
    stage_one(t, "q", "a", "s");
    stage_one(t, "other", "b", "s");
    obliterate(t, "q");
    en.id = S("a");
    en.priority = 4;
    CHECK_STATUS(stage(t, &en, 1, "s")->outcome, EMQ_OK);
    CHECK_INT(publish(t, "s", EMQ_OK), 2);
    CHECK_IDS(t, "q", EMQ_PRIORITIZED, "a");
    CHECK_IDS(t, "q", EMQ_WAITING, "");
}

ENGINE_TEST(a_staged_id_is_held_for_its_stage_and_nobody_else_is_told_that_the_job_is_there)
{
    struct emq__add_entry en = fx_entry("q", "x"), other = fx_entry("q", "y");
    const struct emq__add_entry *both[] = {&other, &en};
    struct emq__add_req req = {.entries = both, .n = 2};
    struct emq__add_res res;

    CHECK_STATUS(stage_one(t, "q", "a", "s").outcome, EMQ_OK);
    CHECK_STATUS(stage_one(t, "q", "a", "s").outcome, EMQ_DUPLICATE);
    en.id = S("a");
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_BUSY);
    req.stage = S("s2"); /* the same batch once more, after the first was given up */
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_BUSY);
    CHECK_STR(
        S(t->err.text),
        "job \"a\" belongs to a batch that is not published yet: try again when it is, or, if it "
        "was given up, an hour after its last part");
    CHECK_IDS(t, "q", EMQ_WAITING, "");
    CHECK_INT(publish(t, "s", EMQ_OK), 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
    req.stage = S("");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_STATUS(res.added[1].outcome, EMQ_DUPLICATE);
}

ENGINE_TEST(the_ids_of_a_stage_that_was_given_up_are_free_after_an_hour)
{
    struct emq__add_entry en = fx_entry("q", "x");

    CHECK_STATUS(stage_one(t, "q", "a", "s").outcome, EMQ_OK);
    advance(t, 3600001);
    en.id = S("a");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_OK);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
}

ENGINE_TEST(a_kept_job_gets_its_id_though_a_stage_that_was_given_up_had_it)
{
    struct emq__add_entry en = fx_entry("q", "first");
    en.dedup = (struct emq__dedup){.id = S("k"), .keep_last = true};
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    en.id = S("mine");
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DEDUPLICATED);
    CHECK_STATUS(stage_one(t, "q", "mine", "s").outcome, EMQ_OK);
    advance(t, 3600001);
    settle_ok(t, j);
    CHECK_IDS(t, "q", EMQ_WAITING, "mine");
}

ENGINE_TEST(an_id_that_exists_is_a_duplicate_for_a_stage)
{
    must_add_id(t, "q", "a");
    struct emq__added a = stage_one(t, "q", "a", "s");
    CHECK_STATUS(a.outcome, EMQ_DUPLICATE);
    CHECK_INT(a.state, EMQ_WAITING);
    stage_one(t, "q", "b", "s");
    CHECK_INT(publish(t, "s", EMQ_OK), 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "a b");
}

ENGINE_TEST(dedup_is_decided_at_publish)
{
    struct emq__add_entry en[3] = {fx_entry("q", "a"), fx_entry("q", "b"), fx_entry("q", "c")};
    en[0].dedup.id = en[1].dedup.id = S("k");
    en[2].dedup.id = S("free");
    stage(t, en, 3, "s");
    struct emq__added other = add_dedup(t, "q", (struct emq__dedup){.id = S("free")});
    CHECK_STATUS(other.outcome, EMQ_OK);
    CHECK_INT(publish(t, "s", EMQ_OK), 1);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 2);
    CHECK_INT(stats(t, "q").totals.deduplicated, 2);
    CHECK_INT(dump(t, "q").stray, 0);
}

ENGINE_TEST(a_publication_names_each_job_that_dedup_dropped_and_what_was_in_its_way)
{
    struct emq__add_entry en[5] = {fx_entry("q", "a"), fx_entry("q", "b"), fx_entry("r", "c"),
                                   fx_entry("q", "d"), fx_entry("q", "e")};
    en[1].dedup.id = en[3].dedup.id = S("twice");
    en[1].delay_ms = 60000;
    en[4].dedup = (struct emq__dedup){.id = S("theirs"), .ttl_ms = 3600000};
    stage(t, en, 2, "s");
    stage(t, en + 2, 3, "s");
    struct emq__added theirs = add_dedup(t, "q", en[4].dedup);
    CHANGE(t, "q", theirs.id, .kind = EMQ__CHANGE_CANCEL);
    struct emq__publish_res res = end(t, "s", false, EMQ_OK);
    CHECK_INT(res.count, 3);
    CHECK_INT(res.n_missed, 2);
    CHECK_STATUS(why(&res, 3).outcome, EMQ_DEDUPLICATED);
    CHECK_STR(why(&res, 3).id, "2");
    CHECK_INT(why(&res, 3).state, EMQ_DELAYED);
    CHECK_STATUS(why(&res, 4).outcome, EMQ_DEDUPLICATED);
    CHECK_STR_EQ(why(&res, 4).id, theirs.id);
    CHECK_INT(why(&res, 4).state, EMQ_FAILED_STATE);
}

ENGINE_TEST(a_publication_names_each_job_whose_queue_was_obliterated_meanwhile)
{
    struct emq__add_entry en[4] = {fx_entry("q", "a"), fx_entry("other", "b"), fx_entry("q", "c"),
                                   fx_entry("q", "d")};
    must_add(t, "q", "x");
    stage(t, en, 3, "s");
    obliterate(t, "q");
    stage(t, en + 3, 1, "s");
    struct emq__publish_res res = end(t, "s", false, EMQ_OK);
    CHECK_INT(res.count, 2);
    CHECK_INT(res.n_missed, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(why(&res, 2 * i).outcome, EMQ_NOT_FOUND);
        CHECK_STR(why(&res, 2 * i).id, "");
    }
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
}

ENGINE_TEST(a_queue_that_has_only_a_stage_can_be_obliterated_and_its_ids_are_free)
{
    stage_one(t, "q", "a", "s");
    obliterate(t, "q");
    must_add_id(t, "q", "a");
    struct emq__publish_res res = end(t, "s", false, EMQ_OK);
    CHECK_INT(res.count, 0);
    CHECK_STATUS(why(&res, 0).outcome, EMQ_NOT_FOUND);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 1);
}

ENGINE_TEST(a_dropped_stage_has_ended_and_its_ids_are_free)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1, .stage = S("s"), .goes_on = true};
    struct emq__add_res res;

    CHECK_STATUS(stage_one(t, "q", "a", "s").outcome, EMQ_OK);
    CHECK_STATUS(stage_one(t, "r", "b", "s").outcome, EMQ_OK);
    CHECK_INT(end(t, "s", true, EMQ_OK).count, 0);
    end(t, "s", true, EMQ_NOT_FOUND);
    publish(t, "s", EMQ_NOT_FOUND);
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_STORE);
    must_add_id(t, "q", "a");
    CHECK_STATUS(stage_one(t, "r", "b", "s").outcome, EMQ_OK);
    CHECK_INT(publish(t, "s", EMQ_OK), 1);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
    CHECK_IDS(t, "r", EMQ_WAITING, "b");
    CHECK_INT(stats(t, "q").totals.added, 1);
    CHECK_INT(dump(t, "q").stray, 0);
}

ENGINE_TEST(what_has_been_published_is_not_dropped)
{
    CHECK_STATUS(stage_one(t, "q", "a", "s").outcome, EMQ_OK);
    publish(t, "s", EMQ_OK);
    end(t, "s", true, EMQ_NOT_FOUND);
    CHECK_IDS(t, "q", EMQ_WAITING, "a");
}

ENGINE_TEST(published_jobs_wake_the_waiting_worker)
{
    emq_str q = S("q");
    uint64_t before;

    stage_one(t, "q", "", "s");
    before = t->e->ops->ticket(t->e, FX_PREFIX, &q, 1);
    publish(t, "s", EMQ_OK);
    CHECK(t->e->ops->ticket(t->e, FX_PREFIX, &q, 1) != before);
}

ENGINE_TEST(a_stage_larger_than_a_batch_is_published_by_one_act)
{
    static struct emq__add_entry en[EMQ__BATCH_MAX];
    static const struct emq__add_entry *list[EMQ__BATCH_MAX];
    struct emq__add_req req = {.entries = list, .n = EMQ__BATCH_MAX, .stage = S("s")};
    struct emq__add_res res;

    fx_unchecked(t);
    for (size_t i = 0; i < EMQ__BATCH_MAX; i++) {
        en[i] = fx_entry("q", "x");
        list[i] = &en[i];
    }
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_STR(res.added[EMQ__BATCH_MAX - 1].id, "3000");
    CHECK_INT(publish(t, "s", EMQ_OK), 3000);
    CHECK_INT(stats(t, "q").count[EMQ_WAITING], 3000);
    CHECK_STR(must_take(t, "q")->id, "1");
    for (int i = 0; i < 10; i++)
        CHECK_INT(take_n(t, "q", 200).n, 200);
    CHECK_STR(must_take(t, "q")->id, "2002");
    CHECK_INT(dump(t, "q").stray, 0);
}
