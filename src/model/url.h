/* SPDX-License-Identifier: MIT
 *
 * Store URLs: "scheme:rest?key=value&…", percent-decoded. Knows no scheme by itself.
 */
#ifndef EMQ_MODEL_URL_H
#define EMQ_MODEL_URL_H

#include "base/arena.h"
#include "model/check.h"

struct emq__url_param {
    emq_str key, value;
};
struct emq__url {
    emq_str scheme; /* lower case */
    emq_str path;   /* percent-decoded: what stands between "scheme:" and '?' */
    struct emq__url_param params[16];
    size_t n_params;
};

/* A text that starts with '/' or '.' is "sqlite:" + that text, taken literally. E_INVALID says what
 * is wrong: no scheme, a bad %XX, a NUL, more than 16 parameters, a parameter without '='. */
emq_status emq__url_parse(emq_str text, struct emq__arena *mem, struct emq__url *out,
                          emq_error *err);
/* The same URL with `prefix` as its parameter of that name, whatever it was. */
emq_status emq__url_with_prefix(emq_str valid_url, emq_str prefix, struct emq__arena *mem,
                                emq_str *out, emq_error *err);
/* A part of a URL, or what should be one, for a message: "..." unless it is a plain word. Returns out, or that. */
const char *emq__url_shown(emq_str part, char out[EMQ__SHOWN_MAX]);
/* NULL if absent. */
const emq_str *emq__url_param(const struct emq__url *u, const char *key);

#endif
