/* SPDX-License-Identifier: MIT
 *
 * Which commands an effect may have, and what is known of each before it is done.
 */
#ifndef EMQ_ENGINE_REDIS_COMMANDS_H
#define EMQ_ENGINE_REDIS_COMMANDS_H

#include "engine/redis/effect.h"

struct rd_command_rule;

/* By its name; NULL: an effect may not have it. */
const struct rd_command_rule *rd_command_rule(emq_str name);
/* Its number of words, and the words that must be numbers. at: of the command, from 1; E_INVALID names it. */
emq_status rd_command_check(const struct rd_command_rule *rule, const struct emq__redis_command *c,
                            size_t at, emq_error *err);
/* The place of the nth key among the words, 0 = there is no such key. */
size_t rd_command_key(const struct rd_command_rule *rule, const struct emq__redis_command *c,
                      size_t n);
/* Two letters for lua/effect.lua: the type of its keys (s string, h hash, l list, t set, z zset, x stream, a any), and
 * what it does to them: w writes, o whatever was there, d removes, i and f change a number that is there,
 * e nothing of that. */
const char *rd_command_known(const struct rd_command_rule *rule);

#endif
