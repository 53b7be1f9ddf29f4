/* SPDX-License-Identifier: MIT
 *
 * Our contenders: the engine as a user's program drives it, by the public API alone.
 */
#include "bench.h"
#include "counters.h"

#include <echomq/worker.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

static void on_log(void *user, int level, emq_str text)
{
    if (level == EMQ_LOG_DEBUG)
        counters_trace(user, level, text.ptr, text.len);
    else if (level <= EMQ_LOG_WARN)
        (void)fprintf(stderr, "emq-bench: %.*s\n", (int)text.len, text.ptr);
}

void emq_must(emq_status s, const emq_error *err)
{
    if (s != EMQ_OK)
        die("%s: %s: %s", emq_status_name(s), err->where, err->text);
}

emq_client *emq_open_plan(const struct plan *p)
{
    char url[PATH_LEN + 40];
    emq_client *c = NULL;
    emq_error err = {0};
    emq_open_opts opts = {.size = sizeof opts, .log = on_log, .io_timeout_ms = 60000};

    if (p->server)
        (void)snprintf(url, sizeof url, "%s", p->server->url);
    else
        (void)snprintf(url, sizeof url, "sqlite:%s?sync=%s", p->path, sync_name(p->sync));
    if (p->count) {
        counters_install();
        (void)setenv("EMQ_TRACE", "engine", 1);
    }
    emq_must(emq_open(&c, emq_cstr(url), &opts, &err), &err);
    return c;
}

emq_add_opts emq_opts_plan(const struct plan *p)
{
    emq_add_opts o = {.size = sizeof o, .delay_ms = p->delay_ms};

    if (p->keep_all)
        o.keep_completed_count = EMQ_KEEP_ALL;
    return o;
}

emq_str job_data(char buf[DATA_BYTES + 1], int64_t n)
{
    int len = snprintf(buf, DATA_BYTES + 1, "{\"n\":%lld,\"pad\":\"", (long long)n);

    memset(buf + len, 'x', (size_t)(DATA_BYTES - 2 - len));
    memcpy(buf + DATA_BYTES - 2, "\"}", 3);
    return emq_strn(buf, DATA_BYTES);
}

/* ---- adding ---------------------------------------------------------------------------------- */

struct adder {
    emq_client *c;
    const struct plan *p;
    pthread_t thread;
};

static void *add_each(void *arg)
{
    const struct adder *a = arg;
    emq_add_opts opts = emq_opts_plan(a->p);
    char buf[DATA_BYTES + 1];
    emq_error err = {0};

    for (int64_t i = 0; i < a->p->jobs; i++)
        emq_must(emq_add(a->c, QUEUE, job_data(buf, i), &opts, NULL, &err), &err);
    return NULL;
}

void emq_lap_add(const struct plan *p, struct lap *l, int index)
{
    enum { THREADS_MAX = 256 };
    struct adder adder[THREADS_MAX];
    int n = p->threads > 0 ? p->threads : 1;
    emq_client *c = emq_open_plan(p);

    (void)index;
    lap_begin(l);
    for (int i = 0; i < n; i++) {
        adder[i] = (struct adder){.c = c, .p = p};
        if (n == 1)
            (void)add_each(&adder[i]);
        else if (pthread_create(&adder[i].thread, NULL, add_each, &adder[i]) != 0)
            die("no thread");
    }
    for (int i = 0; n > 1 && i < n; i++)
        (void)pthread_join(adder[i].thread, NULL);
    lap_end(l, p->jobs * n, p->jobs * n);
    emq_close(c);
}

static void add_many(const struct plan *p, emq_client *c)
{
    emq_add_opts opts = emq_opts_plan(p);
    size_t n = (size_t)p->batch;
    emq_new_job *job = calloc(n, sizeof *job);
    const emq_new_job **list = calloc(n, sizeof *list);
    char(*data)[DATA_BYTES + 1] = calloc(n, sizeof *data);
    emq_error err = {0};

    if (!job || !list || !data)
        die("no memory");
    for (int64_t done = 0; done < p->jobs;) {
        size_t k = (int64_t)n < p->jobs - done ? n : (size_t)(p->jobs - done);
        for (size_t i = 0; i < k; i++) {
            job[i] = (emq_new_job){.size = sizeof job[i],
                                   .queue = QUEUE,
                                   .data = job_data(data[i], done + (int64_t)i),
                                   .opts = &opts};
            list[i] = &job[i];
        }
        emq_must(emq_add_many(c, list, k, NULL, &err), &err);
        done += (int64_t)k;
    }
    free(data);
    free(list);
    free(job);
}

void emq_lap_add_many(const struct plan *p, struct lap *l, int index)
{
    emq_client *c = emq_open_plan(p);

    (void)index;
    lap_begin(l);
    add_many(p, c);
    lap_end(l, p->jobs, (p->jobs + p->batch - 1) / p->batch);
    emq_close(c);
}

void emq_lap_fill(const struct plan *p, struct lap *l, int index)
{
    struct plan fast = *p;
    emq_client *c;

    (void)l;
    (void)index;
    fast.batch = 1000;
    fast.sync = SYNC_OFF;
    c = emq_open_plan(&fast);
    add_many(&fast, c);
    emq_close(c);
}

/* ---- working --------------------------------------------------------------------------------- */

static emq_verdict nothing(emq_job *job, void *user)
{
    (void)job;
    (void)user;
    return EMQ_DONE;
}

/* Works p->jobs jobs off, which are there already or are added meanwhile. */
static void work(const struct plan *p, struct lap *l, bool add)
{
    emq_client *c = emq_open_plan(p);
    const emq_worker_queue queue = {.size = sizeof queue, .name = QUEUE};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = nothing,
                            .concurrency = p->concurrency,
                            .prefetch = p->prefetch,
                            .max_jobs = p->jobs};
    emq_worker_stats stats = {.size = sizeof stats};
    emq_worker *w = NULL;
    emq_error err = {0};

    lap_begin(l);
    emq_must(emq_worker_start(&w, c, &opts, &err), &err);
    if (add)
        add_many(p, c);
    emq_must(emq_worker_join(w, -1, &err), &err);
    emq_worker_get_stats(w, &stats);
    lap_end(l, stats.completed, stats.takes);
    if (stats.completed != p->jobs)
        die("%lld of %lld jobs completed", (long long)stats.completed, (long long)p->jobs);
    emq_worker_free(w);
    emq_close(c);
}

void emq_lap_work(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    work(p, l, false);
}

void emq_lap_both(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    work(p, l, true);
}

void emq_lap_by_hand(const struct plan *p, struct lap *l, int index)
{
    emq_client *c = emq_open_plan(p);
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_error err = {0};

    (void)index;
    lap_begin(l);
    for (int64_t i = 0; i < p->jobs; i++) {
        emq_job *job = NULL;
        emq_must(emq_take(c, QUEUE, NULL, &job, &err), &err);
        emq_must(emq_settle(c, QUEUE, emq_job_id(job), emq_job_token(job), &done, &err), &err);
        emq_job_free(job);
    }
    lap_end(l, p->jobs, p->jobs);
    emq_close(c);
}
