/* SPDX-License-Identifier: MIT
 *
 * take: promotes what is due, then hands out jobs under locks; see take.h.
 *
 * A take that finds nothing stores no receipt, because repeating an answer of "nothing" is harmless;
 * and unless the last take got jobs it begins as a read, so that an idle worker that looks once a
 * second costs no write lock.
 */
#include "engine/sqlite/take.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/stage.h"

enum {
    CHUNK = 64,          /* rows of a line that are read at once */
    PASS_MAX = SQ_SLICE, /* jobs of a line that one act passes over or fails */
    PLACE_SLICES = 4     /* slices of a published stage that one act puts in place to find a job */
};

struct limit {
    int64_t max, duration_ms;
};

struct taking {
    struct sq_tx *tx;
    struct sq_queue *q;
    const struct emq__take *t;
    struct emq__taken *out;
    struct emq__arena *mem;
    struct limit limit;
    emq_str prefix, queue, worker; /* in mem */
    int64_t passed;
    size_t bytes;
    bool again; /* a job came into line during the act: look from the start */
};

emq_status sq_take_check(const struct emq__take *t, emq_error *err)
{
    if (t->count < 1 || t->count > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "take", "count %d; 1..%d", (int)t->count,
                         EMQ__BATCH_MAX);
    return EMQ_OK;
}

/* ---- promotion ----------------------------------------------------------------------------------- */

static emq_status promote_one(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                              emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_promote, err);

    if (!st)
        return sq_no_stmt(err);
    sq_count(q, EMQ_DELAYED, -1);
    if (row->fence > 0)
        q->retry_delayed--;
    row->state = row->priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
    sq_count(q, row->state, 1);
    q->wake = true;
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, row->state);
    sq_bind_i64(st, 3, row->priority);
    sq_bind_i64(st, 4, ++q->back);
    sq_requeue_event(q, row, "delayed");
    return sq_exec(tx->conn, st, "promote", err);
}

emq_status sq_promote_due(struct sq_tx *tx, struct sq_queue *q, int64_t limit, int64_t *count,
                          emq_error *err)
{
    struct sq_row rows[CHUNK];
    int64_t n = CHUNK;
    emq_status s = EMQ_OK;

    *count = 0;
    if (q->count[EMQ_DELAYED] == 0)
        return EMQ_OK;
    while (s == EMQ_OK && n == CHUNK && *count < limit) {
        struct emq__arena mem = {0};
        sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_due, err);
        bool row;
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, q->qid);
        sq_bind_i64(st, 2, tx->now_ms);
        sq_bind_i64(st, 3, limit - *count < CHUNK ? limit - *count : CHUNK);
        for (n = 0; (s = sq_step(tx->conn, st, &row, "promote", err)) == EMQ_OK && row; n++)
            if ((s = sq_row_read(st, &mem, &rows[n], err)) != EMQ_OK)
                break;
        sqlite3_reset(st);
        for (int64_t i = 0; s == EMQ_OK && i < n; i++)
            s = promote_one(tx, q, &rows[i], err);
        *count += n;
        emq__arena_free(&mem);
        if (sq_slice_over(tx, *count))
            break;
    }
    return s;
}

emq_status sq_next_due(struct sq_tx *tx, const struct sq_queue *q, int64_t *due_at_ms,
                       emq_error *err)
{
    sqlite3_stmt *st;
    bool found = false;
    emq_status s;

    *due_at_ms = 0;
    if (q->count[EMQ_DELAYED] == 0)
        return EMQ_OK;
    st = sq_stmt(tx->conn, SQ_SQL_job_next_due, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    s = sq_step(tx->conn, st, &found, "next due", err);
    if (s == EMQ_OK && found)
        *due_at_ms = sq_col_i64(st, 0);
    sqlite3_reset(st);
    return s;
}

/* ---- the rate limit ------------------------------------------------------------------------------- */

/* docs/protocol.md section 5.5: max prefers the queue's, the duration the worker's. */
static struct limit limit_of(const struct sq_queue *q, const struct emq__take *t)
{
    int64_t max = q->max > 0 ? q->max : t->limit_max;
    int64_t duration = t->limit_duration_ms > 0 ? t->limit_duration_ms : q->duration;

    return max > 0 && duration > 0 ? (struct limit){max, duration} : (struct limit){0, 0};
}

static int64_t limited_ms(const struct taking *k)
{
    const struct sq_queue *q = k->q;

    if (k->limit.max <= 0 || q->limit_until_ms <= k->tx->now_ms || q->limit_count < k->limit.max)
        return 0;
    return q->limit_until_ms - k->tx->now_ms;
}

static void count_limit(struct taking *k)
{
    if (k->limit.max <= 0)
        return;
    if (k->q->limit_until_ms <= k->tx->now_ms) {
        k->q->limit_count = 0;
        k->q->limit_until_ms = emq__sat_add(k->tx->now_ms, k->limit.duration_ms);
    }
    k->q->limit_count++;
}

static bool may_take(const struct taking *k)
{
    return (int64_t)k->out->n < k->t->count && k->bytes < EMQ__BATCH_BYTES &&
           k->passed < PASS_MAX && !sq_slice_over(k->tx, k->passed) && !k->q->paused &&
           !sq_queue_maxed(k->q) && limited_ms(k) == 0;
}

/* How many more jobs this take may get by count, concurrency and rate. */
static int64_t room(const struct taking *k)
{
    int64_t n = k->t->count - (int64_t)k->out->n;

    if (k->q->concurrency > 0 && k->q->concurrency - k->q->count[EMQ_ACTIVE] < n)
        n = k->q->concurrency - k->q->count[EMQ_ACTIVE];
    if (k->limit.max > 0) {
        bool open = k->q->limit_until_ms > k->tx->now_ms;
        int64_t left = k->limit.max - (open ? k->q->limit_count : 0);
        n = left < n ? left : n;
    }
    return n > 0 ? n : 0;
}

/* ---- handing out ---------------------------------------------------------------------------------- */

struct head {
    struct sq_row row;
    struct emq__job *job;
};

static void event_active(struct sq_queue *q, const struct emq__job *j)
{
    sq_event_begin(q, "active");
    sq_event_str(q, "jobId", j->id);
    sq_event_str(q, "prev", EMQ_STR_LIT("waiting"));
    sq_event_end(q);
}

static emq_status write_lock(struct taking *k, int64_t jid, const struct emq__job *j,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(k->tx->conn, SQ_SQL_job_take, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    sq_bind_i64(st, 2, j->fence);
    sq_bind_i64(st, 3, j->attempts_started);
    sq_bind_i64(st, 4, emq__sat_add(k->tx->boot_ms_late, k->t->lock_ms));
    sq_bind_i64(st, 5, sq_boot(k->tx->s));
    sq_bind_i64(st, 6, j->mode);
    sq_bind_i64(st, 7, j->processed_at_ms);
    sq_bind_text(st, 8, j->processed_by);
    sq_bind_text_or_null(st, 9, j->deferred_failure);
    return sq_exec(k->tx->conn, st, "take", err);
}

/* The literal pop: nothing is left to settle. */
static emq_status pop(struct taking *k, struct head *h, emq_error *err)
{
    struct sq_queue *q = k->q;
    emq_status s = sq_dedup_finished(k->tx, q, &h->row, k->mem, err);

    if (s != EMQ_OK)
        return s;
    h->job->lock_left_ms = 0;
    sq_event_begin(q, "removed");
    sq_event_str(q, "jobId", h->job->id);
    sq_event_str(q, "prev", EMQ_STR_LIT("active"));
    sq_event_end(q);
    return sq_row_delete(k->tx, q, &h->row, false, err);
}

static emq_status hand_out(struct taking *k, struct head *h, emq_error *err)
{
    struct sq_queue *q = k->q;
    struct emq__job *j = h->job;
    char token[EMQ_TOKEN_MAX + 1];

    q->fence = emq__fence_next(q->fence, k->tx->now_ms * 1000);
    emq__token_format(k->worker, q->fence, token);
    j->fence = q->fence;
    j->token = emq__arena_str(k->mem, emq_cstr(token));
    if (!j->token.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for a token");
    j->state = EMQ_ACTIVE;
    j->due_at_ms = 0;
    j->attempts_started++;
    j->processed_at_ms = k->tx->now_ms;
    j->processed_by = k->worker;
    j->mode = k->t->mode;
    j->cancel = 0;
    j->lock_left_ms = k->t->lock_ms;
    if (j->mode == EMQ_AT_MOST_ONCE)
        j->deferred_failure = EMQ_STR_LIT(EMQ__TEXT_AT_MOST_ONCE);
    q->totals.started++;
    q->dirty = true;
    count_limit(k);
    event_active(q, j);
    k->bytes += j->data.bytes.len;
    k->out->jobs[k->out->n++] = j;
    if (j->mode == EMQ_FIRE_AND_FORGET)
        return pop(k, h, err);
    sq_count(q, h->row.state, -1);
    sq_count(q, EMQ_ACTIVE, 1);
    return write_lock(k, h->row.jid, j, err);
}

/* Met in the line, but not to be run. */
static emq_status fail_deferred(struct taking *k, struct head *h, emq_str text, emq_error *err)
{
    struct emq__opts o;
    bool gone;

    (void)emq__opts_read(h->job->opts, k->mem, &o);
    k->out->deferred++;
    k->passed++;
    const struct sq_finish f = {.state = EMQ_FAILED_STATE,
                                .atm = h->row.atm,
                                .ats = h->row.ats,
                                .stalled = h->row.stalled,
                                .reason = text,
                                .keep = o.keep_failed,
                                .prev = emq_state_name(h->row.state)};
    return sq_finish(k->tx, k->q, &h->row, &f, &gone, k->mem, err);
}

static emq_status one(struct taking *k, struct head *h, emq_error *err)
{
    const struct emq__job *j = h->job;

    if (k->t->mode == EMQ_FIRE_AND_FORGET && (j->parent_key.len || j->scheduler.len)) {
        k->passed++; /* stays in line for others */
        return EMQ_OK;
    }
    if (j->deferred_failure.len)
        return fail_deferred(k, h, j->deferred_failure, err);
    if (j->damaged)
        return fail_deferred(k, h, EMQ_STR_LIT(EMQ__TEXT_DAMAGED), err);
    return hand_out(k, h, err);
}

/* Reads the next rows of a line behind (ord1, ord2): at most CHUNK, and what may be taken. */
static emq_status read_line(struct taking *k, int32_t state, int64_t ord1, int64_t ord2,
                            int64_t barrier, struct head *list, size_t *n, size_t *want,
                            emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(k->tx->conn, SQ_SQL_job_line, err);
    size_t left = (size_t)room(k);
    size_t bytes = k->bytes;
    bool row;
    emq_status s;

    *n = 0;
    *want = left < CHUNK ? left : CHUNK;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, k->q->qid);
    sq_bind_i64(st, 2, state);
    sq_bind_i64(st, 3, ord1);
    sq_bind_i64(st, 4, ord2);
    sq_bind_i64(st, 5, barrier);
    sq_bind_i64(st, 6, (int64_t)*want);
    while ((s = sq_step(k->tx->conn, st, &row, "take", err)) == EMQ_OK && row) {
        struct head *h = &list[*n];
        s = sq_job_read(k->tx, st, k->prefix, k->queue, k->mem, &h->job, err);
        if (s != EMQ_OK)
            break;
        sq_row_of_job(st, h->job, &h->row);
        bytes += h->job->data.bytes.len;
        (*n)++;
        if (bytes >= EMQ__BATCH_BYTES) {
            *want = *n; /* the rest would not be taken by this act */
            break;
        }
    }
    sqlite3_reset(st);
    return s;
}

static emq_status take_line(struct taking *k, int32_t state, int64_t barrier, emq_error *err)
{
    struct head list[CHUNK];
    int64_t ord1 = INT64_MIN, ord2 = INT64_MIN;
    size_t n = 1, want = 1;
    emq_status s = EMQ_OK;

    while (s == EMQ_OK && n == want && k->q->count[state] > 0 && may_take(k)) {
        s = read_line(k, state, ord1, ord2, barrier, list, &n, &want, err);
        for (size_t i = 0; s == EMQ_OK && i < n && may_take(k); i++) {
            int64_t added = k->q->totals.added;
            ord1 = list[i].row.ord1;
            ord2 = list[i].row.ord2;
            s = one(k, &list[i], err);
            /* Its dedup id had a next job, which is in line now, perhaps before those read ahead. */
            k->again = k->q->totals.added != added;
            if (k->again)
                return s;
        }
    }
    return s;
}

/* While a published stage is not all in its places, only what stands before it is taken. */
static emq_status take_lines(struct taking *k, emq_error *err)
{
    int64_t barrier = INT64_MAX;
    emq_status s = EMQ_OK;

    for (int i = 0; s == EMQ_OK && k->q->publishing > 0 && i < PLACE_SLICES && k->out->n == 0;
         i++) {
        s = sq_stage_place(k->tx, k->q, err);
        if (s == EMQ_OK)
            s = sq_stage_barrier(k->tx, k->q, &barrier, err);
        if (s == EMQ_OK)
            s = take_line(k, EMQ_WAITING, barrier, err);
    }
    do {
        k->again = false;
        if (s == EMQ_OK && k->q->publishing == 0)
            s = take_line(k, EMQ_WAITING, INT64_MAX, err);
        if (s == EMQ_OK && k->q->publishing == 0 && !k->again)
            s = take_line(k, EMQ_PRIORITIZED, INT64_MAX, err);
    } while (s == EMQ_OK && k->again);
    return s;
}

emq_status sq_take(struct sq_tx *tx, struct sq_queue *q, const struct emq__take *t,
                   struct emq__taken *out, struct emq__arena *mem, emq_error *err)
{
    struct taking k = {.tx = tx,
                       .q = q,
                       .t = t,
                       .out = out,
                       .mem = mem,
                       .limit = limit_of(q, t),
                       .prefix = emq__arena_str(mem, q->prefix),
                       .queue = emq__arena_str(mem, q->name),
                       .worker = emq__arena_str(mem, t->worker)};
    bool told = q->wake;
    int64_t promoted;
    emq_status s;

    *out = (struct emq__taken){0};
    out->jobs = emq__arena_zalloc(mem, (size_t)t->count, sizeof(struct emq__job *));
    if (!out->jobs || !k.prefix.ptr || !k.queue.ptr || !k.worker.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for %d jobs", (int)t->count);
    if (k.limit.max > 0 && q->limit_max != k.limit.max) {
        q->limit_max = k.limit.max;
        q->dirty = true;
    }
    s = sq_promote_due(tx, q, EMQ__BATCH_MAX, &promoted, err);
    if (s == EMQ_OK)
        s = take_lines(&k, err);
    if (s == EMQ_OK)
        s = sq_next_due(tx, q, &out->next_due_at_ms, err);
    out->limited_ms = limited_ms(&k);
    out->paused = q->paused;
    out->maxed = sq_queue_maxed(q);
    /* the woken one wakes the next */
    q->wake = told || (q->count[EMQ_WAITING] + q->count[EMQ_PRIORITIZED] > 0 && !out->paused &&
                       !out->maxed && out->limited_ms == 0);
    return s;
}

/* ---- the act -------------------------------------------------------------------------------------- */

struct take_act {
    const struct emq__take_req *req;
    struct emq__take_res *res;
    struct emq__arena *mem;
    bool done; /* answered by the read */
};

static emq_status repeat(struct sq_tx *tx, struct take_act *a, const struct sq_queue *q,
                         emq_str body, emq_error *err)
{
    struct sq_reader r = sq_reader_of(body);

    return sq_taken_get(tx, q, &r, &a->res->taken, a->mem, err);
}

static emq_status take_receipt(struct sq_tx *tx, const struct take_act *a, emq_error *err)
{
    struct emq__buf b;
    emq_status s;

    if (a->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    sq_taken_put(&b, &a->res->taken, a->req->take.mode);
    s = b.failed ? emq__fail(err, b.failed, 0, "take", "no memory for the receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_TAKE, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

/* Is there anything that a take would change? Answers it here if not. */
static emq_status look_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct take_act *a = arg;
    struct emq__taken *out = &a->res->taken;
    struct sq_queue q;
    emq_str body;
    emq_status found, s;

    a->done = false;
    a->res->now_ms = tx->now_ms;
    *out = (struct emq__taken){0};
    found = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    s = emq__is_failure(found)
            ? found
            : sq_receipt_find(tx, a->req->call, SQ_RECEIPT_TAKE, a->mem, &body, err);
    if (s == EMQ_OK) {
        a->done = true;
        s = repeat(tx, a, found == EMQ_OK ? &q : NULL, body, err);
    } else if (s == EMQ_NOT_FOUND) {
        s = found == EMQ_OK ? sq_next_due(tx, &q, &out->next_due_at_ms, err) : EMQ_OK;
        bool due = out->next_due_at_ms > 0 && out->next_due_at_ms <= tx->now_ms;
        bool line = q.count[EMQ_WAITING] + q.count[EMQ_PRIORITIZED] > 0;
        struct taking k = {.tx = tx, .q = &q, .limit = limit_of(&q, &a->req->take)};
        out->paused = q.paused;
        out->maxed = sq_queue_maxed(&q);
        out->limited_ms = limited_ms(&k);
        a->done = !due && (!line || out->paused || out->maxed || out->limited_ms > 0) &&
                  (k.limit.max == 0 || k.limit.max == q.limit_max);
    }
    sq_queue_close(&q);
    return s;
}

static emq_status take_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct take_act *a = arg;
    struct sq_queue q;
    emq_str body;
    emq_status found, s;

    a->res->now_ms = tx->now_ms;
    a->res->taken = (struct emq__taken){0};
    found = sq_queue_open(tx, a->req->prefix, a->req->queue, false, &q, err);
    s = emq__is_failure(found)
            ? found
            : sq_receipt_find(tx, a->req->call, SQ_RECEIPT_TAKE, a->mem, &body, err);
    if (s == EMQ_OK) {
        s = repeat(tx, a, found == EMQ_OK ? &q : NULL, body, err);
    } else if (s == EMQ_NOT_FOUND) {
        s = found == EMQ_OK ? sq_take(tx, &q, &a->req->take, &a->res->taken, a->mem, err) : EMQ_OK;
        bool changed = q.dirty || a->res->taken.n > 0;
        if (s == EMQ_OK)
            s = sq_queue_save(tx, &q, err);
        if (s == EMQ_OK && changed)
            s = take_receipt(tx, a, err);
    }
    sq_queue_close(&q);
    return s;
}

emq_status sq_act_take(struct emq__engine *e, const struct emq__take_req *req,
                       struct emq__take_res *res, struct emq__arena *mem, emq_error *err)
{
    struct take_act a = {.req = req, .res = res, .mem = mem};
    atomic_bool *hot = sq_take_hot((struct sq *)e);
    emq_status s = sq_take_check(&req->take, err);

    if (s == EMQ_OK && !atomic_load(hot))
        s = sq_read((struct sq *)e, look_act, &a, err);
    if (s != EMQ_OK || a.done)
        return s;
    s = sq_write((struct sq *)e, take_act, &a, err);
    atomic_store(hot, s == EMQ_OK && res->taken.n > 0);
    return s;
}
