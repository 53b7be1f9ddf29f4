/* SPDX-License-Identifier: MIT
 *
 * From bytes to replies, with hiredis' reader.
 */
#ifndef EMQ_ENGINE_REDIS_REPLY_H
#define EMQ_ENGINE_REDIS_REPLY_H

#include "engine/redis/redis.h"

struct rd_parser;
struct rd_parser *rd_parser_new(void); /* NULL: no memory */
void rd_parser_free(struct rd_parser *p);
/* Appends what has arrived; false: no memory. */
bool rd_parser_feed(struct rd_parser *p, const void *bytes, size_t n);

/* Has every byte that was fed become part of a reply that was given out? */
bool rd_parser_empty(const struct rd_parser *p);

/* MORE: the rest has not arrived. Of a reply that arrives in pieces every piece must be asked for with
 * the same arena. NOMEM: there was no memory for this reply; the next one follows. BROKEN: the parser, and
 * the connection, are of no more use. */
enum rd_parsed { RD_PARSED_REPLY, RD_PARSED_MORE, RD_PARSED_NOMEM, RD_PARSED_BROKEN };
enum rd_parsed rd_parser_next(struct rd_parser *p, struct emq__arena *mem,
                              const struct rd_reply **out);

/* "OK" and the like. */
bool rd_is(const struct rd_reply *r, const char *text);

#endif
