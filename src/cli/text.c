/* SPDX-License-Identifier: MIT
 *
 * See text.h.
 */
#include "cli/text.h"

#include "base/str.h"

#include <time.h>

void cli_print_text(emq_str s)
{
    bool utf8 = emq__utf8_valid(s);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char ch = (unsigned char)s.ptr[i];
        if ((ch < 0x20 && ch != '\n' && ch != '\t') || ch == 0x7f || (ch >= 0x80 && !utf8))
            printf("\\x%02x", ch);
        else if (utf8 && ch == 0xc2 && i + 1 < s.len && (unsigned char)s.ptr[i + 1] < 0xa0)
            printf("\\x%02x", (unsigned char)s.ptr[++i]); /* C1 controls */
        else
            putchar(ch);
    }
}

char *cli_time(int64_t at_ms, char out[40])
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm tm;
    if (!localtime_r(&seconds, &tm)) {
        snprintf(out, 40, "%lld ms", (long long)at_ms);
        return out;
    }
    char day[24];
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(out, 40, "%s.%03d", day, (int)(at_ms % 1000));
    return out;
}

char *cli_cell(emq_str s, size_t max, char *out, size_t cap)
{
    char clean[512];
    size_t want = max < sizeof clean - 16 ? max : sizeof clean - 16;
    size_t n = emq__text_clean(s, want, clean);
    if (n >= cap)
        n = cap - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = clean[i] == '\n' || clean[i] == '\t' ? ' ' : clean[i];
    out[n] = '\0';
    return out;
}
