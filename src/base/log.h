/* SPDX-License-Identifier: MIT
 *
 * The log sink of a handle. The library never prints by itself. Bodies and secrets are never
 * logged.
 */
#ifndef EMQ_BASE_LOG_H
#define EMQ_BASE_LOG_H

#include "base/base.h"

struct emq__log {
    emq_log_fn fn; /* NULL = silent */
    void *user;
};

void emq__log_write(const struct emq__log *l, emq_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
