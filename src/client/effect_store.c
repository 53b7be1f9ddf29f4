/* SPDX-License-Identifier: MIT
 *
 * The transactional effect: what commits with the acknowledgement in the queue's own store. It goes to the
 * store's own engine, past its decorators, under a receipt session like every act: a lost answer is asked for
 * again, and an effect that was committed is not made again for it.
 */
#include "client/effect.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "engine/redis/effect.h"
#include "engine/sqlite/effect.h"

enum { LIMIT_MAX_MS = 1000, LIMIT_OF_LOCK = 4 };

struct effect {
    emq_client *c;
    emq_job *job;
    const char *where;
    emq_effect_opts o;
    struct emq__arena mem;
    struct emq__settle_entry entry;
    struct emq__effect_req req;
    struct emq__effect_res res;
    /* one of the two */
    emq_effect_sqlite_fn fn;
    void *arg;
    const struct emq__redis_command *commands;
    size_t n;
};

static void acting(const struct effect *x)
{
    if (x->job->lender)
        x->job->lender->acting(x->job);
}

/* The lock was as long as this when the job was handed out, or renewed to it. */
static int64_t default_limit(const emq_job *job)
{
    int64_t ms = job->rec.lock_left_ms / LIMIT_OF_LOCK;

    return ms > 0 && ms < LIMIT_MAX_MS ? ms : LIMIT_MAX_MS;
}

static emq_status check_opts(struct effect *x, const emq_effect_opts *opts, emq_error *err)
{
    emq_status s = EMQ__OPTS_TAKE(&x->o, opts, x->where, emq_effect_opts, err);

    if (s == EMQ_OK)
        s = emq__check_step(x->o.step, x->where, err);
    if (s == EMQ_OK)
        s = emq__check_size(x->o.result, EMQ_RESULT_MAX, x->where, "the result", err);
    if (s == EMQ_OK)
        s = emq__check_span(x->o.limit_ms, x->where, "limit_ms", err);
    if (s == EMQ_OK)
        s = emq__effect_keep(x->c, emq__job_opts(x->job), &x->o.keep_ms, x->where, err);
    if (x->o.limit_ms == 0)
        x->o.limit_ms = default_limit(x->job);
    return s;
}

static emq_status prepare(struct effect *x, const char *store, const emq_effect_opts *opts,
                          emq_error *err)
{
    emq_status s = emq__client_check(x->c, x->where, err);

    if (s == EMQ_OK && !x->job)
        s = emq__fail(err, EMQ_E_INVALID, 0, x->where, "job is NULL");
    if (s == EMQ_OK && (x->job->rec.token.len == 0 || x->job->rec.mode == EMQ_FIRE_AND_FORGET))
        s = emq__fail(err, EMQ_E_INVALID, 0, x->where,
                      "the job is not held under a lock: take it, at-least-once or at-most-once");
    if (s == EMQ_OK && !emq__str_is(emq_cstr(x->c->base->ops->name), store))
        s = emq__fail(err, EMQ_E_INVALID, 0, x->where,
                      "this queue's store is \"%s\", so the effect can't commit with the "
                      "acknowledgement: see echomq/effect.h for one elsewhere",
                      x->c->base->ops->name);
    if (s == EMQ_OK)
        s = check_opts(x, opts, err);
    if (s != EMQ_OK)
        return s;
    const emq_settle_opts how = {
        .size = sizeof how, .kind = EMQ_SETTLE_COMPLETED, .value = x->o.result};
    const struct emq__job *j = &x->job->rec;
    emq__settle_entry_make(j, emq__job_opts(x->job), j->token, &how, 0, &x->mem, &x->entry);
    x->req = (struct emq__effect_req){.prefix = j->prefix,
                                      .queue = j->queue,
                                      .entry = &x->entry,
                                      .step = x->o.step,
                                      .keep_ms = x->o.keep_ms};
    return EMQ_OK;
}

static emq_status run(struct effect *x, emq__send_fn send, emq_error *err)
{
    emq_status s = emq__do_send(x->c, &x->req.call, x->where, send, x, err);

    if (s == EMQ_OK)
        s = x->res.outcome;
    bool over = s == EMQ_OK || (s == EMQ_FAILED && x->res.state == EMQ_FAILED_STATE);
    if (over && x->job->lender)
        x->job->lender->ended(x->job, s == EMQ_OK ? EMQ_COMPLETED_STATE : EMQ_FAILED_STATE);
    return s;
}

/* ---- SQLite ------------------------------------------------------------------------------ */

static int call_fn(struct sqlite3 *db, void *user)
{
    const struct effect *x = user;
    int rc = x->fn(db, x->arg);

    if (rc == 0)
        acting(x);
    return rc;
}

static emq_status send_sqlite(void *user, emq_error *err)
{
    struct effect *x = user;

    return emq__sqlite_effect(x->c->base, &x->req, call_fn, x, x->o.limit_ms, &x->res, &x->mem,
                              err);
}

emq_status emq_effect_sqlite(emq_client *c, emq_job *job, emq_effect_sqlite_fn fn, void *arg,
                             const emq_effect_opts *opts, emq_error *err)
{
    struct effect x = {.c = c, .job = job, .where = "emq_effect_sqlite", .fn = fn, .arg = arg};
    emq_status s = prepare(&x, "sqlite", opts, err);

    if (s == EMQ_OK && !fn)
        s = emq__fail(err, EMQ_E_INVALID, 0, x.where, "fn is NULL");
    if (s == EMQ_OK)
        s = run(&x, send_sqlite, err);
    emq__arena_free(&x.mem);
    return s;
}

/* ---- Redis ------------------------------------------------------------------------------- */

static emq_status send_redis(void *user, emq_error *err)
{
    struct effect *x = user;

#ifdef EMQ_HAVE_REDIS
    return emq__redis_effect(x->c->base, &x->req, x->commands, x->n, &x->res, &x->mem, err);
#else
    return emq__fail(err, EMQ_E_INVALID, 0, x->where, "this build knows no Redis");
#endif
}

static emq_status take_commands(struct effect *x, const emq_redis_command *const *commands,
                                size_t n, emq_error *err)
{
    struct emq__redis_command *out;
    size_t bytes = 0;

    if (n == 0 || n > EMQ_REDIS_COMMANDS_MAX || !commands)
        return emq__fail(err, EMQ_E_INVALID, 0, x->where, "%zu commands%s: allowed are 1 to %d", n,
                         commands ? "" : " at NULL", EMQ_REDIS_COMMANDS_MAX);
    out = emq__arena_zalloc(&x->mem, n, sizeof *out);
    if (!out)
        return emq__no_memory(x->where, err);
    for (size_t i = 0; i < n; i++) {
        emq_redis_command one;
        if (!commands[i])
            return emq__fail(err, EMQ_E_INVALID, 0, x->where, "command %zu is NULL", i + 1);
        emq_status s = EMQ__OPTS_TAKE(&one, commands[i], x->where, emq_redis_command, err);
        if (s != EMQ_OK)
            return s;
        if (one.n == 0 || !one.args)
            return emq__fail(err, EMQ_E_INVALID, 0, x->where, "command %zu has no words", i + 1);
        for (size_t j = 0; j < one.n; j++) {
            if (one.args[j].len && !one.args[j].ptr)
                return emq__fail(err, EMQ_E_INVALID, 0, x->where,
                                 "command %zu: word %zu has %zu bytes at NULL", i + 1, j + 1,
                                 one.args[j].len);
            if (one.args[j].len > EMQ_REDIS_COMMAND_BYTES_MAX - bytes)
                return emq__fail(err, EMQ_E_INVALID, 0, x->where,
                                 "the commands have more than %d bytes",
                                 EMQ_REDIS_COMMAND_BYTES_MAX);
            bytes += one.args[j].len;
        }
        out[i] = (struct emq__redis_command){one.args, one.n};
    }
    x->commands = out;
    x->n = n;
    return EMQ_OK;
}

emq_status emq_effect_redis(emq_client *c, emq_job *job, const emq_redis_command *const *commands,
                            size_t n, const emq_effect_opts *opts, emq_error *err)
{
    struct effect x = {.c = c, .job = job, .where = "emq_effect_redis"};
    emq_status s = prepare(&x, "redis", opts, err);

    if (s == EMQ_OK)
        s = take_commands(&x, commands, n, err);
    if (s == EMQ_OK) {
        acting(&x);
        s = run(&x, send_redis, err);
    }
    emq__arena_free(&x.mem);
    return s;
}
