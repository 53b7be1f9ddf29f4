/* SPDX-License-Identifier: MIT
 *
 * Bytes in, the same bytes out, whatever they are.
 */
#include "lib/engine_fixture.h"

/* Adds, takes, completes with the same bytes as the result, and reads it all back. */
static void round_trip(struct fx *t, emq_str bytes)
{
    struct emq__add_entry en = fx_entry("q", "");
    enum emq__kind kind = emq__kind_of(bytes);

    en.data = (struct emq__payload){kind, bytes};
    emq_str id = must_add_entry(t, en);
    CHECK_STR_EQ(must_get(t, "q", id)->data.bytes, bytes);
    struct emq__job *j = must_take(t, "q");
    CHECK_STR_EQ(j->id, id);
    CHECK_INT(j->data.kind, kind);
    CHECK_STR_EQ(j->data.bytes, bytes);
    struct emq__settle_entry done = fx_settle(j, EMQ__SETTLE_COMPLETED);
    done.value = en.data;
    CHECK_STATUS(settle(t, j, done).outcome, EMQ_OK);
    fx_reopen(t);
    j = must_get(t, "q", id);
    CHECK_INT(j->data.kind, kind);
    CHECK_STR_EQ(j->data.bytes, bytes);
    CHECK_INT(j->result.kind, kind);
    CHECK_STR_EQ(j->result.bytes, bytes);
}

ENGINE_TEST(all_256_byte_values_come_back)
{
    char all[4096];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)(i & 0xff);
    round_trip(t, emq_strn(all, sizeof all));
}

ENGINE_TEST(nul_bytes_at_start_middle_and_end_come_back)
{
    round_trip(t, emq_strn("\0abc", 4));
    round_trip(t, emq_strn("ab\0cd", 5));
    round_trip(t, emq_strn("abcd\0", 5));
    round_trip(t, emq_strn("\0", 1));
}

ENGINE_TEST(an_empty_payload_comes_back_empty_and_not_absent)
{
    round_trip(t, emq_strn("", 0));
    CHECK_INT(must_get(t, "q", S("1"))->data.kind, EMQ__KIND_TEXT);
}

ENGINE_TEST(json_is_kept_byte_for_byte)
{
    static const char *const texts[] = {
        "null",  "0",  " {\"a\" : 1 } \n", "12345678901234567890.5e-7", "\"\\ud800\"",
        "[]",    "{}", "\"\\u0000\"",      "{\"a\":1,\"a\":2}",         "-0",
        "1e400",
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        round_trip(t, emq_cstr(texts[i]));
}

ENGINE_TEST(text_that_is_no_json_comes_back)
{
    static const char *const texts[] = {"hello", "{\"broken\":", "naïve ✓ 😀", "01", "nul", "'"};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        round_trip(t, emq_cstr(texts[i]));
}

ENGINE_TEST(invalid_utf8_comes_back)
{
    static const char *const texts[] = {"\xff", "\xc3", "ab\xed\xa0\x80 cd",
                                        "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        round_trip(t, emq_cstr(texts[i]));
}

ENGINE_TEST(deep_json_comes_back)
{
    char deep[20000];
    memset(deep, '[', 10000);
    memset(deep + 10000, ']', 10000);
    round_trip(t, emq_strn(deep, sizeof deep));
}

ENGINE_TEST(sizes_around_a_page_come_back)
{
    static const size_t sizes[] = {1, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536};
    char *p = malloc(65536);

    for (size_t i = 0; i < 65536; i++)
        p[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++)
        round_trip(t, emq_strn(p, sizes[i]));
    free(p);
}

ENGINE_TEST(a_megabyte_comes_back)
{
    size_t n = 1024 * 1024;
    char *p = malloc(n);

    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 131 + i / 65521);
    round_trip(t, emq_strn(p, n));
    free(p);
}

ENGINE_TEST(replaced_data_may_grow_and_shrink)
{
    static const size_t sizes[] = {10, 5000, 3, 100000, 0};
    char *p = malloc(100000);

    memset(p, 0xee, 100000);
    must_add(t, "q", "x");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++) {
        struct emq__write_req req = {.prefix = FX_PREFIX,
                                     .queue = S("q"),
                                     .id = S("1"),
                                     .auth.admin = S("root"),
                                     .kind = EMQ__WRITE_DATA};
        struct emq__write_res res;
        req.value.bytes = emq_strn(p, sizes[i]);
        req.value.kind = emq__kind_of(req.value.bytes);
        CHECK_STATUS(FX_CALL(t, write, &req, &res), EMQ_OK);
        struct emq__job *j = must_get(t, "q", S("1"));
        CHECK_INT(j->data.kind, req.value.kind);
        CHECK_STR_EQ(j->data.bytes, req.value.bytes);
    }
    free(p);
    CHECK_INT(dump(t, "q").stray, 0);
}

ENGINE_TEST(a_failure_with_any_text_is_recorded)
{
    static const char *const reasons[] = {"💥 kaputt", "line\nline\ttab", "\"quoted\" <b>&amp;</b>",
                                          "\x1b[31mred"};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(reasons); i++) {
        must_add(t, "q", "x");
        struct emq__job *j = must_take(t, "q");
        fail_ok(t, j, reasons[i]);
        CHECK_STR(must_get(t, "q", j->id)->failed_reason, reasons[i]);
    }
}

ENGINE_TEST(a_failure_with_a_megabyte_of_reason_is_recorded)
{
    size_t n = 1024 * 1024;
    char *p = malloc(n + 1);

    memset(p, 'r', n);
    p[n] = '\0';
    must_add(t, "q", "x");
    struct emq__job *j = must_take(t, "q");
    fail_ok(t, j, p);
    CHECK_INT(must_get(t, "q", j->id)->failed_reason.len, n);
    free(p);
}

ENGINE_TEST(options_that_cannot_be_read_do_not_stop_the_queue)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("{\"attempts\":");
    must_add_entry(t, en);
    must_add(t, "q", "good");
    struct emq__job *j = must_take(t, "q");
    fail_ok(t, j, "undecodable options");
    CHECK_STR(must_take(t, "q")->data.bytes, "good");
    CHECK_STR(must_get(t, "q", S("1"))->opts, "{\"attempts\":");
}

ENGINE_TEST(options_that_cannot_be_read_do_not_stop_the_sweep)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("no json at all");
    must_add_entry(t, en);
    must_take(t, "q");
    advance(t, FX_LOCK_MS + 1000);
    CHECK_INT(sweep(t, "q", 0).n_failed, 1);
    CHECK_STATE(t, "q", S("1"), EMQ_FAILED_STATE);
}
