/* SPDX-License-Identifier: MIT
 *
 * Reading jobs, queues and events. A finished job past the age that its options allow is there until the store
 * removes it.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/names.h"

enum { FIND_DEFAULT = 100, FIND_MAX = 1000, EVENTS_DEFAULT = 100, EVENTS_MAX = 1000 };
enum { LOOK_FIRST_MS = 20, LOOK_MAX_MS = 500 };

emq_status emq__job_read(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                         struct emq__job **out, int64_t *out_now_ms, emq_error *err)
{
    struct emq__jobs_req req = {.prefix = c->prefix, .queue = queue, .ids = &id, .n = 1};
    struct emq__jobs_res res;
    emq_status s = c->e->ops->jobs(c->e, &req, &res, mem, err);

    if (s != EMQ_OK)
        return s;
    if (res.n == 0 || !res.jobs[0])
        return EMQ_NOT_FOUND;
    *out = res.jobs[0];
    *out_now_ms = res.now_ms;
    return EMQ_OK;
}

static emq_status no_out(const char *where, emq_error *err)
{
    return emq__fail(err, EMQ_E_INVALID, 0, where, "out is NULL");
}

emq_status emq_get(emq_client *c, emq_str queue, emq_str id, emq_job **out, emq_error *err)
{
    static const char where[] = "emq_get";
    struct emq__arena mem = {0};
    struct emq__job *rec;
    int64_t now_ms;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s == EMQ_OK)
        s = emq__job_read(c, queue, id, &mem, &rec, &now_ms, err);
    if (s == EMQ_OK) {
        emq_job *job = emq__job_new();
        if (job) {
            emq__job_fill(job, rec, now_ms, false, &mem);
            *out = job;
        } else {
            s = emq__no_memory(where, err);
        }
    }
    emq__arena_free(&mem);
    return s;
}

emq_status emq_logs(emq_client *c, emq_str queue, emq_str id, size_t start, size_t count,
                    emq_list **out, emq_error *err)
{
    static const char where[] = "emq_logs";
    struct emq__arena mem = {0};
    struct emq__logs_res res;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s != EMQ_OK)
        return s;
    struct emq__logs_req req = {
        .prefix = c->prefix,
        .queue = queue,
        .id = id,
        .start = start > INT64_MAX ? INT64_MAX : (int64_t)start,
        .count = count > INT64_MAX ? INT64_MAX : (int64_t)count,
    };
    s = c->e->ops->logs(c->e, &req, &res, &mem, err);
    if (s == EMQ_OK)
        s = emq__list_of_strs(&mem, res.lines, res.n, out, where, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_queues(emq_client *c, emq_list **out, emq_error *err)
{
    static const char where[] = "emq_queues";
    struct emq__arena mem = {0};
    struct emq__queues_res res;

    emq_status s = emq__client_check(c, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s != EMQ_OK)
        return s;
    struct emq__queues_req req = {.prefix = c->prefix};
    s = c->e->ops->queues(c->e, &req, &res, &mem, err);
    if (s == EMQ_OK)
        s = emq__list_of_strs(&mem, res.names, res.n, out, where, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_stats(emq_client *c, emq_str queue, emq_queue_stats *out, emq_error *err)
{
    static const char where[] = "emq_stats";
    struct emq__arena mem = {0};
    struct emq__stats_res res;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s == EMQ_OK)
        s = emq__out_check(out, where, "emq_queue_stats", err);
    if (s != EMQ_OK)
        return s;
    struct emq__stats_req req = {.prefix = c->prefix, .queue = queue};
    s = c->e->ops->stats(c->e, &req, &res, &mem, err);
    emq__arena_free(&mem);
    if (s != EMQ_OK)
        return s;
    emq_queue_stats ours = {
        .size = sizeof ours,
        .limited_ms = res.limited_ms,
        .next_due_at_ms = res.next_due_at_ms,
        .oldest_waiting_at_ms = res.oldest_waiting_at_ms,
        .concurrency = res.concurrency,
        .now_ms = res.now_ms,
        .total_added = res.totals.added,
        .total_started = res.totals.started,
        .total_completed = res.totals.completed,
        .total_failed = res.totals.failed,
        .total_retried = res.totals.retried,
        .total_recovered = res.totals.recovered,
        .total_deduplicated = res.totals.deduplicated,
        .total_removed = res.totals.removed,
        .paused = res.paused,
        .maxed = res.maxed,
    };
    memcpy(ours.count, res.count, sizeof ours.count);
    emq__out_put(out, &ours, sizeof ours);
    return EMQ_OK;
}

/* ---- find -------------------------------------------------------------------------------- */

/* One call of emq_find(): pages of one state after the other until `limit` is met. */
struct finder {
    emq_client *c;
    emq_str queue;
    const emq_find_opts *o;
    struct emq__arena mem;
    struct emq__job **jobs; /* up to limit */
    size_t n, limit;
    int64_t skip;  /* by rank, still to be passed over; behind a job: about its rank, 0 = unknown */
    emq_str after; /* of the state in hand */
    int64_t now_ms;
    size_t bytes; /* of the jobs read so far */
    bool full;    /* of bytes, before the limit is met */
};

/* Reads one state until it ends, the limit is met, or the page is full of bytes. */
static emq_status find_in_state(struct finder *f, int32_t state, emq_error *err)
{
    for (bool first = true; f->n < f->limit; first = false) {
        struct emq__find_req req = {
            .prefix = f->c->prefix,
            .queue = f->queue,
            .state = state,
            .newest_first = f->o->newest_first != 0,
            .offset = f->skip,
            .after_id = f->after,
            .limit = (int32_t)(f->limit - f->n),
        };
        struct emq__find_res res;
        emq_status s = f->c->e->ops->find(f->c->e, &req, &res, &f->mem, err);

        if (s == EMQ_NOT_FOUND && !first)
            break; /* the last job of our own page has left the state meanwhile */
        if (s != EMQ_OK)
            return s;
        f->now_ms = res.now_ms;
        for (size_t i = 0; i < res.n; i++) {
            f->bytes += emq__job_bytes(res.jobs[i]);
            f->jobs[f->n++] = res.jobs[i];
        }
        f->skip = f->skip > 0 || !f->after.len ? f->skip + (int64_t)res.n : 0;
        f->full = f->bytes >= EMQ__BATCH_BYTES && f->n > 0;
        if (f->full || (!res.more && res.n < (size_t)req.limit))
            break;
        f->after = res.jobs[res.n - 1]->id;
    }
    f->after = emq_strn("", 0);
    f->skip = 0;
    return EMQ_OK;
}

/* All states in turn. With an offset the counts tell which states are passed over whole. */
static emq_status find_in_all(struct finder *f, emq_error *err)
{
    struct emq__stats_req req = {.prefix = f->c->prefix, .queue = f->queue};
    struct emq__stats_res res;
    int32_t state = EMQ_WAITING;
    emq_status s = EMQ_OK;

    if (f->after.len) {
        struct emq__job *job;
        s = emq__job_read(f->c, f->queue, f->after, &f->mem, &job, &f->now_ms, err);
        if (s == EMQ_OK)
            state = job->state;
    } else if (f->skip > 0) {
        s = f->c->e->ops->stats(f->c->e, &req, &res, &f->mem, err);
        while (s == EMQ_OK && state < EMQ_STATE_COUNT && f->skip >= res.count[state])
            f->skip -= res.count[state++];
    }
    for (; s == EMQ_OK && state <= EMQ_STATE_COUNT && f->n < f->limit && !f->full; state++)
        s = find_in_state(f, state, err);
    return s;
}

static emq_status check_find_opts(emq_find_opts *o, const emq_find_opts *opts, emq_error *err)
{
    static const char where[] = "emq_find";
    emq_status s = EMQ__OPTS_TAKE(o, opts, where, emq_find_opts, err);

    if (s != EMQ_OK)
        return s;
    if (o->state < 0 || o->state > EMQ_STATE_COUNT)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "state is %d: allowed are 0 to %d",
                         (int)o->state, EMQ_STATE_COUNT);
    if (o->limit < 0 || o->limit > FIND_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "limit is %lld: allowed are 0 to %d",
                         (long long)o->limit, FIND_MAX);
    if (o->offset < 0)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "offset is %lld: allowed are 0 and more",
                         (long long)o->offset);
    if (o->limit == 0)
        o->limit = FIND_DEFAULT;
    return o->after_id.len ? emq__check_id(o->after_id, err) : EMQ_OK;
}

emq_status emq_find(emq_client *c, emq_str queue, const emq_find_opts *opts, emq_list **out,
                    emq_error *err)
{
    static const char where[] = "emq_find";
    struct finder f = {.c = c, .queue = queue};
    emq_find_opts o;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s == EMQ_OK)
        s = check_find_opts(&o, opts, err);
    if (s != EMQ_OK)
        return s;
    f.o = &o;
    f.limit = (size_t)o.limit;
    f.after = o.after_id;
    f.skip = o.offset;
    f.jobs = calloc(f.limit, sizeof(struct emq__job *));
    if (!f.jobs)
        return emq__no_memory(where, err);
    s = o.state ? find_in_state(&f, o.state, err) : find_in_all(&f, err);
    if (s == EMQ_OK)
        s = emq__list_of_jobs(&f.mem, f.jobs, f.n, f.now_ms, false, out, where, err);
    free(f.jobs);
    emq__arena_free(&f.mem);
    return s;
}

/* ---- events ------------------------------------------------------------------------------ */

/* One read. EMQ_TIMEOUT: nothing yet. Either way `cursor` is where to go on; `after` may lie in it. */
static emq_status read_events(emq_client *c, emq_str queue, emq_str after, int32_t limit,
                              char cursor[EMQ_CURSOR_MAX + 1], emq_list **out, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__events_res res;
    struct emq__events_req req = {
        .prefix = c->prefix, .queue = queue, .after = after, .limit = limit};

    emq_status s = c->e->ops->events(c->e, &req, &res, &mem, err);
    if (s == EMQ_OK) {
        EMQ_ASSERT(res.last_id.len <= EMQ_CURSOR_MAX);
        (void)snprintf(cursor, EMQ_CURSOR_MAX + 1, "%.*s", EMQ_STR_ARG(res.last_id));
        s = res.n ? EMQ_OK : EMQ_TIMEOUT;
    }
    if (s == EMQ_OK) {
        emq_str *strs = emq__arena_zalloc(&mem, res.n, sizeof *strs);
        for (size_t i = 0; strs && i < res.n; i++)
            strs[i] = res.events[i].json;
        s = strs ? emq__list_of_strs(&mem, strs, res.n, out, "emq_events", err)
                 : emq__no_memory("emq_events", err);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status emq_events(emq_client *c, emq_str queue, emq_str after, size_t limit, int64_t wait_ms,
                      emq_list **out, char out_cursor[EMQ_CURSOR_MAX + 1], emq_error *err)
{
    static const char where[] = "emq_events";
    struct emq__mono start = emq__mono_now();
    struct emq__waiter *w = NULL;
    int64_t step_ms = LOOK_FIRST_MS;
    int32_t n = limit > EVENTS_MAX ? EVENTS_MAX : limit ? (int32_t)limit : EVENTS_DEFAULT;
    char name[EMQ__BELL_NAME_MAX], cursor[EMQ_CURSOR_MAX + 1];

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && !out)
        s = no_out(where, err);
    if (s == EMQ_OK && wait_ms != -1)
        s = emq__check_span(wait_ms, where, "wait_ms", err);
    if (s == EMQ_OK)
        s = emq__check_size(after, EMQ_CURSOR_MAX, where, "the cursor", err);
    if (s != EMQ_OK)
        return s;
    emq_str bell = emq__bell_of_events(queue, name);
    while (s == EMQ_OK) {
        uint64_t ticket = c->e->ops->ticket(c->e, c->prefix, &bell, 1);
        s = read_events(c, queue, after, n, cursor, out, err);
        if (s != EMQ_TIMEOUT)
            break;
        after = emq_cstr(cursor);
        int64_t left = emq__wait_left(start, wait_ms);
        if (left == 0)
            break;
        /* Not before the first look: an interrupt must not cost the place that "$" means. */
        s = w ? EMQ_OK : emq__wait_begin(c, &w, err);
        if (s == EMQ_OK)
            s = emq__wait_step(c, w, bell, ticket, left < step_ms ? left : step_ms, err);
        if (s == EMQ_TIMEOUT)
            s = EMQ_OK;
        step_ms = step_ms * 2 < LOOK_MAX_MS ? step_ms * 2 : LOOK_MAX_MS;
    }
    emq__wait_end(w);
    if (out_cursor && !emq__is_failure(s))
        memcpy(out_cursor, cursor, sizeof cursor);
    return s;
}
