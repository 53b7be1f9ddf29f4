/* SPDX-License-Identifier: MIT
 *
 * Not a test of its own: three tests that runner_test.sh runs to see what the runner makes of them.
 */
#include "lib/test.h"

EMQ_TEST(demo_passes)
{
    FILE *f;
    char path[4200];

    (void)snprintf(path, sizeof path, "%s/file", test_temp_dir());
    f = fopen(path, "w");
    CHECK(f);
    CHECK_INT(fclose(f), 0);
    printf("seed=%llu\n", (unsigned long long)test_seed());
}

EMQ_TEST(demo_fails)
{
    emq_error err = {.status = EMQ_E_STORE, .where = "demo", .text = "the disk said no"};

    (void)test_temp_dir();
    CHECK_STATUS_ERR(EMQ_E_STORE, EMQ_OK, &err);
}

EMQ_TEST(demo_skips)
{
    test_require(false, "unicorn", "install one");
    CHECK(false);
}
