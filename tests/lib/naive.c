/* SPDX-License-Identifier: MIT
 *
 * The model engine: its handle, memory, queues, records, settings, events and receipts. The rules
 * are in naive.h; the moves between states in naive_core.c.
 */
#include "lib/naive_internal.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

/* ---- memory */

void *nv_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        abort();
    return p;
}

void *nv_grow(void *array, size_t n, size_t elem)
{
    char *p = realloc(array, (n + 1) * elem);
    if (!p)
        abort();
    memset(p + n * elem, 0, elem);
    return p;
}

emq_str nv_dup(emq_str s)
{
    char *p = nv_alloc(s.len + 1);
    if (s.len)
        memcpy(p, s.ptr, s.len);
    return emq_strn(p, s.len);
}

void nv_free_str(emq_str s)
{
    union {
        const char *in;
        void *out;
    } u = {s.ptr};
    free(u.out);
}

emq_str nv_put(struct emq__arena *mem, emq_str s)
{
    emq_str out = emq__arena_str(mem, s);
    if (s.len && !out.ptr)
        abort();
    return out;
}

void nv_lines_add(struct nv_lines *l, emq_str s)
{
    l->v = nv_grow(l->v, l->n, sizeof *l->v);
    l->v[l->n++] = nv_dup(s);
}

void nv_lines_keep(struct nv_lines *l, int64_t keep)
{
    if (keep < 0 || (uint64_t)keep >= l->n)
        return;
    size_t drop = l->n - (size_t)keep;
    for (size_t i = 0; i < drop; i++)
        nv_free_str(l->v[i]);
    memmove(l->v, l->v + drop, (l->n - drop) * sizeof *l->v);
    l->n -= drop;
}

/* ---- queues and jobs */

struct nv_queue *nv_queue_find(struct naive *n, emq_str prefix, emq_str name)
{
    for (size_t i = 0; i < n->n_queues; i++) {
        struct nv_queue *q = n->queues[i];
        if (emq__str_eq(q->prefix, prefix) && emq__str_eq(q->name, name))
            return q;
    }
    return NULL;
}

struct nv_queue *nv_queue_make(struct naive *n, emq_str prefix, emq_str name)
{
    struct nv_queue *q = nv_queue_find(n, prefix, name);
    if (q)
        return q;
    q = nv_alloc(sizeof *q);
    q->prefix = nv_dup(prefix);
    q->name = nv_dup(name);
    n->queues = nv_grow(n->queues, n->n_queues, sizeof *n->queues);
    n->queues[n->n_queues++] = q;
    return q;
}

void nv_queue_free(struct nv_queue *q)
{
    while (q->n_jobs)
        nv_job_free(q->jobs[--q->n_jobs]);
    while (q->n_dedup)
        nv_dedup_drop(q, &q->dedup[q->n_dedup - 1]);
    while (q->n_markers)
        nv_marker_drop(q, &q->markers[q->n_markers - 1]);
    for (size_t i = 0; i < q->n_events; i++)
        nv_free_str(q->events[i].json);
    for (size_t i = 0; i < q->n_meta; i++) {
        nv_free_str(q->meta[i].field);
        nv_free_str(q->meta[i].value);
    }
    free(q->jobs);
    free(q->dedup);
    free(q->events);
    free(q->markers);
    free(q->meta);
    nv_free_str(q->prefix);
    nv_free_str(q->name);
    free(q);
}

struct nv_job *nv_job_find(struct nv_queue *q, emq_str id)
{
    for (size_t i = 0; q && i < q->n_jobs; i++)
        if (emq__str_eq(q->jobs[i]->j.id, id))
            return q->jobs[i];
    return NULL;
}

struct nv_job *nv_job_visible(struct nv_queue *q, emq_str id)
{
    struct nv_job *job = nv_job_find(q, id);
    return job && job->j.state != NV_STAGED ? job : NULL;
}

struct nv_job *nv_job_new(void)
{
    return nv_alloc(sizeof(struct nv_job));
}

void nv_job_free(struct nv_job *job)
{
    if (!job)
        return;
    nv_lines_keep(&job->logs, 0);
    nv_lines_keep(&job->history, 0);
    free(job->logs.v);
    free(job->history.v);
    emq__arena_free(&job->mem);
    free(job);
}

void nv_job_link(struct nv_queue *q, struct nv_job *job)
{
    q->jobs = nv_grow(q->jobs, q->n_jobs, sizeof *q->jobs);
    q->jobs[q->n_jobs++] = job;
}

void nv_job_unlink(struct nv_queue *q, struct nv_job *job)
{
    for (size_t i = 0; i < q->n_jobs; i++)
        if (q->jobs[i] == job) {
            memmove(q->jobs + i, q->jobs + i + 1, (q->n_jobs - i - 1) * sizeof *q->jobs);
            q->n_jobs--;
            return;
        }
}

static int by_place(const void *a, const void *b)
{
    const struct nv_job *x = *(struct nv_job *const *)a, *y = *(struct nv_job *const *)b;
    if (x->ord1 != y->ord1)
        return x->ord1 < y->ord1 ? -1 : 1;
    return x->ord2 < y->ord2 ? -1 : x->ord2 > y->ord2;
}

struct nv_job **nv_sorted(const struct nv_queue *q, int state, size_t *count)
{
    struct nv_job **list = NULL;
    *count = 0;
    for (size_t i = 0; q && i < q->n_jobs; i++)
        if (q->jobs[i]->j.state == state) {
            list = nv_grow(list, *count, sizeof *list);
            list[(*count)++] = q->jobs[i];
        }
    if (*count)
        qsort(list, *count, sizeof *list, by_place);
    return list;
}

int64_t nv_count(const struct nv_queue *q, int state)
{
    int64_t count = 0;
    for (size_t i = 0; i < q->n_jobs; i++)
        count += q->jobs[i]->j.state == state;
    return count;
}

struct emq__job *nv_job_copy(struct naive *n, const struct nv_job *job, struct emq__arena *mem)
{
    struct emq__job *out = emq__arena_alloc(mem, sizeof *out);
    if (!out)
        abort();
    *out = job->j;
    emq_str *const strings[] = {
        &out->prefix,     &out->queue,        &out->id,           &out->name,
        &out->data.bytes, &out->result.bytes, &out->opts,         &out->failed_reason,
        &out->stacktrace, &out->progress,     &out->processed_by, &out->deferred_failure,
        &out->dedup_id,   &out->group,        &out->parent_key,   &out->parent,
        &out->scheduler,  &out->token,
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(strings); i++)
        *strings[i] = nv_put(mem, *strings[i]);
    out->lock_left_ms = job->j.state == EMQ_ACTIVE ? job->lock_end_at_ms - n->now_ms : 0;
    return out;
}

bool nv_locked(const struct naive *n, const struct nv_job *job)
{
    return job->j.state == EMQ_ACTIVE && job->lock_end_at_ms > n->now_ms;
}

void nv_history_at(struct nv_job *job, int64_t at_ms, const char *what, emq_str who, emq_str detail)
{
    struct emq__buf b;
    emq__buf_init(&b, 64 * 1024);
    emq__buf_printf(&b, "{\"at\":%lld", (long long)at_ms);
    emq__json_key(&b, "what");
    emq__json_quote(&b, emq_cstr(what));
    emq__json_key(&b, "who");
    emq__json_quote(&b, who);
    emq__json_key(&b, "detail");
    emq__json_quote(&b, detail);
    emq__buf_char(&b, '}');
    nv_lines_add(&job->history, emq__buf_view(&b));
    nv_lines_keep(&job->history, EMQ__HISTORY_MAX);
    emq__buf_free(&b);
}

void nv_history(struct naive *n, struct nv_job *job, const char *what, emq_str who, emq_str detail)
{
    nv_history_at(job, n->now_ms, what, who, detail);
}

/* ---- settings */

const emq_str *nv_meta(const struct nv_queue *q, const char *field)
{
    for (size_t i = 0; q && i < q->n_meta; i++)
        if (emq__str_is(q->meta[i].field, field))
            return &q->meta[i].value;
    return NULL;
}

int64_t nv_meta_i64(const struct nv_queue *q, const char *field)
{
    const emq_str *v = nv_meta(q, field);
    int64_t out;
    return v && emq__str_to_i64(*v, &out) && out > 0 ? out : 0;
}

bool nv_paused(const struct nv_queue *q)
{
    return nv_meta(q, "paused") != NULL;
}

bool nv_maxed(const struct nv_queue *q)
{
    int64_t limit = nv_meta_i64(q, "concurrency");
    return limit > 0 && nv_count(q, EMQ_ACTIVE) >= limit;
}

/* ---- events */

void nv_event_begin(struct emq__buf *b, const char *event, emq_str job_id)
{
    emq__buf_init(b, (size_t)EMQ_DATA_MAX * 8);
    emq__json_key(b, "event");
    emq__json_quote(b, emq_cstr(event));
    if (job_id.len)
        nv_event_str(b, "jobId", job_id);
}

void nv_event_str(struct emq__buf *b, const char *key, emq_str value)
{
    emq__json_key(b, key);
    emq__json_quote(b, value);
}

void nv_event_i64(struct emq__buf *b, const char *key, int64_t value)
{
    emq__json_key(b, key);
    emq__buf_i64(b, value);
}

static int64_t max_events(const struct nv_queue *q)
{
    const emq_str *v = nv_meta(q, "opts.maxLenEvents");
    int64_t out;
    return v && emq__str_to_i64(*v, &out) && out >= 0 ? out : 10000;
}

void nv_event_emit(struct naive *n, struct nv_queue *q, struct emq__buf *b)
{
    if (n->now_ms > q->last_event_ms) {
        q->last_event_ms = n->now_ms;
        q->last_event_seq = 0;
    } else {
        q->last_event_seq++;
    }
    struct emq__buf all;
    emq__buf_init(&all, b->max + 100);
    emq__buf_printf(&all, "{\"id\":\"%lld-%lld\"", (long long)q->last_event_ms,
                    (long long)q->last_event_seq);
    if (b->ptr[0] != ',')
        emq__buf_char(&all, ',');
    emq__buf_str(&all, emq__buf_view(b));
    emq__buf_char(&all, '}');
    q->events = nv_grow(q->events, q->n_events, sizeof *q->events);
    q->events[q->n_events++] =
        (struct nv_event){q->last_event_ms, q->last_event_seq, nv_dup(emq__buf_view(&all))};
    emq__buf_free(&all);
    emq__buf_free(b);
    while ((int64_t)q->n_events > max_events(q)) {
        nv_free_str(q->events[0].json);
        memmove(q->events, q->events + 1, --q->n_events * sizeof *q->events);
    }
}

void nv_event(struct naive *n, struct nv_queue *q, const char *event, emq_str job_id,
              const char *prev)
{
    struct emq__buf b;
    nv_event_begin(&b, event, job_id);
    if (prev)
        nv_event_str(&b, "prev", emq_cstr(prev));
    nv_event_emit(n, q, &b);
}

/* ---- receipts */

static void receipt_free(struct nv_receipt *r)
{
    free(r->session);
    free(r->res);
    emq__arena_free(&r->mem);
    free(r);
}

emq_status nv_receipt(struct naive *n, const struct emq__call *call, const char *act,
                      size_t res_size, struct nv_receipt **r, emq_error *err)
{
    *r = NULL;
    if (!call->session.len)
        return EMQ_OK;
    size_t at = 0;
    while (at < n->n_receipts &&
           !emq__str_eq(emq_strn(n->receipts[at]->session, n->receipts[at]->session_len),
                        call->session))
        at++;
    struct nv_receipt *old = at < n->n_receipts ? n->receipts[at] : NULL;
    if (old && (call->seq < old->seq || (call->seq == old->seq && strcmp(act, old->act) != 0)))
        return emq__fail(err, EMQ_E_INVALID, 0, act,
                         "sequence %llu of a session that is at %llu; each act needs the next one",
                         (unsigned long long)call->seq, (unsigned long long)old->seq);
    if (old && call->seq == old->seq) {
        *r = old;
        return EMQ_OK;
    }
    struct nv_receipt *fresh = nv_alloc(sizeof *fresh);
    emq_str copy = nv_dup(call->session);
    fresh->session = nv_alloc(copy.len + 1);
    memcpy(fresh->session, copy.ptr, copy.len);
    nv_free_str(copy);
    fresh->session_len = call->session.len;
    fresh->seq = call->seq;
    fresh->act = act;
    fresh->res = nv_alloc(res_size);
    fresh->older = old;
    if (!old) {
        n->receipts = nv_grow(n->receipts, n->n_receipts, sizeof *n->receipts);
        n->n_receipts++;
    }
    n->receipts[at] = fresh;
    *r = fresh;
    return EMQ_OK;
}

void nv_receipt_drop(struct naive *n, struct nv_receipt *r)
{
    for (size_t i = 0; i < n->n_receipts; i++) {
        if (n->receipts[i] != r)
            continue;
        if (r->older)
            n->receipts[i] = r->older;
        else
            n->receipts[i] = n->receipts[--n->n_receipts];
        receipt_free(r);
        return;
    }
}

/* ---- the handle */

void nv_ring(struct naive *n)
{
    n->ticket++;
}

static uint64_t naive_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    (void)prefix;
    (void)queues;
    (void)n;
    return ((struct naive *)e)->ticket;
}

static void naive_interrupt(struct emq__engine *e)
{
    (void)e;
}

static emq_status naive_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct naive *n = (struct naive *)e;
    if (ms < 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "advance", "%lld ms: time goes forward only",
                         (long long)ms);
    pthread_mutex_lock(&n->mu);
    n->now_ms += ms;
    nv_trim_stages(n);
    pthread_mutex_unlock(&n->mu);
    return EMQ_OK;
}

static void naive_close(struct emq__engine *e)
{
    struct naive *n = (struct naive *)e;
    for (size_t i = 0; i < n->n_queues; i++)
        nv_queue_free(n->queues[i]);
    for (size_t i = 0; i < n->n_stages; i++) {
        nv_free_str(n->stages[i]->prefix);
        nv_free_str(n->stages[i]->name);
        free(n->stages[i]);
    }
    for (size_t i = 0; i < n->n_receipts; i++)
        for (struct nv_receipt *r = n->receipts[i], *older; r; r = older) {
            older = r->older;
            receipt_free(r);
        }
    free(n->queues);
    free(n->stages);
    free(n->receipts);
    pthread_mutex_destroy(&n->mu);
    free(n);
}

static const struct emq__engine_ops naive_ops = {
    .name = "naive",
#define NV_OP(act, mutating) .act = nv_act_##act,
    EMQ__ACTS(NV_OP)
#undef NV_OP
        .ticket = naive_ticket,
    .interrupt = naive_interrupt,
    .advance = naive_advance,
    .close = naive_close,
};

emq_status naive_open(struct emq__engine **out, emq_error *err)
{
    struct naive *n = nv_alloc(sizeof *n);
    n->e.ops = &naive_ops;
    n->now_ms = NAIVE_EPOCH_MS;
    int rc = pthread_mutex_init(&n->mu, NULL);
    if (rc) {
        free(n);
        return emq__fail(err, EMQ_E_SYSTEM, rc, "naive_open", "mutex");
    }
    *out = &n->e;
    return EMQ_OK;
}
