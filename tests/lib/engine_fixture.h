/* SPDX-License-Identifier: MIT
 *
 * Conformance tests over the seam: ENGINE_TEST(sentence) { … } with `t` runs once on every engine,
 * under the check decorator. Helpers named must_* and the CHECK macros end the test when they fail.
 *
 * EMQ_TEST_ENGINE=naive|sqlite|sqlite-file|sqlite-memory|redis|valkey runs only on those. A program
 * starts at most one server of each kind; every test finds it empty.
 */
#ifndef EMQ_TESTS_ENGINE_FIXTURE_H
#define EMQ_TESTS_ENGINE_FIXTURE_H

#include "base/str.h"
#include "engine/engine.h"
#include "lib/test.h"

enum fx_kind { FX_NAIVE, FX_SQLITE_FILE, FX_SQLITE_MEMORY, FX_REDIS, FX_VALKEY };

struct fx {
    struct emq__engine *e;
    enum fx_kind kind;
    struct emq__arena mem; /* results of the helpers live here until the test ends */
    emq_error err;
    int64_t now_ms;        /* of the last act that a helper made */
    char file[600];        /* of sqlite-file */
    atomic_int broken;     /* violations that the check decorator has found */
    char broken_line[700]; /* the first of them */
};

typedef void (*fx_fn)(struct fx *t);

#define FX_ENTRY(test_name, suffix, kind, engine) \
    static void test_name##suffix(void)           \
    {                                             \
        fx_run(test_name, kind);                  \
    }                                             \
    EMQ_TEST_ENTRY(test_name##suffix, test_name##suffix, engine)
#define FX_ON_NAIVE(test_name) FX_ENTRY(test_name, __naive, FX_NAIVE, "naive")
#define FX_ON_SQLITE_FILE(test_name) \
    FX_ENTRY(test_name, __sqlite_file, FX_SQLITE_FILE, "sqlite-file")
#define FX_ON_SQLITE_MEMORY(test_name) \
    FX_ENTRY(test_name, __sqlite_memory, FX_SQLITE_MEMORY, "sqlite-memory")
#ifdef EMQ_HAVE_REDIS
#define FX_ON_SERVERS(test_name)                    \
    FX_ENTRY(test_name, __redis, FX_REDIS, "redis") \
    FX_ENTRY(test_name, __valkey, FX_VALKEY, "valkey")
#else
#define FX_ON_SERVERS(test_name)
#endif
#define ENGINE_TEST(test_name)           \
    static void test_name(struct fx *t); \
    FX_ON_NAIVE(test_name)               \
    FX_ON_SQLITE_FILE(test_name)         \
    FX_ON_SQLITE_MEMORY(test_name)       \
    FX_ON_SERVERS(test_name)             \
    static void test_name(struct fx *t)

void fx_run(fx_fn fn, enum fx_kind kind);
/* Without the check decorator, for sizes at which a dump after each act would take too long. */
void fx_unchecked(struct fx *t);
/* Opens an engine of this kind over an empty store, undecorated. `file`: of sqlite-file; one that is
 * there is opened as it is. */
emq_status fx_open(enum fx_kind kind, const char *file, struct emq__engine **out,
                   struct emq__arena *mem, emq_error *err);
/* Closes the engine and opens the same store again (nothing for engines in memory). */
void fx_reopen(struct fx *t);

#define FX_PREFIX  EMQ_STR_LIT("emq")
#define FX_LOCK_MS 30000
#define S(text)    emq_cstr(text)

/* ---- calling: acts with prefix "emq"; a negative status ends the test, *_status give it back */

#define FX_CALL(t, act, req, res)                                                                \
    fx_called(t, (t)->e->ops->act((t)->e, req, res, &(t)->mem, &(t)->err), &(res)->now_ms, #act, \
              __FILE__, __LINE__)
emq_status fx_called(struct fx *t, emq_status s, const int64_t *now_ms, const char *act,
                     const char *file, int line);

struct emq__add_entry fx_entry(const char *queue, const char *data); /* name "job", opts "{}" */
struct emq__added add_entry(struct fx *t, struct emq__add_entry en);
emq_str must_add_entry(struct fx *t, struct emq__add_entry en);         /* outcome OK */
emq_str must_add_long(struct fx *t, const char *queue, size_t n_bytes); /* of data */
emq_str must_add(struct fx *t, const char *queue, const char *data);
emq_str must_add_id(struct fx *t, const char *queue, const char *id);
emq_str must_add_delayed(struct fx *t, const char *queue, int64_t delay_ms);
emq_str must_add_priority(struct fx *t, const char *queue, int32_t priority);
struct emq__added add_dedup(struct fx *t, const char *queue, struct emq__dedup d);
/* All or none; results in t->mem. */
struct emq__added *must_add_many(struct fx *t, const struct emq__add_entry *en, size_t n);

struct emq__take fx_take(int32_t count); /* worker "w", lock FX_LOCK_MS, at-least-once */
struct emq__taken take_with(struct fx *t, const char *queue, struct emq__take take);
struct emq__taken take_n(struct fx *t, const char *queue, int32_t count);
struct emq__job *take_one(struct fx *t, const char *queue);  /* NULL: none */
struct emq__job *must_take(struct fx *t, const char *queue); /* ends the test when none */

/* Entries by the owner of `j`; keep all. */
struct emq__settle_entry fx_settle(const struct emq__job *j, enum emq__settle_kind kind);
struct emq__settled settle(struct fx *t, const struct emq__job *j, struct emq__settle_entry en);
void settle_ok(struct fx *t, const struct emq__job *j); /* completed */
void fail_ok(struct fx *t, const struct emq__job *j, const char *reason);
void retry_ok(struct fx *t, const struct emq__job *j, int64_t delay_ms);
void release_ok(struct fx *t, const struct emq__job *j, int64_t delay_ms);

struct emq__extended extend(struct fx *t, const struct emq__job *j, int64_t lock_ms);
struct emq__sweep_res sweep(struct fx *t, const char *queue, int64_t max_stalled);
void advance(struct fx *t, int64_t ms);

emq_status change(struct fx *t, const char *queue, emq_str id, struct emq__change c);
#define CHANGE(t, queue, id, ...) change(t, queue, id, (struct emq__change){__VA_ARGS__})
struct emq__bulk_res bulk(struct fx *t, struct emq__bulk_req req); /* prefix is filled in */
void must_meta(struct fx *t, const char *queue, const char *field, const char *value);
emq_status write_job(struct fx *t, const char *queue, emq_str id, struct emq__auth auth,
                     enum emq__write_kind kind, const char *text, int64_t keep);
emq_status dedup(struct fx *t, const char *queue, const char *id, const char *owner, bool release,
                 struct emq__dedup_res *res);

struct emq__job *get_job(struct fx *t, const char *queue, emq_str id); /* NULL: none */
struct emq__job *must_get(struct fx *t, const char *queue, emq_str id);
int state_of(struct fx *t, const char *queue, emq_str id); /* 0: none */
struct emq__stats_res stats(struct fx *t, const char *queue);
struct emq__dump_res dump(struct fx *t, const char *queue);
/* Ids of a state in order, joined by spaces. */
const char *ids_in(struct fx *t, const char *queue, int state);
/* "added 1, waiting 1, active 1": events after a cursor ("" = all), oldest first. */
const char *events_after(struct fx *t, const char *queue, const char *cursor);
emq_str event_cursor(struct fx *t, const char *queue); /* of the newest event */
/* The JSON of the last event of this name; empty if none. */
emq_str last_event(struct fx *t, const char *queue, const char *name);

#define CHECK_HAS(str, text) check_has(str, text, __FILE__, __LINE__)
void check_has(emq_str s, const char *text, const char *file, int line);
#define CHECK_STATE(t, queue, id, state) CHECK_INT(state_of(t, queue, id), state)
#define CHECK_IDS(t, queue, state, text) assert_string_equal(ids_in(t, queue, state), text)
#define CHECK_EVENTS(t, queue, cursor, text) \
    assert_string_equal(events_after(t, queue, cursor), text)

#endif
