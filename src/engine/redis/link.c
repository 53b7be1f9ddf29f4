/* SPDX-License-Identifier: MIT
 *
 * A connection that many threads share. A thread writes its own request, in turn; the replies come in
 * the same order. Whoever waits for a reply and finds nobody reading reads, hands the replies out to
 * their owners until its own is there, and leaves the reading to the next: a thread alone never meets
 * another one.
 *
 * The invariant: while a written request of a wire waits for its reply, somebody reads, or the first of
 * the waiting has been told to.
 */
#include "engine/redis/ground.h"

#include "base/error.h"

#include <errno.h>

enum { IOV_AT_ONCE = 64, READ_BYTES = 65536 };
enum { IDLE_MS = 50 }; /* an older connection is looked at before use */
enum { BACKOFF_FIRST_MS = 10, BACKOFF_MAX_MS = 1000 };

/* One connection's life. */
struct rd_wire {
    struct rd_conn *conn;
    struct rd_parser *parser;
    char buf[READ_BYTES];         /* the reader's, as the parser */
    pthread_mutex_t mu;           /* guards what follows */
    struct rd_call *head, **tail; /* in the order in which they were written */
    bool reading, broken;
    struct rd_why why; /* of broken */
    int refs;
    struct emq__mono used_at;
};

/* ---- a wire's life --------------------------------------------------------------------------- */

static void wire_unref(struct rd_wire *w)
{
    pthread_mutex_lock(&w->mu);
    int left = --w->refs;
    pthread_mutex_unlock(&w->mu);
    if (left > 0)
        return;
    rd_conn_close(w->conn);
    rd_parser_free(w->parser);
    pthread_mutex_destroy(&w->mu);
    free(w);
}

static emq_status wire_open(struct rd_link *l, const struct rd_addr *a, struct emq__mono end,
                            struct rd_wire **out, emq_error *err)
{
    struct rd_talk talk;
    struct rd_wire *w = calloc(1, sizeof *w);

    if (!w || pthread_mutex_init(&w->mu, NULL) != 0) {
        free(w);
        return emq__fail(err, EMQ_E_NOMEM, ENOMEM, "connect", "no memory for a connection");
    }
    emq_status s = rd_talk_open(&talk, l->e, a, emq_cstr(l->e->name), end, err);
    if (s != EMQ_OK) {
        pthread_mutex_destroy(&w->mu);
        free(w);
        return s;
    }
    w->conn = talk.conn;
    w->parser = talk.parser;
    w->tail = &w->head;
    w->refs = 1;
    w->used_at = emq__mono_now();
    *out = w;
    return EMQ_OK;
}

static void finish_locked(struct rd_wire *w, bool broken)
{
    struct rd_call *c = w->head;

    w->head = c->next;
    if (!w->head)
        w->tail = &w->head;
    c->broken = broken;
    c->done = true;
    pthread_cond_signal(&c->cond);
}

/* No more requests; those that were written get no reply. One that is being written stays: its thread
 * finds out. */
static void break_locked(struct rd_wire *w, const struct rd_why *why)
{
    if (!w->broken)
        w->why = *why;
    w->broken = true;
    rd_conn_shutdown(w->conn);
    while (w->head && w->head->written)
        finish_locked(w, true);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Hands out what has arrived, to calls that were written: one that is being written may yet be taken
 * back by its thread, which will look here itself. false: the wire is of no more use. */
static bool deliver(struct rd_wire *w, struct rd_why *why)
{
    for (;;) {
        const struct rd_reply *r = NULL;
        pthread_mutex_lock(&w->mu);
        struct rd_call *c = w->head;
        bool mine = c && c->written;
        pthread_mutex_unlock(&w->mu);
        if (!mine) {
            if (!c && !rd_parser_empty(w->parser))
                rd_why_set(why, EPROTO, "an answer came that nobody asked for");
            return c || rd_parser_empty(w->parser);
        }
        switch (rd_parser_next(w->parser, c->mem, &r)) {
        case RD_PARSED_MORE: return true;
        case RD_PARSED_NOMEM: c->no_memory = true; break;
        case RD_PARSED_BROKEN:
            rd_why_set(why, EPROTO, "what came is no answer of a Redis server");
            return false;
        case RD_PARSED_REPLY: break;
        }
        c->replies[c->n_replies++] = r;
        if (c->n_replies < c->n)
            continue;
        pthread_mutex_lock(&w->mu);
        w->used_at = emq__mono_now();
        finish_locked(w, false);
        pthread_mutex_unlock(&w->mu);
    }
}

/* One read, after a wait if nothing is there. */
static bool read_once(struct rd_wire *w, struct emq__mono end, struct rd_why *why)
{
    size_t n;

    for (;;) {
        if (!rd_conn_wait(&w->conn, 1, POLLIN, -1, end)) {
            rd_why_set(why, ETIMEDOUT, "no answer came in time");
            return false;
        }
        switch (rd_conn_read(w->conn, w->buf, sizeof w->buf, &n, why)) {
        case RD_IO_AGAIN: continue;
        case RD_IO_END:
        case RD_IO_FAILED: return false;
        case RD_IO_OK: break;
        }
        if (!rd_parser_feed(w->parser, w->buf, n)) {
            rd_why_set(why, ENOMEM, "no memory for the answer");
            return false;
        }
        return true;
    }
}

/* Called with w->mu held, and left with it held: until the call is done. */
static void read_for_locked(struct rd_wire *w, struct rd_call *c)
{
    w->reading = true;
    while (!c->done) {
        struct rd_why why = {0};
        /* c was written, so all before it were. */
        struct emq__mono end = w->head->answer_by;
        pthread_mutex_unlock(&w->mu);
        /* The last reader may have left something. */
        bool fine = deliver(w, &why);
        pthread_mutex_lock(&w->mu);
        if (fine && !c->done) {
            pthread_mutex_unlock(&w->mu);
            fine = read_once(w, end, &why);
            pthread_mutex_lock(&w->mu);
        }
        if (!fine)
            break_locked(w, &why);
    }
    w->reading = false;
    if (w->head)
        pthread_cond_signal(&w->head->cond);
}

static void await_locked(struct rd_wire *w, struct rd_call *c)
{
    while (!c->done) {
        if (w->reading)
            pthread_cond_wait(&c->cond, &w->mu);
        else
            read_for_locked(w, c);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The next pieces of the call behind `from` bytes. */
static int gather(const struct rd_call *c, size_t from, struct iovec *iov)
{
    int n = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (from >= c->cmds[i]->bytes) {
            from -= c->cmds[i]->bytes;
            continue;
        }
        for (int k = 0; k < c->cmds[i]->n_iov && n < IOV_AT_ONCE; k++) {
            struct iovec piece = c->cmds[i]->iov[k];
            size_t skip = from < piece.iov_len ? from : piece.iov_len;
            from -= skip;
            if (skip == piece.iov_len)
                continue;
            iov[n++] = (struct iovec){(char *)piece.iov_base + skip, piece.iov_len - skip};
        }
    }
    return n;
}

/* Returns how many bytes the kernel took; less than all: *why. */
static size_t write_call(struct rd_wire *w, const struct rd_call *c, size_t total,
                         struct emq__mono end, struct rd_why *why)
{
    struct iovec iov[IOV_AT_ONCE];
    size_t sent = 0;

    while (sent < total) {
        size_t n;
        enum rd_io io = rd_conn_write(w->conn, iov, gather(c, sent, iov), &n, why);
        sent += n;
        if (io == RD_IO_END || io == RD_IO_FAILED)
            break;
        if (io == RD_IO_AGAIN && !rd_conn_wait(&w->conn, 1, POLLOUT, -1, end)) {
            rd_why_set(why, ETIMEDOUT, "the server takes no more bytes");
            break;
        }
    }
    return sent;
}

static void remove_last_locked(struct rd_wire *w, struct rd_call *c)
{
    struct rd_call **at = &w->head;

    while (*at != c)
        at = &(*at)->next;
    *at = NULL;
    w->tail = at;
}

/* Sends the call on a wire that the caller holds the write lock of. false: broken before it was joined. */
static bool join(struct rd_wire *w, struct rd_call *c)
{
    pthread_mutex_lock(&w->mu);
    bool fine = !w->broken;
    if (fine) {
        c->next = NULL;
        *w->tail = c;
        w->tail = &c->next;
        w->refs++;
    }
    pthread_mutex_unlock(&w->mu);
    return fine;
}

static size_t total_of(const struct rd_call *c)
{
    size_t total = 0;

    for (size_t i = 0; i < c->n; i++)
        total += c->cmds[i]->bytes;
    return total;
}

/* Writes and says whether the server may have the request; the call is in the line then, or done. */
static bool send_call(struct rd_wire *w, struct rd_call *c, int64_t io_timeout_ms,
                      struct emq__mono end)
{
    struct rd_why why = {0};
    size_t total = total_of(c);
    size_t sent = write_call(w, c, total, end, &why);
    bool may_have = sent >= c->first_write;

    pthread_mutex_lock(&w->mu);
    c->answer_by = emq__mono_add_ms(emq__mono_now(), io_timeout_ms);
    if (!c->done && (w->broken || !may_have)) {
        /* A reader that failed meanwhile has left this call to us. */
        remove_last_locked(w, c);
        c->done = c->broken = true;
    } else {
        c->written = true;
    }
    if (sent < total) {
        /* Replies to earlier requests may be on their way: the reader finds the end behind them. */
        if (!w->broken)
            w->why = why;
        w->broken = true;
        rd_conn_shutdown(w->conn);
    }
    pthread_mutex_unlock(&w->mu);
    return may_have;
}

/* ---- links ----------------------------------------------------------------------------------- */

emq_status rd_link_init(struct rd_link *l, struct rd_engine *e, const struct rd_addr *addr,
                        emq_error *err)
{
    *l = (struct rd_link){.e = e, .addr = addr};
    int rc = pthread_mutex_init(&l->write_mu, NULL);
    return rc == 0 ? EMQ_OK : emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
}

void rd_link_close(struct rd_link *l, bool forked)
{
    if (l->wire && !forked) {
        wire_unref(l->wire);
        pthread_mutex_destroy(&l->write_mu);
    } else if (l->wire) { /* its mutex may be held by a thread that is not here */
        rd_conn_close(l->wire->conn);
        rd_parser_free(l->wire->parser);
        free(l->wire);
    } else if (!forked) {
        pthread_mutex_destroy(&l->write_mu);
    }
    l->wire = NULL;
}

static void let_go(struct rd_link *l)
{
    if (l->wire)
        wire_unref(l->wire);
    l->wire = NULL;
}

/* Does the wire look alive? Only what has been idle is asked: its other end may have gone. */
static bool alive(struct rd_wire *w)
{
    struct rd_why why;
    char byte;
    size_t n;

    pthread_mutex_lock(&w->mu);
    bool fine = !w->broken;
    bool idle = fine && !w->head && !w->reading &&
                emq__mono_diff_ms(w->used_at, emq__mono_now()) >= IDLE_MS;
    pthread_mutex_unlock(&w->mu);
    return fine && (!idle || rd_conn_read(w->conn, &byte, 1, &n, &why) == RD_IO_AGAIN);
}

static int64_t backoff_ms(int failures)
{
    int64_t ms = BACKOFF_FIRST_MS;

    while (failures-- > 1 && ms < BACKOFF_MAX_MS)
        ms *= 2;
    return (int64_t)((double)(ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS) *
                     (0.5 + emq__random_unit() / 2));
}

/* A wire to write to. After a failure it is not tried again for a while, whoever asks. */
static emq_status ready(struct rd_link *l, struct emq__mono end, emq_error *err)
{
    struct rd_addr addr;

    if (l->wire && alive(l->wire))
        return EMQ_OK;
    let_go(l);
    if (emq__mono_now().us < l->retry_at.us) {
        if (err)
            *err = l->last;
        return (emq_status)l->last.status;
    }
    l->wire_id++;
    emq_status s = rd_where(l->e, l, end, &addr, &l->last);
    if (s == EMQ_OK)
        s = wire_open(l, &addr, end, &l->wire, &l->last);
    if (s == EMQ_OK) {
        l->failures = 0;
        return EMQ_OK;
    }
    if (s == EMQ_E_NOMEM) { /* is no fault of the server's */
        if (err)
            *err = l->last;
        return s;
    }
    l->failures++;
    l->retry_at = emq__mono_add_ms(emq__mono_now(), backoff_ms(l->failures));
    if (err)
        *err = l->last;
    return s;
}

static emq_status lost(const struct rd_link *l, const struct rd_wire *w, bool may_have,
                       emq_error *err)
{
    char addr[RD_ADDR_TEXT_MAX] = "the primary";

    if (l->addr)
        (void)rd_addr_text(l->addr, addr);
    if (may_have)
        return emq__fail(err, EMQ_E_IN_DOUBT, w->why.native, "connection",
                         "sent to %s, but the connection ended before the answer: %s", addr,
                         w->why.text);
    return emq__fail(err, EMQ_E_UNAVAIL, w->why.native, "connection",
                     "not sent to %s, the connection ended: %s", addr, w->why.text);
}

emq_status rd_link_call(struct rd_link *l, struct rd_call *c, struct emq__mono end, emq_error *err)
{
    struct rd_wire *w = NULL;
    emq_status s = EMQ_OK;

    for (size_t i = 0; i < c->n; i++)
        if (c->cmds[i]->failed)
            return emq__fail(err, EMQ_E_NOMEM, ENOMEM, "request", "out of memory");
    /* Whoever holds it gives it back at the end of its own time, and those behind have none left then. */
    pthread_mutex_lock(&l->write_mu);
    if (emq__mono_now().us >= end.us) {
        pthread_mutex_unlock(&l->write_mu);
        return emq__fail(err, EMQ_E_UNAVAIL, ETIMEDOUT, "connection",
                         "not sent: other threads have been writing or connecting all the time");
    }
    c->n_replies = 0;
    c->written = c->done = c->broken = c->no_memory = false;
    (void)pthread_cond_init(&c->cond, NULL);
    for (;;) {
        s = ready(l, end, err);
        if (s != EMQ_OK || join(l->wire, c))
            break;
    }
    if (s != EMQ_OK) {
        pthread_mutex_unlock(&l->write_mu);
        (void)pthread_cond_destroy(&c->cond);
        return s;
    }
    w = l->wire;
    c->wire_id = l->wire_id;
    bool may_have = send_call(w, c, l->e->io_timeout_ms, end);
    pthread_mutex_unlock(&l->write_mu);

    pthread_mutex_lock(&w->mu);
    await_locked(w, c);
    if (c->broken)
        s = lost(l, w, may_have, err);
    else if (c->no_memory)
        s = emq__fail(err, EMQ_E_NOMEM, ENOMEM, "connection", "no memory for the answer");
    pthread_mutex_unlock(&w->mu);
    (void)pthread_cond_destroy(&c->cond);
    wire_unref(w);
    return s;
}

void rd_link_drop(struct rd_link *l, uint64_t wire_id)
{
    pthread_mutex_lock(&l->write_mu);
    if (l->wire_id == wire_id)
        let_go(l);
    pthread_mutex_unlock(&l->write_mu);
}
