/* SPDX-License-Identifier: MIT
 *
 * Formats one line for the user's log function. Lines are short and clean text: long values are
 * cut, control bytes never reach a terminal, and passwords no log.
 */
#include "base/log.h"

#include "base/secret.h"
#include "base/str.h"

#include <stdarg.h>

enum { LINE_MAX_BYTES = 1024 };

void emq__log_write(const struct emq__log *l, emq_log_level level, const char *fmt, ...)
{
    char raw[LINE_MAX_BYTES + 64];
    char line[LINE_MAX_BYTES + 8];
    va_list args;

    if (!l || !l->fn)
        return;
    va_start(args, fmt);
    int n = vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    if (n < 0)
        n = snprintf(raw, sizeof raw, "%s", fmt);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof raw)
        len = sizeof raw - 1;
    (void)emq__hide_secrets(raw, len);
    len = emq__text_clean(emq_strn(raw, len), LINE_MAX_BYTES, line);
    l->fn(l->user, (int)level, emq_strn(line, len));
}
