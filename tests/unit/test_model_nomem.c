/* SPDX-License-Identifier: MIT
 *
 * The model without memory: the nth allocation fails, for every n until none does. Parsers answer
 * E_NOMEM, never a half-read result; writers leave it in their buffer; nothing leaks.
 */
#include "lib/test.h"

#include "lib/failmalloc.h"

#include "base/str.h"
#include "model/job.h"
#include "model/opts.h"
#include "model/url.h"

enum { NTH_MAX = 10000 };

EMQ_TEST(a_batch_line_without_memory_is_nomem_and_fills_nothing)
{
    static const char line[] =
        "{\"data\":1,\"name\":\"n\",\"group\":\"g\",\"dedup\":{\"id\":\"d\"},"
        "\"backoff\":\"fixed:1s\",\"keepFailed\":\"5,1d\"}";
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct emq__arena mem = {0};
        emq_add_opts o = {.size = 7};
        emq_str data = {0};
        emq_error err = {0};
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq__opts_from_batch(emq_cstr(line), &mem, &o, &data, &err);
        failed = test_alloc_failed();
        CHECK_STATUS_ERR(s, failed ? EMQ_E_NOMEM : EMQ_OK, &err);
        CHECK_INT(o.size, failed ? 7 : sizeof o);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(a_url_without_memory_is_nomem)
{
    char text[40000];
    bool failed = true;

    /* Long enough for a block of its own for each part. */
    size_t n = (size_t)snprintf(text, sizeof text, "sqlite:");
    memset(text + n, 'p', 20000);
    n += 20000;
    n += (size_t)snprintf(text + n, sizeof text - n, "?a=");
    memset(text + n, 'v', 19000);
    n += 19000;
    for (size_t nth = 1; failed; nth++) {
        struct emq__arena mem = {0};
        struct emq__url u;
        emq_error err = {0};
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq__url_parse(emq_strn(text, n), &mem, &u, &err);
        failed = test_alloc_failed();
        CHECK_STATUS_ERR(s, failed ? EMQ_E_NOMEM : EMQ_OK, &err);
        emq__arena_free(&mem);
        test_fail_alloc(nth);
        s = emq__url_parse(EMQ_STR_LIT("/a/bare/path"), &mem, &u, &err);
        CHECK_STATUS_ERR(s, test_alloc_failed() ? EMQ_E_NOMEM : EMQ_OK, &err);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(writers_without_memory_leave_it_in_the_buffer)
{
    struct emq__job j = {.id = {"7", 1},
                         .name = {"n", 1},
                         .data = {EMQ__KIND_BYTES, {"\xff", 1}},
                         .stacktrace = {"[\"one\"]", 7}};
    struct emq__opts o;
    emq_str id, name;
    bool failed = true;

    CHECK_STATUS(emq__opts_from_public(NULL, &o, &id, &name, NULL), EMQ_OK);
    for (size_t nth = 1; failed; nth++) {
        struct emq__buf b;
        CHECK(nth < NTH_MAX);
        emq__buf_init(&b, 1 << 20);
        test_fail_alloc(nth);
        emq__opts_write(&o, id, &b);
        emq__job_identity(&j, &b);
        emq__stack_append(j.stacktrace, EMQ_STR_LIT("two"), -1, &b);
        emq__job_json(&j, &b);
        failed = test_alloc_failed();
        CHECK_STATUS(b.failed, failed ? EMQ_E_NOMEM : EMQ_OK);
        emq__buf_free(&b);
    }
}

EMQ_TEST(a_refusal_needs_no_memory)
{
    emq_add_opts in = {.size = sizeof in, .backoff_type = EMQ_BACKOFF_FIXED, .backoff_jitter = 1.5};
    struct emq__opts o;
    emq_str id, name;
    emq_error err = {0};

    test_fail_alloc(1);
    emq_status s = emq__opts_from_public(&in, &o, &id, &name, &err);
    (void)test_alloc_failed();
    CHECK_STATUS(s, EMQ_E_INVALID);
    CHECK(strstr(err.text, "0..1") != NULL);
}
