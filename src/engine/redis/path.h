/* SPDX-License-Identifier: MIT
 *
 * What the acts of a job's path share. Private to this folder.
 */
#ifndef EMQ_ENGINE_REDIS_PATH_H
#define EMQ_ENGINE_REDIS_PATH_H

#include "engine/redis/effect.h"
#include "engine/redis/redis.h"

/* ---- payload.c: bytes as BullMQ's JSON ------------------------------------------------------------ */

/* The JSON text of a payload, and "", "text" or "base64": what it took to make one of its bytes.
 * An absent payload is null. false: no memory. */
bool rd_encode(struct emq__payload p, struct emq__arena *mem, emq_str *json, emq_str *encoding);
/* The other way round. JSON of others that is none is taken as the bytes that it is. false: no memory. */
bool rd_decode(emq_str json, emq_str encoding, struct emq__arena *mem, struct emq__payload *out);
/* opts with the member "emqEnc" behind its last one; *marked = false when it is no object that could
 * hold it. ptr NULL: no memory. lua/write.lua does the same. */
emq_str rd_opts_mark(emq_str opts, emq_str encoding, struct emq__arena *mem, bool *marked);
/* Takes it off again. *encoding is "" when there is none. ptr NULL: no memory. */
emq_str rd_opts_unmark(emq_str opts, struct emq__arena *mem, emq_str *encoding);

/* ---- act_settle.c ----------------------------------------------------------------------------------- */

/* One entry as lua/lib/ends.lua reads it. */
emq_status rd_arg_entry(struct rd_args *a, const struct emq__settle_entry *en,
                        struct emq__arena *mem, emq_error *err);

/* ---- act_effect.c ----------------------------------------------------------------------------------- */

emq_status rd_effect(struct emq__engine *e, const struct emq__effect_req *req,
                     const struct emq__redis_command *commands, size_t n,
                     struct emq__effect_res *res, struct emq__arena *mem, emq_error *err);

/* ---- job.c ------------------------------------------------------------------------------------------ */

/* The fence of a token, 0 = it has none. */
int64_t rd_fence_of(emq_str token);

/* ---- act_extend.c ----------------------------------------------------------------------------------- */

/* The store's time, for acts that have nothing to do. */
emq_status rd_now(struct emq__engine *e, int64_t *now_ms, struct emq__arena *mem, emq_error *err);

/* ---- act_take.c ------------------------------------------------------------------------------------- */

emq_status rd_take_check(const struct emq__take *t, emq_error *err);
/* The seven arguments of lua/lib/take.lua. NULL: takes nothing. */
void rd_arg_take(struct rd_args *a, struct emq__engine *e, emq_str prefix, emq_str queue,
                 const struct emq__take *t, struct emq__arena *mem);
/* What take() answered, which begins at items[at]. */
struct rd_hand_out {
    emq_str prefix, queue;
    const struct emq__take *take;
    int64_t now_ms; /* of that answer */
};
emq_status rd_taken_read(const struct rd_reply *r, size_t at, const struct rd_hand_out *by,
                         struct emq__arena *mem, struct emq__taken *out, emq_error *err);
/* The key of the set of queues that a worker has taken from; "" when no script could see both, on a
 * cluster whose braces are in the queue's name. */
emq_str rd_claims_key(struct emq__engine *e, emq_str prefix, emq_str queue, emq_str worker,
                      struct emq__arena *mem);

#endif
