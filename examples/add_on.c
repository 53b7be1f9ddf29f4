/* SPDX-License-Identifier: MIT
 *
 * An order and its job change together: both, or neither.  add_on FILE QUEUE CUSTOMER
 * The application's tables live in the file of the queue.
 *
 * It calls SQLite itself, so it names sqlite3 too:
 * cc add_on.c $(pkg-config --cflags --libs echomq sqlite3)
 */
#include <echomq/effect.h>
#include <sqlite3.h>
#include <stdio.h>

static emq_status order(emq_client *c, sqlite3 *db, emq_str queue, const char *customer,
                        emq_error *err)
{
    sqlite3_stmt *insert = NULL;
    emq_status s = EMQ_E_STORE;

    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return s;
    if (sqlite3_prepare_v2(db, "INSERT INTO orders(customer) VALUES (?)", -1, &insert, NULL) ==
            SQLITE_OK &&
        sqlite3_bind_text(insert, 1, customer, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(insert) == SQLITE_DONE)
        s = emq_add_on(c, db, queue, emq_cstr(customer), NULL, NULL, err);
    sqlite3_finalize(insert);
    if (s == EMQ_OK && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return emq_wake(c, queue, err); /* workers need not wait for their next look */
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return s == EMQ_OK ? EMQ_E_STORE : s;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_error err = {0};
    sqlite3 *db = NULL;
    char url[4200];

    if (argc != 4)
        return fprintf(stderr, "usage: add_on FILE QUEUE CUSTOMER\n"), 64;
    snprintf(url, sizeof url, "%s%s", argv[1][0] == '/' || argv[1][0] == '.' ? "" : "./", argv[1]);
    if (emq_open(&c, emq_cstr(url), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_status s = EMQ_E_STORE;
    if (sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
        sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS orders(customer TEXT)", NULL, NULL, NULL) ==
            SQLITE_OK)
        s = order(c, db, emq_cstr(argv[2]), argv[3], &err);
    if (s != EMQ_OK)
        fprintf(stderr, "%s: %s\n", emq_status_name(s),
                err.text[0] ? err.text : sqlite3_errmsg(db));
    sqlite3_close(db);
    emq_close(c);
    return s != EMQ_OK;
}
