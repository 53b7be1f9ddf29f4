/* SPDX-License-Identifier: MIT
 *
 * The acts `mark` and `markers`: claiming an effect, recording it as done, and what is known of effects.
 *
 * The one invariant: whose hand-out it is, and what is known of the effect, is compared in the transaction
 * that changes it. So one call at most is ever told FRESH.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/admin.h"
#include "engine/sqlite/marker.h"

struct mark_arg {
    const struct emq__mark_req *req;
    struct emq__mark_res *res;
    struct emq__arena *mem;
};

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

/* ---- mark ------------------------------------------------------------------------------------ */

/* A stored marker as the holder of this token is told of it. */
static int32_t told(int32_t stored, emq_str its, emq_str token)
{
    if (stored == SQ_MARKER_DONE)
        return EMQ__MARKER_DONE;
    return emq__str_eq(its, token) ? EMQ__MARKER_BUSY : EMQ__MARKER_IN_DOUBT;
}

static void set_done(const struct sq_tx *tx, const struct emq__mark_req *req, struct emq__marker *m)
{
    m->state = SQ_MARKER_DONE;
    m->done_at_ms = tx->now_ms;
    m->expires_at_ms = emq__sat_add(tx->now_ms, req->keep_ms);
    m->result = req->result;
}

/* Each of these works on what is stored (state 0 = nothing) and says whether to write it. */
static emq_status claim(const struct sq_tx *tx, const struct emq__mark_req *req,
                        struct emq__marker *m, bool *write)
{
    if (m->fingerprint.len && req->fingerprint.len &&
        !emq__str_eq(m->fingerprint, req->fingerprint))
        return EMQ_CONFLICT;
    *write = m->state == 0 || (m->state == SQ_MARKER_CLAIMED && req->kind == EMQ__MARK_TAKE_OVER);
    if (!*write)
        return EMQ_OK;
    m->state = SQ_MARKER_CLAIMED;
    m->token = req->auth.token;
    if (req->fingerprint.len)
        m->fingerprint = req->fingerprint;
    m->claimed_at_ms = tx->now_ms;
    m->expires_at_ms = emq__sat_add(tx->now_ms, req->keep_ms);
    return EMQ_OK;
}

static emq_status end_claim(const struct sq_tx *tx, const struct emq__mark_req *req,
                            struct emq__marker *m, bool *write)
{
    bool mine = m->state != 0 && emq__str_eq(m->token, req->auth.token);

    if (mine && m->state == SQ_MARKER_DONE && req->kind == EMQ__MARK_DONE)
        return EMQ_OK;
    if (!mine || m->state == SQ_MARKER_DONE)
        return EMQ_WRONG_STATE;
    *write = true;
    if (req->kind == EMQ__MARK_DONE)
        set_done(tx, req, m);
    else
        m->state = 0;
    return EMQ_OK;
}

static emq_status administer(const struct sq_tx *tx, const struct emq__mark_req *req,
                             struct emq__marker *m, bool *write)
{
    if (req->kind == EMQ__MARK_FORGET && m->state == 0)
        return EMQ_NOT_FOUND;
    *write = true;
    if (req->kind == EMQ__MARK_FORGET) {
        m->state = 0;
        return EMQ_OK;
    }
    if (m->state == 0)
        m->claimed_at_ms = tx->now_ms;
    m->token = EMQ_STR_LIT("");
    set_done(tx, req, m);
    return EMQ_OK;
}

static emq_status decide(const struct sq_tx *tx, const struct emq__mark_req *req,
                         struct emq__marker *m, bool *write)
{
    switch (req->kind) {
    case EMQ__MARK_CLAIM:
    case EMQ__MARK_TAKE_OVER: return claim(tx, req, m, write);
    case EMQ__MARK_DONE:
    case EMQ__MARK_RELEASE: return end_claim(tx, req, m, write);
    case EMQ__MARK_SETTLE:
    case EMQ__MARK_FORGET: return administer(tx, req, m, write);
    }
    return EMQ_WRONG_STATE;
}

/* As a history names this act. */
static emq_str detail_of(const struct emq__mark_req *req, char out[EMQ__DETAIL_MAX + 1])
{
    const struct emq__payload none = {.bytes = EMQ_STR_LIT("")};

    return emq__effect_detail(kind_name(req->kind), req->step,
                              req->kind == EMQ__MARK_SETTLE ? &req->result : &none, out);
}

/* What went by the usual way leaves no line: `before` is the token of a claim that is not done. */
static emq_status remember(struct sq_tx *tx, struct sq_row *row, const struct emq__mark_req *req,
                           emq_str before, bool write, emq_error *err)
{
    bool claims = req->kind == EMQ__MARK_CLAIM || req->kind == EMQ__MARK_TAKE_OVER;
    char detail[EMQ__DETAIL_MAX + 1];

    if (write && is_admin(req->kind))
        return sq_history(tx, row, "admin", req->auth.admin, detail_of(req, detail), err);
    if (!claims || !before.ptr || emq__str_eq(before, req->auth.token))
        return EMQ_OK;
    const struct emq__payload whose = {EMQ__KIND_TEXT, before};
    const char *what = !write ? "doubt" : req->settles ? "settled" : "redo";
    return sq_history(tx, row, what, req->auth.token,
                      emq__effect_detail("", req->step, &whose, detail), err);
}

/* EMQ_OK: this caller may. */
static emq_status find_job(struct sq_tx *tx, const struct sq_queue *q, const struct mark_arg *a,
                           struct sq_row *row, emq_error *err)
{
    const struct emq__mark_req *req = a->req;
    emq_status s = sq_row_get(tx, q, req->id, a->mem, row, err);

    if (s != EMQ_OK)
        return s;
    if (row->state == SQ_STAGED)
        return EMQ_NOT_FOUND;
    if (is_admin(req->kind) || (row->state == EMQ_ACTIVE && sq_row_token_is(row, req->auth.token)))
        return EMQ_OK;
    char detail[EMQ__DETAIL_MAX + 1];
    s = sq_history(tx, row, "refused", req->auth.token, detail_of(req, detail), err);
    return s == EMQ_OK ? EMQ_LOST : s;
}

static emq_status mark_apply(struct sq_tx *tx, struct sq_queue *q, const struct mark_arg *a,
                             emq_error *err)
{
    const struct emq__mark_req *req = a->req;
    struct emq__marker *m = &a->res->marker;
    struct sq_row row;
    bool write = false;
    emq_status s = find_job(tx, q, a, &row, err), outcome;

    if (s != EMQ_OK)
        return s;
    s = sq_marker_get(tx, q, &row, req->step, a->mem, m, err);
    if (emq__is_failure(s))
        return s;
    if (s == EMQ_NOT_FOUND) /* also of one past its end: nothing of that counts */
        *m = (struct emq__marker){
            .id = row.id, .step = req->step, .timestamp_at_ms = row.timestamp_at_ms};
    emq_str before = m->state == SQ_MARKER_CLAIMED ? m->token : (emq_str){0};
    outcome = decide(tx, req, m, &write);
    s = outcome == EMQ_OK ? remember(tx, &row, req, before, write, err) : EMQ_OK;
    if (s == EMQ_OK && write)
        s = m->state ? sq_marker_put(tx, q, m, err) : sq_marker_drop(tx, q, m, err);
    if (s != EMQ_OK)
        return s;
    if (m->state == 0)
        *m = (struct emq__marker){0};
    else if (write && m->state == SQ_MARKER_CLAIMED)
        m->state = EMQ__MARKER_FRESH;
    else
        m->state = told(m->state, m->token, req->auth.token);
    return outcome;
}

/* The receipt has the outcome; what the marker holds is read again. */
static emq_status replay(struct sq_tx *tx, const struct sq_queue *q, const struct mark_arg *a,
                         emq_str body, emq_error *err)
{
    struct sq_reader r = sq_reader_of(body);
    emq_status outcome = (emq_status)sq_get_i64(&r);
    int32_t state = (int32_t)sq_get_i64(&r);
    const struct sq_row row = {.id = a->req->id, .timestamp_at_ms = sq_get_i64(&r)};

    if (r.bad)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "mark", "the stored receipt is damaged");
    if (state == 0)
        return outcome;
    emq_status s = sq_marker_get(tx, q, &row, a->req->step, a->mem, &a->res->marker, err);
    if (emq__is_failure(s))
        return s;
    a->res->marker.state = state;
    return outcome;
}

static emq_status mark_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    const struct mark_arg *a = arg;
    emq_str body;

    *a->res = (struct emq__mark_res){.now_ms = tx->now_ms};
    emq_status s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_MARK, a->mem, &body, err);
    if (s == EMQ_OK)
        return replay(tx, q, a, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    s = mark_apply(tx, q, a, err);
    if (emq__is_failure(s) || !a->req->call.session.len)
        return s;
    struct emq__buf b;
    emq__buf_init(&b, 64);
    sq_put_i64(&b, s);
    sq_put_i64(&b, a->res->marker.state);
    sq_put_i64(&b, a->res->marker.timestamp_at_ms);
    emq_status stored =
        b.failed ? emq__fail(err, b.failed, 0, "mark", "receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_MARK, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return stored == EMQ_OK ? s : stored;
}

emq_status sq_act_mark(struct emq__engine *e, const struct emq__mark_req *req,
                       struct emq__mark_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct mark_arg a = {req, res, mem};
    bool keeps = req->kind != EMQ__MARK_RELEASE && req->kind != EMQ__MARK_FORGET;

    *res = (struct emq__mark_res){.now_ms = sq_now_ms(s)};
    if (!kind_name(req->kind))
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kind %d is not one", (int)req->kind);
    if (!(is_admin(req->kind) ? req->auth.admin : req->auth.token).len)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark",
                         "%s: neither the owner's token nor an administrator's name was given",
                         kind_name(req->kind));
    if (keeps && req->keep_ms < 1)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kept for %lld ms; at least 1",
                         (long long)req->keep_ms);
    return sq_write_queue(s, req->prefix, req->queue, mark_fn, &a, err);
}

/* ---- markers --------------------------------------------------------------------------------- */

struct markers_arg {
    const struct emq__markers_req *req;
    struct emq__markers_res *res;
    struct emq__arena *mem;
    size_t cap;
};

static emq_status list_row(sqlite3_stmt *st, struct markers_arg *a, emq_error *err)
{
    struct emq__markers_res *res = a->res;
    struct emq__marker *list = sq_grow(a->mem, res->markers, res->n, &a->cap, sizeof *list);
    char living[EMQ_TOKEN_MAX + 1] = "";

    if (!list)
        return emq__fail(err, EMQ_E_NOMEM, 0, "markers", "%zu markers", res->n + 1);
    res->markers = list;
    list[res->n] = (struct emq__marker){
        .id = sq_col_copy(st, 0, a->mem),
        .timestamp_at_ms = sq_col_i64(st, 1),
        .step = sq_col_copy(st, 2, a->mem),
        .token = sq_col_copy(st, 4, a->mem),
        .fingerprint = sq_col_copy(st, 5, a->mem),
        .claimed_at_ms = sq_col_i64(st, 6),
        .done_at_ms = sq_col_i64(st, 7),
        .expires_at_ms = sq_col_i64(st, 8),
        .result = {(enum emq__kind)sq_col_i64(st, 9), sq_col_copy(st, 10, a->mem)},
    };
    struct emq__marker *m = &list[res->n++];
    if (!m->id.ptr || !m->step.ptr || !m->token.ptr || !m->fingerprint.ptr || !m->result.bytes.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "markers", "%zu markers", res->n);
    if (sq_col_i64(st, 12) > 0)
        emq__token_format(sq_col_str(st, 11), sq_col_i64(st, 12), living);
    m->state = told((int32_t)sq_col_i64(st, 3), m->token, emq_cstr(living));
    return EMQ_OK;
}

static emq_status markers_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct markers_arg *a = arg;
    const struct emq__markers_req *req = a->req;
    const struct emq__marker none = {.timestamp_at_ms = INT64_MIN};
    const struct emq__marker *after = req->after ? req->after : &none;
    bool of_job = req->id.len > 0, got;
    struct sq_queue q;
    int at = 1;

    *a->res = (struct emq__markers_res){.now_ms = tx->now_ms};
    emq_status s = sq_queue_open(tx, req->prefix, req->queue, false, &q, err);
    sqlite3_stmt *st =
        s == EMQ_OK ? sq_stmt(tx->conn, of_job ? SQ_SQL_marker_list_job : SQ_SQL_marker_list, err)
                    : NULL;
    if (!st) {
        sq_queue_close(&q);
        return s == EMQ_NOT_FOUND ? EMQ_OK : s == EMQ_OK ? sq_no_stmt(err) : s;
    }
    sq_bind_i64(st, at++, q.qid);
    sq_bind_text(st, at++, of_job ? req->id : after->id);
    sq_bind_i64(st, at++, after->timestamp_at_ms);
    sq_bind_text(st, at++, after->step);
    sq_bind_i64(st, at++, tx->now_ms);
    sq_bind_i64(st, at, req->limit > 0 ? req->limit : EMQ__BATCH_MAX);
    while ((s = sq_step(tx->conn, st, &got, "markers", err)) == EMQ_OK && got)
        if ((s = list_row(st, a, err)) != EMQ_OK)
            break;
    sqlite3_reset(st);
    sq_queue_close(&q);
    return s;
}

emq_status sq_act_markers(struct emq__engine *e, const struct emq__markers_req *req,
                          struct emq__markers_res *res, struct emq__arena *mem, emq_error *err)
{
    struct markers_arg a = {.req = req, .res = res, .mem = mem};
    return sq_read((struct sq *)e, markers_fn, &a, err);
}
