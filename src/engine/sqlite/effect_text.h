/* SPDX-License-Identifier: MIT
 *
 * SQL text as an effect.
 */
#ifndef EMQ_ENGINE_SQLITE_EFFECT_TEXT_H
#define EMQ_ENGINE_SQLITE_EFFECT_TEXT_H

#include "base/base.h"

struct sqlite3;

/* Runs each statement of a text on a connection whose transaction is open, and counts them; rows are read and
 * dropped. 0, or SQLite's code with `problem` (cap bytes, one line) saying which statement failed and why. */
int emq__sqlite_run_text(struct sqlite3 *db, emq_str sql, int *statements, char *problem,
                         size_t cap);

#endif
