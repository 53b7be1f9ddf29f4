/* SPDX-License-Identifier: MIT
 *
 * The event log of a queue. Events of one act are gathered as lines and stored in few rows; the
 * oldest rows go when the log is longer than opts.maxLenEvents. The one invariant: ids (ms-seq) of
 * a queue only grow, also when the wall clock steps back.
 */
#include "engine/sqlite/row.h"

#include "base/error.h"
#include "base/json.h"

enum {
    TRIM_SLACK = 100, /* the log may be longer by this before rows are removed */
    TRIM_ROWS = 256,  /* removed by one act at most */
    VALUE_MAX = 1024  /* a longer result is null in its event; the job has it */
};

static bool events_on(const struct sq_queue *q)
{
    return q->max_events > 0;
}

void sq_event_begin(struct sq_queue *q, const char *event)
{
    if (!events_on(q))
        return;
    emq__buf_text(&q->events, "{\"event\":\"");
    emq__buf_text(&q->events, event);
    emq__buf_char(&q->events, '"');
}

void sq_event_str(struct sq_queue *q, const char *field, emq_str value)
{
    if (!events_on(q))
        return;
    emq__json_key(&q->events, field);
    emq__json_quote(&q->events, value);
}

void sq_event_i64(struct sq_queue *q, const char *field, int64_t value)
{
    if (!events_on(q))
        return;
    emq__json_key(&q->events, field);
    emq__buf_i64(&q->events, value);
}

void sq_event_json(struct sq_queue *q, const char *field, emq_str json)
{
    if (!events_on(q))
        return;
    emq__json_key(&q->events, field);
    if (json.len == 0)
        emq__buf_text(&q->events, "null");
    else
        emq__json_line(&q->events, json);
}

void sq_event_payload(struct sq_queue *q, const char *field, struct emq__payload p)
{
    struct emq__buf *b = &q->events;
    size_t from;

    if (!events_on(q))
        return;
    emq__json_key(b, field);
    from = b->len;
    if (p.kind == EMQ__KIND_JSON && p.bytes.len <= VALUE_MAX) {
        emq__json_line(b, p.bytes);
    } else if (p.kind == EMQ__KIND_TEXT && p.bytes.len <= VALUE_MAX) {
        emq__json_quote(b, p.bytes);
    } else if (p.kind == EMQ__KIND_BYTES && p.bytes.len <= VALUE_MAX) {
        emq__buf_char(b, '"');
        emq__base64(b, p.bytes);
        emq__buf_char(b, '"');
    }
    if (b->failed)
        return;
    if (b->len == from || b->len - from > VALUE_MAX) {
        b->len = from;
        emq__buf_text(b, "null");
    }
}

void sq_event_end(struct sq_queue *q)
{
    if (!events_on(q))
        return;
    emq__buf_text(&q->events, "}\n");
    q->n_events++;
}

static emq_status insert_row(struct sq_tx *tx, struct sq_queue *q, emq_str body, int64_t n,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_event_insert, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, q->event_ms);
    sq_bind_i64(st, 3, q->event_seq + 1);
    sq_bind_i64(st, 4, n);
    sq_bind_text(st, 5, body);
    q->event_seq += n;
    q->event_count += n;
    return sq_exec(tx->conn, st, "store events", err);
}

static emq_status trim(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_event_oldest, err);
    int64_t ms = 0, seq = 0, gone = 0;
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, TRIM_ROWS);
    while ((s = sq_step(tx->conn, st, &row, "trim events", err)) == EMQ_OK && row) {
        int64_t n = sq_col_i64(st, 2);
        if (q->event_count - gone - n < q->max_events && q->max_events > 0)
            break;
        gone += n;
        ms = sq_col_i64(st, 0);
        seq = sq_col_i64(st, 1);
    }
    sqlite3_reset(st);
    if (s != EMQ_OK || gone == 0)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_event_delete_to, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, ms);
    sq_bind_i64(st, 3, seq);
    q->event_count -= gone;
    return sq_exec(tx->conn, st, "trim events", err);
}

emq_status sq_events_flush(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    emq_str rest = emq__buf_view(&q->events);
    emq_status s = EMQ_OK;

    if (q->events.failed)
        return emq__fail(err, q->events.failed, 0, "store events", "no memory for %lld events",
                         (long long)q->n_events);
    if (q->n_events > 0 && tx->now_ms > q->event_ms) {
        q->event_ms = tx->now_ms;
        q->event_seq = -1;
    }
    while (s == EMQ_OK && q->n_events > 0) {
        int64_t n = q->n_events < SQ_EVENT_ROW_MAX ? q->n_events : SQ_EVENT_ROW_MAX;
        size_t len = rest.len;
        if (n < q->n_events) {
            const char *p = rest.ptr;
            for (int64_t i = 0; i < n; i++)
                p = (const char *)memchr(p, '\n', rest.len - (size_t)(p - rest.ptr)) + 1;
            len = (size_t)(p - rest.ptr);
        }
        s = insert_row(tx, q, emq_strn(rest.ptr, len), n, err);
        rest = emq_strn(rest.ptr + len, rest.len - len);
        q->n_events -= n;
    }
    emq__buf_clear(&q->events);
    if (s == EMQ_OK && q->event_count > q->max_events + (q->max_events > 0 ? TRIM_SLACK : 0))
        s = trim(tx, q, err);
    return s;
}
