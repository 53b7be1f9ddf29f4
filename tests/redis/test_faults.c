/* SPDX-License-Identifier: MIT
 *
 * The whole of it under faults: producers and workers go on adding, running and settling while connections
 * are killed, scripts forgotten, servers restarted and demoted, and links freeze. At the end the sum holds:
 * every job that was accepted ended completed, once, and was run; nothing failed.
 *
 * EMQ_FAULTS_MS sets how long the harm goes on.
 */
#include "redis/ground.h"

#include <echomq/worker.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { PRODUCERS = 3, WORKERS = 2, CONCURRENCY = 8, HARM_MS = 3000, END_MS = 120000 };
enum { LOCK_MS = 3000, SWEEP_MS = 500 };

static void nap_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int64_t harm_ms(void)
{
    const char *text = getenv("EMQ_FAULTS_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : HARM_MS;
}

struct plant {
    emq_client *c[PRODUCERS + WORKERS];
    emq_worker *w[WORKERS];
    pthread_t producers[PRODUCERS];
    atomic_bool stop;
    atomic_llong accepted, refused, runs, failed_events;
    uint64_t random;
};

struct producer {
    struct plant *p;
    emq_client *c;
};

static emq_verdict run_job(emq_job *job, void *user)
{
    struct plant *p = user;

    (void)job;
    atomic_fetch_add(&p->runs, 1);
    return EMQ_DONE;
}

static void *produce(void *arg)
{
    struct producer *me = arg;

    while (!atomic_load(&me->p->stop)) {
        emq_status s = emq_add(me->c, S("q"), S("1"), NULL, NULL, NULL);
        if (s == EMQ_OK)
            atomic_fetch_add(&me->p->accepted, 1);
        else /* not accepted, and in no doubt: the client asks until it knows */
            atomic_fetch_add(&me->p->refused, s == EMQ_E_IN_DOUBT ? 1 : 0);
        nap_ms(1);
    }
    free(me);
    return NULL;
}

static void plant_start(struct plant *p, const char *url, int64_t timeout_ms)
{
    emq_worker_queue q = {.size = sizeof q, .name = S("q")};
    const emq_worker_queue *queues[] = {&q};
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = timeout_ms};
    emq_error err = {0};

    *p = (struct plant){.random = test_seed()};
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        CHECK_STATUS_ERR(emq_open(&p->c[i], emq_cstr(url), &o, &err), EMQ_OK, &err);
    for (int i = 0; i < WORKERS; i++) {
        emq_worker_opts wo = {.size = sizeof wo,
                              .queues = queues,
                              .n_queues = 1,
                              .handler = run_job,
                              .user = p,
                              .lock_ms = LOCK_MS,
                              .stalled_interval_ms = SWEEP_MS,
                              .max_stalled = 1000,
                              .concurrency = CONCURRENCY};
        CHECK_STATUS_ERR(emq_worker_start(&p->w[i], p->c[i], &wo, &err), EMQ_OK, &err);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        struct producer *me = malloc(sizeof *me);
        assert_non_null(me);
        *me = (struct producer){p, p->c[WORKERS + i]};
        CHECK_INT(pthread_create(&p->producers[i], NULL, produce, me), 0);
    }
}

static emq_queue_stats stats_now(struct plant *p)
{
    emq_queue_stats st = {.size = sizeof st};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_stats(p->c[0], S("q"), &st, &err), EMQ_OK, &err);
    return st;
}

static int64_t left(const emq_queue_stats *st)
{
    return st->count[EMQ_WAITING] + st->count[EMQ_ACTIVE] + st->count[EMQ_DELAYED];
}

/* Stops adding, lets the workers finish, and adds up. `lost`: jobs that the store itself may have lost. */
static void plant_end(struct plant *p, int64_t lost)
{
    struct emq__mono start = emq__mono_now();
    emq_queue_stats st;

    atomic_store(&p->stop, true);
    for (int i = 0; i < PRODUCERS; i++)
        (void)pthread_join(p->producers[i], NULL);
    for (;;) {
        st = stats_now(p);
        if (left(&st) == 0)
            break;
        CHECK(since(start) < END_MS);
        nap_ms(20);
    }
    for (int i = 0; i < WORKERS; i++)
        emq_worker_free(p->w[i]);
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        emq_close(p->c[i]);
    int64_t accepted = atomic_load(&p->accepted), doubts = atomic_load(&p->refused);
    CHECK(accepted > 100);
    CHECK_INT(st.total_failed, 0);
    /* What was still in doubt when the client gave up may have been accepted. */
    if (st.total_completed < accepted - lost || st.total_completed > accepted + doubts)
        fail_msg("%lld jobs were accepted, %lld in doubt, and %lld completed", (long long)accepted,
                 (long long)doubts, (long long)st.total_completed);
    CHECK(atomic_load(&p->runs) >= st.total_completed);
}

/* ---- harm ------------------------------------------------------------------------------------------- */

EMQ_TEST(connections_killed_and_scripts_forgotten_lose_and_double_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct plant p;

    (void)SERVER_DO("FLUSHALL");
    plant_start(&p, the_server()->url, PATIENCE_MS);
    while (since(start) < harm_ms()) {
        nap_ms((int64_t)(test_random(&p.random) % 40));
        (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
        if (test_random(&p.random) % 4 == 0)
            (void)SERVER_DO("SCRIPT FLUSH");
    }
    plant_end(&p, 0);
}

EMQ_TEST(a_server_that_dies_and_comes_back_loses_and_doubles_no_job)
{
    struct server *s = START(.aof = true);
    struct emq__mono start = emq__mono_now();
    struct plant p;

    plant_start(&p, s->url, PATIENCE_MS);
    for (int i = 0; i < 3 || since(start) < harm_ms(); i++) {
        nap_ms(300 + (int64_t)(test_random(&p.random) % 300));
        server_stop(s, i % 2 == 0);
        nap_ms((int64_t)(test_random(&p.random) % 300));
        server_again(s);
    }
    plant_end(&p, 0);
    server_end(s);
}

EMQ_TEST(a_link_that_freezes_again_and_again_loses_and_doubles_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct proxy proxy;
    struct plant p;
    char url[60];

    (void)SERVER_DO("FLUSHALL");
    proxy_start(&proxy, the_server()->port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy.port);
    plant_start(&p, url, SHORT_MS);
    for (int i = 0; i < 3 || since(start) < harm_ms(); i++) {
        nap_ms(200 + (int64_t)(test_random(&p.random) % 200));
        proxy_stall(&proxy, true);
        nap_ms((int64_t)(test_random(&p.random) % (3 * SHORT_MS)));
        proxy_stall(&proxy, false);
    }
    nap_ms(SHORT_MS);
    plant_end(&p, 0);
    proxy_end(&proxy);
}

EMQ_TEST(links_cut_at_random_bytes_lose_and_double_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct proxy proxy;
    struct plant p;
    char url[60];

    (void)SERVER_DO("FLUSHALL");
    proxy_start(&proxy, the_server()->port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy.port);
    plant_start(&p, url, PATIENCE_MS);
    while (since(start) < harm_ms()) {
        int64_t n = (int64_t)(test_random(&p.random) % 600);
        (test_random(&p.random) % 2 ? proxy_cut_requests : proxy_cut_replies)(&proxy, n);
        nap_ms((int64_t)(test_random(&p.random) % 30));
    }
    (void)proxy_was_cut(&proxy);
    plant_end(&p, 0);
    proxy_end(&proxy);
}

EMQ_TEST(a_server_out_of_memory_refuses_jobs_and_finishes_those_it_has)
{
    struct server *s = start_plain();
    struct plant p;

    plant_start(&p, s->url, PATIENCE_MS);
    struct emq__mono start = emq__mono_now();
    while (atomic_load(&p.accepted) < 200) {
        CHECK(since(start) < END_MS);
        nap_ms(1);
    }
    (void)server_command(s, "CONFIG SET maxmemory 1");
    start = emq__mono_now();
    for (;;) { /* none is added: what is there ends */
        emq_queue_stats st = stats_now(&p);
        if (left(&st) == 0)
            break;
        CHECK(since(start) < END_MS);
        nap_ms(10);
    }
    int64_t before = atomic_load(&p.accepted);
    nap_ms(50);
    CHECK_INT(atomic_load(&p.accepted), before);
    (void)server_command(s, "CONFIG SET maxmemory 0");
    start = emq__mono_now();
    while (atomic_load(&p.accepted) < before + 50) {
        CHECK(since(start) < END_MS);
        nap_ms(1);
    }
    plant_end(&p, 0);
    server_end(s);
}
