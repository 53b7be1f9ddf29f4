/* SPDX-License-Identifier: MIT
 *
 * Producers and workers that go on adding, running and settling while a test does harm. At the end the sum
 * holds: every job that was accepted ended completed, once, and was run; nothing failed.
 */
#ifndef EMQ_TESTS_REDIS_PLANT_H
#define EMQ_TESTS_REDIS_PLANT_H

#include "redis/ground.h"

#include <echomq/worker.h>
#include <pthread.h>
#include <stdatomic.h>

enum { PRODUCERS = 3, WORKERS = 2 };

struct plant {
    emq_client *c[PRODUCERS + WORKERS];
    emq_worker *w[WORKERS];
    pthread_t producers[PRODUCERS];
    atomic_bool stop, held;
    atomic_int holding;
    atomic_llong accepted, doubts, runs;
    uint64_t random;
};

/* `usual`, or what EMQ_FAULTS_MS says: how long the harm goes on. */
int64_t harm_ms(int64_t usual);
int64_t plant_random(struct plant *p, int64_t below);

void plant_start(struct plant *p, const char *url, int64_t timeout_ms);
/* Until so many more are accepted. */
void plant_goes_on(struct plant *p, int64_t n);
/* Nobody adds until the next call; returns when the acts under way have ended. */
void plant_hold(struct plant *p, bool hold);
/* Jobs that wait, are delayed or run. */
int64_t plant_left(struct plant *p);
/* Stops adding, lets the workers finish, and adds up. `lost`: how many of those that were accepted the store
 * itself may have lost; the number that it has lost. */
int64_t plant_end(struct plant *p, int64_t lost);

#endif
