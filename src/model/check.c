/* SPDX-License-Identifier: MIT
 *
 * Shared checks. Every refusal names the value that was given and what is allowed.
 */
#include "model/check.h"

#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "model/duration.h"

#include <inttypes.h>

const char *emq__shown(emq_str value, char out[EMQ__SHOWN_MAX])
{
    /* A length that no object can have is a mistake: what stands there is not the caller's text. */
    bool possible = value.len == 0 || (value.ptr && value.len <= PTRDIFF_MAX);
    char front[1024]; /* before it is cut: the '@' that ends a password may stand far behind */
    size_t len = value.len < sizeof front ? value.len : sizeof front;

    if (possible && len > 0)
        memcpy(front, value.ptr, len);
    (void)emq__hide_secrets(front, possible ? len : 0);
    size_t n =
        emq__text_clean(possible ? emq_strn(front, len) : emq_cstr("?"), EMQ__SHOWN_MAX - 9, out);

    for (size_t i = 0; i < n; i++)
        if (out[i] == '\n' || out[i] == '\t' || out[i] == '\0')
            out[i] = '?';
    out[n] = '\0';
    return out;
}

emq_status emq__check_range(const char *what, int64_t value, int64_t lo, int64_t hi,
                            const char *unit, emq_error *err)
{
    if (value >= lo && value <= hi)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, "options",
                     "%s %" PRId64 "%s is outside %" PRId64 "..%" PRId64 "%s%s", what, value, unit,
                     lo, hi, unit, hi == EMQ__SPAN_MAX_MS ? " (100 years)" : "");
}

emq_status emq__sized_read(void *dst, size_t dst_size, size_t min_size, const void *src,
                           const char *what, emq_error *err)
{
    size_t size = 0;

    memset(dst, 0, dst_size);
    if (src) {
        memcpy(&size, src, sizeof size);
        if (size < min_size || size > EMQ__SIZED_MAX || size % _Alignof(int64_t) != 0)
            return emq__fail(err, EMQ_E_INVALID, 0, "options",
                             "size %zu of %s is outside %zu..%d; start the struct with "
                             "{ sizeof(%s) }",
                             size, what, min_size, (int)EMQ__SIZED_MAX, what);
        size_t n = size < dst_size ? size : dst_size;
        const unsigned char *bytes = src;
        for (size_t i = n; i < size; i++)
            if (bytes[i] != 0)
                return emq__fail(err, EMQ_E_INVALID, 0, "options",
                                 "byte %zu of %s is set, but this library knows %zu bytes of it: "
                                 "an option of a newer version",
                                 i, what, dst_size);
        memcpy(dst, src, n);
    }
    memcpy(dst, &dst_size, sizeof dst_size);
    return EMQ_OK;
}
