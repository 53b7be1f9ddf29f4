/* SPDX-License-Identifier: MIT
 *
 * The statements of an inbox: a table beside the effect, in the effect's own transaction. The claim is the
 * insertion itself, never a look before it.
 */
#include <echomq/effect.h>

#include <stddef.h>

const char *emq_inbox_sql(int dialect, int statement)
{
    static const char *const sqlite[] = {
        [EMQ_INBOX_CREATE] =
            "CREATE TABLE IF NOT EXISTS emq_inbox (key TEXT PRIMARY KEY, at INTEGER "
            "NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)))",
        [EMQ_INBOX_CLAIM] = "INSERT INTO emq_inbox (key) VALUES (?1) ON CONFLICT (key) DO NOTHING",
        [EMQ_INBOX_TRIM] =
            "DELETE FROM emq_inbox WHERE at < CAST(strftime('%s', 'now') AS INTEGER) - ?1",
    };
    static const char *const postgresql[] = {
        [EMQ_INBOX_CREATE] = "CREATE TABLE IF NOT EXISTS emq_inbox (key text PRIMARY KEY, at "
                             "timestamptz NOT NULL DEFAULT now())",
        [EMQ_INBOX_CLAIM] = "INSERT INTO emq_inbox (key) VALUES ($1) ON CONFLICT (key) DO NOTHING",
        [EMQ_INBOX_TRIM] = "DELETE FROM emq_inbox WHERE at < now() - make_interval(secs => $1)",
    };

    if (statement < EMQ_INBOX_CREATE || statement > EMQ_INBOX_TRIM)
        return NULL;
    switch (dialect) {
    case EMQ_SQL_SQLITE: return sqlite[statement];
    case EMQ_SQL_POSTGRESQL: return postgresql[statement];
    default: return NULL;
    }
}
