/* SPDX-License-Identifier: MIT
 *
 * Markers of effects: claim, done, release, and what an administrator does with them. Each is one act
 * with a receipt, which compares the token; nothing is decided here.
 *
 * The handle of a claim is made before the act: what was claimed is never lost for want of memory.
 */
#include "client/effect.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/check.h"
#include "model/policy.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 1000, FINGERPRINT_LEN = 32 };

struct emq_effect {
    struct emq__arena mem;
    struct emq__marker m;
    emq_str queue;
    struct made { /* on first use */
        struct emq__arena mem;
        emq_str json;
    } * made;
};

/* ---- the handle -------------------------------------------------------------------------- */

void emq_effect_free(emq_effect *e)
{
    if (!e)
        return;
    if (e->made)
        emq__arena_free(&e->made->mem);
    free(e->made);
    emq__arena_free(&e->mem);
    free(e);
}

static emq_effect *effect_new(emq_str queue)
{
    emq_effect *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->made = calloc(1, sizeof *e->made);
    e->queue = emq__arena_str(&e->mem, queue);
    if (e->made && e->queue.ptr)
        return e;
    emq_effect_free(e);
    return NULL;
}

int emq_effect_get_state(const emq_effect *e)
{
    return e ? e->m.state : EMQ_EFFECT_NONE;
}

#define GET_STR(name, field)                                       \
    emq_str emq_effect_##name(const emq_effect *e)                 \
    {                                                              \
        return e && e->m.field.ptr ? e->m.field : emq_strn("", 0); \
    }
GET_STR(id, id)
GET_STR(step, step)
GET_STR(token, token)
GET_STR(result, result.bytes)

#define GET_INSTANT(name, field)                   \
    int64_t emq_effect_##name(const emq_effect *e) \
    {                                              \
        return e ? e->m.field : 0;                 \
    }
GET_INSTANT(timestamp_at_ms, timestamp_at_ms)
GET_INSTANT(claimed_at_ms, claimed_at_ms)
GET_INSTANT(done_at_ms, done_at_ms)
GET_INSTANT(expires_at_ms, expires_at_ms)

const char *emq_effect_state_name(int state)
{
    switch ((enum emq__marker_state)state) {
    case EMQ__MARKER_FRESH: return "fresh";
    case EMQ__MARKER_DONE: return "done";
    case EMQ__MARKER_IN_DOUBT: return "in-doubt";
    case EMQ__MARKER_BUSY: return "busy";
    }
    return "none";
}

static void put_text(struct emq__buf *b, const char *name, emq_str value)
{
    emq__json_key(b, name);
    emq__json_quote(b, value);
}

static void put_effect(struct emq__buf *b, const emq_effect *e)
{
    const struct emq__marker *m = &e->m;

    emq__buf_char(b, '{');
    put_text(b, "queue", e->queue);
    put_text(b, "id", m->id);
    emq__json_i64_member(b, "timestamp", m->timestamp_at_ms);
    put_text(b, "step", m->step);
    put_text(b, "state", emq_cstr(emq_effect_state_name(m->state)));
    put_text(b, "token", m->token);
    emq__json_i64_member(b, "claimedAt", m->claimed_at_ms);
    emq__json_i64_member(b, "doneAt", m->done_at_ms);
    emq__json_i64_member(b, "expiresAt", m->expires_at_ms);
    emq__payload_json(b, "result", "resultEncoding", &m->result);
    emq__buf_char(b, '}');
}

emq_str emq_effect_json(const emq_effect *e)
{
    struct emq__buf b;

    if (!e)
        return emq_strn("", 0);
    if (!e->made->json.ptr) {
        emq__buf_init(&b, SIZE_MAX / 2);
        put_effect(&b, e);
        if (b.failed == EMQ_OK)
            e->made->json = emq__arena_str(&e->made->mem, emq__buf_view(&b));
        emq__buf_free(&b);
    }
    return e->made->json.ptr ? e->made->json : emq_strn("", 0);
}

/* ---- checks ------------------------------------------------------------------------------ */

emq_status emq__check_step(emq_str step, const char *where, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    bool good = step.len <= EMQ__STEP_MAX && (step.ptr || !step.len);

    for (size_t i = 0; good && i < step.len; i++) {
        char ch = step.ptr[i];
        good = emq__is_digit(ch) || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
               ch == '.' || ch == '_' || ch == '-';
    }
    if (good)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where,
                     "the step \"%s\" is not of 0 to %d bytes A-Z a-z 0-9 . _ -",
                     step.ptr ? emq__shown(step, shown) : "NULL", EMQ__STEP_MAX);
}

emq_status emq__effect_keep(emq_client *c, const struct emq__opts *o, int64_t *keep_ms,
                            const char *where, emq_error *err)
{
    int64_t wanted = emq__known_ms(o);
    emq_status s = emq__check_span(*keep_ms, where, "keep_ms", err);

    if (s != EMQ_OK)
        return s;
    if (*keep_ms == 0)
        *keep_ms = wanted;
    else if (*keep_ms < wanted && !atomic_exchange(&c->keep_warned, 1))
        emq__log_write(&c->log, EMQ_LOG_WARN,
                       "%s: what is done is known for %lld ms, but this job can come again for "
                       "%lld ms: its effect may happen twice (said once)",
                       where, (long long)*keep_ms, (long long)wanted);
    return EMQ_OK;
}

static emq_status take_key(emq_client *c, const emq_effect_key *key, const char *where,
                           emq_effect_key *out, emq_error *err)
{
    emq_status s = emq__client_check(c, where, err);

    if (s == EMQ_OK && !key)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "key is NULL: see emq_effect_key_of()");
    if (s == EMQ_OK)
        s = EMQ__OPTS_TAKE(out, key, where, emq_effect_key, err);
    if (s == EMQ_OK)
        s = emq__client_check_job(c, out->queue, out->id, where, err);
    if (s == EMQ_OK)
        s = emq__check_token(out->token, where, err);
    if (s == EMQ_OK)
        s = emq__check_step(out->step, where, err);
    if (s == EMQ_OK)
        s = emq__check_size(out->payload, SIZE_MAX, where, "the payload", err);
    return s;
}

/* The job's own options say how long it can come again; they never change. `claim`: nor is a claim known for less. */
static emq_status keep_of(emq_client *c, emq_str queue, emq_str id, bool claim, int64_t *keep_ms,
                          const char *where, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__job *job;
    struct emq__opts o;
    int64_t now_ms;
    emq_status s = emq__check_span(*keep_ms, where, "keep_ms", err);

    if (s == EMQ_OK)
        s = emq__job_read(c, queue, id, &mem, &job, &now_ms, err);
    if (s == EMQ_OK) {
        (void)emq__opts_read(job->opts, &mem, &o);
        s = emq__effect_keep(c, &o, keep_ms, where, err);
        if (claim && *keep_ms < emq__known_ms(&o))
            *keep_ms = emq__known_ms(&o);
    }
    emq__arena_free(&mem);
    return s;
}

/* FNV-1a of 128 bits, in hex. It tells mistakes apart, not attacks. */
static emq_str fingerprint(emq_str payload, char out[FINGERPRINT_LEN + 1])
{
    uint64_t hi = UINT64_C(0x6c62272e07bb0142), lo = UINT64_C(0x62b821756295c58d);

    if (payload.len == 0)
        return emq_strn("", 0);
    for (size_t i = 0; i < payload.len; i++) {
        lo ^= (unsigned char)payload.ptr[i];
        /* times 2^88 + 0x13b */
        uint64_t low = (lo & UINT32_MAX) * 0x13b, high = (lo >> 32) * 0x13b + (low >> 32);
        hi = hi * 0x13b + (high >> 32) + (lo << 24);
        lo = (high << 32) | (low & UINT32_MAX);
    }
    (void)snprintf(out, FINGERPRINT_LEN + 1, "%016llx%016llx", (unsigned long long)hi,
                   (unsigned long long)lo);
    return emq_strn(out, FINGERPRINT_LEN);
}

/* ---- an owner's acts --------------------------------------------------------------------- */

void emq_effect_key_of(const emq_job *job, emq_effect_key *key)
{
    const emq_effect_key ours = {
        .queue = emq_job_queue(job),
        .id = emq_job_id(job),
        .token = emq_job_token(job),
        .step = emq_strn("", 0),
        .payload = emq_strn("", 0),
    };

    emq__out_put(key, &ours, sizeof ours);
}

static emq_status mark(emq_client *c, const emq_effect_key *k, struct emq__mark_req req,
                       struct emq__mark_res *res, struct emq__arena *mem, emq_error *err)
{
    req.prefix = c->prefix;
    req.queue = k->queue;
    req.id = k->id;
    req.step = k->step;
    if (k->token.len)
        req.auth.token = k->token;
    else
        req.auth.admin = c->who;
    return emq__do_mark(c, &req, res, mem, err);
}

emq_status emq_effect_claim(emq_client *c, const emq_effect_key *key, int flags, int64_t keep_ms,
                            emq_effect **out, emq_error *err)
{
    static const char where[] = "emq_effect_claim";
    char print[FINGERPRINT_LEN + 1];
    struct emq__mark_res res;
    emq_effect *e = NULL;
    emq_effect_key k;

    emq_status s = take_key(c, key, where, &k, err);
    if (s == EMQ_OK && !out)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "out is NULL: the state is needed");
    bool over = (flags & EMQ_CLAIM_TAKE_OVER) != 0, settles = (flags & EMQ_CLAIM_SETTLES) != 0;
    if (s == EMQ_OK && (flags & ~(EMQ_CLAIM_TAKE_OVER | EMQ_CLAIM_SETTLES)))
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "flags is 0x%x: only EMQ_CLAIM_TAKE_OVER and EMQ_CLAIM_SETTLES are known",
                      (unsigned)flags);
    if (s == EMQ_OK && settles && !over)
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "EMQ_CLAIM_SETTLES goes with EMQ_CLAIM_TAKE_OVER");
    if (s == EMQ_OK)
        s = keep_of(c, k.queue, k.id, true, &keep_ms, where, err);
    if (s == EMQ_OK && !(e = effect_new(k.queue)))
        s = emq__no_memory(where, err);
    if (s == EMQ_OK) {
        struct emq__mark_req req = {.kind = over ? EMQ__MARK_TAKE_OVER : EMQ__MARK_CLAIM,
                                    .settles = settles,
                                    .fingerprint = fingerprint(k.payload, print),
                                    .keep_ms = keep_ms};
        s = mark(c, &k, req, &res, &e->mem, err);
    }
    if (s == EMQ_OK) {
        e->m = res.marker;
        *out = e;
    } else {
        emq_effect_free(e);
    }
    return s;
}

emq_status emq_effect_done(emq_client *c, const emq_effect_key *key, emq_str result,
                           int64_t keep_ms, emq_error *err)
{
    static const char where[] = "emq_effect_done";
    struct emq__arena mem = {0};
    struct emq__mark_res res;
    emq_effect_key k;

    emq_status s = take_key(c, key, where, &k, err);
    if (s == EMQ_OK)
        s = emq__check_size(result, EMQ_RESULT_MAX, where, "the result", err);
    if (s == EMQ_OK)
        s = keep_of(c, k.queue, k.id, false, &keep_ms, where, err);
    if (s == EMQ_OK) {
        struct emq__mark_req req = {
            .kind = EMQ__MARK_DONE, .result = {emq__kind_of(result), result}, .keep_ms = keep_ms};
        s = mark(c, &k, req, &res, &mem, err);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status emq_effect_release(emq_client *c, const emq_effect_key *key, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__mark_res res;
    emq_effect_key k;

    emq_status s = take_key(c, key, "emq_effect_release", &k, err);
    if (s == EMQ_OK)
        s = mark(c, &k, (struct emq__mark_req){.kind = EMQ__MARK_RELEASE}, &res, &mem, err);
    emq__arena_free(&mem);
    return s;
}

/* ---- administration ---------------------------------------------------------------------- */

emq_status emq_effect_resolve(emq_client *c, emq_str queue, emq_str id, emq_str step, int done,
                              emq_str result, emq_error *err)
{
    static const char where[] = "emq_effect_resolve";
    struct emq__arena mem = {0};
    struct emq__mark_res res;
    emq_effect_key k = {.queue = queue, .id = id, .step = step};
    struct emq__mark_req req = {.kind = done ? EMQ__MARK_SETTLE : EMQ__MARK_FORGET};

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK)
        s = emq__check_step(step, where, err);
    if (s == EMQ_OK)
        s = emq__check_size(result, EMQ_RESULT_MAX, where, "the result", err);
    if (s == EMQ_OK && done) {
        req.result = (struct emq__payload){emq__kind_of(result), result};
        s = keep_of(c, queue, id, false, &req.keep_ms, where, err);
    }
    if (s == EMQ_OK)
        s = mark(c, &k, req, &res, &mem, err);
    emq__arena_free(&mem);
    return s;
}

/* A copy of its own: handles of a list end one by one. */
static emq_effect *effect_copy(emq_str queue, const struct emq__marker *m)
{
    emq_effect *e = effect_new(queue);

    if (!e)
        return NULL;
    e->m = *m;
    emq_str *strs[] = {&e->m.id, &e->m.step, &e->m.token, &e->m.fingerprint, &e->m.result.bytes};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(strs); i++) {
        *strs[i] = emq__arena_str(&e->mem, *strs[i]);
        if (!strs[i]->ptr) {
            emq_effect_free(e);
            return NULL;
        }
    }
    return e;
}

static emq_status list_make(emq_str queue, const struct emq__markers_res *res, emq_effect ***out,
                            emq_error *err)
{
    emq_effect **list = calloc(res->n + 1, sizeof *list);
    size_t i = 0;

    for (; list && i < res->n; i++)
        if (!(list[i] = effect_copy(queue, &res->markers[i])))
            break;
    if (list && i == res->n) {
        *out = list;
        return EMQ_OK;
    }
    for (size_t j = 0; list && j < i; j++)
        emq_effect_free(list[j]);
    free(list);
    return emq__no_memory("emq_effect_list", err);
}

emq_status emq_effect_list(emq_client *c, emq_str queue, emq_str id, const emq_effect *after,
                           size_t limit, emq_effect ***out, size_t *n, emq_error *err)
{
    static const char where[] = "emq_effect_list";
    struct emq__arena mem = {0};
    struct emq__markers_res res;

    emq_status s = id.len ? emq__client_check_job(c, queue, id, where, err)
                          : emq__client_check_queue(c, queue, where, err);
    if (s == EMQ_OK && (!out || !n))
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "%s is NULL", out ? "n" : "out");
    if (s == EMQ_OK && limit > LIST_MAX)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "limit is %zu: allowed are 1 to %d; 0 means %d",
                      limit, LIST_MAX, LIST_DEFAULT);
    if (s == EMQ_OK) {
        struct emq__markers_req req = {.prefix = c->prefix,
                                       .queue = queue,
                                       .id = id,
                                       .after = after ? &after->m : NULL,
                                       .limit = limit ? (int32_t)limit : LIST_DEFAULT};
        s = c->e->ops->markers(c->e, &req, &res, &mem, err);
    }
    if (s == EMQ_OK)
        s = list_make(queue, &res, out, err);
    if (s == EMQ_OK)
        *n = res.n;
    emq__arena_free(&mem);
    return s;
}
