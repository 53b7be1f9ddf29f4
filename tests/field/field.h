/* SPDX-License-Identifier: MIT
 *
 * Faults from the field: what these tests share. They run on the engine that EMQ_TEST_ENGINE names, SQLite
 * without it; some need what only an SQLite file has, or only a server.
 */
#ifndef EMQ_TESTS_FIELD_H
#define EMQ_TESTS_FIELD_H

#include "audit.h"
#include "engine/worker_fixture.h"

#define SQLITE_TEST(test_name) EMQ_TEST_ON("sqlite", test_name)

#endif
