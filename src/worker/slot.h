/* SPDX-License-Identifier: MIT
 *
 * One job in hand: from the take until its settlement is known. What runs a job (a C handler, a child
 * process) sees only this: the job, its place, and whether it should stop.
 *
 * The invariant: emq__slot_cancelled() is decided by clocks and flags alone. It never waits for a
 * thread or the store, so a frozen store can't keep a handler believing in a lock that has ended.
 */
#ifndef EMQ_WORKER_SLOT_H
#define EMQ_WORKER_SLOT_H

#include "base/clock.h"
#include "client/client.h"

struct emq__slot;

/* The job that is lent to the handler. All public emq_job_* functions work on it from the slot's
 * thread (and from a helper thread while the slot's thread waits for it). */
emq_job *emq__slot_job(struct emq__slot *s);
/* The thread that runs it: 0..concurrency-1. One job at a time has an index. */
int emq__slot_index(const struct emq__slot *s);
/* An emq_cancel_reason, now. The first reason sticks. Any thread, no store, no lock. */
int emq__slot_cancelled(struct emq__slot *s);
/* Milliseconds (>= 0, rounded up) until the clock alone may change emq__slot_cancelled(): run limit,
 * safe point of the lock, end of the grace period. INT64_MAX = never. May move: see the fd. */
int64_t emq__slot_next_look_ms(struct emq__slot *s);
/* Becomes readable (eventfd: read 8 bytes) when a flag or a deadline has changed; -1 for C handlers. */
int emq__slot_fd(const struct emq__slot *s);
/* Until when this process may act as the owner: the lock's end by the moment its last renewal was
 * sent, minus a margin in which children must be dead. Moves forward with each renewal. */
struct emq__mono emq__slot_safe_until(const struct emq__slot *s);
/* When the run limit ends, as store time in Unix ms for EMQ_DEADLINE_AT_MS; 0 = no limit. */
int64_t emq__slot_deadline_at_ms(const struct emq__slot *s);

#endif
