/* SPDX-License-Identifier: MIT
 *
 * The acts `jobs`, `stats`, `find`, `queues` and `logs`: reading. Each picture is one script's, but for
 * long logs and the search for queues, which go in slices.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/redis/admin.h"
#include "engine/redis/ground.h"

#include <stdio.h>

/* What one script reads. */
enum { JOBS_SLICE = 100, STATS_SLICE = 1000, FIND_SLICE = 100, LOGS_SLICE = 4000 };

struct emq__job *rd_row_job(const struct rd_reply *row, emq_str prefix, emq_str queue,
                            struct emq__arena *mem)
{
    struct rd_job_extra x = {
        .prefix = prefix,
        .queue = queue,
        .id = rd_str(rd_at(row, 1)),
        .state = (int32_t)rd_i64(rd_at(row, 2)),
        .due_at_ms = rd_i64(rd_at(row, 3)),
        .lock_left_ms = rd_i64(rd_at(row, 4)),
        .token = rd_str(rd_at(row, 5)),
        .next_run = rd_i64(rd_at(row, 6)) != 0,
    };
    return rd_job_read(rd_at(row, 0), &x, mem);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Jobs from..to-1 of the request. */
static emq_status jobs_slice(struct emq__engine *e, const struct emq__jobs_req *req, size_t from,
                             size_t to, struct emq__jobs_res *res, struct emq__arena *mem,
                             emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_jobs, req->prefix, req->queue, mem);
    const struct rd_reply *r;

    for (size_t i = from; i < to; i++)
        rd_arg_str(a, req->ids[i]);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    for (size_t i = from; i < to; i++) {
        const struct rd_reply *row = rd_at(r, i - from + 1);
        if (row->type != RD_ARR)
            continue;
        res->jobs[i] = rd_row_job(row, req->prefix, req->queue, mem);
        if (!res->jobs[i])
            return emq__fail(err, EMQ_E_NOMEM, 0, "jobs", "%zu jobs", req->n);
    }
    return EMQ_OK;
}

emq_status rd_jobs(struct emq__engine *e, const struct emq__jobs_req *req,
                   struct emq__jobs_res *res, struct emq__arena *mem, emq_error *err)
{
    size_t from = 0;
    emq_status s;

    *res = (struct emq__jobs_res){.n = req->n};
    res->jobs = emq__arena_zalloc(mem, req->n ? req->n : 1, sizeof(struct emq__job *));
    if (!res->jobs)
        return emq__fail(err, EMQ_E_NOMEM, 0, "jobs", "%zu jobs", req->n);
    do {
        size_t to = req->n - from < JOBS_SLICE ? req->n : from + JOBS_SLICE;
        s = jobs_slice(e, req, from, to, res, mem, err);
        from = to;
    } while (s == EMQ_OK && from < req->n);
    return s;
}

/* ---- stats ----------------------------------------------------------------------------------- */

void rd_stats_read(const struct rd_reply *r, size_t at, struct emq__stats_res *out)
{
    struct emq__totals *t = &out->totals;
    int64_t *const totals[] = {&t->added,   &t->started,   &t->completed,    &t->failed,
                               &t->retried, &t->recovered, &t->deduplicated, &t->removed};
    /* In the order in which the script counts. */
    static const int states[] = {EMQ_WAITING,     EMQ_ACTIVE,           EMQ_DELAYED,
                                 EMQ_PRIORITIZED, EMQ_WAITING_CHILDREN, EMQ_COMPLETED_STATE,
                                 EMQ_FAILED_STATE};

    out->exists = rd_i64(rd_at(r, at++)) != 0;
    out->paused = rd_i64(rd_at(r, at++)) != 0;
    out->maxed = rd_i64(rd_at(r, at++)) != 0;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(states); i++)
        out->count[states[i]] = rd_i64(rd_at(r, at++));
    out->limited_ms = rd_i64(rd_at(r, at++));
    out->next_due_at_ms = rd_i64(rd_at(r, at++));
    out->oldest_waiting_at_ms = rd_i64(rd_at(r, at++));
    out->concurrency = rd_i64(rd_at(r, at++));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(totals); i++)
        *totals[i] = rd_i64(rd_at(r, at++));
    out->retry_delayed = rd_i64(rd_at(r, at));
}

static emq_status stats_script(struct emq__engine *e, const struct emq__stats_req *req,
                               emq_str seen, const struct rd_reply **r, struct emq__arena *mem,
                               emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_stats, req->prefix, req->queue, mem);

    rd_arg_str(a, seen);
    rd_arg_str(a, req->ending ? emq_strn(&"012"[req->mode], 1) : (emq_str){0});
    if (req->beginning)
        rd_arg_looks(a);
    return rd_eval(a, r, err);
}

/* Looks for retries among all delayed jobs, those due last first: jobs that fall due meanwhile don't
 * bring the others behind the search. */
static emq_status look_for_retries(struct emq__engine *e, const struct emq__stats_req *req,
                                   struct emq__stats_res *res, struct emq__arena *mem,
                                   emq_error *err)
{
    emq_status s = EMQ_OK;
    char text[24];

    for (int64_t seen = 0; s == EMQ_OK && res->retry_delayed == 0 && seen < res->count[EMQ_DELAYED];
         seen += STATS_SLICE) {
        const struct rd_reply *r;
        (void)snprintf(text, sizeof text, "%lld", (long long)seen);
        s = stats_script(e, req, emq_cstr(text), &r, mem, err);
        if (s == EMQ_OK)
            res->retry_delayed = rd_i64(rd_at(r, 1));
    }
    return s;
}

emq_status rd_stats(struct emq__engine *e, const struct emq__stats_req *req,
                    struct emq__stats_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *r;

    *res = (struct emq__stats_res){0};
    emq_status s = stats_script(e, req, (emq_str){0}, &r, mem, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    res->takeable = rd_i64(rd_at(r, 1)) != 0;
    rd_stats_read(r, 2, res);
    res->read_only = rd_may_write(rd_of(e), NULL) == EMQ_E_REFUSED;
    if (req->ending && res->count[EMQ_DELAYED] > STATS_SLICE)
        return look_for_retries(e, req, res, mem, err);
    return EMQ_OK;
}

/* ---- find ------------------------------------------------------------------------------------ */

enum { FOUND = 1, FULL, RANK, END, ROWS }; /* the places of its answer */
enum { GONE, THERE, LOOKING };             /* FOUND: after_id is … */

/* One script, or several while the job to begin behind is looked for. */
static emq_status find_script(struct emq__engine *e, const struct emq__find_req *req, int64_t bytes,
                              const struct rd_reply **r, struct emq__arena *mem, emq_error *err)
{
    int64_t search = 0;
    emq_status s;

    do {
        struct rd_args *a = rd_args_new(e, RD_LUA_find, req->prefix, req->queue, mem);
        rd_arg_i64(a, req->state);
        rd_arg_i64(a, req->newest_first);
        rd_arg_i64(a, req->offset > 0 ? req->offset : 0);
        rd_arg_str(a, req->after_id);
        rd_arg_i64(a, req->limit);
        rd_arg_i64(a, bytes);
        rd_arg_i64(a, search);
        s = rd_eval(a, r, err);
        search = s == EMQ_OK ? rd_i64(rd_at(*r, RANK)) : 0;
    } while (s == EMQ_OK && rd_i64(rd_at(*r, FOUND)) == LOOKING);
    return s;
}

/* One slice. *end: there are no more. Else *next says where the next one goes on. */
static emq_status find_slice(struct emq__engine *e, struct emq__find_req *next, int64_t *bytes,
                             bool *end, struct emq__find_res *res, struct emq__arena *mem,
                             emq_error *err)
{
    const struct rd_reply *r;

    emq_status s = find_script(e, next, *bytes, &r, mem, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(r, 0));
    if (rd_i64(rd_at(r, FOUND)) == GONE)
        return EMQ_NOT_FOUND;
    res->more = rd_i64(rd_at(r, FULL)) != 0;
    *end = rd_i64(rd_at(r, END)) != 0;
    next->offset = rd_i64(rd_at(r, RANK));
    next->after_id = (emq_str){0};
    for (size_t i = ROWS; i < r->n; i++) {
        struct emq__job *j = rd_row_job(rd_at(r, i), next->prefix, next->queue, mem);
        if (!j)
            return emq__fail(err, EMQ_E_NOMEM, 0, "find", "job %zu", res->n);
        *bytes -= (int64_t)emq__job_bytes(j);
        res->jobs[res->n++] = j;
    }
    if (r->n > ROWS) { /* behind our last job, wherever it stands by then */
        next->after_id = res->jobs[res->n - 1]->id;
        next->offset--;
    }
    return EMQ_OK;
}

/* Slices until `want` jobs are there, the state ends, or the bytes are used up. */
static emq_status find_all(struct emq__engine *e, struct emq__find_req *next, size_t want,
                           struct emq__find_res *res, struct emq__arena *mem, emq_error *err)
{
    int64_t bytes = EMQ__BATCH_BYTES;
    bool end = false;
    emq_status s = EMQ_OK;

    do {
        size_t had = res->n, left = want - had;
        next->limit = left < FIND_SLICE ? (int32_t)left : FIND_SLICE;
        s = find_slice(e, next, &bytes, &end, res, mem, err);
        if (s == EMQ_NOT_FOUND && had > 0) { /* our last job has moved on meanwhile */
            res->more = true;
            return EMQ_OK;
        }
    } while (s == EMQ_OK && !end && !res->more && res->n < want);
    return s;
}

emq_status rd_find(struct emq__engine *e, const struct emq__find_req *req,
                   struct emq__find_res *res, struct emq__arena *mem, emq_error *err)
{
    struct emq__find_req next = *req;
    size_t want = req->limit > 0 ? (size_t)req->limit : 0;

    *res = (struct emq__find_res){0};
    if (req->state < EMQ_WAITING || req->state > EMQ_STATE_COUNT)
        return emq__fail(err, EMQ_E_INVALID, 0, "find", "no such state: %d", (int)req->state);
    if (want > EMQ__BATCH_MAX)
        want = EMQ__BATCH_MAX;
    res->jobs = emq__arena_zalloc(mem, want + 1, sizeof(struct emq__job *));
    if (!res->jobs)
        return emq__fail(err, EMQ_E_NOMEM, 0, "find", "%zu jobs", want);
    emq_status s = find_all(e, &next, want, res, mem, err);
    if (res->n == EMQ__BATCH_MAX && req->limit > EMQ__BATCH_MAX)
        res->more = true;
    return s;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return emq__str_cmp(*(const emq_str *)a, *(const emq_str *)b);
}

/* Is it "<type>:<name>", no queue's? Who misses the queue reads why. A key that has gone meanwhile has no type. */
static bool tell_foreign(const struct rd_engine *e, emq_str prefix, emq_str name)
{
    const char *colon = memchr(name.ptr, ':', name.len);

    if (!colon)
        return false;
    emq_str is = emq_strn(name.ptr, (size_t)(colon - name.ptr));
    if (!emq__str_is(is, "none"))
        emq__log_write(&e->log, EMQ_LOG_WARN,
                       "the key \"%.*s%s:meta\" is a %.*s and not a hash: it belongs to something "
                       "else, and is not listed",
                       EMQ_STR_ARG(prefix), colon, EMQ_STR_ARG(is));
    return true;
}

/* All names of one node behind those that are there. */
static emq_status queues_of(struct emq__engine *e, const struct emq__queues_req *req, size_t node,
                            size_t *cap, struct emq__queues_res *res, struct emq__arena *mem,
                            emq_error *err)
{
    emq_str cursor = EMQ_STR_LIT("0");

    do {
        struct rd_args *a = rd_args_new(e, RD_LUA_queues, req->prefix, (emq_str){0}, mem);
        const struct rd_reply *r;
        rd_arg_str(a, cursor);
        rd_arg_i64(a, req->unseen);
        emq_status s = rd_eval_node(a, node, &r, err);
        if (s != EMQ_OK)
            return s;
        res->now_ms = rd_i64(rd_at(r, 0));
        cursor = rd_str(rd_at(r, 1));
        for (size_t i = 2; i < r->n; i++) {
            if (res->n == *cap) {
                emq_str *wider = emq__arena_zalloc(mem, *cap * 2, sizeof *wider);
                if (!wider)
                    return emq__fail(err, EMQ_E_NOMEM, 0, "queues", "%zu names", *cap * 2);
                memcpy(wider, res->names, res->n * sizeof *wider);
                res->names = wider;
                *cap *= 2;
            }
            if (!tell_foreign(rd_of(e), req->prefix, rd_str(rd_at(r, i))))
                res->names[res->n++] = rd_str(rd_at(r, i));
        }
    } while (!emq__str_is(cursor, "0") && cursor.len);
    return EMQ_OK;
}

emq_status rd_queues(struct emq__engine *e, const struct emq__queues_req *req,
                     struct emq__queues_res *res, struct emq__arena *mem, emq_error *err)
{
    size_t cap = 64, n = 0;
    emq_status s = EMQ_OK;

    *res = (struct emq__queues_res){.names = emq__arena_zalloc(mem, cap, sizeof(emq_str))};
    if (!res->names)
        return emq__fail(err, EMQ_E_NOMEM, 0, "queues", "%zu names", cap);
    for (size_t node = 0; node < rd_nodes(e) && s == EMQ_OK; node++)
        s = queues_of(e, req, node, &cap, res, mem, err);
    if (s != EMQ_OK)
        return s;
    qsort(res->names, res->n, sizeof *res->names, by_name);
    for (size_t i = 0; i < res->n; i++) /* a scan may show a key twice */
        if (i == 0 || !emq__str_eq(res->names[i], res->names[n - 1]))
            res->names[n++] = res->names[i];
    res->n = n;
    return EMQ_OK;
}

/* ---- logs ------------------------------------------------------------------------------------ */

/* Lines from `start` on, at most `want`, behind those that are there. NOT_FOUND: no such job. */
static emq_status logs_slice(struct emq__engine *e, const struct emq__logs_req *req, int64_t start,
                             int64_t want, struct emq__logs_res *res, const struct rd_reply **r,
                             struct emq__arena *mem, emq_error *err)
{
    struct rd_args *a = rd_args_new(e, RD_LUA_logs, req->prefix, req->queue, mem);

    rd_arg_str(a, req->id);
    rd_arg_i64(a, start);
    rd_arg_i64(a, want < LOGS_SLICE ? want : LOGS_SLICE);
    emq_status s = rd_eval(a, r, err);
    if (s != EMQ_OK)
        return s;
    res->now_ms = rd_i64(rd_at(*r, 0));
    res->total = rd_i64(rd_at(*r, 2));
    return rd_i64(rd_at(*r, 1)) ? EMQ_OK : EMQ_NOT_FOUND;
}

emq_status rd_logs(struct emq__engine *e, const struct emq__logs_req *req,
                   struct emq__logs_res *res, struct emq__arena *mem, emq_error *err)
{
    int64_t start = req->start > 0 ? req->start : 0;
    int64_t want = req->count > 0 ? req->count : INT64_MAX;
    const struct rd_reply *r;

    *res = (struct emq__logs_res){0};
    emq_status s = logs_slice(e, req, start, want, res, &r, mem, err);
    if (s != EMQ_OK)
        return s;
    int64_t there = res->total > start ? res->total - start : 0;
    if (want > there)
        want = there;
    res->lines = emq__arena_zalloc(mem, (size_t)want + 1, sizeof(emq_str));
    if (!res->lines)
        return emq__fail(err, EMQ_E_NOMEM, 0, "logs", "%lld lines", (long long)want);
    for (;;) {
        for (size_t i = 3; i < r->n && (int64_t)res->n < want; i++)
            res->lines[res->n++] = rd_str(rd_at(r, i));
        if ((int64_t)res->n >= want || r->n <= 3)
            return EMQ_OK;
        s = logs_slice(e, req, start + (int64_t)res->n, want - (int64_t)res->n, res, &r, mem, err);
        if (s != EMQ_OK)
            return s;
    }
}
