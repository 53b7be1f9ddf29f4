/* SPDX-License-Identifier: MIT
 *
 * The C half of json_oracle.js. Reads texts from stdin, each as a 32-bit little-endian length and
 * its bytes; writes for each a byte (1 valid, 0 not), a length and the value written anew through
 * our readers and writers (nothing for invalid texts and those deeper than DEPTH_MAX).
 */
#include "base/json.h"

#include <stdio.h>

enum { DEPTH_MAX = 100 };

/* A member's value, or a scalar. */
static bool dump(struct emq__buf *out, struct emq__arena *mem, struct emq__json v, int depth)
{
    struct emq__json member;
    emq_str text, key;
    double number;
    size_t pos = 0;
    bool object = v.type == EMQ__JSON_OBJECT;

    if (depth > DEPTH_MAX)
        return false;
    switch (v.type) {
    case EMQ__JSON_STRING:
        if (!emq__json_str(v, mem, &text))
            return false;
        emq__json_quote(out, text);
        return true;
    case EMQ__JSON_NUMBER:
        if (emq__json_double(v, &number))
            emq__json_double_out(out, number);
        else
            emq__buf_str(out, v.raw);
        return true;
    case EMQ__JSON_NULL:
    case EMQ__JSON_TRUE:
    case EMQ__JSON_FALSE: emq__buf_str(out, v.raw); return true;
    case EMQ__JSON_ARRAY:
    case EMQ__JSON_OBJECT: break;
    }
    emq__buf_char(out, object ? '{' : '[');
    while (emq__json_next(v, &pos, &key, &member)) {
        emq__json_sep(out);
        if (object) {
            if (!emq__json_unescape(key, mem, &text))
                return false;
            emq__json_quote(out, text);
            emq__buf_char(out, ':');
        }
        if (!dump(out, mem, member, depth + 1))
            return false;
    }
    emq__buf_char(out, object ? '}' : ']');
    return true;
}

static bool read_u32(uint32_t *v)
{
    unsigned char b[4];

    if (fread(b, 1, sizeof b, stdin) != sizeof b)
        return false;
    *v = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return true;
}

static bool answer(bool valid, emq_str value)
{
    uint32_t n = (uint32_t)value.len;
    unsigned char head[5] = {valid, (unsigned char)(n & 255), (unsigned char)(n >> 8 & 255),
                             (unsigned char)(n >> 16 & 255), (unsigned char)(n >> 24)};

    return fwrite(head, 1, sizeof head, stdout) == sizeof head &&
           fwrite(value.ptr, 1, value.len, stdout) == value.len;
}

int main(void)
{
    enum { TEXT_MAX = 64 * 1024 * 1024 };
    struct emq__buf out;
    uint32_t len;
    bool ok = true;

    emq__buf_init(&out, (size_t)4 * TEXT_MAX);
    while (ok && read_u32(&len)) {
        struct emq__arena mem = {0};
        char *text = len <= TEXT_MAX ? malloc(len ? len : 1) : NULL;
        ok = text && fread(text, 1, len, stdin) == len;
        if (ok) {
            bool valid = emq__json_valid(emq_strn(text, len), NULL);
            emq__buf_clear(&out);
            if (!valid || !dump(&out, &mem, emq__json_root(emq_strn(text, len)), 0))
                emq__buf_clear(&out);
            ok = !out.failed && answer(valid, emq__buf_view(&out));
        }
        free(text);
        emq__arena_free(&mem);
    }
    emq__buf_free(&out);
    return ok && !ferror(stdin) && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
