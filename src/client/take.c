/* SPDX-License-Identifier: MIT
 *
 * Taking a job by hand, and renewing its lock. The handle is made before the act: a job that was
 * handed out is never dropped for want of memory.
 */
#include "client/client.h"

#include "base/error.h"
#include "client/opts_size.h"
#include "model/names.h"

enum { STEP_MAX_MS = 1000 };

static const char *const where_take = "emq_take";

static emq_status check_take_opts(emq_take_opts *o, const emq_take_opts *opts, emq_error *err)
{
    emq_status s = EMQ__OPTS_TAKE(o, opts, where_take, emq_take_opts, err);

    if (s == EMQ_OK && o->worker.len)
        s = emq__check_worker(o->worker, err);
    if (s == EMQ_OK)
        s = emq__check_lock(&o->lock_ms, where_take, err);
    if (s == EMQ_OK && o->wait_ms != -1)
        s = emq__check_span(o->wait_ms, where_take, "wait_ms", err);
    if (s == EMQ_OK && (o->mode < EMQ_AT_LEAST_ONCE || o->mode > EMQ_FIRE_AND_FORGET))
        s = emq__fail(err, EMQ_E_INVALID, 0, where_take, "mode is %d: allowed are 0 to %d",
                      (int)o->mode, (int)EMQ_FIRE_AND_FORGET);
    return s;
}

/* Time until the next look, as far as the store knows: at most a second. */
static int64_t next_look_ms(const struct emq__take_res *res, int64_t left)
{
    int64_t ms = left < STEP_MAX_MS ? left : STEP_MAX_MS;
    int64_t due = res->taken.next_due_at_ms ? res->taken.next_due_at_ms - res->now_ms : ms;

    if (due < ms)
        ms = due;
    if (res->taken.limited_ms > 0 && res->taken.limited_ms < ms)
        ms = res->taken.limited_ms;
    return ms < 1 ? 1 : ms;
}

/* One act. EMQ_EMPTY: *sleep_ms says how long there is nothing to look for; 0 = look again. */
static emq_status take_once(emq_client *c, struct emq__take_req *req, emq_job *job, int64_t left,
                            int64_t *sleep_ms, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__take_res res;
    emq_status s = emq__do_take(c, req, &res, &mem, err);

    if (s == EMQ_OK && res.taken.n > 0) {
        emq__job_fill(job, res.taken.jobs[0], res.now_ms, true, &mem);
    } else if (s == EMQ_OK) {
        s = EMQ_EMPTY;
        *sleep_ms = res.taken.deferred > 0 ? 0 : next_look_ms(&res, left);
    }
    emq__arena_free(&mem);
    return s;
}

static emq_status take_waiting(emq_client *c, emq_str queue, struct emq__take_req *req,
                               int64_t wait_ms, emq_job *job, emq_error *err)
{
    struct emq__mono start = emq__mono_now();
    struct emq__waiter *w = NULL;
    emq_status s = EMQ_OK;

    if (wait_ms != 0)
        s = emq__wait_begin(c, &w, err);
    while (s == EMQ_OK) {
        int64_t left = emq__wait_left(start, wait_ms), sleep_ms = 0;
        uint64_t ticket = c->e->ops->ticket(c->e, c->prefix, &queue, 1);

        s = take_once(c, req, job, left, &sleep_ms, err);
        if (s != EMQ_EMPTY)
            break;
        if (sleep_ms > 0) {
            if (left == 0)
                break;
            s = emq__wait_step(c, w, queue, ticket, sleep_ms, err);
            if (s == EMQ_TIMEOUT)
                s = EMQ_OK;
        } else {
            s = EMQ_OK;
        }
    }
    emq__wait_end(w);
    return s;
}

/* A caller that did not name its worker must learn whose claims to ask for. */
static emq_status name_holder(emq_str worker, emq_error *err)
{
    emq_error why = err ? *err : (emq_error){0};

    return emq__fail(err, EMQ_E_IN_DOUBT, why.native, where_take,
                     "a job may be held by worker %.*s now: see its claims; %s",
                     EMQ_STR_ARG(worker), why.text);
}

emq_status emq_take(emq_client *c, emq_str queue, const emq_take_opts *opts, emq_job **out,
                    emq_error *err)
{
    char name[EMQ_WORKER_NAME_MAX + 1];
    emq_take_opts o;

    emq_status s = emq__client_check_queue(c, queue, where_take, err);
    if (s == EMQ_OK && !out)
        s = emq__fail(err, EMQ_E_INVALID, 0, where_take, "out is NULL");
    if (s == EMQ_OK)
        s = check_take_opts(&o, opts, err);
    if (s != EMQ_OK)
        return s;
    if (o.worker.len == 0) {
        emq__worker_name(c, name);
        o.worker = emq_cstr(name);
    }
    struct emq__take_req req = {
        .prefix = c->prefix,
        .queue = queue,
        .take = {.worker = o.worker, .lock_ms = o.lock_ms, .count = 1, .mode = o.mode},
    };
    emq_job *job = emq__job_new();
    if (!job)
        return emq__no_memory(where_take, err);
    s = take_waiting(c, queue, &req, o.wait_ms, job, err);
    if (s == EMQ_OK)
        *out = job;
    else
        emq_job_free(job);
    return s == EMQ_E_IN_DOUBT ? name_holder(o.worker, err) : s;
}

emq_status emq_claims(emq_client *c, emq_str worker, emq_list **out, emq_error *err)
{
    static const char where[] = "emq_claims";
    struct emq__arena mem = {0};
    struct emq__claims_res res;

    emq_status s = emq__client_check(c, where, err);
    if (s == EMQ_OK && !out)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "out is NULL");
    if (s == EMQ_OK)
        s = emq__check_worker(worker, err);
    if (s != EMQ_OK)
        return s;
    struct emq__claims_req req = {.prefix = c->prefix, .worker = worker};
    s = c->e->ops->claims(c->e, &req, &res, &mem, err);
    if (s == EMQ_OK)
        s = emq__list_of_jobs(&mem, res.jobs, res.n, res.now_ms, true, out, where, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_extend(emq_client *c, emq_str queue, emq_str id, emq_str token, int64_t lock_ms,
                      emq_error *err)
{
    static const char where[] = "emq_extend";
    struct emq__arena mem = {0};
    struct emq__extend_res res;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK)
        s = emq__check_lock(&lock_ms, where, err);
    if (s == EMQ_OK)
        s = emq__check_token(token, where, err);
    if (s != EMQ_OK)
        return s;
    struct emq__extend_entry entry = {c->prefix, queue, id, token};
    const struct emq__extend_entry *entries[] = {&entry};
    struct emq__extend_req req = {.entries = entries, .n = 1, .lock_ms = lock_ms};
    s = emq__do_extend(c, &req, &res, &mem, err);
    if (s == EMQ_OK)
        s = res.extended[0].outcome;
    emq__arena_free(&mem);
    return s;
}
