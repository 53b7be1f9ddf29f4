/* SPDX-License-Identifier: MIT
 *
 * Inside of the client: what the client's files, the worker and the effects share.
 */
#ifndef EMQ_CLIENT_CLIENT_H
#define EMQ_CLIENT_CLIENT_H

#include "base/clock.h"
#include "engine/engine.h"

#include <pthread.h>
#include <sys/types.h>

/* A receipt session. Borrowed by one call at a time; its sequence grows with each act. */
struct emq__lane {
    struct emq__lane *next;
    char session[24];
    uint64_t seq;
};

/* The place of one waiting call. Places are reused and freed only with the client, so that
 * emq_interrupt() can walk them from a signal handler. `state` is the truth; `cancelled` is what
 * the engine looks at, and may be set without need. */
struct emq__waiter {
    struct emq__waiter *next;
    atomic_int state; /* 0 free, 1 waiting, 2 interrupted */
    atomic_int cancelled;
};

struct emq_client {
    struct emq__engine *e;    /* with its decorators */
    struct emq__engine *base; /* the store's own, inside of e */
    pid_t pid;                /* of the process that opened it */
    struct emq__log log;
    int64_t io_timeout_ms;
    emq_str prefix, who, url;   /* owned, NUL-terminated */
    pthread_mutex_t mu;         /* guards lanes, watches */
    struct emq__lane *lanes;    /* free ones */
    struct emq__watch *watches; /* emq_fd() */
    struct emq__waiter *_Atomic waiters;
    atomic_int interrupt_pending; /* emq_interrupt() came while nobody waited */
    atomic_int worker_count;      /* for default worker names: host:pid:n */
    atomic_int keep_warned;       /* of effects that are known for too short a time */
    emq__fault_fn
        fault; /* asked before each try of emq__do_send(), which no decorator sees; NULL = none */
    void *fault_user;
};

/* What is made of a record on first use. */
struct emq__job_made {
    struct emq__arena mem;
    emq_str identity, json;
    struct emq__opts opts;
    bool has_opts;
};

/* What a worker that lent a job wants to hear of a transactional effect. */
struct emq__lender {
    void (*acting)(emq_job *j);           /* the effect is made, nothing is committed */
    void (*ended)(emq_job *j, int state); /* the job has ended with it: an emq_state */
};

/* A job handle. */
struct emq_job {
    struct emq__arena mem;      /* everything below lives here; empty for a job of a list */
    struct emq__job rec;        /* token: only of a job that this handle's caller took */
    struct emq__job_made *made; /* owned */
    int64_t lock_until_ms;
    void *slot;                       /* the worker's slot while lent to a handler; else NULL */
    const struct emq__lender *lender; /* with slot */
};

/* ---- checks ------------------------------------------------------------------------------ */

/* Every public call starts here: EMQ_OK, E_FORKED, or E_INVALID for a NULL handle. */
emq_status emq__client_check(const emq_client *c, const char *where, emq_error *err);
/* ... and of a call on a queue: the name too. */
emq_status emq__client_check_queue(const emq_client *c, emq_str queue, const char *where,
                                   emq_error *err);
/* ... and of a call on a job: the id too. */
emq_status emq__client_check_job(const emq_client *c, emq_str queue, emq_str id, const char *where,
                                 emq_error *err);

/* The longest span a caller may pass: 100 years. */
#define EMQ__SPAN_MAX_MS INT64_C(3155760000000)
/* 0..EMQ__SPAN_MAX_MS, or E_INVALID that names it. */
emq_status emq__check_span(int64_t ms, const char *where, const char *what, emq_error *err);
/* The span of a lock: 0 becomes 30 s; E_INVALID below EMQ_LOCK_MIN_MS. */
emq_status emq__check_lock(int64_t *lock_ms, const char *where, emq_error *err);
/* Bytes within their limit; E_INVALID with the size and the limit. */
emq_status emq__check_size(emq_str bytes, size_t max, const char *where, const char *what,
                           emq_error *err);
/* The token of a lock: 1..EMQ_TOKEN_MAX bytes. */
emq_status emq__check_token(emq_str token, const char *where, emq_error *err);
emq_status emq__no_memory(const char *where, emq_error *err);

/* ---- opening ----------------------------------------------------------------------------- */

/* engines.c: the table of engines by URL scheme. cfg is whole but for its url; `prefix` of the URL goes to
 * *out_prefix_param. */
emq_status emq__engine_open(struct emq__engine **out, emq_str url, struct emq__engine_config *cfg,
                            emq_str *out_prefix_param, struct emq__arena *mem, emq_error *err);

/* emq_open(), which makes a store anywhere, with a say in that. */
emq_status emq__open(emq_client **out, emq_str url, enum emq__making making,
                     const emq_open_opts *opts, emq_error *err);

/* A client over an engine that is open already. Takes the engine over: it is closed with the
 * client, and also when this fails. url and prefix may be empty; opts as of emq_open(). */
emq_status emq__client_wrap(emq_client **out, struct emq__engine *e, emq_str url, emq_str prefix,
                            const emq_open_opts *opts, emq_error *err);

/* ---- acts -------------------------------------------------------------------------------- */

/* Acts with a receipt. Each borrows a lane, numbers the call, and settles a doubt by repeating the
 * same sequence with backoff until io_timeout_ms is over; then E_IN_DOUBT is the answer.
 * E_UNAVAIL and E_BUSY are not repeated. `req->call` is set here. */
#define EMQ__RECEIPT_ACTS(X) \
    X(add)                   \
    X(publish)               \
    X(take) X(settle) X(sweep) X(write) X(change) X(bulk) X(obliterate) X(dedup) X(meta) X(mark)
#define EMQ__DO_DECL(act)                                                          \
    emq_status emq__do_##act(emq_client *c, struct emq__##act##_req *req,          \
                             struct emq__##act##_res *res, struct emq__arena *mem, \
                             emq_error *err);
EMQ__RECEIPT_ACTS(EMQ__DO_DECL)
#undef EMQ__DO_DECL

/* Renewing twice does no harm: a doubt is settled by repeating, without a receipt. */
emq_status emq__do_extend(emq_client *c, const struct emq__extend_req *req,
                          struct emq__extend_res *res, struct emq__arena *mem, emq_error *err);

/* An act that only one store knows, with a receipt: `send` is called, with *call, until its answer is known. */
typedef emq_status (*emq__send_fn)(void *user, emq_error *err);
emq_status emq__do_send(emq_client *c, struct emq__call *call, const char *where, emq__send_fn send,
                        void *user, emq_error *err);

/* The entry that a public add makes: options checked, opts JSON written, payload classified;
 * strings of the caller are borrowed, made ones live in mem. */
emq_status emq__add_entry_make(emq_client *c, emq_str queue, emq_str data, const emq_add_opts *opts,
                               struct emq__arena *mem, struct emq__add_entry *out, emq_error *err);
/* What the caller of an add gets to know. */
void emq__added_put(emq_added *out, const struct emq__added *a);

/* One settlement, as an owner, with the job's own policy applied: attempts, backoff, retention,
 * stack limit. r: uniform in [0,1). Texts that had to be cleaned live in mem; out of memory leaves
 * the reason or the stack out, never the settlement. */
void emq__settle_entry_make(const struct emq__job *j, const struct emq__opts *o, emq_str token,
                            const emq_settle_opts *how, double r, struct emq__arena *mem,
                            struct emq__settle_entry *out);

/* ---- jobs -------------------------------------------------------------------------------- */

/* Wraps one record of a take: the handle takes over a copy in an arena of its own. NULL: no memory.
 * Ended with emq_job_free(). */
emq_job *emq__job_wrap(const struct emq__job *rec);
/* The same in two steps: an empty handle, made before the act so that its result can't be lost for
 * want of memory; then the handle takes over the arena of the result, and leaves *mem empty.
 * `taken`: the token is the caller's. */
emq_job *emq__job_new(void);
void emq__job_fill(emq_job *j, const struct emq__job *rec, int64_t now_ms, bool taken,
                   struct emq__arena *mem);
/* The job's own options, parsed once. A text that is no object gives the defaults. */
const struct emq__opts *emq__job_opts(const emq_job *j);
/* Lists take over the arena in which their parts live; without memory for one it is left.
 * `taken`: the tokens are the caller's. */
emq_status emq__list_of_strs(struct emq__arena *mem, emq_str *strs, size_t n, emq_list **out,
                             const char *where, emq_error *err);
emq_status emq__list_of_jobs(struct emq__arena *mem, struct emq__job *const *jobs, size_t n,
                             int64_t now_ms, bool taken, emq_list **out, const char *where,
                             emq_error *err);
/* Reads one record; EMQ_NOT_FOUND when there is none. */
emq_status emq__job_read(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                         struct emq__job **out, int64_t *out_now_ms, emq_error *err);

/* Default worker name "host:pid:n", another one each call. */
void emq__worker_name(emq_client *c, char out[EMQ_WORKER_NAME_MAX + 1]);

/* ---- waiting ----------------------------------------------------------------------------- */

/* begin (EMQ_OK, EMQ_CANCELLED, failures), steps, end. A step sleeps at most ms, and at most a
 * second, at a bell (a queue's name): EMQ_OK and EMQ_TIMEOUT both mean "look again"; EMQ_CANCELLED;
 * failures. */
emq_status emq__wait_begin(emq_client *c, struct emq__waiter **out, emq_error *err);
emq_status emq__wait_step(emq_client *c, struct emq__waiter *w, emq_str bell, uint64_t ticket,
                          int64_t ms, emq_error *err);
void emq__wait_end(struct emq__waiter *w); /* NULL is allowed */
/* The bell for those who wait for events and results, instead of the queue's own. */
enum { EMQ__BELL_NAME_MAX = EMQ_QUEUE_NAME_MAX + sizeof EMQ__BELL_EVENTS };
emq_str emq__bell_of_events(emq_str queue, char out[EMQ__BELL_NAME_MAX]);
/* What is left of a wait of timeout_ms (-1 = for ever) that began at `start`; 0 = it is over. */
int64_t emq__wait_left(struct emq__mono start, int64_t timeout_ms);

/* watch.c: ends the threads of emq_fd(); in a forked child frees their memory only. */
void emq__watch_close_all(emq_client *c, bool forked);

#endif
