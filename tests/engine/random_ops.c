/* SPDX-License-Identifier: MIT
 *
 * The random operations of a job's path: add, publish, take, settle, extend, sweep, promote, time.
 */
#include "random.h"

#include "base/error.h"
#include "model/state.h"

#define MOVE(m) (1u << EMQ__MOVE_##m)

/* Calls both engines and compares the statuses; both results' now_ms go into the clockwork. */
#define DEFINE_CALL2(act, mutating)                                                               \
    emq_status call2_##act(struct lockstep *l, const struct emq__##act##_req *req,                \
                           struct emq__##act##_res *res)                                          \
    {                                                                                             \
        emq_status s[2];                                                                          \
        emq_error err = {0};                                                                      \
        for (int side = 0; side < 2; side++) {                                                    \
            s[side] =                                                                             \
                l->e[side]->ops->act(l->e[side], &req[side], &res[side], &l->mem[l->turn], &err); \
            if (s[side] >= 0)                                                                     \
                l->now[side] = res[side].now_ms;                                                  \
        }                                                                                         \
        if (s[0] != s[1])                                                                         \
            differ(l, "%s: %s in the model, %s %s", #act, emq_status_name(s[0]),                  \
                   emq_status_name(s[1]), err.text);                                              \
        return s[0];                                                                              \
    }
EMQ__ACTS(DEFINE_CALL2)
#undef DEFINE_CALL2

const struct emq__job *any_job(struct lockstep *l, int queue, int state)
{
    const struct emq__dump_res *d = &l->before[queue];
    size_t n = 0;

    for (size_t i = 0; i < d->n; i++)
        n += !state || d->jobs[i]->state == state;
    if (!n)
        return NULL;
    size_t at = pick(l, n);
    for (size_t i = 0; i < d->n; i++)
        if ((!state || d->jobs[i]->state == state) && at-- == 0)
            return d->jobs[i];
    return NULL;
}

static int64_t steps(struct lockstep *l, uint64_t most)
{
    return (int64_t)(1 + pick(l, most)) * RANDOM_STEP_MS;
}

/* Sometimes the call carries a receipt. */
static bool receipt(struct lockstep *l, struct emq__call *a, struct emq__call *b)
{
    if (!chance(l, 20))
        return false;
    a->session = b->session = EMQ_STR_LIT("lockstep");
    a->seq = b->seq = ++l->seq;
    return true;
}

/* ---- add */

static struct emq__dedup random_dedup(struct lockstep *l)
{
    static const char *const keys[] = {"k1", "k2", "k3"};
    struct emq__dedup d = {.id = emq_cstr(keys[pick(l, 3)])};

    if (chance(l, 50))
        d.ttl_ms = steps(l, 4);
    switch (pick(l, 4)) {
    case 0: break;
    case 1: d.extend = d.ttl_ms > 0; break;
    case 2: d.replace = true; break;
    default:
        d.keep_last = true;
        d.ttl_ms = 0;
        break;
    }
    return d;
}

static struct emq__add_entry random_entry(struct lockstep *l, int queue, char id[16])
{
    static const char *const opts[] = {"{}", "{\"attempts\":3}", "{\"removeOnFail\":true}",
                                       "{\"removeOnFail\":{\"age\":120,\"count\":5}}", "broken{"};
    static const char *const data[] = {"null", "{\"a\":[1,2]}", "plain text", "\xff\xfe",
                                       "",     "\"s\""};
    struct emq__add_entry en = {
        .prefix = FX_PREFIX, .queue = random_queue(queue), .name = EMQ_STR_LIT("job")};

    en.opts = emq_cstr(opts[pick(l, EMQ_ARRAY_LEN(opts))]);
    en.data.bytes = emq_cstr(data[pick(l, EMQ_ARRAY_LEN(data))]);
    en.data.kind = emq__kind_of(en.data.bytes);
    if (chance(l, 30)) {
        (void)snprintf(id, 16, "c%d", (int)pick(l, 12));
        en.id = emq_cstr(id);
    }
    if (chance(l, 30))
        en.priority = (int32_t)(1 + pick(l, 4));
    if (chance(l, 25))
        en.delay_ms = steps(l, 6);
    en.lifo = chance(l, 15);
    if (chance(l, 25))
        en.dedup = random_dedup(l);
    if (chance(l, 5))
        en.scheduler = EMQ_STR_LIT("nightly");
    if (chance(l, 5)) {
        en.parent_key = EMQ_STR_LIT("emq:p:1");
        en.parent = EMQ_STR_LIT("{\"id\":\"1\",\"queueKey\":\"emq:p\"}");
    }
    return en;
}

static void compare_added(struct lockstep *l, const struct emq__add_res *res)
{
    same_i64(l, "added", (int64_t)res[0].n, (int64_t)res[1].n);
    for (size_t i = 0; i < res[0].n; i++) {
        const struct emq__added *a = &res[0].added[i], *b = &res[1].added[i];
        same_str(l, "added id", a->id, b->id);
        same_i64(l, "add outcome", a->outcome, b->outcome);
        same_i64(l, "state of the added", a->state, b->state);
    }
}

static void op_add(struct lockstep *l)
{
    static const char *const stages[] = {"", "", "", "", "", "s1", "s2"};
    int queue = (int)pick(l, RANDOM_QUEUES);
    struct emq__add_entry en[2][5];
    const struct emq__add_entry *list[2][5];
    char ids[5][16];
    size_t n = 1 + pick(l, 5);
    struct emq__add_req req[2] = {{.entries = list[0], .n = n}, {.entries = list[1], .n = n}};
    struct emq__add_res res[2];

    req[0].stage = req[1].stage = emq_cstr(stages[pick(l, EMQ_ARRAY_LEN(stages))]);
    note(l, "add %zu to %s stage \"%s\"", n, random_queue(queue).ptr, req[0].stage.ptr);
    for (size_t i = 0; i < n; i++) {
        en[0][i] = random_entry(l, queue, ids[i]);
        int64_t back = chance(l, 5) ? steps(l, 3) : 0;
        /* Instants that do not count from this act's get seconds of their own: in the model they
         * could tie with others, and the real clock would decide. */
        if (en[0][i].delay_ms > 0)
            en[0][i].delay_ms -=
                (back ? 10000 : 0) + 20000 * (req[0].stage.len ? req[0].stage.ptr[1] - '0' : 0);
        note(l, " [%s%s p%d d%d %s%s]", en[0][i].id.len ? ids[i] : "-",
             en[0][i].lifo ? " lifo" : "", (int)en[0][i].priority, (int)(en[0][i].delay_ms / 1000),
             en[0][i].dedup.id.len ? en[0][i].dedup.id.ptr : "",
             en[0][i].dedup.replace     ? "r"
             : en[0][i].dedup.keep_last ? "k"
                                        : "");
        en[1][i] = en[0][i];
        for (int side = 0; side < 2 && back; side++)
            en[side][i].timestamp_at_ms = l->now[side] - back;
        list[0][i] = &en[0][i];
        list[1][i] = &en[1][i];
    }
    bool again = receipt(l, &req[0].call, &req[1].call);
    l->moves = MOVE(ADD) | MOVE(REMOVE);
    for (int times = 0; times < (again ? 2 : 1); times++) {
        if (call2_add(l, req, res) == EMQ_OK)
            compare_added(l, res);
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct emq__missed *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void compare_published(struct lockstep *l, struct emq__publish_res res[2])
{
    same_i64(l, "published", res[0].count, res[1].count);
    same_i64(l, "not published", (int64_t)res[0].n_missed, (int64_t)res[1].n_missed);
    for (int side = 0; side < 2; side++)
        if (res[side].n_missed > 1)
            qsort(res[side].missed, res[side].n_missed, sizeof *res[side].missed, by_rank);
    for (size_t i = 0; i < res[0].n_missed; i++) {
        const struct emq__missed *a = &res[0].missed[i], *b = &res[1].missed[i];
        same_i64(l, "its rank in the stage", a->rank, b->rank);
        same_i64(l, "why it was not published", a->why.outcome, b->why.outcome);
        same_i64(l, "the state of what was in its way", a->why.state, b->why.state);
        same_str(l, "what was in its way", a->why.id, b->why.id);
    }
}

static void op_publish(struct lockstep *l)
{
    struct emq__publish_req req[2];
    struct emq__publish_res res[2];
    emq_str stage = emq_cstr(chance(l, 50) ? "s1" : "s2");

    req[0] = req[1] =
        (struct emq__publish_req){.prefix = FX_PREFIX, .stage = stage, .drop = chance(l, 20)};
    note(l, "%s %s", req[0].drop ? "drop" : "publish", stage.ptr);
    bool again = receipt(l, &req[0].call, &req[1].call);
    l->moves = MOVE(ADD) | MOVE(REMOVE);
    for (int times = 0; times < (again ? 2 : 1); times++) {
        if (call2_publish(l, req, res) == EMQ_OK)
            compare_published(l, res);
    }
}

/* ---- take, settle */

static struct emq__take random_take(struct lockstep *l)
{
    static const char *const workers[] = {"w1", "w2", "host:9:1"};
    struct emq__take t = {.worker = emq_cstr(workers[pick(l, 3)]),
                          .lock_ms = steps(l, 5),
                          .count = (int32_t)(1 + pick(l, 4))};

    if (chance(l, 20))
        t.mode = chance(l, 50) ? EMQ_AT_MOST_ONCE : EMQ_FIRE_AND_FORGET;
    if (chance(l, 15)) {
        t.limit_max = (int64_t)(1 + pick(l, 3));
        t.limit_duration_ms = steps(l, 3);
    }
    note(l, " take %d %s mode %d lock %d limit %d/%d", (int)t.count, t.worker.ptr, (int)t.mode,
         (int)(t.lock_ms / 1000), (int)t.limit_max, (int)(t.limit_duration_ms / 1000));
    return t;
}

static void compare_taken(struct lockstep *l, int queue, const struct emq__taken *a,
                          const struct emq__taken *b, bool first)
{
    same_i64(l, "taken", (int64_t)a->n, (int64_t)b->n);
    same_i64(l, "deferred", a->deferred, b->deferred);
    same_i64(l, "taken: limited", a->limited_ms > 0, b->limited_ms > 0);
    same_i64(l, "taken: paused", a->paused, b->paused);
    same_i64(l, "taken: maxed", a->maxed, b->maxed);
    same_instant(l, "taken: next due", a->next_due_at_ms, b->next_due_at_ms);
    for (size_t i = 0; i < a->n; i++) {
        note(l, "%s%.*s", i ? " " : " -> ", EMQ_STR_ARG(a->jobs[i]->id));
        if (first)
            note_handout(l, queue, a->jobs[i], b->jobs[i]);
        if (a->jobs[i]->mode == EMQ_FIRE_AND_FORGET) {
            same_str(l, "popped", a->jobs[i]->id, b->jobs[i]->id);
            same_str(l, "popped data", a->jobs[i]->data.bytes, b->jobs[i]->data.bytes);
        } else {
            same_job(l, a->jobs[i], b->jobs[i]);
        }
    }
}

#define TAKE_MOVES (MOVE(TAKE) | MOVE(PROMOTE) | MOVE(FAIL) | MOVE(REMOVE) | MOVE(ADD))

static void op_take(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);
    struct emq__take_req req[2];
    struct emq__take_res res[2];

    note(l, "%s", random_queue(queue).ptr);
    req[0] = (struct emq__take_req){
        .prefix = FX_PREFIX, .queue = random_queue(queue), .take = random_take(l)};
    req[1] = req[0];
    bool again = receipt(l, &req[0].call, &req[1].call);
    l->moves = TAKE_MOVES;
    for (int times = 0; times < (again ? 2 : 1); times++) {
        call2_take(l, req, res);
        compare_taken(l, queue, &res[0].taken, &res[1].taken, times == 0);
        if (res[0].taken.n == 0)
            break; /* an answer of nothing need not be remembered */
    }
}

static const struct handout *any_handout(struct lockstep *l, int queue)
{
    const struct emq__job *j = chance(l, 85) ? any_job(l, queue, EMQ_ACTIVE) : NULL;
    size_t have = l->n_handouts < RANDOM_HANDOUTS ? l->n_handouts : RANDOM_HANDOUTS;

    for (size_t i = l->n_handouts; j && i-- > 0 && l->n_handouts - i <= have;) {
        const struct handout *h = &l->handouts[i % RANDOM_HANDOUTS];
        if (h->queue == queue && emq__str_is(j->token, h->token[0]) && emq__str_is(j->id, h->id))
            return h;
    }
    for (int tries = 0; tries < 8 && have; tries++) {
        const struct handout *h =
            &l->handouts[(l->n_handouts - 1 - pick(l, have)) % RANDOM_HANDOUTS];
        if (h->queue == queue)
            return h;
    }
    return NULL;
}

static struct emq__keep random_keep(struct lockstep *l)
{
    static const struct emq__keep keeps[] = {
        {-1, 0}, {0, 0}, {3, 0}, {-1, 2 * RANDOM_STEP_MS}, {5, 3 * RANDOM_STEP_MS}};
    return keeps[pick(l, EMQ_ARRAY_LEN(keeps))];
}

static struct emq__settle_entry random_settle(struct lockstep *l)
{
    static const char *const results[] = {"null", "{\"ok\":true}", "text", "\x80"};
    struct emq__settle_entry en = {
        .kind = (enum emq__settle_kind)(1 + pick(l, 5)),
        .keep = random_keep(l),
        .stack_limit = (int64_t)pick(l, 4) - 1,
        .max_stalled = (int64_t)pick(l, 3),
        .lifo = chance(l, 20),
    };
    if (chance(l, 40))
        en.kind = EMQ__SETTLE_COMPLETED;
    en.value.bytes = emq_cstr(results[pick(l, EMQ_ARRAY_LEN(results))]);
    en.value.kind = emq__kind_of(en.value.bytes);
    en.reason = emq_cstr(chance(l, 70) ? "reason" : "");
    en.stack = emq_cstr(chance(l, 50) ? "at line 7" : "");
    if (chance(l, 40))
        en.delay_ms = steps(l, 4);
    return en;
}

static void op_settle(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);
    struct emq__settle_entry en[2][4];
    const struct emq__settle_entry *list[2][4];
    size_t n = 0, want = 1 + pick(l, 4);
    struct emq__settle_req req[2];
    struct emq__settle_res res[2];
    struct emq__take next;

    note(l, "%s settle", random_queue(queue).ptr);
    while (n < want) {
        const struct handout *h = any_handout(l, queue);
        if (!h)
            break;
        en[0][n] = random_settle(l);
        en[0][n].id = emq_cstr(h->id);
        en[1][n] = en[0][n];
        bool admin = chance(l, 8);
        for (int side = 0; side < 2; side++) {
            if (admin)
                en[side][n].auth.admin = EMQ_STR_LIT("root");
            else
                en[side][n].auth.token = emq_cstr(h->token[side]);
            list[side][n] = &en[side][n];
        }
        note(l, " [%s k%d d%d%s]", h->id, (int)en[0][n].kind, (int)(en[0][n].delay_ms / 1000),
             admin ? " admin" : "");
        n++;
    }
    req[0] = (struct emq__settle_req){
        .prefix = FX_PREFIX, .queue = random_queue(queue), .entries = list[0], .n = n};
    if (chance(l, 30)) {
        next = random_take(l);
        req[0].next = &next;
    }
    req[1] = req[0];
    req[1].entries = list[1];
    bool again = receipt(l, &req[0].call, &req[1].call) && n > 0;
    l->moves = TAKE_MOVES | MOVE(COMPLETE) | MOVE(RETRY) | MOVE(RELEASE) | MOVE(RECOVER);
    for (int times = 0; times < (again ? 2 : 1); times++) {
        call2_settle(l, req, res);
        same_i64(l, "settled", (int64_t)res[0].n, (int64_t)res[1].n);
        for (size_t i = 0; i < n; i++) {
            same_i64(l, "settle outcome", res[0].settled[i].outcome, res[1].settled[i].outcome);
            same_i64(l, "state of the settled", res[0].settled[i].state, res[1].settled[i].state);
        }
        if (req[0].next)
            compare_taken(l, queue, &res[0].taken, &res[1].taken, times == 0);
    }
}

static void op_extend(struct lockstep *l)
{
    struct emq__extend_entry en[2][4];
    const struct emq__extend_entry *list[2][4];
    struct emq__extend_req req[2] = {{list[0], 0, steps(l, 5)}, {list[1], 0, 0}};
    struct emq__extend_res res[2];
    size_t n = 0;

    note(l, "extend");
    for (size_t i = 1 + pick(l, 4); i > 0; i--) {
        int queue = (int)pick(l, RANDOM_QUEUES);
        const struct handout *h = any_handout(l, queue);
        if (!h)
            continue;
        for (int side = 0; side < 2; side++) {
            en[side][n] = (struct emq__extend_entry){FX_PREFIX, random_queue(queue),
                                                     emq_cstr(h->id), emq_cstr(h->token[side])};
            list[side][n] = &en[side][n];
        }
        note(l, " %s", h->id);
        n++;
    }
    req[0].n = req[1].n = n;
    req[1].lock_ms = req[0].lock_ms;
    l->moves = 0;
    call2_extend(l, req, res);
    for (size_t i = 0; i < n; i++) {
        same_i64(l, "extended", res[0].extended[i].outcome, res[1].extended[i].outcome);
        same_i64(l, "cancel", res[0].extended[i].cancel, res[1].extended[i].cancel);
    }
}

/* ---- duties */

static void op_sweep(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);
    struct emq__sweep_req req[2];
    struct emq__sweep_res res[2];

    req[0] = req[1] = (struct emq__sweep_req){.prefix = FX_PREFIX,
                                              .queue = random_queue(queue),
                                              .max_stalled = (int64_t)pick(l, 3),
                                              .limit = EMQ__BATCH_MAX};
    note(l, "%s sweep max %d", random_queue(queue).ptr, (int)req[0].max_stalled);
    l->moves = MOVE(RECOVER) | MOVE(FAIL) | MOVE(REMOVE) | MOVE(ADD);
    call2_sweep(l, req, res);
    same_i64(l, "recovered", (int64_t)res[0].n_recovered, (int64_t)res[1].n_recovered);
    same_i64(l, "failed", (int64_t)res[0].n_failed, (int64_t)res[1].n_failed);
    same_i64(l, "more", res[0].more, res[1].more);
    for (size_t i = 0; i < res[0].n_recovered; i++)
        same_str(l, "recovered", res[0].recovered[i], res[1].recovered[i]);
    for (size_t i = 0; i < res[0].n_failed; i++)
        same_str(l, "failed by sweep", res[0].failed[i], res[1].failed[i]);
}

static void op_promote(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);
    struct emq__promote_req req[2];
    struct emq__promote_res res[2];

    req[0] = req[1] =
        (struct emq__promote_req){FX_PREFIX, random_queue(queue), (int32_t)(1 + pick(l, 4))};
    note(l, "%s promote %d", random_queue(queue).ptr, (int)req[0].limit);
    l->moves = MOVE(PROMOTE);
    call2_promote(l, req, res);
    same_i64(l, "promoted", res[0].count, res[1].count);
    same_i64(l, "more", res[0].more, res[1].more);
    same_instant(l, "next due", res[0].next_due_at_ms, res[1].next_due_at_ms);
}

static void op_advance(struct lockstep *l)
{
    int64_t ms = chance(l, 2) ? 2 * 3600 * 1000 : steps(l, 3);

    note(l, "advance %lld s", (long long)ms / 1000);
    l->moves = 0;
    for (int side = 0; side < 2; side++)
        if (l->e[side]->ops->advance(l->e[side], ms, NULL) != EMQ_OK)
            differ(l, "advance failed");
}

void random_operation(struct lockstep *l)
{
    static const struct {
        unsigned weight;
        void (*run)(struct lockstep *);
    } ops[] = {
        {20, op_add},  {3, op_publish}, {16, op_take},   {22, op_settle},    {5, op_extend},
        {6, op_sweep}, {3, op_promote}, {8, op_advance}, {25, random_admin}, {30, random_effect},
    };
    unsigned sum = 0, at;

    l->log[l->op % RANDOM_LOG][0] = '\0';
    for (size_t i = 0; i < EMQ_ARRAY_LEN(ops); i++)
        sum += ops[i].weight;
    at = (unsigned)pick(l, sum);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(ops); i++) {
        if (at < ops[i].weight) {
            ops[i].run(l);
            return;
        }
        at -= ops[i].weight;
    }
}
