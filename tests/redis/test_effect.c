/* SPDX-License-Identifier: MIT
 *
 * The effect that commits with the acknowledgement, over a link that breaks: it is made once, whatever got lost.
 */
#include "redis/ground.h"

#include "client/client.h"

#include <echomq/effect.h>

struct line {
    struct server *server;
    struct proxy proxy;
    emq_client *c;
    emq_job *job;
};

static void line_open(struct line *l)
{
    char url[64];
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = PATIENCE_MS};
    emq_error err = {0};

    l->server = start_plain();
    proxy_start(&l->proxy, l->server->port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", l->proxy.port);
    CHECK_STATUS_ERR(emq_open(&l->c, S(url), &o, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq_add(l->c, S("q"), S("1"), NULL, NULL, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq_take(l->c, S("q"), NULL, &l->job, &err), EMQ_OK, &err);
}

static emq_status effect(struct line *l, const char *key, emq_error *err)
{
    const emq_str words[] = {S("INCR"), S(key)};
    const emq_redis_command one = {sizeof one, words, 2};
    const emq_redis_command *const all[] = {&one};

    return emq_effect_redis(l->c, l->job, all, 1, NULL, err);
}

static void line_close(struct line *l)
{
    emq_job_free(l->job);
    emq_close(l->c);
    proxy_end(&l->proxy);
    server_end(l->server);
}

EMQ_TEST(an_effect_whose_answer_is_lost_is_settled_by_its_receipt_and_made_once)
{
    struct line l;
    emq_error err = {0};

    line_open(&l);
    proxy_cut_replies(&l.proxy, 0);
    CHECK_STATUS_ERR(effect(&l, "ledger", &err), EMQ_OK, &err);
    CHECK(proxy_was_cut(&l.proxy));
    assert_string_equal(server_command(l.server, "GET ledger"), "1");
    assert_string_equal(server_command(l.server, "ZCARD emq:q:completed"), "1");
    line_close(&l);
}

EMQ_TEST(an_effect_whose_request_is_lost_is_made_once)
{
    struct line l;
    emq_error err = {0};

    line_open(&l);
    proxy_cut_requests(&l.proxy, 40);
    CHECK_STATUS_ERR(effect(&l, "ledger", &err), EMQ_OK, &err);
    CHECK(proxy_was_cut(&l.proxy));
    assert_string_equal(server_command(l.server, "GET ledger"), "1");
    line_close(&l);
}
