/* SPDX-License-Identifier: MIT
 *
 * What the acts of administration and reading share. Private to this folder.
 */
#ifndef EMQ_ENGINE_REDIS_ADMIN_H
#define EMQ_ENGINE_REDIS_ADMIN_H

#include "engine/redis/redis.h"

/* A row of lua/lib/read.lua as a job; NULL when there is no memory. */
struct emq__job *rd_row_job(const struct rd_reply *row, emq_str prefix, emq_str queue,
                            struct emq__arena *mem);
/* A change as the seven arguments that lua/lib/change.lua reads; is it a kind there is? */
void rd_arg_change(struct rd_args *a, const struct emq__change *c);
emq_status rd_change_check(const struct emq__change *c, const char *where, emq_error *err);
/* The status of an act whose last slice ended with `s`: what the earlier ones did is done. */
emq_status rd_partly(emq_status s, int64_t slices, const char *where, emq_error *err);
/* The numbers of lua/lib/stats.lua, which begin at `at`; now_ms is the caller's. */
void rd_stats_read(const struct rd_reply *r, size_t at, struct emq__stats_res *out);

#endif
