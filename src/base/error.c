/* SPDX-License-Identifier: MIT
 *
 * Statuses and the one writer of emq_error: a failure is described where it is first seen, and a
 * breakpoint on emq__fail() sees every one of them.
 */
#include "base/error.h"

#include "base/secret.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

#ifndef EMQ_VERSION
#error "EMQ_VERSION comes from the build file"
#endif

const char *emq_version(void)
{
    return EMQ_VERSION;
}

const char *emq_status_text(emq_status s)
{
    switch (s) {
#define STATUS_CASE(name, number, text) \
    case EMQ_##name: return text;
        EMQ_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

const char *emq_status_name(emq_status s)
{
    switch (s) {
#define STATUS_CASE(name, number, text) \
    case EMQ_##name: return #name;
        EMQ_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "UNKNOWN";
}

emq_class emq__class_of(emq_status s)
{
    switch (s) {
    case EMQ_OK:
    case EMQ_EMPTY:
    case EMQ_DUPLICATE:
    case EMQ_DEDUPLICATED:
    case EMQ_LOST:
    case EMQ_NOT_FOUND:
    case EMQ_WRONG_STATE:
    case EMQ_TIMEOUT:
    case EMQ_CANCELLED:
    case EMQ_FAILED:
    case EMQ_LOCKED:
    case EMQ_CONFLICT:
    case EMQ_PARKED:
    case EMQ_EFFECT_DONE:
    case EMQ_PENDING_CHILDREN:
    case EMQ_FAILED_CHILD:
    case EMQ_NEXT_RUN:
    case EMQ_CHILD_LOCKED: return EMQ_CLASS_NONE;
    case EMQ_E_UNAVAIL:
    case EMQ_E_BUSY:
    case EMQ_E_NOMEM:
    case EMQ_E_SYSTEM:
    case EMQ_E_FULL: /* the act was undone; it works again once there is room */
        return EMQ_CLASS_RETRY_SAFE;
    case EMQ_E_IN_DOUBT: return EMQ_CLASS_RETRY_DUPLICATE;
    case EMQ_E_STORE:
    case EMQ_E_VERSION:
    case EMQ_E_CORRUPT:
    case EMQ_E_REFUSED: return EMQ_CLASS_FATAL;
    case EMQ_E_INVALID:
    case EMQ_E_FORKED:
    case EMQ_E_CLOSED: return EMQ_CLASS_CALLER;
    }
    return EMQ_CLASS_FATAL; /* a status of a newer version: do not loop on what is not understood */
}

/* Room for the text before it is cleaned: longer details are of no use to a reader. */
enum { TEXT_RAW_MAX = 1024 };

emq_status emq__fail(emq_error *err, emq_status status, int native, const char *where,
                     const char *fmt, ...)
{
    char raw[TEXT_RAW_MAX];
    va_list args;
    int n;

    EMQ_ASSERT(emq__is_failure(status));
    if (!err)
        return status;

    va_start(args, fmt);
    n = vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    if (n < 0)
        n = snprintf(raw, sizeof raw, "%s", fmt);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof raw)
        len = sizeof raw - 1;
    (void)emq__hide_secrets(raw, len);

    *err = (emq_error){.status = status, .cls = (int32_t)emq__class_of(status), .native = native};
    (void)snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    /* emq__text_clean() adds its mark and a NUL behind the limit. */
    emq__text_clean(emq_strn(raw, len), sizeof err->text - 8, err->text);
    return status;
}
