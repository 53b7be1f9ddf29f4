/* SPDX-License-Identifier: MIT
 *
 * Appends JSON to a buffer. Whatever bytes come in, what goes out is valid JSON and valid UTF-8.
 */
#include "base/json.h"

#include "base/json_scan.h"
#include "base/utf8.h"

void emq__json_sep(struct emq__buf *b)
{
    if (b->len == 0)
        return;
    char last = b->ptr[b->len - 1];
    if (last != '{' && last != '[' && last != ':')
        emq__buf_char(b, ',');
}

void emq__json_key(struct emq__buf *b, const char *name)
{
    emq__json_sep(b);
    emq__json_quote(b, emq_cstr(name));
    emq__buf_char(b, ':');
}

static void quote_escape(struct emq__buf *b, unsigned char ch)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 0, '0', '0', 0, 0};
    size_t n = 2;

    switch (ch) {
    case '"':
    case '\\': text[1] = (char)ch; break;
    case '\b': text[1] = 'b'; break;
    case '\f': text[1] = 'f'; break;
    case '\n': text[1] = 'n'; break;
    case '\r': text[1] = 'r'; break;
    case '\t': text[1] = 't'; break;
    default:
        text[1] = 'u';
        text[4] = hex[ch >> 4];
        text[5] = hex[ch & 15];
        n = 6;
        break;
    }
    emq__buf_add(b, text, n);
}

void emq__json_quote(struct emq__buf *b, emq_str utf8)
{
    size_t from = 0, i = 0; /* what lies between is copied as it is */

    emq__buf_char(b, '"');
    for (;;) {
        i = emq__json_plain(utf8, i);
        if (i >= utf8.len)
            break;
        unsigned char ch = (unsigned char)utf8.ptr[i];
        bool valid = true;
        size_t n = emq__utf8_step(utf8.ptr + i, utf8.len - i, &valid);
        if (valid && ch >= 0x80) {
            i += n;
            continue;
        }
        emq__buf_add(b, utf8.ptr + from, i - from);
        if (valid)
            quote_escape(b, ch);
        else
            emq__buf_text(b, EMQ__UTF8_REPLACEMENT);
        i += n;
        from = i;
    }
    if (utf8.len > from)
        emq__buf_add(b, utf8.ptr + from, utf8.len - from);
    emq__buf_char(b, '"');
}

void emq__json_line(struct emq__buf *b, emq_str valid_json)
{
    size_t from = b->len;

    emq__buf_str(b, valid_json);
    for (size_t i = from; i < b->len && !b->failed; i++)
        if (b->ptr[i] == '\n' || b->ptr[i] == '\r')
            b->ptr[i] = ' ';
}

void emq__json_i64_member(struct emq__buf *b, const char *name, int64_t v)
{
    emq__json_key(b, name);
    emq__buf_i64(b, v);
}

void emq__json_i64_member_if(struct emq__buf *b, const char *name, int64_t v)
{
    if (v)
        emq__json_i64_member(b, name, v);
}
