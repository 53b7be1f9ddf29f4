/* SPDX-License-Identifier: MIT
 *
 * The acts `events` and `history`. Events are read behind a cursor; the events of one act share a
 * row, so that a cursor may point into the middle of one.
 */
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/sqlite/admin.h"

enum { EVENTS_LIMIT = 1000 };

struct events_arg {
    const struct emq__events_req *req;
    struct emq__events_res *res;
    struct emq__arena *mem;
    int64_t ms, seq; /* the cursor: events behind it */
    bool all, tail;
    size_t cap;
};

/* "ms-seq". */
static bool cursor_parse(emq_str s, int64_t *ms, int64_t *seq)
{
    const char *dash = s.len ? memchr(s.ptr, '-', s.len) : NULL;
    if (!dash)
        return false;
    size_t head = (size_t)(dash - s.ptr);
    return emq__str_to_i64(emq_strn(s.ptr, head), ms) &&
           emq__str_to_i64(emq_strn(dash + 1, s.len - head - 1), seq) && *ms >= 0 && *seq >= 0;
}

static emq_status no_memory(emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, "events", "no memory for events");
}

/* One stored line {"event":...} with its id in front. */
static emq_status event_put(struct events_arg *a, int64_t ms, int64_t seq, emq_str line,
                            emq_error *err)
{
    struct emq__event *list = sq_grow(a->mem, a->res->events, a->res->n, &a->cap, sizeof *list);
    emq_str id = emq__arena_printf(a->mem, "%lld-%lld", (long long)ms, (long long)seq);
    if (line.len < 2 || line.ptr[0] != '{')
        return emq__fail(err, EMQ_E_CORRUPT, 0, "events", "event %lld-%lld is no object",
                         (long long)ms, (long long)seq);
    char *json = emq__arena_alloc(a->mem, id.len + line.len + 8);
    if (!list || !id.ptr || !json)
        return no_memory(err);
    static const char head[] = "{\"id\":\"";
    size_t at = sizeof head - 1;
    memcpy(json, head, at);
    memcpy(json + at, id.ptr, id.len);
    at += id.len;
    json[at++] = '"';
    if (line.len > 2)
        json[at++] = ',';
    memcpy(json + at, line.ptr + 1, line.len - 1);
    at += line.len - 1;
    a->res->events = list;
    list[a->res->n++] = (struct emq__event){id, emq_strn(json, at)};
    return EMQ_OK;
}

/* The lines of one row that lie behind the cursor. */
static emq_status row_put(struct events_arg *a, sqlite3_stmt *st, size_t limit, emq_error *err)
{
    int64_t ms = sq_col_i64(st, 0), seq = sq_col_i64(st, 1);
    emq_str body = sq_col_str(st, 2);
    emq_status s = EMQ_OK;
    for (size_t at = 0; at < body.len && a->res->n < limit && s == EMQ_OK; seq++) {
        const char *nl = memchr(body.ptr + at, '\n', body.len - at);
        size_t end = nl ? (size_t)(nl - body.ptr) : body.len;
        if (a->all || ms > a->ms || seq > a->seq)
            s = event_put(a, ms, seq, emq_strn(body.ptr + at, end - at), err);
        at = end + 1;
    }
    return s;
}

/* The first row to read: the last one that begins at or before the cursor may reach behind it. */
static emq_status first_row(struct sq_tx *tx, const struct sq_queue *q, const struct events_arg *a,
                            int64_t *ms, int64_t *seq, emq_error *err)
{
    sqlite3_stmt *st;
    bool got = false;
    *ms = *seq = 0;
    if (a->all)
        return EMQ_OK;
    *ms = a->ms;
    *seq = a->seq;
    st = sq_stmt(tx->conn, SQ_SQL_events_at, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, a->ms);
    sq_bind_i64(st, 3, a->seq);
    emq_status s = sq_step(tx->conn, st, &got, "events", err);
    if (s == EMQ_OK && got)
        *seq = sq_col_i64(st, 0);
    sqlite3_reset(st);
    return s;
}

static emq_status events_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct events_arg *a = arg;
    size_t limit = a->req->limit < 0              ? 0
                   : a->req->limit < EVENTS_LIMIT ? (size_t)a->req->limit
                                                  : EVENTS_LIMIT;
    int64_t ms, seq;
    bool got;
    a->res->now_ms = tx->now_ms;
    a->res->n = 0;
    if (a->tail) {
        a->ms = q->event_ms;
        a->seq = q->event_seq;
        return EMQ_OK;
    }
    emq_status s = first_row(tx, q, a, &ms, &seq, err);
    if (s != EMQ_OK)
        return s;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_events_from, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, ms);
    sq_bind_i64(st, 3, seq);
    while (a->res->n < limit && (s = sq_step(tx->conn, st, &got, "events", err)) == EMQ_OK && got)
        if ((s = row_put(a, st, limit, err)) != EMQ_OK)
            break;
    sqlite3_reset(st);
    return s;
}

emq_status sq_act_events(struct emq__engine *e, const struct emq__events_req *req,
                         struct emq__events_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct events_arg a = {.req = req, .res = res, .mem = mem};

    *res = (struct emq__events_res){.now_ms = sq_now_ms(s)};
    a.all = !req->after.len;
    a.tail = emq__str_is(req->after, "$");
    if (!a.all && !a.tail && !cursor_parse(req->after, &a.ms, &a.seq))
        return emq__fail(err, EMQ_E_INVALID, 0, "events",
                         "cursor \"%.*s\": give \"\", \"$\" or the id of an event (ms-seq)",
                         EMQ_STR_ARG(req->after));
    emq_status st = sq_read_queue(s, req->prefix, req->queue, events_fn, &a, err);
    if (st != EMQ_OK && st != EMQ_NOT_FOUND)
        return st;
    res->last_id = res->n ? res->events[res->n - 1].id
                          : emq__arena_printf(mem, "%lld-%lld", (long long)a.ms, (long long)a.seq);
    return res->last_id.ptr ? EMQ_OK : no_memory(err);
}

/* ---- history --------------------------------------------------------------------------------- */

struct history_arg {
    const struct emq__history_req *req;
    struct emq__history_res *res;
    struct emq__arena *mem;
};

static emq_str history_json(struct emq__arena *mem, sqlite3_stmt *st)
{
    static const char *const names[] = {"at", "what", "who", "detail"};
    struct emq__buf b;
    emq_str out = {0};
    emq__buf_init(&b, 64 * 1024);
    emq__buf_char(&b, '{');
    for (int i = 0; i < 4; i++) {
        emq__json_key(&b, names[i]);
        if (i == 0)
            emq__buf_i64(&b, sq_col_i64(st, i));
        else
            emq__json_quote(&b, sq_col_str(st, i));
    }
    emq__buf_char(&b, '}');
    if (!b.failed)
        out = emq__arena_str(mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return out;
}

static emq_status history_fn(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    struct history_arg *a = arg;
    struct sq_row row;
    size_t cap = 0;
    bool got;
    *a->res = (struct emq__history_res){.now_ms = tx->now_ms};
    emq_status s = sq_row_get(tx, q, a->req->id, a->mem, &row, err);
    if (s != EMQ_OK || row.state == SQ_STAGED)
        return s;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_history_list, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row.jid);
    while ((s = sq_step(tx->conn, st, &got, "history", err)) == EMQ_OK && got) {
        emq_str *list = sq_grow(a->mem, a->res->json, a->res->n, &cap, sizeof *list);
        if (list)
            list[a->res->n] = history_json(a->mem, st);
        if (!list || !list[a->res->n].ptr) {
            s = no_memory(err);
            break;
        }
        a->res->json = list;
        a->res->n++;
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_act_history(struct emq__engine *e, const struct emq__history_req *req,
                          struct emq__history_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct history_arg a = {req, res, mem};

    *res = (struct emq__history_res){.now_ms = sq_now_ms(s)};
    emq_status st = sq_read_queue(s, req->prefix, req->queue, history_fn, &a, err);
    return st == EMQ_NOT_FOUND ? EMQ_OK : st;
}
