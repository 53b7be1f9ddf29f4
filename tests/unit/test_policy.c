/* SPDX-License-Identifier: MIT
 *
 * Backoff and the retry decision.
 */
#include "model/policy.h"

#include "base/str.h"
#include "lib/test.h"
#include "model/duration.h"

static double unit(uint64_t *rnd)
{
    return (double)(test_random(rnd) >> 11) / 9007199254740992.0;
}

EMQ_TEST(exponential_backoff_doubles_up_to_its_cap)
{
    struct emq__backoff b = {.type = EMQ_BACKOFF_EXPONENTIAL, .delay_ms = 1000, .max_ms = 3600000};
    static const int64_t expected[] = {1000,   2000,   4000,   8000,    16000,   32000,   64000,
                                       128000, 256000, 512000, 1024000, 2048000, 3600000, 3600000};

    for (int32_t a = 1; a <= (int32_t)EMQ_ARRAY_LEN(expected); a++)
        CHECK_INT(emq__backoff_ms(&b, a, 0.5), expected[a - 1]);
    CHECK_INT(emq__backoff_ms(&b, 0, 0.5), 1000);
    CHECK_INT(emq__backoff_ms(&b, -5, 0.5), 1000);
    CHECK_INT(emq__backoff_ms(&b, INT32_MAX, 0.5), 3600000);
}

EMQ_TEST(fixed_backoff_stays_and_none_is_at_once)
{
    struct emq__backoff b = {.type = EMQ_BACKOFF_FIXED, .delay_ms = 5000};

    CHECK_INT(emq__backoff_ms(&b, 1, 0), 5000);
    CHECK_INT(emq__backoff_ms(&b, INT32_MAX, 0), 5000);
    b.type = EMQ_BACKOFF_NONE;
    CHECK_INT(emq__backoff_ms(&b, 3, 0.9), 0);
}

EMQ_TEST(jitter_follows_the_formula_of_bullmq)
{
    struct emq__backoff b = {.type = EMQ_BACKOFF_FIXED, .delay_ms = 1000, .jitter = 0.5};

    CHECK_INT(emq__backoff_ms(&b, 1, 0.0), 500);
    CHECK_INT(emq__backoff_ms(&b, 1, 0.5), 750);
    CHECK_INT(emq__backoff_ms(&b, 1, 0.999), 999);
    b.type = EMQ_BACKOFF_EXPONENTIAL;
    CHECK_INT(emq__backoff_ms(&b, 3, 0.25), 2500);
    b.jitter = 1;
    CHECK_INT(emq__backoff_ms(&b, 3, 0.0), 0);
    b.max_ms = 2000; /* jobs at the cap are spread too */
    CHECK_INT(emq__backoff_ms(&b, 3, 0.5), 1000);
}

EMQ_TEST(backoff_of_an_unknown_type_is_fixed_and_never_spins)
{
    struct emq__backoff b = {.type = 0, .delay_ms = 700};

    CHECK_INT(emq__backoff_ms(&b, 4, 0), 700);
    b.delay_ms = 0;
    CHECK_INT(emq__backoff_ms(&b, 4, 0), 1000);
}

EMQ_TEST(backoff_saturates_at_its_ends)
{
    static const int32_t types[] = {0, EMQ_BACKOFF_FIXED, EMQ_BACKOFF_EXPONENTIAL};
    static const int32_t made[] = {INT32_MIN, -1, 0, 1, 2, 31, 32, 62, 63, 64, 65, INT32_MAX};

    for (size_t t = 0; t < EMQ_ARRAY_LEN(types); t++) {
        for (size_t m = 0; m < EMQ_ARRAY_LEN(made); m++) {
            struct emq__backoff b = {.type = types[t], .delay_ms = INT64_MAX};
            CHECK_INT(emq__backoff_ms(&b, made[m], 0.5), EMQ__SPAN_MAX_MS);
            b.max_ms = INT64_MAX;
            CHECK_INT(emq__backoff_ms(&b, made[m], 0.5), EMQ__SPAN_MAX_MS);
            b.max_ms = 77;
            CHECK_INT(emq__backoff_ms(&b, made[m], 0.5), 77);
            b.delay_ms = INT64_MIN;
            CHECK(emq__backoff_ms(&b, made[m], 0.5) <= 77);
            CHECK(emq__backoff_ms(&b, made[m], 0.5) >= 0);
            b = (struct emq__backoff){types[t], INT64_MAX, INT64_MIN, 1.0};
            CHECK(emq__backoff_ms(&b, made[m], 0.999999) <= EMQ__SPAN_MAX_MS);
        }
    }
    struct emq__backoff b = {.type = EMQ_BACKOFF_EXPONENTIAL, .delay_ms = 1};
    CHECK_INT(emq__backoff_ms(&b, INT32_MAX, 0), EMQ__SPAN_MAX_MS);
}

EMQ_TEST(backoff_is_never_negative_and_never_above_its_cap)
{
    uint64_t rnd = test_seed();

    for (int i = 0; i < 200000; i++) {
        struct emq__backoff b = {
            .type = (int32_t)(test_random(&rnd) % 5),
            .delay_ms = (int64_t)test_random(&rnd) >> test_random(&rnd) % 64,
            .max_ms = (int64_t)test_random(&rnd) >> test_random(&rnd) % 64,
            .jitter = unit(&rnd) * 3 - 1,
        };
        if (i % 1000 == 0)
            b.jitter = strtod("nan", NULL);
        int32_t made = (int32_t)((uint32_t)test_random(&rnd) >> test_random(&rnd) % 32);
        int64_t ms = emq__backoff_ms(&b, made, unit(&rnd));
        CHECK(ms >= 0);
        CHECK(ms <= EMQ__SPAN_MAX_MS);
        if (b.max_ms > 0)
            CHECK(ms <= b.max_ms);
        CHECK(emq__backoff_ms(&b, made, strtod("nan", NULL)) >= 0);
    }
}

EMQ_TEST(backoff_without_jitter_never_shrinks_with_the_attempts)
{
    uint64_t rnd = test_seed();

    for (int i = 0; i < 200; i++) {
        struct emq__backoff b = {.type = EMQ_BACKOFF_EXPONENTIAL,
                                 .delay_ms = (int64_t)(test_random(&rnd) % 1000000)};
        for (int32_t a = 1; a < 100; a++)
            CHECK(emq__backoff_ms(&b, a + 1, 0) >= emq__backoff_ms(&b, a, 0));
    }
}

EMQ_TEST(retry_goes_on_until_the_attempts_are_used_up)
{
    struct emq__opts o = {.attempts = 3, .backoff = {EMQ_BACKOFF_EXPONENTIAL, 100, 0, 0}};
    struct emq__job j = {.state = EMQ_ACTIVE};

    struct emq__retry r = emq__retry_decide(&j, &o, 0);
    CHECK(r.again);
    CHECK_INT(r.delay_ms, 100);
    j.attempts_made = 1;
    r = emq__retry_decide(&j, &o, 0);
    CHECK(r.again);
    CHECK_INT(r.delay_ms, 200);
    j.attempts_made = 2;
    r = emq__retry_decide(&j, &o, 0);
    CHECK(!r.again);
    CHECK_INT(r.delay_ms, 0);
}

EMQ_TEST(retry_never_follows_the_only_attempt_or_an_at_most_once_hand_out)
{
    struct emq__opts o = {.attempts = 1};
    struct emq__job j = {0};

    CHECK(!emq__retry_decide(&j, &o, 0).again);
    o.attempts = 0;
    CHECK(!emq__retry_decide(&j, &o, 0).again);
    o.attempts = INT32_MAX;
    CHECK(emq__retry_decide(&j, &o, 0).again);
    j.attempts_made = INT32_MAX;
    CHECK(!emq__retry_decide(&j, &o, 0).again);
    j.attempts_made = 0;
    j.mode = EMQ_AT_MOST_ONCE;
    CHECK(!emq__retry_decide(&j, &o, 0).again);
    j.mode = EMQ_FIRE_AND_FORGET;
    CHECK(!emq__retry_decide(&j, &o, 0).again);
}
