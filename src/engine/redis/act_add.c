/* SPDX-License-Identifier: MIT
 *
 * add: packs the entries as words and arguments, see lua/add.lua.
 */
#include "engine/redis/path.h"

#include "base/error.h"
#include "base/str.h"

enum { WORD_MAX = 20 };

struct adding {
    const struct emq__add_req *req;
    struct rd_args *a;
    struct emq__arena *mem;
    const struct emq__add_entry **queues; /* the first entry of each queue */
    size_t n_queues;
};

static size_t queue_of(struct adding *x, const struct emq__add_entry *en)
{
    for (size_t i = x->n_queues; i-- > 0;)
        if (emq__str_eq(x->queues[i]->queue, en->queue) &&
            emq__str_eq(x->queues[i]->prefix, en->prefix))
            return i;
    x->queues[x->n_queues] = en;
    return x->n_queues++;
}

/* The word of an entry and the arguments that its capital letters announce. */
struct entry {
    char word[WORD_MAX];
    size_t len, n;
    emq_str text[WORD_MAX];
};

static void text_if(struct entry *p, char ch, emq_str s)
{
    if (s.len == 0)
        return;
    EMQ_ASSERT(p->len < WORD_MAX);
    p->word[p->len++] = ch;
    p->text[p->n++] = s;
}

static void number_if(struct entry *p, char ch, int64_t v, struct emq__arena *mem)
{
    if (v > 0)
        text_if(p, ch, emq__arena_printf(mem, "%lld", (long long)v));
}

static void flag_if(struct entry *p, char ch, bool set)
{
    EMQ_ASSERT(p->len < WORD_MAX);
    if (set)
        p->word[p->len++] = ch;
}

static bool pack(struct adding *x, const struct emq__add_entry *en)
{
    emq_str data, encoding, opts;
    bool marked;
    size_t number = x->n_queues > 1 ? queue_of(x, en) : 0;
    struct entry p = {.len = 0};

    if (!rd_encode(en->data, x->mem, &data, &encoding))
        return false;
    opts = rd_opts_mark(en->opts, encoding, x->mem, &marked);
    if (en->opts.len > 0 && !opts.ptr)
        return false;
    number_if(&p, 'Q', number > 0 ? (int64_t)number + 1 : 0, x->mem);
    number_if(&p, 'T', en->timestamp_at_ms, x->mem);
    number_if(&p, 'D', en->delay_ms, x->mem);
    number_if(&p, 'P', en->priority, x->mem);
    flag_if(&p, 'l', en->lifo);
    text_if(&p, 'G', en->group);
    text_if(&p, 'S', en->scheduler);
    text_if(&p, 'K', en->parent_key);
    text_if(&p, 'J', en->parent);
    text_if(&p, 'E', marked ? (emq_str){0} : encoding);
    if (en->dedup.id.len > 0) {
        text_if(&p, 'U', en->dedup.id);
        number_if(&p, 'W', en->dedup.ttl_ms, x->mem);
        flag_if(&p, 'x', en->dedup.extend);
        flag_if(&p, 'r', en->dedup.replace);
        flag_if(&p, 'k', en->dedup.keep_last);
    }
    rd_arg_str(x->a, en->id);
    rd_arg_str(x->a, en->name);
    rd_arg_str(x->a, data);
    rd_arg_str(x->a, opts);
    rd_arg_str(x->a, emq__arena_str(x->mem, emq_strn(p.word, p.len)));
    for (size_t i = 0; i < p.n; i++)
        rd_arg_str(x->a, p.text[i]);
    return true;
}

static emq_status check(struct emq__engine *e, const struct emq__add_req *req, emq_error *err)
{
    if (req->n > EMQ__BATCH_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "add", "%zu entries; at most %d", req->n,
                         EMQ__BATCH_MAX);
    for (size_t i = 0; req->stage.len > 0 && i < req->n; i++) {
        const struct emq__add_entry *en = req->entries[i];
        if (!rd_same_slot(e, req->entries[0]->prefix, EMQ_STR_LIT(""), en->prefix, en->queue))
            return emq__fail(err, EMQ_E_INVALID, 0, "add",
                             "more than %d jobs at once on a cluster: one prefix with the braces "
                             "in it, as {%.*s}, must hold all of them",
                             EMQ__BATCH_MAX, EMQ_STR_ARG(en->prefix));
    }
    return EMQ_OK;
}

static emq_status args(struct adding *x, struct emq__engine *e, emq_error *err)
{
    const struct emq__add_req *req = x->req;
    emq_status s = EMQ_OK;

    x->queues = emq__arena_zalloc(x->mem, req->n, sizeof(const struct emq__add_entry *));
    if (!x->queues)
        return emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for %zu entries", req->n);
    for (size_t i = 0; i < req->n; i++)
        (void)queue_of(x, req->entries[i]);
    x->a = rd_args_new(e, RD_LUA_add, req->entries[0]->prefix, req->entries[0]->queue, x->mem);
    rd_arg_call(x->a, req->call);
    rd_arg_str(x->a, req->goes_on ? emq__arena_printf(x->mem, "+%.*s", EMQ_STR_ARG(req->stage))
                                  : req->stage);
    rd_arg_i64(x->a, (int64_t)x->n_queues);
    for (size_t i = 0; i < x->n_queues; i++)
        rd_arg_queue(x->a, x->queues[i]->prefix, x->queues[i]->queue);
    for (size_t i = 0; s == EMQ_OK && i < req->n; i++)
        if (!pack(x, req->entries[i]))
            s = emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for entry %zu", i);
    return s;
}

/* All are new and wait, and this is the first of their ids. */
static bool answer_counted(int64_t id, struct emq__add_res *res, struct emq__arena *mem)
{
    for (size_t i = 0; i < res->n; i++) {
        res->added[i] = (struct emq__added){EMQ_OK, emq__arena_printf(mem, "%lld", (long long)id++),
                                            EMQ_WAITING};
        if (!res->added[i].id.ptr)
            return false;
    }
    return true;
}

static emq_status answer(const struct rd_reply *r, const struct emq__add_req *req,
                         struct emq__add_res *res, struct emq__arena *mem, emq_error *err)
{
    const struct rd_reply *list = rd_at(r, 1);
    int64_t n = rd_i64(rd_at(r, 2));

    *res = (struct emq__add_res){.now_ms = rd_i64(rd_at(r, 0)), .n = req->n};
    if (n != (int64_t)req->n)
        return emq__fail(err, EMQ_E_INVALID, 0, "add",
                         "this sequence was used for %lld entries, not %zu: number each act anew",
                         (long long)n, req->n);
    res->added = emq__arena_zalloc(mem, req->n, sizeof *res->added);
    if (!res->added || (list->type == RD_STR && !answer_counted(rd_i64(list), res, mem)))
        return emq__fail(err, EMQ_E_NOMEM, 0, "add", "no memory for %zu results", req->n);
    if (list->type == RD_STR)
        return EMQ_OK;
    for (size_t i = 0; i < req->n; i++)
        res->added[i] = (struct emq__added){.outcome = (emq_status)rd_i64(rd_at(list, 3 * i)),
                                            .id = rd_str(rd_at(list, 3 * i + 1)),
                                            .state = (int)rd_i64(rd_at(list, 3 * i + 2))};
    return EMQ_OK;
}

emq_status rd_add(struct emq__engine *e, const struct emq__add_req *req, struct emq__add_res *res,
                  struct emq__arena *mem, emq_error *err)
{
    struct adding x = {.req = req, .mem = mem};
    emq_status s = check(e, req, err);
    const struct rd_reply *r;

    *res = (struct emq__add_res){.n = 0};
    if (s == EMQ_OK && req->n == 0)
        return rd_now(e, &res->now_ms, mem, err);
    if (s != EMQ_OK)
        return s;
    s = args(&x, e, err);
    if (s == EMQ_OK)
        s = rd_eval(x.a, &r, err);
    if (s == EMQ_OK && rd_i64(rd_at(r, 2)) < 0)
        return emq__fail(err, EMQ_E_STORE, 0, "add", EMQ__TEXT_STAGE_GONE);
    return s == EMQ_OK ? answer(r, req, res, mem, err) : s;
}
