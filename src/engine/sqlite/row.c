/* SPDX-License-Identifier: MIT
 *
 * Jobs: reading their rows and moving them between states. The one invariant: a move writes state
 * and place in one statement and counts it in the same breath. Whether a move is allowed is the
 * act's question; events and totals are the act's too, unless a comment in row.h says otherwise.
 */
#include "engine/sqlite/row.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/stage.h"

/* ---- reading ----------------------------------------------------------------------------------- */

static bool copy_col(sqlite3_stmt *st, int col, struct emq__arena *mem, emq_str *out)
{
    *out = emq_strn("", 0);
    if (sqlite3_column_type(st, col) == SQLITE_NULL)
        return true;
    *out = sq_col_copy(st, col, mem);
    return out->ptr != NULL;
}

static emq_status no_memory(emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, "read job", "no memory for a job's record");
}

emq_status sq_row_read(sqlite3_stmt *st, struct emq__arena *mem, struct sq_row *row, emq_error *err)
{
    int64_t *const wide[] = {&row->jid,
                             &row->ord1,
                             &row->ord2,
                             &row->fence,
                             &row->lock_end,
                             &row->lock_boot,
                             &row->delay_ms,
                             &row->timestamp_at_ms,
                             &row->finished_at_ms,
                             &row->expires_at_ms};
    int32_t *const narrow[] = {&row->state, &row->priority, &row->atm,  &row->ats, &row->stalled,
                               &row->mode,  &row->cancel,   &row->logs, &row->side};
    emq_str *const text[] = {&row->id,       &row->worker,     &row->dedup_id,
                             &row->deferred, &row->parent_key, &row->scheduler};
    int col = 0;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(wide); i++)
        *wide[i] = sq_col_i64(st, col++);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(narrow); i++)
        *narrow[i] = (int32_t)sq_col_i64(st, col++);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(text); i++)
        if (!copy_col(st, col++, mem, text[i]))
            return no_memory(err);
    return EMQ_OK;
}

emq_status sq_row_get(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                      struct emq__arena *mem, struct sq_row *row, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_by_id, err);
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, id);
    s = sq_step(tx->conn, st, &found, "read job", err);
    if (s == EMQ_OK)
        s = found ? sq_row_read(st, mem, row, err) : EMQ_NOT_FOUND;
    sqlite3_reset(st);
    return s;
}

bool sq_row_token_is(const struct sq_row *row, emq_str token)
{
    char text[EMQ_TOKEN_MAX + 1];

    if (row->fence == 0)
        return false;
    emq__token_format(row->worker, row->fence, text);
    return emq__str_is(token, text);
}

bool sq_row_locked(const struct sq_tx *tx, const struct sq_row *row)
{
    return row->state == EMQ_ACTIVE && row->lock_boot == sq_boot(tx->s) &&
           row->lock_end > tx->boot_ms;
}

/* Columns of emq_job, in the order of the schema. */
enum col {
    COL_JID,
    COL_QID,
    COL_ID,
    COL_STATE,
    COL_ORD1,
    COL_ORD2,
    COL_PRIORITY,
    COL_ATM,
    COL_ATS,
    COL_STALLED,
    COL_FENCE,
    COL_LOCK_END,
    COL_LOCK_BOOT,
    COL_MODE,
    COL_CANCEL,
    COL_LOGS,
    COL_SIDE,
    COL_DATA_KIND,
    COL_RESULT_KIND,
    COL_TIMESTAMP,
    COL_DELAY,
    COL_PROCESSED,
    COL_FINISHED,
    COL_EXPIRES,
    COL_WORKER,
    COL_NAME,
    COL_DEDUP_ID,
    COL_DEFERRED,
    COL_GROUP,
    COL_SCHEDULER,
    COL_PARENT_KEY,
    COL_PARENT,
    COL_OPTS,
    COL_DATA,
    COL_RESULT,
    COL_PROGRESS,
    COL_FAILED_REASON,
    COL_STACKTRACE,
    COL_REDO
};

static void read_numbers(struct sq_tx *tx, sqlite3_stmt *st, struct emq__job *j)
{
    j->state = (int32_t)sq_col_i64(st, COL_STATE);
    j->priority = (int32_t)sq_col_i64(st, COL_PRIORITY);
    j->attempts_made = (int32_t)sq_col_i64(st, COL_ATM);
    j->attempts_started = (int32_t)sq_col_i64(st, COL_ATS);
    j->stalled = (int32_t)sq_col_i64(st, COL_STALLED);
    j->redo = (int32_t)sq_col_i64(st, COL_REDO);
    j->fence = sq_col_i64(st, COL_FENCE);
    j->timestamp_at_ms = sq_col_i64(st, COL_TIMESTAMP);
    j->delay_ms = sq_col_i64(st, COL_DELAY);
    j->processed_at_ms = sq_col_i64(st, COL_PROCESSED);
    j->finished_at_ms = sq_col_i64(st, COL_FINISHED);
    if (j->state == EMQ_DELAYED)
        j->due_at_ms = sq_col_i64(st, COL_ORD1);
    if (j->state != EMQ_ACTIVE)
        return;
    j->mode = (int32_t)sq_col_i64(st, COL_MODE);
    j->cancel = (int32_t)sq_col_i64(st, COL_CANCEL);
    if (sq_col_i64(st, COL_LOCK_BOOT) == sq_boot(tx->s))
        j->lock_left_ms = sq_col_i64(st, COL_LOCK_END) - tx->boot_ms;
}

static bool read_texts(sqlite3_stmt *st, struct emq__arena *mem, struct emq__job *j)
{
    const struct {
        enum col col;
        emq_str *out;
    } list[] = {{COL_ID, &j->id},
                {COL_WORKER, &j->processed_by},
                {COL_NAME, &j->name},
                {COL_DEDUP_ID, &j->dedup_id},
                {COL_DEFERRED, &j->deferred_failure},
                {COL_GROUP, &j->group},
                {COL_SCHEDULER, &j->scheduler},
                {COL_PARENT_KEY, &j->parent_key},
                {COL_PARENT, &j->parent},
                {COL_OPTS, &j->opts},
                {COL_PROGRESS, &j->progress},
                {COL_FAILED_REASON, &j->failed_reason},
                {COL_STACKTRACE, &j->stacktrace}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        if (!copy_col(st, (int)list[i].col, mem, list[i].out))
            return false;
    if (j->fence > 0) {
        char token[EMQ_TOKEN_MAX + 1];
        emq__token_format(j->processed_by, j->fence, token);
        j->token = emq__arena_str(mem, emq_cstr(token));
        return j->token.ptr != NULL;
    }
    j->token = emq_strn("", 0);
    return true;
}

/* From the row, or from its side table. */
static emq_status read_payload(struct sq_tx *tx, sqlite3_stmt *st, enum col kind, enum col col,
                               enum sq_sql side_sql, bool side, struct emq__arena *mem,
                               struct emq__payload *out, bool *damaged, emq_error *err)
{
    sqlite3_stmt *side_st;
    bool found = false;
    int64_t stored = sq_col_i64(st, (int)kind);
    emq_status s;

    *damaged = stored < 0 || stored > EMQ__KIND_BYTES;
    out->kind = *damaged ? EMQ__KIND_BYTES : (enum emq__kind)stored;
    out->bytes = emq_strn("", 0);
    if (out->kind == 0)
        return EMQ_OK;
    if (!side)
        return copy_col(st, (int)col, mem, &out->bytes) ? EMQ_OK : no_memory(err);
    side_st = sq_stmt(tx->conn, side_sql, err);
    if (!side_st)
        return sq_no_stmt(err);
    sq_bind_i64(side_st, 1, sq_col_i64(st, COL_JID));
    s = sq_step(tx->conn, side_st, &found, "read payload", err);
    if (s == EMQ_OK && found && !copy_col(side_st, 0, mem, &out->bytes))
        s = no_memory(err);
    *damaged |= !found;
    sqlite3_reset(side_st);
    return s;
}

emq_status sq_job_read(struct sq_tx *tx, sqlite3_stmt *st, emq_str prefix, emq_str queue,
                       struct emq__arena *mem, struct emq__job **out, emq_error *err)
{
    struct emq__job *j = emq__arena_zalloc(mem, 1, sizeof *j);
    int64_t side = sq_col_i64(st, COL_SIDE);
    bool no_result; /* harms nobody: it is shown as empty */
    emq_status s;

    if (!j)
        return no_memory(err);
    j->prefix = prefix;
    j->queue = queue;
    read_numbers(tx, st, j);
    if (!read_texts(st, mem, j))
        return no_memory(err);
    s = read_payload(tx, st, COL_DATA_KIND, COL_DATA, SQ_SQL_job_data, side & SQ_SIDE_DATA, mem,
                     &j->data, &j->damaged, err);
    if (s == EMQ_OK)
        s = read_payload(tx, st, COL_RESULT_KIND, COL_RESULT, SQ_SQL_job_result,
                         side & SQ_SIDE_RESULT, mem, &j->result, &no_result, err);
    if (s == EMQ_OK)
        *out = j;
    return s;
}

void sq_row_of_job(sqlite3_stmt *st, const struct emq__job *j, struct sq_row *row)
{
    *row = (struct sq_row){.jid = sq_col_i64(st, COL_JID),
                           .ord1 = sq_col_i64(st, COL_ORD1),
                           .ord2 = sq_col_i64(st, COL_ORD2),
                           .fence = j->fence,
                           .lock_end = sq_col_i64(st, COL_LOCK_END),
                           .lock_boot = sq_col_i64(st, COL_LOCK_BOOT),
                           .delay_ms = j->delay_ms,
                           .timestamp_at_ms = j->timestamp_at_ms,
                           .finished_at_ms = j->finished_at_ms,
                           .expires_at_ms = sq_col_i64(st, COL_EXPIRES),
                           .state = j->state,
                           .priority = j->priority,
                           .atm = j->attempts_made,
                           .ats = j->attempts_started,
                           .stalled = j->stalled,
                           .mode = j->mode,
                           .cancel = j->cancel,
                           .logs = (int32_t)sq_col_i64(st, COL_LOGS),
                           .side = (int32_t)sq_col_i64(st, COL_SIDE),
                           .id = j->id,
                           .worker = j->processed_by,
                           .dedup_id = j->dedup_id,
                           .deferred = j->deferred_failure,
                           .parent_key = j->parent_key,
                           .scheduler = j->scheduler};
}

emq_status sq_job_get(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                      struct emq__arena *mem, struct emq__job **out, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_all_by_id, err);
    bool found = false;
    emq_status s;

    *out = NULL;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, id);
    s = sq_step(tx->conn, st, &found, "read job", err);
    if (s == EMQ_OK && (!found || sq_col_i64(st, COL_STATE) == SQ_STAGED))
        s = EMQ_NOT_FOUND;
    if (s == EMQ_OK)
        s = sq_job_read(tx, st, q->prefix, q->name, mem, out, err);
    sqlite3_reset(st);
    return s;
}

emq_status sq_opts_of(struct sq_tx *tx, const struct sq_row *row, struct emq__arena *mem,
                      struct emq__opts *out, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_opts, err);
    emq_str text = {0};
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    s = sq_step(tx->conn, st, &found, "read options", err);
    if (s == EMQ_OK && found && !copy_col(st, 0, mem, &text))
        s = no_memory(err);
    sqlite3_reset(st);
    if (s == EMQ_OK)
        (void)emq__opts_read(text, mem, out); /* unreadable text: the defaults */
    return s;
}

const char *sq_state_raw(int state)
{
    return state == EMQ_WAITING ? "wait" : emq_state_name(state);
}

/* ---- moves ------------------------------------------------------------------------------------- */

static void count_move(struct sq_queue *q, const struct sq_row *from, int32_t state)
{
    sq_count(q, from->state, -1);
    sq_count(q, state, 1);
    if (from->state == EMQ_DELAYED && from->fence > 0)
        q->retry_delayed--;
    if (state == EMQ_DELAYED && from->fence > 0)
        q->retry_delayed++;
}

/* A place in the line of this priority. */
static void line_place(struct sq_queue *q, int32_t priority, bool front, int32_t *state,
                       int64_t *ord1, int64_t *ord2)
{
    *state = priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
    *ord1 = priority;
    *ord2 = front ? --q->front : ++q->back;
    q->dirty = q->wake = true;
}

static void delayed_place(struct sq_queue *q, int64_t due_at_ms, int32_t *state, int64_t *ord1,
                          int64_t *ord2)
{
    *state = EMQ_DELAYED;
    *ord1 = due_at_ms;
    *ord2 = ++q->back;
    q->dirty = q->wake = true;
}

struct sq_requeue sq_requeue_of(const struct sq_row *row)
{
    return (struct sq_requeue){.atm = row->atm,
                               .ats = row->ats,
                               .stalled = row->stalled,
                               .priority = row->priority,
                               .processed_at_ms = -1};
}

emq_status sq_row_requeue(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                          const struct sq_requeue *to, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_requeue, err);
    struct sq_row new = *row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    if (to->delay_ms > 0)
        delayed_place(q, emq__sat_add(tx->now_ms, to->delay_ms), &new.state, &new.ord1, &new.ord2);
    else
        line_place(q, to->priority, to->front, &new.state, &new.ord1, &new.ord2);
    count_move(q, row, new.state);
    new.priority = to->priority;
    new.atm = to->atm;
    new.ats = to->ats;
    new.stalled = to->stalled;
    new.delay_ms = to->delay_ms > 0 ? to->delay_ms : 0;
    new.lock_end = new.lock_boot = new.mode = new.cancel = 0;
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, new.state);
    sq_bind_i64(st, 3, new.ord1);
    sq_bind_i64(st, 4, new.ord2);
    sq_bind_i64(st, 5, new.priority);
    sq_bind_i64(st, 6, new.atm);
    sq_bind_i64(st, 7, new.ats);
    sq_bind_i64(st, 8, new.stalled);
    sq_bind_i64(st, 9, new.delay_ms);
    if (to->processed_at_ms >= 0)
        sq_bind_i64(st, 10, to->processed_at_ms);
    if (to->failed_reason.ptr)
        sq_bind_text(st, 11, to->failed_reason);
    sq_bind_text_or_null(st, 12, to->stacktrace);
    s = sq_exec(tx->conn, st, "move job", err);
    *row = new;
    return s;
}

void sq_requeue_event(struct sq_queue *q, const struct sq_row *row, const char *prev)
{
    bool delayed = row->state == EMQ_DELAYED;

    sq_event_begin(q, delayed ? "delayed" : "waiting");
    sq_event_str(q, "jobId", row->id);
    if (delayed)
        sq_event_i64(q, "delay", row->ord1);
    else if (prev)
        sq_event_str(q, "prev", emq_cstr(prev));
    sq_event_end(q);
}

static emq_status delete_side(struct sq_tx *tx, enum sq_sql sql, int64_t jid, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    return sq_exec(tx->conn, st, "delete job", err);
}

emq_status sq_row_reprocess(struct sq_tx *tx, struct sq_queue *q, struct sq_row *row,
                            const struct emq__change *c, emq_error *err)
{
    sqlite3_stmt *st;
    struct sq_row new = *row;
    emq_status s = EMQ_OK;

    if (row->state == EMQ_COMPLETED_STATE && (row->side & SQ_SIDE_RESULT)) {
        s = delete_side(tx, SQ_SQL_result_delete, row->jid, err);
        new.side &= ~SQ_SIDE_RESULT;
    }
    st = s == EMQ_OK ? sq_stmt(tx->conn, SQ_SQL_job_reprocess, err) : NULL;
    if (!st)
        return s == EMQ_OK ? sq_no_stmt(err) : s;
    if (c->reset_attempts)
        new.atm = new.ats = new.stalled = 0;
    line_place(q, row->priority, c->lifo, &new.state, &new.ord1, &new.ord2);
    count_move(q, row, new.state);
    q->oldest[row->state] = 0;
    new.delay_ms = new.finished_at_ms = new.expires_at_ms = 0;
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, new.state);
    sq_bind_i64(st, 3, new.ord1);
    sq_bind_i64(st, 4, new.ord2);
    sq_bind_i64(st, 5, new.atm);
    sq_bind_i64(st, 6, new.ats);
    sq_bind_i64(st, 7, new.stalled);
    sq_bind_i64(st, 8, new.side);
    sq_bind_i64(st, 9, row->state);
    sq_bind_i64(st, 10, c->effects == EMQ__EFFECTS_REDO);
    s = sq_exec(tx->conn, st, "retry job", err);
    *row = new;
    return s;
}

emq_status sq_delete_rows(struct sq_tx *tx, int64_t jid, int32_t side, int32_t logs, emq_error *err)
{
    const struct {
        bool has;
        enum sq_sql sql;
    } list[] = {{true, SQ_SQL_job_delete},
                {side & SQ_SIDE_DATA, SQ_SQL_data_delete},
                {side & SQ_SIDE_RESULT, SQ_SQL_result_delete},
                {side & SQ_SIDE_DEPENDENCY, SQ_SQL_dependency_delete},
                {side & SQ_SIDE_HISTORY, SQ_SQL_history_delete},
                {logs > 0, SQ_SQL_log_delete}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        emq_status s = list[i].has ? delete_side(tx, list[i].sql, jid, err) : EMQ_OK;
        if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}

emq_status sq_row_delete(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row, bool dedup,
                         emq_error *err)
{
    emq_status s = EMQ_OK;
    bool done;

    if (dedup && row->dedup_id.len)
        s = sq_dedup_release(tx, q, row->dedup_id, row->id, &done, err);
    if (s != EMQ_OK)
        return s;
    sq_count(q, row->state, -1);
    if (row->state == EMQ_DELAYED && row->fence > 0)
        q->retry_delayed--;
    if (row->state == EMQ_ACTIVE && q->concurrency > 0)
        q->wake = true; /* a slot is free */
    q->wake_events = true;
    q->oldest[row->state] = 0;
    q->totals.removed++;
    return sq_delete_rows(tx, row->jid, row->side, row->logs, err);
}

/* ---- history ----------------------------------------------------------------------------------- */

static emq_status history_at(struct sq_tx *tx, struct sq_row *row, int64_t at_ms, const char *what,
                             emq_str who, emq_str detail, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_history_add, err);
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, at_ms);
    sq_bind_text(st, 3, emq_cstr(what));
    sq_bind_text(st, 4, who);
    sq_bind_text(st, 5, detail);
    s = sq_exec(tx->conn, st, "write history", err);
    if (s != EMQ_OK)
        return s;
    bool first = !(row->side & SQ_SIDE_HISTORY);
    row->side |= SQ_SIDE_HISTORY;
    st = sq_stmt(tx->conn, first ? SQ_SQL_job_side : SQ_SQL_history_trim, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    sq_bind_i64(st, 2, first ? row->side : EMQ__HISTORY_MAX);
    return sq_exec(tx->conn, st, "write history", err);
}

emq_status sq_history(struct sq_tx *tx, struct sq_row *row, const char *what, emq_str who,
                      emq_str detail, emq_error *err)
{
    return history_at(tx, row, tx->now_ms, what, who, detail, err);
}

emq_status sq_history_keep(struct sq_tx *tx, struct sq_row *row, emq_error *err)
{
    char token[EMQ_TOKEN_MAX + 1], detail[EMQ__DETAIL_MAX];
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_last_end, err);
    bool got = false, ran;
    size_t n = 0;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, row->jid);
    emq_status s = sq_step(tx->conn, st, &got, "write history", err);
    ran = s == EMQ_OK && got && sq_col_i64(st, 0) > 0 && row->fence > 0;
    if (ran && row->state == EMQ_FAILED_STATE) {
        emq_str reason = emq__detail(sq_col_str(st, 1));
        n = reason.len;
        if (n > 0)
            memcpy(detail, reason.ptr, n);
    }
    sqlite3_reset(st);
    if (!ran)
        return s;
    emq__token_format(row->worker, row->fence, token);
    return history_at(tx, row, row->finished_at_ms, emq_state_name(row->state), emq_cstr(token),
                      emq_strn(detail, n), err);
}
