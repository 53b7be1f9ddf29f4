/* SPDX-License-Identifier: MIT
 *
 * Administration: acts on one job, settings of a queue, and bulk forms in bounded slices. A bulk
 * call never does more than the jobs that were there when it began, whatever is added meanwhile.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/names.h"

/* Jobs of one bulk act: short enough not to hold up other writers of the store. */
enum { BULK_SLICE = 250, SWEEP_SLICE = 250, MAX_STALLED_DEFAULT = 3 };
enum { CANCEL_RESTARTS = 20 };
#define CONCURRENCY_MAX (1LL << 53) /* whole numbers that any BullMQ client reads exactly */

/* ---- one job ----------------------------------------------------------------------------- */

static emq_status change_one(emq_client *c, emq_str queue, emq_str id, struct emq__change change,
                             int32_t *out_state, const char *where, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__change_res res;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s != EMQ_OK)
        return s;
    change.admin = c->who;
    struct emq__change_req req = {
        .prefix = c->prefix, .queue = queue, .ids = &id, .n = 1, .change = change};
    s = emq__do_change(c, &req, &res, &mem, err);
    if (s == EMQ_OK)
        s = res.changed[0].outcome;
    if (s == EMQ_OK && out_state)
        *out_state = res.changed[0].state;
    emq__arena_free(&mem);
    return s;
}

static emq_status retry_change(int flags, const char *where, struct emq__change *out,
                               emq_error *err)
{
    enum { EFFECTS = EMQ_RETRY_KEEP_EFFECT | EMQ_RETRY_REDO_EFFECT };

    *out = (struct emq__change){
        .kind = EMQ__CHANGE_RETRY,
        .reset_attempts = (flags & EMQ_RETRY_RESET_ATTEMPTS) != 0,
        .effects = flags & EMQ_RETRY_KEEP_EFFECT   ? EMQ__EFFECTS_KEEP
                   : flags & EMQ_RETRY_REDO_EFFECT ? EMQ__EFFECTS_REDO
                                                   : EMQ__EFFECTS_ASK,
    };
    if (flags & ~(EMQ_RETRY_RESET_ATTEMPTS | EFFECTS))
        return emq__fail(err, EMQ_E_INVALID, 0, where, "flags is 0x%x: only 0x%x are known",
                         (unsigned)flags, (unsigned)(EMQ_RETRY_RESET_ATTEMPTS | EFFECTS));
    if ((flags & EFFECTS) == EFFECTS)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "flags is 0x%x: an effect can't be kept and redone", (unsigned)flags);
    return EMQ_OK;
}

emq_status emq_retry(emq_client *c, emq_str queue, emq_str id, int flags, emq_error *err)
{
    static const char where[] = "emq_retry";
    struct emq__change change;
    emq_status s = retry_change(flags, where, &change, err);

    return s == EMQ_OK ? change_one(c, queue, id, change, NULL, where, err) : s;
}

emq_status emq_promote(emq_client *c, emq_str queue, emq_str id, emq_error *err)
{
    struct emq__change change = {.kind = EMQ__CHANGE_PROMOTE};

    return change_one(c, queue, id, change, NULL, "emq_promote", err);
}

emq_status emq_remove(emq_client *c, emq_str queue, emq_str id, emq_error *err)
{
    struct emq__change change = {.kind = EMQ__CHANGE_REMOVE};

    return change_one(c, queue, id, change, NULL, "emq_remove", err);
}

emq_status emq_cancel(emq_client *c, emq_str queue, emq_str id, int32_t *out_state, emq_error *err)
{
    struct emq__change change = {.kind = EMQ__CHANGE_CANCEL};

    return change_one(c, queue, id, change, out_state, "emq_cancel", err);
}

emq_status emq_set_priority(emq_client *c, emq_str queue, emq_str id, int32_t priority, int lifo,
                            emq_error *err)
{
    static const char where[] = "emq_set_priority";
    struct emq__change change = {
        .kind = EMQ__CHANGE_PRIORITY, .priority = priority, .lifo = lifo != 0};

    if (priority < 0 || priority > EMQ_PRIORITY_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "priority is %ld: allowed are 0 to %d",
                         (long)priority, EMQ_PRIORITY_MAX);
    return change_one(c, queue, id, change, NULL, where, err);
}

emq_status emq_set_delay(emq_client *c, emq_str queue, emq_str id, int64_t delay_ms, emq_error *err)
{
    static const char where[] = "emq_set_delay";
    struct emq__change change = {.kind = EMQ__CHANGE_DELAY, .delay_ms = delay_ms};
    emq_status s = emq__check_span(delay_ms, where, "delay_ms", err);

    return s == EMQ_OK ? change_one(c, queue, id, change, NULL, where, err) : s;
}

/* ---- settings of a queue ----------------------------------------------------------------- */

static emq_status set_meta(emq_client *c, emq_str queue, const char *field, emq_str value,
                           const char *where, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__meta_field set = {emq_cstr(field), value};
    struct emq__meta_res res;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s != EMQ_OK)
        return s;
    struct emq__meta_req req = {
        .prefix = c->prefix, .queue = queue, .admin = c->who, .set = &set, .n_set = 1};
    s = emq__do_meta(c, &req, &res, &mem, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_pause(emq_client *c, emq_str queue, emq_error *err)
{
    return set_meta(c, queue, "paused", EMQ_STR_LIT("1"), "emq_pause", err);
}

emq_status emq_resume(emq_client *c, emq_str queue, emq_error *err)
{
    return set_meta(c, queue, "paused", emq_strn("", 0), "emq_resume", err);
}

emq_status emq_set_concurrency(emq_client *c, emq_str queue, int64_t limit, emq_error *err)
{
    static const char where[] = "emq_set_concurrency";
    char text[24] = "";

    if (limit < 0 || limit > CONCURRENCY_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "limit is %lld: allowed are 1 to %lld; 0 removes the limit",
                         (long long)limit, CONCURRENCY_MAX);
    if (limit > 0)
        (void)snprintf(text, sizeof text, "%lld", (long long)limit);
    return set_meta(c, queue, "concurrency", emq_cstr(text), where, err);
}

/* ---- bulk -------------------------------------------------------------------------------- */

/* How many jobs of a state there are now: the bound of a bulk call. */
static emq_status count_of(emq_client *c, emq_str queue, int32_t state, int64_t *out,
                           emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__stats_req req = {.prefix = c->prefix, .queue = queue};
    struct emq__stats_res res;
    emq_status s = c->e->ops->stats(c->e, &req, &res, &mem, err);

    emq__arena_free(&mem);
    if (s == EMQ_OK)
        *out = res.count[state];
    return s;
}

/* Slices until done or until max jobs (0 = as many as there are now). *count grows. */
static emq_status bulk(emq_client *c, struct emq__bulk_req *req, int64_t max, int64_t *count,
                       emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__bulk_res res = {.more = true};
    int64_t left = 0;

    emq_status s = count_of(c, req->queue, req->state, &left, err);
    if (max > 0 && max < left)
        left = max;
    req->prefix = c->prefix;
    req->change.admin = c->who;
    while (s == EMQ_OK && res.more && left > 0) {
        req->limit = left < BULK_SLICE ? (int32_t)left : BULK_SLICE;
        emq__arena_free(&mem);
        s = emq__do_bulk(c, req, &res, &mem, err);
        if (s != EMQ_OK)
            break;
        /* A slice that did nothing will not do more when it is repeated. */
        if (res.count == 0)
            break;
        *count += res.count;
        left -= res.count;
    }
    emq__arena_free(&mem);
    return s;
}

static void put_count(int64_t *out, int64_t count)
{
    if (out)
        *out = count;
}

/* The whole of a bulk call over one state. */
static emq_status bulk_call(emq_client *c, struct emq__bulk_req *req, int64_t max,
                            int64_t *out_count, emq_error *err)
{
    int64_t count = 0;
    emq_status s = bulk(c, req, max, &count, err);

    if (s == EMQ_OK)
        put_count(out_count, count);
    return s;
}

emq_status emq_drain(emq_client *c, emq_str queue, int with_delayed, int64_t *out_count,
                     emq_error *err)
{
    static const int32_t states[] = {EMQ_WAITING, EMQ_PRIORITIZED, EMQ_DELAYED};
    size_t n = with_delayed ? 3 : 2;
    int64_t count = 0;

    emq_status s = emq__client_check_queue(c, queue, "emq_drain", err);
    for (size_t i = 0; s == EMQ_OK && i < n; i++) {
        struct emq__bulk_req req = {
            .queue = queue, .change = {.kind = EMQ__CHANGE_REMOVE}, .state = states[i]};
        s = bulk(c, &req, 0, &count, err);
    }
    if (s == EMQ_OK)
        put_count(out_count, count);
    return s;
}

emq_status emq_clean(emq_client *c, emq_str queue, int state, int64_t older_ms, int64_t limit,
                     int64_t *out_count, emq_error *err)
{
    static const char where[] = "emq_clean";

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && (state < 1 || state > EMQ_STATE_COUNT))
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "state is %d: allowed are 1 to %d", state,
                      EMQ_STATE_COUNT);
    if (s == EMQ_OK)
        s = emq__check_span(older_ms, where, "older_ms", err);
    if (s == EMQ_OK && limit < 0)
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "limit is %lld: allowed are 1 and more; 0 means all", (long long)limit);
    if (s != EMQ_OK)
        return s;
    struct emq__bulk_req req = {
        .queue = queue,
        .change = {.kind = EMQ__CHANGE_REMOVE},
        .state = state,
        .older_ms = older_ms,
        .event = true,
    };
    return bulk_call(c, &req, limit, out_count, err);
}

emq_status emq_retry_all(emq_client *c, emq_str queue, int state, int flags, int64_t *out_count,
                         emq_error *err)
{
    static const char where[] = "emq_retry_all";
    struct emq__change change;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK)
        s = retry_change(flags, where, &change, err);
    if (s == EMQ_OK && state != EMQ_FAILED_STATE && state != EMQ_COMPLETED_STATE)
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "state is %d (%s): only failed and completed jobs can be retried", state,
                      emq_state_name(state));
    if (s != EMQ_OK)
        return s;
    struct emq__bulk_req req = {.queue = queue, .change = change, .state = state};
    return bulk_call(c, &req, 0, out_count, err);
}

emq_status emq_promote_all(emq_client *c, emq_str queue, int64_t *out_count, emq_error *err)
{
    emq_status s = emq__client_check_queue(c, queue, "emq_promote_all", err);

    if (s != EMQ_OK)
        return s;
    struct emq__bulk_req req = {
        .queue = queue, .change = {.kind = EMQ__CHANGE_PROMOTE}, .state = EMQ_DELAYED};
    return bulk_call(c, &req, 0, out_count, err);
}

/* Active jobs stay where they are when their owners are asked to stop: each slice goes on behind
 * the last one. When that job has ended meanwhile, from the start again; asking twice does no harm.
 * */
static emq_status cancel_active(emq_client *c, emq_str queue, int64_t *out_count, emq_error *err)
{
    int64_t count = 0;
    struct emq__arena mem = {0};
    struct emq__bulk_res res = {.more = true};
    char last[EMQ_ID_MAX];
    struct emq__bulk_req req = {
        .prefix = c->prefix,
        .queue = queue,
        .change = {.kind = EMQ__CHANGE_CANCEL, .admin = c->who},
        .state = EMQ_ACTIVE,
        .limit = BULK_SLICE,
    };
    int restarts = 0;
    emq_status s = EMQ_OK;

    while (s == EMQ_OK && res.more) {
        s = emq__do_bulk(c, &req, &res, &mem, err);
        if (s == EMQ_NOT_FOUND && req.after_id.len && restarts++ < CANCEL_RESTARTS) {
            req.after_id = emq_strn("", 0);
            count = 0;
            res.more = true;
            s = EMQ_OK;
        } else if (s == EMQ_OK) {
            count += res.count;
            res.more =
                res.more && res.count > 0 && res.last_id.len > 0 && res.last_id.len <= sizeof last;
            if (res.more) {
                memcpy(last, res.last_id.ptr, res.last_id.len);
                req.after_id = emq_strn(last, res.last_id.len);
            }
        }
        emq__arena_free(&mem);
    }
    if (s == EMQ_NOT_FOUND)
        return emq__fail(
            err, EMQ_E_BUSY, 0, "emq_cancel_all",
            "the active jobs of the queue change too fast: some were not asked to stop; "
            "pause the queue and try again");
    if (s == EMQ_OK)
        put_count(out_count, count);
    return s;
}

emq_status emq_cancel_all(emq_client *c, emq_str queue, int state, int64_t *out_count,
                          emq_error *err)
{
    static const char where[] = "emq_cancel_all";

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && (state < EMQ_WAITING || state > EMQ_WAITING_CHILDREN))
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "state is %d (%s): only jobs that are not finished can be cancelled", state,
                      emq_state_name(state));
    if (s != EMQ_OK)
        return s;
    if (state == EMQ_ACTIVE)
        return cancel_active(c, queue, out_count, err);
    struct emq__bulk_req req = {
        .queue = queue, .change = {.kind = EMQ__CHANGE_CANCEL}, .state = state};
    return bulk_call(c, &req, 0, out_count, err);
}

emq_status emq_obliterate(emq_client *c, emq_str queue, int force, int64_t *out_count,
                          emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__obliterate_res res = {.more = true};
    int64_t count = 0;

    emq_status s = emq__client_check_queue(c, queue, "emq_obliterate", err);
    while (s == EMQ_OK && res.more) {
        struct emq__obliterate_req req = {
            .prefix = c->prefix, .queue = queue, .force = force != 0, .limit = BULK_SLICE};
        s = emq__do_obliterate(c, &req, &res, &mem, err);
        if (s == EMQ_OK)
            count += res.count;
        emq__arena_free(&mem);
    }
    if (s == EMQ_OK)
        put_count(out_count, count);
    return s;
}

emq_status emq_sweep(emq_client *c, emq_str queue, const emq_sweep_opts *opts,
                     int64_t *out_recovered, int64_t *out_failed, emq_error *err)
{
    static const char where[] = "emq_sweep";
    struct emq__arena mem = {0};
    struct emq__sweep_res res = {.more = true};
    emq_sweep_opts o;
    int64_t recovered = 0, failed = 0;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK)
        s = EMQ__OPTS_TAKE(&o, opts, where, emq_sweep_opts, err);
    if (s == EMQ_OK && o.max_stalled < -1)
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "max_stalled is %lld: allowed are 1 and more, 0 (means %d) and -1 (none)",
                      (long long)o.max_stalled, MAX_STALLED_DEFAULT);
    while (s == EMQ_OK && res.more) {
        struct emq__sweep_req req = {
            .prefix = c->prefix,
            .queue = queue,
            .max_stalled = o.max_stalled == 0  ? MAX_STALLED_DEFAULT
                           : o.max_stalled < 0 ? 0
                                               : o.max_stalled,
            .limit = SWEEP_SLICE,
        };
        s = emq__do_sweep(c, &req, &res, &mem, err);
        if (s == EMQ_OK) {
            recovered += (int64_t)res.n_recovered;
            failed += (int64_t)res.n_failed;
        }
        emq__arena_free(&mem);
    }
    if (s == EMQ_OK) {
        put_count(out_recovered, recovered);
        put_count(out_failed, failed);
    }
    return s;
}

/* ---- producer dedup, wake ---------------------------------------------------------------- */

emq_status emq_dedup_show(emq_client *c, emq_str queue, emq_str dedup_id,
                          char out_owner[EMQ_ID_MAX + 1], int64_t *out_ttl_ms, emq_error *err)
{
    static const char where[] = "emq_dedup_show";
    struct emq__arena mem = {0};
    struct emq__dedup_res res;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK)
        s = emq__check_dedup_id(dedup_id, err);
    if (s != EMQ_OK)
        return s;
    struct emq__dedup_req req = {.prefix = c->prefix, .queue = queue, .dedup_id = dedup_id};
    s = c->e->ops->dedup(c->e, &req, &res, &mem, err); /* a read: no receipt */
    if (s == EMQ_OK && out_owner) {
        size_t n = res.owner.len < EMQ_ID_MAX ? res.owner.len : EMQ_ID_MAX;
        if (n)
            memcpy(out_owner, res.owner.ptr, n);
        out_owner[n] = '\0';
    }
    if (s == EMQ_OK && out_ttl_ms)
        *out_ttl_ms = res.ttl_ms;
    emq__arena_free(&mem);
    return s;
}

emq_status emq_dedup_release(emq_client *c, emq_str queue, emq_str dedup_id, emq_str owner,
                             emq_error *err)
{
    static const char where[] = "emq_dedup_release";
    struct emq__arena mem = {0};
    struct emq__dedup_res res;

    emq_status s = emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK)
        s = emq__check_dedup_id(dedup_id, err);
    if (s == EMQ_OK && owner.len)
        s = emq__check_id(owner, err);
    if (s != EMQ_OK)
        return s;
    struct emq__dedup_req req = {
        .prefix = c->prefix, .queue = queue, .dedup_id = dedup_id, .owner = owner, .release = true};
    s = emq__do_dedup(c, &req, &res, &mem, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_wake(emq_client *c, emq_str queue, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__wake_res res;

    emq_status s = emq__client_check_queue(c, queue, "emq_wake", err);
    if (s != EMQ_OK)
        return s;
    struct emq__wake_req req = {.prefix = c->prefix, .queue = queue};
    s = c->e->ops->wake(c->e, &req, &res, &mem, err);
    emq__arena_free(&mem);
    return s;
}
