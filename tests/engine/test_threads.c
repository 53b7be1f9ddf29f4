/* SPDX-License-Identifier: MIT
 *
 * Many threads on one engine: each race has one winner, and at any instant each job is in one place.
 */
#include "lib/engine_fixture.h"

#include <pthread.h>

enum { THREADS = 16, JOBS = 200 };

struct thread {
    struct fx *t;
    pthread_barrier_t *gate;
    int index;
    int won;   /* outcomes OK */
    int wrong; /* anything unexpected */
    const struct emq__job *job;
    atomic_int *running;
};

/* Runs fn in n threads that start together; adds up what they won. */
static int race(struct fx *t, int n, void *(*fn)(void *), const struct emq__job *job)
{
    pthread_barrier_t gate;
    pthread_t id[THREADS];
    struct thread th[THREADS];
    atomic_int running = n;
    int won = 0, wrong = 0;

    CHECK_INT(pthread_barrier_init(&gate, NULL, (unsigned)n), 0);
    for (int i = 0; i < n; i++) {
        th[i] = (struct thread){.t = t, .gate = &gate, .index = i, .job = job, .running = &running};
        CHECK_INT(pthread_create(&id[i], NULL, fn, &th[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(id[i], NULL);
        won += th[i].won;
        wrong += th[i].wrong;
    }
    pthread_barrier_destroy(&gate);
    CHECK_INT(wrong, 0);
    return won;
}

static void *take_all(void *arg)
{
    struct thread *th = arg;
    size_t n = 1;

    pthread_barrier_wait(th->gate);
    while (n > 0) {
        struct emq__arena mem = {0};
        struct emq__take_req req = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(3)};
        struct emq__take_res res = {0};
        if (th->t->e->ops->take(th->t->e, &req, &res, &mem, NULL) != EMQ_OK)
            th->wrong++;
        n = res.taken.n;
        th->won += (int)n;
        emq__arena_free(&mem);
    }
    return NULL;
}

ENGINE_TEST(sixteen_takers_at_once_get_each_job_once)
{
    for (int i = 0; i < JOBS; i++)
        must_add(t, "q", "x");
    CHECK_INT(race(t, THREADS, take_all, NULL), JOBS);
    struct emq__dump_res d = dump(t, "q");
    CHECK_INT(d.stats.count[EMQ_ACTIVE], JOBS);
    for (size_t i = 0; i < d.n; i++)
        CHECK_INT(d.jobs[i]->attempts_started, 1);
}

static void *settle_the_job(void *arg)
{
    struct thread *th = arg;
    struct emq__arena mem = {0};
    struct emq__settle_entry en = fx_settle(th->job, EMQ__SETTLE_COMPLETED);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {.prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1};
    struct emq__settle_res res = {0};

    pthread_barrier_wait(th->gate);
    if (th->t->e->ops->settle(th->t->e, &req, &res, &mem, NULL) != EMQ_OK)
        th->wrong++;
    else if (res.settled[0].outcome == EMQ_OK)
        th->won++;
    else if (res.settled[0].outcome != EMQ_LOST)
        th->wrong++;
    emq__arena_free(&mem);
    return NULL;
}

ENGINE_TEST(of_sixteen_acknowledgements_at_once_one_is_accepted)
{
    must_add(t, "q", "x");
    CHECK_INT(race(t, THREADS, settle_the_job, must_take(t, "q")), 1);
    CHECK_INT(stats(t, "q").totals.completed, 1);
}

static void *settle_or_sweep(void *arg)
{
    struct thread *th = arg;
    struct emq__arena mem = {0};
    struct emq__sweep_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 3, .limit = 10};
    struct emq__sweep_res res = {0};

    if (th->index % 2 == 0)
        return settle_the_job(arg);
    pthread_barrier_wait(th->gate);
    if (th->t->e->ops->sweep(th->t->e, &req, &res, &mem, NULL) != EMQ_OK)
        th->wrong++;
    th->won += (int)res.n_recovered;
    emq__arena_free(&mem);
    return NULL;
}

ENGINE_TEST(either_the_late_owner_or_the_sweep_gets_the_job_never_both)
{
    for (int round = 0; round < 10; round++) {
        must_add(t, "q", "x");
        struct emq__job *j = must_take(t, "q");
        advance(t, FX_LOCK_MS + 1000);
        CHECK_INT(race(t, THREADS, settle_or_sweep, j), 1);
        if (state_of(t, "q", j->id) == EMQ_WAITING)
            settle_ok(t, must_take(t, "q"));
        CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    }
}

static void add_one(struct thread *th, struct emq__add_entry en, emq_status lost)
{
    struct emq__arena mem = {0};
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1};
    struct emq__add_res res = {0};

    pthread_barrier_wait(th->gate);
    if (th->t->e->ops->add(th->t->e, &req, &res, &mem, NULL) != EMQ_OK)
        th->wrong++;
    else if (res.added[0].outcome == EMQ_OK)
        th->won++;
    else if (res.added[0].outcome != lost)
        th->wrong++;
    emq__arena_free(&mem);
}

static void *add_same_id(void *arg)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.id = S("the-one");
    add_one(arg, en, EMQ_DUPLICATE);
    return NULL;
}

ENGINE_TEST(of_sixteen_adds_of_one_id_at_once_one_is_accepted)
{
    CHECK_INT(race(t, THREADS, add_same_id, NULL), 1);
    CHECK_INT(stats(t, "q").totals.added, 1);
}

static void *add_same_dedup_id(void *arg)
{
    struct emq__add_entry en = fx_entry("q", "x");
    en.dedup.id = S("the-one");
    add_one(arg, en, EMQ_DEDUPLICATED);
    return NULL;
}

ENGINE_TEST(of_sixteen_adds_of_one_dedup_id_at_once_one_is_accepted)
{
    CHECK_INT(race(t, THREADS, add_same_dedup_id, NULL), 1);
    CHECK_INT(stats(t, "q").totals.deduplicated, THREADS - 1);
}

/* ---- everything at once */

static void complete(struct thread *th, const struct emq__taken *taken)
{
    for (size_t i = 0; i < taken->n; i++) {
        struct emq__arena mem = {0};
        struct emq__settle_entry en = fx_settle(taken->jobs[i], EMQ__SETTLE_COMPLETED);
        const struct emq__settle_entry *list[] = {&en};
        struct emq__settle_req req = {
            .prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1};
        struct emq__settle_res res = {0};
        if (th->t->e->ops->settle(th->t->e, &req, &res, &mem, NULL) != EMQ_OK ||
            res.settled[0].outcome != EMQ_OK)
            th->wrong++;
        else
            th->won++;
        emq__arena_free(&mem);
    }
}

/* Half of the threads work, the others sweep, promote and add. */
static void *live(void *arg)
{
    struct thread *th = arg;
    struct emq__engine *e = th->t->e;
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};

    pthread_barrier_wait(th->gate);
    for (int i = 0; i < 60; i++) {
        struct emq__arena mem = {0};
        struct emq__take_req take = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(2)};
        struct emq__take_res taken = {0};
        struct emq__sweep_req sweep_req = {
            .prefix = FX_PREFIX, .queue = S("q"), .max_stalled = 0, .limit = 10};
        struct emq__sweep_res swept = {0};
        struct emq__promote_req promote = {FX_PREFIX, S("q"), 10};
        struct emq__promote_res promoted = {0};
        struct emq__add_req add = {.entries = list, .n = 1};
        struct emq__add_res added = {0};
        if (th->index % 2 == 0) {
            th->wrong += e->ops->take(e, &take, &taken, &mem, NULL) != EMQ_OK;
            complete(th, &taken.taken);
        } else {
            th->wrong += e->ops->add(e, &add, &added, &mem, NULL) != EMQ_OK;
            th->wrong += e->ops->sweep(e, &sweep_req, &swept, &mem, NULL) != EMQ_OK;
            th->wrong += swept.n_recovered + swept.n_failed > 0;
            th->wrong += e->ops->promote(e, &promote, &promoted, &mem, NULL) != EMQ_OK;
        }
        emq__arena_free(&mem);
    }
    return NULL;
}

ENGINE_TEST(sweeps_and_promotions_beside_working_threads_disturb_no_job)
{
    int done = race(t, 8, live, NULL);

    for (struct emq__job *j = take_one(t, "q"); j; j = take_one(t, "q"), done++)
        settle_ok(t, j);
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(done, 4 * 60);
    CHECK_INT(s.totals.completed, 4 * 60);
    CHECK_INT(s.totals.recovered, 0);
    CHECK_INT(s.totals.failed, 0);
    CHECK_INT(s.totals.started, 4 * 60);
}

static void *wait_for_work(void *arg)
{
    struct thread *th = arg;
    struct emq__arena mem = {0};
    emq_str q = S("q");
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 1000};
    struct emq__wait_res res = {0};

    req.ticket = th->t->e->ops->ticket(th->t->e, FX_PREFIX, &q, 1);
    pthread_barrier_wait(th->gate);
    for (int i = 0; i < 50 && th->won == 0; i++) {
        emq_status s = th->t->e->ops->wait(th->t->e, &req, &res, &mem, NULL);
        if (s == EMQ_OK)
            th->won++;
        else if (s != EMQ_TIMEOUT)
            th->wrong++;
    }
    emq__arena_free(&mem);
    return NULL;
}

static void *wait_or_add(void *arg)
{
    struct thread *th = arg;

    if (th->index > 0)
        return wait_for_work(arg);
    add_one(th, fx_entry("q", "x"), EMQ_OK);
    th->won = 0;
    return NULL;
}

ENGINE_TEST(a_waiting_thread_is_woken_by_an_add)
{
    if (t->kind == FX_NAIVE)
        return; /* its wait does not wait */
    must_add(t, "other", "x");
    CHECK_INT(race(t, 2, wait_or_add, NULL), 1);
}
