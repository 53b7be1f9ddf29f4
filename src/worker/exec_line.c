/* SPDX-License-Identifier: MIT
 *
 * Reading the lines of a program. Whatever it writes, a line is understood or named as bad: nothing
 * that a program writes can stop a worker. An unknown word may be an effect, mistyped or of a later version.
 */
#include "worker/exec_line.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"

static emq_str trim(emq_str s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static struct emq__exec_line bad(const char *problem)
{
    return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_BAD, .problem = problem};
}

static struct emq__exec_line wrong(const char *problem)
{
    return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_WRONG, .problem = problem};
}

static struct emq__exec_line parse_progress(emq_str rest)
{
    rest = trim(rest);
    if (rest.len > EMQ_RESULT_MAX)
        return bad("progress takes at most 1 MiB");
    if (!emq__json_valid(rest, NULL))
        return bad("progress takes a number or another JSON value: progress 40");
    return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_PROGRESS, .text = rest};
}

static struct emq__exec_line parse_retry_after(emq_str rest)
{
    int64_t ms;

    if (emq__duration_parse(trim(rest), &ms, NULL) != EMQ_OK || ms < 0)
        return bad("retry-after takes a duration with a unit: retry-after 30s");
    return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_RETRY_AFTER, .ms = ms};
}

static struct emq__exec_line parse_file(enum emq__exec_line_kind kind, emq_str rest)
{
    rest = trim(rest);
    if (rest.len == 0)
        return wrong("sql and redis take the name of a file: sql /tmp/effect.sql");
    if (memchr(rest.ptr, 0, rest.len))
        return wrong("the name of a file has no NUL byte");
    return (struct emq__exec_line){.kind = kind, .text = rest};
}

struct emq__exec_line emq__exec_line_parse(emq_str line)
{
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    while (line.len && (line.ptr[0] == ' ' || line.ptr[0] == '\t')) {
        line.ptr++;
        line.len--;
    }
    if (line.len == 0)
        return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_EMPTY};

    size_t n = 0;
    while (n < line.len && line.ptr[n] != ' ' && line.ptr[n] != '\t')
        n++;
    emq_str word = emq_strn(line.ptr, n);
    /* One separator: a log text may begin with spaces. */
    size_t skip = n < line.len ? n + 1 : n;
    emq_str rest = emq_strn(line.ptr + skip, line.len - skip);

    if (emq__str_is(word, "progress"))
        return parse_progress(rest);
    if (emq__str_is(word, "log"))
        return (struct emq__exec_line){.kind = EMQ__EXEC_LINE_LOG, .text = rest};
    if (emq__str_is(word, "retry-after"))
        return parse_retry_after(rest);
    if (emq__str_is(word, "sql"))
        return parse_file(EMQ__EXEC_LINE_SQL, rest);
    if (emq__str_is(word, "redis"))
        return parse_file(EMQ__EXEC_LINE_REDIS, rest);
    return wrong("known are: progress JSON, log TEXT, retry-after DURATION, sql FILE, redis FILE");
}

/* ---- splitting ---------------------------------------------------------------------------- */

void emq__lines_init(struct emq__lines *l, size_t max)
{
    *l = (struct emq__lines){.max = max};
    emq__buf_init(&l->part, max);
}

static void add_part(struct emq__lines *l, const char *p, size_t n)
{
    size_t room = l->max - l->part.len;

    if (n > room) {
        l->cut = true;
        n = room;
    }
    emq__buf_add(&l->part, p, n);
    if (l->part.failed)
        l->cut = true;
}

static void give_part(struct emq__lines *l, emq__line_fn fn, void *user)
{
    fn(user, emq__buf_view(&l->part), l->cut);
    l->cut = false;
    emq__buf_clear(&l->part);
}

void emq__lines_feed(struct emq__lines *l, emq_str bytes, emq__line_fn fn, void *user)
{
    while (bytes.len) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        size_t n = end ? (size_t)(end - bytes.ptr) : bytes.len;
        if (end && l->part.len == 0 && !l->cut && n <= l->max) {
            fn(user, emq_strn(bytes.ptr, n), false);
        } else {
            add_part(l, bytes.ptr, n);
            if (end)
                give_part(l, fn, user);
        }
        n += end ? 1 : 0;
        bytes = emq_strn(bytes.ptr + n, bytes.len - n);
    }
}

void emq__lines_end(struct emq__lines *l, emq__line_fn fn, void *user)
{
    if (l->part.len || l->cut)
        give_part(l, fn, user);
}

void emq__lines_free(struct emq__lines *l)
{
    emq__buf_free(&l->part);
}
