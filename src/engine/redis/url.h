/* SPDX-License-Identifier: MIT
 *
 * What a URL of this engine says:
 *   redis://[user:password@]host[:port][/db]      rediss:// the same with TLS
 *   redis+unix://[user:password@]/path/of/socket?db=N
 *   redis+sentinel://[user:password@]host[:port],…/primary-name[/db]
 *   redis+cluster://[user:password@]host[:port],…
 * and ?wait=N, ?db=N, ?ca=, ?cert=, ?key=, ?insecure=1, ?sentinel_user=, ?sentinel_password=. A password may
 * hold any character but, undecoded, '/', '?', '%'; what stands before the last '@' is user and password.
 */
#ifndef EMQ_ENGINE_REDIS_URL_H
#define EMQ_ENGINE_REDIS_URL_H

#include "engine/redis/conn.h"
#include "engine/redis/tls.h"
#include "model/url.h"

enum rd_mode { RD_PLAIN, RD_SENTINEL, RD_CLUSTER };
enum { RD_SEEDS_MAX = 16, RD_REPLICAS_MAX = 100 };

struct rd_config {
    enum rd_mode mode;
    bool tls;
    struct rd_tls_config tls_config;
    struct rd_addr seeds[RD_SEEDS_MAX];
    size_t n_seeds;
    emq_str user, password, primary;
    emq_str sentinel_user, sentinel_password;
    int64_t db;
    int64_t wait_replicas; /* 0 = none */
};

/* Strings live in mem. Messages never hold what stands before the '@'. */
emq_status rd_url_read(struct rd_config *out, const struct emq__url *url, struct emq__arena *mem,
                       emq_error *err);
/* "host", "host:port", "[v6]:port". */
bool rd_addr_read(struct rd_addr *out, emq_str text, uint16_t default_port);

#endif
