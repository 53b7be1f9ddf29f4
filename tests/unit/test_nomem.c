/* SPDX-License-Identifier: MIT
 *
 * Floor 0 without memory: the nth allocation fails, for every n until none does. What failed says
 * so, nothing is lost of what was there, nothing leaks.
 */
#include "lib/test.h"

#include "lib/failmalloc.h"

#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

enum { NTH_MAX = 10000 };

EMQ_TEST(a_buffer_without_memory_says_so_and_keeps_its_text)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct emq__buf b;
        CHECK(nth < NTH_MAX);
        emq__buf_init(&b, 1000000);
        test_fail_alloc(nth);
        for (int i = 0; i < 5000; i++)
            emq__buf_printf(&b, "%d,", i);
        failed = test_alloc_failed();
        CHECK_STATUS(b.failed, failed ? EMQ_E_NOMEM : EMQ_OK);
        CHECK(!failed || b.len == 0 || b.ptr[b.len - 1] == ',');
        emq__buf_free(&b);
    }
}

EMQ_TEST(a_map_without_memory_refuses_the_key_and_keeps_the_others)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct emq__map m = {0};
        size_t kept = 0;
        char names[40][8];
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        for (size_t i = 0; i < 40; i++) {
            (void)snprintf(names[i], sizeof names[i], "%zu", i);
            if (emq__map_put(&m, emq_cstr(names[i]), names[i]))
                kept++;
            else
                names[i][0] = 'x';
        }
        failed = test_alloc_failed();
        CHECK_INT(kept, failed ? 39 : 40);
        CHECK_INT(m.len, kept);
        for (size_t i = 0; i < 40; i++)
            CHECK(names[i][0] == 'x' || emq__map_get(&m, emq_cstr(names[i])) == names[i]);
        emq__map_free(&m);
    }
}

EMQ_TEST(an_arena_without_memory_answers_null_and_goes_on)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct emq__arena a = {0};
        int nulls = 0;
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        for (int i = 0; i < 2000; i++) {
            nulls += !emq__arena_str(&a, EMQ_STR_LIT("0123456789")).ptr;
            nulls += i % 500 == 0 && !emq__arena_alloc(&a, 400000);
        }
        failed = test_alloc_failed();
        CHECK_INT(nulls, failed ? 1 : 0);
        emq__arena_free(&a);
    }
}

EMQ_TEST(readers_without_memory_say_no_and_leave_the_result_alone)
{
    struct emq__arena a = {0};
    emq_str out = EMQ_STR_LIT("before");

    test_fail_alloc(1);
    CHECK(!emq__json_str(emq__json_root(EMQ_STR_LIT("\"abc\"")), &a, &out));
    CHECK(test_alloc_failed());
    test_fail_alloc(1);
    CHECK(!emq__json_str(emq__json_root(EMQ_STR_LIT("\"a\\n\"")), &a, &out));
    CHECK(test_alloc_failed());
    test_fail_alloc(1);
    CHECK(!emq__base64_decode(EMQ_STR_LIT("Zm9v"), &a, &out));
    CHECK(test_alloc_failed());
    test_fail_alloc(1);
    CHECK(!emq__str_dup(EMQ_STR_LIT("abc")));
    CHECK(test_alloc_failed());
    CHECK_STR(out, "before");
    emq__arena_free(&a);
}

EMQ_TEST(numbers_and_shallow_texts_need_no_memory)
{
    double v;

    test_fail_alloc(1);
    CHECK(emq__json_valid(EMQ_STR_LIT("{\"a\":[[[[1,\"x\"]]]]}"), NULL));
    CHECK(emq__str_to_double(EMQ_STR_LIT("1.2345678901234567890123e-200"), &v));
    CHECK(!test_alloc_failed());
}

EMQ_TEST(a_deep_text_without_memory_is_refused)
{
    static char text[100000];
    bool failed = true;
    size_t nth;

    memset(text, '[', sizeof text / 2);
    memset(text + sizeof text / 2, ']', sizeof text / 2);
    for (nth = 1; failed; nth++) {
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        bool valid = emq__json_valid(emq_strn(text, sizeof text), NULL);
        failed = test_alloc_failed();
        CHECK(valid == !failed);
    }
    CHECK(nth > 2);
}
