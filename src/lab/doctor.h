/* SPDX-License-Identifier: MIT
 *
 * What a store can lose, in plain words, and what should be changed about it. From the facts that the engine tells
 * and what this machine shows.
 */
#ifndef EMQ_LAB_DOCTOR_H
#define EMQ_LAB_DOCTOR_H

#include "client/client.h"

/* What may die; the names are of emq__loss_name(). */
enum emq__loss {
    EMQ__LOSS_PROCESS,
    EMQ__LOSS_MACHINE,
    EMQ__LOSS_SERVER,
    EMQ__LOSS_LINK,
    EMQ__LOSSES
};
const char *emq__loss_name(enum emq__loss loss);

enum { EMQ__ADVICE_MAX = 32 };
struct emq__doctor {
    struct emq__fact *facts;
    size_t n_facts;
    const char *losses[EMQ__LOSSES]; /* what is lost when that dies */
    emq_str advice[EMQ__ADVICE_MAX]; /* what is not as it should be, and what to do */
    size_t n_advice;
};
/* Looks at some thousand events of each queue for clocks that differ. */
emq_status emq__doctor(emq_client *c, struct emq__arena *mem, struct emq__doctor *out,
                       emq_error *err);

/* The fact of this name; empty = not known. */
emq_str emq__fact_of(const struct emq__doctor *d, const char *name);
void emq__advise(struct emq__doctor *d, struct emq__arena *mem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* doctor_files.c: processes that have the file open by a SQLite that knows nothing of our side file. */
void emq__doctor_foreign(struct emq__doctor *d, const char *path, struct emq__arena *mem);
/* doctor_clocks.c: producers whose clocks differ from the store's. */
emq_status emq__doctor_clocks(emq_client *c, struct emq__doctor *d, struct emq__arena *mem,
                              emq_error *err);

#endif
