/* SPDX-License-Identifier: MIT
 *
 * The model engine: the path of a job, from add to settle, and the duties around it.
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
    struct nv_job   *job = nv_job_new();
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
    char             number[24];
    emq_str          id = en->id;

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
    nv_trim_stages(n);
    struct nv_stage *stage = NULL;
    if (req->stage.len && req->n)
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

static int64_t publish_queue(struct naive *n, struct nv_queue *q, const struct nv_stage *stage,
                             struct emq__arena *mem)
{
    size_t          count;
    struct nv_job **staged = nv_sorted(q, NV_STAGED, &count);
    int64_t         done = 0;

    for (size_t i = 0; i < count; i++) {
        struct nv_job *job = staged[i];
        emq_str        owner;
        int            state;
        bool           kept;
        if (job->stage != stage)
            continue;
        job->stage = NULL;
        q->exists = true;
        if (nv_dedup_apply(n, q, job, &owner, &state, &kept, mem) == EMQ_OK) {
            nv_place_new(n, q, job);
            done++;
            continue;
        }
        nv_job_unlink(q, job);
        if (!kept)
            nv_job_free(job);
    }
    free(staged);
    return done;
}

static emq_status do_publish(struct naive *n, const struct emq__publish_req *req,
                             struct emq__publish_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)err;
    nv_trim_stages(n);
    struct nv_stage *stage = stage_find(n, req->prefix, req->stage);
    if (!stage)
        return EMQ_NOT_FOUND;
    for (size_t i = 0; i < n->n_queues; i++)
        res->count += publish_queue(n, n->queues[i], stage, mem);
    stage->expires_at_ms = n->now_ms; /* it is empty now */
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

struct limit { int64_t max, duration_ms; };

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

static void take_state(struct naive *n, struct nv_queue *q, int state, const struct emq__take *t,
                       struct limit l, struct emq__taken *out, struct emq__arena *mem)
{
    size_t          count;
    struct nv_job **line = nv_sorted(q, state, &count);

    for (size_t i = 0; i < count && out->n < (size_t)t->count; i++) {
        struct nv_job *job = line[i];
        if (nv_paused(q) || nv_maxed(q) || nv_limited_ms(n, q, l.max) > 0)
            break;
        if (t->mode == EMQ_FIRE_AND_FORGET && (job->j.parent_key.len || job->j.scheduler.len))
            continue;
        if (job->j.deferred_failure.len) {
            (void)nv_fail(n, q, job, job->j.deferred_failure, NULL);
            out->deferred++;
            continue;
        }
        hand_out(n, q, job, t);
        count_limit(n, q, l);
        out->jobs[out->n++] = t->mode == EMQ_FIRE_AND_FORGET ? pop(n, q, job, mem)
                                                             : nv_job_copy(n, job, mem);
    }
    free(line);
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
    take_state(n, q, EMQ_WAITING, t, l, out, mem);
    take_state(n, q, EMQ_PRIORITIZED, t, l, out, mem);
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
    struct emq__opts  o;
    int32_t           made = ++job->j.attempts_made;
    struct emq__buf   b;

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
static emq_status may_settle(struct naive *n, struct nv_job *job, const struct emq__settle_entry *en)
{
    bool active = job->j.state == EMQ_ACTIVE;

    if (en->auth.token.len) {
        if (!active || !emq__str_eq(job->j.token, en->auth.token)) {
            nv_history(n, job, "refused", en->auth.token, "settle");
            return EMQ_LOST;
        }
    } else if (!active) {
        return EMQ_WRONG_STATE;
    }
    if (job->j.mode == EMQ_AT_MOST_ONCE &&
        (en->kind == EMQ__SETTLE_RETRY || en->kind == EMQ__SETTLE_RELEASE))
        return EMQ_WRONG_STATE;
    if (!en->auth.token.len)
        nv_history(n, job, "admin", en->auth.admin, "settle");
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
        q->totals.retried++;
        out->state = go_back(n, q, job, en->delay_ms, en->lifo);
        break;
    case EMQ__SETTLE_RELEASE:
        job->j.attempts_started--;
        out->state = job->j.cancel ? nv_fail(n, q, job, emq_cstr(EMQ__TEXT_CANCELLED), NULL)
                                   : go_back(n, q, job, en->delay_ms, true);
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
    int64_t          finished = q ? q->totals.completed + q->totals.failed : 0;

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

/* ---- duties */

static emq_status do_extend(struct naive *n, const struct emq__extend_req *req,
                            struct emq__extend_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)err;
    res->n = req->n;
    res->extended = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->extended);
    if (!res->extended)
        abort();
    for (size_t i = 0; i < req->n; i++) {
        const struct emq__extend_entry *en = req->entries[i];
        struct nv_job *job = nv_job_visible(nv_queue_find(n, en->prefix, en->queue), en->id);
        if (!job || job->j.state != EMQ_ACTIVE || !emq__str_eq(job->j.token, en->token)) {
            res->extended[i].outcome = EMQ_LOST;
            continue;
        }
        job->lock_end_at_ms = n->now_ms + req->lock_ms;
        res->extended[i].cancel = job->j.cancel != 0;
    }
    return EMQ_OK;
}
NV_ACT(extend)

/* "<worker>:<digits>" of this worker? */
static bool is_token_of(emq_str token, emq_str worker)
{
    if (token.len <= worker.len + 1 || memcmp(token.ptr, worker.ptr, worker.len) != 0 ||
        token.ptr[worker.len] != ':')
        return false;
    for (size_t i = worker.len + 1; i < token.len; i++)
        if (token.ptr[i] < '0' || token.ptr[i] > '9')
            return false;
    return true;
}

static emq_status do_claims(struct naive *n, const struct emq__claims_req *req,
                            struct emq__claims_res *res, struct emq__arena *mem, emq_error *err)
{
    size_t total = 0;

    (void)err;
    for (size_t i = 0; i < n->n_queues; i++)
        total += n->queues[i]->n_jobs;
    res->jobs = emq__arena_zalloc(mem, total + 1, sizeof(struct emq__job *));
    if (!res->jobs)
        abort();
    for (size_t i = 0; i < n->n_queues; i++) {
        struct nv_queue *q = n->queues[i];
        size_t           count;
        struct nv_job  **active = nv_sorted(q, EMQ_ACTIVE, &count);
        for (size_t k = 0; k < count && emq__str_eq(q->prefix, req->prefix); k++)
            if (is_token_of(active[k]->j.token, req->worker))
                res->jobs[res->n++] = nv_job_copy(n, active[k], mem);
        free(active);
    }
    return EMQ_OK;
}
NV_ACT(claims)

static int by_lock_end(const void *a, const void *b)
{
    const struct nv_job *x = *(struct nv_job *const *)a, *y = *(struct nv_job *const *)b;
    if (x->lock_end_at_ms != y->lock_end_at_ms)
        return x->lock_end_at_ms < y->lock_end_at_ms ? -1 : 1;
    return x->j.fence < y->j.fence ? -1 : x->j.fence > y->j.fence;
}

static int by_fence(const void *a, const void *b)
{
    const struct nv_job *x = *(struct nv_job *const *)a, *y = *(struct nv_job *const *)b;
    return x->j.fence < y->j.fence ? -1 : x->j.fence > y->j.fence;
}

static void reverse(emq_str *v, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        emq_str t = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = t;
    }
}

static emq_status do_sweep(struct naive *n, const struct emq__sweep_req *req,
                           struct emq__sweep_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    size_t           count, ended = 0;

    (void)err;
    if (!q)
        return EMQ_OK;
    nv_trim_expired(n, q);
    struct nv_job **list = nv_sorted(q, EMQ_ACTIVE, &count);
    for (size_t i = 0; i < count; i++)
        if (!nv_locked(n, list[i]))
            list[ended++] = list[i];
    if (ended)
        qsort(list, ended, sizeof *list, by_lock_end);
    size_t slice = req->limit > 0 && ended > (size_t)req->limit ? (size_t)req->limit : ended;
    res->more = slice < ended;
    if (slice)
        qsort(list, slice, sizeof *list, by_fence);
    res->recovered = emq__arena_zalloc(mem, slice + 1, sizeof(emq_str));
    res->failed = emq__arena_zalloc(mem, slice + 1, sizeof(emq_str));
    if (!res->recovered || !res->failed)
        abort();
    for (size_t i = slice; i-- > 0;) { /* each goes to the front: the lowest fence comes last */
        emq_str id = nv_put(mem, list[i]->j.id);
        int state = nv_stall(n, q, list[i], req->max_stalled, emq_cstr(""), NULL);
        if (state == EMQ_WAITING || state == EMQ_PRIORITIZED)
            res->recovered[res->n_recovered++] = id;
        else
            res->failed[res->n_failed++] = id;
    }
    free(list);
    reverse(res->recovered, res->n_recovered);
    reverse(res->failed, res->n_failed);
    return EMQ_OK;
}
NV_ACT_ONCE(sweep)

static emq_status do_promote(struct naive *n, const struct emq__promote_req *req,
                             struct emq__promote_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    (void)mem;
    (void)err;
    if (!q)
        return EMQ_OK;
    res->count = nv_promote_due(n, q, req->limit > 0 ? req->limit : EMQ__BATCH_MAX);
    res->next_due_at_ms = nv_next_due(q);
    res->more = res->next_due_at_ms > 0 && res->next_due_at_ms <= n->now_ms;
    return EMQ_OK;
}
NV_ACT(promote)

static emq_status do_wait(struct naive *n, const struct emq__wait_req *req,
                          struct emq__wait_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)res;
    (void)mem;
    (void)err;
    if (req->cancelled && atomic_load(req->cancelled))
        return EMQ_CANCELLED;
    return n->ticket != req->ticket ? EMQ_OK : EMQ_TIMEOUT;
}
NV_ACT(wait)

static emq_status do_wake(struct naive *n, const struct emq__wake_req *req,
                          struct emq__wake_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)req;
    (void)res;
    (void)mem;
    (void)err;
    nv_ring(n);
    return EMQ_OK;
}
NV_ACT(wake)
