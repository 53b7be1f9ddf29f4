/* SPDX-License-Identifier: MIT
 *
 * The acts `mark` and `markers`. What is decided, the script decides.
 */
#include "engine/redis/path.h"

#include "base/error.h"

static const char *kind_name(enum emq__mark_kind kind)
{
    switch (kind) {
    case EMQ__MARK_CLAIM: return "effect claim";
    case EMQ__MARK_TAKE_OVER: return "effect take over";
    case EMQ__MARK_DONE: return "effect done";
    case EMQ__MARK_RELEASE: return "effect release";
    case EMQ__MARK_SETTLE: return "effect settle";
    case EMQ__MARK_FORGET: return "effect forget";
    }
    return NULL;
}

static bool is_admin(enum emq__mark_kind kind)
{
    return kind == EMQ__MARK_SETTLE || kind == EMQ__MARK_FORGET;
}

/* What a script answers of a marker, from the timestamp on; without id and step. */
static void read_marker(const struct rd_reply *r, size_t at, struct emq__marker *m)
{
    m->token = rd_str(rd_at(r, at));
    m->fingerprint = rd_str(rd_at(r, at + 1));
    m->claimed_at_ms = rd_i64(rd_at(r, at + 2));
    m->done_at_ms = rd_i64(rd_at(r, at + 3));
    m->expires_at_ms = rd_i64(rd_at(r, at + 4));
    m->result.kind = (enum emq__kind)rd_i64(rd_at(r, at + 5));
    m->result.bytes = rd_str(rd_at(r, at + 6));
}

static emq_status check(const struct emq__mark_req *req, emq_error *err)
{
    bool keeps = req->kind != EMQ__MARK_RELEASE && req->kind != EMQ__MARK_FORGET;

    if (!kind_name(req->kind))
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kind %d is not one", (int)req->kind);
    if (!(is_admin(req->kind) ? req->auth.admin : req->auth.token).len)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark",
                         "%s: neither the owner's token nor an administrator's name was given",
                         kind_name(req->kind));
    if (keeps && req->keep_ms < 1)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kept for %lld ms; at least 1",
                         (long long)req->keep_ms);
    return EMQ_OK;
}

emq_status rd_mark(struct emq__engine *e, const struct emq__mark_req *req,
                   struct emq__mark_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r;
    const struct emq__payload none = {.bytes = EMQ_STR_LIT("")};
    char detail[EMQ__DETAIL_MAX + 1];
    bool admin = is_admin(req->kind);

    *res = (struct emq__mark_res){0};
    if (check(req, err) != EMQ_OK)
        return EMQ_E_INVALID;
    struct rd_args *a = rd_args_new(e, RD_LUA_mark, req->prefix, req->queue, mem);
    rd_arg_call(a, req->call);
    rd_arg_str(a, req->id);
    rd_arg_str(a, admin ? (emq_str){0} : req->auth.token);
    rd_arg_str(a, req->auth.admin);
    rd_arg_i64(a, req->kind);
    rd_arg_str(a, emq__effect_detail(kind_name(req->kind), req->step,
                                     req->kind == EMQ__MARK_SETTLE ? &req->result : &none, detail));
    rd_arg_str(a, req->step);
    rd_arg_str(a, req->fingerprint);
    rd_arg_i64(a, req->result.kind);
    rd_arg_str(a, req->result.bytes);
    rd_arg_i64(a, req->keep_ms);
    rd_arg_str(a, emq_cstr(req->settles ? "settled" : "redo"));
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    if (rd_i64(rd_at(r, 2)) != 0) {
        res->marker = (struct emq__marker){.id = req->id,
                                           .step = req->step,
                                           .state = (int32_t)rd_i64(rd_at(r, 2)),
                                           .timestamp_at_ms = rd_i64(rd_at(r, 3))};
        read_marker(r, 4, &res->marker);
    }
    return (emq_status)rd_i64(rd_at(r, 1));
}

emq_status rd_markers(struct emq__engine *e, const struct emq__markers_req *req,
                      struct emq__markers_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r;
    const struct emq__marker none = {0}, *after = req->after ? req->after : &none;
    struct rd_args *a = rd_args_new(e, RD_LUA_markers, req->prefix, req->queue, mem);

    *res = (struct emq__markers_res){0};
    rd_arg_str(a, req->id);
    rd_arg_str(a, after->id);
    rd_arg_i64(a, after->timestamp_at_ms);
    rd_arg_str(a, after->step);
    rd_arg_i64(a, req->limit > 0 ? req->limit : EMQ__BATCH_MAX);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    res->n = r->n - 1;
    res->markers = emq__arena_zalloc(mem, r->n, sizeof *res->markers);
    if (!res->markers)
        return emq__fail(err, EMQ_E_NOMEM, 0, "markers", "%zu markers", res->n);
    for (size_t i = 0; i < res->n; i++) {
        const struct rd_reply *row = rd_at(r, i + 1);
        res->markers[i] = (struct emq__marker){.id = rd_str(rd_at(row, 0)),
                                               .timestamp_at_ms = rd_i64(rd_at(row, 1)),
                                               .step = rd_str(rd_at(row, 2)),
                                               .state = (int32_t)rd_i64(rd_at(row, 3))};
        read_marker(row, 4, &res->markers[i]);
    }
    return EMQ_OK;
}
