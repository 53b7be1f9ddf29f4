/* SPDX-License-Identifier: MIT
 *
 * A command as the pieces in which it is sent. Short strings are copied into buffers, long ones are
 * sent from where they are.
 */
#ifndef EMQ_ENGINE_REDIS_REQUEST_H
#define EMQ_ENGINE_REDIS_REQUEST_H

#include "base/arena.h"

#include <sys/uio.h>

struct rd_cmd {
    struct emq__arena *mem;
    struct iovec *iov; /* the first is the head, which is made at the end */
    int n_iov, cap_iov;
    char *buf; /* the open buffer: the end of the last piece */
    size_t room;
    size_t argc, bytes;
    bool failed; /* no memory */
};

void rd_cmd_init(struct rd_cmd *c, struct emq__arena *mem);
void rd_cmd_arg(struct rd_cmd *c, emq_str s); /* borrowed until it was sent */
void rd_cmd_text(struct rd_cmd *c, const char *s);
void rd_cmd_i64(struct rd_cmd *c, int64_t v);
/* Makes the head. Arguments of `front` go before all others. */
void rd_cmd_end(struct rd_cmd *c, const emq_str *front, size_t n_front);
/* Its arguments of 1 to 255 bytes, as names are, behind the first `from`, at most cap: how many. They lie in the
 * command's memory. */
size_t rd_cmd_words(const struct rd_cmd *c, size_t from, emq_str *out, size_t cap);

#endif
