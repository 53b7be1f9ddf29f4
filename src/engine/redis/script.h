/* SPDX-License-Identifier: MIT
 *
 * The request of a script under construction.
 */
#ifndef EMQ_ENGINE_REDIS_SCRIPT_H
#define EMQ_ENGINE_REDIS_SCRIPT_H

#include "engine/redis/error.h"
#include "engine/redis/ground.h"

struct rd_args {
    struct rd_engine *e;
    struct rd_op *op; /* NULL: not of an act */
    struct emq__arena *mem;
    enum rd_lua script;
    const char *what; /* the act, for messages */
    emq_str prefix, queue;
    struct rd_cmd cmd; /* the arguments behind the number of keys */
    int n_keys, link;
    uint16_t slot;
    bool failed; /* no memory */
    bool writes;
    bool looks; /* at the keys of a queue that the handle has not met */
    /* also when the server's memory is full: it frees some, or keeps what is there alive */
    bool goes_on;
    emq_status refused; /* not EMQ_OK: it can't be sent, and why */
    emq_error why;
};

/* X and a suffix; ptr is NULL without memory. */
emq_str rd_private_key(const struct rd_args *a, const char *suffix);

/* A final error reply to a script, with the key that has the wrong type named when that is it. */
emq_status rd_script_failed(const struct rd_args *a, const struct rd_said *said, size_t node,
                            emq_error *err);

/* What failed: an act on a queue. */
struct rd_about {
    struct rd_engine *e;
    emq_str prefix, queue;
    const char *what; /* the act, for messages */
    struct emq__arena *mem;
};
/* Names the key that has the wrong type, or that the user may not reach: true, and *s. Looks at the queue's
 * keys, and at those of what may be jobs among the words of `of`, NULL = no command. */
bool rd_explained(const struct rd_about *about, const struct rd_cmd *of, const struct rd_said *said,
                  emq_status *s, emq_error *err);

/* Before the first act of a handle on a queue: does one of its keys belong to something else? */
emq_status rd_queue_looked_at(struct rd_args *a, emq_error *err);

#endif
