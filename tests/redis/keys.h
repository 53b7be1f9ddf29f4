/* SPDX-License-Identifier: MIT
 *
 * Tests that look at a server's keys, or make them as somebody else would.
 */
#ifndef EMQ_TESTS_REDIS_KEYS_H
#define EMQ_TESTS_REDIS_KEYS_H

#include "lib/engine_fixture.h"
#include "lib/server.h"

#define REDIS_TEST(test_name)            \
    static void test_name(struct fx *t); \
    FX_ON_SERVERS(test_name)             \
    static void test_name(struct fx *t)

static inline struct server *server(const struct fx *t)
{
    return server_of_program(t->kind == FX_VALKEY ? SERVER_VALKEY : SERVER_REDIS);
}

/* One command of somebody else. */
#define DO(...)             server_command(server(t), __VA_ARGS__)
#define CHECK_DO(text, ...) assert_string_equal(DO(__VA_ARGS__), text)
#define CHECK_NONE(key)     CHECK_DO("0", "EXISTS %s", key)

#endif
