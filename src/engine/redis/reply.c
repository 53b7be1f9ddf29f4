/* SPDX-License-Identifier: MIT
 *
 * hiredis' reader is used as a parser only: the objects it builds are ours and live in the arena of
 * the call that the reply belongs to.
 */
#include "engine/redis/reply.h"

#include "base/str.h"

#include <read.h> /* of hiredis */
#include <string.h>

/* While an array is filled its members are still written. */
struct node {
    struct rd_reply reply; /* first */
    const struct rd_reply **slots;
};

struct rd_parser {
    redisReader *reader;
    struct emq__arena *mem; /* of the reply that is being read */
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

static struct node *new_node(const redisReadTask *task, enum rd_type type)
{
    struct rd_parser *p = task->privdata;
    struct node *made = emq__arena_zalloc(p->mem, 1, sizeof *made);

    if (!made)
        return NULL;
    made->reply.type = type;
    if (task->parent) {
        struct node *parent = task->parent->obj;
        parent->slots[task->idx] = &made->reply;
    }
    return made;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct rd_parser *p = task->privdata;
    struct node *made = new_node(task, task->type == REDIS_REPLY_ERROR ? RD_ERR : RD_STR);

    if (!made)
        return NULL;
    made->reply.s = emq__arena_str(p->mem, emq_strn(text, len));
    return made->reply.s.ptr ? made : NULL;
}

static void *create_array(const redisReadTask *task, int n)
{
    struct rd_parser *p = task->privdata;
    struct node *made = new_node(task, RD_ARR);

    if (!made || n < 0)
        return NULL;
    made->slots = emq__arena_zalloc(p->mem, n > 0 ? (size_t)n : 1, sizeof *made->slots);
    made->reply.items = made->slots;
    made->reply.n = (size_t)n;
    return made->slots ? made : NULL;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct node *made = new_node(task, RD_INT);

    if (made)
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
    *out = &((const struct node *)reply)->reply;
    return RD_PARSED_REPLY;
}
