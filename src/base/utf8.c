/* SPDX-License-Identifier: MIT
 *
 * UTF-8 by RFC 3629, table 3-7 of the Unicode standard: no surrogates, no overlong forms, nothing
 * above U+10FFFF.
 */
#include "base/utf8.h"

#include "base/str.h"

size_t emq__utf8_step(const char *p, size_t n, bool *valid)
{
    const unsigned char *b = (const unsigned char *)p;
    unsigned char low = 0x80, high = 0xBF; /* bounds of the second byte */
    size_t len;

    *valid = true;
    if (b[0] < 0x80)
        return 1;
    if (b[0] >= 0xC2 && b[0] <= 0xDF) {
        len = 2;
    } else if ((b[0] & 0xF0) == 0xE0) {
        len = 3;
        if (b[0] == 0xE0)
            low = 0xA0;
        else if (b[0] == 0xED)
            high = 0x9F;
    } else if (b[0] >= 0xF0 && b[0] <= 0xF4) {
        len = 4;
        if (b[0] == 0xF0)
            low = 0x90;
        else if (b[0] == 0xF4)
            high = 0x8F;
    } else {
        *valid = false;
        return 1;
    }
    for (size_t i = 1; i < len; i++) {
        if (i >= n || b[i] < low || b[i] > high) {
            *valid = false;
            return i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

size_t emq__utf8_ascii(const char *p, size_t n)
{
    size_t i = 0;

    while (n - i >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p + i, sizeof word);
        if (word & 0x8080808080808080u)
            break;
        i += sizeof word;
    }
    while (i < n && (unsigned char)p[i] < 0x80)
        i++;
    return i;
}

size_t emq__utf8_put(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | (code >> 12));
        out[1] = (char)(0x80 | ((code >> 6) & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (code >> 18));
    out[1] = (char)(0x80 | ((code >> 12) & 0x3F));
    out[2] = (char)(0x80 | ((code >> 6) & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

bool emq__utf8_valid(emq_str s)
{
    size_t i = 0;

    while (i < s.len) {
        bool valid = true;
        i += emq__utf8_ascii(s.ptr + i, s.len - i);
        if (i < s.len)
            i += emq__utf8_step(s.ptr + i, s.len - i, &valid);
        if (!valid)
            return false;
    }
    return true;
}

/* C0 and C1 controls and DEL: a terminal may take them for commands. len is the character's. */
static bool is_control(const char *p, size_t len)
{
    unsigned char a = (unsigned char)p[0];

    if (len == 1)
        return (a < 0x20 && a != '\t' && a != '\n') || a == 0x7F;
    return len == 2 && a == 0xC2 && (unsigned char)p[1] <= 0x9F;
}

size_t emq__text_clean(emq_str s, size_t max, char *out)
{
    static const char mark[] = " [cut]";
    size_t used = 0;

    for (size_t i = 0; i < s.len;) {
        bool valid;
        const char *put = s.ptr + i;
        size_t step = emq__utf8_step(put, s.len - i, &valid);
        size_t n = step;

        if (!valid) {
            put = EMQ__UTF8_REPLACEMENT;
            n = sizeof EMQ__UTF8_REPLACEMENT - 1;
        } else if (is_control(put, step)) {
            put = "?";
            n = 1;
        }
        if (n > max - used) {
            memcpy(out + used, mark, sizeof mark);
            return used + sizeof mark - 1;
        }
        memcpy(out + used, put, n);
        used += n;
        i += step;
    }
    out[used] = '\0';
    return used;
}
