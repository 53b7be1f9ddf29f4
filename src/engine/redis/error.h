/* SPDX-License-Identifier: MIT
 *
 * What the server's error replies mean.
 */
#ifndef EMQ_ENGINE_REDIS_ERROR_H
#define EMQ_ENGINE_REDIS_ERROR_H

#include "engine/redis/conn.h"

enum rd_verdict {
    RD_FINAL,     /* repeating does not help */
    RD_AGAIN,     /* not executed: wait and repeat */
    RD_RECONNECT, /* not executed: this server does not serve writers any more */
    RD_LOAD,      /* not executed: the script is unknown there */
    RD_MOVED,     /* not executed: the slot is at `addr`, for good */
    RD_ASK        /* ... this once */
};

struct rd_said {
    enum rd_verdict verdict;
    emq_status status;  /* when it is, or becomes, final */
    const char *advice; /* what it means or what to do; "" */
    /* the server's, without what it says about the script; may have a last word cut off */
    emq_str text;
    bool wrong_type; /* of a key, or of a number in it */
    bool key_denied; /* the user may not reach a key */
    bool out_of_memory;
    bool held;           /* `text` is the id of a job that belongs to another stage */
    struct rd_addr addr; /* MOVED, ASK; an empty host: the one that was asked */
};
void rd_error_read(emq_str reply, struct rd_said *out);
/* Writes the error. at: the server; act: what was asked for. */
emq_status rd_error_fail(const struct rd_said *said, const struct rd_addr *at, const char *act,
                         emq_error *err);

#endif
