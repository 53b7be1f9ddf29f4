/* SPDX-License-Identifier: MIT
 *
 * The sum rule, checked at the end of tests of faults: each job that was added is in exactly one place, or was
 * removed and counted.
 */
#ifndef EMQ_TESTS_AUDIT_H
#define EMQ_TESTS_AUDIT_H

#include "lib/test.h"

#include <echomq/echomq.h>

/* A quiet moment of a queue: added = waiting + delayed + prioritized + active + completed + failed +
 * removed; every listing agrees with its count; each id stands in one listing, once, and reads back
 * in the state of that listing; nothing is left of jobs that are gone. */
void field_audit(emq_client *c, const char *queue);
emq_queue_stats field_stats(emq_client *c, const char *queue);

#define FIELD_OK(call)                                                          \
    do {                                                                        \
        emq_error err_ = {0};                                                   \
        emq_error *err = &err_;                                                 \
        test_check_status((int)(call), EMQ_OK, #call, __FILE__, __LINE__, err); \
    } while (0)

#endif
