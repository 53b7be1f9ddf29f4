/* SPDX-License-Identifier: MIT
 *
 * Waiting for work: BZPOPMIN on the markers of the queues (docs/protocol.md section 4). A marker wakes one
 * worker, so the one that popped it must look, or put it back: that is the invariant here. A worker is
 * known to others by the name of this connection (section 8), one for each of its queues.
 */
#include "engine/redis/wait.h"

#include "base/error.h"
#include "base/str.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REAP_MS = 5000, LOOK_MS = 5000, GROUPS_MAX = 16, BLOCK_MIN_MS = 2 };

struct rd_ear {
    struct rd_ear *next;
    bool busy;
    pid_t thread; /* whose it is; 0 = anybody's */
    char *prefix, *queue, *worker;
    bool named; /* the connection has the worker's name */
    int seen;   /* takes under that name */
    struct emq__mono look_at;
    size_t node;
    int64_t client_id;
    struct rd_talk talk;
};

/* ---- the list, under waits.mu ---------------------------------------------------------------- */

static void set_text(char **at, emq_str s)
{
    free(*at);
    *at = emq__str_dup(s);
}

static void disown(struct rd_ear *ear)
{
    rd_talk_close(&ear->talk);
    free(ear->prefix);
    free(ear->queue);
    free(ear->worker);
    *ear = (struct rd_ear){.next = ear->next, .busy = ear->busy};
}

static bool is_of(const struct rd_ear *ear, pid_t thread, emq_str prefix, emq_str queue)
{
    return ear->thread == thread && ear->prefix && ear->queue && emq__str_is(prefix, ear->prefix) &&
           emq__str_is(queue, ear->queue);
}

/* Workers whose thread has ended are none any more. */
static void reap(struct rd_waits *w, bool at_once)
{
    struct emq__mono now = emq__mono_now();

    if (!at_once && emq__mono_diff_ms(w->reaped_at, now) < REAP_MS)
        return;
    w->reaped_at = now;
    for (struct rd_ear *ear = w->ears; ear; ear = ear->next)
        if (!ear->busy && ear->thread != 0 && syscall(SYS_tgkill, getpid(), ear->thread, 0) != 0)
            disown(ear);
}

static struct rd_ear *idle(struct rd_waits *w, size_t node)
{
    struct rd_ear *found = NULL;

    for (struct rd_ear *ear = w->ears; ear; ear = ear->next)
        if (!ear->busy && ear->thread == 0 && (!ear->talk.conn || ear->node == node))
            found = ear;
    if (found)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    found->next = w->ears;
    w->ears = found;
    return found;
}

static struct rd_ear *borrow(struct rd_engine *e, emq_str prefix, emq_str queue, size_t node)
{
    struct rd_waits *w = e->waits;
    struct rd_ear *ear;

    pthread_mutex_lock(&w->mu);
    reap(w, false);
    for (ear = w->ears; ear; ear = ear->next)
        if (!ear->busy && is_of(ear, gettid(), prefix, queue))
            break;
    if (!ear)
        ear = idle(w, node);
    if (ear)
        ear->busy = true;
    pthread_mutex_unlock(&w->mu);
    return ear;
}

static void give_back(struct rd_engine *e, struct rd_ear *ear)
{
    pthread_mutex_lock(&e->waits->mu);
    ear->busy = false;
    pthread_mutex_unlock(&e->waits->mu);
}

void rd_ears_free(struct rd_engine *e)
{
    for (struct rd_ear *ear = e->waits->ears, *next; ear; ear = next) {
        next = ear->next;
        disown(ear);
        free(ear);
    }
    e->waits->ears = NULL;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static emq_status ask_id(struct rd_engine *e, struct rd_ear *ear, emq_error *err)
{
    struct emq__arena mem = {0};
    const struct rd_reply *r;
    struct rd_why why = {0};
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "CLIENT");
    rd_cmd_text(&cmd, "ID");
    emq_status s = rd_talk_ask(&ear->talk, &cmd, &mem,
                               emq__mono_add_ms(emq__mono_now(), RD_WAIT_CONNECT_MS), &r, &why);
    ear->client_id = s == EMQ_OK ? rd_i64(r) : 0;
    emq__arena_free(&mem);
    return s == EMQ_OK
               ? s
               : emq__fail(err, EMQ_E_UNAVAIL, why.native, "wait", "%s: %s", e->name, why.text);
}

static bool still_there(struct rd_ear *ear)
{
    struct rd_why why;
    char byte;
    size_t n;

    return ear->talk.conn && rd_conn_read(ear->talk.conn, &byte, 1, &n, &why) == RD_IO_AGAIN;
}

/* The caller has the ear for itself. */
static emq_status connected(struct rd_engine *e, struct rd_ear *ear, size_t node, emq_error *err)
{
    struct emq__buf name;

    if (ear->talk.conn && (ear->node != node || (ear->worker && !ear->named) || !still_there(ear)))
        rd_talk_close(&ear->talk);
    if (ear->talk.conn)
        return EMQ_OK;
    emq__buf_init(&name, 1024);
    if (ear->worker)
        rd_wait_name(&name, emq_cstr(ear->prefix), emq_cstr(ear->queue),
                     ":w:", emq_cstr(ear->worker));
    else
        emq__buf_text(&name, e->name);
    emq_status s = rd_wait_connect(e, node, emq__buf_view(&name), &ear->talk, err);
    emq__buf_free(&name);
    if (s == EMQ_OK)
        s = ask_id(e, ear, err);
    if (s == EMQ_OK) {
        ear->node = node;
        ear->named = true;
    }
    return s;
}

/* A worker that is always busy never waits, and is one all the same: from its second take on it has its
 * named connection. */
static void show(struct rd_engine *e, struct rd_ear *ear)
{
    struct emq__mono now = emq__mono_now();
    size_t node;

    if (now.us < ear->look_at.us)
        return;
    ear->look_at = emq__mono_add_ms(now, LOOK_MS);
    if (rd_wait_node(e, emq_cstr(ear->prefix), emq_cstr(ear->queue), &node, NULL) == EMQ_OK)
        (void)connected(e, ear, node, NULL);
}

void rd_worker_seen(struct rd_engine *e, emq_str prefix, emq_str queue, emq_str worker)
{
    struct rd_waits *w = e->waits;
    struct rd_ear *ear;
    pid_t thread = gettid();

    if (worker.len == 0)
        return;
    pthread_mutex_lock(&w->mu);
    for (ear = w->ears; ear && !is_of(ear, thread, prefix, queue);)
        ear = ear->next;
    if (!ear) {
        reap(w, true);
        ear = idle(w, SIZE_MAX);
        if (ear) {
            ear->thread = thread;
            set_text(&ear->prefix, prefix);
            set_text(&ear->queue, queue);
        }
    }
    if (ear && (!ear->worker || !emq__str_is(worker, ear->worker))) {
        set_text(&ear->worker, worker);
        ear->named = false;
        ear->seen = 0;
        ear->look_at = (struct emq__mono){0};
    }
    bool shown = ear && ear->prefix && ear->queue && ear->worker && ++ear->seen > 1;
    if (shown)
        ear->busy = true;
    pthread_mutex_unlock(&w->mu);
    if (!shown)
        return;
    show(e, ear);
    give_back(e, ear);
}

/* ---- markers --------------------------------------------------------------------------------- */

/* Queues whose markers one BZPOPMIN can watch, and what came of it. */
struct group {
    struct rd_ear *ear;
    size_t node;
    uint16_t slot;
    size_t first; /* of the call's queues */
    bool asked;   /* BZPOPMIN is under way */
    struct emq__arena mem;
    emq_str key;   /* of the popped marker; empty = none is held */
    emq_str score; /* as the server wrote it */
    int64_t due_at_ms;
};

static emq_str marker_key(const struct rd_waiting *w, size_t i, struct emq__arena *mem)
{
    return emq__arena_printf(mem, "%.*s:%.*s:marker", EMQ_STR_ARG(w->req->prefix),
                             EMQ_STR_ARG(w->req->queues[i]));
}

static bool same_group(const struct rd_waiting *w, const struct group *g, size_t i)
{
    uint16_t slot = 0;

    return !w->e->cluster ||
           (rd_slot_of_queue(w->req->prefix, w->req->queues[i], &slot) && slot == g->slot);
}

static emq_status ask(const struct rd_waiting *w, struct group *g, emq_error *err)
{
    int64_t ms = emq__mono_diff_ms(emq__mono_now(), w->end);
    struct rd_why why = {0};
    struct rd_cmd cmd, *one = &cmd;
    char seconds[32];

    if (g->key.len > 0) {
        int64_t until_due = g->due_at_ms - rd_clock_now_ms(w->e);
        ms = until_due < ms ? until_due : ms;
    }
    ms = ms < BLOCK_MIN_MS ? BLOCK_MIN_MS : ms;
    rd_cmd_init(&cmd, &g->mem);
    rd_cmd_text(&cmd, "BZPOPMIN");
    for (size_t i = g->first; i < w->req->n; i++) {
        if (!same_group(w, g, i))
            continue;
        emq_str key = marker_key(w, i, &g->mem);
        cmd.failed = cmd.failed || !key.ptr;
        rd_cmd_arg(&cmd, key);
    }
    (void)snprintf(seconds, sizeof seconds, "%lld.%03lld", (long long)(ms / 1000),
                   (long long)(ms % 1000));
    rd_cmd_text(&cmd, seconds);
    rd_cmd_end(&cmd, NULL, 0);
    emq_status s =
        rd_talk_send(&g->ear->talk, &one, 1, emq__mono_add_ms(emq__mono_now(), RD_GRACE_MS), &why);
    g->asked = s == EMQ_OK;
    if (s == EMQ_OK)
        return s;
    rd_talk_close(&g->ear->talk);
    return emq__fail(err, s, why.native, "wait", "the connection for waiting ended: %s", why.text);
}

static emq_status put(struct rd_engine *e, const struct group *g, bool only_new, const char *member)
{
    struct emq__arena mem = {0};
    const struct rd_reply *r;
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "ZADD");
    rd_cmd_arg(&cmd, g->key);
    if (only_new)
        rd_cmd_text(&cmd, "NX");
    rd_cmd_arg(&cmd, g->score);
    rd_cmd_text(&cmd, member);
    emq_status s = rd_command_once(e, g->node, &cmd, &mem, RD_GRACE_MS, &r, NULL);
    emq__arena_free(&mem);
    return s;
}

/* A held marker goes back, unless it is one that this wait answers with "look". One for a later time may
 * have been written anew meanwhile. */
static void put_back(struct rd_engine *e, struct group *g, bool looked)
{
    bool later = g->due_at_ms > rd_clock_now_ms(e);

    if (g->key.len > 0 && (later || !looked))
        (void)put(e, g, later, later ? "1" : "0");
    g->key = (emq_str){0};
}

/* Tells who looks at tickets which queue is meant; no key: it may be any of them. */
static void ring(const struct rd_waiting *w, emq_str key)
{
    struct emq__arena mem = {0};

    for (size_t i = 0; i < w->req->n; i++)
        if (key.len == 0 || emq__str_eq(key, marker_key(w, i, &mem)))
            rd_bell_ring(w->e, w->req->prefix, w->req->queues[i]);
    emq__arena_free(&mem);
}

/* Reads {key, member, score} of BZPOPMIN. EMQ_OK: look; EMQ_EMPTY: it is for later, and held. */
static emq_status popped(const struct rd_waiting *w, struct group *g, const struct rd_reply *r)
{
    double due = 0;

    g->key = rd_str(rd_at(r, 0));
    g->score = rd_str(rd_at(r, 2));
    if (!emq__str_to_double(g->score, &due) || due < 0 || due > 9e15)
        due = 0;
    g->due_at_ms = (int64_t)due;
    if (g->due_at_ms > rd_clock_now_ms(w->e))
        return EMQ_EMPTY;
    ring(w, g->key);
    return EMQ_OK;
}

/* The reply to BZPOPMIN, if it is there by `end`: EMQ_OK, EMQ_TIMEOUT (it was refused); EMQ_EMPTY: none, or
 * no marker, or one that is held for later. */
static emq_status hear(const struct rd_waiting *w, struct group *g, struct emq__mono end,
                       emq_error *err)
{
    const struct rd_reply *r;
    struct rd_why why = {0};
    emq_status s = rd_talk_read(&g->ear->talk, &g->mem, -1, end, &r, &why);

    if (s == EMQ_TIMEOUT)
        return EMQ_EMPTY;
    g->asked = false;
    if (s == EMQ_OK && r->type == RD_ERR) {
        rd_talk_close(&g->ear->talk);
        return rd_wait_refused(w, g->node, r, err);
    }
    if (s == EMQ_OK && r->type != RD_ARR)
        return EMQ_EMPTY;
    if (s == EMQ_OK && g->key.len > 0)
        put_back(w->e, g, false); /* an earlier one was held; this one comes instead */
    if (s == EMQ_OK)
        return popped(w, g, r);
    /* Whatever was popped on the way here is lost: the caller looks. */
    rd_talk_close(&g->ear->talk);
    ring(w, EMQ_STR_LIT(""));
    return EMQ_OK;
}

/* Ends a BZPOPMIN that is under way. What it popped before it ended is held then. */
static void hush(const struct rd_waiting *w, struct group *g)
{
    struct emq__arena mem = {0};
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), RD_GRACE_MS);
    const struct rd_reply *r;
    struct rd_cmd cmd;

    if (!g->asked)
        return;
    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "CLIENT");
    rd_cmd_text(&cmd, "UNBLOCK");
    rd_cmd_i64(&cmd, g->ear->client_id);
    emq_status s = rd_command_once(w->e, g->node, &cmd, &mem, RD_GRACE_MS, &r, NULL);
    if (s == EMQ_OK)
        s = hear(w, g, end, NULL);
    if (g->asked) {
        rd_talk_close(&g->ear->talk);
        g->asked = false;
    }
    emq__arena_free(&mem);
}

/* ---- the wait -------------------------------------------------------------------------------- */

static emq_status gather(const struct rd_waiting *w, struct group *groups, size_t *n,
                         emq_error *err)
{
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < w->req->n; i++) {
        struct group g = {.first = i};
        size_t k = 0;
        s = rd_wait_node(w->e, w->req->prefix, w->req->queues[i], &g.node, err);
        if (s != EMQ_OK)
            break;
        if (w->e->cluster)
            (void)rd_slot_of_queue(w->req->prefix, w->req->queues[i], &g.slot);
        while (k < *n && !same_group(w, &groups[k], i))
            k++;
        if (k < *n || *n == GROUPS_MAX) /* what does not fit is looked at once a second */
            continue;
        g.ear = borrow(w->e, w->req->prefix, w->req->queues[i], g.node);
        if (!g.ear)
            return emq__fail(err, EMQ_E_NOMEM, 0, "wait", "no memory for a connection");
        groups[(*n)++] = g;
        s = connected(w->e, g.ear, g.node, err);
    }
    return s;
}

/* Waits until one of the groups has a reply, or something else happened. */
static emq_status listen_once(const struct rd_waiting *w, struct group *groups, size_t n,
                              emq_error *err)
{
    struct emq__mono late = emq__mono_add_ms(w->end, RD_GRACE_MS);
    struct rd_conn *conns[GROUPS_MAX];
    emq_status s = EMQ_EMPTY;

    for (size_t i = 0; i < n; i++) {
        if (!groups[i].asked && (s = ask(w, &groups[i], err)) != EMQ_OK)
            return s;
        conns[i] = groups[i].ear->talk.conn;
    }
    if (!rd_conn_wait(conns, n, POLLIN, w->place->fd, late)) {
        for (size_t i = 0; i < n; i++) { /* nobody answers: the link is dead */
            rd_talk_close(&groups[i].ear->talk);
            groups[i].asked = false;
        }
        return EMQ_TIMEOUT;
    }
    rd_place_clear(w->place);
    s = EMQ_EMPTY;
    for (size_t i = 0; s == EMQ_EMPTY && i < n; i++)
        s = hear(w, &groups[i], (struct emq__mono){0}, err);
    return s;
}

emq_status rd_ear_wait(struct rd_waiting *w, emq_error *err)
{
    struct group groups[GROUPS_MAX];
    size_t n = 0;
    emq_status s = gather(w, groups, &n, err);

    if (s == EMQ_OK)
        s = EMQ_EMPTY;
    while (s == EMQ_EMPTY) {
        s = listen_once(w, groups, n, err);
        if (s == EMQ_EMPTY)
            s = rd_wait_look(w);
        for (size_t i = 0; s == EMQ_EMPTY && i < n; i++)
            if (groups[i].key.len > 0 && groups[i].due_at_ms <= rd_clock_now_ms(w->e)) {
                ring(w, groups[i].key);
                s = EMQ_OK;
            }
    }
    for (size_t i = 0; i < n; i++) {
        hush(w, &groups[i]);
        put_back(w->e, &groups[i], s != EMQ_CANCELLED);
        give_back(w->e, groups[i].ear);
        emq__arena_free(&groups[i].mem);
    }
    return s;
}
