/* SPDX-License-Identifier: MIT
 *
 * The transactional effect: commands of the application in the script that completes the job. The one
 * invariant: everything that can be known against them is found before the first one is done.
 */
#include "engine/redis/commands.h"
#include "engine/redis/path.h"

#include "base/error.h"
#include "base/str.h"

static const char where[] = "effect";

/* The keys of queues begin so: an effect may not touch one. */
static bool is_of_a_queue(emq_str key, emq_str prefix)
{
    return key.len > prefix.len && memcmp(key.ptr, prefix.ptr, prefix.len) == 0 &&
           key.ptr[prefix.len] == ':';
}

static emq_status check_key(struct rd_args *a, const struct emq__effect_req *req, emq_str key,
                            emq_str name, size_t at, emq_error *err)
{
    if (is_of_a_queue(key, req->prefix))
        return emq__fail(
            err, EMQ_E_INVALID, 0, where,
            "command %zu (%.*s): '%.*s' is a key of the queues under '%.*s', which are "
            "the library's; nothing was done",
            at, EMQ_STR_ARG(name), EMQ_STR_ARG(key), EMQ_STR_ARG(req->prefix));
    if (!rd_key_is_near(a, key))
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "command %zu (%.*s): on a cluster '%.*s' must be in the slot of the "
                         "queue: put the same words into braces; nothing was done",
                         at, EMQ_STR_ARG(name), EMQ_STR_ARG(key));
    return EMQ_OK;
}

/* One command: how many words, what is known of it with the places of its keys, the words. */
static emq_status pack(struct rd_args *a, const struct emq__effect_req *req,
                       const struct emq__redis_command *c, size_t at, struct emq__arena *mem,
                       emq_error *err)
{
    const struct rd_command_rule *rule = c->n ? rd_command_rule(c->args[0]) : NULL;
    struct emq__buf known;
    size_t place;

    if (!rule)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "command %zu (%.*s) is none that an effect may have: those that write "
                         "strings, hashes, lists, sets, sorted sets, streams and expiries; "
                         "nothing was done",
                         at, EMQ_STR_ARG(c->n ? c->args[0] : emq_cstr("")));
    emq_status s = rd_command_check(rule, c, at, err);
    emq__buf_init(&known, SIZE_MAX);
    emq__buf_text(&known, rd_command_known(rule));
    for (size_t i = 0; s == EMQ_OK && (place = rd_command_key(rule, c, i)) != 0; i++) {
        emq__buf_printf(&known, " %zu", place);
        s = check_key(a, req, c->args[place], c->args[0], at, err);
    }
    emq_str text = known.failed ? (emq_str){0} : emq__arena_str(mem, emq__buf_view(&known));
    emq__buf_free(&known);
    if (s != EMQ_OK)
        return s;
    if (!text.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "no memory for command %zu", at);
    rd_arg_i64(a, (int64_t)c->n);
    rd_arg_str(a, text);
    for (size_t i = 0; i < c->n; i++)
        rd_arg_str(a, c->args[i]);
    return EMQ_OK;
}

emq_status rd_effect(struct emq__engine *e, const struct emq__effect_req *req,
                     const struct emq__redis_command *commands, size_t n,
                     struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct emq__settle_entry *en = req->entry;
    const struct rd_reply *r;

    *res = (struct emq__effect_res){0};
    if (en->kind != EMQ__SETTLE_COMPLETED || en->auth.token.len == 0)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "it ends a job as completed, by its owner's token");
    if (req->keep_ms < 1)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "kept for %lld ms; at least 1",
                         (long long)req->keep_ms);
    struct rd_args *a = rd_args_new(e, RD_LUA_effect, req->prefix, req->queue, mem);
    rd_arg_call(a, req->call);
    rd_arg_str(a, req->step);
    rd_arg_i64(a, req->keep_ms);
    rd_arg_i64(a, en->value.kind);
    rd_arg_str(a, en->value.bytes);
    rd_arg_i64(a, (int64_t)n);
    emq_status s = rd_arg_entry(a, en, mem, err);
    for (size_t i = 0; s == EMQ_OK && i < n; i++)
        s = pack(a, req, &commands[i], i + 1, mem, err);
    if (s == EMQ_OK)
        s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    *res = (struct emq__effect_res){.now_ms = rd_i64(rd_at(r, 0)),
                                    .outcome = (emq_status)rd_i64(rd_at(r, 1)),
                                    .state = (int)rd_i64(rd_at(r, 2))};
    return EMQ_OK;
}
