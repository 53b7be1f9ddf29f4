/* SPDX-License-Identifier: MIT
 *
 * Claims and ends of marked effects, as the tests of a client make them.
 */
#ifndef EMQ_TESTS_CLIENT_EFFECT_H
#define EMQ_TESTS_CLIENT_EFFECT_H

#include "base/str.h"
#include "client/effect.h"
#include "client_fixture.h"
#include "engine/sqlite/effect_text.h"
#include "model/policy.h"

#include <sqlite3.h>

enum { LOCK_MS = 30000 };

static inline emq_effect_key key_of(const emq_job *job, const char *step)
{
    emq_effect_key k = {.size = sizeof k};

    emq_effect_key_of(job, &k);
    k.step = S(step);
    return k;
}

static inline emq_effect *claim(struct fixture *f, const emq_effect_key *k, int flags)
{
    emq_effect *e = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_effect_claim(f->c, k, flags, 0, &e, &err), EMQ_OK, &err);
    return e;
}

static inline int claimed(struct fixture *f, const emq_job *job, const char *step, int flags)
{
    emq_effect_key k = key_of(job, step);
    emq_effect *e = claim(f, &k, flags);
    int state = emq_effect_get_state(e);

    emq_effect_free(e);
    return state;
}

static inline emq_status done(struct fixture *f, const emq_job *job, const char *step,
                              const char *result)
{
    emq_effect_key k = key_of(job, step);

    return emq_effect_done(f->c, &k, S(result), 0, NULL);
}

static inline emq_status release(struct fixture *f, const emq_job *job, const char *step)
{
    emq_effect_key k = key_of(job, step);

    return emq_effect_release(f->c, &k, NULL);
}

static inline void check_done(struct fixture *f, const emq_job *job, const char *step,
                              const char *result)
{
    emq_effect_key k = key_of(job, step);
    emq_effect *e = claim(f, &k, 0);

    CHECK_INT(emq_effect_get_state(e), EMQ_EFFECT_IS_DONE);
    CHECK_STR(emq_effect_result(e), result);
    emq_effect_free(e);
}

/* The worker of this job is gone, its lock ends, and the job is handed out again. */
static inline emq_job *handed_out_again(struct fixture *f)
{
    int64_t recovered = 0;

    fixture_advance(f, LOCK_MS + 1);
    /* A server's sweep looks twice where there is no lock. */
    for (int i = 0; i < 3 && recovered == 0; i++) {
        CHECK_STATUS(emq_sweep(f->c, Q, NULL, &recovered, NULL, NULL), EMQ_OK);
        fixture_advance(f, 6000);
    }
    return take_one(f);
}

static inline void settle_done(struct fixture *f, emq_job *job)
{
    CHECK_STATUS(settle(f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
}

#endif
