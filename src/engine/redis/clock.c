/* SPDX-License-Identifier: MIT
 *
 * The store's clock is the server's. Tests move it: by an offset that every script gets, and by taking
 * as much from every TTL.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

static int64_t local_ms(void)
{
    return emq__mono_now().us / 1000;
}

emq_str rd_clock_text(const struct rd_engine *e, char out[RD_CLOCK_TEXT_MAX])
{
    int64_t ahead = atomic_load(&e->advance_ms);
    int n = 0;

    if (e->stopped)
        n = snprintf(out, RD_CLOCK_TEXT_MAX, "=%lld", (long long)(e->stopped_us + ahead * 1000));
    else if (ahead != 0)
        n = snprintf(out, RD_CLOCK_TEXT_MAX, "+%lld", (long long)ahead);
    return emq_strn(out, (size_t)n);
}

int64_t rd_clock_now_ms(const struct rd_engine *e)
{
    if (e->stopped)
        return e->stopped_us / 1000 + atomic_load(&e->advance_ms);
    return local_ms() + atomic_load(&e->store_ahead_ms);
}

void rd_clock_seen(struct rd_engine *e, int64_t now_ms)
{
    atomic_store(&e->store_ahead_ms, now_ms - local_ms());
}

emq_status rd_clock_read(struct rd_engine *e, emq_error *err)
{
    struct emq__arena mem = {0};
    const struct rd_reply *r;
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "TIME");
    emq_status s = rd_command(e, rd_nth_master(e, 0), &cmd, &mem, &r, err);
    if (s == EMQ_OK) {
        int64_t us = rd_i64(rd_at(r, 0)) * 1000000 + rd_i64(rd_at(r, 1));
        e->stopped_us = us;
        rd_clock_seen(e, us / 1000);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status rd_clock_advance(struct emq__engine *engine, int64_t ms, emq_error *err)
{
    struct rd_engine *e = rd_of(engine);
    emq_status s = EMQ_OK;

    if (ms < 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "advance", "%lld ms: clocks only go forward",
                         (long long)ms);
    atomic_fetch_add(&e->advance_ms, ms);
    atomic_fetch_add(&e->store_ahead_ms, ms);
    for (size_t i = 0; s == EMQ_OK && ms > 0 && i < rd_nodes(engine); i++) {
        struct emq__arena mem = {0};
        const struct rd_reply *r;
        emq_str none = EMQ_STR_LIT("");
        struct rd_args *a = rd_args_new(engine, RD_LUA_advance, none, none, &mem);
        rd_arg_i64(a, ms);
        rd_arg_writes(a);
        s = rd_eval_node(a, i, &r, err);
        emq__arena_free(&mem);
    }
    return s;
}
