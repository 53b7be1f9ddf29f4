/* SPDX-License-Identifier: MIT
 *
 * Running scripts: the request, where it goes, what is repeated and what the answer means.
 *
 * The invariant: a request is sent again only while no server can have executed it, or when it changes
 * nothing; everything else that is not known is in doubt.
 */
#include "engine/redis/script.h"
#include "engine/redis/error.h"
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>
#include <time.h>

enum { PAUSE_FIRST_MS = 10, PAUSE_MAX_MS = 500 };
enum { JUMPS_MAX = 16, WAIT_KEY_MS = 60000 };

/* ---- one exchange ----------------------------------------------------------------------------- */

struct job {
    struct rd_engine *e;
    struct rd_cmd *cmd;   /* a plain command, or */
    struct rd_args *args; /* a script */
    struct emq__arena *mem;
    const char *what;
    bool writes, fixed_node;
    size_t node;
    /* what the last answer asked for */
    bool asking, load;
    int full; /* 1: the server's memory is full */
    uint64_t wire_id;
    int jumps;
};

enum { CMDS_MAX = 5 }; /* ASKING, SCRIPT LOAD, the act, SET and WAIT */

struct exchange {
    struct rd_cmd own[CMDS_MAX], *cmds[CMDS_MAX];
    const struct rd_reply *replies[CMDS_MAX];
    size_t n, act, load, wait; /* places; SIZE_MAX = not there */
};

static size_t push(struct exchange *x, struct rd_cmd *cmd)
{
    x->cmds[x->n] = cmd;
    return x->n++;
}

static struct rd_cmd *own(struct exchange *x, struct emq__arena *mem, const char *a, const char *b)
{
    struct rd_cmd *c = &x->own[x->n];

    rd_cmd_init(c, mem);
    rd_cmd_text(c, a);
    if (b)
        rd_cmd_text(c, b);
    return c;
}

/* A server whose memory is full refuses a script's first write, if that takes memory; after a write that takes
 * none the script may go on. */
static emq_str script_text(const struct job *j)
{
    const char *text = rd_lua_text[j->args->script];

    return j->full ? emq__arena_printf(j->mem, "redis.call('DEL', ARGV[3] .. 'none')\n%s", text)
                   : emq_cstr(text);
}

static void script_end(struct rd_args *a, int full)
{
    emq_str front[] = {EMQ_STR_LIT("EVALSHA"), emq_strn(a->e->sha[full][a->script], RD_SHA_LEN),
                       emq_strn(&"012"[a->n_keys], 1)};

    rd_cmd_end(&a->cmd, front, EMQ_ARRAY_LEN(front));
}

static void exchange_build(struct exchange *x, struct job *j, bool load_only)
{
    struct rd_args *a = j->args;
    struct rd_cmd *c;

    *x = (struct exchange){.act = SIZE_MAX, .load = SIZE_MAX, .wait = SIZE_MAX};
    if (a && (j->load || load_only)) {
        c = own(x, j->mem, "SCRIPT", "LOAD");
        emq_str text = script_text(j);
        c->failed = c->failed || !text.ptr;
        rd_cmd_arg(c, text);
        rd_cmd_end(c, NULL, 0);
        x->load = push(x, c);
    }
    if (load_only)
        return;
    if (j->asking) {
        c = own(x, j->mem, "ASKING", NULL);
        rd_cmd_end(c, NULL, 0);
        (void)push(x, c);
    }
    if (a)
        script_end(a, j->full);
    x->act = push(x, a ? &a->cmd : j->cmd);
    if (a && j->writes && j->e->cfg.wait_replicas > 0) {
        /* WAIT waits for what this connection wrote; a repeated act writes nothing. */
        c = own(x, j->mem, "SET", NULL);
        rd_cmd_arg(c, rd_private_key(a, "wait"));
        rd_cmd_text(c, "");
        rd_cmd_text(c, "PX");
        rd_cmd_i64(c, WAIT_KEY_MS);
        rd_cmd_end(c, NULL, 0);
        (void)push(x, c);
        c = own(x, j->mem, "WAIT", NULL);
        rd_cmd_i64(c, j->e->cfg.wait_replicas);
        rd_cmd_i64(c, j->e->io_timeout_ms > 1 ? j->e->io_timeout_ms / 2 : 1);
        rd_cmd_end(c, NULL, 0);
        x->wait = push(x, c);
    }
}

static struct rd_link *link_of(const struct job *j)
{
    return &rd_node_at(j->e, j->node)->links[j->args ? j->args->link : RD_LINK_SHARED];
}

static emq_status exchange_run(struct exchange *x, struct job *j, struct emq__mono end,
                               emq_error *err)
{
    struct rd_call call = {.cmds = x->cmds, .n = x->n, .replies = x->replies, .mem = j->mem};

    for (size_t i = 0; i < x->n && (i <= x->act || x->act == SIZE_MAX); i++)
        call.first_write += x->cmds[i]->bytes;
    emq_status s = rd_link_call(link_of(j), &call, end, err);
    j->wire_id = call.wire_id;
    return s;
}

static void sha_learned(struct rd_engine *e, int full, enum rd_lua script, const struct rd_reply *r)
{
    if (r->type != RD_STR || r->s.len != RD_SHA_LEN)
        return;
    pthread_mutex_lock(&e->mu);
    if (!atomic_load(&e->loaded[full][script]))
        memcpy(e->sha[full][script], r->s.ptr, RD_SHA_LEN);
    pthread_mutex_unlock(&e->mu);
    atomic_store(&e->loaded[full][script], true);
}

/* Sends it once and gives the answer of the act; EMQ_OK also with an error reply. */
static emq_status send_once(struct job *j, struct emq__mono end, const struct rd_reply **out,
                            emq_error *err)
{
    struct exchange x;
    emq_status s;

    if (j->args && !atomic_load(&j->e->loaded[j->full][j->args->script])) {
        exchange_build(&x, j, true);
        s = exchange_run(&x, j, end, err);
        if (s != EMQ_OK) /* loading twice is the same */
            return s == EMQ_E_IN_DOUBT ? emq__fail(err, EMQ_E_UNAVAIL, err ? err->native : 0,
                                                   j->what, "%s", err ? err->text : "")
                                       : s;
        *out = x.replies[x.load];
        if ((*out)->type == RD_ERR)
            return EMQ_OK;
        sha_learned(j->e, j->full, j->args->script, *out);
    }
    exchange_build(&x, j, false);
    s = exchange_run(&x, j, end, err);
    /* No memory: for the answer, too. */
    if (j->args && j->args->op && j->writes &&
        (s == EMQ_OK || s == EMQ_E_IN_DOUBT || (s == EMQ_E_NOMEM && x.replies[0])))
        j->args->op->sent = true;
    if (s != EMQ_OK)
        return s;
    *out = x.replies[x.act];
    if (x.wait != SIZE_MAX && (*out)->type != RD_ERR &&
        rd_i64(x.replies[x.wait]) < j->e->cfg.wait_replicas)
        return emq__fail(
            err, EMQ_E_IN_DOUBT, 0, j->what,
            "done, but only %lld of %lld replicas have it: a failover now would lose it",
            (long long)rd_i64(x.replies[x.wait]), (long long)j->e->cfg.wait_replicas);
    return EMQ_OK;
}

/* ---- until it is answered ---------------------------------------------------------------------- */

static void pause_for(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* The last pauses are cut to the time that is left, so that the caller's time is used up. false: there is no time
 * left for another try. */
static bool pause_until(int64_t *ms, struct emq__mono end)
{
    int64_t left = emq__mono_diff_ms(emq__mono_now(), end);
    int64_t mine = (int64_t)((double)*ms * (0.5 + emq__random_unit() / 2)) + 1;

    *ms = *ms * 2 < PAUSE_MAX_MS ? *ms * 2 : PAUSE_MAX_MS;
    if (left <= PAUSE_FIRST_MS)
        return false;
    pause_for(mine < left ? mine : left / 2);
    return emq__mono_diff_ms(emq__mono_now(), end) > 0; /* it may have slept longer */
}

/* The node may have changed: a cluster is asked again. */
static void look_again(struct job *j, struct emq__mono end)
{
    struct emq__mono soon = emq__mono_add_ms(emq__mono_now(), 1000);

    if (!j->e->cluster)
        return;
    (void)rd_cluster_refresh(j->e, soon.us < end.us ? soon : end, NULL);
    if (!j->fixed_node && j->args)
        j->node = atomic_load(&j->e->slots[j->args->slot]);
}

/* Goes where MOVED or ASK point to. */
static emq_status jump(struct job *j, const struct rd_said *said, emq_error *err)
{
    struct rd_addr addr = said->addr;
    size_t node;

    if (addr.host[0] == '\0') /* the address by which it was reached, with another port */
        memcpy(addr.host, rd_node_at(j->e, j->node)->addr.host, sizeof addr.host);
    emq_status s = rd_cluster_node(j->e, &addr, &node, err);
    if (s != EMQ_OK)
        return s;
    j->node = node;
    j->asking = said->verdict == RD_ASK;
    if (said->verdict == RD_MOVED && j->args)
        atomic_store(&j->e->slots[j->args->slot], (uint16_t)node);
    return EMQ_OK;
}

/* An error reply: true = try again at once or after a pause, false = *s is the answer. */
static bool said_again(struct job *j, const struct rd_said *said, bool *pause, emq_status *s,
                       emq_error *err)
{
    *pause = true;
    j->asking = false;
    switch (said->verdict) {
    case RD_FINAL:
        *pause = false;
        if (!said->out_of_memory || !j->args || !j->args->goes_on || j->full)
            return false;
        j->full = 1;
        return true;
    case RD_AGAIN: return true;
    case RD_RECONNECT: rd_link_drop(link_of(j), j->wire_id); return true;
    case RD_LOAD:
        *pause = j->load; /* it was loaded, and flushed again at once */
        j->load = true;
        return true;
    case RD_MOVED:
    case RD_ASK:
        *pause = ++j->jumps % JUMPS_MAX == 0;
        *s = jump(j, said, err);
        return *s == EMQ_OK;
    }
    return false;
}

/* A call that failed: repeat? */
static bool failed_again(const struct job *j, emq_status s)
{
    if (!j->e->opened)
        return false; /* whoever opens wants to know at once */
    return s == EMQ_E_UNAVAIL || (s == EMQ_E_IN_DOUBT && !j->writes);
}

static emq_status final(const struct job *j, const struct rd_said *said, emq_error *err)
{
    if (j->args)
        return rd_script_failed(j->args, said, j->node, err);
    return rd_error_fail(said, &rd_node_at(j->e, j->node)->addr, j->what, err);
}

static emq_status run(struct job *j, const struct rd_reply **out, emq_error *err)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), j->e->io_timeout_ms);
    int64_t pause_ms = PAUSE_FIRST_MS;

    for (;;) {
        struct rd_said said = {0};
        bool pause = true, replied = false;
        emq_status s = send_once(j, end, out, err);
        if (s == EMQ_OK && (*out)->type != RD_ERR)
            return EMQ_OK;
        if (s == EMQ_OK) {
            replied = true;
            rd_error_read((*out)->s, &said);
            s = said.status;
            if (!said_again(j, &said, &pause, &s, err))
                return said.verdict == RD_FINAL ? final(j, &said, err) : s;
        } else if (!failed_again(j, s)) {
            return s;
        }
        if (pause && !pause_until(&pause_ms, end)) {
            if (replied)
                return rd_error_fail(&said, &rd_node_at(j->e, j->node)->addr, j->what, err);
            return s == EMQ_E_IN_DOUBT /* and changes nothing */
                       ? emq__fail(err, EMQ_E_UNAVAIL, err ? err->native : 0, j->what, "%s",
                                   err ? err->text : "")
                       : s;
        }
        if (pause)
            look_again(j, end);
    }
}

static emq_status eval(struct rd_args *a, size_t node, bool fixed, const struct rd_reply **out,
                       emq_error *err)
{
    if (!a || a->failed || a->cmd.failed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "request", "out of memory: nothing was sent");
    if (a->refused != EMQ_OK) {
        if (err)
            *err = a->why;
        return a->refused;
    }
    emq_status may = a->writes ? rd_may_write(a->e, err) : EMQ_OK;
    if (may == EMQ_OK)
        may = rd_queue_looked_at(a, err);
    if (may != EMQ_OK)
        return may;
    emq_error mine;
    struct job j = {.e = a->e,
                    .args = a,
                    .mem = a->mem,
                    .what = a->what,
                    .writes = a->writes,
                    .fixed_node = fixed,
                    .node = node};
    emq_status s = run(&j, out, err ? err : &mine);
    if (s == EMQ_OK && (*out)->type != RD_ARR)
        return emq__fail(err, EMQ_E_STORE, 0, j.what, "the script answered no array");
    if (s == EMQ_OK && rd_at(*out, 0)->type == RD_INT)
        rd_clock_seen(a->e, rd_at(*out, 0)->i);
    return s;
}

emq_status rd_eval(struct rd_args *a, const struct rd_reply **out, emq_error *err)
{
    size_t node = !a || !a->e->cluster ? 0 : atomic_load(&a->e->slots[a->slot]);

    return eval(a, node, false, out, err);
}

emq_status rd_eval_node(struct rd_args *a, size_t node, const struct rd_reply **out, emq_error *err)
{
    return eval(a, !a || !a->e->cluster ? 0 : rd_nth_master(a->e, node), true, out, err);
}

emq_status rd_command(struct rd_engine *e, size_t node, struct rd_cmd *cmd, struct emq__arena *mem,
                      const struct rd_reply **out, emq_error *err)
{
    emq_error mine;
    struct job j = {
        .e = e, .cmd = cmd, .mem = mem, .what = "command", .fixed_node = true, .node = node};

    rd_cmd_end(cmd, NULL, 0);
    return run(&j, out, err ? err : &mine);
}

emq_status rd_command_once(struct rd_engine *e, size_t node, struct rd_cmd *cmd,
                           struct emq__arena *mem, int64_t ms, const struct rd_reply **out,
                           emq_error *err)
{
    struct job j = {.e = e, .cmd = cmd, .mem = mem, .what = "command", .node = node};

    rd_cmd_end(cmd, NULL, 0);
    return send_once(&j, emq__mono_add_ms(emq__mono_now(), ms), out, err);
}
