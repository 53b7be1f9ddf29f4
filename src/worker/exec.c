/* SPDX-License-Identifier: MIT
 *
 * Programs as handlers: opening, leases, closing, and which of the two ways a job is run.
 */
#include "worker/exec_internal.h"

#include "base/error.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static emq_status copy_argv(struct emq__exec *x, const char *const *argv, emq_error *err)
{
    size_t n = 0;

    while (argv[n])
        n++;
    x->argv = emq__arena_zalloc(&x->mem, n + 1, sizeof *x->argv);
    if (!x->argv)
        return emq__no_memory("exec", err);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(argv[i]) + 1;
        x->argv[i] = emq__arena_alloc(&x->mem, len);
        if (!x->argv[i])
            return emq__no_memory("exec", err);
        memcpy(x->argv[i], argv[i], len);
    }
    return EMQ_OK;
}

/* The exit status of a child is thrown away when SIGCHLD is ignored. */
static emq_status check_sigchld(emq_error *err)
{
    struct sigaction now;

    if (sigaction(SIGCHLD, NULL, &now) == 0 &&
        ((!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN) ||
         (now.sa_flags & SA_NOCLDWAIT)))
        return emq__fail(err, EMQ_E_INVALID, 0, "exec",
                         "SIGCHLD is ignored in this process, so the exit status of a program is "
                         "lost: set it to SIG_DFL before the worker is started");
    return EMQ_OK;
}

static emq_status open_places(struct emq__exec *x, emq_error *err)
{
    size_t n = (size_t)x->concurrency;
    void *stacks = mmap(NULL, n * EMQ__EXEC_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (stacks == MAP_FAILED)
        return emq__no_memory("exec", err);
    x->stacks = stacks;
    x->places = calloc(n, sizeof *x->places);
    if (!x->places)
        return emq__no_memory("exec", err);
    for (size_t i = 0; i < n; i++) {
        x->places[i].chunk = malloc(EMQ__EXEC_CHUNK);
        if (!x->places[i].chunk)
            return emq__no_memory("exec", err);
        int rc = pthread_mutex_init(&x->places[i].mu, NULL);
        if (rc != 0) {
            free(x->places[i].chunk);
            x->places[i].chunk = NULL;
            return emq__fail(err, EMQ_E_SYSTEM, rc, "exec", "no mutex");
        }
    }
    return EMQ_OK;
}

static void free_all(struct emq__exec *x)
{
    for (int32_t i = 0; x->places && i < x->concurrency && x->places[i].chunk; i++) {
        (void)pthread_mutex_destroy(&x->places[i].mu);
        free(x->places[i].chunk);
    }
    free(x->places);
    if (x->stacks)
        (void)munmap(x->stacks, (size_t)x->concurrency * EMQ__EXEC_STACK);
    emq__arena_free(&x->mem);
    free(x);
}

emq_status emq__exec_open(struct emq__exec **out, const struct emq__exec_config *cfg,
                          emq_error *err)
{
    struct emq__exec *x;

    if (!cfg->argv || cfg->concurrency <= 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "exec", "no command, or no places for it");
    x = calloc(1, sizeof *x);
    if (!x)
        return emq__no_memory("exec", err);
    x->url = cfg->url;
    x->prefix = cfg->prefix;
    x->worker = cfg->worker;
    x->concurrency = cfg->concurrency;
    x->stream = cfg->stream;
    x->log = cfg->log;
    x->pid = getpid();

    emq_status s = check_sigchld(err);
    if (s == EMQ_OK)
        s = emq__exec_find(cfg->argv[0], &x->mem, &x->path, err);
    if (s == EMQ_OK)
        s = copy_argv(x, cfg->argv, err);
    if (s == EMQ_OK)
        s = emq__exec_env_copy(x, err);
    if (s == EMQ_OK)
        s = open_places(x, err);
    if (s == EMQ_OK && x->stream)
        s = emq__stream_open(x, err);
    if (s == EMQ_OK)
        s = emq__supervisor_open(&x->supervisor, x->concurrency, &x->log, err);
    if (s != EMQ_OK) {
        emq__stream_close(x);
        free_all(x);
        return s;
    }
    *out = x;
    return EMQ_OK;
}

void emq__exec_close(struct emq__exec *x)
{
    if (!x)
        return;
    emq__stream_close(x);
    if (x->pid == getpid())
        emq__supervisor_close(x->supervisor);
    else
        emq__supervisor_drop(x->supervisor); /* a fork: the processes are its parent's */
    free_all(x);
}

/* ---- leases ------------------------------------------------------------------------------ */

void emq__exec_begin(struct emq__exec *x, struct emq__slot *s)
{
    int index = emq__slot_index(s);
    struct emq__place *at = &x->places[index];

    /* The fence first: a renewal from here on comes as a lease, one before is in safe_until. */
    pthread_mutex_lock(&at->mu);
    at->fence = emq_job_fence(emq__slot_job(s));
    emq__ward_until(x->supervisor, index, emq__slot_safe_until(s).us);
    pthread_mutex_unlock(&at->mu);
}

void emq__exec_end(struct emq__exec *x, struct emq__slot *s)
{
    int index = emq__slot_index(s);
    struct emq__place *at = &x->places[index];

    pthread_mutex_lock(&at->mu);
    at->fence = 0;
    emq__ward_until(x->supervisor, index, INT64_MAX); /* one that is kept has no job now */
    pthread_mutex_unlock(&at->mu);
}

void emq__exec_lease(struct emq__exec *x, int index, int64_t fence, struct emq__mono safe_until)
{
    if (index < 0 || index >= x->concurrency)
        return;
    struct emq__place *at = &x->places[index];
    pthread_mutex_lock(&at->mu);
    if (at->fence == fence && fence != 0)
        emq__ward_extend(x->supervisor, index, safe_until.us);
    pthread_mutex_unlock(&at->mu);
}

/* ---- running ----------------------------------------------------------------------------- */

emq_status emq__exec_not_started(const emq_error *why, struct emq__exec_result *out, emq_error *err)
{
    if (!emq__child_unstartable(why->native))
        return emq__fail(err, EMQ_E_SYSTEM, why->native, "exec", "%s", why->text);
    out->kind = EMQ__EXEC_UNSTARTABLE;
    out->reason = emq__arena_str(&out->mem, emq_cstr(why->text));
    return out->reason.ptr ? EMQ_OK : emq__no_memory("exec", err);
}

emq_status emq__exec_killed(struct emq__slot *s, const struct emq__report *r,
                            struct emq__exec_result *out, emq_error *err)
{
    if (emq__slot_cancelled(s) == 0)
        return emq__fail(
            err, EMQ_E_SYSTEM, 0, "exec",
            "the program was ended at the end of its lock, before its renewal was known");
    emq__exit_stopped(r, out);
    return EMQ_OK;
}

emq_status emq__exec_run(struct emq__exec *x, struct emq__slot *s, struct emq__exec_result *out,
                         emq_error *err)
{
    *out = (struct emq__exec_result){.retry_after_ms = -1, .exit_status = -1, .mem = out->mem};
    if (emq__slot_cancelled(s) != 0) {
        out->kind = EMQ__EXEC_STOPPED; /* nothing is begun that would have to be ended */
        return EMQ_OK;
    }
    /* Nothing runs unguarded. */
    emq_status st = emq__supervisor_check(x->supervisor, err);
    if (st != EMQ_OK)
        return st;
    return x->stream ? emq__stream_run(x, s, out, err) : emq__exec_run_once(x, s, out, err);
}
