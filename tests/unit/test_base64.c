/* SPDX-License-Identifier: MIT
 *
 * Base64: the vectors of RFC 4648, strictness, and round trips.
 */
#include "lib/test.h"

#include "base/json.h"

static const struct {
    const char *bytes, *text;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"},
};

EMQ_TEST(base64_writes_and_reads_the_vectors_of_the_rfc)
{
    struct emq__arena a = {0};
    struct emq__buf b;

    emq__buf_init(&b, 100);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(vectors); i++) {
        emq_str out;
        emq__buf_clear(&b);
        emq__base64(&b, emq_cstr(vectors[i].bytes));
        CHECK_STR(emq__buf_view(&b), vectors[i].text);
        CHECK(emq__base64_decode(emq_cstr(vectors[i].text), &a, &out));
        CHECK_STR(out, vectors[i].bytes);
        CHECK_INT(out.ptr[out.len], 0);
    }
    emq__buf_free(&b);
    emq__arena_free(&a);
}

EMQ_TEST(base64_refuses_a_second_text_for_the_same_bytes)
{
    static const char *bad[] = {"Z",    "Zg",   "Zg=",      "Zg===",    "Zh==",   "Zm9=", "=",
                                "====", "Z===", "Zg==Zg==", "Zm9v\n",   "Zm 9v",  "Zm9-", "Zm9_",
                                "Zm=v", "Z=9v", "=m9v",     "Zm9v====", "Zm9\xff"};
    struct emq__arena a = {0};
    emq_str out;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++)
        if (emq__base64_decode(emq_cstr(bad[i]), &a, &out))
            fail_msg("%s was accepted", bad[i]);
    CHECK(!emq__base64_decode(EMQ_STR_LIT("Zm9\0"), &a, &out));
    CHECK(emq__base64_decode(emq_strn(NULL, 0), &a, &out));
    CHECK_INT(out.len, 0);
    emq__arena_free(&a);
}

EMQ_TEST(any_bytes_come_back_from_base64)
{
    struct emq__arena a = {0};
    struct emq__buf b;
    uint64_t r = test_seed();
    static char bytes[5000];

    emq__buf_init(&b, 10000);
    for (size_t n = 0; n < sizeof bytes; n += n < 800 ? 1 : 601) {
        emq_str out;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)test_random(&r);
        emq__buf_clear(&b);
        emq__base64(&b, emq_strn(bytes, n));
        CHECK_INT(b.len, (n + 2) / 3 * 4);
        CHECK(emq__base64_decode(emq__buf_view(&b), &a, &out));
        CHECK_STR_EQ(out, emq_strn(bytes, n));
    }
    emq__buf_free(&b);
    emq__arena_free(&a);
}
