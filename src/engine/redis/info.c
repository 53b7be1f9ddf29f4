/* SPDX-License-Identifier: MIT
 *
 * What the server says about itself when the store is opened: whether it is new enough, takes writes, may
 * forget jobs, and what a crash of it can lose.
 */
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

emq_str rd_info_field(emq_str text, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i + n < text.len;) {
        const char *end = memchr(text.ptr + i, '\n', text.len - i);
        size_t len = end ? (size_t)(end - text.ptr) - i : text.len - i;
        emq_str line = emq_strn(text.ptr + i, len);
        i += len + 1;
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len > n && memcmp(line.ptr, name, n) == 0 && line.ptr[n] == ':')
            return emq_strn(line.ptr + n + 1, line.len - n - 1);
    }
    return EMQ_STR_LIT("");
}

/* "7.2.4" >= major.minor */
static bool at_least(emq_str version, int64_t major, int64_t minor)
{
    int64_t part[2] = {0, 0};
    size_t i = 0;

    for (int p = 0; p < 2; p++) {
        size_t end = emq__skip_digits(version, i);
        if (!emq__str_to_i64(emq_strn(version.ptr + i, end - i), &part[p]))
            return false;
        i = end < version.len ? end + 1 : end;
    }
    return part[0] > major || (part[0] == major && part[1] >= minor);
}

static emq_status check_version(emq_str info, emq_error *err)
{
    emq_str valkey = rd_info_field(info, "valkey_version"),
            redis = rd_info_field(info, "redis_version");

    if (valkey.len > 0)
        return at_least(valkey, 7, 2)
                   ? EMQ_OK
                   : emq__fail(err, EMQ_E_VERSION, 0, "open",
                               "the server is Valkey %.*s: 7.2 or newer is needed",
                               EMQ_STR_ARG(valkey));
    if (redis.len == 0 || at_least(redis, 6, 2))
        return EMQ_OK;
    return emq__fail(err, EMQ_E_VERSION, 0, "open",
                     "the server is Redis %.*s: 6.2 or newer is needed", EMQ_STR_ARG(redis));
}

static void tell(const struct rd_engine *e, emq_str info)
{
    emq_str policy = rd_info_field(info, "maxmemory_policy"),
            valkey = rd_info_field(info, "valkey_version");
    emq_str version = valkey.len > 0 ? valkey : rd_info_field(info, "redis_version");
    bool aof = emq__str_is(rd_info_field(info, "aof_enabled"), "1");

    emq__log_write(&e->log, EMQ_LOG_DEBUG,
                   "%s %.*s, maxmemory-policy %.*s, appendonly %s, last snapshot %.*s",
                   valkey.len > 0 ? "Valkey" : "Redis", EMQ_STR_ARG(version), EMQ_STR_ARG(policy),
                   aof ? "yes" : "no", EMQ_STR_ARG(rd_info_field(info, "rdb_last_save_time")));
    if (policy.len > 0 && !emq__str_is(policy, "noeviction"))
        emq__log_write(
            &e->log, EMQ_LOG_WARN,
            "the server's maxmemory-policy is %.*s: it may throw jobs away when its memory is "
            "full; set it to noeviction",
            EMQ_STR_ARG(policy));
}

/* INFO's text; "" when the user may not read it. */
static emq_status ask_info(struct rd_engine *e, struct emq__arena *mem, emq_str *info,
                           emq_error *err)
{
    const struct rd_reply *r = NULL;
    struct rd_cmd cmd;
    emq_error why = {0};

    *info = EMQ_STR_LIT("");
    rd_cmd_init(&cmd, mem);
    rd_cmd_text(&cmd, "INFO");
    emq_status s = rd_command(e, rd_nth_master(e, 0), &cmd, mem, &r, &why);
    if (s == EMQ_E_REFUSED && r && emq__str_starts(rd_str(r), "NOPERM")) {
        emq__log_write(
            &e->log, EMQ_LOG_WARN,
            "this user may not read INFO: the server's version and settings are unknown");
        return EMQ_OK;
    }
    if (s == EMQ_OK)
        *info = rd_str(r);
    else if (err)
        *err = why;
    return s;
}

/* Sentinels and clusters are asked for the primary. */
static bool is_replica(const struct rd_engine *e, emq_str info)
{
    return e->cfg.mode == RD_PLAIN && emq__str_is(rd_info_field(info, "role"), "slave") &&
           !emq__str_is(rd_info_field(info, "slave_read_only"), "0");
}

emq_status rd_may_write(struct rd_engine *e, emq_error *err)
{
    struct emq__arena mem = {0};
    emq_str info;

    if (!atomic_load(&e->replica))
        return EMQ_OK;
    emq_status s = ask_info(e, &mem, &info, err);
    if (s == EMQ_OK)
        atomic_store(&e->replica, is_replica(e, info));
    if (s == EMQ_OK && atomic_load(&e->replica))
        s = emq__fail(
            err, EMQ_E_REFUSED, 0, "write",
            "the server is a read-only replica of %.*s:%.*s, which can only be looked at: "
            "name the primary, or use redis+sentinel:",
            EMQ_STR_ARG(rd_info_field(info, "master_host")),
            EMQ_STR_ARG(rd_info_field(info, "master_port")));
    emq__arena_free(&mem);
    return s;
}

emq_status rd_info_read(struct rd_engine *e, emq_error *err)
{
    struct emq__arena mem = {0};
    emq_str info;

    emq_status s = ask_info(e, &mem, &info, err);
    if (s == EMQ_OK)
        s = check_version(info, err);
    if (s == EMQ_OK) {
        tell(e, info);
        e->cluster = e->cluster || emq__str_is(rd_info_field(info, "cluster_enabled"), "1");
        atomic_store(&e->replica, is_replica(e, info));
    }
    emq__arena_free(&mem);
    return s;
}
