/* SPDX-License-Identifier: MIT
 *
 * What the acts `suspects` and `mend` share. Keys: "job <jid>", "counter <column>", "dedup <id>",
 * "stage <sid>", "hidden", "setting <field>", "effect <time> <step> <job>"; of no queue: "<table> <number>", "old <sid>",
 * "trigger <name>", "schema <name>", "file".
 */
#ifndef EMQ_ENGINE_SQLITE_FSCK_H
#define EMQ_ENGINE_SQLITE_FSCK_H

#include "engine/sqlite/admin.h"

/* A stage that nobody has published or touched for so long should be gone: it ends after an hour. */
enum { SQ_STAGE_OLD_MS = 2 * 3600 * 1000 };
/* What a flaw means, and what repairs it; remedy NULL: nothing does. */
struct sq_flaw {
    const char *name, *text, *remedy;
};
const struct sq_flaw *sq_flaw_of(emq_str name); /* NULL: no such */

/* The statement that finds the flaws of jobs, bound to those from..to: jid, id, flaw. */
emq_status sq_fsck_jobs(struct sq_tx *tx, int64_t qid, int64_t from, int64_t to, sqlite3_stmt **st,
                        emq_error *err);

/* Indexes and views that the file should have: what made them, in mem. */
enum { SQ_MISSING_MAX = 32 };
struct sq_missing {
    emq_str name, sql;
};
emq_status sq_fsck_missing(struct sq_tx *tx, struct emq__arena *mem,
                           struct sq_missing out[SQ_MISSING_MAX], size_t *n, emq_error *err);

#endif
