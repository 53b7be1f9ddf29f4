/* SPDX-License-Identifier: MIT
 *
 * settle: packs the entries as words and arguments, see lua/settle.lua.
 */
#include "engine/redis/path.h"

#include "base/error.h"
#include "base/json.h"

enum { WORD_MAX = 16 };

/* The word of an entry and the arguments that its letters announce. */
struct entry {
    char word[WORD_MAX];
    size_t len, n;
    emq_str text[WORD_MAX];
};

static void letter(struct entry *p, char ch)
{
    EMQ_ASSERT(p->len < WORD_MAX);
    p->word[p->len++] = ch;
}

static void text(struct entry *p, char ch, emq_str s)
{
    letter(p, ch);
    p->text[p->n++] = s;
}

static void number(struct entry *p, char ch, int64_t v, struct emq__arena *mem)
{
    text(p, ch, emq__arena_printf(mem, "%lld", (long long)v));
}

static bool quote(emq_str s, struct emq__arena *mem, emq_str *out)
{
    struct emq__buf b;

    emq__buf_init(&b, SIZE_MAX);
    emq__json_quote(&b, s);
    *out = b.failed ? (emq_str){0} : emq__arena_str(mem, emq__buf_view(&b));
    emq__buf_free(&b);
    return out->ptr != NULL;
}

static bool pack_failure(struct entry *p, const struct emq__settle_entry *en,
                         struct emq__arena *mem)
{
    emq_str trace;

    if (en->reason.len > 0)
        text(p, 'R', en->reason);
    if (en->kind == EMQ__SETTLE_STALLED || en->stack.len == 0)
        return true;
    if (!quote(en->stack, mem, &trace))
        return false;
    text(p, 'T', trace);
    number(p, 'L', en->stack_limit, mem);
    return true;
}

/* keep: of the entry before, which the script remembers. */
static bool pack(struct entry *p, const struct emq__settle_entry *en, struct emq__keep *keep,
                 struct emq__arena *mem)
{
    static const char kinds[] = {[EMQ__SETTLE_COMPLETED] = 'c',
                                 [EMQ__SETTLE_FAILED] = 'f',
                                 [EMQ__SETTLE_RETRY] = 'r',
                                 [EMQ__SETTLE_RELEASE] = 'b',
                                 [EMQ__SETTLE_STALLED] = 's'};
    bool back = en->kind == EMQ__SETTLE_RETRY || en->kind == EMQ__SETTLE_RELEASE;
    emq_str json, encoding = {0};

    letter(p, kinds[en->kind]);
    if (en->kind == EMQ__SETTLE_COMPLETED) {
        if (!rd_encode(en->value, mem, &json, &encoding))
            return false;
        p->text[p->n++] = json;
    }
    if (!back && (en->keep.count != keep->count || en->keep.age_ms != keep->age_ms)) {
        number(p, 'C', en->keep.count, mem);
        p->text[p->n++] = emq__arena_printf(mem, "%lld", (long long)en->keep.age_ms);
        *keep = en->keep;
    }
    if (en->auth.token.len == 0)
        text(p, 'A', en->auth.admin);
    if (encoding.len > 0)
        text(p, 'E', encoding);
    if (back && en->delay_ms > 0)
        number(p, 'D', en->delay_ms, mem);
    if (en->kind == EMQ__SETTLE_RETRY && en->lifo)
        letter(p, 'l');
    if (en->kind == EMQ__SETTLE_STALLED)
        number(p, 'M', en->max_stalled, mem);
    return en->kind == EMQ__SETTLE_COMPLETED || pack_failure(p, en, mem);
}

static emq_status check(const struct emq__settle_req *req, emq_error *err)
{
    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "settle", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    for (size_t i = 0; i < req->n; i++) {
        const struct emq__settle_entry *en = req->entries[i];
        if (en->auth.token.len == 0 && en->auth.admin.len == 0)
            return emq__fail(err, EMQ_E_INVALID, 0, "settle",
                             "entry %zu names neither a token nor an administrator", i);
        if (en->kind < EMQ__SETTLE_COMPLETED || en->kind > EMQ__SETTLE_STALLED)
            return emq__fail(err, EMQ_E_INVALID, 0, "settle", "entry %zu: kind %d is not one", i,
                             (int)en->kind);
    }
    return req->next ? rd_take_check(req->next, err) : EMQ_OK;
}

static emq_status arg_entry(struct rd_args *a, const struct emq__settle_entry *en,
                            struct emq__keep *keep, struct emq__arena *mem, emq_error *err)
{
    struct entry p = {.len = 0};

    if (!pack(&p, en, keep, mem))
        return emq__fail(err, EMQ_E_NOMEM, 0, "settle", "no memory for job %.*s",
                         EMQ_STR_ARG(en->id));
    rd_arg_str(a, en->id);
    rd_arg_str(a, en->auth.token);
    rd_arg_str(a, emq__arena_str(mem, emq_strn(p.word, p.len)));
    for (size_t k = 0; k < p.n; k++)
        rd_arg_str(a, p.text[k]);
    return EMQ_OK;
}

emq_status rd_arg_entry(struct rd_args *a, const struct emq__settle_entry *en,
                        struct emq__arena *mem, emq_error *err)
{
    struct emq__keep keep = {.count = -1};

    return arg_entry(a, en, &keep, mem, err);
}

static emq_status args(struct rd_args *a, const struct emq__settle_req *req, struct emq__arena *mem,
                       emq_error *err)
{
    struct emq__keep keep = {.count = -1};
    emq_status s = EMQ_OK;

    rd_arg_i64(a, (int64_t)req->n);
    for (size_t i = 0; s == EMQ_OK && i < req->n; i++)
        s = arg_entry(a, req->entries[i], &keep, mem, err);
    return s;
}

static emq_status answer(const struct rd_reply *r, const struct emq__settle_req *req,
                         struct emq__settle_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *outcomes = rd_at(r, 1), *taken = rd_at(r, 2);

    *res = (struct emq__settle_res){.now_ms = rd_i64(rd_at(r, 0)), .n = req->n};
    bool alike = outcomes->n == 3; /* one for so many */
    size_t n = alike ? (size_t)rd_i64(rd_at(outcomes, 2)) : outcomes->n / 2;
    if (n != req->n)
        return emq__fail(err, EMQ_E_INVALID, 0, "settle",
                         "this sequence was used for %zu entries, not %zu: number each act anew", n,
                         req->n);
    res->settled = emq__arena_zalloc(mem, n ? n : 1, sizeof *res->settled);
    if (!res->settled)
        return emq__fail(err, EMQ_E_NOMEM, 0, "settle", "no memory for %zu results", n);
    for (size_t i = 0; i < n; i++) {
        res->settled[i].outcome = (emq_status)rd_i64(rd_at(outcomes, alike ? 0 : 2 * i));
        res->settled[i].state = (int)rd_i64(rd_at(outcomes, alike ? 1 : 2 * i + 1));
    }
    if (taken->type != RD_ARR || !req->next)
        return EMQ_OK;
    struct rd_hand_out by = {req->prefix, req->queue, req->next, res->now_ms};
    return rd_taken_read(taken, 0, &by, mem, &res->taken, err);
}

emq_status rd_settle(struct emq__engine *e, const struct emq__settle_req *req,
                     struct emq__settle_res *res, struct emq__arena *mem, emq_error *err)
{
    emq_status s = check(req, err);
    const struct rd_reply *r;

    if (s != EMQ_OK)
        return s;
    struct rd_args *a = rd_args_new(e, RD_LUA_settle, req->prefix, req->queue, mem);
    rd_arg_call(a, req->call);
    rd_arg_take(a, e, req->prefix, req->queue, req->next, mem);
    s = args(a, req, mem, err);
    if (s == EMQ_OK)
        s = rd_eval(a, &r, err);
    return s == EMQ_OK ? answer(r, req, res, mem, err) : s;
}
