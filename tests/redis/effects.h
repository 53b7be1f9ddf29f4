/* SPDX-License-Identifier: MIT
 *
 * Commands as effects: how the tests write them and what they expect.
 */
#ifndef EMQ_TESTS_REDIS_EFFECTS_H
#define EMQ_TESTS_REDIS_EFFECTS_H

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

static inline struct commands *commands(struct fx *t, const char *const *text)
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

static inline struct emq__effect_res effect_of(struct fx *t, const struct emq__job *j,
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

static inline struct emq__job *start(struct fx *t)
{
    fx_unchecked(t);
    return add_and_take(t);
}

static inline int step_state(struct fx *t, const struct emq__job *j)
{
    struct emq__markers_req req = {.prefix = FX_PREFIX, .queue = S("q"), .id = j->id, .limit = 10};
    struct emq__markers_res res;

    CHECK_STATUS(FX_CALL(t, markers, &req, &res), EMQ_OK);
    return res.n ? res.markers[0].state : 0;
}

/* Nothing of an effect has happened, and the owner can go on. */
static inline void check_untouched(struct fx *t, const struct emq__job *j)
{
    CHECK_STATE(t, "q", j->id, EMQ_ACTIVE);
    CHECK_NONE("good");
    CHECK_INT(step_state(t, j), 0);
    CHECK_INT(extend(t, j, FX_LOCK_MS).outcome, EMQ_OK);
    CHECK_STATUS(EFFECT(t, j, "SET good 1").outcome, EMQ_OK);
    CHECK_DO("1", "GET good");
}

#endif
