/* SPDX-License-Identifier: MIT
 *
 * A wake-up word between threads of one process. A ring before the wait is not lost: read the word,
 * look for work, wait for the word to change.
 */
#ifndef EMQ_WORKER_WAKE_H
#define EMQ_WORKER_WAKE_H

#include "base/base.h"

#include <stdatomic.h>

struct emq__wake {
    atomic_int word;
};

static inline int emq__wake_read(struct emq__wake *k)
{
    return atomic_load(&k->word);
}
void emq__wake_ring(struct emq__wake *k); /* async-signal-safe */
/* Returns when the word is no longer `seen`, or after ms (>= 0; at most a minute), or early. */
void emq__wake_wait(struct emq__wake *k, int seen, int64_t ms);

#endif
