/* SPDX-License-Identifier: MIT
 *
 * Job handles and lists: snapshots that own the memory of the read that made them.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"

struct emq_list {
    struct emq__arena mem; /* of the parts */
    size_t n;
    emq_str *strs; /* one of the two */
    struct emq_job *jobs;
};

emq_job *emq__job_new(void)
{
    emq_job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->made = calloc(1, sizeof *j->made);
    if (!j->made) {
        free(j);
        return NULL;
    }
    return j;
}

static void set_record(emq_job *j, const struct emq__job *rec, int64_t now_ms, bool taken)
{
    j->rec = *rec;
    if (rec->state == EMQ_ACTIVE)
        j->lock_until_ms = emq__sat_add(now_ms, rec->lock_left_ms);
    if (!taken)
        j->rec.token = emq_strn("", 0);
}

void emq__job_fill(emq_job *j, const struct emq__job *rec, int64_t now_ms, bool taken,
                   struct emq__arena *mem)
{
    set_record(j, rec, now_ms, taken);
    j->mem = *mem;
    *mem = (struct emq__arena){0};
}

/* Copies the bytes behind every string of a record; false: no memory. */
static bool own_strings(struct emq__job *r, struct emq__arena *mem)
{
    emq_str *strs[] = {&r->prefix,     &r->queue,        &r->id,           &r->name,
                       &r->data.bytes, &r->result.bytes, &r->opts,         &r->failed_reason,
                       &r->stacktrace, &r->progress,     &r->processed_by, &r->deferred_failure,
                       &r->dedup_id,   &r->group,        &r->parent_key,   &r->parent,
                       &r->scheduler,  &r->token};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(strs); i++) {
        *strs[i] = emq__arena_str(mem, *strs[i]);
        if (!strs[i]->ptr)
            return false;
    }
    return true;
}

emq_job *emq__job_wrap(const struct emq__job *rec)
{
    emq_job *j = emq__job_new();

    if (!j)
        return NULL;
    /* A record of a take: its lock began when it was handed out. */
    set_record(j, rec, rec->processed_at_ms, true);
    if (!own_strings(&j->rec, &j->mem)) {
        emq_job_free(j);
        return NULL;
    }
    return j;
}

static void free_made(struct emq__job_made *made)
{
    if (made)
        emq__arena_free(&made->mem);
    free(made);
}

void emq_job_free(emq_job *j)
{
    if (!j)
        return;
    free_made(j->made);
    emq__arena_free(&j->mem);
    free(j);
}

/* ---- getters ----------------------------------------------------------------------------- */

#define GET_STR(name, field)                                           \
    emq_str emq_job_##name(const emq_job *j)                           \
    {                                                                  \
        return j && j->rec.field.ptr ? j->rec.field : emq_strn("", 0); \
    }
GET_STR(id, id)
GET_STR(queue, queue)
GET_STR(prefix, prefix)
GET_STR(name, name)
GET_STR(data, data.bytes)
GET_STR(result, result.bytes)
GET_STR(failed_reason, failed_reason)
GET_STR(processed_by, processed_by)
GET_STR(dedup_id, dedup_id)
GET_STR(token, token)

#define GET_JSON(name, field, absent)                                      \
    emq_str emq_job_##name(const emq_job *j)                               \
    {                                                                      \
        return j && j->rec.field.len ? j->rec.field : EMQ_STR_LIT(absent); \
    }
GET_JSON(opts_json, opts, "{}")
GET_JSON(stacktrace_json, stacktrace, "[]")
GET_JSON(progress_json, progress, "0")

#define GET_NUMBER(type, name, field)     \
    type emq_job_##name(const emq_job *j) \
    {                                     \
        return j ? j->field : 0;          \
    }
GET_NUMBER(int, state, rec.state)
GET_NUMBER(int, is_next_run, rec.next_run)
GET_NUMBER(int64_t, fence, rec.fence)
GET_NUMBER(int32_t, priority, rec.priority)
GET_NUMBER(int32_t, attempts_made, rec.attempts_made)
GET_NUMBER(int32_t, attempts_started, rec.attempts_started)
GET_NUMBER(int32_t, stalled, rec.stalled)
GET_NUMBER(int64_t, delay_ms, rec.delay_ms)
GET_NUMBER(int64_t, timestamp_at_ms, rec.timestamp_at_ms)
GET_NUMBER(int64_t, due_at_ms, rec.due_at_ms)
GET_NUMBER(int64_t, processed_at_ms, rec.processed_at_ms)
GET_NUMBER(int64_t, finished_at_ms, rec.finished_at_ms)
GET_NUMBER(int64_t, lock_until_ms, lock_until_ms)

const struct emq__opts *emq__job_opts(const emq_job *j)
{
    struct emq__job_made *made = j->made;

    if (!made->has_opts)
        (void)emq__opts_read(j->rec.opts, &made->mem, &made->opts);
    made->has_opts = true;
    return &made->opts;
}

int32_t emq_job_attempts(const emq_job *j)
{
    return j ? emq__job_opts(j)->attempts : 0;
}

int64_t emq_job_timeout_ms(const emq_job *j)
{
    return j ? emq__job_opts(j)->timeout_ms : 0;
}

typedef void (*writer)(const struct emq__job *j, struct emq__buf *out);

static emq_str made_text(const emq_job *j, emq_str *keep, writer write)
{
    struct emq__buf b;

    if (keep->ptr)
        return *keep;
    emq__buf_init(&b, SIZE_MAX / 2);
    write(&j->rec, &b);
    if (b.failed == EMQ_OK)
        *keep = emq__arena_str(&j->made->mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return keep->ptr ? *keep : emq_strn("", 0);
}

emq_str emq_job_idempotency_key(const emq_job *j)
{
    return j ? made_text(j, &j->made->identity, emq__job_identity) : emq_strn("", 0);
}

emq_str emq_job_json(const emq_job *j)
{
    return j ? made_text(j, &j->made->json, emq__job_json) : emq_strn("", 0);
}

/* ---- lists ------------------------------------------------------------------------------- */

emq_status emq__list_of_strs(struct emq__arena *mem, emq_str *strs, size_t n, emq_list **out,
                             const char *where, emq_error *err)
{
    emq_list *l = calloc(1, sizeof *l);

    if (!l)
        return emq__no_memory(where, err);
    l->mem = *mem;
    *mem = (struct emq__arena){0};
    l->strs = strs;
    l->n = n;
    *out = l;
    return EMQ_OK;
}

emq_status emq__list_of_jobs(struct emq__arena *mem, struct emq__job *const *jobs, size_t n,
                             int64_t now_ms, bool taken, emq_list **out, const char *where,
                             emq_error *err)
{
    emq_list *l = calloc(1, sizeof *l);

    if (!l)
        return emq__no_memory(where, err);
    l->jobs = calloc(n ? n : 1, sizeof *l->jobs);
    if (!l->jobs)
        goto fail;
    for (size_t i = 0; i < n; i++) {
        l->jobs[i].made = calloc(1, sizeof *l->jobs[i].made);
        if (!l->jobs[i].made)
            goto fail;
        l->n = i + 1;
        set_record(&l->jobs[i], jobs[i], now_ms, taken);
    }
    l->mem = *mem;
    *mem = (struct emq__arena){0};
    *out = l;
    return EMQ_OK;

fail:
    emq_list_free(l);
    return emq__no_memory(where, err);
}

size_t emq_list_len(const emq_list *l)
{
    return l ? l->n : 0;
}

emq_str emq_list_str(const emq_list *l, size_t i)
{
    return l && l->strs && i < l->n ? l->strs[i] : emq_strn("", 0);
}

const emq_job *emq_list_job(const emq_list *l, size_t i)
{
    return l && l->jobs && i < l->n ? &l->jobs[i] : NULL;
}

void emq_list_free(emq_list *l)
{
    if (!l)
        return;
    for (size_t i = 0; l->jobs && i < l->n; i++)
        free_made(l->jobs[i].made);
    free(l->jobs);
    emq__arena_free(&l->mem);
    free(l);
}
