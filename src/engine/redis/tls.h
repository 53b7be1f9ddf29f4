/* SPDX-License-Identifier: MIT
 *
 * TLS over a socket of conn.c. Calls on one rd_tls_end are the caller's to serialise.
 */
#ifndef EMQ_ENGINE_REDIS_TLS_H
#define EMQ_ENGINE_REDIS_TLS_H

#include "engine/redis/conn.h"

struct rd_tls_config {
    emq_str ca, cert, key; /* files; empty = the system's, none */
    bool insecure;         /* whoever answers is believed */
};
/* E_INVALID also when this build has no TLS. */
emq_status rd_tls_new(struct rd_tls **out, const struct rd_tls_config *cfg, emq_error *err);
void rd_tls_free(struct rd_tls *tls); /* NULL is allowed */

struct rd_tls_end;
/* host: whom the certificate must name. NULL: no memory. */
struct rd_tls_end *rd_tls_end_new(struct rd_tls *tls, int fd, const char *host);
void rd_tls_end_free(struct rd_tls_end *t);
/* Each may want the other direction first: *wants is then POLLIN or POLLOUT, on AGAIN. */
enum rd_io rd_tls_shake(struct rd_tls_end *t, short *wants, struct rd_why *why);
enum rd_io rd_tls_write(struct rd_tls_end *t, const struct iovec *iov, int n_iov, size_t *n,
                        short *wants, struct rd_why *why);
enum rd_io rd_tls_read(struct rd_tls_end *t, void *buf, size_t cap, size_t *n, short *wants,
                       struct rd_why *why);
/* Bytes that were received and not read yet? */
bool rd_tls_pending(const struct rd_tls_end *t);

#endif
