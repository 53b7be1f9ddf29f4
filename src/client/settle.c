/* SPDX-License-Identifier: MIT
 *
 * Ending a hand-out. What follows (retention, another attempt, its delay) is read from the job's
 * own options before the act; the act compares the token, so nothing is decided twice.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/policy.h"

enum { REASON_MAX = 16 * 1024, STACK_MAX = 64 * 1024 };

static const char *const where_settle = "emq_settle";

/* Clean text of at most max bytes; the text itself when nothing has to be changed. */
static emq_str clean(emq_str text, size_t max, struct emq__arena *mem)
{
    size_t room = text.len < max / 3 ? 3 * text.len : max; /* a byte that is none becomes three */
    char *out = text.len ? emq__arena_alloc(mem, room + 8) : NULL;

    return out ? emq_strn(out, emq__text_clean(text, room, out)) : emq_strn("", 0);
}

static void retry_entry(const struct emq__job *j, const struct emq__opts *o, int64_t delay_ms,
                        double r, struct emq__settle_entry *out)
{
    struct emq__retry next = {true, delay_ms};

    if (delay_ms < 0)
        next = emq__retry_decide(j, o, r);
    out->kind = next.again ? EMQ__SETTLE_RETRY : EMQ__SETTLE_FAILED;
    out->delay_ms = next.again ? next.delay_ms : 0;
    out->lifo = o->lifo;
}

void emq__settle_entry_make(const struct emq__job *j, const struct emq__opts *o, emq_str token,
                            const emq_settle_opts *how, double r, struct emq__arena *mem,
                            struct emq__settle_entry *out)
{
    emq_str value = how->value;

    *out = (struct emq__settle_entry){
        .id = j->id,
        .auth = {.token = token},
        .keep = o->keep_failed,
        .stack_limit = o->stack_limit,
    };
    switch (how->kind) {
    case EMQ_SETTLE_COMPLETED:
        out->kind = EMQ__SETTLE_COMPLETED;
        out->keep = o->keep_completed;
        if (!value.ptr)
            value = EMQ_STR_LIT("null");
        out->value = (struct emq__payload){emq__kind_of(value), value};
        return;
    case EMQ_SETTLE_RELEASE:
        out->kind = EMQ__SETTLE_RELEASE;
        out->delay_ms = how->delay_ms > 0 ? how->delay_ms : 0;
        out->reason = clean(value, REASON_MAX, mem);
        return;
    case EMQ_SETTLE_RETRY: retry_entry(j, o, how->delay_ms, r, out); break;
    case EMQ_SETTLE_FAILED:
    default: out->kind = EMQ__SETTLE_FAILED; break;
    }
    out->reason = clean(value, REASON_MAX, mem);
    out->stack = clean(how->stack, STACK_MAX, mem);
}

static emq_status check_settle_opts(emq_settle_opts *o, const emq_settle_opts *opts, emq_str token,
                                    emq_error *err)
{
    emq_status s = EMQ_OK;

    if (!opts)
        return emq__fail(err, EMQ_E_INVALID, 0, where_settle, "opts is NULL: a kind is needed");
    s = EMQ__OPTS_TAKE(o, opts, where_settle, emq_settle_opts, err);
    if (s != EMQ_OK)
        return s;
    if (o->kind < EMQ_SETTLE_COMPLETED || o->kind > EMQ_SETTLE_RELEASE)
        return emq__fail(err, EMQ_E_INVALID, 0, where_settle,
                         "kind is %d: allowed are EMQ_SETTLE_COMPLETED to EMQ_SETTLE_RELEASE",
                         (int)o->kind);
    /* A reason and a stack are cut, never refused for their length. */
    if (o->kind == EMQ_SETTLE_COMPLETED)
        s = emq__check_size(o->value, EMQ_RESULT_MAX, where_settle, "the result", err);
    else
        s = emq__check_size(o->value, SIZE_MAX, where_settle, "the reason", err);
    if (s == EMQ_OK)
        s = emq__check_size(o->stack, SIZE_MAX, where_settle, "the stack", err);
    if (s == EMQ_OK && o->kind == EMQ_SETTLE_RELEASE)
        s = emq__check_span(o->delay_ms, where_settle, "delay_ms", err);
    if (s == EMQ_OK && o->kind == EMQ_SETTLE_RETRY && o->delay_ms != -1)
        s = emq__check_span(o->delay_ms, where_settle, "delay_ms", err);
    if (s == EMQ_OK && !o->force)
        s = emq__check_token(token, where_settle, err);
    return s;
}

emq_status emq_settle(emq_client *c, emq_str queue, emq_str id, emq_str token,
                      const emq_settle_opts *opts, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__settle_entry entry;
    struct emq__settle_res res;
    struct emq__job *job;
    emq_settle_opts o;
    int64_t now_ms;

    emq_status s = emq__client_check_job(c, queue, id, where_settle, err);
    if (s == EMQ_OK)
        s = check_settle_opts(&o, opts, token, err);
    if (s == EMQ_OK)
        s = emq__job_read(c, queue, id, &mem, &job, &now_ms, err);
    if (s == EMQ_OK) {
        const struct emq__settle_entry *entries[] = {&entry};
        struct emq__settle_req req = {
            .prefix = c->prefix, .queue = queue, .entries = entries, .n = 1};
        struct emq__opts policy;

        (void)emq__opts_read(job->opts, &mem, &policy);
        emq__settle_entry_make(job, &policy, token, &o, emq__random_unit(), &mem, &entry);
        if (o.force)
            entry.auth = (struct emq__auth){.admin = c->who};
        s = emq__do_settle(c, &req, &res, &mem, err);
    }
    if (s == EMQ_OK)
        s = res.settled[0].outcome;
    if (s == EMQ_OK && o.out_state)
        *o.out_state = res.settled[0].state;
    emq__arena_free(&mem);
    return s;
}
