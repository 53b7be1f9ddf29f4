/* SPDX-License-Identifier: MIT
 *
 * add. The one invariant: all entries of a request or none, and a job is in its place
 * in the statement that makes it exist.
 */
#include "engine/sqlite/add_on.h"
#include "engine/sqlite/stage.h"

#include "base/error.h"
#include "base/map.h"
#include "base/str.h"

/* ---- one row ------------------------------------------------------------------------------------ */

emq_status sq_insert_row(struct sq_tx *tx, const struct sq_queue *q, const struct sq_new *j,
                         int32_t state, int64_t ord1, int64_t ord2, int64_t *jid, emq_error *err)
{
    bool side = j->data.bytes.len > SQ_INLINE_MAX;
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_insert, err);
    emq_status s;

    *jid = 0;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, j->id);
    sq_bind_i64(st, 3, state);
    sq_bind_i64(st, 4, ord1);
    sq_bind_i64(st, 5, ord2);
    sq_bind_i64(st, 6, j->priority);
    sq_bind_i64(st, 7, state == SQ_STAGED && j->lifo);
    sq_bind_i64(st, 8, side ? SQ_SIDE_DATA : 0);
    sq_bind_i64(st, 9, j->data.kind);
    sq_bind_i64(st, 10, j->timestamp_at_ms);
    sq_bind_i64(st, 11, j->delay_ms);
    sq_bind_text(st, 12, j->name);
    sq_bind_text_or_null(st, 13, j->dedup_id);
    sq_bind_text_or_null(st, 14, j->group);
    sq_bind_text_or_null(st, 15, j->scheduler);
    sq_bind_text_or_null(st, 16, j->parent_key);
    sq_bind_text_or_null(st, 17, j->parent);
    sq_bind_text(st, 18, j->opts);
    if (!side)
        sq_bind_payload(st, 19, j->data);
    s = sq_exec(tx->conn, st, "add", err);
    if (s != EMQ_OK || sqlite3_changes(tx->conn->db) == 0)
        return s;
    *jid = sqlite3_last_insert_rowid(tx->conn->db);
    if (!side)
        return s;
    st = sq_stmt(tx->conn, SQ_SQL_data_insert, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, *jid);
    sq_bind_payload(st, 2, j->data);
    return sq_exec(tx->conn, st, "add", err);
}

emq_status sq_insert_job(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j, bool *exists,
                         int32_t *state, emq_error *err)
{
    struct sq_row row = {.id = j->id};
    bool front = j->lifo && j->delay_ms <= 0;
    int64_t pos = front ? q->front - 1 : q->back + 1;
    int64_t jid;
    emq_status s;

    if (j->delay_ms > 0) {
        row.state = EMQ_DELAYED;
        row.ord1 = emq__sat_add(j->timestamp_at_ms, j->delay_ms);
    } else {
        row.state = j->priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
        row.ord1 = j->priority;
    }
    s = sq_insert_row(tx, q, j, row.state, row.ord1, pos, &jid, err);
    *exists = jid == 0;
    if (s != EMQ_OK || *exists)
        return s;
    if (front)
        q->front = pos;
    else
        q->back = pos;
    sq_count(q, row.state, 1);
    q->totals.added++;
    q->wake = true;
    q->visible = true;
    *state = row.state;
    sq_event_begin(q, "added");
    sq_event_str(q, "jobId", j->id);
    sq_event_str(q, "name", j->name);
    sq_event_end(q);
    sq_requeue_event(q, &row, NULL);
    return EMQ_OK;
}

/* ---- the queues of a request --------------------------------------------------------------------- */

struct part {
    struct sq_queue q;
    int64_t staged[SQ_STATES];
    struct part *next;
};

struct add {
    const struct emq__add_req *req;
    struct emq__add_res *res;
    struct emq__arena *mem;    /* the caller's */
    struct emq__arena scratch; /* of one run of the act */
    struct part *parts, *last;
    struct emq__map by_name; /* prefix 0 queue -> part, once there are several */
    struct sq_stage stage;
    bool staged;
};

static bool part_is(const struct part *p, const struct emq__add_entry *en)
{
    return emq__str_eq(p->q.name, en->queue) && emq__str_eq(p->q.prefix, en->prefix);
}

static emq_status part_of(struct sq_tx *tx, struct add *a, const struct emq__add_entry *en,
                          struct part **out, emq_error *err)
{
    struct part *p = a->last;
    emq_str key;
    emq_status s;

    *out = p;
    if (p && part_is(p, en))
        return EMQ_OK;
    key = emq__arena_printf(&a->scratch, "%.*s%c%.*s", EMQ_STR_ARG(en->prefix), 0,
                            EMQ_STR_ARG(en->queue));
    *out = a->last = emq__map_get(&a->by_name, key);
    if (*out)
        return EMQ_OK;
    p = emq__arena_zalloc(&a->scratch, 1, sizeof *p);
    if (!p || !key.ptr || !emq__map_put(&a->by_name, key, p))
        return emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for a queue's record");
    s = sq_queue_open_for_add(tx, en->prefix, en->queue, &p->q, err);
    p->next = a->parts;
    a->parts = *out = a->last = p;
    return s;
}

static emq_status parts_save(struct sq_tx *tx, struct add *a, emq_error *err)
{
    emq_status s = a->staged ? sq_stage_save(tx, &a->stage, err) : EMQ_OK;

    for (struct part *p = a->parts; p && s == EMQ_OK; p = p->next) {
        if (a->staged)
            s = sq_stage_count(tx, &a->stage, &p->q, p->staged, err);
        if (s == EMQ_OK)
            s = sq_queue_save(tx, &p->q, err);
    }
    return s;
}

static void parts_close(struct add *a)
{
    for (struct part *p = a->parts; p; p = p->next)
        sq_queue_close(&p->q);
    emq__map_free(&a->by_name);
    emq__arena_free(&a->scratch);
    a->parts = a->last = NULL;
}

/* ---- add ----------------------------------------------------------------------------------------- */

/* The job that has this id, if any that counts: records past their retention and jobs of expired
 * stages are removed here. *state is what others see of it. */
static emq_status in_the_way(struct sq_tx *tx, struct add *a, struct sq_queue *q, emq_str id,
                             bool *exists, int32_t *state, emq_error *err)
{
    struct sq_row row = {0};
    bool gone = false;
    emq_status s = sq_row_get(tx, q, id, &a->scratch, &row, err);

    *exists = s == EMQ_OK;
    *state = row.state;
    if (s != EMQ_OK)
        return s == EMQ_NOT_FOUND ? EMQ_OK : s;
    if (row.state == SQ_STAGED) {
        s = sq_stage_state(tx, q, &row, state, &gone, err);
        if (s == EMQ_OK && !gone && *state == 0 && !(a->staged && row.ord1 == a->stage.sid))
            s = emq__fail(err, EMQ_E_BUSY, 0, "add", EMQ__TEXT_HELD_BY_STAGE, EMQ_STR_ARG(id));
    } else if (row.expires_at_ms > 0 && row.expires_at_ms <= tx->now_ms) {
        gone = true;
        s = sq_row_delete(tx, q, &row, false, err);
    }
    *exists = !gone;
    return s;
}

static void duplicated(struct sq_queue *q, emq_str id, int32_t state, struct emq__added *out)
{
    out->outcome = EMQ_DUPLICATE;
    out->state = state;
    if (!q->visible)
        return;
    sq_event_begin(q, "duplicated");
    sq_event_str(q, "jobId", id);
    sq_event_end(q);
}

static emq_status stage_one(struct sq_tx *tx, struct add *a, struct part *p, const struct sq_new *j,
                            const struct emq__dedup *d, bool *exists, emq_error *err)
{
    int64_t jid;
    sqlite3_stmt *st;
    emq_status s =
        sq_insert_row(tx, &p->q, j, SQ_STAGED, a->stage.sid, a->stage.jobs + 1, &jid, err);

    *exists = jid == 0;
    if (s != EMQ_OK || *exists)
        return s;
    a->stage.jobs++;
    p->staged[j->delay_ms > 0 ? EMQ_DELAYED : j->priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING]++;
    a->stage.eager = a->stage.eager || j->lifo || d->id.len > 0;
    if (d->id.len == 0)
        return EMQ_OK;
    st = sq_stmt(tx->conn, SQ_SQL_job_stage_dedup, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    sq_bind_i64(st, 2, d->ttl_ms);
    sq_bind_i64(st, 3,
                (d->extend ? SQ_DEDUP_EXTEND : 0) | (d->replace ? SQ_DEDUP_REPLACE : 0) |
                    (d->keep_last ? SQ_DEDUP_KEEP_LAST : 0));
    return sq_exec(tx->conn, st, "add", err);
}

/* Inserts; with a dedup id only if that lets it in. */
static emq_status try_insert(struct sq_tx *tx, struct add *a, struct part *p,
                             const struct sq_new *j, const struct emq__dedup *d,
                             struct emq__added *out, bool *exists, emq_error *err)
{
    emq_str owner = {0};
    int32_t state = 0;
    emq_status s = EMQ_OK;

    *exists = false;
    if (a->staged)
        return stage_one(tx, a, p, j, d, exists, err);
    if (d->id.len > 0) {
        s = in_the_way(tx, a, &p->q, j->id, exists, &state, err);
        if (s != EMQ_OK || *exists)
            return s;
        s = sq_dedup_admit(tx, &p->q, j, d, &owner, &state, &a->scratch, err);
    }
    if (s == EMQ_OK)
        s = sq_insert_job(tx, &p->q, j, exists, &state, err);
    if (s != EMQ_OK && s != EMQ_DEDUPLICATED)
        return s;
    out->state = state;
    out->outcome = s;
    if (s == EMQ_DEDUPLICATED)
        out->id = emq__arena_str(a->mem, owner);
    return EMQ_OK;
}

static emq_status next_id(struct add *a, struct sq_queue *q, emq_str *id, emq_error *err)
{
    q->last_id++;
    q->dirty = true;
    *id = emq__arena_printf(a->mem, "%lld", (long long)q->last_id);
    return id->ptr ? EMQ_OK : emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for an id");
}

static emq_status add_one(struct sq_tx *tx, struct add *a, const struct emq__add_entry *en,
                          struct emq__added *out, emq_error *err)
{
    struct sq_new j = {.name = en->name,
                       .data = en->data,
                       .opts = en->opts,
                       .group = en->group,
                       .parent_key = en->parent_key,
                       .parent = en->parent,
                       .scheduler = en->scheduler,
                       .dedup_id = en->dedup.id,
                       .timestamp_at_ms = en->timestamp_at_ms ? en->timestamp_at_ms : tx->now_ms,
                       .delay_ms = en->delay_ms > 0 ? en->delay_ms : 0,
                       .priority = en->priority,
                       .lifo = en->lifo};
    struct part *p;
    bool exists = false;
    int32_t state = 0;
    emq_status s = part_of(tx, a, en, &p, err);

    if (s == EMQ_OK)
        s = next_id(a, &p->q, &j.id, err);
    if (s == EMQ_OK && en->id.len > 0) {
        j.id = emq__arena_str(a->mem, en->id);
        if (!j.id.ptr)
            s = emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for an id");
    }
    while (s == EMQ_OK) {
        *out = (struct emq__added){.outcome = EMQ_OK, .id = j.id};
        s = try_insert(tx, a, p, &j, &en->dedup, out, &exists, err);
        if (s != EMQ_OK || !exists)
            break;
        if (en->id.len == 0) { /* a record that came with its number: by import */
            s = next_id(a, &p->q, &j.id, err);
            continue;
        }
        s = in_the_way(tx, a, &p->q, j.id, &exists, &state, err);
        if (s == EMQ_OK && exists) {
            duplicated(&p->q, j.id, state, out);
            break;
        }
    }
    if (s == EMQ_OK && !out->id.ptr)
        s = emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for an id");
    return s;
}

static emq_status add_receipt(struct sq_tx *tx, const struct add *a, emq_error *err)
{
    struct emq__buf b;
    emq_status s;

    if (a->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    sq_put_i64(&b, (int64_t)a->res->n);
    for (size_t i = 0; i < a->res->n; i++) {
        sq_put_i64(&b, a->res->added[i].outcome);
        sq_put_i64(&b, a->res->added[i].state);
        sq_put_str(&b, a->res->added[i].id);
    }
    s = b.failed ? emq__fail(err, b.failed, 0, "add", "no memory for the receipt")
                 : sq_receipt_store(tx, a->req->call, SQ_RECEIPT_ADD, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status add_repeat(struct add *a, emq_str body, emq_error *err)
{
    struct sq_reader r = sq_reader_of(body);
    int64_t n = sq_get_i64(&r);

    if (n < 0 || (size_t)n != a->req->n)
        return emq__fail(err, EMQ_E_INVALID, 0, "add",
                         "this sequence was used for %lld entries, not %zu: number each act anew",
                         (long long)n, a->req->n);
    for (size_t i = 0; i < a->res->n; i++) {
        a->res->added[i].outcome = (emq_status)sq_get_i64(&r);
        a->res->added[i].state = (int)sq_get_i64(&r);
        a->res->added[i].id = sq_get_str(&r);
    }
    return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, "add", "the stored answer cannot be read")
                 : EMQ_OK;
}

static emq_status add_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct add *a = arg;
    emq_str body;
    emq_status s;

    a->res->now_ms = tx->now_ms;
    a->stage = (struct sq_stage){0};
    s = sq_receipt_find(tx, a->req->call, SQ_RECEIPT_ADD, a->mem, &body, err);
    if (s == EMQ_OK)
        return add_repeat(a, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    s = a->staged ? sq_stage_open(tx, a->req->entries[0]->prefix, a->req->stage, a->req->goes_on,
                                  &a->stage, err)
                  : EMQ_OK;
    for (size_t i = 0; s == EMQ_OK && i < a->req->n; i++)
        s = add_one(tx, a, a->req->entries[i], &a->res->added[i], err);
    if (s == EMQ_OK)
        s = parts_save(tx, a, err);
    if (s == EMQ_OK)
        s = add_receipt(tx, a, err);
    parts_close(a);
    return s;
}

static emq_status add_begin(struct add *a, emq_error *err)
{
    const struct emq__add_req *req = a->req;

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "add", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    a->staged = req->stage.len > 0 && req->n > 0;
    a->res->n = req->n;
    a->res->added = emq__arena_zalloc(a->mem, req->n ? req->n : 1, sizeof *a->res->added);
    if (!a->res->added)
        return emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for %zu results", req->n);
    return EMQ_OK;
}

emq_status sq_act_add(struct emq__engine *e, const struct emq__add_req *req,
                      struct emq__add_res *res, struct emq__arena *mem, emq_error *err)
{
    struct add a = {.req = req, .res = res, .mem = mem};
    emq_status s = add_begin(&a, err);

    return s == EMQ_OK ? sq_write((struct sq *)e, add_act, &a, err) : s;
}

/* ---- add on the application's connection ---------------------------------------------------------- */

static emq_status on_savepoint(struct sq_conn *c, const char *sql, emq_error *err)
{
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(c, rc, "emq_add_on", err);
}

emq_status emq__sqlite_add_on(struct emq__engine *e, sqlite3 *db, const struct emq__add_req *req,
                              struct emq__add_res *res, struct emq__arena *mem, emq_error *err)
{
    struct add a = {.req = req, .res = res, .mem = mem};
    struct sq_conn c = {0};
    struct sq_tx tx = {0};
    emq_status s = add_begin(&a, err);
    sqlite3_int64 rowid;

    if (s != EMQ_OK)
        return s;
    s = sq_borrow_begin((struct sq *)e, db, &c, &tx, err);
    if (s != EMQ_OK)
        return s;
    rowid = sqlite3_last_insert_rowid(db);
    s = on_savepoint(&c, "SAVEPOINT emq_add_on", err);
    if (s == EMQ_OK) {
        s = sq_schema_check(&tx, err);
        if (s == EMQ_OK)
            s = add_act(&tx, &a, err);
        if (emq__is_failure(s)) {
            if (!sqlite3_get_autocommit(db))
                (void)on_savepoint(&c, "ROLLBACK TO emq_add_on; RELEASE emq_add_on", NULL);
        } else {
            s = on_savepoint(&c, "RELEASE emq_add_on", err);
        }
    }
    sq_borrow_end(&c);
    sqlite3_set_last_insert_rowid(db, rowid);
    return s;
}

const char *emq__sqlite_source_id(void)
{
    return sqlite3_sourceid();
}
