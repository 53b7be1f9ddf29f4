/* SPDX-License-Identifier: MIT
 *
 * See effect_text.h.
 */
#include "engine/sqlite/effect_text.h"

#include <limits.h>
#include <sqlite3.h>

int emq__sqlite_run_text(struct sqlite3 *db, emq_str sql, int *statements, char *problem,
                         size_t cap)
{
    const char *at = sql.ptr, *end = sql.ptr + sql.len;
    int rc = SQLITE_OK, n = 0;

    if (sql.len > INT_MAX || memchr(sql.ptr, 0, sql.len)) {
        (void)snprintf(problem, cap, "it is no text: it has %s",
                       sql.len > INT_MAX ? "more than 2 GiB" : "a NUL byte");
        return SQLITE_ERROR;
    }
    while (rc == SQLITE_OK && at < end) {
        sqlite3_stmt *st = NULL;
        rc = sqlite3_prepare_v2(db, at, (int)(end - at), &st, &at);
        n += st || rc != SQLITE_OK ? 1 : 0;
        if (rc == SQLITE_OK && !st)
            continue; /* white space, a comment */
        if (rc == SQLITE_OK) {
            while ((rc = sqlite3_step(st)) == SQLITE_ROW)
                continue;
            rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
        }
        if (rc != SQLITE_OK)
            (void)snprintf(problem, cap, "statement %d: %s", n, sqlite3_errmsg(db));
        (void)sqlite3_finalize(st);
    }
    *statements = n;
    return rc;
}
