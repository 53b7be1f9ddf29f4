/* SPDX-License-Identifier: MIT
 *
 * Waiting on a server: who is woken, what a wait that ends early leaves behind, what others see of it,
 * and links that break meanwhile.
 */
#include "redis/ground.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static struct emq__engine *open_fresh(void)
{
    (void)SERVER_DO("FLUSHALL");
    return open_port(the_server()->port, PATIENCE_MS);
}

/* ---- one wait, here or in a thread --------------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    struct emq__engine *e;
    emq_str queues[3];
    size_t n;
    uint64_t ticket;
    int64_t timeout_ms;
    atomic_int cancelled;
    atomic_bool over;
    emq_status status;
    emq_error err;
};

static void ready(struct waiter *w, struct emq__engine *e, const char *queue)
{
    *w = (struct waiter){.e = e, .queues = {emq_cstr(queue)}, .n = 1, .timeout_ms = 60000};
    w->ticket = e->ops->ticket(e, FX_PREFIX, w->queues, w->n);
}

static void *wait_here(void *arg)
{
    struct waiter *w = arg;
    struct emq__wait_req req = {.prefix = FX_PREFIX,
                                .queues = w->queues,
                                .n = w->n,
                                .ticket = w->ticket,
                                .timeout_ms = w->timeout_ms,
                                .cancelled = &w->cancelled};
    struct emq__wait_res res;
    struct emq__arena mem = {0};

    w->status = w->e->ops->wait(w->e, &req, &res, &mem, &w->err);
    emq__arena_free(&mem);
    atomic_store(&w->over, true);
    return NULL;
}

static emq_status wait_ms(struct waiter *w, int64_t ms)
{
    w->timeout_ms = ms;
    w->ticket = w->e->ops->ticket(w->e, FX_PREFIX, w->queues, w->n);
    (void)wait_here(w);
    return w->status;
}

static void begin(struct waiter *w)
{
    CHECK_INT(pthread_create(&w->thread, NULL, wait_here, w), 0);
}

static emq_status end(struct waiter *w)
{
    (void)pthread_join(w->thread, NULL);
    return w->status;
}

/* The words of one line of a reply that has `mark` in it, or NULL. */
static const char *line_with(const char *text, const char *mark)
{
    static char line[600];
    const char *at = strstr(text, mark);

    if (!at)
        return NULL;
    while (at > text && at[-1] != '\n')
        at--;
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static int count_of(const char *text, const char *mark)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, mark)) != NULL; at++)
        n++;
    return n;
}

/* Until so many clients are blocked. */
static void until_blocked(int n)
{
    struct emq__mono start = emq__mono_now();

    for (;;) {
        const char *line = line_with(SERVER_DO("INFO clients"), "blocked_clients:");
        if (line && strtol(strchr(line, ':') + 1, NULL, 10) >= n)
            return;
        CHECK(since(start) < PATIENCE_MS);
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

/* ---- work ---------------------------------------------------------------------------------------- */

EMQ_TEST(work_of_another_handle_wakes_a_waiting_worker)
{
    struct emq__engine *e = open_fresh(), *other = open_port(the_server()->port, PATIENCE_MS);
    struct waiter w;

    ready(&w, e, "q");
    begin(&w);
    until_blocked(1);
    must_add_to(other, "q");
    CHECK_STATUS_ERR(end(&w), EMQ_OK, &w.err);
    CHECK(e->ops->ticket(e, FX_PREFIX, w.queues, 1) != w.ticket);
    e->ops->close(e);
    other->ops->close(other);
}

EMQ_TEST(work_wakes_one_of_many_waiting_workers)
{
    struct emq__engine *other = open_fresh(), *e[4];
    struct waiter w[4];

    for (int i = 0; i < 4; i++) {
        e[i] = open_port(the_server()->port, PATIENCE_MS);
        ready(&w[i], e[i], "q");
        begin(&w[i]);
    }
    until_blocked(4);
    must_add_to(other, "q");
    int woken = 0;
    for (int i = 0; i < 4; i++)
        woken += end(&w[i]) == EMQ_OK;
    CHECK_INT(woken, 1);
    for (int i = 0; i < 4; i++)
        e[i]->ops->close(e[i]);
    other->ops->close(other);
}

EMQ_TEST(a_wait_for_several_queues_hears_of_each)
{
    struct emq__engine *e = open_fresh(), *other = open_port(the_server()->port, PATIENCE_MS);

    for (int i = 0; i < 3; i++) {
        struct waiter w = {.e = e, .queues = {S("a"), S("b"), S("c")}, .n = 3, .timeout_ms = 1000};
        w.ticket = e->ops->ticket(e, FX_PREFIX, w.queues, 3);
        uint64_t before = e->ops->ticket(e, FX_PREFIX, &w.queues[i], 1);
        begin(&w);
        until_blocked(1);
        must_add_to(other, w.queues[i].ptr);
        CHECK_STATUS_ERR(end(&w), EMQ_OK, &w.err);
        /* and says which */
        CHECK(e->ops->ticket(e, FX_PREFIX, &w.queues[i], 1) != before);
    }
    e->ops->close(e);
    other->ops->close(other);
}

EMQ_TEST(a_wait_without_work_is_over_in_time)
{
    struct emq__engine *e = open_fresh();
    struct waiter w;

    ready(&w, e, "q");
    struct emq__mono start = emq__mono_now();
    CHECK_STATUS_ERR(wait_ms(&w, 50), EMQ_TIMEOUT, &w.err);
    CHECK(since(start) >= 50 && since(start) < 5 * 50 + 1000);
    start = emq__mono_now();
    CHECK_STATUS_ERR(wait_ms(&w, 3600000), EMQ_TIMEOUT, &w.err); /* a second at a time */
    CHECK(since(start) < 5000);
    e->ops->close(e);
}

EMQ_TEST(an_interrupt_ends_a_wait_and_leaves_the_others_waiting)
{
    struct emq__engine *e = open_fresh();
    struct waiter a, b;

    ready(&a, e, "q");
    ready(&b, e, "q2");
    begin(&a);
    begin(&b);
    until_blocked(2);
    atomic_store(&a.cancelled, 1);
    e->ops->interrupt(e);
    CHECK_STATUS_ERR(end(&a), EMQ_CANCELLED, &a.err);
    CHECK_STATUS_ERR(end(&b), EMQ_TIMEOUT, &b.err);
    e->ops->close(e);
}

/* A marker that comes while a wait is being cancelled is either told of or still there. */
EMQ_TEST(a_cancelled_wait_steals_no_wake_up)
{
    struct emq__engine *e = open_fresh();
    uint64_t random = test_seed();
    int told = 0, left = 0;

    for (int i = 0; i < 300; i++) {
        struct waiter w;
        struct timespec t = {.tv_nsec = (long)(test_random(&random) % 300000)};
        ready(&w, e, "q");
        begin(&w);
        until_blocked(1);
        atomic_store(&w.cancelled, 1);
        if (i % 2)
            e->ops->interrupt(e);
        (void)nanosleep(&t, NULL);
        (void)SERVER_DO("ZADD emq:q:marker 0 0");
        if (i % 2 == 0)
            e->ops->interrupt(e);
        emq_status s = end(&w);
        if (s == EMQ_OK)
            told++;
        else {
            CHECK_STATUS_ERR(s, EMQ_CANCELLED, &w.err);
            assert_string_equal(SERVER_DO("ZCARD emq:q:marker"), "1");
            left++;
        }
        (void)SERVER_DO("DEL emq:q:marker");
    }
    CHECK(told + left == 300 && left > 0);
    e->ops->close(e);
}

EMQ_TEST(a_marker_for_later_is_slept_to_and_put_back)
{
    struct emq__engine *e = open_fresh();
    struct waiter w;
    int64_t due = emq__wall_ms() + 3600000;

    (void)SERVER_DO("ZADD emq:q:marker %lld 1", (long long)due);
    ready(&w, e, "q");
    CHECK_STATUS_ERR(wait_ms(&w, 60), EMQ_TIMEOUT, &w.err);
    CHECK_INT(server_number(SERVER_DO("ZSCORE emq:q:marker 1")), due);

    /* One that comes due ends the wait then. */
    (void)SERVER_DO("ZADD emq:q:marker %lld 1", (long long)(emq__wall_ms() + 100));
    struct emq__mono start = emq__mono_now();
    CHECK_STATUS_ERR(wait_ms(&w, 1000), EMQ_OK, &w.err);
    CHECK(since(start) >= 90);
    assert_string_equal(SERVER_DO("ZCARD emq:q:marker"), "0");

    /* Work that comes while one is held is told of at once, and the held one goes back. */
    (void)SERVER_DO("ZADD emq:q:marker %lld 1", (long long)due);
    ready(&w, e, "q");
    begin(&w);
    struct emq__mono began = emq__mono_now();
    while (strcmp(SERVER_DO("ZCARD emq:q:marker"), "0") != 0)
        CHECK(since(began) < PATIENCE_MS);
    (void)SERVER_DO("ZADD emq:q:marker 0 0");
    CHECK_STATUS_ERR(end(&w), EMQ_OK, &w.err);
    CHECK_INT(server_number(SERVER_DO("ZSCORE emq:q:marker 1")), due);
    e->ops->close(e);
}

/* ---- names --------------------------------------------------------------------------------------- */

static void take_as(struct emq__engine *e, const char *queue, const char *worker)
{
    struct emq__take_req req = {.prefix = FX_PREFIX,
                                .queue = emq_cstr(queue),
                                .take = {emq_cstr(worker), 30000, .count = 1}};
    struct emq__take_res res;
    struct emq__arena mem = {0};
    emq_error err = {0};

    CHECK_STATUS_ERR(e->ops->take(e, &req, &res, &mem, &err), EMQ_OK, &err);
    emq__arena_free(&mem);
}

EMQ_TEST(a_worker_has_one_connection_of_its_name_for_each_queue)
{
    struct emq__engine *e = open_fresh();
    struct waiter w;

    take_as(e, "q", "host:1:1");
    assert_null(line_with(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:w:"));
    ready(&w, e, "q");
    (void)wait_ms(&w, 5);
    assert_non_null(line_with(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:w:host:1:1 "));

    /* One that never waits is known from its second take on. */
    take_as(e, "r", "host:1:1");
    take_as(e, "r", "host:1:1");
    assert_non_null(line_with(SERVER_DO("CLIENT LIST"), "name=emq:cg==:w:host:1:1 "));
    for (int i = 0; i < 5; i++) {
        take_as(e, "q", "host:1:1");
        (void)wait_ms(&w, 5);
    }
    CHECK_INT(count_of(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:w:"), 1);

    /* Another name of the same thread is another worker, instead of the first. */
    take_as(e, "q", "host:1:2");
    take_as(e, "q", "host:1:2");
    CHECK_INT(count_of(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:w:"), 1);
    assert_non_null(line_with(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:w:host:1:2 "));
    e->ops->close(e);
    assert_null(line_with(SERVER_DO("CLIENT LIST"), ":w:"));
}

/* ---- events -------------------------------------------------------------------------------------- */

enum { LISTENERS = 8 };

EMQ_TEST(an_event_wakes_all_who_wait_for_it_over_one_connection)
{
    struct emq__engine *e = open_fresh(), *other = open_port(the_server()->port, PATIENCE_MS);
    struct waiter w[LISTENERS];

    must_add_to(other, "q");
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LISTENERS; i++) {
            ready(&w[i], e, "q:events");
            /* The first wait of all learns where the stream ends, and says "look". */
            if (round == 0 && i == 0) {
                CHECK_STATUS_ERR(wait_ms(&w[i], 1000), EMQ_OK, &w[i].err);
                ready(&w[i], e, "q:events");
            }
            begin(&w[i]);
        }
        until_blocked(1);
        must_add_to(other, "q");
        for (int i = 0; i < LISTENERS; i++)
            CHECK_STATUS_ERR(end(&w[i]), EMQ_OK, &w[i].err);
    }
    CHECK_INT(count_of(SERVER_DO("CLIENT LIST"), "name=emq:cQ==:qe "), 1);
    e->ops->close(e);
    other->ops->close(other);
}

EMQ_TEST(an_event_between_the_ticket_and_the_wait_is_not_missed)
{
    struct emq__engine *e = open_fresh(), *other = open_port(the_server()->port, PATIENCE_MS);
    struct waiter w, another;

    ready(&w, e, "q:events");
    CHECK_STATUS_ERR(wait_ms(&w, 1000), EMQ_OK, &w.err);
    for (int i = 0; i < 20; i++) {
        ready(&w, e, "q:events");
        must_add_to(other, "q");
        if (i % 2) { /* somebody else of this process has heard of it */
            ready(&another, e, "q:events");
            (void)wait_ms(&another, 1000);
        }
        (void)wait_here(&w);
        CHECK_STATUS_ERR(w.status, EMQ_OK, &w.err);
        /* Quiet again? */
        for (emq_status s = EMQ_OK; s == EMQ_OK;)
            s = wait_ms(&w, 10);
        CHECK_STATUS_ERR(w.status, EMQ_TIMEOUT, &w.err);
    }
    e->ops->close(e);
    other->ops->close(other);
}

EMQ_TEST(who_reads_for_all_may_be_interrupted_and_another_goes_on)
{
    struct emq__engine *e = open_fresh(), *other = open_port(the_server()->port, PATIENCE_MS);
    struct waiter w[LISTENERS];

    ready(&w[0], e, "q:events");
    (void)wait_ms(&w[0], 1000);
    for (int i = 0; i < LISTENERS; i++) {
        ready(&w[i], e, "q:events");
        begin(&w[i]);
    }
    until_blocked(1);
    for (int i = 0; i < LISTENERS - 1; i++) {
        atomic_store(&w[i].cancelled, 1);
        e->ops->interrupt(e);
        CHECK_STATUS_ERR(end(&w[i]), EMQ_CANCELLED, &w[i].err);
    }
    must_add_to(other, "q");
    CHECK_STATUS_ERR(end(&w[LISTENERS - 1]), EMQ_OK, &w[LISTENERS - 1].err);
    e->ops->close(e);
    other->ops->close(other);
}

/* ---- links that break ---------------------------------------------------------------------------- */

/* A wait on this handle is ended by what another adds. */
static void hears_an_add(struct waiter *w, struct emq__engine *e, const char *name)
{
    struct emq__engine *other = open_port(the_server()->port, PATIENCE_MS);

    ready(w, e, name);
    begin(w);
    until_blocked(1);
    must_add_to(other, "q");
    CHECK_STATUS_ERR(end(w), EMQ_OK, &w->err);
    other->ops->close(other);
}

EMQ_TEST(a_wait_whose_connection_is_killed_says_look_and_the_next_one_works)
{
    const char *names[] = {"q", "q:events"};

    for (int k = 0; k < 2; k++) {
        struct emq__engine *e = open_fresh();
        struct waiter w;
        ready(&w, e, names[k]);
        (void)wait_ms(&w, 1); /* events: where the stream ends */
        ready(&w, e, names[k]);
        begin(&w);
        until_blocked(1);
        (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
        emq_status s = end(&w);
        CHECK(s == EMQ_OK || (k == 1 && s == EMQ_TIMEOUT));
        hears_an_add(&w, e, names[k]);
        e->ops->close(e);
    }
}

EMQ_TEST(a_wait_on_a_half_open_link_is_over_in_time_and_works_again_later)
{
    const char *names[] = {"q", "q:events"};

    for (int k = 0; k < 2; k++) {
        struct proxy p;
        struct waiter w;
        (void)SERVER_DO("FLUSHALL");
        proxy_start(&p, the_server()->port);
        struct emq__engine *e = open_port(p.port, PATIENCE_MS);
        ready(&w, e, names[k]);
        (void)wait_ms(&w, 1);
        proxy_stall(&p, true);
        for (int i = 0; i < 2; i++) {
            struct emq__mono start = emq__mono_now();
            emq_status s = wait_ms(&w, 1000);
            CHECK(s == EMQ_TIMEOUT || s == EMQ_OK);
            CHECK(since(start) < 5000);
        }
        proxy_stall(&p, false);
        emq_status s = wait_ms(&w, 1);
        CHECK(s != EMQ_CANCELLED);
        hears_an_add(&w, e, names[k]);
        e->ops->close(e);
        proxy_end(&p);
    }
}

EMQ_TEST(a_wait_without_a_server_is_no_failure_and_is_not_over_at_once)
{
    const char *names[] = {"q", "q:events"};

    for (int k = 0; k < 2; k++) {
        struct server *s = start_plain();
        struct waiter w;
        struct emq__engine *e = open_port(s->port, PATIENCE_MS);
        ready(&w, e, names[k]);
        (void)wait_ms(&w, 1);
        server_stop(s, true);
        for (int i = 0; i < 3; i++) {
            struct emq__mono start = emq__mono_now();
            emq_status st = wait_ms(&w, 1000);
            /* The first one may find that its connection has ended. */
            CHECK(st == EMQ_TIMEOUT || (i == 0 && st == EMQ_OK));
            CHECK(i == 0 || since(start) >= 100);
            CHECK(since(start) < 5000);
        }
        server_again(s);
        for (emq_status st = EMQ_OK; st != EMQ_TIMEOUT;)
            st = wait_ms(&w, 10);
        must_add_to(e, "q");
        CHECK_STATUS_ERR(wait_ms(&w, 1000), EMQ_OK, &w.err);
        e->ops->close(e);
        server_end(s);
    }
}
