/* SPDX-License-Identifier: MIT
 *
 * publish: how a stage ends. What a publication costs: one statement a queue, and a slice of jobs placed at
 * once. A stage whose jobs have dedup ids, or lifo, is placed whole by its publication,
 * because they decide against what is there at that moment.
 */
#include "engine/sqlite/stage.h"

#include "base/error.h"

struct publish {
    const struct emq__publish_req *req;
    struct emq__publish_res *res;
    struct emq__arena *mem;
};

static emq_status no_memory(emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, "publish", "no memory for what was not published");
}

/* Notes that a job of the stage did not come to be. The list doubles when it is full. */
static emq_status missed(const struct publish *p, int64_t rank, struct emq__added why,
                         emq_error *err)
{
    struct emq__publish_res *res = p->res;
    size_t n = res->n_missed;

    if ((n & (n - 1)) == 0) {
        struct emq__missed *list = emq__arena_zalloc(p->mem, n ? 2 * n : 1, sizeof *list);
        if (!list)
            return no_memory(err);
        if (n)
            memcpy(list, res->missed, n * sizeof *list);
        res->missed = list;
    }
    if (why.id.len > 0 && !(why.id = emq__arena_str(p->mem, why.id)).ptr)
        return no_memory(err);
    res->missed[res->n_missed++] = (struct emq__missed){rank, why};
    return EMQ_OK;
}

/* ---- publication ------------------------------------------------------------------------------- */

/* May a staged job be added now? Its dedup options are in the row (schema.sql). */
static emq_status admit(struct sq_tx *tx, struct sq_queue *q, const struct sq_staged *j,
                        struct emq__added *why, struct emq__arena *mem, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_job_all_by_jid, err);
    struct emq__job *job = NULL;
    int32_t state = 0;
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, j->jid);
    s = sq_step(tx->conn, st, &found, "stage", err);
    if (s == EMQ_OK && found)
        s = sq_job_read(tx, st, q->prefix, q->name, mem, &job, err);
    sqlite3_reset(st);
    if (s != EMQ_OK || !job)
        return s;
    const struct sq_new new = {.id = job->id,
                               .name = job->name,
                               .data = job->data,
                               .opts = job->opts,
                               .group = job->group,
                               .parent_key = job->parent_key,
                               .parent = job->parent,
                               .scheduler = job->scheduler,
                               .dedup_id = job->dedup_id,
                               .timestamp_at_ms = job->timestamp_at_ms,
                               .delay_ms = job->delay_ms,
                               .priority = job->priority,
                               .lifo = j->lifo};
    const struct emq__dedup d = {.id = job->dedup_id,
                                 .ttl_ms = j->dedup_ttl_ms,
                                 .extend = j->dedup_flags & SQ_DEDUP_EXTEND,
                                 .replace = j->dedup_flags & SQ_DEDUP_REPLACE,
                                 .keep_last = j->dedup_flags & SQ_DEDUP_KEEP_LAST};
    s = sq_dedup_admit(tx, q, &new, &d, &why->id, &state, mem, err);
    why->outcome = s;
    why->state = state;
    return s;
}

/* A job of an eager stage: dedup, then its place. */
static emq_status decide_one(struct sq_tx *tx, struct sq_queue *q, const struct sq_staged *j,
                             const struct publish *p, struct emq__arena *mem, emq_error *err)
{
    struct emq__added why = {0};
    int32_t state = sq_state_to_be(j->delay_ms, j->priority);
    emq_status s = EMQ_OK;

    if (j->dedup_id.len)
        s = admit(tx, q, j, &why, mem, err);
    if (s == EMQ_DEDUPLICATED) { /* it was never counted, so this is no removal */
        s = missed(p, j->seq - 1, why, err);
        return s == EMQ_OK ? sq_delete_rows(tx, j->jid, SQ_SIDE_DATA, 0, err) : s;
    }
    if (s != EMQ_OK)
        return s;
    sq_count(q, state, 1);
    q->totals.added++;
    p->res->count++;
    return sq_stage_put(tx, q, j, j->lifo && state != EMQ_DELAYED ? --q->front : ++q->back, err);
}

static emq_status publish_eager(struct sq_tx *tx, struct sq_queue *q, int64_t sid,
                                const struct publish *p, emq_error *err)
{
    const int64_t v[] = {q->qid, sid};
    int64_t from = 0;
    size_t n = SQ_STAGE_PAGE;
    emq_status s = EMQ_OK;

    while (q->publishing > 0 && s == EMQ_OK) /* an earlier one goes before */
        s = sq_stage_place(tx, q, err);
    while (s == EMQ_OK && n == SQ_STAGE_PAGE) {
        struct emq__arena mem = {0};
        struct sq_staged *list = NULL;
        s = sq_staged_read(tx, q, sid, from, SQ_STAGE_PAGE, &mem, &list, &n, err);
        for (size_t i = 0; s == EMQ_OK && i < n; i++)
            s = decide_one(tx, q, &list[i], p, &mem, err);
        if (n > 0)
            from = list[n - 1].seq + 1;
        emq__arena_free(&mem);
    }
    return s == EMQ_OK ? sq_stage_run(tx, SQ_SQL_stage_queue_delete, v, 2, err) : s;
}

static emq_status publish_lazy(struct sq_tx *tx, struct sq_queue *q, int64_t sid,
                               const struct sq_part *part, const struct publish *p, emq_error *err)
{
    const int64_t v[] = {q->qid, sid, q->back};
    const int states[] = {EMQ_WAITING, EMQ_DELAYED, EMQ_PRIORITIZED};
    emq_status s = sq_stage_run(tx, SQ_SQL_stage_queue_publish, v, 3, err);

    q->back += part->last;
    q->publishing++;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(states); i++) {
        sq_count(q, states[i], part->by[states[i]]);
        q->totals.added += part->by[states[i]];
        p->res->count += part->by[states[i]];
    }
    return s == EMQ_OK ? sq_stage_place(tx, q, err) : s;
}

static emq_status queue_name(struct sq_tx *tx, int64_t qid, struct emq__arena *mem, emq_str *out,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_queue_name, err);
    bool found = false;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, qid);
    s = sq_step(tx->conn, st, &found, "stage", err);
    *out = emq_strn("", 0);
    if (s == EMQ_OK && found)
        *out = sq_col_copy(st, 0, mem);
    sqlite3_reset(st);
    if (s == EMQ_OK && !out->ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "stage", "no memory");
    return s;
}

static emq_status publish_part(struct sq_tx *tx, const struct publish *p,
                               const struct sq_stage *stage, const struct sq_part *part,
                               emq_error *err)
{
    const int64_t v[] = {part->qid, stage->sid};
    struct emq__arena mem = {0};
    struct sq_queue q;
    emq_str name;
    emq_status s = queue_name(tx, part->qid, &mem, &name, err);

    if (s == EMQ_OK && name.len == 0) { /* the queue was obliterated meanwhile */
        s = sq_stage_run(tx, SQ_SQL_stage_queue_delete, v, 2, err);
    } else if (s == EMQ_OK) {
        s = sq_queue_open(tx, p->req->prefix, name, true, &q, err);
        if (s == EMQ_OK)
            s = stage->eager ? publish_eager(tx, &q, stage->sid, p, err)
                             : publish_lazy(tx, &q, stage->sid, part, p, err);
        q.wake = q.dirty = true;
        if (s == EMQ_OK)
            s = sq_queue_save(tx, &q, err);
        sq_queue_close(&q);
    }
    emq__arena_free(&mem);
    return s;
}

/* By rank, which jobs of the stage are there. */
static emq_status ranks_read(struct sq_tx *tx, const struct sq_stage *stage, bool *there,
                             emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_stage_ranks, err);
    bool row;
    emq_status s;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, stage->sid);
    while ((s = sq_step(tx->conn, st, &row, "publish", err)) == EMQ_OK && row) {
        int64_t rank = sq_col_i64(st, 0) - 1;
        if (rank >= 0 && rank < stage->jobs)
            there[rank] = true;
    }
    sqlite3_reset(st);
    return s;
}

/* What was obliterated since it was staged. */
static emq_status find_gone(struct sq_tx *tx, const struct publish *p, struct sq_stage *stage,
                            emq_error *err)
{
    static const struct emq__added gone = {.outcome = EMQ_NOT_FOUND};
    struct emq__arena mem = {0};
    int64_t left = 0;
    bool found;
    emq_status s = sq_stage_look(tx, SQ_SQL_stage_left, &stage->sid, 1, &left, &found, err);

    if (s != EMQ_OK || left == stage->jobs)
        return s;
    stage->eager = true; /* its counts may be wrong: an obliteration goes in slices */
    bool *there = emq__arena_zalloc(&mem, (size_t)stage->jobs, sizeof *there);
    s = there ? ranks_read(tx, stage, there, err) : no_memory(err);
    for (int64_t i = 0; s == EMQ_OK && i < stage->jobs; i++)
        if (!there[i])
            s = missed(p, i, gone, err);
    emq__arena_free(&mem);
    return s;
}

static emq_status publish_all(struct sq_tx *tx, const struct publish *p, emq_error *err)
{
    struct sq_stage stage;
    struct sq_part list[SQ_PARTS];
    size_t n = 1;
    bool expired;
    emq_status s = sq_stage_find(tx, p->req->prefix, p->req->stage, &stage, &expired, err);

    if (s == EMQ_OK && (stage.sid == 0 || expired))
        return EMQ_NOT_FOUND;
    if (s == EMQ_OK)
        s = find_gone(tx, p, &stage, err);
    while (s == EMQ_OK && n > 0) {
        s = sq_stage_parts(tx, stage.sid, list, &n, err);
        for (size_t i = 0; s == EMQ_OK && i < n; i++)
            s = publish_part(tx, p, &stage, &list[i], err);
    }
    return s == EMQ_OK ? sq_stage_run(tx, SQ_SQL_stage_delete, &stage.sid, 1, err) : s;
}

static emq_status publish_receipt(struct sq_tx *tx, const struct publish *p, emq_status outcome,
                                  emq_error *err)
{
    struct emq__buf b;
    emq_status s;

    if (p->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    sq_put_i64(&b, outcome);
    sq_put_i64(&b, p->res->count);
    sq_put_i64(&b, (int64_t)p->res->n_missed);
    for (size_t i = 0; i < p->res->n_missed; i++) {
        const struct emq__missed *m = &p->res->missed[i];
        sq_put_i64(&b, m->rank);
        sq_put_i64(&b, m->why.outcome);
        sq_put_i64(&b, m->why.state);
        sq_put_str(&b, m->why.id);
    }
    s = b.failed ? emq__fail(err, b.failed, 0, "publish", "no memory for the receipt")
                 : sq_receipt_store(tx, p->req->call, SQ_RECEIPT_PUBLISH, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status publish_repeat(const struct publish *p, emq_str body, emq_error *err)
{
    struct sq_reader r = sq_reader_of(body);
    emq_status outcome = (emq_status)sq_get_i64(&r), s = EMQ_OK;

    p->res->count = sq_get_i64(&r);
    for (int64_t n = sq_get_i64(&r); n > 0 && s == EMQ_OK && !r.bad; n--) {
        int64_t rank = sq_get_i64(&r);
        struct emq__added why = {.outcome = (emq_status)sq_get_i64(&r)};
        why.state = (int)sq_get_i64(&r);
        why.id = sq_get_str(&r);
        s = missed(p, rank, why, err);
    }
    if (r.bad)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "publish", "the stored answer cannot be read");
    return s == EMQ_OK ? outcome : s;
}

static emq_status publish_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct publish *p = arg;
    emq_str body;
    emq_status outcome, s;

    *p->res = (struct emq__publish_res){.now_ms = tx->now_ms};
    s = sq_receipt_find(tx, p->req->call, SQ_RECEIPT_PUBLISH, p->mem, &body, err);
    if (s == EMQ_OK)
        return publish_repeat(p, body, err);
    if (s != EMQ_NOT_FOUND)
        return s;
    outcome = p->req->drop ? sq_stage_drop(tx, p->req->prefix, p->req->stage, err)
                           : publish_all(tx, p, err);
    if (emq__is_failure(outcome))
        return outcome;
    s = publish_receipt(tx, p, outcome, err);
    return s == EMQ_OK ? outcome : s;
}

static emq_status expire_act(struct sq_tx *tx, void *more, emq_error *err)
{
    return sq_stage_expire(tx, more, err);
}

/* What a dropped stage held goes as that of an expired one does; what stays behind, because this fails, a sweep
 * removes. */
emq_status sq_act_publish(struct emq__engine *e, const struct emq__publish_req *req,
                          struct emq__publish_res *res, struct emq__arena *mem, emq_error *err)
{
    struct publish p = {.req = req, .res = res, .mem = mem};
    emq_status s = sq_write((struct sq *)e, publish_act, &p, err);
    bool more = s == EMQ_OK && req->drop;

    while (more && sq_write((struct sq *)e, expire_act, &more, NULL) == EMQ_OK)
        ;
    return s;
}
