/* SPDX-License-Identifier: MIT
 *
 * See proxy.h. Commands are given under a mutex and taken up by the thread before it moves another byte.
 */
#include "redis/proxy.h"

#include "lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 64, NO_CUT = -1, UP = 0, DOWN = 1 };

struct pair {
    int fd[2]; /* client, server; -1 = free */
};

struct proxy_inside {
    pthread_t thread;
    int listener, wake, to_port;
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t heard;
    uint64_t told, done; /* commands */
    bool stalled, stop, cut;
    int64_t left[2]; /* bytes until the cut, or NO_CUT */
    int64_t each;    /* of the last cut */
    int more;        /* cuts after the next one */
    int connections;
    int64_t up_bytes;
    struct pair pairs[PAIRS]; /* the thread's */
};

static int dial(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void hang_up(struct pair *p)
{
    (void)close(p->fd[0]);
    (void)close(p->fd[1]);
    p->fd[0] = p->fd[1] = -1;
}

static void accept_one(struct proxy_inside *x)
{
    int client = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 ? -1 : dial(x->to_port);

    for (int i = 0; server >= 0 && i < PAIRS; i++) {
        if (x->pairs[i].fd[0] >= 0)
            continue;
        x->pairs[i] = (struct pair){{client, server}};
        pthread_mutex_lock(&x->mu);
        x->connections++;
        pthread_mutex_unlock(&x->mu);
        return;
    }
    (void)close(client);
    if (server >= 0)
        (void)close(server);
}

/* Moves what there is from one side to the other, up to the cut. */
static void move(struct proxy_inside *x, struct pair *p, int way)
{
    char buf[65536];

    pthread_mutex_lock(&x->mu);
    int64_t left = x->left[way];
    size_t want = left == NO_CUT || left > (int64_t)sizeof buf ? sizeof buf : (size_t)left;
    ssize_t n = want > 0 ? recv(p->fd[way], buf, want, MSG_DONTWAIT) : 0;
    bool end = want > 0 && (n == 0 || (n < 0 && errno != EAGAIN));
    if (n > 0 && left != NO_CUT)
        x->left[way] -= n;
    if (n > 0 && way == UP)
        x->up_bytes += n;
    if (x->left[way] == 0) {
        x->left[way] = x->more > 0 ? x->each : NO_CUT;
        x->cut = x->more-- <= 0;
        end = true;
    }
    pthread_mutex_unlock(&x->mu);
    for (ssize_t at = 0; at < n;) {
        ssize_t sent = send(p->fd[!way], buf + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent <= 0) {
            end = true;
            break;
        }
        at += sent;
    }
    if (end)
        hang_up(p);
}

static void *run(void *arg)
{
    struct proxy_inside *x = arg;

    for (;;) {
        struct pollfd p[2 + 2 * PAIRS] = {{.fd = x->wake, .events = POLLIN}};
        uint64_t n;
        pthread_mutex_lock(&x->mu);
        x->done = x->told;
        pthread_cond_broadcast(&x->heard);
        bool stop = x->stop, stalled = x->stalled;
        pthread_mutex_unlock(&x->mu);
        if (stop)
            return NULL;
        p[1] = (struct pollfd){.fd = stalled ? -1 : x->listener, .events = POLLIN};
        for (int i = 0; i < PAIRS; i++)
            for (int side = 0; side < 2; side++)
                p[2 + 2 * i + side] =
                    (struct pollfd){.fd = stalled ? -1 : x->pairs[i].fd[side], .events = POLLIN};
        (void)poll(p, 2 + 2 * PAIRS, -1);
        if (p[0].revents) {
            (void)!read(x->wake, &n, sizeof n);
            continue; /* hear the command before anything moves */
        }
        for (int i = 0; i < PAIRS; i++)
            for (int side = 0; side < 2; side++)
                if (p[2 + 2 * i + side].revents && x->pairs[i].fd[0] >= 0)
                    move(x, &x->pairs[i], side);
        if (p[1].revents)
            accept_one(x);
    }
}

/* ---- the test's side ------------------------------------------------------------------------- */

void proxy_start(struct proxy *p, int to_port)
{
    proxy_start_on(p, "127.0.0.1", to_port);
}

void proxy_start_on(struct proxy *p, const char *address, int to_port)
{
    struct proxy_inside *x = calloc(1, sizeof *x);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    socklen_t len = sizeof a;

    assert_non_null(x);
    x->to_port = to_port;
    x->left[UP] = x->left[DOWN] = NO_CUT;
    for (int i = 0; i < PAIRS; i++)
        x->pairs[i] = (struct pair){{-1, -1}};
    x->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    x->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(x->wake >= 0 && x->listener >= 0);
    CHECK_INT(bind(x->listener, (struct sockaddr *)&a, len), 0);
    CHECK_INT(listen(x->listener, 64), 0);
    CHECK_INT(getsockname(x->listener, (struct sockaddr *)&a, &len), 0);
    (void)pthread_mutex_init(&x->mu, NULL);
    (void)pthread_cond_init(&x->heard, NULL);
    CHECK_INT(pthread_create(&x->thread, NULL, run, x), 0);
    *p = (struct proxy){.port = ntohs(a.sin_port), .inside = x};
}

/* The mutex is held; returns when the thread acts by what was said. */
static void tell(struct proxy_inside *x)
{
    uint64_t one = 1, mine = ++x->told;

    (void)!write(x->wake, &one, sizeof one);
    while (x->done < mine)
        pthread_cond_wait(&x->heard, &x->mu);
}

void proxy_end(struct proxy *p)
{
    struct proxy_inside *x = p->inside;

    pthread_mutex_lock(&x->mu);
    x->stop = true;
    tell(x);
    pthread_mutex_unlock(&x->mu);
    (void)pthread_join(x->thread, NULL);
    for (int i = 0; i < PAIRS; i++)
        if (x->pairs[i].fd[0] >= 0)
            hang_up(&x->pairs[i]);
    (void)close(x->listener);
    (void)close(x->wake);
    (void)pthread_mutex_destroy(&x->mu);
    (void)pthread_cond_destroy(&x->heard);
    free(x);
}

static void cut(struct proxy *p, int way, int64_t n)
{
    pthread_mutex_lock(&p->inside->mu);
    p->inside->left[way] = p->inside->each = n;
    p->inside->more = 0;
    p->inside->cut = false;
    tell(p->inside);
    pthread_mutex_unlock(&p->inside->mu);
}

void proxy_cut_requests(struct proxy *p, int64_t n)
{
    cut(p, UP, n);
}

void proxy_cut_replies(struct proxy *p, int64_t n)
{
    cut(p, DOWN, n);
}

void proxy_cut_again(struct proxy *p, int times)
{
    pthread_mutex_lock(&p->inside->mu);
    p->inside->more = times - 1;
    pthread_mutex_unlock(&p->inside->mu);
}

bool proxy_was_cut(struct proxy *p)
{
    struct proxy_inside *x = p->inside;

    pthread_mutex_lock(&x->mu);
    bool was = x->cut;
    x->left[UP] = x->left[DOWN] = NO_CUT;
    tell(x);
    pthread_mutex_unlock(&x->mu);
    return was;
}

void proxy_stall(struct proxy *p, bool stalled)
{
    pthread_mutex_lock(&p->inside->mu);
    p->inside->stalled = stalled;
    tell(p->inside);
    pthread_mutex_unlock(&p->inside->mu);
}

int proxy_connections(struct proxy *p)
{
    pthread_mutex_lock(&p->inside->mu);
    int n = p->inside->connections;
    pthread_mutex_unlock(&p->inside->mu);
    return n;
}

int64_t proxy_request_bytes(struct proxy *p)
{
    pthread_mutex_lock(&p->inside->mu);
    int64_t n = p->inside->up_bytes;
    pthread_mutex_unlock(&p->inside->mu);
    return n;
}
