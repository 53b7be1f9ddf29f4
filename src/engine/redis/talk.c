/* SPDX-License-Identifier: MIT
 *
 * A connection that one thread at a time uses: for the first words of every connection, for waits that
 * block, and for sentinels.
 */
#include "engine/redis/error.h"
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>

enum { IOV_AT_ONCE = 64 };

static emq_status fail_unavail(const struct rd_addr *a, const struct rd_why *why, emq_error *err)
{
    char addr[RD_ADDR_TEXT_MAX];

    return emq__fail(err, EMQ_E_UNAVAIL, why->native, "connect", "%s can't be reached: %s",
                     rd_addr_text(a, addr), why->text);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool send_piece(struct rd_talk *t, struct iovec *iov, int n, struct emq__mono end,
                       struct rd_why *why)
{
    while (n > 0) {
        size_t done;
        enum rd_io io = rd_conn_write(t->conn, iov, n, &done, why);
        if (io == RD_IO_AGAIN) {
            if (!rd_conn_wait(&t->conn, 1, POLLOUT, -1, end)) {
                rd_why_set(why, ETIMEDOUT, "the server takes no more bytes");
                return false;
            }
        } else if (io != RD_IO_OK) {
            return false;
        }
        while (n > 0 && done >= iov->iov_len) {
            done -= iov->iov_len;
            iov++;
            n--;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= done;
        }
    }
    return true;
}

emq_status rd_talk_send(struct rd_talk *t, struct rd_cmd *const *cmds, size_t n,
                        struct emq__mono end, struct rd_why *why)
{
    struct iovec iov[IOV_AT_ONCE];
    int n_iov = 0;

    for (size_t i = 0; i < n; i++) {
        if (cmds[i]->failed) {
            rd_why_set(why, ENOMEM, "out of memory");
            return EMQ_E_NOMEM;
        }
        for (int k = 0; k < cmds[i]->n_iov; k++) {
            iov[n_iov++] = cmds[i]->iov[k];
            if (n_iov < IOV_AT_ONCE)
                continue;
            if (!send_piece(t, iov, n_iov, end, why))
                return EMQ_E_UNAVAIL;
            n_iov = 0;
        }
    }
    return send_piece(t, iov, n_iov, end, why) ? EMQ_OK : EMQ_E_UNAVAIL;
}

emq_status rd_talk_read(struct rd_talk *t, struct emq__arena *mem, int wake_fd,
                        struct emq__mono end, const struct rd_reply **out, struct rd_why *why)
{
    for (;;) {
        size_t n;
        switch (rd_parser_next(t->parser, mem, out)) {
        case RD_PARSED_REPLY: return EMQ_OK;
        case RD_PARSED_NOMEM: rd_why_set(why, ENOMEM, "out of memory"); return EMQ_E_NOMEM;
        case RD_PARSED_BROKEN:
            rd_why_set(why, EPROTO, "what came is no answer of a Redis server");
            return EMQ_E_UNAVAIL;
        case RD_PARSED_MORE: break;
        }
        enum rd_io io = rd_conn_read(t->conn, t->buf, sizeof t->buf, &n, why);
        if (io == RD_IO_OK && !rd_parser_feed(t->parser, t->buf, n)) {
            rd_why_set(why, ENOMEM, "out of memory");
            return EMQ_E_NOMEM;
        }
        if (io == RD_IO_END || io == RD_IO_FAILED)
            return EMQ_E_UNAVAIL;
        if (io == RD_IO_OK)
            continue;
        if (!rd_conn_wait(&t->conn, 1, POLLIN, wake_fd, end)) {
            rd_why_set(why, ETIMEDOUT, "no answer came in time");
            return EMQ_TIMEOUT;
        }
        if (wake_fd >= 0) {
            struct pollfd p = {.fd = wake_fd, .events = POLLIN};
            if (poll(&p, 1, 0) > 0)
                return EMQ_CANCELLED;
        }
    }
}

emq_status rd_talk_ask(struct rd_talk *t, struct rd_cmd *cmd, struct emq__arena *mem,
                       struct emq__mono end, const struct rd_reply **out, struct rd_why *why)
{
    emq_status s;

    rd_cmd_end(cmd, NULL, 0);
    s = rd_talk_send(t, &cmd, 1, end, why);
    if (s == EMQ_OK)
        s = rd_talk_read(t, mem, -1, end, out, why);
    if (s == EMQ_TIMEOUT)
        s = EMQ_E_UNAVAIL;
    if (s != EMQ_OK)
        rd_talk_close(t);
    return s;
}

/* ---- first words ----------------------------------------------------------------------------- */

struct login {
    emq_str user, password, name;
    int64_t db;
};

enum { SAY_AUTH, SAY_SELECT, SAY_NAME, SAY_MAX };

static size_t first_words(const struct login *l, struct rd_cmd *cmds, int *kinds,
                          struct emq__arena *mem)
{
    size_t n = 0;

    if (l->password.len > 0) {
        rd_cmd_init(&cmds[n], mem);
        rd_cmd_text(&cmds[n], "AUTH");
        if (l->user.len > 0)
            rd_cmd_arg(&cmds[n], l->user);
        rd_cmd_arg(&cmds[n], l->password);
        kinds[n++] = SAY_AUTH;
    }
    if (l->db > 0) {
        rd_cmd_init(&cmds[n], mem);
        rd_cmd_text(&cmds[n], "SELECT");
        rd_cmd_i64(&cmds[n], l->db);
        kinds[n++] = SAY_SELECT;
    }
    if (l->name.len > 0) {
        rd_cmd_init(&cmds[n], mem);
        rd_cmd_text(&cmds[n], "CLIENT");
        rd_cmd_text(&cmds[n], "SETNAME");
        rd_cmd_arg(&cmds[n], l->name);
        kinds[n++] = SAY_NAME;
    }
    for (size_t i = 0; i < n; i++)
        rd_cmd_end(&cmds[i], NULL, 0);
    return n;
}

/* A name is a courtesy: a user who may not give one, or one that the server dislikes, works all the same. */
static bool may_fail(int kind, const struct rd_said *said, emq_str reply)
{
    return kind == SAY_NAME && said->verdict == RD_FINAL && !emq__str_starts(reply, "NOAUTH");
}

static emq_status log_in(struct rd_talk *t, const struct rd_addr *a, const struct login *l,
                         struct emq__mono end, emq_error *err)
{
    struct emq__arena mem = {0};
    struct rd_cmd cmds[SAY_MAX], *sent[SAY_MAX] = {0};
    struct rd_why why = {0};
    int kinds[SAY_MAX];
    size_t n = first_words(l, cmds, kinds, &mem);

    for (size_t i = 0; i < n; i++)
        sent[i] = &cmds[i];
    emq_status s = rd_talk_send(t, sent, n, end, &why);
    for (size_t i = 0; s == EMQ_OK && i < n; i++) {
        const struct rd_reply *r;
        struct rd_said said;
        s = rd_talk_read(t, &mem, -1, end, &r, &why);
        if (s != EMQ_OK || r->type != RD_ERR)
            continue;
        rd_error_read(r->s, &said);
        if (!may_fail(kinds[i], &said, r->s)) {
            s = rd_error_fail(&said, a, "connect", err);
            emq__arena_free(&mem);
            return s;
        }
    }
    emq__arena_free(&mem);
    if (s == EMQ_E_NOMEM)
        return emq__fail(err, s, ENOMEM, "connect", "out of memory");
    return s == EMQ_OK ? s : fail_unavail(a, &why, err);
}

static emq_status open_as(struct rd_talk *t, const struct rd_addr *a, const struct login *l,
                          struct rd_tls *tls, int64_t io_timeout_ms, struct emq__mono end,
                          emq_error *err)
{
    struct rd_why why = {0};
    emq_status s;

    t->parser = rd_parser_new();
    t->conn = NULL;
    if (!t->parser)
        return emq__fail(err, EMQ_E_NOMEM, ENOMEM, "connect", "out of memory");
    t->conn = rd_conn_open(a, tls, io_timeout_ms, end, &why);
    if (t->conn)
        s = log_in(t, a, l, end, err);
    else
        s = fail_unavail(a, &why, err);
    if (s != EMQ_OK)
        rd_talk_close(t);
    return s;
}

emq_status rd_talk_open(struct rd_talk *t, struct rd_engine *e, const struct rd_addr *a,
                        emq_str name, struct emq__mono end, emq_error *err)
{
    struct login l = {
        .user = e->cfg.user, .password = e->cfg.password, .name = name, .db = e->cfg.db};

    return open_as(t, a, &l, e->tls, e->io_timeout_ms, end, err);
}

emq_status rd_talk_open_sentinel(struct rd_talk *t, struct rd_engine *e, const struct rd_addr *a,
                                 struct emq__mono end, emq_error *err)
{
    struct login l = {.user = e->cfg.sentinel_user,
                      .password = e->cfg.sentinel_password,
                      .name = emq_cstr(e->name)};

    return open_as(t, a, &l, e->tls, e->io_timeout_ms, end, err);
}

void rd_talk_close(struct rd_talk *t)
{
    rd_conn_close(t->conn);
    rd_parser_free(t->parser);
    t->conn = NULL;
    t->parser = NULL;
}
