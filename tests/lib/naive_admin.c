/* SPDX-License-Identifier: MIT
 *
 * The model engine: writes to a job, administrative changes, settings, dedup ids.
 */
#include "lib/naive_internal.h"

#include "base/error.h"
#include "base/json.h"

static bool finished(const struct nv_job *job)
{
    return job->j.state == EMQ_COMPLETED_STATE || job->j.state == EMQ_FAILED_STATE;
}

/* ---- write */

static void set_progress(struct naive *n, struct nv_queue *q, struct nv_job *job, emq_str json)
{
    struct emq__buf b;

    job->j.progress = nv_put(&job->mem, json);
    nv_event_begin(&b, "progress", job->j.id);
    emq__json_key(&b, "data");
    emq__buf_str(&b, json);
    nv_event_emit(n, q, &b);
}

static const char *const write_name[] = {"", "progress", "data", "log", "clear-logs", "note"};

static emq_status do_write(struct naive *n, const struct emq__write_req *req,
                           struct emq__write_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    struct nv_job *job = nv_job_visible(q, req->id);

    (void)mem;
    if (!req->auth.token.len && !req->auth.admin.len)
        return emq__fail(err, EMQ_E_INVALID, 0, "write", "neither a token nor an administrator");
    if (req->kind == EMQ__WRITE_NOTE && req->auth.token.len)
        return emq__fail(err, EMQ_E_INVALID, 0, "write", "a note is an administrator's");
    if (!job)
        return EMQ_NOT_FOUND;
    if (req->auth.token.len &&
        (job->j.state != EMQ_ACTIVE || !emq__str_eq(job->j.token, req->auth.token))) {
        nv_history(n, job, "refused", req->auth.token, emq_cstr(write_name[req->kind]));
        return EMQ_LOST;
    }
    if (!req->auth.token.len && req->kind != EMQ__WRITE_NOTE)
        nv_history(n, job, "admin", req->auth.admin, emq_cstr(write_name[req->kind]));
    switch (req->kind) {
    case EMQ__WRITE_PROGRESS: set_progress(n, q, job, req->value.bytes); break;
    case EMQ__WRITE_DATA:
        job->j.data.kind = req->value.kind;
        job->j.data.bytes = nv_put(&job->mem, req->value.bytes);
        break;
    case EMQ__WRITE_LOG:
        nv_lines_add(&job->logs, req->value.bytes);
        nv_lines_keep(&job->logs, req->keep);
        break;
    case EMQ__WRITE_CLEAR_LOGS: nv_lines_keep(&job->logs, req->keep); break;
    case EMQ__WRITE_NOTE:
        nv_history(n, job, "note", req->auth.admin, emq__detail(req->value.bytes));
        break;
    }
    res->logs = (int64_t)job->logs.n;
    return EMQ_OK;
}
NV_ACT_ONCE(write)

/* ---- change */

static emq_status allowed(struct naive *n, struct nv_queue *q, const struct nv_job *job,
                          const struct emq__change *c)
{
    bool ok = true;

    switch (c->kind) {
    case EMQ__CHANGE_DELAY:
    case EMQ__CHANGE_PROMOTE: ok = job->j.state == EMQ_DELAYED; break;
    case EMQ__CHANGE_PRIORITY: break;
    case EMQ__CHANGE_RETRY:
        ok = finished(job);
        if (ok && c->effects == EMQ__EFFECTS_ASK && nv_effect_done(n, q, job))
            return EMQ_EFFECT_DONE;
        break;
    case EMQ__CHANGE_REMOVE: return nv_locked(n, job) ? EMQ_LOCKED : EMQ_OK;
    case EMQ__CHANGE_CANCEL: ok = !finished(job); break;
    }
    return ok ? EMQ_OK : EMQ_WRONG_STATE;
}

static void set_priority(struct naive *n, struct nv_queue *q, struct nv_job *job,
                         const struct emq__change *c)
{
    job->j.priority = c->priority;
    if (job->j.state == EMQ_WAITING || job->j.state == EMQ_PRIORITIZED)
        nv_place_line(n, q, job, c->lifo);
}

static void retry_finished(struct naive *n, struct nv_queue *q, struct nv_job *job,
                           const struct emq__change *c)
{
    const char *prev = emq_state_name(job->j.state);

    if (job->j.state == EMQ_FAILED_STATE)
        job->j.failed_reason = emq_cstr("");
    else
        job->j.result = (struct emq__payload){0};
    job->j.finished_at_ms = 0;
    job->j.processed_at_ms = 0;
    job->j.delay_ms = 0;
    job->expires_at_ms = 0;
    if (c->reset_attempts) {
        job->j.attempts_made = 0;
        job->j.attempts_started = 0;
        job->j.stalled = 0;
    }
    if (c->effects == EMQ__EFFECTS_REDO) {
        nv_effects_forget(q, job);
        job->j.redo++;
    } else {
        nv_effects_prolong(n, q, job);
    }
    q->totals.retried++;
    nv_place_line(n, q, job, c->lifo);
    nv_event(n, q, "waiting", job->j.id, prev);
}

/* The change, known to be allowed. Returns the state afterwards, 0 = gone. */
static int change_job(struct naive *n, struct nv_queue *q, struct nv_job *job,
                      const struct emq__change *c, bool quiet)
{
    static const char *const names[] = {"",      "delay",  "priority", "promote",
                                        "retry", "remove", "cancel"};

    if (c->kind == EMQ__CHANGE_RETRY && job->j.fence > 0 && job->j.processed_at_ms > 0)
        nv_history_at(
            job, job->j.finished_at_ms, emq_state_name(job->j.state), job->j.token,
            emq__detail(job->j.state == EMQ_FAILED_STATE ? job->j.failed_reason : emq_cstr("")));
    static const char *const retries[] = {"retry", "retry --keep-effect", "retry --redo"};
    if (c->admin.len)
        nv_history(n, job, "admin", c->admin,
                   emq_cstr(c->kind == EMQ__CHANGE_RETRY ? retries[c->effects] : names[c->kind]));
    switch (c->kind) {
    case EMQ__CHANGE_DELAY:
        job->j.delay_ms = c->delay_ms;
        nv_place_delayed(n, q, job, emq__sat_add(n->now_ms, c->delay_ms));
        break;
    case EMQ__CHANGE_PRIORITY: set_priority(n, q, job, c); break;
    case EMQ__CHANGE_PROMOTE:
        job->j.delay_ms = 0;
        nv_place_line(n, q, job, false);
        nv_event(n, q, "waiting", job->j.id, "delayed");
        break;
    case EMQ__CHANGE_RETRY: retry_finished(n, q, job, c); break;
    case EMQ__CHANGE_REMOVE:
        if (!quiet)
            nv_event(n, q, "removed", job->j.id,
                     job->j.state == EMQ_WAITING ? "wait" : emq_state_name(job->j.state));
        nv_remove(n, q, job, true);
        return 0;
    case EMQ__CHANGE_CANCEL:
        if (job->j.state != EMQ_ACTIVE)
            return nv_fail(n, q, job, emq_cstr(EMQ__TEXT_CANCELLED), NULL);
        job->j.cancel = 1;
        break;
    }
    return job->j.state;
}

static emq_status do_change(struct naive *n, const struct emq__change_req *req,
                            struct emq__change_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "change", "%zu ids; at most %d", req->n,
                         EMQ__BATCH_MAX);
    res->n = req->n;
    res->changed = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof *res->changed);
    if (!res->changed)
        abort();
    for (size_t i = 0; i < req->n; i++) {
        struct emq__settled *out = &res->changed[i];
        struct nv_job *job = nv_job_visible(q, req->ids[i]);
        out->outcome = job ? allowed(n, q, job, &req->change) : EMQ_NOT_FOUND;
        if (out->outcome == EMQ_OK)
            out->state = change_job(n, q, job, &req->change, false);
        else if (job)
            out->state = job->j.state;
    }
    return EMQ_OK;
}
NV_ACT_ONCE(change)

/* ---- bulk */

static bool wanted(struct naive *n, struct nv_queue *q, const struct nv_job *job,
                   const struct emq__bulk_req *req)
{
    int64_t at = finished(job) ? job->j.finished_at_ms : job->j.timestamp_at_ms;
    return at <= n->now_ms - req->older_ms && allowed(n, q, job, &req->change) == EMQ_OK;
}

static emq_status do_bulk(struct naive *n, const struct emq__bulk_req *req,
                          struct emq__bulk_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    int64_t limit = req->limit > 0 ? req->limit : EMQ__BATCH_MAX;
    size_t count, at = 0;
    struct nv_job **list = nv_sorted(q, req->state, &count);

    (void)err;
    if (req->after_id.len) {
        while (at < count && !emq__str_eq(list[at]->j.id, req->after_id))
            at++;
        if (at == count) {
            free(list);
            return EMQ_NOT_FOUND;
        }
        at++;
    }
    for (; at < count; at++) {
        if (!wanted(n, q, list[at], req))
            continue;
        if (res->count == limit) {
            res->more = true;
            break;
        }
        res->last_id = nv_put(mem, list[at]->j.id);
        (void)change_job(n, q, list[at], &req->change, true);
        res->count++;
    }
    free(list);
    if (req->change.kind == EMQ__CHANGE_REMOVE && req->event && res->count > 0) {
        struct emq__buf b;
        nv_event_begin(&b, "cleaned", emq_cstr(""));
        nv_event_i64(&b, "count", res->count);
        nv_event_emit(n, q, &b);
    }
    return EMQ_OK;
}
NV_ACT_ONCE(bulk)

/* ---- obliterate */

static void queue_end(struct naive *n, struct nv_queue *q)
{
    for (size_t i = 0; i < n->n_queues; i++)
        if (n->queues[i] == q) {
            n->queues[i] = n->queues[--n->n_queues];
            break;
        }
    nv_queue_free(q);
    nv_ring(n);
}

static emq_status do_obliterate(struct naive *n, const struct emq__obliterate_req *req,
                                struct emq__obliterate_res *res, struct emq__arena *mem,
                                emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    (void)mem;
    (void)err;
    if (!q || !(q->exists || req->force))
        return EMQ_OK;
    if (!req->force && !nv_paused(q))
        return EMQ_WRONG_STATE;
    if (!req->force && nv_count(q, EMQ_ACTIVE) > 0)
        return EMQ_LOCKED;
    int64_t limit = req->limit > 0 ? req->limit : EMQ__BATCH_MAX;
    for (size_t i = q->n_jobs; i-- > 0 && res->count < limit;)
        if (q->jobs[i]->j.state != NV_STAGED) {
            nv_remove(n, q, q->jobs[i], true);
            res->count++;
        }
    for (size_t i = 0; i < q->n_jobs; i++)
        if (q->jobs[i]->j.state != NV_STAGED)
            res->more = true;
    if (!res->more)
        queue_end(n, q);
    return EMQ_OK;
}
NV_ACT_ONCE(obliterate)

/* ---- dedup and settings */

static emq_status do_dedup(struct naive *n, const struct emq__dedup_req *req,
                           struct emq__dedup_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    struct nv_dedup *k = nv_dedup_find(n, q, req->dedup_id);

    (void)err;
    if (k && k->expires_at_ms == 0 && !nv_job_visible(q, k->owner)) {
        nv_dedup_drop(q, k);
        k = NULL;
    }
    if (!k || (req->release && req->owner.len && !emq__str_eq(k->owner, req->owner)))
        return EMQ_NOT_FOUND;
    res->owner = nv_put(mem, k->owner);
    res->ttl_ms = k->expires_at_ms ? k->expires_at_ms - n->now_ms : 0;
    if (req->release)
        nv_dedup_drop(q, k);
    return EMQ_OK;
}
NV_ACT_ONCE(dedup)

static void meta_set(struct naive *n, struct nv_queue *q, const struct emq__meta_field *set)
{
    size_t at = 0;

    while (at < q->n_meta && emq__str_cmp(q->meta[at].field, set->field) < 0)
        at++;
    bool have = at < q->n_meta && emq__str_eq(q->meta[at].field, set->field);
    if (have) {
        nv_free_str(q->meta[at].field);
        nv_free_str(q->meta[at].value);
        memmove(q->meta + at, q->meta + at + 1, (q->n_meta - at - 1) * sizeof *q->meta);
        q->n_meta--;
    }
    if (set->value.len) {
        q->meta = nv_grow(q->meta, q->n_meta, sizeof *q->meta);
        memmove(q->meta + at + 1, q->meta + at, (q->n_meta - at) * sizeof *q->meta);
        q->meta[at] = (struct emq__meta_field){nv_dup(set->field), nv_dup(set->value)};
        q->n_meta++;
    }
    if (emq__str_is(set->field, "paused"))
        nv_event(n, q, set->value.len ? "paused" : "resumed", emq_cstr(""), NULL);
}

static emq_status do_meta(struct naive *n, const struct emq__meta_req *req,
                          struct emq__meta_res *res, struct emq__arena *mem, emq_error *err)
{
    emq_status bad = emq__meta_check(req, err);
    if (bad != EMQ_OK)
        return bad;
    struct nv_queue *q = req->n_set ? nv_queue_make(n, req->prefix, req->queue)
                                    : nv_queue_find(n, req->prefix, req->queue);

    for (size_t i = 0; i < req->n_set; i++) {
        q->exists = true;
        meta_set(n, q, &req->set[i]);
        nv_ring(n);
    }
    if (!q)
        return EMQ_OK;
    res->n = q->n_meta;
    res->fields = emq__arena_zalloc(mem, q->n_meta + 1, sizeof *res->fields);
    if (!res->fields)
        abort();
    for (size_t i = 0; i < q->n_meta; i++)
        res->fields[i] =
            (struct emq__meta_field){nv_put(mem, q->meta[i].field), nv_put(mem, q->meta[i].value)};
    return EMQ_OK;
}
NV_ACT_ONCE(meta)
