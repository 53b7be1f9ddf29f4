/* SPDX-License-Identifier: MIT
 *
 * The table of engines and the helpers behind engine_fixture.h. Each helper is one act.
 */
#include "lib/engine_fixture.h"

#include "base/json.h"
#include "lib/naive.h"
#ifdef EMQ_HAVE_REDIS
#include "lib/server.h"
#endif

/* ---- engines */

typedef emq_status (*open_fn)(struct emq__engine **, const struct emq__engine_config *,
                              struct emq__arena *, emq_error *);

static emq_status open_url(open_fn open, const char *text, struct emq__engine **out,
                           struct emq__arena *mem, emq_error *err)
{
    struct emq__engine_config cfg = {.io_timeout_ms = 10000, .stop_clock = true};
    emq_status s = emq__url_parse(emq_cstr(text), mem, &cfg.url, err);

    return s == EMQ_OK ? open(out, &cfg, mem, err) : s;
}

#ifdef EMQ_HAVE_REDIS
static struct server *server_of(enum fx_kind kind)
{
    return server_of_program(kind == FX_VALKEY ? SERVER_VALKEY : SERVER_REDIS);
}
#endif

static emq_status open_kind(enum fx_kind kind, const char *file, struct emq__engine **out,
                            struct emq__arena *mem, emq_error *err)
{
    char url[700];

    switch (kind) {
    case FX_NAIVE: return naive_open(out, err);
    case FX_SQLITE_FILE:
        (void)snprintf(url, sizeof url, "sqlite:%s?sync=off", file);
        return open_url(emq__sqlite_open, url, out, mem, err);
    case FX_SQLITE_MEMORY: return open_url(emq__sqlite_open, "sqlite::memory:", out, mem, err);
    case FX_REDIS:
    case FX_VALKEY:
#ifdef EMQ_HAVE_REDIS
        return open_url(emq__redis_open, server_of(kind)->url, out, mem, err);
#endif
        break;
    }
    return EMQ_E_INVALID;
}

emq_status fx_open(enum fx_kind kind, const char *file, struct emq__engine **out,
                   struct emq__arena *mem, emq_error *err)
{
#ifdef EMQ_HAVE_REDIS
    if (kind == FX_REDIS || kind == FX_VALKEY)
        assert_string_equal(server_command(server_of(kind), "FLUSHALL"), "OK");
#endif
    return open_kind(kind, file, out, mem, err);
}

static void on_broken(void *user, const char *line)
{
    struct fx *t = user;

    if (atomic_fetch_add(&t->broken, 1) == 0)
        (void)snprintf(t->broken_line, sizeof t->broken_line, "%s", line);
}

static void check_unbroken(struct fx *t)
{
    if (atomic_load(&t->broken))
        fail_msg("%d invariants broken; the first %s", (int)atomic_load(&t->broken),
                 t->broken_line);
}

static void open_it(struct fx *t, emq_status s, bool checked)
{
    CHECK_STATUS_ERR(s, EMQ_OK, &t->err);
    if (checked)
        CHECK_STATUS_ERR(emq__check_wrap(&t->e, on_broken, t, &t->err), EMQ_OK, &t->err);
}

static void open_fresh(struct fx *t, const char *name, bool checked)
{
    (void)snprintf(t->file, sizeof t->file, "%s/%s.db", test_temp_dir(), name);
    open_it(t, fx_open(t->kind, t->file, &t->e, &t->mem, &t->err), checked);
}

void fx_run(fx_fn fn, enum fx_kind kind)
{
    /* On the heap: a failing test jumps out, and threads of the engine may still report. */
    struct fx *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->kind = kind;
    open_fresh(t, "queue", true);
    fn(t);
    check_unbroken(t);
    t->e->ops->close(t->e);
    emq__arena_free(&t->mem);
    free(t);
}

void fx_unchecked(struct fx *t)
{
    t->e->ops->close(t->e);
    open_fresh(t, "unchecked", false);
}

void fx_reopen(struct fx *t)
{
    if (t->kind == FX_NAIVE || t->kind == FX_SQLITE_MEMORY)
        return;
    t->e->ops->close(t->e);
    open_it(t, open_kind(t->kind, t->file, &t->e, &t->mem, &t->err), true);
}

emq_status fx_called(struct fx *t, emq_status s, const int64_t *now_ms, const char *act,
                     const char *file, int line)
{
    if (s < 0)
        test_check_status(s, EMQ_OK, act, file, line, &t->err);
    check_unbroken(t);
    t->now_ms = *now_ms;
    return s;
}

/* ---- add */

struct emq__add_entry fx_entry(const char *queue, const char *data)
{
    struct emq__add_entry en = {
        .prefix = FX_PREFIX,
        .queue = emq_cstr(queue),
        .name = EMQ_STR_LIT("job"),
        .data = {EMQ__KIND_TEXT, emq_cstr(data)},
        .opts = EMQ_STR_LIT("{}"),
    };
    en.data.kind = emq__kind_of(en.data.bytes);
    return en;
}

struct emq__added *must_add_many(struct fx *t, const struct emq__add_entry *en, size_t n)
{
    const struct emq__add_entry **list =
        emq__arena_zalloc(&t->mem, n, sizeof(const struct emq__add_entry *));
    struct emq__add_req req = {.entries = list, .n = n};
    struct emq__add_res res;

    for (size_t i = 0; i < n; i++)
        list[i] = &en[i];
    CHECK_STATUS(FX_CALL(t, add, &req, &res), EMQ_OK);
    CHECK_INT(res.n, n);
    return res.added;
}

struct emq__added add_entry(struct fx *t, struct emq__add_entry en)
{
    return *must_add_many(t, &en, 1);
}

emq_str must_add_entry(struct fx *t, struct emq__add_entry en)
{
    struct emq__added a = add_entry(t, en);
    CHECK_STATUS(a.outcome, EMQ_OK);
    return a.id;
}

emq_str must_add_long(struct fx *t, const char *queue, size_t n_bytes)
{
    struct emq__add_entry en = fx_entry(queue, "");
    char *bytes = emq__arena_alloc(&t->mem, n_bytes);

    CHECK(bytes != NULL);
    memset(bytes, 'a', n_bytes);
    en.data.bytes = emq_strn(bytes, n_bytes);
    return must_add_entry(t, en);
}

emq_str must_add(struct fx *t, const char *queue, const char *data)
{
    return must_add_entry(t, fx_entry(queue, data));
}

emq_str must_add_id(struct fx *t, const char *queue, const char *id)
{
    struct emq__add_entry en = fx_entry(queue, "x");
    en.id = emq_cstr(id);
    return must_add_entry(t, en);
}

emq_str must_add_delayed(struct fx *t, const char *queue, int64_t delay_ms)
{
    struct emq__add_entry en = fx_entry(queue, "x");
    en.delay_ms = delay_ms;
    return must_add_entry(t, en);
}

emq_str must_add_priority(struct fx *t, const char *queue, int32_t priority)
{
    struct emq__add_entry en = fx_entry(queue, "x");
    en.priority = priority;
    return must_add_entry(t, en);
}

struct emq__added add_dedup(struct fx *t, const char *queue, struct emq__dedup d)
{
    struct emq__add_entry en = fx_entry(queue, "x");
    en.dedup = d;
    return add_entry(t, en);
}

/* ---- take, settle */

struct emq__take fx_take(int32_t count)
{
    return (struct emq__take){.worker = EMQ_STR_LIT("w"), .lock_ms = FX_LOCK_MS, .count = count};
}

struct emq__taken take_with(struct fx *t, const char *queue, struct emq__take take)
{
    struct emq__take_req req = {.prefix = FX_PREFIX, .queue = emq_cstr(queue), .take = take};
    struct emq__take_res res;

    CHECK_STATUS(FX_CALL(t, take, &req, &res), EMQ_OK);
    return res.taken;
}

struct emq__taken take_n(struct fx *t, const char *queue, int32_t count)
{
    return take_with(t, queue, fx_take(count));
}

struct emq__job *take_one(struct fx *t, const char *queue)
{
    struct emq__taken taken = take_n(t, queue, 1);
    return taken.n ? taken.jobs[0] : NULL;
}

struct emq__job *must_take(struct fx *t, const char *queue)
{
    struct emq__job *j = take_one(t, queue);
    if (!j)
        fail_msg("queue %s gave no job", queue);
    return j;
}

struct emq__settle_entry fx_settle(const struct emq__job *j, enum emq__settle_kind kind)
{
    return (struct emq__settle_entry){
        .id = j->id,
        .auth = {.token = j->token},
        .kind = kind,
        .value = {EMQ__KIND_JSON, EMQ_STR_LIT("null")},
        .reason = EMQ_STR_LIT(""),
        .keep = {.count = -1},
        .stack_limit = -1,
        .max_stalled = 1,
    };
}

struct emq__settled settle(struct fx *t, const struct emq__job *j, struct emq__settle_entry en)
{
    const struct emq__settle_entry *list[] = {&en};
    struct emq__settle_req req = {.prefix = j->prefix, .queue = j->queue, .entries = list, .n = 1};
    struct emq__settle_res res;

    CHECK_STATUS(FX_CALL(t, settle, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    return res.settled[0];
}

void settle_ok(struct fx *t, const struct emq__job *j)
{
    CHECK_STATUS(settle(t, j, fx_settle(j, EMQ__SETTLE_COMPLETED)).outcome, EMQ_OK);
}

void fail_ok(struct fx *t, const struct emq__job *j, const char *reason)
{
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_FAILED);
    en.reason = emq_cstr(reason);
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
}

void retry_ok(struct fx *t, const struct emq__job *j, int64_t delay_ms)
{
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RETRY);
    en.reason = EMQ_STR_LIT("again");
    en.delay_ms = delay_ms;
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
}

void release_ok(struct fx *t, const struct emq__job *j, int64_t delay_ms)
{
    struct emq__settle_entry en = fx_settle(j, EMQ__SETTLE_RELEASE);
    en.delay_ms = delay_ms;
    CHECK_STATUS(settle(t, j, en).outcome, EMQ_OK);
}

struct emq__extended extend(struct fx *t, const struct emq__job *j, int64_t lock_ms)
{
    struct emq__extend_entry en = {j->prefix, j->queue, j->id, j->token};
    const struct emq__extend_entry *list[] = {&en};
    struct emq__extend_req req = {list, 1, lock_ms};
    struct emq__extend_res res;

    CHECK_STATUS(FX_CALL(t, extend, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    return res.extended[0];
}

struct emq__sweep_res sweep(struct fx *t, const char *queue, int64_t max_stalled)
{
    struct emq__sweep_req req = {.prefix = FX_PREFIX,
                                 .queue = emq_cstr(queue),
                                 .max_stalled = max_stalled,
                                 .limit = EMQ__BATCH_MAX};
    struct emq__sweep_res res;

    CHECK_STATUS(FX_CALL(t, sweep, &req, &res), EMQ_OK);
    return res;
}

void advance(struct fx *t, int64_t ms)
{
    CHECK_STATUS_ERR(t->e->ops->advance(t->e, ms, &t->err), EMQ_OK, &t->err);
}

/* ---- administration */

emq_status change(struct fx *t, const char *queue, emq_str id, struct emq__change c)
{
    struct emq__change_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(queue), .ids = &id, .n = 1, .change = c};
    struct emq__change_res res;

    CHECK_STATUS(FX_CALL(t, change, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    return res.changed[0].outcome;
}

struct emq__bulk_res bulk(struct fx *t, struct emq__bulk_req req)
{
    struct emq__bulk_res res;

    req.prefix = FX_PREFIX;
    CHECK_STATUS(FX_CALL(t, bulk, &req, &res), EMQ_OK);
    return res;
}

void must_meta(struct fx *t, const char *queue, const char *field, const char *value)
{
    struct emq__meta_field set = {emq_cstr(field), emq_cstr(value)};
    struct emq__meta_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(queue), .admin = S("root"), .set = &set, .n_set = 1};
    struct emq__meta_res res;

    CHECK_STATUS(FX_CALL(t, meta, &req, &res), EMQ_OK);
}

emq_status write_job(struct fx *t, const char *queue, emq_str id, struct emq__auth auth,
                     enum emq__write_kind kind, const char *text, int64_t keep)
{
    struct emq__write_req req = {.prefix = FX_PREFIX,
                                 .queue = emq_cstr(queue),
                                 .id = id,
                                 .auth = auth,
                                 .kind = kind,
                                 .value = {EMQ__KIND_JSON, emq_cstr(text)},
                                 .keep = keep};
    struct emq__write_res res;

    req.value.kind = emq__kind_of(req.value.bytes);
    return FX_CALL(t, write, &req, &res);
}

emq_status dedup(struct fx *t, const char *queue, const char *id, const char *owner, bool release,
                 struct emq__dedup_res *res)
{
    struct emq__dedup_req req = {.prefix = FX_PREFIX,
                                 .queue = emq_cstr(queue),
                                 .dedup_id = emq_cstr(id),
                                 .owner = emq_cstr(owner),
                                 .release = release};
    return FX_CALL(t, dedup, &req, res);
}

/* ---- reading */

struct emq__job *get_job(struct fx *t, const char *queue, emq_str id)
{
    struct emq__jobs_req req = {FX_PREFIX, emq_cstr(queue), &id, 1};
    struct emq__jobs_res res;

    CHECK_STATUS(FX_CALL(t, jobs, &req, &res), EMQ_OK);
    CHECK_INT(res.n, 1);
    return res.jobs[0];
}

struct emq__job *must_get(struct fx *t, const char *queue, emq_str id)
{
    struct emq__job *j = get_job(t, queue, id);
    if (!j)
        fail_msg("queue %s has no job %.*s", queue, EMQ_STR_ARG(id));
    return j;
}

int state_of(struct fx *t, const char *queue, emq_str id)
{
    struct emq__job *j = get_job(t, queue, id);
    return j ? j->state : 0;
}

struct emq__stats_res stats(struct fx *t, const char *queue)
{
    struct emq__stats_req req = {.prefix = FX_PREFIX, .queue = emq_cstr(queue), .ending = true};
    struct emq__stats_res res;

    CHECK_STATUS(FX_CALL(t, stats, &req, &res), EMQ_OK);
    return res;
}

struct emq__dump_res dump(struct fx *t, const char *queue)
{
    struct emq__dump_req req = {FX_PREFIX, emq_cstr(queue)};
    struct emq__dump_res res;

    CHECK_STATUS(FX_CALL(t, dump, &req, &res), EMQ_OK);
    return res;
}

static const char *done(struct fx *t, struct emq__buf *b)
{
    emq_str s = emq__arena_str(&t->mem, emq__buf_view(b));
    emq__buf_free(b);
    return s.len ? s.ptr : "";
}

const char *ids_in(struct fx *t, const char *queue, int state)
{
    struct emq__find_req req = {
        .prefix = FX_PREFIX, .queue = emq_cstr(queue), .state = state, .limit = 1000};
    struct emq__find_res res;
    struct emq__buf b;

    CHECK_STATUS(FX_CALL(t, find, &req, &res), EMQ_OK);
    emq__buf_init(&b, 1 << 20);
    for (size_t i = 0; i < res.n; i++)
        emq__buf_printf(&b, "%s%.*s", i ? " " : "", EMQ_STR_ARG(res.jobs[i]->id));
    return done(t, &b);
}

static struct emq__events_res read_events(struct fx *t, const char *queue, const char *cursor)
{
    struct emq__events_req req = {FX_PREFIX, emq_cstr(queue), emq_cstr(cursor), 20000};
    struct emq__events_res res;

    CHECK_STATUS(FX_CALL(t, events, &req, &res), EMQ_OK);
    return res;
}

static emq_str member(struct fx *t, emq_str json, const char *name)
{
    struct emq__json v;
    emq_str out = {0};

    if (!emq__json_valid(json, NULL))
        fail_msg("an event is not JSON: %.*s", EMQ_STR_ARG(json));
    if (emq__json_get(emq__json_root(json), name, &v))
        (void)emq__json_str(v, &t->mem, &out);
    return out;
}

const char *events_after(struct fx *t, const char *queue, const char *cursor)
{
    struct emq__events_res res = read_events(t, queue, cursor);
    struct emq__buf b;

    emq__buf_init(&b, 1 << 20);
    for (size_t i = 0; i < res.n; i++) {
        emq_str id = member(t, res.events[i].json, "jobId");
        emq__buf_text(&b, i ? ", " : "");
        emq__buf_str(&b, member(t, res.events[i].json, "event"));
        emq__buf_text(&b, id.len ? " " : "");
        emq__buf_str(&b, id);
    }
    return done(t, &b);
}

emq_str event_cursor(struct fx *t, const char *queue)
{
    return read_events(t, queue, "$").last_id;
}

emq_str last_event(struct fx *t, const char *queue, const char *name)
{
    struct emq__events_res res = read_events(t, queue, "");

    for (size_t i = res.n; i-- > 0;)
        if (emq__str_is(member(t, res.events[i].json, "event"), name))
            return res.events[i].json;
    return emq_cstr("");
}

void check_has(emq_str s, const char *text, const char *file, int line)
{
    if (!memmem(s.ptr ? s.ptr : "", s.len, text, strlen(text)))
        fail_msg("%s:%d: no %s in %.*s", file, line, text, EMQ_STR_ARG(s));
}
