/* SPDX-License-Identifier: MIT
 *
 * The ground of the Redis engine: the handle and what its own files share. Acts don't include this; they
 * see redis.h only.
 *
 * Locks, in the order in which they may be taken:
 *   nodes_mu  >  a link's write_mu  >  a wire's mu.    mu and waits.mu are innermost and guard only fields.
 */
#ifndef EMQ_ENGINE_REDIS_GROUND_H
#define EMQ_ENGINE_REDIS_GROUND_H

#include "engine/redis/redis.h"
#include "engine/redis/reply.h"
#include "engine/redis/request.h"
#include "engine/redis/url.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { RD_SLOTS = 16384, RD_SHA_LEN = 40, RD_BELLS = 256, RD_SEEN = 256 };

struct rd_engine;

/* ---- talk.c: a connection of one thread at a time --------------------------------------------- */

struct rd_talk {
    struct rd_conn *conn; /* NULL: closed */
    struct rd_parser *parser;
    char buf[16384];
};

/* Connects and says who we are: AUTH, SELECT, CLIENT SETNAME (not when name is empty). EMQ_E_UNAVAIL:
 * repeating may help; EMQ_E_REFUSED. */
emq_status rd_talk_open(struct rd_talk *t, struct rd_engine *e, const struct rd_addr *a,
                        emq_str name, struct emq__mono end, emq_error *err);
emq_status rd_talk_open_sentinel(struct rd_talk *t, struct rd_engine *e, const struct rd_addr *a,
                                 struct emq__mono end, emq_error *err);
void rd_talk_close(struct rd_talk *t);
/* Sends all of the commands. */
emq_status rd_talk_send(struct rd_talk *t, struct rd_cmd *const *cmds, size_t n,
                        struct emq__mono end, struct rd_why *why);
/* The next reply. EMQ_TIMEOUT: `end` came; EMQ_CANCELLED: wake_fd is readable. */
emq_status rd_talk_read(struct rd_talk *t, struct emq__arena *mem, int wake_fd,
                        struct emq__mono end, const struct rd_reply **out, struct rd_why *why);
/* Sends one command and reads its reply. EMQ_E_UNAVAIL with *why; the talk is closed then. */
emq_status rd_talk_ask(struct rd_talk *t, struct rd_cmd *cmd, struct emq__arena *mem,
                       struct emq__mono end, const struct rd_reply **out, struct rd_why *why);

/* ---- link.c: connections that many threads share ----------------------------------------------- */

/* Commands of one thread that travel together. */
struct rd_call {
    struct rd_cmd *const *cmds;
    size_t n;
    const struct rd_reply **replies; /* out: one each */
    struct emq__arena *mem;          /* of the replies */
    size_t first_write; /* bytes up to the end of the first command that may change something */
    /* the link's */
    struct rd_call *next;
    size_t n_replies;
    struct emq__mono answer_by;
    bool written, done, broken, no_memory;
    pthread_cond_t cond;
    uint64_t wire_id; /* out: which connection it was */
};

struct rd_wire;
struct rd_link {
    struct rd_engine *e;
    const struct rd_addr *addr; /* NULL: whom the sentinels name */
    pthread_mutex_t write_mu;   /* guards what follows, and the order of requests */
    struct rd_wire *wire;
    uint64_t wire_id; /* counts the connections */
    int failures;
    struct emq__mono retry_at;
    emq_error last; /* why it can't be reached */
};

emq_status rd_link_init(struct rd_link *l, struct rd_engine *e, const struct rd_addr *addr,
                        emq_error *err);
void rd_link_close(struct rd_link *l, bool forked);
/* Connects when needed, sends and waits for the replies. EMQ_E_UNAVAIL: the server can't have seen a
 * whole request; EMQ_E_IN_DOUBT: it may have; EMQ_E_REFUSED: it does not want us; EMQ_E_NOMEM: for the
 * request, for a connection, or for the answer. `end`
 * bounds connecting and sending; the answer has io_timeout_ms from then. */
emq_status rd_link_call(struct rd_link *l, struct rd_call *c, struct emq__mono end, emq_error *err);
/* The next call connects anew, unless another thread has seen to it: the server of that connection is
 * not what it should be. */
void rd_link_drop(struct rd_link *l, uint64_t wire_id);

/* ---- nodes ------------------------------------------------------------------------------------- */

enum { RD_LINK_SHARED, RD_LINK_RENEWALS, RD_LINKS };
struct rd_node {
    struct rd_addr addr;
    struct rd_link links[RD_LINKS];
};
enum { RD_NODES_MAX = 1024 };

struct rd_waits;

struct rd_engine {
    struct emq__engine base; /* first */
    struct emq__log log;
    struct rd_config cfg;
    struct emq__arena mem; /* the strings of cfg */
    struct rd_tls *tls;    /* NULL = none */
    int64_t io_timeout_ms;
    pid_t pid; /* of the process that opened it */
    bool opened;
    atomic_bool replica; /* read-only, as last seen */
    char name[128];      /* of its connections */

    bool cluster;
    pthread_mutex_t nodes_mu; /* guards adding to nodes, slots_at */
    struct rd_node *_Atomic nodes[RD_NODES_MAX];
    atomic_size_t n_nodes;               /* never shrinks */
    _Atomic uint16_t slots[RD_SLOTS];    /* node of each */
    atomic_bool is_master[RD_NODES_MAX]; /* has slots */
    struct emq__mono slots_at;           /* when they were asked for */
    atomic_size_t good_sentinel;         /* who answered last */

    pthread_mutex_t mu;                        /* guards sha */
    char sha[2][RD_LUA_COUNT][RD_SHA_LEN + 1]; /* [1]: of those that go on when memory is full */
    atomic_bool loaded[2][RD_LUA_COUNT];
    _Atomic uint64_t seen[RD_SEEN]; /* explain.c: hashes of queues whose keys were looked at */

    /* clock.c */
    bool stopped;
    int64_t stopped_us;
    atomic_llong advance_ms;
    atomic_llong store_ahead_ms; /* the store's clock and ours, as last seen */

    _Atomic uint32_t bells[RD_BELLS]; /* bell.c */
    atomic_bool maxed[RD_BELLS];
    struct rd_waits *waits; /* wait.c */
};

/* One call of an act: what it gets as its engine. */
struct rd_op {
    struct emq__engine base; /* first; without ops */
    struct rd_engine *e;
    bool sent; /* something that writes went out: it may have been done */
};
static inline struct rd_engine *rd_of(struct emq__engine *e)
{
    return e->ops ? (struct rd_engine *)e : ((struct rd_op *)e)->e;
}

/* ---- open.c, ops.c, nodes.c ----------------------------------------------------------------------- */

extern const struct emq__engine_ops rd_ops;
void rd_close(struct emq__engine *e);
emq_status rd_check_fork(const struct rd_engine *e, emq_error *err);

struct rd_node *rd_node_at(struct rd_engine *e, size_t i);
/* nodes_mu is held, or nobody else has the handle yet. ask_sentinels: `a` is only shown. */
emq_status rd_node_add(struct rd_engine *e, const struct rd_addr *a, bool ask_sentinels,
                       size_t *out, emq_error *err);
void rd_nodes_free(struct rd_engine *e, bool forked);
/* The nth of those that have slots; 0 without a cluster. */
size_t rd_nth_master(struct rd_engine *e, size_t n);
/* Where a link connects to. */
emq_status rd_where(struct rd_engine *e, const struct rd_link *l, struct emq__mono end,
                    struct rd_addr *out, emq_error *err);

/* info.c: asks the first node what it is. */
emq_status rd_info_read(struct rd_engine *e, emq_error *err);
/* "name:value\r\n" of INFO's text; "" when it is not there. */
emq_str rd_info_field(emq_str text, const char *name);
/* E_REFUSED on a read-only replica, as which it was opened and which it still is. */
emq_status rd_may_write(struct rd_engine *e, emq_error *err);

/* ---- script.c ------------------------------------------------------------------------------------ */

/* A plain command on a node's shared link, repeated while it is safe to until the I/O timeout. Answers
 * error replies as statuses. */
emq_status rd_command(struct rd_engine *e, size_t node, struct rd_cmd *cmd, struct emq__arena *mem,
                      const struct rd_reply **out, emq_error *err);
/* Tried once, within `ms`; an error reply is EMQ_OK. */
emq_status rd_command_once(struct rd_engine *e, size_t node, struct rd_cmd *cmd,
                           struct emq__arena *mem, int64_t ms, const struct rd_reply **out,
                           emq_error *err);

/* ---- clock.c ------------------------------------------------------------------------------------- */

enum { RD_CLOCK_TEXT_MAX = 24 };
emq_str rd_clock_text(const struct rd_engine *e, char out[RD_CLOCK_TEXT_MAX]);
/* What the store's clock says about now, without asking it. */
int64_t rd_clock_now_ms(const struct rd_engine *e);
void rd_clock_seen(struct rd_engine *e, int64_t now_ms);
/* Asks the server; a stopped clock stands there. */
emq_status rd_clock_read(struct rd_engine *e, emq_error *err);
emq_status rd_clock_advance(struct emq__engine *e, int64_t ms, emq_error *err);

/* ---- cluster.c, sentinel.c ----------------------------------------------------------------------- */

/* CRC16 over what stands in braces, or all. */
uint16_t rd_slot_of_key(emq_str key);
/* The slot of a queue's keys, B and X. false: they share none, since neither name has a whole tag. */
bool rd_slot_of_queue(emq_str prefix, emq_str queue, uint16_t *out);
/* Asks some node who serves what. */
emq_status rd_cluster_refresh(struct rd_engine *e, struct emq__mono end, emq_error *err);
/* The node with this address, which is added when it is new. */
emq_status rd_cluster_node(struct rd_engine *e, const struct rd_addr *a, size_t *out,
                           emq_error *err);
emq_status rd_sentinel_ask(struct rd_engine *e, struct emq__mono end, struct rd_addr *out,
                           emq_error *err);

/* ---- bell.c, wait.c ------------------------------------------------------------------------------ */

uint64_t rd_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n);
void rd_bell_ring(struct rd_engine *e, emq_str prefix, emq_str queue);
void rd_bell_ring_all(struct rd_engine *e);
/* Remembers whether a queue was at its concurrency limit; a slot that gets free is news then. */
void rd_bell_maxed(struct rd_engine *e, emq_str prefix, emq_str queue, bool maxed);
bool rd_bell_was_maxed(struct rd_engine *e, emq_str prefix, emq_str queue);

emq_status rd_waits_new(struct rd_engine *e, emq_error *err);
void rd_waits_free(struct rd_engine *e, bool forked);
void rd_interrupt(struct emq__engine *e);
/* The calling thread takes jobs of this queue under this worker's name. */
void rd_worker_seen(struct rd_engine *e, emq_str prefix, emq_str queue, emq_str worker);

#endif
