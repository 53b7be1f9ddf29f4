/* SPDX-License-Identifier: MIT
 *
 * Clocks, random numbers, and the name of this process.
 */
#include "lib/test.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"

#include <time.h>
#include <unistd.h>

EMQ_TEST(the_wall_clock_agrees_with_the_c_library)
{
    int64_t before = (int64_t)time(NULL);
    int64_t ms = emq__wall_ms();
    int64_t us = emq__wall_us();
    int64_t after = (int64_t)time(NULL);

    /* time() may lag by one tick. */
    CHECK(ms / 1000 >= before && ms / 1000 <= after + 1);
    CHECK(us / 1000000 >= before && us / 1000000 <= after + 1);
    CHECK(us / 1000 >= ms);
}

EMQ_TEST(the_other_clock_never_goes_back)
{
    struct emq__mono last = emq__mono_now();

    CHECK(last.us > 0);
    for (int i = 0; i < 10000; i++) {
        struct emq__mono now = emq__mono_now();
        CHECK(now.us >= last.us);
        last = now;
    }
}

EMQ_TEST(spans_saturate_instead_of_wrapping)
{
    struct emq__mono t = {1000000};

    CHECK_INT(emq__mono_add_ms(t, 5).us, 1005000);
    CHECK_INT(emq__mono_add_ms(t, -1).us, 999000);
    CHECK_INT(emq__mono_add_ms(t, INT64_MAX).us, INT64_MAX);
    CHECK_INT(emq__mono_diff_ms(t, emq__mono_add_ms(t, 7)), 7);
    CHECK_INT(emq__mono_diff_ms(emq__mono_add_ms(t, 7), t), -7);
    CHECK_INT(emq__sat_add(INT64_MAX, 1), INT64_MAX);
    CHECK_INT(emq__sat_add(INT64_MIN, -1), INT64_MIN);
    CHECK_INT(emq__mono_add_ms((struct emq__mono){-1}, INT64_MIN).us, INT64_MIN);
}

EMQ_TEST(the_difference_of_instants_is_rounded_down_and_saturates)
{
    struct emq__mono a = {0}, b = {1999}, far = {INT64_MAX}, past = {INT64_MIN};

    CHECK_INT(emq__mono_diff_ms(a, b), 1);
    CHECK_INT(emq__mono_diff_ms(b, a), -2);
    CHECK_INT(emq__mono_diff_ms((struct emq__mono){1}, a), -1);
    CHECK_INT(emq__mono_diff_ms(a, a), 0);
    CHECK(emq__mono_diff_ms(past, far) > 0);
    CHECK(emq__mono_diff_ms(far, past) < 0);
}

EMQ_TEST(the_boot_id_is_the_kernels)
{
    char text[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    CHECK(f);
    CHECK(fgets(text, sizeof text, f));
    (void)fclose(f);
    text[strcspn(text, "\n")] = '\0';
    CHECK_STR(emq__boot_id(), text);
    CHECK_INT(emq__boot_id().len, 36);
    CHECK(emq__boot_id().ptr == emq__boot_id().ptr);
}

EMQ_TEST(random_ids_are_unique_and_of_the_alphabet)
{
    enum { COUNT = 50000 };
    struct emq__map m = {0};
    char id[EMQ__RANDOM_ID_LEN + 1];

    for (int i = 0; i < COUNT; i++) {
        emq__random_id(id);
        CHECK_INT(strlen(id), EMQ__RANDOM_ID_LEN);
        CHECK_INT(strspn(id, "abcdefghijklmnopqrstuvwxyz234567"), EMQ__RANDOM_ID_LEN);
        CHECK(!emq__map_get(&m, emq_cstr(id)));
        CHECK(emq__map_put(&m, emq_cstr(id), &m));
    }
    emq__map_free(&m);
}

EMQ_TEST(random_bytes_fill_the_whole_range)
{
    enum { SIZE = 100000 };
    static unsigned char bytes[SIZE + 1];
    int count[256] = {0};

    bytes[SIZE] = 0x5a;
    emq__random(bytes, SIZE);
    emq__random(bytes, 0);
    CHECK_INT(bytes[SIZE], 0x5a);
    for (size_t i = 0; i < SIZE; i++)
        count[bytes[i]]++;
    for (int i = 0; i < 256; i++)
        CHECK(count[i] > 200 && count[i] < 650); /* 390 expected: nine standard deviations */
}

EMQ_TEST(the_unit_interval_is_half_open_and_even)
{
    double sum = 0;

    for (int i = 0; i < 20000; i++) {
        double v = emq__random_unit();
        CHECK(v >= 0 && v < 1);
        sum += v;
    }
    CHECK(sum > 9600 && sum < 10400); /* ten standard deviations */
}

EMQ_TEST(the_process_is_named_host_and_pid)
{
    char out[101], pid[32], tiny[4];

    emq__host_pid(out, sizeof out);
    (void)snprintf(pid, sizeof pid, ":%ld", (long)getpid());
    size_t n = strlen(out), p = strlen(pid);
    CHECK(n > p && n <= 100);
    CHECK_STR(emq_cstr(out + n - p), pid);
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] > ' ' && out[i] < 0x7f);
    emq__host_pid(tiny, sizeof tiny);
    CHECK_INT(strlen(tiny), 3);
}
