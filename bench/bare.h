/* SPDX-License-Identifier: MIT
 *
 * The reference: SQLite driven by a bare loop, with the engine's schema, settings and statements.
 * The one invariant: what a job costs here is what its statements cost; there are no threads, no
 * options, no errors to explain, no other processes to be fair to.
 */
#ifndef EMQ_BENCH_BARE_H
#define EMQ_BENCH_BARE_H

#include "bench.h"
#include "sql.h"

#include <sqlite3.h>

enum { BARE_BATCH_MAX = 1000, QUEUE_COLS = 28 };

struct bare_job {
    int64_t jid, fence, number;
    char id[24];
}; /* number: of its payload */

struct bare {
    sqlite3 *db;
    sqlite3_stmt *st[SQ_SQL_COUNT];
    sqlite3_stmt *begin, *commit;
    int64_t qid, boot, seq;
    int64_t col[QUEUE_COLS]; /* the queue's row during a transaction */
    char session[24], worker[32];
    char *opts; /* the text that emq_add() stores */
    int opts_len;
    int64_t delay_ms;
    bool keep_all;
    struct bare_job hand[BARE_BATCH_MAX]; /* taken, not settled */
    int n_hand;
    int64_t now_ms;
    char *events;
    size_t events_len, events_cap;
    int n_events;
};

void bare_open(struct bare *b, const struct plan *p, int index);
void bare_close(struct bare *b);
void bare_add(struct bare *b, const char *const *data, int n);
/* Settles what is in hand and takes n more in one transaction; returns how many it got. */
int bare_turn(struct bare *b, int n);
/* Reads the queue's row, as an idle look does. */
void bare_look(struct bare *b);

#endif
