/* SPDX-License-Identifier: MIT
 *
 * Store URLs. A URL may carry a password: messages name the scheme, a parameter or an offset, never
 * the text behind the scheme; and a text that is no URL only when nothing in it may be a secret.
 */
#include "model/url.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "url", __VA_ARGS__)
#define NOMEM()   emq__fail(err, EMQ_E_NOMEM, 0, "url", "no memory for %zu bytes", text.len)

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    char low = (char)(ch | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* Decodes text[from, end) into *out, with a NUL behind it. */
static emq_status decode(emq_str text, size_t from, size_t end, struct emq__arena *mem,
                         emq_str *out, emq_error *err)
{
    char *p = emq__arena_alloc(mem, end - from + 1);
    size_t n = 0;

    if (!p)
        return NOMEM();
    for (size_t i = from; i < end; i++) {
        char ch = text.ptr[i];
        if (ch == '%') {
            int hi = end - i > 2 ? hex_digit(text.ptr[i + 1]) : -1;
            int lo = end - i > 2 ? hex_digit(text.ptr[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return FAIL(
                    "the '%%' at offset %zu is not followed by two hex digits; a '%%' itself "
                    "is written %%25",
                    i);
            ch = (char)(hi * 16 + lo);
            i += 2;
        }
        if (ch == '\0')
            return FAIL("a NUL byte at offset %zu; none are allowed", i);
        p[n++] = ch;
    }
    p[n] = '\0';
    *out = emq_strn(p, n);
    return EMQ_OK;
}

static bool is_scheme_byte(char ch, bool first)
{
    char low = (char)(ch | 0x20);

    if (low >= 'a' && low <= 'z')
        return true;
    return !first && ((ch >= '0' && ch <= '9') || ch == '+' || ch == '-' || ch == '.');
}

/* Length of the scheme in front of ':', 0 = there is none. */
static size_t scheme_len(emq_str text)
{
    size_t n = 0;

    while (n < text.len && is_scheme_byte(text.ptr[n], n == 0))
        n++;
    return n < text.len && text.ptr[n] == ':' ? n : 0;
}

/* A piece of a URL that can't be a password's: a name, a path, no more. */
static bool is_plain(emq_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char low = (char)(s.ptr[i] | 0x20);
        if (!(low >= 'a' && low <= 'z') && !(s.ptr[i] && strchr("0123456789._-+", s.ptr[i])))
            return false;
    }
    return true;
}

const char *emq__url_shown(emq_str part, char out[EMQ__SHOWN_MAX])
{
    return is_plain(part) ? emq__shown(part, out) : "...";
}

static emq_status read_param(emq_str text, size_t from, size_t end, struct emq__arena *mem,
                             struct emq__url *out, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    const char *eq = memchr(text.ptr + from, '=', end - from);
    struct emq__url_param p;

    if (!eq || eq == text.ptr + from)
        return FAIL("the parameter at offset %zu is not of the form key=value", from);
    size_t at = (size_t)(eq - text.ptr);
    emq_status s = decode(text, from, at, mem, &p.key, err);
    if (s == EMQ_OK)
        s = decode(text, at + 1, end, mem, &p.value, err);
    if (s != EMQ_OK)
        return s;
    for (size_t i = 0; i < out->n_params; i++)
        if (emq__str_eq(out->params[i].key, p.key))
            return FAIL("the parameter \"%s\" is given twice",
                        memchr(text.ptr + from, '@', text.len - from)
                            ? "..." /* a '?' in a password? */
                            : emq__url_shown(p.key, shown));
    if (out->n_params == EMQ_ARRAY_LEN(out->params))
        return FAIL("more than %zu parameters", EMQ_ARRAY_LEN(out->params));
    out->params[out->n_params++] = p;
    return EMQ_OK;
}

static emq_status read_params(emq_str text, size_t from, struct emq__arena *mem,
                              struct emq__url *out, emq_error *err)
{
    while (from < text.len) {
        const char *amp = memchr(text.ptr + from, '&', text.len - from);
        size_t end = amp ? (size_t)(amp - text.ptr) : text.len;
        emq_status s = read_param(text, from, end, mem, out, err);
        if (s != EMQ_OK)
            return s;
        if (amp && end + 1 == text.len)
            return FAIL("nothing stands behind the '&' at offset %zu", end);
        from = end + 1;
    }
    return EMQ_OK;
}

/* A bare path: nothing in it is special but the NUL. */
static emq_status bare_path(emq_str text, struct emq__arena *mem, struct emq__url *out,
                            emq_error *err)
{
    const char *nul = memchr(text.ptr, '\0', text.len);

    if (nul)
        return FAIL("a NUL byte at offset %zu; none are allowed", (size_t)(nul - text.ptr));
    out->scheme = EMQ_STR_LIT("sqlite");
    out->path = emq__arena_str(mem, text);
    return out->path.ptr ? EMQ_OK : NOMEM();
}

emq_status emq__url_parse(emq_str text, struct emq__arena *mem, struct emq__url *out,
                          emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];

    *out = (struct emq__url){0};
    if (text.len == 0 || !text.ptr)
        return FAIL("the URL is empty; write sqlite:PATH or a path that starts with '/' or '.'");
    if (text.ptr[0] == '/' || text.ptr[0] == '.')
        return bare_path(text, mem, out, err);
    size_t n = scheme_len(text);
    if (n == 0)
        return FAIL("\"%s\" has no scheme; write sqlite:PATH, redis://HOST or a path that starts "
                    "with '/' or '.'",
                    emq__url_shown(text, shown));
    char *scheme = emq__arena_alloc(mem, n + 1);
    if (!scheme)
        return NOMEM();
    for (size_t i = 0; i < n; i++)
        scheme[i] =
            text.ptr[i] >= 'A' && text.ptr[i] <= 'Z' ? (char)(text.ptr[i] | 0x20) : text.ptr[i];
    scheme[n] = '\0';
    out->scheme = emq_strn(scheme, n);

    const char *query = memchr(text.ptr + n + 1, '?', text.len - n - 1);
    size_t end = query ? (size_t)(query - text.ptr) : text.len;
    emq_status s = decode(text, n + 1, end, mem, &out->path, err);
    if (s != EMQ_OK)
        return s;
    return query ? read_params(text, end + 1, mem, out, err) : EMQ_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void add_encoded(struct emq__buf *b, emq_str text)
{
    static const char plain[] = "-._~/:";

    for (size_t i = 0; i < text.len; i++) {
        char ch = text.ptr[i], low = (char)(ch | 0x20), hex[4];
        if ((low >= 'a' && low <= 'z') || (ch >= '0' && ch <= '9') || (ch && strchr(plain, ch))) {
            emq__buf_char(b, ch);
            continue;
        }
        (void)snprintf(hex, sizeof hex, "%%%02X", (unsigned)(unsigned char)ch);
        emq__buf_text(b, hex);
    }
}

/* Copies the parameters, each with what precedes it, but for the prefix. '?' or '&': what precedes the next. */
static char add_other_params(struct emq__buf *b, emq_str query, struct emq__arena *mem)
{
    char before = '?';

    while (query.len > 0) {
        const char *amp = memchr(query.ptr, '&', query.len);
        size_t n = amp ? (size_t)(amp - query.ptr) : query.len;
        const char *eq = memchr(query.ptr, '=', n);
        emq_str key = {0};
        if (decode(query, 0, eq ? (size_t)(eq - query.ptr) : n, mem, &key, NULL) != EMQ_OK)
            b->failed = EMQ_E_NOMEM;
        if (!emq__str_is(key, "prefix")) {
            emq__buf_char(b, before);
            emq__buf_add(b, query.ptr, n);
            before = '&';
        }
        n += amp != NULL;
        query = emq_strn(query.ptr + n, query.len - n);
    }
    return before;
}

emq_status emq__url_with_prefix(emq_str text, emq_str prefix, struct emq__arena *mem, emq_str *out,
                                emq_error *err)
{
    struct emq__buf b;
    char before = '?';

    emq__buf_init(&b, SIZE_MAX / 2);
    if (text.ptr[0] == '/' || text.ptr[0] == '.') {
        emq__buf_text(&b, "sqlite:");
        add_encoded(&b, text);
    } else {
        const char *query = memchr(text.ptr, '?', text.len);
        size_t end = query ? (size_t)(query - text.ptr) : text.len;
        emq__buf_add(&b, text.ptr, end);
        if (query)
            before = add_other_params(&b, emq_strn(query + 1, text.len - end - 1), mem);
    }
    emq__buf_char(&b, before);
    emq__buf_text(&b, "prefix=");
    add_encoded(&b, prefix);
    *out = b.failed ? emq_strn(NULL, 0) : emq__arena_str(mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return out->ptr ? EMQ_OK : NOMEM();
}

const emq_str *emq__url_param(const struct emq__url *u, const char *key)
{
    for (size_t i = 0; i < u->n_params; i++)
        if (emq__str_is(u->params[i].key, key))
            return &u->params[i].value;
    return NULL;
}
