/* SPDX-License-Identifier: MIT
 *
 * Clusters, whose slots move and whose nodes die: what was acknowledged is there afterwards, once.
 */
#include "redis/nodes.h"

enum { NODES = 3 };

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
    struct emq__queues_req req = {.prefix = FX_PREFIX};
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
    struct emq__add_req req = {{S(""), 0}, list, 2, S(""), false};
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

EMQ_TEST(a_stage_that_is_not_there_is_none_on_each_node)
{
    static const char *const prefixes[] = {"{a}", "{b}", "{c}", "x{d}y", "{e}"};
    struct cluster c = start_cluster();
    struct emq__engine *e = open_url(c.url, PATIENCE_MS);
    struct emq__arena mem = {0};
    emq_error err = {0};

    for (size_t i = 0; i < 2 * EMQ_ARRAY_LEN(prefixes); i++) {
        struct emq__publish_req req = {
            .prefix = emq_cstr(prefixes[i / 2]), .stage = S("s"), .drop = i % 2};
        struct emq__publish_res res;
        CHECK_STATUS_ERR(e->ops->publish(e, &req, &res, &mem, &err), EMQ_NOT_FOUND, &err);
    }
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
