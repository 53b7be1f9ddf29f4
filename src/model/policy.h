/* SPDX-License-Identifier: MIT
 *
 * What happens after an attempt, decided once for both engines from the record and its options.
 * Pure: randomness is passed in.
 */
#ifndef EMQ_MODEL_POLICY_H
#define EMQ_MODEL_POLICY_H

#include "model/job.h"
#include "model/opts.h"

/* Delay before the attempt after `attempts_made` settled ones (>= 1), r uniform in [0,1). The cap
 * comes first, then the jitter, so that jobs at the cap are spread too. Saturates at the cap, or at
 * 100 years without one; never negative, never overflows. A type that we don't know counts as
 * fixed, with 1 s when it gives no delay. */
int64_t emq__backoff_ms(const struct emq__backoff *b, int32_t attempts_made, double r);

struct emq__retry {
    bool again;
    int64_t delay_ms; /* 0 = at once */
};
/* The attempt that runs now has failed: is there another, and when? None for a job that is held
 * at-most-once. */
struct emq__retry emq__retry_decide(const struct emq__job *j, const struct emq__opts *o, double r);

/* How long a job with these options can come again, so how long it must be known what its effect did: its
 * delay, all its attempts with their longest backoff and run limit, then the time in `failed`, a manual
 * retry, the time in `completed`. At least EMQ__KNOWN_MIN_MS, at most EMQ__KNOWN_MAX_MS, which is also what
 * a job that is kept without a limit of age gets. */
#define EMQ__KNOWN_MIN_MS (INT64_C(7) * 24 * 3600 * 1000)
#define EMQ__KNOWN_MAX_MS (INT64_C(400) * 24 * 3600 * 1000)
int64_t emq__known_ms(const struct emq__opts *o);

#endif
