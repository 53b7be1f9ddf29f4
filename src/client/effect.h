/* SPDX-License-Identifier: MIT
 *
 * What the files of effects share.
 */
#ifndef EMQ_CLIENT_EFFECT_H
#define EMQ_CLIENT_EFFECT_H

#include <echomq/effect.h>

#include "client/client.h"

enum { EMQ__STEP_MAX = 64 };

/* 0..EMQ__STEP_MAX bytes of A-Z a-z 0-9 . _ -, or E_INVALID that names it. */
emq_status emq__check_step(emq_str step, const char *where, emq_error *err);
/* How long it is known: a caller's 0 becomes what the job's options ask for; a shorter one is warned of. */
emq_status emq__effect_keep(emq_client *c, const struct emq__opts *o, int64_t *keep_ms,
                            const char *where, emq_error *err);

/* ---- effects as text: what a program hands over ------------------------------------------- */

enum { EMQ__PROBLEM_MAX = 400 };

/* The transactional effects of texts: SQL statements; Redis commands, each line a JSON array of strings. As
 * emq_effect_sqlite() and emq_effect_redis(); EMQ_FAILED of SQL: problem says which statement and why, else
 * it is empty. Several are one effect, in order; one with nothing in it is E_INVALID. */
emq_status emq__effect_sql(emq_client *c, emq_job *job, const emq_str *texts, size_t n,
                           const emq_effect_opts *opts, char problem[EMQ__PROBLEM_MAX],
                           emq_error *err);
emq_status emq__effect_commands(emq_client *c, emq_job *job, const emq_str *texts, size_t n,
                                const emq_effect_opts *opts, emq_error *err);

#endif
