/* SPDX-License-Identifier: MIT
 *
 * RESP requests: "*N\r\n" and then "$LEN\r\nBYTES\r\n" for each argument.
 */
#include "engine/redis/request.h"

#include <string.h>

enum { COPY_MAX = 1024, BUF_BYTES = 2048, HEAD_ROOM = 32, IOV_FIRST = 8 };

void rd_cmd_init(struct rd_cmd *c, struct emq__arena *mem)
{
    *c = (struct rd_cmd){.mem = mem};
    c->iov = emq__arena_zalloc(mem, IOV_FIRST, sizeof *c->iov);
    c->failed = !c->iov;
    c->cap_iov = IOV_FIRST;
    c->n_iov = 1;
}

static struct iovec *new_piece(struct rd_cmd *c)
{
    if (c->n_iov == c->cap_iov) {
        struct iovec *more = emq__arena_alloc(c->mem, (size_t)c->cap_iov * 2 * sizeof *more);
        if (!more)
            return NULL;
        memcpy(more, c->iov, (size_t)c->n_iov * sizeof *more);
        c->iov = more;
        c->cap_iov *= 2;
    }
    c->iov[c->n_iov] = (struct iovec){0};
    return &c->iov[c->n_iov++];
}

/* Room for n bytes behind what was copied last; they belong to the command at once. */
static char *copy_room(struct rd_cmd *c, size_t n)
{
    if (c->failed)
        return NULL;
    if (c->room < n) {
        size_t size = n > BUF_BYTES ? n : BUF_BYTES;
        struct iovec *piece = new_piece(c);
        c->buf = piece ? emq__arena_alloc(c->mem, size) : NULL;
        if (!c->buf) {
            c->failed = true;
            c->room = 0;
            return NULL;
        }
        piece->iov_base = c->buf;
        c->room = size;
    }
    char *p = c->buf;
    c->buf += n;
    c->room -= n;
    c->iov[c->n_iov - 1].iov_len += n;
    c->bytes += n;
    return p;
}

static size_t put_count(char *out, char mark, size_t n)
{
    char digits[20];
    size_t len = 0, at = 0;

    do
        digits[len++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    out[at++] = mark;
    while (len > 0)
        out[at++] = digits[--len];
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}

static size_t put_arg(char *out, emq_str s)
{
    size_t at = put_count(out, '$', s.len);

    if (s.len > 0)
        memcpy(out + at, s.ptr, s.len);
    at += s.len;
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}

void rd_cmd_arg(struct rd_cmd *c, emq_str s)
{
    char count[HEAD_ROOM];
    size_t n = put_count(count, '$', s.len);

    c->argc++;
    if (s.len <= COPY_MAX) {
        char *p = copy_room(c, n + s.len + 2);
        if (p)
            (void)put_arg(p, s);
        return;
    }
    char *p = copy_room(c, n);
    if (p)
        memcpy(p, count, n);
    struct iovec *piece = c->failed ? NULL : new_piece(c);
    if (!piece) {
        c->failed = true;
        return;
    }
    union { /* sending only reads it */
        const char *in;
        char *out;
    } cast = {.in = s.ptr};
    *piece = (struct iovec){.iov_base = cast.out, .iov_len = s.len};
    c->bytes += s.len;
    c->room = 0; /* what follows is a piece of its own */
    p = copy_room(c, 2);
    if (p)
        memcpy(p, "\r\n", 2);
}

void rd_cmd_text(struct rd_cmd *c, const char *s)
{
    rd_cmd_arg(c, emq_cstr(s));
}

void rd_cmd_i64(struct rd_cmd *c, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);

    rd_cmd_arg(c, emq_strn(text, (size_t)n));
}

void rd_cmd_end(struct rd_cmd *c, const emq_str *front, size_t n_front)
{
    size_t room = HEAD_ROOM, at;

    for (size_t i = 0; i < n_front; i++)
        room += HEAD_ROOM + front[i].len;
    char *head = c->failed ? NULL : emq__arena_alloc(c->mem, room);
    if (!head) {
        c->failed = true;
        return;
    }
    at = put_count(head, '*', c->argc + n_front);
    for (size_t i = 0; i < n_front; i++)
        at += put_arg(head + at, front[i]);
    c->bytes += at - c->iov[0].iov_len;
    c->iov[0] = (struct iovec){.iov_base = head, .iov_len = at};
}

/* Short arguments are whole in one piece; of a long one the count ends a piece, and its bytes are the next. */
size_t rd_cmd_words(const struct rd_cmd *c, size_t from, emq_str *out, size_t cap)
{
    size_t n = 0, passed = 0;
    bool skip = false;

    for (int i = 1; i < c->n_iov; i++) {
        const char *p = c->iov[i].iov_base, *end = p + c->iov[i].iov_len;
        if (skip) {
            skip = false;
            continue;
        }
        while (p < end) {
            size_t len = 0;
            if (*p != '$') { /* the end of a long one */
                p += 2;
                continue;
            }
            for (p++; *p != '\r'; p++)
                len = len * 10 + (size_t)(*p - '0');
            p += 2;
            skip = p == end;
            if (!skip && len >= 1 && len <= 255 && passed++ >= from && n < cap)
                out[n++] = emq_strn(p, len);
            p = skip ? end : p + len + 2;
        }
    }
    return n;
}
