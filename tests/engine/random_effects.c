/* SPDX-License-Identifier: MIT
 *
 * The random operations on effects: claims, take-overs, what is done or given back, an administrator's decisions,
 * and lists. Jobs with ids of their own are left out: one that is removed and added again within an instant of
 * the model is the same job there, and another one where the clock runs.
 */
#include "random.h"

static const struct handout *handout_of(struct lockstep *l, int queue, emq_str id)
{
    for (size_t i = l->n_handouts; i-- > 0 && l->n_handouts - i <= RANDOM_HANDOUTS;) {
        const struct handout *h = &l->handouts[i % RANDOM_HANDOUTS];
        if (h->queue == queue && emq__str_is(id, h->id) && chance(l, 85))
            return h;
    }
    return NULL;
}

static void same_marker(struct lockstep *l, const struct emq__marker *a,
                        const struct emq__marker *b)
{
    same_i64(l, "state of a marker", a->state, b->state);
    same_str(l, "id of a marker", a->id, b->id);
    same_str(l, "step of a marker", a->step, b->step);
    same_str(l, "fingerprint of a marker", a->fingerprint, b->fingerprint);
    same_i64(l, "kind of a result", a->result.kind, b->result.kind);
    same_str(l, "result of a marker", a->result.bytes, b->result.bytes);
    same_i64(l, "token of a marker", a->token.len > 0, b->token.len > 0);
    same_instant(l, "timestamp of a marker", a->timestamp_at_ms, b->timestamp_at_ms);
    same_instant(l, "claimed", a->claimed_at_ms, b->claimed_at_ms);
    same_instant(l, "done", a->done_at_ms, b->done_at_ms);
    same_instant(l, "end of a marker", a->expires_at_ms, b->expires_at_ms);
}

static struct emq__mark_req random_mark(struct lockstep *l, int queue, emq_str id)
{
    static const char *const steps[] = {"", "", "mail"}, *const prints[] = {"", "", "f1", "f2"};
    static const enum emq__mark_kind kinds[] = {
        EMQ__MARK_CLAIM, EMQ__MARK_CLAIM, EMQ__MARK_CLAIM,   EMQ__MARK_TAKE_OVER, EMQ__MARK_DONE,
        EMQ__MARK_DONE,  EMQ__MARK_DONE,  EMQ__MARK_RELEASE, EMQ__MARK_SETTLE,    EMQ__MARK_FORGET};
    static const struct emq__payload results[] = {{EMQ__KIND_JSON, EMQ_STR_INIT("[1]")},
                                                  {EMQ__KIND_TEXT, EMQ_STR_INIT("done")},
                                                  {EMQ__KIND_BYTES, EMQ_STR_INIT("\xff")},
                                                  {0, EMQ_STR_INIT("")}};

    return (struct emq__mark_req){
        .prefix = FX_PREFIX,
        .queue = random_queue(queue),
        .id = id,
        .step = emq_cstr(steps[pick(l, EMQ_ARRAY_LEN(steps))]),
        .kind = kinds[pick(l, EMQ_ARRAY_LEN(kinds))],
        .settles = chance(l, 50),
        .fingerprint = emq_cstr(prints[pick(l, EMQ_ARRAY_LEN(prints))]),
        .result = results[pick(l, EMQ_ARRAY_LEN(results))],
        .keep_ms = (int64_t)(1 + pick(l, chance(l, 30) ? 6 : 600)) * RANDOM_STEP_MS,
    };
}

static void mark_once(struct lockstep *l, int queue, emq_str id, const struct handout *h)
{
    struct emq__mark_req req[2];
    struct emq__mark_res res[2];

    req[0] = req[1] = random_mark(l, queue, id);
    note(l, " %d /%s \"%s\"", (int)req[0].kind, req[0].step.ptr, req[0].fingerprint.ptr);
    for (int side = 0; side < 2; side++)
        req[side].auth = (struct emq__auth){.token = h ? emq_cstr(h->token[side]) : S("nobody:1"),
                                            .admin = S("root")};
    if (chance(l, 20)) {
        req[0].call = req[1].call = (struct emq__call){S("lockstep"), ++l->seq};
        (void)call2_mark(l, req, res);
        same_marker(l, &res[0].marker, &res[1].marker);
    }
    (void)call2_mark(l, req, res);
    same_marker(l, &res[0].marker, &res[1].marker);
}

/* Some in a row, so that what is claimed is done now and then. */
static void op_mark(struct lockstep *l, int queue)
{
    static const int states[] = {EMQ_ACTIVE, EMQ_ACTIVE, EMQ_ACTIVE, EMQ_COMPLETED_STATE,
                                 EMQ_FAILED_STATE};
    const struct emq__job *j = any_job(l, queue, states[pick(l, EMQ_ARRAY_LEN(states))]);
    const struct handout *h = j ? handout_of(l, queue, j->id) : NULL;

    if (j && (j->id.ptr[0] < '0' || j->id.ptr[0] > '9'))
        return;
    note(l, "mark %.*s by %s", EMQ_STR_ARG(j ? j->id : S("nobody")), h ? h->token[0] : "nobody");
    for (uint64_t n = j ? 1 + pick(l, 4) : 1; n > 0; n--)
        mark_once(l, queue, j ? j->id : S("nobody"), h);
}

static void op_markers(struct lockstep *l, int queue)
{
    struct emq__markers_req req[2];
    struct emq__markers_res res[2];
    struct emq__marker after[2];
    const struct emq__job *j = chance(l, 30) ? any_job(l, queue, 0) : NULL;

    req[0] = (struct emq__markers_req){.prefix = FX_PREFIX,
                                       .queue = random_queue(queue),
                                       .id = j ? j->id : S(""),
                                       .limit = (int32_t)(1 + pick(l, 10))};
    req[1] = req[0];
    note(l, "markers of %.*s limit %d", EMQ_STR_ARG(req[0].id), (int)req[0].limit);
    do {
        (void)call2_markers(l, req, res);
        same_i64(l, "markers", (int64_t)res[0].n, (int64_t)res[1].n);
        for (size_t i = 0; i < res[0].n; i++)
            same_marker(l, &res[0].markers[i], &res[1].markers[i]);
        for (int side = 0; side < 2 && res[0].n; side++) {
            after[side] = res[side].markers[res[0].n - 1];
            req[side].after = &after[side];
        }
    } while (res[0].n);
}

void random_effect(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);

    note(l, "%s ", random_queue(queue).ptr);
    l->moves = 0;
    if (chance(l, 85))
        op_mark(l, queue);
    else
        op_markers(l, queue);
}
