/* SPDX-License-Identifier: MIT
 *
 * Helpers for tests of effects.
 */
#ifndef EMQ_TESTS_EFFECTS_H
#define EMQ_TESTS_EFFECTS_H

#include "lib/engine_fixture.h"

enum { KEEP_MS = 3600 * 1000 };

static inline struct emq__mark_req mark_req(const struct emq__job *j, enum emq__mark_kind kind)
{
    return (struct emq__mark_req){.prefix = FX_PREFIX,
                                  .queue = S("q"),
                                  .id = j->id,
                                  .auth = {.token = j->token},
                                  .kind = kind,
                                  .result = {EMQ__KIND_JSON, EMQ_STR_LIT("null")},
                                  .keep_ms = KEEP_MS};
}

static inline struct emq__mark_req admin_req(const struct emq__job *j, enum emq__mark_kind kind)
{
    struct emq__mark_req req = mark_req(j, kind);

    req.auth = (struct emq__auth){.admin = EMQ_STR_LIT("ann")};
    return req;
}

static inline emq_status mark_with(struct fx *t, const struct emq__mark_req *req,
                                   struct emq__marker *m)
{
    struct emq__mark_res res = {0};
    emq_status s = FX_CALL(t, mark, req, &res);

    if (m)
        *m = res.marker;
    return s;
}

static inline emq_status mark(struct fx *t, const struct emq__job *j, enum emq__mark_kind kind)
{
    struct emq__mark_req req = mark_req(j, kind);

    return mark_with(t, &req, NULL);
}

/* The state that a claim is told. */
static inline int claim(struct fx *t, const struct emq__job *j)
{
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    struct emq__marker m;

    CHECK_STATUS(mark_with(t, &req, &m), EMQ_OK);
    return m.state;
}

static inline void claim_fresh(struct fx *t, const struct emq__job *j)
{
    CHECK_INT(claim(t, j), EMQ__MARKER_FRESH);
}

static inline void done_ok(struct fx *t, const struct emq__job *j, const char *json)
{
    struct emq__mark_req req = mark_req(j, EMQ__MARK_DONE);

    req.result.bytes = S(json);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
}

static inline struct emq__job *add_and_take(struct fx *t)
{
    must_add(t, "q", "x");
    return must_take(t, "q");
}

/* The job again, as its next hand-out: its worker has died. */
static inline struct emq__job *taken_again(struct fx *t)
{
    advance(t, FX_LOCK_MS + 1);
    CHECK_INT(sweep(t, "q", 10).n_recovered, 1);
    return must_take(t, "q");
}

/* "what who detail" of the newest entry of the history of a job. */
static inline emq_str last_history(struct fx *t, emq_str id)
{
    struct emq__history_req req = {FX_PREFIX, S("q"), id};
    struct emq__history_res res;

    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    return res.n ? res.json[res.n - 1] : emq_cstr("");
}

#endif
