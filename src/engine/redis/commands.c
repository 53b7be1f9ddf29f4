/* SPDX-License-Identifier: MIT
 *
 * See commands.h. What can be known before the first command is done is in this table, for Redis does not roll back.
 */
#include "engine/redis/commands_words.h"

#include "base/error.h"
#include "base/str.h"

#include <strings.h>

/* More than this a script can't hand to one command. */
enum { WORDS_MAX = 5000 };

struct rd_command_rule {
    char name[20], known[3];
    int min, max;          /* words with the name; max 0 = any number */
    int first, last, step; /* keys; last -1 = to the end */
    const char *words;     /* by word from the second on: a letter of commands_words.c, - any */
    rd_words_fn *options;  /* of a command with words that may be left out */
};

#define ONE_KEY 1, 1, 1
static const struct rd_command_rule rules[] = {
    {"SET", "so", 3, 0, ONE_KEY, "", rd_words_of_set},
    {"SETNX", "ae", 3, 3, ONE_KEY, "", NULL},
    {"SETEX", "so", 4, 4, ONE_KEY, "-s", NULL},
    {"PSETEX", "so", 4, 4, ONE_KEY, "-m", NULL},
    {"GETSET", "sw", 3, 3, ONE_KEY, "", NULL},
    {"MSET", "so", 3, 0, 1, -1, 2, "", NULL},
    {"MSETNX", "ae", 3, 0, 1, -1, 2, "", NULL},
    {"APPEND", "sw", 3, 3, ONE_KEY, "", NULL},
    {"SETRANGE", "sw", 4, 4, ONE_KEY, "-c", NULL},
    {"SETBIT", "sw", 4, 4, ONE_KEY, "-ob", NULL},
    {"INCR", "si", 2, 2, ONE_KEY, "", NULL},
    {"DECR", "si", 2, 2, ONE_KEY, "", NULL},
    {"INCRBY", "si", 3, 3, ONE_KEY, "-i", NULL},
    {"DECRBY", "si", 3, 3, ONE_KEY, "-d", NULL},
    {"INCRBYFLOAT", "sf", 3, 3, ONE_KEY, "-f", NULL},
    {"HSET", "hw", 4, 0, ONE_KEY, "", NULL},
    {"HMSET", "hw", 4, 0, ONE_KEY, "", NULL},
    {"HSETNX", "hw", 4, 4, ONE_KEY, "", NULL},
    {"HDEL", "hw", 3, 0, ONE_KEY, "", NULL},
    {"HINCRBY", "hi", 4, 4, ONE_KEY, "--i", NULL},
    {"HINCRBYFLOAT", "hf", 4, 4, ONE_KEY, "--f", NULL},
    {"LPUSH", "lw", 3, 0, ONE_KEY, "", NULL},
    {"RPUSH", "lw", 3, 0, ONE_KEY, "", NULL},
    {"LPUSHX", "lw", 3, 0, ONE_KEY, "", NULL},
    {"RPUSHX", "lw", 3, 0, ONE_KEY, "", NULL},
    {"LPOP", "lw", 2, 3, ONE_KEY, "-n", NULL},
    {"RPOP", "lw", 2, 3, ONE_KEY, "-n", NULL},
    {"LREM", "lw", 4, 4, ONE_KEY, "-i", NULL},
    {"LTRIM", "lw", 4, 4, ONE_KEY, "-ii", NULL},
    {"LSET", "lw", 4, 4, ONE_KEY, "-i", NULL},
    {"LINSERT", "lw", 5, 5, ONE_KEY, "-w", NULL},
    {"SADD", "tw", 3, 0, ONE_KEY, "", NULL},
    {"SREM", "tw", 3, 0, ONE_KEY, "", NULL},
    {"SPOP", "tw", 2, 3, ONE_KEY, "-n", NULL},
    {"SMOVE", "tw", 4, 4, 1, 2, 1, "", NULL},
    {"ZADD", "zw", 4, 0, ONE_KEY, "", rd_words_of_zadd},
    {"ZREM", "zw", 3, 0, ONE_KEY, "", NULL},
    {"ZINCRBY", "zw", 4, 4, ONE_KEY, "-z", NULL},
    {"ZREMRANGEBYSCORE", "zw", 4, 4, ONE_KEY, "-rr", NULL},
    {"ZREMRANGEBYRANK", "zw", 4, 4, ONE_KEY, "-ii", NULL},
    {"ZREMRANGEBYLEX", "zw", 4, 4, ONE_KEY, "-ll", NULL},
    {"ZPOPMIN", "zw", 2, 3, ONE_KEY, "-n", NULL},
    {"ZPOPMAX", "zw", 2, 3, ONE_KEY, "-n", NULL},
    {"XADD", "xw", 5, 0, ONE_KEY, "", rd_words_of_xadd},
    {"XDEL", "xw", 3, 0, ONE_KEY, "-x*", NULL},
    {"XTRIM", "xw", 4, 0, ONE_KEY, "", rd_words_of_xtrim},
    {"DEL", "ad", 2, 0, 1, -1, 1, "", NULL},
    {"UNLINK", "ad", 2, 0, 1, -1, 1, "", NULL},
    {"EXPIRE", "ae", 3, 4, ONE_KEY, "-te", NULL},
    {"PEXPIRE", "ae", 3, 4, ONE_KEY, "-ue", NULL},
    {"EXPIREAT", "ae", 3, 4, ONE_KEY, "-te", NULL},
    {"PEXPIREAT", "ae", 3, 4, ONE_KEY, "-ue", NULL},
    {"PERSIST", "ae", 2, 2, ONE_KEY, "", NULL},
};

const struct rd_command_rule *rd_command_rule(emq_str name)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(rules); i++)
        if (strlen(rules[i].name) == name.len &&
            strncasecmp(rules[i].name, name.ptr, name.len) == 0)
            return &rules[i];
    return NULL;
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
    struct rd_words w = {.words = c->args, .n = c->n, .at = 1};
    const char *wrong = NULL;
    for (const char *kind = rule->words; *kind && !wrong && w.at < w.n; kind += kind[1] != '*')
        wrong = rd_word(&w, *kind);
    if (!wrong && rule->options)
        wrong = rule->options(&w);
    if (!wrong)
        return EMQ_OK;
    emq_str word = w.at < w.n ? w.words[w.at] : emq_cstr("");
    return emq__fail(err, EMQ_E_INVALID, 0, "effect",
                     "command %zu (%s): \"%.*s\" is not %s; nothing was done", at, rule->name,
                     EMQ_STR_ARG(word), wrong);
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
