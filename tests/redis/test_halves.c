/* SPDX-License-Identifier: MIT
 *
 * A key of a queue becomes something else's, and the next act that meets it is one of several jobs, of several
 * queues, or comes after others: none does a half. Either it is refused, and can be done once the key is right
 * again, or it is done.
 */
#include "redis/foreign.h"

#include "engine/redis/effect.h"
#include "engine/redis/ground.h"

static const char *const keys[] = {
    "wait",    "active",  "paused",           "delayed", "prioritized", "completed",
    "failed",  "stalled", "waiting-children", "meta",    "id",          "pc",
    "limiter", "events",  "marker",           "repeat",
};

/* Jobs that are taken: `plain`, `owner` of a dedup id with a next job kept for it, `child` of a parent in the
 * queue "<queue>p", and `left`, whose lock has ended. */
struct scene {
    char queue[24], parents[24];
    struct emq__job *plain, *owner, *child, *left;
};
typedef emq_status (*act_fn)(struct fx *t, const struct scene *s);

static struct emq__job *add_and_take(struct fx *t, const char *queue, struct emq__add_entry en)
{
    en.queue = emq_cstr(queue);
    must_add_entry(t, en);
    return must_take(t, queue);
}

static struct scene make_scene(struct fx *t, size_t k, size_t a)
{
    static char key[60], parent[120];
    struct scene s;
    struct emq__take brief = fx_take(1);
    struct emq__add_entry en = fx_entry("", "x");

    (void)snprintf(s.queue, sizeof s.queue, "q%zu-%zu", k, a);
    (void)snprintf(s.parents, sizeof s.parents, "q%zu-%zup", k, a);
    (void)snprintf(key, sizeof key, "emq:%s:above", s.parents);
    (void)snprintf(parent, sizeof parent,
                   "{\"id\":\"above\",\"queueKey\":\"emq:%s\",\"fpof\":true}", s.parents);
    must_add_id(t, s.parents, "above");
    DO("LREM emq:%s:wait 1 above", s.parents);
    DO("ZADD emq:%s:waiting-children 5 above", s.parents);

    must_add_id(t, s.queue, "done");
    settle_ok(t, must_take(t, s.queue));
    must_add_id(t, s.queue, "bad");
    fail_ok(t, must_take(t, s.queue), "why");
    must_add_id(t, s.queue, "left");
    brief.lock_ms = 200;
    s.left = take_with(t, s.queue, brief).jobs[0];
    advance(t, 300);
    s.plain = add_and_take(t, s.queue, en);
    en.id = S("owner");
    en.dedup.id = S("own");
    en.dedup.keep_last = true;
    s.owner = add_and_take(t, s.queue, en);
    en.id = S("next");
    en.queue = emq_cstr(s.queue);
    CHECK_STATUS(add_entry(t, en).outcome, EMQ_DEDUPLICATED);
    en = fx_entry("", "x");
    en.id = S("child");
    en.parent_key = emq_cstr(key);
    en.parent = emq_cstr(parent);
    s.child = add_and_take(t, s.queue, en);
    en = fx_entry(s.queue, "x");
    en.id = S("later");
    en.delay_ms = 3600000;
    must_add_entry(t, en);
    must_add_id(t, s.queue, "waits");
    return s;
}

/* ---- acts ---------------------------------------------------------------------------------------- */

static emq_status settle_all(struct fx *t, const struct scene *s,
                             const struct emq__settle_entry *en, size_t n)
{
    const struct emq__settle_entry *list[4];
    struct emq__take next = fx_take(2);
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(s->queue), .entries = list, .n = n, .next = &next};
    struct emq__settle_res res;

    for (size_t i = 0; i < n; i++)
        list[i] = &en[i];
    emq_status is = t->e->ops->settle(t->e, &req, &res, &t->mem, &t->err);
    for (size_t i = 0; is == EMQ_OK && i < res.n; i++)
        CHECK_STATUS(res.settled[i].outcome, EMQ_OK);
    return is;
}

static emq_status act_settle_four(struct fx *t, const struct scene *s)
{
    const struct emq__settle_entry en[] = {
        fx_settle(s->plain, EMQ__SETTLE_COMPLETED), fx_settle(s->owner, EMQ__SETTLE_RETRY),
        fx_settle(s->child, EMQ__SETTLE_COMPLETED), fx_settle(s->left, EMQ__SETTLE_FAILED)};

    return settle_all(t, s, en, 4);
}

static emq_status act_end_owner(struct fx *t, const struct scene *s)
{
    const struct emq__settle_entry en = fx_settle(s->owner, EMQ__SETTLE_COMPLETED);

    return settle_all(t, s, &en, 1);
}

static emq_status act_fail_child(struct fx *t, const struct scene *s)
{
    const struct emq__settle_entry en[] = {fx_settle(s->plain, EMQ__SETTLE_STALLED),
                                           fx_settle(s->child, EMQ__SETTLE_FAILED)};

    return settle_all(t, s, en, 2);
}

static emq_status act_sweep_to_failed(struct fx *t, const struct scene *s)
{
    struct emq__sweep_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(s->queue), .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res;

    return t->e->ops->sweep(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_effect(struct fx *t, const struct scene *s)
{
    char key[30];
    (void)snprintf(key, sizeof key, "of-%s", s->queue);
    const emq_str words[] = {S("INCR"), S(key)};
    const struct emq__redis_command command = {words, 2};
    struct emq__settle_entry en = fx_settle(s->child, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {.prefix = FX_PREFIX,
                                        .queue = emq_cstr(s->queue),
                                        .entry = &en,
                                        .step = S("step"),
                                        .keep_ms = 60000};
    struct emq__effect_res res;

    emq_status is = emq__redis_effect(t->e, &req, &command, 1, &res, &t->mem, &t->err);
    CHECK_DO(is == EMQ_OK ? "1" : "0", "EXISTS %s", key);
    return is;
}

static emq_status act_add_three(struct fx *t, const struct scene *s)
{
    struct emq__add_entry en[3];
    const struct emq__add_entry *list[3];
    struct emq__add_req req = {.entries = list, .n = 3};
    struct emq__add_res res;

    for (size_t i = 0; i < 3; i++) {
        list[i] = &en[i];
        en[i] = fx_entry(s->queue, "x");
    }
    en[1].delay_ms = 1000;
    en[2].dedup.id = S("own");
    return t->e->ops->add(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status change_as(struct fx *t, const struct scene *s, struct emq__change c,
                            const emq_str *ids, size_t n)
{
    struct emq__change_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(s->queue), .ids = ids, .n = n, .change = c};
    struct emq__change_res res;

    return t->e->ops->change(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_remove_two(struct fx *t, const struct scene *s)
{
    const emq_str ids[] = {S("waits"), S("bad")};

    return change_as(t, s, (struct emq__change){.kind = EMQ__CHANGE_REMOVE}, ids, 2);
}

static emq_status act_retry_two(struct fx *t, const struct scene *s)
{
    const emq_str ids[] = {S("done"), S("bad")};

    return change_as(t, s, (struct emq__change){.kind = EMQ__CHANGE_RETRY}, ids, 2);
}

static emq_status act_delay(struct fx *t, const struct scene *s)
{
    const emq_str id = S("later");

    return change_as(t, s, (struct emq__change){.kind = EMQ__CHANGE_DELAY, .delay_ms = 5000}, &id,
                     1);
}

static emq_status bulk_as(struct fx *t, const struct scene *s, enum emq__change_kind kind,
                          int state)
{
    struct emq__bulk_req req = {.prefix = FX_PREFIX,
                                .queue = emq_cstr(s->queue),
                                .change = {.kind = kind},
                                .state = state,
                                .limit = 100,
                                .event = true};
    struct emq__bulk_res res;

    return t->e->ops->bulk(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_retry_all(struct fx *t, const struct scene *s)
{
    return bulk_as(t, s, EMQ__CHANGE_RETRY, EMQ_FAILED_STATE);
}

static emq_status act_clean(struct fx *t, const struct scene *s)
{
    return bulk_as(t, s, EMQ__CHANGE_REMOVE, EMQ_COMPLETED_STATE);
}

static emq_status act_drain(struct fx *t, const struct scene *s)
{
    return bulk_as(t, s, EMQ__CHANGE_REMOVE, EMQ_WAITING);
}

static emq_status act_promote_all(struct fx *t, const struct scene *s)
{
    return bulk_as(t, s, EMQ__CHANGE_PROMOTE, EMQ_DELAYED);
}

static emq_status act_obliterate(struct fx *t, const struct scene *s)
{
    struct emq__obliterate_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(s->queue), .force = true, .limit = 100};
    struct emq__obliterate_res res;

    return t->e->ops->obliterate(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_pause_and_resume(struct fx *t, const struct scene *s)
{
    struct emq__meta_field set = {S("paused"), S("1")};
    struct emq__meta_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(s->queue), .set = &set, .n_set = 1};
    struct emq__meta_res res;

    emq_status is = t->e->ops->meta(t->e, &req, &res, &t->mem, &t->err);
    set.value = S("");
    return is == EMQ_OK ? t->e->ops->meta(t->e, &req, &res, &t->mem, &t->err) : is;
}

static emq_status act_progress(struct fx *t, const struct scene *s)
{
    struct emq__write_req req = {.prefix = FX_PREFIX,
                                 .queue = emq_cstr(s->queue),
                                 .id = s->plain->id,
                                 .auth = {.token = s->plain->token},
                                 .kind = EMQ__WRITE_PROGRESS,
                                 .value = {EMQ__KIND_JSON, S("5")}};
    struct emq__write_res res;

    return t->e->ops->write(t->e, &req, &res, &t->mem, &t->err);
}

static const struct {
    const char *name;
    act_fn fn;
} acts[] = {
    {"settle four", act_settle_four},
    {"end an owner", act_end_owner},
    {"fail a child", act_fail_child},
    {"sweep to failed", act_sweep_to_failed},
    {"effect", act_effect},
    {"add three", act_add_three},
    {"remove two", act_remove_two},
    {"retry two", act_retry_two},
    {"change a delay", act_delay},
    {"retry all", act_retry_all},
    {"clean", act_clean},
    {"drain", act_drain},
    {"promote all", act_promote_all},
    {"obliterate", act_obliterate},
    {"pause and resume", act_pause_and_resume},
    {"progress", act_progress},
};

/* ---- the table ----------------------------------------------------------------------------------- */

/* What is wrong with the act under this key of one of the two queues; NULL = nothing. Static text. */
static const char *meet(struct fx *t, const char *key, act_fn act, const struct scene *s,
                        const char *queue)
{
    static char wrong[900];
    struct foreign f = foreign_put(t, queue, key);

    emq_status is = act(t, s);
    emq_error said = t->err;
    foreign_take_away(t, &f);
    const char *broken = first_broken(t, s->queue);
    if (!broken)
        broken = first_broken(t, s->parents);
    if (broken)
        (void)snprintf(wrong, sizeof wrong, "%s; then: %s", emq_status_name(is), broken);
    else if (is < 0 && (is != EMQ_E_INVALID || !strstr(said.text, f.key)))
        (void)snprintf(wrong, sizeof wrong, "%s: %s", emq_status_name(is), said.text);
    else if (is < 0 && (is = act(t, s)) < 0)
        (void)snprintf(wrong, sizeof wrong, "once more: %s: %s", emq_status_name(is), t->err.text);
    else
        return NULL;
    return wrong;
}

static void check_all(struct fx *t, bool parents)
{
    int bad = 0;

    fx_unchecked(t);
    for (size_t k = 0; k < EMQ_ARRAY_LEN(keys); k++)
        for (size_t a = 0; a < EMQ_ARRAY_LEN(acts); a++) {
            struct scene s = make_scene(t, k, a);
            const char *wrong = meet(t, keys[k], acts[a].fn, &s, parents ? s.parents : s.queue);
            if (wrong && ++bad)
                fprintf(stderr, "%s, %s: %s\n", keys[k], acts[a].name, wrong);
        }
    CHECK_INT(bad, 0);
}

REDIS_TEST(no_act_on_several_jobs_does_a_half_when_a_key_is_something_elses)
{
    check_all(t, false);
}

REDIS_TEST(no_act_on_a_child_does_a_half_when_a_key_of_its_parents_queue_is_something_elses)
{
    check_all(t, true);
}

REDIS_TEST(a_removal_that_a_key_of_a_childs_queue_stops_names_it_and_goes_on_later)
{
    const emq_str above = S("above");
    const char *broken;

    fx_unchecked(t);
    struct scene s = make_scene(t, 0, 0);
    settle_ok(t, s.child);
    CHECK_STATE(t, s.parents, above, EMQ_WAITING);
    struct scene up = s;
    memcpy(up.queue, s.parents, sizeof up.queue);
    struct foreign f = foreign_put(t, s.queue, "failed");
    CHECK_STATUS(change_as(t, &up, (struct emq__change){.kind = EMQ__CHANGE_REMOVE}, &above, 1),
                 EMQ_E_INVALID);
    CHECK(strstr(t->err.text, f.key));
    foreign_take_away(t, &f);
    CHECK_STATE(t, s.parents, above, EMQ_WAITING);
    CHECK_STATE(t, s.queue, S("child"), EMQ_COMPLETED_STATE);
    CHECK_STATUS(change_as(t, &up, (struct emq__change){.kind = EMQ__CHANGE_REMOVE}, &above, 1),
                 EMQ_OK);
    CHECK_INT(stats(t, s.parents).totals.removed, 1);
    CHECK_INT(stats(t, s.queue).totals.removed, 1);
    broken = first_broken(t, s.queue);
    CHECK_STR(S(broken ? broken : ""), "");
}

/* A long batch, whose last job has the id "far". */
static emq_status add_far(struct fx *t, const char *queue)
{
    static struct emq__add_entry en[200];
    static const struct emq__add_entry *list[EMQ_ARRAY_LEN(en)];
    struct emq__add_req req = {.entries = list, .n = EMQ_ARRAY_LEN(en)};
    struct emq__add_res res;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(en); i++) {
        en[i] = fx_entry(queue, "x");
        list[i] = &en[i];
    }
    en[EMQ_ARRAY_LEN(en) - 1].id = S("far");
    return t->e->ops->add(t->e, &req, &res, &t->mem, &t->err);
}

REDIS_TEST(a_batch_whose_last_entry_meets_a_dedup_key_of_something_else_adds_nothing)
{
    fx_unchecked(t);
    struct scene s = make_scene(t, 0, 0);
    int64_t before = stats(t, s.queue).totals.added;
    struct foreign f = foreign_put(t, s.queue, "de:own");
    CHECK_STATUS(act_add_three(t, &s), EMQ_E_INVALID);
    CHECK(strstr(t->err.text, f.key));
    CHECK_INT(stats(t, s.queue).count[EMQ_WAITING], 1);
    foreign_take_away(t, &f);
    DO("SET emq:%s:far x", s.queue);
    CHECK_STATUS(add_far(t, s.queue), EMQ_E_INVALID);
    CHECK(strstr(t->err.text, ":far\" is a string and not a hash"));
    CHECK_INT(stats(t, s.queue).totals.added, before);
    CHECK_STATUS(act_add_three(t, &s), EMQ_OK);
    CHECK_INT(stats(t, s.queue).totals.added, before + 2);
}

REDIS_TEST(locks_are_renewed_whatever_has_become_of_a_key_of_their_queue)
{
    fx_unchecked(t);
    for (size_t k = 0; k < EMQ_ARRAY_LEN(keys); k++) {
        struct scene s = make_scene(t, k, 0);
        struct emq__job *other = add_and_take(t, "other", fx_entry("", "x"));
        struct foreign f = foreign_put(t, s.queue, keys[k]);
        (void)act_end_owner(t, &s); /* meets it */
        const struct emq__extend_entry en[] = {
            {FX_PREFIX, s.plain->queue, s.plain->id, s.plain->token},
            {FX_PREFIX, other->queue, other->id, other->token}};
        const struct emq__extend_entry *list[] = {&en[0], &en[1]};
        struct emq__extend_req req = {list, 2, FX_LOCK_MS};
        struct emq__extend_res res;
        CHECK_STATUS(FX_CALL(t, extend, &req, &res), EMQ_OK);
        CHECK_STATUS(res.extended[0].outcome, EMQ_OK);
        CHECK_STATUS(res.extended[1].outcome, EMQ_OK);
        foreign_take_away(t, &f);
        settle_ok(t, other);
    }
}
