/* SPDX-License-Identifier: MIT
 *
 * A queue's row during an act: read once, changed in memory, written once at the end. The one
 * invariant: the counters that are written equal the rows that the same transaction leaves.
 */
#include "engine/sqlite/row.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/stage.h"

enum {
    EVENT_BYTES_MAX = 256 * 1024 * 1024
}; /* of one act: 1,000 entries with the longest names and reasons */

static void meta_apply(struct sq_queue *q, emq_str field, emq_str value)
{
    int64_t n;
    bool number = emq__str_to_i64(value, &n) && n >= 0;

    if (emq__str_is(field, "paused"))
        q->paused = true;
    else if (!number)
        return;
    else if (emq__str_is(field, "concurrency"))
        q->concurrency = n;
    else if (emq__str_is(field, "max"))
        q->max = n;
    else if (emq__str_is(field, "duration"))
        q->duration = n;
    else if (emq__str_is(field, "opts.maxLenEvents"))
        q->max_events = n;
}

static emq_status meta_read(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queue_meta, err);
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    while ((s = sq_step(tx->conn, st, &row, "queue settings", err)) == EMQ_OK && row)
        meta_apply(q, sq_col_str(st, 0), sq_col_str(st, 1));
    sqlite3_reset(st);
    return s;
}

/* The columns of queue_get from the second on, which are the parameters of queue_save from ?2 on. */
enum { QUEUE_COLS = 28 };

static void columns(struct sq_queue *q, int64_t *cols[QUEUE_COLS])
{
    int64_t *const list[QUEUE_COLS] = {&q->last_id,
                                       &q->fence,
                                       &q->front,
                                       &q->back,
                                       &q->count[EMQ_WAITING],
                                       &q->count[EMQ_ACTIVE],
                                       &q->count[EMQ_DELAYED],
                                       &q->count[EMQ_PRIORITIZED],
                                       &q->count[EMQ_WAITING_CHILDREN],
                                       &q->count[EMQ_COMPLETED_STATE],
                                       &q->count[EMQ_FAILED_STATE],
                                       &q->retry_delayed,
                                       &q->totals.added,
                                       &q->totals.started,
                                       &q->totals.completed,
                                       &q->totals.failed,
                                       &q->totals.retried,
                                       &q->totals.recovered,
                                       &q->totals.deduplicated,
                                       &q->totals.removed,
                                       &q->limit_count,
                                       &q->limit_until_ms,
                                       &q->limit_max,
                                       &q->event_ms,
                                       &q->event_seq,
                                       &q->event_count,
                                       &q->publishing,
                                       &q->visible};

    memcpy(cols, list, sizeof list);
}

static emq_status queue_read(struct sq_tx *tx, struct sq_queue *q, bool *found, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queue_get, err);
    int64_t *cols[QUEUE_COLS];
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, q->prefix);
    sq_bind_text(st, 2, q->name);
    s = sq_step(tx->conn, st, found, "queue", err);
    if (s == EMQ_OK && *found) {
        columns(q, cols);
        q->qid = sq_col_i64(st, 0);
        for (int i = 0; i < QUEUE_COLS; i++)
            *cols[i] = sq_col_i64(st, i + 1);
    }
    sqlite3_reset(st);
    return s;
}

static emq_status queue_make(struct sq_tx *tx, struct sq_queue *q, bool visible, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queue_insert, err);
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, q->prefix);
    sq_bind_text(st, 2, q->name);
    sq_bind_i64(st, 3, visible);
    s = sq_exec(tx->conn, st, "make queue", err);
    q->qid = sqlite3_last_insert_rowid(tx->conn->db);
    q->visible = visible;
    return s;
}

static void queue_init(struct sq_queue *q, emq_str prefix, emq_str name)
{
    *q = (struct sq_queue){.prefix = prefix, .name = name, .max_events = SQ_EVENTS_DEFAULT};
    emq__buf_init(&q->events, EVENT_BYTES_MAX);
}

emq_status sq_queue_open(struct sq_tx *tx, emq_str prefix, emq_str name, bool create,
                         struct sq_queue *q, emq_error *err)
{
    bool found = false;
    emq_status s;

    queue_init(q, prefix, name);
    s = queue_read(tx, q, &found, err);
    if (s != EMQ_OK)
        return s;
    if (!found && !create)
        return EMQ_NOT_FOUND;
    if (!found)
        return queue_make(tx, q, true, err);
    if (!q->visible && !create)
        return EMQ_NOT_FOUND;
    if (!q->visible)
        q->visible = q->dirty = true;
    return meta_read(tx, q, err);
}

emq_status sq_queue_open_unseen(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_queue *q,
                                emq_error *err)
{
    bool found = false;
    emq_status s;

    queue_init(q, prefix, name);
    s = queue_read(tx, q, &found, err);
    if (s != EMQ_OK)
        return s;
    return found ? meta_read(tx, q, err) : EMQ_NOT_FOUND;
}

emq_status sq_queue_open_for_add(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_queue *q,
                                 emq_error *err)
{
    bool found = false;
    emq_status s;

    queue_init(q, prefix, name);
    s = queue_read(tx, q, &found, err);
    if (s != EMQ_OK)
        return s;
    return found ? meta_read(tx, q, err) : queue_make(tx, q, false, err);
}

emq_status sq_queue_save(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    int64_t *cols[QUEUE_COLS];
    sqlite3_stmt *st;
    emq_status s;

    if (!q->dirty && q->n_events == 0)
        return EMQ_OK;
    q->wake_events = q->wake_events || q->n_events > 0;
    s = sq_events_flush(tx, q, err);
    if (s != EMQ_OK)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_queue_save, err);
    if (!st)
        return sq_no_stmt(err);
    columns(q, cols);
    sq_bind_i64(st, 1, q->qid);
    for (int i = 0; i < QUEUE_COLS; i++)
        sq_bind_i64(st, i + 2, *cols[i]);
    s = sq_exec(tx->conn, st, "save queue", err);
    if (s == EMQ_OK && q->wake)
        sq_ring_later(tx, q->prefix, q->name);
    if (s == EMQ_OK && q->wake_events)
        sq_ring_events_later(tx, q->prefix, q->name);
    if (s == EMQ_OK)
        q->dirty = q->wake = q->wake_events = false;
    return s;
}

void sq_queue_close(struct sq_queue *q)
{
    emq__buf_free(&q->events);
}

bool sq_queue_maxed(const struct sq_queue *q)
{
    return q->concurrency > 0 && q->count[EMQ_ACTIVE] >= q->concurrency;
}

void sq_count(struct sq_queue *q, int state, int64_t by)
{
    EMQ_ASSERT(state >= 1 && state < SQ_STATES);
    q->count[state] += by;
    q->dirty = true;
}

/* ---- acts on one queue ----------------------------------------------------------------------- */

struct on_queue {
    emq_str prefix, name;
    sq_queue_fn fn, early; /* early: or NULL */
    void *arg;
    bool read;   /* runs in a read transaction: a slice is not placed, only asked for */
    bool unseen; /* also one that nobody sees: of a stage alone */
    bool again;
};

static emq_status on_queue(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct on_queue *a = arg;
    struct sq_queue q;
    emq_status s;

    a->again = false;
    s = a->unseen ? sq_queue_open_unseen(tx, a->prefix, a->name, &q, err)
                  : sq_queue_open(tx, a->prefix, a->name, false, &q, err);
    if (s == EMQ_OK && q.publishing > 0 && a->read) {
        s = a->early ? a->early(tx, &q, a->arg, err) : EMQ_EMPTY;
        a->again = s == EMQ_EMPTY;
        s = a->again ? EMQ_OK : s;
    } else if (s == EMQ_OK && q.publishing > 0) {
        a->again = true;
        s = sq_stage_place(tx, &q, err);
    } else if (s == EMQ_OK) {
        s = a->fn(tx, &q, a->arg, err);
    }
    if (s >= EMQ_OK && tx->write) {
        emq_status saved = sq_queue_save(tx, &q, err);
        if (saved != EMQ_OK)
            s = saved;
    }
    sq_queue_close(&q);
    return s;
}

static emq_status write_queue(struct sq *s, struct on_queue *a, emq_error *err)
{
    emq_status st;

    do
        st = sq_write(s, on_queue, a, err);
    while (st == EMQ_OK && a->again);
    return st;
}

emq_status sq_write_queue(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                          emq_error *err)
{
    struct on_queue a = {.prefix = prefix, .name = name, .fn = fn, .arg = arg};

    return write_queue(s, &a, err);
}

emq_status sq_write_unseen(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                           emq_error *err)
{
    struct on_queue a = {.prefix = prefix, .name = name, .fn = fn, .arg = arg, .unseen = true};

    return write_queue(s, &a, err);
}

static emq_status nothing(struct sq_tx *tx, struct sq_queue *q, void *arg, emq_error *err)
{
    (void)tx, (void)q, (void)arg, (void)err;
    return EMQ_OK;
}

emq_status sq_read_queue(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn fn, void *arg,
                         emq_error *err)
{
    return sq_read_early(s, prefix, name, NULL, fn, arg, err);
}

emq_status sq_read_early(struct sq *s, emq_str prefix, emq_str name, sq_queue_fn early,
                         sq_queue_fn fn, void *arg, emq_error *err)
{
    struct on_queue a = {.prefix = prefix, .name = name, .fn = fn, .early = early, .arg = arg};
    emq_status st;

    for (;;) {
        a.read = true;
        st = sq_read(s, on_queue, &a, err);
        if (st != EMQ_OK || !a.again)
            return st;
        a.read = false; /* one slice; nothing, if somebody else has placed the rest */
        a.fn = nothing;
        st = sq_write(s, on_queue, &a, err);
        a.fn = fn;
        if (emq__is_failure(st))
            return st;
    }
}
