/* SPDX-License-Identifier: MIT
 *
 * One connection as a stream of bytes: TCP or a unix socket, with or without TLS. Never blocks but in
 * rd_conn_open() and rd_conn_wait(), which have deadlines. One thread may read while another writes.
 */
#ifndef EMQ_ENGINE_REDIS_CONN_H
#define EMQ_ENGINE_REDIS_CONN_H

#include "base/clock.h"

#include <poll.h>
#include <sys/uio.h>

enum { RD_HOST_MAX = 255 };

struct rd_addr {
    char host[RD_HOST_MAX + 1]; /* or the path of the socket */
    uint16_t port;              /* 0 = a unix socket */
};
enum { RD_ADDR_TEXT_MAX = RD_HOST_MAX + 10 };
/* "host:port", "[v6]:port" or the path. Returns out. */
const char *rd_addr_text(const struct rd_addr *a, char out[RD_ADDR_TEXT_MAX]);

/* Why something failed. */
struct rd_why {
    int native; /* errno */
    char text[160];
};
void rd_why_set(struct rd_why *why, int native, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct rd_conn;
struct rd_tls;

/* Connects, and with tls shakes hands, until `end`. NULL: *why says what failed. The server is probed
 * when it is silent; what it has not confirmed for io_timeout_ms ends the connection. */
struct rd_conn *rd_conn_open(const struct rd_addr *a, struct rd_tls *tls, int64_t io_timeout_ms,
                             struct emq__mono end, struct rd_why *why);
void rd_conn_close(struct rd_conn *c);
/* Both directions end; whoever waits for it wakes. What has arrived can still be read. */
void rd_conn_shutdown(struct rd_conn *c);

/* AGAIN: nothing moved; wait. END: the server closed it. */
enum rd_io { RD_IO_OK, RD_IO_AGAIN, RD_IO_END, RD_IO_FAILED };
/* *n counts bytes of the caller's that the kernel took; with TLS, those of complete records. */
enum rd_io rd_conn_write(struct rd_conn *c, const struct iovec *iov, int n_iov, size_t *n,
                         struct rd_why *why);
enum rd_io rd_conn_read(struct rd_conn *c, void *buf, size_t cap, size_t *n, struct rd_why *why);
/* Waits until one of the connections may be ready for `events` (POLLIN or POLLOUT) or wake_fd (-1 =
 * none) is readable. false: `end` came first. */
bool rd_conn_wait(struct rd_conn *const *conns, size_t n, short events, int wake_fd,
                  struct emq__mono end);

/* The socket of a connection, for tls.c: as send() and recv(). */
ssize_t rd_socket_send(int fd, const void *buf, size_t n);
ssize_t rd_socket_recv(int fd, void *buf, size_t n);

#endif
