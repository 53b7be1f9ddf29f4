/* SPDX-License-Identifier: MIT
 *
 * Stages: see stage.h. They are published in act_publish.c.
 */
#include "engine/sqlite/stage.h"

#include "base/error.h"

emq_status sq_stage_run(struct sq_tx *tx, enum sq_sql sql, const int64_t *v, int n, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);

    if (!st)
        return sq_no_stmt(err);
    for (int i = 0; i < n; i++)
        sq_bind_i64(st, i + 1, v[i]);
    return sq_exec(tx->conn, st, "stage", err);
}

static bool ended(const struct sq_tx *tx, int64_t touched_at_ms)
{
    return emq__sat_add(touched_at_ms, SQ_STAGE_LIFE_MS) <= tx->now_ms;
}

emq_status sq_stage_find(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_stage *out,
                         bool *expired, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stage_get, err);
    bool found = false;
    emq_status s;

    *out = (struct sq_stage){0};
    *expired = false;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, prefix);
    sq_bind_text(st, 2, name);
    s = sq_step(tx->conn, st, &found, "stage", err);
    if (s == EMQ_OK && found) {
        out->sid = sq_col_i64(st, 0);
        *expired = ended(tx, sq_col_i64(st, 1));
        out->jobs = sq_col_i64(st, 2);
        out->eager = sq_col_i64(st, 3) != 0;
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_stage_open(struct sq_tx *tx, emq_str prefix, emq_str name, bool goes_on,
                         struct sq_stage *out, emq_error *err)
{
    sqlite3_stmt *st;
    bool expired;
    emq_status s = sq_stage_find(tx, prefix, name, out, &expired, err);

    if (s == EMQ_OK && goes_on && (out->sid == 0 || expired))
        return emq__fail(err, EMQ_E_STORE, 0, "stage", EMQ__TEXT_STAGE_GONE);
    if (s == EMQ_OK && expired) /* sweep removes it under another name */
        s = sq_stage_run(tx, SQ_SQL_stage_rename, &out->sid, 1, err);
    if (s != EMQ_OK || (out->sid != 0 && !expired))
        return s;
    *out = (struct sq_stage){0};
    st = sq_stmt(tx->conn, SQ_SQL_stage_insert, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, prefix);
    sq_bind_text(st, 2, name);
    sq_bind_i64(st, 3, tx->now_ms);
    s = sq_exec(tx->conn, st, "stage", err);
    out->sid = sqlite3_last_insert_rowid(tx->conn->db);
    return s;
}

emq_status sq_stage_save(struct sq_tx *tx, const struct sq_stage *stage, emq_error *err)
{
    const int64_t v[] = {stage->sid, tx->now_ms, stage->jobs, stage->eager};
    return sq_stage_run(tx, SQ_SQL_stage_touch, v, 4, err);
}

emq_status sq_stage_count(struct sq_tx *tx, const struct sq_stage *stage, const struct sq_queue *q,
                          const int64_t by[SQ_STATES], emq_error *err)
{
    const int64_t v[] = {q->qid,          stage->sid,      stage->jobs,
                         by[EMQ_WAITING], by[EMQ_DELAYED], by[EMQ_PRIORITIZED]};
    return sq_stage_run(tx, SQ_SQL_stage_queue_add, v, 6, err);
}

emq_status sq_stage_look(struct sq_tx *tx, enum sq_sql sql, const int64_t *v, int n, int64_t *out,
                         bool *found, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);
    emq_status s;

    *found = false;
    if (!st)
        return sq_no_stmt(err);
    for (int i = 0; i < n; i++)
        sq_bind_i64(st, i + 1, v[i]);
    s = sq_step(tx->conn, st, found, "stage", err);
    if (s == EMQ_OK && *found)
        *out = sq_col_i64(st, 0);
    sqlite3_reset(st);
    return s;
}

int32_t sq_state_to_be(int64_t delay_ms, int64_t priority)
{
    return delay_ms > 0 ? EMQ_DELAYED : priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
}

emq_status sq_stage_state(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                          int32_t *state, bool *gone, emq_error *err)
{
    const int64_t v[] = {q->qid, row->ord1};
    int64_t published = 0, touched = 0;
    bool found;
    emq_status s =
        sq_stage_look(tx, SQ_SQL_stage_queue_is_published, v, 2, &published, &found, err);

    *gone = false;
    *state = published ? sq_state_to_be(row->delay_ms, row->priority) : 0;
    if (s != EMQ_OK || published)
        return s;
    s = sq_stage_look(tx, SQ_SQL_stage_get_sid, &row->ord1, 1, &touched, &found, err);
    *gone = s == EMQ_OK && (!found || ended(tx, touched));
    return *gone ? sq_delete_rows(tx, row->jid, row->side, row->logs, err) : s;
}

/* ---- placing ----------------------------------------------------------------------------------- */

emq_status sq_staged_read(struct sq_tx *tx, const struct sq_queue *q, int64_t sid, int64_t from,
                          int64_t limit, struct emq__arena *mem, struct sq_staged **out, size_t *n,
                          emq_error *err)
{
    struct sq_staged *list = emq__arena_zalloc(mem, (size_t)limit, sizeof *list);
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stage_jobs, err);
    bool row, full = list != NULL;
    emq_status s = EMQ_OK;

    *n = 0;
    *out = list;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, sid);
    sq_bind_i64(st, 3, from);
    sq_bind_i64(st, 4, limit);
    while (full && (s = sq_step(tx->conn, st, &row, "stage", err)) == EMQ_OK && row) {
        list[*n] = (struct sq_staged){.jid = sq_col_i64(st, 0),
                                      .seq = sq_col_i64(st, 1),
                                      .id = sq_col_copy(st, 2, mem),
                                      .name = sq_col_copy(st, 3, mem),
                                      .priority = (int32_t)sq_col_i64(st, 4),
                                      .delay_ms = sq_col_i64(st, 5),
                                      .timestamp_at_ms = sq_col_i64(st, 6),
                                      .lifo = sq_col_i64(st, 7) != 0,
                                      .dedup_id = sq_col_copy(st, 8, mem),
                                      .dedup_ttl_ms = sq_col_i64(st, 9),
                                      .dedup_flags = (int32_t)sq_col_i64(st, 10)};
        full = list[*n].id.ptr && list[*n].name.ptr && list[*n].dedup_id.ptr;
        (*n)++;
    }
    sqlite3_reset(st);
    return full ? s
                : emq__fail(err, EMQ_E_NOMEM, 0, "stage", "no memory for %lld jobs",
                            (long long)limit);
}

emq_status sq_stage_put(struct sq_tx *tx, struct sq_queue *q, const struct sq_staged *j,
                        int64_t position, emq_error *err)
{
    int32_t state = sq_state_to_be(j->delay_ms, j->priority);
    int64_t due = emq__sat_add(j->timestamp_at_ms, j->delay_ms);
    const int64_t v[] = {j->jid, state, state == EMQ_DELAYED ? due : j->priority, position,
                         j->delay_ms};
    struct sq_row row = {.state = state, .id = j->id, .ord1 = due};

    sq_event_begin(q, "added");
    sq_event_str(q, "jobId", j->id);
    sq_event_str(q, "name", j->name);
    sq_event_end(q);
    sq_requeue_event(q, &row, NULL);
    return sq_stage_run(tx, SQ_SQL_job_place, v, 5, err);
}

/* A page of the oldest published stage; with its last page the stage ends. */
static emq_status place_page(struct sq_tx *tx, struct sq_queue *q, int64_t *placed, emq_error *err)
{
    struct emq__arena mem = {0};
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stage_queue_oldest, err);
    int64_t sid = 0, base = 0, next = 0;
    struct sq_staged *list = NULL;
    size_t n = 0;
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    s = sq_step(tx->conn, st, &found, "stage", err);
    if (s == EMQ_OK && found) {
        sid = sq_col_i64(st, 0);
        base = sq_col_i64(st, 1);
        next = sq_col_i64(st, 2);
    }
    sqlite3_reset(st);
    if (s == EMQ_OK && !found)
        q->publishing = 0;
    if (s != EMQ_OK || !found)
        return s;
    s = sq_staged_read(tx, q, sid, next, SQ_STAGE_PAGE, &mem, &list, &n, err);
    for (size_t i = 0; s == EMQ_OK && i < n; i++)
        s = sq_stage_put(tx, q, &list[i], base + list[i].seq, err);
    *placed += (int64_t)n;
    if (s == EMQ_OK && n < SQ_STAGE_PAGE) {
        const int64_t v[] = {q->qid, sid};
        q->publishing--;
        s = sq_stage_run(tx, SQ_SQL_stage_queue_delete, v, 2, err);
    } else if (s == EMQ_OK) {
        const int64_t v[] = {q->qid, sid, list[n - 1].seq + 1};
        s = sq_stage_run(tx, SQ_SQL_stage_queue_next, v, 3, err);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status sq_stage_place(struct sq_tx *tx, struct sq_queue *q, emq_error *err)
{
    int64_t placed = 0;
    emq_status s = EMQ_OK;

    while (s == EMQ_OK && q->publishing > 0 && placed < SQ_SLICE && !sq_slice_over(tx, placed))
        s = place_page(tx, q, &placed, err);
    q->dirty = true;
    return s;
}

emq_status sq_stage_barrier(struct sq_tx *tx, const struct sq_queue *q, int64_t *pos,
                            emq_error *err)
{
    sqlite3_stmt *st;
    bool found = false;
    emq_status s;

    *pos = INT64_MAX;
    if (q->publishing == 0)
        return EMQ_OK;
    st = sq_stmt(tx->conn, SQ_SQL_stage_queue_oldest, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    s = sq_step(tx->conn, st, &found, "stage", err);
    if (s == EMQ_OK && found)
        *pos = sq_col_i64(st, 1) + sq_col_i64(st, 2);
    sqlite3_reset(st);
    return s;
}

/* ---- expiry ------------------------------------------------------------------------------------ */

emq_status sq_stage_parts(struct sq_tx *tx, int64_t sid, struct sq_part list[SQ_PARTS], size_t *n,
                          emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stage_queue_of, err);
    bool row;
    emq_status s;

    *n = 0;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, sid);
    sq_bind_i64(st, 2, SQ_PARTS);
    while ((s = sq_step(tx->conn, st, &row, "stage", err)) == EMQ_OK && row) {
        struct sq_part *p = &list[(*n)++];
        *p = (struct sq_part){.qid = sq_col_i64(st, 0), .last = sq_col_i64(st, 1)};
        p->by[EMQ_WAITING] = sq_col_i64(st, 2);
        p->by[EMQ_DELAYED] = sq_col_i64(st, 3);
        p->by[EMQ_PRIORITIZED] = sq_col_i64(st, 4);
    }
    sqlite3_reset(st);
    return s;
}

emq_status sq_stage_drop(struct sq_tx *tx, emq_str prefix, emq_str name, emq_error *err)
{
    struct sq_stage stage;
    bool expired;
    emq_status s = sq_stage_find(tx, prefix, name, &stage, &expired, err);
    const int64_t v[] = {stage.sid, tx->now_ms - SQ_STAGE_LIFE_MS};

    if (s == EMQ_OK && (stage.sid == 0 || expired))
        return EMQ_NOT_FOUND;
    return s == EMQ_OK ? sq_stage_run(tx, SQ_SQL_stage_drop, v, 2, err) : s;
}

emq_status sq_stage_any_expired(struct sq_tx *tx, bool *any, emq_error *err)
{
    const int64_t before = tx->now_ms - SQ_STAGE_LIFE_MS;
    int64_t sid;

    return sq_stage_look(tx, SQ_SQL_stage_expired, &before, 1, &sid, any, err);
}

/* A page of one expired stage; *more = false: there is none. */
static emq_status expire_page(struct sq_tx *tx, int64_t *removed, bool *more, emq_error *err)
{
    const int64_t before = tx->now_ms - SQ_STAGE_LIFE_MS;
    struct emq__arena mem = {0};
    struct sq_part list[SQ_PARTS];
    size_t parts = 0, n = 0;
    int64_t sid = 0;
    emq_status s = sq_stage_look(tx, SQ_SQL_stage_expired, &before, 1, &sid, more, err);

    if (s != EMQ_OK || !*more)
        return s;
    s = sq_stage_parts(tx, sid, list, &parts, err);
    if (s == EMQ_OK && parts == 0)
        s = sq_stage_run(tx, SQ_SQL_stage_delete, &sid, 1, err);
    if (s == EMQ_OK && parts > 0) {
        const struct sq_queue q = {.qid = list[0].qid};
        const int64_t v[] = {q.qid, sid};
        struct sq_staged *jobs = NULL;
        s = sq_staged_read(tx, &q, sid, 0, SQ_STAGE_PAGE, &mem, &jobs, &n, err);
        for (size_t i = 0; s == EMQ_OK && i < n; i++)
            s = sq_delete_rows(tx, jobs[i].jid, SQ_SIDE_DATA, 0, err);
        if (s == EMQ_OK && n < SQ_STAGE_PAGE)
            s = sq_stage_run(tx, SQ_SQL_stage_queue_delete, v, 2, err);
    }
    *removed += (int64_t)n;
    emq__arena_free(&mem);
    return s;
}

emq_status sq_stage_expire(struct sq_tx *tx, bool *more, emq_error *err)
{
    int64_t removed = 0;
    emq_status s = EMQ_OK;

    for (*more = true; s == EMQ_OK && *more;) {
        s = expire_page(tx, &removed, more, err);
        if (removed >= SQ_SLICE || sq_slice_over(tx, removed))
            break;
    }
    return s;
}
