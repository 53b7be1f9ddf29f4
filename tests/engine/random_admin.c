/* SPDX-License-Identifier: MIT
 *
 * The random operations of an administrator and of readers.
 */
#include "random.h"

#include "model/state.h"

#define MOVE(m) (1u << EMQ__MOVE_##m)

static int any_state(struct lockstep *l)
{
    static const int states[] = {EMQ_WAITING,     EMQ_ACTIVE,          EMQ_DELAYED,
                                 EMQ_PRIORITIZED, EMQ_COMPLETED_STATE, EMQ_FAILED_STATE};
    return states[pick(l, EMQ_ARRAY_LEN(states))];
}

/* An id of the picture, or now and then one that is not there. */
static emq_str any_id(struct lockstep *l, int queue, int state)
{
    const struct emq__job *j = chance(l, 95) ? any_job(l, queue, state) : NULL;
    return j ? j->id : EMQ_STR_LIT("nobody");
}

static void op_write(struct lockstep *l, int queue)
{
    static const char *const values[] = {"1", "{\"at\":40}", "a line", "\xf0\x9f\x98\x80"};
    struct emq__write_req req[2];
    struct emq__write_res res[2];
    const struct emq__job *j = any_job(l, queue, chance(l, 60) ? EMQ_ACTIVE : 0);

    req[0] = (struct emq__write_req){.prefix = FX_PREFIX,
                                     .queue = random_queue(queue),
                                     .id = j ? j->id : EMQ_STR_LIT("nobody"),
                                     .kind = (enum emq__write_kind)(1 + pick(l, 5)),
                                     .keep = (int64_t)pick(l, 4) - 1};
    req[0].value.bytes = emq_cstr(values[pick(l, req[0].kind == EMQ__WRITE_PROGRESS ? 2 : 4)]);
    req[0].value.kind = emq__kind_of(req[0].value.bytes);
    req[1] = req[0];
    req[0].auth.admin = req[1].auth.admin = EMQ_STR_LIT("root");
    for (size_t i = l->n_handouts; j && i-- > 0 && l->n_handouts - i <= RANDOM_HANDOUTS;) {
        const struct handout *h = &l->handouts[i % RANDOM_HANDOUTS];
        if (h->queue != queue || !emq__str_is(j->id, h->id) || !chance(l, 80) ||
            req[0].kind == EMQ__WRITE_NOTE)
            continue;
        for (int side = 0; side < 2; side++)
            req[side].auth = (struct emq__auth){.token = emq_cstr(h->token[side])};
        break;
    }
    note(l, "write %d to %.*s by %s", (int)req[0].kind, EMQ_STR_ARG(req[0].id),
         req[0].auth.token.len ? req[0].auth.token.ptr : "root");
    if (call2_write(l, req, res) == EMQ_OK)
        same_i64(l, "log lines", res[0].logs, res[1].logs);
}

static struct emq__change random_change(struct lockstep *l)
{
    struct emq__change c = {.kind = (enum emq__change_kind)(1 + pick(l, 6)),
                            .admin = EMQ_STR_LIT("root"),
                            .delay_ms = (int64_t)pick(l, 5) * RANDOM_STEP_MS,
                            .priority = (int32_t)pick(l, 4),
                            .lifo = chance(l, 20),
                            .reset_attempts = chance(l, 30),
                            .effects = (enum emq__effects)pick(l, 3)};
    note(l, " kind %d p%d d%d%s%s e%d", (int)c.kind, (int)c.priority, (int)(c.delay_ms / 1000),
         c.lifo ? " lifo" : "", c.reset_attempts ? " reset" : "", (int)c.effects);
    return c;
}

#define CHANGE_MOVES \
    (MOVE(PROMOTE) | MOVE(REPROCESS) | MOVE(CANCEL) | MOVE(PRIORITIZE) | MOVE(REMOVE) | MOVE(ADD))

static void op_change(struct lockstep *l, int queue)
{
    emq_str ids[3];
    size_t n = 1 + pick(l, 3);
    struct emq__change_req req[2];
    struct emq__change_res res[2];

    note(l, "change");
    for (size_t i = 0; i < n; i++) {
        ids[i] = any_id(l, queue, chance(l, 60) ? any_state(l) : 0);
        note(l, " %.*s", EMQ_STR_ARG(ids[i]));
    }
    req[0] = req[1] = (struct emq__change_req){.prefix = FX_PREFIX,
                                               .queue = random_queue(queue),
                                               .ids = ids,
                                               .n = n,
                                               .change = random_change(l)};
    l->moves = CHANGE_MOVES;
    call2_change(l, req, res);
    for (size_t i = 0; i < n; i++) {
        same_i64(l, "change outcome", res[0].changed[i].outcome, res[1].changed[i].outcome);
        same_i64(l, "state of the changed", res[0].changed[i].state, res[1].changed[i].state);
    }
}

static void op_bulk(struct lockstep *l, int queue)
{
    struct emq__bulk_req req[2];
    struct emq__bulk_res res[2];

    note(l, "bulk");
    req[0] = (struct emq__bulk_req){.prefix = FX_PREFIX,
                                    .queue = random_queue(queue),
                                    .change = random_change(l),
                                    .state = any_state(l),
                                    .older_ms = (int64_t)pick(l, 4) * RANDOM_STEP_MS,
                                    .limit = (int32_t)(1 + pick(l, 8)),
                                    .event = chance(l, 50)};
    if (l->before[queue].n > 150) {
        req[0].change.kind = EMQ__CHANGE_REMOVE;
        req[0].limit = 100;
        req[0].older_ms = 0;
    } else if (req[0].change.kind == EMQ__CHANGE_REMOVE) {
        req[0].limit = 2;
    }
    if (chance(l, 20))
        req[0].after_id = any_id(l, queue, req[0].state);
    note(l, " of %s limit %d older %d after %.*s", emq_state_name(req[0].state), (int)req[0].limit,
         (int)(req[0].older_ms / 1000), EMQ_STR_ARG(req[0].after_id));
    req[1] = req[0];
    l->moves = CHANGE_MOVES;
    if (call2_bulk(l, req, res) != EMQ_OK)
        return;
    same_i64(l, "changed", res[0].count, res[1].count);
    same_i64(l, "more", res[0].more, res[1].more);
    same_str(l, "last id", res[0].last_id, res[1].last_id);
}

/* An engine may need several slices, also for the events: each is asked until it is done. */
static void op_obliterate(struct lockstep *l, int queue)
{
    struct emq__obliterate_req req[2];
    struct emq__obliterate_res res[2];
    int64_t count[2];

    req[0] = req[1] = (struct emq__obliterate_req){.prefix = FX_PREFIX,
                                                   .queue = random_queue(queue),
                                                   .force = chance(l, 30),
                                                   .limit = EMQ__BATCH_MAX};
    note(l, "obliterate force %d", (int)req[0].force);
    l->moves = MOVE(REMOVE);
    if (call2_obliterate(l, req, res) != EMQ_OK)
        return;
    for (int side = 0; side < 2; side++) {
        count[side] = res[side].count;
        while (res[side].more) {
            if (l->e[side]->ops->obliterate(l->e[side], &req[side], &res[side], &l->mem[l->turn],
                                            NULL) != EMQ_OK)
                differ(l, "obliterate failed in a later slice");
            count[side] += res[side].count;
        }
        /* So that the fences of the model do not come again. */
        if (l->e[side]->ops->advance(l->e[side], RANDOM_STEP_MS, NULL) != EMQ_OK)
            differ(l, "advance failed");
        l->cursor[side][queue][0] = '\0';
    }
    same_i64(l, "obliterated", count[0], count[1]);
}

static void op_dedup(struct lockstep *l, int queue)
{
    static const char *const keys[] = {"k1", "k2", "k3"};
    struct emq__dedup_req req[2];
    struct emq__dedup_res res[2];

    req[0] = (struct emq__dedup_req){.prefix = FX_PREFIX,
                                     .queue = random_queue(queue),
                                     .dedup_id = emq_cstr(keys[pick(l, 3)]),
                                     .release = chance(l, 40)};
    if (chance(l, 40))
        req[0].owner = any_id(l, queue, 0);
    req[1] = req[0];
    note(l, "dedup %s owner %.*s release %d", req[0].dedup_id.ptr, EMQ_STR_ARG(req[0].owner),
         (int)req[0].release);
    if (call2_dedup(l, req, res) != EMQ_OK)
        return;
    same_str(l, "owner", res[0].owner, res[1].owner);
    same_i64(l, "window", res[0].ttl_ms > 0, res[1].ttl_ms > 0);
}

static void op_meta(struct lockstep *l, int queue)
{
    static const struct emq__meta_field settings[] = {
        {{"paused", 6}, {"1", 1}},
        {{"paused", 6}, {"", 0}},
        {{"paused", 6}, {"", 0}},
        {{"concurrency", 11}, {"3", 1}},
        {{"concurrency", 11}, {"", 0}},
        {{"max", 3}, {"2", 1}},
        {{"max", 3}, {"", 0}},
        {{"max", 3}, {"", 0}},
        {{"duration", 8}, {"120000", 6}},
    };
    const struct emq__meta_field *set = &settings[pick(l, EMQ_ARRAY_LEN(settings))];
    struct emq__meta_req req[2];
    struct emq__meta_res res[2];

    req[0] = req[1] = (struct emq__meta_req){.prefix = FX_PREFIX,
                                             .queue = random_queue(queue),
                                             .admin = EMQ_STR_LIT("root"),
                                             .set = set,
                                             .n_set = chance(l, 80)};
    note(l, "meta %s=%s set %zu", set->field.ptr, set->value.ptr, req[0].n_set);
    call2_meta(l, req, res);
    same_i64(l, "settings", (int64_t)res[0].n, (int64_t)res[1].n);
    for (size_t i = 0; i < res[0].n; i++) {
        same_str(l, "setting", res[0].fields[i].field, res[1].fields[i].field);
        same_str(l, "setting", res[0].fields[i].value, res[1].fields[i].value);
    }
}

static void op_find(struct lockstep *l, int queue)
{
    struct emq__find_req req[2];
    struct emq__find_res res[2];

    req[0] = (struct emq__find_req){.prefix = FX_PREFIX,
                                    .queue = random_queue(queue),
                                    .state = any_state(l),
                                    .newest_first = chance(l, 50),
                                    .offset = (int64_t)pick(l, 6),
                                    .limit = (int32_t)(1 + pick(l, 9))};
    if (chance(l, 50))
        req[0].after_id = any_id(l, queue, req[0].state);
    req[1] = req[0];
    note(l, "find %s from %d limit %d after %.*s", emq_state_name(req[0].state), (int)req[0].offset,
         (int)req[0].limit, EMQ_STR_ARG(req[0].after_id));
    if (call2_find(l, req, res) == EMQ_OK)
        same_jobs(l, "found", res[0].jobs, res[0].n, res[1].jobs, res[1].n);
}

static void op_logs(struct lockstep *l, int queue)
{
    struct emq__logs_req req[2];
    struct emq__logs_res res[2];

    req[0] = req[1] = (struct emq__logs_req){FX_PREFIX, random_queue(queue), any_id(l, queue, 0),
                                             (int64_t)pick(l, 3), (int64_t)pick(l, 3)};
    note(l, "logs of %.*s", EMQ_STR_ARG(req[0].id));
    if (call2_logs(l, req, res) != EMQ_OK)
        return;
    same_i64(l, "log lines in all", res[0].total, res[1].total);
    same_i64(l, "log lines", (int64_t)res[0].n, (int64_t)res[1].n);
    for (size_t i = 0; i < res[0].n; i++)
        same_str(l, "log line", res[0].lines[i], res[1].lines[i]);
}

/* What an entry says, without the numbers: fences follow the clocks of the stores. */
static emq_str said(emq_str json, struct emq__buf *b)
{
    bool who = false;

    emq__buf_init(b, json.len + 1);
    for (size_t i = 0; i < json.len; i++) {
        emq_str rest = emq_strn(json.ptr + i, json.len - i);
        who = emq__str_starts(rest, "\"who\":") || (who && !emq__str_starts(rest, "\"detail\":"));
        if (!who && !(json.ptr[i] >= '0' && json.ptr[i] <= '9'))
            emq__buf_char(b, json.ptr[i]);
    }
    return emq__buf_view(b);
}

static void op_history(struct lockstep *l, int queue)
{
    struct emq__history_req req[2];
    struct emq__history_res res[2];

    req[0] = req[1] =
        (struct emq__history_req){FX_PREFIX, random_queue(queue), any_id(l, queue, 0)};
    note(l, "history of %.*s", EMQ_STR_ARG(req[0].id));
    call2_history(l, req, res);
    same_i64(l, "history", (int64_t)res[0].n, (int64_t)res[1].n);
    for (size_t i = 0; i < res[0].n; i++) {
        struct emq__buf b[2];
        same_str(l, "history entry", said(res[0].json[i], &b[0]), said(res[1].json[i], &b[1]));
        emq__buf_free(&b[0]);
        emq__buf_free(&b[1]);
    }
}

static int by_id(const void *a, const void *b)
{
    const struct emq__job *x = *(struct emq__job *const *)a, *y = *(struct emq__job *const *)b;
    int c = emq__str_cmp(x->queue, y->queue);
    return c ? c : emq__str_cmp(x->id, y->id);
}

/* What a server may leave out; see engine.h. */
static size_t without_old(struct emq__claims_res *res)
{
    size_t n = 0;

    for (size_t i = 0; i < res->n; i++)
        if (res->jobs[i]->processed_at_ms > res->now_ms - 7 * 24 * 3600 * (int64_t)1000)
            res->jobs[n++] = res->jobs[i];
    return n;
}

static void op_claims(struct lockstep *l)
{
    struct emq__claims_req req[2];
    struct emq__claims_res res[2];

    req[0] = req[1] = (struct emq__claims_req){FX_PREFIX, EMQ_STR_LIT("w1")};
    note(l, "claims");
    call2_claims(l, req, res);
    for (int side = 0; side < 2; side++) {
        res[side].n = without_old(&res[side]);
        if (res[side].n)
            qsort(res[side].jobs, res[side].n, sizeof(struct emq__job *), by_id);
    }
    same_jobs(l, "claims", res[0].jobs, res[0].n, res[1].jobs, res[1].n);
}

static void op_queues(struct lockstep *l)
{
    struct emq__queues_req req[2] = {{.prefix = FX_PREFIX}, {.prefix = FX_PREFIX}};
    struct emq__queues_res res[2];

    note(l, "queues");
    call2_queues(l, req, res);
    same_i64(l, "queues", (int64_t)res[0].n, (int64_t)res[1].n);
    for (size_t i = 0; i < res[0].n; i++)
        same_str(l, "queue", res[0].names[i], res[1].names[i]);
}

void random_admin(struct lockstep *l)
{
    int queue = (int)pick(l, RANDOM_QUEUES);
    uint64_t what = pick(l, 1000);

    note(l, "%s ", random_queue(queue).ptr);
    l->moves = 0;
    if (l->before[queue].n > 150)
        what = 500;
    if (what < 180)
        op_write(l, queue);
    else if (what < 460)
        op_change(l, queue);
    else if (what < 560)
        op_bulk(l, queue);
    else if (what < 570)
        op_obliterate(l, queue);
    else if (what < 660)
        op_dedup(l, queue);
    else if (what < 740)
        op_meta(l, queue);
    else if (what < 840)
        op_find(l, queue);
    else if (what < 880)
        op_logs(l, queue);
    else if (what < 940)
        op_history(l, queue);
    else if (what < 980)
        op_claims(l);
    else
        op_queues(l);
}
