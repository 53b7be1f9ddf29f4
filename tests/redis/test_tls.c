/* SPDX-License-Identifier: MIT
 *
 * TLS: whom it believes, and that a link that breaks means the same under it.
 */
#include "redis/ground.h"

#include <pthread.h>
#include <stdatomic.h>

static struct server *start(void)
{
    return START(.tls = true);
}

static const char *url_of(const struct server *s, const char *host, int port, const char *more)
{
    static char url[900];

    (void)snprintf(url, sizeof url, "rediss://%s:%d?ca=%s/ca.crt%s", host, port, s->dir, more);
    return url;
}

EMQ_TEST(a_server_is_believed_by_its_name_and_its_address)
{
    struct server *s = start();
    const char *hosts[] = {"localhost", "127.0.0.1"};

    for (int i = 0; i < 2; i++) {
        struct emq__engine *e = open_url(url_of(s, hosts[i], s->port, ""), PATIENCE_MS);
        must_add_to(e, "q");
        CHECK_INT(waiting_in(e, "q"), i + 1);
        e->ops->close(e);
    }
    server_end(s);
}

EMQ_TEST(a_server_that_nobody_vouches_for_is_not_believed)
{
    struct server *s = start();
    struct emq__engine *e;
    emq_error err = {0};
    char url[100];

    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%d", s->port);
    CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_UNAVAIL);
    CHECK_TEXT(err, "not trusted");
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%d?insecure=1", s->port);
    CHECK_STATUS_ERR(try_url(url, PATIENCE_MS, &e, &err), EMQ_OK, &err);
    must_add_to(e, "q");
    e->ops->close(e);
    server_end(s);
}

EMQ_TEST(a_server_of_another_name_is_not_believed)
{
    struct server *s = start();
    struct emq__engine *e;
    struct proxy p;
    emq_error err = {0};

    proxy_start_on(&p, "127.0.0.2", s->port);
    CHECK_STATUS(try_url(url_of(s, "127.0.0.2", p.port, ""), PATIENCE_MS, &e, &err), EMQ_E_UNAVAIL);
    CHECK_TEXT(err, "not trusted");
    proxy_end(&p);
    server_end(s);
}

EMQ_TEST(a_server_that_asks_for_a_certificate_gets_it)
{
    struct server *s = start();
    struct emq__engine *e;
    emq_error err = {0};
    char more[600];

    (void)server_command(s, "CONFIG SET tls-auth-clients yes");
    CHECK_STATUS(try_url(url_of(s, "localhost", s->port, ""), PATIENCE_MS, &e, &err),
                 EMQ_E_UNAVAIL);
    (void)snprintf(more, sizeof more, "&cert=%s/server.crt&key=%s/server.key", s->dir, s->dir);
    CHECK_STATUS_ERR(try_url(url_of(s, "localhost", s->port, more), PATIENCE_MS, &e, &err), EMQ_OK,
                     &err);
    must_add_to(e, "q");
    e->ops->close(e);
    (void)snprintf(more, sizeof more, "&cert=%s/server.crt&key=%s/ca.key", s->dir, s->dir);
    CHECK_STATUS(try_url(url_of(s, "localhost", s->port, more), PATIENCE_MS, &e, &err),
                 EMQ_E_INVALID);
    CHECK_TEXT(err, "?key=");
    CHECK_STATUS(try_url("rediss://localhost?ca=/nowhere", PATIENCE_MS, &e, &err), EMQ_E_INVALID);
    CHECK_TEXT(err, "?ca=/nowhere");
    server_end(s);
}

EMQ_TEST(a_server_without_tls_and_one_with_it_are_told_apart)
{
    struct server *plain = the_server(), *s = start();
    struct emq__engine *e;
    emq_error err = {0};
    char url[100];

    CHECK_STATUS(try_url(url_of(s, "localhost", plain->port, ""), SHORT_MS, &e, &err),
                 EMQ_E_UNAVAIL);
    CHECK_TEXT(err, "no answer to the TLS handshake");
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_UNAVAIL);
    server_end(s);
}

/* Records are more than bytes: a cut anywhere leaves an incomplete one. */
EMQ_TEST(a_tls_link_that_is_cut_anywhere_is_in_doubt_and_the_receipt_settles_it)
{
    struct server *s = start();
    struct proxy p;

    proxy_start(&p, s->port);
    struct add a = {.e = open_url(url_of(s, "localhost", p.port, ""), PATIENCE_MS)};
    for (int replies = 0; replies < 2; replies++) {
        bool cut = true;
        for (int64_t n = 0; cut; n += 9) {
            (void)server_command(s, "FLUSHALL");
            a.seq++;
            CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
            a.seq++;
            (replies ? proxy_cut_replies : proxy_cut_requests)(&p, n);
            emq_status st = add_data(&a, S("1"));
            cut = proxy_was_cut(&p) && st != EMQ_OK;
            CHECK_STATUS_ERR(st, cut ? EMQ_E_IN_DOUBT : EMQ_OK, &a.err);
            if (cut)
                CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
            CHECK_INT(waiting_in(a.e, "q"), 2);
        }
    }
    a.e->ops->close(a.e);
    proxy_end(&p);
    server_end(s);
}

EMQ_TEST(a_large_request_that_a_tls_link_does_not_take_is_not_sent)
{
    struct server *s = start();
    struct proxy p;
    size_t size = 16 * 1024 * 1024;
    char *data = malloc(size);

    assert_non_null(data);
    memset(data, '1', size);
    proxy_start(&p, s->port);
    struct add a = {.e = open_url(url_of(s, "localhost", p.port, ""), SHORT_MS), .seq = 1};
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    proxy_stall(&p, true);
    a.seq = 2;
    CHECK_STATUS_ERR(add_data(&a, emq_strn(data, size)), EMQ_E_UNAVAIL, &a.err);
    proxy_stall(&p, false);
    CHECK_INT(waiting_in(a.e, "q"), 1);
    free(data);
    a.e->ops->close(a.e);
    proxy_end(&p);
    server_end(s);
}

enum { THREADS = 8, EACH = 100 };

struct talker {
    pthread_t thread;
    struct emq__engine *e;
    int id;
    atomic_int *wrong;
};

static void *talk(void *arg)
{
    struct talker *t = arg;

    for (int i = 0; i < EACH; i++) {
        struct emq__arena mem = {0};
        const struct rd_reply *r;
        struct rd_cmd cmd;
        size_t n = i % 8 == 0 ? 70000 : 100;
        char *text = emq__arena_alloc(&mem, n);
        memset(text, 'a' + t->id, n);
        rd_cmd_init(&cmd, &mem);
        rd_cmd_text(&cmd, "ECHO");
        rd_cmd_arg(&cmd, emq_strn(text, n));
        if (rd_command(rd_of(t->e), 0, &cmd, &mem, &r, NULL) != EMQ_OK ||
            !emq__str_eq(rd_str(r), emq_strn(text, n)))
            atomic_fetch_add(t->wrong, 1);
        emq__arena_free(&mem);
    }
    return NULL;
}

EMQ_TEST(many_threads_share_one_tls_link)
{
    struct server *s = start();
    struct emq__engine *e = open_url(url_of(s, "localhost", s->port, ""), PATIENCE_MS);
    struct talker t[THREADS];
    atomic_int wrong = 0;

    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct talker){.e = e, .id = i, .wrong = &wrong};
        CHECK_INT(pthread_create(&t[i].thread, NULL, talk, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(t[i].thread, NULL);
    CHECK_INT(atomic_load(&wrong), 0);
    e->ops->close(e);
    server_end(s);
}
