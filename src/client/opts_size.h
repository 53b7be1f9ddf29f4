/* SPDX-License-Identifier: MIT
 *
 * The size rule of public structs, in one place: an older caller's shorter struct gets defaults for
 * what it lacks; a newer caller's longer one is accepted as long as what we don't know is zero.
 */
#ifndef EMQ_CLIENT_OPTS_SIZE_H
#define EMQ_CLIENT_OPTS_SIZE_H

#include "base/error.h"
#include "model/check.h"

/* Copies *src, a struct that starts with its size, to *dst of our size. src == NULL: all defaults.
 * `what` is the type's name for the error. */
static inline emq_status emq__opts_take(void *dst, size_t dst_size, const void *src,
                                        const char *where, const char *what, emq_error *err)
{
    emq_status s = emq__sized_read(dst, dst_size, sizeof(size_t), src, what, err);

    if (s != EMQ_OK && err)
        (void)snprintf(err->where, sizeof err->where, "%s", where);
    return s;
}
#define EMQ__OPTS_TAKE(dst, src, where, type, err) \
    emq__opts_take((dst), sizeof(type), (src), (where), #type, (err))

/* The same for structs that are written to: is the caller's size usable? NULL is. */
static inline emq_status emq__out_check(const void *out, const char *where, const char *what,
                                        emq_error *err)
{
    size_t size;

    if (!out)
        return EMQ_OK;
    memcpy(&size, out, sizeof size);
    if (size < sizeof size || size > EMQ__SIZED_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "%s.size is %zu: initialise it with { sizeof(%s) }", what, size, what);
    return EMQ_OK;
}

/* Writes our struct to the caller's, as far as it reaches; what the caller knows beyond is
 * zeroed. */
static inline void emq__out_put(void *out, const void *ours, size_t our_size)
{
    size_t size;

    if (!out)
        return;
    memcpy(&size, out, sizeof size);
    memset((unsigned char *)out + sizeof size, 0, size - sizeof size);
    if (size > our_size)
        memcpy((unsigned char *)out + sizeof size, (const unsigned char *)ours + sizeof size,
               our_size - sizeof size);
    else
        memcpy((unsigned char *)out + sizeof size, (const unsigned char *)ours + sizeof size,
               size - sizeof size);
}

#endif
