/* SPDX-License-Identifier: MIT
 *
 * Backoff and the retry decision. Every result lies in 0..100 years, whatever numbers another
 * producer put into the options.
 */
#include "model/policy.h"

#include "model/duration.h"

static int64_t clamp_span(int64_t ms, int64_t cap)
{
    if (ms < 0)
        return 0;
    return ms > cap ? cap : ms;
}

/* delay * 2^doublings, at most cap. */
static int64_t grow(int64_t delay, int32_t doublings, int64_t cap)
{
    if (delay <= 0)
        return 0;
    if (doublings >= 62 || delay > cap >> doublings)
        return cap;
    return delay << doublings;
}

int64_t emq__backoff_ms(const struct emq__backoff *b, int32_t attempts_made, double r)
{
    int64_t cap = b->max_ms > 0 && b->max_ms < EMQ__SPAN_MAX_MS ? b->max_ms : EMQ__SPAN_MAX_MS;
    int64_t ms;

    if (b->type == EMQ_BACKOFF_NONE)
        return 0;
    if (b->type == EMQ_BACKOFF_EXPONENTIAL)
        ms = grow(b->delay_ms, attempts_made > 1 ? attempts_made - 1 : 0, cap);
    else if (b->type == EMQ_BACKOFF_FIXED)
        ms = clamp_span(b->delay_ms, cap);
    else
        ms = clamp_span(b->delay_ms > 0 ? b->delay_ms : EMQ__DEFAULT_BACKOFF_MS, cap);

    /* Comparisons that NaN fails. */
    double jitter = b->jitter > 0 ? (b->jitter < 1 ? b->jitter : 1) : 0;
    if (!(jitter > 0))
        return ms;
    double u = r > 0 ? (r < 1 ? r : 1) : 0;
    double whole = (double)ms; /* exact: below 2^53 */
    return clamp_span((int64_t)(u * whole * jitter + whole * (1 - jitter)), ms);
}

struct emq__retry emq__retry_decide(const struct emq__job *j, const struct emq__opts *o, double r)
{
    struct emq__retry none = {.again = false};
    int64_t made = (int64_t)j->attempts_made + 1;

    if (j->mode == EMQ_AT_MOST_ONCE || j->mode == EMQ_FIRE_AND_FORGET)
        return none;
    if (made >= o->attempts)
        return none;
    return (struct emq__retry){
        .again = true,
        .delay_ms = emq__backoff_ms(&o->backoff, (int32_t)made, r),
    };
}

static int64_t kept_ms(const struct emq__keep *k)
{
    if (k->count == 0)
        return 0;
    return k->age_ms > 0 ? clamp_span(k->age_ms, EMQ__KNOWN_MAX_MS) : EMQ__KNOWN_MAX_MS;
}

int64_t emq__known_ms(const struct emq__opts *o)
{
    int64_t attempts = o->attempts > 1 ? o->attempts : 1;
    int64_t backoff = emq__backoff_ms(&o->backoff, (int32_t)attempts, 1);
    int64_t each =
        clamp_span(backoff, EMQ__KNOWN_MAX_MS) + clamp_span(o->timeout_ms, EMQ__KNOWN_MAX_MS);
    int64_t all = each > EMQ__KNOWN_MAX_MS / attempts ? EMQ__KNOWN_MAX_MS : each * attempts;
    int64_t ms = clamp_span(o->delay_ms, EMQ__KNOWN_MAX_MS) + all + kept_ms(&o->keep_failed) +
                 kept_ms(&o->keep_completed);

    if (ms < EMQ__KNOWN_MIN_MS)
        return EMQ__KNOWN_MIN_MS;
    return ms > EMQ__KNOWN_MAX_MS ? EMQ__KNOWN_MAX_MS : ms;
}
