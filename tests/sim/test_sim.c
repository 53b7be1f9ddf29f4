/* SPDX-License-Identifier: MIT
 *
 * Simulations by seed. EMQ_SIM_SEEDS sets how many, EMQ_SIM_STEPS how long; EMQ_TEST_SEED the first.
 */
#include "sim.h"

static int from_environment(const char *name, int usual)
{
    const char *text = getenv(name);
    int n = text ? (int)strtol(text, NULL, 10) : 0;
    return n > 0 ? n : usual;
}

static void run(enum fx_kind kind, int seeds)
{
    seeds = from_environment("EMQ_SIM_SEEDS", seeds);
    for (int i = 0; i < seeds; i++)
        (void)sim_run(kind, test_seed() + (uint64_t)i, from_environment("EMQ_SIM_STEPS", 2000));
}

EMQ_TEST_ON("naive", workers_that_die_freeze_and_lose_messages_lose_no_job_of_the_model)
{
    run(FX_NAIVE, 20);
}

EMQ_TEST_ON("sqlite-memory", workers_that_die_freeze_and_lose_messages_lose_no_job_of_sqlite)
{
    run(FX_SQLITE_MEMORY, 6);
}

#ifdef EMQ_HAVE_REDIS
EMQ_TEST_ON("redis", workers_that_die_freeze_and_lose_messages_lose_no_job_of_redis)
{
    run(FX_REDIS, 1); /* some 20 s; the long tests take many */
}

EMQ_TEST_ON("valkey", workers_that_die_freeze_and_lose_messages_lose_no_job_of_valkey)
{
    run(FX_VALKEY, 1);
}
#endif

EMQ_TEST_ON("naive", a_run_on_the_model_repeats_exactly)
{
    uint64_t a = sim_run(FX_NAIVE, test_seed(), 1000), b = sim_run(FX_NAIVE, test_seed(), 1000);
    CHECK(a == b);
    CHECK(a != sim_run(FX_NAIVE, test_seed() + 1, 1000));
}
