/* SPDX-License-Identifier: MIT
 *
 * The model engine: what is known of the effects of jobs.
 */
#include "lib/naive_internal.h"

#include "base/error.h"
#include "model/policy.h"

/* Markers of a queue past their end are forgotten first: nothing below meets one. */
static void forget_expired(const struct naive *n, struct nv_queue *q)
{
    for (size_t i = q ? q->n_markers : 0; i-- > 0;)
        if (q->markers[i].expires_at_ms <= n->now_ms)
            nv_marker_drop(q, &q->markers[i]);
}

void nv_marker_drop(struct nv_queue *q, struct emq__marker *m)
{
    nv_free_str(m->id);
    nv_free_str(m->step);
    nv_free_str(m->token);
    nv_free_str(m->fingerprint);
    nv_free_str(m->result.bytes);
    *m = q->markers[--q->n_markers];
}

static void set_str(emq_str *to, emq_str s)
{
    nv_free_str(*to);
    *to = nv_dup(s);
}

static bool is_of(const struct emq__marker *m, const struct nv_job *job)
{
    return emq__str_eq(m->id, job->j.id) && m->timestamp_at_ms == job->j.timestamp_at_ms;
}

static struct emq__marker *find(struct nv_queue *q, const struct nv_job *job, emq_str step)
{
    for (size_t i = 0; i < q->n_markers; i++)
        if (is_of(&q->markers[i], job) && emq__str_eq(q->markers[i].step, step))
            return &q->markers[i];
    return NULL;
}

static struct emq__marker *make(struct nv_queue *q, const struct nv_job *job, emq_str step)
{
    q->markers = nv_grow(q->markers, q->n_markers, sizeof *q->markers);
    struct emq__marker *m = &q->markers[q->n_markers++];
    m->id = nv_dup(job->j.id);
    m->step = nv_dup(step);
    m->token = nv_dup(emq_cstr(""));
    m->fingerprint = nv_dup(emq_cstr(""));
    m->result.bytes = nv_dup(emq_cstr(""));
    m->timestamp_at_ms = job->j.timestamp_at_ms;
    return m;
}

bool nv_effect_done(struct naive *n, struct nv_queue *q, const struct nv_job *job)
{
    forget_expired(n, q);
    for (size_t i = 0; i < q->n_markers; i++)
        if (is_of(&q->markers[i], job) && q->markers[i].done_at_ms)
            return true;
    return false;
}

void nv_effects_prolong(struct naive *n, struct nv_queue *q, const struct nv_job *job)
{
    forget_expired(n, q);
    for (size_t i = 0; i < q->n_markers; i++) {
        struct emq__marker *m = &q->markers[i];
        int64_t since = m->done_at_ms > m->claimed_at_ms ? m->done_at_ms : m->claimed_at_ms;
        int64_t span = m->expires_at_ms - since;
        int64_t ends = emq__sat_add(n->now_ms, span < EMQ__KNOWN_MAX_MS ? span : EMQ__KNOWN_MAX_MS);
        if (is_of(m, job) && ends > m->expires_at_ms)
            m->expires_at_ms = ends;
    }
}

void nv_effects_forget(struct nv_queue *q, const struct nv_job *job)
{
    for (size_t i = q->n_markers; i-- > 0;)
        if (is_of(&q->markers[i], job))
            nv_marker_drop(q, &q->markers[i]);
}

static struct emq__marker copy(const struct emq__marker *m, int32_t state, struct emq__arena *mem)
{
    struct emq__marker out = *m;

    out.id = nv_put(mem, m->id);
    out.step = nv_put(mem, m->step);
    out.token = nv_put(mem, m->token);
    out.fingerprint = nv_put(mem, m->fingerprint);
    out.result.bytes = nv_put(mem, m->result.bytes);
    out.state = state;
    return out;
}

/* ---- mark */

static const char *kind_name(enum emq__mark_kind kind)
{
    switch (kind) {
    case EMQ__MARK_CLAIM: return "effect claim";
    case EMQ__MARK_TAKE_OVER: return "effect take over";
    case EMQ__MARK_DONE: return "effect done";
    case EMQ__MARK_RELEASE: return "effect release";
    case EMQ__MARK_SETTLE: return "effect settle";
    case EMQ__MARK_FORGET: return "effect forget";
    }
    return NULL;
}

static emq_str detail_of(const struct emq__mark_req *req, char out[EMQ__DETAIL_MAX + 1])
{
    const struct emq__payload none = {.bytes = EMQ_STR_LIT("")};

    return emq__effect_detail(kind_name(req->kind), req->step,
                              req->kind == EMQ__MARK_SETTLE ? &req->result : &none, out);
}

static int32_t state_for(const struct emq__marker *m, emq_str token)
{
    if (!m)
        return 0;
    return m->done_at_ms                  ? EMQ__MARKER_DONE
           : emq__str_eq(m->token, token) ? EMQ__MARKER_BUSY
                                          : EMQ__MARKER_IN_DOUBT;
}

static void set_done(const struct naive *n, struct emq__marker *m, const struct emq__mark_req *req)
{
    m->done_at_ms = n->now_ms;
    m->expires_at_ms = emq__sat_add(n->now_ms, req->keep_ms);
    m->result.kind = req->result.kind;
    set_str(&m->result.bytes, req->result.bytes);
}

/* CLAIM and TAKE_OVER. */
static emq_status claim(struct naive *n, struct nv_queue *q, const struct nv_job *job,
                        const struct emq__mark_req *req, struct emq__marker **m, int32_t *state)
{
    if (*m && (*m)->fingerprint.len && req->fingerprint.len &&
        !emq__str_eq((*m)->fingerprint, req->fingerprint))
        return EMQ_CONFLICT;
    if (*m && ((*m)->done_at_ms || req->kind == EMQ__MARK_CLAIM))
        return EMQ_OK;
    if (!*m)
        *m = make(q, job, req->step);
    set_str(&(*m)->token, req->auth.token);
    if (req->fingerprint.len)
        set_str(&(*m)->fingerprint, req->fingerprint);
    (*m)->claimed_at_ms = n->now_ms;
    (*m)->expires_at_ms = emq__sat_add(n->now_ms, req->keep_ms);
    *state = EMQ__MARKER_FRESH;
    return EMQ_OK;
}

/* DONE and RELEASE. */
static emq_status end_claim(struct naive *n, struct nv_queue *q, const struct emq__mark_req *req,
                            struct emq__marker **m, int32_t *state)
{
    bool mine = *m && emq__str_eq((*m)->token, req->auth.token);

    if (mine && (*m)->done_at_ms && req->kind == EMQ__MARK_DONE)
        return EMQ_OK;
    if (!mine || (*m)->done_at_ms)
        return EMQ_WRONG_STATE;
    if (req->kind == EMQ__MARK_DONE) {
        set_done(n, *m, req);
        *state = EMQ__MARKER_DONE;
    } else {
        nv_marker_drop(q, *m);
        *m = NULL;
    }
    return EMQ_OK;
}

static emq_status administer(struct naive *n, struct nv_queue *q, struct nv_job *job,
                             const struct emq__mark_req *req, struct emq__marker **m,
                             int32_t *state)
{
    char detail[EMQ__DETAIL_MAX + 1];

    if (req->kind == EMQ__MARK_FORGET && !*m)
        return EMQ_NOT_FOUND;
    nv_history(n, job, "admin", req->auth.admin, detail_of(req, detail));
    if (req->kind == EMQ__MARK_FORGET) {
        nv_marker_drop(q, *m);
        *m = NULL;
        return EMQ_OK;
    }
    if (!*m) {
        *m = make(q, job, req->step);
        (*m)->claimed_at_ms = n->now_ms;
    }
    set_str(&(*m)->token, emq_cstr(""));
    set_done(n, *m, req);
    *state = EMQ__MARKER_DONE;
    return EMQ_OK;
}

static emq_status check(const struct emq__mark_req *req, emq_error *err)
{
    bool admin = req->kind == EMQ__MARK_SETTLE || req->kind == EMQ__MARK_FORGET;
    bool keeps = req->kind != EMQ__MARK_RELEASE && req->kind != EMQ__MARK_FORGET;

    if (!kind_name(req->kind))
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kind %d is not one", (int)req->kind);
    if (!(admin ? req->auth.admin : req->auth.token).len)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "neither a token nor an administrator");
    if (keeps && req->keep_ms < 1)
        return emq__fail(err, EMQ_E_INVALID, 0, "mark", "kept for %lld ms; at least 1",
                         (long long)req->keep_ms);
    return EMQ_OK;
}

static emq_status do_mark(struct naive *n, const struct emq__mark_req *req,
                          struct emq__mark_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    struct nv_job *job = nv_job_visible(q, req->id);
    emq_status s = check(req, err);
    char detail[EMQ__DETAIL_MAX + 1];

    if (s != EMQ_OK)
        return s;
    if (!job)
        return EMQ_NOT_FOUND;
    bool admin = req->kind == EMQ__MARK_SETTLE || req->kind == EMQ__MARK_FORGET;
    if (!admin && (job->j.state != EMQ_ACTIVE || !emq__str_eq(job->j.token, req->auth.token))) {
        nv_history(n, job, "refused", req->auth.token, detail_of(req, detail));
        return EMQ_LOST;
    }
    forget_expired(n, q);
    struct emq__marker *m = find(q, job, req->step);
    int32_t state = state_for(m, req->auth.token);
    if (admin)
        s = administer(n, q, job, req, &m, &state);
    else if (req->kind == EMQ__MARK_CLAIM || req->kind == EMQ__MARK_TAKE_OVER) {
        bool doubt = state == EMQ__MARKER_IN_DOUBT;
        char whose[EMQ_TOKEN_MAX + 1] = "";
        if (doubt)
            snprintf(whose, sizeof whose, "%.*s", EMQ_STR_ARG(m->token));
        s = claim(n, q, job, req, &m, &state);
        const char *what = state != EMQ__MARKER_FRESH ? "doubt" : req->settles ? "settled" : "redo";
        if (doubt && s == EMQ_OK)
            nv_history(n, job, what, req->auth.token,
                       emq__effect_detail("", req->step,
                                          &(struct emq__payload){EMQ__KIND_TEXT, emq_cstr(whose)},
                                          detail));
    } else
        s = end_claim(n, q, req, &m, &state);
    if (m)
        res->marker = copy(m, state, mem);
    return s;
}
NV_ACT_ONCE(mark)

/* ---- markers */

static int by_key(const void *a, const void *b)
{
    const struct emq__marker *x = a, *y = b;
    int c = emq__str_cmp(x->id, y->id);

    if (c == 0)
        c = (x->timestamp_at_ms > y->timestamp_at_ms) - (x->timestamp_at_ms < y->timestamp_at_ms);
    return c != 0 ? c : emq__str_cmp(x->step, y->step);
}

static bool of_living(struct nv_queue *q, const struct emq__marker *m)
{
    const struct nv_job *job = nv_job_visible(q, m->id);
    return job && is_of(m, job) && job->j.state == EMQ_ACTIVE &&
           emq__str_eq(job->j.token, m->token);
}

static emq_status do_markers(struct naive *n, const struct emq__markers_req *req,
                             struct emq__markers_res *res, struct emq__arena *mem, emq_error *err)
{
    struct nv_queue *q = nv_queue_find(n, req->prefix, req->queue);
    size_t limit = req->limit > 0 ? (size_t)req->limit : EMQ__BATCH_MAX;

    (void)err;
    forget_expired(n, q);
    res->markers = emq__arena_zalloc(mem, limit, sizeof *res->markers);
    if (!res->markers)
        abort();
    if (q && q->n_markers)
        qsort(q->markers, q->n_markers, sizeof *q->markers, by_key);
    for (size_t i = 0; q && i < q->n_markers && res->n < limit; i++) {
        const struct emq__marker *m = &q->markers[i];
        if ((req->id.len && !emq__str_eq(m->id, req->id)) ||
            (req->after && by_key(m, req->after) <= 0))
            continue;
        res->markers[res->n++] =
            copy(m, state_for(m, of_living(q, m) ? m->token : emq_cstr("")), mem);
    }
    return EMQ_OK;
}
NV_ACT(markers)
