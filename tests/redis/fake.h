/* SPDX-License-Identifier: MIT
 *
 * A server that only answers: what it is told to.
 */
#ifndef EMQ_TESTS_REDIS_FAKE_H
#define EMQ_TESTS_REDIS_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

struct fake {
    const char *info;   /* to INFO: "" or lines */
    const char *answer; /* to a script: an error, "-ERR ..."; NULL: +OK, as to everything else */
    atomic_int asked;   /* how often for a script */
    int port;           /* of fake_start() */
    int listener;
    pthread_t thread;
};

/* The client has one connection at a time. */
void fake_start(struct fake *f);
/* The client has closed. */
void fake_end(struct fake *f);

#endif
