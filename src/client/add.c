/* SPDX-License-Identifier: MIT
 *
 * Adding jobs. Everything of a call is checked before its first write; many jobs go in as one act,
 * or as invisible slices that one act publishes: all or none either way.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/names.h"

enum { OPTS_MAX = 64 * 1024, OPTS_NUMBERS_MAX = 512 };

static const char *const where_add = "emq_add";
static const char *const where_many = "emq_add_many";

/* What was asked for, checked; strings are the caller's. */
struct draft {
    emq_str queue, data, id, name;
    struct emq__opts o;
};

static emq_status draft_check(emq_str queue, emq_str data, const emq_add_opts *opts,
                              struct draft *out, emq_error *err)
{
    emq_status s = emq__check_queue(queue, err);

    if (s == EMQ_OK)
        s = emq__check_size(data, EMQ_DATA_MAX, where_add, "data", err);
    if (s == EMQ_OK)
        s = emq__opts_from_public(opts, &out->o, &out->id, &out->name, err);
    out->queue = queue;
    out->data = data;
    return s;
}

/* The costly part: the options as JSON, the kind of the data. */
static emq_status draft_make(emq_client *c, const struct draft *d, struct emq__arena *mem,
                             struct emq__add_entry *out, emq_error *err)
{
    struct emq__buf b;

    emq__buf_init(&b, OPTS_MAX);
    emq__opts_write(&d->o, d->id, &b);
    emq_str text = b.failed == EMQ_OK ? emq__arena_str(mem, emq__buf_view(&b)) : (emq_str){0};
    emq__buf_free(&b);
    if (!text.ptr)
        return emq__no_memory(where_add, err);
    *out = (struct emq__add_entry){
        .prefix = c->prefix,
        .queue = d->queue,
        .id = d->id,
        .name = d->name,
        .data = {emq__kind_of(d->data), d->data},
        .opts = text,
        .group = d->o.group,
        .dedup = d->o.dedup,
        .timestamp_at_ms = d->o.timestamp_at_ms,
        .delay_ms = d->o.delay_ms,
        .priority = d->o.priority,
        .lifo = d->o.lifo,
    };
    return EMQ_OK;
}

emq_status emq__add_entry_make(emq_client *c, emq_str queue, emq_str data, const emq_add_opts *opts,
                               struct emq__arena *mem, struct emq__add_entry *out, emq_error *err)
{
    struct draft d;
    emq_status s = draft_check(queue, data, opts, &d, err);

    return s == EMQ_OK ? draft_make(c, &d, mem, out, err) : s;
}

void emq__added_put(emq_added *out, const struct emq__added *a)
{
    emq_added ours = {.size = sizeof ours, .outcome = a->outcome, .state = a->state};

    if (!out)
        return;
    EMQ_ASSERT(a->id.len <= EMQ_ID_MAX);
    size_t n = a->id.len < EMQ_ID_MAX ? a->id.len : EMQ_ID_MAX;
    if (n)
        memcpy(ours.id, a->id.ptr, n);
    emq__out_put(out, &ours, sizeof ours);
}

emq_status emq_add(emq_client *c, emq_str queue, emq_str data, const emq_add_opts *opts,
                   emq_added *out, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__add_entry entry;
    const struct emq__add_entry *entries[] = {&entry};
    struct emq__add_res res;

    emq_status s = emq__client_check(c, where_add, err);
    if (s == EMQ_OK)
        s = emq__out_check(out, where_add, "emq_added", err);
    if (s == EMQ_OK)
        s = emq__add_entry_make(c, queue, data, opts, &mem, &entry, err);
    if (s == EMQ_OK) {
        struct emq__add_req req = {.entries = entries, .n = 1};
        s = emq__do_add(c, &req, &res, &mem, err);
    }
    if (s == EMQ_OK) {
        EMQ_ASSERT(res.n == 1);
        emq__added_put(out, &res.added[0]);
        s = res.added[0].outcome;
    }
    emq__arena_free(&mem);
    return s;
}

/* ---- many -------------------------------------------------------------------------------- */

/* One call of emq_add_many(). */
struct many {
    emq_client *c;
    const emq_new_job *const *jobs;
    size_t n;
    struct emq__add_entry *entries;         /* of the slice in hand */
    const struct emq__add_entry **pointers; /* to them */
    struct emq__added *added;               /* all outcomes; ids in `ids`; NULL: nobody asks */
    size_t *staged;                         /* beside them: the entries that the stage took */
    struct emq__arena ids;
    size_t n_staged;
    emq_progress_fn progress; /* NULL: nobody watches */
    void *user;
};

/* Checks entry i; its error names the entry. */
static emq_status check_entry(const struct many *m, size_t i, struct draft *out, emq_error *err)
{
    emq_error inner;
    emq_new_job job;

    if (!m->jobs[i])
        return emq__fail(err, EMQ_E_INVALID, 0, where_many, "entry %zu is NULL", i);
    emq_status s = EMQ__OPTS_TAKE(&job, m->jobs[i], where_many, emq_new_job, &inner);
    if (s == EMQ_OK)
        s = draft_check(job.queue, job.data, job.opts, out, &inner);
    if (s != EMQ_OK)
        return emq__fail(err, s, inner.native, where_many, "entry %zu: %s", i, inner.text);
    return EMQ_OK;
}

/* At most so many bytes: in the JSON of the options a name may have every byte escaped. */
static size_t draft_bytes(const struct draft *d)
{
    return d->data.len + d->queue.len + d->name.len +
           3 * (d->id.len + d->o.group.len + d->o.dedup.id.len) + OPTS_NUMBERS_MAX;
}

/* Makes the slice that begins at `from`: as many entries as one act may carry, at least one. */
static emq_status make_slice(struct many *m, size_t from, struct emq__arena *mem, size_t *out_n,
                             emq_error *err)
{
    size_t bytes = 0, n = 0;

    while (n < EMQ__BATCH_MAX && from + n < m->n) {
        struct draft d;
        emq_status s = check_entry(m, from + n, &d, err);
        if (s != EMQ_OK)
            return s;
        bytes += draft_bytes(&d);
        if (n > 0 && bytes > EMQ__BATCH_BYTES)
            break;
        s = draft_make(m->c, &d, mem, &m->entries[n], err);
        if (s != EMQ_OK)
            return s;
        m->pointers[n] = &m->entries[n];
        n++;
    }
    *out_n = n;
    return EMQ_OK;
}

/* Where a job stands right after it was added; a stage does not say. */
static int place_of(const struct emq__add_entry *e)
{
    if (e->delay_ms > 0)
        return EMQ_DELAYED;
    return e->priority > 0 ? EMQ_PRIORITIZED : EMQ_WAITING;
}

static void keep_outcome(struct many *m, size_t i, const struct emq__add_entry *e,
                         const struct emq__added *a)
{
    m->added[i] = *a;
    m->added[i].id = emq__arena_str(&m->ids, a->id);
    /* The outcome must not be lost for want of memory: the act may have been the whole of it. */
    if (!m->added[i].id.ptr)
        m->added[i].id = emq_strn("", 0);
    if (a->outcome == EMQ_OK && a->state == 0)
        m->added[i].state = place_of(e);
}

/* Adds one slice, under a stage if it has a name, and keeps its outcomes. */
static emq_status add_slice(struct many *m, size_t from, size_t n, emq_str stage,
                            struct emq__arena *mem, emq_error *err)
{
    struct emq__add_req req = {.entries = m->pointers, .n = n, .stage = stage, .goes_on = from > 0};
    struct emq__add_res res;
    emq_status s = emq__do_add(m->c, &req, &res, mem, err);

    if (s != EMQ_OK)
        return s;
    EMQ_ASSERT(res.n == n);
    for (size_t i = 0; m->added && i < n; i++) {
        if (res.added[i].outcome == EMQ_OK)
            m->staged[m->n_staged++] = from + i;
        keep_outcome(m, from + i, &m->entries[i], &res.added[i]);
    }
    return EMQ_OK;
}

/* What the publication says of the jobs that it did not add. */
static void tell_missed(struct many *m, const struct emq__publish_res *res)
{
    for (size_t i = 0; m->added && i < res->n_missed; i++) {
        size_t rank = (size_t)res->missed[i].rank;
        if (rank >= m->n_staged) /* the store's list was written to by something else */
            continue;
        struct emq__added *a = &m->added[m->staged[rank]], why = res->missed[i].why;
        why.id = why.id.len > 0 ? emq__arena_str(&m->ids, why.id) : a->id;
        *a = why;
        if (!a->id.ptr)
            a->id = emq_strn("", 0);
    }
}

static emq_status publish(struct many *m, emq_str stage, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__publish_req req = {.prefix = m->c->prefix, .stage = stage};
    struct emq__publish_res res;
    emq_status s = emq__do_publish(m->c, &req, &res, &mem, err);

    if (s == EMQ_OK)
        tell_missed(m, &res);
    emq__arena_free(&mem);
    return s;
}

static emq_status check_from(const struct many *m, size_t i, emq_error *err)
{
    emq_status s = EMQ_OK;

    for (struct draft d; s == EMQ_OK && i < m->n; i++)
        s = check_entry(m, i, &d, err);
    return s;
}

static emq_status because(emq_status s, const char *what, emq_error *err)
{
    emq_error inner = err ? *err : (emq_error){0};
    return emq__fail(err, s, inner.native, where_many, "%s: %s", what, inner.text);
}

/* A batch that failed, or was cancelled, when `staged` of its entries had been staged. It is added as a whole or not
 * at all: what is known not to be published is dropped, so that it need not hold its ids. */
static emq_status give_up(struct many *m, emq_str stage, size_t staged, emq_status s,
                          emq_error *err)
{
    static const char none[] =
        "none of the batch was added, but its custom ids may be held for an hour";
    static const char doubt[] =
        "the whole batch was added, or none of it, and then its custom ids may be held "
        "for an hour";
    struct emq__arena mem = {0};
    struct emq__publish_req req = {.prefix = m->c->prefix, .stage = stage, .drop = true};
    struct emq__publish_res res;
    emq_status dropped;

    if (s == EMQ_NOT_FOUND)
        return emq__fail(err, EMQ_E_STORE, 0, where_many, EMQ__TEXT_STAGE_GONE);
    if (s == EMQ_E_IN_DOUBT)
        return staged < m->n ? because(EMQ_E_UNAVAIL, none, err) : because(s, doubt, err);
    if (staged == 0)
        return s;
    dropped = emq__do_publish(m->c, &req, &res, &mem, s == EMQ_CANCELLED ? err : NULL);
    emq__arena_free(&mem);
    if (s == EMQ_CANCELLED)
        return emq__is_failure(dropped) ? because(dropped, none, err) : s;
    if (dropped == EMQ_NOT_FOUND && staged == m->n) /* the publication had begun */
        return because(EMQ_E_IN_DOUBT, doubt, err);
    return emq__is_failure(dropped) ? because(s, none, err) : s;
}

/* The first slice says whether there are more. Then all entries are checked before it is written,
 * and each slice is made when it is its turn: however long the batch, one is held. */
static emq_status add_all(struct many *m, emq_error *err)
{
    struct emq__arena mem = {0};
    char name[EMQ__RANDOM_ID_LEN + 1];
    emq_str stage = {0};
    size_t from = 0, n;
    emq_status s = make_slice(m, 0, &mem, &n, err);

    if (s == EMQ_OK && n < m->n) {
        emq__random_id(name);
        stage = emq_cstr(name);
        s = check_from(m, n, err);
    }
    while (s == EMQ_OK) {
        s = add_slice(m, from, n, stage, &mem, err);
        emq__arena_free(&mem);
        if (s != EMQ_OK)
            break;
        from += n;
        if (m->progress && m->progress(from, m->n, m->user) != 0 && stage.len > 0)
            s = EMQ_CANCELLED;
        if (s != EMQ_OK || from == m->n)
            break;
        s = make_slice(m, from, &mem, &n, err);
    }
    emq__arena_free(&mem);
    if (s == EMQ_OK && stage.len > 0)
        s = publish(m, stage, err);
    return s == EMQ_OK || stage.len == 0 ? s : give_up(m, stage, from, s, err);
}

static emq_status many_alloc(struct many *m, bool with_out, emq_error *err)
{
    size_t slice = m->n < EMQ__BATCH_MAX ? m->n : EMQ__BATCH_MAX;

    m->entries = calloc(slice, sizeof *m->entries);
    m->pointers = calloc(slice, sizeof *m->pointers);
    if (with_out) {
        m->added = calloc(m->n, sizeof *m->added);
        m->staged = calloc(m->n, sizeof *m->staged);
    }
    if (!m->entries || !m->pointers || (with_out && (!m->added || !m->staged)))
        return emq__no_memory(where_many, err);
    return EMQ_OK;
}

static emq_status check_outs(emq_added *const *out, size_t n, emq_error *err)
{
    for (size_t i = 0; out && i < n; i++) {
        emq_status s = emq__out_check(out[i], where_many, "emq_added", err);
        if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}

emq_status emq_add_many(emq_client *c, const emq_new_job *const *jobs, size_t n,
                        emq_added *const *out, emq_error *err)
{
    return emq_add_many_watched(c, jobs, n, out, NULL, NULL, err);
}

emq_status emq_add_many_watched(emq_client *c, const emq_new_job *const *jobs, size_t n,
                                emq_added *const *out, emq_progress_fn progress, void *user,
                                emq_error *err)
{
    struct many m = {.c = c, .jobs = jobs, .n = n, .progress = progress, .user = user};

    emq_status s = emq__client_check(c, where_many, err);
    if (s != EMQ_OK || n == 0)
        return s;
    if (!jobs)
        return emq__fail(err, EMQ_E_INVALID, 0, where_many, "%zu jobs at NULL", n);
    s = check_outs(out, n, err);
    if (s == EMQ_OK)
        s = many_alloc(&m, out != NULL, err);
    if (s == EMQ_OK)
        s = add_all(&m, err);
    for (size_t i = 0; s == EMQ_OK && out && i < n; i++)
        emq__added_put(out[i], &m.added[i]);
    emq__arena_free(&m.ids);
    free(m.staged);
    free(m.added);
    free(m.pointers);
    free(m.entries);
    return s;
}
