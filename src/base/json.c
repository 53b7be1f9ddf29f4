/* SPDX-License-Identifier: MIT
 *
 * The scanner that decides whether a text is JSON. It does not recurse: what it is inside of is
 * one bit a level, so that a megabyte of brackets costs 128 KiB of heap and no stack.
 */
#include "base/json.h"

#include "base/json_scan.h"
#include "base/number.h"
#include "base/utf8.h"

enum { LOCAL_BITS = 2048 };

struct levels {
    uint8_t *bits; /* 1 = object, 0 = array */
    size_t depth, cap;
    uint8_t local[LOCAL_BITS / 8];
};

static bool levels_grow(struct levels *l)
{
    size_t bytes = l->cap / 8;
    uint8_t *more = malloc(bytes * 2); /* the depth is at most the length of a text in memory */

    if (!more)
        return false;
    memcpy(more, l->bits, bytes);
    if (l->bits != l->local)
        free(l->bits);
    l->bits = more;
    l->cap *= 2;
    return true;
}

static bool levels_push(struct levels *l, bool object)
{
    if (l->depth == l->cap && !levels_grow(l))
        return false;
    uint8_t bit = (uint8_t)(1u << (l->depth % 8));
    uint8_t *byte = &l->bits[l->depth / 8];
    *byte = (uint8_t)(object ? *byte | bit : *byte & ~bit);
    l->depth++;
    return true;
}

static bool levels_in_object(const struct levels *l)
{
    return (l->bits[(l->depth - 1) / 8] >> ((l->depth - 1) % 8)) & 1;
}

/* A byte in each lane: 0x80 where it is less than n (n <= 0x80) and below 0x80 itself. */
static uint64_t lanes_less(uint64_t word, uint64_t n)
{
    return (word - 0x0101010101010101u * n) & ~word & 0x8080808080808080u;
}

static uint64_t lanes_equal(uint64_t word, uint64_t byte)
{
    return lanes_less(word ^ (0x0101010101010101u * byte), 1);
}

size_t emq__json_plain(emq_str s, size_t i)
{
    /* A borrow can only report a lane too many above a true one: enough to stop. */
    while (s.len - i >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, s.ptr + i, sizeof word);
        if ((word & 0x8080808080808080u) | lanes_less(word, 0x20) | lanes_equal(word, '"') |
            lanes_equal(word, '\\'))
            break;
        i += sizeof word;
    }
    for (; i < s.len; i++) {
        unsigned char ch = (unsigned char)s.ptr[i];
        if (ch < 0x20 || ch >= 0x80 || ch == '"' || ch == '\\')
            break;
    }
    return i;
}

static bool is_hex(char ch)
{
    return (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f') || (ch >= 'A' && ch <= 'F');
}

/* *i is behind a backslash; moves it behind the escape, or to the fault. */
static bool scan_escape(emq_str s, size_t *i)
{
    if (*i >= s.len || s.ptr[*i] == '\0' || !strchr("\"\\/bfnrtu", s.ptr[*i]))
        return false;
    if (s.ptr[(*i)++] != 'u')
        return true;
    for (int digits = 0; digits < 4; digits++, (*i)++)
        if (*i >= s.len || !is_hex(s.ptr[*i]))
            return false;
    return true;
}

/* The same for *i at an opening quote. */
static bool scan_string(emq_str s, size_t *i)
{
    for (++*i;;) {
        *i = emq__json_plain(s, *i);
        if (*i >= s.len)
            return false;
        unsigned char ch = (unsigned char)s.ptr[*i];
        if (ch == '"') {
            ++*i;
            return true;
        }
        if (ch == '\\') {
            ++*i;
            if (!scan_escape(s, i))
                return false;
            continue;
        }
        if (ch < 0x20)
            return false;
        bool valid;
        size_t n = emq__utf8_step(s.ptr + *i, s.len - *i, &valid);
        if (!valid)
            return false;
        *i += n;
    }
}

static bool scan_word(emq_str s, size_t *i, const char *word)
{
    for (; *word; word++, ++*i)
        if (*i >= s.len || s.ptr[*i] != *word)
            return false;
    return true;
}

/* A value that is no container. */
static bool scan_scalar(emq_str s, size_t *i)
{
    bool valid;

    switch (s.ptr[*i]) {
    case '"': return scan_string(s, i);
    case 't': return scan_word(s, i, "true");
    case 'f': return scan_word(s, i, "false");
    case 'n': return scan_word(s, i, "null");
    default: *i += emq__number_scan(emq_strn(s.ptr + *i, s.len - *i), &valid); return valid;
    }
}

/* `"name" :` */
static bool scan_key(emq_str s, size_t *i)
{
    *i = emq__json_space(s, *i);
    if (*i >= s.len || s.ptr[*i] != '"' || !scan_string(s, i))
        return false;
    *i = emq__json_space(s, *i);
    if (*i >= s.len || s.ptr[*i] != ':')
        return false;
    ++*i;
    return true;
}

/* Goes down to the first scalar or empty container. */
static bool scan_down(struct levels *l, emq_str s, size_t *i)
{
    for (;;) {
        *i = emq__json_space(s, *i);
        if (*i >= s.len)
            return false;
        bool object = s.ptr[*i] == '{';
        if (!object && s.ptr[*i] != '[')
            return scan_scalar(s, i);
        if (!levels_push(l, object))
            return false;
        *i = emq__json_space(s, *i + 1);
        if (*i < s.len && s.ptr[*i] == (object ? '}' : ']')) {
            l->depth--;
            ++*i;
            return true;
        }
        if (object && !scan_key(s, i))
            return false;
    }
}

/* Behind a value: closes what ends here. True and *more when another value follows. */
static bool scan_up(struct levels *l, emq_str s, size_t *i, bool *more)
{
    *more = false;
    for (;;) {
        *i = emq__json_space(s, *i);
        if (l->depth == 0)
            return *i == s.len;
        if (*i >= s.len)
            return false;
        bool object = levels_in_object(l);
        if (s.ptr[*i] == ',') {
            ++*i;
            *more = true;
            return !object || scan_key(s, i);
        }
        if (s.ptr[*i] != (object ? '}' : ']'))
            return false;
        l->depth--;
        ++*i;
    }
}

bool emq__json_valid(emq_str text, size_t *pos)
{
    struct levels l = {.cap = LOCAL_BITS};
    size_t i = 0;
    bool ok, more = true;

    l.bits = l.local;
    do
        ok = scan_down(&l, text, &i) && scan_up(&l, text, &i, &more);
    while (ok && more);

    if (l.bits != l.local)
        free(l.bits);
    if (!ok && pos)
        *pos = i;
    return ok;
}
