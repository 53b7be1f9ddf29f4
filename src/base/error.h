/* SPDX-License-Identifier: MIT
 *
 * The only writer of emq_error. Returns the status, so that callers say `return emq__fail(...)`.
 */
#ifndef EMQ_BASE_ERROR_H
#define EMQ_BASE_ERROR_H

#include "base/base.h"

/* status is negative; native is errno or a store's code, 0 = none. err may be NULL. */
emq_status emq__fail(emq_error *err, emq_status status, int native, const char *where,
                     const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The class that follows from a status. */
emq_class emq__class_of(emq_status s);
/* For named outcomes: no detail is written. Documents that a positive status is meant. */
static inline bool emq__is_failure(emq_status s)
{
    return (int)s < 0;
}

#endif
