/* SPDX-License-Identifier: MIT
 *
 * See commands.h. What can be known before the first command is done is in this table, for Redis does not roll back.
 */
#include "engine/redis/commands.h"

#include "base/error.h"
#include "base/str.h"

#include <math.h>
#include <strings.h>

/* More than this a script can't hand to one command. */
enum { WORDS_MAX = 5000 };

struct rd_command_rule {
    char name[20], known[3];
    int min, max;          /* words with the name; max 0 = any number */
    int first, last, step; /* keys; last -1 = to the end */
    const char *numbers;   /* by word from the second on: i whole, f any, - not a number */
};

#define ONE_KEY 1, 1, 1
static const struct rd_command_rule rules[] = {
    {"SET", "so", 3, 0, ONE_KEY, ""},
    {"SETNX", "ae", 3, 3, ONE_KEY, ""},
    {"SETEX", "so", 4, 4, ONE_KEY, "-i"},
    {"PSETEX", "so", 4, 4, ONE_KEY, "-i"},
    {"GETSET", "sw", 3, 3, ONE_KEY, ""},
    {"MSET", "so", 3, 0, 1, -1, 2, ""},
    {"MSETNX", "ae", 3, 0, 1, -1, 2, ""},
    {"APPEND", "sw", 3, 3, ONE_KEY, ""},
    {"SETRANGE", "sw", 4, 4, ONE_KEY, "-i"},
    {"SETBIT", "sw", 4, 4, ONE_KEY, "-ii"},
    {"INCR", "si", 2, 2, ONE_KEY, ""},
    {"DECR", "si", 2, 2, ONE_KEY, ""},
    {"INCRBY", "si", 3, 3, ONE_KEY, "-i"},
    {"DECRBY", "si", 3, 3, ONE_KEY, "-i"},
    {"INCRBYFLOAT", "sf", 3, 3, ONE_KEY, "-f"},
    {"HSET", "hw", 4, 0, ONE_KEY, ""},
    {"HMSET", "hw", 4, 0, ONE_KEY, ""},
    {"HSETNX", "hw", 4, 4, ONE_KEY, ""},
    {"HDEL", "hw", 3, 0, ONE_KEY, ""},
    {"HINCRBY", "hi", 4, 4, ONE_KEY, "--i"},
    {"HINCRBYFLOAT", "hf", 4, 4, ONE_KEY, "--f"},
    {"LPUSH", "lw", 3, 0, ONE_KEY, ""},
    {"RPUSH", "lw", 3, 0, ONE_KEY, ""},
    {"LPUSHX", "lw", 3, 0, ONE_KEY, ""},
    {"RPUSHX", "lw", 3, 0, ONE_KEY, ""},
    {"LPOP", "lw", 2, 3, ONE_KEY, "-i"},
    {"RPOP", "lw", 2, 3, ONE_KEY, "-i"},
    {"LREM", "lw", 4, 4, ONE_KEY, "-i"},
    {"LTRIM", "lw", 4, 4, ONE_KEY, "-ii"},
    {"LSET", "lw", 4, 4, ONE_KEY, "-i"},
    {"LINSERT", "lw", 5, 5, ONE_KEY, ""},
    {"SADD", "tw", 3, 0, ONE_KEY, ""},
    {"SREM", "tw", 3, 0, ONE_KEY, ""},
    {"SPOP", "tw", 2, 3, ONE_KEY, "-i"},
    {"SMOVE", "tw", 4, 4, 1, 2, 1, ""},
    {"ZADD", "zw", 4, 0, ONE_KEY, ""},
    {"ZREM", "zw", 3, 0, ONE_KEY, ""},
    {"ZINCRBY", "zw", 4, 4, ONE_KEY, "-f"},
    {"ZREMRANGEBYSCORE", "zw", 4, 4, ONE_KEY, ""},
    {"ZREMRANGEBYRANK", "zw", 4, 4, ONE_KEY, "-ii"},
    {"ZREMRANGEBYLEX", "zw", 4, 4, ONE_KEY, ""},
    {"ZPOPMIN", "zw", 2, 3, ONE_KEY, "-i"},
    {"ZPOPMAX", "zw", 2, 3, ONE_KEY, "-i"},
    {"XADD", "xw", 5, 0, ONE_KEY, ""},
    {"XDEL", "xw", 3, 0, ONE_KEY, ""},
    {"XTRIM", "xw", 4, 0, ONE_KEY, ""},
    {"DEL", "ad", 2, 0, 1, -1, 1, ""},
    {"UNLINK", "ad", 2, 0, 1, -1, 1, ""},
    {"EXPIRE", "ae", 3, 4, ONE_KEY, "-i"},
    {"PEXPIRE", "ae", 3, 4, ONE_KEY, "-i"},
    {"EXPIREAT", "ae", 3, 4, ONE_KEY, "-i"},
    {"PEXPIREAT", "ae", 3, 4, ONE_KEY, "-i"},
    {"PERSIST", "ae", 2, 2, ONE_KEY, ""},
};

const struct rd_command_rule *rd_command_rule(emq_str name)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(rules); i++)
        if (strlen(rules[i].name) == name.len &&
            strncasecmp(rules[i].name, name.ptr, name.len) == 0)
            return &rules[i];
    return NULL;
}

static bool is_number(emq_str word, char how)
{
    char text[64], *end;
    int64_t whole;

    if (how == 'i')
        return emq__str_to_i64(word, &whole);
    if (word.len == 0 || word.len >= sizeof text)
        return false;
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    return isfinite(strtod(text, &end)) && *end == '\0' && end > text;
}

emq_status rd_command_check(const struct rd_command_rule *rule, const struct emq__redis_command *c,
                            size_t at, emq_error *err)
{
    bool pairs =
        rule->step == 2 || strcmp(rule->name, "HSET") == 0 || strcmp(rule->name, "HMSET") == 0;

    if (c->n < (size_t)rule->min || (rule->max && c->n > (size_t)rule->max) || c->n > WORDS_MAX ||
        (pairs && c->n % 2 != (rule->step == 2)))
        return emq__fail(err, EMQ_E_INVALID, 0, "effect",
                         "command %zu (%s) has %zu words, which is no number that it takes "
                         "(at most %d in all); nothing was done",
                         at, rule->name, c->n, WORDS_MAX);
    for (size_t i = 0; rule->numbers[i] && i + 1 < c->n; i++)
        if (rule->numbers[i] != '-' && !is_number(c->args[i + 1], rule->numbers[i]))
            return emq__fail(err, EMQ_E_INVALID, 0, "effect",
                             "command %zu (%s): \"%.*s\" is no %snumber; nothing was done", at,
                             rule->name, EMQ_STR_ARG(c->args[i + 1]),
                             rule->numbers[i] == 'i' ? "whole " : "");
    return EMQ_OK;
}

size_t rd_command_key(const struct rd_command_rule *rule, const struct emq__redis_command *c,
                      size_t n)
{
    size_t place = (size_t)rule->first + n * (size_t)rule->step;
    size_t last = rule->last < 0 ? c->n - 1 : (size_t)rule->last;

    return place <= last && place < c->n ? place : 0;
}

const char *rd_command_known(const struct rd_command_rule *rule)
{
    return rule->known;
}
