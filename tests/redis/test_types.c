/* SPDX-License-Identifier: MIT
 *
 * A key of a queue that belongs to something else: each act either does without it or names it, and has then
 * changed nothing. Once the key is out of the way, every job is where it was.
 */
#include "redis/ground.h"
#include "redis/keys.h"

static const char *const keys[] = {
    "wait",      "active", "paused",  "delayed",          "prioritized",
    "completed", "failed", "stalled", "waiting-children", "meta",
    "id",        "pc",     "limiter", "events",           "marker",
    "repeat",    "de:dup", "dn:dup",  "stalled-check",
};

/* A queue with a job in every place that an act takes one from. */
struct place {
    const char *queue;
    struct emq__job *held, *stalled;
};

typedef emq_status (*act_fn)(struct fx *t, const struct place *p);

static emq_status add_as(struct fx *t, const struct place *p, struct emq__add_entry en)
{
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1};
    struct emq__add_res res;

    en.queue = emq_cstr(p->queue);
    return t->e->ops->add(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_add(struct fx *t, const struct place *p)
{
    return add_as(t, p, fx_entry("", "x"));
}

static emq_status act_add_delayed(struct fx *t, const struct place *p)
{
    struct emq__add_entry en = fx_entry("", "x");

    en.delay_ms = 60000;
    return add_as(t, p, en);
}

static emq_status act_add_priority(struct fx *t, const struct place *p)
{
    struct emq__add_entry en = fx_entry("", "x");

    en.priority = 3;
    return add_as(t, p, en);
}

static emq_status act_add_dedup(struct fx *t, const struct place *p)
{
    struct emq__add_entry en = fx_entry("", "x");

    en.dedup.id = S("dup");
    return add_as(t, p, en);
}

static emq_status act_take(struct fx *t, const struct place *p)
{
    struct emq__take_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .take = fx_take(3)};
    struct emq__take_res res;

    return t->e->ops->take(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_take_limited(struct fx *t, const struct place *p)
{
    struct emq__take_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .take = fx_take(1)};
    struct emq__take_res res;

    req.take.limit_max = 2;
    req.take.limit_duration_ms = 60000;
    return t->e->ops->take(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_forget(struct fx *t, const struct place *p)
{
    struct emq__take_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .take = fx_take(1)};
    struct emq__take_res res;

    req.take.mode = EMQ_FIRE_AND_FORGET;
    return t->e->ops->take(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status settle_as(struct fx *t, const struct place *p, struct emq__settle_entry en,
                            const struct emq__take *next)
{
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .entries = list, .n = 1, .next = next};
    struct emq__settle_res res;

    return t->e->ops->settle(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_complete(struct fx *t, const struct place *p)
{
    return settle_as(t, p, fx_settle(p->held, EMQ__SETTLE_COMPLETED), NULL);
}

static emq_status act_complete_and_take(struct fx *t, const struct place *p)
{
    struct emq__take next = fx_take(1);

    return settle_as(t, p, fx_settle(p->held, EMQ__SETTLE_COMPLETED), &next);
}

static emq_status act_fail(struct fx *t, const struct place *p)
{
    return settle_as(t, p, fx_settle(p->held, EMQ__SETTLE_FAILED), NULL);
}

static emq_status act_retry(struct fx *t, const struct place *p)
{
    struct emq__settle_entry en = fx_settle(p->held, EMQ__SETTLE_RETRY);

    en.delay_ms = 60000;
    return settle_as(t, p, en, NULL);
}

static emq_status act_release(struct fx *t, const struct place *p)
{
    return settle_as(t, p, fx_settle(p->held, EMQ__SETTLE_RELEASE), NULL);
}

static emq_status act_sweep(struct fx *t, const struct place *p)
{
    struct emq__sweep_req req = {.prefix = FX_PREFIX,
                                 .queue = emq_cstr(p->queue),
                                 .max_stalled = 5,
                                 .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res;

    return t->e->ops->sweep(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_promote(struct fx *t, const struct place *p)
{
    struct emq__promote_req req = {FX_PREFIX, emq_cstr(p->queue), EMQ__BATCH_MAX};
    struct emq__promote_res res;

    return t->e->ops->promote(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status change_as(struct fx *t, const struct place *p, const char *id,
                            struct emq__change c)
{
    emq_str name = emq_cstr(id);
    struct emq__change_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .ids = &name, .n = 1, .change = c};
    struct emq__change_res res;

    return t->e->ops->change(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status act_promote_one(struct fx *t, const struct place *p)
{
    return change_as(t, p, "later", (struct emq__change){.kind = EMQ__CHANGE_PROMOTE});
}

static emq_status act_remove(struct fx *t, const struct place *p)
{
    return change_as(t, p, "waits", (struct emq__change){.kind = EMQ__CHANGE_REMOVE});
}

static emq_status act_cancel(struct fx *t, const struct place *p)
{
    return change_as(t, p, "waits", (struct emq__change){.kind = EMQ__CHANGE_CANCEL});
}

static emq_status act_retry_one(struct fx *t, const struct place *p)
{
    return change_as(t, p, "done", (struct emq__change){.kind = EMQ__CHANGE_RETRY});
}

static emq_status act_prioritize(struct fx *t, const struct place *p)
{
    return change_as(t, p, "waits",
                     (struct emq__change){.kind = EMQ__CHANGE_PRIORITY, .priority = 7});
}

static const struct {
    const char *name;
    act_fn fn;
} acts[] = {
    {"add", act_add},
    {"add delayed", act_add_delayed},
    {"add with a priority", act_add_priority},
    {"add with a dedup id", act_add_dedup},
    {"take", act_take},
    {"take under a rate limit", act_take_limited},
    {"take and forget", act_forget},
    {"complete", act_complete},
    {"complete and take", act_complete_and_take},
    {"fail", act_fail},
    {"retry", act_retry},
    {"release", act_release},
    {"sweep", act_sweep},
    {"promote", act_promote},
    {"promote one", act_promote_one},
    {"remove", act_remove},
    {"cancel", act_cancel},
    {"retry one", act_retry_one},
    {"change a priority", act_prioritize},
};

static struct place make_place(struct fx *t, const char *queue)
{
    struct place p = {.queue = queue};
    struct emq__take brief = fx_take(1);

    must_add_id(t, queue, "done");
    settle_ok(t, must_take(t, queue));
    must_add_id(t, queue, "left");
    brief.lock_ms = 200;
    p.stalled = take_with(t, queue, brief).jobs[0];
    must_add_id(t, queue, "held");
    p.held = must_take(t, queue);
    struct emq__add_entry due = fx_entry(queue, "x");
    due.id = S("due");
    due.delay_ms = 100;
    must_add_entry(t, due);
    advance(t, 300);
    due.id = S("later");
    due.delay_ms = 3600000;
    must_add_entry(t, due);
    due.id = S("first");
    due.delay_ms = 0;
    due.priority = 2;
    must_add_entry(t, due);
    must_add_id(t, queue, "waits");
    return p;
}

static char first_broken[300];

static void keep_broken(void *user, const char *line)
{
    (void)user;
    if (!first_broken[0])
        (void)snprintf(first_broken, sizeof first_broken, "%s", line);
}

/* What is wrong with the act under this key; NULL = nothing. Static text. Names of dedup ids are not known
 * to the look. */
static const char *meet(struct fx *t, const char *key, act_fn act, const char *queue)
{
    static char wrong[900];
    struct place p = make_place(t, queue);
    char name[60];

    (void)snprintf(name, sizeof name, "emq:%s:%s", queue, key);
    bool there = server_number(DO("EXISTS %s", name)) == 1;
    bool is_text = strcmp(DO("TYPE %s", name), "string") == 0 || strcmp(key, "id") == 0 ||
                   strcmp(key, "pc") == 0 || strcmp(key, "limiter") == 0 ||
                   strcmp(key, "stalled-check") == 0 || strncmp(key, "de:", 3) == 0;
    if (there)
        DO("RENAME %s aside", name);
    DO(is_text ? "RPUSH %s x" : "SET %s x", name);
    struct emq__engine *before = t->e;
    t->e = open_port(server(t)->port, PATIENCE_MS); /* one that has not met the queue yet */
    emq_status s = act(t, &p);
    t->e->ops->close(t->e);
    t->e = before;
    DO("DEL %s", name);
    if (there)
        CHECK_DO("OK", "RENAME aside %s", name);
    first_broken[0] = '\0';
    struct emq__dump_res d = dump(t, queue);
    (void)emq__check_dump(&d, keep_broken, NULL);
    if (first_broken[0])
        (void)snprintf(wrong, sizeof wrong, "%s; then: %s", emq_status_name(s), first_broken);
    else if (s < 0 && (s != EMQ_E_INVALID || !strstr(t->err.text, strchr(key, ':') ? queue : name)))
        (void)snprintf(wrong, sizeof wrong, "%s: %s", emq_status_name(s), t->err.text);
    else
        return NULL;
    return wrong;
}

REDIS_TEST(an_act_that_meets_a_key_of_something_else_names_it_and_has_changed_nothing)
{
    int bad = 0;

    fx_unchecked(t);
    for (size_t k = 0; k < EMQ_ARRAY_LEN(keys); k++)
        for (size_t a = 0; a < EMQ_ARRAY_LEN(acts); a++) {
            char queue[20];
            (void)snprintf(queue, sizeof queue, "q%zu-%zu", k, a);
            const char *wrong = meet(t, keys[k], acts[a].fn, queue);
            if (wrong && ++bad)
                fprintf(stderr, "%s, %s: %s\n", keys[k], acts[a].name, wrong);
        }
    CHECK_INT(bad, 0);
}
