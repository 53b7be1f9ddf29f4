/* SPDX-License-Identifier: MIT
 *
 * Spans and retention as text.
 */
#include "model/duration.h"

#include "model_expect.h"

static const int64_t second = 1000, minute = 60000, hour = 3600000, day = 86400000;

static int64_t must_parse(const char *text)
{
    int64_t ms = -1;
    emq_error err = {0};

    if (emq__duration_parse(emq_cstr(text), &ms, &err) != EMQ_OK)
        fail_msg("'%s' refused: %s", text, err.text);
    return ms;
}

EMQ_TEST(duration_reads_each_unit_and_their_combinations)
{
    CHECK_INT(must_parse("0"), 0);
    CHECK_INT(must_parse("0s"), 0);
    CHECK_INT(must_parse("1ms"), 1);
    CHECK_INT(must_parse("500ms"), 500);
    CHECK_INT(must_parse("30s"), 30 * second);
    CHECK_INT(must_parse("5m"), 5 * minute);
    CHECK_INT(must_parse("1h30m"), 90 * minute);
    CHECK_INT(must_parse("7d"), 7 * day);
    CHECK_INT(must_parse("2w"), 14 * day);
    CHECK_INT(must_parse("1w1d1h1m1s1ms"), 8 * day + hour + minute + second + 1);
    CHECK_INT(must_parse("90m"), 90 * minute);
    CHECK_INT(must_parse("007s"), 7 * second);
}

EMQ_TEST(duration_reads_a_fraction_of_the_last_part_exactly)
{
    CHECK_INT(must_parse("1.5s"), 1500);
    CHECK_INT(must_parse("0.001s"), 1);
    CHECK_INT(must_parse("1.50000000000000000s"), 1500);
    CHECK_INT(must_parse("1h0.5m"), hour + 30 * second);
    CHECK_INT(must_parse("0.1w"), 604800 * 100);
    CHECK_INT(must_parse("0.0000003125w"), 189);
    CHECK_INT(must_parse("2.0ms"), 2);
}

EMQ_TEST(duration_holds_30_days_400_days_and_100_years)
{
    CHECK_INT(must_parse("30d"), 30 * day);
    CHECK_INT(must_parse("400d"), 400 * day);
    CHECK_INT(must_parse("36525d"), 36525 * day);
    CHECK_INT(must_parse("36525d"), EMQ__SPAN_MAX_MS);
}

EMQ_TEST(duration_refuses_with_the_value_and_a_hint)
{
    static const struct {
        const char *text, *value, *rule;
    } bad[] = {
        {"", "empty", "30s"},
        {"30", "\"30\"", "30s"},
        {"00", "\"00\"", "unit"},
        {"1h30", "\"1h30\"", "30s"},
        {"1.5", "\"1.5\"", "unit"},
        {"-5s", "\"-5s\"", "0..100 years"},
        {"+5s", "\"+5s\"", "offset 0"},
        {"5x", "\"5x\"", "ms, s, m, h, d, w"},
        {"5S", "\"5S\"", "ms, s, m, h, d, w"},
        {"5sec", "\"5sec\"", "ms, s, m, h, d, w"},
        {"5 s", "\"5 s\"", "ms, s, m, h, d, w"},
        {" 5s", "\" 5s\"", "offset 0"},
        {"5s ", "\"5s \"", "offset 2"},
        {"s", "\"s\"", "offset 0"},
        {"1.s", "\"1.s\"", "offset 0"},
        {".5s", "\".5s\"", "offset 0"},
        {"1..5s", "\"1..5s\"", "offset 0"},
        {"30m1h", "\"30m1h\"", "larger units come first"},
        {"1s1s", "\"1s1s\"", "each once"},
        {"1.5h30m", "\"1.5h30m\"", "only the last part"},
        {"1.5ms", "\"1.5ms\"", "whole number of milliseconds"},
        {"0.0001s", "\"0.0001s\"", "whole number of milliseconds"},
        {"0.00000000001w", "w\"", "whole number of milliseconds"},
        {"36526d", "\"36526d\"", "100 years"},
        {"36525d1ms", "\"36525d1ms\"", "100 years"},
        {"9223372036854775807w", "9223372036854775807w", "100 years"},
        {"99999999999999999999999999999999s", "99999999s", "100 years"},
        {"1e3s", "\"1e3s\"", "ms, s, m, h, d, w"},
        {"\xff\n1s", "\"\xef\xbf\xbd?1s\"", "offset 0"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        int64_t ms = -7;
        emq_error err = {0};
        emq_status s = emq__duration_parse(emq_cstr(bad[i].text), &ms, &err);
        expect_refused(s, &err, bad[i].text, bad[i].value, bad[i].rule);
        CHECK_INT(ms, -7);
        CHECK_STATUS(emq__duration_parse(emq_cstr(bad[i].text), &ms, NULL), EMQ_E_INVALID);
    }
}

EMQ_TEST(duration_refuses_a_nul_inside)
{
    int64_t ms;
    emq_error err = {0};

    expect_refused(emq__duration_parse(emq_strn("5s\0", 3), &ms, &err), &err, "5s\\0", "5s?", NULL);
}

EMQ_TEST(duration_format_is_short)
{
    static const struct {
        int64_t ms;
        const char *text;
    } table[] = {
        {0, "0"},
        {1, "1ms"},
        {250, "250ms"},
        {1000, "1s"},
        {1500, "1.5s"},
        {1050, "1.05s"},
        {61001, "1m1.001s"},
        {60001, "1m1ms"},
        {90 * INT64_C(60000), "1h30m"},
        {INT64_C(7) * 86400000, "7d"},
        {EMQ__SPAN_MAX_MS, "36525d"},
        {-1500, "-1.5s"},
        {INT64_MAX, "106751991167d7h12m55.807s"},
        {INT64_MIN, "-106751991167d7h12m55.808s"},
    };
    char out[40];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++)
        CHECK_STR(emq_cstr(emq__duration_format(table[i].ms, out)), table[i].text);
}

EMQ_TEST(duration_format_parses_back)
{
    uint64_t rnd = test_seed();
    char out[40];

    for (int i = 0; i < 20000; i++) {
        int64_t ms = (int64_t)(test_random(&rnd) % ((uint64_t)EMQ__SPAN_MAX_MS + 1));
        ms >>= test_random(&rnd) % 42;
        if (i % 3 == 0)
            ms -= ms % 1000;
        CHECK_INT(must_parse(emq__duration_format(ms, out)), ms);
    }
}

EMQ_TEST(keep_reads_counts_ages_and_both)
{
    static const struct {
        const char *text;
        int64_t count, age_ms;
    } table[] = {
        {"all", -1, 0},
        {"none", 0, 0},
        {"0", 0, 0},
        {"1", 1, 0},
        {"1000", 1000, 0},
        {"7d", -1, INT64_C(7) * 86400000},
        {"1000,7d", 1000, INT64_C(7) * 86400000},
        {"1,1.5s", 1, 1500},
        {"9007199254740991,36525d", INT64_C(9007199254740991), EMQ__SPAN_MAX_MS},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__keep k = {7, 7};
        emq_error err = {0};
        CHECK_STATUS_ERR(emq__keep_parse(emq_cstr(table[i].text), &k, &err), EMQ_OK, &err);
        CHECK_INT(k.count, table[i].count);
        CHECK_INT(k.age_ms, table[i].age_ms);
    }
}

EMQ_TEST(keep_refuses_with_the_value_and_the_forms)
{
    static const struct {
        const char *text, *value, *rule;
    } bad[] = {
        {"", "\"\"", "1000,7d"},
        {"ALL", "\"ALL\"", "all, none"},
        {"-1", "\"-1\"", "1000,7d"},
        {"1000,", "\"1000,\"", "1000,7d"},
        {",7d", "\",7d\"", "1000,7d"},
        {"7d,1000", "\"7d,1000\"", "1000,7d"},
        {"1000,7", "\"1000,7\"", "unit"},
        {"1000,7d,1", "\"1000,7d,1\"", "1000,7d"},
        {"all,7d", "\"all,7d\"", "1000,7d"},
        {"0,7d", "\"0,7d\"", "none"},
        {"1000,0", "\"1000,0\"", "none"},
        {"0s", "\"0s\"", "none"},
        {"9007199254740992", "9007199254740992", "0..9007199254740991"},
        {"99999999999999999999999", "99999999999999999999999", "0..9007199254740991"},
        {"1,36526d", "\"1,36526d\"", "100 years"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__keep k = {7, 7};
        emq_error err = {0};
        emq_status s = emq__keep_parse(emq_cstr(bad[i].text), &k, &err);
        expect_refused(s, &err, bad[i].text, bad[i].value, bad[i].rule);
        CHECK_INT(k.count, 7);
    }
}
