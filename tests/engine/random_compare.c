/* SPDX-License-Identifier: MIT
 *
 * The comparing half of the random comparison: what "the same" means.
 */
#include "random.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "model/state.h"

emq_str random_queue(int queue)
{
    static const char *const names[RANDOM_QUEUES] = {"alpha", "beta"};
    return emq_cstr(names[queue]);
}

uint64_t pick(struct lockstep *l, uint64_t n)
{
    return test_random(&l->random) % n;
}

bool chance(struct lockstep *l, unsigned percent)
{
    return pick(l, 100) < percent;
}

void note(struct lockstep *l, const char *fmt, ...)
{
    va_list ap;
    char *line = l->log[l->op % RANDOM_LOG];
    size_t used = strlen(line);

    va_start(ap, fmt);
    (void)vsnprintf(line + used, sizeof l->log[0] - used, fmt, ap);
    va_end(ap);
}

void differ(struct lockstep *l, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_error("seed %llu, operation %d: %s\n", (unsigned long long)l->seed, l->op, text);
    for (int i = l->op >= RANDOM_LOG ? l->op - RANDOM_LOG + 1 : 0; i <= l->op; i++)
        print_error("  %5d %s\n", i, l->log[i % RANDOM_LOG]);
    fail_msg("EMQ_TEST_SEED=%llu: the engines differ", (unsigned long long)l->seed);
    abort();
}

void same_i64(struct lockstep *l, const char *what, int64_t model, int64_t real)
{
    if (model != real)
        differ(l, "%s: %lld in the model, %lld", what, (long long)model, (long long)real);
}

void same_str(struct lockstep *l, const char *what, emq_str model, emq_str real)
{
    if (!emq__str_eq(model, real))
        differ(l, "%s: \"%.*s\" in the model, \"%.*s\"", what, EMQ_STR_ARG(model),
               EMQ_STR_ARG(real));
}

void same_instant(struct lockstep *l, const char *what, int64_t model, int64_t real)
{
    int64_t drift = emq__wall_ms() - l->real0_ms + 5;
    int64_t a = model - l->t0[0], b = real - l->t0[1];

    if ((model == 0) != (real == 0) || (model && (b < a - 5 || b > a + drift)))
        differ(l, "%s: %lld ms after the start in the model, %lld (may be %lld later)", what,
               (long long)a, (long long)b, (long long)drift);
}

/* Time left: what the real clock ran by itself may be missing. */
static void same_span(struct lockstep *l, const char *what, int64_t model, int64_t real)
{
    int64_t drift = emq__wall_ms() - l->real0_ms + 5;

    if (real > model + 5 || real < model - drift)
        differ(l, "%s: %lld ms left in the model, %lld", what, (long long)model, (long long)real);
}

void note_handout(struct lockstep *l, int queue, const struct emq__job *model,
                  const struct emq__job *real)
{
    struct handout *h = &l->handouts[l->n_handouts++ % RANDOM_HANDOUTS];

    h->queue = queue;
    (void)snprintf(h->id, sizeof h->id, "%.*s", EMQ_STR_ARG(model->id));
    (void)snprintf(h->token[0], sizeof h->token[0], "%.*s", EMQ_STR_ARG(model->token));
    (void)snprintf(h->token[1], sizeof h->token[1], "%.*s", EMQ_STR_ARG(real->token));
    h->fence[0] = model->fence;
    h->fence[1] = real->fence;
}

/* Both name the same hand-out: found in the ring, or too old to be there. */
static void same_fence(struct lockstep *l, const struct emq__job *a, const struct emq__job *b)
{
    if ((a->fence == 0) != (b->fence == 0))
        differ(l, "job %.*s: fence %lld in the model, %lld", EMQ_STR_ARG(a->id),
               (long long)a->fence, (long long)b->fence);
    for (size_t i = l->n_handouts; a->fence && i-- > 0 && l->n_handouts - i <= RANDOM_HANDOUTS;) {
        const struct handout *h = &l->handouts[i % RANDOM_HANDOUTS];
        if (h->fence[0] != a->fence || !emq__str_is(a->id, h->id) ||
            !emq__str_eq(random_queue(h->queue), a->queue))
            continue;
        same_i64(l, "fence", h->fence[1], b->fence);
        same_str(l, "token", emq_cstr(h->token[1]), b->token);
        return;
    }
}

void same_job(struct lockstep *l, const struct emq__job *a, const struct emq__job *b)
{
    if (!a != !b)
        differ(l, "a job is there in %s only", a ? "the model" : "the real engine");
    if (!a)
        return;
    same_str(l, "job id", a->id, b->id);
    if (a->state != b->state)
        differ(l, "job %.*s: %s in the model, %s", EMQ_STR_ARG(a->id), emq_state_name(a->state),
               emq_state_name(b->state));
    const struct {
        const char *what;
        emq_str a, b;
    } strings[] = {
        {"prefix", a->prefix, b->prefix},
        {"queue", a->queue, b->queue},
        {"name", a->name, b->name},
        {"data", a->data.bytes, b->data.bytes},
        {"result", a->result.bytes, b->result.bytes},
        {"opts", a->opts, b->opts},
        {"failedReason", a->failed_reason, b->failed_reason},
        {"stacktrace", a->stacktrace, b->stacktrace},
        {"progress", a->progress, b->progress},
        {"processedBy", a->processed_by, b->processed_by},
        {"deferredFailure", a->deferred_failure, b->deferred_failure},
        {"dedup id", a->dedup_id, b->dedup_id},
        {"group", a->group, b->group},
        {"parentKey", a->parent_key, b->parent_key},
        {"parent", a->parent, b->parent},
        {"scheduler", a->scheduler, b->scheduler},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(strings); i++)
        if (!emq__str_eq(strings[i].a, strings[i].b))
            differ(l, "job %.*s, %s: \"%.*s\" in the model, \"%.*s\"", EMQ_STR_ARG(a->id),
                   strings[i].what, EMQ_STR_ARG(strings[i].a), EMQ_STR_ARG(strings[i].b));
    const struct {
        const char *what;
        int64_t a, b;
    } numbers[] = {
        {"data kind", a->data.kind, b->data.kind},
        {"result kind", a->result.kind, b->result.kind},
        {"delay", a->delay_ms, b->delay_ms},
        {"priority", a->priority, b->priority},
        {"atm", a->attempts_made, b->attempts_made},
        {"ats", a->attempts_started, b->attempts_started},
        {"stc", a->stalled, b->stalled},
        {"mode", a->mode, b->mode},
        {"cancel", a->cancel, b->cancel},
        {"redo", a->redo, b->redo},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(numbers); i++)
        if (numbers[i].a != numbers[i].b)
            differ(l, "job %.*s, %s: %lld in the model, %lld", EMQ_STR_ARG(a->id), numbers[i].what,
                   (long long)numbers[i].a, (long long)numbers[i].b);
    same_instant(l, "timestamp", a->timestamp_at_ms, b->timestamp_at_ms);
    same_instant(l, "due", a->due_at_ms, b->due_at_ms);
    same_instant(l, "processedOn", a->processed_at_ms, b->processed_at_ms);
    same_instant(l, "finishedOn", a->finished_at_ms, b->finished_at_ms);
    /* How long ago a lock has ended is not every store's to know. */
    same_span(l, "lock", a->lock_left_ms > 0 ? a->lock_left_ms : 0,
              b->lock_left_ms > 0 ? b->lock_left_ms : 0);
    same_fence(l, a, b);
}

/* Ends the test with the first job that is on one side only. */
static void same_ids(struct lockstep *l, struct emq__job *const *a, size_t n_a,
                     struct emq__job *const *b, size_t n_b)
{
    for (size_t i = 0; i < n_a; i++) {
        size_t k = 0;
        while (k < n_b && !emq__str_eq(a[i]->id, b[k]->id))
            k++;
        if (k == n_b)
            differ(l, "job %.*s (%s) is in the model only", EMQ_STR_ARG(a[i]->id),
                   emq_state_name(a[i]->state));
        if (a[i]->state != b[k]->state)
            differ(l, "job %.*s: %s in the model, %s", EMQ_STR_ARG(a[i]->id),
                   emq_state_name(a[i]->state), emq_state_name(b[k]->state));
    }
    for (size_t i = 0; i < n_b; i++) {
        size_t k = 0;
        while (k < n_a && !emq__str_eq(b[i]->id, a[k]->id))
            k++;
        if (k == n_a)
            differ(l, "job %.*s (%s) is in the real engine only", EMQ_STR_ARG(b[i]->id),
                   emq_state_name(b[i]->state));
    }
    for (size_t i = 0; i < n_a; i++) {
        if (emq__str_eq(a[i]->id, b[i]->id))
            continue;
        char text[400];
        int used = snprintf(text, sizeof text, "%s:", emq_state_name(a[i]->state));
        for (size_t k = i; k < n_a && k < i + 8 && used < 350; k++)
            used += snprintf(text + used, sizeof text - (size_t)used, " %.20s/%.20s", a[k]->id.ptr,
                             b[k]->id.ptr);
        differ(l, "order (model/real) of %s", text);
    }
}

void same_jobs(struct lockstep *l, const char *what, struct emq__job *const *a, size_t n_a,
               struct emq__job *const *b, size_t n_b)
{
    same_i64(l, what, (int64_t)n_a, (int64_t)n_b);
    for (size_t i = 0; i < n_a; i++)
        same_job(l, a[i], b[i]);
}

static void same_stats(struct lockstep *l, const struct emq__stats_res *a,
                       const struct emq__stats_res *b)
{
    for (int i = 1; i <= EMQ_STATE_COUNT; i++)
        same_i64(l, emq_state_name(i), a->count[i], b->count[i]);
    same_i64(l, "limited", a->limited_ms > 0, b->limited_ms > 0);
    same_i64(l, "concurrency", a->concurrency, b->concurrency);
    same_i64(l, "total added", a->totals.added, b->totals.added);
    same_i64(l, "total started", a->totals.started, b->totals.started);
    same_i64(l, "total completed", a->totals.completed, b->totals.completed);
    same_i64(l, "total failed", a->totals.failed, b->totals.failed);
    same_i64(l, "total retried", a->totals.retried, b->totals.retried);
    same_i64(l, "total recovered", a->totals.recovered, b->totals.recovered);
    same_i64(l, "total deduplicated", a->totals.deduplicated, b->totals.deduplicated);
    same_i64(l, "total removed", a->totals.removed, b->totals.removed);
    same_i64(l, "retry_delayed", a->retry_delayed, b->retry_delayed);
    same_i64(l, "paused", a->paused, b->paused);
    same_i64(l, "maxed", a->maxed, b->maxed);
    same_i64(l, "exists", a->exists, b->exists);
    same_instant(l, "next due", a->next_due_at_ms, b->next_due_at_ms);
    same_instant(l, "oldest waiting", a->oldest_waiting_at_ms, b->oldest_waiting_at_ms);
}

static void same_dedup(struct lockstep *l, const struct emq__dump_res *a,
                       const struct emq__dump_res *b)
{
    same_i64(l, "dedup ids", (int64_t)a->n_dedup, (int64_t)b->n_dedup);
    for (size_t i = 0; i < a->n_dedup; i++) {
        same_str(l, "dedup id", a->dedup[i].id, b->dedup[i].id);
        same_str(l, "dedup owner", a->dedup[i].owner, b->dedup[i].owner);
        same_i64(l, "dedup next", a->dedup[i].has_next, b->dedup[i].has_next);
        same_i64(l, "dedup window", a->dedup[i].ttl_ms > 0, b->dedup[i].ttl_ms > 0);
        same_span(l, "dedup window", a->dedup[i].ttl_ms, b->dedup[i].ttl_ms);
    }
}

/* ---- events */

static bool is_instant_of_event(emq_str key)
{
    return emq__str_is(key, "id") || emq__str_is(key, "delay");
}

static void same_event(struct lockstep *l, emq_str a, emq_str b)
{
    struct emq__json ja, jb, va, vb;
    emq_str ka;
    size_t pos = 0, members = 0;

    if (!emq__json_valid(b, NULL))
        differ(l, "an event is not JSON: %.*s", EMQ_STR_ARG(b));
    ja = emq__json_root(a);
    jb = emq__json_root(b);
    while (emq__json_next(ja, &pos, &ka, &va)) {
        char key[40];
        (void)snprintf(key, sizeof key, "%.*s", EMQ_STR_ARG(ka));
        members++;
        if (!emq__json_get(jb, key, &vb))
            differ(l, "event %.*s in the model; %.*s", EMQ_STR_ARG(a), EMQ_STR_ARG(b));
        if (!is_instant_of_event(ka) && !emq__str_eq(va.raw, vb.raw))
            differ(l, "event %.*s in the model; %.*s", EMQ_STR_ARG(a), EMQ_STR_ARG(b));
    }
    for (pos = 0; emq__json_next(jb, &pos, &ka, &vb);)
        members--;
    if (members != 0)
        differ(l, "event %.*s in the model; %.*s", EMQ_STR_ARG(a), EMQ_STR_ARG(b));
}

static void same_events(struct lockstep *l, int queue, struct emq__arena *mem)
{
    struct emq__events_res res[2];

    for (int side = 0; side < 2; side++) {
        struct emq__events_req req = {FX_PREFIX, random_queue(queue),
                                      emq_cstr(l->cursor[side][queue]), 100000};
        if (l->e[side]->ops->events(l->e[side], &req, &res[side], mem, NULL) != EMQ_OK)
            differ(l, "events could not be read");
        (void)snprintf(l->cursor[side][queue], sizeof l->cursor[side][queue], "%.*s",
                       EMQ_STR_ARG(res[side].last_id));
    }
    for (size_t i = 0; i < res[0].n && i < res[1].n; i++)
        same_event(l, res[0].events[i].json, res[1].events[i].json);
    if (res[0].n != res[1].n) {
        const struct emq__events_res *more = res[0].n > res[1].n ? &res[0] : &res[1];
        size_t at = res[0].n < res[1].n ? res[0].n : res[1].n;
        differ(l, "%zu events in the model, %zu; the first that is missing: %.*s", res[0].n,
               res[1].n, EMQ_STR_ARG(more->events[at].json));
    }
}

/* ---- moves */

static bool reachable(unsigned moves, int from, int to, int depth)
{
    if (from == to)
        return true;
    if (depth == 0)
        return false;
    for (int move = EMQ__MOVE_ADD; move <= EMQ__MOVE_REMOVE; move++)
        for (int via = 0; (moves & (1u << move)) && via <= EMQ_STATE_COUNT; via++)
            if (via != from && emq__move_legal((enum emq__move)move, from, via) &&
                reachable(moves, via, to, depth - 1))
                return true;
    return false;
}

static int state_in(const struct emq__dump_res *d, emq_str id)
{
    for (size_t i = 0; i < d->n; i++)
        if (emq__str_eq(d->jobs[i]->id, id))
            return d->jobs[i]->state;
    return 0;
}

static void legal_moves(struct lockstep *l, const struct emq__dump_res *before,
                        const struct emq__dump_res *after)
{
    const struct emq__dump_res *const pictures[] = {before, after};

    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < pictures[p]->n; i++) {
            emq_str id = pictures[p]->jobs[i]->id;
            int from = state_in(before, id), to = state_in(after, id);
            if (!reachable(l->moves, from, to, 3))
                differ(l, "job %.*s went from %s to %s, which this operation may not do",
                       EMQ_STR_ARG(id), from ? emq_state_name(from) : "nothing",
                       to ? emq_state_name(to) : "nothing");
        }
}

static void broken(void *user, const char *line)
{
    differ(user, "invariant broken: %s", line);
}

void same_picture(struct lockstep *l)
{
    struct emq__arena *mem = &l->mem[l->turn ^= 1];

    emq__arena_free(mem);
    for (int queue = 0; queue < RANDOM_QUEUES; queue++) {
        struct emq__dump_req req = {FX_PREFIX, random_queue(queue)};
        struct emq__dump_res real;
        emq_error err = {0};

        if (l->e[0]->ops->dump(l->e[0], &req, &l->after[queue], mem, &err) != EMQ_OK ||
            l->e[1]->ops->dump(l->e[1], &req, &real, mem, &err) != EMQ_OK)
            differ(l, "dump failed: %s", err.text);
        (void)emq__check_dump(&l->after[queue], broken, l);
        (void)emq__check_dump(&real, broken, l);
        same_ids(l, l->after[queue].jobs, l->after[queue].n, real.jobs, real.n);
        same_jobs(l, "jobs", l->after[queue].jobs, l->after[queue].n, real.jobs, real.n);
        same_stats(l, &l->after[queue].stats, &real.stats);
        same_dedup(l, &l->after[queue], &real);
        same_i64(l, "id counter", l->after[queue].id_counter, real.id_counter);
        same_events(l, queue, mem);
        legal_moves(l, &l->before[queue], &l->after[queue]);
        l->before[queue] = l->after[queue];
    }
}
