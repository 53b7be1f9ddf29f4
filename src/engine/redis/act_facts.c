/* SPDX-License-Identifier: MIT
 *
 * The act `facts`: what this server is and how it keeps what it was given. What its administrator does not let
 * us read is left out.
 */
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"

enum { FACTS_MAX = 40 };

struct facts {
    struct rd_engine *e;
    size_t node;
    struct emq__facts_res *res;
    struct emq__arena *mem;
};

static void put(struct facts *f, const char *name, emq_str value)
{
    if (value.ptr && value.len && f->res->n < FACTS_MAX)
        f->res->facts[f->res->n++] = (struct emq__fact){emq_cstr(name), value};
}

static void put_i64(struct facts *f, const char *name, int64_t value)
{
    put(f, name, emq__arena_printf(f->mem, "%lld", (long long)value));
}

/* NULL: not told, and for want of the right the fact `what` is "refused". Only failures to ask are failures. */
static emq_status ask(struct facts *f, const char *what, const char *const *words,
                      const struct rd_reply **r, emq_error *err)
{
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, f->mem);
    for (; *words; words++)
        rd_cmd_text(&cmd, *words);
    *r = NULL;
    emq_status s = rd_command(f->e, f->node, &cmd, f->mem, r, err);
    if (s == EMQ_E_REFUSED && *r && emq__str_starts(rd_str(*r), "NOPERM"))
        put(f, what, EMQ_STR_LIT("refused"));
    if (s == EMQ_E_REFUSED || s == EMQ_E_INVALID || s == EMQ_E_STORE) {
        *r = NULL;
        return EMQ_OK;
    }
    return s;
}

static void of_info(struct facts *f, emq_str info)
{
    static const struct {
        const char *name, *fact;
    } wanted[] = {{"role", "role"},
                  {"connected_slaves", "replicas"},
                  {"aof_enabled", "aof"},
                  {"aof_last_write_status", "aof_status"},
                  {"rdb_last_bgsave_status", "snapshot_status"},
                  {"rdb_last_save_time", "snapshot_at"},
                  {"maxmemory", "maxmemory"},
                  {"maxmemory_policy", "policy"},
                  {"used_memory", "used_memory"},
                  {"evicted_keys", "evicted"},
                  {"maxclients", "maxclients"},
                  {"connected_clients", "clients"}};
    emq_str valkey = rd_info_field(info, "valkey_version");

    put(f, "server", valkey.len ? EMQ_STR_LIT("Valkey") : EMQ_STR_LIT("Redis"));
    put(f, "version", valkey.len ? valkey : rd_info_field(info, "redis_version"));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(wanted); i++)
        put(f, wanted[i].fact, rd_info_field(info, wanted[i].name));
}

static emq_status of_config(struct facts *f, emq_error *err)
{
    static const char *const names[] = {"appendfsync", "save", "min-replicas-to-write", "timeout"};
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < EMQ_ARRAY_LEN(names); i++) {
        const char *const words[] = {"CONFIG", "GET", names[i], NULL};
        const struct rd_reply *r;
        s = ask(f, "config", words, &r, err);
        if (s == EMQ_OK && !r)
            break; /* nor may it the others */
        if (s == EMQ_OK && r)
            put(f, names[i], rd_at(r, 1)->s.len ? rd_str(rd_at(r, 1)) : EMQ_STR_LIT("none"));
    }
    return s;
}

/* By how much the server's clock is ahead of this machine's, as well as half a round trip lets us know. */
static emq_status of_clock(struct facts *f, emq_error *err)
{
    static const char *const words[] = {"TIME", NULL};
    struct emq__mono begin = emq__mono_now();
    int64_t before_ms = emq__wall_ms();
    const struct rd_reply *r;
    emq_status s = ask(f, "time", words, &r, err);

    if (s != EMQ_OK || !r)
        return s;
    int64_t trip_ms = emq__mono_diff_ms(begin, emq__mono_now());
    int64_t its_ms = rd_i64(rd_at(r, 0)) * 1000 + rd_i64(rd_at(r, 1)) / 1000;
    put_i64(f, "clock_ahead_ms", its_ms - before_ms - trip_ms / 2);
    put_i64(f, "round_trip_ms", trip_ms);
    return EMQ_OK;
}

emq_status rd_facts(struct emq__engine *engine, const struct emq__facts_req *req,
                    struct emq__facts_res *res, struct emq__arena *mem, emq_error *err)
{
    static const char *const info[] = {"INFO", NULL};
    struct facts f = {.e = rd_of(engine), .res = res, .mem = mem};
    const struct rd_reply *r;

    (void)req;
    f.node = rd_nth_master(f.e, 0);
    *res = (struct emq__facts_res){.now_ms = rd_clock_now_ms(f.e)};
    res->facts = emq__arena_zalloc(mem, FACTS_MAX, sizeof *res->facts);
    if (!res->facts)
        return emq__fail(err, EMQ_E_NOMEM, 0, "facts", "%d facts", FACTS_MAX);
    put(&f, "engine", EMQ_STR_LIT("redis"));
    put(&f, "cluster", f.e->cluster ? EMQ_STR_LIT("yes") : EMQ_STR_LIT("no"));
    put_i64(&f, "wait", f.e->cfg.wait_replicas);
    emq_status s = ask(&f, "info", info, &r, err);
    if (s == EMQ_OK && r)
        of_info(&f, rd_str(r));
    if (s == EMQ_OK)
        s = of_config(&f, err);
    return s == EMQ_OK ? of_clock(&f, err) : s;
}
