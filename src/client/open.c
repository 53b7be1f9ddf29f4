/* SPDX-License-Identifier: MIT
 *
 * Opening and closing a client, and the checks that every call begins with. A handle belongs to the
 * process that opened it; in a forked child nothing of the parent's is touched.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"
#include "client/opts_size.h"
#include "model/names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IO_TIMEOUT_DEFAULT_MS = 10 * 1000, LOCK_DEFAULT_MS = 30 * 1000 };
#define PREFIX_DEFAULT EMQ_STR_LIT("emq")

static const char *const where_open = "emq_open";

emq_status emq__no_memory(const char *where, emq_error *err)
{
    return emq__fail(err, EMQ_E_NOMEM, 0, where, "out of memory: nothing was done; try again");
}

emq_status emq__client_check(const emq_client *c, const char *where, emq_error *err)
{
    if (!c)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "the client is NULL: open one first");
    if (c->pid != getpid())
        return emq__fail(err, EMQ_E_FORKED, 0, where,
                         "process %ld opened this client, this is its child %ld: open another one "
                         "here, and end this one with emq_close()",
                         (long)c->pid, (long)getpid());
    return EMQ_OK;
}

emq_status emq__client_check_queue(const emq_client *c, emq_str queue, const char *where,
                                   emq_error *err)
{
    emq_status s = emq__client_check(c, where, err);

    return s == EMQ_OK ? emq__check_queue(queue, err) : s;
}

emq_status emq__client_check_job(const emq_client *c, emq_str queue, emq_str id, const char *where,
                                 emq_error *err)
{
    emq_status s = emq__client_check_queue(c, queue, where, err);

    return s == EMQ_OK ? emq__check_id(id, err) : s;
}

emq_status emq__check_span(int64_t ms, const char *where, const char *what, emq_error *err)
{
    if (ms >= 0 && ms <= EMQ__SPAN_MAX_MS)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where, "%s is %lld ms: allowed are 0 to %lld ms", what,
                     (long long)ms, (long long)EMQ__SPAN_MAX_MS);
}

emq_status emq__check_lock(int64_t *lock_ms, const char *where, emq_error *err)
{
    if (*lock_ms == 0)
        *lock_ms = LOCK_DEFAULT_MS;
    if (*lock_ms >= EMQ_LOCK_MIN_MS && *lock_ms <= EMQ__SPAN_MAX_MS)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where,
                     "lock_ms is %lld: allowed are %d ms to 100 years; 0 means 30 s",
                     (long long)*lock_ms, EMQ_LOCK_MIN_MS);
}

emq_status emq__check_size(emq_str bytes, size_t max, const char *where, const char *what,
                           emq_error *err)
{
    if (bytes.len > 0 && !bytes.ptr)
        return emq__fail(err, EMQ_E_INVALID, 0, where, "%s has %zu bytes at NULL", what, bytes.len);
    if (bytes.len <= max)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where,
                     "%s has %zu bytes; the limit is %zu: store it elsewhere and pass a reference",
                     what, bytes.len, max);
}

emq_status emq__check_token(emq_str token, const char *where, emq_error *err)
{
    if (token.len > 0 && token.len <= EMQ_TOKEN_MAX && token.ptr)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, where,
                     "the token has %zu bytes%s; 1 to %d are allowed: pass emq_job_token() of the "
                     "job that was taken",
                     token.len, token.ptr || !token.len ? "" : " at NULL", EMQ_TOKEN_MAX);
}

void emq__worker_name(emq_client *c, char out[EMQ_WORKER_NAME_MAX + 1])
{
    unsigned n = (unsigned)atomic_fetch_add(&c->worker_count, 1) + 1;
    char host_pid[104];

    emq__host_pid(host_pid, sizeof host_pid);
    (void)snprintf(out, EMQ_WORKER_NAME_MAX + 1, "%s:%u", host_pid, n);
}

/* ---- the URL of the default store -------------------------------------------------------- */

/* Makes a folder and its missing parents, 0700 as the XDG rules ask, whatever the umask. `path` is
 * absolute. */
static emq_status make_folders(char *path, emq_error *err)
{
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(path, 0700) == 0 ? chmod(path, 0700) != 0 : errno != EEXIST) {
            int native = errno;
            return emq__fail(err, native == EACCES || native == EROFS ? EMQ_E_REFUSED : EMQ_E_STORE,
                             native, where_open,
                             "can't make the folder %s: %s; name another store "
                             "with a URL or EMQ_URL",
                             path, strerrordesc_np(native));
        }
        *p = end;
        if (end == '\0')
            return EMQ_OK;
    }
}

/* $XDG_STATE_HOME/echomq */
static emq_status default_folder(char path[PATH_MAX], emq_error *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;

    /* The XDG rules: a relative path is to be ignored. */
    if (state && state[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/echomq", state);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.local/state/echomq", home);
    else
        return emq__fail(
            err, EMQ_E_INVALID, 0, where_open,
            "no URL was given, and EMQ_URL, XDG_STATE_HOME and HOME are not set: there "
            "is no default store; pass a URL");
    if (n < 0 || n >= PATH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, where_open,
                         "XDG_STATE_HOME or HOME is longer than %d bytes", PATH_MAX);
    return EMQ_OK;
}

/* The embedded file there; make: with its folder. */
static emq_status default_file(bool make, struct emq__arena *mem, emq_str *out, emq_error *err)
{
    char path[PATH_MAX];
    emq_status s = default_folder(path, err);

    if (s == EMQ_OK && make)
        s = make_folders(path, err);
    if (s != EMQ_OK)
        return s;
    *out = emq__arena_printf(mem, "%s/queue.db", path);
    return out->ptr ? EMQ_OK : emq__no_memory(where_open, err);
}

/* The URL that is meant by `url`: when it is empty EMQ_URL, else the embedded file; "redis:" is REDIS_URL. *out is
 * url, of the environment, or in mem. */
static emq_status store_url(emq_str url, bool make, struct emq__arena *mem, emq_str *out,
                            emq_error *err)
{
    if (url.len == 0)
        url = emq_cstr(getenv("EMQ_URL"));
    if (url.len == 0)
        return default_file(make, mem, out, err);
    *out = url;
    if (!emq__str_is(url, "redis:"))
        return EMQ_OK;
    *out = emq_cstr(getenv("REDIS_URL"));
    return out->len > 0 ? EMQ_OK
                        : emq__fail(err, EMQ_E_INVALID, 0, where_open,
                                    "\"redis:\" means the URL in REDIS_URL, which is not set");
}

/* The same store for a process in another folder: programs of a worker get it in EMQ_URL. A folder
 * that has no name any more leaves the URL as it is. */
static emq_status absolute_url(emq_str url, struct emq__arena *mem, emq_str *out, emq_error *err)
{
    static const char scheme[] = "sqlite:", memory[] = ":memory:";
    const size_t n = sizeof scheme - 1;
    char folder[PATH_MAX], shown[3 * PATH_MAX];
    bool bare = url.ptr[0] == '.';
    size_t len = 0;

    *out = url;
    if (!bare) {
        if (url.len <= n || strncasecmp(url.ptr, scheme, n) != 0 || url.ptr[n] == '/' ||
            emq__str_starts(emq_strn(url.ptr + n, url.len - n), memory))
            return EMQ_OK;
    }
    if (!getcwd(folder, sizeof folder) || folder[0] != '/')
        return EMQ_OK;
    for (const char *p = folder; *p; p++) {
        if (!bare && (*p == '%' || *p == '?'))
            len += (size_t)snprintf(shown + len, sizeof shown - len, "%%%02X", (unsigned)*p);
        else
            shown[len++] = *p;
    }
    shown[len] = '\0';
    *out = bare ? emq__arena_printf(mem, "%s/%.*s", shown, EMQ_STR_ARG(url))
                : emq__arena_printf(mem, "%s%s/%.*s", scheme, shown,
                                    EMQ_STR_ARG(emq_strn(url.ptr + n, url.len - n)));
    return out->ptr ? EMQ_OK : emq__no_memory(where_open, err);
}

/* ---- life -------------------------------------------------------------------------------- */

static void free_client(emq_client *c)
{
    struct emq__waiter *w = atomic_load(&c->waiters);
    union {
        const char *in;
        char *out;
    } text;

    while (c->lanes) {
        struct emq__lane *next = c->lanes->next;
        free(c->lanes);
        c->lanes = next;
    }
    while (w) {
        struct emq__waiter *next = w->next;
        free(w);
        w = next;
    }
    const emq_str *owned[] = {&c->prefix, &c->who, &c->url};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(owned); i++) {
        text.in = owned[i]->ptr;
        free(text.out);
    }
    free(c);
}

static bool own(emq_str *out, emq_str s)
{
    char *copy = emq__str_dup(s);

    *out = emq_strn(copy, copy ? s.len : 0);
    return copy != NULL;
}

static emq_status check_open_opts(const emq_open_opts *o, emq_str prefix, emq_error *err)
{
    emq_status s = emq__check_span(o->io_timeout_ms, where_open, "io_timeout_ms", err);

    if (s == EMQ_OK)
        s = emq__check_prefix(prefix, err);
    if (s == EMQ_OK && o->who.len)
        s = emq__check_worker(o->who, err);
    return s;
}

/* EMQ_TRACE=engine: one line an act to the client's log. */
static emq_status add_trace(struct emq__engine **e, const struct emq__log *log, emq_error *err)
{
    const char *trace = getenv("EMQ_TRACE");

    if (!trace || !emq__str_is(emq_cstr(trace), "engine") || !log->fn)
        return EMQ_OK;
    return emq__trace_wrap(e, log, err);
}

emq_status emq__client_wrap(emq_client **out, struct emq__engine *e, emq_str url, emq_str prefix,
                            const emq_open_opts *opts, emq_error *err)
{
    emq_open_opts o;
    emq_client *c = NULL;
    char who[104];

    emq_status s = EMQ__OPTS_TAKE(&o, opts, where_open, emq_open_opts, err);
    if (s != EMQ_OK)
        goto fail_engine;
    if (o.prefix.len)
        prefix = o.prefix;
    if (prefix.len == 0)
        prefix = PREFIX_DEFAULT;
    s = check_open_opts(&o, prefix, err);
    if (s != EMQ_OK)
        goto fail_engine;
    emq__host_pid(who, sizeof who);
    c = calloc(1, sizeof *c);
    if (!c || !own(&c->prefix, prefix) || !own(&c->url, url) ||
        !own(&c->who, o.who.len ? o.who : emq_cstr(who))) {
        s = emq__no_memory(where_open, err);
        goto fail_client;
    }
    c->base = e;
    c->pid = getpid();
    c->log = (struct emq__log){o.log, o.log_user};
    c->io_timeout_ms = o.io_timeout_ms ? o.io_timeout_ms : IO_TIMEOUT_DEFAULT_MS;
    s = add_trace(&e, &c->log, err);
    if (s != EMQ_OK)
        goto fail_client;
    c->e = e;
    int rc = pthread_mutex_init(&c->mu, NULL);
    if (rc) {
        s = emq__fail(err, EMQ_E_SYSTEM, rc, where_open, "can't make a mutex: %s",
                      strerrordesc_np(rc));
        goto fail_client;
    }
    *out = c;
    return EMQ_OK;

fail_client:
    if (c)
        free_client(c);
fail_engine:
    e->ops->close(e);
    return s;
}

emq_status emq__open(emq_client **out, emq_str url, enum emq__making making,
                     const emq_open_opts *opts, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__engine *e = NULL;
    emq_str prefix = {0};
    emq_open_opts o;

    if (!out)
        return emq__fail(err, EMQ_E_INVALID, 0, where_open, "out is NULL");
    emq_status s = EMQ__OPTS_TAKE(&o, opts, where_open, emq_open_opts, err);
    if (s == EMQ_OK)
        s = check_open_opts(&o, o.prefix.len ? o.prefix : PREFIX_DEFAULT, err);
    if (s == EMQ_OK)
        s = store_url(url, making != EMQ__MAKE_NONE, &mem, &url, err);
    if (s == EMQ_OK) {
        struct emq__engine_config cfg = {
            .io_timeout_ms = o.io_timeout_ms ? o.io_timeout_ms : IO_TIMEOUT_DEFAULT_MS,
            .log = {o.log, o.log_user},
            .making = making,
        };
        s = emq__engine_open(&e, url, &cfg, &prefix, &mem, err);
    }
    if (s == EMQ_OK) {
        s = absolute_url(url, &mem, &url, err);
        /* Who opens it without our options, a program of a worker, has the same queues. */
        if (s == EMQ_OK && o.prefix.len &&
            !emq__str_eq(o.prefix, prefix.len ? prefix : PREFIX_DEFAULT))
            s = emq__url_with_prefix(url, o.prefix, &mem, &url, err);
        if (s == EMQ_OK)
            s = emq__client_wrap(out, e, url, prefix, &o, err);
        else
            e->ops->close(e);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status emq_open(emq_client **out, emq_str url, const emq_open_opts *opts, emq_error *err)
{
    return emq__open(out, url, EMQ__MAKE_ANYWHERE, opts, err);
}

void emq_close(emq_client *c)
{
    if (!c)
        return;
    bool forked = c->pid != getpid();

    /* The parent's threads do not exist in a child, and its mutex may be held by one of them. */
    emq__watch_close_all(c, forked);
    c->e->ops->close(c->e);
    if (!forked)
        (void)pthread_mutex_destroy(&c->mu);
    free_client(c);
}
