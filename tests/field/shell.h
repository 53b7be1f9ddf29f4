/* SPDX-License-Identifier: MIT
 *
 * Looks into a store as its shell would. url: "sqlite:PATH…", but where a server is named.
 */
#ifndef EMQ_TESTS_SHELL_H
#define EMQ_TESTS_SHELL_H

#include <stdbool.h>
#include <stdint.h>

bool field_is_file(const char *url);
/* Rows of all queues; keys, but those private ones that expire, when the URL is a server's. */
int64_t field_rows(const char *url);

/* Through a connection of its own. */
void field_sql(const char *url, const char *sql);
int64_t field_sql_i64(const char *url, const char *sql);
/* A connection that is kept open; sqlite3_close() ends it. */
struct sqlite3 *field_shell(const char *url);
/* Path of the database file of a URL; static text. */
const char *field_path(const char *url);
/* Takes away the side file with the bells, as a careless clean-up does: waiters of before are not told
 * any more. */
void field_lose_bells(const char *url);

#endif
