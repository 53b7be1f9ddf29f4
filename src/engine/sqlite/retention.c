/* SPDX-License-Identifier: MIT
 *
 * The end of a job: completed or failed, and how long its record stays. The one invariant: right
 * after a finish the state holds no more records than the finishing job's retention allows, unless
 * that would remove more than an act may (then the next finishes go on).
 */
#include "engine/sqlite/stage.h"

#include "base/str.h"

enum {
    CHUNK = 64,             /* records looked at in one go */
    TRIM_MAX = 2 * SQ_SLICE /* removed by one act at most */
};

struct old {
    int64_t jid, ord1, ord2;
    int32_t side, logs;
};

/* Deletes rows that are the oldest of their state. */
static emq_status delete_oldest(struct sq_tx *tx, struct sq_queue *q, int32_t state,
                                const struct old *list, int64_t n, emq_error *err)
{
    sqlite3_stmt *st;
    emq_status s = EMQ_OK;

    if (n == 1)
        return sq_delete_rows(tx, list[0].jid, list[0].side, list[0].logs, err);
    for (int64_t i = 0; s == EMQ_OK && i < n; i++)
        if (list[i].side || list[i].logs)
            s = sq_delete_rows(tx, list[i].jid, list[i].side, list[i].logs, err);
    if (s != EMQ_OK || n == 0)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_job_delete_to, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, state);
    sq_bind_i64(st, 3, list[n - 1].ord1);
    sq_bind_i64(st, 4, list[n - 1].ord2);
    return sq_exec(tx->conn, st, "retention", err);
}

/* Removes the oldest `want` records of a state, or with want = 0 those finished by `until_ms`. Learns
 * the age of the oldest that stays. */
static emq_status remove_oldest(struct sq_tx *tx, struct sq_queue *q, int32_t state, int64_t want,
                                int64_t until_ms, int64_t *removed, emq_error *err)
{
    struct old list[CHUNK];
    int64_t limit = want > 0 && want < CHUNK ? want + 1 : CHUNK;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_oldest, err);
    int64_t n = 0;
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, state);
    sq_bind_i64(st, 3, limit);
    q->oldest[state] = 0;
    while ((s = sq_step(tx->conn, st, &row, "retention", err)) == EMQ_OK && row) {
        int64_t finished = sq_col_i64(st, 0);
        if (n == CHUNK || (want > 0 ? n == want : finished > until_ms)) {
            q->oldest[state] = finished;
            break;
        }
        list[n++] = (struct old){.jid = sq_col_i64(st, 1),
                                 .side = (int32_t)sq_col_i64(st, 2),
                                 .logs = (int32_t)sq_col_i64(st, 3),
                                 .ord1 = sq_col_i64(st, 4),
                                 .ord2 = sq_col_i64(st, 5)};
    }
    sqlite3_reset(st);
    if (s == EMQ_OK)
        s = delete_oldest(tx, q, state, list, n, err);
    sq_count(q, state, -n);
    q->totals.removed += n;
    q->trimmed += n;
    *removed = n;
    return s;
}

/* More than an act may remove is left to the finishes that follow; each may remove two, so that they
 * catch up. */
static bool may_trim(const struct sq_tx *tx, const struct sq_queue *q)
{
    return q->trimmed < TRIM_MAX &&
           (q->trimmed < 2 * q->finished || !sq_slice_over(tx, q->trimmed));
}

static emq_status retain(struct sq_tx *tx, struct sq_queue *q, int32_t state, struct emq__keep keep,
                         emq_error *err)
{
    emq_status s = EMQ_OK;
    int64_t removed = 1;

    while (s == EMQ_OK && removed > 0 && may_trim(tx, q) && keep.count > 0 &&
           q->count[state] > keep.count)
        s = remove_oldest(tx, q, state, q->count[state] - keep.count, 0, &removed, err);
    if (keep.age_ms <= 0)
        return s;
    int64_t until = tx->now_ms - keep.age_ms;
    removed = 1;
    while (s == EMQ_OK && removed > 0 && may_trim(tx, q) && q->oldest[state] <= until)
        s = remove_oldest(tx, q, state, 0, until, &removed, err);
    return s;
}

emq_status sq_retain_now(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    emq_status s = EMQ_OK;

    for (int32_t state = EMQ_COMPLETED_STATE; s == EMQ_OK && state <= EMQ_FAILED_STATE; state++)
        if (q->trim[state]) {
            q->trim[state] = false;
            s = retain(tx, q, state, q->trim_keep[state], err);
        }
    return s;
}

/* Before a job is placed in a finished state: what waits under other rules is applied. */
static emq_status before_place(struct sq_tx *tx, struct sq_queue *q, int32_t state,
                               struct emq__keep keep, emq_error *err)
{
    const struct emq__keep *k = &q->trim_keep[state];

    if (!q->trim[state] || (k->count == keep.count && k->age_ms == keep.age_ms))
        return EMQ_OK;
    return sq_retain_now(tx, q, err);
}

/* After it. */
static emq_status after_place(struct sq_tx *tx, struct sq_queue *q, int32_t state,
                              struct emq__keep keep, emq_error *err)
{
    if (!q->trim_later)
        return retain(tx, q, state, keep, err);
    q->trim[state] = true;
    q->trim_keep[state] = keep;
    return EMQ_OK;
}

static emq_status write_completed(struct sq_tx *tx, const struct sq_row *row,
                                  const struct sq_finish *f, emq_error *err)
{
    bool side = f->result.kind != 0 && f->result.bytes.len > SQ_INLINE_MAX;
    sqlite3_stmt *st;
    emq_status s;

    if (side) {
        st = sq_stmt(tx->conn, SQ_SQL_result_insert, err);
        if (!st)
            return sq_no_stmt(err);
        sq_bind_i64(st, 1, row->jid);
        sq_bind_payload(st, 2, f->result);
        s = sq_exec(tx->conn, st, "store result", err);
        if (s != EMQ_OK)
            return s;
    }
    st = sq_stmt(tx->conn, SQ_SQL_job_complete, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, row->finished_at_ms);
    sq_bind_i64(st, 3, row->ord2);
    sq_bind_i64(st, 4, row->atm);
    sq_bind_i64(st, 5, row->expires_at_ms);
    sq_bind_i64(st, 6, row->side | (side ? SQ_SIDE_RESULT : 0));
    sq_bind_i64(st, 7, f->result.kind);
    if (!side && f->result.kind != 0)
        sq_bind_payload(st, 8, f->result);
    return sq_exec(tx->conn, st, "complete job", err);
}

static emq_status write_failed(struct sq_tx *tx, const struct sq_row *row,
                               const struct sq_finish *f, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_fail, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, row->finished_at_ms);
    sq_bind_i64(st, 3, row->ord2);
    sq_bind_i64(st, 4, row->atm);
    sq_bind_i64(st, 5, row->expires_at_ms);
    sq_bind_i64(st, 6, row->ats);
    sq_bind_i64(st, 7, row->stalled);
    sq_bind_i64(st, 8, row->delay_ms);
    sq_bind_text(st, 9, f->reason);
    sq_bind_text_or_null(st, 10, f->stacktrace);
    return sq_exec(tx->conn, st, "fail job", err);
}

static void finish_event(struct sq_queue *q, emq_str id, const struct sq_finish *f)
{
    bool completed = f->state == EMQ_COMPLETED_STATE;

    sq_event_begin(q, completed ? "completed" : "failed");
    sq_event_str(q, "jobId", id);
    if (completed)
        sq_event_payload(q, "returnvalue", f->result);
    else
        sq_event_str(q, "failedReason", f->reason);
    sq_event_str(q, "prev", emq_cstr(f->prev));
    sq_event_end(q);
    if (completed || f->attempts <= 0 || f->atm < f->attempts)
        return;
    sq_event_begin(q, "retries-exhausted");
    sq_event_str(q, "jobId", id);
    sq_event_i64(q, "attemptsMade", f->atm);
    sq_event_end(q);
}

static void count_finish(struct sq_queue *q, int32_t from, int32_t state)
{
    if (state == EMQ_COMPLETED_STATE)
        q->totals.completed++;
    else
        q->totals.failed++;
    q->finished++;
    q->wake_events = true;
    if (from == EMQ_ACTIVE && q->concurrency > 0)
        q->wake = true; /* a slot is free */
}

static int64_t expiry(const struct sq_tx *tx, struct emq__keep keep)
{
    return keep.age_ms > 0 ? emq__sat_add(tx->now_ms, keep.age_ms) : 0;
}

emq_status sq_finish(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                     const struct sq_finish *f, bool *gone, struct emq__arena *mem, emq_error *err)
{
    int32_t from = row->state;
    emq_status s = sq_dedup_finished(tx, q, row, mem, err);

    *gone = f->keep.count == 0;
    if (s != EMQ_OK)
        return s;
    count_finish(q, from, f->state);
    finish_event(q, row->id, f);
    if (*gone)
        return sq_row_delete(tx, q, row, false, err);

    s = before_place(tx, q, f->state, f->keep, err);
    if (s != EMQ_OK)
        return s;
    sq_count(q, from, -1);
    if (from == EMQ_DELAYED && row->fence > 0)
        q->retry_delayed--;
    if (q->count[f->state] == 0)
        q->oldest[f->state] = tx->now_ms;
    sq_count(q, f->state, 1);
    row->state = f->state;
    row->atm = f->atm;
    row->ats = f->ats;
    row->stalled = f->stalled;
    row->finished_at_ms = tx->now_ms;
    row->expires_at_ms = expiry(tx, f->keep);
    row->ord1 = tx->now_ms;
    row->ord2 = ++q->back;
    s = f->state == EMQ_COMPLETED_STATE ? write_completed(tx, row, f, err)
                                        : write_failed(tx, row, f, err);
    return s == EMQ_OK ? after_place(tx, q, f->state, f->keep, err) : s;
}

/* "worker:fence" apart; false if it is no token. */
static bool token_split(emq_str token, emq_str *worker, int64_t *fence)
{
    size_t at = token.len;

    while (at > 0 && token.ptr[at - 1] != ':')
        at--;
    if (at < 2)
        return false;
    *worker = emq_strn(token.ptr, at - 1);
    return token.ptr[at] != '0' && token.ptr[at] != '-' &&
           emq__str_to_i64(emq_strn(token.ptr + at, token.len - at), fence);
}

emq_status sq_finish_owned(struct sq_tx *tx, struct sq_queue *q, emq_str id, emq_str token,
                           struct emq__payload result, struct emq__keep keep, bool *done,
                           emq_error *err)
{
    const struct sq_finish f = {.state = EMQ_COMPLETED_STATE, .result = result, .prev = "active"};
    bool kept = keep.count != 0;
    emq_str worker;
    int64_t fence;
    sqlite3_stmt *st;
    emq_status s;

    *done = false;
    if (result.bytes.len > SQ_INLINE_MAX || !token_split(token, &worker, &fence))
        return EMQ_OK;
    s = before_place(tx, q, EMQ_COMPLETED_STATE, keep, err);
    if (s != EMQ_OK)
        return s;
    st = sq_stmt(tx->conn, kept ? SQ_SQL_job_complete_owned : SQ_SQL_job_delete_owned, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, id);
    sq_bind_i64(st, 3, fence);
    sq_bind_text(st, 4, worker);
    if (kept) {
        sq_bind_i64(st, 5, tx->now_ms);
        sq_bind_i64(st, 6, q->back + 1);
        sq_bind_i64(st, 7, expiry(tx, keep));
        sq_bind_i64(st, 8, result.kind);
        sq_bind_payload(st, 9, result);
    }
    s = sq_exec(tx->conn, st, "settle", err);
    *done = s == EMQ_OK && sqlite3_changes(tx->conn->db) == 1;
    if (!*done)
        return s;
    sq_count(q, EMQ_ACTIVE, -1);
    count_finish(q, EMQ_ACTIVE, EMQ_COMPLETED_STATE);
    finish_event(q, id, &f);
    if (!kept) {
        q->totals.removed++;
        return EMQ_OK;
    }
    q->back++;
    if (q->count[EMQ_COMPLETED_STATE] == 0)
        q->oldest[EMQ_COMPLETED_STATE] = tx->now_ms;
    sq_count(q, EMQ_COMPLETED_STATE, 1);
    return after_place(tx, q, EMQ_COMPLETED_STATE, keep, err);
}
