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

enum { OPTS_MAX = 64 * 1024 };

static const char *const where_add = "emq_add";
static const char *const where_many = "emq_add_many";

emq_status emq__add_entry_make(emq_client *c, emq_str queue, emq_str data, const emq_add_opts *opts,
                               struct emq__arena *mem, struct emq__add_entry *out, emq_error *err)
{
    struct emq__opts o;
    struct emq__buf b;
    emq_str id, name;

    emq_status s = emq__check_queue(queue, err);
    if (s == EMQ_OK)
        s = emq__check_size(data, EMQ_DATA_MAX, where_add, "data", err);
    if (s == EMQ_OK)
        s = emq__opts_from_public(opts, &o, &id, &name, err);
    if (s != EMQ_OK)
        return s;
    emq__buf_init(&b, OPTS_MAX);
    emq__opts_write(&o, id, &b);
    emq_str text = b.failed == EMQ_OK ? emq__arena_str(mem, emq__buf_view(&b)) : (emq_str){0};
    s = b.failed;
    emq__buf_free(&b);
    if (s == EMQ_E_INVALID)
        return emq__fail(err, s, 0, where_add, "the options need more than %d bytes of JSON",
                         OPTS_MAX);
    if (!text.ptr)
        return emq__no_memory(where_add, err);
    *out = (struct emq__add_entry){
        .prefix = c->prefix,
        .queue = queue,
        .id = id,
        .name = name,
        .data = {emq__kind_of(data), data},
        .opts = text,
        .group = o.group,
        .dedup = o.dedup,
        .timestamp_at_ms = o.timestamp_at_ms,
        .delay_ms = o.delay_ms,
        .priority = o.priority,
        .lifo = o.lifo,
    };
    return EMQ_OK;
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
    emq_str *dedup;                         /* beside them: the dedup ids, the caller's bytes */
    struct emq__arena ids;
    int64_t n_ok;             /* entries that the stage took */
    emq_progress_fn progress; /* NULL: nobody watches */
    void *user;
};

/* Makes entry i in `out`; its error names the entry. */
static emq_status make_entry(const struct many *m, size_t i, struct emq__arena *mem,
                             struct emq__add_entry *out, emq_error *err)
{
    emq_error inner = {0};
    emq_new_job job;

    if (!m->jobs[i])
        return emq__fail(err, EMQ_E_INVALID, 0, where_many, "entry %zu is NULL", i);
    emq_status s = EMQ__OPTS_TAKE(&job, m->jobs[i], where_many, emq_new_job, &inner);
    if (s == EMQ_OK)
        s = emq__add_entry_make(m->c, job.queue, job.data, job.opts, mem, out, &inner);
    if (s == EMQ_E_INVALID)
        return emq__fail(err, s, inner.native, where_many, "entry %zu: %s", i, inner.text);
    if (s != EMQ_OK && err)
        *err = inner;
    return s;
}

static size_t entry_bytes(const struct emq__add_entry *e)
{
    return e->data.bytes.len + e->opts.len + e->id.len + e->name.len + e->group.len +
           e->dedup.id.len + e->queue.len;
}

/* Makes the slice that begins at `from`: as many entries as one act may carry, at least one. */
static emq_status make_slice(struct many *m, size_t from, struct emq__arena *mem, size_t *out_n,
                             emq_error *err)
{
    size_t bytes = 0, n = 0;

    while (n < EMQ__BATCH_MAX && from + n < m->n) {
        emq_status s = make_entry(m, from + n, mem, &m->entries[n], err);
        if (s != EMQ_OK)
            return s;
        bytes += entry_bytes(&m->entries[n]);
        if (n > 0 && bytes > EMQ__BATCH_BYTES)
            break;
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
    m->dedup[i] = e->dedup.id;
}

/* Adds one slice, under a stage if it has a name, and keeps its outcomes. */
static emq_status add_slice(struct many *m, size_t from, size_t n, emq_str stage,
                            struct emq__arena *mem, emq_error *err)
{
    struct emq__add_req req = {.entries = m->pointers, .n = n, .stage = stage};
    struct emq__add_res res;
    emq_status s = emq__do_add(m->c, &req, &res, mem, err);

    if (s != EMQ_OK)
        return s;
    EMQ_ASSERT(res.n == n);
    for (size_t i = 0; i < n; i++) {
        m->n_ok += res.added[i].outcome == EMQ_OK;
        if (m->added)
            keep_outcome(m, from + i, &m->entries[i], &res.added[i]);
    }
    return EMQ_OK;
}

/* A stage decides about dedup ids when it is published, and answers only how many jobs it added. An
 * entry that is missing afterwards was dropped in favour of the job that holds its dedup id. A read
 * that fails leaves the outcome as it is: all jobs of the call are in the store by now. */
static void find_deduplicated(struct many *m, size_t i)
{
    struct emq__arena mem = {0};
    struct emq__added *a = &m->added[i];
    struct emq__dedup_req held = {
        .prefix = m->c->prefix, .queue = m->jobs[i]->queue, .dedup_id = m->dedup[i]};
    struct emq__dedup_res holder;
    struct emq__jobs_req ask = {
        .prefix = m->c->prefix, .queue = m->jobs[i]->queue, .ids = &a->id, .n = 1};
    struct emq__jobs_res job;

    if (m->c->e->ops->dedup(m->c->e, &held, &holder, &mem, NULL) == EMQ_OK &&
        !emq__str_eq(holder.owner, a->id) &&
        m->c->e->ops->jobs(m->c->e, &ask, &job, &mem, NULL) == EMQ_OK && !job.jobs[0]) {
        emq_str owner = emq__arena_str(&m->ids, holder.owner);
        ask.ids = &owner;
        *a = (struct emq__added){.outcome = EMQ_DEDUPLICATED, .id = owner};
        if (owner.ptr && m->c->e->ops->jobs(m->c->e, &ask, &job, &mem, NULL) == EMQ_OK &&
            job.jobs[0])
            a->state = job.jobs[0]->state;
    }
    emq__arena_free(&mem);
}

static emq_status publish(struct many *m, emq_str stage, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__publish_req req = {.prefix = m->c->prefix, .stage = stage};
    struct emq__publish_res res;
    emq_status s = emq__do_publish(m->c, &req, &res, &mem, err);

    emq__arena_free(&mem);
    if (s == EMQ_NOT_FOUND)
        return emq__fail(err, EMQ_E_STORE, 0, where_many,
                         "the staged jobs expired before they could be published: none was added; "
                         "try again");
    for (size_t i = 0; s == EMQ_OK && m->added && res.count < m->n_ok && i < m->n; i++) {
        if (m->added[i].outcome == EMQ_OK && m->dedup[i].len > 0)
            find_deduplicated(m, i);
    }
    return s;
}

/* Checks every entry before the first is written. *out_slices: how many acts they need. */
static emq_status check_all(struct many *m, size_t *out_slices, emq_error *err)
{
    struct emq__arena mem = {0};
    size_t slices = 0;

    for (size_t from = 0, n; from < m->n; from += n) {
        emq_status s = make_slice(m, from, &mem, &n, err);
        emq__arena_free(&mem);
        if (s != EMQ_OK)
            return s;
        slices++;
    }
    *out_slices = slices;
    return EMQ_OK;
}

static emq_status add_all(struct many *m, size_t slices, emq_error *err)
{
    struct emq__arena mem = {0};
    char name[EMQ__RANDOM_ID_LEN + 1];
    emq_str stage = {0};

    if (slices > 1) {
        emq__random_id(name);
        stage = emq_cstr(name);
    }
    for (size_t from = 0, n; from < m->n; from += n) {
        emq_status s = make_slice(m, from, &mem, &n, err);
        if (s == EMQ_OK)
            s = add_slice(m, from, n, stage, &mem, err);
        emq__arena_free(&mem);
        if (s != EMQ_OK)
            return s;
        if (m->progress)
            m->progress(from + n, m->n, m->user);
    }
    return slices > 1 ? publish(m, stage, err) : EMQ_OK;
}

static emq_status many_alloc(struct many *m, bool with_out, emq_error *err)
{
    size_t slice = m->n < EMQ__BATCH_MAX ? m->n : EMQ__BATCH_MAX;

    m->entries = calloc(slice, sizeof *m->entries);
    m->pointers = calloc(slice, sizeof *m->pointers);
    if (with_out) {
        m->added = calloc(m->n, sizeof *m->added);
        m->dedup = calloc(m->n, sizeof *m->dedup);
    }
    if (!m->entries || !m->pointers || (with_out && (!m->added || !m->dedup)))
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
    size_t slices = 0;

    emq_status s = emq__client_check(c, where_many, err);
    if (s != EMQ_OK || n == 0)
        return s;
    if (!jobs)
        return emq__fail(err, EMQ_E_INVALID, 0, where_many, "%zu jobs at NULL", n);
    s = check_outs(out, n, err);
    if (s == EMQ_OK)
        s = many_alloc(&m, out != NULL, err);
    if (s == EMQ_OK)
        s = check_all(&m, &slices, err);
    if (s == EMQ_OK)
        s = add_all(&m, slices, err);
    for (size_t i = 0; s == EMQ_OK && out && i < n; i++)
        emq__added_put(out[i], &m.added[i]);
    emq__arena_free(&m.ids);
    free(m.dedup);
    free(m.added);
    free(m.pointers);
    free(m.entries);
    return s;
}
