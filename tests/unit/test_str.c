/* SPDX-License-Identifier: MIT
 *
 * String helpers and the conversion of numbers.
 */
#include "lib/test.h"

#include "base/json.h"
#include "base/number.h"
#include "base/str.h"

#include <locale.h>
#include <math.h>

static emq_str lit(const char *s)
{
    return emq_cstr(s);
}

EMQ_TEST(strings_compare_by_bytes_then_by_length)
{
    CHECK(emq__str_eq(lit("a"), lit("a")));
    CHECK(!emq__str_eq(lit("a"), lit("ab")));
    CHECK(emq__str_eq(emq_strn(NULL, 0), lit("")));
    CHECK(emq__str_is(emq_strn("abc", 2), "ab"));
    CHECK(emq__str_is(emq_strn(NULL, 0), ""));
    CHECK(!emq__str_is(emq_strn("a\0b", 3), "a"));
    CHECK(emq__str_cmp(lit("a"), lit("b")) < 0);
    CHECK(emq__str_cmp(lit("b"), lit("ab")) > 0);
    CHECK(emq__str_cmp(lit("a"), lit("ab")) < 0);
    CHECK(emq__str_cmp(lit("ab"), lit("a")) > 0);
    CHECK(emq__str_cmp(lit("\xff"), lit("a")) > 0);
    CHECK_INT(emq__str_cmp(emq_strn(NULL, 0), lit("")), 0);
    CHECK(emq__str_starts(lit("redis://x"), "redis:"));
    CHECK(!emq__str_starts(lit("red"), "redis:"));
    CHECK(emq__str_starts(emq_strn(NULL, 0), ""));
}

EMQ_TEST(a_copy_has_a_nul_behind_it)
{
    char *p = emq__str_dup(emq_strn("abcd", 2));

    CHECK_STR(emq_cstr(p), "ab");
    free(p);
    p = emq__str_dup(emq_strn(NULL, 0));
    CHECK_STR(emq_cstr(p), "");
    free(p);
}

EMQ_TEST(whole_numbers_are_read_to_both_ends_of_int64)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"007", 7},
        {"42", 42},
        {"-42", -42},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"000000000000000000000000000001", 1},
        {"-9223372036854775807", -INT64_MAX},
    };
    static const char *bad[] = {"",
                                "-",
                                "+1",
                                " 1",
                                "1 ",
                                "1.0",
                                "1e3",
                                "0x10",
                                "--1",
                                "a",
                                "9223372036854775808",
                                "-9223372036854775809",
                                "18446744073709551616",
                                "99999999999999999999",
                                "92233720368547758070",
                                "1\n"};
    int64_t v = 77;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(good); i++) {
        CHECK(emq__str_to_i64(lit(good[i].text), &v));
        CHECK_INT(v, good[i].value);
    }
    v = 77;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++)
        CHECK(!emq__str_to_i64(lit(bad[i]), &v));
    CHECK(!emq__str_to_i64(emq_strn("1\0", 2), &v));
    CHECK(!emq__str_to_i64(emq_strn(NULL, 0), &v));
    CHECK_INT(v, 77);
    CHECK(emq__str_to_i64(emq_strn("12345", 2), &v));
    CHECK_INT(v, 12);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_double(const char *text, double expected)
{
    double v;

    CHECK(emq__str_to_double(lit(text), &v));
    if (!same_bits(v, expected))
        fail_msg("%s is read as %a, not %a", text, v, expected);
}

EMQ_TEST(fractions_are_rounded_correctly)
{
    check_double("0", 0.0);
    check_double("-0", -0.0);
    check_double("-0.0e5", -0.0);
    check_double("0e999999999999999999999", 0.0);
    check_double("0.25", 0.25);
    check_double("123e-2", 1.23);
    check_double("9007199254740993", 9007199254740992.0);
    check_double("9007199254740993.00000000000000000000000000000001", 9007199254740994.0);
    check_double("5e-324", 0x1p-1074);
    check_double("2.4703282292062327208e-324", 0.0);
    check_double("2.4703282292062328e-324", 0x1p-1074);
    check_double("1.7976931348623157e308", 0x1.fffffffffffffp1023);
    check_double("2.2250738585072011e-308", 0x0.fffffffffffffp-1022);
    check_double("1e23", 1e23);
    check_double("100000000000000000000000", 1e23);
    check_double("0.000000000000000000000000000000000000000000000000001e51", 1.0);
    check_double("1e-400", 0.0);
    check_double("-1e-99999999999999999999", -0.0);
}

EMQ_TEST(numbers_beyond_a_double_or_with_another_syntax_are_refused)
{
    static const char *bad[] = {"",      "-",      ".5",  "5.",       "1e",
                                "1e+",   "+1",     "01",  " 1",       "1 ",
                                "1,5",   "nan",    "inf", "Infinity", "0x1p3",
                                "1e999", "-1e309", "1d5", "1_0",      "1e99999999999999999999999",
                                "--1",   "-01"};
    double v = 7;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++)
        if (emq__str_to_double(lit(bad[i]), &v))
            fail_msg("%s was accepted as %g", bad[i], v);
    CHECK(same_bits(v, 7));
}

/* Halfway between 1 and its neighbour, then 2,000 zeros, then what decides. */
EMQ_TEST(digits_far_behind_the_point_still_decide_the_rounding)
{
    static const char half[] = "1.00000000000000011102230246251565404236316680908203125";
    static char text[4096];
    size_t n = sizeof half - 1;
    double v;

    memcpy(text, half, n);
    memset(text + n, '0', 2000);
    n += 2000;
    CHECK(emq__str_to_double(emq_strn(text, n), &v));
    CHECK(same_bits(v, 1.0));
    text[n++] = '1';
    CHECK(emq__str_to_double(emq_strn(text, n), &v));
    CHECK(same_bits(v, 0x1.0000000000001p0));
}

EMQ_TEST(doubles_read_as_the_c_library_reads_them)
{
    uint64_t r = test_seed();

    CHECK_STR(lit(setlocale(LC_NUMERIC, NULL)), "C");
    for (int i = 0; i < 20000; i++) {
        char text[64];
        uint64_t bits = test_random(&r);
        double v, back;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        (void)snprintf(text, sizeof text, "%.*e", (int)(test_random(&r) % 25), v);
        CHECK_INT(emq__str_to_double(lit(text), &back), isfinite(strtod(text, NULL)));
        if (isfinite(strtod(text, NULL)) && !same_bits(back, strtod(text, NULL)))
            fail_msg("%s is read as %a, not %a", text, back, strtod(text, NULL));
    }
}

static void check_written(double v, const char *expected)
{
    struct emq__buf b;

    emq__buf_init(&b, 100);
    emq__json_double_out(&b, v);
    CHECK_STR(emq__buf_view(&b), expected);
    emq__buf_free(&b);
}

EMQ_TEST(doubles_are_written_shortest)
{
    check_written(0, "0");
    check_written(-0.0, "-0");
    check_written(1, "1");
    check_written(0.1, "0.1");
    check_written(0.25, "0.25");
    check_written(1.0 / 3, "0.3333333333333333");
    check_written(0.1 + 0.2, "0.30000000000000004");
    check_written(1e21, "1e+21");
    check_written(-1.5e-7, "-1.5e-07");
    check_written(5e-324, "5e-324");
    check_written(1.7976931348623157e308, "1.7976931348623157e+308");
}

static void check_round_trips(uint64_t r, int count)
{
    struct emq__buf b;

    emq__buf_init(&b, 100);
    for (int i = 0; i < count; i++) {
        uint64_t bits = test_random(&r);
        double v, back;
        memcpy(&v, &bits, sizeof v);
        if (i % 3 == 0)
            v = (double)(int64_t)bits / 1000;
        if (!isfinite(v))
            continue;
        emq__buf_clear(&b);
        emq__json_double_out(&b, v);
        CHECK(emq__json_valid(emq__buf_view(&b), NULL));
        CHECK(emq__str_to_double(emq__buf_view(&b), &back));
        if (!same_bits(v, back))
            fail_msg("%a is written as %s", v, b.ptr);
    }
    emq__buf_free(&b);
}

EMQ_TEST(a_written_double_reads_back_as_itself)
{
    check_round_trips(test_seed(), 20000);
}

/* A locale with a decimal comma is made for the test: the machine may have none. */
EMQ_TEST(a_locale_with_a_decimal_comma_changes_nothing)
{
    char command[4400];
    const char *dir = test_temp_dir();

    (void)snprintf(command, sizeof command,
                   "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >'%s/out' 2>&1", dir, dir);
    bool made = system(command) == 0;
    CHECK_INT(setenv("LOCPATH", dir, 1), 0);
    made = made && setlocale(LC_ALL, "de_DE.UTF-8");
    CHECK_INT(unsetenv("LOCPATH"), 0);
    test_require(made, "locale", "localedef could not make de_DE.UTF-8 (Debian package locales)");
    CHECK_STR(lit(localeconv()->decimal_point), ",");

    check_written(1.5, "1.5");
    check_written(-1.0 / 3, "-0.3333333333333333");
    check_double("1.5", 1.5);
    check_double("9007199254740993.5", 9007199254740994.0);
    check_round_trips(test_seed(), 500);
    double v;
    CHECK(!emq__str_to_double(lit("1,5"), &v));
    char *end;
    CHECK(emq__strtod("1.5", &end) == 1.5 && *end == '\0');
    CHECK(setlocale(LC_ALL, "C"));
}
