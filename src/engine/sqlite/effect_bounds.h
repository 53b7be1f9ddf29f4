/* SPDX-License-Identifier: MIT
 *
 * How large what an effect's SQL works on may be, for effect.c.
 */
#ifndef EMQ_ENGINE_SQLITE_EFFECT_BOUNDS_H
#define EMQ_ENGINE_SQLITE_EFFECT_BOUNDS_H

#include "engine/sqlite/sqlite.h"

/* Of a value, a row, the text of a statement: a job's data has a place in it. */
#define SQ_EFFECT_MIB_MAX 17
/* Bytes, of LIKE and GLOB. */
#define SQ_EFFECT_PATTERN_MAX 100

/* SQLite's own limits, as they were. */
struct sq_bounds {
    int length, sql_length, pattern;
};
struct sq_bounds sq_bounds_begin(sqlite3 *db);
void sq_bounds_end(sqlite3 *db, struct sq_bounds was);

/* The connection's last error, if it is one of a bound: what was asked for; else NULL. */
const char *sq_bounds_met(sqlite3 *db);

#endif
