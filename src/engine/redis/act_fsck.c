/* SPDX-License-Identifier: MIT
 *
 * The acts `suspects` and `mend`. A walk looks at the kinds of the keys, at the ids of each place, at all keys, at
 * the queue itself, at its events. Where each id was met is remembered: one that is met twice, or a record that
 * was met nowhere, is a suspect too.
 */
#include "base/error.h"
#include "base/str.h"
#include "engine/redis/admin.h"

enum { IDS = 250, BIG_ID_DIGITS = 15 };

static const struct flaw {
    const char *name, *text, *remedy; /* remedy NULL: nothing repairs it */
} flaws[] = {
    {"type", "a key is of another type than it should be", NULL},
    {"ghost", "its id stands in a place, its record is gone", "the id is taken out"},
    {"data", "its data is gone: a take fails it and never runs it", NULL},
    {"record", "its name, options or creation time is missing", "it gets a default"},
    {"opts", "its options are no JSON", NULL},
    {"number", "a number of its record is none", "it becomes the present time, or 0"},
    {"unfinished", "it is not finished, but says when it was", "the time is dropped"},
    {"due", "it is due by a score that is no BullMQ score", "the score is corrected"},
    {"priority", "its place is not one of its priority", "its place is corrected"},
    {"finished", "its place is not the time of its end", "it is corrected"},
    {"result", "its result is missing or no JSON", "it is made JSON"},
    {"reason", "it failed without a reason", "it gets one"},
    {"deferred", "it has failed, with a failure still to come", "the failure is dropped"},
    {"lock", "its lock never ends", "it ends in 30 s"},
    {"fence", "its fence is above the queue's", "the queue's is raised"},
    {"stalled", "its lock has ended, and no sweep took it back",
     "it goes back to the front of its line"},
    {"parent", "it waits for children and has none to wait for", "it goes on"},
    {"child", "it waits for a child that is gone", "it waits no more for that one"},
    {"child-ended", "it waits for a child that has ended", "it is told so"},
    {"child-twice", "it waits for a child whose end it has been told",
     "that end is forgotten: the child has not ended"},
    {"child-ends", "it has been told two ends of one child", NULL},
    {"in-vain", "it completed, with a child whose failure fails it", NULL},
    {"unlinked", "its parent waits for others, but not for it", "it waits for it too"},
    {"twice", "it stands in more than one place", "it stays in one"},
    {"nowhere", "its record is there, it stands in no place", "it goes to where its record says"},
    {"staged", "it was added to a stage that has ended", "it goes, as any that was not published"},
    {"debris", "a piece of a record of a job that is gone", "it is removed"},
    {"leftover", "a key of a job that is gone", "it is removed"},
    {"lock-left", "it is locked, but not active", "the lock is removed"},
    {"dedup-owner", "a dedup id is held by a job that does not live",
     "it is released; a kept duplicate is added"},
    {"dedup-next", "a kept duplicate waits for a dedup id that nobody holds", "it is added"},
    {"kept-record", "a kept duplicate has no name or no options", "it gets a default"},
    {"kept-data", "the data of a kept duplicate is gone: it can't be added", NULL},
    {"limiter", "the rate limit never ends", "its window begins anew"},
    {"sweeps", "the pause between two sweeps of BullMQ never ends", "it ends"},
    {"marker", "jobs wait, no marker wakes a worker for them", "it is set"},
    {"publication", "a batch is there in part: the program that published it is gone",
     "it is published to its end"},
    {"mark", "it is marked as stalled, but not active", "the mark is removed"},
    {"meta", "the queue has jobs, but no settings: it can't be seen", "it gets them"},
    {"setting", "a setting is no number, and does nothing: set it anew", NULL},
    {"order", "the counter that orders prioritized jobs is no number", "it is the last one's"},
    {"counter", "the counter of ids is behind the ids, or no number", "it is the last id's"},
    {"scheduler", "a scheduler has no next time", NULL},
    {"iterations", "a scheduler's count of iterations is no number", "it becomes 1"},
    {"unscheduled", "the next job of a scheduler is gone, and none comes: upsert it anew", NULL},
    {"schedule", "a next time is of no scheduler", NULL},
    {"event", "an event that readers can't read: its value is no JSON", "the event is removed"},
};

static const struct flaw *flaw_of(emq_str name)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(flaws); i++)
        if (emq__str_is(name, flaws[i].name))
            return &flaws[i];
    return NULL;
}

/* ---- a walk ------------------------------------------------------------------------------------ */

static const char *const places[] = {"wait",        "paused",           "active",    "delayed",
                                     "prioritized", "waiting-children", "completed", "failed"};

struct walk {
    struct emq__engine *e;
    const struct emq__suspects_req *req;
    struct emq__suspects_res *res;
    struct emq__arena *mem;
    size_t cap;
};

static emq_status no_memory(emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "no memory for what was found");
}

static emq_status add(struct walk *w, emq_str name, emq_str id, emq_str key, emq_str about,
                      emq_error *err)
{
    const struct flaw *f = flaw_of(name);

    if (!f)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "fsck", "no flaw \"%.*s\"", EMQ_STR_ARG(name));
    if (w->res->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 16;
        struct emq__suspect *list = emq__arena_zalloc(w->mem, cap, sizeof *list);
        if (!list)
            return no_memory(err);
        if (w->cap)
            memcpy(list, w->res->suspects, w->cap * sizeof *list);
        w->res->suspects = list;
        w->cap = cap;
    }
    emq_str text = about.len ? emq__arena_printf(w->mem, "%s: %.*s", f->text, EMQ_STR_ARG(about))
                             : emq_cstr(f->text);
    if (!text.ptr || !key.ptr)
        return no_memory(err);
    w->res->suspects[w->res->n++] = (struct emq__suspect){emq_cstr(f->name), id, key, text};
    return EMQ_OK;
}

/* One slice by the script; *r has the cursor and the ids. */
static emq_status slice(struct walk *w, const char *what, emq_str where, int64_t from,
                        const struct rd_reply **r, emq_error *err)
{
    struct rd_args *a = rd_args_new(w->e, RD_LUA_suspects, w->req->prefix, w->req->queue, w->mem);

    rd_arg_str(a, emq_cstr(what));
    rd_arg_str(a, where);
    rd_arg_i64(a, from);
    rd_arg_i64(a, IDS);
    emq_status s = rd_eval(a, r, err);
    if (s != EMQ_OK)
        return s;
    w->res->now_ms = rd_i64(rd_at(*r, 0));
    const struct rd_reply *found = rd_at(*r, 3);
    for (size_t i = 0; s == EMQ_OK && i + 3 < found->n; i += 4)
        s = add(w, rd_str(rd_at(found, i)), rd_str(rd_at(found, i + 1)),
                rd_str(rd_at(found, i + 2)), rd_str(rd_at(found, i + 3)), err);
    return s;
}

static emq_status next(struct walk *w, const char *phase, int64_t n, emq_str rest, emq_error *err)
{
    w->res->next =
        emq__arena_printf(w->mem, "%s %lld %.*s", phase, (long long)n, EMQ_STR_ARG(rest));
    return w->res->next.ptr ? EMQ_OK : no_memory(err);
}

/* ---- places: the ids of one, from a rank on ------------------------------------------------------- */

/* The number of an id that the counter may have given. */
static int64_t number_of(emq_str id)
{
    int64_t n;

    return id.len <= BIG_ID_DIGITS && emq__skip_digits(id, 0) == id.len && emq__str_to_i64(id, &n)
               ? n
               : 0;
}

static emq_status meet(struct walk *w, emq_str id, emq_error *err)
{
    struct emq__map *met = &w->req->met->places;
    int64_t n = number_of(id);

    if (emq__map_get(met, id))
        return add(w, EMQ_STR_LIT("twice"), id, EMQ_STR_LIT("twice"), EMQ_STR_LIT(""), err);
    if (!emq__map_put(met, id, w->req->met))
        return no_memory(err);
    if (n > w->req->met->greatest)
        w->req->met->greatest = n;
    return EMQ_OK;
}

static emq_status walk_place(struct walk *w, int64_t rank, emq_str place, emq_error *err)
{
    const struct rd_reply *r;
    size_t i = 0;
    emq_status s = slice(w, "place", place, rank, &r, err);

    if (s != EMQ_OK)
        return s;
    const struct rd_reply *ids = rd_at(r, 2);
    for (size_t k = 0; s == EMQ_OK && k < ids->n; k++)
        s = meet(w, rd_str(rd_at(ids, k)), err);
    if (s != EMQ_OK)
        return s;
    if (ids->n >= IDS)
        return next(w, "place", rank + IDS, place, err);
    while (!emq__str_is(place, places[i]))
        i++;
    return i + 1 < EMQ_ARRAY_LEN(places) ? next(w, "place", 0, emq_cstr(places[i + 1]), err)
                                         : next(w, "keys", 0, EMQ_STR_LIT("0"), err);
}

/* ---- the other phases ------------------------------------------------------------------------------ */

static emq_status walk_types(struct walk *w, int64_t n, emq_str rest, emq_error *err)
{
    const struct rd_reply *r;
    emq_status s = slice(w, "types", EMQ_STR_LIT(""), 0, &r, err);

    (void)n, (void)rest;
    if (s != EMQ_OK || w->res->n > 0) /* the rest would only fail */
        return s;
    return next(w, "place", 0, emq_cstr(places[0]), err);
}

static emq_status walk_keys(struct walk *w, int64_t n, emq_str cursor, emq_error *err)
{
    const struct rd_reply *r;
    emq_status s = slice(w, "keys", cursor, 0, &r, err);

    (void)n;
    if (s != EMQ_OK)
        return s;
    const struct rd_reply *ids = rd_at(r, 2);
    for (size_t k = 0; s == EMQ_OK && k < ids->n; k++)
        if (!emq__map_get(&w->req->met->places, rd_str(rd_at(ids, k))))
            s = add(w, EMQ_STR_LIT("nowhere"), rd_str(rd_at(ids, k)), EMQ_STR_LIT("nowhere"),
                    EMQ_STR_LIT(""), err);
    cursor = rd_str(rd_at(r, 1));
    if (s != EMQ_OK)
        return s;
    return cursor.len ? next(w, "keys", 0, cursor, err) : next(w, "queue", 0, EMQ_STR_LIT(""), err);
}

static emq_status walk_queue(struct walk *w, int64_t n, emq_str rest, emq_error *err)
{
    const struct rd_reply *r;
    emq_status s = slice(w, "queue", EMQ_STR_LIT(""), 0, &r, err);

    (void)n, (void)rest;
    if (s == EMQ_OK) /* mend() knows where the counter is */
        s = add(w, EMQ_STR_LIT("counter"), EMQ_STR_LIT(""),
                emq__arena_printf(w->mem, "counter %lld", (long long)w->req->met->greatest),
                EMQ_STR_LIT(""), err);
    return s == EMQ_OK ? next(w, "events", 0, EMQ_STR_LIT(""), err) : s;
}

static emq_status walk_events(struct walk *w, int64_t n, emq_str after, emq_error *err)
{
    const struct rd_reply *r;
    emq_status s = slice(w, "events", after, 0, &r, err);

    (void)n;
    after = s == EMQ_OK ? rd_str(rd_at(r, 1)) : after;
    return s == EMQ_OK && after.len ? next(w, "events", 0, after, err) : s;
}

/* "phase number rest". */
static emq_status go_on(struct walk *w, emq_str at, emq_error *err)
{
    static const struct {
        const char *name;
        emq_status (*fn)(struct walk *, int64_t, emq_str, emq_error *);
    } phases[] = {{"place ", walk_place},
                  {"keys ", walk_keys},
                  {"queue ", walk_queue},
                  {"events ", walk_events}};
    int64_t n = 0;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(phases); i++) {
        size_t head = strlen(phases[i].name), end;
        if (!emq__str_starts(at, phases[i].name))
            continue;
        end = emq__skip_digits(at, head);
        (void)emq__str_to_i64(emq_strn(at.ptr + head, end - head), &n);
        return phases[i].fn(w, n, emq_strn(at.ptr + end + 1, at.len - end - 1), err);
    }
    return walk_types(w, 0, at, err);
}

emq_status rd_suspects(struct emq__engine *e, const struct emq__suspects_req *req,
                       struct emq__suspects_res *res, struct emq__arena *mem, emq_error *err)
{
    struct walk w = {.e = e, .req = req, .res = res, .mem = mem};

    *res = (struct emq__suspects_res){0};
    if (req->queue.len == 0) { /* every key of ours is of a queue, or ends by itself */
        /* Only for the time; on a cluster, by any node. */
        struct emq__stats_req stats = {.prefix = req->prefix, .queue = EMQ_STR_LIT("{none}")};
        struct emq__stats_res now;
        emq_status s = rd_stats(e, &stats, &now, mem, err);
        res->now_ms = s == EMQ_OK ? now.now_ms : 0;
        return s;
    }
    return go_on(&w, req->after, err);
}

/* ---- mend ---------------------------------------------------------------------------------------- */

emq_status rd_mend(struct emq__engine *e, const struct emq__mend_req *req,
                   struct emq__mend_res *res, struct emq__arena *mem, emq_error *err)
{
    enum { NOW, BROKEN, LEFT }; /* the places of its answer */
    enum { MORE = 1, NOT_NOW };
    const struct flaw *f = flaw_of(req->suspect->flaw);
    bool repair = req->repair && f && f->remedy;
    const struct rd_reply *r;

    *res = (struct emq__mend_res){.outcome = EMQ__MEND_HEALTHY};
    do {
        struct rd_args *a = rd_args_new(e, RD_LUA_mend, req->prefix, req->queue, mem);
        if (repair)
            rd_arg_writes(a);
        rd_arg_str(a, req->suspect->flaw);
        rd_arg_str(a, req->suspect->id);
        rd_arg_str(a, req->suspect->key);
        rd_arg_i64(a, repair);
        emq_status s = rd_eval(a, &r, err);
        if (s != EMQ_OK)
            return s;
    } while (rd_i64(rd_at(r, LEFT)) == MORE);
    res->now_ms = rd_i64(rd_at(r, NOW));
    if (!f || rd_i64(rd_at(r, BROKEN)) == 0)
        return EMQ_OK;
    repair = repair && rd_i64(rd_at(r, LEFT)) != NOT_NOW;
    res->outcome = repair ? EMQ__MEND_REPAIRED : EMQ__MEND_BROKEN;
    res->remedy = emq_cstr(f->remedy);
    res->waits = emq__str_is(req->suspect->flaw, "stalled") ||
                 emq__str_is(req->suspect->flaw, "marker") ||
                 emq__str_is(req->suspect->flaw, "publication");
    return EMQ_OK;
}
