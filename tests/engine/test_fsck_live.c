/* SPDX-License-Identifier: MIT
 *
 * Repairs beside jobs that are added and worked on: whatever fsck is asked to mend is looked at in the same act, so
 * that nothing that is sound is touched, however stale the picture is from which the question came.
 */
#include "lib/engine_fixture.h"

#include <pthread.h>

enum { MAKERS = 2, WORKERS = 3, MENDERS = 2, THREADS = MAKERS + WORKERS + MENDERS, ADDS = 150 };

struct live {
    struct fx *t;
    pthread_barrier_t gate;
    atomic_int making;                  /* makers that still add */
    atomic_int wrong;                   /* acts that failed, outcomes that nobody expects */
    atomic_int ended, retried, started; /* by workers */
    atomic_int added;
    atomic_int asked; /* by menders */
    pthread_mutex_t mu;
    char data[3000]; /* does not fit into a row */
    char text[300];  /* what was mended first; under mu */
};

struct thread {
    struct live *l;
    pthread_t id;
    int index;
    uint64_t seed;
};

/* ---- who moves jobs -------------------------------------------------------------------------- */

static void *make(void *arg)
{
    struct thread *th = arg;
    struct live *l = th->l;
    struct emq__engine *e = l->t->e;

    pthread_barrier_wait(&l->gate);
    for (int i = 0; i < ADDS; i++) {
        struct emq__arena mem = {0};
        struct emq__add_entry en = fx_entry("q", "1");
        const struct emq__add_entry *list[] = {&en};
        struct emq__add_req req = {.entries = list, .n = 1};
        struct emq__add_res res = {0};
        struct emq__promote_req promote = {FX_PREFIX, S("q"), 10};
        struct emq__promote_res promoted = {0};

        en.priority = (int32_t)(test_random(&th->seed) % 3);
        en.delay_ms = i % 4 == 0 ? 1 : 0;
        if (i % 5 == 0)
            en.data.bytes = emq_strn(l->data, sizeof l->data);
        if (i % 6 == 0)
            en.dedup = (struct emq__dedup){.id = S(i % 4 == 0 ? "a" : "b"), .keep_last = true};
        if (e->ops->add(e, &req, &res, &mem, NULL) != EMQ_OK)
            l->wrong++;
        else
            l->added += res.added[0].outcome == EMQ_OK;
        l->wrong += e->ops->promote(e, &promote, &promoted, &mem, NULL) != EMQ_OK;
        emq__arena_free(&mem);
    }
    l->making--;
    return NULL;
}

static enum emq__settle_kind some_end(struct thread *th)
{
    static const enum emq__settle_kind kinds[] = {EMQ__SETTLE_COMPLETED, EMQ__SETTLE_COMPLETED,
                                                  EMQ__SETTLE_FAILED, EMQ__SETTLE_RETRY,
                                                  EMQ__SETTLE_RELEASE};

    return kinds[test_random(&th->seed) % EMQ_ARRAY_LEN(kinds)];
}

static void settle_one(struct thread *th, const struct emq__job *j)
{
    struct live *l = th->l;
    struct emq__arena mem = {0};
    enum emq__settle_kind kind = some_end(th);
    struct emq__settle_entry en = fx_settle(j, kind);
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {.prefix = FX_PREFIX, .queue = S("q"), .entries = list, .n = 1};
    struct emq__settle_res res = {0};

    if (kind != EMQ__SETTLE_COMPLETED)
        en.reason = S("so it is");
    if (l->t->e->ops->settle(l->t->e, &req, &res, &mem, NULL) != EMQ_OK ||
        res.settled[0].outcome != EMQ_OK)
        l->wrong++;
    if (kind == EMQ__SETTLE_COMPLETED || kind == EMQ__SETTLE_FAILED)
        l->ended++;
    emq__arena_free(&mem);
}

static void *work(void *arg)
{
    struct thread *th = arg;
    struct live *l = th->l;
    size_t n = 1;

    pthread_barrier_wait(&l->gate);
    while (l->making > 0 || n > 0) {
        struct emq__arena mem = {0};
        struct emq__take_req req = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(3)};
        struct emq__take_res res = {0};
        l->wrong += l->t->e->ops->take(l->t->e, &req, &res, &mem, NULL) != EMQ_OK;
        n = res.taken.n;
        for (size_t i = 0; i < n; i++)
            settle_one(th, res.taken.jobs[i]);
        emq__arena_free(&mem);
    }
    return NULL;
}

/* ---- who asks for repairs -------------------------------------------------------------------- */

static void mend_one(struct live *l, const struct emq__suspect *x)
{
    struct emq__arena mem = {0};
    struct emq__mend_req req = {.prefix = FX_PREFIX, .queue = S("q"), .suspect = x, .repair = true};
    struct emq__mend_res res = {0};

    l->asked++;
    if (l->t->e->ops->mend(l->t->e, &req, &res, &mem, NULL) != EMQ_OK)
        l->wrong++;
    if (res.outcome != EMQ__MEND_HEALTHY) {
        pthread_mutex_lock(&l->mu);
        if (!l->text[0])
            (void)snprintf(l->text, sizeof l->text, "%.*s of job %.*s, key %.*s",
                           EMQ_STR_ARG(x->flaw), EMQ_STR_ARG(x->id), EMQ_STR_ARG(x->key));
        pthread_mutex_unlock(&l->mu);
    }
    emq__arena_free(&mem);
}

static void mend_what_a_walk_shows(struct live *l)
{
    struct emq__arena mem = {0};
    struct emq__suspect_ids met = {0};
    struct emq__suspects_req req = {.prefix = FX_PREFIX, .queue = S("q"), .met = &met};
    struct emq__suspects_res res = {0};

    do {
        l->wrong += l->t->e->ops->suspects(l->t->e, &req, &res, &mem, NULL) != EMQ_OK;
        for (size_t i = 0; i < res.n; i++)
            mend_one(l, &res.suspects[i]);
        req.after = res.next;
    } while (res.next.len > 0);
    emq__suspects_end(&met);
    emq__arena_free(&mem);
}

/* Of any kind, at any job. */
static void mend_anything(struct thread *th)
{
    static const char *const flaws[] = {
        "state",   "staged",   "side",    "line",        "owner",      "finished",   "place",
        "twin",    "once",     "held",    "deferred",    "attempts",   "stalled",    "ghost",
        "record",  "due",      "reason",  "priority",    "unfinished", "fence",      "parent",
        "child",   "twice",    "nowhere", "dedup-owner", "dedup-flag", "dedup-next", "lock-left",
        "counter", "leftover", "mark",    "meta",        "debris",     "result",     "lock"};
    static const char *const places[] = {
        "at wait",  "at active", "at prioritized", "at delayed", "at completed", "at failed",
        "twice",    "nowhere",   "queue",          "counter 1",  "counter back", "counter n_active",
        "key de:a", "key dn:a",  "dedup a"};
    char id[24], key[40], lock[40];

    (void)snprintf(id, sizeof id, "%d", 1 + (int)(test_random(&th->seed) % (MAKERS * ADDS)));
    (void)snprintf(key, sizeof key, "job %s", id);
    (void)snprintf(lock, sizeof lock, "key %s:lock", id);
    for (size_t f = 0; f < EMQ_ARRAY_LEN(flaws); f++) {
        size_t n = test_random(&th->seed) % (EMQ_ARRAY_LEN(places) + 2);
        const char *at = n < EMQ_ARRAY_LEN(places) ? places[n] : n % 2 ? key : lock;
        mend_one(th->l, &(struct emq__suspect){.flaw = S(flaws[f]), .id = S(id), .key = S(at)});
        mend_one(th->l, &(struct emq__suspect){.flaw = S(flaws[f]), .id = S(id), .key = S(key)});
    }
}

static void *mend(void *arg)
{
    struct thread *th = arg;

    pthread_barrier_wait(&th->l->gate);
    do {
        mend_what_a_walk_shows(th->l);
        mend_anything(th);
    } while (th->l->making > 0);
    return NULL;
}

/* ---------------------------------------------------------------------------------------------- */

ENGINE_TEST(repairs_beside_working_threads_touch_nothing_and_lose_nothing)
{
    struct live l = {.t = t, .making = MAKERS, .mu = PTHREAD_MUTEX_INITIALIZER};
    struct thread th[THREADS];

    memset(l.data, '1', sizeof l.data);
    CHECK_INT(pthread_barrier_init(&l.gate, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        th[i] = (struct thread){.l = &l, .index = i, .seed = test_seed() + (uint64_t)i};
        CHECK_INT(pthread_create(&th[i].id, NULL,
                                 i < MAKERS             ? make
                                 : i < MAKERS + WORKERS ? work
                                                        : mend,
                                 &th[i]),
                  0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(th[i].id, NULL);
    pthread_barrier_destroy(&l.gate);
    if (l.text[0])
        fail_msg("sound, and was mended: %s", l.text);
    CHECK_INT(l.wrong, 0);
    CHECK(l.asked > 100);
    /* What is left, kept duplicates and delayed ones too. */
    for (;;) {
        struct emq__promote_req promote = {FX_PREFIX, S("q"), 100};
        struct emq__promote_res promoted;
        advance(t, 10);
        CHECK_STATUS(FX_CALL(t, promote, &promote, &promoted), EMQ_OK);
        struct emq__job *j = take_one(t, "q");
        if (!j)
            break;
        settle_ok(t, j);
        l.ended++;
    }
    struct emq__stats_res s = stats(t, "q");
    CHECK_INT(s.totals.completed + s.totals.failed, l.ended);
    CHECK_INT(s.totals.added, l.ended);
    CHECK(l.ended >= l.added);
    CHECK_INT(s.totals.recovered, 0);
    for (int state = EMQ_WAITING; state <= EMQ_WAITING_CHILDREN; state++)
        CHECK_INT(s.count[state], 0);
}
