/* SPDX-License-Identifier: MIT
 *
 * A simulated worker: takes, renews, works, settles, sweeps; it may die or freeze at any step, and it
 * behaves as a worker must when an answer does not come: it repeats the call under the same sequence.
 */
#include "sim.h"

void sim_worker_start(struct sim *s, int index)
{
    struct sim_worker *w = &s->workers[index];
    int incarnation = w->incarnation + 1;

    *w = (struct sim_worker){.incarnation = incarnation};
    (void)snprintf(w->name, sizeof w->name, "w%d.%d", index, incarnation);
    (void)snprintf(w->session, sizeof w->session, "session-%d-%d", index, incarnation);
}

static void drop(struct sim_worker *w, size_t at)
{
    w->held[at] = w->held[--w->n_held];
}

static struct sim_held *held_of(struct sim_worker *w, emq_str id, emq_str token)
{
    for (size_t i = 0; i < w->n_held; i++)
        if (emq__str_is(id, w->held[i].id) && emq__str_is(token, w->held[i].token))
            return &w->held[i];
    return NULL;
}

/* ---- take */

static void hold(struct sim *s, struct sim_worker *w, const struct emq__taken *taken)
{
    for (size_t i = 0; i < taken->n; i++) {
        const struct emq__job *j = taken->jobs[i];
        struct sim_held *h;

        if (w->n_held == SIM_SLOTS)
            sim_broken(s, "%s got more than it asked for", w->name);
        h = &w->held[w->n_held++];
        *h = (struct sim_held){.deadline_ms = w->sent_ms + SIM_LOCK_MS,
                               .work_left = (int)(1 + sim_pick(s, 5)),
                               .at_most_once = w->take.mode == EMQ_AT_MOST_ONCE};
        (void)snprintf(h->id, sizeof h->id, "%.*s", EMQ_STR_ARG(j->id));
        (void)snprintf(h->token, sizeof h->token, "%.*s", EMQ_STR_ARG(j->token));
        sim_note(s, " %s", h->id);
    }
}

bool sim_doubt_stays(emq_status st, bool first)
{
    return st == EMQ_E_IN_DOUBT || (st == EMQ_E_UNAVAIL && !first);
}

static void send_take(struct sim *s, struct sim_worker *w, bool first)
{
    struct emq__arena mem = {0};
    struct emq__take_req req = {.call = {emq_cstr(w->session), w->seq},
                                .prefix = FX_PREFIX,
                                .queue = EMQ_STR_LIT("q"),
                                .take = w->take};
    struct emq__take_res res;
    emq_status st;

    req.take.worker = emq_cstr(w->name);
    st = s->e->ops->take(s->e, &req, &res, &mem, NULL);
    sim_note(s, " %s", emq_status_name(st));
    w->doubt = sim_doubt_stays(st, first) ? SIM_DOUBT_TAKE : SIM_CLEAR;
    if (st == EMQ_OK)
        hold(s, w, &res.taken);
    else if (st != EMQ_E_IN_DOUBT && st != EMQ_E_UNAVAIL)
        sim_broken(s, "take: %s", emq_status_name(st));
    emq__arena_free(&mem);
}

static void take_more(struct sim *s, struct sim_worker *w)
{
    sim_note(s, "take");
    w->take = (struct emq__take){.lock_ms = SIM_LOCK_MS,
                                 .count = (int32_t)(1 + sim_pick(s, SIM_SLOTS - w->n_held)),
                                 .mode = sim_chance(s, 10) ? EMQ_AT_MOST_ONCE : EMQ_AT_LEAST_ONCE};
    w->sent_ms = s->now_ms;
    w->seq++;
    send_take(s, w, true);
}

/* ---- settle */

/* The store must accept exactly what comes from the owner of the last hand-out. */
static void judge(struct sim *s, struct sim_worker *w, emq_status outcome)
{
    const struct emq__job *j = sim_stored(s, w->settle_id);
    bool owner = j && j->state == EMQ_ACTIVE && emq__str_is(j->token, w->settle_token);

    if (owner != (outcome == EMQ_OK))
        sim_broken(s, "%s settled %s with %s: %s, but it is %s", w->name, w->settle_id,
                   w->settle_token, emq_status_name(outcome),
                   owner ? "the owner" : "not the owner");
}

static void settled(struct sim *s, struct sim_worker *w, emq_status outcome)
{
    struct sim_held *h = held_of(w, emq_cstr(w->settle_id), emq_cstr(w->settle_token));
    struct sim_job *job = sim_job_of(s, w->settle_id);

    if (outcome == EMQ_OK && w->settle.kind == EMQ__SETTLE_COMPLETED && job &&
        ++job->completions > 1)
        sim_broken(s, "%s was completed twice", w->settle_id);
    if (h)
        drop(w, (size_t)(h - w->held));
}

static void send_settle(struct sim *s, struct sim_worker *w, bool first)
{
    struct emq__arena mem = {0};
    struct emq__settle_entry en = w->settle;
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {.call = {emq_cstr(w->session), w->seq},
                                  .prefix = FX_PREFIX,
                                  .queue = EMQ_STR_LIT("q"),
                                  .entries = list,
                                  .n = 1};
    struct emq__settle_res res;
    emq_status st;

    en.id = emq_cstr(w->settle_id);
    en.auth.token = emq_cstr(w->settle_token);
    st = s->e->ops->settle(s->e, &req, &res, &mem, NULL);
    sim_note(s, " %s kind %d %s", w->settle_id, (int)en.kind, emq_status_name(st));
    w->doubt = sim_doubt_stays(st, first) ? SIM_DOUBT_SETTLE : SIM_CLEAR;
    if (st == EMQ_OK) {
        sim_note(s, " %s", emq_status_name(res.settled[0].outcome));
        if (first)
            judge(s, w, res.settled[0].outcome);
        settled(s, w, res.settled[0].outcome);
    } else if (st == EMQ_E_UNAVAIL && first) {
        struct sim_held *h = held_of(w, en.id, en.auth.token);
        if (h)
            h->settling = false;
    } else if (st != EMQ_E_IN_DOUBT && st != EMQ_E_UNAVAIL) {
        sim_broken(s, "settle: %s", emq_status_name(st));
    }
    emq__arena_free(&mem);
}

void sim_worker_settle(struct sim *s, struct sim_worker *w)
{
    w->seq++;
    send_settle(s, w, true);
}

void sim_worker_forget(struct sim_worker *w, bool lost)
{
    struct sim_held *h = held_of(w, emq_cstr(w->settle_id), emq_cstr(w->settle_token));

    if (h && lost)
        drop(w, (size_t)(h - w->held));
    else if (h)
        h->settling = false;
}

static void finish(struct sim *s, struct sim_worker *w, struct sim_held *h)
{
    uint64_t what = sim_pick(s, 100);

    w->settle = (struct emq__settle_entry){.kind = EMQ__SETTLE_COMPLETED,
                                           .value = {EMQ__KIND_JSON, EMQ_STR_LIT("null")},
                                           .reason = EMQ_STR_LIT("failed on purpose"),
                                           .keep = {.count = -1},
                                           .stack_limit = 3,
                                           .max_stalled = SIM_MAX_STALLED};
    if (what < 5)
        w->settle.kind = EMQ__SETTLE_FAILED;
    else if (what < 20 && !h->at_most_once)
        w->settle.kind = EMQ__SETTLE_RETRY;
    else if (what < 26 && !h->at_most_once)
        w->settle.kind = EMQ__SETTLE_RELEASE;
    else if (what < 30)
        w->settle.kind = EMQ__SETTLE_STALLED;
    else if (!sim_is_marked(h->id))
        sim_job_of(s, h->id)->effects++;
    if (sim_chance(s, 50))
        w->settle.delay_ms = (int64_t)sim_pick(s, 20000);
    (void)snprintf(w->settle_id, sizeof w->settle_id, "%s", h->id);
    (void)snprintf(w->settle_token, sizeof w->settle_token, "%s", h->token);
    h->settling = true;
    if (w->settle.kind == EMQ__SETTLE_COMPLETED && sim_is_marked(h->id))
        sim_effect(s, w);
    else
        sim_worker_settle(s, w);
}

/* ---- the rest of its life */

static void renew(struct sim *s, struct sim_worker *w)
{
    struct emq__arena mem = {0};
    struct emq__extend_entry en[SIM_SLOTS];
    const struct emq__extend_entry *list[SIM_SLOTS];
    struct emq__extend_req req = {list, w->n_held, SIM_LOCK_MS};
    struct emq__extend_res res;
    int64_t sent = s->now_ms;

    for (size_t i = 0; i < w->n_held; i++) {
        en[i] = (struct emq__extend_entry){FX_PREFIX, EMQ_STR_LIT("q"), emq_cstr(w->held[i].id),
                                           emq_cstr(w->held[i].token)};
        list[i] = &en[i];
    }
    emq_status st = s->e->ops->extend(s->e, &req, &res, &mem, NULL);
    sim_note(s, "renew %zu %s", w->n_held, emq_status_name(st));
    if (st == EMQ_OK)
        for (size_t i = w->n_held; i-- > 0;) {
            if (res.extended[i].outcome == EMQ_OK)
                w->held[i].deadline_ms = sent + SIM_LOCK_MS;
            else if (!w->held[i].settling)
                drop(w, i);
        }
    emq__arena_free(&mem);
}

static void sweep_and_promote(struct sim *s)
{
    struct emq__arena mem = {0};
    struct emq__sweep_req sweep = {.prefix = FX_PREFIX,
                                   .queue = EMQ_STR_LIT("q"),
                                   .max_stalled = SIM_MAX_STALLED,
                                   .limit = (int32_t)(1 + sim_pick(s, 10))};
    struct emq__sweep_res swept;
    struct emq__promote_req promote = {FX_PREFIX, EMQ_STR_LIT("q"), 10};
    struct emq__promote_res promoted;

    sim_note(s, "sweep %s", emq_status_name(s->e->ops->sweep(s->e, &sweep, &swept, &mem, NULL)));
    (void)s->e->ops->promote(s->e, &promote, &promoted, &mem, NULL);
    emq__arena_free(&mem);
}

static void work(struct sim *s, struct sim_worker *w)
{
    struct sim_held *h = &w->held[sim_pick(s, w->n_held)];

    sim_note(s, "work");
    if (h->settling)
        return;
    if (h->work_left > 0 && --h->work_left > 0)
        return;
    finish(s, w, h);
}

void sim_worker_step(struct sim *s, struct sim_worker *w)
{
    uint64_t what = sim_pick(s, 100);

    sim_note(s, "%s ", w->name);
    if (w->dead) {
        sim_note(s, "starts again");
        sim_worker_start(s, (int)(w - s->workers));
    } else if (w->frozen_until_ms > s->now_ms) {
        sim_note(s, "is frozen");
    } else if (what < 2) {
        sim_note(s, "dies");
        w->dead = true;
        w->n_held = 0;
    } else if (what < 4) {
        sim_note(s, "freezes");
        w->frozen_until_ms = s->now_ms + SIM_LOCK_MS + (int64_t)sim_pick(s, SIM_LOCK_MS);
    } else if (what < 24 && w->n_held > 0) {
        renew(s, w);
    } else if (w->doubt == SIM_DOUBT_TAKE) {
        sim_note(s, "asks again: take");
        send_take(s, w, false);
    } else if (w->doubt == SIM_DOUBT_SETTLE) {
        sim_note(s, "asks again: settle");
        send_settle(s, w, false);
    } else if (w->doubt == SIM_DOUBT_MARK) {
        sim_note(s, "asks again:");
        sim_effect_again(s, w);
    } else if (what < 32) {
        sweep_and_promote(s);
    } else if (w->n_held < SIM_SLOTS && (what < 60 || w->n_held == 0)) {
        take_more(s, w);
    } else {
        work(s, w);
    }
}
