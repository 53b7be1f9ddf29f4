/* SPDX-License-Identifier: MIT
 *
 * The oldest job of a place has a record, or a key beside it, of another type: every act that comes by goes on
 * with the others.
 */
#include "redis/ground.h"
#include "redis/keys.h"

struct place {
    const char *name;
    int state;
    bool due, lost; /* delayed: due by now; active: without a living lock */
};
static const struct place places[] = {
    {"wait", EMQ_WAITING, false, false},
    {"prioritized", EMQ_PRIORITIZED, false, false},
    {"delayed", EMQ_DELAYED, false, false},
    {"due", EMQ_DELAYED, true, false},
    {"active", EMQ_ACTIVE, false, false},
    {"lost", EMQ_ACTIVE, false, true},
    {"completed", EMQ_COMPLETED_STATE, 0, false},
    {"failed", EMQ_FAILED_STATE, false, false},
    {"waiting-children", EMQ_WAITING_CHILDREN, 0, false},
};

/* The jobs "bad" and "good" of a queue; as they were taken, if they are active. */
struct two {
    const char *queue;
    const struct place *at;
    struct emq__job *job[2];
};
static const char *const ids[] = {"bad", "good"};

static void put_parent(struct fx *t, const char *queue, const char *id)
{
    DO("LREM emq:%s:wait 1 %s", queue, id);
    DO("ZADD emq:%s:waiting-children 5 %s", queue, id);
    DO("SADD emq:%s:%s:dependencies emq:%s:child", queue, id, queue);
}

static struct two put_two(struct fx *t, const char *queue, const struct place *at)
{
    struct two two = {.queue = queue, .at = at};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(ids); i++) {
        struct emq__add_entry en = fx_entry(queue, "x");
        struct emq__take take = fx_take(1);
        en.id = S(ids[i]);
        en.priority = at->state == EMQ_PRIORITIZED ? 3 : 0;
        en.delay_ms = at->state != EMQ_DELAYED ? 0 : at->due ? 1 : 3600000;
        must_add_entry(t, en);
        take.lock_ms = at->lost ? 200 : take.lock_ms;
        if (at->state == EMQ_WAITING_CHILDREN)
            put_parent(t, queue, ids[i]);
        else if (at->state == EMQ_ACTIVE || at->state == EMQ_COMPLETED_STATE ||
                 at->state == EMQ_FAILED_STATE)
            two.job[i] = take_with(t, queue, take).jobs[0];
        if (at->state == EMQ_COMPLETED_STATE)
            settle_ok(t, two.job[i]);
        else if (at->state == EMQ_FAILED_STATE)
            fail_ok(t, two.job[i], "why");
    }
    if (at->due || at->lost)
        advance(t, 300);
    return two;
}

/* ---- acts ---------------------------------------------------------------------------------------- */

static void act_stats(struct fx *t, const struct two *two)
{
    CHECK(stats(t, two->queue).count[two->at->state] >= 1);
}

static void act_list(struct fx *t, const struct two *two)
{
    const char *there = ids_in(t, two->queue, two->at->state);

    CHECK(strstr(there, "good"));
}

static void act_show(struct fx *t, const struct two *two)
{
    CHECK_STATE(t, two->queue, S("good"), two->at->state);
    (void)get_job(t, two->queue, S("bad"));
}

static void act_take(struct fx *t, const struct two *two)
{
    bool ready = two->at->state == EMQ_WAITING || two->at->state == EMQ_PRIORITIZED || two->at->due;
    int good = 0;

    for (struct emq__job *j = take_one(t, two->queue); j; j = take_one(t, two->queue))
        good += emq__str_is(j->id, "good");
    CHECK_INT(good, ready);
}

static void act_forget(struct fx *t, const struct two *two)
{
    struct emq__take take = fx_take(3);

    take.mode = EMQ_FIRE_AND_FORGET;
    (void)take_with(t, two->queue, take);
}

static void act_promote(struct fx *t, const struct two *two)
{
    struct emq__promote_req req = {FX_PREFIX, S(two->queue), EMQ__BATCH_MAX};
    struct emq__promote_res res;

    CHECK_STATUS(FX_CALL(t, promote, &req, &res), EMQ_OK);
    CHECK(state_of(t, two->queue, S("good")) == (two->at->due ? EMQ_WAITING : two->at->state));
}

static void act_sweep(struct fx *t, const struct two *two)
{
    struct emq__sweep_res res = sweep(t, two->queue, 5);
    bool good = false;

    for (size_t i = 0; i < res.n_recovered; i++)
        good = good || emq__str_is(res.recovered[i], "good");
    CHECK_INT(good, two->at->lost);
}

static void act_settle(struct fx *t, const struct two *two)
{
    if (two->at->state != EMQ_ACTIVE)
        return;
    struct emq__settle_entry en[] = {fx_settle(two->job[0], EMQ__SETTLE_FAILED),
                                     fx_settle(two->job[1], EMQ__SETTLE_COMPLETED)};
    const struct emq__settle_entry *list[] = {&en[0], &en[1]};
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = S(two->queue), .entries = list, .n = 2};
    struct emq__settle_res res;
    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_STATUS(res.settled[1].outcome, EMQ_OK);
}

static void act_extend(struct fx *t, const struct two *two)
{
    if (two->at->state != EMQ_ACTIVE)
        return;
    struct emq__extend_entry en[2];
    const struct emq__extend_entry *list[] = {&en[0], &en[1]};
    for (size_t i = 0; i < 2; i++)
        en[i] = (struct emq__extend_entry){FX_PREFIX, S(two->queue), two->job[i]->id,
                                           two->job[i]->token};
    struct emq__extend_req req = {.entries = list, .n = 2, .lock_ms = 30000};
    struct emq__extend_res res;
    CHECK_STATUS(FX_CALL(t, extend, &req, &res), EMQ_OK);
    CHECK_STATUS(res.extended[1].outcome, EMQ_OK);
}

static void act_claims(struct fx *t, const struct two *two)
{
    struct emq__claims_req req = {FX_PREFIX, S("w")};
    struct emq__claims_res res;
    bool good = false;

    CHECK_STATUS(FX_CALL(t, claims, &req, &res), EMQ_OK);
    for (size_t i = 0; i < res.n; i++)
        good = good || (emq__str_is(res.jobs[i]->queue, two->queue) &&
                        emq__str_is(res.jobs[i]->id, "good"));
    CHECK_INT(good, two->at->state == EMQ_ACTIVE);
}

static void change_all(struct fx *t, const struct two *two, struct emq__change c)
{
    (void)bulk(t, (struct emq__bulk_req){.queue = S(two->queue),
                                         .change = c,
                                         .state = two->at->state,
                                         .limit = EMQ__BATCH_MAX});
    for (size_t i = 0; i < EMQ_ARRAY_LEN(ids); i++)
        (void)change(t, two->queue, S(ids[i]), c);
}

static void act_change(struct fx *t, const struct two *two)
{
    static const enum emq__change_kind kinds[] = {EMQ__CHANGE_DELAY, EMQ__CHANGE_PROMOTE,
                                                  EMQ__CHANGE_RETRY, EMQ__CHANGE_PRIORITY,
                                                  EMQ__CHANGE_CANCEL};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++)
        change_all(t, two, (struct emq__change){.kind = kinds[i], .delay_ms = 60000});
}

static void act_remove(struct fx *t, const struct two *two)
{
    change_all(t, two, (struct emq__change){.kind = EMQ__CHANGE_REMOVE});
    CHECK_STATE(t, two->queue, S("good"),
                two->at->state == EMQ_ACTIVE && !two->at->lost ? EMQ_ACTIVE : 0);
}

static void act_obliterate(struct fx *t, const struct two *two)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = S(two->queue), .force = true, .limit = EMQ__BATCH_MAX};
    struct emq__obliterate_res res;

    CHECK_STATUS(FX_CALL(t, obliterate, &req, &res), EMQ_OK);
    CHECK(!res.more);
    CHECK_STATE(t, two->queue, S("good"), 0);
}

/* The place is full: what is oldest there makes room. */
static void act_retain(struct fx *t, const struct two *two)
{
    struct emq__keep keep = {.count = 1};

    must_add_id(t, two->queue, "late");
    for (struct emq__job *j = take_one(t, two->queue); j; j = take_one(t, two->queue))
        for (int kind = EMQ__SETTLE_COMPLETED; kind <= EMQ__SETTLE_FAILED; kind++) {
            struct emq__settle_entry en = fx_settle(j, (enum emq__settle_kind)kind);
            en.keep = keep;
            (void)settle(t, j, en);
        }
}

static void act_fsck(struct fx *t, const struct two *two)
{
    struct emq__suspect_ids met = {0};
    struct emq__suspects_req req = {.prefix = FX_PREFIX, .queue = S(two->queue), .met = &met};
    struct emq__suspects_res res;

    do {
        CHECK_STATUS(FX_CALL(t, suspects, &req, &res), EMQ_OK);
        req.after = res.next;
    } while (res.next.len);
    emq__suspects_end(&met);
}

static void act_markers(struct fx *t, const struct two *two)
{
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S(two->queue), .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
}

static const struct {
    const char *name;
    void (*fn)(struct fx *t, const struct two *two);
} acts[] = {{"stats", act_stats},   {"list", act_list},
            {"show", act_show},     {"take", act_take},
            {"forget", act_forget}, {"promote", act_promote},
            {"sweep", act_sweep},   {"settle", act_settle},
            {"extend", act_extend}, {"claims", act_claims},
            {"change", act_change}, {"remove", act_remove},
            {"retain", act_retain}, {"obliterate", act_obliterate},
            {"fsck", act_fsck},     {"markers", act_markers}};

/* What is wrong with "bad": the key behind its id is a string or a list, or its record has no number. */
enum flaw { IS_STRING, IS_LIST, NO_NUMBERS };

static void spoil(struct fx *t, const char *queue, const char *side, enum flaw flaw)
{
    if (flaw == NO_NUMBERS) {
        DO("HSET emq:%s:bad timestamp x atm x ats x stc x priority x delay x emq:exp x opts x",
           queue);
        return;
    }
    DO("DEL emq:%s:bad%s", queue, side);
    DO(flaw == IS_STRING ? "SET emq:%s:bad%s x" : "RPUSH emq:%s:bad%s x", queue, side);
}

static void play(struct fx *t, const char *side, enum flaw flaw)
{
    char queue[80];

    fx_unchecked(t);
    for (size_t p = 0; p < EMQ_ARRAY_LEN(places); p++)
        for (size_t a = 0; a < EMQ_ARRAY_LEN(acts); a++) {
            (void)snprintf(queue, sizeof queue, "%s-%s", places[p].name, acts[a].name);
            struct two two = put_two(t, queue, &places[p]);
            spoil(t, queue, side, flaw);
            acts[a].fn(t, &two);
        }
}

REDIS_TEST(every_act_goes_on_beside_a_record_that_is_a_string)
{
    play(t, "", IS_STRING);
}

REDIS_TEST(every_act_goes_on_beside_a_record_that_is_a_list)
{
    play(t, "", IS_LIST);
}

REDIS_TEST(every_act_goes_on_beside_a_lock_and_children_of_another_type)
{
    play(t, ":lock", IS_LIST);
    DO("FLUSHDB");
    play(t, ":dependencies", IS_STRING);
    DO("FLUSHDB");
    play(t, ":unsuccessful", IS_STRING);
}

REDIS_TEST(every_act_goes_on_with_a_record_whose_numbers_are_none)
{
    play(t, "", NO_NUMBERS);
}

/* ---- what a job names ---------------------------------------------------------------------------- */

static void add_child(struct fx *t, const char *id)
{
    must_add_id(t, "q", id);
    DO("HSET emq:q:%s parentKey emq:p:parent", id);
    DO("HSET emq:q:%s parent {\"queueKey\":\"emq:p\",\"id\":\"parent\",\"fpof\":true}", id);
}

REDIS_TEST(children_end_whatever_their_parents_keys_are)
{
    static const char *const sides[] = {"", ":dependencies", ":processed", ":failed",
                                        ":unsuccessful"};

    fx_unchecked(t);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sides); i++) {
        DO("FLUSHDB");
        must_add_id(t, "p", "parent");
        add_child(t, "a");
        add_child(t, "b");
        add_child(t, "c");
        DO("DEL emq:p:wait");
        DO("ZADD emq:p:waiting-children 5 parent");
        DO("SADD emq:p:parent:dependencies emq:q:a emq:q:b emq:q:c");
        DO("DEL emq:p:parent%s", sides[i]);
        DO("SET emq:p:parent%s x", sides[i]);
        settle_ok(t, must_take(t, "q"));
        fail_ok(t, must_take(t, "q"), "why");
        CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
        CHECK_STATUS(CHANGE(t, "q", S("b"), .kind = EMQ__CHANGE_RETRY), EMQ_OK);
        CHECK_STATUS(CHANGE(t, "q", S("a"), .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
        (void)CHANGE(t, "p", S("parent"), .kind = EMQ__CHANGE_REMOVE);
        while (take_one(t, "p"))
            continue;
    }
}

REDIS_TEST(a_dedup_id_whose_owner_is_no_hash_is_free)
{
    struct emq__dedup_res res;

    fx_unchecked(t);
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    DO("DEL emq:q:1");
    DO("SET emq:q:1 x");
    CHECK_STATUS(dedup(t, "q", "k", "", false, &res), EMQ_NOT_FOUND);
    CHECK_STATUS(add_dedup(t, "q", (struct emq__dedup){.id = S("k")}).outcome, EMQ_OK);
}

REDIS_TEST(a_job_ends_although_the_keys_of_its_dedup_id_belong_to_something_else)
{
    fx_unchecked(t);
    add_dedup(t, "q", (struct emq__dedup){.id = S("k")});
    add_dedup(t, "q", (struct emq__dedup){.id = S("l")});
    DO("DEL emq:q:de:k");
    DO("RPUSH emq:q:de:k x");
    DO("SET emq:q:dn:l x");
    settle_ok(t, must_take(t, "q"));
    settle_ok(t, must_take(t, "q"));
}

REDIS_TEST(the_counter_passes_over_a_key_that_is_no_record_and_a_batch_that_names_one_adds_nothing)
{
    struct emq__add_entry free_one = fx_entry("q", "x"), odd = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&free_one, &odd};
    struct emq__add_req req = {.entries = list, .n = 2};
    struct emq__add_res res;

    fx_unchecked(t);
    DO("SET emq:q:1 x");
    CHECK_STR(must_add(t, "q", "x"), "2");
    DO("DEL emq:q:1");
    DO("SET emq:q:odd x");
    free_one.id = S("free");
    odd.id = S("odd");
    CHECK_STATUS(t->e->ops->add(t->e, &req, &res, &t->mem, &t->err), EMQ_E_INVALID);
    CHECK_TEXT(t->err, "\"emq:q:odd\" is a string and not a hash");
    CHECK_NONE("emq:q:free");
}
