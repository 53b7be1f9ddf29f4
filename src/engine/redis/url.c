/* SPDX-License-Identifier: MIT
 *
 * The URL's parts. It arrives decoded, so user and password are split off first, at the last '@'.
 */
#include "engine/redis/url.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

enum { PORT = 6379, SENTINEL_PORT = 26379, DB_MAX = 1000000 };

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "open", __VA_ARGS__)

static const struct {
    const char *scheme;
    enum rd_mode mode;
    bool tls, local;
} schemes[] = {
    {"redis", RD_PLAIN, false, false},
    {"rediss", RD_PLAIN, true, false},
    {"redis+unix", RD_PLAIN, false, true},
    {"redis+sentinel", RD_SENTINEL, false, false},
    {"rediss+sentinel", RD_SENTINEL, true, false},
    {"redis+cluster", RD_CLUSTER, false, false},
    {"rediss+cluster", RD_CLUSTER, true, false},
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static emq_str head_of(emq_str s, size_t n)
{
    return emq_strn(s.ptr, n);
}

static emq_str tail_of(emq_str s, size_t n)
{
    return emq_strn(s.ptr + n, s.len - n);
}

static size_t find(emq_str s, char ch)
{
    const char *at = s.len > 0 ? memchr(s.ptr, ch, s.len) : NULL;

    return at ? (size_t)(at - s.ptr) : s.len;
}

static bool read_port(emq_str text, uint16_t *out)
{
    int64_t v;

    if (!emq__str_to_i64(text, &v) || v < 1 || v > 65535)
        return false;
    *out = (uint16_t)v;
    return true;
}

bool rd_addr_read(struct rd_addr *out, emq_str text, uint16_t default_port)
{
    emq_str host = text, port = {0};
    size_t colon = find(text, ':');

    if (text.len > 0 && text.ptr[0] == '[') {
        size_t end = find(text, ']');
        if (end == text.len || (end + 1 < text.len && text.ptr[end + 1] != ':'))
            return false;
        host = emq_strn(text.ptr + 1, end - 1);
        if (end + 1 < text.len)
            port = tail_of(text, end + 2);
        colon = end + 1;
    } else if (colon < text.len) {
        host = head_of(text, colon);
        port = tail_of(text, colon + 1);
    }
    if (host.len == 0 || host.len > RD_HOST_MAX)
        return false;
    out->port = default_port;
    memcpy(out->host, host.ptr, host.len);
    out->host[host.len] = '\0';
    return colon >= text.len || read_port(port, &out->port);
}

/* A copy with a NUL behind it. */
static emq_status keep(emq_str *out, emq_str s, struct emq__arena *mem, emq_error *err)
{
    *out = emq__arena_str(mem, s);
    return out->ptr ? EMQ_OK : emq__fail(err, EMQ_E_NOMEM, 0, "open", "no memory for the URL");
}

/* Takes "user:password@" from the front of *rest. A path of a socket may have an '@' of its own. */
static emq_status read_user(struct rd_config *c, emq_str *rest, bool local, struct emq__arena *mem,
                            emq_error *err)
{
    size_t at = rest->len;

    for (size_t i = 0; i < rest->len; i++) {
        if (rest->ptr[i] != '@')
            continue;
        at = i;
        if (local && i + 1 < rest->len && rest->ptr[i + 1] == '/')
            break;
    }
    if (at == rest->len || (local && rest->len > 0 && rest->ptr[0] == '/'))
        return EMQ_OK;
    emq_str who = head_of(*rest, at);
    *rest = tail_of(*rest, at + 1);
    size_t colon = find(who, ':');
    if (colon == who.len)
        return FAIL(
            "before the '@' stands a user without a password: write user:password@ or :password@");
    emq_status s = keep(&c->user, head_of(who, colon), mem, err);
    return s == EMQ_OK ? keep(&c->password, tail_of(who, colon + 1), mem, err) : s;
}

static emq_status read_db(struct rd_config *c, emq_str text, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];

    if (!emq__str_to_i64(text, &c->db) || c->db < 0 || c->db > DB_MAX)
        return FAIL("\"%s\" is no database number: 0 to %d are", emq__url_shown(text, shown),
                    DB_MAX);
    return EMQ_OK;
}

/* What stands behind a ':' may be the password of a URL without '@'. */
static emq_status bad_host(emq_str text, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    size_t colon = find(text, ':');

    if (colon == 0 || colon == text.len || text.ptr[0] == '[')
        return FAIL(
            "\"%s\" is no host of 1 to %d bytes: write host, host:port or [v6 address]:port",
            emq__url_shown(text, shown), RD_HOST_MAX);
    return FAIL("\"%s:\" is not followed by a port, 1 to 65535: write host, host:port or "
                "[v6 address]:port; user:password are followed by an '@'",
                emq__url_shown(head_of(text, colon), shown));
}

static emq_status read_hosts(struct rd_config *c, emq_str text, emq_error *err)
{
    uint16_t port = c->mode == RD_SENTINEL ? SENTINEL_PORT : PORT;

    if (text.len == 0)
        text = EMQ_STR_LIT("localhost");
    for (;;) {
        size_t comma = find(text, ',');
        emq_str one = head_of(text, comma);
        if (c->n_seeds == RD_SEEDS_MAX)
            return FAIL("more than %d hosts", RD_SEEDS_MAX);
        if (!rd_addr_read(&c->seeds[c->n_seeds], one, port))
            return bad_host(one, err);
        c->n_seeds++;
        if (comma == text.len)
            break;
        text = tail_of(text, comma + 1);
    }
    if (c->mode == RD_PLAIN && c->n_seeds > 1)
        return FAIL("several hosts belong to redis+sentinel: or redis+cluster:, not to one server");
    return EMQ_OK;
}

/* ---- the parts behind the scheme ------------------------------------------------------------- */

static emq_status read_local(struct rd_config *c, emq_str rest, emq_error *err)
{
    if (rest.len == 0 || rest.ptr[0] != '/' || rest.len > RD_HOST_MAX)
        return FAIL("redis+unix: wants an absolute path of 1 to %d bytes, as in "
                    "redis+unix:///run/redis.sock",
                    RD_HOST_MAX);
    memcpy(c->seeds[0].host, rest.ptr, rest.len);
    c->seeds[0].port = 0;
    c->n_seeds = 1;
    return EMQ_OK;
}

static emq_status read_remote(struct rd_config *c, emq_str rest, struct emq__arena *mem,
                              emq_error *err)
{
    size_t slash = find(rest, '/');
    emq_str path = slash < rest.len ? tail_of(rest, slash + 1) : (emq_str){0};
    emq_status s = read_hosts(c, head_of(rest, slash), err);

    if (s == EMQ_OK && c->mode == RD_SENTINEL) {
        slash = find(path, '/');
        if (slash == 0)
            return FAIL("redis+sentinel: wants the primary's name: "
                        "redis+sentinel://host1,host2/NAME");
        s = keep(&c->primary, head_of(path, slash), mem, err);
        path = slash < path.len ? tail_of(path, slash + 1) : (emq_str){0};
    }
    if (s == EMQ_OK && path.len > 0)
        s = read_db(c, path, err);
    return s;
}

static emq_status read_param(struct rd_config *c, const struct emq__url_param *p,
                             struct emq__arena *mem, emq_error *err)
{
    const struct {
        const char *name;
        emq_str *out;
        bool fits;
    } texts[] = {
        {"ca", &c->tls_config.ca, c->tls},
        {"cert", &c->tls_config.cert, c->tls},
        {"key", &c->tls_config.key, c->tls},
        {"sentinel_user", &c->sentinel_user, c->mode == RD_SENTINEL},
        {"sentinel_password", &c->sentinel_password, c->mode == RD_SENTINEL},
    };

    char shown[EMQ__SHOWN_MAX];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++) {
        if (!emq__str_is(p->key, texts[i].name))
            continue;
        if (!texts[i].fits)
            return FAIL("?%s= belongs to another scheme: rediss: has ca, cert, key and insecure, "
                        "redis+sentinel: has sentinel_user and sentinel_password",
                        texts[i].name);
        return keep(texts[i].out, p->value, mem, err);
    }
    if (emq__str_is(p->key, "prefix")) /* the client's */
        return EMQ_OK;
    if (emq__str_is(p->key, "db"))
        return read_db(c, p->value, err);
    if (emq__str_is(p->key, "wait")) {
        if (!emq__str_to_i64(p->value, &c->wait_replicas) || c->wait_replicas < 0 ||
            c->wait_replicas > RD_REPLICAS_MAX)
            return FAIL("?wait=%s: 0 to %d replicas may be waited for",
                        emq__url_shown(p->value, shown), RD_REPLICAS_MAX);
        return EMQ_OK;
    }
    if (emq__str_is(p->key, "insecure") && c->tls &&
        (emq__str_is(p->value, "1") || emq__str_is(p->value, "0"))) {
        c->tls_config.insecure = emq__str_is(p->value, "1");
        return EMQ_OK;
    }
    if (find(p->key, '@') < p->key.len || find(p->value, '@') < p->value.len)
        return FAIL("a parameter that is not known has an '@': write a '?' of a password as %%3F");
    return FAIL(
        "?%s= is not known here, or not with this value: ?db=N, ?wait=N and ?prefix= are; with "
        "rediss: also ?ca=, ?cert=, ?key=, ?insecure=1",
        emq__url_shown(p->key, shown));
}

emq_status rd_url_read(struct rd_config *c, const struct emq__url *url, struct emq__arena *mem,
                       emq_error *err)
{
    emq_str rest = url->path;
    emq_status s = EMQ_OK;
    bool local = false;

    *c = (struct rd_config){0};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(schemes); i++) {
        if (!emq__str_is(url->scheme, schemes[i].scheme))
            continue;
        c->mode = schemes[i].mode;
        c->tls = schemes[i].tls;
        local = schemes[i].local;
    }
    if (emq__str_starts(rest, "//"))
        rest = tail_of(rest, 2);
    s = read_user(c, &rest, local, mem, err);
    if (s == EMQ_OK)
        s = local ? read_local(c, rest, err) : read_remote(c, rest, mem, err);
    for (size_t i = 0; s == EMQ_OK && i < url->n_params; i++)
        s = read_param(c, &url->params[i], mem, err);
    if (s == EMQ_OK && c->mode == RD_CLUSTER && c->db != 0)
        s = FAIL("a cluster has no databases but 0");
    if (s == EMQ_OK && (c->tls_config.cert.len > 0) != (c->tls_config.key.len > 0))
        s = FAIL("?cert= and ?key= go together");
    return s;
}
