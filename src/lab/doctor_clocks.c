/* SPDX-License-Identifier: MIT
 *
 * Clocks that differ: a producer of BullMQ gives a job its own time, the event of the add has the server's.
 */
#include "lab/doctor.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"

enum { QUEUES = 50, ADDS = 200, BACK_MS = 600000, CLOCK_MS = 2000 };

struct adds {
    emq_str id[ADDS];
    int64_t at_ms[ADDS];
    size_t n;
};

static void note_add(struct adds *a, const struct emq__event *e, struct emq__arena *mem)
{
    struct emq__json v, event;
    emq_str name;

    if (a->n == ADDS || !emq__json_valid(e->json, NULL))
        return;
    event = emq__json_root(e->json);
    if (emq__json_get(event, "event", &v) && emq__json_str(v, mem, &name) &&
        emq__str_is(name, "added") && emq__json_get(event, "jobId", &v) &&
        emq__json_str(v, mem, &a->id[a->n]) &&
        emq__str_to_i64(emq_strn(e->id.ptr, emq__skip_digits(e->id, 0)), &a->at_ms[a->n]))
        a->n++;
}

/* The adds of the last minutes. */
static emq_status recent_adds(emq_client *c, emq_str queue, int64_t now_ms, struct adds *a,
                              struct emq__arena *mem, emq_error *err)
{
    char cursor[40];
    struct emq__events_req req = {.prefix = c->prefix, .queue = queue, .limit = 1000};
    struct emq__events_res res;

    (void)snprintf(cursor, sizeof cursor, "%lld-0", (long long)(now_ms - BACK_MS));
    req.after = emq_cstr(cursor);
    emq_status s = c->e->ops->events(c->e, &req, &res, mem, err);
    for (size_t i = 0; s == EMQ_OK && i < res.n; i++)
        note_add(a, &res.events[i], mem);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

static emq_status look_at(emq_client *c, emq_str queue, int64_t now_ms, struct emq__doctor *d,
                          struct emq__arena *keep, emq_error *err)
{
    struct emq__arena mem = {0};
    struct adds a = {.n = 0};
    struct emq__jobs_res res = {0};
    int64_t worst = 0;
    emq_str job = EMQ_STR_LIT("");
    char span[40];

    emq_status s = recent_adds(c, queue, now_ms, &a, &mem, err);
    struct emq__jobs_req req = {.prefix = c->prefix, .queue = queue, .ids = a.id, .n = a.n};
    if (s == EMQ_OK && a.n > 0)
        s = c->e->ops->jobs(c->e, &req, &res, &mem, err);
    for (size_t i = 0; s == EMQ_OK && i < res.n; i++) {
        int64_t off = res.jobs[i] ? res.jobs[i]->timestamp_at_ms - a.at_ms[i] : 0;
        if ((off < 0 ? -off : off) > (worst < 0 ? -worst : worst)) {
            worst = off;
            job = res.jobs[i]->id;
        }
    }
    if (s == EMQ_OK && (worst > CLOCK_MS || worst < -CLOCK_MS))
        emq__advise(d, keep,
                    "queue %.*s: job %.*s was added with a time %s %s the server's: its producer "
                    "gave it, or its "
                    "clock differs; delayed jobs of such a producer come early or late",
                    EMQ_STR_ARG(queue), EMQ_STR_ARG(job),
                    emq__duration_format(worst < 0 ? -worst : worst, span),
                    worst > 0 ? "ahead of" : "behind");
    emq__arena_free(&mem);
    return s;
}

emq_status emq__doctor_clocks(emq_client *c, struct emq__doctor *d, struct emq__arena *mem,
                              emq_error *err)
{
    struct emq__queues_req req = {.prefix = c->prefix};
    struct emq__queues_res res;
    emq_status s = c->e->ops->queues(c->e, &req, &res, mem, err);

    for (size_t i = 0; s == EMQ_OK && i < res.n && i < QUEUES; i++)
        s = look_at(c, res.names[i], res.now_ms, d, mem, err);
    return s;
}
