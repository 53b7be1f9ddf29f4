/* SPDX-License-Identifier: MIT
 *
 * Payloads and options as BullMQ's programs can read them (ARCHITECTURE.md section 8). The one invariant:
 * what was given comes back, byte for byte.
 */
#include "engine/redis/path.h"

#include "base/json.h"
#include "base/str.h"

#define MEMBER "\"emqEnc\":\""

static bool keep_buf(struct emq__buf *b, struct emq__arena *mem, emq_str *out)
{
    *out = b->failed ? (emq_str){0} : emq__arena_str(mem, emq__buf_view(b));
    emq__buf_free(b);
    return out->ptr != NULL;
}

bool rd_encode(struct emq__payload p, struct emq__arena *mem, emq_str *json, emq_str *encoding)
{
    struct emq__buf b;

    *encoding = EMQ_STR_LIT("");
    if (p.kind != EMQ__KIND_TEXT && p.kind != EMQ__KIND_BYTES) {
        *json = p.kind == EMQ__KIND_JSON ? p.bytes : EMQ_STR_LIT("null");
        return true;
    }
    emq__buf_init(&b, SIZE_MAX);
    if (p.kind == EMQ__KIND_TEXT) {
        *encoding = EMQ_STR_LIT("text");
        emq__json_quote(&b, p.bytes);
    } else {
        *encoding = EMQ_STR_LIT("base64");
        emq__buf_char(&b, '"');
        emq__base64(&b, p.bytes);
        emq__buf_char(&b, '"');
    }
    return keep_buf(&b, mem, json);
}

bool rd_decode(emq_str json, emq_str encoding, struct emq__arena *mem, struct emq__payload *out)
{
    struct emq__json v;
    bool text = emq__str_is(encoding, "text"), base64 = emq__str_is(encoding, "base64");

    if (json.len == 0) /* BullMQ reads nothing as an empty object */
        json = EMQ_STR_LIT("{}");
    out->kind = emq__kind_of(json);
    out->bytes = json;
    if (out->kind != EMQ__KIND_JSON || !(text || base64))
        return true;
    v = emq__json_root(json);
    if (v.type != EMQ__JSON_STRING)
        return true;
    emq_str s;
    if (!emq__json_str(v, mem, &s))
        return false;
    if (base64 && !emq__base64_decode(s, mem, &s))
        return true;
    *out = (struct emq__payload){text ? EMQ__KIND_TEXT : EMQ__KIND_BYTES, s};
    return true;
}

/* ---- opts ----------------------------------------------------------------------------------------- */

static bool is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

/* Where its last brace is; false: it does not look like an object. */
static bool last_brace(emq_str s, size_t *at)
{
    size_t from = 0, end = s.len;

    while (from < end && is_space(s.ptr[from]))
        from++;
    while (end > from && is_space(s.ptr[end - 1]))
        end--;
    if (end - from < 2 || s.ptr[from] != '{' || s.ptr[end - 1] != '}')
        return false;
    *at = end - 1;
    return true;
}

emq_str rd_opts_mark(emq_str opts, emq_str encoding, struct emq__arena *mem, bool *marked)
{
    size_t brace, before;

    *marked = encoding.len == 0 || last_brace(opts, &brace);
    if (encoding.len == 0 || !*marked)
        return opts;
    for (before = brace; is_space(opts.ptr[before - 1]);)
        before--;
    size_t n = opts.len + sizeof("," MEMBER "\"") - 1 + encoding.len, at = brace;
    char *p = emq__arena_alloc(mem, n + 1);
    if (!p)
        return (emq_str){0};
    memcpy(p, opts.ptr, brace);
    if (opts.ptr[before - 1] != '{')
        p[at++] = ',';
    memcpy(p + at, MEMBER, sizeof MEMBER - 1);
    at += sizeof MEMBER - 1;
    memcpy(p + at, encoding.ptr, encoding.len);
    at += encoding.len;
    p[at++] = '"';
    memcpy(p + at, opts.ptr + brace, opts.len - brace);
    at += opts.len - brace;
    p[at] = '\0';
    return emq_strn(p, at);
}

/* Does the text before the last brace end in the member? */
static bool has_member(emq_str head, emq_str encoding, size_t *at)
{
    size_t n = sizeof MEMBER - 1 + encoding.len + 1;

    if (head.len < n + 1 || head.ptr[head.len - 1] != '"')
        return false;
    const char *p = head.ptr + head.len - n;
    *at = head.len - n;
    return memcmp(p, MEMBER, sizeof MEMBER - 1) == 0 &&
           memcmp(p + sizeof MEMBER - 1, encoding.ptr, encoding.len) == 0;
}

/* The mark of somebody who wrote the object anew, in any order. */
static void find_member(emq_str opts, struct emq__arena *mem, emq_str *encoding)
{
    struct emq__json v;

    if (memmem(opts.ptr, opts.len, "emqEnc", 6) && emq__json_valid(opts, NULL) &&
        emq__json_get(emq__json_root(opts), "emqEnc", &v) && !emq__json_str(v, mem, encoding))
        *encoding = EMQ_STR_LIT("");
}

emq_str rd_opts_unmark(emq_str opts, struct emq__arena *mem, emq_str *encoding)
{
    static const emq_str encodings[] = {EMQ_STR_INIT("text"), EMQ_STR_INIT("base64")};
    size_t brace, at;

    *encoding = EMQ_STR_LIT("");
    if (!last_brace(opts, &brace))
        return opts;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(encodings); i++) {
        if (!has_member(emq_strn(opts.ptr, brace), encodings[i], &at))
            continue;
        *encoding = encodings[i];
        if (opts.ptr[at - 1] == ',')
            at--;
        char *p = emq__arena_alloc(mem, at + opts.len - brace + 1);
        if (!p)
            return (emq_str){0};
        memcpy(p, opts.ptr, at);
        memcpy(p + at, opts.ptr + brace, opts.len - brace);
        p[at + opts.len - brace] = '\0';
        return emq_strn(p, at + opts.len - brace);
    }
    find_member(opts, mem, encoding);
    return opts;
}
