/* SPDX-License-Identifier: MIT
 *
 * emq_job_* for handlers: what a job that is lent can say and ask. Values that a handler sets are
 * copied and stay with the slot; writes to the store are an owner's, under this hand-out's token.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"

static struct emq__slot *slot_of(const emq_job *job)
{
    return job ? job->slot : NULL;
}

static emq_status lent(emq_job *job, struct emq__slot **out, const char *where, emq_error *err)
{
    struct emq__slot *s = slot_of(job);

    if (!s)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "the job is not lent to a handler: use the call with queue, id and token");
    *out = s;
    return emq__client_check(s->w->c, where, err);
}

int emq_job_cancelled(const emq_job *job)
{
    struct emq__slot *s = slot_of(job);

    return s ? emq__slot_cancelled(s) : EMQ_GO_ON;
}

emq_status emq_job_is_mine(emq_job *job, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent(job, &s, "emq_job_is_mine", err);

    if (st != EMQ_OK)
        return st;
    const struct emq__job *rec = &job->rec;
    struct emq__arena mem = {0};
    struct emq__jobs_req req = {
        .prefix = rec->prefix, .queue = rec->queue, .ids = &rec->id, .n = 1};
    struct emq__jobs_res res;
    emq_worker *w = s->w;

    st = w->e->ops->jobs(w->e, &req, &res, &mem, err);
    if (st == EMQ_OK) {
        const struct emq__job *now = res.n == 1 ? res.jobs[0] : NULL;
        bool mine = now && now->state == EMQ_ACTIVE && rec->token.len > 0 &&
                    emq__str_eq(now->token, rec->token);
        st = mine ? EMQ_OK : EMQ_LOST;
    }
    emq__arena_free(&mem);
    return st;
}

static emq_status copy_to(struct emq__text *out, emq_str bytes, const char *where, emq_error *err)
{
    char *copy = emq__str_dup(bytes);

    if (!copy)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "%zu bytes", bytes.len);
    emq__text_own(out, copy, bytes.len);
    return EMQ_OK;
}

emq_status emq_job_set_result(emq_job *job, emq_str bytes, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent(job, &s, "emq_job_set_result", err);

    if (st != EMQ_OK)
        return st;
    st = emq__check_size(bytes, EMQ_RESULT_MAX, "emq_job_set_result", "the result", err);
    if (st != EMQ_OK)
        return st;
    return copy_to(&s->out.result, bytes, "emq_job_set_result", err);
}

/* A reason that is longer is cut, never refused: a failure must be recordable. */
static emq_status text_to(struct emq__text *out, emq_str text, emq_error *err)
{
    enum { TEXT_MAX = 64 * 1024 };
    emq_status st = emq__check_size(text, SIZE_MAX, "emq_job_set_failure", "a text", err);

    if (st != EMQ_OK)
        return st;
    char *clean = malloc(TEXT_MAX + 16);
    if (!clean)
        return emq__fail(err, EMQ_E_NOMEM, 0, "emq_job_set_failure", "%zu bytes", text.len);
    size_t n = emq__text_clean(text, TEXT_MAX, clean);
    st = copy_to(out, emq_strn(clean, n), "emq_job_set_failure", err);
    free(clean);
    return st;
}

emq_status emq_job_set_failure(emq_job *job, emq_str reason, emq_str stack, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent(job, &s, "emq_job_set_failure", err);

    if (st == EMQ_OK)
        st = text_to(&s->out.reason, reason, err);
    if (st == EMQ_OK)
        st = text_to(&s->out.stack, stack, err);
    return st;
}

void emq_job_set_retry_after(emq_job *job, int64_t delay_ms)
{
    struct emq__slot *s = slot_of(job);

    if (s)
        s->out.retry_after_ms = delay_ms < 0 ? 0 : delay_ms;
}

/* Without a token the client's calls would be an administrator's. */
static emq_status lent_owned(emq_job *job, struct emq__slot **out, const char *where,
                             emq_error *err)
{
    emq_status st = lent(job, out, where, err);

    if (st == EMQ_OK && !emq__slot_held(*out))
        return EMQ_NOT_FOUND; /* fire-and-forget: it left with the take */
    return st;
}

emq_status emq_job_report_progress(emq_job *job, emq_str json, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent_owned(job, &s, "emq_job_report_progress", err);

    if (st != EMQ_OK)
        return st;
    return emq_set_progress(s->w->c, job->rec.queue, job->rec.id, job->rec.token, json, err);
}

emq_status emq_job_log(emq_job *job, emq_str line, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent_owned(job, &s, "emq_job_log", err);

    if (st != EMQ_OK)
        return st;
    return emq_add_log(s->w->c, job->rec.queue, job->rec.id, job->rec.token, line, err);
}

emq_status emq_job_replace_data(emq_job *job, emq_str data, emq_error *err)
{
    struct emq__slot *s = NULL;
    emq_status st = lent_owned(job, &s, "emq_job_replace_data", err);

    if (st != EMQ_OK)
        return st;
    return emq_set_data(s->w->c, job->rec.queue, job->rec.id, job->rec.token, data, err);
}
