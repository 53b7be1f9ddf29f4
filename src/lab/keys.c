/* SPDX-License-Identifier: MIT
 *
 * See keys.h.
 */
#include "lab/keys.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "client/client.h"
#include "lab/proc.h"

#ifdef EMQ_HAVE_REDIS
#include "engine/redis/ground.h"

/* What a walk through all keys of a pattern does with each. */
typedef emq_status (*key_fn)(struct rd_engine *e, size_t node, emq_str key, struct emq__arena *mem,
                             void *arg, emq_error *err);

/* One step of SCAN. */
static emq_status walk_some(struct rd_engine *e, size_t node, emq_str *cursor, const char *pattern,
                            key_fn fn, void *arg, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r = NULL;
    struct rd_cmd scan;

    rd_cmd_init(&scan, mem);
    rd_cmd_text(&scan, "SCAN");
    rd_cmd_arg(&scan, *cursor);
    rd_cmd_text(&scan, "MATCH");
    rd_cmd_text(&scan, pattern);
    rd_cmd_text(&scan, "COUNT");
    rd_cmd_i64(&scan, 1000);
    emq_status s = rd_command(e, node, &scan, mem, &r, err);
    if (s != EMQ_OK)
        return s;
    *cursor = rd_str(rd_at(r, 0));
    const struct rd_reply *keys = rd_at(r, 1);
    for (size_t i = 0; s == EMQ_OK && i < keys->n; i++)
        s = fn(e, node, rd_str(rd_at(keys, i)), mem, arg, err);
    return s;
}

static emq_status walk(struct rd_engine *e, const char *pattern, key_fn fn, void *arg,
                       emq_error *err)
{
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < rd_nodes(&e->base); i++) {
        struct emq__arena mem = {0};
        emq_str cursor = EMQ_STR_LIT("0");
        do
            s = walk_some(e, rd_nth_master(e, i), &cursor, pattern, fn, arg, &mem, err);
        while (s == EMQ_OK && !(cursor.len == 1 && cursor.ptr[0] == '0'));
        emq__arena_free(&mem);
    }
    return s;
}

/* A command of a name and a key. */
static emq_status ask(struct rd_engine *e, size_t node, const char *name, emq_str key,
                      struct emq__arena *mem, const struct rd_reply **r, emq_error *err)
{
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, mem);
    rd_cmd_text(&cmd, name);
    rd_cmd_arg(&cmd, key);
    return rd_command(e, node, &cmd, mem, r, err);
}

static emq_status remove_key(struct rd_engine *e, size_t node, emq_str key, struct emq__arena *mem,
                             void *arg, emq_error *err)
{
    const struct rd_reply *none;

    (void)arg;
    return ask(e, node, "DEL", key, mem, &none, err);
}

emq_status lab_keys_remove(emq_client *c, const char *prefix, emq_error *err)
{
    char pattern[LAB_PATH_MAX];

    (void)snprintf(pattern, sizeof pattern, "%s*", prefix);
    return walk(rd_of(c->base), pattern, remove_key, NULL, err);
}

/* ---- marks ------------------------------------------------------------------------------- */

static const char mark_behind[] = "-alive";

emq_status lab_mark_renew(emq_client *c, const char *prefix, emq_error *err)
{
    enum { MARK_MS = 600000 };
    struct rd_engine *e = rd_of(c->base);
    struct emq__arena mem = {0};
    const struct rd_reply *none;
    char name[LAB_PATH_MAX];
    struct rd_cmd cmd;

    (void)snprintf(name, sizeof name, "%s%s", prefix, mark_behind);
    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "SET");
    rd_cmd_text(&cmd, name);
    rd_cmd_text(&cmd, "1");
    rd_cmd_text(&cmd, "PX");
    rd_cmd_i64(&cmd, MARK_MS);
    emq_status s = rd_command(e, rd_nth_master(e, 0), &cmd, &mem, &none, err);
    emq__arena_free(&mem);
    return s;
}

/* The prefix of a lab's key, with its braces on a cluster; empty: of none. */
static emq_str prefix_of(emq_str key)
{
    static const char begin[] = "emq-lab-";
    size_t brace = key.len && key.ptr[0] == '{', len = sizeof begin - 1 + EMQ__RANDOM_ID_LEN;

    if (key.len < len + 2 * brace || memcmp(key.ptr + brace, begin, sizeof begin - 1) != 0 ||
        (brace && key.ptr[len + 1] != '}'))
        return EMQ_STR_LIT("");
    return emq_strn(key.ptr, len + 2 * brace);
}

/* A key whose lab lives no more. */
static emq_status remove_left(struct rd_engine *e, size_t node, emq_str key, struct emq__arena *mem,
                              void *own, emq_error *err)
{
    emq_str prefix = prefix_of(key);
    const struct rd_reply *r = NULL;

    if (!prefix.len || emq__str_is(prefix, own))
        return EMQ_OK;
    emq_str name = emq__arena_printf(mem, "%.*s%s", EMQ_STR_ARG(prefix), mark_behind);
    if (!name.ptr)
        return emq__no_memory("lab", err);
    emq_status s = ask(e, node, "EXISTS", name, mem, &r, err);
    return s != EMQ_OK || rd_i64(r) ? s : remove_key(e, node, key, mem, NULL, err);
}

emq_status lab_left_keys_remove(emq_client *c, const char *prefix, emq_error *err)
{
    char own[LAB_PATH_MAX];

    (void)snprintf(own, sizeof own, "%s", prefix);
    return walk(rd_of(c->base), prefix[0] == '{' ? "{emq-lab-*" : "emq-lab-*", remove_left, own,
                err);
}

#else

static emq_status without(emq_error *err)
{
    return emq__fail(err, EMQ_E_INVALID, 0, "lab", "this emq was built without Redis");
}

emq_status lab_keys_remove(emq_client *c, const char *prefix, emq_error *err)
{
    (void)c, (void)prefix;
    return without(err);
}

emq_status lab_mark_renew(emq_client *c, const char *prefix, emq_error *err)
{
    (void)c, (void)prefix;
    return without(err);
}

emq_status lab_left_keys_remove(emq_client *c, const char *prefix, emq_error *err)
{
    (void)c, (void)prefix;
    return without(err);
}

#endif
