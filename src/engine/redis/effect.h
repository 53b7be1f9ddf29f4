/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on this store, for echomq/effect.h.
 */
#ifndef EMQ_ENGINE_REDIS_EFFECT_H
#define EMQ_ENGINE_REDIS_EFFECT_H

#include "engine/engine.h"

struct emq__redis_command {
    const emq_str *args;
    size_t n;
};

/* One script: verifies the lock, the commands and the types of their keys, does them, settles. `e` is the engine
 * itself, without decorators. EMQ_FAILED: a command failed after others were done; the job has failed for good.
 * E_INVALID names the command; nothing happened. */
emq_status emq__redis_effect(struct emq__engine *e, const struct emq__effect_req *req,
                             const struct emq__redis_command *commands, size_t n,
                             struct emq__effect_res *res, struct emq__arena *mem, emq_error *err);

#endif
