/* SPDX-License-Identifier: MIT
 *
 * fsck, over the acts `suspects` and `mend`.
 */
#include "lab/fsck.h"

#include "base/error.h"
#include "base/str.h"

#include <time.h>

enum { ROUNDS = 5, FOUND_MAX = 10000, LOOK_AGAIN_MS = 500 };

/* One queue. */
struct check {
    emq_client *c;
    struct emq__fsck *f;
    emq_str queue;
    struct emq__arena mem;
    struct suspect {
        struct emq__suspect is;
        emq_str remedy;
        bool broken, waits;
    } * list;
    size_t n, cap;
    struct emq__map told; /* findings of earlier rounds */
};

static emq_status collect(struct check *k, const struct emq__suspects_res *res, emq_error *err)
{
    if (k->n + res->n > k->cap) {
        size_t cap = (k->n + res->n) * 2;
        struct suspect *list = emq__arena_zalloc(&k->mem, cap, sizeof *list);
        if (!list)
            return emq__no_memory("fsck", err);
        if (k->n)
            memcpy(list, k->list, k->n * sizeof *list);
        k->list = list;
        k->cap = cap;
    }
    for (size_t i = 0; i < res->n && k->n < FOUND_MAX; i++)
        k->list[k->n++] = (struct suspect){.is = res->suspects[i]};
    return EMQ_OK;
}

static emq_status walk(struct check *k, emq_error *err)
{
    struct emq__suspect_ids met = {0};
    struct emq__suspects_req req = {.prefix = k->c->prefix, .queue = k->queue, .met = &met};
    struct emq__suspects_res res;
    emq_status s;

    do {
        s = k->c->e->ops->suspects(k->c->e, &req, &res, &k->mem, err);
        if (s == EMQ_OK)
            s = collect(k, &res, err);
        req.after = res.next;
    } while (s == EMQ_OK && res.next.len > 0 && k->n < FOUND_MAX);
    emq__suspects_end(&met);
    return s;
}

static emq_status look(struct check *k, struct suspect *x, bool repair, int32_t *outcome,
                       emq_error *err)
{
    struct emq__mend_req req = {
        .prefix = k->c->prefix, .queue = k->queue, .suspect = &x->is, .repair = repair};
    struct emq__mend_res res;
    emq_status s = k->c->e->ops->mend(k->c->e, &req, &res, &k->mem, err);

    if (s == EMQ_E_IN_DOUBT) /* twice does no harm */
        s = k->c->e->ops->mend(k->c->e, &req, &res, &k->mem, err);
    if (s != EMQ_OK)
        return s;
    *outcome = res.outcome;
    if (repair)
        return EMQ_OK;
    x->broken = res.outcome == EMQ__MEND_BROKEN;
    x->waits = res.waits;
    x->remedy = res.remedy;
    return EMQ_OK;
}

/* Looks at each; those that a sweep may still make good, until the patience is over. */
static emq_status second_look(struct check *k, emq_error *err)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), k->f->patience_ms);
    bool waits = false;
    int32_t outcome;
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < k->n; i++) {
        s = look(k, &k->list[i], false, &outcome, err);
        waits = waits || (k->list[i].broken && k->list[i].waits);
    }
    while (s == EMQ_OK && waits && emq__mono_now().us < end.us &&
           !(k->f->stop && atomic_load(k->f->stop))) {
        const struct timespec nap = {.tv_nsec = LOOK_AGAIN_MS * 1000000L};
        (void)nanosleep(&nap, NULL);
        waits = false;
        for (size_t i = 0; s == EMQ_OK && i < k->n; i++)
            if (k->list[i].broken && k->list[i].waits) {
                s = look(k, &k->list[i], false, &outcome, err);
                waits = waits || k->list[i].broken;
            }
    }
    return s;
}

/* Has this finding been told in an earlier round? */
static bool told(struct check *k, const struct suspect *x)
{
    emq_str key = emq__arena_printf(&k->mem, "%.*s %.*s %.*s", EMQ_STR_ARG(x->is.flaw),
                                    EMQ_STR_ARG(x->is.id), EMQ_STR_ARG(x->is.key));

    if (key.ptr && emq__map_get(&k->told, key))
        return true;
    if (key.ptr) /* without memory it is told twice */
        (void)emq__map_put(&k->told, key, k);
    return false;
}

/* *repaired: how many became good. */
static emq_status settle(struct check *k, int64_t *repaired, emq_error *err)
{
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < k->n; i++) {
        struct suspect *x = &k->list[i];
        int32_t outcome = EMQ__MEND_BROKEN;
        if (!x->broken)
            continue;
        if (k->f->repair && x->remedy.len)
            s = look(k, x, true, &outcome, err);
        if (s != EMQ_OK)
            break;
        bool good = outcome != EMQ__MEND_BROKEN; /* also by the repair of another */
        *repaired += good;
        if (told(k, x))
            continue;
        k->f->n_found++;
        k->f->n_repaired += good;
        const struct emq__finding f = {.queue = k->queue,
                                       .id = x->is.id,
                                       .flaw = x->is.flaw,
                                       .text = x->is.text,
                                       .remedy = x->remedy,
                                       .repaired = good};
        k->f->found(k->f->user, &f);
    }
    return s;
}

/* A repair may show what was hidden behind the flaw: rounds, until one finds nothing to repair. */
static emq_status check_queue(emq_client *c, struct emq__fsck *f, emq_str queue, emq_error *err)
{
    struct check k = {.c = c, .f = f, .queue = queue};
    int64_t repaired = 1;
    emq_status s = EMQ_OK;

    for (int round = 0; s == EMQ_OK && repaired > 0 && round < ROUNDS; round++) {
        repaired = 0;
        k.n = k.cap = 0;
        s = walk(&k, err);
        if (s == EMQ_OK)
            s = second_look(&k, err);
        if (s == EMQ_OK)
            s = settle(&k, &repaired, err);
        emq__arena_free(&k.mem);
    }
    emq__map_free(&k.told);
    return s;
}

/* It is there, perhaps only since a repair gave it its settings again, or there is something of it. */
static emq_status count_it(emq_client *c, struct emq__fsck *f, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__stats_req req = {.prefix = c->prefix, .queue = f->queue};
    struct emq__stats_res res = {0};
    /* what was found may refuse to be counted */
    emq_status s = f->n_found > 0 ? EMQ_OK : c->e->ops->stats(c->e, &req, &res, &mem, err);

    f->n_queues += s == EMQ_OK && (res.exists || f->n_found > 0);
    emq__arena_free(&mem);
    return s;
}

emq_status emq__fsck(emq_client *c, struct emq__fsck *f, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__queues_req req = {.prefix = c->prefix, .unseen = true};
    struct emq__queues_res res = {0};
    emq_status s = EMQ_OK;

    f->n_queues = f->n_found = f->n_repaired = 0;
    if (f->queue.len) {
        s = emq__client_check_queue(c, f->queue, "fsck", err);
        if (s == EMQ_OK)
            s = check_queue(c, f, f->queue, err);
        return s == EMQ_OK ? count_it(c, f, err) : s;
    }
    s = emq__client_check(c, "fsck", err);
    if (s == EMQ_OK) /* first: jobs of no queue get one */
        s = check_queue(c, f, EMQ_STR_LIT(""), err);
    if (s == EMQ_OK)
        s = c->e->ops->queues(c->e, &req, &res, &mem, err);
    for (size_t i = 0; s == EMQ_OK && i < res.n; i++, f->n_queues++)
        s = check_queue(c, f, res.names[i], err);
    emq__arena_free(&mem);
    return s;
}
