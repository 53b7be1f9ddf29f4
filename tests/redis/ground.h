/* SPDX-License-Identifier: MIT
 *
 * What the tests of the engine's ground share: handles on URLs, without a fixture around them.
 */
#ifndef EMQ_TESTS_REDIS_GROUND_H
#define EMQ_TESTS_REDIS_GROUND_H

#include "engine/redis/ground.h"
#include "lib/engine_fixture.h"
#include "redis/proxy.h"
#include "redis/the_server.h"

#define CHECK_TEXT(error, part) check_has(emq_cstr((error).text), part, __FILE__, __LINE__)

enum { PATIENCE_MS = 10000, SHORT_MS = 400 };

static inline emq_status try_url(const char *url, int64_t timeout_ms, struct emq__engine **e,
                                 emq_error *err)
{
    struct emq__engine_config cfg = {.io_timeout_ms = timeout_ms};
    struct emq__arena mem = {0};

    *e = NULL;
    emq_status s = emq__url_parse(emq_cstr(url), &mem, &cfg.url, err);
    if (s == EMQ_OK)
        s = emq__redis_open(e, &cfg, &mem, err);
    emq__arena_free(&mem);
    return s;
}

static inline struct emq__engine *open_url(const char *url, int64_t timeout_ms)
{
    struct emq__engine *e;
    emq_error err = {0};

    CHECK_STATUS_ERR(try_url(url, timeout_ms, &e, &err), EMQ_OK, &err);
    return e;
}

static inline struct emq__engine *open_port(int port, int64_t timeout_ms)
{
    char url[64];

    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    return open_url(url, timeout_ms);
}

/* An add with a receipt; queue "q" unless the caller says so. */
struct add {
    struct emq__engine *e;
    const char *session, *queue;
    uint64_t seq;
    emq_error err;
};

static inline emq_status add_data(struct add *a, emq_str json)
{
    struct emq__add_entry en = fx_entry(a->queue ? a->queue : "q", "");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {
        {emq_cstr(a->session ? a->session : "session"), a->seq}, list, 1, S(""), false};
    struct emq__add_res res;
    struct emq__arena mem = {0};

    en.data = (struct emq__payload){EMQ__KIND_JSON, json};
    emq_status s = a->e->ops->add(a->e, &req, &res, &mem, &a->err);
    emq__arena_free(&mem);
    return s;
}

static inline void must_add_to(struct emq__engine *e, const char *queue)
{
    struct add a = {.e = e, .session = "", .queue = queue};

    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
}

static inline emq_status stats_of(struct emq__engine *e, const char *queue,
                                  struct emq__stats_res *res, emq_error *err)
{
    struct emq__stats_req req = {.prefix = FX_PREFIX, .queue = emq_cstr(queue)};
    struct emq__arena mem = {0};

    emq_status s = e->ops->stats(e, &req, res, &mem, err);
    emq__arena_free(&mem);
    return s;
}

static inline int64_t waiting_in(struct emq__engine *e, const char *queue)
{
    struct emq__stats_res res;
    emq_error err = {0};

    CHECK_STATUS_ERR(stats_of(e, queue, &res, &err), EMQ_OK, &err);
    return res.count[EMQ_WAITING];
}

static inline int64_t since(struct emq__mono start)
{
    return emq__mono_diff_ms(start, emq__mono_now());
}

#endif
