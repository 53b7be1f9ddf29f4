/* SPDX-License-Identifier: MIT
 *
 * Every act tells the store's clock, so that callers need none of their own.
 */
#include "lib/engine_fixture.h"

#define QUEUE .prefix = FX_PREFIX, .queue = S("q")

/* Sends one act; its result must carry the time, which moved by a day just before. */
#define TELLS(act, ...)                                                       \
    do {                                                                      \
        struct emq__##act##_req req_ = {__VA_ARGS__};                         \
        struct emq__##act##_res res_;                                         \
        memset(&res_, 0, sizeof res_);                                        \
        advance(t, DAY_MS);                                                   \
        floor_ms += DAY_MS;                                                   \
        emq_status s_ = t->e->ops->act(t->e, &req_, &res_, &t->mem, &t->err); \
        if (s_ < 0)                                                           \
            test_check_status(s_, EMQ_OK, #act, __FILE__, __LINE__, &t->err); \
        if (res_.now_ms < floor_ms || res_.now_ms > floor_ms + DAY_MS / 2)    \
            fail_msg("%s: the result says %lld, expected about %lld", #act,   \
                     (long long)res_.now_ms, (long long)floor_ms);            \
        seen++;                                                               \
    } while (0)

static const int64_t DAY_MS = 86400000;

ENGINE_TEST(every_act_tells_the_stores_clock)
{
    enum {
#define COUNT(act, mutating) +1
        ACTS = 0 EMQ__ACTS(COUNT)
#undef COUNT
    };
    int64_t floor_ms = stats(t, "q").now_ms;
    int seen = 0;
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *adds[] = {&en};
    struct emq__settle_entry nobody = {
        .id = S("nobody"), .auth.token = S("w:1"), .kind = EMQ__SETTLE_COMPLETED};
    const struct emq__settle_entry *settles[] = {&nobody};
    struct emq__extend_entry held = {QUEUE, .id = S("1"), .token = S("w:1")};
    const struct emq__extend_entry *extends[] = {&held};
    struct emq__meta_field set = {S("concurrency"), S("9")};
    emq_str q = S("q"), id = S("1");

    TELLS(add, .entries = adds, .n = 1);
    TELLS(publish, .prefix = FX_PREFIX, .stage = S("none"));
    TELLS(take, QUEUE, .take = fx_take(1));
    TELLS(settle, QUEUE, .entries = settles, .n = 1);
    TELLS(extend, .entries = extends, .n = 1, .lock_ms = 1000);
    TELLS(claims, .prefix = FX_PREFIX, .worker = S("w"));
    TELLS(sweep, QUEUE, .max_stalled = 3, .limit = 10);
    TELLS(promote, QUEUE, .limit = 10);
    TELLS(wait, .prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 1);
    TELLS(wake, QUEUE);
    TELLS(write, QUEUE, .id = id, .auth.admin = S("root"), .kind = EMQ__WRITE_LOG,
          .value = {EMQ__KIND_TEXT, S("line")}, .keep = -1);
    TELLS(change, QUEUE, .ids = &id, .n = 1, .change.kind = EMQ__CHANGE_PROMOTE);
    TELLS(bulk, QUEUE, .change.kind = EMQ__CHANGE_REMOVE, .state = EMQ_FAILED_STATE, .limit = 10);
    TELLS(dedup, QUEUE, .dedup_id = S("k"));
    TELLS(meta, QUEUE, .admin = S("root"), .set = &set, .n_set = 1);
    TELLS(jobs, QUEUE, .ids = &id, .n = 1);
    TELLS(stats, QUEUE);
    TELLS(find, QUEUE, .state = EMQ_WAITING, .limit = 10);
    TELLS(queues, .prefix = FX_PREFIX);
    TELLS(logs, QUEUE, .id = id);
    TELLS(events, QUEUE, .limit = 10);
    TELLS(history, QUEUE, .id = id);
    TELLS(dump, QUEUE);
    TELLS(mark, QUEUE, .id = id, .auth.admin = S("root"), .kind = EMQ__MARK_SETTLE,
          .keep_ms = 1000);
    TELLS(markers, QUEUE, .limit = 10);
    struct emq__suspect_ids met = {0};
    struct emq__suspect suspect = {.flaw = S("none"), .key = S("none")};
    TELLS(suspects, QUEUE, .met = &met);
    TELLS(mend, QUEUE, .suspect = &suspect);
    TELLS(facts, .prefix = FX_PREFIX);
    emq__suspects_end(&met);
    TELLS(obliterate, QUEUE, .force = true, .limit = 1000);
    CHECK_INT(seen, ACTS);
}

ENGINE_TEST(an_act_on_an_unknown_queue_tells_it_too)
{
    int64_t floor_ms = stats(t, "q").now_ms;
    int seen = 0;
    struct emq__settle_entry nobody = {
        .id = S("nobody"), .auth.token = S("w:1"), .kind = EMQ__SETTLE_COMPLETED};
    const struct emq__settle_entry *settles[] = {&nobody};
    emq_str id = S("1");

    TELLS(take, QUEUE, .take = fx_take(1));
    TELLS(settle, QUEUE, .entries = settles, .n = 1);
    TELLS(sweep, QUEUE, .max_stalled = 3, .limit = 10);
    TELLS(promote, QUEUE, .limit = 10);
    TELLS(change, QUEUE, .ids = &id, .n = 1, .change.kind = EMQ__CHANGE_PROMOTE);
    TELLS(bulk, QUEUE, .change.kind = EMQ__CHANGE_REMOVE, .state = EMQ_FAILED_STATE, .limit = 10);
    TELLS(dedup, QUEUE, .dedup_id = S("k"));
    TELLS(meta, QUEUE);
    TELLS(jobs, QUEUE, .ids = &id, .n = 1);
    TELLS(stats, QUEUE);
    TELLS(find, QUEUE, .state = EMQ_WAITING, .limit = 10);
    TELLS(logs, QUEUE, .id = id);
    TELLS(events, QUEUE, .limit = 10);
    TELLS(history, QUEUE, .id = id);
    TELLS(mark, QUEUE, .id = id, .auth.admin = S("root"), .kind = EMQ__MARK_SETTLE,
          .keep_ms = 1000);
    TELLS(markers, QUEUE, .limit = 10);
    TELLS(obliterate, QUEUE, .force = true, .limit = 1000);
    CHECK_INT(seen, 17);
}

ENGINE_TEST(a_take_of_long_jobs_ends_behind_eight_megabytes_with_at_least_one)
{
    static const size_t sizes[] = {5 << 20, 5 << 20, 9 << 20, 10, 10};
    static const size_t takes[] = {2, 1, 2, 0};

    if (t->kind == FX_NAIVE)
        return; /* everything is in its memory: it has nothing to bound */
    fx_unchecked(t);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++)
        must_add_long(t, "q", sizes[i]);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(takes); i++)
        CHECK_INT(take_n(t, "q", 100).n, takes[i]);
}

ENGINE_TEST(a_former_owners_log_line_is_not_written)
{
    struct emq__logs_req req = {QUEUE, .id = S("1")};
    struct emq__logs_res res;

    must_add(t, "q", "x");
    struct emq__job *old = must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    sweep(t, "q", 3);
    must_take(t, "q");
    CHECK_STATUS(write_job(t, "q", S("1"), (struct emq__auth){.token = old->token}, EMQ__WRITE_LOG,
                           "zombie", -1),
                 EMQ_LOST);
    CHECK_STATUS(write_job(t, "q", S("1"), (struct emq__auth){.token = old->token},
                           EMQ__WRITE_PROGRESS, "99", -1),
                 EMQ_LOST);
    CHECK_STATUS(FX_CALL(t, logs, &req, &res), EMQ_OK);
    CHECK_INT(res.total, 0);
    CHECK_INT(must_get(t, "q", S("1"))->progress.len, 0);
}
