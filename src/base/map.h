/* SPDX-License-Identifier: MIT
 *
 * A hash map from byte strings to pointers. Keys are copied, values are not owned. Not thread-safe.
 */
#ifndef EMQ_BASE_MAP_H
#define EMQ_BASE_MAP_H

#include "base/base.h"

struct emq__map_slot;
struct emq__map {
    struct emq__map_slot *slots;
    size_t len, cap;
};

/* {0} is an empty map. */
void emq__map_free(struct emq__map *m);
void *emq__map_get(const struct emq__map *m, emq_str key); /* NULL = absent */
bool emq__map_put(struct emq__map *m, emq_str key,
                  void *value);                       /* value != NULL; false: no memory */
void *emq__map_take(struct emq__map *m, emq_str key); /* removes; NULL = was absent */
/* Start with *pos = 0; false at the end. The map must not change meanwhile. */
bool emq__map_next(const struct emq__map *m, size_t *pos, emq_str *key, void **value);
uint64_t emq__hash(emq_str s); /* also used for bell slots: the same in every process and version */

#endif
