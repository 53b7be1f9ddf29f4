/* SPDX-License-Identifier: MIT
 *
 * A link that breaks where a test wants it to: between a client and a server, in a thread of its own.
 */
#ifndef EMQ_TESTS_REDIS_PROXY_H
#define EMQ_TESTS_REDIS_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy {
    int port; /* on 127.0.0.1 */
    struct proxy_inside *inside;
};

/* Forwards to a port on 127.0.0.1; listens there, or on another address of the loopback. */
void proxy_start(struct proxy *p, int to_port);
void proxy_start_on(struct proxy *p, const char *address, int to_port);
void proxy_end(struct proxy *p);
/* Once: forwards `n` more bytes to the server (from it), then closes that connection on both sides. */
void proxy_cut_requests(struct proxy *p, int64_t n);
void proxy_cut_replies(struct proxy *p, int64_t n);
/* The cut that was last asked for happens so often in all, each time after as many bytes. */
void proxy_cut_again(struct proxy *p, int times);
/* Did the last cut happen (all of it, when again and again)? A cut that did not is forgotten. */
bool proxy_was_cut(struct proxy *p);
/* Forwards nothing and closes nothing, until it is told to go on. */
void proxy_stall(struct proxy *p, bool stalled);
/* Connections that were ever made through it, and bytes that went to the server. */
int proxy_connections(struct proxy *p);
int64_t proxy_request_bytes(struct proxy *p);

#endif
