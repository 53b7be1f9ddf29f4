/* SPDX-License-Identifier: MIT
 *
 * See worker_fixture.h. Handlers run in threads of the worker, so nothing here that they call asserts:
 * what is wrong is counted in probe.wrong and checked by the test.
 */
#include "worker_fixture.h"

#include "base/str.h"
#ifdef EMQ_HAVE_REDIS
#include "lib/server.h"
#endif

#ifdef WF_ON_NAIVE
#include "lib/naive.h"
#endif

#include <time.h>

void wf_nap(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* ---- store ------------------------------------------------------------------------------- */

static enum emq__fault fault_plan(void *user, const char *act)
{
    struct wf *f = user;
    int n = atomic_load(&f->n_faults);

    for (int i = 0; i < n; i++) {
        struct wf_fault *p = &f->faults[i];
        if (strcmp(p->act, act) != 0)
            continue;
        atomic_fetch_add(&p->seen, 1);
        if (atomic_load(&p->delay_ms) > 0)
            wf_nap(atomic_load(&p->delay_ms));
        int times = atomic_load(&p->times);
        while (times > 0 && !atomic_compare_exchange_weak(&p->times, &times, times - 1)) {
        }
        return times != 0 ? (enum emq__fault)atomic_load(&p->fault) : EMQ__FAULT_NONE;
    }
    return EMQ__FAULT_NONE;
}

struct wf_fault *wf_fault(struct wf *f, const char *act, enum emq__fault fault, int times)
{
    int n = atomic_load(&f->n_faults);

    for (int i = 0; i < n; i++) {
        struct wf_fault *p = &f->faults[i];
        if (strcmp(p->act, act) == 0) {
            atomic_store(&p->fault, (int)fault);
            atomic_store(&p->times, times);
            return p;
        }
    }
    CHECK(n < WF_FAULTS);
    f->faults[n].act = act;
    atomic_store(&f->faults[n].fault, (int)fault);
    atomic_store(&f->faults[n].times, times);
    atomic_store(&f->n_faults, n + 1);
    return &f->faults[n];
}

static void on_log(void *user, int level, emq_str message)
{
    struct wf *f = user;

    if (level == EMQ_LOG_ERROR)
        atomic_fetch_add(&f->log_errors, 1);
    if (level == EMQ_LOG_WARN)
        atomic_fetch_add(&f->log_warnings, 1);
    if (getenv("EMQ_TEST_VERBOSE"))
        fprintf(stderr, "  log %d: %.*s\n", level, EMQ_STR_ARG(message));
    if (level > EMQ_LOG_WARN)
        return;
    pthread_mutex_lock(&f->log_mu);
    (void)snprintf(f->last_log, sizeof f->last_log, "%.*s", EMQ_STR_ARG(message));
    pthread_mutex_unlock(&f->log_mu);
}

bool wf_logged(struct wf *f, const char *words)
{
    pthread_mutex_lock(&f->log_mu);
    bool yes = strstr(f->last_log, words) != NULL;
    pthread_mutex_unlock(&f->log_mu);
    return yes;
}

#ifdef WF_ON_NAIVE
/* The model engine's clock only moves when it is told to. */
static void *tick(void *user)
{
    struct wf *f = user;
    struct emq__mono last = emq__mono_now();

    while (atomic_load(&f->ticking)) {
        wf_nap(2);
        int64_t ms = emq__mono_diff_ms(last, emq__mono_now());
        last = emq__mono_add_ms(last, ms);
        (void)f->naive->ops->advance(f->naive, ms, NULL);
    }
    return NULL;
}
#endif

void wf_open(struct wf *f)
{
    emq_error err = {0};
    emq_open_opts o = {.size = sizeof o, .log = on_log, .log_user = f};
    static int n; /* a test may open several */

    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->log_mu, NULL);
    (void)snprintf(f->url, sizeof f->url, "sqlite:%s/w%d.db?sync=off", test_temp_dir(), ++n);
#ifdef EMQ_HAVE_REDIS
    const char *asked = server_asked();
    if (asked)
        (void)snprintf(f->url, sizeof f->url, "%s", asked);
#endif
#ifdef WF_ON_NAIVE
    struct emq__engine *e = NULL;
    CHECK_STATUS_ERR(naive_open(&e, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq__client_wrap(&f->c, e, EMQ_STR_LIT("test:"), NONE, &o, &err), EMQ_OK,
                     &err);
    atomic_store(&f->ticking, 1);
    f->naive = e;
    CHECK_INT(pthread_create(&f->ticker, NULL, tick, f), 0);
#else
    CHECK_STATUS_ERR(emq_open(&f->c, S(f->url), &o, &err), EMQ_OK, &err);
#endif
    CHECK_STATUS_ERR(emq__fault_wrap(&f->c->e, fault_plan, f, &err), EMQ_OK, &err);
}

emq_client *wf_client(struct wf *f)
{
    emq_client *c = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_open(&c, S(f->url), NULL, &err), EMQ_OK, &err);
    return c;
}

void wf_close(struct wf *f)
{
#ifdef WF_ON_NAIVE
    atomic_store(&f->ticking, 0);
    pthread_join(f->ticker, NULL);
#endif
    emq_close(f->c);
}

/* ---- jobs -------------------------------------------------------------------------------- */

void wf_add_opts(struct wf *f, const char *queue, const char *id, const char *data, emq_add_opts o)
{
    emq_error err = {0};

    o.size = sizeof o;
    o.id = S(id);
    CHECK_STATUS_ERR(emq_add(f->c, S(queue), S(data), &o, NULL, &err), EMQ_OK, &err);
}

void wf_add(struct wf *f, const char *queue, const char *id, const char *data)
{
    wf_add_opts(f, queue, id, data, (emq_add_opts){0});
}

void wf_add_n(struct wf *f, const char *queue, int n, const char *data)
{
    enum { SLICE = 1000 };
    static char ids[SLICE][16];
    static emq_add_opts opts[SLICE];
    static emq_new_job jobs[SLICE];
    static const emq_new_job *pointers[SLICE];

    for (int done = 0; done < n;) {
        size_t k = 0;
        for (; k < SLICE && done < n; k++) {
            (void)snprintf(ids[k], sizeof ids[k], "j%d", ++done);
            opts[k] = (emq_add_opts){
                .size = sizeof opts[k], .id = S(ids[k]), .keep_completed_count = EMQ_KEEP_ALL};
            jobs[k] = (emq_new_job){sizeof jobs[k], S(queue), S(data), &opts[k]};
            pointers[k] = &jobs[k];
        }
        emq_error err = {0};
        CHECK_STATUS_ERR(emq_add_many(f->c, pointers, k, NULL, &err), EMQ_OK, &err);
    }
}

emq_job *wf_get(struct wf *f, const char *queue, const char *id)
{
    emq_job *j = NULL;
    emq_error err = {0};
    emq_status s = emq_get(f->c, S(queue), S(id), &j, &err);

    if (s != EMQ_NOT_FOUND)
        CHECK_STATUS_ERR(s, EMQ_OK, &err);
    return j;
}

int wf_state(struct wf *f, const char *queue, const char *id)
{
    emq_job *j = wf_get(f, queue, id);
    int state = j ? emq_job_state(j) : 0;

    emq_job_free(j);
    return state;
}

int64_t wf_count(struct wf *f, const char *queue, int state)
{
    emq_queue_stats st = {.size = sizeof st};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_stats(f->c, S(queue), &st, &err), EMQ_OK, &err);
    return st.count[state];
}

const char *wf_end(struct wf *f, const char *queue, const char *id)
{
    static char text[600];
    emq_job *j = wf_get(f, queue, id);

    if (!j)
        return "gone";
    const char *state = emq_state_name(emq_job_state(j));
    emq_str what =
        emq_job_state(j) == EMQ_FAILED_STATE ? emq_job_failed_reason(j) : emq_job_result(j);
    if (what.len > 0)
        (void)snprintf(text, sizeof text, "%s: %.*s", state, EMQ_STR_ARG(what));
    else
        (void)snprintf(text, sizeof text, "%s", state);
    emq_job_free(j);
    return text;
}

void wf_orphan(struct wf *f, const char *queue, int64_t lock_ms)
{
    emq_take_opts o = {.size = sizeof o, .worker = S("dead"), .lock_ms = lock_ms};
    emq_job *j = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_take(f->c, S(queue), &o, &j, &err), EMQ_OK, &err);
    emq_job_free(j);
}

/* ---- probe ------------------------------------------------------------------------------- */

void probe_init(struct probe *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->mu, NULL);
}

void probe_free(struct probe *p)
{
    emq__map_free(&p->runs);
    pthread_mutex_destroy(&p->mu);
}

int probe_runs(struct probe *p, const char *id)
{
    pthread_mutex_lock(&p->mu);
    uintptr_t n = (uintptr_t)emq__map_get(&p->runs, S(id));
    pthread_mutex_unlock(&p->mu);
    return (int)n;
}

static void note(char *list, size_t *len, emq_str a, const char *between, emq_str b)
{
    size_t room = ORDER_MAX - *len;
    int n = snprintf(list + *len, room, "%.*s%s%.*s ", EMQ_STR_ARG(a), between, EMQ_STR_ARG(b));

    if (n > 0 && (size_t)n < room)
        *len += (size_t)n;
}

static void run_noted(struct probe *p, const emq_job *job)
{
    emq_str id = emq_job_id(job);
    int now = atomic_fetch_add(&p->running, 1) + 1, peak = atomic_load(&p->peak);

    while (now > peak && !atomic_compare_exchange_weak(&p->peak, &peak, now)) {
    }
    pthread_mutex_lock(&p->mu);
    uintptr_t n = (uintptr_t)emq__map_get(&p->runs, id);
    if (!emq__map_put(&p->runs, id, (void *)(n + 1)))
        atomic_fetch_add(&p->wrong, 1);
    note(p->order, &p->order_len, emq_job_queue(job), "/", id);
    pthread_mutex_unlock(&p->mu);
    atomic_fetch_add(&p->started, 1);
}

static void burn(int64_t ms)
{
    struct emq__mono until = emq__mono_add_ms(emq__mono_now(), ms);

    while (emq__mono_diff_ms(emq__mono_now(), until) > 0) {
    }
}

static void hold(struct probe *p, emq_job *job, bool whatever)
{
    while (!atomic_load(&p->gate)) {
        int reason = emq_job_cancelled(job);
        if (reason != EMQ_GO_ON) {
            atomic_store(&p->cancel_seen, reason);
            if (!whatever)
                return;
        }
        wf_nap(1);
    }
}

/* The next word; empty at the end. */
static emq_str word(emq_str *rest)
{
    size_t i = 0, n;

    while (i < rest->len && rest->ptr[i] == ' ')
        i++;
    for (n = i; n < rest->len && rest->ptr[n] != ' ';)
        n++;
    emq_str w = emq_strn(rest->ptr + i, n - i);
    *rest = emq_strn(rest->ptr + n, rest->len - n);
    return w;
}

static int64_t word_ms(emq_str *rest)
{
    int64_t ms = 0;

    (void)emq__str_to_i64(word(rest), &ms);
    return ms;
}

emq_verdict probe_handler(emq_job *job, void *user)
{
    struct probe *p = user;
    emq_verdict v = EMQ_DONE;
    emq_str rest = emq_job_data(job);
    emq_status s = EMQ_OK;
    emq_error err;

    run_noted(p, job);
    for (emq_str w = word(&rest); w.len > 0; w = word(&rest)) {
        if (emq__str_is(w, "fail"))
            v = EMQ_FAIL;
        else if (emq__str_is(w, "retry"))
            v = EMQ_RETRY;
        else if (emq__str_is(w, "back"))
            v = EMQ_GIVE_BACK;
        else if (emq__str_is(w, "after"))
            emq_job_set_retry_after(job, word_ms(&rest));
        else if (emq__str_is(w, "result"))
            s = emq_job_set_result(job, word(&rest), &err);
        else if (emq__str_is(w, "reason"))
            s = emq_job_set_failure(job, word(&rest), S("at line 1"), &err);
        else if (emq__str_is(w, "hold"))
            hold(p, job, false);
        else if (emq__str_is(w, "hold!"))
            hold(p, job, true);
        else if (emq__str_is(w, "burn"))
            burn(word_ms(&rest));
        else if (emq__str_is(w, "tell"))
            s = emq_job_report_progress(job, word(&rest), &err);
        else if (emq__str_is(w, "log"))
            s = emq_job_log(job, word(&rest), &err);
        else if (emq__str_is(w, "data"))
            s = emq_job_replace_data(job, word(&rest), &err);
        else if (emq__str_is(w, "mine"))
            s = emq_job_is_mine(job, &err);
        if (s != EMQ_OK) {
            fprintf(stderr, "handler: %.*s: %s\n", EMQ_STR_ARG(w), emq_status_name(s));
            atomic_fetch_add(&p->wrong, 1);
        }
    }
    atomic_fetch_sub(&p->running, 1);
    atomic_fetch_add(&p->ended, 1);
    return v;
}

void probe_event(const emq_event *e, void *user)
{
    static const char *const names[] = {"?",       "started", "completed", "failed",
                                        "retried", "back",    "lost",      "recovered",
                                        "error",   "ready",   "finished"};
    struct probe *p = user;

    if (atomic_fetch_add(&p->in_event, 1) != 0)
        atomic_fetch_add(&p->overlaps, 1);
    pthread_mutex_lock(&p->mu);
    note(p->events, &p->events_len, S(names[e->kind]), ":", e->id);
    if (e->text.len > 0)
        (void)snprintf(p->last_text, sizeof p->last_text, "%.*s", EMQ_STR_ARG(e->text));
    pthread_mutex_unlock(&p->mu);
    if (getenv("EMQ_TEST_VERBOSE"))
        fprintf(stderr, "  event %s %.*s/%.*s: %.*s\n", names[e->kind], EMQ_STR_ARG(e->queue),
                EMQ_STR_ARG(e->id), EMQ_STR_ARG(e->text));
    atomic_fetch_add(&p->event_count[e->kind], 1);
    atomic_fetch_sub(&p->in_event, 1);
}

bool probe_saw(struct probe *p, const char *event)
{
    char padded[200];

    (void)snprintf(padded, sizeof padded, "%s ", event);
    pthread_mutex_lock(&p->mu);
    bool yes = strstr(p->events, padded) != NULL;
    pthread_mutex_unlock(&p->mu);
    return yes;
}

/* ---- workers ----------------------------------------------------------------------------- */

struct wf_opts *wf_opts(struct wf_opts *w, const char *queues, struct probe *p)
{
    memset(w, 0, sizeof *w);
    emq_str rest;
    (void)snprintf(w->text, sizeof w->text, "%s", queues);
    rest = S(w->text);
    size_t n = 0;
    for (emq_str q = word(&rest); q.len > 0; q = word(&rest), n++) {
        const char *equals = memchr(q.ptr, '=', q.len);
        int64_t weight = 0;
        if (equals)
            (void)emq__str_to_i64(emq_strn(equals + 1, q.len - (size_t)(equals - q.ptr) - 1),
                                  &weight);
        w->q[n] =
            (emq_worker_queue){.size = sizeof w->q[n],
                               .name = emq_strn(q.ptr, equals ? (size_t)(equals - q.ptr) : q.len),
                               .weight = (int32_t)weight};
        w->p[n] = &w->q[n];
    }
    w->o = (emq_worker_opts){.size = sizeof w->o,
                             .queues = w->p,
                             .n_queues = n,
                             .handler = probe_handler,
                             .user = p,
                             .on_event = probe_event,
                             .stalled_interval_ms = 200};
    return w;
}

emq_worker *wf_start_on(emq_client *c, const struct wf_opts *o)
{
    emq_worker *w = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_worker_start(&w, c, &o->o, &err), EMQ_OK, &err);
    return w;
}

emq_worker *wf_start(struct wf *f, const struct wf_opts *o)
{
    return wf_start_on(f->c, o);
}

static void joined(emq_worker *w)
{
    emq_error err = {0};
    emq_status s = emq_worker_join(w, PATIENCE_MS, &err);

    if (s == EMQ_TIMEOUT)
        emq_worker_dump(w, 2);
    CHECK_STATUS_ERR(s, EMQ_OK, &err);
    emq_worker_free(w);
}

void wf_finish(emq_worker *w)
{
    joined(w);
}

void wf_stop(emq_worker *w, int now)
{
    emq_worker_stop(w, now);
    joined(w);
}

emq_worker_stats wf_stats(emq_worker *w)
{
    emq_worker_stats st = {.size = sizeof st};

    emq_worker_get_stats(w, &st);
    return st;
}

/* ---- all of it --------------------------------------------------------------------------- */

struct bench *bench_open(const char *queues)
{
    struct bench *b = calloc(1, sizeof *b);

    CHECK(b != NULL);
    wf_open(&b->f);
    probe_init(&b->p);
    wf_opts(&b->o, queues, &b->p);
    return b;
}

void bench_close(struct bench *b)
{
    CHECK_INT(b->p.wrong, 0);
    wf_close(&b->f);
    probe_free(&b->p);
    free(b);
}

emq_worker_stats work_off(struct bench *b)
{
    emq_error err = {0};

    b->o.o.exit_when_empty = 1;
    emq_worker *w = wf_start(&b->f, &b->o);
    CHECK_STATUS_ERR(emq_worker_join(w, PATIENCE_MS, &err), EMQ_OK, &err);
    emq_worker_stats st = wf_stats(w);
    emq_worker_free(w);
    return st;
}
