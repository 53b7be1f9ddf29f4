/* SPDX-License-Identifier: MIT
 *
 * Several servers: clusters, whose slots move, and sentinels, whose primary changes. In both, what was
 * acknowledged is there afterwards, once.
 */
#include "redis/ground.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { NODES = 3, LONG_MS = 30000 };

#define CHECK_TEXT(error, part) check_has(emq_cstr((error).text), part, __FILE__, __LINE__)

static void nap_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Until a replica has all that its primary has written. */
static void until_replicated(struct server *primary)
{
    struct emq__mono start = emq__mono_now();

    for (;;) {
        const char *info = server_command(primary, "INFO replication");
        const char *slave = strstr(info, "state=online,offset="),
                   *all = strstr(info, "master_repl_offset:");
        if (slave && all && strtoll(slave + 20, NULL, 10) == strtoll(all + 19, NULL, 10))
            return;
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
}

/* ---- adding while something happens --------------------------------------------------------------- */

struct adder {
    pthread_t thread;
    struct add a;
    int64_t added, doubts;
    atomic_bool stop;
    atomic_llong so_far;
    emq_status failed;
};

static void *add_on(void *arg)
{
    struct adder *d = arg;

    while (!atomic_load(&d->stop)) {
        emq_status s;
        d->a.seq++;
        do {
            s = add_data(&d->a, S("1"));
            d->doubts += s == EMQ_E_IN_DOUBT;
        } while (s == EMQ_E_IN_DOUBT);
        if (s != EMQ_OK) {
            d->failed = s;
            return NULL;
        }
        d->added++;
        atomic_fetch_add(&d->so_far, 1);
    }
    return NULL;
}

static void adder_begin(struct adder *d, struct emq__engine *e, const char *queue)
{
    *d = (struct adder){.a = {.e = e, .queue = queue}};
    CHECK_INT(pthread_create(&d->thread, NULL, add_on, d), 0);
}

/* Until it has added so many more. */
static void adder_goes_on(struct adder *d, int64_t n)
{
    int64_t from = atomic_load(&d->so_far);
    struct emq__mono start = emq__mono_now();

    while (atomic_load(&d->so_far) < from + n) {
        CHECK(since(start) < LONG_MS);
        nap_ms(1);
    }
}

static void adder_end(struct adder *d)
{
    atomic_store(&d->stop, true);
    (void)pthread_join(d->thread, NULL);
    CHECK_STATUS_ERR(d->failed, EMQ_OK, &d->a.err);
}

/* ---- clusters --------------------------------------------------------------------------------------- */

struct cluster {
    struct server *nodes[NODES];
    char url[200];
};

static struct cluster start_cluster(void)
{
    struct cluster c;

    for (int i = 0; i < NODES; i++)
        c.nodes[i] = START(.cluster = true);
    server_join(c.nodes, NODES);
    (void)snprintf(c.url, sizeof c.url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d",
                   c.nodes[0]->port, c.nodes[1]->port);
    return c;
}

static void end_cluster(struct cluster *c)
{
    for (int i = 0; i < NODES; i++)
        server_end(c->nodes[i]);
}

static int node_of_slot(int slot)
{
    return slot * NODES / RD_SLOTS;
}

static int slot_of(const char *queue)
{
    uint16_t slot = 0;

    CHECK(rd_slot_of_queue(FX_PREFIX, emq_cstr(queue), &slot));
    return slot;
}

EMQ_TEST(slots_are_those_of_the_cluster)
{
    static const char *keys[] = {"foo",
                                 "123456789",
                                 "{user1000}.following",
                                 "foo{}{bar}",
                                 "foo{{bar}}zap",
                                 "foo{bar}{zap}",
                                 "",
                                 "{}",
                                 "a{b"};
    struct cluster c = start_cluster();

    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++)
        CHECK_INT(rd_slot_of_key(emq_cstr(keys[i])),
                  server_number(server_command(c.nodes[0], "CLUSTER KEYSLOT %s", keys[i])));
    end_cluster(&c);
}

EMQ_TEST(a_queue_without_a_hash_tag_is_refused_and_one_is_named)
{
    struct cluster c = start_cluster();
    struct add a = {.e = open_url(c.url, PATIENCE_MS), .queue = "mail"};
    emq_str q = S("mail");
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &q, .n = 1, .timeout_ms = 10};
    struct emq__wait_res res;

    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_INVALID);
    CHECK_TEXT(a.err, "\"{mail}\"");
    CHECK_TEXT(a.err, "?prefix={emq}");
    req.ticket = a.e->ops->ticket(a.e, FX_PREFIX, &q, 1);
    CHECK_STATUS(a.e->ops->wait(a.e, &req, &res, NULL, &a.err), EMQ_E_INVALID);
    CHECK_TEXT(a.err, "{mail}");
    a.e->ops->close(a.e);
    end_cluster(&c);
}

EMQ_TEST(queues_live_on_their_nodes_and_are_found_on_all)
{
    struct cluster c = start_cluster();
    char one[80];

    /* A plain URL of one node is enough. */
    (void)snprintf(one, sizeof one, "redis://127.0.0.1:%d", c.nodes[2]->port);
    struct emq__engine *e = open_url(c.url, PATIENCE_MS), *other = open_url(one, PATIENCE_MS);
    const char *queues[] = {"{a}", "{b}", "{c}", "x{d}y", "{e}"};
    bool used[NODES] = {false};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(queues); i++) {
        must_add_to(i % 2 ? e : other, queues[i]);
        CHECK_INT(waiting_in(i % 2 ? other : e, queues[i]), 1);
        used[node_of_slot(slot_of(queues[i]))] = true;
    }
    CHECK(used[0] && used[1] && used[2]);
    struct emq__queues_req req = {FX_PREFIX};
    struct emq__queues_res res;
    struct emq__arena mem = {0};
    emq_error err = {0};
    CHECK_STATUS_ERR(e->ops->queues(e, &req, &res, &mem, &err), EMQ_OK, &err);
    CHECK_INT(res.n, EMQ_ARRAY_LEN(queues));
    emq__arena_free(&mem);
    e->ops->close(e);
    other->ops->close(other);
    end_cluster(&c);
}

EMQ_TEST(one_add_of_queues_on_different_nodes_is_refused_before_anything_is_written)
{
    struct cluster c = start_cluster();
    struct emq__engine *e = open_url(c.url, PATIENCE_MS);
    struct emq__add_entry a = fx_entry("{a}", "1"), b = fx_entry("{b}", "1");
    const struct emq__add_entry *list[] = {&a, &b};
    struct emq__add_req req = {{S(""), 0}, list, 2, S("")};
    struct emq__add_res res;
    struct emq__arena mem = {0};
    emq_error err = {0};

    CHECK_STATUS(e->ops->add(e, &req, &res, &mem, &err), EMQ_E_INVALID);
    CHECK_TEXT(err, "\"{a}\" and \"{b}\"");
    CHECK_INT(waiting_in(e, "{a}"), 0);
    emq__arena_free(&mem);
    e->ops->close(e);
    end_cluster(&c);
}

EMQ_TEST(a_worker_waits_for_queues_on_several_nodes)
{
    struct cluster c = start_cluster();
    struct emq__engine *e = open_url(c.url, PATIENCE_MS), *other = open_url(c.url, PATIENCE_MS);
    emq_str queues[] = {S("{a}"), S("{b}"), S("{c}"), S("{a}2")};

    for (size_t i = 0; i < 4; i++) {
        struct emq__wait_req req = {
            .prefix = FX_PREFIX, .queues = queues, .n = 4, .timeout_ms = 1000};
        struct emq__wait_res res;
        emq_error err = {0};
        emq_status s;
        must_add_to(other, queues[i].ptr);
        uint64_t before = e->ops->ticket(e, FX_PREFIX, &queues[i], 1);
        req.ticket = e->ops->ticket(e, FX_PREFIX, queues, 4);
        s = e->ops->wait(e, &req, &res, NULL, &err);
        CHECK_STATUS_ERR(s, EMQ_OK, &err);
        CHECK(e->ops->ticket(e, FX_PREFIX, &queues[i], 1) != before);
    }
    e->ops->close(e);
    other->ops->close(other);
    end_cluster(&c);
}

/* One command to the node; fails the test unless it says OK. */
#define MUST(node, ...) assert_string_equal(server_command(node, __VA_ARGS__), "OK")

static const char *id_of(struct server *s)
{
    static char id[2][60];
    static int turn;

    turn = !turn;
    (void)snprintf(id[turn], sizeof id[turn], "%s", server_command(s, "CLUSTER MYID"));
    return id[turn];
}

/* Moves a slot as redis-cli does it, a key at a time; `half_way` is called once when some are over. */
static void move_slot(struct cluster *c, int slot, int from, int to, struct adder *watched)
{
    struct server *a = c->nodes[from], *b = c->nodes[to];
    int moved = 0;

    MUST(b, "CLUSTER SETSLOT %d IMPORTING %s", slot, id_of(a));
    MUST(a, "CLUSTER SETSLOT %d MIGRATING %s", slot, id_of(b));
    for (;;) {
        char key[300];
        const char *keys = server_command(a, "CLUSTER GETKEYSINSLOT %d 1", slot);
        if (keys[0] == '\0')
            break;
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(keys, "\n"), keys);
        MUST(a, "MIGRATE 127.0.0.1 %d %s 0 5000", b->port, key);
        if (++moved == 3 && watched)
            nap_ms(100); /* acts meet the half-moved slot */
    }
    for (int i = 0; i < NODES; i++)
        MUST(c->nodes[i], "CLUSTER SETSLOT %d NODE %s", slot, id_of(b));
}

EMQ_TEST(a_slot_that_was_moved_is_followed)
{
    struct cluster c = start_cluster();
    struct emq__engine *e = open_url(c.url, PATIENCE_MS);
    int slot = slot_of("{a}"), from = node_of_slot(slot);

    must_add_to(e, "{a}");
    for (int i = 1; i <= 3; i++) {
        int to = (from + 1) % NODES;
        move_slot(&c, slot, from, to, NULL);
        from = to;
        must_add_to(e, "{a}");
        CHECK_INT(waiting_in(e, "{a}"), 1 + i);
    }
    e->ops->close(e);
    end_cluster(&c);
}

EMQ_TEST(a_slot_that_is_being_moved_under_load_loses_and_doubles_nothing)
{
    struct cluster c = start_cluster();
    struct emq__engine *e = open_url(c.url, LONG_MS);
    int slot = slot_of("{a}"), from = node_of_slot(slot);
    struct adder d;

    adder_begin(&d, e, "{a}");
    for (int i = 0; i < 3; i++) {
        adder_goes_on(&d, 50);
        move_slot(&c, slot, from, (from + 1) % NODES, &d);
        from = (from + 1) % NODES;
    }
    adder_goes_on(&d, 50);
    adder_end(&d);
    CHECK_INT(waiting_in(e, "{a}"), d.added);
    e->ops->close(e);
    end_cluster(&c);
}

EMQ_TEST(a_node_that_dies_is_replaced_by_its_replica)
{
    struct cluster c = start_cluster();
    struct server *replica = START(.cluster = true);
    struct emq__engine *e = open_url(c.url, LONG_MS);
    int node = node_of_slot(slot_of("{a}"));
    struct emq__mono start = emq__mono_now();
    struct adder d;

    MUST(replica, "CLUSTER MEET 127.0.0.1 %d %d", c.nodes[node]->port, c.nodes[node]->cluster_port);
    while (strncmp(server_command(replica, "CLUSTER REPLICATE %s", id_of(c.nodes[node])), "OK",
                   2) != 0) {
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
    until_replicated(c.nodes[node]);
    adder_begin(&d, e, "{a}");
    adder_goes_on(&d, 50);
    /* What the replica has not got yet is the loss that asynchronous replication allows. */
    printf("replica: %s\n", server_command(replica, "INFO replication"));
    MUST(c.nodes[node], "CLIENT PAUSE 30000 WRITE");
    until_replicated(c.nodes[node]);
    server_stop(c.nodes[node], true);
    adder_goes_on(&d, 50);
    adder_end(&d);
    CHECK_INT(waiting_in(e, "{a}"), d.added);
    e->ops->close(e);
    server_end(replica);
    end_cluster(&c);
}

/* ---- sentinels -------------------------------------------------------------------------------------- */

struct watched {
    struct server *primary, *replica, *sentinel;
    char url[200];
};

static struct watched start_watched(const char *params)
{
    static char conf[300], sentinel_conf[300]; /* a server that starts again reads it again */
    struct watched w;
    struct emq__mono start = emq__mono_now();

    w.primary = START(.conf = "repl-diskless-sync-delay 0");
    (void)snprintf(conf, sizeof conf, "replicaof 127.0.0.1 %d", w.primary->port);
    w.replica = START(.conf = conf);
    until_replicated(w.primary);
    (void)snprintf(
        sentinel_conf, sizeof sentinel_conf,
        "sentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 2000\n"
        "sentinel failover-timeout main 10000",
        w.primary->port);
    w.sentinel = START(.sentinel = true, .conf = sentinel_conf);
    while (!strstr(server_command(w.sentinel, "SENTINEL MASTER main"), "num-slaves\n1")) {
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
    (void)snprintf(w.url, sizeof w.url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main%s",
                   server_free_port(), w.sentinel->port, params);
    return w;
}

static void until_primary(const struct watched *w, const struct server *s)
{
    struct emq__mono start = emq__mono_now();
    char port[20];

    (void)snprintf(port, sizeof port, "\n%d", s->port);
    while (!strstr(server_command(w->sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME main"), port)) {
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
}

static void end_watched(struct watched *w)
{
    server_end(w->sentinel);
    server_end(w->replica);
    server_end(w->primary);
}

EMQ_TEST(a_sentinel_that_does_not_know_the_name_says_so)
{
    struct watched w = start_watched("");
    struct emq__engine *e;
    emq_error err = {0};
    char url[200];

    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/other", w.sentinel->port);
    CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_UNAVAIL);
    CHECK_TEXT(err, "knows no primary \"other\"");
    end_watched(&w);
}

EMQ_TEST(a_primary_that_is_demoted_under_load_is_followed)
{
    struct watched w = start_watched("");
    struct emq__engine *e = open_url(w.url, LONG_MS);
    struct adder d;

    adder_begin(&d, e, "q");
    adder_goes_on(&d, 50);
    struct emq__mono start = emq__mono_now();
    while (strcmp(server_command(w.sentinel, "SENTINEL FAILOVER main"), "OK") != 0) {
        CHECK(since(start) < LONG_MS); /* it has not heard of the replica's state yet */
        nap_ms(10);
    }
    until_primary(&w, w.replica);
    /* The old primary takes writes until it is told; what it took then is the store's loss window. */
    while (
        !strstr(server_command(w.sentinel, "SENTINEL REPLICAS main"), "master-link-status\nok")) {
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
    adder_goes_on(&d, 50);
    adder_end(&d);
    int64_t waiting = waiting_in(e, "q");
    CHECK(waiting <= d.added && waiting >= 50);
    e->ops->close(e);
    end_watched(&w);
}

EMQ_TEST(who_waits_for_a_replica_is_told_ok_only_when_it_has_the_job)
{
    struct watched w = start_watched("?wait=1");
    struct add a = {.e = open_url(w.url, 4000), .seq = 1};

    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    CHECK_INT(server_number(server_command(w.replica, "LLEN emq:q:wait")), 1);
    /* A replica that stops: done, but not safe, so in doubt; asking again does not do it twice. */
    server_stop(w.replica, true);
    a.seq = 2;
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_E_IN_DOUBT, &a.err);
    CHECK_TEXT(a.err, "only 0 of 1 replicas");
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_E_IN_DOUBT, &a.err);
    server_again(w.replica);
    struct emq__mono start = emq__mono_now();
    emq_status s = EMQ_E_IN_DOUBT;
    while (s == EMQ_E_IN_DOUBT && since(start) < LONG_MS)
        s = add_data(&a, S("1"));
    CHECK_STATUS_ERR(s, EMQ_OK, &a.err);
    CHECK_INT(server_number(server_command(w.replica, "LLEN emq:q:wait")), 2);
    CHECK_INT(waiting_in(a.e, "q"), 2);
    a.e->ops->close(a.e);
    end_watched(&w);
}

EMQ_TEST(what_a_replica_has_acknowledged_survives_the_death_of_the_primary)
{
    struct watched w = start_watched("?wait=1");
    struct emq__engine *e = open_url(w.url, LONG_MS);
    struct adder d;

    adder_begin(&d, e, "q");
    adder_goes_on(&d, 50);
    server_stop(w.primary, true);
    /* Who comes back before all know of the new primary would make it its replica again, and empty it. */
    until_primary(&w, w.replica);
    /* The new primary has no replica: nothing more is acknowledged until it has one. */
    server_again(w.primary);
    adder_goes_on(&d, 10);
    adder_end(&d);
    CHECK_INT(waiting_in(e, "q"), d.added);
    e->ops->close(e);
    end_watched(&w);
}
