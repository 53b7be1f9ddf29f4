/* SPDX-License-Identifier: MIT
 *
 * emq_add_on(): a job inside the application's own transaction. There is no receipt: the commit is
 * the application's, and so is its doubt.
 */
#include <echomq/effect.h>

#include "base/error.h"
#include "base/str.h"
#include "client/client.h"
#include "client/opts_size.h"
#include "engine/sqlite/add_on.h"

const char *emq_sqlite_source_id(void)
{
    return emq__sqlite_source_id();
}

emq_status emq_add_on(emq_client *c, struct sqlite3 *db, emq_str queue, emq_str data,
                      const emq_add_opts *opts, emq_added *out, emq_error *err)
{
    static const char where[] = "emq_add_on";
    struct emq__arena mem = {0};
    struct emq__add_entry entry;
    const struct emq__add_entry *entries[] = {&entry};
    struct emq__add_res res;

    emq_status s = emq__client_check(c, where, err);
    if (s == EMQ_OK && !db)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "db is NULL");
    if (s == EMQ_OK && !emq__str_is(emq_cstr(c->base->ops->name), "sqlite"))
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "this client's store is \"%s\": only an SQLite store can join a transaction",
                      c->base->ops->name);
    if (s == EMQ_OK)
        s = emq__out_check(out, where, "emq_added", err);
    if (s == EMQ_OK)
        s = emq__add_entry_make(c, queue, data, opts, &mem, &entry, err);
    if (s == EMQ_OK) {
        struct emq__add_req req = {.entries = entries, .n = 1};
        s = emq__sqlite_add_on(c->base, db, &req, &res, &mem, err);
    }
    if (s == EMQ_OK) {
        emq__added_put(out, &res.added[0]);
        s = res.added[0].outcome;
    }
    emq__arena_free(&mem);
    return s;
}
