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
    int rc = SQLITE_OK, n = 0;

    if (sql.len > INT_MAX || memchr(sql.ptr, 0, sql.len)) {
        (void)snprintf(problem, cap, "it is no text: it has %s",
                       sql.len > INT_MAX ? "more than 2 GiB" : "a NUL byte");
        return SQLITE_ERROR;
    }
    /* SQLite copies the rest of a text that is not terminated for each of its statements. */
    char *text = malloc(sql.len + 1);
    if (!text) {
        (void)snprintf(problem, cap, "out of memory");
        return SQLITE_NOMEM;
    }
    if (sql.len)
        memcpy(text, sql.ptr, sql.len);
    text[sql.len] = 0;
    for (const char *at = text; rc == SQLITE_OK && *at;) {
        sqlite3_stmt *st = NULL;
        rc = sqlite3_prepare_v2(db, at, -1, &st, &at);
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
    free(text);
    *statements = n;
    return rc;
}
