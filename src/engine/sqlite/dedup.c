/* SPDX-License-Identifier: MIT
 *
 * Producer dedup: a dedup id names the job that holds it (docs/protocol.md section 5.2). The one
 * invariant: an id without an end names an unfinished job; one that does not is released by the
 * next add that meets it.
 */
#include "engine/sqlite/stage.h"

#include "base/error.h"
#include "base/str.h"

emq_status sq_dedup_get(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id,
                        struct emq__arena *mem, struct sq_dedup *out, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_get, err);
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, dedup_id);
    s = sq_step(tx->conn, st, &found, "read dedup id", err);
    if (s == EMQ_OK && found) {
        out->owner = sq_col_copy(st, 0, mem);
        out->expires_at_ms = sq_col_i64(st, 1);
        out->has_next = sq_col_i64(st, 2) != 0;
    }
    sqlite3_reset(st);
    if (s != EMQ_OK)
        return s;
    if (!found || (out->expires_at_ms > 0 && out->expires_at_ms <= tx->now_ms))
        return EMQ_NOT_FOUND;
    if (!out->owner.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "read dedup id", "no memory");
    return EMQ_OK;
}

static emq_status put(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id, emq_str owner,
                      int64_t expires_at_ms, bool has_next, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_put, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, dedup_id);
    sq_bind_text(st, 3, owner);
    sq_bind_i64(st, 4, expires_at_ms);
    sq_bind_i64(st, 5, has_next);
    return sq_exec(tx->conn, st, "write dedup id", err);
}

static emq_status drop(struct sq_tx *tx, const struct sq_queue *q, enum sq_sql sql,
                       emq_str dedup_id, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, dedup_id);
    return sq_exec(tx->conn, st, "release dedup id", err);
}

emq_status sq_dedup_release(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id,
                            emq_str owner, bool *done, emq_error *err)
{
    struct emq__arena mem = {0};
    struct sq_dedup d = {0};
    emq_status s = sq_dedup_get(tx, q, dedup_id, &mem, &d, err);

    *done = s == EMQ_OK && (owner.len == 0 || emq__str_eq(owner, d.owner));
    emq__arena_free(&mem);
    if (s == EMQ_NOT_FOUND)
        return EMQ_OK;
    if (s == EMQ_OK && *done)
        s = drop(tx, q, SQ_SQL_dedup_delete, dedup_id, err);
    if (s == EMQ_OK && *done && d.has_next)
        s = drop(tx, q, SQ_SQL_dedup_next_delete, dedup_id, err);
    return s;
}

/* The end of a window that starts now. */
static int64_t window_end(const struct sq_tx *tx, const struct emq__dedup *d)
{
    return d->keep_last || d->ttl_ms <= 0 ? 0 : emq__sat_add(tx->now_ms, d->ttl_ms);
}

static emq_status next_put(struct sq_tx *tx, const struct sq_queue *q, const struct sq_new *j,
                           emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_next_put, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, j->dedup_id);
    sq_bind_text(st, 3, j->id);
    sq_bind_text(st, 4, j->name);
    sq_bind_i64(st, 5, j->priority);
    sq_bind_i64(st, 6, j->delay_ms);
    sq_bind_i64(st, 7, j->lifo);
    sq_bind_text_or_null(st, 8, j->group);
    sq_bind_text_or_null(st, 9, j->scheduler);
    sq_bind_text_or_null(st, 10, j->parent_key);
    sq_bind_text_or_null(st, 11, j->parent);
    sq_bind_text(st, 12, j->opts);
    sq_bind_i64(st, 13, j->data.kind);
    sq_bind_payload(st, 14, j->data);
    return sq_exec(tx->conn, st, "keep the last duplicate", err);
}

static void event_deduplicated(struct sq_queue *q, emq_str job, emq_str dedup_id, emq_str other)
{
    sq_event_begin(q, "deduplicated");
    sq_event_str(q, "jobId", job);
    sq_event_str(q, "deduplicationId", dedup_id);
    sq_event_str(q, "deduplicatedJobId", other);
    sq_event_end(q);
}

/* The delayed owner makes room for the new job. */
static emq_status replace(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j,
                          const struct emq__dedup *d, const struct sq_dedup *key,
                          const struct sq_row *owner, emq_error *err)
{
    bool keep_ttl = !d->keep_last && d->ttl_ms > 0 && !d->extend;
    emq_status s;

    sq_event_begin(q, "removed");
    sq_event_str(q, "jobId", owner->id);
    sq_event_str(q, "prev", emq_cstr(sq_state_raw(owner->state)));
    sq_event_end(q);
    event_deduplicated(q, j->id, d->id, owner->id);
    s = sq_row_delete(tx, q, owner, false, err);
    if (s == EMQ_OK && key->has_next)
        s = drop(tx, q, SQ_SQL_dedup_next_delete, d->id, err);
    if (s == EMQ_OK)
        s = put(tx, q, d->id, j->id, keep_ttl ? key->expires_at_ms : window_end(tx, d), false, err);
    return s;
}

/* Another job stands in the way. */
static emq_status turn_away(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j,
                            const struct emq__dedup *d, const struct sq_dedup *key,
                            int32_t owner_state, emq_error *err)
{
    emq_status s = EMQ_OK;

    q->totals.deduplicated++;
    q->dirty = true;
    if (d->keep_last && owner_state == EMQ_ACTIVE) {
        s = next_put(tx, q, j, err);
        if (s == EMQ_OK && (!key->has_next || key->expires_at_ms > 0))
            s = put(tx, q, d->id, key->owner, 0, true, err);
    } else if (d->replace) {
        return EMQ_DEDUPLICATED;
    } else if (d->extend && !d->keep_last && d->ttl_ms > 0 && !key->has_next) {
        s = put(tx, q, d->id, key->owner, window_end(tx, d), false, err);
    }
    if (s != EMQ_OK)
        return s;
    event_deduplicated(q, key->owner, d->id, j->id);
    return EMQ_DEDUPLICATED;
}

emq_status sq_dedup_admit(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j,
                          const struct emq__dedup *d, emq_str *owner, int32_t *owner_state,
                          struct emq__arena *mem, emq_error *err)
{
    struct sq_dedup key = {0};
    struct sq_row row = {0};
    emq_status s = sq_dedup_get(tx, q, d->id, mem, &key, err);
    bool alive = false;

    if (s != EMQ_OK && s != EMQ_NOT_FOUND)
        return s;
    if (s == EMQ_OK) {
        s = sq_row_get(tx, q, key.owner, mem, &row, err);
        if (s != EMQ_OK && s != EMQ_NOT_FOUND)
            return s;
        alive = s == EMQ_OK && row.state != SQ_STAGED;
        if (!alive && key.expires_at_ms == 0)
            s = EMQ_NOT_FOUND; /* stale: no record, no window */
        else
            s = EMQ_OK;
    }
    if (s == EMQ_NOT_FOUND) {
        if (key.has_next && (s = drop(tx, q, SQ_SQL_dedup_next_delete, d->id, err)) != EMQ_OK)
            return s;
        return put(tx, q, d->id, j->id, window_end(tx, d), false, err);
    }
    if (d->replace && alive && row.state == EMQ_DELAYED)
        return replace(tx, q, j, d, &key, &row, err);
    *owner = key.owner;
    *owner_state = alive ? row.state : 0;
    return turn_away(tx, q, j, d, &key, *owner_state, err);
}

static emq_status next_get(struct sq_tx *tx, const struct sq_queue *q, emq_str dedup_id,
                           struct emq__arena *mem, struct sq_new *j, bool *found, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_dedup_next_get, err);
    emq_str *const texts[] = {&j->id,     &j->name,  NULL,          NULL,
                              NULL,       &j->group, &j->scheduler, &j->parent_key,
                              &j->parent, &j->opts,  NULL,          &j->data.bytes};
    bool full = true;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, dedup_id);
    s = sq_step(tx->conn, st, found, "read the last duplicate", err);
    if (s == EMQ_OK && *found) {
        j->priority = (int32_t)sq_col_i64(st, 2);
        j->delay_ms = sq_col_i64(st, 3);
        j->lifo = sq_col_i64(st, 4) != 0;
        j->data.kind = (enum emq__kind)sq_col_i64(st, 10);
        for (int i = 0; i < (int)EMQ_ARRAY_LEN(texts); i++) {
            if (!texts[i])
                continue;
            *texts[i] = sq_col_copy(st, i, mem);
            full = full && texts[i]->ptr;
        }
    }
    sqlite3_reset(st);
    if (s == EMQ_OK && !full)
        s = emq__fail(err, EMQ_E_NOMEM, 0, "read the last duplicate", "no memory");
    return s;
}

/* The id may be held by what is left of a stage that was not published in time. */
static emq_status make_room(struct sq_tx *tx, const struct sq_queue *q, emq_str id,
                            struct emq__arena *mem, emq_error *err)
{
    struct sq_row row = {0};
    int32_t state;
    bool gone;
    emq_status s = sq_row_get(tx, q, id, mem, &row, err);

    if (s == EMQ_OK && row.state == SQ_STAGED)
        return sq_stage_state(tx, q, &row, &state, &gone, err);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

emq_status sq_dedup_next_add(struct sq_tx *tx, struct sq_queue *q, emq_str dedup_id,
                             struct emq__arena *mem, emq_error *err)
{
    struct sq_new j = {.dedup_id = dedup_id, .timestamp_at_ms = tx->now_ms};
    bool found = false, exists = false;
    int32_t state;
    emq_status s = next_get(tx, q, dedup_id, mem, &j, &found, err);

    if (s != EMQ_OK)
        return s;
    if (!found)
        return drop(tx, q, SQ_SQL_dedup_delete, dedup_id, err);
    q->last_id++;
    s = make_room(tx, q, j.id, mem, err);
    if (s == EMQ_OK)
        s = sq_insert_job(tx, q, &j, &exists, &state, err);
    for (; s == EMQ_OK && exists; q->last_id += exists) {
        j.id = emq__arena_printf(mem, "%lld", (long long)q->last_id);
        if (!j.id.ptr)
            return emq__fail(err, EMQ_E_NOMEM, 0, "add the last duplicate", "no memory");
        s = sq_insert_job(tx, q, &j, &exists, &state, err);
    }
    if (s == EMQ_OK)
        s = drop(tx, q, SQ_SQL_dedup_next_delete, dedup_id, err);
    if (s == EMQ_OK)
        s = put(tx, q, dedup_id, j.id, 0, false, err);
    return s;
}

emq_status sq_dedup_finished(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row,
                             struct emq__arena *mem, emq_error *err)
{
    struct sq_dedup key = {0};
    emq_status s;

    if (row->dedup_id.len == 0)
        return EMQ_OK;
    s = sq_dedup_get(tx, q, row->dedup_id, mem, &key, err);
    if (s == EMQ_NOT_FOUND || (s == EMQ_OK && !emq__str_eq(key.owner, row->id)))
        return EMQ_OK;
    if (s != EMQ_OK)
        return s;
    if (key.has_next)
        return sq_dedup_next_add(tx, q, row->dedup_id, mem, err);
    return key.expires_at_ms == 0 ? drop(tx, q, SQ_SQL_dedup_delete, row->dedup_id, err) : EMQ_OK;
}
