/* SPDX-License-Identifier: MIT
 *
 * UTF-8: what is valid, and what becomes of text that a handler or a child wrote.
 */
#include "lib/test.h"

#include "base/str.h"
#include "base/utf8.h"

EMQ_TEST(every_scalar_value_is_valid_and_every_surrogate_is_not)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[4];
        bool valid;
        size_t n = emq__utf8_put(code, bytes);
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        size_t step = emq__utf8_step(bytes, n, &valid);
        if (valid == surrogate || (valid && step != n))
            fail_msg("U+%04X: valid %d, %zu of %zu bytes", (unsigned)code, valid, step, n);
    }
}

EMQ_TEST(ill_formed_sequences_are_found_with_the_piece_to_replace)
{
    static const struct {
        const char *bytes;
        size_t step;
    } bad[] = {
        {"\x80", 1}, /* a lone continuation */
        {"\xBF", 1},
        {"\xC0\x80", 1}, /* overlong NUL */
        {"\xC1\xBF", 1},
        {"\xC2", 1}, /* cut off */
        {"\xC2\x41", 1},
        {"\xE0\x80\x80", 1}, /* overlong */
        {"\xE0\x9F\xBF", 1},
        {"\xE2\x82", 2},
        {"\xE2\x82\x41", 2},
        {"\xED\xA0\x80", 1}, /* a surrogate */
        {"\xED\xBF\xBF", 1},
        {"\xF0\x80\x80\x80", 1}, /* overlong */
        {"\xF0\x8F\xBF\xBF", 1},
        {"\xF0\x9F\x98", 3},
        {"\xF0\x9F\x41", 2},
        {"\xF4\x90\x80\x80", 1}, /* above U+10FFFF */
        {"\xF5\x80\x80\x80", 1},
        {"\xF8\x88\x80\x80", 1},
        {"\xFE", 1},
        {"\xFF", 1},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        bool valid;
        size_t step = emq__utf8_step(bad[i].bytes, strlen(bad[i].bytes), &valid);
        CHECK(!valid);
        CHECK_INT(step, bad[i].step);
        CHECK(!emq__utf8_valid(emq_cstr(bad[i].bytes)));
    }
}

EMQ_TEST(one_bad_byte_is_found_wherever_it_is)
{
    char text[70];

    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        CHECK(emq__utf8_valid(emq_strn(text, sizeof text)));
        text[at] = (char)0xFF;
        CHECK(!emq__utf8_valid(emq_strn(text, sizeof text)));
        CHECK(emq__utf8_valid(emq_strn(text, at)));
        CHECK_INT(emq__utf8_ascii(text, sizeof text), at);
    }
    CHECK(emq__utf8_valid(emq_strn(NULL, 0)));
    CHECK(emq__utf8_valid(emq_strn("a\0b", 3)));
}

static void check_clean(emq_str in, size_t max, const char *expected)
{
    char out[256];
    size_t n;

    CHECK(max + 8 <= sizeof out);
    memset(out, 0x5a, sizeof out);
    n = emq__text_clean(in, max, out);
    CHECK_STR(emq_strn(out, n), expected);
    CHECK_INT(out[n], 0);
    for (size_t i = max + 8; i < sizeof out; i++)
        CHECK_INT(out[i], 0x5a);
}

EMQ_TEST(good_text_is_left_as_it_is)
{
    check_clean(emq_cstr(""), 0, "");
    check_clean(emq_strn(NULL, 0), 10, "");
    check_clean(emq_cstr("line one\n\tline two\n"), 100, "line one\n\tline two\n");
    check_clean(emq_cstr("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80"), 100,
                "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
    check_clean(emq_cstr("exactly ten"), 11, "exactly ten");
}

EMQ_TEST(control_bytes_and_terminal_codes_become_question_marks)
{
    check_clean(emq_strn("a\0b", 3), 100, "a?b");
    check_clean(emq_cstr("\x1b[31mred\x1b[0m\r\x08\x7f"), 100, "?[31mred?[0m???");
    check_clean(emq_cstr("\xC2\x9B"
                         "2J"),
                100, "?2J"); /* CSI as one character */
    check_clean(emq_cstr("\xC2\xA0"), 100, "\xC2\xA0");
}

EMQ_TEST(bad_bytes_become_replacement_characters)
{
    check_clean(emq_cstr("a\xFF"
                         "b"),
                100,
                "a\xEF\xBF\xBD"
                "b");
    check_clean(emq_cstr("\xED\xA0\x80"), 100, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check_clean(emq_cstr("\xF0\x9F\x98"), 100, "\xEF\xBF\xBD");
}

EMQ_TEST(long_text_is_cut_between_characters_and_marked)
{
    emq_str emoji = emq_cstr("ab\xF0\x9F\x98\x80");

    check_clean(emoji, 6, "ab\xF0\x9F\x98\x80");
    check_clean(emoji, 5, "ab [cut]");
    check_clean(emoji, 3, "ab [cut]");
    check_clean(emoji, 2, "ab [cut]");
    check_clean(emoji, 0, " [cut]");
    check_clean(emq_cstr("a\xFF"), 3, "a [cut]");
}

EMQ_TEST(a_megabyte_of_noise_becomes_bounded_valid_text)
{
    enum { SIZE = 1024 * 1024, MAX = 8 * 1024 };
    uint64_t r = test_seed();
    char *in = malloc(SIZE);
    char *out = malloc(SIZE * 3 + 8);

    CHECK(in && out);
    for (size_t i = 0; i < SIZE; i++)
        in[i] = (char)test_random(&r);
    size_t n = emq__text_clean(emq_strn(in, SIZE), MAX, out);
    CHECK(n > MAX - 4 && n <= MAX + 6);
    CHECK(emq__utf8_valid(emq_strn(out, n)));
    CHECK_STR(emq_strn(out + n - 6, 6), " [cut]");

    n = emq__text_clean(emq_strn(in, SIZE), (size_t)SIZE * 3, out);
    CHECK(emq__utf8_valid(emq_strn(out, n)));
    CHECK(!memchr(out, '\0', n) && !memchr(out, '\x1b', n));
    CHECK(n >= SIZE / 2);
    free(in);
    free(out);
}
