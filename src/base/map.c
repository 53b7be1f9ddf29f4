/* SPDX-License-Identifier: MIT
 *
 * Open addressing with linear probing. A removal moves the following slots back, so that there are
 * no tombstones and a map that is filled and emptied for months stays as fast as a new one.
 */
#include "base/map.h"

struct emq__map_slot {
    char *key; /* owned; NULL = free slot */
    size_t key_len;
    uint64_t hash;
    void *value;
};

enum { CAP_FIRST = 16 }; /* a power of two, like every cap */

uint64_t emq__hash(emq_str s)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (size_t i = 0; i < s.len; i++) {
        h ^= (unsigned char)s.ptr[i];
        h *= 0x100000001b3u;
    }
    /* FNV's low bits mix badly on short keys: murmur3's finaliser. */
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    h ^= h >> 33;
    return h;
}

/* The slot of the key, or the free slot where it belongs. cap > len, so there is one. */
static struct emq__map_slot *find(const struct emq__map *m, emq_str key, uint64_t hash)
{
    size_t mask = m->cap - 1;

    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct emq__map_slot *s = &m->slots[i];
        if (!s->key)
            return s;
        if (s->hash == hash && s->key_len == key.len &&
            (key.len == 0 || memcmp(s->key, key.ptr, key.len) == 0))
            return s;
    }
}

static bool grow(struct emq__map *m)
{
    size_t cap;
    struct emq__map bigger = {.len = m->len};

    if (!emq__mul_size(m->cap, 2, &cap))
        return false;
    bigger.cap = cap ? cap : CAP_FIRST;
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    size_t mask = bigger.cap - 1;
    for (size_t i = 0; i < m->cap; i++) {
        const struct emq__map_slot *s = &m->slots[i];
        if (!s->key)
            continue;
        size_t at = (size_t)s->hash & mask;
        while (bigger.slots[at].key)
            at = (at + 1) & mask;
        bigger.slots[at] = *s;
    }
    free(m->slots);
    *m = bigger;
    return true;
}

void emq__map_free(struct emq__map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    *m = (struct emq__map){0};
}

void *emq__map_get(const struct emq__map *m, emq_str key)
{
    if (m->len == 0)
        return NULL;
    const struct emq__map_slot *s = find(m, key, emq__hash(key));
    return s->key ? s->value : NULL;
}

bool emq__map_put(struct emq__map *m, emq_str key, void *value)
{
    uint64_t hash = emq__hash(key);
    size_t size;

    EMQ_ASSERT(value);
    if (m->len > 0) {
        struct emq__map_slot *s = find(m, key, hash);
        if (s->key) {
            s->value = value;
            return true;
        }
    }
    /* At most three quarters full. */
    if (m->len >= m->cap / 4 * 3 && !grow(m))
        return false;
    if (!emq__add_size(key.len, 1, &size))
        return false;
    char *copy = malloc(size);
    if (!copy)
        return false;
    if (key.len)
        memcpy(copy, key.ptr, key.len);
    copy[key.len] = '\0';
    *find(m, key, hash) =
        (struct emq__map_slot){.key = copy, .key_len = key.len, .hash = hash, .value = value};
    m->len++;
    return true;
}

void *emq__map_take(struct emq__map *m, emq_str key)
{
    if (m->len == 0)
        return NULL;
    struct emq__map_slot *s = find(m, key, emq__hash(key));
    if (!s->key)
        return NULL;
    void *value = s->value;
    free(s->key);
    m->len--;

    size_t mask = m->cap - 1;
    size_t hole = (size_t)(s - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        /* A slot may move into the hole if the hole is not before its own home. */
        size_t home = (size_t)m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct emq__map_slot){0};
    return value;
}

bool emq__map_next(const struct emq__map *m, size_t *pos, emq_str *key, void **value)
{
    for (size_t i = *pos; i < m->cap; i++) {
        if (!m->slots[i].key)
            continue;
        if (key)
            *key = emq_strn(m->slots[i].key, m->slots[i].key_len);
        if (value)
            *value = m->slots[i].value;
        *pos = i + 1;
        return true;
    }
    *pos = m->cap;
    return false;
}
