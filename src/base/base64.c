/* SPDX-License-Identifier: MIT
 *
 * Base64 by RFC 4648 section 4. Decoding is strict, so that a value has exactly one text: padding
 * is required, no white space, no stray bits.
 */
#include "base/json.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode3(const unsigned char *in, size_t n, char out[4])
{
    uint32_t v = (uint32_t)in[0] << 16 | (n > 1 ? (uint32_t)in[1] << 8 : 0) | (n > 2 ? in[2] : 0);

    out[0] = alphabet[v >> 18];
    out[1] = alphabet[v >> 12 & 63];
    out[2] = n > 1 ? alphabet[v >> 6 & 63] : '=';
    out[3] = n > 2 ? alphabet[v & 63] : '=';
}

void emq__base64(struct emq__buf *b, emq_str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    char chunk[1024];
    size_t used = 0;

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        encode3(p + i, n, chunk + used);
        used += 4;
        if (used == sizeof chunk) {
            emq__buf_add(b, chunk, used);
            used = 0;
        }
    }
    emq__buf_add(b, chunk, used);
}

/* The six bits of a letter; -1 for anything else. */
static int bits_of(char ch)
{
    if (ch >= 'A' && ch <= 'Z')
        return ch - 'A';
    if (ch >= 'a' && ch <= 'z')
        return ch - 'a' + 26;
    if (ch >= '0' && ch <= '9')
        return ch - '0' + 52;
    return ch == '+' ? 62 : ch == '/' ? 63 : -1;
}

/* Letters to bytes: 4 to 3, 3 to 2, 2 to 1. */
static bool decode4(const char *in, size_t letters, char *out)
{
    uint32_t v = 0;

    for (size_t i = 0; i < 4; i++) {
        int bits = i < letters ? bits_of(in[i]) : 0;
        if (bits < 0)
            return false;
        v = v << 6 | (uint32_t)bits;
    }
    if ((letters == 3 && (v & 0xFF)) || (letters == 2 && (v & 0xFFFF)))
        return false;
    for (size_t i = 0; i < letters - 1; i++)
        out[i] = (char)(v >> (16 - 8 * i) & 0xFF);
    return true;
}

bool emq__base64_decode(emq_str text, struct emq__arena *mem, emq_str *out)
{
    if (text.len % 4 != 0)
        return false;
    if (text.len == 0) {
        *out = emq_strn("", 0);
        return true;
    }
    size_t pad = text.ptr[text.len - 1] != '=' ? 0 : text.ptr[text.len - 2] != '=' ? 1 : 2;
    size_t n = text.len / 4 * 3 - pad;
    char *p = emq__arena_alloc(mem, n + 1);
    if (!p)
        return false;
    for (size_t i = 0, at = 0; i < text.len; i += 4, at += 3) {
        size_t letters = i + 4 == text.len ? 4 - pad : 4;
        if (!decode4(text.ptr + i, letters, p + at))
            return false;
    }
    p[n] = '\0';
    *out = emq_strn(p, n);
    return true;
}
