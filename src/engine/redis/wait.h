/* SPDX-License-Identifier: MIT
 *
 * Waiting: what wait.c, ear.c (work) and stream.c (events) share.
 */
#ifndef EMQ_ENGINE_REDIS_WAIT_H
#define EMQ_ENGINE_REDIS_WAIT_H

#include "engine/redis/ground.h"

enum { RD_SLEEP_MAX_MS = 1000, RD_GRACE_MS = 1000, RD_WAIT_CONNECT_MS = 2000, RD_MOMENT_MS = 200 };

/* The place of one waiting call. Places are reused and freed only with the handle, so that an interrupt
 * can walk them from a signal handler. */
struct rd_place {
    struct rd_place *next;
    int fd; /* readable = look again */
    atomic_bool taken;
    struct rd_place *next_at_stream; /* the stream's */
};

struct rd_ear;
struct rd_stream;

struct rd_waits {
    struct rd_place *_Atomic places;
    pthread_mutex_t mu; /* guards the lists, and whose an ear is */
    struct rd_ear *ears;
    struct emq__mono reaped_at;
    struct rd_stream *streams;
};

/* One call of the seam. */
struct rd_waiting {
    struct rd_engine *e;
    const struct emq__wait_req *req;
    struct rd_place *place;
    struct emq__mono end;
};
/* EMQ_OK: look; EMQ_TIMEOUT, EMQ_CANCELLED; EMQ_EMPTY: go on waiting. */
emq_status rd_wait_look(const struct rd_waiting *w);
/* Someone wrote to the place: it is empty again. */
void rd_place_clear(struct rd_place *p);
void rd_place_poke(const struct rd_place *p);

/* A connection for waiting. */
emq_status rd_wait_connect(struct rd_engine *e, size_t node, emq_str name, struct rd_talk *t,
                           emq_error *err);
/* "P:<base64 of Q><tail>", as BullMQ names the connections of workers and listeners. */
void rd_wait_name(struct emq__buf *out, emq_str prefix, emq_str queue, const char *tail,
                  emq_str more);
/* The node that has this queue's keys. E_INVALID on a cluster without a hash tag. */
emq_status rd_wait_node(struct rd_engine *e, emq_str prefix, emq_str queue, size_t *out,
                        emq_error *err);
/* An error reply to a wait. What will pass ends it after a moment, EMQ_TIMEOUT: the caller looks. */
emq_status rd_wait_refused(const struct rd_waiting *w, size_t node, const struct rd_reply *r,
                           emq_error *err);

/* ear.c: work in one of the queues. */
emq_status rd_ear_wait(struct rd_waiting *w, emq_error *err);
void rd_ears_free(struct rd_engine *e);
/* stream.c: events of one queue. */
emq_status rd_stream_wait(struct rd_waiting *w, emq_str queue, emq_error *err);
void rd_streams_free(struct rd_engine *e, bool forked);

#endif
