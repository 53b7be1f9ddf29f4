/* SPDX-License-Identifier: MIT
 *
 * Out of memory: for each act of the SQLite engine the first, second, … allocation fails in turn. The
 * act then fails and says so, nothing of it has happened, and the same call succeeds afterwards.
 */
#include "lib/engine_fixture.h"
#include "lib/failmalloc.h"

#include "base/buf.h"
#include "engine/redis/effect.h"
#include "engine/sqlite/effect.h"

struct nomem_case {
    const char *name;
    emq_status (*run)(struct emq__engine *e, struct emq__arena *mem, emq_error *err);
};

/* Names of the hand-outs that the setup made; set before each run. */
static emq_str live_token, kept_token;

static void claim_step(struct fx *t, const char *id, emq_str token, const char *step)
{
    struct emq__mark_req req = {.prefix = FX_PREFIX,
                                .queue = S("q"),
                                .id = S(id),
                                .auth.token = token,
                                .kind = EMQ__MARK_CLAIM,
                                .step = S(step),
                                .fingerprint = S("f"),
                                .keep_ms = 3600000};
    struct emq__mark_res res;

    CHECK_STATUS(FX_CALL(t, mark, &req, &res), EMQ_OK);
}

/* A queue with everything in it. Jobs: 1 active, 2 active and owner of a kept next, 3 completed,
 * 4 failed, 5 active with an ended lock, then waiting, delayed and due, prioritized ones. */
static void set_up(struct fx *t)
{
    struct emq__add_entry staged = fx_entry("q", "staged");
    const struct emq__add_entry *list[] = {&staged, &staged};
    struct emq__add_req req = {.entries = list, .n = 2, .stage = S("s")};
    struct emq__add_res res;
    struct emq__dedup keep = {.id = S("k"), .keep_last = true};
    struct emq__take brief = fx_take(1);
    struct emq__job *j;

    brief.lock_ms = 1000;
    must_add(t, "q", "one");
    live_token = must_take(t, "q")->token;
    claim_step(t, "1", live_token, "claimed");
    add_dedup(t, "q", keep);
    kept_token = must_take(t, "q")->token;
    must_add(t, "q", "three");
    settle_ok(t, must_take(t, "q"));
    must_add(t, "q", "four");
    j = must_take(t, "q");
    claim_step(t, "4", j->token, "parked");
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.stack = S("trace");
    settle(t, j, en);
    must_add(t, "q", "five");
    take_with(t, "q", brief);
    add_dedup(t, "q", keep);
    must_add(t, "q", "{\"big\":\"waiting\"}");
    must_add(t, "q", "waiting");
    must_add_delayed(t, "q", 2000);
    must_add_delayed(t, "q", 500000);
    must_add_priority(t, "q", 3);
    write_job(t, "q", S("1"), (struct emq__auth){.admin = S("root")}, EMQ__WRITE_LOG, "line", -1);
    must_meta(t, "q", "concurrency", "50");
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    advance(t, 5000);
}

/* What an act could have changed, as text. */
static emq_str picture(struct fx *t)
{
    struct emq__buf b;
    struct emq__dump_res d = dump(t, "q");
    char cursor[] = "";

    emq__buf_init(&b, 1 << 20);
    for (size_t i = 0; i < d.n; i++)
        emq__buf_printf(&b, "%.*s:%d:%d:%d:%d:%d:%d:%.*s:%.*s:%zu\n", EMQ_STR_ARG(d.jobs[i]->id),
                        (int)d.jobs[i]->state, (int)d.jobs[i]->priority,
                        (int)d.jobs[i]->attempts_made, (int)d.jobs[i]->attempts_started,
                        (int)d.jobs[i]->stalled, (int)d.jobs[i]->cancel,
                        EMQ_STR_ARG(d.jobs[i]->token), EMQ_STR_ARG(d.jobs[i]->progress),
                        d.jobs[i]->data.bytes.len);
    for (size_t i = 0; i < d.n_dedup; i++)
        emq__buf_printf(&b, "%.*s=%.*s %d\n", EMQ_STR_ARG(d.dedup[i].id),
                        EMQ_STR_ARG(d.dedup[i].owner), (int)d.dedup[i].has_next);
    struct emq__markers_req markers = {.prefix = FX_PREFIX, .queue = S("q"), .limit = 100};
    struct emq__markers_res known;
    CHECK_STATUS(FX_CALL(t, markers, &markers, &known), EMQ_OK);
    for (size_t i = 0; i < known.n; i++)
        emq__buf_printf(&b, "%.*s/%.*s %d %.*s\n", EMQ_STR_ARG(known.markers[i].id),
                        EMQ_STR_ARG(known.markers[i].step), (int)known.markers[i].state,
                        EMQ_STR_ARG(known.markers[i].result.bytes));
    emq__buf_printf(&b, "%lld %lld %lld %lld %lld\n%s", (long long)d.id_counter,
                    (long long)d.last_fence, (long long)d.stats.totals.added,
                    (long long)d.stats.totals.removed, (long long)d.stray,
                    events_after(t, "q", cursor));
    emq_str s = emq__arena_str(&t->mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return s;
}

#define QUEUE      .prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("q")
#define QUEUE_INIT .prefix = EMQ_STR_INIT("emq"), .queue = EMQ_STR_INIT("q")
#define RECEIPT    .call = {EMQ_STR_LIT("session"), 1}
#define CASE(case_name, act, ...)                                                     \
    static emq_status case_##case_name(struct emq__engine *e, struct emq__arena *mem, \
                                       emq_error *err)                                \
    {                                                                                 \
        struct emq__##act##_res res;                                                  \
        struct emq__##act##_req req = {__VA_ARGS__};                                  \
        return e->ops->act(e, &req, &res, mem, err);                                  \
    }

static const struct emq__add_entry plain = {QUEUE_INIT, .name = EMQ_STR_INIT("job"),
                                            .data = {EMQ__KIND_TEXT, EMQ_STR_INIT("x")},
                                            .opts = EMQ_STR_INIT("{}")};
static const struct emq__add_entry rich = {QUEUE_INIT,
                                           .id = EMQ_STR_INIT("custom"),
                                           .name = EMQ_STR_INIT("job"),
                                           .data = {EMQ__KIND_BYTES, EMQ_STR_INIT("\xff")},
                                           .opts = EMQ_STR_INIT("{\"attempts\":2}"),
                                           .group = EMQ_STR_INIT("g"),
                                           .dedup = {.id = EMQ_STR_INIT("k2"), .ttl_ms = 1000},
                                           .delay_ms = 1000,
                                           .priority = 2};
static const struct emq__add_entry kept = {
    QUEUE_INIT, .name = EMQ_STR_INIT("job"), .data = {EMQ__KIND_TEXT, EMQ_STR_INIT("x")},
    .opts = EMQ_STR_INIT("{}"), .dedup = {.id = EMQ_STR_INIT("k"), .keep_last = true}};
static const struct emq__add_entry *const entries[] = {&plain, &rich, &plain};
static const struct emq__add_entry *const kept_entry[] = {&kept};

CASE(add, add, RECEIPT, .entries = entries, .n = 3)
CASE(add_kept, add, .entries = kept_entry, .n = 1)
CASE(stage, add, .entries = entries, .n = 3, .stage = EMQ_STR_LIT("s"))
CASE(publish, publish, RECEIPT, .prefix = EMQ_STR_LIT("emq"), .stage = EMQ_STR_LIT("s"))
CASE(take, take, RECEIPT, QUEUE, .take = {.worker = EMQ_STR_LIT("w"), .lock_ms = 30000, .count = 3})
CASE(pop, take, RECEIPT, QUEUE,
     .take = {
         .worker = EMQ_STR_LIT("w"), .lock_ms = 30000, .count = 2, .mode = EMQ_FIRE_AND_FORGET})
CASE(sweep, sweep, QUEUE, .max_stalled = 3, .limit = 100)
CASE(sweep_fails, sweep, QUEUE, .max_stalled = 0, .limit = 100)
CASE(promote, promote, QUEUE, .limit = 100)
CASE(log, write, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__WRITE_LOG, .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("line")}, .keep = 1)
CASE(progress, write, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__WRITE_PROGRESS, .value = {EMQ__KIND_JSON, EMQ_STR_LIT("{\"at\":1}")})
CASE(data, write, QUEUE, .id = EMQ_STR_LIT("1"), .auth.admin = EMQ_STR_LIT("root"),
     .kind = EMQ__WRITE_DATA, .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("other data")})
CASE(bulk_remove, bulk, RECEIPT, QUEUE, .change.kind = EMQ__CHANGE_REMOVE, .state = EMQ_WAITING,
     .limit = 10, .event = true)
CASE(bulk_retry, bulk, QUEUE, .change = {.kind = EMQ__CHANGE_RETRY, .admin = EMQ_STR_LIT("root")},
     .state = EMQ_FAILED_STATE, .limit = 10)
CASE(obliterate, obliterate, QUEUE, .force = true, .limit = 1000)
CASE(dedup, dedup, QUEUE, .dedup_id = EMQ_STR_LIT("k"), .release = true)
CASE(claims, claims, .prefix = EMQ_STR_LIT("emq"), .worker = EMQ_STR_LIT("w"))
CASE(find, find, QUEUE, .state = EMQ_WAITING, .limit = 10)
CASE(queues, queues, .prefix = EMQ_STR_LIT("emq"))
CASE(logs, logs, QUEUE, .id = EMQ_STR_LIT("1"))
CASE(events, events, QUEUE, .after = EMQ_STR_LIT(""), .limit = 100)
CASE(history, history, QUEUE, .id = EMQ_STR_LIT("1"))
CASE(dump, dump, QUEUE)
CASE(claim, mark, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__MARK_CLAIM, .step = EMQ_STR_LIT("mail"), .fingerprint = EMQ_STR_LIT("f"),
     .keep_ms = 1000)
CASE(claim_told, mark, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__MARK_CLAIM, .step = EMQ_STR_LIT("claimed"), .keep_ms = 1000)
CASE(claim_lost, mark, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = EMQ_STR_LIT("w:1"),
     .kind = EMQ__MARK_CLAIM, .keep_ms = 1000)
CASE(done, mark, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__MARK_DONE, .step = EMQ_STR_LIT("claimed"),
     .result = {EMQ__KIND_TEXT, EMQ_STR_LIT("result")}, .keep_ms = 1000)
CASE(give_back, mark, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.token = live_token,
     .kind = EMQ__MARK_RELEASE, .step = EMQ_STR_LIT("claimed"))
CASE(resolve, mark, RECEIPT, QUEUE, .id = EMQ_STR_LIT("4"), .auth.admin = EMQ_STR_LIT("root"),
     .kind = EMQ__MARK_SETTLE, .step = EMQ_STR_LIT("parked"), .keep_ms = 1000)
CASE(markers, markers, QUEUE, .limit = 10)
CASE(note, write, RECEIPT, QUEUE, .id = EMQ_STR_LIT("1"), .auth.admin = EMQ_STR_LIT("root"),
     .kind = EMQ__WRITE_NOTE, .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("why")})

static int no_statement(struct sqlite3 *db, void *arg)
{
    (void)db, (void)arg;
    return 0;
}

static emq_status case_effect(struct emq__engine *e, struct emq__arena *mem, emq_error *err)
{
    const struct emq__settle_entry en = {.id = EMQ_STR_LIT("1"),
                                         .auth.token = live_token,
                                         .kind = EMQ__SETTLE_COMPLETED,
                                         .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("result")},
                                         .keep = {.count = -1}};
    const struct emq__effect_req req = {RECEIPT, QUEUE, .entry = &en,
                                        .step = EMQ_STR_LIT("claimed"), .keep_ms = 1000};
    struct emq__effect_res res;

#ifdef EMQ_HAVE_REDIS
    const emq_str words[] = {EMQ_STR_INIT("SET"), EMQ_STR_INIT("mine"), EMQ_STR_INIT("1")};
    const struct emq__redis_command set = {words, 3};
    if (strcmp(e->ops->name, "redis") == 0)
        return emq__redis_effect(e, &req, &set, 1, &res, mem, err);
#endif
    return emq__sqlite_effect(e, &req, no_statement, NULL, 60000, &res, mem, err);
}

static emq_status case_jobs(struct emq__engine *e, struct emq__arena *mem, emq_error *err)
{
    emq_str ids[] = {EMQ_STR_LIT("1"), EMQ_STR_LIT("nobody"), EMQ_STR_LIT("4")};
    struct emq__jobs_req req = {QUEUE, .ids = ids, .n = 3};
    struct emq__jobs_res res;

    return e->ops->jobs(e, &req, &res, mem, err);
}

static emq_status case_meta(struct emq__engine *e, struct emq__arena *mem, emq_error *err)
{
    struct emq__meta_field set = {EMQ_STR_LIT("paused"), EMQ_STR_LIT("1")};
    struct emq__meta_req req = {QUEUE, .admin = EMQ_STR_LIT("root"), .set = &set, .n_set = 1};
    struct emq__meta_res res;

    return e->ops->meta(e, &req, &res, mem, err);
}

static emq_status case_extend(struct emq__engine *e, struct emq__arena *mem, emq_error *err)
{
    struct emq__extend_entry en = {QUEUE, .id = EMQ_STR_LIT("1"), .token = live_token};
    const struct emq__extend_entry *list[] = {&en};
    struct emq__extend_req req = {list, 1, 60000};
    struct emq__extend_res res;

    return e->ops->extend(e, &req, &res, mem, err);
}

static emq_status change_one(struct emq__engine *e, const char *id, enum emq__change_kind kind,
                             struct emq__arena *mem, emq_error *err)
{
    emq_str ids[] = {emq_cstr(id)};
    struct emq__change_req req = {RECEIPT, QUEUE, .ids = ids, .n = 1,
                                  .change = {.kind = kind,
                                             .admin = EMQ_STR_LIT("root"),
                                             .priority = 2,
                                             .delay_ms = 9000,
                                             .effects = EMQ__EFFECTS_REDO}};
    struct emq__change_res res;

    return e->ops->change(e, &req, &res, mem, err);
}

#define CHANGE_CASE(case_name, id, kind)                                              \
    static emq_status case_##case_name(struct emq__engine *e, struct emq__arena *mem, \
                                       emq_error *err)                                \
    {                                                                                 \
        return change_one(e, id, kind, mem, err);                                     \
    }
CHANGE_CASE(remove, "7", EMQ__CHANGE_REMOVE)
CHANGE_CASE(cancel, "7", EMQ__CHANGE_CANCEL)
CHANGE_CASE(cancel_active, "1", EMQ__CHANGE_CANCEL)
CHANGE_CASE(retry, "4", EMQ__CHANGE_RETRY)
CHANGE_CASE(priority, "7", EMQ__CHANGE_PRIORITY)
CHANGE_CASE(delay, "10", EMQ__CHANGE_DELAY)
CHANGE_CASE(promote_one, "10", EMQ__CHANGE_PROMOTE)

static emq_status settle_one(struct emq__engine *e, const char *id, emq_str token,
                             enum emq__settle_kind kind, struct emq__arena *mem, emq_error *err)
{
    struct emq__settle_entry en = {.id = emq_cstr(id),
                                   .auth.token = token,
                                   .kind = kind,
                                   .value = {EMQ__KIND_TEXT, EMQ_STR_LIT("result")},
                                   .reason = EMQ_STR_LIT("reason"),
                                   .stack = EMQ_STR_LIT("trace"),
                                   .keep = {.count = 1, .age_ms = 1000},
                                   .stack_limit = 3,
                                   .max_stalled = 3};
    const struct emq__settle_entry *list[] = {&en};
    struct emq__take next = {.worker = EMQ_STR_LIT("w"), .lock_ms = 30000, .count = 2};
    struct emq__settle_req req = {RECEIPT, QUEUE, .entries = list, .n = 1, .next = &next};
    struct emq__settle_res res;

    return e->ops->settle(e, &req, &res, mem, err);
}

#define SETTLE_CASE(case_name, id, token, kind)                                       \
    static emq_status case_##case_name(struct emq__engine *e, struct emq__arena *mem, \
                                       emq_error *err)                                \
    {                                                                                 \
        return settle_one(e, id, token, kind, mem, err);                              \
    }
SETTLE_CASE(complete, "1", live_token, EMQ__SETTLE_COMPLETED)
SETTLE_CASE(complete_kept, "2", kept_token, EMQ__SETTLE_COMPLETED)
SETTLE_CASE(fail, "1", live_token, EMQ__SETTLE_FAILED)
SETTLE_CASE(again, "1", live_token, EMQ__SETTLE_RETRY)
SETTLE_CASE(release, "1", live_token, EMQ__SETTLE_RELEASE)
SETTLE_CASE(stalled, "1", live_token, EMQ__SETTLE_STALLED)
SETTLE_CASE(refused, "1", EMQ_STR_LIT("w:1"), EMQ__SETTLE_COMPLETED)

/* One run of a case with the nth allocation failing. true: it was reached. */
static bool run_once(const struct nomem_case *c, enum fx_kind kind, size_t nth)
{
    struct fx t = {.kind = kind};
    struct emq__arena mem = {0};
    emq_error err = {0};

    CHECK_STATUS_ERR(fx_open(t.kind, NULL, &t.e, &t.mem, &t.err), EMQ_OK, &t.err);
    set_up(&t);
    emq_str before = picture(&t);
    test_fail_alloc(nth);
    emq_status s = c->run(t.e, &mem, &err);
    bool failed = test_alloc_failed();
    if (!failed && s < 0)
        fail_msg("%s: %s without a failing allocation: %s", c->name, emq_status_name(s), err.text);
    if (failed && s < 0) {
        if (s == EMQ_E_IN_DOUBT)
            fail_msg("%s: allocation %zu left a doubt: %s", c->name, nth, err.text);
        emq_str after = picture(&t);
        if (!emq__str_eq(before, after))
            fail_msg("%s: allocation %zu failed (%s) and yet something changed\n%.*s\n--\n%.*s",
                     c->name, nth, emq_status_name(s), EMQ_STR_ARG(before), EMQ_STR_ARG(after));
        emq__arena_free(&mem);
        s = c->run(t.e, &mem, &err);
        if (s < 0)
            fail_msg("%s: %s after allocation %zu had failed: %s", c->name, emq_status_name(s), nth,
                     err.text);
    }
    emq__arena_free(&mem);
    t.e->ops->close(t.e);
    emq__arena_free(&t.mem);
    return failed;
}

static void run_all(const struct nomem_case *c, enum fx_kind kind)
{
    size_t nth = 1;

    while (run_once(c, kind, nth))
        nth++;
    CHECK(nth > 1); /* an act without an allocation would prove nothing here */
}

#define NOMEM_ENTRY(test_name, case_name, suffix, kind, engine)            \
    EMQ_TEST_ON(engine, test_name##suffix)                                 \
    {                                                                      \
        run_all(&(struct nomem_case){#case_name, case_##case_name}, kind); \
    }
#ifdef EMQ_HAVE_REDIS
#define NOMEM_TEST(test_name, case_name)                                                  \
    NOMEM_ENTRY(test_name, case_name, __sqlite_memory, FX_SQLITE_MEMORY, "sqlite-memory") \
    NOMEM_ENTRY(test_name, case_name, __redis, FX_REDIS, "redis")
#else
#define NOMEM_TEST(test_name, case_name) \
    NOMEM_ENTRY(test_name, case_name, __sqlite_memory, FX_SQLITE_MEMORY, "sqlite-memory")
#endif
NOMEM_TEST(add_without_memory_adds_nothing, add)
NOMEM_TEST(keeping_a_last_duplicate_without_memory_keeps_nothing, add_kept)
NOMEM_TEST(staging_without_memory_stages_nothing, stage)
NOMEM_TEST(publish_without_memory_publishes_nothing, publish)
NOMEM_TEST(take_without_memory_takes_nothing, take)
NOMEM_TEST(fire_and_forget_without_memory_loses_nothing, pop)
NOMEM_TEST(completing_without_memory_leaves_the_job_active, complete)
NOMEM_TEST(completing_an_owner_of_a_kept_next_without_memory_is_all_or_nothing, complete_kept)
NOMEM_TEST(failing_without_memory_leaves_the_job_active, fail)
NOMEM_TEST(retrying_without_memory_leaves_the_job_active, again)
NOMEM_TEST(releasing_without_memory_leaves_the_job_active, release)
NOMEM_TEST(settling_as_stalled_without_memory_leaves_the_job_active, stalled)
NOMEM_TEST(a_refused_settle_without_memory_changes_nothing, refused)
NOMEM_TEST(extend_without_memory_can_be_repeated, extend)
NOMEM_TEST(sweep_without_memory_recovers_nothing, sweep)
NOMEM_TEST(sweep_that_fails_jobs_without_memory_fails_nothing, sweep_fails)
NOMEM_TEST(promote_without_memory_promotes_nothing, promote)
NOMEM_TEST(log_without_memory_writes_nothing, log)
NOMEM_TEST(progress_without_memory_writes_nothing, progress)
NOMEM_TEST(data_without_memory_writes_nothing, data)
NOMEM_TEST(remove_without_memory_removes_nothing, remove)
NOMEM_TEST(cancel_without_memory_cancels_nothing, cancel)
NOMEM_TEST(cancel_of_an_active_job_without_memory_asks_nothing, cancel_active)
NOMEM_TEST(manual_retry_without_memory_retries_nothing, retry)
NOMEM_TEST(change_of_priority_without_memory_changes_nothing, priority)
NOMEM_TEST(change_of_delay_without_memory_changes_nothing, delay)
NOMEM_TEST(manual_promote_without_memory_promotes_nothing, promote_one)
NOMEM_TEST(bulk_remove_without_memory_removes_nothing, bulk_remove)
NOMEM_TEST(bulk_retry_without_memory_retries_nothing, bulk_retry)
NOMEM_TEST(obliterate_without_memory_removes_nothing, obliterate)
NOMEM_TEST(dedup_release_without_memory_releases_nothing, dedup)
NOMEM_TEST(settings_without_memory_are_not_set, meta)
NOMEM_TEST(claims_without_memory_can_be_repeated, claims)
NOMEM_TEST(jobs_without_memory_can_be_repeated, jobs)
NOMEM_TEST(find_without_memory_can_be_repeated, find)
NOMEM_TEST(queues_without_memory_can_be_repeated, queues)
NOMEM_TEST(logs_without_memory_can_be_repeated, logs)
NOMEM_TEST(events_without_memory_can_be_repeated, events)
NOMEM_TEST(history_without_memory_can_be_repeated, history)
NOMEM_TEST(dump_without_memory_can_be_repeated, dump)
NOMEM_TEST(claiming_an_effect_without_memory_claims_nothing, claim)
NOMEM_TEST(a_claim_of_what_is_claimed_without_memory_can_be_repeated, claim_told)
NOMEM_TEST(a_refused_claim_without_memory_changes_nothing, claim_lost)
NOMEM_TEST(an_effect_that_is_done_without_memory_is_done_or_not, done)
NOMEM_TEST(giving_a_claim_back_without_memory_is_done_or_not, give_back)
NOMEM_TEST(resolving_an_effect_without_memory_is_done_or_not, resolve)
NOMEM_TEST(markers_without_memory_can_be_repeated, markers)
NOMEM_TEST(a_note_without_memory_is_not_written, note)
NOMEM_TEST(a_transactional_effect_without_memory_is_all_or_nothing, effect)

static void open_without_memory(enum fx_kind kind)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct emq__engine *e = NULL;
        struct emq__arena mem = {0};
        emq_error err = {0};
        char file[600];
        (void)snprintf(file, sizeof file, "%s/open-%zu.db", test_temp_dir(), nth);
        test_fail_alloc(nth);
        emq_status s = fx_open(kind, file, &e, &mem, &err);
        failed = test_alloc_failed();
        if (s < 0 && !failed)
            fail_msg("open: %s: %s", emq_status_name(s), err.text);
        if (s < 0)
            CHECK_STATUS_ERR(fx_open(kind, file, &e, &mem, &err), EMQ_OK, &err);
        e->ops->close(e);
        emq__arena_free(&mem);
    }
}

EMQ_TEST_ON("sqlite-file", open_without_memory_fails_cleanly_and_then_succeeds)
{
    open_without_memory(FX_SQLITE_FILE);
}

static enum emq__fault no_fault(void *user, const char *act)
{
    (void)user;
    (void)act;
    return EMQ__FAULT_NONE;
}

EMQ_TEST(decorators_without_memory_leave_the_engine_as_it_was)
{
    struct fx t = {.kind = FX_NAIVE};
    struct emq__engine *under;
    struct emq__log log = {0};

    CHECK_STATUS(fx_open(FX_NAIVE, NULL, &t.e, &t.mem, &t.err), EMQ_OK);
    under = t.e;
    test_fail_alloc(1);
    CHECK_STATUS(emq__trace_wrap(&t.e, &log, &t.err), EMQ_E_NOMEM);
    test_fail_alloc(1);
    CHECK_STATUS(emq__fault_wrap(&t.e, no_fault, NULL, &t.err), EMQ_E_NOMEM);
    test_fail_alloc(1);
    CHECK_STATUS(emq__check_wrap(&t.e, NULL, NULL, &t.err), EMQ_E_NOMEM);
    CHECK(test_alloc_failed());
    CHECK(t.e == under);
    t.e->ops->close(t.e);
}
