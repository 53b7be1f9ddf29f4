/* SPDX-License-Identifier: MIT
 *
 * Where the lab runs: a folder of its own, and files in it as stores; or a server, given by its URL or started here,
 * with a prefix of its own there, of which nothing is left at the end. Never a queue of anybody else's.
 */
#ifndef EMQ_LAB_GROUND_H
#define EMQ_LAB_GROUND_H

#include "lab/actor.h"
#include "lab/leavings.h"

struct lab_ground {
    const char *url;     /* a server's; NULL = files */
    const char *where;   /* the files' folder is made in there; NULL = in TMPDIR */
    const char *program; /* of a server that the lab starts itself; NULL = none */
    atomic_int stop;     /* a signal asks to end; set by whoever catches it */
    /* lab_ground_open() */
    char exe[LAB_PATH_MAX], dir[LAB_PATH_MAX], pay[LAB_PATH_MAX], prefix[64];
    char own_url[LAB_PATH_MAX];
    pid_t pay_pid, server_pid;
    struct lab_pulse *pulse; /* with url */
    atomic_int stores;       /* made so far */
};

/* url and program are set. EMQ_OK, EMQ_E_SYSTEM, EMQ_E_UNAVAIL and other failures of the store. The payment server
 * and the lab's own server die with the calling thread. */
emq_status lab_ground_open(struct lab_ground *g, emq_error *err);
/* Also after a failed open. */
emq_status lab_ground_close(struct lab_ground *g, emq_error *err);
static inline bool lab_on_server(const struct lab_ground *g)
{
    return g->url || g->program;
}

/* A queue of a cell's own, and a folder. */
struct lab_store {
    char dir[LAB_PATH_MAX], url[LAB_PATH_MAX], queue[32], log[LAB_PATH_MAX];
    bool server;
    pid_t server_pid; /* a server of its own; 0 = none */
};
/* own_server: with one that keeps everything over a kill; needs g->program. */
emq_status lab_store_open(struct lab_ground *g, struct lab_store *s, bool own_server,
                          emq_error *err);
void lab_store_close(struct lab_store *s);
/* Starts its own server again, on the same data. */
emq_status lab_store_again(struct lab_ground *g, struct lab_store *s, emq_error *err);
emq_status lab_store_client(const struct lab_ground *g, const struct lab_store *s, emq_client **out,
                            emq_error *err);
/* The last lines that its processes wrote, cut to `cap`. */
void lab_store_said(const struct lab_store *s, char *out, size_t cap);

#endif
