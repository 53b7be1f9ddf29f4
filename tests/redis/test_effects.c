/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on a server: commands of the application in the script that completes the job. What
 * can be known against them is found before the first one; what fails nevertheless ends the job.
 */
#include "redis/keys.h"

#include "engine/effects.h"
#include "engine/redis/effect.h"

#define EFFECT_TEST REDIS_TEST

enum { COMMANDS_MAX = 8, WORDS_MAX = 12 };

/* Commands as words. */
struct commands {
    struct emq__redis_command list[COMMANDS_MAX];
    emq_str words[COMMANDS_MAX][WORDS_MAX];
    size_t n;
};

static struct commands *commands(struct fx *t, const char *const *text)
{
    struct commands *c = emq__arena_zalloc(&t->mem, 1, sizeof *c);

    assert_non_null(c);
    for (; text[c->n]; c->n++) {
        const char *at = text[c->n];
        size_t n = 0;
        CHECK(c->n < COMMANDS_MAX);
        while (*at) {
            size_t len = strcspn(at, " ");
            CHECK(n < WORDS_MAX);
            c->words[c->n][n++] = emq_strn(at, len);
            at += len + (at[len] == ' ');
        }
        c->list[c->n] = (struct emq__redis_command){c->words[c->n], n};
    }
    return c;
}

static struct emq__effect_res effect_of(struct fx *t, const struct emq__job *j,
                                        struct emq__call call, const struct commands *c,
                                        emq_status expected)
{
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {.call = call,
                                        .prefix = FX_PREFIX,
                                        .queue = S("q"),
                                        .entry = &en,
                                        .step = S("ledger"),
                                        .keep_ms = KEEP_MS};
    struct emq__effect_res res;

    en.value = (struct emq__payload){EMQ__KIND_TEXT, EMQ_STR_LIT("d\xc3\xb6ne")};
    t->err = (emq_error){0};
    CHECK_STATUS_ERR(emq__redis_effect(t->e, &req, c->list, c->n, &res, &t->mem, &t->err), expected,
                     &t->err);
    return res;
}

#define TEXTS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define EFFECT(t, j, ...) \
    effect_of(t, j, (struct emq__call){0}, commands(t, TEXTS(__VA_ARGS__)), EMQ_OK)
/* It is refused, and the text has this in it. */
#define REFUSED(t, j, part, ...)                                                      \
    do {                                                                              \
        (void)effect_of(t, j, (struct emq__call){0}, commands(t, TEXTS(__VA_ARGS__)), \
                        EMQ_E_INVALID);                                               \
        CHECK_HAS(S(t->err.text), part);                                              \
    } while (0)

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

static struct emq__job *start(struct fx *t)
{
    fx_unchecked(t);
    return add_and_take(t);
}

static int step_state(struct fx *t, const struct emq__job *j)
{
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S("q"), .id = j->id, .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    return res.n ? res.markers[0].state : 0;
}

/* Nothing of an effect has happened, and the owner can go on. */
static void check_untouched(struct fx *t, const struct emq__job *j)
{
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    CHECK_NONE("good");
    CHECK_INT(step_state(t, j), 0);
    CHECK_INT(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_OK);
    CHECK_DO("1", "GET good");
}

/* ---- both, or neither ----------------------------------------------------------------------------- */

EFFECT_TEST(an_effect_and_the_completion_of_its_job_are_there_together)
{
    struct emq__job *j = start(t);
    emq_str before = event_cursor(t, "q");
    struct emq__effect_res res =
        EFFECT(t, j, "SET account:1 90", "incrby account:2 10", "RPUSH log a b");

    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_INT(res.state, EMQ_COMPLETED_STATE);
    CHECK_DO("90", "GET account:1");
    CHECK_DO("10", "GET account:2");
    CHECK_DO("2", "LLEN log");
    CHECK_EVENTS(t, "q", before.ptr, "completed 1, drained");
    CHECK_INT(stats(t, "q").totals.completed, 1);
    struct emq__job *ended = must_get(t, "q", j->id);
    CHECK_INT(ended->state, EMQ_COMPLETED_STATE);
    CHECK_INT(ended->attempts_made, 1);
    CHECK_STR(ended->result.bytes, "d\xc3\xb6ne");
    CHECK_INT(ended->result.kind, EMQ__KIND_TEXT);
    CHECK_INT(dump(t, "q").stray, 0);
}

EFFECT_TEST(an_effect_is_known_to_be_done)
{
    struct emq__job *j = start(t);
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S("q"), .id = j->id, .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    CHECK_STR(res.markers[0].step, "ledger");
    CHECK_INT(res.markers[0].state, EMQ__MARKER_DONE);
    CHECK_STR_EQ(res.markers[0].token, j->token);
    CHECK_STR(res.markers[0].result.bytes, "d\xc3\xb6ne");
    CHECK_INT(res.markers[0].result.kind, EMQ__KIND_TEXT);
    CHECK_INT(res.markers[0].expires_at_ms, res.markers[0].done_at_ms + KEEP_MS);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY), EMQ_EFFECT_DONE);
}

EFFECT_TEST(an_effect_that_is_known_to_be_done_is_left_out_and_its_job_completed)
{
    struct emq__job *j = start(t);

    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_KEEP),
                 EMQ_OK);
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("1", "GET n");
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("2", "GET n");
}

EFFECT_TEST(a_repeated_effect_is_answered_by_its_receipt_and_not_made_again)
{
    struct emq__job *j = start(t);
    const struct emq__call call = {EMQ_STR_LIT("session-1"), 1};
    struct commands *c = commands(t, TEXTS("INCR n"));

    for (int i = 0; i < 2; i++) {
        struct emq__effect_res res = effect_of(t, j, call, c, EMQ_OK);
        CHECK_STATUS(res.outcome, EMQ_OK);
        CHECK_INT(res.state, EMQ_COMPLETED_STATE);
        CHECK_DO("1", "GET n");
    }
}

EFFECT_TEST(a_former_owner_is_told_that_it_is_lost_and_its_commands_are_not_done)
{
    struct emq__job *old = start(t), *j = taken_again(t);
    struct emq__effect_res res = EFFECT(t, old, "SET good 1");

    CHECK_STATUS(res.outcome, EMQ_LOST);
    CHECK_INT(res.state, EMQ_ACTIVE);
    CHECK_HAS(last_history(t, j->id), "\"what\":\"refused\"");
    check_untouched(t, j);
}

EFFECT_TEST(a_lock_that_ended_is_enough_until_somebody_recovers_the_job)
{
    struct emq__job *j = start(t);

    advance(t, FX_LOCK_MS + 1);
    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_DO("1", "GET n");
}

EFFECT_TEST(a_lock_without_its_job_in_active_is_not_enough)
{
    struct emq__job *j = start(t);

    CHECK_DO("1", "LREM emq:q:active 1 %s", j->id.ptr);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_LOST);
    CHECK_NONE("good");
}

EFFECT_TEST(an_effect_of_a_job_that_is_not_there_or_has_ended_is_not_made)
{
    struct emq__job *j = start(t);

    settle_ok(t, j);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_LOST);
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE), EMQ_OK);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_NOT_FOUND);
    CHECK_NONE("good");
}

EFFECT_TEST(a_parent_whose_children_are_not_done_is_not_completed_by_its_effect)
{
    struct emq__job *j = start(t);

    CHECK_DO("1", "SADD emq:q:%s:dependencies emq:q:child", j->id.ptr);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_WRONG_STATE);
    CHECK_NONE("good");
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
}

EFFECT_TEST(a_job_with_a_dedup_id_and_a_limit_of_one_ends_as_it_would_without_an_effect)
{
    fx_unchecked(t);
    must_meta(t, "q", "concurrency", "1");
    CHECK_STATUS(add_dedup(t, "q", (struct emq__dedup){.id = S("d")}).outcome, EMQ_OK);
    must_add(t, "q", "y");
    struct emq__job *j = must_take(t, "q");
    assert_null(take_one(t, "q"));
    CHECK_STATUS(EFFECT(t, j, "INCR n").outcome, EMQ_OK);
    CHECK_NONE("emq:q:de:d");
    CHECK_STATUS(EFFECT(t, must_take(t, "q"), "INCR n").outcome, EMQ_OK);
    CHECK_DO("2", "GET n");
}

/* ---- what is known before ------------------------------------------------------------------------ */

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

/* ---- what fails nevertheless ------------------------------------------------------------------------ */

EFFECT_TEST(a_first_command_that_fails_has_done_nothing)
{
    struct emq__job *j = start(t);

    REFUSED(t, j, "command 1 (LSET)", "LSET nothing 0 a", "SET good 1");
    check_untouched(t, j);
}

EFFECT_TEST(a_command_that_fails_behind_others_ends_the_job_for_good_as_a_partial_effect)
{
    fx_unchecked(t);
    struct emq__add_entry en = fx_entry("q", "x");
    en.opts = S("{\"attempts\":5}");
    must_add_entry(t, en);
    struct emq__job *j = must_take(t, "q");
    const struct emq__call call = {EMQ_STR_LIT("session-1"), 1};
    struct commands *c = commands(t, TEXTS("INCR n", "LSET nothing 0 a", "SET good 1"));

    for (int i = 0; i < 2; i++) { /* once, and as its receipt says */
        struct emq__effect_res res = effect_of(t, j, call, c, EMQ_OK);
        CHECK_STATUS(res.outcome, EMQ_FAILED);
        CHECK_INT(res.state, EMQ_FAILED_STATE);
    }
    struct emq__job *ended = must_get(t, "q", j->id);
    CHECK_INT(ended->state, EMQ_FAILED_STATE);
    CHECK_HAS(ended->failed_reason, "partial effect: command 2 (LSET): ERR no such key");
    CHECK_INT(ended->attempts_made, 1);
    CHECK_DO("1", "GET n");
    CHECK_NONE("good");
    CHECK_INT(stats(t, "q").totals.failed, 1);
    CHECK_INT(step_state(t, j), EMQ__MARKER_IN_DOUBT);
    CHECK_HAS(last_event(t, "q", "failed"), "partial effect");
    CHECK_INT(dump(t, "q").stray, 0);
}

EFFECT_TEST(a_server_whose_memory_is_full_makes_the_effect_all_the_same)
{
    struct emq__job *j = start(t);

    CHECK_DO("OK", "CONFIG SET maxmemory 1");
    struct commands *c = commands(t, TEXTS("SET good 1", "RPUSH l a"));
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res = {0};
    emq_status s = emq__redis_effect(t->e, &req, c->list, c->n, &res, &t->mem, &t->err);
    CHECK_DO("OK", "CONFIG SET maxmemory 0");
    CHECK_STATUS_ERR(s, EMQ_OK, &t->err);
    CHECK_STATUS(res.outcome, EMQ_OK);
    CHECK_DO("1", "GET good");
    CHECK_DO("1", "LLEN l");
}

/* ---- the keys of markers ---------------------------------------------------------------------------- */

EFFECT_TEST(every_key_of_a_marker_has_an_end_and_the_one_that_ends_last_keeps_the_others)
{
    struct emq__job *j = start(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    const char *keys[] = {"ef", "ef-end", NULL};

    keys[2] =
        emq__arena_printf(&t->mem, "ef:%s:%lld", j->id.ptr, (long long)j->timestamp_at_ms).ptr;
    req.step = S("lasting");
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.step = S("brief");
    req.keep_ms = 1000;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++) {
        long long left = server_number(DO("PTTL emq::emq:q:%s", keys[i]));
        CHECK(left > KEEP_MS - 600000 && left <= KEEP_MS);
    }
}

EFFECT_TEST(markers_that_have_ended_leave_no_keys_once_others_are_made)
{
    enum { JOBS = 20 };
    struct emq__job *j = start(t);

    for (int i = 0; i < JOBS; i++, j = add_and_take(t)) {
        struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
        req.keep_ms = 1000;
        CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
        settle_ok(t, j);
    }
    CHECK_DO("20", "ZCARD emq::emq:q:ef");
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    advance(t, 2000);
    for (int i = 0; i < JOBS / 4; i++) {
        j = add_and_take(t);
        CHECK_INT(claim(t, j), EMQ__MARKER_FRESH);
        settle_ok(t, j);
    }
    CHECK_DO("6", "ZCARD emq::emq:q:ef");
    CHECK_DO("6", "ZCARD emq::emq:q:ef-end");
}

EFFECT_TEST(what_is_forgotten_leaves_no_key)
{
    struct emq__job *j = start(t);
    struct emq__mark_req req = mark_req(j, EMQ__MARK_CLAIM);

    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    req.kind = EMQ__MARK_RELEASE;
    CHECK_STATUS(mark_with(t, &req, NULL), EMQ_OK);
    CHECK_NONE("emq::emq:q:ef");
    CHECK_NONE("emq::emq:q:ef-end");
    claim_fresh(t, j);
    fail_ok(t, j, "no");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .effects = EMQ__EFFECTS_REDO),
                 EMQ_OK);
    CHECK_NONE("emq::emq:q:ef");
    CHECK_DO("1", "HGET emq:q:%s emq:redo", j->id.ptr);
}
