/* SPDX-License-Identifier: MIT
 *
 * The model engine: what happens to a record when it moves, shared by the acts. Whether a move is
 * allowed is decided by the acts.
 */
#include "lib/naive_internal.h"

#include "base/json.h"

/* ---- places */

void nv_place_line(struct naive *n, struct nv_queue *q, struct nv_job *job, bool front)
{
    job->j.state = job->j.priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
    job->j.due_at_ms = 0;
    job->ord1 = job->j.priority;
    job->ord2 = front ? --q->front : ++q->back;
    nv_ring(n);
}

void nv_place_delayed(struct naive *n, struct nv_queue *q, struct nv_job *job, int64_t due_at_ms)
{
    struct emq__buf b;

    job->j.state = EMQ_DELAYED;
    job->j.due_at_ms = due_at_ms;
    job->ord1 = due_at_ms;
    job->ord2 = ++q->back;
    nv_event_begin(&b, "delayed", job->j.id);
    nv_event_i64(&b, "delay", due_at_ms);
    nv_event_emit(n, q, &b);
    nv_ring(n);
}

/* A new record: counted, announced, put in its place. */
void nv_place_new(struct naive *n, struct nv_queue *q, struct nv_job *job)
{
    struct emq__buf b;

    q->exists = true;
    q->totals.added++;
    nv_event_begin(&b, "added", job->j.id);
    nv_event_str(&b, "name", job->j.name);
    nv_event_emit(n, q, &b);
    if (job->j.delay_ms > 0) {
        nv_place_delayed(n, q, job, emq__sat_add(job->j.timestamp_at_ms, job->j.delay_ms));
    } else {
        nv_place_line(n, q, job, job->lifo);
        nv_event(n, q, "waiting", job->j.id, NULL);
    }
}

void nv_unlock(struct nv_job *job)
{
    job->lock_end_at_ms = 0;
    job->j.mode = 0;
    job->j.cancel = 0;
    job->j.deferred_failure = emq_cstr("");
}

int64_t nv_next_due(const struct nv_queue *q)
{
    int64_t due = 0;
    for (size_t i = 0; q && i < q->n_jobs; i++)
        if (q->jobs[i]->j.state == EMQ_DELAYED && (!due || q->jobs[i]->j.due_at_ms < due))
            due = q->jobs[i]->j.due_at_ms;
    return due;
}

int64_t nv_promote_due(struct naive *n, struct nv_queue *q, int64_t limit)
{
    size_t count;
    struct nv_job **due = nv_sorted(q, EMQ_DELAYED, &count);
    int64_t done = 0;

    for (size_t i = 0; i < count && done < limit && due[i]->j.due_at_ms <= n->now_ms; i++) {
        due[i]->j.delay_ms = 0;
        nv_place_line(n, q, due[i], false);
        nv_event(n, q, "waiting", due[i]->j.id, "delayed");
        done++;
    }
    free(due);
    return done;
}

/* Time left of a full window; 0 = not limited. */
int64_t nv_limited_ms(struct naive *n, const struct nv_queue *q, int64_t max)
{
    if (max <= 0 || q->limit_end_at_ms <= n->now_ms || q->limit_count < max)
        return 0;
    return q->limit_end_at_ms - n->now_ms;
}

/* ---- dedup */

void nv_dedup_drop(struct nv_queue *q, struct nv_dedup *d)
{
    nv_free_str(d->id);
    nv_free_str(d->owner);
    nv_job_free(d->next);
    *d = q->dedup[--q->n_dedup];
}

struct nv_dedup *nv_dedup_find(struct naive *n, struct nv_queue *q, emq_str id)
{
    for (size_t i = 0; q && i < q->n_dedup; i++) {
        struct nv_dedup *d = &q->dedup[i];
        if (!emq__str_eq(d->id, id))
            continue;
        if (d->expires_at_ms == 0 || d->expires_at_ms > n->now_ms)
            return d;
        nv_dedup_drop(q, d);
        return NULL;
    }
    return NULL;
}

static int64_t key_end(const struct naive *n, const struct emq__dedup *d)
{
    return d->keep_last || d->ttl_ms <= 0 ? 0 : emq__sat_add(n->now_ms, d->ttl_ms);
}

static void key_own(struct nv_dedup *d, emq_str owner, int64_t expires_at_ms)
{
    emq_str copy = nv_dup(owner);
    nv_free_str(d->owner);
    d->owner = copy;
    d->expires_at_ms = expires_at_ms;
}

static void key_take(struct naive *n, struct nv_queue *q, const struct nv_job *job)
{
    q->dedup = nv_grow(q->dedup, q->n_dedup, sizeof *q->dedup);
    q->dedup[q->n_dedup++] = (struct nv_dedup){.id = nv_dup(job->dedup.id),
                                               .owner = nv_dup(job->j.id),
                                               .expires_at_ms = key_end(n, &job->dedup)};
}

static void event_deduplicated(struct naive *n, struct nv_queue *q, emq_str job_id, emq_str key,
                               emq_str other)
{
    struct emq__buf b;
    nv_event_begin(&b, "deduplicated", job_id);
    nv_event_str(&b, "deduplicationId", key);
    nv_event_str(&b, "deduplicatedJobId", other);
    nv_event_emit(n, q, &b);
}

/* The delayed owner makes room for `job`. */
static void key_replace(struct naive *n, struct nv_queue *q, struct nv_dedup *k,
                        struct nv_job *owner, const struct nv_job *job)
{
    const struct emq__dedup *d = &job->dedup;
    int64_t end = !d->keep_last && d->ttl_ms > 0 && !d->extend ? k->expires_at_ms : key_end(n, d);
    emq_str owner_id = nv_dup(owner->j.id);

    nv_event(n, q, "removed", owner_id, "delayed");
    event_deduplicated(n, q, job->j.id, d->id, owner_id);
    nv_remove(n, q, owner, false);
    nv_job_free(k->next);
    k->next = NULL;
    key_own(k, job->j.id, end);
    nv_free_str(owner_id);
}

emq_status nv_dedup_apply(struct naive *n, struct nv_queue *q, struct nv_job *job,
                          emq_str *owner_id, int *state, bool *kept, struct emq__arena *mem)
{
    const struct emq__dedup *d = &job->dedup;
    struct nv_dedup *k;
    struct nv_job *owner = NULL;

    *kept = false;
    if (!d->id.len)
        return EMQ_OK;
    k = nv_dedup_find(n, q, d->id);
    if (k) {
        owner = nv_job_visible(q, k->owner);
        if (!owner && k->expires_at_ms == 0) { /* stale: no record, no window */
            nv_dedup_drop(q, k);
            k = NULL;
        }
    }
    if (!k) {
        key_take(n, q, job);
        return EMQ_OK;
    }
    if (d->replace && owner && owner->j.state == EMQ_DELAYED) {
        key_replace(n, q, k, owner, job);
        return EMQ_OK;
    }
    *owner_id = nv_put(mem, k->owner);
    *state = owner ? owner->j.state : 0;
    q->totals.deduplicated++;
    if (d->keep_last && owner && owner->j.state == EMQ_ACTIVE) {
        nv_job_free(k->next);
        k->next = job;
        k->expires_at_ms = 0;
        *kept = true;
        event_deduplicated(n, q, *owner_id, d->id, job->j.id);
        return EMQ_DEDUPLICATED;
    }
    if (d->replace)
        return EMQ_DEDUPLICATED;
    if (d->extend && !d->keep_last && d->ttl_ms > 0 && !k->next)
        k->expires_at_ms = key_end(n, d);
    event_deduplicated(n, q, *owner_id, d->id, job->j.id);
    return EMQ_DEDUPLICATED;
}

/* The owner has finished for good: its key ends, or the kept next job takes it over. */
void nv_key_end(struct naive *n, struct nv_queue *q, const struct nv_job *job)
{
    struct nv_dedup *k = nv_dedup_find(n, q, job->j.dedup_id);

    if (!job->j.dedup_id.len || !k || !emq__str_eq(k->owner, job->j.id))
        return;
    if (!k->next) {
        if (k->expires_at_ms == 0)
            nv_dedup_drop(q, k);
        return;
    }
    struct nv_job *next = k->next;
    k->next = NULL;
    q->id_counter++;
    if (nv_job_find(q, next->j.id)) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)q->id_counter);
        next->j.id = nv_put(&next->mem, emq_cstr(id));
    }
    next->j.timestamp_at_ms = n->now_ms;
    key_own(k, next->j.id, key_end(n, &next->dedup));
    nv_job_link(q, next);
    nv_place_new(n, q, next);
}

/* ---- ends */

void nv_remove(struct naive *n, struct nv_queue *q, struct nv_job *job, bool release_key)
{
    struct nv_dedup *k = nv_dedup_find(n, q, job->j.dedup_id);

    if (release_key && k && emq__str_eq(k->owner, job->j.id))
        nv_dedup_drop(q, k);
    if (job->j.state == EMQ_ACTIVE)
        nv_ring(n);
    nv_job_unlink(q, job);
    q->totals.removed++;
    nv_job_free(job);
}

static void retain(struct naive *n, struct nv_queue *q, int state, const struct emq__keep *keep)
{
    size_t count;
    struct nv_job **list = nv_sorted(q, state, &count);

    for (size_t i = 0; i < count; i++) {
        bool old = keep->age_ms > 0 && list[i]->j.finished_at_ms <= n->now_ms - keep->age_ms;
        bool many = keep->count > 0 && count - i > (size_t)keep->count;
        if (old || many)
            nv_remove(n, q, list[i], false);
    }
    free(list);
}

/* Finishes; `ev` is emitted once the job has its place. */
static int finish(struct naive *n, struct nv_queue *q, struct nv_job *job, int state,
                  const struct emq__keep *keep, struct emq__buf *ev)
{
    nv_unlock(job);
    job->j.due_at_ms = 0;
    job->j.finished_at_ms = n->now_ms;
    job->expires_at_ms = keep->age_ms > 0 ? emq__sat_add(n->now_ms, keep->age_ms) : 0;
    if (state == EMQ_COMPLETED_STATE)
        q->totals.completed++;
    else
        q->totals.failed++;
    nv_key_end(n, q, job);
    job->j.state = state;
    job->ord1 = n->now_ms;
    job->ord2 = ++q->back;
    nv_event_emit(n, q, ev);
    nv_ring(n); /* a slot may be free */
    if (keep->count == 0) {
        nv_remove(n, q, job, false);
        return 0;
    }
    retain(n, q, state, keep);
    return state;
}

/* The result as a JSON value, or null when there is none or it is long. */
static void result_json(const struct emq__payload *p, struct emq__buf *out)
{
    struct emq__buf b;

    emq__buf_init(&b, (size_t)EMQ_DATA_MAX * 8);
    switch (p->kind) {
    case EMQ__KIND_JSON: emq__buf_str(&b, p->bytes); break;
    case EMQ__KIND_TEXT: emq__json_quote(&b, p->bytes); break;
    case EMQ__KIND_BYTES:
        emq__buf_char(&b, '"');
        emq__base64(&b, p->bytes);
        emq__buf_char(&b, '"');
        break;
    }
    if (b.len == 0 || b.len > 1024)
        emq__buf_text(out, "null");
    else
        emq__buf_str(out, emq__buf_view(&b));
    emq__buf_free(&b);
}

int nv_complete(struct naive *n, struct nv_queue *q, struct nv_job *job, struct emq__payload result,
                const struct emq__keep *keep)
{
    struct emq__buf b;

    job->j.result = (struct emq__payload){result.kind, nv_put(&job->mem, result.bytes)};
    nv_event_begin(&b, "completed", job->j.id);
    emq__json_key(&b, "returnvalue");
    result_json(&result, &b);
    nv_event_str(&b, "prev", emq_cstr("active"));
    return finish(n, q, job, EMQ_COMPLETED_STATE, keep, &b);
}

struct emq__keep nv_keep_failed(const struct nv_job *job)
{
    struct emq__arena mem = {0};
    struct emq__opts o;

    (void)emq__opts_read(job->j.opts, &mem, &o);
    emq__arena_free(&mem);
    return o.keep_failed;
}

int nv_fail(struct naive *n, struct nv_queue *q, struct nv_job *job, emq_str reason,
            const struct emq__keep *keep)
{
    struct emq__keep own = nv_keep_failed(job);
    struct emq__buf b;

    job->j.failed_reason = nv_put(&job->mem, reason);
    nv_event_begin(&b, "failed", job->j.id);
    nv_event_str(&b, "failedReason", reason);
    nv_event_str(&b, "prev", emq_cstr(emq_state_name(job->j.state)));
    return finish(n, q, job, EMQ_FAILED_STATE, keep ? keep : &own, &b);
}

int nv_stall(struct naive *n, struct nv_queue *q, struct nv_job *job, int64_t max_stalled,
             emq_str reason, const struct emq__keep *keep)
{
    bool once = job->j.mode == EMQ_AT_MOST_ONCE;

    job->j.stalled++;
    if (job->j.cancel)
        reason = emq_cstr(EMQ__TEXT_CANCELLED);
    if (job->j.cancel || once || job->j.stalled > max_stalled) {
        if (!reason.len)
            reason = emq_cstr(once ? EMQ__TEXT_AT_MOST_ONCE : EMQ__TEXT_STALLED);
        nv_event(n, q, "stalled", job->j.id, NULL);
        return nv_fail(n, q, job, reason, keep);
    }
    nv_unlock(job);
    if (reason.len)
        job->j.failed_reason = nv_put(&job->mem, reason);
    q->totals.recovered++;
    nv_place_line(n, q, job, true);
    nv_history(n, job, "recovered", job->j.token,
               reason.len ? emq__detail(reason) : emq_cstr(EMQ__TEXT_LOCK_ENDED));
    nv_event(n, q, "waiting", job->j.id, "active");
    nv_event(n, q, "stalled", job->j.id, NULL);
    return job->j.state;
}

/* ---- what time has ended */

void nv_trim_expired(struct naive *n, struct nv_queue *q)
{
    for (size_t i = q->n_jobs; i-- > 0;) {
        struct nv_job *job = q->jobs[i];
        if (job->j.finished_at_ms && job->expires_at_ms && job->expires_at_ms <= n->now_ms)
            nv_remove(n, q, job, false);
    }
}

void nv_trim_stages(struct naive *n)
{
    for (size_t s = n->n_stages; s-- > 0;) {
        struct nv_stage *stage = n->stages[s];
        if (stage->expires_at_ms > n->now_ms)
            continue;
        for (size_t i = 0; i < n->n_queues; i++)
            for (size_t k = n->queues[i]->n_jobs; k-- > 0;) {
                struct nv_job *job = n->queues[i]->jobs[k];
                if (job->stage == stage) {
                    nv_job_unlink(n->queues[i], job);
                    nv_job_free(job);
                }
            }
        nv_free_str(stage->prefix);
        nv_free_str(stage->name);
        free(stage);
        n->stages[s] = n->stages[--n->n_stages];
    }
}
