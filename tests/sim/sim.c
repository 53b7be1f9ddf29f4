/* SPDX-License-Identifier: MIT
 *
 * The simulation's world: producer, administrator, clock, faults, and what must hold after each step:
 * no accepted job is lost, nothing is accepted from a former owner (sim_worker.c), at most one worker
 * may believe in its lock, fences only grow, at-most-once jobs are handed out once. The sum rule and
 * the other invariants of one picture are the check decorator's.
 */
#include "sim.h"

#include "model/names.h"

uint64_t sim_pick(struct sim *s, uint64_t n)
{
    return test_random(&s->random) % n;
}

bool sim_chance(struct sim *s, unsigned percent)
{
    return sim_pick(s, 100) < percent;
}

void sim_note(struct sim *s, const char *fmt, ...)
{
    size_t used = strlen(s->what);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(s->what + used, sizeof s->what - used, fmt, ap);
    va_end(ap);
}

void sim_broken(struct sim *s, const char *fmt, ...)
{
    enum { LINES = EMQ_ARRAY_LEN(s->log) };
    char text[700];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_error("seed %llu, step %d: %s\n", (unsigned long long)s->seed, s->step, text);
    for (int i = s->step >= LINES ? s->step - LINES + 1 : 0; i < s->step; i++)
        print_error("  %5d %s\n", i, s->log[i % LINES]);
    print_error("  %5d %s\n", s->step, s->what);
    fail_msg("EMQ_TEST_SEED=%llu", (unsigned long long)s->seed);
    abort();
}

struct sim_job *sim_job_of(struct sim *s, const char *id)
{
    for (size_t i = 0; i < s->n_jobs; i++)
        if (strcmp(s->jobs[i].id, id) == 0)
            return &s->jobs[i];
    return NULL;
}

const struct emq__job *sim_stored(const struct sim *s, const char *id)
{
    for (size_t i = 0; i < s->picture.n; i++)
        if (emq__str_is(s->picture.jobs[i]->id, id))
            return s->picture.jobs[i];
    return NULL;
}

static enum emq__fault plan(void *user, const char *act)
{
    struct sim *s = user;

    if (!s->faults || strcmp(act, "wait") == 0 || !sim_chance(s, 8))
        return EMQ__FAULT_NONE;
    return (enum emq__fault)(1 + sim_pick(s, 3));
}

static void on_broken(void *user, const char *line)
{
    sim_broken(user, "invariant broken %s", line);
}

/* ---- producer, administrator, clock */

static void produce(struct sim *s)
{
    struct emq__arena mem = {0};
    struct emq__add_entry en = fx_entry("q", "{}");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = {EMQ_STR_LIT("producer"), 0}, .entries = list, .n = 1};
    struct emq__add_res res;
    struct sim_job *job;

    if (!s->producer_doubt) {
        if (s->n_jobs == SIM_JOBS)
            return;
        job = &s->jobs[s->n_jobs++];
        (void)snprintf(job->id, sizeof job->id, "j%zu", s->n_jobs);
        s->producer_seq++;
    }
    job = &s->jobs[s->n_jobs - 1];
    sim_note(s, "add %s", job->id);
    /* All that the entry says follows from the job, so that a repeated call says the same. */
    en.id = emq_cstr(job->id);
    en.priority = (int32_t)(s->n_jobs % 5 == 0 ? s->n_jobs % 3 : 0);
    en.delay_ms = s->n_jobs % 7 == 0 ? 5000 : 0;
    req.call.seq = s->producer_seq;
    emq_status st = s->e->ops->add(s->e, &req, &res, &mem, NULL);
    sim_note(s, " %s", emq_status_name(st));
    if (st == EMQ_OK && res.added[0].outcome != EMQ_OK)
        sim_broken(s, "the only add of %s says %s", job->id, emq_status_name(res.added[0].outcome));
    if (st == EMQ_OK)
        job->accepted = true;
    s->producer_doubt = st != EMQ_OK; /* not sent: the same again, too */
    emq__arena_free(&mem);
}

static void administrate(struct sim *s)
{
    static const struct emq__meta_field settings[] = {
        {{"paused", 6}, {"1", 1}}, {{"paused", 6}, {"", 0}},        {{"paused", 6}, {"", 0}},
        {{"paused", 6}, {"", 0}},  {{"concurrency", 11}, {"4", 1}}, {{"concurrency", 11}, {"", 0}},
    };
    const struct emq__meta_field *set = &settings[sim_pick(s, EMQ_ARRAY_LEN(settings))];
    struct emq__arena mem = {0};
    struct emq__meta_req req = {
        .prefix = FX_PREFIX, .queue = EMQ_STR_LIT("q"), .set = set, .n_set = 1};
    struct emq__meta_res res;

    sim_note(s, "%s=%s %s", set->field.ptr, set->value.ptr,
             emq_status_name(s->under->ops->meta(s->under, &req, &res, &mem, NULL)));
    emq__arena_free(&mem);
}

static void pass_time(struct sim *s)
{
    int64_t ms = sim_chance(s, 10) ? 40000 : (int64_t)sim_pick(s, 4000);

    sim_note(s, "%lld ms pass", (long long)ms);
    if (s->under->ops->advance(s->under, ms, NULL) != EMQ_OK)
        sim_broken(s, "advance failed");
}

/* ---- what must hold */

static void hash(struct sim *s, const void *p, size_t n)
{
    const unsigned char *c = p;

    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ c[i]) * UINT64_C(1099511628211);
}

static void check_hand_out(struct sim *s, const struct emq__job *j)
{
    char id[24];
    struct sim_job *job;

    (void)snprintf(id, sizeof id, "%.*s", EMQ_STR_ARG(j->id));
    job = sim_job_of(s, id);
    if (!job)
        sim_broken(s, "job %s was never added", id);
    if (j->state == EMQ_COMPLETED_STATE && job->effects == 0)
        sim_broken(s, "job %s is completed, but nobody did its work", id);
    if (j->fence == job->fence)
        return;
    if (j->fence < job->fence)
        sim_broken(s, "the fence of %s fell", id);
    if (job->at_most_once)
        sim_broken(s, "job %s was handed out again after an at-most-once hand-out", id);
    job->fence = j->fence;
    job->at_most_once = j->mode == EMQ_AT_MOST_ONCE;
}

static void check_beliefs(struct sim *s)
{
    for (size_t a = 0; a < SIM_WORKERS; a++)
        for (size_t i = 0; i < s->workers[a].n_held; i++) {
            const struct sim_held *h = &s->workers[a].held[i];
            if (h->settling || h->deadline_ms <= s->now_ms + s->safe_ms)
                continue;
            const struct emq__job *j = sim_stored(s, h->id);
            if (!j || j->state != EMQ_ACTIVE || !emq__str_is(j->token, h->token))
                sim_broken(s, "%s may believe in its lock of %s, which is not its own any more",
                           s->workers[a].name, h->id);
        }
}

static void look(struct sim *s)
{
    struct emq__dump_req req = {FX_PREFIX, EMQ_STR_LIT("q")};

    emq__arena_free(&s->mem);
    if (s->under->ops->dump(s->under, &req, &s->picture, &s->mem, NULL) != EMQ_OK)
        sim_broken(s, "dump failed");
    s->now_ms = s->picture.now_ms;
    if (s->picture.last_fence < s->last_fence)
        sim_broken(s, "the last fence fell");
    s->last_fence = s->picture.last_fence;
    for (size_t i = 0; i < s->picture.n; i++) {
        const struct emq__job *j = s->picture.jobs[i];
        check_hand_out(s, j);
        hash(s, j->id.ptr, j->id.len);
        hash(s, &j->state, sizeof j->state);
        hash(s, &j->fence, sizeof j->fence);
    }
    for (size_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].accepted && !sim_stored(s, s->jobs[i].id))
            sim_broken(s, "job %s was accepted and is lost", s->jobs[i].id);
    check_beliefs(s);
    hash(s, s->what, strlen(s->what));
    memcpy(s->log[s->step % (int)EMQ_ARRAY_LEN(s->log)], s->what, sizeof s->what);
}

static void one_step(struct sim *s)
{
    uint64_t what = sim_pick(s, 100);

    s->what[0] = '\0';
    if (what < 10)
        produce(s);
    else if (what < 12)
        administrate(s);
    else if (what < 27)
        pass_time(s);
    else
        sim_worker_step(s, &s->workers[sim_pick(s, SIM_WORKERS)]);
    look(s);
}

/* ---- the end: with everything in order, all work gets done */

static int64_t unfinished(const struct sim *s)
{
    const int64_t *count = s->picture.stats.count;
    return count[EMQ_WAITING] + count[EMQ_PRIORITIZED] + count[EMQ_DELAYED] + count[EMQ_ACTIVE];
}

static void settle_down(struct sim *s)
{
    static const struct emq__meta_field normal[] = {{{"paused", 6}, {"", 0}},
                                                    {{"concurrency", 11}, {"", 0}}};
    struct emq__arena mem = {0};
    struct emq__meta_req req = {
        .prefix = FX_PREFIX, .queue = EMQ_STR_LIT("q"), .set = normal, .n_set = 2};
    struct emq__meta_res res;
    int limit = s->step + 20000;

    s->faults = false;
    if (s->under->ops->meta(s->under, &req, &res, &mem, NULL) != EMQ_OK)
        sim_broken(s, "meta failed");
    emq__arena_free(&mem);
    while (s->producer_doubt || unfinished(s) > 0) {
        if (++s->step > limit)
            sim_broken(s, "%lld jobs never end", (long long)unfinished(s));
        s->what[0] = '\0';
        if (s->producer_doubt)
            produce(s);
        else if (sim_chance(s, 20))
            pass_time(s);
        else
            sim_worker_step(s, &s->workers[sim_pick(s, SIM_WORKERS)]);
        look(s);
    }
}

uint64_t sim_run(enum fx_kind kind, uint64_t seed, int steps)
{
    struct sim *s = calloc(1, sizeof *s);
    struct emq__arena mem = {0};
    emq_error err = {0};

    assert_non_null(s);
    s->seed = s->random = seed;
    s->faults = true;
    /* A server's TTLs run on while the virtual clock stands. */
    s->safe_ms = kind == FX_REDIS || kind == FX_VALKEY ? SIM_LOCK_MS / 3 : 0;
    CHECK_STATUS_ERR(fx_open(kind, NULL, &s->under, &mem, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq__check_wrap(&s->under, on_broken, s, &err), EMQ_OK, &err);
    s->e = s->under;
    CHECK_STATUS_ERR(emq__fault_wrap(&s->e, plan, s, &err), EMQ_OK, &err);
    for (int i = 0; i < SIM_WORKERS; i++)
        sim_worker_start(s, i);
    look(s);
    for (s->step = 0; s->step < steps; s->step++)
        one_step(s);
    settle_down(s);
    uint64_t h = s->hash;
    s->e->ops->close(s->e);
    emq__arena_free(&s->mem);
    emq__arena_free(&mem);
    free(s);
    return h;
}
