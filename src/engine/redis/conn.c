/* SPDX-License-Identifier: MIT
 *
 * Sockets; no other file of the engine has any. The one invariant: a byte counts as written only when
 * the kernel took it, so that "not sent" is known exactly.
 */
#include "engine/redis/conn.h"

#include "engine/redis/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { KEEP_IDLE_S = 15, KEEP_INTERVAL_S = 5, KEEP_COUNT = 3, WAIT_MAX = 64 };

struct rd_conn {
    int fd;
    struct rd_tls_end *tls;
    pthread_mutex_t tls_mu; /* guards tls */
    atomic_short read_wants, write_wants;
};

const char *rd_addr_text(const struct rd_addr *a, char out[RD_ADDR_TEXT_MAX])
{
    if (a->port == 0)
        (void)snprintf(out, RD_ADDR_TEXT_MAX, "%s", a->host);
    else
        (void)snprintf(out, RD_ADDR_TEXT_MAX, strchr(a->host, ':') ? "[%s]:%u" : "%s:%u", a->host,
                       (unsigned)a->port);
    return out;
}

void rd_why_set(struct rd_why *why, int native, const char *fmt, ...)
{
    va_list args;

    why->native = native;
    va_start(args, fmt);
    (void)vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
}

static void why_errno(struct rd_why *why, int native)
{
    const char *text = strerrordesc_np(native);

    rd_why_set(why, native, "%s", text ? text : "unknown error");
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

static void tune(int fd, int64_t io_timeout_ms)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
               (int)(io_timeout_ms < INT32_MAX ? io_timeout_ms : INT32_MAX));
}

static int poll_until(struct pollfd *p, nfds_t n, struct emq__mono end)
{
    for (;;) {
        int64_t us = end.us - emq__mono_now().us;
        int64_t ms = us <= 0 ? 0 : us / 1000 + (us % 1000 != 0);
        int ready = poll(p, n, ms < 60000 ? (int)ms : 60000);
        if (ready > 0)
            return ready;
        if (ready < 0 && errno != EINTR)
            return 1; /* the call that follows says what it is */
        if (emq__mono_now().us >= end.us)
            return 0;
    }
}

/* A connected descriptor, or -1. */
static int dial(int family, const struct sockaddr *sa, socklen_t len, struct emq__mono end,
                struct rd_why *why)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), failed = 0;
    socklen_t size = sizeof failed;

    if (fd < 0) {
        why_errno(why, errno);
        return -1;
    }
    if (connect(fd, sa, len) != 0 && (failed = errno) == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (poll_until(&p, 1, end) == 0)
            failed = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
            failed = errno;
    }
    if (failed == 0)
        return fd;
    why_errno(why, failed);
    (void)close(fd);
    return -1;
}

static int dial_local(const struct rd_addr *a, struct emq__mono end, struct rd_why *why)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len = strlen(a->host);

    if (len >= sizeof un.sun_path) {
        rd_why_set(why, ENAMETOOLONG, "the path of a socket has at most %zu bytes",
                   sizeof un.sun_path - 1);
        return -1;
    }
    memcpy(un.sun_path, a->host, len + 1);
    return dial(AF_UNIX, (const struct sockaddr *)&un, sizeof un, end, why);
}

static int dial_host(const struct rd_addr *a, struct emq__mono end, struct rd_why *why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *all = NULL;
    char port[8];
    int left = 0, fd = -1;

    (void)snprintf(port, sizeof port, "%u", (unsigned)a->port);
    int rc = getaddrinfo(a->host, port, &hints, &all);
    if (rc != 0) {
        int native = rc == EAI_SYSTEM ? errno : 0;
        rd_why_set(why, native, "the name can't be resolved: %s", gai_strerror(rc));
        return -1;
    }
    for (const struct addrinfo *i = all; i; i = i->ai_next)
        left++;
    for (const struct addrinfo *i = all; i && fd < 0; i = i->ai_next, left--) {
        struct emq__mono now = emq__mono_now();
        struct emq__mono mine = {now.us + (end.us - now.us) / left};
        fd = dial(i->ai_family, i->ai_addr, i->ai_addrlen, mine, why);
    }
    freeaddrinfo(all);
    return fd;
}

static bool shake(struct rd_conn *c, struct emq__mono end, struct rd_why *why)
{
    for (;;) {
        short wants = 0;
        enum rd_io io = rd_tls_shake(c->tls, &wants, why);
        if (io == RD_IO_OK)
            return true;
        if (io == RD_IO_END)
            rd_why_set(why, 0, "the server closed the connection instead of speaking TLS");
        if (io != RD_IO_AGAIN)
            return false;
        struct pollfd p = {.fd = c->fd, .events = wants};
        if (poll_until(&p, 1, end) == 0) {
            rd_why_set(why, ETIMEDOUT, "no answer to the TLS handshake");
            return false;
        }
    }
}

struct rd_conn *rd_conn_open(const struct rd_addr *a, struct rd_tls *tls, int64_t io_timeout_ms,
                             struct emq__mono end, struct rd_why *why)
{
    struct rd_conn *c = calloc(1, sizeof *c);

    if (!c || pthread_mutex_init(&c->tls_mu, NULL) != 0) {
        free(c);
        why_errno(why, ENOMEM);
        return NULL;
    }
    c->fd = a->port == 0 ? dial_local(a, end, why) : dial_host(a, end, why);
    if (c->fd < 0)
        goto failed;
    if (a->port != 0)
        tune(c->fd, io_timeout_ms);
    if (tls) {
        c->tls = rd_tls_end_new(tls, c->fd, a->host);
        if (!c->tls)
            why_errno(why, ENOMEM);
        if (!c->tls || !shake(c, end, why))
            goto failed;
    }
    return c;

failed:
    rd_conn_close(c);
    return NULL;
}

void rd_conn_close(struct rd_conn *c)
{
    if (!c)
        return;
    rd_tls_end_free(c->tls);
    if (c->fd >= 0)
        (void)close(c->fd);
    pthread_mutex_destroy(&c->tls_mu);
    free(c);
}

void rd_conn_shutdown(struct rd_conn *c)
{
    (void)shutdown(c->fd, SHUT_RDWR);
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

ssize_t rd_socket_send(int fd, const void *buf, size_t n)
{
    return send(fd, buf, n, MSG_NOSIGNAL);
}

ssize_t rd_socket_recv(int fd, void *buf, size_t n)
{
    return recv(fd, buf, n, 0);
}

static enum rd_io io_failed(int native, struct rd_why *why)
{
    if (native == EAGAIN || native == EWOULDBLOCK || native == EINTR)
        return RD_IO_AGAIN;
    why_errno(why, native);
    return RD_IO_FAILED;
}

enum rd_io rd_conn_write(struct rd_conn *c, const struct iovec *iov, int n_iov, size_t *n,
                         struct rd_why *why)
{
    *n = 0;
    if (c->tls) {
        short wants = POLLOUT;
        pthread_mutex_lock(&c->tls_mu);
        enum rd_io io = rd_tls_write(c->tls, iov, n_iov, n, &wants, why);
        pthread_mutex_unlock(&c->tls_mu);
        atomic_store(&c->write_wants, wants);
        return io;
    }
    union { /* sendmsg() only reads them */
        const struct iovec *in;
        struct iovec *out;
    } cast = {.in = iov};
    struct msghdr msg = {.msg_iov = cast.out, .msg_iovlen = (size_t)n_iov};
    ssize_t done = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
    if (done < 0)
        return io_failed(errno, why);
    *n = (size_t)done;
    return RD_IO_OK;
}

enum rd_io rd_conn_read(struct rd_conn *c, void *buf, size_t cap, size_t *n, struct rd_why *why)
{
    *n = 0;
    if (c->tls) {
        short wants = POLLIN;
        pthread_mutex_lock(&c->tls_mu);
        enum rd_io io = rd_tls_read(c->tls, buf, cap, n, &wants, why);
        pthread_mutex_unlock(&c->tls_mu);
        atomic_store(&c->read_wants, wants);
        if (io == RD_IO_END)
            rd_why_set(why, 0, "the server closed the connection");
        return io;
    }
    ssize_t done = rd_socket_recv(c->fd, buf, cap);
    if (done < 0)
        return io_failed(errno, why);
    if (done == 0) {
        rd_why_set(why, 0, "the server closed the connection");
        return RD_IO_END;
    }
    *n = (size_t)done;
    return RD_IO_OK;
}

/* What to wait for, so that the caller's read or write goes on; 0: it can do so now. */
static short events_of(struct rd_conn *c, short events)
{
    if (!c->tls)
        return events;
    if (events == POLLIN) {
        pthread_mutex_lock(&c->tls_mu);
        bool pending = rd_tls_pending(c->tls);
        pthread_mutex_unlock(&c->tls_mu);
        if (pending)
            return 0;
    }
    short wants = atomic_load(events == POLLIN ? &c->read_wants : &c->write_wants);
    return wants ? wants : events;
}

bool rd_conn_wait(struct rd_conn *const *conns, size_t n, short events, int wake_fd,
                  struct emq__mono end)
{
    struct pollfd p[WAIT_MAX + 1];
    nfds_t n_fds = 0;

    EMQ_ASSERT(n <= WAIT_MAX);
    for (size_t i = 0; i < n; i++) {
        short e = events_of(conns[i], events);
        if (e == 0)
            return true;
        p[n_fds++] = (struct pollfd){.fd = conns[i]->fd, .events = e};
    }
    if (wake_fd >= 0)
        p[n_fds++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    return poll_until(p, n_fds, end) > 0;
}
