/* SPDX-License-Identifier: MIT
 *
 * Bells: words that change when a queue may have got work, in memory shared by all processes that
 * have the file open. They hold no truth: a lost ring costs at most a second, never a job.
 */
#ifndef EMQ_ENGINE_SQLITE_BELL_H
#define EMQ_ENGINE_SQLITE_BELL_H

#include "engine/sqlite/side.h"
#include "engine/sqlite/sqlite.h"

#include <pthread.h>
#include <stdatomic.h>

/* The bells that one transaction rings after its commit. */
struct sq_rings {
    uint64_t one[SQ_BELLS / 64]; /* wake one waiter */
    uint64_t all[SQ_BELLS / 64]; /* wake every waiter */
    bool any;
};

struct sq_bell {
    _Atomic uint32_t *words; /* SQ_BELLS of them */
    void *map;               /* the side file; NULL = the words are of this process only */
    bool poll; /* other processes write, but can't ring here: look at the file itself */
    _Atomic uint32_t foreign; /* poll: grows when the file was changed by another process */
    _Atomic uint32_t interrupts;
    pthread_mutex_t mu;  /* guards look, seen */
    struct sq_conn look; /* poll: a connection that never writes */
    int64_t seen;        /* its last data_version */
};

/* Opens or makes the side file. Where shared memory does not work, bells of this process only; waits
 * then also look at the file. */
emq_status sq_bell_open(struct sq *s, emq_error *err);
/* forked: only memory of this process is given back. */
void sq_bell_close(struct sq_bell *b, bool forked);
void sq_bell_ring(struct sq *s, const struct sq_rings *r);

uint64_t sq_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n);
void sq_interrupt(struct emq__engine *e);

/* Sleeps while *word == value; until_us: CLOCK_MONOTONIC, 0 = no end. Spurious returns are allowed. */
void sq_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us, bool shared);
void sq_futex_wake(_Atomic uint32_t *word, int n, bool shared);
int64_t sq_monotonic_us(void);

#endif
