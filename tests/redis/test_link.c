/* SPDX-License-Identifier: MIT
 *
 * The link to a server when it breaks: what was not sent, what is in doubt, and that asking again with the
 * receipt settles it; links that many threads share; scripts that the server forgot.
 */
#include "redis/ground.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct proxy start_fresh(void)
{
    struct proxy p;

    (void)SERVER_DO("FLUSHALL");
    proxy_start(&p, the_server()->port);
    return p;
}

/* ---- acts with receipts ---------------------------------------------------------------------- */

struct act {
    struct emq__engine *e;
    uint64_t seq;
    emq_error err;
    char token[EMQ_TOKEN_MAX + 1]; /* of the last take */
    size_t n_taken;
};

static emq_status add(struct act *a, emq_str data)
{
    struct emq__add_entry en = fx_entry("q", "");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {{S("session"), a->seq}, list, 1, S(""), false};
    struct emq__add_res res;
    struct emq__arena mem = {0};

    en.data = (struct emq__payload){EMQ__KIND_JSON, data};
    emq_status s = a->e->ops->add(a->e, &req, &res, &mem, &a->err);
    emq__arena_free(&mem);
    return s;
}

static emq_status add_small(struct act *a)
{
    return add(a, S("1"));
}

static emq_status take(struct act *a)
{
    struct emq__take_req req = {{S("session"), a->seq}, FX_PREFIX, S("q"), fx_take(1)};
    struct emq__take_res res;
    struct emq__arena mem = {0};

    emq_status s = a->e->ops->take(a->e, &req, &res, &mem, &a->err);
    if (s == EMQ_OK) {
        a->n_taken = res.taken.n;
        if (res.taken.n > 0)
            (void)snprintf(a->token, sizeof a->token, "%.*s",
                           EMQ_STR_ARG(res.taken.jobs[0]->token));
    }
    emq__arena_free(&mem);
    return s;
}

static emq_status settle_taken(struct act *a)
{
    struct emq__settle_entry en = {.id = S("1"),
                                   .auth.token = emq_cstr(a->token),
                                   .kind = EMQ__SETTLE_COMPLETED,
                                   .value = {EMQ__KIND_JSON, S("1")},
                                   .keep = {.count = -1}};
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {
        {S("session"), a->seq}, FX_PREFIX, S("q"), .entries = list, .n = 1};
    struct emq__settle_res res;
    struct emq__arena mem = {0};

    emq_status s = a->e->ops->settle(a->e, &req, &res, &mem, &a->err);
    if (s == EMQ_OK)
        CHECK_STATUS(res.settled[0].outcome, EMQ_OK);
    emq__arena_free(&mem);
    return s;
}

/* ---- a byte at which the link breaks ----------------------------------------------------------- */

typedef emq_status (*act_fn)(struct act *a);

/* What must be there after the act: each count once, however often it was asked for. */
struct cut_case {
    act_fn before, before2, act;
    int64_t waiting, active, completed, started;
};

/* The act with the link cut behind n bytes of it. false: it has fewer bytes. */
static bool cut_once(const struct cut_case *c, struct act *a, struct proxy *p, bool replies,
                     int64_t n)
{
    struct emq__stats_res res;

    (void)SERVER_DO("FLUSHALL");
    for (int i = 0; i < 2; i++) {
        act_fn before = i == 0 ? c->before : c->before2;
        a->seq++;
        if (before)
            CHECK_STATUS_ERR(before(a), EMQ_OK, &a->err);
    }
    CHECK_STATUS_ERR(stats_of(a->e, "q", &res, &a->err), EMQ_OK, &a->err);
    a->seq++;
    (replies ? proxy_cut_replies : proxy_cut_requests)(p, n);
    emq_status s = c->act(a);
    bool cut = proxy_was_cut(p);
    if (cut && replies && s == EMQ_OK)
        cut = false; /* behind the last byte of the reply */
    CHECK_STATUS_ERR(s, cut ? EMQ_E_IN_DOUBT : EMQ_OK, &a->err);
    if (cut)
        CHECK_STATUS_ERR(c->act(a), EMQ_OK, &a->err);
    CHECK_STATUS_ERR(stats_of(a->e, "q", &res, &a->err), EMQ_OK, &a->err);
    CHECK_INT(res.count[EMQ_WAITING], c->waiting);
    CHECK_INT(res.count[EMQ_ACTIVE], c->active);
    CHECK_INT(res.count[EMQ_COMPLETED_STATE], c->completed);
    CHECK_INT(res.totals.started, c->started);
    return cut;
}

static void cut_everywhere(const struct cut_case *c, bool replies)
{
    struct proxy p = start_fresh();
    struct act a = {.e = open_port(p.port, PATIENCE_MS)};
    int64_t n = 0;

    /* The first run loads the scripts, so that each request is one EVALSHA. */
    (void)cut_once(c, &a, &p, replies, INT32_MAX);
    while (cut_once(c, &a, &p, replies, n))
        n++;
    CHECK(n > 10);
    a.e->ops->close(a.e);
    proxy_end(&p);
}

static const struct cut_case adding = {.act = add_small, .waiting = 1};
static const struct cut_case taking = {.before = add_small, .act = take, .active = 1, .started = 1};
static const struct cut_case settling = {
    .before = add_small, .before2 = take, .act = settle_taken, .completed = 1, .started = 1};

EMQ_TEST(an_add_whose_request_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&adding, false);
}

EMQ_TEST(an_add_whose_reply_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&adding, true);
}

EMQ_TEST(a_take_whose_request_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&taking, false);
}

EMQ_TEST(a_take_whose_reply_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&taking, true);
}

EMQ_TEST(a_settlement_whose_request_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&settling, false);
}

EMQ_TEST(a_settlement_whose_reply_is_cut_at_any_byte_is_in_doubt_and_its_receipt_settles_it)
{
    cut_everywhere(&settling, true);
}

EMQ_TEST(what_only_reads_is_asked_again_when_the_link_breaks)
{
    struct proxy p = start_fresh();
    struct emq__engine *e = open_port(p.port, PATIENCE_MS);
    struct emq__stats_res res;
    emq_error err = {0};

    CHECK_STATUS_ERR(stats_of(e, "q", &res, &err), EMQ_OK, &err);
    for (int64_t n = 0; n < 60; n += 7) {
        proxy_cut_requests(&p, n);
        CHECK_STATUS_ERR(stats_of(e, "q", &res, &err), EMQ_OK, &err);
        CHECK(proxy_was_cut(&p));
        proxy_cut_replies(&p, n);
        CHECK_STATUS_ERR(stats_of(e, "q", &res, &err), EMQ_OK, &err);
        CHECK(proxy_was_cut(&p));
    }
    e->ops->close(e);
    proxy_end(&p);
}

/* ---- not sent, and half open ------------------------------------------------------------------- */

/* A promise with a deadline is tested with five times that. */
EMQ_TEST(a_request_whose_last_byte_the_kernel_did_not_take_is_not_sent)
{
    struct proxy p = start_fresh();
    struct act a = {.e = open_port(p.port, SHORT_MS)};
    size_t size = 16 * 1024 * 1024; /* more than the buffers of two sockets hold */
    char *data = malloc(size);
    struct emq__stats_res res;

    assert_non_null(data);
    memset(data, '1', size);
    a.seq = 1;
    CHECK_STATUS_ERR(add_small(&a), EMQ_OK, &a.err);
    proxy_stall(&p, true);
    struct emq__mono start = emq__mono_now();
    a.seq = 2;
    CHECK_STATUS_ERR(add(&a, emq_strn(data, size)), EMQ_E_UNAVAIL, &a.err);
    CHECK(since(start) < 5 * SHORT_MS);
    /* What the kernel had taken arrives now, and is no request. */
    proxy_stall(&p, false);
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &a.err), EMQ_OK, &a.err);
    CHECK_INT(res.count[EMQ_WAITING], 1);
    free(data);
    a.e->ops->close(a.e);
    proxy_end(&p);
}

EMQ_TEST(a_link_that_forwards_nothing_is_found_within_the_timeout)
{
    struct proxy p = start_fresh();
    struct act a = {.e = open_port(p.port, SHORT_MS), .seq = 1};
    struct emq__stats_res res;

    CHECK_STATUS_ERR(add_small(&a), EMQ_OK, &a.err);
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &a.err), EMQ_OK, &a.err);
    proxy_stall(&p, true);
    struct emq__mono start = emq__mono_now();
    a.seq = 2;
    CHECK_STATUS_ERR(add_small(&a), EMQ_E_IN_DOUBT, &a.err);
    CHECK(since(start) < 5 * SHORT_MS);
    start = emq__mono_now();
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &a.err), EMQ_E_UNAVAIL, &a.err);
    CHECK(since(start) < 5 * SHORT_MS);
    proxy_stall(&p, false);
    CHECK_STATUS_ERR(add_small(&a), EMQ_OK, &a.err);
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &a.err), EMQ_OK, &a.err);
    CHECK_INT(res.count[EMQ_WAITING], 2);
    a.e->ops->close(a.e);
    proxy_end(&p);
}

EMQ_TEST(a_server_that_is_not_there_is_said_at_once_at_the_open_and_after_the_timeout_later)
{
    struct emq__engine_config cfg = {.io_timeout_ms = PATIENCE_MS};
    struct emq__arena mem = {0};
    struct emq__engine *e = NULL;
    emq_error err = {0};
    char url[64];

    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", server_free_port());
    CHECK_STATUS(emq__url_parse(emq_cstr(url), &mem, &cfg.url, &err), EMQ_OK);
    struct emq__mono start = emq__mono_now();
    CHECK_STATUS_ERR(emq__redis_open(&e, &cfg, &mem, &err), EMQ_E_UNAVAIL, &err);
    CHECK(since(start) < PATIENCE_MS);
    check_has(emq_cstr(err.text), "127.0.0.1", __FILE__, __LINE__);
    check_has(emq_cstr(err.text), "Connection refused", __FILE__, __LINE__);
    emq__arena_free(&mem);

    struct proxy p = start_fresh();
    struct act a = {.e = open_port(p.port, SHORT_MS), .seq = 1};
    proxy_end(&p);
    start = emq__mono_now();
    CHECK_STATUS_ERR(add_small(&a), EMQ_E_UNAVAIL, &a.err);
    CHECK(since(start) >= SHORT_MS / 2 && since(start) < 5 * SHORT_MS);
    a.e->ops->close(a.e);
}

/* ---- many threads, one link -------------------------------------------------------------------- */

enum { THREADS = 16 };

struct talker {
    pthread_t thread;
    struct emq__engine *e;
    int id, rounds;
    atomic_int *wrong;
};

/* Each reply is its own: of many sizes, so that they end anywhere in what is read. */
static void *talk(void *arg)
{
    struct talker *t = arg;
    uint64_t random = (uint64_t)t->id;

    for (int i = 0; i < t->rounds; i++) {
        struct emq__arena mem = {0};
        const struct rd_reply *r;
        struct rd_cmd cmd;
        emq_error err = {0};
        size_t n = test_random(&random) % 8 == 0 ? 70000 : 20 + test_random(&random) % 2000;
        char *text = emq__arena_alloc(&mem, n);
        memset(text, 'a' + t->id, n);
        (void)snprintf(text, n, "%d %d", t->id, i);
        rd_cmd_init(&cmd, &mem);
        rd_cmd_text(&cmd, "ECHO");
        rd_cmd_arg(&cmd, emq_strn(text, n));
        if (rd_command(rd_of(t->e), 0, &cmd, &mem, &r, &err) != EMQ_OK ||
            !emq__str_eq(rd_str(r), emq_strn(text, n)))
            atomic_fetch_add(t->wrong, 1);
        emq__arena_free(&mem);
    }
    return NULL;
}

EMQ_TEST(sixteen_threads_share_one_link_and_each_gets_its_own_replies)
{
    struct proxy p = start_fresh();
    struct emq__engine *e = open_port(p.port, PATIENCE_MS);
    struct talker t[THREADS];
    atomic_int wrong = 0;

    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct talker){.e = e, .id = i, .rounds = 300, .wrong = &wrong};
        CHECK_INT(pthread_create(&t[i].thread, NULL, talk, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(t[i].thread, NULL);
    CHECK_INT(atomic_load(&wrong), 0);
    CHECK_INT(proxy_connections(&p), 1);
    e->ops->close(e);
    proxy_end(&p);
}

struct adder {
    pthread_t thread;
    struct emq__engine *e;
    char session[24];
    int64_t added, doubts;
    atomic_bool *stop;
    emq_error err;
};

/* Adds until it is told to stop; a doubt is settled as the client does it. */
static void *add_on(void *arg)
{
    struct adder *a = arg;
    uint64_t seq = 0;

    while (!atomic_load(a->stop)) {
        struct emq__add_entry en = fx_entry("q", "x");
        const struct emq__add_entry *list[] = {&en};
        struct emq__add_req req = {{S(a->session), ++seq}, list, 1, S(""), false};
        struct emq__add_res res;
        emq_status s;
        do {
            struct emq__arena mem = {0};
            s = a->e->ops->add(a->e, &req, &res, &mem, &a->err);
            emq__arena_free(&mem);
            a->doubts += s == EMQ_E_IN_DOUBT;
        } while (s == EMQ_E_IN_DOUBT);
        if (s != EMQ_OK)
            return arg;
        a->added++;
    }
    return NULL;
}

/* Adds in many threads while `harm` is done `times` times; every acknowledged add must be there once. */
static int64_t add_under(void (*harm)(uint64_t *random), int times)
{
    struct emq__engine *e = open_port(the_server()->port, PATIENCE_MS);
    struct adder a[THREADS];
    atomic_bool stop = false;
    uint64_t random = test_seed();
    int64_t added = 0, doubts = 0;
    struct emq__stats_res res;
    emq_error err = {0};
    void *failed;

    (void)SERVER_DO("FLUSHALL");
    for (int i = 0; i < THREADS; i++) {
        a[i] = (struct adder){.e = e, .stop = &stop};
        (void)snprintf(a[i].session, sizeof a[i].session, "session-%d", i);
        CHECK_INT(pthread_create(&a[i].thread, NULL, add_on, &a[i]), 0);
    }
    for (int i = 0; i < times; i++)
        harm(&random);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(a[i].thread, &failed);
        if (failed)
            fail_msg("an add: %s", a[i].err.text);
        added += a[i].added;
        doubts += a[i].doubts;
    }
    CHECK_STATUS_ERR(stats_of(e, "q", &res, &err), EMQ_OK, &err);
    CHECK_INT(res.count[EMQ_WAITING], added);
    e->ops->close(e);
    return doubts;
}

static void kill_one(uint64_t *random)
{
    struct timespec t = {.tv_nsec = (long)(test_random(random) % 4000000)};

    (void)nanosleep(&t, NULL);
    (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
}

EMQ_TEST(connections_that_are_killed_at_random_lose_and_double_nothing)
{
    CHECK(add_under(kill_one, 200) > 0);
}

static void flush_scripts(uint64_t *random)
{
    struct timespec t = {.tv_nsec = (long)(test_random(random) % 1000000)};

    (void)nanosleep(&t, NULL);
    (void)SERVER_DO("SCRIPT FLUSH");
}

EMQ_TEST(scripts_that_are_flushed_at_any_time_are_loaded_again)
{
    CHECK_INT(add_under(flush_scripts, 200), 0);
}

EMQ_TEST(a_server_that_restarts_is_waited_for)
{
    struct server *s = START(.aof = true);
    struct act a = {.e = open_port(s->port, PATIENCE_MS)};
    struct emq__stats_res res;

    for (int i = 0; i < 3; i++) {
        emq_status st;
        a.seq++;
        do /* a child that writes the log may have held the old connection open: its receipt settles it */
            st = add_small(&a);
        while (st == EMQ_E_IN_DOUBT);
        CHECK_STATUS_ERR(st, EMQ_OK, &a.err);
        server_stop(s, i == 1);
        server_again(s);
    }
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &a.err), EMQ_OK, &a.err);
    CHECK_INT(res.count[EMQ_WAITING], 3);
    a.e->ops->close(a.e);
    server_end(s);
}

EMQ_TEST(a_child_process_may_only_close_the_handle)
{
    struct proxy p = start_fresh();
    struct act a = {.e = open_port(p.port, PATIENCE_MS), .seq = 1};

    CHECK_STATUS_ERR(add_small(&a), EMQ_OK, &a.err);
    pid_t child = fork();
    if (child == 0) {
        emq_status s = add_small(&a);
        a.e->ops->close(a.e);
        _exit(s == EMQ_E_FORKED ? 0 : 1);
    }
    int status = -1;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
    a.seq++;
    CHECK_STATUS_ERR(add_small(&a), EMQ_OK, &a.err);
    CHECK_INT(proxy_connections(&p), 1);
    a.e->ops->close(a.e);
    proxy_end(&p);
}
