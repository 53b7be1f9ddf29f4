/* SPDX-License-Identifier: MIT
 *
 * Sentinels: who is the primary now. Asked anew for each connection; whichever of them answers will do. Of several
 * failures the most telling one is told.
 */
#include "engine/redis/error.h"
#include "engine/redis/ground.h"

#include "base/error.h"
#include "base/str.h"

#include <string.h>

/* It answered with an error. A handle that is open goes on asking: its sentinels may come back. */
static emq_status refused(const struct rd_engine *e, const struct rd_addr *sentinel, emq_str reply,
                          emq_error *err)
{
    char at[RD_ADDR_TEXT_MAX];
    emq_status wrong = e->opened ? EMQ_E_UNAVAIL : EMQ_E_INVALID;
    struct rd_said said;

    rd_error_read(reply, &said);
    if (emq__str_starts(said.text, "unknown command"))
        return emq__fail(
            err, wrong, 0, "sentinel",
            "%s is no sentinel: write redis: for a server of its own, or the address of "
            "a sentinel, which has mostly port 26379",
            rd_addr_text(sentinel, at));
    return rd_error_fail(&said, sentinel, "sentinel", err);
}

/* answered: it said something, if not what it was asked. */
static emq_status ask(struct rd_engine *e, const struct rd_addr *sentinel, struct emq__mono end,
                      struct rd_addr *out, bool *answered, emq_error *err)
{
    char at[RD_ADDR_TEXT_MAX];
    struct emq__arena mem = {0};
    const struct rd_reply *r = NULL;
    struct rd_why why = {0};
    struct rd_talk talk;
    struct rd_cmd cmd;

    emq_status s = rd_talk_open_sentinel(&talk, e, sentinel, end, err);
    if (s != EMQ_OK)
        return s;
    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "SENTINEL");
    rd_cmd_text(&cmd, "GET-MASTER-ADDR-BY-NAME");
    rd_cmd_arg(&cmd, e->cfg.primary);
    s = rd_talk_ask(&talk, &cmd, &mem, end, &r, &why);
    *answered = s == EMQ_OK;
    emq_str host = s == EMQ_OK ? rd_str(rd_at(r, 0)) : EMQ_STR_LIT("");
    int64_t port = s == EMQ_OK ? rd_i64(rd_at(r, 1)) : 0;
    if (s != EMQ_OK) {
        s = emq__fail(err, s, why.native, "sentinel", "%s: %s", rd_addr_text(sentinel, at),
                      why.text);
    } else if (r->type == RD_ERR) {
        s = refused(e, sentinel, r->s, err);
    } else if (host.len == 0 || host.len > RD_HOST_MAX || port < 1 || port > 65535) {
        s = emq__fail(err, EMQ_E_UNAVAIL, 0, "sentinel", "%s knows no primary \"%.*s\"",
                      rd_addr_text(sentinel, at), EMQ_STR_ARG(e->cfg.primary));
    } else {
        memcpy(out->host, host.ptr, host.len);
        out->host[host.len] = '\0';
        out->port = (uint16_t)port;
    }
    emq__arena_free(&mem);
    rd_talk_close(&talk);
    return s;
}

/* How much a failure tells: a refusal more than that a sentinel knows no such primary, that more than that one is
 * not there. A handle that is open tells rather what may pass. */
static int weight(const struct rd_engine *e, emq_status s, bool answered)
{
    bool passes = s == EMQ_E_UNAVAIL;

    return 1 + 2 * (passes == e->opened) + answered;
}

emq_status rd_sentinel_ask(struct rd_engine *e, struct emq__mono end, struct rd_addr *out,
                           emq_error *err)
{
    emq_status told = EMQ_E_UNAVAIL;
    int heaviest = 0;
    size_t n = e->cfg.n_seeds, start = atomic_load(&e->good_sentinel);

    for (size_t i = 0; i < n; i++) {
        emq_error mine = {0};
        bool answered = false;
        struct emq__mono now = emq__mono_now();
        struct emq__mono share = {now.us + (end.us - now.us) / (int64_t)(n - i)};
        emq_status s = ask(e, &e->cfg.seeds[(start + i) % n], share, out, &answered, &mine);
        if (s == EMQ_OK) {
            atomic_store(&e->good_sentinel, (start + i) % n);
            return EMQ_OK;
        }
        if (weight(e, s, answered) <= heaviest)
            continue;
        heaviest = weight(e, s, answered);
        told = s;
        if (err)
            *err = mine;
    }
    return told;
}
