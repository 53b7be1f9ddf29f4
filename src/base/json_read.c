/* SPDX-License-Identifier: MIT
 *
 * Reads values out of a text that emq__json_valid() accepted. No reader goes beyond the slice it
 * was given: a text that was never checked gives wrong answers, not wrong memory.
 */
#include "base/json.h"

#include "base/json_scan.h"
#include "base/number.h"
#include "base/str.h"
#include "base/utf8.h"

/* Offset behind the string that opens at i. */
static size_t skip_string(emq_str s, size_t i)
{
    for (i++; i < s.len; i++) {
        const char *quote = memchr(s.ptr + i, '"', s.len - i);
        if (!quote)
            return s.len;
        size_t at = (size_t)(quote - s.ptr), slashes = 0;
        while (at - slashes > i && s.ptr[at - slashes - 1] == '\\')
            slashes++;
        i = at;
        if (slashes % 2 == 0)
            return at + 1;
    }
    return s.len;
}

static size_t skip_container(emq_str s, size_t i)
{
    size_t depth = 0;

    while (i < s.len) {
        switch (s.ptr[i]) {
        case '"': i = skip_string(s, i); continue;
        case '{':
        case '[': depth++; break;
        case '}':
        case ']': depth--; break;
        default: break;
        }
        i++;
        if (depth == 0)
            return i;
    }
    return s.len;
}

/* The value at i; a type of 0 when there is none. */
static struct emq__json value_at(emq_str s, size_t i)
{
    struct emq__json v = {0};
    size_t end = i;

    if (i >= s.len)
        return v;
    switch (s.ptr[i]) {
    case '{':
    case '[':
        v.type = s.ptr[i] == '{' ? EMQ__JSON_OBJECT : EMQ__JSON_ARRAY;
        end = skip_container(s, i);
        break;
    case '"':
        v.type = EMQ__JSON_STRING;
        end = skip_string(s, i);
        break;
    case 't':
    case 'n':
        v.type = s.ptr[i] == 't' ? EMQ__JSON_TRUE : EMQ__JSON_NULL;
        end = i + 4;
        break;
    case 'f':
        v.type = EMQ__JSON_FALSE;
        end = i + 5;
        break;
    default: {
        bool valid;
        end = i + emq__number_scan(emq_strn(s.ptr + i, s.len - i), &valid);
        if (!valid)
            return v;
        v.type = EMQ__JSON_NUMBER;
        break;
    }
    }
    if (end > s.len)
        return (struct emq__json){0};
    v.raw = emq_strn(s.ptr + i, end - i);
    return v;
}

struct emq__json emq__json_root(emq_str valid_text)
{
    return value_at(valid_text, emq__json_space(valid_text, 0));
}

bool emq__json_next(struct emq__json container, size_t *pos, emq_str *raw_key,
                    struct emq__json *value)
{
    emq_str s = container.raw;
    bool object = container.type == EMQ__JSON_OBJECT;
    emq_str key = {"", 0};

    if (!object && container.type != EMQ__JSON_ARRAY)
        return false;
    size_t i = emq__json_space(s, *pos ? *pos : 1);
    if (*pos != 0) {
        if (i >= s.len || s.ptr[i] != ',')
            return false;
        i = emq__json_space(s, i + 1);
    }
    if (object) {
        if (i >= s.len || s.ptr[i] != '"')
            return false;
        size_t end = skip_string(s, i);
        if (end - i < 2)
            return false;
        key = emq_strn(s.ptr + i + 1, end - i - 2);
        i = emq__json_space(s, end);
        if (i >= s.len || s.ptr[i] != ':')
            return false;
        i = emq__json_space(s, i + 1);
    }
    struct emq__json v = value_at(s, i);
    if (v.raw.len == 0)
        return false;
    *pos = i + v.raw.len;
    if (raw_key)
        *raw_key = key;
    if (value)
        *value = v;
    return true;
}

static uint32_t hex4(emq_str s, size_t i)
{
    uint32_t v = 0;

    for (size_t k = i; k < i + 4 && k < s.len; k++) {
        char ch = s.ptr[k];
        uint32_t digit = ch <= '9' ? (uint32_t)(ch - '0') : (uint32_t)((ch | 0x20) - 'a' + 10);
        v = v << 4 | (digit & 15);
    }
    return v;
}

/* The code behind `\u`; *i is at the first hex digit and moves behind the escape, or behind both
 * halves of a surrogate pair. A lone half is returned as it is. */
static uint32_t read_unicode(emq_str raw, size_t *i)
{
    uint32_t code = hex4(raw, *i);

    *i = raw.len - *i < 4 ? raw.len : *i + 4;
    if (code >= 0xD800 && code <= 0xDBFF && raw.len - *i >= 6 && raw.ptr[*i] == '\\' &&
        raw.ptr[*i + 1] == 'u') {
        uint32_t low = hex4(raw, *i + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *i += 6;
            return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return code;
}

static bool is_surrogate(uint32_t code)
{
    return code >= 0xD800 && code <= 0xDFFF;
}

/* Decodes the piece at *i, an escape or a run of plain bytes: returned as a slice of raw or of
 * room. Never longer than the piece itself. */
static emq_str read_piece(emq_str raw, size_t *i, char room[4])
{
    size_t from = *i;

    if (raw.ptr[from] != '\\' || from + 1 >= raw.len) {
        const char *slash = memchr(raw.ptr + from, '\\', raw.len - from);
        *i = slash && slash != raw.ptr + from ? (size_t)(slash - raw.ptr) : raw.len;
        return emq_strn(raw.ptr + from, *i - from);
    }
    char ch = raw.ptr[from + 1];
    *i = from + 2;
    switch (ch) {
    case 'b': ch = '\b'; break;
    case 'f': ch = '\f'; break;
    case 'n': ch = '\n'; break;
    case 'r': ch = '\r'; break;
    case 't': ch = '\t'; break;
    case 'u': {
        uint32_t code = read_unicode(raw, i);
        return emq_strn(room, emq__utf8_put(is_surrogate(code) ? 0xFFFD : code, room));
    }
    default: break;
    }
    room[0] = ch;
    return emq_strn(room, 1);
}

static bool key_is(emq_str raw, emq_str name)
{
    char room[4];

    if (raw.len == 0 || !memchr(raw.ptr, '\\', raw.len))
        return emq__str_eq(raw, name);
    for (size_t i = 0; i < raw.len;) {
        emq_str piece = read_piece(raw, &i, room);
        if (piece.len > name.len || memcmp(piece.ptr, name.ptr, piece.len) != 0)
            return false;
        name = emq_strn(name.ptr + piece.len, name.len - piece.len);
    }
    return name.len == 0;
}

bool emq__json_get(struct emq__json object, const char *name, struct emq__json *value)
{
    size_t pos = 0;
    emq_str key, wanted = emq_cstr(name);
    struct emq__json v;
    bool found = false;

    if (object.type != EMQ__JSON_OBJECT)
        return false;
    while (emq__json_next(object, &pos, &key, &v)) {
        if (key_is(key, wanted)) {
            *value = v;
            found = true;
        }
    }
    return found;
}

bool emq__json_unescape(emq_str raw, struct emq__arena *mem, emq_str *out)
{
    char room[4];
    size_t n = 0;

    if (raw.len == 0 || !memchr(raw.ptr, '\\', raw.len)) {
        emq_str copy = emq__arena_str(mem, raw);
        if (copy.ptr)
            *out = copy;
        return copy.ptr != NULL;
    }
    char *p = raw.len == SIZE_MAX ? NULL : emq__arena_alloc(mem, raw.len + 1);
    if (!p)
        return false;
    for (size_t i = 0; i < raw.len;) {
        emq_str piece = read_piece(raw, &i, room);
        memcpy(p + n, piece.ptr, piece.len);
        n += piece.len;
    }
    p[n] = '\0';
    *out = emq_strn(p, n);
    return true;
}

bool emq__json_str(struct emq__json v, struct emq__arena *mem, emq_str *out)
{
    if (v.type != EMQ__JSON_STRING || v.raw.len < 2)
        return false;
    return emq__json_unescape(emq_strn(v.raw.ptr + 1, v.raw.len - 2), mem, out);
}

bool emq__json_exact(struct emq__json v)
{
    if (v.type != EMQ__JSON_STRING)
        return false;
    for (size_t i = 0; i + 1 < v.raw.len;) {
        const char *slash = memchr(v.raw.ptr + i, '\\', v.raw.len - 1 - i);
        if (!slash)
            break;
        i = (size_t)(slash - v.raw.ptr) + 2;
        if (slash[1] == 'u' && is_surrogate(read_unicode(v.raw, &i)))
            return false;
    }
    return true;
}

bool emq__json_i64(struct emq__json v, int64_t *out)
{
    return v.type == EMQ__JSON_NUMBER && emq__number_i64(v.raw, out);
}

bool emq__json_double(struct emq__json v, double *out)
{
    return v.type == EMQ__JSON_NUMBER && emq__number_double(v.raw, out);
}
