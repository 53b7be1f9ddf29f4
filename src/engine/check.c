/* SPDX-License-Identifier: MIT
 *
 * Decorator: after each mutating act it looks at the queues that the act touched and compares them
 * with the invariants (check_dump.c), and with what it saw before: totals, the id counter and fences
 * only grow while a queue lives. It changes nothing. A failing dump is not a violation: the store may
 * be out of order on purpose.
 */
#include "engine/engine.h"

#include "base/error.h"
#include "base/str.h"

#include <pthread.h>

struct seen {
    char *key; /* prefix NUL queue */
    size_t len;
    struct emq__totals totals;
    int64_t last_fence, id_counter;
    struct seen *next;
};

struct check {
    struct emq__engine e;
    struct emq__engine *under;
    emq__broken_fn on_broken;
    void *user;
    pthread_mutex_t
        mu; /* guards seen; held over dump and comparison, so that pictures are in order */
    struct seen *seen;
};

struct report {
    struct check *c;
    const char *act;
    emq_str queue;
};

static void broken(void *user, const char *line)
{
    const struct report *r = user;
    char text[700];

    (void)snprintf(text, sizeof text, "after %s on queue %.*s: %s", r->act, EMQ_STR_ARG(r->queue),
                   line);
    if (r->c->on_broken) {
        r->c->on_broken(r->c->user, text);
        return;
    }
    (void)fprintf(stderr, "invariant broken %s\n", text);
    abort();
}

static struct seen *seen_of(struct check *c, emq_str prefix, emq_str queue)
{
    size_t len = prefix.len + 1 + queue.len;
    char *key = malloc(len);

    if (!key)
        return NULL;
    memcpy(key, prefix.ptr, prefix.len);
    key[prefix.len] = '\0';
    memcpy(key + prefix.len + 1, queue.ptr, queue.len);
    for (struct seen *s = c->seen; s; s = s->next)
        if (s->len == len && memcmp(s->key, key, len) == 0) {
            free(key);
            return s;
        }
    struct seen *s = calloc(1, sizeof *s);
    if (!s) {
        free(key);
        return NULL;
    }
    s->key = key;
    s->len = len;
    s->next = c->seen;
    c->seen = s;
    return s;
}

static void grows(struct report *r, const char *what, int64_t before, int64_t now)
{
    char line[120];

    if (now >= before)
        return;
    (void)snprintf(line, sizeof line, "%s fell from %lld to %lld", what, (long long)before,
                   (long long)now);
    broken(r, line);
}

static void compare(struct report *r, struct seen *s, const struct emq__dump_res *d)
{
    const struct emq__totals *a = &s->totals, *b = &d->stats.totals;

    if (d->stats.exists) {
        grows(r, "total added", a->added, b->added);
        grows(r, "total started", a->started, b->started);
        grows(r, "total completed", a->completed, b->completed);
        grows(r, "total failed", a->failed, b->failed);
        grows(r, "total retried", a->retried, b->retried);
        grows(r, "total recovered", a->recovered, b->recovered);
        grows(r, "total deduplicated", a->deduplicated, b->deduplicated);
        grows(r, "total removed", a->removed, b->removed);
        grows(r, "the last fence", s->last_fence, d->last_fence);
        grows(r, "the id counter", s->id_counter, d->id_counter);
    }
    s->totals = d->stats.totals;
    s->last_fence = d->last_fence;
    s->id_counter = d->id_counter;
}

static void look(struct check *c, const char *act, emq_str prefix, emq_str queue)
{
    struct emq__arena mem = {0};
    struct emq__dump_req req = {prefix, queue};
    struct emq__dump_res res;
    struct report r = {c, act, queue};

    pthread_mutex_lock(&c->mu);
    struct seen *s = seen_of(c, prefix, queue);
    if (s && c->under->ops->dump(c->under, &req, &res, &mem, NULL) == EMQ_OK) {
        (void)emq__check_dump(&res, broken, &r);
        compare(&r, s, &res);
    }
    pthread_mutex_unlock(&c->mu);
    emq__arena_free(&mem);
}

/* ---- the queues that an act touches */

#define LOOK_AT_ONE(act)                                                        \
    static void look_##act(struct check *c, const struct emq__##act##_req *req) \
    {                                                                           \
        look(c, #act, req->prefix, req->queue);                                 \
    }
LOOK_AT_ONE(take)
LOOK_AT_ONE(settle)
LOOK_AT_ONE(sweep)
LOOK_AT_ONE(promote)
LOOK_AT_ONE(write)
LOOK_AT_ONE(change)
LOOK_AT_ONE(bulk)
LOOK_AT_ONE(obliterate)
LOOK_AT_ONE(dedup)
LOOK_AT_ONE(meta)
LOOK_AT_ONE(mark)
#undef LOOK_AT_ONE

/* Each queue once, however its entries are mixed with others. */
#define LOOK_AT_ENTRIES(act)                                                       \
    static void look_##act(struct check *c, const struct emq__##act##_req *req)    \
    {                                                                              \
        for (size_t i = 0, j; i < req->n; i++) {                                   \
            for (j = 0; j < i; j++)                                                \
                if (emq__str_eq(req->entries[i]->queue, req->entries[j]->queue) && \
                    emq__str_eq(req->entries[i]->prefix, req->entries[j]->prefix)) \
                    break;                                                         \
            if (j == i)                                                            \
                look(c, #act, req->entries[i]->prefix, req->entries[i]->queue);    \
        }                                                                          \
    }
LOOK_AT_ENTRIES(add)
LOOK_AT_ENTRIES(extend)
#undef LOOK_AT_ENTRIES

/* A stage may hold jobs of any queue. */
static void look_publish(struct check *c, const struct emq__publish_req *req)
{
    struct emq__arena mem = {0};
    struct emq__queues_req all = {.prefix = req->prefix};
    struct emq__queues_res res;

    if (c->under->ops->queues(c->under, &all, &res, &mem, NULL) == EMQ_OK)
        for (size_t i = 0; i < res.n; i++)
            look(c, "publish", req->prefix, res.names[i]);
    emq__arena_free(&mem);
}

#define LOOK_AT_NOTHING(act)                                                    \
    static void look_##act(struct check *c, const struct emq__##act##_req *req) \
    {                                                                           \
        (void)c;                                                                \
        (void)req;                                                              \
    }
LOOK_AT_NOTHING(claims)
LOOK_AT_NOTHING(wait)
LOOK_AT_NOTHING(wake)
LOOK_AT_NOTHING(jobs)
LOOK_AT_NOTHING(stats)
LOOK_AT_NOTHING(find)
LOOK_AT_NOTHING(queues)
LOOK_AT_NOTHING(logs)
LOOK_AT_NOTHING(events)
LOOK_AT_NOTHING(history)
LOOK_AT_NOTHING(dump)
LOOK_AT_NOTHING(markers)
LOOK_AT_NOTHING(suspects)
LOOK_AT_NOTHING(mend) /* the store is out of order on purpose */
LOOK_AT_NOTHING(facts)
#undef LOOK_AT_NOTHING

#define CHECK_ACT(act, mutating)                                                             \
    static emq_status check_##act(struct emq__engine *e, const struct emq__##act##_req *req, \
                                  struct emq__##act##_res *res, struct emq__arena *mem,      \
                                  emq_error *err)                                            \
    {                                                                                        \
        struct check *c = (struct check *)e;                                                 \
        emq_status s = c->under->ops->act(c->under, req, res, mem, err);                     \
        look_##act(c, req);                                                                  \
        return s;                                                                            \
    }
EMQ__ACTS(CHECK_ACT)
#undef CHECK_ACT

/* ---- the handle */

static uint64_t check_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    struct emq__engine *under = ((struct check *)e)->under;
    return under->ops->ticket(under, prefix, queues, n);
}

static void check_interrupt(struct emq__engine *e)
{
    struct emq__engine *under = ((struct check *)e)->under;
    under->ops->interrupt(under);
}

static emq_status check_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct emq__engine *under = ((struct check *)e)->under;
    return under->ops->advance(under, ms, err);
}

static void check_close(struct emq__engine *e)
{
    struct check *c = (struct check *)e;

    c->under->ops->close(c->under);
    while (c->seen) {
        struct seen *s = c->seen;
        c->seen = s->next;
        free(s->key);
        free(s);
    }
    pthread_mutex_destroy(&c->mu);
    free(c);
}

static const struct emq__engine_ops check_ops = {
    .name = "check",
#define CHECK_OP(act, mutating) .act = check_##act,
    EMQ__ACTS(CHECK_OP)
#undef CHECK_OP
        .ticket = check_ticket,
    .interrupt = check_interrupt,
    .advance = check_advance,
    .close = check_close,
};

emq_status emq__check_wrap(struct emq__engine **e, emq__broken_fn on_broken, void *user,
                           emq_error *err)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c)
        return emq__fail(err, EMQ_E_NOMEM, 0, "check", "%zu bytes", sizeof *c);
    int rc = pthread_mutex_init(&c->mu, NULL);
    if (rc) {
        free(c);
        return emq__fail(err, EMQ_E_SYSTEM, rc, "check", "mutex");
    }
    c->e.ops = &check_ops;
    c->under = *e;
    c->on_broken = on_broken;
    c->user = user;
    *e = &c->e;
    return EMQ_OK;
}
