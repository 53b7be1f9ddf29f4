/* SPDX-License-Identifier: MIT
 *
 * What a take answered, as its receipt keeps it. The one invariant: a repeated take gives the tokens
 * of the first one and no others.
 */
#include "engine/sqlite/take.h"

#include "base/error.h"

static void whole_put(struct emq__buf *b, const struct emq__job *j)
{
    const emq_str texts[] = {j->name,       j->data.bytes, j->opts,         j->failed_reason,
                             j->stacktrace, j->progress,   j->processed_by, j->dedup_id,
                             j->group,      j->parent_key, j->parent,       j->scheduler};
    const int64_t numbers[] = {j->data.kind,        j->timestamp_at_ms, j->delay_ms,
                               j->processed_at_ms,  j->priority,        j->attempts_made,
                               j->attempts_started, j->stalled};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        sq_put_str(b, texts[i]);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(numbers); i++)
        sq_put_i64(b, numbers[i]);
}

static void whole_get(struct sq_reader *r, struct emq__job *j)
{
    emq_str *const texts[] = {&j->name,       &j->data.bytes, &j->opts,         &j->failed_reason,
                              &j->stacktrace, &j->progress,   &j->processed_by, &j->dedup_id,
                              &j->group,      &j->parent_key, &j->parent,       &j->scheduler};
    int32_t *const narrow[] = {&j->priority, &j->attempts_made, &j->attempts_started, &j->stalled};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        *texts[i] = sq_get_str(r);
    j->data.kind = (enum emq__kind)sq_get_i64(r);
    j->timestamp_at_ms = sq_get_i64(r);
    j->delay_ms = sq_get_i64(r);
    j->processed_at_ms = sq_get_i64(r);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(narrow); i++)
        *narrow[i] = (int32_t)sq_get_i64(r);
    j->state = EMQ_ACTIVE;
    j->mode = EMQ_FIRE_AND_FORGET;
}

void sq_taken_put(struct emq__buf *b, const struct emq__taken *t, int32_t mode)
{
    sq_put_i64(b, mode);
    sq_put_i64(b, t->limited_ms);
    sq_put_i64(b, t->next_due_at_ms);
    sq_put_i64(b, t->deferred);
    sq_put_i64(b, (t->paused ? 1 : 0) | (t->maxed ? 2 : 0));
    sq_put_i64(b, (int64_t)t->n);
    for (size_t i = 0; i < t->n; i++) {
        sq_put_str(b, t->jobs[i]->id);
        sq_put_str(b, t->jobs[i]->token);
        sq_put_i64(b, t->jobs[i]->fence);
        if (mode == EMQ_FIRE_AND_FORGET)
            whole_put(b, t->jobs[i]);
    }
}

/* One job of a receipt. A job that was recovered or settled since is given as it is now, but under
 * the token of the receipt, which the store will refuse: its holder learns that it is lost. */
static emq_status taken_one(struct sq_tx *tx, const struct sq_queue *q, struct sq_reader *r,
                            int32_t mode, struct emq__job **out, struct emq__arena *mem,
                            emq_error *err)
{
    emq_str id = sq_get_str(r), token = sq_get_str(r);
    int64_t fence = sq_get_i64(r);
    struct emq__job *j = NULL;
    emq_status s = EMQ_OK;

    *out = NULL;
    if (mode == EMQ_FIRE_AND_FORGET) {
        j = emq__arena_zalloc(mem, 1, sizeof *j);
        if (!j)
            return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for a job");
        whole_get(r, j);
        j->id = id;
    } else if (q) {
        s = sq_job_get(tx, q, id, mem, &j, err);
    }
    if (s != EMQ_OK || !j)
        return s == EMQ_NOT_FOUND ? EMQ_OK : s;
    j->state = EMQ_ACTIVE;
    j->token = token;
    j->fence = fence;
    *out = j;
    return EMQ_OK;
}

emq_status sq_taken_get(struct sq_tx *tx, const struct sq_queue *q, struct sq_reader *r,
                        struct emq__taken *out, struct emq__arena *mem, emq_error *err)
{
    int32_t mode = (int32_t)sq_get_i64(r);
    int64_t flags, n;
    emq_status s = EMQ_OK;

    *out = (struct emq__taken){0};
    out->limited_ms = sq_get_i64(r);
    out->next_due_at_ms = sq_get_i64(r);
    out->deferred = sq_get_i64(r);
    flags = sq_get_i64(r);
    out->paused = flags & 1;
    out->maxed = flags & 2;
    n = sq_get_i64(r);
    if (r->bad || n < 0 || n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "take", "the stored answer cannot be read");
    out->jobs = emq__arena_zalloc(mem, (size_t)n + 1, sizeof(struct emq__job *));
    if (!out->jobs)
        return emq__fail(err, EMQ_E_NOMEM, 0, "take", "no memory for %lld jobs", (long long)n);
    for (int64_t i = 0; s == EMQ_OK && i < n; i++) {
        struct emq__job *j;
        s = taken_one(tx, q, r, mode, &j, mem, err);
        if (s == EMQ_OK && j) {
            if (!j->prefix.ptr && q) {
                j->prefix = emq__arena_str(mem, q->prefix);
                j->queue = emq__arena_str(mem, q->name);
            }
            out->jobs[out->n++] = j;
        }
    }
    if (s == EMQ_OK && r->bad)
        return emq__fail(err, EMQ_E_CORRUPT, 0, "take", "the stored answer cannot be read");
    return s;
}
