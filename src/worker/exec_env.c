/* SPDX-License-Identifier: MIT
 *
 * The environment of a program: that of the worker when it was opened, and what the program is told
 * about its job. The environment of this process is read once and never written: other threads may
 * use it.
 */
#include "worker/exec_internal.h"

#include <inttypes.h>
#include <unistd.h>

/* Set by us, or (the last two) meant for the worker alone. */
static const char *const ours[] = {
    "EMQ_URL",     "EMQ_PREFIX",          "EMQ_QUEUE",          "EMQ_WORKER",
    "EMQ_JOB_ID",  "EMQ_JOB_NAME",        "EMQ_ATTEMPT",        "EMQ_FENCE",
    "EMQ_TOKEN",   "EMQ_IDEMPOTENCY_KEY", "EMQ_DEADLINE_AT_MS", "EMQ_CRASH_AT",
    "EMQ_STOP_AT",
};
enum { OURS_MAX = 11 };

static bool is_ours(const char *entry)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(ours); i++) {
        size_t n = strlen(ours[i]);
        if (strncmp(entry, ours[i], n) == 0 && entry[n] == '=')
            return true;
    }
    return false;
}

emq_status emq__exec_env_copy(struct emq__exec *x, emq_error *err)
{
    size_t n = 0;

    while (environ && environ[n])
        n++;
    x->env = emq__arena_zalloc(&x->mem, n + 1, sizeof *x->env);
    if (!x->env)
        return emq__no_memory("exec", err);
    for (size_t i = 0; i < n; i++) {
        if (is_ours(environ[i]))
            continue;
        char *copy = emq__arena_alloc(&x->mem, strlen(environ[i]) + 1);
        if (!copy)
            return emq__no_memory("exec", err);
        memcpy(copy, environ[i], strlen(environ[i]) + 1);
        x->env[x->n_env++] = copy;
    }
    return EMQ_OK;
}

struct env {
    char **list;
    size_t n;
    struct emq__arena *mem;
    bool failed;
};

static void put(struct env *e, const char *name, emq_str value)
{
    size_t n = strlen(name);
    char *entry = emq__arena_alloc(e->mem, n + value.len + 2);

    if (!entry) {
        e->failed = true;
        return;
    }
    memcpy(entry, name, n);
    entry[n] = '=';
    if (value.len)
        memcpy(entry + n + 1, value.ptr, value.len);
    entry[n + 1 + value.len] = '\0'; /* a NUL inside ends the value: an environment can't hold it */
    e->list[e->n++] = entry;
}

static void put_i64(struct env *e, const char *name, int64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value);

    put(e, name, emq_strn(digits, n > 0 ? (size_t)n : 0));
}

char **emq__exec_env(const struct emq__exec *x, const emq_job *job, int64_t deadline_at_ms,
                     struct emq__arena *mem)
{
    struct env e = {.mem = mem};

    e.list = emq__arena_zalloc(mem, x->n_env + OURS_MAX + 1, sizeof *e.list);
    if (!e.list)
        return NULL;
    if (x->n_env)
        memcpy(e.list, x->env, x->n_env * sizeof *e.list);
    e.n = x->n_env;
    put(&e, "EMQ_URL", x->url);
    put(&e, "EMQ_PREFIX", x->prefix);
    put(&e, "EMQ_WORKER", x->worker);
    if (job) {
        put(&e, "EMQ_QUEUE", emq_job_queue(job));
        put(&e, "EMQ_JOB_ID", emq_job_id(job));
        put(&e, "EMQ_JOB_NAME", emq_job_name(job));
        put_i64(&e, "EMQ_ATTEMPT", (int64_t)emq_job_attempts_made(job) + 1);
        put_i64(&e, "EMQ_FENCE", emq_job_fence(job));
        put(&e, "EMQ_TOKEN", emq_job_token(job));
        put(&e, "EMQ_IDEMPOTENCY_KEY", emq_job_idempotency_key(job));
        put_i64(&e, "EMQ_DEADLINE_AT_MS", deadline_at_ms);
    }
    return e.failed ? NULL : e.list;
}
