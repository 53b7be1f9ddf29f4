/* SPDX-License-Identifier: MIT
 *
 * See server.h. The server is started as the tests start theirs.
 */
#include "server.h"

#include "lib/server.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKET_DIR_MAX = 75 }; /* a socket's whole path has 107 bytes */

static struct server *server;
static struct place place;

static void empty(void)
{
    (void)server_command(server, "FLUSHALL SYNC");
}

const struct place *server_place(const struct options *o)
{
    cpu_set_t before;

    if (server)
        return &place;
    if (strlen(o->dir) > SOCKET_DIR_MAX)
        die("redis: a server's socket does not fit into the folder '%s': --dir /var/tmp", o->dir);
    if (setenv("TMPDIR", o->dir, 1) != 0 || sched_getaffinity(0, sizeof before, &before) != 0)
        die("redis: the server can't be given a folder and a CPU");
    lap_pin(0); /* the server inherits it */
    server = server_start(&(struct server_opts){.kind = o->valkey ? SERVER_VALKEY : SERVER_REDIS});
    dies_with_us(server->pid);
    (void)sched_setaffinity(0, sizeof before, &before);
    place = (struct place){.url = server->url, .pid = server->pid, .empty = empty};
    return &place;
}

/* The last of the versions that it has: Valkey says which Redis it stands in for, too. */
void server_version(char out[80])
{
    const char *info = server_command(server, "INFO server");
    const char *at = strstr(info, "valkey_version:");

    at = at ? at : strstr(info, "redis_version:");
    at = at ? at : "";
    (void)snprintf(out, 80, "%.*s", (int)strcspn(at, "\r\n"), at);
}
