/* SPDX-License-Identifier: MIT
 *
 * The effect of a job in the lab: something that can be counted afterwards, kept where a kill can't undo it. In the
 * folder of the cell, but for a counter on the queue's server and the payments. Each has a file of its own.
 *
 * What goes wrong is EMQ_E_SYSTEM with its reason, and means that the cell was not measured.
 */
#ifndef EMQ_LAB_LEDGER_H
#define EMQ_LAB_LEDGER_H

#include "lab/lab.h"
#include "lab/proc.h"

struct lab_ledger {
    const char *dir;
    const char *pay; /* the socket of the payment server */
    const char *prefix, *queue;
    emq_client *c;    /* transactional */
    const char *file; /* of the store; NULL: it is a server */
};

/* Makes the effect, of any strength but transactional. Returns when it would survive a kill. */
emq_status lab_effect_make(const struct lab_ledger *l, int effect, emq_str key, emq_error *err);
/* Makes it in the store, and completes the job with it; as of emq_effect_sqlite(). */
emq_status lab_effect_commit(const struct lab_ledger *l, emq_job *job, emq_error *err);
/* The text of it, for descriptor 3 of a program; malloc'ed; NULL: no memory. */
char *lab_effect_text(const struct lab_ledger *l);
/* How often it happened. The transactional one in a file: no client of this process has it open. */
emq_status lab_effect_count(const struct lab_ledger *l, int effect, int64_t *out, emq_error *err);

/* What is prepared before anything runs: tables. */
emq_status lab_ledger_open(const struct lab_ledger *l, int effect, emq_error *err);

/* ledger_sqlite.c: a table of effects in the queue's file; an inbox in another one. */
enum { LAB_SQL_MAX = 100 };
extern const char lab_row_sql[];
emq_status lab_row_open(const char *file, emq_error *err);
emq_status lab_row_commit(emq_client *c, emq_job *job, emq_error *err);
emq_status lab_row_count(const char *file, int64_t *out, emq_error *err);
emq_status lab_inbox_open(const char *dir, emq_error *err);
emq_status lab_inbox_make(const char *dir, emq_str key, emq_error *err);
emq_status lab_inbox_count(const char *dir, int64_t *out, emq_error *err);

/* ledger_redis.c: a counter. */
void lab_counter_name(const struct lab_ledger *l, char out[LAB_PATH_MAX]);
emq_status lab_counter_commit(const struct lab_ledger *l, emq_job *job, emq_error *err);
emq_status lab_counter_count(const struct lab_ledger *l, int64_t *out, emq_error *err);

/* pay.c: the server, a process of its own, and its customers. A line a request: "charge ACCOUNT KEY" is answered
 * "receipt N", the same one for the same key; "count ACCOUNT" by how often money moved. */
int lab_pay_serve(const char *socket); /* never returns but for a failure: errno */
emq_status lab_pay_charge(const char *socket, const char *account, emq_str key, emq_error *err);
emq_status lab_pay_count(const char *socket, const char *account, int64_t *out, emq_error *err);

#endif
