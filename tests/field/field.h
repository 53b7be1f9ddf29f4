/* SPDX-License-Identifier: MIT
 *
 * Faults from the field: what these tests share. field_audit() is the sum rule, checked at the end of
 * every one of them: each job that was added is in exactly one place, or was removed and counted.
 */
#ifndef EMQ_TESTS_FIELD_H
#define EMQ_TESTS_FIELD_H

#include "engine/worker_fixture.h"

/* A quiet moment of a queue: added = waiting + delayed + prioritized + active + completed + failed +
 * removed; every listing agrees with its count; each id stands in one listing, once, and reads back
 * in the state of that listing; nothing is left of jobs that are gone. */
void field_audit(emq_client *c, const char *queue);
emq_queue_stats field_stats(emq_client *c, const char *queue);

/* Looks into the file as the sqlite3 shell would, through a connection of its own. url: "sqlite:PATH…" */
void field_sql(const char *url, const char *sql);
int64_t field_sql_i64(const char *url, const char *sql);
/* A connection that is kept open; sqlite3_close() ends it. */
struct sqlite3 *field_shell(const char *url);
/* Path of the database file of a URL; static text. */
const char *field_path(const char *url);
/* Takes away the side file with the bells, as a careless clean-up does: waiters of before are not told
 * any more. */
void field_lose_bells(const char *url);

#define FIELD_OK(call)                                                          \
    do {                                                                        \
        emq_error err_ = {0};                                                   \
        emq_error *err = &err_;                                                 \
        test_check_status((int)(call), EMQ_OK, #call, __FILE__, __LINE__, err); \
    } while (0)

#endif
