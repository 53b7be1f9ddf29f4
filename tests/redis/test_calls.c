/* SPDX-License-Identifier: MIT
 *
 * What a job costs on a server in redis.call()s, counted by the server itself. The numbers stand in the
 * headers of the scripts, behind "-- calls": whoever adds a call has to change them there.
 */
#include "engine/redis/path.h"
#include "redis/effects.h"
#include "redis/ground.h"

enum { MANY = 100, SIZES = 3, KEPT = 100 };

static const int sizes[SIZES] = {1, 10, MANY};
static uint64_t acts; /* receipts are part of what an act costs */

static struct emq__call next_call(void)
{
    return (struct emq__call){S("session"), ++acts};
}

/* ---- the acts -------------------------------------------------------------------------------- */

static void add_to(struct fx *t, emq_str stage, int n)
{
    struct emq__add_entry en = fx_entry("q", "{}");
    const struct emq__add_entry *list[MANY];
    struct emq__add_req req = {
        .call = next_call(), .entries = list, .n = (size_t)n, .stage = stage};
    struct emq__add_res res;

    for (int i = 0; i < n; i++)
        list[i] = &en;
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
}

static void add(struct fx *t, int n)
{
    add_to(t, S(""), n);
}

static void end_stage(struct fx *t, bool drop)
{
    struct emq__publish_req req = {
        .call = next_call(), .prefix = FX_PREFIX, .stage = S("s"), .drop = drop};
    struct emq__publish_res res;

    CHECK_STATUS(FX_CALL(t, publish, &req, &res), EMQ_OK);
}

static struct emq__taken take(struct fx *t, int n)
{
    struct emq__take_req req = {next_call(), FX_PREFIX, S("q"), fx_take(n)};
    struct emq__take_res res;

    CHECK_STATUS(FX_CALL(t, take, &req, &res), EMQ_OK);
    CHECK_INT(res.taken.n, n);
    return res.taken;
}

/* Completes them; with `next` it takes as many. */
static struct emq__taken complete(struct fx *t, struct emq__taken jobs, bool next)
{
    const struct emq__settle_entry *list[MANY];
    struct emq__take more = fx_take((int32_t)jobs.n);
    struct emq__settle_req req = {next_call(), FX_PREFIX, S("q"),
                                  list,        jobs.n,    next ? &more : NULL};
    struct emq__settle_res res;

    for (size_t i = 0; i < jobs.n; i++) {
        struct emq__settle_entry *en = emq__arena_zalloc(&t->mem, 1, sizeof *en);
        *en = fx_settle(jobs.jobs[i], EMQ__SETTLE_COMPLETED);
        en->keep = (struct emq__keep){.count = KEPT, .age_ms = 86400000};
        list[i] = en;
    }
    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    for (size_t i = 0; i < res.n; i++)
        CHECK_STATUS(res.settled[i].outcome, EMQ_OK);
    CHECK_INT(res.taken.n, next ? jobs.n : 0);
    return res.taken;
}

static void renew(struct fx *t, struct emq__taken jobs)
{
    struct emq__extend_entry entries[MANY];
    const struct emq__extend_entry *list[MANY];
    struct emq__extend_req req = {.entries = list, .n = jobs.n, .lock_ms = FX_LOCK_MS};
    struct emq__extend_res res;

    for (size_t i = 0; i < jobs.n; i++) {
        entries[i] =
            (struct emq__extend_entry){FX_PREFIX, S("q"), jobs.jobs[i]->id, jobs.jobs[i]->token};
        list[i] = &entries[i];
    }
    CHECK_STATUS(FX_CALL(t, extend, &req, &res), EMQ_OK);
    for (size_t i = 0; i < jobs.n; i++)
        CHECK_STATUS(res.extended[i].outcome, EMQ_OK);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* How many an act made, act by act, as the header has it; and of which commands, for who has to
 * find the one that is new. */
struct tally {
    char line[200];
    struct emq__buf commands;
};

static void count_from_now(struct fx *t)
{
    CHECK_DO("OK", "CONFIG RESETSTAT");
}

/* All that the server ran but the script itself and what asked. */
static int count(struct fx *t, struct emq__buf *commands)
{
    const char *line = strstr(DO("INFO commandstats"), "cmdstat_");
    int sum = 0;

    for (; line; line = strstr(line + 1, "cmdstat_")) {
        char name[40];
        int n = 0;
        if (sscanf(line, "cmdstat_%39[^:]:calls=%d", name, &n) != 2)
            fail_msg("not a line of commandstats: %.80s", line);
        if (strcmp(name, "evalsha") == 0 || strcmp(name, "script|load") == 0 ||
            strcmp(name, "config|resetstat") == 0)
            continue;
        emq__buf_printf(commands, " %s %d", name, n);
        sum += n;
    }
    emq__buf_printf(commands, "\n");
    return sum;
}

static void note(struct fx *t, struct tally *y, const char *before)
{
    size_t at = strlen(y->line);

    (void)snprintf(y->line + at, sizeof y->line - at, "%s%d", before, count(t, &y->commands));
}

static void say(struct tally *y, const char *text)
{
    size_t at = strlen(y->line);

    (void)snprintf(y->line + at, sizeof y->line - at, "%s", text);
}

static void check_header(enum rd_lua script, struct tally *y)
{
    const char *said = strstr(rd_lua_text[script], "\n-- calls      ");

    CHECK(said != NULL);
    said += strlen("\n-- calls      ");
    if (strncmp(said, y->line, strlen(y->line)) != 0) {
        emq_str commands = emq__buf_view(&y->commands);
        fail_msg("the header of %s.lua says\n%.*s\nbut counted were\n%s\nwhich are\n%.*s",
                 rd_lua_name[script], (int)strcspn(said, "\n"), said, y->line, (int)commands.len,
                 commands.ptr);
    }
    emq__buf_free(&y->commands);
}

/* ---- the sentences --------------------------------------------------------------------------- */

/* A queue in its everyday life: more waits than is taken, others hold a job, and as many completed
 * ones are kept as may be. */
static void begin(struct fx *t, struct tally *y)
{
    t->e->ops->close(t->e); /* its clock stands, and its decorator's looks would be counted */
    t->e = open_url(server(t)->url, PATIENCE_MS);
    *y = (struct tally){.line = ""};
    emq__buf_init(&y->commands, SIZE_MAX);
    for (int i = 0; i < 8; i++)
        add(t, MANY);
    complete(t, take(t, KEPT), false);
    renew(t, take(t, 1));
}

REDIS_TEST(an_add_makes_as_many_calls_as_its_script_says)
{
    struct tally y;

    begin(t, &y);
    for (int i = 0; i < SIZES; i++) {
        count_from_now(t);
        add(t, sizes[i]);
        note(t, &y, i ? ", " : "");
    }
    say(&y, " for 1, 10, 100 jobs");
    check_header(RD_LUA_add, &y);
}

REDIS_TEST(a_publication_makes_as_many_calls_as_its_script_says_and_a_drop_too)
{
    struct tally y;

    begin(t, &y);
    for (int drop = 0; drop < 2; drop++) {
        for (int i = 0; i < SIZES; i++) {
            add_to(t, S("s"), sizes[i]);
            count_from_now(t);
            end_stage(t, drop);
            note(t, &y, i ? ", " : "");
        }
        say(&y, drop ? " when they are dropped" : " for 1, 10, 100 jobs; ");
    }
    check_header(RD_LUA_publish, &y);
}

REDIS_TEST(a_take_makes_as_many_calls_as_its_script_says)
{
    struct tally y;

    begin(t, &y);
    for (int i = 0; i < SIZES; i++) {
        count_from_now(t);
        (void)take(t, sizes[i]);
        note(t, &y, i ? ", " : "");
    }
    say(&y, " for 1, 10, 100 jobs");
    check_header(RD_LUA_take, &y);
}

REDIS_TEST(a_settlement_makes_as_many_calls_as_its_script_says_and_with_the_next_take_too)
{
    struct tally y;

    begin(t, &y);
    for (int next = 0; next < 2; next++) {
        for (int i = 0; i < SIZES; i++) {
            struct emq__taken jobs = take(t, sizes[i]);
            count_from_now(t);
            (void)complete(t, jobs, next);
            note(t, &y, i ? ", " : "");
        }
        say(&y, next ? " when as many are taken" : " for 1, 10, 100 completed jobs; ");
    }
    check_header(RD_LUA_settle, &y);
}

REDIS_TEST(a_renewal_makes_as_many_calls_as_its_script_says)
{
    struct tally y;

    begin(t, &y);
    for (int i = 0; i < SIZES; i++) {
        struct emq__taken jobs = take(t, sizes[i]);
        count_from_now(t);
        renew(t, jobs);
        note(t, &y, i ? ", " : "");
    }
    say(&y, " for 1, 10, 100 jobs");
    check_header(RD_LUA_extend, &y);
}

REDIS_TEST(a_marker_makes_as_many_calls_as_its_script_says)
{
    static const enum emq__mark_kind kinds[] = {EMQ__MARK_CLAIM, EMQ__MARK_DONE};
    struct tally y;

    begin(t, &y);
    struct emq__job *j = take(t, 1).jobs[0];
    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        struct emq__mark_req req = mark_req(j, kinds[i]);
        struct emq__mark_res res;
        req.call = next_call();
        advance(t, 10); /* in one millisecond what is known would not be known for longer */
        count_from_now(t);
        CHECK_STATUS(FX_CALL(t, mark, &req, &res), EMQ_OK);
        note(t, &y, i ? " for a claim, " : "");
    }
    say(&y, " for the record");
    check_header(RD_LUA_mark, &y);
}

REDIS_TEST(an_effect_makes_as_many_calls_as_its_script_says)
{
    static const char *const texts[] = {"INCR a", NULL,     "INCR b", "INCR c", NULL,
                                        "INCR d", "INCR e", "INCR f", "INCR g", NULL};
    const char *const *text = texts;
    struct tally y;

    begin(t, &y);
    for (int i = 1; i <= 4; i *= 2) {
        struct emq__job *j = take(t, 1).jobs[0];
        struct commands *c = commands(t, text);
        text += i + 1;
        advance(t, 10); /* as above */
        count_from_now(t);
        (void)effect_of(t, j, next_call(), c, EMQ_OK);
        note(t, &y, i > 1 ? ", " : "");
    }
    say(&y, " for 1, 2, 4 commands");
    check_header(RD_LUA_effect, &y);
}

REDIS_TEST(a_history_makes_as_many_calls_as_its_script_says)
{
    const struct emq__history_req req = {FX_PREFIX, S("q"), S("1")};
    struct emq__history_res res;
    struct tally y;

    begin(t, &y);
    count_from_now(t);
    CHECK_STATUS(FX_CALL(t, history, &req, &res), EMQ_OK);
    note(t, &y, "");
    check_header(RD_LUA_history, &y);
}
