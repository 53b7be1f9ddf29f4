/* SPDX-License-Identifier: MIT
 *
 * The public face of the worker and the life of its threads.
 *
 * The order of the end: the pump goes last of those who work, when no job is in hand; it then lets go
 * the keeper (renewing until the last settlement), the housekeeper and the slots. The memory goes when
 * all threads have been joined.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "client/opts_size.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- threads ----------------------------------------------------------------------------- */

void emq__thread_end(emq_worker *w)
{
    if (atomic_fetch_sub(&w->alive, 1) == 1)
        emq__wake_ring(&w->end_wake);
}

static emq_status thread_start(struct emq__thread *t, void *(*fn)(void *), const char *name,
                               emq_error *err)
{
    emq_worker *w = t->w;

    atomic_fetch_add(&w->alive, 1);
    int rc = pthread_create(&t->id, NULL, fn, t);
    if (rc != 0) {
        atomic_fetch_sub(&w->alive, 1);
        return emq__fail(err, EMQ_E_SYSTEM, rc, "emq_worker_start",
                         "thread %s can't be started: raise the limit of processes or lower the "
                         "concurrency (%d)",
                         name, (int)w->cfg.concurrency);
    }
    t->started = true;
    (void)pthread_setname_np(t->id, name);
    return EMQ_OK;
}

/* Signals are blocked before the first thread exists, so that none of ours ever takes one. */
static emq_status threads_start(emq_worker *w, emq_error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc != 0)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "emq_worker_start", "blocking signals");
    emq_status s = EMQ_OK;
    for (int32_t i = 0; s == EMQ_OK && i < w->cfg.concurrency; i++)
        s = thread_start(&w->threads[i], emq__slot_main, "emq-slot", err);
    if (s == EMQ_OK)
        s = thread_start(&w->keeper_thread, emq__keeper_main, "emq-keeper", err);
    if (s == EMQ_OK)
        s = thread_start(&w->house_thread, emq__house_main, "emq-house", err);
    if (s == EMQ_OK)
        s = thread_start(&w->pump_thread, emq__pump_main, "emq-pump", err);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

static void thread_join(struct emq__thread *t)
{
    if (t->started)
        (void)pthread_join(t->id, NULL);
    t->started = false;
}

static void threads_join(emq_worker *w)
{
    pthread_mutex_lock(&w->join_mu);
    if (!w->joined) {
        thread_join(&w->pump_thread);
        thread_join(&w->keeper_thread);
        thread_join(&w->house_thread);
        for (int32_t i = 0; w->threads && i < w->cfg.concurrency; i++)
            thread_join(&w->threads[i]);
        w->joined = true;
    }
    pthread_mutex_unlock(&w->join_mu);
}

/* ---- start and free ---------------------------------------------------------------------- */

static void worker_release(emq_worker *w)
{
    emq__exec_close(w->exec);
    for (int32_t i = 0; w->threads && i < w->cfg.concurrency; i++) {
        if (w->threads[i].fd >= 0)
            (void)close(w->threads[i].fd);
    }
    free(w->threads);
    emq__notes_free(w);
    emq__map_free(&w->pump.given_back);
    pthread_cond_destroy(&w->ready_cv);
    pthread_mutex_destroy(&w->mu);
    pthread_mutex_destroy(&w->event_mu);
    pthread_mutex_destroy(&w->join_mu);
    emq__arena_free(&w->cfg.mem);
    free(w);
}

static emq_status worker_make(emq_worker **out, emq_client *c, emq_error *err)
{
    emq_worker *w = calloc(1, sizeof *w);

    if (!w)
        return emq__fail(err, EMQ_E_NOMEM, 0, "emq_worker_start", "%zu bytes", sizeof *w);
    w->c = c;
    w->e = c->e;
    w->ready_tail = &w->ready;
    w->ended_tail = &w->ended;
    w->notes_tail = &w->notes;
    w->pump.pending_tail = &w->pump.pending;
    emq__random_id(w->pump.session);
    atomic_init(&w->cancel_at_us, INT64_MAX);
    atomic_init(&w->exit_status, -1);
    w->pump_thread.w = w->keeper_thread.w = w->house_thread.w = w;
    /* glibc's default mutexes and conditions can't fail to be made. */
    pthread_mutex_init(&w->mu, NULL);
    pthread_mutex_init(&w->event_mu, NULL);
    pthread_mutex_init(&w->join_mu, NULL);
    pthread_cond_init(&w->ready_cv, NULL);
    *out = w;
    return EMQ_OK;
}

static emq_status slots_make(emq_worker *w, emq_error *err)
{
    w->threads = calloc((size_t)w->cfg.concurrency, sizeof *w->threads);
    if (!w->threads)
        return emq__fail(err, EMQ_E_NOMEM, 0, "emq_worker_start", "%d slots",
                         (int)w->cfg.concurrency);
    for (int32_t i = 0; i < w->cfg.concurrency; i++)
        w->threads[i] = (struct emq__thread){.w = w, .index = i, .fd = -1};
    for (int32_t i = 0; w->cfg.argv && i < w->cfg.concurrency; i++) {
        w->threads[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->threads[i].fd < 0)
            return emq__fail(err, EMQ_E_SYSTEM, 0, "emq_worker_start",
                             "eventfd of slot %d: raise the limit of open files (ulimit -n)",
                             (int)i);
    }
    return EMQ_OK;
}

static emq_status contact(emq_worker *w, emq_str queue, struct emq__mono until, emq_error *err)
{
    for (int32_t failures = 0;; failures++) {
        struct emq__arena mem = {0};
        struct emq__stats_req req = {.prefix = w->c->prefix, .queue = queue, .beginning = true};
        struct emq__stats_res res;
        emq_status s = w->e->ops->stats(w->e, &req, &res, &mem, err);
        emq__arena_free(&mem);
        if (!emq__is_failure(s) && res.read_only)
            return emq__fail(err, EMQ_E_REFUSED, 0, "emq_worker_start",
                             "the store is a read-only replica: workers need the primary");
        if (!emq__is_failure(s)) {
            w->pump.now_ms = res.now_ms;
            return EMQ_OK;
        }
        bool again = s == EMQ_E_UNAVAIL || s == EMQ_E_BUSY || s == EMQ_E_IN_DOUBT;
        if (!again || emq__mono_diff_ms(emq__mono_now(), until) <= 0)
            return s;
        emq__wake_wait(&w->pump_wake, emq__wake_read(&w->pump_wake),
                       emq__backoff_jitter_ms(failures));
    }
}

/* The first contact: a store that can't be reached at all, or refuses to serve one of the queues, is told to
 * whoever starts the worker. */
static emq_status contact_all(emq_worker *w, emq_error *err)
{
    struct emq__mono until = emq__mono_add_ms(emq__mono_now(), w->c->io_timeout_ms);
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < w->n_queues; i++)
        s = contact(w, w->names[i], until, err);
    return s;
}

static emq_status exec_make(emq_worker *w, const emq_worker_opts *opts, emq_error *err)
{
    struct emq__exec_config cfg = {
        .argv = opts->argv,
        .url = w->c->url,
        .prefix = w->c->prefix,
        .worker = w->cfg.name,
        .concurrency = w->cfg.concurrency,
        .stream = opts->stream != 0,
        .log = w->c->log,
    };
    return emq__exec_open(&w->exec, &cfg, err);
}

void emq__worker_over(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    w->over = true;
    pthread_cond_broadcast(&w->ready_cv);
    pthread_mutex_unlock(&w->mu);
    emq__wake_ring(&w->keeper_wake);
    emq__wake_ring(&w->house_wake);
}

static void start_undo(emq_worker *w)
{
    emq__worker_over(w);
    threads_join(w);
}

emq_status emq_worker_start(emq_worker **out, emq_client *c, const emq_worker_opts *opts,
                            emq_error *err)
{
    emq_worker *w = NULL;
    emq_status s = emq__client_check(c, "emq_worker_start", err);

    if (s != EMQ_OK)
        return s;
    if (!out || !opts)
        return emq__fail(err, EMQ_E_INVALID, 0, "emq_worker_start", "%s is NULL",
                         out ? "opts" : "out");
    s = worker_make(&w, c, err);
    if (s != EMQ_OK)
        return s;
    s = emq__points_read(&w->points, err);
    if (s == EMQ_OK)
        s = emq__worker_options(w, opts, err);
    if (s == EMQ_OK)
        s = slots_make(w, err);
    if (s == EMQ_OK)
        s = contact_all(w, err);
    if (s == EMQ_OK && w->cfg.argv)
        s = exec_make(w, opts, err);
    if (s == EMQ_OK) {
        atomic_store(&w->paused, w->cfg.start_paused);
        s = threads_start(w, err);
        if (s != EMQ_OK)
            start_undo(w);
    }
    if (s != EMQ_OK) {
        worker_release(w);
        return s;
    }
    *out = w;
    return EMQ_OK;
}

/* In a child of fork() there are no threads, `mu` may be held for ever, and bells and descriptors are the
 * parent's: nothing is done there. Async-signal-safe. */
static bool usable(const emq_worker *w)
{
    return w && getpid() == w->c->pid;
}

void emq_worker_free(emq_worker *w)
{
    emq_error err;

    if (!usable(w))
        return;
    emq_worker_stop(w, 1);
    if (emq_worker_join(w, -1, &err) == EMQ_OK)
        worker_release(w);
    else /* called by one of its own threads: there is no safe moment */
        emq__log_write(&w->c->log, EMQ_LOG_ERROR, "worker %.*s is not freed: %s",
                       EMQ_STR_ARG(w->cfg.name), err.text);
}

/* ---- stop, join, pause ------------------------------------------------------------------- */

static void lower(_Atomic int64_t *at, int64_t value)
{
    int64_t seen = atomic_load(at);

    while (value < seen && !atomic_compare_exchange_weak(at, &seen, value)) {
    }
}

void emq_worker_stop(emq_worker *w, int now)
{
    if (!usable(w))
        return;
    int level = now ? 2 : 1;
    int seen = atomic_load(&w->stop_level);
    while (seen < level && !atomic_compare_exchange_weak(&w->stop_level, &seen, level)) {
    }
    if (seen >= level)
        return;
    struct emq__mono at = emq__mono_now();
    lower(&w->cancel_at_us, now ? at.us : emq__mono_add_ms(at, w->cfg.grace_ms).us);
    for (int32_t i = 0; w->cfg.argv && i < w->cfg.concurrency; i++)
        (void)eventfd_write(w->threads[i].fd, 1);
    emq__pump_poke(w);
}

static bool own_thread(const emq_worker *w)
{
    pthread_t self = pthread_self();
    const struct emq__thread *few[] = {&w->pump_thread, &w->keeper_thread, &w->house_thread};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(few); i++) {
        if (few[i]->started && pthread_equal(few[i]->id, self))
            return true;
    }
    for (int32_t i = 0; i < w->cfg.concurrency; i++) {
        if (w->threads[i].started && pthread_equal(w->threads[i].id, self))
            return true;
    }
    return false;
}

emq_status emq_worker_join(emq_worker *w, int64_t timeout_ms, emq_error *err)
{
    if (!w)
        return emq__fail(err, EMQ_E_INVALID, 0, "emq_worker_join", "the worker is NULL");
    emq_status s = emq__client_check(w->c, "emq_worker_join", err);
    if (s != EMQ_OK)
        return s;
    struct emq__mono until = emq__mono_add_ms(emq__mono_now(), timeout_ms < 0 ? 0 : timeout_ms);
    for (;;) {
        int seen = emq__wake_read(&w->end_wake);
        if (atomic_load(&w->alive) == 0)
            break;
        if (own_thread(w))
            return emq__fail(
                err, EMQ_E_INVALID, 0, "emq_worker_join",
                "called by a thread of the worker itself: stop it there, join elsewhere");
        int64_t left = timeout_ms < 0 ? 1000 : emq__mono_diff_ms(emq__mono_now(), until);
        if (left <= 0)
            return EMQ_TIMEOUT;
        emq__wake_wait(&w->end_wake, seen, left);
    }
    threads_join(w);
    return EMQ_OK;
}

void emq_worker_pause(emq_worker *w)
{
    if (!usable(w))
        return;
    /* Under mu, so that no thread is between "may I start?" and starting when this returns. */
    pthread_mutex_lock(&w->mu);
    atomic_store(&w->paused, 1);
    pthread_mutex_unlock(&w->mu);
    emq__pump_poke(w);
}

void emq_worker_resume(emq_worker *w)
{
    if (!usable(w))
        return;
    pthread_mutex_lock(&w->mu);
    atomic_store(&w->paused, 0);
    pthread_cond_broadcast(&w->ready_cv);
    pthread_mutex_unlock(&w->mu);
    emq__pump_poke(w);
}

void emq_worker_get_stats(emq_worker *w, emq_worker_stats *out)
{
    if (!usable(w) || !out ||
        emq__out_check(out, "emq_worker_get_stats", "emq_worker_stats", NULL) != EMQ_OK)
        return;
    emq_worker_stats st = {
        .size = sizeof st,
        .completed = atomic_load(&w->count.completed),
        .failed = atomic_load(&w->count.failed),
        .retried = atomic_load(&w->count.retried),
        .given_back = atomic_load(&w->count.given_back),
        .lost = atomic_load(&w->count.lost),
        .recovered = atomic_load(&w->count.recovered),
        .errors = atomic_load(&w->count.errors),
        .ended = atomic_load(&w->alive) == 0,
        .unstartable = atomic_load(&w->unstartable),
        .exit_status = atomic_load(&w->exit_status),
        .gave_up = atomic_load(&w->gave_up),
        .takes = atomic_load(&w->count.takes),
        .takes_failed = atomic_load(&w->count.takes_failed),
    };
    /* Under mu a job is either in hand or started, never neither. */
    pthread_mutex_lock(&w->mu);
    st.started = atomic_load(&w->count.started);
    st.running = w->n_running;
    st.in_hand = w->n_ready;
    pthread_mutex_unlock(&w->mu);
    emq__out_put(out, &st, sizeof st);
}
