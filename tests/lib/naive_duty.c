/* SPDX-License-Identifier: MIT
 *
 * The model engine: the duties around a job's path: extend, claims, sweep, promote, wait, wake.
 */
#include "lib/naive_internal.h"

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
        size_t count;
        struct nv_job **active = nv_sorted(q, EMQ_ACTIVE, &count);
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
    size_t count, ended = 0;

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
