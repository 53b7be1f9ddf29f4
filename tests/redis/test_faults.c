/* SPDX-License-Identifier: MIT
 *
 * The whole of it under faults: connections are killed, scripts forgotten, servers restarted and filled up,
 * and links freeze and break. plant.h says what must come out.
 *
 * EMQ_FAULTS_MS sets how long the harm of each goes on.
 */
#include "redis/nodes.h"
#include "redis/plant.h"

enum { KILLING_MS = 10000, HARM_MS = 1500, END_MS = 60000 };

/* One connection of those that go over the network, whatever it does just now. */
static void kill_any(struct plant *p)
{
    enum { CLIENTS = 64 };
    long long ids[CLIENTS];
    int n = 0;

    for (const char *line = SERVER_DO("CLIENT LIST"); line; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        const char *addr = strstr(line, " addr=127.");
        if (n < CLIENTS && addr && addr < line + strcspn(line, "\n"))
            ids[n++] = strtoll(line + strlen("id="), NULL, 10);
    }
    if (n > 0)
        (void)SERVER_DO("CLIENT KILL ID %lld", ids[plant_random(p, n)]);
}

EMQ_TEST(connections_killed_and_scripts_forgotten_lose_and_double_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct plant p;

    (void)SERVER_DO("FLUSHALL");
    plant_start(&p, the_server()->url, PATIENCE_MS);
    while (since(start) < harm_ms(KILLING_MS)) {
        nap_ms(plant_random(&p, 20));
        if (plant_random(&p, 8) == 0)
            (void)SERVER_DO("CLIENT KILL TYPE normal SKIPME yes");
        else
            kill_any(&p);
        if (plant_random(&p, 4) == 0)
            (void)SERVER_DO("SCRIPT FLUSH");
    }
    (void)plant_end(&p, 0);
}

EMQ_TEST(a_server_that_dies_and_comes_back_loses_and_doubles_no_job)
{
    struct server *s = START(.aof = true);
    struct emq__mono start = emq__mono_now();
    struct plant p;

    plant_start(&p, s->url, PATIENCE_MS);
    for (int i = 0; i < 3 || since(start) < harm_ms(HARM_MS); i++) {
        nap_ms(300 + plant_random(&p, 300));
        server_stop(s, i % 2 == 0);
        nap_ms(plant_random(&p, 300));
        server_again(s);
    }
    (void)plant_end(&p, 0);
    server_end(s);
}

static void start_through(struct proxy *proxy, struct plant *p, int64_t timeout_ms)
{
    char url[60];

    (void)SERVER_DO("FLUSHALL");
    proxy_start(proxy, the_server()->port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy->port);
    plant_start(p, url, timeout_ms);
}

EMQ_TEST(a_link_that_freezes_again_and_again_loses_and_doubles_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct proxy proxy;
    struct plant p;

    start_through(&proxy, &p, SHORT_MS);
    for (int i = 0; i < 3 || since(start) < harm_ms(HARM_MS); i++) {
        nap_ms(200 + plant_random(&p, 200));
        proxy_stall(&proxy, true);
        nap_ms(plant_random(&p, 3 * SHORT_MS));
        proxy_stall(&proxy, false);
    }
    nap_ms(SHORT_MS);
    (void)plant_end(&p, 0);
    proxy_end(&proxy);
}

EMQ_TEST(links_cut_at_random_bytes_lose_and_double_no_job)
{
    struct emq__mono start = emq__mono_now();
    struct proxy proxy;
    struct plant p;

    start_through(&proxy, &p, PATIENCE_MS);
    while (since(start) < harm_ms(HARM_MS)) {
        int64_t n = plant_random(&p, 600);
        (plant_random(&p, 2) ? proxy_cut_requests : proxy_cut_replies)(&proxy, n);
        nap_ms(plant_random(&p, 30));
    }
    (void)proxy_was_cut(&proxy);
    (void)plant_end(&p, 0);
    proxy_end(&proxy);
}

EMQ_TEST(a_server_out_of_memory_refuses_jobs_and_finishes_those_it_has)
{
    struct server *s = start_plain();
    struct plant p;

    plant_start(&p, s->url, PATIENCE_MS);
    plant_goes_on(&p, 200);
    (void)server_command(s, "CONFIG SET maxmemory 1");
    struct emq__mono start = emq__mono_now();
    while (plant_left(&p) > 0) { /* none is added: what is there ends */
        CHECK(since(start) < END_MS);
        nap_ms(10);
    }
    int64_t before = atomic_load(&p.accepted);
    nap_ms(50);
    CHECK_INT(atomic_load(&p.accepted), before);
    (void)server_command(s, "CONFIG SET maxmemory 0");
    plant_goes_on(&p, 50);
    (void)plant_end(&p, 0);
    server_end(s);
}
