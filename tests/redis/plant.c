/* SPDX-License-Identifier: MIT
 *
 * See plant.h.
 */
#include "redis/plant.h"

#include "field/audit.h"
#include "redis/nodes.h"

enum { CONCURRENCY = 8, END_MS = 120000, LOCK_MS = 3000, SWEEP_MS = 500, JOBS_MIN = 100 };

int64_t harm_ms(int64_t usual)
{
    const char *text = getenv("EMQ_FAULTS_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : usual;
}

int64_t plant_random(struct plant *p, int64_t below)
{
    return (int64_t)(test_random(&p->random) % (uint64_t)below);
}

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
    struct plant *p = me->p;

    while (!atomic_load(&p->stop)) {
        if (atomic_load(&p->held)) {
            atomic_fetch_add(&p->holding, 1);
            while (atomic_load(&p->held) && !atomic_load(&p->stop))
                nap_ms(1);
            atomic_fetch_sub(&p->holding, 1);
            continue;
        }
        emq_status s = emq_add(me->c, S("q"), S("1"), NULL, NULL, NULL);
        if (s == EMQ_OK)
            atomic_fetch_add(&p->accepted, 1);
        else if (s == EMQ_E_IN_DOUBT) /* the client asks until it knows, or has no time left */
            atomic_fetch_add(&p->doubts, 1);
        nap_ms(1);
    }
    free(me);
    return NULL;
}

void plant_start(struct plant *p, const char *url, int64_t timeout_ms)
{
    emq_worker_queue q = {.size = sizeof q, .name = S("q")};
    const emq_worker_queue *queues[] = {&q};
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = timeout_ms};

    *p = (struct plant){.random = test_seed()};
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        FIELD_OK(emq_open(&p->c[i], emq_cstr(url), &o, err));
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
        FIELD_OK(emq_worker_start(&p->w[i], p->c[i], &wo, err));
    }
    for (int i = 0; i < PRODUCERS; i++) {
        struct producer *me = malloc(sizeof *me);
        assert_non_null(me);
        *me = (struct producer){p, p->c[WORKERS + i]};
        CHECK_INT(pthread_create(&p->producers[i], NULL, produce, me), 0);
    }
}

void plant_goes_on(struct plant *p, int64_t n)
{
    struct emq__mono start = emq__mono_now();
    int64_t from = atomic_load(&p->accepted);

    while (atomic_load(&p->accepted) < from + n) {
        CHECK(since(start) < END_MS);
        nap_ms(1);
    }
}

void plant_hold(struct plant *p, bool hold)
{
    struct emq__mono start = emq__mono_now();

    atomic_store(&p->held, hold);
    while (hold && atomic_load(&p->holding) < PRODUCERS) {
        CHECK(since(start) < END_MS);
        nap_ms(1);
    }
}

int64_t plant_left(struct plant *p)
{
    emq_queue_stats st = field_stats(p->c[0], "q");

    return st.count[EMQ_WAITING] + st.count[EMQ_ACTIVE] + st.count[EMQ_DELAYED];
}

int64_t plant_end(struct plant *p, int64_t lost)
{
    struct emq__mono start = emq__mono_now();

    if (atomic_load(&p->accepted) < JOBS_MIN) /* a slow machine */
        plant_goes_on(p, JOBS_MIN);
    atomic_store(&p->stop, true);
    for (int i = 0; i < PRODUCERS; i++)
        (void)pthread_join(p->producers[i], NULL);
    while (plant_left(p) > 0) {
        CHECK(since(start) < END_MS);
        nap_ms(20);
    }
    for (int i = 0; i < WORKERS; i++)
        emq_worker_free(p->w[i]);
    emq_queue_stats st = field_stats(p->c[0], "q");
    field_audit(p->c[0], "q");
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        emq_close(p->c[i]);
    int64_t accepted = atomic_load(&p->accepted), doubts = atomic_load(&p->doubts);
    CHECK_INT(st.total_failed, 0);
    CHECK_INT(st.total_added, st.total_completed);
    /* What was still in doubt when the client gave up may have been accepted. */
    if (st.total_completed < accepted - lost || st.total_completed > accepted + doubts)
        fail_msg("%lld jobs were accepted, %lld in doubt, and %lld completed", (long long)accepted,
                 (long long)doubts, (long long)st.total_completed);
    CHECK(atomic_load(&p->runs) + lost >= st.total_completed);
    return accepted > st.total_completed ? accepted - st.total_completed : 0;
}
