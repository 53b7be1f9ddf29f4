/* SPDX-License-Identifier: MIT
 *
 * hiredis' reader is used as a parser only: the objects it builds are ours and live in the arena of
 * the call that the reply belongs to.
 */
#include "engine/redis/reply.h"

#include "base/str.h"

#include <read.h> /* of hiredis */
#include <string.h>

#ifdef EMQ_HIREDIS_1
typedef size_t array_len;
#else
typedef int array_len;
#endif

/* While an array is filled its members are still written. */
struct node {
    struct rd_reply reply; /* first */
    const struct rd_reply **slots;
};

struct rd_parser {
    redisReader *reader;
    struct emq__arena *mem; /* of the reply that is being read */
    bool no_memory;         /* for it */
    struct node dropped;    /* stands for what there was no memory for */
};

static const struct rd_reply nil = {.type = RD_NIL};

const struct rd_reply *rd_at(const struct rd_reply *r, size_t i)
{
    return r && r->type == RD_ARR && i < r->n && r->items[i] ? r->items[i] : &nil;
}

int64_t rd_i64(const struct rd_reply *r)
{
    int64_t v = 0;

    if (r && r->type == RD_INT)
        return r->i;
    if (r && r->type == RD_STR && !emq__str_to_i64(r->s, &v))
        v = 0;
    return v;
}

emq_str rd_str(const struct rd_reply *r)
{
    return r && (r->type == RD_STR || r->type == RD_ERR) ? r->s : EMQ_STR_LIT("");
}

bool rd_is(const struct rd_reply *r, const char *text)
{
    return r && r->type == RD_STR && emq__str_is(r->s, text);
}

/* ---- what hiredis calls ---------------------------------------------------------------------- */

/* Without memory a reply is read all the same, so that those behind it are found, and dropped. */
static struct node *new_node(const redisReadTask *task, enum rd_type type)
{
    struct rd_parser *p = task->privdata;
    struct node *parent = task->parent ? task->parent->obj : NULL;
    struct node *made = emq__arena_zalloc(p->mem, 1, sizeof *made);

    if (!made) {
        p->no_memory = true;
        return &p->dropped;
    }
    made->reply.type = type;
    if (parent && parent->slots)
        parent->slots[task->idx] = &made->reply;
    return made;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct rd_parser *p = task->privdata;
    struct node *made = new_node(task, task->type == REDIS_REPLY_ERROR ? RD_ERR : RD_STR);

    if (made == &p->dropped)
        return made;
    made->reply.s = emq__arena_str(p->mem, emq_strn(text, len));
    p->no_memory = p->no_memory || !made->reply.s.ptr;
    return made;
}

static void *create_array(const redisReadTask *task, array_len n)
{
    struct rd_parser *p = task->privdata;
    struct node *made = new_node(task, RD_ARR);

    if (made == &p->dropped || n <= 0)
        return made;
    made->slots = emq__arena_zalloc(p->mem, (size_t)n, sizeof *made->slots);
    p->no_memory = p->no_memory || !made->slots;
    made->reply.items = made->slots;
    made->reply.n = made->slots ? (size_t)n : 0;
    return made;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct rd_parser *p = task->privdata;
    struct node *made = new_node(task, RD_INT);

    if (made != &p->dropped)
        made->reply.i = value;
    return made;
}

static void *create_nil(const redisReadTask *task)
{
    return new_node(task, RD_NIL);
}

static void free_object(void *object)
{
    (void)object; /* the arena's */
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
    .freeObject = free_object,
};

/* ---- the parser ------------------------------------------------------------------------------ */

struct rd_parser *rd_parser_new(void)
{
    struct rd_parser *p = calloc(1, sizeof *p);

    if (p)
        p->reader = redisReaderCreateWithFunctions(&functions);
    if (!p || !p->reader) {
        free(p);
        return NULL;
    }
    p->reader->privdata = p;
    return p;
}

void rd_parser_free(struct rd_parser *p)
{
    if (!p)
        return;
    redisReaderFree(p->reader);
    free(p);
}

bool rd_parser_feed(struct rd_parser *p, const void *bytes, size_t n)
{
    return redisReaderFeed(p->reader, bytes, n) == REDIS_OK;
}

bool rd_parser_empty(const struct rd_parser *p)
{
    return p->reader->ridx == -1 && p->reader->pos == p->reader->len;
}

enum rd_parsed rd_parser_next(struct rd_parser *p, struct emq__arena *mem,
                              const struct rd_reply **out)
{
    void *reply = NULL;

    p->mem = mem;
    if (redisReaderGetReply(p->reader, &reply) != REDIS_OK)
        return p->reader->err == REDIS_ERR_OOM ? RD_PARSED_NOMEM : RD_PARSED_BROKEN;
    if (!reply)
        return RD_PARSED_MORE;
    bool whole = !p->no_memory;
    p->no_memory = false;
    *out = &((const struct node *)reply)->reply;
    return whole ? RD_PARSED_REPLY : RD_PARSED_NOMEM;
}
