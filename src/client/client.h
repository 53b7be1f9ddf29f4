/* SPDX-License-Identifier: MIT
 *
 * Inside of the client: what the client's files, the worker and the effects share.
 */
#ifndef EMQ_CLIENT_CLIENT_H
#define EMQ_CLIENT_CLIENT_H

#include "engine/engine.h"

#include <pthread.h>
#include <sys/types.h>

/* A receipt session. Borrowed by one call at a time; its sequence grows with each act. */
struct emq__lane {
    struct emq__lane *next;
    char              session[24];
    uint64_t          seq;
};

struct emq_client {
    struct emq__engine *e;
    pid_t               pid; /* of the process that opened it */
    struct emq__log     log;
    int64_t             io_timeout_ms;
    emq_str             prefix, who, url; /* owned, NUL-terminated */
    pthread_mutex_t     mu;               /* guards lanes, fds */
    struct emq__lane   *lanes;            /* free ones */
    struct emq__watch  *watches;          /* emq_fd() */
    atomic_int          interrupts;       /* generation of emq_interrupt() */
    atomic_int          worker_count;     /* for default worker names: host:pid:n */
};

/* A job handle. */
struct emq_job {
    struct emq__arena mem; /* everything below lives here */
    struct emq__job   rec;
    emq_str           identity, json; /* made on first use */
    void             *slot;           /* the worker's slot while lent to a handler; else NULL */
};

/* Every public call starts here: EMQ_OK, E_FORKED, or E_INVALID for a NULL handle. */
emq_status emq__client_check(const emq_client *c, const char *where, emq_error *err);

/* Acts with a receipt. Each borrows a lane, numbers the call, and settles a doubt by repeating the
 * same sequence with backoff until io_timeout_ms is over; then E_IN_DOUBT is the answer.
 * E_UNAVAIL and E_BUSY are not repeated. `req->call` is set here. */
#define EMQ__RECEIPT_ACTS(X)                                                                     \
    X(add) X(publish) X(take) X(settle) X(sweep) X(write) X(change) X(bulk) X(obliterate)        \
    X(dedup) X(meta)
#define EMQ__DO_DECL(act)                                                                        \
    emq_status emq__do_##act(emq_client *c, struct emq__##act##_req *req,                        \
                             struct emq__##act##_res *res, struct emq__arena *mem, emq_error *err);
EMQ__RECEIPT_ACTS(EMQ__DO_DECL)
#undef EMQ__DO_DECL

/* Wraps one record of a result: the handle takes over a copy in an arena of its own. */
emq_job *emq__job_wrap(const struct emq__job *rec);

/* The entry that a public add makes: options checked, opts JSON written, payload classified; strings
 * of the caller are borrowed, made ones live in mem. */
emq_status emq__add_entry_make(emq_client *c, emq_str queue, emq_str data, const emq_add_opts *opts,
                               struct emq__arena *mem, struct emq__add_entry *out, emq_error *err);

/* One settlement with the job's own policy applied: attempts, backoff, retention, stack limit.
 * reason/value as of emq_settle_opts. `final_fail`: do not retry. r: uniform in [0,1). */
void emq__settle_entry_make(const struct emq__job *j, emq_str token, int32_t kind, emq_str value,
                            emq_str stack, int64_t delay_ms, double r, struct emq__arena *mem,
                            struct emq__settle_entry *out);

/* engines.c: the table of engines by URL scheme. */
emq_status emq__engine_open(struct emq__engine **out, emq_str url, int64_t io_timeout_ms,
                            const struct emq__log *log, emq_str *out_prefix_param,
                            struct emq__arena *mem, emq_error *err);

#endif
