/* SPDX-License-Identifier: MIT */
#include "shell.h"

#include "audit.h"
#ifdef EMQ_HAVE_REDIS
#include "redis/the_server.h"
#endif

#include <sqlite3.h>
#include <unistd.h>

enum { BUSY_MS = 30000 };

const char *field_path(const char *url)
{
    static char path[600];

    CHECK(strncmp(url, "sqlite:", 7) == 0);
    (void)snprintf(path, sizeof path, "%s", url + 7);
    path[strcspn(path, "?")] = '\0';
    return path;
}

struct sqlite3 *field_shell(const char *url)
{
    sqlite3 *db = NULL;

    CHECK_INT(sqlite3_open_v2(field_path(url), &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, BUSY_MS), SQLITE_OK);
    return db;
}

void field_sql(const char *url, const char *sql)
{
    sqlite3 *db = field_shell(url);
    char *text = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        fail_msg("%s: %s", sql, text ? text : "no text");
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

int64_t field_sql_i64(const char *url, const char *sql)
{
    sqlite3 *db = field_shell(url);
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    return n;
}

void field_lose_bells(const char *url)
{
    char path[700];

    (void)snprintf(path, sizeof path, "%s-emq", field_path(url));
    CHECK_INT(unlink(path), 0);
}

bool field_is_file(const char *url)
{
    return strncmp(url, "sqlite:", 7) == 0;
}

int64_t field_rows(const char *url)
{
#ifdef EMQ_HAVE_REDIS
    static const char count[] = "redis.call('SELECT', ARGV[1]) local n = 0 for _, key in "
                                "ipairs(redis.call('KEYS', '*')) do "
                                "if not key:find('::emq:', 1, true) or redis.call('PTTL', key) < 0 "
                                "then n = n + 1 end end return n";
    if (!field_is_file(url))
        return server_number(
            server_command(the_server(), "EVAL %s 0 %s", count, strrchr(url, '/') + 1));
#endif
    return field_sql_i64(url,
                         "SELECT (SELECT count(*) FROM emq_job) + (SELECT count(*) FROM emq_queue) "
                         "+ (SELECT count(*) FROM emq_meta) + (SELECT count(*) FROM emq_event) + "
                         "(SELECT count(*) FROM emq_dedup) + (SELECT count(*) FROM emq_log) + "
                         "(SELECT count(*) FROM emq_history)");
}
