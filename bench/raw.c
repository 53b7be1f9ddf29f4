/* SPDX-License-Identifier: MIT
 *
 * The limit of a server: bare commands without any script, on one connection. The one invariant: no
 * command more than the list of ready jobs needs; nothing is locked, recorded, told or kept.
 */
#include "bench.h"
#include "store.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIPE = 128 }; /* jobs in flight where they are not to go one by one */

static redisContext *reach(const struct plan *p)
{
    int port = 0;
    redisContext *c = sscanf(p->server->url, "redis://127.0.0.1:%d", &port) == 1
                          ? redisConnect("127.0.0.1", port)
                          : NULL;

    if (!c || c->err)
        die("no connection to %s: %s", p->server->url, c ? c->errstr : "not such an address");
    return c;
}

/* An error, or a job that was not there, would make the loop faster than it is. */
static void expect(redisContext *c, int type)
{
    redisReply *r = NULL;

    if (redisGetReply(c, (void **)&r) != REDIS_OK || r->type != type)
        die("the server answered: %s", r && r->str ? r->str : c->errstr);
    freeReplyObject(r);
}

static void lap(const struct plan *p, struct lap *l, int pipe, bool whole)
{
    redisContext *c = reach(p);
    char buf[DATA_BYTES + 1];

    lap_begin(l);
    for (int64_t done = 0; done < p->jobs;) {
        int n = p->jobs - done < pipe ? (int)(p->jobs - done) : pipe;
        for (int i = 0; i < n; i++) {
            emq_str d = job_data(buf, done + i);
            (void)redisAppendCommand(c, "LPUSH ready %b", d.ptr, d.len);
            if (whole)
                (void)redisAppendCommand(c, "LMOVE ready active RIGHT LEFT");
            if (whole)
                (void)redisAppendCommand(c, "LREM active -1 %b", d.ptr, d.len);
        }
        for (int i = 0; i < n; i++) {
            expect(c, REDIS_REPLY_INTEGER);
            if (whole)
                expect(c, REDIS_REPLY_STRING);
            if (whole)
                expect(c, REDIS_REPLY_INTEGER);
        }
        done += n;
    }
    lap_end(l, p->jobs, p->jobs);
    redisFree(c);
}

void raw_lap_push(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, 1, false);
}

void raw_lap_path(const struct plan *p, struct lap *l, int index)
{
    (void)index;
    lap(p, l, PIPE, true);
}
