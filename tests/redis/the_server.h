/* SPDX-License-Identifier: MIT
 *
 * All servers of a run are of one kind: Redis, or Valkey when EMQ_TEST_ENGINE says so.
 */
#ifndef EMQ_TESTS_REDIS_THE_SERVER_H
#define EMQ_TESTS_REDIS_THE_SERVER_H

#include "lib/server.h"

#include <stdlib.h>
#include <string.h>

static inline enum server_kind the_kind(void)
{
    const char *asked = getenv("EMQ_TEST_ENGINE");

    return asked && strcmp(asked, "valkey") == 0 ? SERVER_VALKEY : SERVER_REDIS;
}

static inline struct server *the_server(void)
{
    return server_of_program(the_kind());
}
/* One command of somebody else. */
#define SERVER_DO(...) server_command(the_server(), __VA_ARGS__)

#define START(...) server_start(&(struct server_opts){.kind = the_kind(), __VA_ARGS__})
static inline struct server *start_plain(void)
{
    return server_start(&(struct server_opts){.kind = the_kind()});
}

#endif
