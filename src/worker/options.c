/* SPDX-License-Identifier: MIT
 *
 * emq_worker_opts: every value is checked and copied, so that nothing of the caller is needed after
 * the start, and nothing but this file knows a default.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/names.h"

#include <sched.h>

enum {
    WEIGHT_MAX = 1000,
    CONCURRENCY_MAX = 4096,
    PREFETCH_MAX = 64,
    MARGIN_MIN_MS = 40,
    MARGIN_MAX_MS = 2000
};
#define DAY_MS (INT64_C(24) * 3600 * 1000)

static const char *const where = "emq_worker_start";

/* 0 = the default, -1 = `minus` where allowed (minus != 0), else lo..hi. */
struct range {
    const char *name;
    int64_t value, lo, hi, preset, minus;
};

static emq_status range_take(const struct range *r, int64_t *out, emq_error *err)
{
    if (r->value == 0) {
        *out = r->preset;
    } else if (r->value == -1 && r->minus) {
        *out = -1;
    } else if (r->value < r->lo || r->value > r->hi) {
        return emq__fail(err, EMQ_E_INVALID, 0, where, "%s is %lld: use %lld to %lld%s", r->name,
                         (long long)r->value, (long long)r->lo, (long long)r->hi,
                         r->minus ? ", or -1" : "");
    } else {
        *out = r->value;
    }
    return EMQ_OK;
}

static int64_t cpu_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static emq_status numbers_take(struct emq__config *cfg, const emq_worker_opts *o, emq_error *err)
{
    int64_t concurrency = 0, prefetch = 0;
    const struct {
        struct range r;
        int64_t *out;
    } all[] = {
        {{"lock_ms", o->lock_ms, EMQ_LOCK_MIN_MS, DAY_MS, 30 * 1000, 0}, &cfg->lock_ms},
        {{"stalled_interval_ms", o->stalled_interval_ms, 10, DAY_MS, 5000, 1},
         &cfg->stalled_interval_ms},
        {{"max_stalled", o->max_stalled, 1, INT32_MAX, 3, 1}, &cfg->max_stalled},
        {{"timeout_ms", o->timeout_ms, 1, 365 * DAY_MS, 0, 0}, &cfg->timeout_ms},
        {{"grace_ms", o->grace_ms, 1, DAY_MS, 25 * 1000, 0}, &cfg->grace_ms},
        {{"max_jobs", o->max_jobs, 1, INT64_MAX, 0, 0}, &cfg->max_jobs},
        {{"concurrency", o->concurrency, 1, CONCURRENCY_MAX, 1, 1}, &concurrency},
        {{"prefetch", o->prefetch, 1, PREFETCH_MAX, 0, 0}, &prefetch},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(all); i++) {
        emq_status s = range_take(&all[i].r, all[i].out, err);
        if (s != EMQ_OK)
            return s;
    }
    if (concurrency == -1)
        concurrency = cpu_count();
    if (cfg->max_stalled == -1)
        cfg->max_stalled = 0;
    cfg->concurrency = (int32_t)(concurrency > CONCURRENCY_MAX ? CONCURRENCY_MAX : concurrency);
    cfg->prefetch = (int32_t)prefetch;
    if (o->mode < EMQ_AT_LEAST_ONCE || o->mode > EMQ_FIRE_AND_FORGET)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "mode is %d: use one of emq_mode, 0 to 2",
                         (int)o->mode);
    cfg->mode = o->mode;
    /* What can't be given back must not be taken before a place is free. */
    if (cfg->mode != EMQ_AT_LEAST_ONCE)
        cfg->prefetch = 0;
    cfg->renew_ms = cfg->lock_ms / 3 < EMQ__RENEW_MAX_MS ? cfg->lock_ms / 3 : EMQ__RENEW_MAX_MS;
    cfg->margin_ms = cfg->lock_ms / 10;
    if (cfg->margin_ms < MARGIN_MIN_MS)
        cfg->margin_ms = MARGIN_MIN_MS;
    if (cfg->margin_ms > MARGIN_MAX_MS)
        cfg->margin_ms = MARGIN_MAX_MS;
    return EMQ_OK;
}

static emq_status name_take(emq_worker *w, emq_str name, emq_error *err)
{
    struct emq__config *cfg = &w->cfg;
    char made[EMQ_WORKER_NAME_MAX + 1];

    if (name.len > 0) {
        emq_status s = emq__check_worker(name, err);
        if (s != EMQ_OK)
            return s;
    } else {
        emq__worker_name(w->c, made);
        name = emq_cstr(made);
    }
    cfg->name = emq__arena_str(&cfg->mem, name);
    if (!cfg->name.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "the worker's name");
    return EMQ_OK;
}

static emq_status queue_take(emq_worker *w, size_t i, const emq_worker_queue *in, emq_error *err)
{
    emq_worker_queue q;
    emq_status s = EMQ__OPTS_TAKE(&q, in, where, emq_worker_queue, err);

    if (s == EMQ_OK)
        s = emq__check_queue(q.name, err);
    if (s != EMQ_OK)
        return s;
    if (q.weight < 0 || q.weight > WEIGHT_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "the weight of queue \"%.*s\" is %d: use 0 (strict order) to %d",
                         EMQ_STR_ARG(q.name), (int)q.weight, WEIGHT_MAX);
    for (size_t k = 0; k < i; k++) {
        if (emq__str_eq(w->names[k], q.name))
            return emq__fail(err, EMQ_E_INVALID, 0, where, "queue \"%.*s\" is given twice",
                             EMQ_STR_ARG(q.name));
    }
    if (i > 0 && (q.weight > 0) != w->cfg.weighted)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "queue \"%.*s\" has weight %d: give all queues a weight, or none",
                         EMQ_STR_ARG(q.name), (int)q.weight);
    w->cfg.weighted = q.weight > 0;
    w->names[i] = emq__arena_str(&w->cfg.mem, q.name);
    if (!w->names[i].ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "a queue's name");
    w->queues[i].name = w->names[i];
    w->queues[i].weight = q.weight;
    return EMQ_OK;
}

static emq_status queues_take(emq_worker *w, const emq_worker_opts *o, emq_error *err)
{
    if (o->n_queues < 1 || o->n_queues > EMQ__QUEUES_MAX || !o->queues)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "n_queues is %zu: use 1 to %d", o->n_queues,
                         EMQ__QUEUES_MAX);
    w->n_queues = o->n_queues;
    w->queues = emq__arena_zalloc(&w->cfg.mem, o->n_queues, sizeof *w->queues);
    w->names = emq__arena_zalloc(&w->cfg.mem, o->n_queues, sizeof *w->names);
    if (!w->queues || !w->names)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "%zu queues", o->n_queues);
    for (size_t i = 0; i < o->n_queues; i++) {
        if (!o->queues[i])
            return emq__fail(err, EMQ_E_INVALID, 0, where, "queues[%zu] is NULL", i);
        emq_status s = queue_take(w, i, o->queues[i], err);
        if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}

emq_status emq__worker_options(emq_worker *w, const emq_worker_opts *opts, emq_error *err)
{
    emq_worker_opts o;
    struct emq__config *cfg = &w->cfg;
    emq_status s = EMQ__OPTS_TAKE(&o, opts, where, emq_worker_opts, err);

    if (s != EMQ_OK)
        return s;
    if ((o.handler != NULL) == (o.argv != NULL))
        return emq__fail(err, EMQ_E_INVALID, 0, where, "%s of handler and argv: give one",
                         o.handler ? "both" : "none");
    if (o.argv && (!o.argv[0] || !*o.argv[0]))
        return emq__fail(err, EMQ_E_INVALID, 0, where, "argv names no program");
    if (o.stream && !o.argv)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "stream needs argv");
    cfg->handler = o.handler;
    cfg->argv = o.argv != NULL;
    cfg->user = o.user;
    cfg->on_event = o.on_event;
    cfg->exit_when_empty = o.exit_when_empty != 0;
    cfg->start_paused = o.start_paused != 0;
    s = numbers_take(cfg, &o, err);
    if (s == EMQ_OK)
        s = queues_take(w, &o, err);
    if (s == EMQ_OK)
        s = name_take(w, o.name, err);
    return s;
}
