/* SPDX-License-Identifier: MIT
 *
 * The first word of an error reply says what it is. Inside of a script older servers wrap it:
 * "ERR Error running script (call to f_…): @user_script:7: @user_script: 7: -OOM …".
 */
#include "engine/redis/error.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/redis/url.h"

#include <string.h>

#define HELD          "EMQHELD" /* and the id of a job */
#define ADVICE_NOPERM "this user may not do that: see ACL SETUSER"

static const struct {
    const char *code;
    enum rd_verdict verdict;
    emq_status status;
    const char *advice;
} codes[] = {
    {"LOADING", RD_AGAIN, EMQ_E_UNAVAIL, "the server is loading its data"},
    {"MASTERDOWN", RD_AGAIN, EMQ_E_UNAVAIL, "the replica has lost its primary"},
    {"CLUSTERDOWN", RD_AGAIN, EMQ_E_UNAVAIL, "the cluster does not serve this slot now"},
    {"TRYAGAIN", RD_AGAIN, EMQ_E_UNAVAIL, "the slot is being moved"},
    {"NOREPLICAS", RD_AGAIN, EMQ_E_UNAVAIL, "the server wants more replicas before it writes"},
    {"BUSY", RD_AGAIN, EMQ_E_BUSY, "another client's script holds the server"},
    {"READONLY", RD_RECONNECT, EMQ_E_UNAVAIL, "this is a read-only replica: name the primary"},
    {"NOSCRIPT", RD_LOAD, EMQ_E_UNAVAIL, "the server forgets scripts at once"},
    {"MOVED", RD_MOVED, EMQ_E_UNAVAIL, "the slot goes from node to node"},
    {"ASK", RD_ASK, EMQ_E_UNAVAIL, "the slot goes from node to node"},
    {"OOM", RD_FINAL, EMQ_E_FULL,
     "the server is out of memory and nothing was changed: remove jobs or raise maxmemory"},
    {"MISCONF", RD_FINAL, EMQ_E_FULL, "the server can't write its disk and takes no writes"},
    {"NOAUTH", RD_FINAL, EMQ_E_REFUSED,
     "it wants a password: write user:password@ before the host (for sentinels "
     "?sentinel_password=)"},
    {"WRONGPASS", RD_FINAL, EMQ_E_REFUSED, "user or password are wrong"},
    {"NOPERM", RD_FINAL, EMQ_E_REFUSED, ADVICE_NOPERM},
    {"DENIED", RD_FINAL, EMQ_E_REFUSED, "the server refuses clients of other hosts"},
    {"CROSSSLOT", RD_FINAL, EMQ_E_INVALID, "the queues of one call must share a hash tag"},
    {"WRONGTYPE", RD_FINAL, EMQ_E_INVALID, "a key of the queue belongs to something else"},
    {"EMQ", RD_FINAL, EMQ_E_INVALID, ""},
    {"EMQCORRUPT", RD_FINAL, EMQ_E_CORRUPT, ""},
    {"EMQFULL", RD_FINAL, EMQ_E_FULL, ""},
    {HELD, RD_FINAL, EMQ_E_BUSY, ""},
};

/* Of the code ERR, by how the text goes on. */
static const struct {
    const char *head;
    enum rd_verdict verdict;
    emq_status status;
    const char *advice;
} plain[] = {
    {"max number of clients", RD_AGAIN, EMQ_E_UNAVAIL, "raise maxclients of the server"},
    {"unknown command", RD_FINAL, EMQ_E_VERSION, "Redis 6.2 or Valkey 7.2 are needed, or newer"},
    {"invalid password", RD_FINAL, EMQ_E_REFUSED, "the password is wrong"},
    {"AUTH <password> called without", RD_FINAL, EMQ_E_REFUSED,
     "the server has no password: leave it out of the URL"},
    {"DB index is out of range", RD_FINAL, EMQ_E_INVALID, "the server has fewer databases"},
    {"This instance has cluster support disabled", RD_FINAL, EMQ_E_INVALID,
     "it is no cluster: write redis: instead of redis+cluster:"},
    {"The user executing the script can't", RD_FINAL, EMQ_E_REFUSED, ADVICE_NOPERM},
    {"ACL failure in script", RD_FINAL, EMQ_E_REFUSED, ADVICE_NOPERM},
    {"value is not an integer", RD_FINAL, EMQ_E_INVALID, "a key of the queue holds no number"},
    {"hash value is not an integer", RD_FINAL, EMQ_E_INVALID, "a key of the queue holds no number"},
    {"SELECT is not allowed", RD_FINAL, EMQ_E_INVALID, "a cluster has no databases but 0"},
};

static emq_str skip(emq_str s, size_t n)
{
    return n < s.len ? emq_strn(s.ptr + n, s.len - n) : emq_strn("", 0);
}

static bool holds(emq_str s, const char *word)
{
    return memmem(s.ptr, s.len, word, strlen(word)) != NULL;
}

static emq_str first_word(emq_str s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] != ' ')
        n++;
    return emq_strn(s.ptr, n);
}

static bool is_code(emq_str word)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(codes); i++)
        if (emq__str_is(word, codes[i].code))
            return true;
    return false;
}

/* An error that a script caught and raised again has "ERR" before its code on newer servers. */
static emq_str unwrap(emq_str s)
{
    static const char mark[] = "@user_script:";

    if (emq__str_starts(s, "ERR ") && is_code(first_word(skip(s, 4))))
        return skip(s, 4);
    if (!emq__str_starts(s, "ERR Error running script"))
        return s;
    for (const char *at; (at = memmem(s.ptr, s.len, mark, sizeof mark - 1)) != NULL;) {
        s = skip(s, (size_t)(at - s.ptr) + sizeof mark - 1);
        while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == ':' || emq__is_digit(s.ptr[0])))
            s = skip(s, 1);
    }
    return s.len > 0 && s.ptr[0] == '-' ? skip(s, 1) : s;
}

/* Without " script: <sha>, on @user_script:7.", which newer servers add. */
static emq_str without_place(emq_str s)
{
    static const char mark[] = " script: ";
    const size_t n = sizeof mark - 1;

    /* The last one: the text may have "script:" itself. */
    for (size_t at = s.len; at-- > 0;)
        if (s.len - at > n && memcmp(s.ptr + at, mark, n) == 0)
            return holds(skip(s, at), "@user_script") ? emq_strn(s.ptr, at) : s;
    return s;
}

/* "MOVED 3999 127.0.0.1:6381": an address v6 has no brackets there. */
static void read_addr(emq_str text, struct rd_addr *out)
{
    emq_str slot = first_word(text), addr = skip(text, slot.len + 1);
    size_t colon = addr.len;
    int64_t port;

    *out = (struct rd_addr){0};
    for (size_t i = 0; i < addr.len; i++)
        if (addr.ptr[i] == ':')
            colon = i;
    if (colon > RD_HOST_MAX || !emq__str_to_i64(skip(addr, colon + 1), &port) || port < 1 ||
        port > 65535)
        return;
    memcpy(out->host, addr.ptr, colon);
    out->port = (uint16_t)port;
}

static void read_plain(struct rd_said *out)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(plain); i++) {
        if (!emq__str_starts(out->text, plain[i].head))
            continue;
        out->verdict = plain[i].verdict;
        out->status = plain[i].status;
        out->advice = plain[i].advice;
    }
}

static void read_code(emq_str code, struct rd_said *out)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(codes); i++) {
        if (!emq__str_is(code, codes[i].code))
            continue;
        out->verdict = codes[i].verdict;
        out->status = codes[i].status;
        out->advice = codes[i].advice;
        out->text = skip(out->text, code.len + 1);
        out->out_of_memory = emq__str_is(code, "OOM");
        if (out->verdict == RD_MOVED || out->verdict == RD_ASK)
            read_addr(out->text, &out->addr);
        return;
    }
    if (emq__str_is(code, "ERR")) {
        out->text = skip(out->text, code.len + 1);
        read_plain(out);
    }
}

void rd_error_read(emq_str reply, struct rd_said *out)
{
    emq_str s = unwrap(reply), code = first_word(s);

    *out = (struct rd_said){
        .verdict = RD_FINAL, .status = EMQ_E_STORE, .advice = "", .text = without_place(s)};
    read_code(code, out);
    out->held = emq__str_is(code, HELD);
    out->wrong_type = emq__str_is(code, "WRONGTYPE") ||
                      (out->status == EMQ_E_INVALID && holds(out->text, "not an integer"));
    out->key_denied = out->status == EMQ_E_REFUSED && holds(out->text, "key");
}

emq_status rd_error_fail(const struct rd_said *said, const struct rd_addr *at, const char *act,
                         emq_error *err)
{
    char addr[RD_ADDR_TEXT_MAX];

    if (said->held)
        return emq__fail(err, said->status, 0, act, EMQ__TEXT_HELD_BY_STAGE,
                         EMQ_STR_ARG(said->text));
    if (said->advice[0] == '\0' && said->status != EMQ_E_STORE)
        return emq__fail(err, said->status, 0, act, "%.*s", EMQ_STR_ARG(said->text));
    if (said->advice[0] == '\0')
        return emq__fail(err, said->status, 0, act, "%s answered: %.*s", rd_addr_text(at, addr),
                         EMQ_STR_ARG(said->text));
    return emq__fail(err, said->status, 0, act, "%s; %s answered: %.*s", said->advice,
                     rd_addr_text(at, addr), EMQ_STR_ARG(said->text));
}
