/* SPDX-License-Identifier: MIT
 *
 * Effects of handlers. A transactional one ends its job itself: nothing is settled again, but counts and
 * events are those of any job. A marked one is claimed, made and recorded here, by a policy where it is in
 * doubt.
 */
#include "worker/runtime.h"

#include "base/error.h"
#include "base/str.h"
#include "client/effect.h"
#include "client/opts_size.h"

/* ---- transactional ----------------------------------------------------------------------- */

static void lent_acting(emq_job *job)
{
    struct emq__slot *s = job->slot;

    emq__point(&s->w->points, EMQ__P3);
}

/* Nothing is to be renewed, stopped or settled any more; the handler may go on as long as it likes. */
static void lent_ended(emq_job *job, int state)
{
    struct emq__slot *s = job->slot;

    emq__point(&s->w->points, EMQ__P4);
    pthread_mutex_lock(&s->w->mu);
    emq__keeper_remove(s);
    s->settled = state;
    pthread_mutex_unlock(&s->w->mu);
    atomic_store(&s->safe_until_us, INT64_MAX);
    atomic_store(&s->run_until_us, INT64_MAX);
}

const struct emq__lender emq__slot_lender = {lent_acting, lent_ended};

/* The outcome of a program's effect, in words of its result. */
static emq_status judge(struct emq__exec_result *res, emq_status st, const char *problem,
                        const emq_error *err)
{
    const char *why = "";

    switch ((int)st) {
    case EMQ_OK: return EMQ_OK;
    case EMQ_FAILED: why = problem; break;
    case EMQ_TIMEOUT: why = "it took longer than a transaction may"; break;
    case EMQ_LOST:
    case EMQ_NOT_FOUND: why = "the lock is no longer ours"; break;
    case EMQ_E_INVALID: why = err->text; break;
    case EMQ_E_UNAVAIL:
    case EMQ_E_IN_DOUBT:
    case EMQ_E_BUSY:
    case EMQ_E_FULL:
    case EMQ_E_NOMEM: return st; /* about the store, not about this effect */
    default: why = emq__is_failure(st) ? err->text : emq_status_text(st);
    }
    /* What is refused as it is would be refused again. */
    res->kind = st == EMQ_E_INVALID || st == EMQ_FAILED_CHILD ? EMQ__EXEC_FAIL : EMQ__EXEC_RETRY;
    res->reason = emq__arena_printf(&res->mem, "its %s not done: %s",
                                    res->sql.n ? "SQL was" : "commands were", why);
    if (!res->reason.ptr)
        res->reason = EMQ_STR_LIT("its effect was not done");
    return EMQ_OK;
}

emq_status emq__slot_exec_effect(struct emq__slot *s, struct emq__exec_result *res, emq_error *err)
{
    const emq_effect_opts o = {.size = sizeof o, .result = res->result};
    char problem[EMQ__PROBLEM_MAX] = "";
    emq_status st;

    if (res->sql.n && res->commands.n)
        st = emq__fail(err, EMQ_E_INVALID, 0, "exec", "it asked for both \"sql\" and \"redis\"");
    else if (res->sql.n)
        st = emq__effect_sql(s->w->c, s->job, res->sql.list, res->sql.n, &o, problem, err);
    else
        st = emq__effect_commands(s->w->c, s->job, res->commands.list, res->commands.n, &o, err);
    return s->settled ? EMQ_OK : judge(res, st, problem, err);
}

/* ---- marked ------------------------------------------------------------------------------ */

struct marked {
    emq_client *c;
    emq_job *job;
    struct emq__slot *slot; /* NULL: the job was taken by hand */
    emq_effect_plan plan;
    emq_effect_key key;
};

static const char *const where_run = "emq_effect_run";

static emq_status take_plan(struct marked *m, const emq_effect_plan *plan, emq_error *err)
{
    emq_status s = emq__client_check(m->c, where_run, err);

    if (s == EMQ_OK && (!m->job || !plan))
        s = emq__fail(err, EMQ_E_INVALID, 0, where_run, "%s is NULL", plan ? "job" : "plan");
    if (s == EMQ_OK)
        s = EMQ__OPTS_TAKE(&m->plan, plan, where_run, emq_effect_plan, err);
    if (s == EMQ_OK && !m->plan.effect)
        s = emq__fail(err, EMQ_E_INVALID, 0, where_run, "plan.effect is NULL");
    if (s == EMQ_OK && (m->plan.policy < EMQ_DOUBT_REDO || m->plan.policy > EMQ_DOUBT_PROBE))
        s = emq__fail(err, EMQ_E_INVALID, 0, where_run,
                      "plan.policy is %d: say what to do when the effect is in doubt, with an "
                      "emq_doubt_policy",
                      (int)m->plan.policy);
    if (s == EMQ_OK && m->plan.policy == EMQ_DOUBT_PROBE && !m->plan.probe)
        s = emq__fail(err, EMQ_E_INVALID, 0, where_run,
                      "plan.probe is NULL, but the policy is EMQ_DOUBT_PROBE");
    if (s != EMQ_OK)
        return s;
    m->slot = m->job->slot;
    m->key.size = sizeof m->key;
    emq_effect_key_of(m->job, &m->key);
    m->key.step = m->plan.step;
    m->key.payload = m->plan.payload;
    return EMQ_OK;
}

static void result_clear(struct marked *m)
{
    if (m->slot)
        emq__text_own(&m->slot->out.result, NULL, 0);
}

static emq_str result_of(const struct marked *m)
{
    return m->slot ? m->slot->out.result.s : emq_strn("", 0);
}

/* It was done before: its result is the job's. */
static emq_status already(struct marked *m, const emq_effect *e, emq_error *err)
{
    emq_str result = emq_effect_result(e);

    result_clear(m);
    return m->slot && result.len ? emq_job_set_result(m->job, result, err) : EMQ_OK;
}

static emq_status record(struct marked *m, emq_error *err)
{
    return emq_effect_done(m->c, &m->key, result_of(m), m->plan.keep_ms, err);
}

static emq_status act(struct marked *m, emq_error *err)
{
    result_clear(m);
    if (m->plan.effect(m->job, m->plan.arg) == EMQ_DONE)
        return record(m, err);
    emq_status s = emq_effect_release(m->c, &m->key, err);
    return s == EMQ_OK ? EMQ_FAILED : s;
}

/* What was in doubt becomes this hand-out's; somebody may have settled it meanwhile. */
static emq_status take_over(struct marked *m, bool happened, emq_error *err)
{
    emq_effect *e = NULL;
    int flags = EMQ_CLAIM_TAKE_OVER | (happened ? EMQ_CLAIM_SETTLES : 0);
    emq_status s = emq_effect_claim(m->c, &m->key, flags, m->plan.keep_ms, &e, err);

    if (s == EMQ_OK && emq_effect_get_state(e) == EMQ_EFFECT_IS_DONE)
        s = already(m, e, err);
    else if (s == EMQ_OK)
        s = happened ? record(m, err) : act(m, err);
    emq_effect_free(e);
    return s;
}

static emq_status park(struct marked *m, const emq_effect *e, emq_error *err)
{
    char text[600];
    emq_str token = emq_effect_token(e), step = m->key.step;

    int n = snprintf(text, sizeof text,
                     "its effect%s%.*s is in doubt: %.*s claimed it and ended without a word; "
                     "look whether it happened, then emq effect resolve and emq retry",
                     step.len ? " " : "", EMQ_STR_ARG(step), EMQ_STR_ARG(token));
    emq_status s = m->slot && n > 0
                       ? emq_job_set_failure(m->job, emq_cstr(text), emq_strn("", 0), err)
                       : EMQ_OK;
    return s == EMQ_OK ? EMQ_PARKED : s;
}

static emq_status decide(struct marked *m, const emq_effect *e, emq_error *err)
{
    int policy = m->plan.policy;

    result_clear(m);
    if (policy == EMQ_DOUBT_PROBE) {
        emq_probe_answer answer = m->plan.probe(m->job, m->plan.arg);
        policy = answer == EMQ_PROBE_HAPPENED  ? EMQ_DOUBT_SKIP
                 : answer == EMQ_PROBE_DID_NOT ? EMQ_DOUBT_REDO
                                               : EMQ_DOUBT_PARK;
    }
    return policy == EMQ_DOUBT_PARK ? park(m, e, err) : take_over(m, policy == EMQ_DOUBT_SKIP, err);
}

emq_status emq_effect_run(emq_client *c, emq_job *job, const emq_effect_plan *plan, emq_error *err)
{
    struct marked m = {.c = c, .job = job};
    emq_effect *e = NULL;
    emq_status s = take_plan(&m, plan, err);

    if (s == EMQ_OK)
        s = emq_effect_claim(c, &m.key, 0, m.plan.keep_ms, &e, err);
    if (s != EMQ_OK)
        return s;
    switch ((emq_effect_state)emq_effect_get_state(e)) {
    case EMQ_EFFECT_FRESH: s = act(&m, err); break;
    case EMQ_EFFECT_IS_DONE: s = already(&m, e, err); break;
    case EMQ_EFFECT_IN_DOUBT: s = decide(&m, e, err); break;
    case EMQ_EFFECT_BUSY:
    case EMQ_EFFECT_NONE: s = EMQ_LOCKED; break;
    }
    emq_effect_free(e);
    return s;
}
