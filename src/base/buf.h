/* SPDX-License-Identifier: MIT
 *
 * A growing byte buffer with a ceiling. Appending never fails loudly: `failed` is sticky and says
 * why, so that a writer checks once at the end.
 */
#ifndef EMQ_BASE_BUF_H
#define EMQ_BASE_BUF_H

#include "base/base.h"

struct emq__buf {
    char *ptr; /* NUL behind len once something was appended */
    size_t len, cap, max;
    emq_status failed; /* EMQ_OK, EMQ_E_NOMEM, or EMQ_E_INVALID when max would be passed */
};

void emq__buf_init(struct emq__buf *b, size_t max);
void emq__buf_free(struct emq__buf *b);
void emq__buf_clear(struct emq__buf *b); /* keeps the memory; clears `failed` */
void emq__buf_add(struct emq__buf *b, const void *p, size_t n);
void emq__buf_str(struct emq__buf *b, emq_str s);
void emq__buf_text(struct emq__buf *b, const char *s);
void emq__buf_char(struct emq__buf *b, char ch);
void emq__buf_i64(struct emq__buf *b, int64_t v);
void emq__buf_printf(struct emq__buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline emq_str emq__buf_view(const struct emq__buf *b)
{
    return emq_strn(b->ptr ? b->ptr : "", b->len);
}

#endif
