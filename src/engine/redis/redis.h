/* SPDX-License-Identifier: MIT
 *
 * The Redis/Valkey engine, private to this folder: what the acts see. docs/protocol.md is normative for
 * keys, fields and events. One act is one script; a script is a file in lua/, the C side of an act packs
 * its arguments and unpacks its reply.
 *
 * Every script gets
 *   KEYS[1]  the queue's meta key, which also names the slot on a cluster
 *   ARGV[1]  the clock: "" = the server's, "+MS" = the server's and so many ms, "=US" = stands still there (tests)
 *   ARGV[2]  B, "P:Q:", in front of BullMQ's keys
 *   ARGV[3]  X, "P::emq:Q:", in front of our private keys, each of which has a TTL
 * and then its own, from ARGV[4] on. It answers an array whose first member is the store's now_ms, or an
 * error: "EMQ text" becomes EMQ_E_INVALID, "EMQCORRUPT text" EMQ_E_CORRUPT, "EMQFULL text" EMQ_E_FULL, each
 * with that text, and "EMQHELD id" EMQ_E_BUSY with EMQ__TEXT_HELD_BY_STAGE; it may be answered only as long as nothing was written.
 *
 * The fork check, tickets for waiting workers, `wait` and `wake` are not the acts' affair.
 */
#ifndef EMQ_ENGINE_REDIS_REDIS_H
#define EMQ_ENGINE_REDIS_REDIS_H

#include "engine/engine.h"
#include "redis_lua.h" /* generated: enum rd_lua { RD_LUA_add, … }, rd_lua_text[], rd_lua_name[] */

/* ---- replies: in the arena of the call ---------------------------------------------------- */

enum rd_type { RD_NIL, RD_INT, RD_STR, RD_ARR, RD_ERR };
struct rd_reply {
    enum rd_type type;
    int64_t i;                           /* INT */
    emq_str s;                           /* STR, ERR; NUL behind it */
    const struct rd_reply *const *items; /* ARR */
    size_t n;
};
/* Reading what a script answered; a reply of another shape than expected gives 0, "" or an RD_NIL. */
const struct rd_reply *rd_at(const struct rd_reply *r, size_t i);
int64_t rd_i64(const struct rd_reply *r); /* INT, or the digits of a STR */
emq_str rd_str(const struct rd_reply *r);

/* ---- requests ----------------------------------------------------------------------------- */

struct rd_args; /* in the arena of the call; strings are borrowed until rd_eval() returns */

/* An empty queue: an act on the whole store (queues, advance), without KEYS; B is "P:", X is "P::emq:". */
struct rd_args *rd_args_new(struct emq__engine *e, enum rd_lua script, emq_str prefix,
                            emq_str queue, struct emq__arena *mem);
/* An act on a prefix, of no one queue (claims, publish): KEYS[1] is a private key of the prefix, which leads to its
 * node on a cluster. */
struct rd_args *rd_args_new_near(struct emq__engine *e, enum rd_lua script, emq_str prefix,
                                 emq_str key, struct emq__arena *mem);
void rd_arg_str(struct rd_args *a, emq_str s);
void rd_arg_i64(struct rd_args *a, int64_t v);
/* Session and sequence of a mutating act, two arguments. Also marks the act as one that writes. */
void rd_arg_call(struct rd_args *a, struct emq__call call);
/* Marks an act that writes and has no receipt (extend, promote). */
void rd_arg_writes(struct rd_args *a);
/* Marks an act that only reads and is refused like one that writes when a key of the queue belongs to something
 * else. */
void rd_arg_looks(struct rd_args *a);
/* B and X of a further queue, two arguments. On a cluster it must be in the slot of the first one;
 * rd_eval() says so otherwise and sends nothing. */
void rd_arg_queue(struct rd_args *a, emq_str prefix, emq_str queue);
/* No memory while building shows here. Runs the script; EMQ_OK gives its array. Negative: as
 * engine.h says; UNAVAIL means that not one script ran, IN_DOUBT that it may have. */
emq_status rd_eval(struct rd_args *a, const struct rd_reply **out, emq_error *err);

/* On a cluster: is this key in the slot of the queue that the script is for? Always true elsewhere. */
bool rd_key_is_near(const struct rd_args *a, emq_str key);
/* On a cluster: may one script touch both queues? Always true elsewhere. An act that serves queues of
 * several slots (extend) runs its script once for each. */
bool rd_same_slot(struct emq__engine *e, emq_str prefix_a, emq_str queue_a, emq_str prefix_b,
                  emq_str queue_b);
/* Acts on the whole store ask every node: how many there are (1 without a cluster), and rd_eval() on
 * one of them, 0..n-1. */
size_t rd_nodes(struct emq__engine *e);
emq_status rd_eval_node(struct rd_args *a, size_t node, const struct rd_reply **out,
                        emq_error *err);

/* ---- the acts, one file each ------------------------------------------------------------------ */

#define RD_ACT_DECLARE(act, mutating)                                          \
    emq_status rd_##act(struct emq__engine *, const struct emq__##act##_req *, \
                        struct emq__##act##_res *, struct emq__arena *mem, emq_error *err);
EMQ__ACTS(RD_ACT_DECLARE)
#undef RD_ACT_DECLARE

/* A job from the flat HGETALL array that a script answered, and what the script knows beside. */
struct rd_job_extra {
    emq_str prefix, queue, id, token;
    int64_t due_at_ms, lock_left_ms;
    int32_t state;
    bool next_run;
};
struct emq__job *rd_job_read(const struct rd_reply *hash, const struct rd_job_extra *x,
                             struct emq__arena *mem);

#endif
