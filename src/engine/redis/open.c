/* SPDX-License-Identifier: MIT
 *
 * Opening and closing. A handle that open gave out has spoken with a server that is new enough and
 * takes writes; in a child process close gives back memory and descriptors and says nothing to the server.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <string.h>
#include <unistd.h>

enum { IO_TIMEOUT_DEFAULT_MS = 10000 };

static emq_status init_mutexes(struct rd_engine *e, emq_error *err)
{
    int rc = pthread_mutex_init(&e->nodes_mu, NULL);

    if (rc == 0 && (rc = pthread_mutex_init(&e->mu, NULL)) != 0)
        pthread_mutex_destroy(&e->nodes_mu);
    return rc == 0 ? EMQ_OK : emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
}

static emq_status add_seeds(struct rd_engine *e, emq_error *err)
{
    struct rd_addr shown = {.port = 0};
    emq_status s = EMQ_OK;
    size_t at;

    if (e->cfg.mode == RD_SENTINEL) {
        (void)snprintf(shown.host, sizeof shown.host, "the primary \"%.*s\"",
                       EMQ_STR_ARG(e->cfg.primary));
        return rd_node_add(e, &shown, true, &at, err);
    }
    for (size_t i = 0; s == EMQ_OK && i < e->cfg.n_seeds; i++)
        s = rd_node_add(e, &e->cfg.seeds[i], false, &at, err);
    return s;
}

static emq_status connect_first(struct rd_engine *e, emq_error *err)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), e->io_timeout_ms);
    emq_status s = EMQ_OK;

    e->cluster = e->cfg.mode == RD_CLUSTER;
    if (e->cluster)
        s = rd_cluster_refresh(e, end, err);
    if (s == EMQ_OK)
        s = rd_info_read(e, err);
    if (s == EMQ_OK && e->cluster && e->cfg.mode != RD_CLUSTER)
        s = rd_cluster_refresh(e, end, err);
    if (s == EMQ_OK)
        s = rd_clock_read(e, err);
    return s;
}

static void tear_down(struct rd_engine *e, bool forked)
{
    rd_waits_free(e, forked);
    rd_nodes_free(e, forked);
    rd_tls_free(e->tls);
    emq__arena_free(&e->mem);
    if (!forked) {
        pthread_mutex_destroy(&e->nodes_mu);
        pthread_mutex_destroy(&e->mu);
    }
    free(e);
}

emq_status emq__redis_open(struct emq__engine **out, const struct emq__engine_config *cfg,
                           struct emq__arena *mem, emq_error *err)
{
    struct rd_engine *e = calloc(1, sizeof *e);
    char host_pid[104];

    (void)mem;
    if (!e)
        return emq__fail(err, EMQ_E_NOMEM, 0, "open", "engine of %zu bytes", sizeof *e);
    e->base.ops = &rd_ops;
    e->log = cfg->log;
    e->pid = getpid();
    e->io_timeout_ms = cfg->io_timeout_ms > 0 ? cfg->io_timeout_ms : IO_TIMEOUT_DEFAULT_MS;
    emq__host_pid(host_pid, sizeof host_pid);
    (void)snprintf(e->name, sizeof e->name, "echomq:%s", host_pid);

    emq_status s = init_mutexes(e, err);
    if (s != EMQ_OK) {
        free(e);
        return s;
    }
    s = rd_url_read(&e->cfg, &cfg->url, &e->mem, err);
    if (s == EMQ_OK && e->cfg.tls)
        s = rd_tls_new(&e->tls, &e->cfg.tls_config, err);
    if (s == EMQ_OK)
        s = rd_waits_new(e, err);
    if (s == EMQ_OK)
        s = add_seeds(e, err);
    if (s == EMQ_OK)
        s = connect_first(e, err);
    if (s != EMQ_OK) {
        tear_down(e, false);
        return s;
    }
    e->stopped = cfg->stop_clock;
    e->opened = true;
    *out = &e->base;
    return EMQ_OK;
}

void rd_close(struct emq__engine *engine)
{
    struct rd_engine *e = rd_of(engine);

    tear_down(e, rd_check_fork(e, NULL) != EMQ_OK);
}
