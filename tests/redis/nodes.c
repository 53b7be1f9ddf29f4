/* SPDX-License-Identifier: MIT
 *
 * See nodes.h.
 */
#include "redis/nodes.h"

#include <time.h>

void nap_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

void until_replicated(struct server *primary)
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

void adder_begin(struct adder *d, struct emq__engine *e, const char *queue)
{
    *d = (struct adder){.a = {.e = e, .queue = queue}};
    CHECK_INT(pthread_create(&d->thread, NULL, add_on, d), 0);
}

void adder_goes_on(struct adder *d, int64_t n)
{
    int64_t from = atomic_load(&d->so_far);
    struct emq__mono start = emq__mono_now();

    while (atomic_load(&d->so_far) < from + n) {
        CHECK(since(start) < LONG_MS);
        nap_ms(1);
    }
}

void adder_end(struct adder *d)
{
    atomic_store(&d->stop, true);
    (void)pthread_join(d->thread, NULL);
    CHECK_STATUS_ERR(d->failed, EMQ_OK, &d->a.err);
}

struct watched start_watched(const char *params)
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

void until_primary(const struct watched *w, const struct server *s)
{
    struct emq__mono start = emq__mono_now();
    char port[20];

    (void)snprintf(port, sizeof port, "\n%d", s->port);
    while (!strstr(server_command(w->sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME main"), port)) {
        CHECK(since(start) < LONG_MS);
        nap_ms(10);
    }
}

void fail_over(struct watched *w)
{
    server_stop(w->primary, true);
    /* Who comes back before all know of the new primary would make it its replica again, and empty it. */
    until_primary(w, w->replica);
    server_again(w->primary);
    /* The sentinel does it too, but takes its time. */
    (void)server_command(w->primary, "REPLICAOF 127.0.0.1 %d", w->replica->port);
}

void end_watched(struct watched *w)
{
    server_end(w->sentinel);
    server_end(w->replica);
    server_end(w->primary);
}
