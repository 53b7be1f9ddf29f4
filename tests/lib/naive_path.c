/* SPDX-License-Identifier: MIT
 *
 * The model engine: the path of a job, from add to settle.
 */
#include "lib/naive_internal.h"

#include "base/error.h"

/* ---- add */

static struct nv_stage *stage_find(struct naive *n, emq_str prefix, emq_str name)
{
    for (size_t i = 0; i < n->n_stages; i++)
        if (emq__str_eq(n->stages[i]->prefix, prefix) && emq__str_eq(n->stages[i]->name, name))
            return n->stages[i];
    return NULL;
}

static struct nv_stage *stage_make(struct naive *n, emq_str prefix, emq_str name)
{
    struct nv_stage *s = stage_find(n, prefix, name);
    if (!s) {
        s = nv_alloc(sizeof *s);
        s->prefix = nv_dup(prefix);
        s->name = nv_dup(name);
        n->stages = nv_grow(n->stages, n->n_stages, sizeof *n->stages);
        n->stages[n->n_stages++] = s;
    }
    s->expires_at_ms = n->now_ms + NV_STAGE_TTL_MS;
    return s;
}

static struct nv_job *job_of_entry(struct naive *n, const struct nv_queue *q,
                                   const struct emq__add_entry *en, emq_str id)
{
    struct nv_job *job = nv_job_new();
    struct emq__job *j = &job->j;

    j->prefix = nv_put(&job->mem, q->prefix);
    j->queue = nv_put(&job->mem, q->name);
    j->id = nv_put(&job->mem, id);
    j->name = nv_put(&job->mem, en->name);
    j->data.kind = en->data.kind;
    j->data.bytes = nv_put(&job->mem, en->data.bytes);
    j->opts = nv_put(&job->mem, en->opts);
    j->group = nv_put(&job->mem, en->group);
    j->parent_key = nv_put(&job->mem, en->parent_key);
    j->parent = nv_put(&job->mem, en->parent);
    j->scheduler = nv_put(&job->mem, en->scheduler);
    job->dedup = en->dedup;
    job->dedup.id = nv_put(&job->mem, en->dedup.id);
    j->dedup_id = job->dedup.id;
    j->timestamp_at_ms = en->timestamp_at_ms ? en->timestamp_at_ms : n->now_ms;
    j->delay_ms = en->delay_ms > 0 ? en->delay_ms : 0;
    j->priority = en->priority;
    job->lifo = en->lifo;
    return job;
}

static void add_one(struct naive *n, const struct emq__add_entry *en, struct nv_stage *stage,
                    struct emq__added *out, struct emq__arena *mem)
{
    struct nv_queue *q = nv_queue_make(n, en->prefix, en->queue);
    char number[24];
    emq_str id = en->id;

    q->id_counter++;
    snprintf(number, sizeof number, "%lld", (long long)q->id_counter);
    if (!id.len)
        id = emq_cstr(number);
    struct nv_job *old = nv_job_find(q, id);
    if (old && old->expires_at_ms && old->expires_at_ms <= n->now_ms) {
        nv_remove(n, q, old, false);
        old = NULL;
    }
    out->id = nv_put(mem, id);
    if (old) {
        out->outcome = EMQ_DUPLICATE;
        out->state = old->j.state == NV_STAGED ? 0 : old->j.state;
        if (q->exists)
            nv_event(n, q, "duplicated", id, NULL);
        return;
    }
    struct nv_job *job = job_of_entry(n, q, en, id);
    if (stage) {
        job->stage = stage;
        job->rank = stage->jobs++;
        job->j.state = NV_STAGED;
        job->ord2 = ++q->back;
        nv_job_link(q, job);
        return;
    }
    bool kept;
    out->outcome = nv_dedup_apply(n, q, job, &out->id, &out->state, &kept, mem);
    if (out->outcome == EMQ_OK) {
        nv_job_link(q, job);
        nv_place_new(n, q, job);
        out->state = job->j.state;
    } else if (!kept) {
        nv_job_free(job);
    }
}

static emq_status do_add(struct naive *n, const struct emq__add_req *req, struct emq__add_res *res,
                         struct emq__arena *mem, emq_error *err)
{
    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "add", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    bool staged = req->stage.len && req->n;
    struct nv_stage *stage = staged ? stage_find(n, req->entries[0]->prefix, req->stage) : NULL;
    if (req->goes_on && !stage)
        return emq__fail(err, EMQ_E_STORE, 0, "add", EMQ__TEXT_STAGE_GONE);
    for (size_t i = 0; i < req->n; i++) {
        emq_str id = req->entries[i]->id;
        struct nv_queue *q = nv_queue_find(n, req->entries[i]->prefix, req->entries[i]->queue);
        struct nv_job *old = id.len ? nv_job_find(q, id) : NULL;
        if (old && old->j.state == NV_STAGED && old->stage != stage)
            return emq__fail(err, EMQ_E_BUSY, 0, "add", EMQ__TEXT_HELD_BY_STAGE, EMQ_STR_ARG(id));
    }
    if (staged)
        stage = stage_make(n, req->entries[0]->prefix, req->stage);
    res->n = req->n;
    res->added = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->added);
    if (!res->added)
        abort();
    for (size_t i = 0; i < req->n; i++)
        add_one(n, req->entries[i], stage, &res->added[i], mem);
    return EMQ_OK;
}
NV_ACT_ONCE(add)

/* seen: by rank, what was there. */
static void publish_queue(struct naive *n, struct nv_queue *q, const struct nv_stage *stage,
                          bool *seen, struct emq__publish_res *res, struct emq__arena *mem)
{
    size_t count;
    struct nv_job **staged = nv_sorted(q, NV_STAGED, &count);

    for (size_t i = 0; i < count; i++) {
        struct nv_job *job = staged[i];
        struct emq__missed missed = {.rank = job->rank};
        bool kept;
        if (job->stage != stage)
            continue;
        job->stage = NULL;
        q->exists = true;
        seen[job->rank] = true;
        missed.why.outcome =
            nv_dedup_apply(n, q, job, &missed.why.id, &missed.why.state, &kept, mem);
        if (missed.why.outcome == EMQ_OK) {
            nv_place_new(n, q, job);
            res->count++;
            continue;
        }
        res->missed[res->n_missed++] = missed;
        nv_job_unlink(q, job);
        if (!kept)
            nv_job_free(job);
    }
    free(staged);
}

static emq_status do_publish(struct naive *n, const struct emq__publish_req *req,
                             struct emq__publish_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)err;
    struct nv_stage *stage = stage_find(n, req->prefix, req->stage);
    if (!stage)
        return EMQ_NOT_FOUND;
    if (!req->drop) {
        size_t jobs = (size_t)stage->jobs;
        bool *seen = nv_alloc(jobs);
        res->missed = emq__arena_zalloc(mem, jobs, sizeof *res->missed);
        if (!res->missed)
            abort();
        for (size_t i = 0; i < n->n_queues; i++)
            publish_queue(n, n->queues[i], stage, seen, res, mem);
        for (size_t i = 0; i < jobs; i++)
            if (!seen[i])
                res->missed[res->n_missed++] =
                    (struct emq__missed){(int64_t)i, {.outcome = EMQ_NOT_FOUND}};
        free(seen);
    }
    stage->expires_at_ms = n->now_ms; /* it is empty now, or dropped */
    nv_trim_stages(n);
    return EMQ_OK;
}
NV_ACT_ONCE(publish)

/* ---- take */

static void hand_out(struct naive *n, struct nv_queue *q, struct nv_job *job,
                     const struct emq__take *t)
{
    char token[EMQ_TOKEN_MAX + 1];

    q->last_fence = emq__fence_next(q->last_fence, n->now_ms * 1000);
    emq__token_format(t->worker, q->last_fence, token);
    job->j.fence = q->last_fence;
    job->j.token = nv_put(&job->mem, emq_cstr(token));
    job->j.state = EMQ_ACTIVE;
    job->j.due_at_ms = 0;
    job->ord1 = job->j.fence;
    job->ord2 = 0;
    job->j.attempts_started++;
    job->j.processed_at_ms = n->now_ms;
    job->j.processed_by = nv_put(&job->mem, t->worker);
    job->j.mode = t->mode;
    job->j.cancel = 0;
    if (t->mode == EMQ_AT_MOST_ONCE)
        job->j.deferred_failure = emq_cstr(EMQ__TEXT_AT_MOST_ONCE);
    job->lock_end_at_ms = n->now_ms + t->lock_ms;
    q->totals.started++;
    nv_event(n, q, "active", job->j.id, "waiting");
}

/* The literal pop: nothing is left to settle. */
static struct emq__job *pop(struct naive *n, struct nv_queue *q, struct nv_job *job,
                            struct emq__arena *mem)
{
    struct emq__job *out = nv_job_copy(n, job, mem);

    out->lock_left_ms = 0;
    nv_key_end(n, q, job);
    nv_event(n, q, "removed", job->j.id, "active");
    nv_remove(n, q, job, false);
    return out;
}

struct limit {
    int64_t max, duration_ms;
};

static struct limit effective_limit(const struct nv_queue *q, const struct emq__take *t)
{
    int64_t max = nv_meta_i64(q, "max"), duration = nv_meta_i64(q, "duration");

    if (max <= 0)
        max = t->limit_max;
    if (t->limit_duration_ms > 0)
        duration = t->limit_duration_ms;
    return max > 0 && duration > 0 ? (struct limit){max, duration} : (struct limit){0, 0};
}

static void count_limit(struct naive *n, struct nv_queue *q, struct limit l)
{
    if (l.max <= 0)
        return;
    if (q->limit_end_at_ms <= n->now_ms) {
        q->limit_count = 0;
        q->limit_end_at_ms = n->now_ms + l.duration_ms;
    }
    q->limit_count++;
}

/* Who is next? Looked for anew for each hand-out: the last one may have changed the line. */
struct nv_job *nv_next_in_line(const struct nv_queue *q, int32_t mode)
{
    struct nv_job *best = NULL;

    for (size_t i = 0; i < q->n_jobs; i++) {
        struct nv_job *job = q->jobs[i];
        if (job->j.state != EMQ_WAITING && job->j.state != EMQ_PRIORITIZED)
            continue;
        if (mode == EMQ_FIRE_AND_FORGET && (job->j.parent_key.len || job->j.scheduler.len))
            continue;
        /* The priority, 0 for waiting, is ord1: one order for both lines. */
        if (!best || job->ord1 < best->ord1 || (job->ord1 == best->ord1 && job->ord2 < best->ord2))
            best = job;
    }
    return best;
}

static void take_from_line(struct naive *n, struct nv_queue *q, const struct emq__take *t,
                           struct limit l, struct emq__taken *out, struct emq__arena *mem)
{
    while (out->n < (size_t)t->count && !nv_paused(q) && !nv_maxed(q) &&
           !nv_limited_ms(n, q, l.max)) {
        struct nv_job *job = nv_next_in_line(q, t->mode);
        if (!job)
            break;
        if (job->j.deferred_failure.len) {
            (void)nv_fail(n, q, job, job->j.deferred_failure, NULL);
            out->deferred++;
            continue;
        }
        hand_out(n, q, job, t);
        count_limit(n, q, l);
        out->jobs[out->n++] =
            t->mode == EMQ_FIRE_AND_FORGET ? pop(n, q, job, mem) : nv_job_copy(n, job, mem);
    }
}

static emq_status check_take(const struct emq__take *t, emq_error *err)
{
    if (t->count < 1 || t->count > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "take", "count %d; 1..%d", (int)t->count,
                         EMQ__BATCH_MAX);
    return EMQ_OK;
}

static void take(struct naive *n, struct nv_queue *q, const struct emq__take *t,
                 struct emq__taken *out, struct emq__arena *mem)
{
    out->jobs = emq__arena_zalloc(mem, (size_t)t->count, sizeof(struct emq__job *));
    if (!out->jobs)
        abort();
    if (!q)
        return;
    struct limit l = effective_limit(q, t);
    if (l.max > 0)
        q->limit_max = l.max;
    (void)nv_promote_due(n, q, EMQ__BATCH_MAX);
    take_from_line(n, q, t, l, out, mem);
    out->limited_ms = nv_limited_ms(n, q, l.max);
    out->next_due_at_ms = nv_next_due(q);
    out->paused = nv_paused(q);
    out->maxed = nv_maxed(q);
}

static emq_status do_take(struct naive *n, const struct emq__take_req *req,
                          struct emq__take_res *res, struct emq__arena *mem, emq_error *err)
{
    emq_status s = check_take(&req->take, err);
    if (s == EMQ_OK)
        take(n, nv_queue_find(n, req->prefix, req->queue), &req->take, &res->taken, mem);
    return s;
}
NV_ACT_ONCE(take)

/* ---- settle */

static void note_failure(struct nv_job *job, const struct emq__settle_entry *en)
{
    struct emq__buf b;

    job->j.failed_reason = nv_put(&job->mem, en->reason);
    if (!en->stack.len)
        return;
    emq__buf_init(&b, (size_t)EMQ_DATA_MAX);
    emq__stack_append(job->j.stacktrace, en->stack, en->stack_limit, &b);
    job->j.stacktrace = nv_put(&job->mem, emq__buf_view(&b));
    emq__buf_free(&b);
}

static int go_back(struct naive *n, struct nv_queue *q, struct nv_job *job, int64_t delay_ms,
                   bool front)
{
    nv_unlock(job);
    if (delay_ms > 0) {
        job->j.delay_ms = delay_ms;
        nv_place_delayed(n, q, job, emq__sat_add(n->now_ms, delay_ms));
    } else {
        nv_place_line(n, q, job, front);
        nv_event(n, q, "waiting", job->j.id, "active");
    }
    return job->j.state;
}

static int fail_for_good(struct naive *n, struct nv_queue *q, struct nv_job *job,
                         const struct emq__settle_entry *en, emq_str reason,
                         const struct emq__keep *keep)
{
    struct emq__arena mem = {0};
    struct emq__opts o;
    int32_t made = ++job->j.attempts_made;
    struct emq__buf b;

    (void)emq__opts_read(job->j.opts, &mem, &o);
    emq__arena_free(&mem);
    note_failure(job, en);
    int state = nv_fail(n, q, job, reason, keep);
    if (made >= o.attempts) {
        nv_event_begin(&b, "retries-exhausted", en->id);
        nv_event_i64(&b, "attemptsMade", made);
        nv_event_emit(n, q, &b);
    }
    return state;
}

/* Owner or admin? EMQ_OK when this entry may settle the job. */
static emq_status may_settle(struct naive *n, struct nv_job *job,
                             const struct emq__settle_entry *en)
{
    bool active = job->j.state == EMQ_ACTIVE;

    if (en->auth.token.len) {
        if (!active || !emq__str_eq(job->j.token, en->auth.token)) {
            nv_history(n, job, "refused", en->auth.token, EMQ_STR_LIT("settle"));
            return EMQ_LOST;
        }
    } else if (!active) {
        return EMQ_WRONG_STATE;
    }
    if (job->j.mode == EMQ_AT_MOST_ONCE &&
        (en->kind == EMQ__SETTLE_RETRY || en->kind == EMQ__SETTLE_RELEASE))
        return EMQ_WRONG_STATE;
    if (!en->auth.token.len)
        nv_history(n, job, "admin", en->auth.admin, EMQ_STR_LIT("settle"));
    return EMQ_OK;
}

static void settle_one(struct naive *n, struct nv_queue *q, const struct emq__settle_entry *en,
                       struct emq__settled *out)
{
    struct nv_job *job = nv_job_visible(q, en->id);

    if (!job) {
        out->outcome = EMQ_NOT_FOUND;
        return;
    }
    out->state = job->j.state;
    out->outcome = may_settle(n, job, en);
    if (out->outcome != EMQ_OK)
        return;
    switch (en->kind) {
    case EMQ__SETTLE_COMPLETED:
        job->j.attempts_made++;
        out->state = nv_complete(n, q, job, en->value, &en->keep);
        break;
    case EMQ__SETTLE_FAILED:
        out->state = fail_for_good(n, q, job, en, en->reason, &en->keep);
        break;
    case EMQ__SETTLE_RETRY:
        if (job->j.cancel) {
            out->state = fail_for_good(n, q, job, en, emq_cstr(EMQ__TEXT_CANCELLED), NULL);
            break;
        }
        job->j.attempts_made++;
        note_failure(job, en);
        nv_history(n, job, "retried", job->j.token, emq__detail(en->reason));
        q->totals.retried++;
        out->state = go_back(n, q, job, en->delay_ms, en->lifo);
        break;
    case EMQ__SETTLE_RELEASE:
        job->j.attempts_started--;
        if (job->j.cancel) {
            out->state = nv_fail(n, q, job, emq_cstr(EMQ__TEXT_CANCELLED), NULL);
            break;
        }
        nv_history(n, job, "released", job->j.token, emq__detail(en->reason));
        out->state = go_back(n, q, job, en->delay_ms, true);
        break;
    case EMQ__SETTLE_STALLED:
        out->state = nv_stall(n, q, job, en->max_stalled, en->reason, &en->keep);
        break;
    }
}

static emq_status do_settle(struct naive *n, const struct emq__settle_req *req,
                            struct emq__settle_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    int64_t finished = q ? q->totals.completed + q->totals.failed : 0;

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "settle", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    for (size_t i = 0; i < req->n; i++)
        if (!req->entries[i]->auth.token.len && !req->entries[i]->auth.admin.len)
            return emq__fail(err, EMQ_E_INVALID, 0, "settle",
                             "entry %zu names neither a token nor an administrator", i);
    if (req->next && check_take(req->next, err) != EMQ_OK)
        return EMQ_E_INVALID;
    res->n = req->n;
    res->settled = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->settled);
    if (!res->settled)
        abort();
    for (size_t i = 0; i < req->n; i++)
        settle_one(n, q, req->entries[i], &res->settled[i]);
    if (req->next)
        take(n, q, req->next, &res->taken, mem);
    if (q && q->totals.completed + q->totals.failed > finished && !nv_count(q, EMQ_WAITING) &&
        !nv_count(q, EMQ_PRIORITIZED) && !nv_count(q, EMQ_ACTIVE))
        nv_event(n, q, "drained", emq_cstr(""), NULL);
    return EMQ_OK;
}
NV_ACT_ONCE(settle)
