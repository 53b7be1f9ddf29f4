/* SPDX-License-Identifier: MIT
 *
 * Job options: checks of what a caller gives, and the stored JSON, written and read.
 */
#include "model/opts.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"
#include "model_expect.h"

#include <math.h>

#define DAY_MS INT64_C(86400000)

static emq_status read_public(const emq_add_opts *in, struct emq__opts *out, emq_error *err)
{
    emq_str id, name;

    return emq__opts_from_public(in, out, &id, &name, err);
}

/* Padding must not decide: each field is compared. */
static void check_same(const struct emq__opts *a, const struct emq__opts *b)
{
    CHECK_INT(a->backoff.type, b->backoff.type);
    CHECK_INT(a->backoff.delay_ms, b->backoff.delay_ms);
    CHECK_INT(a->backoff.max_ms, b->backoff.max_ms);
    CHECK(memcmp(&a->backoff.jitter, &b->backoff.jitter, sizeof a->backoff.jitter) == 0);
    CHECK_INT(a->keep_completed.count, b->keep_completed.count);
    CHECK_INT(a->keep_completed.age_ms, b->keep_completed.age_ms);
    CHECK_INT(a->keep_failed.count, b->keep_failed.count);
    CHECK_INT(a->keep_failed.age_ms, b->keep_failed.age_ms);
    CHECK_STR_EQ(a->dedup.id, b->dedup.id);
    CHECK_INT(a->dedup.ttl_ms, b->dedup.ttl_ms);
    CHECK_INT(a->dedup.extend, b->dedup.extend);
    CHECK_INT(a->dedup.replace, b->dedup.replace);
    CHECK_INT(a->dedup.keep_last, b->dedup.keep_last);
    CHECK_STR_EQ(a->group, b->group);
    CHECK_INT(a->delay_ms, b->delay_ms);
    CHECK_INT(a->timestamp_at_ms, b->timestamp_at_ms);
    CHECK_INT(a->timeout_ms, b->timeout_ms);
    CHECK_INT(a->keep_logs, b->keep_logs);
    CHECK_INT(a->stack_limit, b->stack_limit);
    CHECK_INT(a->attempts, b->attempts);
    CHECK_INT(a->priority, b->priority);
    CHECK_INT(a->lifo, b->lifo);
}

EMQ_TEST(options_left_out_get_the_defaults)
{
    struct emq__opts o;
    emq_add_opts empty = {.size = sizeof empty};
    emq_str id, name;

    for (int pass = 0; pass < 2; pass++) {
        CHECK_STATUS(emq__opts_from_public(pass ? &empty : NULL, &o, &id, &name, NULL), EMQ_OK);
        CHECK_INT(id.len, 0);
        CHECK_STR(name, "__default__");
        CHECK_INT(o.attempts, 3);
        CHECK_INT(o.backoff.type, EMQ_BACKOFF_EXPONENTIAL);
        CHECK_INT(o.backoff.delay_ms, 1000);
        CHECK_INT(o.backoff.max_ms, 3600000);
        CHECK(o.backoff.jitter > 0.24999 && o.backoff.jitter < 0.25001);
        CHECK_INT(o.keep_completed.count, 1000);
        CHECK_INT(o.keep_completed.age_ms, DAY_MS);
        CHECK_INT(o.keep_failed.count, 10000);
        CHECK_INT(o.keep_failed.age_ms, 30 * DAY_MS);
        CHECK_INT(o.keep_logs, 1000);
        CHECK_INT(o.stack_limit, 10);
        CHECK_INT(o.timeout_ms, 0);
        CHECK_INT(o.delay_ms, 0);
    }
}

EMQ_TEST(options_hold_delays_of_30_days_400_days_and_100_years)
{
    static const int64_t delays[] = {30 * DAY_MS, 400 * DAY_MS, 36525 * DAY_MS};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(delays); i++) {
        emq_add_opts in = {sizeof in, .delay_ms = delays[i]};
        struct emq__opts o;
        emq_error err = {0};
        CHECK_STATUS_ERR(read_public(&in, &o, &err), EMQ_OK, &err);
        CHECK_INT(o.delay_ms, delays[i]);
    }
}

EMQ_TEST(options_keep_rules_combine_count_and_age)
{
    static const struct {
        int64_t count, ms, want_count, want_ms;
    } table[] = {
        {0, 0, 1000, DAY_MS},     {0, 5000, 1000, 5000},    {50, 0, 50, 0},
        {50, 5000, 50, 5000},     {EMQ_KEEP_ALL, 0, -1, 0}, {EMQ_KEEP_ALL, 5000, -1, 5000},
        {EMQ_KEEP_NONE, 0, 0, 0},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        emq_add_opts in = {sizeof in, .keep_completed_count = table[i].count,
                           .keep_completed_ms = table[i].ms};
        struct emq__opts o;
        CHECK_STATUS(read_public(&in, &o, NULL), EMQ_OK);
        CHECK_INT(o.keep_completed.count, table[i].want_count);
        CHECK_INT(o.keep_completed.age_ms, table[i].want_ms);
        CHECK_INT(o.keep_failed.count, 10000);
    }
}

EMQ_TEST(options_default_backoff_takes_a_longer_delay_than_its_cap)
{
    emq_add_opts in = {sizeof in, .backoff_ms = 2 * 3600000};
    struct emq__opts o;

    CHECK_STATUS(read_public(&in, &o, NULL), EMQ_OK);
    CHECK_INT(o.backoff.delay_ms, 7200000);
    CHECK_INT(o.backoff.max_ms, 7200000);
    in = (emq_add_opts){sizeof in, .backoff_type = EMQ_BACKOFF_FIXED};
    CHECK_STATUS(read_public(&in, &o, NULL), EMQ_OK);
    CHECK_INT(o.backoff.delay_ms, 1000);
    CHECK_INT(o.backoff.max_ms, 0);
}

/* Each entry breaks one rule. */
#define BAD(value, rule, ...)                                \
    {                                                        \
        {sizeof(emq_add_opts), __VA_ARGS__}, (value), (rule) \
    }
#define S(text)                  \
    {                            \
        (text), sizeof(text) - 1 \
    }

EMQ_TEST(options_out_of_range_are_refused_with_value_and_range)
{
    static const struct {
        emq_add_opts in;
        const char *value, *rule;
    } bad[] = {
        BAD("delay -1", "0..3155760000000", .delay_ms = -1),
        BAD("delay 3155760000001", "100 years", .delay_ms = EMQ__SPAN_MAX_MS + 1),
        BAD("delay 9223372036854775807", "100 years", .delay_ms = INT64_MAX),
        BAD("timeout -5", "0..3155760000000", .timeout_ms = -5),
        BAD("timestamp -1", "0..253402300799999", .timestamp_at_ms = -1),
        BAD("timestamp 253402300800000", "0..253402300799999",
            .timestamp_at_ms = INT64_C(253402300800000)),
        BAD("priority -1", "0..2097151", .priority = -1),
        BAD("priority 2097152", "0..2097151", .priority = 2097152),
        BAD("attempts -1", "0..2147483647", .attempts = -1),
        BAD("lifo 2", "0..1", .lifo = 2),
        BAD("keep logs -1", "0..2147483647", .keep_logs = -1),
        BAD("dedup mode 4", "0..3", .dedup_id = S("d"), .dedup_mode = 4),
        BAD("dedup mode -1", "0..3", .dedup_id = S("d"), .dedup_mode = -1),
        BAD("dedup ttl -1", "0..3155760000000", .dedup_id = S("d"), .dedup_ttl_ms = -1),
        BAD("without a dedup id", NULL, .dedup_ttl_ms = 5),
        BAD("without a dedup id", NULL, .dedup_mode = EMQ_DEDUP_REPLACE),
        BAD("extend", "1..3155760000000", .dedup_id = S("d"), .dedup_mode = EMQ_DEDUP_EXTEND),
        BAD("5 ms", "keep-last", .dedup_id = S("d"), .dedup_mode = EMQ_DEDUP_KEEP_LAST,
            .dedup_ttl_ms = 5),
        BAD("backoff type 4", "0..3", .backoff_type = 4),
        BAD("backoff type -1", "0..3", .backoff_type = -1),
        BAD("backoff delay -1", "0..3155760000000", .backoff_ms = -1),
        BAD("backoff max -1", "0..3155760000000", .backoff_max_ms = -1),
        BAD("backoff jitter 1.5", "0..1", .backoff_type = 2, .backoff_jitter = 1.5),
        BAD("backoff jitter -0.5", "0..1", .backoff_type = 2, .backoff_jitter = -0.5),
        BAD("backoff jitter nan", "0..1", .backoff_type = 2, .backoff_jitter = NAN),
        BAD("backoff jitter inf", "0..1", .backoff_type = 2, .backoff_jitter = INFINITY),
        BAD("backoff jitter 0.5", "without a backoff type", .backoff_jitter = 0.5),
        BAD("7 ms", "none", .backoff_type = EMQ_BACKOFF_NONE, .backoff_ms = 7),
        BAD("(0.5)", "none", .backoff_type = EMQ_BACKOFF_NONE, .backoff_jitter = 0.5),
        BAD("backoff max 500 ms", "1000 ms", .backoff_max_ms = 500),
        BAD("keep completed -3", "EMQ_KEEP_ALL", .keep_completed_count = -3),
        BAD("keep failed 9007199254740992", "1..9007199254740991",
            .keep_failed_count = INT64_C(9007199254740992)),
        BAD("keep completed -1 ms", "0..3155760000000", .keep_completed_ms = -1),
        BAD("5 ms", "none", .keep_failed_count = EMQ_KEEP_NONE, .keep_failed_ms = 5),
        BAD("\"12\"", "digits", .id = S("12")),
        BAD("\"a:b\"", "exactly two", .id = S("a:b")),
        BAD("job name", "0x0a", .name = S("a\nb")),
        BAD("group", "UTF-8", .group = S("\xff")),
        BAD("dedup id", "UTF-8", .dedup_id = S("\xff")),
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__opts o = {.attempts = 77};
        emq_error err = {0};
        expect_refused(read_public(&bad[i].in, &o, &err), &err, bad[i].value, bad[i].value,
                       bad[i].rule);
        CHECK_INT(o.attempts, 77);
    }
}

EMQ_TEST(options_take_every_limit_itself)
{
    static const emq_add_opts good[] = {
        {sizeof good[0], .delay_ms = EMQ__SPAN_MAX_MS, .timeout_ms = EMQ__SPAN_MAX_MS},
        {sizeof good[0], .timestamp_at_ms = INT64_C(253402300799999), .priority = EMQ_PRIORITY_MAX},
        {sizeof good[0], .attempts = INT32_MAX, .keep_logs = INT32_MAX, .lifo = 1},
        {sizeof good[0], .backoff_type = 3, .backoff_ms = EMQ__SPAN_MAX_MS,
         .backoff_max_ms = EMQ__SPAN_MAX_MS, .backoff_jitter = 1},
        {sizeof good[0], .keep_failed_count = INT64_C(9007199254740991),
         .keep_failed_ms = EMQ__SPAN_MAX_MS},
        {sizeof good[0], .dedup_id = S("d"), .dedup_ttl_ms = EMQ__SPAN_MAX_MS,
         .dedup_mode = EMQ_DEDUP_EXTEND},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(good); i++) {
        struct emq__opts o;
        emq_error err = {0};
        CHECK_STATUS_ERR(read_public(&good[i], &o, &err), EMQ_OK, &err);
    }
}

/* ---- the struct's size -------------------------------------------------------------------- */

EMQ_TEST(options_of_an_older_caller_are_shorter_and_the_rest_is_default)
{
    for (size_t size = offsetof(emq_add_opts, delay_ms); size < sizeof(emq_add_opts); size += 8) {
        emq_add_opts in;
        struct emq__opts o;
        emq_error err = {0};
        memset(&in, 0xee, sizeof in); /* what lies behind a short struct is not ours to read */
        memset(&in, 0, size);
        in.size = size;
        in.name = emq_cstr("mail");
        CHECK_STATUS_ERR(read_public(&in, &o, &err), EMQ_OK, &err);
        CHECK_INT(o.attempts, 3);
        CHECK_INT(o.keep_logs, 1000);
    }
}

EMQ_TEST(options_of_a_newer_caller_pass_while_the_unknown_rest_is_zero)
{
    struct {
        emq_add_opts known;
        int64_t added[4];
    } in = {.known = {sizeof in, .attempts = 9}};
    struct emq__opts o;
    emq_error err = {0};

    CHECK_STATUS_ERR(read_public(&in.known, &o, &err), EMQ_OK, &err);
    CHECK_INT(o.attempts, 9);
    in.added[3] = INT64_MIN;
    emq_status s = read_public(&in.known, &o, &err);
    char known[40];
    snprintf(known, sizeof known, "%zu bytes", sizeof(emq_add_opts));
    expect_refused(s, &err, "longer", "newer version", known);
}

EMQ_TEST(options_with_a_garbage_size_are_refused_unread)
{
    static const size_t sizes[] = {0,
                                   1,
                                   8,
                                   64,
                                   sizeof(emq_add_opts) - 1,
                                   sizeof(emq_add_opts) - 4,
                                   sizeof(emq_add_opts) + 4,
                                   5000,
                                   SIZE_MAX,
                                   SIZE_MAX - 7};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++) {
        size_t size = sizes[i];
        struct emq__opts o;
        emq_error err = {0};
        char text[32];
        snprintf(text, sizeof text, "size %zu ", size);
        /* Only the size may be looked at: the rest of the struct is not there. */
        size_t *alone = malloc(sizeof size);
        assert_non_null(alone);
        *alone = size;
        emq_status s = read_public((const void *)alone, &o, &err);
        free(alone);
        expect_refused(s, &err, text, text, "sizeof(emq_add_opts)");
    }
}

/* ---- JSON --------------------------------------------------------------------------------- */

static emq_str written(struct emq__buf *b, const struct emq__opts *o, const char *custom_id)
{
    emq__buf_init(b, 100000);
    emq__opts_write(o, emq_cstr(custom_id), b);
    CHECK_STATUS(b->failed, EMQ_OK);
    return emq__buf_view(b);
}

EMQ_TEST(options_are_written_with_the_short_names_of_bullmq)
{
    emq_add_opts in = {sizeof in,
                       .dedup_id = S("d"),
                       .group = S("g\"1"),
                       .delay_ms = 5,
                       .priority = 7,
                       .timeout_ms = 9,
                       .timestamp_at_ms = 1700000000000,
                       .dedup_ttl_ms = 5000,
                       .dedup_mode = EMQ_DEDUP_EXTEND,
                       .keep_completed_count = EMQ_KEEP_NONE,
                       .keep_failed_count = EMQ_KEEP_ALL,
                       .lifo = 1,
                       .keep_logs = 5,
                       .attempts = 4};
    struct emq__opts o;
    struct emq__buf b;

    CHECK_STATUS(read_public(&in, &o, NULL), EMQ_OK);
    CHECK_STR(
        written(&b, &o, "my-id"),
        "{\"attempts\":4,\"backoff\":{\"type\":\"exponential\",\"delay\":1000,\"max\":3600000,"
        "\"jitter\":0.25},\"jobId\":\"my-id\",\"delay\":5,\"priority\":7,\"lifo\":true,"
        "\"timestamp\":1700000000000,\"timeout\":9,\"de\":{\"id\":\"d\",\"ttl\":5000,"
        "\"extend\":true},\"group\":\"g\\\"1\",\"removeOnComplete\":true,\"removeOnFail\":false,"
        "\"kl\":5,\"stackTraceLimit\":10}");
    emq__buf_free(&b);
}

EMQ_TEST(options_by_default_say_everything_that_a_node_worker_must_obey)
{
    struct emq__opts o;
    struct emq__buf b;

    CHECK_STATUS(read_public(NULL, &o, NULL), EMQ_OK);
    CHECK_STR(
        written(&b, &o, ""),
        "{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":1000,\"max\":3600000,"
        "\"jitter\":0.25},\"removeOnComplete\":{\"count\":1000,\"age\":86400},"
        "\"removeOnFail\":{\"count\":10000,\"age\":2592000},\"kl\":1000,\"stackTraceLimit\":10}");
    emq__buf_free(&b);
}

static int64_t pick(uint64_t *rnd, int64_t max)
{
    switch (test_random(rnd) % 4) {
    case 0: return 0;
    case 1: return max;
    default: return (int64_t)(test_random(rnd) % (uint64_t)max) >> test_random(rnd) % 40;
    }
}

static void random_keep(uint64_t *rnd, int64_t *count, int64_t *ms)
{
    *count = (int64_t)(test_random(rnd) % 3) - 2;
    if (*count == EMQ_KEEP_DEFAULT)
        *count = pick(rnd, 9007199254740991);
    *ms = *count == EMQ_KEEP_NONE ? 0 : pick(rnd, EMQ__SPAN_MAX_MS);
}

static emq_add_opts random_public(uint64_t *rnd)
{
    static const char *const texts[] = {
        "", "a", "\"q\\uote\\", "\xf0\x9f\x90\x8b \xc2\x85", "a:b%c", "</script>"};
    emq_add_opts in = {.size = sizeof in};

    in.dedup_id = emq_cstr(texts[test_random(rnd) % EMQ_ARRAY_LEN(texts)]);
    in.group = emq_cstr(texts[test_random(rnd) % EMQ_ARRAY_LEN(texts)]);
    in.delay_ms = pick(rnd, EMQ__SPAN_MAX_MS);
    in.timeout_ms = pick(rnd, EMQ__SPAN_MAX_MS);
    in.timestamp_at_ms = pick(rnd, 253402300799999);
    in.priority = (int32_t)pick(rnd, EMQ_PRIORITY_MAX);
    in.attempts = (int32_t)pick(rnd, INT32_MAX);
    in.keep_logs = (int32_t)pick(rnd, INT32_MAX);
    in.lifo = (int32_t)(test_random(rnd) % 2);
    random_keep(rnd, &in.keep_completed_count, &in.keep_completed_ms);
    random_keep(rnd, &in.keep_failed_count, &in.keep_failed_ms);
    if (in.dedup_id.len) {
        in.dedup_mode = (int32_t)(test_random(rnd) % 4);
        if (in.dedup_mode != EMQ_DEDUP_KEEP_LAST)
            in.dedup_ttl_ms = 1 + pick(rnd, EMQ__SPAN_MAX_MS - 1);
    }
    in.backoff_type = (int32_t)(test_random(rnd) % 4);
    if (in.backoff_type != EMQ_BACKOFF_NONE) {
        in.backoff_ms = pick(rnd, EMQ__SPAN_MAX_MS / 2);
        in.backoff_max_ms =
            test_random(rnd) % 2 ? 1000 + in.backoff_ms + pick(rnd, EMQ__SPAN_MAX_MS / 4) : 0;
    }
    if (in.backoff_type > EMQ_BACKOFF_NONE)
        in.backoff_jitter = (double)(test_random(rnd) >> 11) / 9007199254740992.0;
    return in;
}

EMQ_TEST(options_survive_writing_and_reading)
{
    uint64_t rnd = test_seed();

    for (int i = 0; i < 5000; i++) {
        emq_add_opts in = random_public(&rnd);
        struct emq__opts o, back;
        struct emq__buf b;
        struct emq__arena mem = {0};
        emq_error err = {0};
        CHECK_STATUS_ERR(read_public(&in, &o, &err), EMQ_OK, &err);
        emq_str json = written(&b, &o, i % 2 ? "id\"\\" : "");
        CHECK(emq__json_valid(json, NULL));
        CHECK(emq__opts_read(json, &mem, &back));
        check_same(&o, &back);
        emq__arena_free(&mem);
        emq__buf_free(&b);
    }
}

static struct emq__opts must_read(struct emq__arena *mem, const char *json)
{
    struct emq__opts o;

    if (!emq__opts_read(emq_cstr(json), mem, &o))
        fail_msg("not read: %s", json);
    return o;
}

EMQ_TEST(options_missing_in_stored_json_have_the_meaning_of_bullmq)
{
    static const char *const none[] = {
        "{}", "", "null", "[]", "3", "{\"attempts\":", "{\"x\":{\"attempts\":9}}"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(none); i++) {
        struct emq__arena mem = {0};
        struct emq__opts o;
        CHECK_INT(emq__opts_read(emq_cstr(none[i]), &mem, &o),
                  none[i][0] == '{' && none[i][strlen(none[i]) - 1] == '}');
        CHECK_INT(o.attempts, 1);
        CHECK_INT(o.backoff.type, EMQ_BACKOFF_NONE);
        CHECK_INT(o.keep_completed.count, -1);
        CHECK_INT(o.keep_completed.age_ms, 0);
        CHECK_INT(o.keep_failed.count, -1);
        CHECK_INT(o.keep_logs, -1);
        CHECK_INT(o.stack_limit, -1);
        CHECK_INT(o.dedup.id.len, 0);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(options_that_node_wrote_are_read)
{
    struct emq__arena mem = {0};
    struct emq__opts o = must_read(
        &mem, "{\"kl\":5,\"jobId\":\"my-id\",\"removeOnComplete\":{\"age\":10,\"count\":5},"
              "\"removeOnFail\":true,"
              "\"backoff\":{\"delay\":500,\"type\":\"fixed\",\"jitter\":0.5},\"attempts\":3,"
              "\"delay\":100000,"
              "\"priority\":5,\"lifo\":true,\"timestamp\":1795967013513,\"stackTraceLimit\":0,"
              "\"de\":{\"id\":\"x\\/"
              "y\",\"ttl\":5000,\"extend\":true,\"replace\":true,\"keepLastIfActive\":true},"
              "\"fpof\":true,\"parent\":{\"id\":\"1\",\"queue\":\"bull:q\"},\"repeat\":{\"every\":"
              "60000},\"tm\":{}}");

    CHECK_INT(o.keep_logs, 5);
    CHECK_INT(o.keep_completed.count, 5);
    CHECK_INT(o.keep_completed.age_ms, 10000);
    CHECK_INT(o.keep_failed.count, 0);
    CHECK_INT(o.backoff.type, EMQ_BACKOFF_FIXED);
    CHECK_INT(o.backoff.delay_ms, 500);
    CHECK(o.backoff.jitter > 0.49 && o.backoff.jitter < 0.51);
    CHECK_INT(o.attempts, 3);
    CHECK_INT(o.delay_ms, 100000);
    CHECK_INT(o.priority, 5);
    CHECK(o.lifo);
    CHECK_INT(o.timestamp_at_ms, 1795967013513);
    CHECK_INT(o.stack_limit, 0);
    CHECK_STR(o.dedup.id, "x/y");
    CHECK_INT(o.dedup.ttl_ms, 5000);
    CHECK(o.dedup.extend && o.dedup.replace && o.dedup.keep_last);
    emq__arena_free(&mem);
}

EMQ_TEST(retention_is_read_in_every_shape_and_its_age_is_in_seconds)
{
    static const struct {
        const char *value;
        int64_t count, age_ms;
    } table[] = {
        {"true", 0, 0},
        {"false", -1, 0},
        {"null", -1, 0},
        {"0", 0, 0},
        {"-1", -1, 0},
        {"25", 25, 0},
        {"{}", -1, 0},
        {"{\"age\":3600}", -1, 3600000},
        {"{\"age\":1.5,\"limit\":7}", -1, 1500},
        {"{\"age\":0.001}", -1, 1},
        {"{\"count\":10}", 10, 0},
        {"{\"count\":0,\"age\":5}", 0, 0},
        {"{\"age\":0}", 0, 0},
        {"{\"age\":1e300}", -1, EMQ__SPAN_MAX_MS},
        {"{\"count\":1e300}", INT64_MAX, 0},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__arena mem = {0};
        char json[128];
        snprintf(json, sizeof json, "{\"removeOnFail\":%s}", table[i].value);
        struct emq__opts o = must_read(&mem, json);
        CHECK_INT(o.keep_failed.count, table[i].count);
        CHECK_INT(o.keep_failed.age_ms, table[i].age_ms);
        CHECK_INT(o.keep_completed.count, -1);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(backoff_is_read_as_a_number_an_object_or_an_unknown_name)
{
    static const struct {
        const char *value;
        int32_t type;
        int64_t delay_ms, max_ms;
    } table[] = {
        {"1500", EMQ_BACKOFF_FIXED, 1500, 0},
        {"1500.9", EMQ_BACKOFF_FIXED, 1500, 0},
        {"0", EMQ_BACKOFF_NONE, 0, 0},
        {"-5", EMQ_BACKOFF_NONE, 0, 0},
        {"null", EMQ_BACKOFF_NONE, 0, 0},
        {"false", EMQ_BACKOFF_NONE, 0, 0},
        {"[]", EMQ_BACKOFF_NONE, 0, 0},
        {"{\"type\":\"fixed\"}", EMQ_BACKOFF_FIXED, 0, 0},
        {"{\"type\":\"exponential\",\"delay\":100,\"max\":500}", EMQ_BACKOFF_EXPONENTIAL, 100, 500},
        {"{\"t\\u0079pe\":\"fi\\u0078ed\",\"delay\":7}", EMQ_BACKOFF_FIXED, 7, 0},
        {"{\"type\":\"custom\",\"delay\":100}", 0, 100, 0},
        {"{\"delay\":100}", 0, 100, 0},
        {"{\"type\":\"fixed\",\"delay\":1e999}", EMQ_BACKOFF_FIXED, EMQ__SPAN_MAX_MS, 0},
        {"{\"type\":\"fixed\",\"delay\":-1e999}", EMQ_BACKOFF_FIXED, 0, 0},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__arena mem = {0};
        char json[128];
        snprintf(json, sizeof json, "{\"backoff\":%s}", table[i].value);
        struct emq__opts o = must_read(&mem, json);
        CHECK_INT(o.backoff.type, table[i].type);
        CHECK_INT(o.backoff.delay_ms, table[i].delay_ms);
        CHECK_INT(o.backoff.max_ms, table[i].max_ms);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(stored_numbers_out_of_range_are_brought_into_it)
{
    struct emq__arena mem = {0};
    struct emq__opts o = must_read(
        &mem, "{\"attempts\":99999999999,\"priority\":-3,\"delay\":1e30,\"timeout\":-1,\"kl\":0,"
              "\"stackTraceLimit\":-5,\"timestamp\":-9,\"lifo\":0}");

    CHECK_INT(o.attempts, INT32_MAX);
    CHECK_INT(o.priority, 0);
    CHECK_INT(o.delay_ms, EMQ__SPAN_MAX_MS);
    CHECK_INT(o.timeout_ms, 0);
    CHECK_INT(o.keep_logs, -1);
    CHECK_INT(o.stack_limit, -1);
    CHECK_INT(o.timestamp_at_ms, 0);
    CHECK(!o.lifo);
    o = must_read(&mem, "{\"attempts\":0,\"attempts\":\"7\",\"de\":{\"id\":12},\"group\":{\"id\":"
                        "\"g\"},\"lifo\":1}");
    CHECK_INT(o.attempts, 7);
    CHECK_STR(o.dedup.id, "12");
    CHECK_STR(o.group, "g");
    CHECK(o.lifo);
    o = must_read(&mem, "{\"attempts\":0}");
    CHECK_INT(o.attempts, 1);
    o = must_read(
        &mem, "{\"attempts\":{},\"delay\":[1],\"de\":7,\"removeOnComplete\":\"x\",\"kl\":null}");
    CHECK_INT(o.attempts, 1);
    CHECK_INT(o.delay_ms, 0);
    CHECK_INT(o.dedup.id.len, 0);
    CHECK_INT(o.keep_completed.count, -1);
    CHECK_INT(o.keep_logs, -1);
    emq__arena_free(&mem);
}

/* ---- texts -------------------------------------------------------------------------------- */

EMQ_TEST(backoff_text_is_read)
{
    static const struct {
        const char *text;
        int32_t type;
        int64_t delay_ms, max_ms;
        double jitter;
    } table[] = {
        {"none", EMQ_BACKOFF_NONE, 0, 0, 0},
        {"fixed:5s", EMQ_BACKOFF_FIXED, 5000, 0, 0},
        {"exponential:1s,max=1h,jitter=0.25", EMQ_BACKOFF_EXPONENTIAL, 1000, 3600000, 0.25},
        {"exponential:1s,jitter=1,max=1s", EMQ_BACKOFF_EXPONENTIAL, 1000, 1000, 1},
        {"fixed:1h30m,jitter=0", EMQ_BACKOFF_FIXED, 5400000, 0, 0},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__backoff b = {0};
        emq_add_opts in = {.size = sizeof in};
        struct emq__opts o;
        emq_error err = {0};
        CHECK_STATUS_ERR(emq__backoff_parse(emq_cstr(table[i].text), &b, &err), EMQ_OK, &err);
        emq__backoff_to_public(&b, &in);
        CHECK_STATUS_ERR(read_public(&in, &o, &err), EMQ_OK, &err);
        CHECK_INT(o.backoff.type, table[i].type);
        CHECK_INT(o.backoff.delay_ms, table[i].delay_ms);
        CHECK_INT(o.backoff.max_ms, table[i].max_ms);
        CHECK(memcmp(&o.backoff.jitter, &table[i].jitter, sizeof(double)) == 0);
    }
}

EMQ_TEST(backoff_text_is_refused_with_the_value_and_the_form)
{
    static const struct {
        const char *text, *value, *rule;
    } bad[] = {
        {"", "\"\"", "TYPE:DELAY"},
        {"fixed", "\"fixed\"", "TYPE:DELAY"},
        {"None", "\"None\"", "TYPE:DELAY"},
        {"none:1s", "\"none:1s\"", "TYPE:DELAY"},
        {"linear:1s", "\"linear:1s\"", "TYPE:DELAY"},
        {"fixed:", "empty", "30s"},
        {"fixed:5", "\"5\"", "unit"},
        {"fixed:0", "\"fixed:0\"", "none"},
        {"fixed:37000d", "\"37000d\"", "100 years"},
        {"fixed:5s,", "\"fixed:5s,\"", "max=D"},
        {"fixed:5s,cap=1h", "\"cap=1h\"", "max=D"},
        {"fixed:5s,max", "\"max\"", "max=D"},
        {"fixed:5s,max=", "empty", "30s"},
        {"fixed:5s,max=4s", "\"fixed:5s,max=4s\"", "below"},
        {"fixed:5s,max=6s,max=7s", "max", "twice"},
        {"fixed:5s,jitter=0,jitter=0", "jitter", "twice"},
        {"fixed:5s,jitter=1.1", "\"1.1\"", "0..1"},
        {"fixed:5s,jitter=-0.1", "\"-0.1\"", "0..1"},
        {"fixed:5s,jitter=0,5", "\"5\"", "max=D"},
        {"fixed:5s,jitter=nan", "\"nan\"", "0..1"},
        {"fixed:5s,jitter=", "\"\"", "0..1"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__backoff b = {.delay_ms = 7};
        emq_error err = {0};
        expect_refused(emq__backoff_parse(emq_cstr(bad[i].text), &b, &err), &err, bad[i].text,
                       bad[i].value, bad[i].rule);
        CHECK_INT(b.delay_ms, 7);
    }
}

EMQ_TEST(dedup_mode_text_is_one_of_four)
{
    int32_t mode = -1;
    emq_error err = {0};

    CHECK_STATUS(emq__dedup_mode_parse(emq_cstr("simple"), &mode, NULL), EMQ_OK);
    CHECK_INT(mode, EMQ_DEDUP_SIMPLE);
    CHECK_STATUS(emq__dedup_mode_parse(emq_cstr("keep-last"), &mode, NULL), EMQ_OK);
    CHECK_INT(mode, EMQ_DEDUP_KEEP_LAST);
    expect_refused(emq__dedup_mode_parse(emq_cstr("last"), &mode, &err), &err, "last", "\"last\"",
                   "simple, extend, replace or keep-last");
}
