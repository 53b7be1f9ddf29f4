/* SPDX-License-Identifier: MIT
 *
 * Waiting for events: XREAD BLOCK on a queue's stream. All who wait for the same stream share one
 * connection: one of them reads, the others sleep at their places and take over when it leaves. Nothing is
 * consumed, so a request that is under way when the last one leaves is simply read by the next.
 *
 * The invariant: when the stream has grown beyond what was seen, the bell of its events has been rung since,
 * so that a ticket from before is old.
 */
#include "engine/redis/wait.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

enum { CALM_MS = 5, ID_MAX = 47 };

struct rd_stream {
    struct rd_stream *next;
    char *prefix, *queue;
    pthread_mutex_t
        mu; /* guards what follows up to `reading`, which gives the rest to its thread */
    struct rd_place *waiting; /* who sleeps */
    bool reading;
    struct rd_talk talk;
    size_t node;
    bool asked;            /* XREAD is under way */
    struct emq__arena mem; /* of its reply, which may arrive in pieces */
    struct emq__mono answer_by, rung_at;
    char last[ID_MAX + 1]; /* the newest id that was seen; "" = none was looked for */
};

/* ---- the list -------------------------------------------------------------------------------- */

static void hang_up(struct rd_stream *s)
{
    rd_talk_close(&s->talk);
    emq__arena_free(&s->mem);
    s->asked = false;
}

static void stream_free(struct rd_stream *s, bool forked)
{
    hang_up(s);
    if (!forked)
        pthread_mutex_destroy(&s->mu);
    free(s->prefix);
    free(s->queue);
    free(s);
}

static struct rd_stream *stream_new(emq_str prefix, emq_str queue)
{
    struct rd_stream *s = calloc(1, sizeof *s);

    if (!s || pthread_mutex_init(&s->mu, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->prefix = emq__str_dup(prefix);
    s->queue = emq__str_dup(queue);
    if (s->prefix && s->queue)
        return s;
    stream_free(s, false);
    return NULL;
}

static struct rd_stream *find(struct rd_waits *w, emq_str prefix, emq_str queue)
{
    struct rd_stream *s;

    pthread_mutex_lock(&w->mu);
    for (s = w->streams; s; s = s->next)
        if (emq__str_is(prefix, s->prefix) && emq__str_is(queue, s->queue))
            break;
    if (!s && (s = stream_new(prefix, queue)) != NULL) {
        s->next = w->streams;
        w->streams = s;
    }
    pthread_mutex_unlock(&w->mu);
    return s;
}

void rd_streams_free(struct rd_engine *e, bool forked)
{
    for (struct rd_stream *s = e->waits->streams, *next; s; s = next) {
        next = s->next;
        stream_free(s, forked);
    }
    e->waits->streams = NULL;
}

/* ---- the one who reads ----------------------------------------------------------------------- */

static void ring(const struct rd_waiting *w, struct rd_stream *s, emq_str id)
{
    if (id.len <= ID_MAX) {
        memcpy(s->last, id.ptr, id.len);
        s->last[id.len] = '\0';
    }
    s->rung_at = emq__mono_now();
    rd_bell_ring(w->e, w->req->prefix, w->req->queues[0]);
}

static emq_str key_of(const struct rd_stream *s, struct emq__arena *mem)
{
    return emq__arena_printf(mem, "%s:%s:events", s->prefix, s->queue);
}

static emq_status gone(struct rd_stream *s, emq_status status, const struct rd_why *why,
                       emq_error *err)
{
    hang_up(s);
    return emq__fail(err, status, why->native, "wait", "the connection for events ended: %s",
                     why->text);
}

static emq_status refused(const struct rd_waiting *w, struct rd_stream *s, const struct rd_reply *r,
                          emq_error *err)
{
    emq_status st = rd_wait_refused(w, s->node, r, err);

    hang_up(s);
    return st;
}

static emq_status connect_to(const struct rd_waiting *w, struct rd_stream *s, emq_error *err)
{
    struct emq__buf name;
    size_t node;
    emq_status st = rd_wait_node(w->e, emq_cstr(s->prefix), emq_cstr(s->queue), &node, err);

    if (st != EMQ_OK || (s->talk.conn && s->node == node))
        return st;
    hang_up(s);
    s->node = node;
    emq__buf_init(&name, 1024);
    rd_wait_name(&name, emq_cstr(s->prefix), emq_cstr(s->queue), ":qe", (emq_str){0});
    st = rd_wait_connect(w->e, node, emq__buf_view(&name), &s->talk, err);
    emq__buf_free(&name);
    return st;
}

/* Rings if there is an id that was not seen; else asks to be told of the next. */
static emq_status catch_up(const struct rd_waiting *w, struct rd_stream *s, struct emq__arena *mem,
                           emq_error *err)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), RD_GRACE_MS);
    const struct rd_reply *r;
    struct rd_why why = {0};
    struct rd_cmd look, read, *one = &read;
    emq_str key = key_of(s, mem);

    rd_cmd_init(&look, mem);
    rd_cmd_text(&look, "XREVRANGE");
    rd_cmd_arg(&look, key);
    rd_cmd_text(&look, "+");
    rd_cmd_text(&look, "-");
    rd_cmd_text(&look, "COUNT");
    rd_cmd_text(&look, "1");
    emq_status st = rd_talk_ask(&s->talk, &look, mem, end, &r, &why);
    if (st != EMQ_OK)
        return gone(s, st, &why, err);
    if (r->type == RD_ERR)
        return refused(w, s, r, err);
    emq_str id = rd_at(r, 0)->type == RD_ARR ? rd_str(rd_at(rd_at(r, 0), 0)) : EMQ_STR_LIT("0-0");
    if (!emq__str_is(id, s->last)) {
        ring(w, s, id);
        return EMQ_OK;
    }
    rd_cmd_init(&read, mem);
    rd_cmd_text(&read, "XREAD");
    rd_cmd_text(&read, "COUNT");
    rd_cmd_text(&read, "1");
    rd_cmd_text(&read, "BLOCK");
    rd_cmd_i64(&read, RD_SLEEP_MAX_MS);
    rd_cmd_text(&read, "STREAMS");
    rd_cmd_arg(&read, key);
    rd_cmd_text(&read, s->last);
    rd_cmd_end(&read, NULL, 0);
    st = rd_talk_send(&s->talk, &one, 1, end, &why);
    if (st != EMQ_OK)
        return gone(s, st, &why, err);
    s->asked = true;
    s->answer_by = emq__mono_add_ms(emq__mono_now(), RD_SLEEP_MAX_MS + RD_GRACE_MS);
    return EMQ_OK;
}

static struct emq__mono sooner(struct emq__mono a, struct emq__mono b)
{
    return a.us < b.us ? a : b;
}

static emq_status hear(const struct rd_waiting *w, struct rd_stream *s, emq_error *err)
{
    const struct rd_reply *r;
    struct rd_why why = {0};
    emq_status st =
        rd_talk_read(&s->talk, &s->mem, w->place->fd, sooner(w->end, s->answer_by), &r, &why);

    if (st == EMQ_CANCELLED || (st == EMQ_TIMEOUT && emq__mono_now().us < s->answer_by.us))
        return EMQ_OK;
    if (st == EMQ_TIMEOUT) { /* nobody answers: the link is dead; the caller looks */
        (void)gone(s, EMQ_E_UNAVAIL, &why, NULL);
        ring(w, s, emq_cstr(s->last));
        return EMQ_OK;
    }
    if (st != EMQ_OK)
        return gone(s, st, &why, err);
    s->asked = false;
    if (r->type == RD_ERR)
        return refused(w, s, r, err);
    /* {{key, {{id, fields}}}} */
    emq_str id = rd_str(rd_at(rd_at(rd_at(rd_at(rd_at(r, 0), 1), 0), 0), 0));
    if (id.len > 0)
        ring(w, s, id);
    emq__arena_free(&s->mem);
    return EMQ_OK;
}

/* Listens once. A stream that never stops rings once in a while only. */
static emq_status listen_once(const struct rd_waiting *w, struct rd_stream *s, emq_error *err)
{
    struct emq__mono calm = emq__mono_add_ms(s->rung_at, CALM_MS);
    struct emq__arena mem = {0};

    if (emq__mono_now().us < calm.us) {
        (void)rd_conn_wait(NULL, 0, POLLIN, w->place->fd, sooner(calm, w->end));
        return EMQ_OK;
    }
    emq_status st = connect_to(w, s, err);
    if (st == EMQ_OK)
        st = s->asked ? hear(w, s, err) : catch_up(w, s, &mem, err);
    emq__arena_free(&mem);
    return st;
}

/* A ring ends the waiting of all, this one's too. */
static emq_status read_until_over(const struct rd_waiting *w, struct rd_stream *s, emq_error *err)
{
    for (;;) {
        emq_status st = listen_once(w, s, err);
        rd_place_clear(w->place);
        if (st == EMQ_OK)
            st = rd_wait_look(w);
        if (st != EMQ_EMPTY)
            return st;
    }
}

/* ---- all who wait ---------------------------------------------------------------------------- */

static emq_status sleep_locked(const struct rd_waiting *w, struct rd_stream *s)
{
    struct rd_place **at = &s->waiting;

    w->place->next_at_stream = s->waiting;
    s->waiting = w->place;
    pthread_mutex_unlock(&s->mu);
    (void)rd_conn_wait(NULL, 0, POLLIN, w->place->fd, w->end);
    pthread_mutex_lock(&s->mu);
    while (*at != w->place)
        at = &(*at)->next_at_stream;
    *at = w->place->next_at_stream;
    rd_place_clear(w->place);
    return rd_wait_look(w);
}

emq_status rd_stream_wait(struct rd_waiting *w, emq_str queue, emq_error *err)
{
    struct rd_stream *s = find(w->e->waits, w->req->prefix, queue);
    emq_status st = EMQ_EMPTY;

    if (!s)
        return emq__fail(err, EMQ_E_NOMEM, 0, "wait", "no memory for a stream");
    pthread_mutex_lock(&s->mu);
    while (st == EMQ_EMPTY) {
        if (s->reading) {
            st = sleep_locked(w, s);
        } else {
            s->reading = true;
            pthread_mutex_unlock(&s->mu);
            st = read_until_over(w, s, err);
            pthread_mutex_lock(&s->mu);
            s->reading = false;
            for (const struct rd_place *p = s->waiting; p; p = p->next_at_stream)
                rd_place_poke(p);
        }
    }
    pthread_mutex_unlock(&s->mu);
    return st;
}
