/* SPDX-License-Identifier: MIT
 *
 * The table of engines by URL scheme. The URL's `prefix` is the client's; every other parameter is
 * the engine's, which refuses those it does not know.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"

typedef emq_status (*open_fn)(struct emq__engine **out, const struct emq__engine_config *cfg,
                              struct emq__arena *mem, emq_error *err);

static const struct {
    const char *scheme;
    open_fn open;
} engines[] = {
    {"sqlite", emq__sqlite_open},
#ifdef EMQ_HAVE_REDIS
    {"redis", emq__redis_open},           {"rediss", emq__redis_open},
    {"redis+unix", emq__redis_open},      {"redis+sentinel", emq__redis_open},
    {"rediss+sentinel", emq__redis_open}, {"redis+cluster", emq__redis_open},
    {"rediss+cluster", emq__redis_open},
#endif
};

static void known_schemes(char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < EMQ_ARRAY_LEN(engines) && len < cap; i++) {
        int n = snprintf(out + len, cap - len, "%s%s", i ? ", " : "", engines[i].scheme);
        len += n > 0 ? (size_t)n : 0;
    }
}

/* Moves the parameter `prefix` out of the URL. An empty one, as of a variable that is not set, would be other
 * queues than were meant. */
static emq_status take_prefix(struct emq__url *url, emq_str *out, emq_error *err)
{
    size_t kept = 0;

    *out = emq_strn("", 0);
    for (size_t i = 0; i < url->n_params; i++) {
        if (emq__str_is(url->params[i].key, "prefix"))
            *out = url->params[i].value;
        else
            url->params[kept++] = url->params[i];
    }
    if (kept < url->n_params && out->len == 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "emq_open",
                         "the parameter prefix is empty: leave it out, or give a value");
    url->n_params = kept;
    return EMQ_OK;
}

emq_status emq__engine_open(struct emq__engine **out, emq_str url, struct emq__engine_config *cfg,
                            emq_str *out_prefix_param, struct emq__arena *mem, emq_error *err)
{
    char known[160], shown[EMQ__SHOWN_MAX];

    emq_status s = emq__url_parse(url, mem, &cfg->url, err);
    if (s == EMQ_OK)
        s = take_prefix(&cfg->url, out_prefix_param, err);
    if (s != EMQ_OK)
        return s;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(engines); i++) {
        if (emq__str_is(cfg->url.scheme, engines[i].scheme))
            return engines[i].open(out, cfg, mem, err);
    }
    known_schemes(known, sizeof known);
    return emq__fail(err, EMQ_E_INVALID, 0, "emq_open",
                     "no engine for the scheme \"%s:\"; this build knows: %s",
                     emq__url_shown(cfg->url.scheme, shown), known);
}
