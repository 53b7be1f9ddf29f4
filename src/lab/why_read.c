/* SPDX-License-Identifier: MIT
 *
 * What the store tells of a job.
 */
#include "lab/why_read.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

enum { PAGE = 1000 };
/* A producer's clock may be this far ahead of the store's: its job's events are looked for so long before. */
enum { CLOCKS_MS = 600000 };

emq_status emq__trail_add(struct emq__trails *t, struct emq__trail entry, struct emq__arena *mem,
                          emq_error *err)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 32;
        struct emq__trail *list = emq__arena_zalloc(mem, cap, sizeof *list);
        if (!list)
            return emq__no_memory("why", err);
        if (t->n)
            memcpy(list, t->list, t->n * sizeof *list);
        t->list = list;
        t->cap = cap;
    }
    t->list[t->n++] = entry;
    return EMQ_OK;
}

static emq_str text_of(struct emq__json object, const char *name, struct emq__arena *mem)
{
    struct emq__json v;
    emq_str out;

    return emq__json_get(object, name, &v) && emq__json_str(v, mem, &out) ? out : EMQ_STR_LIT("");
}

static int64_t number_of(struct emq__json object, const char *name)
{
    struct emq__json v;
    int64_t n;

    return emq__json_get(object, name, &v) && emq__json_i64(v, &n) ? n : 0;
}

static emq_status read_history(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                               struct emq__trails *t, bool *full, emq_error *err)
{
    struct emq__history_req req = {.prefix = c->prefix, .queue = queue, .id = id};
    struct emq__history_res res;
    emq_status s = c->e->ops->history(c->e, &req, &res, mem, err);

    *full = s == EMQ_OK && res.n >= EMQ__HISTORY_MAX;
    for (size_t i = 0; s == EMQ_OK && i < res.n; i++) {
        if (!emq__json_valid(res.json[i], NULL))
            continue;
        struct emq__json entry = emq__json_root(res.json[i]);
        s = emq__trail_add(t,
                           (struct emq__trail){.at_ms = number_of(entry, "at"),
                                               .what = text_of(entry, "what", mem),
                                               .who = text_of(entry, "who", mem),
                                               .detail = text_of(entry, "detail", mem)},
                           mem, err);
    }
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

/* What is known of its effects, as two lines each: claimed, and done. */
static emq_status read_markers(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                               const struct emq__job *job, struct emq__trails *t, emq_error *err)
{
    struct emq__markers_req req = {.prefix = c->prefix, .queue = queue, .id = id, .limit = PAGE};
    struct emq__markers_res res;
    emq_status s = c->e->ops->markers(c->e, &req, &res, mem, err);

    for (size_t i = 0; s == EMQ_OK && i < res.n; i++) {
        const struct emq__marker *m = &res.markers[i];
        struct emq__trail line = {m->claimed_at_ms, EMQ_STR_LIT("claimed"), .who = m->token,
                                  .detail = m->step};
        if (m->timestamp_at_ms != job->timestamp_at_ms || m->token.len == 0)
            continue; /* of a former job, or told by the administrator's line */
        s = emq__trail_add(t, line, mem, err);
        if (s != EMQ_OK || !m->done_at_ms)
            continue;
        line.at_ms = m->done_at_ms;
        line.what = EMQ_STR_LIT("done");
        s = emq__trail_add(t, line, mem, err);
    }
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

static int64_t event_ms(emq_str id)
{
    int64_t ms;

    return emq__str_to_i64(emq_strn(id.ptr, emq__skip_digits(id, 0)), &ms) ? ms : 0;
}

/* One event, if it is of the job; what was before its `added` is of a former one. */
static emq_status read_event(const struct emq__event *e, emq_str id, struct emq__arena *mem,
                             struct emq__trails *t, bool *begins, emq_error *err)
{
    struct emq__arena scratch = {0};

    if (!emq__json_valid(e->json, NULL))
        return EMQ_OK;
    struct emq__json event = emq__json_root(e->json);
    bool ours = emq__str_eq(text_of(event, "jobId", &scratch), id);
    emq__arena_free(&scratch);
    if (!ours)
        return EMQ_OK;
    struct emq__trail entry = {
        .event = true,
        .at_ms = event_ms(e->id),
        .what = text_of(event, "event", mem),
        .prev = text_of(event, "prev", mem),
        .due_at_ms = number_of(event, "delay"),
        .detail = emq__detail(text_of(event, "failedReason", mem)),
    };
    if (emq__str_is(entry.what, "progress"))
        return EMQ_OK;
    if (emq__str_is(entry.what, "deduplicated") || emq__str_is(entry.what, "debounced"))
        entry.detail = text_of(event, "deduplicationId", mem);
    if (emq__str_is(entry.what, "added")) {
        t->n = 0;
        *begins = true;
    }
    return emq__trail_add(t, entry, mem, err);
}

static emq_status read_events(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                              const struct emq__job *job, struct emq__trails *t, bool *begins,
                              emq_error *err)
{
    struct emq__events_req req = {
        .prefix = c->prefix, .queue = queue, .after = EMQ_STR_LIT(""), .limit = PAGE};
    struct emq__arena page = {0};
    char cursor[64];
    emq_status s = EMQ_OK;

    if (job && job->timestamp_at_ms > CLOCKS_MS) {
        int64_t from = job->timestamp_at_ms - CLOCKS_MS;
        req.after =
            emq_strn(cursor, (size_t)snprintf(cursor, sizeof cursor, "%lld-0", (long long)from));
    }
    for (size_t seen = 0, n = 1; s == EMQ_OK && n > 0 && seen < EMQ__WHY_EVENTS_MAX; seen += n) {
        struct emq__events_res res;
        s = c->e->ops->events(c->e, &req, &res, &page, err);
        if (s == EMQ_NOT_FOUND)
            s = EMQ_OK, res.n = 0;
        n = s == EMQ_OK ? res.n : 0;
        for (size_t i = 0; s == EMQ_OK && i < n; i++)
            s = read_event(&res.events[i], id, mem, t, begins, err);
        if (n > 0)
            req.after = emq_strn(cursor, (size_t)snprintf(cursor, sizeof cursor, "%.*s",
                                                          EMQ_STR_ARG(res.events[n - 1].id)));
        emq__arena_free(&page);
    }
    return s;
}

static emq_status count_logs(emq_client *c, emq_str queue, emq_str id, int64_t *out, emq_error *err)
{
    struct emq__arena mem = {0};
    struct emq__logs_req req = {.prefix = c->prefix, .queue = queue, .id = id, .count = 1};
    struct emq__logs_res res;
    emq_status s = c->e->ops->logs(c->e, &req, &res, &mem, err);

    if (s == EMQ_OK)
        *out = res.total;
    emq__arena_free(&mem);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

emq_status emq__why_read(emq_client *c, emq_str queue, emq_str id, struct emq__arena *mem,
                         struct emq__why *out, struct emq__trails *trails, emq_error *err)
{
    emq_status s = emq__client_check_job(c, queue, id, "why", err);

    if (s != EMQ_OK)
        return s;
    s = emq__job_read(c, queue, id, mem, &out->job, &out->now_ms, err);
    if (s == EMQ_NOT_FOUND) {
        out->job = NULL;
        s = EMQ_OK;
    }
    if (s == EMQ_OK)
        s = read_events(c, queue, id, mem, out->job, trails, &out->begins, err);
    if (s == EMQ_OK && out->job)
        s = read_history(c, queue, id, mem, trails, &out->may_forget, err);
    if (s == EMQ_OK && out->job)
        s = read_markers(c, queue, id, mem, out->job, trails, err);
    if (s == EMQ_OK && out->job)
        s = count_logs(c, queue, id, &out->logs, err);
    return s;
}
