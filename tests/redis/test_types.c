/* SPDX-License-Identifier: MIT
 *
 * A key of a queue that belongs to something else: each act either does without it or names it, and has then
 * changed nothing. Once the key is out of the way, every job is where it was.
 */
#include "redis/foreign.h"
#include "redis/ground.h"

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

/* By a handle that has not met the queue yet. */
static emq_status act_afresh(struct fx *t, act_fn act, const struct place *p)
{
    struct emq__engine *before = t->e;

    t->e = open_port(server(t)->port, PATIENCE_MS);
    emq_status s = act(t, p);
    t->e->ops->close(t->e);
    t->e = before;
    return s;
}

/* What is wrong with the act under this key; NULL = nothing. Static text. */
static const char *meet(struct fx *t, const char *key, act_fn act, const char *queue, bool fresh)
{
    static char wrong[900];
    struct place p = make_place(t, queue);
    struct foreign f = foreign_put(t, queue, key);

    emq_status s = fresh ? act_afresh(t, act, &p) : act(t, &p);
    foreign_take_away(t, &f);
    const char *broken = first_broken(t, queue);
    if (broken)
        (void)snprintf(wrong, sizeof wrong, "%s; then: %s", emq_status_name(s), broken);
    else if (s < 0 && (s != EMQ_E_INVALID || !strstr(t->err.text, f.key)))
        (void)snprintf(wrong, sizeof wrong, "%s: %s", emq_status_name(s), t->err.text);
    else if (s < 0 && (s = act(t, &p)) < 0)
        (void)snprintf(wrong, sizeof wrong, "once more: %s: %s", emq_status_name(s), t->err.text);
    else
        return NULL;
    return wrong;
}

/* fresh: by a handle that looks at the queue first; else it is the script that meets the key. */
static void check_all(struct fx *t, bool fresh)
{
    int bad = 0;

    fx_unchecked(t);
    for (size_t k = 0; k < EMQ_ARRAY_LEN(keys); k++)
        for (size_t a = 0; a < EMQ_ARRAY_LEN(acts); a++) {
            char queue[20];
            (void)snprintf(queue, sizeof queue, "q%zu-%zu", k, a);
            const char *wrong = meet(t, keys[k], acts[a].fn, queue, fresh);
            if (wrong && ++bad)
                fprintf(stderr, "%s, %s: %s\n", keys[k], acts[a].name, wrong);
        }
    CHECK_INT(bad, 0);
}

REDIS_TEST(an_act_that_meets_a_key_of_something_else_names_it_and_has_changed_nothing)
{
    check_all(t, true);
}

REDIS_TEST(an_act_under_which_a_key_becomes_something_elses_names_it_and_has_changed_nothing)
{
    check_all(t, false);
}

REDIS_TEST(a_handle_that_has_met_a_key_of_something_else_changes_nothing_until_it_is_gone)
{
    fx_unchecked(t);
    must_add_id(t, "q", "a");
    must_add_id(t, "q", "b");
    struct place first = {.queue = "q", .held = must_take(t, "q")};
    struct place second = {.queue = "q", .held = must_take(t, "q")};
    DO("SET emq:q:stalled x");
    CHECK_STATUS(act_complete(t, &first), EMQ_E_INVALID);
    CHECK_STATUS(act_complete(t, &second), EMQ_E_INVALID);
    CHECK_DO("0", "LPOS emq:q:active b");
    DO("DEL emq:q:stalled");
    CHECK_STATUS(act_complete(t, &second), EMQ_OK);
}

/* A fresh handle does the act: E_INVALID, the text names the key and what it is. */
static void expect_named(struct fx *t, act_fn act, const char *text)
{
    struct place p = {.queue = "q"};
    CHECK_STATUS(act_afresh(t, act, &p), EMQ_E_INVALID);
    CHECK_TEXT(t->err, text);
}

REDIS_TEST(a_counter_that_holds_no_number_is_named)
{
    static const struct {
        const char *key;
        act_fn act;
    } cases[] = {{"id", act_add}, {"pc", act_add_priority}, {"limiter", act_take_limited}};

    fx_unchecked(t);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        char text[80];
        must_add(t, "q", "x");
        DO("SET emq:q:%s hello", cases[i].key);
        (void)snprintf(text, sizeof text, "\"emq:q:%s\" is a text and not a whole number",
                       cases[i].key);
        expect_named(t, cases[i].act, text);
        CHECK_DO("hello", "GET emq:q:%s", cases[i].key);
        DO("DEL emq:q:%s", cases[i].key);
    }
    /* Totals are no reason to refuse a job. */
    DO("HSET emq:q:meta emq:n:added hello");
    DO("SET emq:q:limiter hello");
    DO("HSET emq:q:meta max 5 duration 1000");
    CHECK_INT(stats(t, "q").limited_ms, 0);
    DO("DEL emq:q:limiter");
    must_add(t, "q", "x");
    CHECK_INT(stats(t, "q").totals.added, 1);
}

static emq_status read_logs(struct fx *t, const struct place *p)
{
    struct emq__logs_req req = {.prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .id = S("waits")};
    struct emq__logs_res res;

    return t->e->ops->logs(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status add_taken_id(struct fx *t, const struct place *p)
{
    struct emq__add_entry en = fx_entry("", "x");

    en.id = S("odd");
    return add_as(t, p, en);
}

static emq_status wait_for_work(struct fx *t, const struct place *p)
{
    emq_str queue = emq_cstr(p->queue);
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &queue, .n = 1, .timeout_ms = 1000};
    struct emq__wait_res res;

    return t->e->ops->wait(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status wait_for_events(struct fx *t, const struct place *p)
{
    (void)p;
    return wait_for_work(t, &(struct place){.queue = "q" EMQ__BELL_EVENTS});
}

static emq_status find_jobs(struct fx *t, const struct place *p)
{
    struct emq__find_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(p->queue), .state = EMQ_WAITING, .limit = 10};
    struct emq__find_res res;

    return t->e->ops->find(t->e, &req, &res, &t->mem, &t->err);
}

static emq_status read_job(struct fx *t, const struct place *p)
{
    emq_str id = S("nope");
    struct emq__jobs_req req = {FX_PREFIX, emq_cstr(p->queue), &id, 1};
    struct emq__jobs_res res;

    return t->e->ops->jobs(t->e, &req, &res, &t->mem, &t->err);
}

REDIS_TEST(a_key_of_a_job_and_one_that_a_wait_or_a_reader_meets_are_named)
{
    fx_unchecked(t);
    must_add_id(t, "q", "waits");
    DO("SET emq:q:waits:logs x");
    expect_named(t, read_logs, "\"emq:q:waits:logs\" is a string and not a list");
    DO("SET emq:q:odd x");
    expect_named(t, add_taken_id, "\"emq:q:odd\" is a string and not a hash");
    DO("LPUSH emq:q:de:dup x");
    expect_named(t, act_add_dedup, "\"emq:q:de:dup\" is a list and not a string");
    DO("DEL emq:q:marker emq:q:events");
    DO("SET emq:q:marker x");
    expect_named(t, wait_for_work, "\"emq:q:marker\" is a string and not a zset");
    DO("DEL emq:q:marker");
    DO("SET emq:q:events x");
    expect_named(t, wait_for_events, "\"emq:q:events\" is a string and not a stream");
    DO("FLUSHDB");
    DO("SET emq:q:meta x");
    expect_named(t, find_jobs, "\"emq:q:meta\" is a string and not a hash");
    expect_named(t, read_job, "\"emq:q:meta\" is a string and not a hash");
}
