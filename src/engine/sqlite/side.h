/* SPDX-License-Identifier: MIT
 *
 * The side file `<db>-emq`: bells (words shared by all processes) and the bytes that turns lock. It
 * holds no truth: whoever finds none, or one that is no use, works without.
 */
#ifndef EMQ_ENGINE_SQLITE_SIDE_H
#define EMQ_ENGINE_SQLITE_SIDE_H

#include "engine/sqlite/sqlite.h"

#include <stdatomic.h>

struct sq_file;

enum { SQ_BELLS = 4096 };
/* The first bytes are what turns lock (turn.c): whoever uses the file holds SQ_BYTE_USER shared. */
enum { SQ_BYTE_Q = 0, SQ_BYTE_M = 1, SQ_BYTE_USER = 2 };

/* A descriptor of the side file, made if it is not there; or -1 with errno. */
int sq_side_open(const struct sq_file *f);
/* Maps it; *words: SQ_BELLS of them. *map NULL: other processes can't be rung, and why was said to the
 * log. Fails only for want of a descriptor or memory. */
emq_status sq_side_map(const struct sq_file *f, const struct emq__log *log, void **map,
                       _Atomic uint32_t **words, emq_error *err);
void sq_side_unmap(void *map);

#endif
