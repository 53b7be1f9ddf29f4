/* SPDX-License-Identifier: MIT
 *
 * The processes that the lab starts of this same program, by its hidden verb:
 *   emq lab-actor work KEY=VALUE…    a worker
 *   emq lab-actor act KEY=VALUE…     its program, where the handler is one
 *   emq lab-actor pay SOCKET         the payment server
 *   emq lab-actor exec -- CMD…       a command that dies with the lab
 * Each dies with the thread that started it.
 */
#ifndef EMQ_LAB_ACTOR_H
#define EMQ_LAB_ACTOR_H

#include "lab/ledger.h"

#define LAB_VERB "lab-actor"
/* The job that a cell is about, and the one that passes time before it. */
#define LAB_JOB  "a"
#define LAB_WARM "warm"

/* What a worker, or its program, is told; as KEY=VALUE. The store is EMQ_URL: others can read arguments, and there may
 * be a password in it. */
struct lab_role {
    const char *prefix, *queue, *dir, *pay;
    const char *file; /* of the queue; NULL = it is on a server */
    const char *name; /* of the worker; NULL = its own */
    int64_t mode, effect;
    int64_t fault, point; /* LAB_NO_FAULT: it does its work */
    int64_t lock;         /* ms */
    int64_t max;          /* jobs; 0: it sweeps, and works until nothing is left */
    int64_t child;        /* 1: the handler is a program */
    int64_t soak;         /* 1: of many jobs; each leaves lines with its id */
};
enum { LAB_ROLE_WORDS = 16, LAB_WORD_MAX = LAB_PATH_MAX + 200 };
struct lab_words {
    char text[LAB_ROLE_WORDS][LAB_WORD_MAX];
    const char *argv[LAB_ROLE_WORDS + 4]; /* exe, the verb, `what`, words, NULL */
};
void lab_role_write(const struct lab_role *r, const char *exe, const char *what,
                    struct lab_words *out);

/* Runs one of them: an exit code. Messages go to stderr. */
int lab_actor(const char *const *words, size_t n, char *const *rest);

#endif
