/* SPDX-License-Identifier: MIT
 *
 * Redis and Valkey servers for tests: each on a free loopback port with a folder of its own, in front of
 * nobody. It dies with the test program, whatever ends that. A binary that is missing fails the test.
 *
 * Calls come from the thread that runs the tests. What goes wrong ends the test with the server's log.
 */
#ifndef EMQ_TESTS_SERVER_H
#define EMQ_TESTS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

enum server_kind { SERVER_REDIS, SERVER_VALKEY };

struct server_opts {
    enum server_kind kind;
    bool aof; /* appendonly, every write synced; else nothing is kept over a restart */
    /* the port speaks TLS only; ca.crt, ca.key, server.crt and server.key are in the folder */
    bool tls;
    bool cluster, sentinel;
    const char *password;
    const char *conf; /* further lines of the configuration */
};

struct server {
    struct server_opts o;
    pid_t pid; /* 0 = not running */
    int port, cluster_port;
    char dir[200];    /* made by server_start(), removed by server_end() or at exit */
    char socket[220]; /* a unix socket, in every server */
    char url[300];    /* redis://…, with the password; rediss:// under tls */
};

/* Returns when it answers. */
struct server *server_start(const struct server_opts *o);
/* SIGTERM, or SIGKILL when `hard`; returns when it has ended. server_again() starts it on the same port
 * and folder. */
void server_stop(struct server *s, bool hard);
void server_again(struct server *s);
/* Stops and forgets it. NULL is accepted. */
void server_end(struct server *s);

/* One command, over the unix socket; the arguments as printf makes them, split at blanks ("%s" of an
 * argument with blanks is one argument, "%b" takes bytes and a size_t). The reply as text, an array one
 * line a member, an error with "ERR " or its own word in front; valid until the next call. */
__attribute__((format(printf, 2, 3))) const char *server_command(struct server *s, const char *fmt,
                                                                 ...);
long long server_number(const char *reply); /* of INCR, LLEN, … */

/* The one plain server of this kind of the program; started at the first call, ended at exit. */
struct server *server_of_program(enum server_kind kind);
/* NULL, unless EMQ_TEST_ENGINE is "redis" or "valkey": the URL of an empty database of that server, another
 * one at each of the next 15 calls. Valid until the next call. */
const char *server_asked(void);

/* Joins running servers of the `cluster` kind; each gets its share of the slots in order. Returns when
 * all of them say that the cluster is up. */
void server_join(struct server *const *nodes, int n);

/* A port on 127.0.0.1 that nobody listens on now. */
int server_free_port(void);

#endif
