/* SPDX-License-Identifier: MIT
 *
 * effect.h - where a job and the application's own data change together.
 *
 * The only header in which a native handle of a store appears. A program that calls SQLite itself is
 * linked with it: pkg-config --cflags --libs echomq sqlite3.
 */
#ifndef ECHOMQ_EFFECT_H
#define ECHOMQ_EFFECT_H

#include <echomq/echomq.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* Adds a job inside the application's own open transaction on the file of the queue: commit or
 * rollback decides both.
 *
 * db      a connection of the application to the same file that `c` has open, inside a transaction
 *         (BEGIN IMMEDIATE is advised), using the same libsqlite3 as this library. Not closed here;
 *         the caller's statements, hooks and transaction are left as they are.
 *
 * Outcomes as of emq_add(). E_INVALID: no open transaction, another file, another libsqlite3, or
 * `c` is not an SQLite store. After the commit, emq_wake() wakes idle workers at once; without it
 * they look within a second. The thread that owns `db`. One savepoint, no fsync of its own.
 */
ECHOMQ_API ECHOMQ_MUST_CHECK emq_status emq_add_on(emq_client *c, struct sqlite3 *db, emq_str queue,
                                                   emq_str data, const emq_add_opts *opts,
                                                   emq_added *out, emq_error *err);

/* The libsqlite3 that this library uses, as its sqlite3_sourceid() says: a `db` of another copy in the
 * same process is refused. A constant; any thread. */
ECHOMQ_API const char *emq_sqlite_source_id(void);

#ifdef __cplusplus
}
#endif
#endif
