/* SPDX-License-Identifier: MIT
 *
 * The schema of the SQLite engine: versions, readability, and that no statement looks at more rows
 * than it needs.
 */
#include "base/str.h"
#include "engine/sqlite/sqlite.h"
#include "lib/test.h"

#include <sys/stat.h>
#include <unistd.h>

static char path[600];

static emq_status open_store(struct emq__engine **e, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__engine_config cfg = {.io_timeout_ms = 5000};

    snprintf(path, sizeof path, "%s/q.db", test_temp_dir());
    CHECK_STATUS(emq__url_parse(emq_cstr(path), &mem, &cfg.url, err), EMQ_OK);
    emq_status s = emq__sqlite_open(e, &cfg, &mem, err);
    emq__arena_free(&mem);
    return s;
}

static void close_store(struct emq__engine *e)
{
    e->ops->close(e);
}

static void shell(const char *sql)
{
    sqlite3 *db;
    char *text = NULL;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        fail_msg("%s: %s", sql, text);
    sqlite3_close(db);
}

/* The first column of the first row, as text. */
static void ask(const char *sql, char *out, size_t cap)
{
    sqlite3 *db;
    sqlite3_stmt *st;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    out[0] = 0;
    if (sqlite3_step(st) == SQLITE_ROW)
        snprintf(out, cap, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static emq_status add_job(struct emq__engine *e, const char *data, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__add_entry en = {.prefix = emq_cstr("emq"),
                                .queue = emq_cstr("q"),
                                .name = emq_cstr("n"),
                                .opts = emq_cstr("{}"),
                                .data = {EMQ__KIND_JSON, emq_cstr(data)}};
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1};
    struct emq__add_res res;
    emq_status s = e->ops->add(e, &req, &res, &mem, err);

    emq__arena_free(&mem);
    return s;
}

static size_t slurp(const char *file, char **out)
{
    FILE *f = fopen(file, "rb");
    struct stat st;

    CHECK(f != NULL);
    CHECK(fstat(fileno(f), &st) == 0);
    *out = malloc((size_t)st.st_size + 1);
    CHECK(*out != NULL);
    size_t n = fread(*out, 1, (size_t)st.st_size, f);
    fclose(f);
    return n;
}

EMQ_TEST(a_file_of_a_newer_version_is_refused_and_not_touched)
{
    struct emq__engine *e;
    emq_error err = {0};
    char *before, *after, version[20], side[620];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    close_store(e);
    /* A mode that the engine would change. */
    shell("UPDATE emq_schema SET version=2; PRAGMA wal_checkpoint(TRUNCATE); "
          "PRAGMA journal_mode=DELETE");
    snprintf(side, sizeof side, "%s-emq", path);
    CHECK_INT(unlink(side), 0);
    size_t n = slurp(path, &before);
    CHECK_STATUS(open_store(&e, &err), EMQ_E_VERSION);
    CHECK_INT(access(side, F_OK), -1);
    CHECK(strstr(err.text, "version 2") != NULL);
    CHECK_INT(slurp(path, &after), n);
    CHECK(memcmp(before, after, n) == 0);
    ask("SELECT version FROM emq_schema", version, sizeof version);
    CHECK_STR(emq_cstr(version), "2");
    free(before);
    free(after);
}

EMQ_TEST(a_file_in_another_journal_mode_is_opened_and_changed_to_the_log)
{
    struct emq__engine *e;
    emq_error err = {0};
    char mode[20];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(add_job(e, "1", &err), EMQ_OK, &err);
    close_store(e);
    shell("PRAGMA journal_mode=DELETE"); /* as a copy made with VACUUM INTO is */
    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(add_job(e, "2", &err), EMQ_OK, &err);
    close_store(e);
    ask("PRAGMA journal_mode", mode, sizeof mode);
    CHECK_STR(emq_cstr(mode), "wal");
}

EMQ_TEST(an_application_keeps_its_user_version_and_its_tables)
{
    struct emq__engine *e;
    emq_error err = {0};
    char text[20];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err); /* only for its path */
    close_store(e);
    (void)unlink(path);
    shell("PRAGMA user_version=99; PRAGMA application_id=7; CREATE TABLE mine(a); INSERT INTO mine "
          "VALUES (5)");
    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(add_job(e, "1", &err), EMQ_OK, &err);
    close_store(e);
    ask("PRAGMA user_version", text, sizeof text);
    CHECK_STR(emq_cstr(text), "99");
    ask("PRAGMA application_id", text, sizeof text);
    CHECK_STR(emq_cstr(text), "7");
    ask("SELECT a FROM mine", text, sizeof text);
    CHECK_STR(emq_cstr(text), "5");
}

EMQ_TEST(a_file_that_was_migrated_meanwhile_is_not_written)
{
    struct emq__engine *e;
    emq_error err = {0};
    char jobs[20];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(add_job(e, "1", &err), EMQ_OK, &err);
    shell("UPDATE emq_schema SET version=2");
    CHECK_STATUS(add_job(e, "2", &err), EMQ_E_VERSION);
    ask("SELECT count(*) FROM emq_job", jobs, sizeof jobs);
    CHECK_STR(emq_cstr(jobs), "1");
    close_store(e);
}

/* What opening says of a store after sql has damaged it. */
static void check_damaged(const char *sql, emq_status expected, const char *text)
{
    struct emq__engine *e;
    emq_error err = {0};
    char tables[20], now[20];
    static const char count[] = "SELECT count(*) FROM sqlite_schema";

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    close_store(e);
    shell(sql);
    ask(count, tables, sizeof tables);
    CHECK_STATUS(open_store(&e, &err), expected);
    if (!strstr(err.text, text) || !strstr(err.text, path))
        fail_msg("%s: %s", sql, err.text);
    ask(count, now, sizeof now);
    CHECK_STR(emq_cstr(now), tables);
    CHECK_INT(unlink(path), 0);
}

EMQ_TEST(a_store_without_its_schema_record_is_refused_and_not_made_anew)
{
    check_damaged("DROP TABLE emq_schema", EMQ_E_VERSION, "no schema record");
    check_damaged("DELETE FROM emq_schema", EMQ_E_VERSION, "no schema record");
    check_damaged("DROP TABLE emq_schema; DROP TABLE emq_boot; DROP TABLE emq_job", EMQ_E_VERSION,
                  "no schema record");
}

EMQ_TEST(a_store_without_one_of_its_tables_is_refused_as_damaged)
{
    check_damaged("DROP TABLE emq_job", EMQ_E_CORRUPT, "19 of the 20 tables");
    check_damaged("DROP TABLE emq_boot", EMQ_E_CORRUPT, "19 of the 20 tables");
}

EMQ_TEST(opening_twice_makes_the_schema_once)
{
    struct emq__engine *a, *b;
    emq_error err = {0};
    char text[20];

    CHECK_STATUS_ERR(open_store(&a, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(open_store(&b, &err), EMQ_OK, &err);
    ask("SELECT count(*) FROM emq_boot", text, sizeof text);
    CHECK_STR(emq_cstr(text), "1");
    close_store(a);
    close_store(b);
}

EMQ_TEST(the_shell_reads_jobs_by_name_of_state)
{
    struct emq__engine *e;
    emq_error err = {0};
    char text[2000], big[1500];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    memset(big, '7', sizeof big - 1);
    big[sizeof big - 1] = 0;
    CHECK_STATUS_ERR(add_job(e, big, &err), EMQ_OK, &err);
    ask("SELECT prefix || ' ' || queue || ' ' || id || ' ' || state || ' ' || data FROM emq_jobs",
        text, sizeof text);
    CHECK(memcmp(text, "emq q 1 waiting 777", 19) == 0);
    CHECK_INT(strlen(text), 16 + sizeof big - 1);
    close_store(e);
}

EMQ_TEST(every_table_is_strict_and_named_ours)
{
    struct emq__engine *e;
    emq_error err = {0};
    char text[200];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    ask("SELECT group_concat(name) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
        "AND name NOT LIKE 'sqlite_%' AND (NOT strict OR name NOT LIKE 'emq\\_%' ESCAPE '\\')",
        text, sizeof text);
    CHECK_STR(emq_cstr(text), "(null)");
    close_store(e);
}

/* Whole-store checks and small lists. */
static bool may_scan(const char *name)
{
    static const char *const list[] = {"schema_create", "schema_tables", "schema_ours",
                                       "schema_others", "stage_expired"};

    if (strncmp(name, "dump_", 5) == 0 || strncmp(name, "fsck_", 5) == 0)
        return true;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static int check_plan(sqlite3 *db, size_t i)
{
    char sql[8192];
    sqlite3_stmt *st;
    int bad = 0;

    snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", sq_sql_text[i]);
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sq_sql_name[i], sqlite3_errmsg(db));
    while (sqlite3_step(st) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(st, 3);
        bool scan = strncmp(detail, "SCAN ", 5) == 0 && strncmp(detail, "SCAN (", 6) != 0 &&
                    strncmp(detail, "SCAN CONSTANT", 13) != 0;
        if (!scan && !strstr(detail, "TEMP B-TREE"))
            continue;
        print_error("%s: %s\n", sq_sql_name[i], detail);
        bad++;
    }
    sqlite3_finalize(st);
    return bad;
}

EMQ_TEST(no_statement_scans_a_table_or_sorts)
{
    struct emq__engine *e;
    emq_error err = {0};
    sqlite3 *db;
    int bad = 0;

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    close_store(e);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < SQ_SQL_COUNT; i++)
        if (!may_scan(sq_sql_name[i]))
            bad += check_plan(db, i);
    sqlite3_close(db);
    CHECK_INT(bad, 0);
}

EMQ_TEST(the_columns_of_a_job_are_in_the_order_that_readers_count_on)
{
    struct emq__engine *e;
    emq_error err = {0};
    char text[1200];

    CHECK_STATUS_ERR(open_store(&e, &err), EMQ_OK, &err);
    close_store(e);
    ask("SELECT group_concat(name, ' ') FROM pragma_table_info('emq_job')", text, sizeof text);
    CHECK_STR(emq_cstr(text),
              "jid qid id state ord1 ord2 priority attempts_made attempts_started stalled fence "
              "lock_end lock_boot mode cancel logs side data_kind result_kind timestamp_at_ms "
              "delay_ms processed_at_ms finished_at_ms expires_at_ms worker name dedup_id deferred "
              "grp scheduler parent_key parent opts data result progress failed_reason stacktrace "
              "redo");
}
