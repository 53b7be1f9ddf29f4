/* SPDX-License-Identifier: MIT
 *
 * The growing buffer and the arena.
 */
#include "lib/test.h"

#include "base/arena.h"
#include "base/buf.h"

EMQ_TEST(an_empty_buffer_is_an_empty_text)
{
    struct emq__buf b;

    emq__buf_init(&b, 10);
    CHECK_STR(emq__buf_view(&b), "");
    emq__buf_add(&b, NULL, 0);
    CHECK_STATUS(b.failed, EMQ_OK);
    emq__buf_free(&b);
}

EMQ_TEST(a_buffer_keeps_what_was_appended_with_a_nul_behind)
{
    struct emq__buf b;

    emq__buf_init(&b, 1000);
    emq__buf_text(&b, "n=");
    emq__buf_i64(&b, INT64_MIN);
    emq__buf_char(&b, ' ');
    emq__buf_i64(&b, 0);
    emq__buf_str(&b, EMQ_STR_LIT("|a\0b|"));
    emq__buf_printf(&b, "%s-%d%%", "x", 5);
    emq__buf_printf(&b, "%s", "");
    emq__buf_i64(&b, INT64_MAX);
    CHECK_STR_EQ(emq__buf_view(&b),
                 EMQ_STR_LIT("n=-9223372036854775808 0|a\0b|x-5%9223372036854775807"));
    CHECK_INT(b.ptr[b.len], 0);
    CHECK_STATUS(b.failed, EMQ_OK);
    emq__buf_free(&b);
}

EMQ_TEST(a_buffer_takes_exactly_its_ceiling_and_not_a_byte_more)
{
    struct emq__buf b;

    for (size_t max = 0; max < 300; max++) {
        emq__buf_init(&b, max);
        for (size_t i = 0; i < max; i++)
            emq__buf_char(&b, 'a');
        CHECK_STATUS(b.failed, EMQ_OK);
        CHECK_INT(b.len, max);
        emq__buf_char(&b, 'b');
        CHECK_STATUS(b.failed, EMQ_E_INVALID);
        CHECK_INT(b.len, max);
        emq__buf_free(&b);
    }
}

EMQ_TEST(a_failed_buffer_stays_failed_until_cleared)
{
    struct emq__buf b;

    emq__buf_init(&b, 5);
    emq__buf_text(&b, "abc");
    emq__buf_text(&b, "defg");
    emq__buf_text(&b, "h"); /* would fit, and would leave a hole */
    emq__buf_printf(&b, "%d", 1);
    CHECK_STR(emq__buf_view(&b), "abc");
    CHECK_STATUS(b.failed, EMQ_E_INVALID);
    emq__buf_clear(&b);
    CHECK_STATUS(b.failed, EMQ_OK);
    emq__buf_printf(&b, "%s", "12345");
    CHECK_STR(emq__buf_view(&b), "12345");
    emq__buf_printf(&b, "%s", "6");
    CHECK_STATUS(b.failed, EMQ_E_INVALID);
    emq__buf_free(&b);
}

EMQ_TEST(a_buffer_is_usable_after_free)
{
    struct emq__buf b;

    emq__buf_init(&b, 100);
    emq__buf_text(&b, "abc");
    emq__buf_free(&b);
    emq__buf_free(&b);
    emq__buf_text(&b, "def");
    CHECK_STR(emq__buf_view(&b), "def");
    emq__buf_free(&b);
}

EMQ_TEST(a_buffer_without_a_ceiling_refuses_a_length_that_wraps)
{
    struct emq__buf b;

    emq__buf_init(&b, SIZE_MAX);
    emq__buf_text(&b, "abc");
    emq__buf_add(&b, "x", SIZE_MAX - 3);
    CHECK(b.failed != EMQ_OK);
    CHECK_STR(emq__buf_view(&b), "abc");
    emq__buf_free(&b);
}

EMQ_TEST(a_large_text_grows_in_few_steps)
{
    struct emq__buf b;

    emq__buf_init(&b, 4 * 1024 * 1024);
    for (int i = 0; i < 1024 * 1024; i++)
        emq__buf_add(&b, "abcd", 4);
    CHECK_STATUS(b.failed, EMQ_OK);
    CHECK_INT(b.len, 4 * 1024 * 1024);
    CHECK(b.cap <= b.max + 1);
    CHECK(memcmp(b.ptr + b.len - 4, "abcd", 5) == 0);
    emq__buf_free(&b);
}

EMQ_TEST(arena_memory_is_aligned_and_does_not_overlap)
{
    enum { COUNT = 3000 };
    struct emq__arena a = {0};
    uint64_t r = test_seed();
    static struct {
        unsigned char *p;
        size_t n;
    } got[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        got[i].n = (size_t)(test_random(&r) % (i % 100 == 0 ? 100000 : 300));
        got[i].p = emq__arena_alloc(&a, got[i].n);
        CHECK(got[i].p);
        CHECK_INT((uintptr_t)got[i].p % 16, 0);
        memset(got[i].p, (int)(i & 255), got[i].n);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < got[i].n; k++)
            if (got[i].p[k] != (i & 255))
                fail_msg("allocation %zu was overwritten at %zu", i, k);
    emq__arena_free(&a);
}

EMQ_TEST(arena_strings_are_copies_with_a_nul_and_never_null)
{
    struct emq__arena a = {0};
    char text[] = "abc";

    emq_str s = emq__arena_str(&a, emq_strn(text, 2));
    text[0] = 'x';
    CHECK_STR(s, "ab");
    CHECK_INT(s.ptr[2], 0);
    s = emq__arena_str(&a, emq_strn(NULL, 0));
    CHECK(s.ptr);
    CHECK_STR(s, "");
    s = emq__arena_printf(&a, "%s:%d", "q", 12);
    CHECK_STR(s, "q:12");
    CHECK_INT(s.ptr[s.len], 0);
    CHECK_STR(emq__arena_printf(&a, "%s", ""), "");
    emq__arena_free(&a);
}

EMQ_TEST(an_arena_is_empty_and_usable_after_free)
{
    struct emq__arena a = {0};

    emq__arena_free(&a);
    CHECK(emq__arena_alloc(&a, 1000000));
    CHECK(emq__arena_alloc(&a, 1));
    emq__arena_free(&a);
    CHECK(!a.head);
    char *p = emq__arena_zalloc(&a, 10, 10);
    CHECK(p);
    for (int i = 0; i < 100; i++)
        CHECK_INT(p[i], 0);
    emq__arena_free(&a);
}

EMQ_TEST(an_arena_refuses_sizes_that_wrap)
{
    struct emq__arena a = {0};

    CHECK(!emq__arena_alloc(&a, SIZE_MAX));
    CHECK(!emq__arena_alloc(&a, SIZE_MAX - 20));
    CHECK(!emq__arena_zalloc(&a, SIZE_MAX / 2, 3));
    CHECK(!emq__arena_str(&a, emq_strn("x", SIZE_MAX)).ptr);
    emq__arena_free(&a);
}
