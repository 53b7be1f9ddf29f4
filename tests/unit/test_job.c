/* SPDX-License-Identifier: MIT
 *
 * A job's record: kind of payload, identity, token, fence, stack traces, and its JSON.
 */
#include "model/job.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "lib/test.h"

#include <inttypes.h>

#define S(text)                  \
    {                            \
        (text), sizeof(text) - 1 \
    }

EMQ_TEST(payload_is_json_text_or_bytes)
{
    CHECK_INT(emq__kind_of(emq_strn(NULL, 0)), EMQ__KIND_TEXT);
    CHECK_INT(emq__kind_of(emq_cstr("{\"a\":1}")), EMQ__KIND_JSON);
    CHECK_INT(emq__kind_of(emq_cstr(" 12 ")), EMQ__KIND_JSON);
    CHECK_INT(emq__kind_of(emq_cstr("null")), EMQ__KIND_JSON);
    CHECK_INT(emq__kind_of(emq_cstr("hello")), EMQ__KIND_TEXT);
    CHECK_INT(emq__kind_of(emq_cstr("{a:1}")), EMQ__KIND_TEXT);
    CHECK_INT(emq__kind_of(emq_strn("a\0b", 3)), EMQ__KIND_TEXT);
    CHECK_INT(emq__kind_of(emq_cstr("\xff\xfe")), EMQ__KIND_BYTES);
    CHECK_INT(emq__kind_of(emq_cstr("\"\xff\"")), EMQ__KIND_BYTES);
    CHECK_INT(emq__kind_of(emq_cstr("\"\xed\xa0\x80\"")), EMQ__KIND_BYTES);
}

static char *identity_redone(emq_str prefix, emq_str queue, emq_str id, int64_t timestamp,
                             int32_t redo)
{
    struct emq__job j = {
        .prefix = prefix, .queue = queue, .id = id, .timestamp_at_ms = timestamp, .redo = redo};
    struct emq__buf b;

    emq__buf_init(&b, 4096);
    emq__job_identity(&j, &b);
    CHECK_STATUS(b.failed, EMQ_OK);
    char *text = emq__str_dup(emq__buf_view(&b));
    assert_non_null(text);
    emq__buf_free(&b);
    return text;
}

static char *identity(emq_str prefix, emq_str queue, emq_str id, int64_t timestamp)
{
    return identity_redone(prefix, queue, id, timestamp, 0);
}

EMQ_TEST(identity_of_a_job_whose_effects_were_asked_for_anew_is_another_one_each_time)
{
    char *a = identity_redone(emq_cstr("emq"), emq_cstr("mail"), emq_cstr("42"), 17, 1);
    char *b = identity_redone(emq_cstr("emq"), emq_cstr("mail"), emq_cstr("42"), 17, 12);

    CHECK_STR(emq_cstr(a), "emq:mail:42:17:1");
    CHECK_STR(emq_cstr(b), "emq:mail:42:17:12");
    free(a);
    free(b);
}

EMQ_TEST(a_detail_is_the_beginning_of_a_text_in_whole_characters)
{
    char text[EMQ__DETAIL_MAX + 8];

    CHECK_STR(emq__detail(emq_cstr("")), "");
    CHECK_STR(emq__detail(emq_cstr("short")), "short");
    memset(text, 'a', sizeof text);
    CHECK_INT(emq__detail(emq_strn(text, EMQ__DETAIL_MAX)).len, EMQ__DETAIL_MAX);
    CHECK_INT(emq__detail(emq_strn(text, EMQ__DETAIL_MAX + 1)).len, EMQ__DETAIL_MAX);
    for (size_t at = 1; at <= 4; at++) { /* a character of four bytes across the end, or at it */
        memcpy(text + EMQ__DETAIL_MAX - at, "\xf0\x9f\x98\x80", 4);
        CHECK_INT(emq__detail(emq_strn(text, sizeof text)).len,
                  at == 4 ? EMQ__DETAIL_MAX : EMQ__DETAIL_MAX - at);
        memset(text, 'a', sizeof text);
    }
}

EMQ_TEST(identity_names_prefix_queue_id_and_creation_time)
{
    char *a = identity(emq_cstr("emq"), emq_cstr("mail"), emq_cstr("42"), 1700000000000);
    char *b = identity(emq_cstr("a:b%"), emq_cstr("q"), emq_cstr("repeat:x:1"), 5);

    CHECK_STR(emq_cstr(a), "emq:mail:42:1700000000000");
    CHECK_STR(emq_cstr(b), "a%3Ab%25:q:repeat%3Ax%3A1:5");
    free(a);
    free(b);
}

EMQ_TEST(identity_is_another_one_for_every_other_job)
{
    static const char *const odd[] = {"",   ":",  "%",   "%3A",   "::", "a:", ":a", "a",
                                      "%:", ":%", "a:b", "a%3Ab", "3A", "1",  ":1"};
    enum { N = EMQ_ARRAY_LEN(odd) };
    struct emq__map seen = {0};
    static int mark;

    for (size_t p = 0; p < N; p++)
        for (size_t q = 0; q < N; q++)
            for (size_t i = 0; i < N; i++)
                for (int64_t t = 1; t < 3; t++) {
                    char *text = identity(emq_cstr(odd[p]), emq_cstr(odd[q]), emq_cstr(odd[i]), t);
                    if (emq__map_get(&seen, emq_cstr(text)))
                        fail_msg("twice: %s", text);
                    CHECK(emq__map_put(&seen, emq_cstr(text), &mark));
                    free(text);
                }
    CHECK_INT(seen.len, 2 * N * N * N);
    emq__map_free(&seen);
}

EMQ_TEST(token_is_worker_and_fence)
{
    char out[EMQ_TOKEN_MAX + 1], name[EMQ_WORKER_NAME_MAX];

    emq__token_format(emq_cstr("host:12:3"), 99, out);
    CHECK_STR(emq_cstr(out), "host:12:3:99");
    memset(name, 'w', sizeof name);
    emq__token_format(emq_strn(name, sizeof name), (INT64_C(1) << 53) - 1, out);
    CHECK_INT(strlen(out), EMQ_WORKER_NAME_MAX + 17);
}

EMQ_TEST(fence_follows_the_clock_and_grows_when_it_stands_or_runs_back)
{
    CHECK_INT(emq__fence_next(0, 1700000000000000), 1700000000000000);
    CHECK_INT(emq__fence_next(1700000000000000, 1700000000000000), 1700000000000001);
    CHECK_INT(emq__fence_next(1700000000000000, 5), 1700000000000001);
    CHECK_INT(emq__fence_next(1700000000000000, -5), 1700000000000001);
    CHECK_INT(emq__fence_next(0, 0), 1);
    CHECK_INT(emq__fence_next(-7, 0), 1);
}

EMQ_TEST(fence_stays_below_2_53_and_always_grows)
{
    const int64_t top = INT64_C(1) << 53;
    uint64_t rnd = test_seed();
    int64_t last = 0;

    CHECK_INT(emq__fence_next(5, INT64_MAX), 6);
    CHECK_INT(emq__fence_next(top - 2, INT64_MAX), top - 1);
    CHECK_INT(emq__fence_next(top - 1, 0), top - 1);
    CHECK_INT(emq__fence_next(INT64_MAX, INT64_MAX), top - 1);
    for (int i = 0; i < 100000; i++) {
        int64_t now = (int64_t)test_random(&rnd) >> test_random(&rnd) % 64;
        int64_t next = emq__fence_next(last, now);
        CHECK(next > last);
        CHECK(next < top);
        last = next;
        if (i % 100 == 0)
            last = (int64_t)(test_random(&rnd) % (uint64_t)(top - 200));
    }
}

static void check_stack(const char *json, const char *trace, int64_t limit, const char *expected)
{
    struct emq__buf b;

    emq__buf_init(&b, 4096);
    emq__stack_append(emq_cstr(json), emq_cstr(trace), limit, &b);
    CHECK_STATUS(b.failed, EMQ_OK);
    CHECK_STR(emq__buf_view(&b), expected);
    emq__buf_free(&b);
}

EMQ_TEST(stack_keeps_the_last_traces_oldest_first)
{
    check_stack("", "one", -1, "[\"one\"]");
    check_stack("[\"one\"]", "two\n\"x\"", -1, "[\"one\",\"two\\n\\\"x\\\"\"]");
    check_stack("[\"1\", \"2\",\"3\"]", "4", 3, "[\"2\",\"3\",\"4\"]");
    check_stack("[\"1\",\"2\",\"3\"]", "4", 1, "[\"4\"]");
    check_stack("[\"1\",\"2\",\"3\"]", "4", 0, "[]");
    check_stack("[\"1\",\"2\",\"3\"]", "", 2, "[\"2\",\"3\"]");
    check_stack("[\"1\"]", "2", 10, "[\"1\",\"2\"]");
    check_stack("{}", "2", 10, "[\"2\"]");
    check_stack("[\"1\"", "2", 10, "[\"2\"]");
    check_stack("[]", "a\xff", 10, "[\"a\xef\xbf\xbd\"]");
}

/* ---- JSON --------------------------------------------------------------------------------- */

static emq_str json_of(struct emq__buf *b, const struct emq__job *j)
{
    emq__buf_init(b, 1 << 20);
    emq__job_json(j, b);
    CHECK_STATUS(b->failed, EMQ_OK);
    CHECK(emq__json_valid(emq__buf_view(b), NULL));
    CHECK(memchr(b->ptr, '\n', b->len) == NULL);
    return emq__buf_view(b);
}

EMQ_TEST(json_of_a_waiting_job_has_the_fixed_keys)
{
    struct emq__job j = {.id = S("7"),
                         .queue = S("mail"),
                         .name = S("send"),
                         .state = EMQ_WAITING,
                         .data = {EMQ__KIND_JSON, S("{\"n\": 1.50}")},
                         .opts = S("{\"attempts\":3}"),
                         .timestamp_at_ms = 1700000000000};
    struct emq__buf b;

    CHECK_STR(
        json_of(&b, &j),
        "{\"id\":\"7\",\"name\":\"send\",\"queue\":\"mail\",\"data\":{\"n\": 1.50},"
        "\"opts\":{\"attempts\":3},\"state\":\"waiting\",\"attemptsMade\":0,\"attemptsStarted\":0,"
        "\"stalledCounter\":0,\"priority\":0,\"delay\":0,\"timestamp\":1700000000000,"
        "\"processedOn\":null,\"finishedOn\":null,\"returnvalue\":null,\"failedReason\":null,"
        "\"progress\":0}");
    emq__buf_free(&b);
}

EMQ_TEST(json_of_a_full_job_has_every_key)
{
    struct emq__job j = {.id = S("7"),
                         .queue = S("mail"),
                         .name = S("send"),
                         .state = EMQ_ACTIVE,
                         .data = {EMQ__KIND_TEXT, S("hi \"you\"\n")},
                         .result = {EMQ__KIND_BYTES, S("\xff\x01")},
                         .failed_reason = S("boom\n"),
                         .stacktrace = S("[\"Error: boom\"]"),
                         .progress = S("{\"x\":1}"),
                         .processed_by = S("wk"),
                         .deferred_failure = S("died"),
                         .dedup_id = S("d"),
                         .group = S("g"),
                         .parent_key = S("emq:q:1"),
                         .parent = S("{\"id\":\"1\"}"),
                         .scheduler = S("sch"),
                         .token = S("wk:5"),
                         .timestamp_at_ms = 1,
                         .delay_ms = 2,
                         .due_at_ms = 3,
                         .processed_at_ms = 4,
                         .finished_at_ms = 5,
                         .lock_left_ms = -6,
                         .fence = 5,
                         .priority = 7,
                         .attempts_made = 8,
                         .attempts_started = 9,
                         .stalled = 10,
                         .mode = EMQ_AT_MOST_ONCE,
                         .cancel = 1};
    struct emq__buf b;

    CHECK_STR(
        json_of(&b, &j),
        "{\"id\":\"7\",\"name\":\"send\",\"queue\":\"mail\",\"data\":\"hi \\\"you\\\"\\n\","
        "\"state\":\"active\",\"attemptsMade\":8,\"attemptsStarted\":9,\"stalledCounter\":10,"
        "\"priority\":7,\"delay\":2,\"dueAt\":3,\"timestamp\":1,\"processedOn\":4,\"finishedOn\":5,"
        "\"processedBy\":\"wk\",\"returnvalue\":\"/wE=\",\"returnvalueEncoding\":\"base64\","
        "\"failedReason\":\"boom\\n\",\"stacktrace\":[\"Error: boom\"],\"progress\":{\"x\":1},"
        "\"deferredFailure\":\"died\",\"deduplicationId\":\"d\",\"group\":\"g\","
        "\"parentKey\":\"emq:q:1\",\"parent\":{\"id\":\"1\"},\"repeatJobKey\":\"sch\",\"fence\":5,"
        "\"lockLeftMs\":-6,\"token\":\"wk:5\",\"mode\":\"at-most-once\",\"cancelRequested\":true}");
    emq__buf_free(&b);
}

EMQ_TEST(json_of_a_finished_job_has_no_token)
{
    struct emq__job j = {.id = S("7"),
                         .name = S("n"),
                         .state = EMQ_COMPLETED_STATE,
                         .token = S("wk:5"),
                         .result = {EMQ__KIND_JSON, S("42")}};
    struct emq__buf b;
    emq_str text = json_of(&b, &j);

    CHECK(strstr(text.ptr, "token") == NULL);
    CHECK(strstr(text.ptr, "\"returnvalue\":42") != NULL);
    CHECK(strstr(text.ptr, "\"data\":null") != NULL);
    emq__buf_free(&b);
}

EMQ_TEST(json_is_one_line_though_the_data_has_line_breaks)
{
    struct emq__job j = {
        .id = S("7"), .name = S("n"), .data = {EMQ__KIND_JSON, S("{\r\n\t\"a\":\n1.0}\n")}};
    struct emq__buf b;

    CHECK(strstr(json_of(&b, &j).ptr, "\"data\":{  \t\"a\": 1.0} ,") != NULL);
    emq__buf_free(&b);
}

EMQ_TEST(json_is_valid_whatever_is_stored)
{
    uint64_t rnd = test_seed();

    for (int i = 0; i < 2000; i++) {
        char noise[24];
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = i % 2 ? (char)test_random(&rnd) : "{}[]\",:\\ 1e\n"[test_random(&rnd) % 12];
        emq_str s = emq_strn(noise, test_random(&rnd) % sizeof noise);
        struct emq__job j = {.id = s,
                             .queue = s,
                             .name = s,
                             .opts = s,
                             .failed_reason = s,
                             .stacktrace = s,
                             .progress = s,
                             .processed_by = s,
                             .parent = s,
                             .group = s,
                             .deferred_failure = s,
                             .token = s,
                             .state = (int32_t)(test_random(&rnd) % 9),
                             .data = {emq__kind_of(s), s},
                             .result = {(enum emq__kind)(test_random(&rnd) % 4), s},
                             .mode = (int32_t)(test_random(&rnd) % 5) - 1};
        struct emq__buf b;
        json_of(&b, &j);
        emq__buf_free(&b);
    }
}
