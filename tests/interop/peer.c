/* SPDX-License-Identifier: MIT
 *
 * EchoMQ's player of the differential test: one operation a line of JSON on standard input, one answer
 * a line. {"op":"complete","queue":"q","id":"3","value":…} -> {"status":"OK"}; `add` carries a line of a
 * batch file. What a take hands out is held here until it is settled.
 *
 * usage: peer URL
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "model/opts.h"

#include <echomq/echomq.h>

#include <stdio.h>
#include <stdlib.h>

enum { HELD_MAX = 256 };

struct peer {
    emq_client *c;
    emq_job *held[HELD_MAX];
    struct emq__arena mem; /* of one operation */
    struct emq__json op;
    emq_error err;
    char id[EMQ_ID_MAX + 1]; /* of the answer */
};

static emq_str text(struct peer *p, const char *name)
{
    struct emq__json v;
    emq_str out = {0};

    if (emq__json_get(p->op, name, &v) && v.type == EMQ__JSON_STRING)
        (void)emq__json_str(v, &p->mem, &out);
    return out;
}

/* A JSON value's own bytes. */
static emq_str raw(struct peer *p, const char *name)
{
    struct emq__json v;
    return emq__json_get(p->op, name, &v) ? v.raw : emq_strn("", 0);
}

static int64_t number(struct peer *p, const char *name)
{
    struct emq__json v;
    int64_t out = 0;

    if (emq__json_get(p->op, name, &v) && v.type == EMQ__JSON_TRUE)
        return 1;
    (void)(emq__json_get(p->op, name, &v) && emq__json_i64(v, &out));
    return out;
}

#define Q   text(p, "queue")
#define ID  text(p, "id")
#define ERR &p->err

/* ---- hand-outs ---------------------------------------------------------------------------- */

static emq_job **held(struct peer *p, emq_str id)
{
    for (size_t i = 0; i < HELD_MAX; i++)
        if (p->held[i] && emq__str_eq(emq_job_id(p->held[i]), id))
            return &p->held[i];
    return NULL;
}

static emq_str token(struct peer *p)
{
    emq_job **j = held(p, ID);
    return j ? emq_job_token(*j) : EMQ_STR_LIT("nobody:1");
}

static void forget(struct peer *p, emq_str id)
{
    emq_job **j = held(p, id);

    if (!j)
        return;
    emq_job_free(*j);
    *j = NULL;
}

static emq_status take(struct peer *p)
{
    emq_take_opts o = {.size = sizeof o, .worker = EMQ_STR_LIT("w"), .lock_ms = 1000000};
    emq_job *j = NULL;
    size_t i = 0;
    emq_status s = emq_take(p->c, Q, &o, &j, ERR);

    if (s != EMQ_OK)
        return s;
    forget(p, emq_job_id(j)); /* an earlier hand-out of it was lost */
    while (i < HELD_MAX && p->held[i])
        i++;
    if (i == HELD_MAX)
        abort();
    p->held[i] = j;
    (void)snprintf(p->id, sizeof p->id, "%.*s", EMQ_STR_ARG(emq_job_id(j)));
    return s;
}

static emq_status settle(struct peer *p, int32_t kind, emq_str value, int64_t delay_ms)
{
    emq_settle_opts o = {.size = sizeof o,
                         .kind = kind,
                         .value = value,
                         .stack = kind == EMQ_SETTLE_COMPLETED || kind == EMQ_SETTLE_RELEASE
                                      ? emq_strn("", 0)
                                      : EMQ_STR_LIT("Error: trace"),
                         .delay_ms = delay_ms};
    emq_status s = emq_settle(p->c, Q, ID, token(p), &o, ERR);

    forget(p, ID);
    return s;
}

/* ---- operations --------------------------------------------------------------------------- */

static emq_status add(struct peer *p)
{
    emq_add_opts o = {.size = sizeof o};
    emq_added a = {.size = sizeof a};
    emq_str data;
    emq_status s = emq__opts_from_batch(raw(p, "line"), &p->mem, &o, &data, ERR);

    if (s == EMQ_OK)
        s = emq_add(p->c, Q, data, &o, &a, ERR);
    (void)snprintf(p->id, sizeof p->id, "%s", a.id);
    return s;
}

static emq_status complete(struct peer *p)
{
    return settle(p, EMQ_SETTLE_COMPLETED, raw(p, "value"), 0);
}
static emq_status fail(struct peer *p)
{
    return settle(p, EMQ_SETTLE_RETRY, text(p, "reason"), -1);
}
static emq_status fatal(struct peer *p)
{
    return settle(p, EMQ_SETTLE_FAILED, text(p, "reason"), 0);
}
static emq_status release(struct peer *p)
{
    return settle(p, EMQ_SETTLE_RELEASE, emq_strn("", 0), 0);
}
static emq_status extend(struct peer *p)
{
    return emq_extend(p->c, Q, ID, token(p), 1000000, ERR);
}
static emq_status progress(struct peer *p)
{
    return emq_set_progress(p->c, Q, ID, token(p), raw(p, "value"), ERR);
}
static emq_status log_line(struct peer *p)
{
    return emq_add_log(p->c, Q, ID, token(p), text(p, "line"), ERR);
}
static emq_status set_data(struct peer *p)
{
    return emq_set_data(p->c, Q, ID, emq_strn("", 0), raw(p, "value"), ERR);
}
static emq_status set_priority(struct peer *p)
{
    return emq_set_priority(p->c, Q, ID, (int32_t)number(p, "priority"), (int)number(p, "lifo"),
                            ERR);
}
static emq_status set_delay(struct peer *p)
{
    return emq_set_delay(p->c, Q, ID, number(p, "delay"), ERR);
}
static emq_status promote(struct peer *p)
{
    return emq_promote(p->c, Q, ID, ERR);
}
static emq_status retry(struct peer *p)
{
    return emq_retry(p->c, Q, ID, 0, ERR);
}
static emq_status remove_job(struct peer *p)
{
    return emq_remove(p->c, Q, ID, ERR);
}
static emq_status pause_queue(struct peer *p)
{
    return emq_pause(p->c, Q, ERR);
}
static emq_status resume(struct peer *p)
{
    return emq_resume(p->c, Q, ERR);
}
static emq_status concurrency(struct peer *p)
{
    return emq_set_concurrency(p->c, Q, number(p, "limit"), ERR);
}
static emq_status drain(struct peer *p)
{
    return emq_drain(p->c, Q, (int)number(p, "delayed"), NULL, ERR);
}
static emq_status clean(struct peer *p)
{
    return emq_clean(p->c, Q, emq_state_parse(text(p, "state")), 0, 0, NULL, ERR);
}
static emq_status retry_all(struct peer *p)
{
    return emq_retry_all(p->c, Q, emq_state_parse(text(p, "state")), 0, NULL, ERR);
}
static emq_status promote_all(struct peer *p)
{
    return emq_promote_all(p->c, Q, NULL, ERR);
}
static emq_status release_dedup(struct peer *p)
{
    return emq_dedup_release(p->c, Q, text(p, "dedup"), emq_strn("", 0), ERR);
}
static emq_status obliterate(struct peer *p)
{
    return emq_obliterate(p->c, Q, 1, NULL, ERR);
}
static emq_status sweep(struct peer *p)
{
    emq_sweep_opts o = {.size = sizeof o, .max_stalled = number(p, "maxStalled")};
    return emq_sweep(p->c, Q, &o, NULL, NULL, ERR);
}

static const struct {
    const char *name;
    emq_status (*run)(struct peer *);
} ops[] = {
    {"add", add},
    {"take", take},
    {"complete", complete},
    {"fail", fail},
    {"fatal", fatal},
    {"release", release},
    {"extend", extend},
    {"progress", progress},
    {"log", log_line},
    {"data", set_data},
    {"priority", set_priority},
    {"delay", set_delay},
    {"promote", promote},
    {"retry", retry},
    {"remove", remove_job},
    {"pause", pause_queue},
    {"resume", resume},
    {"concurrency", concurrency},
    {"drain", drain},
    {"clean", clean},
    {"retryAll", retry_all},
    {"promoteAll", promote_all},
    {"releaseDedup", release_dedup},
    {"obliterate", obliterate},
    {"sweep", sweep},
    {NULL, NULL},
};

static void answer(struct peer *p, emq_status s)
{
    struct emq__buf b;

    emq__buf_init(&b, 1 << 20);
    emq__buf_char(&b, '{');
    emq__json_key(&b, "status");
    emq__json_quote(&b, emq_cstr(emq_status_name(s)));
    if (p->id[0]) {
        emq__json_key(&b, "id");
        emq__json_quote(&b, emq_cstr(p->id));
    }
    if (s < 0) {
        emq__json_key(&b, "error");
        emq__json_quote(&b, emq_cstr(p->err.text));
    }
    emq__buf_text(&b, "}\n");
    emq_str out = emq__buf_view(&b);
    (void)fwrite(out.ptr, 1, out.len, stdout);
    (void)fflush(stdout);
    emq__buf_free(&b);
}

static emq_status run(struct peer *p, emq_str line)
{
    size_t i = 0;

    if (!emq__json_valid(line, NULL))
        return EMQ_E_INVALID;
    p->op = emq__json_root(line);
    emq_str name = text(p, "op");
    while (ops[i].name && !emq__str_is(name, ops[i].name))
        i++;
    return ops[i].name ? ops[i].run(p) : EMQ_E_INVALID;
}

int main(int argc, char **argv)
{
    struct peer p = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    if (argc != 2)
        return 64;
    if (emq_open(&p.c, emq_cstr(argv[1]), NULL, &p.err) != EMQ_OK) {
        fprintf(stderr, "peer: %s\n", p.err.text);
        return 69;
    }
    while ((len = getline(&line, &cap, stdin)) > 0) {
        p.id[0] = '\0';
        p.err = (emq_error){0};
        answer(&p, run(&p, emq_strn(line, (size_t)len - 1)));
        emq__arena_free(&p.mem);
    }
    free(line);
    for (size_t i = 0; i < HELD_MAX; i++)
        emq_job_free(p.held[i]);
    emq_close(p.c);
    return 0;
}
