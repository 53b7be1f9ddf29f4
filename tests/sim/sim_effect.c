/* SPDX-License-Identifier: MIT
 *
 * A simulated worker's effect behind a marker: claim, effect, record; what is in doubt is parked. Whatever is lost
 * and whoever dies, such an effect happens once at most, and a job that is completed has had it.
 */
#include "sim.h"

bool sim_is_marked(const char *id)
{
    return (id[strlen(id) - 1] - '0') % 2 == 0;
}

static void send(struct sim *s, struct sim_worker *w, bool first);

static void next_mark(struct sim *s, struct sim_worker *w, enum emq__mark_kind kind)
{
    w->mark = kind;
    w->seq++;
    send(s, w, true);
}

/* The claim is answered. */
static void claimed(struct sim *s, struct sim_worker *w, int state)
{
    struct sim_job *job = sim_job_of(s, w->settle_id);

    if (state == EMQ__MARKER_FRESH) {
        if (++job->effects > 1)
            sim_broken(s, "the effect of %s was claimed twice", w->settle_id);
        next_mark(s, w, EMQ__MARK_DONE);
        return;
    }
    if (state == EMQ__MARKER_DONE && job->effects != 1)
        sim_broken(s, "%s is known to be done, but was done %d times", w->settle_id, job->effects);
    if (state != EMQ__MARKER_DONE)
        w->settle.kind = EMQ__SETTLE_FAILED; /* parked */
    sim_worker_settle(s, w);
}

static void send(struct sim *s, struct sim_worker *w, bool first)
{
    struct emq__arena mem = {0};
    const struct emq__mark_req req = {.call = {emq_cstr(w->session), w->seq},
                                      .prefix = FX_PREFIX,
                                      .queue = EMQ_STR_LIT("q"),
                                      .id = emq_cstr(w->settle_id),
                                      .auth.token = emq_cstr(w->settle_token),
                                      .kind = w->mark,
                                      .result = {EMQ__KIND_JSON, EMQ_STR_LIT("1")},
                                      .keep_ms = INT64_C(400) * 24 * 3600 * 1000};
    struct emq__mark_res res = {0};
    emq_status st = s->e->ops->mark(s->e, &req, &res, &mem, NULL);

    sim_note(s, " mark %d of %s %s", (int)w->mark, w->settle_id, emq_status_name(st));
    /* An effect that was made is to be recorded, also when the request was not sent. */
    w->doubt =
        sim_doubt_stays(st, first && w->mark == EMQ__MARK_CLAIM) ? SIM_DOUBT_MARK : SIM_CLEAR;
    int state = res.marker.state;
    emq__arena_free(&mem);
    if (w->doubt != SIM_CLEAR)
        return;
    if (st == EMQ_OK && w->mark == EMQ__MARK_CLAIM)
        claimed(s, w, state);
    else if (st == EMQ_OK)
        sim_worker_settle(s, w);
    else if (st == EMQ_LOST || st == EMQ_E_UNAVAIL)
        sim_worker_forget(w, st == EMQ_LOST);
    else
        sim_broken(s, "mark %d: %s", (int)w->mark, emq_status_name(st));
}

void sim_effect(struct sim *s, struct sim_worker *w)
{
    next_mark(s, w, EMQ__MARK_CLAIM);
}

void sim_effect_again(struct sim *s, struct sim_worker *w)
{
    send(s, w, false);
}
