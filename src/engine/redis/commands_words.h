/* SPDX-License-Identifier: MIT
 *
 * What the words of a command must be, as far as a server would refuse another one whatever its keys hold.
 */
#ifndef EMQ_ENGINE_REDIS_COMMANDS_WORDS_H
#define EMQ_ENGINE_REDIS_COMMANDS_WORDS_H

#include "engine/redis/commands.h"

/* The words of a command, and the next one to be looked at. */
struct rd_words {
    const emq_str *words;
    size_t n, at;
};

/* Looks at one word, of the kind that a letter names: NULL, and it is passed; or what it should be. */
const char *rd_word(struct rd_words *w, char kind);
/* All words behind the key, or behind the key and the value: NULL, or what the next one should be. */
typedef const char *rd_words_fn(struct rd_words *w);
rd_words_fn rd_words_of_set, rd_words_of_zadd, rd_words_of_xadd, rd_words_of_xtrim;

#endif
