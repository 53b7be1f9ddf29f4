/* SPDX-License-Identifier: MIT
 *
 * Waiting for work or events, on connections of its own: a server that blocks one would hold up all who
 * share it. Bounded: a second at most, then the caller looks for itself, so that whatever is missed here
 * costs time and nothing else.
 */
#include "engine/redis/wait.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/redis/script.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- places ---------------------------------------------------------------------------------- */

emq_status rd_waits_new(struct rd_engine *e, emq_error *err)
{
    struct rd_waits *w = calloc(1, sizeof *w);
    int rc = w ? pthread_mutex_init(&w->mu, NULL) : ENOMEM;

    if (rc != 0) {
        free(w);
        return emq__fail(err, EMQ_E_NOMEM, rc, "open", "no memory for waiting");
    }
    e->waits = w;
    return EMQ_OK;
}

void rd_waits_free(struct rd_engine *e, bool forked)
{
    struct rd_waits *w = e->waits;

    if (!w)
        return;
    rd_ears_free(e);
    rd_streams_free(e, forked);
    for (struct rd_place *p = atomic_load(&w->places), *next; p; p = next) {
        next = p->next;
        (void)close(p->fd);
        free(p);
    }
    if (!forked)
        pthread_mutex_destroy(&w->mu);
    free(w);
    e->waits = NULL;
}

static struct rd_place *place_take(struct rd_waits *w)
{
    for (struct rd_place *p = atomic_load(&w->places); p; p = p->next)
        if (!atomic_exchange(&p->taken, true))
            return p;
    struct rd_place *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->fd < 0) {
        free(p);
        return NULL;
    }
    atomic_store(&p->taken, true);
    p->next = atomic_load(&w->places);
    while (!atomic_compare_exchange_weak(&w->places, &p->next, p))
        ;
    return p;
}

void rd_place_clear(struct rd_place *p)
{
    uint64_t n;
    ssize_t got = read(p->fd, &n, sizeof n);

    (void)got;
}

void rd_place_poke(const struct rd_place *p)
{
    uint64_t one = 1;
    ssize_t done = write(p->fd, &one, sizeof one);

    (void)done;
}

void rd_interrupt(struct emq__engine *engine)
{
    int keep = errno; /* may run in a signal handler */

    for (struct rd_place *p = atomic_load(&rd_of(engine)->waits->places); p; p = p->next)
        rd_place_poke(p);
    errno = keep;
}

/* ---- what both kinds need -------------------------------------------------------------------- */

emq_status rd_wait_look(const struct rd_waiting *w)
{
    if (w->req->cancelled && atomic_load(w->req->cancelled) != 0)
        return EMQ_CANCELLED;
    if (rd_ticket(&w->e->base, w->req->prefix, w->req->queues, w->req->n) != w->req->ticket)
        return EMQ_OK;
    return emq__mono_now().us >= w->end.us ? EMQ_TIMEOUT : EMQ_EMPTY;
}

void rd_wait_name(struct emq__buf *out, emq_str prefix, emq_str queue, const char *tail,
                  emq_str more)
{
    emq__buf_str(out, prefix);
    emq__buf_char(out, ':');
    emq__base64(out, queue);
    emq__buf_text(out, tail);
    emq__buf_str(out, more);
}

emq_status rd_wait_node(struct rd_engine *e, emq_str prefix, emq_str queue, size_t *out,
                        emq_error *err)
{
    uint16_t slot;

    *out = 0;
    if (!e->cluster)
        return EMQ_OK;
    if (!rd_slot_of_queue(prefix, queue, &slot))
        return emq__fail(
            err, EMQ_E_INVALID, 0, "wait",
            "on a cluster the queue's name or the prefix needs a hash tag, like \"{%.*s}\"",
            EMQ_STR_ARG(queue));
    *out = atomic_load(&e->slots[slot]);
    return EMQ_OK;
}

emq_status rd_wait_connect(struct rd_engine *e, size_t node, emq_str name, struct rd_talk *t,
                           emq_error *err)
{
    int64_t ms = e->io_timeout_ms < RD_WAIT_CONNECT_MS ? e->io_timeout_ms : RD_WAIT_CONNECT_MS;
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), ms);
    struct rd_addr addr;

    emq_status s = rd_where(e, &rd_node_at(e, node)->links[RD_LINK_SHARED], end, &addr, err);
    return s == EMQ_OK ? rd_talk_open(t, e, &addr, name, end, err) : s;
}

/* What will pass, a lost connection too, is no failure of a wait: the caller looks, and that says so if it
 * has not passed. */
static emq_status moment(const struct rd_waiting *w)
{
    struct emq__mono soon = emq__mono_add_ms(emq__mono_now(), RD_MOMENT_MS);

    (void)rd_conn_wait(NULL, 0, POLLIN, w->place->fd, soon.us < w->end.us ? soon : w->end);
    return rd_wait_look(w) == EMQ_CANCELLED ? EMQ_CANCELLED : EMQ_TIMEOUT;
}

/* "<queue>:events" without its end; no queue's name has a colon. */
static bool events_of(emq_str bell, emq_str *queue)
{
    size_t n = sizeof EMQ__BELL_EVENTS - 1;

    if (bell.len <= n || memcmp(bell.ptr + bell.len - n, EMQ__BELL_EVENTS, n) != 0)
        return false;
    *queue = emq_strn(bell.ptr, bell.len - n);
    return true;
}

/* One of the queues has a key of the wrong type, or one that the user may not reach. */
static emq_status wait_failed(const struct rd_waiting *w, size_t node, const struct rd_said *said,
                              emq_error *err)
{
    struct emq__arena mem = {0};
    emq_status s = EMQ_OK;
    bool known = false;

    for (size_t i = 0; i < w->req->n && !known; i++) {
        struct rd_about about = {w->e, w->req->prefix, w->req->queues[i], "wait", &mem};
        (void)events_of(about.queue, &about.queue);
        known = rd_explained(&about, NULL, said, &s, err);
    }
    emq__arena_free(&mem);
    return known ? s : rd_error_fail(said, &rd_node_at(w->e, node)->addr, "wait", err);
}

emq_status rd_wait_refused(const struct rd_waiting *w, size_t node, const struct rd_reply *r,
                           emq_error *err)
{
    struct emq__mono soon = emq__mono_add_ms(emq__mono_now(), RD_MOMENT_MS);
    struct rd_said said;

    rd_error_read(r->s, &said);
    /* "UNBLOCKED": the server became a replica. */
    if (said.verdict == RD_FINAL && !emq__str_starts(r->s, "UNBLOCKED"))
        return wait_failed(w, node, &said, err);
    if (w->e->cluster)
        (void)rd_cluster_refresh(w->e, soon, NULL);
    return moment(w);
}

/* ---- the act --------------------------------------------------------------------------------- */

emq_status rd_wait(struct emq__engine *engine, const struct emq__wait_req *req,
                   struct emq__wait_res *res, struct emq__arena *mem, emq_error *err)
{
    struct rd_engine *e = rd_of(engine);
    int64_t ms = req->timeout_ms < RD_SLEEP_MAX_MS ? req->timeout_ms : RD_SLEEP_MAX_MS;
    struct rd_waiting w = {
        .e = e, .req = req, .end = emq__mono_add_ms(emq__mono_now(), ms > 0 ? ms : 0)};
    emq_str queue;

    (void)mem;
    w.place = place_take(e->waits);
    if (!w.place)
        return emq__fail(err, EMQ_E_SYSTEM, errno, "wait", "no descriptor to wait with");
    /* First empty, then look: an interrupt from now on is seen or heard. */
    rd_place_clear(w.place);
    emq_status s = rd_wait_look(&w);
    if (s == EMQ_EMPTY)
        s = req->n > 0 && events_of(req->queues[0], &queue) ? rd_stream_wait(&w, queue, err)
                                                            : rd_ear_wait(&w, err);
    if (s == EMQ_E_UNAVAIL)
        s = moment(&w);
    atomic_store(&w.place->taken, false);
    res->now_ms = rd_clock_now_ms(e);
    return s;
}
