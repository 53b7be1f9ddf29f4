/* SPDX-License-Identifier: MIT
 *
 * Ten thousand random operations on the model engine and on a real one: results, pictures and events
 * are the same after each. EMQ_TEST_SEED repeats a run, EMQ_RANDOM_OPS sets its length.
 */
#include "random.h"

#include "base/clock.h"

static int operations(int usual)
{
    const char *text = getenv("EMQ_RANDOM_OPS");
    int n = text ? (int)strtol(text, NULL, 10) : 0;
    return n > 0 ? n : usual;
}

static void start(struct lockstep *l, enum fx_kind kind, uint64_t seed, struct emq__arena *mem)
{
    char file[600];
    emq_error err = {0};

    l->seed = l->random = seed;
    l->real0_ms = emq__wall_ms();
    (void)snprintf(file, sizeof file, "%s/random-%d.db", test_temp_dir(), (int)kind);
    CHECK_STATUS_ERR(fx_open(FX_NAIVE, NULL, &l->e[0], mem, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(fx_open(kind, file, &l->e[1], mem, &err), EMQ_OK, &err);
    for (int side = 0; side < 2; side++) {
        struct emq__stats_req req = {.prefix = FX_PREFIX, .queue = random_queue(0)};
        struct emq__stats_res res;
        CHECK_STATUS_ERR(l->e[side]->ops->stats(l->e[side], &req, &res, mem, &err), EMQ_OK, &err);
        l->t0[side] = l->now[side] = res.now_ms;
    }
}

static void run(enum fx_kind kind, uint64_t seed, int n)
{
    struct lockstep *l;
    struct emq__arena mem = {0};

    l = calloc(1, sizeof *l);
    assert_non_null(l);
    start(l, kind, seed, &mem);
    for (l->op = 0; l->op < n; l->op++) {
        random_operation(l);
        same_picture(l);
    }
    for (int side = 0; side < 2; side++) {
        l->e[side]->ops->close(l->e[side]);
        emq__arena_free(&l->mem[side]);
    }
    emq__arena_free(&mem);
    free(l);
}

EMQ_TEST_ON("sqlite-memory",
            ten_thousand_random_operations_on_sqlite_in_memory_do_what_the_model_does)
{
    run(FX_SQLITE_MEMORY, test_seed(), operations(10000));
}

EMQ_TEST_ON("sqlite-file", random_operations_on_a_sqlite_file_do_what_the_model_does)
{
    run(FX_SQLITE_FILE, test_seed(), operations(3000));
}

#ifdef EMQ_HAVE_REDIS
EMQ_TEST_ON("redis", random_operations_on_redis_do_what_the_model_does)
{
    run(FX_REDIS, test_seed(), operations(3000));
}

EMQ_TEST_ON("valkey", random_operations_on_valkey_do_what_the_model_does)
{
    run(FX_VALKEY, test_seed(), operations(3000));
}
#endif
