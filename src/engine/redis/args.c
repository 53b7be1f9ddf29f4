/* SPDX-License-Identifier: MIT
 *
 * The request of a script: its keys and its arguments. All names of keys that the C side makes are made
 * here and in ear.c and stream.c, which wait for BullMQ's own.
 */
#include "engine/redis/script.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

static emq_str joined(struct emq__arena *mem, emq_str a, const char *mid, emq_str b,
                      const char *end)
{
    size_t n_mid = strlen(mid), n_end = strlen(end), n = a.len + n_mid + b.len + n_end;
    char *p = emq__arena_alloc(mem, n + 1);

    if (!p || !a.ptr)
        return (emq_str){0};
    memcpy(p, a.ptr, a.len);
    memcpy(p + a.len, mid, n_mid);
    if (b.len > 0)
        memcpy(p + a.len + n_mid, b.ptr, b.len);
    memcpy(p + a.len + n_mid + b.len, end, n_end + 1);
    return emq_strn(p, n);
}

static emq_str key_base(struct emq__arena *mem, emq_str prefix, emq_str queue)
{
    return joined(mem, prefix, ":", queue, queue.len > 0 ? ":" : "");
}

static emq_str private_base(struct emq__arena *mem, emq_str prefix, emq_str queue)
{
    return joined(mem, prefix, "::emq:", queue, queue.len > 0 ? ":" : "");
}

emq_str rd_private_key(const struct rd_args *a, const char *suffix)
{
    return joined(a->mem, private_base(a->mem, a->prefix, a->queue), suffix, EMQ_STR_LIT(""), "");
}

static void no_slot(struct rd_args *a, emq_str prefix, emq_str queue)
{
    a->refused =
        emq__fail(&a->why, EMQ_E_INVALID, 0, rd_lua_name[a->script],
                  "on a cluster all keys of a queue must be on one node: put the queue's name "
                  "or the prefix into braces, like \"{%.*s}\" or ?prefix={%.*s}",
                  EMQ_STR_ARG(queue), EMQ_STR_ARG(prefix));
}

/* On a cluster with a second key, which never exists: while a slot is being moved the server then refuses the whole
 * script (TRYAGAIN), where it would otherwise fail in the middle of it, at the first key that is not there. */
static void add_keys(struct rd_args *a, emq_str key)
{
    rd_cmd_arg(&a->cmd, key);
    a->n_keys = 1;
    if (!a->e->cluster)
        return;
    emq_str none = rd_private_key(a, "none");
    if (!none.ptr) {
        a->failed = true;
        return;
    }
    rd_cmd_arg(&a->cmd, none);
    a->n_keys = 2;
    if (!rd_slot_of_queue(a->prefix, a->queue, &a->slot))
        no_slot(a, a->prefix, a->queue);
}

/* `key`: KEYS[1], empty = none. */
static struct rd_args *args_new(struct emq__engine *engine, enum rd_lua script, emq_str prefix,
                                emq_str queue, emq_str key, struct emq__arena *mem)
{
    struct rd_engine *e = rd_of(engine);
    struct rd_args *a = emq__arena_zalloc(mem, 1, sizeof *a);
    char clock[RD_CLOCK_TEXT_MAX];

    if (!a)
        return NULL;
    *a = (struct rd_args){.e = e,
                          .op = engine->ops ? NULL : (struct rd_op *)engine,
                          .mem = mem,
                          .script = script,
                          .what = rd_lua_name[script],
                          .prefix = prefix,
                          .queue = queue};
    a->goes_on = strcmp(rd_lua_name[script], "add") != 0 &&
                 strcmp(rd_lua_name[script], "publish") != 0 &&
                 strcmp(rd_lua_name[script], "write") != 0;
    /* Renewals wait behind nothing else. */
    a->link =
        emq__str_is(emq_cstr(rd_lua_name[script]), "extend") ? RD_LINK_RENEWALS : RD_LINK_SHARED;
    emq_str base = key_base(mem, prefix, queue), private = private_base(mem, prefix, queue);
    if (!base.ptr || !private.ptr || !key.ptr) {
        a->failed = true;
        return a;
    }
    rd_cmd_init(&a->cmd, mem);
    a->cmd.argc = 0;
    if (key.len > 0)
        add_keys(a, key);
    rd_cmd_arg(&a->cmd, rd_clock_text(e, clock));
    rd_cmd_arg(&a->cmd, base);
    rd_cmd_arg(&a->cmd, private);
    return a;
}

struct rd_args *rd_args_new(struct emq__engine *engine, enum rd_lua script, emq_str prefix,
                            emq_str queue, struct emq__arena *mem)
{
    emq_str meta = queue.len > 0
                       ? joined(mem, key_base(mem, prefix, queue), "meta", EMQ_STR_LIT(""), "")
                       : EMQ_STR_LIT("");

    return args_new(engine, script, prefix, queue, meta, mem);
}

struct rd_args *rd_args_new_near(struct emq__engine *engine, enum rd_lua script, emq_str prefix,
                                 emq_str key, struct emq__arena *mem)
{
    return args_new(engine, script, prefix, EMQ_STR_LIT(""), key, mem);
}

bool rd_key_is_near(const struct rd_args *a, emq_str key)
{
    return !a || a->failed || !a->e->cluster || rd_slot_of_key(key) == a->slot;
}

void rd_arg_str(struct rd_args *a, emq_str s)
{
    if (a && !a->failed)
        rd_cmd_arg(&a->cmd, s);
}

void rd_arg_i64(struct rd_args *a, int64_t v)
{
    if (a && !a->failed)
        rd_cmd_i64(&a->cmd, v);
}

void rd_arg_writes(struct rd_args *a)
{
    if (a)
        a->writes = a->looks = true;
}

void rd_arg_looks(struct rd_args *a)
{
    if (a)
        a->looks = true;
}

void rd_arg_call(struct rd_args *a, struct emq__call call)
{
    rd_arg_writes(a);
    rd_arg_str(a, call.session);
    rd_arg_i64(a, (int64_t)call.seq);
}

void rd_arg_queue(struct rd_args *a, emq_str prefix, emq_str queue)
{
    uint16_t slot;

    if (!a || a->failed)
        return;
    emq_str base = key_base(a->mem, prefix, queue);
    emq_str private = private_base(a->mem, prefix, queue);
    if (!base.ptr || !private.ptr) {
        a->failed = true;
        return;
    }
    rd_cmd_arg(&a->cmd, base);
    rd_cmd_arg(&a->cmd, private);
    if (!a->e->cluster || a->refused != EMQ_OK)
        return;
    if (!rd_slot_of_queue(prefix, queue, &slot))
        no_slot(a, prefix, queue);
    else if (slot != a->slot)
        a->refused =
            emq__fail(&a->why, EMQ_E_INVALID, 0, rd_lua_name[a->script],
                      "\"%.*s\" and \"%.*s\" are on different nodes of the cluster: what one "
                      "call adds must share a hash tag in braces",
                      EMQ_STR_ARG(a->queue), EMQ_STR_ARG(queue));
}

bool rd_same_slot(struct emq__engine *engine, emq_str prefix_a, emq_str queue_a, emq_str prefix_b,
                  emq_str queue_b)
{
    uint16_t a, b;

    if (!rd_of(engine)->cluster)
        return true;
    return rd_slot_of_queue(prefix_a, queue_a, &a) && rd_slot_of_queue(prefix_b, queue_b, &b) &&
           a == b;
}
