/* SPDX-License-Identifier: MIT
 *
 * See effect_bounds.h.
 *
 * SQLite asks whether it shall go on between the instructions of a statement, and a call of a function is one. So
 * the sizes of what it is called with are bounded, and with them its time.
 */
#include "engine/sqlite/effect_bounds.h"

#include "engine/sqlite/ground.h"

struct sq_bounds sq_bounds_begin(sqlite3 *db)
{
    enum { BYTES_MAX = SQ_EFFECT_MIB_MAX * 1024 * 1024 };

    return (struct sq_bounds){
        .length = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, BYTES_MAX),
        .sql_length = sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, BYTES_MAX),
        .pattern = sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, SQ_EFFECT_PATTERN_MAX)};
}

void sq_bounds_end(sqlite3 *db, struct sq_bounds was)
{
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, was.length);
    (void)sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, was.sql_length);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, was.pattern);
}

const char *sq_bounds_met(sqlite3 *db)
{
    if ((sqlite3_errcode(db) & 0xff) == SQLITE_TOOBIG)
        return "a value, a row or a statement of more than " SQ_STRING(SQ_EFFECT_MIB_MAX) " MiB";
    if (strcmp(sqlite3_errmsg(db), "LIKE or GLOB pattern too complex") == 0)
        return "LIKE or GLOB with a pattern of more than " SQ_STRING(
            SQ_EFFECT_PATTERN_MAX) " bytes";
    return NULL;
}
