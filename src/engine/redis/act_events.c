/* SPDX-License-Identifier: MIT
 *
 * The acts `events` and `history`. The stream is BullMQ's, all of whose values are text; here it
 * becomes JSON objects, as docs/protocol.md section 7 says of each field.
 */
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/redis/admin.h"

enum { RESULT_MAX = 1024 }; /* a longer result is null in its event; the job has it */

/* ---- events ---------------------------------------------------------------------------------- */

/* Of these fields the text is a JSON value. Any other is a string, also if it looks like a number. */
static bool is_json(emq_str field, emq_str value)
{
    static const char *const fields[] = {"data", "returnvalue", "delay", "count", "attemptsMade"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(fields); i++)
        if (emq__str_is(field, fields[i]))
            return emq__json_valid(value, NULL);
    return false;
}

static void put_value(struct emq__buf *b, emq_str field, emq_str value)
{
    if (is_json(field, value))
        emq__json_line(b, value);
    else
        emq__json_quote(b, value);
}

/* {id, {field, value, ...}} as {"id":…,"event":…}. A field named `id` of somebody's own event would
 * hide the event's and is left out. */
static bool put_event(struct emq__event *out, const struct rd_reply *entry, struct emq__arena *mem)
{
    const struct rd_reply *fields = rd_at(entry, 1);
    struct emq__buf b;

    emq__buf_init(&b, (size_t)EMQ__BATCH_BYTES * 8);
    out->id = rd_str(rd_at(entry, 0));
    emq__buf_char(&b, '{');
    emq__json_key(&b, "id");
    emq__json_quote(&b, out->id);
    for (size_t i = 0; i + 1 < fields->n; i += 2) {
        emq_str field = rd_str(rd_at(fields, i));
        if (emq__str_is(field, "id"))
            continue;
        emq__buf_char(&b, ',');
        emq__json_quote(&b, field);
        emq__buf_char(&b, ':');
        put_value(&b, field, rd_str(rd_at(fields, i + 1)));
    }
    emq__buf_char(&b, '}');
    out->json = b.failed ? (emq_str){0} : emq__arena_str(mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return out->json.ptr != NULL;
}

static bool is_cursor(emq_str s)
{
    const char *dash = s.len ? memchr(s.ptr, '-', s.len) : NULL;
    int64_t ms, seq;

    if (!s.len || emq__str_is(s, "$"))
        return true;
    if (!dash)
        return false;
    size_t head = (size_t)(dash - s.ptr);
    return emq__str_to_i64(emq_strn(s.ptr, head), &ms) &&
           emq__str_to_i64(emq_strn(dash + 1, s.len - head - 1), &seq) && ms >= 0 && seq >= 0;
}

emq_status rd_events(struct emq__engine *e, const struct emq__events_req *req,
                     struct emq__events_res *res, struct emq__arena *mem, emq_error *err)
{
    int64_t limit = req->limit < 0 ? 0 : req->limit;
    struct rd_args *a = rd_args_new(e, RD_LUA_events, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    *res = (struct emq__events_res){0};
    if (!is_cursor(req->after))
        return emq__fail(err, EMQ_E_INVALID, 0, "events",
                         "cursor \"%.*s\": give \"\", \"$\" or the id of an event (ms-seq)",
                         EMQ_STR_ARG(req->after));
    rd_arg_str(a, req->after);
    rd_arg_i64(a, limit < EMQ__BATCH_MAX ? limit : EMQ__BATCH_MAX);
    rd_arg_i64(a, EMQ__BATCH_BYTES);
    rd_arg_i64(a, RESULT_MAX);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    res->last_id = rd_str(rd_at(r, 1));
    size_t n = r->n > 2 ? r->n - 2 : 0;
    res->events = emq__arena_zalloc(mem, n + 1, sizeof *res->events);
    if (!res->events)
        return emq__fail(err, EMQ_E_NOMEM, 0, "events", "%zu events", n);
    for (; res->n < n; res->n++)
        if (!put_event(&res->events[res->n], rd_at(r, res->n + 2), mem))
            return emq__fail(err, EMQ_E_NOMEM, 0, "events", "event %zu", res->n);
    return EMQ_OK;
}

/* ---- history --------------------------------------------------------------------------------- */

emq_status rd_history(struct emq__engine *e, const struct emq__history_req *req,
                      struct emq__history_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_history, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    *res = (struct emq__history_res){0};
    rd_arg_str(a, req->id);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    size_t n = r->n > 1 ? r->n - 1 : 0;
    res->json = emq__arena_zalloc(mem, n + 1, sizeof *res->json);
    if (!res->json)
        return emq__fail(err, EMQ_E_NOMEM, 0, "history", "%zu entries", n);
    for (; res->n < n; res->n++)
        res->json[res->n] = rd_str(rd_at(r, res->n + 1));
    return EMQ_OK;
}
