/* SPDX-License-Identifier: MIT
 *
 * Options as a caller gives them: every value is checked here, once, before anything is sent. What
 * passes can be stored and obeyed; nothing is silently clamped or ignored.
 */
#include "model/opts.h"

#include "base/error.h"
#include "base/json.h"
#include "model/check.h"
#include "model/duration.h"
#include "model/names.h"

#include <assert.h>

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "options", __VA_ARGS__)

/* The shortest struct that was ever published ends behind `group`. */
enum { ADD_OPTS_MIN = offsetof(emq_add_opts, delay_ms) };
/* No padding: a newer caller's garbage there would look like an unknown option. */
static_assert(sizeof(emq_add_opts) == offsetof(emq_add_opts, keep_logs) + sizeof(int32_t),
              "emq_add_opts ends in padding");
static_assert(offsetof(emq_add_opts, id) == sizeof(size_t) &&
                  offsetof(emq_add_opts, delay_ms) ==
                      offsetof(emq_add_opts, id) + 4 * sizeof(emq_str) &&
                  offsetof(emq_add_opts, backoff_type) == offsetof(emq_add_opts, delay_ms) +
                                                              6 * sizeof(int64_t) + sizeof(double) +
                                                              4 * sizeof(int64_t) &&
                  offsetof(emq_add_opts, keep_logs) ==
                      offsetof(emq_add_opts, backoff_type) + 5 * sizeof(int32_t),
              "emq_add_opts has padding inside");

/* The last instant that is accepted: the end of the year 9999. */
#define INSTANT_MAX_MS INT64_C(253402300799999)

static const struct emq__keep default_completed = {.count = 1000, .age_ms = 24 * 3600 * 1000};
static const struct emq__keep default_failed = {.count = 10000,
                                                .age_ms = INT64_C(30) * 24 * 3600 * 1000};

static emq_status check_span(const char *what, int64_t ms, emq_error *err)
{
    return emq__check_range(what, ms, 0, EMQ__SPAN_MAX_MS, " ms", err);
}

static emq_status read_names(const emq_add_opts *in, struct emq__opts *out, emq_str *id,
                             emq_str *name, emq_error *err)
{
    emq_status s = EMQ_OK;

    *id = in->id;
    *name = in->name.len ? in->name : EMQ_STR_LIT(EMQ__DEFAULT_NAME);
    out->group = in->group;
    out->dedup.id = in->dedup_id;
    if (in->id.len)
        s = emq__check_custom_id(in->id, err);
    if (s == EMQ_OK)
        s = emq__check_job_name(*name, err);
    if (s == EMQ_OK && in->group.len)
        s = emq__check_group(in->group, err);
    if (s == EMQ_OK && in->dedup_id.len)
        s = emq__check_dedup_id(in->dedup_id, err);
    return s;
}

static emq_status read_dedup(const emq_add_opts *in, struct emq__opts *out, emq_error *err)
{
    emq_status s = emq__check_range("dedup mode", in->dedup_mode, EMQ_DEDUP_SIMPLE,
                                    EMQ_DEDUP_KEEP_LAST, "", err);

    if (s == EMQ_OK)
        s = check_span("dedup ttl", in->dedup_ttl_ms, err);
    if (s != EMQ_OK)
        return s;
    if (!in->dedup_id.len && (in->dedup_mode || in->dedup_ttl_ms))
        return FAIL("a dedup mode or ttl is given without a dedup id");
    if (in->dedup_mode == EMQ_DEDUP_EXTEND && in->dedup_ttl_ms == 0)
        return FAIL("the dedup mode extend needs a ttl of 1..%lld ms: it is the window that is "
                    "extended",
                    (long long)EMQ__SPAN_MAX_MS);
    if (in->dedup_mode == EMQ_DEDUP_KEEP_LAST && in->dedup_ttl_ms != 0)
        return FAIL("dedup ttl %lld ms with the mode keep-last: that mode has no window, its id is "
                    "held until the job is finished",
                    (long long)in->dedup_ttl_ms);
    out->dedup.ttl_ms = in->dedup_ttl_ms;
    out->dedup.extend = in->dedup_mode == EMQ_DEDUP_EXTEND;
    out->dedup.replace = in->dedup_mode == EMQ_DEDUP_REPLACE;
    out->dedup.keep_last = in->dedup_mode == EMQ_DEDUP_KEEP_LAST;
    return EMQ_OK;
}

/* printf's %g would follow the program's locale. Returns out. */
static const char *jitter_text(double v, char out[32])
{
    struct emq__buf b;

    emq__buf_init(&b, 31);
    if (v != v)
        emq__buf_text(&b, "nan");
    else if (v - v != 0)
        emq__buf_text(&b, v > 0 ? "inf" : "-inf");
    else
        emq__json_double_out(&b, v);
    snprintf(out, 32, "%.*s", EMQ_STR_ARG(emq__buf_view(&b)));
    emq__buf_free(&b);
    return out;
}

static emq_status check_backoff_parts(const emq_add_opts *in, emq_error *err)
{
    char jitter[32];
    emq_status s = emq__check_range("backoff type", in->backoff_type, EMQ_BACKOFF_DEFAULT,
                                    EMQ_BACKOFF_EXPONENTIAL, "", err);

    if (s == EMQ_OK)
        s = check_span("backoff delay", in->backoff_ms, err);
    if (s == EMQ_OK)
        s = check_span("backoff max", in->backoff_max_ms, err);
    if (s != EMQ_OK)
        return s;
    if (!(in->backoff_jitter >= 0 && in->backoff_jitter <= 1)) /* NaN too */
        return FAIL("backoff jitter %s is outside 0..1", jitter_text(in->backoff_jitter, jitter));
    if (in->backoff_type == EMQ_BACKOFF_NONE &&
        (in->backoff_ms || in->backoff_max_ms || in->backoff_jitter > 0))
        return FAIL("backoff none takes no delay (%lld ms), max (%lld ms) or jitter (%s)",
                    (long long)in->backoff_ms, (long long)in->backoff_max_ms,
                    jitter_text(in->backoff_jitter, jitter));
    if (in->backoff_type == EMQ_BACKOFF_DEFAULT && in->backoff_jitter > 0)
        return FAIL("backoff jitter %s is given without a backoff type",
                    jitter_text(in->backoff_jitter, jitter));
    return EMQ_OK;
}

static emq_status read_backoff(const emq_add_opts *in, struct emq__backoff *out, emq_error *err)
{
    emq_status s = check_backoff_parts(in, err);

    if (s != EMQ_OK)
        return s;
    *out = (struct emq__backoff){.type = in->backoff_type};
    if (in->backoff_type == EMQ_BACKOFF_NONE)
        return EMQ_OK;
    out->delay_ms = in->backoff_ms ? in->backoff_ms : EMQ__DEFAULT_BACKOFF_MS;
    out->max_ms = in->backoff_max_ms;
    out->jitter = in->backoff_jitter;
    if (in->backoff_type == EMQ_BACKOFF_DEFAULT) {
        out->type = EMQ_BACKOFF_EXPONENTIAL;
        out->jitter = 0.25;
        if (out->max_ms == 0)
            out->max_ms = out->delay_ms > EMQ__DEFAULT_BACKOFF_MAX_MS ? out->delay_ms
                                                                      : EMQ__DEFAULT_BACKOFF_MAX_MS;
    }
    if (out->max_ms && out->max_ms < out->delay_ms)
        return FAIL("backoff max %lld ms is below its delay of %lld ms", (long long)out->max_ms,
                    (long long)out->delay_ms);
    return EMQ_OK;
}

static emq_status read_keep(const char *what, int64_t count, int64_t age_ms,
                            const struct emq__keep *standard, struct emq__keep *out, emq_error *err)
{
    emq_status s = check_span(what, age_ms, err);

    if (s != EMQ_OK)
        return s;
    if (count < EMQ_KEEP_ALL || count > INT64_C(9007199254740991))
        return FAIL("%s %lld is outside 1..9007199254740991, EMQ_KEEP_NONE (-1), EMQ_KEEP_ALL (-2)",
                    what, (long long)count);
    if (count == EMQ_KEEP_NONE && age_ms)
        return FAIL("%s: none is kept, so an age of %lld ms has no meaning", what,
                    (long long)age_ms);
    *out = (struct emq__keep){.count = count, .age_ms = age_ms};
    if (count == EMQ_KEEP_NONE)
        out->count = 0;
    else if (count == EMQ_KEEP_ALL)
        out->count = -1;
    else if (count == EMQ_KEEP_DEFAULT)
        *out = (struct emq__keep){standard->count, age_ms ? age_ms : standard->age_ms};
    return EMQ_OK;
}

static emq_status read_numbers(const emq_add_opts *in, struct emq__opts *out, emq_error *err)
{
    emq_status s = check_span("delay", in->delay_ms, err);

    if (s == EMQ_OK)
        s = check_span("timeout", in->timeout_ms, err);
    if (s == EMQ_OK)
        s = emq__check_range("timestamp", in->timestamp_at_ms, 0, INSTANT_MAX_MS, " ms", err);
    if (s == EMQ_OK)
        s = emq__check_range("priority", in->priority, 0, EMQ_PRIORITY_MAX, "", err);
    if (s == EMQ_OK)
        s = emq__check_range("attempts", in->attempts, 0, INT32_MAX, "", err);
    if (s == EMQ_OK)
        s = emq__check_range("lifo", in->lifo, 0, 1, "", err);
    if (s == EMQ_OK)
        s = emq__check_range("keep logs", in->keep_logs, 0, INT32_MAX, "", err);
    out->delay_ms = in->delay_ms;
    out->timeout_ms = in->timeout_ms;
    out->timestamp_at_ms = in->timestamp_at_ms;
    out->priority = in->priority;
    out->attempts = in->attempts ? in->attempts : EMQ__DEFAULT_ATTEMPTS;
    out->lifo = in->lifo != 0;
    out->keep_logs = in->keep_logs ? in->keep_logs : EMQ__DEFAULT_KEEP_LOGS;
    out->stack_limit = EMQ__DEFAULT_STACK_LIMIT;
    return s;
}

emq_status emq__opts_from_public(const emq_add_opts *in, struct emq__opts *out, emq_str *id,
                                 emq_str *name, emq_error *err)
{
    emq_add_opts own;
    struct emq__opts o = {0};
    emq_str own_id = {0}, own_name = {0};
    emq_status s = emq__sized_read(&own, sizeof own, ADD_OPTS_MIN, in, "emq_add_opts", err);

    if (s == EMQ_OK)
        s = read_names(&own, &o, &own_id, &own_name, err);
    if (s == EMQ_OK)
        s = read_numbers(&own, &o, err);
    if (s == EMQ_OK)
        s = read_dedup(&own, &o, err);
    if (s == EMQ_OK)
        s = read_backoff(&own, &o.backoff, err);
    if (s == EMQ_OK)
        s = read_keep("keep completed", own.keep_completed_count, own.keep_completed_ms,
                      &default_completed, &o.keep_completed, err);
    if (s == EMQ_OK)
        s = read_keep("keep failed", own.keep_failed_count, own.keep_failed_ms, &default_failed,
                      &o.keep_failed, err);
    if (s != EMQ_OK)
        return s;
    *out = o;
    *id = own_id;
    *name = own_name;
    return EMQ_OK;
}
