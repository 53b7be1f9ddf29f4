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
