/* SPDX-License-Identifier: MIT
 *
 * Sentinels, whose primary changes: what was acknowledged and replicated is there afterwards, once. What was
 * not replicated is the store's loss window, which ?wait=N narrows.
 */
#include "field/audit.h"
#include "redis/nodes.h"
#include "redis/plant.h"

EMQ_TEST(a_sentinel_that_does_not_know_the_name_says_so)
{
    struct watched w = start_watched("");
    struct emq__engine *e;
    emq_error err = {0};
    char url[200];

    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:1/other",
                   w.sentinel->port);
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
    fail_over(&w); /* nothing more is acknowledged until the new primary has a replica */
    adder_goes_on(&d, 10);
    adder_end(&d);
    CHECK_INT(waiting_in(e, "q"), d.added);
    e->ops->close(e);
    end_watched(&w);
}

/* ---- everything at work ------------------------------------------------------------------------- */

/* The primary dies while `p` works, and its replica takes over. Answers how many jobs it was known to have
 * when it still had all. */
static int64_t fail_over_under(struct watched *w, struct plant *p)
{
    plant_goes_on(p, 200);
    plant_hold(p, true);
    until_replicated(w->primary);
    int64_t safe = atomic_load(&p->accepted);
    plant_hold(p, false);
    plant_goes_on(p, 20);
    fail_over(w);
    return safe;
}

EMQ_TEST(a_failover_under_load_loses_no_job_but_those_of_the_stores_loss_window)
{
    struct watched w = start_watched("");
    struct plant p;

    plant_start(&p, w.url, LONG_MS);
    int64_t safe = fail_over_under(&w, &p);
    int64_t acknowledged = atomic_load(&p.accepted);
    plant_goes_on(&p, 50);
    int64_t lost = plant_end(&p, acknowledged - safe);
    printf("%lld of the last %lld acknowledged jobs were lost with the primary\n", (long long)lost,
           (long long)(acknowledged - safe));
    end_watched(&w);
}

EMQ_TEST(a_failover_under_load_loses_no_job_that_a_replica_was_waited_for)
{
    struct watched w = start_watched("?wait=1");
    struct plant p;

    plant_start(&p, w.url, LONG_MS);
    (void)fail_over_under(&w, &p);
    plant_goes_on(&p, 50);
    (void)plant_end(&p, 0);
    end_watched(&w);
}

/* ---- what a replica never got ------------------------------------------------------------------- */

enum { FINISHED = 20, ADDED = 30, LOCK_MS = 300 };

/* Takes all and completes them. */
static void complete_all(emq_client *c, const emq_take_opts *take)
{
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_job *j = NULL;

    while (emq_take(c, S("q"), take, &j, NULL) == EMQ_OK) {
        FIELD_OK(emq_settle(c, S("q"), emq_job_id(j), emq_job_token(j), &done, err));
        emq_job_free(j);
    }
}

static emq_client *client_of(const char *url)
{
    emq_client *c = NULL;

    FIELD_OK(emq_open(&c, emq_cstr(url), NULL, err));
    return c;
}

EMQ_TEST(jobs_that_come_back_with_an_old_replica_run_again_and_the_sums_are_its_own)
{
    emq_take_opts take = {.size = sizeof take, .lock_ms = LOCK_MS};
    struct server *primary = START(.conf = "repl-diskless-sync-delay 0");
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_job *held[FINISHED];
    struct proxy proxy;
    char conf[80];

    proxy_start(&proxy, primary->port);
    (void)snprintf(conf, sizeof conf, "replicaof 127.0.0.1 %d", proxy.port);
    struct server *replica = START(.conf = conf);
    emq_client *c = client_of(primary->url);
    for (int i = 0; i < FINISHED; i++) {
        FIELD_OK(emq_add(c, S("q"), S("1"), NULL, NULL, err));
        FIELD_OK(emq_take(c, S("q"), &take, &held[i], err));
    }
    until_replicated(primary);
    proxy_stall(&proxy, true); /* from here on it gets nothing */
    for (int i = 0; i < FINISHED; i++) {
        FIELD_OK(emq_settle(c, S("q"), emq_job_id(held[i]), emq_job_token(held[i]), &done, err));
        emq_job_free(held[i]);
    }
    for (int i = 0; i < ADDED; i++)
        FIELD_OK(emq_add(c, S("q"), S("1"), NULL, NULL, err));
    field_audit(c, "q");
    server_stop(primary, true);
    emq_close(c);
    proxy_end(&proxy);
    (void)server_command(replica, "REPLICAOF NO ONE");

    c = client_of(replica->url);
    emq_queue_stats st = field_stats(c, "q");
    CHECK_INT(st.total_added, FINISHED); /* the others are the store's loss window */
    CHECK_INT(st.count[EMQ_ACTIVE], FINISHED);
    field_audit(c, "q");
    struct emq__mono start = emq__mono_now();
    while (field_stats(c, "q").total_completed < FINISHED) {
        CHECK(since(start) < LONG_MS);
        FIELD_OK(emq_sweep(c, S("q"), NULL, NULL, NULL, err));
        complete_all(c, &take);
    }
    FIELD_OK(emq_add(c, S("q"), S("1"), NULL, NULL, err)); /* ids go on */
    field_audit(c, "q");
    CHECK_INT(field_stats(c, "q").total_recovered, FINISHED);
    emq_close(c);
    server_end(replica);
    server_end(primary);
}
