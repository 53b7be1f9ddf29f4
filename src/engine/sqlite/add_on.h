/* SPDX-License-Identifier: MIT
 *
 * What this engine shows of its store, for echomq/effect.h; it can be declared without the store's
 * headers.
 */
#ifndef EMQ_ENGINE_SQLITE_ADD_ON_H
#define EMQ_ENGINE_SQLITE_ADD_ON_H

#include "engine/engine.h"

struct sqlite3;

/* The add act on a connection of the application, inside its open transaction. `e` is the engine
 * itself, without decorators. */
emq_status emq__sqlite_add_on(struct emq__engine *e, struct sqlite3 *db,
                              const struct emq__add_req *req, struct emq__add_res *res,
                              struct emq__arena *mem, emq_error *err);

const char *emq__sqlite_source_id(void);

#endif
