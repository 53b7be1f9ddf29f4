/* SPDX-License-Identifier: MIT
 *
 * Tests with several servers: a primary with its replica and a sentinel, and a thread that adds while
 * something happens to them.
 */
#ifndef EMQ_TESTS_REDIS_NODES_H
#define EMQ_TESTS_REDIS_NODES_H

#include "redis/ground.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LONG_MS = 30000 };

void nap_ms(int64_t ms);
/* Until a replica has all that its primary has written. */
void until_replicated(struct server *primary);

struct adder {
    pthread_t thread;
    struct add a;
    int64_t added, doubts;
    atomic_bool stop;
    atomic_llong so_far;
    emq_status failed;
};

void adder_begin(struct adder *d, struct emq__engine *e, const char *queue);
/* Until it has added so many more. */
void adder_goes_on(struct adder *d, int64_t n);
void adder_end(struct adder *d);

struct watched {
    struct server *primary, *replica, *sentinel;
    char url[200];
};

/* params: of the URL, "" or "?name=value". */
struct watched start_watched(const char *params);
void until_primary(const struct watched *w, const struct server *s);
/* The primary dies, the replica takes over, and who was the primary is its replica. */
void fail_over(struct watched *w);
void end_watched(struct watched *w);

#endif
