/* SPDX-License-Identifier: MIT
 *
 * The model engine: reading. Nothing here changes a record, except that dedup keys whose window has
 * ended are forgotten.
 */
#include "lib/naive_internal.h"

#include "base/error.h"

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static emq_status do_jobs(struct naive *n, const struct emq__jobs_req *req,
                          struct emq__jobs_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    (void)err;
    res->n = req->n;
    res->jobs = must(emq__arena_zalloc(mem, req->n + 1, sizeof(struct emq__job *)));
    for (size_t i = 0; i < req->n; i++) {
        struct nv_job *job = nv_job_visible(q, req->ids[i]);
        if (job)
            res->jobs[i] = nv_job_copy(n, job, mem);
    }
    return EMQ_OK;
}
NV_ACT(jobs)

static int64_t oldest_waiting(const struct nv_queue *q)
{
    static const int states[] = {EMQ_WAITING, EMQ_PRIORITIZED};
    int64_t at = 0;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(states) && !at; i++) {
        size_t count;
        struct nv_job **line = nv_sorted(q, states[i], &count);
        if (count)
            at = line[0]->j.timestamp_at_ms;
        free(line);
    }
    return at;
}

static void stats(struct naive *n, const struct nv_queue *q, struct emq__stats_res *res)
{
    int64_t max = nv_meta_i64(q, "max");

    res->now_ms = n->now_ms;
    if (!q || !q->exists)
        return;
    for (int state = 1; state <= EMQ_STATE_COUNT; state++)
        res->count[state] = nv_count(q, state);
    res->limited_ms = nv_limited_ms(n, q, max > 0 ? max : q->limit_max);
    res->next_due_at_ms = nv_next_due(q);
    res->oldest_waiting_at_ms = oldest_waiting(q);
    res->concurrency = nv_meta_i64(q, "concurrency");
    res->totals = q->totals;
    for (size_t i = 0; i < q->n_jobs; i++)
        res->retry_delayed += q->jobs[i]->j.state == EMQ_DELAYED && q->jobs[i]->j.fence > 0;
    res->paused = nv_paused(q);
    res->maxed = nv_maxed(q);
    res->exists = true;
}

static emq_status do_stats(struct naive *n, const struct emq__stats_req *req,
                           struct emq__stats_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    (void)mem;
    (void)err;
    stats(n, q, res);
    res->takeable = req->ending && q && nv_next_in_line(q, req->mode);
    return EMQ_OK;
}
NV_ACT(stats)

static emq_status do_find(struct naive *n, const struct emq__find_req *req,
                          struct emq__find_res *res, struct emq__arena *mem, emq_error *err)
{
    size_t count, at = 0;
    struct nv_job **list = nv_sorted(nv_queue_find(n, req->prefix, req->queue), req->state, &count);

    (void)err;
    for (size_t i = 0; req->newest_first && i < count / 2; i++) {
        struct nv_job *t = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = t;
    }
    if (req->after_id.len) {
        while (at < count && !emq__str_eq(list[at]->j.id, req->after_id))
            at++;
        if (at++ == count) {
            free(list);
            return EMQ_NOT_FOUND;
        }
    } else if (req->offset > 0) {
        at = (uint64_t)req->offset < count ? (size_t)req->offset : count;
    }
    res->jobs = must(emq__arena_zalloc(mem, count + 1, sizeof(struct emq__job *)));
    for (size_t bytes = 0; at < count && (int64_t)res->n < req->limit && !res->more; at++) {
        res->more = bytes >= EMQ__BATCH_BYTES;
        bytes += emq__job_bytes(&list[at]->j);
        if (!res->more)
            res->jobs[res->n++] = nv_job_copy(n, list[at], mem);
    }
    free(list);
    return EMQ_OK;
}
NV_ACT(find)

static int by_name(const void *a, const void *b)
{
    return emq__str_cmp(*(const emq_str *)a, *(const emq_str *)b);
}

static emq_status do_queues(struct naive *n, const struct emq__queues_req *req,
                            struct emq__queues_res *res, struct emq__arena *mem, emq_error *err)
{
    (void)err;
    res->names = must(emq__arena_zalloc(mem, n->n_queues + 1, sizeof(emq_str)));
    for (size_t i = 0; i < n->n_queues; i++)
        if (n->queues[i]->exists && emq__str_eq(n->queues[i]->prefix, req->prefix))
            res->names[res->n++] = nv_put(mem, n->queues[i]->name);
    if (res->n)
        qsort(res->names, res->n, sizeof *res->names, by_name);
    return EMQ_OK;
}
NV_ACT(queues)

static emq_status do_logs(struct naive *n, const struct emq__logs_req *req,
                          struct emq__logs_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_job *job = nv_job_visible(nv_queue_find(n, req->prefix, req->queue), req->id);

    (void)err;
    if (!job)
        return EMQ_NOT_FOUND;
    res->total = (int64_t)job->logs.n;
    res->lines = must(emq__arena_zalloc(mem, job->logs.n + 1, sizeof(emq_str)));
    for (int64_t i = req->start; i < res->total; i++) {
        if (req->count > 0 && i - req->start >= req->count)
            break;
        res->lines[res->n++] = nv_put(mem, job->logs.v[i]);
    }
    return EMQ_OK;
}
NV_ACT(logs)

/* "ms-seq"; false if it is not one. */
static bool event_id(emq_str s, int64_t *ms, int64_t *seq)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '-')
            return emq__str_to_i64(emq_strn(s.ptr, i), ms) &&
                   emq__str_to_i64(emq_strn(s.ptr + i + 1, s.len - i - 1), seq);
    return false;
}

static emq_str event_name(struct emq__arena *mem, int64_t ms, int64_t seq)
{
    return emq__arena_printf(mem, "%lld-%lld", (long long)ms, (long long)seq);
}

static emq_status do_events(struct naive *n, const struct emq__events_req *req,
                            struct emq__events_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    int64_t ms = 0, seq = 0;

    if (emq__str_is(req->after, "$")) {
        ms = q ? q->last_event_ms : 0;
        seq = q ? q->last_event_seq : 0;
    } else if (req->after.len && !event_id(req->after, &ms, &seq)) {
        return emq__fail(err, EMQ_E_INVALID, 0, "events",
                         "cursor \"%.*s\"; \"\", \"$\" or \"ms-seq\"", EMQ_STR_ARG(req->after));
    }
    size_t count = q ? q->n_events : 0;
    res->events = must(emq__arena_zalloc(mem, count + 1, sizeof *res->events));
    for (size_t i = 0; i < count && (int64_t)res->n < req->limit; i++) {
        const struct nv_event *ev = &q->events[i];
        if (ev->ms < ms || (ev->ms == ms && ev->seq <= seq && req->after.len))
            continue;
        res->events[res->n].id = event_name(mem, ev->ms, ev->seq);
        res->events[res->n++].json = nv_put(mem, ev->json);
    }
    res->last_id = res->n ? res->events[res->n - 1].id : event_name(mem, ms, seq);
    return EMQ_OK;
}
NV_ACT(events)

static emq_status do_history(struct naive *n, const struct emq__history_req *req,
                             struct emq__history_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_job *job = nv_job_visible(nv_queue_find(n, req->prefix, req->queue), req->id);

    (void)err;
    res->n = job ? job->history.n : 0;
    res->json = must(emq__arena_zalloc(mem, res->n + 1, sizeof(emq_str)));
    for (size_t i = 0; i < res->n; i++)
        res->json[i] = nv_put(mem, job->history.v[i]);
    return EMQ_OK;
}
NV_ACT(history)

/* ---- dump */

static int by_dedup_id(const void *a, const void *b)
{
    return emq__str_cmp(((const struct emq__dump_dedup *)a)->id,
                        ((const struct emq__dump_dedup *)b)->id);
}

static void dump_dedup(struct naive *n, struct nv_queue *q, struct emq__dump_res *res,
                       struct emq__arena *mem)
{
    res->dedup = must(emq__arena_zalloc(mem, q->n_dedup + 1, sizeof *res->dedup));
    for (size_t i = 0; i < q->n_dedup; i++) {
        const struct nv_dedup *k = &q->dedup[i];
        if (k->expires_at_ms && k->expires_at_ms <= n->now_ms)
            continue;
        res->dedup[res->n_dedup++] = (struct emq__dump_dedup){
            nv_put(mem, k->id), nv_put(mem, k->owner),
            k->expires_at_ms ? k->expires_at_ms - n->now_ms : 0, k->next != NULL};
    }
    if (res->n_dedup)
        qsort(res->dedup, res->n_dedup, sizeof *res->dedup, by_dedup_id);
}

static emq_status do_dump(struct naive *n, const struct emq__dump_req *req,
                          struct emq__dump_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);

    (void)err;
    stats(n, q, &res->stats);
    res->jobs = must(emq__arena_zalloc(mem, (q ? q->n_jobs : 0) + 1, sizeof(struct emq__job *)));
    if (!q || !q->exists)
        return EMQ_OK;
    for (int state = 1; state <= EMQ_STATE_COUNT; state++) {
        size_t count;
        struct nv_job **list = nv_sorted(q, state, &count);
        for (size_t i = 0; i < count; i++)
            res->jobs[res->n++] = nv_job_copy(n, list[i], mem);
        free(list);
    }
    dump_dedup(n, q, res, mem);
    res->last_fence = q->last_fence;
    res->id_counter = q->id_counter;
    return EMQ_OK;
}
NV_ACT(dump)
