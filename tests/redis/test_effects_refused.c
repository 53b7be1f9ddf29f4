/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on a server: what can be known against its commands is found before the first one.
 */
#include "redis/effects.h"

/* A key k, by a command of three or four words. */
static void make(struct fx *t, const char *command)
{
    const struct commands *c = commands(t, TEXTS(command));
    const char *w[4];

    for (size_t i = 0; i < c->list[0].n && i < 4; i++)
        w[i] = emq__arena_str(&t->mem, c->words[0][i]).ptr;
    (void)DO("DEL k");
    if (c->list[0].n == 4)
        (void)DO("%s %s %s %s", w[0], w[1], w[2], w[3]);
    else
        (void)DO("%s %s %s", w[0], w[1], w[2]);
}

EFFECT_TEST(a_command_that_is_not_of_the_list_is_refused_by_name)
{
    static const char *const names[] = {
        "GET good",       "FLUSHALL",  "EVAL x 0",    "PUBLISH c m",
        "CONFIG SET a b", "MULTI",     "RENAME a b",  "COPY a b",
        "SORT a STORE b", "BLPOP a 0", "MIGRATE a b", "XGROUP CREATE a",
        "SCRIPT FLUSH",   "SELECT 1",  "SWAPDB 0 1",  "RESTORE a 0 x"};
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(names); i++) {
        const char *end = strchr(names[i], ' ');
        emq_str name = emq_strn(names[i], end ? (size_t)(end - names[i]) : strlen(names[i]));
        REFUSED(t, j, emq__arena_str(&t->mem, name).ptr, "SET good 1", names[i]);
        CHECK_HAS(S(t->err.text), "command 2");
        CHECK_HAS(S(t->err.text), "nothing was done");
    }
    check_untouched(t, j);
}

EFFECT_TEST(a_key_of_a_queue_is_refused)
{
    struct emq__job *j = start(t);

    REFUSED(t, j, "emq:q:wait", "SET good 1", "LPUSH emq:q:wait 7");
    REFUSED(t, j, "emq:other", "SET good 1", "DEL mine emq:other");
    REFUSED(t, j, "emq::emq:q:ef", "SET good 1", "DEL emq::emq:q:ef");
    REFUSED(t, j, "emq:x", "SET good 1", "MSET a 1 emq:x 2");
    REFUSED(t, j, "emq:x", "SET good 1", "SMOVE a emq:x m");
    CHECK_STATUS(EFFECT(t, j, "SET emq 1", "SET my:emq:x 1", "SET emqx:1 1").outcome, EMQ_OK);
}

EFFECT_TEST(a_key_of_another_type_is_refused_before_anything_is_done)
{
    static const struct {
        const char *make, *command;
    } list[] = {
        {"RPUSH k a", "INCR k"},      {"RPUSH k a", "HSET k f v"},  {"SET k a", "SADD k m"},
        {"SET k a", "RPUSH k a"},     {"SADD k m", "ZADD k 1 m"},   {"ZADD k 1 m", "XADD k * f v"},
        {"HSET k f v", "APPEND k a"}, {"HSET k f v", "GETSET k a"}, {"SET k a", "SPOP k"},
        {"SET k a", "ZPOPMIN k"},     {"SET k a", "LSET k 0 a"},    {"SET k a", "HDEL k f"},
        {"SET k a", "SMOVE x k m"},
    };
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        make(t, list[i].make);
        REFUSED(t, j, "'k' holds a ", "SET good 1", list[i].command);
        CHECK_HAS(S(t->err.text), "command 2");
    }
    check_untouched(t, j);
}

EFFECT_TEST(what_the_commands_before_make_of_a_key_counts)
{
    struct emq__job *j = start(t);

    CHECK_DO("1", "RPUSH k a");
    REFUSED(t, j, "'k' holds a string", "SET good 1", "SET k 1", "RPUSH k a");
    REFUSED(t, j, "'n' holds is no number", "SET good 1", "SET n x", "INCR n");
    REFUSED(t, j, "'h' holds is no number", "SET good 1", "HSET h f x", "HINCRBY h f 1");
    CHECK_STATUS(
        EFFECT(t, j, "SET k 5", "INCR k", "DEL k", "HSET k f 1", "HINCRBY k f 2", "UNLINK h")
            .outcome,
        EMQ_OK);
    CHECK_DO("3", "HGET k f");
}

EFFECT_TEST(what_is_to_be_counted_must_be_a_number)
{
    static const struct {
        const char *make, *command;
    } list[] = {
        {"SET k abc", "INCR k"},
        {"SET k 1.5", "INCRBY k 2"},
        {"SET k 007", "DECR k"},
        {"SET k x", "INCRBYFLOAT k 1"},
        {"HSET k f x", "HINCRBY k f 1"},
        {"HSET k f x", "HINCRBYFLOAT k f 1.5"},
        {"SET k 99999999999999999999", "DECRBY k 1"},
    };
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        make(t, list[i].make);
        REFUSED(t, j, "no number", "SET good 1", list[i].command);
    }
    check_untouched(t, j);
}

EFFECT_TEST(words_that_a_command_does_not_take_are_refused)
{
    static const char *const list[] = {"SET k",           "INCRBY k x",
                                       "INCRBY k 1.5",    "EXPIRE k soon",
                                       "HSET k f",        "HSET k f v g",
                                       "MSET k",          "MSET k v l",
                                       "INCR k 1",        "ZINCRBY k x m",
                                       "ZINCRBY k nan m", "SETEX k x v",
                                       "LREM k x a",      "DEL"};
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        REFUSED(t, j, "command 2", "SET good 1", list[i]);
    check_untouched(t, j);
}

EFFECT_TEST(words_that_a_server_would_refuse_whatever_its_keys_hold_are_refused)
{
    static const char *const list[] = {"SET k v EX 0",
                                       "SET k v PX x",
                                       "SET k v EX",
                                       "SET k v FROB",
                                       "SET k v NX XX",
                                       "SET k v EX 1 PX 1",
                                       "SET k v EX 1 KEEPTTL",
                                       "SET k v GET",
                                       "SETEX k 0 v",
                                       "PSETEX k -1 v",
                                       "SET k v EX 9223372036854775807",
                                       "EXPIRE k 9223372036854775807",
                                       "EXPIRE k 1 FROB",
                                       "PEXPIREAT k 9223372036854775807",
                                       "SETBIT k 0 7",
                                       "SETBIT k -1 1",
                                       "SETBIT k 4294967296 1",
                                       "SETRANGE k -1 v",
                                       "INCRBY k 007",
                                       "INCRBY k -0",
                                       "INCRBY k +1",
                                       "DECRBY k -9223372036854775808",
                                       "INCRBYFLOAT k inf",
                                       "LPOP k -1",
                                       "SPOP k -1",
                                       "ZPOPMIN k -1",
                                       "LINSERT k MIDDLE a b",
                                       "ZADD k abc m",
                                       "ZADD k nan m",
                                       "ZADD k 1",
                                       "ZADD k 1 m 2",
                                       "ZADD k GT NX 1 m",
                                       "ZADD k GT LT 1 m",
                                       "ZADD k NX XX 1 m",
                                       "ZADD k INCR 1 m 2 n",
                                       "ZADD k FROB 1 m",
                                       "ZADD k NX CH",
                                       "ZREMRANGEBYSCORE k abc def",
                                       "ZREMRANGEBYSCORE k 1 ((2",
                                       "ZREMRANGEBYLEX k a b",
                                       "XADD k * f",
                                       "XADD k * f v g",
                                       "XADD k 0-0 f v",
                                       "XADD k x f v",
                                       "XADD k 1-x f v",
                                       "XADD k MAXLEN abc * f v",
                                       "XADD k MAXLEN 1 LIMIT 1 * f v",
                                       "XADD k MAXLEN ~ -1 * f v",
                                       "XADD k MINID x * f v",
                                       "XADD k NOMKSTREAM * f",
                                       "XDEL k 1-1 x",
                                       "XTRIM k MAXLEN abc",
                                       "XTRIM k FROB 1",
                                       "XTRIM k MAXLEN 1 LIMIT 1",
                                       "XTRIM k MAXLEN ~ 1 LIMIT -1",
                                       "XTRIM k MAXLEN ="};
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        REFUSED(t, j, "command 2", "INCR n", list[i]);
    CHECK_NONE("n");
    check_untouched(t, j);
}

EFFECT_TEST(words_that_a_server_takes_are_taken)
{
    struct emq__job *j = start(t);

    CHECK_STATUS(EFFECT(t, j, "SET a 1 NX EX 100", "SET a 1 xx keepttl", "SET b 1 PX 100000",
                        "SET c 1 EXAT 99999999999", "EXPIRE a -1", "SETBIT d 4294 1",
                        "SETRANGE d 0 x", "DECRBY n -9223372036854775807")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "ZADD z NX CH 1 a -inf b", "ZADD z XX GT 2 a", "ZADD z INCR .5 a",
                        "ZADD z LT 1e3 NX", "ZINCRBY z inf c", "ZREMRANGEBYSCORE z (-inf +inf",
                        "ZADD z 5 5", "ZREMRANGEBYLEX z [a (b")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "XADD x 5 f v", "XADD x MAXLEN ~ 10 LIMIT 0 6-1 f v g w",
                        "XADD x NOMKSTREAM MINID = 5 * f v", "XTRIM x MINID ~ 1-1 LIMIT 5",
                        "XTRIM x MAXLEN 9", "XDEL x 5 6-1", "LINSERT l before a b", "LPOP l 0")
                     .outcome,
                 EMQ_OK);
    CHECK_DO("9223372036854775807", "GET n");
    CHECK_DO("1", "XLEN x");
}

EFFECT_TEST(a_sum_of_more_than_64_bits_is_refused_and_no_other_is)
{
    static const struct {
        const char *before, *command, *after; /* NULL: refused */
    } list[] = {
        {"-9223372036854775808", "INCR k", "-9223372036854775807"},
        {"-9223372036854775808", "DECR k", NULL},
        {"9223372036854775807", "INCR k", NULL},
        {"9223372036854775806", "INCR k", "9223372036854775807"},
        {"9223372036854775807", "INCRBY k -9223372036854775808", "-1"},
        {"10", "INCRBY k 9223372036854775807", NULL},
        {"-10", "INCRBY k 9223372036854775807", "9223372036854775797"},
        {"-1", "DECRBY k 9223372036854775807", "-9223372036854775808"},
        {"-2", "DECRBY k 9223372036854775807", NULL},
        {"999999999", "INCR k", "1000000000"},
        {"-1000000000", "INCR k", "-999999999"},
        {"1000000001", "DECRBY k 2", "999999999"},
        {"5", "DECRBY k 5", "0"},
    };
    struct emq__job *j = start(t);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++) {
        (void)DO("SET k %s", list[i].before);
        if (list[i].after) {
            CHECK_STATUS(EFFECT(t, j, "SET n 1", list[i].command).outcome, EMQ_OK);
            CHECK_DO(list[i].after, "GET k");
            j = add_and_take(t);
        } else {
            REFUSED(t, j, "more than 64 bits", "SET good 1", list[i].command);
        }
    }
    check_untouched(t, j);
}

EFFECT_TEST(a_sum_counts_what_the_commands_before_have_made_of_it)
{
    struct emq__job *j = start(t);

    REFUSED(t, j, "command 3", "SET k 9223372036854775806", "INCR k", "INCR k");
    REFUSED(t, j, "command 2", "SETEX k 10 x", "INCR k");
    REFUSED(t, j, "command 2", "MSET a 1 k x", "INCR k");
    REFUSED(t, j, "command 2", "SETNX k x", "RPUSH k x");
    REFUSED(t, j, "command 2", "MSETNX a 1 k x", "INCR k");
    REFUSED(t, j, "command 3", "HSET h f 9223372036854775806", "HINCRBY h f 1", "HINCRBY h f 1");
    CHECK_STATUS(EFFECT(t, j, "SET k x", "GETSET k 4", "INCR k", "HSET h f x g x", "HDEL h f",
                        "HINCRBY h f 2", "DEL h", "HINCRBY h g 3")
                     .outcome,
                 EMQ_OK);
    CHECK_DO("5", "GET k");
    CHECK_DO("3", "HGET h g");
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "SETNX k x", "INCR k", "MSETNX k x new x", "INCR k").outcome, EMQ_OK);
    check_untouched(t, add_and_take(t));
}

EFFECT_TEST(a_command_with_more_words_than_a_script_can_hand_on_is_refused)
{
    struct emq__job *j = start(t);
    enum { MANY = 6000 };
    emq_str *words = emq__arena_zalloc(&t->mem, MANY, sizeof *words);
    struct commands *c = commands(t, TEXTS("SET good 1", "RPUSH l x"));

    assert_non_null(words);
    for (size_t i = 0; i < MANY; i++)
        words[i] = i == 0 ? S("RPUSH") : S("l");
    c->list[1] = (struct emq__redis_command){words, MANY};
    (void)effect_of(t, j, (struct emq__call){0}, c, EMQ_E_INVALID);
    CHECK_HAS(S(t->err.text), "command 2");
    c->list[1].n = 5000;
    CHECK_STATUS(effect_of(t, j, (struct emq__call){0}, c, EMQ_OK).outcome, EMQ_OK);
    CHECK_DO("4998", "LLEN l");
}

EFFECT_TEST(bytes_of_any_kind_are_written_as_they_are)
{
    struct emq__job *j = start(t);
    static const char raw[] = "a\0b\r\n\xff";
    struct commands *c = commands(t, TEXTS("SET k x"));

    c->words[0][2] = emq_strn(raw, sizeof raw - 1);
    CHECK_STATUS(effect_of(t, j, (struct emq__call){0}, c, EMQ_OK).outcome, EMQ_OK);
    CHECK_DO("6", "STRLEN k");
}

EFFECT_TEST(every_command_of_the_list_is_done)
{
    struct emq__job *j = start(t);

    CHECK_STATUS(EFFECT(t, j, "SETEX a 100 1", "PSETEX b 100000 1", "SETNX c 1", "GETSET c 2",
                        "MSET d 1 e 2", "MSETNX f 1 g 2", "SETRANGE d 1 x", "SETBIT e 1 1")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "INCRBYFLOAT x1 1.5", "DECRBY x2 3", "DECR x2", "HMSET h a 1 b 2",
                        "HSETNX h c 3", "HDEL h a", "HINCRBYFLOAT h b 0.5", "EXPIREAT a 1")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "LPUSH l a b", "LPUSHX l c", "RPUSHX l d", "LPOP l", "RPOP l 1",
                        "LREM l 1 a", "LINSERT l BEFORE b z", "LSET l 0 y")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "LTRIM l 0 0", "SADD s a b c", "SREM s a", "SMOVE s s2 b", "SPOP s",
                        "ZADD z 1 a 2 b 3 c 4 d", "ZREM z a", "ZINCRBY z 2.5 b")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "ZPOPMIN z", "ZPOPMAX z 1", "ZREMRANGEBYSCORE z 0 1",
                        "ZREMRANGEBYRANK z 5 6", "XADD x 1-1 f v", "XADD x 2-1 f v", "XDEL x 1-1",
                        "XTRIM x MAXLEN 10")
                     .outcome,
                 EMQ_OK);
    j = add_and_take(t);
    CHECK_STATUS(EFFECT(t, j, "ZREMRANGEBYLEX z2 - +", "PEXPIRE b 5", "EXPIRE c 100", "PERSIST c",
                        "PEXPIREAT d 1", "APPEND e x", "INCR n", "UNLINK f g")
                     .outcome,
                 EMQ_OK);
    CHECK_DO("y", "LRANGE l 0 -1");
    CHECK_DO("-4", "GET x2");
    CHECK_DO("2.5", "HGET h b");
    CHECK_DO("1", "XLEN x");
    CHECK_DO("0", "EXISTS a d f g");
}
