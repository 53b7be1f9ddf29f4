/* SPDX-License-Identifier: MIT
 *
 * The scanner's verdicts, with the place of the first fault. JSON.parse gives the same verdicts:
 * json_oracle.js asks it.
 */
#include "lib/test.h"

#include "base/json.h"

/* clang-format off */
#define GOOD(s) {EMQ_STR_INIT(s), true, 0}
#define BAD(s, at) {EMQ_STR_INIT(s), false, at}
/* clang-format on */

static const struct {
    emq_str text;
    bool valid;
    size_t pos;
} table[] = {
    /* scalars and white space */
    GOOD("null"),
    GOOD("true"),
    GOOD("false"),
    GOOD("0"),
    GOOD("\"\""),
    GOOD("[]"),
    GOOD("{}"),
    GOOD(" \t\r\n1 \t\r\n"),
    GOOD(" [ ] "),
    GOOD(" { } "),
    BAD("", 0),
    BAD(" ", 1),
    BAD("\xEF\xBB\xBF"
        "1",
        0),
    BAD("\xC2\xA0"
        "1",
        0),
    BAD("\v1", 0),
    BAD("\f1", 0),
    BAD("1\0", 1),
    BAD("\0", 0),
    BAD("1 2", 2),
    BAD("null,", 4),
    BAD("/**/1", 0),
    BAD("1//", 1),
    BAD("#1", 0),
    BAD("'a'", 0),
    BAD("a", 0),
    BAD("undefined", 0),
    /* words */
    BAD("nul", 3),
    BAD("nulL", 3),
    BAD("True", 0),
    BAD("truE", 3),
    BAD("falsee", 5),
    BAD("nulll", 4),
    BAD("NaN", 0),
    BAD("nan", 1),
    BAD("Infinity", 0),
    BAD("-Infinity", 1),
    /* numbers */
    GOOD("-0"),
    GOOD("-0.0"),
    GOOD("0.5"),
    GOOD("1e5"),
    GOOD("1E+5"),
    GOOD("1e-5"),
    GOOD("0e0"),
    GOOD("0E+00"),
    GOOD("1.0e00"),
    GOOD("123456789012345678901234567890"),
    GOOD("1e99999"),
    GOOD("-1e-99999"),
    GOOD("0.00000000000000000000000000000000000000000000001"),
    BAD("01", 1),
    BAD("-01", 2),
    BAD("00", 1),
    BAD("-", 1),
    BAD("--1", 1),
    BAD("+1", 0),
    BAD(".5", 0),
    BAD("5.", 2),
    BAD("5.e1", 2),
    BAD("-.5", 1),
    BAD("1e", 2),
    BAD("1e+", 3),
    BAD("1e+a", 3),
    BAD("1e1.5", 3),
    BAD("0x1", 1),
    BAD("1_000", 1),
    BAD("1,5", 1),
    BAD("1n", 1),
    BAD("1.2.3", 3),
    BAD("1 000", 2),
    BAD("- 1", 1),
    BAD("\xEF\xBC\x91", 0),
    /* strings */
    GOOD("\"a\""),
    GOOD("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\""),
    GOOD("\"\\uD83D\\uDE00\""),
    GOOD("\"\\ud800\""),
    GOOD("\"\\udc00\\ud800\""),
    GOOD("\"\\uD800a\""),
    GOOD("\"\\uFFFF\\ufffe\""),
    GOOD("\"\x7f\""),
    GOOD("\"\xE2\x80\xA8\xE2\x80\xA9\""),
    GOOD("\"\xF4\x8F\xBF\xBF\""),
    GOOD("\"'\""),
    GOOD("\"/\""),
    GOOD("\"\xEF\xBB\xBF\""),
    GOOD("\"\xC2\x80\""),
    BAD("\"", 1),
    BAD("\"a", 2),
    BAD("\"\\", 2),
    BAD("\"\\\"", 3),
    BAD("\"a\nb\"", 2),
    BAD("\"a\tb\"", 2),
    BAD("\"\0\"", 1),
    BAD("\"\x1f\"", 1),
    BAD("\"\\x41\"", 2),
    BAD("\"\\'\"", 2),
    BAD("\"\\0\"", 2),
    BAD("\"\\\0\"", 2),
    BAD("\"\\a\"", 2),
    BAD("\"\\v\"", 2),
    BAD("\"\\U0041\"", 2),
    BAD("\"\\u\"", 3),
    BAD("\"\\u12\"", 5),
    BAD("\"\\u123\"", 6),
    BAD("\"\\u12g4\"", 5),
    BAD("\"\\u+123\"", 3),
    BAD("\"\\u 123\"", 3),
    BAD("\"\\u{41}\"", 3),
    BAD("\"\\u123", 6),
    BAD("\"\\\n\"", 2),
    BAD("\"a\"b", 3),
    BAD("\"a\"\"b\"", 3),
    /* UTF-8 in strings */
    BAD("\"\x80\"", 1),
    BAD("\"\xC0\x80\"", 1),
    BAD("\"\xED\xA0\x80\"", 1),
    BAD("\"\xED\xA0\xBD\xED\xB8\x80\"", 1),
    BAD("\"\xF4\x90\x80\x80\"", 1),
    BAD("\"\xE2\x82\"", 1),
    BAD("\"a\xFF\"", 2),
    BAD("\"\xE2\x82", 1),
    BAD("\"\xF5\x80\x80\x80\"", 1),
    BAD("[\"\xE0\x9F\xBF\"]", 2),
    /* containers */
    GOOD("[1,2]"),
    GOOD("[[],{},[{}]]"),
    GOOD("{\"\":0}"),
    GOOD("{\"a\":1,\"a\":2}"),
    GOOD("{ \"a\" : [ 1 , { \"b\" : null } ] }"),
    GOOD("{\"__proto__\":1}"),
    GOOD("[\n]\n"),
    BAD("[", 1),
    BAD("]", 0),
    BAD("{", 1),
    BAD("}", 0),
    BAD("[}", 1),
    BAD("{]", 1),
    BAD("[1", 2),
    BAD("[1,", 3),
    BAD("[1,]", 3),
    BAD("[,1]", 1),
    BAD("[,]", 1),
    BAD("[1,,2]", 3),
    BAD("[1 2]", 3),
    BAD("[1]]", 3),
    BAD("[1}", 2),
    BAD("[1;2]", 2),
    BAD("[\"a\":1]", 4),
    BAD("{1:2}", 1),
    BAD("{a:1}", 1),
    BAD("{'a':1}", 1),
    BAD("{\"a\"}", 4),
    BAD("{\"a\":}", 5),
    BAD("{\"a\",1}", 4),
    BAD("{\"a\" 1}", 5),
    BAD("{\"a\"::1}", 5),
    BAD("{\"a\":1,}", 7),
    BAD("{,}", 1),
    BAD("{\"a\":1]", 6),
    BAD("{\"a\":1 \"b\":2}", 7),
    BAD("{\"a\":1,,\"b\":2}", 7),
    BAD("{\"a\":1,2}", 7),
    BAD("{\"a\":1}}", 7),
    BAD("{\"a", 3),
    BAD("{\"a\"", 4),
    BAD("{\"a\":", 5),
    BAD("{\"a\":1", 6),
    BAD("{\"a\":1,", 7),
    BAD("{null:1}", 1),
    BAD("{[]:1}", 1),
    BAD("[1]/", 3),
    BAD("[] []", 3),
    BAD("{}{}", 2),
    BAD("[{]}", 2),
    BAD("[\"a\\\"]", 6),
    BAD("[1,\n", 4),
    BAD("[NaN]", 1),
};

EMQ_TEST(each_text_of_the_table_has_its_verdict_and_its_place)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        /* A copy of exactly that size: reading a byte too far is then seen by the sanitizer. */
        emq_str text = table[i].text;
        char *copy = malloc(text.len ? text.len : 1);
        size_t pos = 12345;
        CHECK(copy);
        memcpy(copy, text.ptr, text.len);
        bool valid = emq__json_valid(emq_strn(copy, text.len), &pos);
        if (valid != table[i].valid || pos != (valid ? 12345 : table[i].pos))
            fail_msg("%.*s: valid %d at %zu, not %d at %zu", (int)text.len, text.ptr, valid, pos,
                     table[i].valid, table[i].pos);
        CHECK_INT(emq__json_valid(text, NULL), valid);
        free(copy);
    }
    CHECK(!emq__json_valid(emq_strn(NULL, 0), NULL));
}

EMQ_TEST(every_prefix_of_a_valid_text_fails_at_its_end)
{
    emq_str text =
        EMQ_STR_LIT("{\"a\\u00e9\":[ -1.5e+3 , true,false , null,\"x\\n\\\"\"],\"b\":{\"c\":{}}}");

    CHECK(emq__json_valid(text, NULL));
    for (size_t n = 0; n < text.len; n++) {
        size_t pos = 12345;
        CHECK(!emq__json_valid(emq_strn(text.ptr, n), &pos));
        CHECK_INT(pos, n);
    }
}

/* The word-at-a-time scan must see each special byte in each lane, with any neighbour. */
EMQ_TEST(a_special_byte_is_found_in_every_lane)
{
    static const char around[] = {' ', '!', '#', '[', ']', 'a', '~', 0x7f};

    for (size_t at = 1; at < 40; at++) {
        for (size_t k = 0; k < sizeof around; k++) {
            for (int ch = 0; ch < 256; ch++) {
                char text[42];
                memset(text, around[k], sizeof text);
                text[0] = text[41] = '"';
                text[at] = (char)ch;
                bool valid = ch >= 0x20 && ch < 0x80 && ch != '"' && ch != '\\';
                if (emq__json_valid(emq_strn(text, 42), NULL) != valid)
                    fail_msg("byte %d at %zu among %d", ch, at, around[k]);
            }
        }
    }
}

static char *nested(size_t depth, const char *open, const char *middle, const char *close,
                    size_t *len)
{
    size_t o = strlen(open), m = strlen(middle), c = strlen(close);
    char *text = malloc(depth * (o + c) + m + 1), *p = text;

    CHECK(text);
    for (size_t i = 0; i < depth; i++, p += o)
        memcpy(p, open, o);
    memcpy(p, middle, m);
    p += m;
    for (size_t i = 0; i < depth; i++, p += c)
        memcpy(p, close, c);
    *len = (size_t)(p - text);
    return text;
}

EMQ_TEST(a_million_levels_need_no_stack)
{
    enum { DEPTH = 1000000 };
    static const struct {
        const char *open, *middle, *close;
    } shapes[] = {
        {"[", "", "]"}, {"[", "1", "]"}, {"{\"a\":", "{}", "}"}, {"[{\"a\":", "[]", "}]"}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(shapes); i++) {
        size_t len, pos = 0;
        char *text = nested(DEPTH, shapes[i].open, shapes[i].middle, shapes[i].close, &len);
        CHECK(emq__json_valid(emq_strn(text, len), NULL));
        struct emq__json root = emq__json_root(emq_strn(text, len)), value;
        CHECK_INT(root.raw.len, len);
        CHECK(emq__json_next(root, &pos, NULL, &value) || len == 2 * DEPTH);
        CHECK(!emq__json_valid(emq_strn(text, len - 1), &pos));
        CHECK_INT(pos, len - 1);
        /* One closing bracket of the wrong kind, far out. */
        text[len - 1] = text[len - 1] == ']' ? '}' : ']';
        CHECK(!emq__json_valid(emq_strn(text, len), &pos));
        CHECK_INT(pos, len - 1);
        free(text);
    }
}

EMQ_TEST(the_kinds_of_levels_are_remembered_around_the_edge_of_the_fixed_memory)
{
    for (size_t depth = 2040; depth <= 2060; depth++) {
        size_t len, pos;
        char *text = nested(depth, "{\"a\":[", "0", "]}", &len);
        CHECK(emq__json_valid(emq_strn(text, len), NULL));
        for (size_t level = 0; level < depth * 2; level++) {
            size_t at = len - 1 - level;
            char was = text[at];
            text[at] = was == ']' ? '}' : ']';
            CHECK(!emq__json_valid(emq_strn(text, len), &pos));
            CHECK_INT(pos, at);
            text[at] = was;
            level += depth / 7;
        }
        free(text);
    }
}

static struct emq__json parse(const char *text)
{
    emq_str s = emq_cstr(text);

    CHECK(emq__json_valid(s, NULL));
    return emq__json_root(s);
}

EMQ_TEST(the_root_is_the_value_without_the_white_space_around)
{
    static const struct {
        const char *text, *raw;
        enum emq__json_type type;
    } roots[] = {
        {" null ", "null", EMQ__JSON_NULL},
        {"\n[1, 2] ", "[1, 2]", EMQ__JSON_ARRAY},
        {"true", "true", EMQ__JSON_TRUE},
        {"false ", "false", EMQ__JSON_FALSE},
        {"-1.5e3 ", "-1.5e3", EMQ__JSON_NUMBER},
        {" \"a\\\"\" ", "\"a\\\"\"", EMQ__JSON_STRING},
        {" {\"}\":\"]\"} ", "{\"}\":\"]\"}", EMQ__JSON_OBJECT},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(roots); i++) {
        struct emq__json v = parse(roots[i].text);
        CHECK_INT(v.type, roots[i].type);
        CHECK_STR(v.raw, roots[i].raw);
    }
    CHECK_INT(emq__json_root(emq_strn(NULL, 0)).type, 0);
}

EMQ_TEST(an_object_is_walked_in_its_own_order)
{
    struct emq__json o = parse(" { \"a\" : 1 , \"b\\n\":[2,{\"x\":\"]}\\\\\"}] ,\"\":{} } ");
    static const char *const keys[] = {"a", "b\\n", ""};
    static const char *const raws[] = {"1", "[2,{\"x\":\"]}\\\\\"}]", "{}"};
    struct emq__json value;
    emq_str key;
    size_t pos = 0, n = 0;

    while (emq__json_next(o, &pos, &key, &value)) {
        CHECK(n < 3);
        CHECK_STR(key, keys[n]);
        CHECK_STR(value.raw, raws[n]);
        n++;
    }
    CHECK_INT(n, 3);
    CHECK(!emq__json_next(o, &pos, &key, &value));
}

EMQ_TEST(an_array_is_walked_without_keys)
{
    struct emq__json a = parse("[ 1,\"two\" ,[3] , {}, null]");
    struct emq__json value;
    emq_str key;
    size_t pos = 0, n = 0;

    while (emq__json_next(a, &pos, &key, &value)) {
        CHECK_INT(key.len, 0);
        n++;
    }
    CHECK_INT(n, 5);
    pos = 0;
    CHECK(!emq__json_next(parse("[ ]"), &pos, NULL, NULL));
    CHECK(!emq__json_next(parse("{ }"), &pos, NULL, NULL));
    CHECK(!emq__json_next(parse("\"ab\""), &pos, NULL, NULL));
    CHECK(!emq__json_next(parse("12"), &pos, NULL, NULL));
}

EMQ_TEST(a_member_is_found_by_its_decoded_name_and_the_last_one_wins)
{
    struct emq__json o =
        parse("{\"a\":1,\"\\u0061\":2,\"b\":3,\"ab\":4,\"a\\u0000\":5,\"\":6,\"\\ud83d\\ude00\":7,"
              "\"\\/\\\"\":8,\"n\":{\"z\":9}}");
    struct emq__json v = {0};

    CHECK(emq__json_get(o, "a", &v));
    CHECK_STR(v.raw, "2");
    CHECK(emq__json_get(o, "ab", &v));
    CHECK_STR(v.raw, "4");
    CHECK(emq__json_get(o, "", &v));
    CHECK_STR(v.raw, "6");
    CHECK(emq__json_get(o, "\xF0\x9F\x98\x80", &v));
    CHECK_STR(v.raw, "7");
    CHECK(emq__json_get(o, "/\"", &v));
    CHECK_STR(v.raw, "8");
    v.raw = emq_cstr("untouched");
    CHECK(!emq__json_get(o, "z", &v));
    CHECK(!emq__json_get(o, "abc", &v));
    CHECK(!emq__json_get(o, "\xF0\x9F", &v));
    CHECK(!emq__json_get(parse("[1]"), "a", &v));
    CHECK_STR(v.raw, "untouched");
}

static void check_decoded(const char *text, const char *expected, size_t len)
{
    struct emq__arena a = {0};
    emq_str out;

    CHECK(emq__json_str(parse(text), &a, &out));
    CHECK_STR_EQ(out, emq_strn(expected, len));
    CHECK_INT(out.ptr[out.len], 0);
    emq__arena_free(&a);
}

#define CHECK_DECODED(text, expected) check_decoded(text, expected, sizeof(expected) - 1)

EMQ_TEST(escapes_are_resolved)
{
    CHECK_DECODED("\"\"", "");
    CHECK_DECODED("\"plain \xC3\xBC\"", "plain \xC3\xBC");
    CHECK_DECODED("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    CHECK_DECODED("\"\\u0041\\u00e9\\u20AC\\uFFFF\"", "A\xC3\xA9\xE2\x82\xAC\xEF\xBF\xBF");
    CHECK_DECODED("\"a\\u0000b\"", "a\0b");
    CHECK_DECODED("\"\\ud83d\\uDE00!\"", "\xF0\x9F\x98\x80!");
    CHECK_DECODED("\"\\udbff\\udfff\"", "\xF4\x8F\xBF\xBF");
    CHECK_DECODED("\"x\\\\u0041\"", "x\\u0041");
}

EMQ_TEST(a_lone_surrogate_becomes_a_replacement_character)
{
    CHECK_DECODED("\"\\ud800\"", "\xEF\xBF\xBD");
    CHECK_DECODED("\"\\udc00\"", "\xEF\xBF\xBD");
    CHECK_DECODED("\"\\ud800x\"", "\xEF\xBF\xBDx");
    CHECK_DECODED("\"\\ud800\\n\"", "\xEF\xBF\xBD\n");
    CHECK_DECODED("\"\\ud800\\u0041\"", "\xEF\xBF\xBD"
                                        "A");
    CHECK_DECODED("\"\\ud800\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80");
    CHECK_DECODED("\"\\ude00\\ud83d\"", "\xEF\xBF\xBD\xEF\xBF\xBD");
}

EMQ_TEST(a_string_with_a_lone_surrogate_is_not_exact)
{
    static const char *const exact[] = {"\"\"", "\"\\ud83d\\uDE00\"", "\"\\uFFFD\"",
                                        "\"\\\\ud800\"", "\"\\\"\\ud7ff\\ue000\""};
    static const char *const lossy[] = {"\"\\ud800\"", "\"\\uDFFF\"", "\"a\\ud800\\u0041\"",
                                        "\"\\ud83d\\uDE00\\uDE00\"", "\"\\\\\\ud800\""};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(exact); i++)
        CHECK(emq__json_exact(parse(exact[i])));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(lossy); i++)
        CHECK(!emq__json_exact(parse(lossy[i])));
    CHECK(!emq__json_exact(parse("7")));
}

EMQ_TEST(a_key_can_be_decoded_too)
{
    struct emq__arena a = {0};
    struct emq__json v;
    emq_str key, out;
    size_t pos = 0;

    CHECK(emq__json_next(parse("{\"\\u00e9\\n\":1}"), &pos, &key, &v));
    CHECK(emq__json_unescape(key, &a, &out));
    CHECK_STR(out, "\xC3\xA9\n");
    CHECK(!emq__json_str(v, &a, &out));
    emq__arena_free(&a);
}

EMQ_TEST(whole_numbers_are_exact_in_any_notation)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"-0.0e-7", 0},
        {"0e99999999999999999999", 0},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"1.0", 1},
        {"-1.50e1", -15},
        {"1200e-2", 12},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"922337203685477580.7e1", INT64_MAX},
        {"9.223372036854775807e18", INT64_MAX},
        {"1e18", 1000000000000000000},
        {"-9e18", -9000000000000000000},
        {"0.000000000000000000000000000001e30", 1},
        {"100000000000000000000e-20", 1},
    };
    static const char *bad[] = {"0.5",
                                "1e-1",
                                "1.5",
                                "9223372036854775808",
                                "-9223372036854775809",
                                "1e19",
                                "1e99999999999999999999",
                                "1e-99999999999999999999",
                                "99999999999999999999",
                                "1234567890123456789012e-1",
                                "\"1\"",
                                "true",
                                "null",
                                "[1]"};
    int64_t v = 7;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(good); i++) {
        if (!emq__json_i64(parse(good[i].text), &v))
            fail_msg("%s was refused", good[i].text);
        CHECK_INT(v, good[i].value);
    }
    v = 7;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++)
        if (emq__json_i64(parse(bad[i]), &v))
            fail_msg("%s was accepted", bad[i]);
    CHECK_INT(v, 7);
}

EMQ_TEST(doubles_are_read_from_numbers_only)
{
    double v = 0;

    CHECK(emq__json_double(parse(" -2.5e-1 "), &v));
    CHECK(v == -0.25);
    CHECK(!emq__json_double(parse("\"1\""), &v));
    CHECK(!emq__json_double(parse("1e400"), &v));
    CHECK(v == -0.25);
}

EMQ_TEST(objects_are_written_with_commas_where_they_belong)
{
    struct emq__buf b;

    emq__buf_init(&b, 1000);
    emq__buf_char(&b, '{');
    emq__json_key(&b, "a");
    emq__buf_i64(&b, 1);
    emq__json_key(&b, "b\"");
    emq__buf_char(&b, '[');
    for (int i = 0; i < 3; i++) {
        emq__json_sep(&b);
        emq__json_quote(&b, EMQ_STR_LIT("{["));
    }
    emq__buf_text(&b, "]");
    emq__json_key(&b, "c");
    emq__json_sep(&b);
    emq__buf_text(&b, "{}}");
    CHECK_STR(emq__buf_view(&b), "{\"a\":1,\"b\\\"\":[\"{[\",\"{[\",\"{[\"],\"c\":{}}");
    emq__buf_free(&b);
}

EMQ_TEST(what_is_quoted_is_valid_and_reads_back)
{
    struct emq__buf b;
    struct emq__arena a = {0};
    uint64_t r = test_seed();

    emq__buf_init(&b, 100000);
    emq__json_quote(&b, EMQ_STR_LIT("\"\\/\b\f\n\r\t\0\x1f\x7f\xC3\xBC\xFF"));
    CHECK_STR(emq__buf_view(&b),
              "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xC3\xBC\xEF\xBF\xBD\"");
    for (int i = 0; i < 3000; i++) {
        char bytes[64];
        size_t n = (size_t)(test_random(&r) % sizeof bytes);
        emq_str out;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)(test_random(&r) & (i % 2 ? 0x7f : 0xff));
        emq__buf_clear(&b);
        emq__json_quote(&b, emq_strn(bytes, n));
        CHECK(emq__json_valid(emq__buf_view(&b), NULL));
        CHECK(emq__json_str(emq__json_root(emq__buf_view(&b)), &a, &out));
        if (i % 2) {
            CHECK_STR_EQ(out, emq_strn(bytes, n));
        }
    }
    emq__buf_free(&b);
    emq__arena_free(&a);
}

EMQ_TEST(json_on_one_line_is_the_same_value)
{
    static const char *const lines[][2] = {
        {"1", "1"},
        {"{\r\n \"a\":\n[1,\r2]\n}", "{   \"a\": [1, 2] }"},
        {"\"no\\nbreak\"", "\"no\\nbreak\""},
        {"\n\n", "  "},
        {"", ""},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(lines); i++) {
        struct emq__buf b;
        emq__buf_init(&b, 100);
        emq__buf_text(&b, "before\n"); /* stays as it is */
        emq__json_line(&b, emq_cstr(lines[i][0]));
        CHECK_INT(b.failed, EMQ_OK);
        CHECK_STR(emq_strn(b.ptr + 7, b.len - 7), lines[i][1]);
        CHECK(b.ptr[6] == '\n');
        emq__buf_free(&b);
    }
}

/* A text that nobody checked must not lead the readers out of their slice. */
static void walk(struct emq__json v, struct emq__arena *a, int depth)
{
    struct emq__json member;
    emq_str key, out;
    int64_t i;
    double d;
    size_t pos = 0;

    (void)emq__json_str(v, a, &out);
    (void)emq__json_i64(v, &i);
    (void)emq__json_double(v, &d);
    (void)emq__json_get(v, "a", &member);
    while (depth < 30 && emq__json_next(v, &pos, &key, &member)) {
        (void)emq__json_unescape(key, a, &out);
        walk(member, a, depth + 1);
    }
}

EMQ_TEST(readers_of_an_unchecked_text_stay_inside_it)
{
    static const char alphabet[] = "{}[]\",:\\u0019e-.truefalsn \xC3\xFF";
    uint64_t r = test_seed();

    for (int i = 0; i < 30000; i++) {
        struct emq__arena a = {0};
        size_t n = (size_t)(test_random(&r) % 24);
        char *text = malloc(n ? n : 1);
        CHECK(text);
        for (size_t k = 0; k < n; k++)
            text[k] = alphabet[test_random(&r) % (sizeof alphabet - 1)];
        if (n && i % 2)
            text[0] = "{[\""[i % 3];
        walk(emq__json_root(emq_strn(text, n)), &a, 0);
        free(text);
        emq__arena_free(&a);
    }
}
