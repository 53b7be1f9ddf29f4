/* SPDX-License-Identifier: MIT
 *
 * Whatever a program writes: lines of descriptor 3, answers of --stream, and the splitting of both.
 * How the bytes were cut into reads must not change the lines.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/str.h"
#include "worker/exec_line.h"
#include "worker/stream_line.h"

enum { LINE_MAX_BYTES = 40 };

static bool inside(emq_str part, emq_str whole)
{
    return part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len;
}

static void as_control(emq_str line)
{
    struct emq__exec_line l = emq__exec_line_parse(line);

    switch (l.kind) {
    case EMQ__EXEC_LINE_EMPTY: break;
    case EMQ__EXEC_LINE_PROGRESS:
        FUZZ_CHECK(inside(l.text, line) && emq__json_valid(l.text, NULL));
        break;
    case EMQ__EXEC_LINE_LOG:
    case EMQ__EXEC_LINE_SQL:
    case EMQ__EXEC_LINE_REDIS: FUZZ_CHECK(inside(l.text, line)); break;
    case EMQ__EXEC_LINE_RETRY_AFTER: FUZZ_CHECK(l.ms >= 0); break;
    case EMQ__EXEC_LINE_BAD:
    case EMQ__EXEC_LINE_WRONG: FUZZ_CHECK(l.problem && *l.problem); break;
    }
}

static void as_answer(emq_str line)
{
    struct emq__arena mem = {0};
    struct emq__answer a;
    const char *problem = emq__answer_parse(line, &mem, &a);

    FUZZ_CHECK(!problem || *problem);
    if (!problem) {
        FUZZ_CHECK(emq__json_valid(line, NULL));
        FUZZ_CHECK(a.retry_after_ms >= -1);
        FUZZ_CHECK(a.end != EMQ__ANSWER_GOES_ON || a.has_progress || a.has_log || a.sql.len ||
                   a.redis.len);
        FUZZ_CHECK(!a.has_progress || emq__json_valid(a.progress, NULL));
    }
    emq__arena_free(&mem);
}

static void as_request(emq_str data)
{
    struct emq__job job = {.prefix = EMQ_STR_LIT("emq"),
                           .queue = data,
                           .id = data,
                           .name = data,
                           .token = data,
                           .data = {emq__kind_of(data), data}};
    struct emq__buf line;

    emq__buf_init(&line, SIZE_MAX / 2);
    emq__stream_request(&job, 0, &line);
    if (!line.failed) {
        FUZZ_CHECK(line.len && line.ptr[line.len - 1] == '\n');
        FUZZ_CHECK(!memchr(line.ptr, '\n', line.len - 1));
        FUZZ_CHECK(emq__json_valid(emq__buf_view(&line), NULL));
    }
    emq__buf_free(&line);
}

static void take_line(void *user, emq_str line, bool cut)
{
    struct emq__buf *all = user;

    FUZZ_CHECK(line.len <= LINE_MAX_BYTES && !memchr(line.ptr, '\n', line.len));
    FUZZ_CHECK(!cut || line.len == LINE_MAX_BYTES);
    emq__buf_str(all, line);
    emq__buf_text(all, cut ? "!\n" : "\n");
}

static void split(emq_str bytes, size_t step, struct emq__buf *all)
{
    struct emq__lines l;

    emq__lines_init(&l, LINE_MAX_BYTES);
    while (bytes.len) {
        size_t n = step < bytes.len ? step : bytes.len;
        emq__lines_feed(&l, emq_strn(bytes.ptr, n), take_line, all);
        bytes = emq_strn(bytes.ptr + n, bytes.len - n);
    }
    emq__lines_end(&l, take_line, all);
    emq__lines_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    emq_str in = emq_strn((const char *)data, size), left = in;
    struct emq__buf whole, pieces;

    emq__buf_init(&whole, SIZE_MAX / 2);
    emq__buf_init(&pieces, SIZE_MAX / 2);
    split(in, SIZE_MAX, &whole);
    split(in, size ? 1 + data[0] % 7u : 1, &pieces);
    FUZZ_CHECK(emq__str_eq(emq__buf_view(&whole), emq__buf_view(&pieces)));
    emq__buf_free(&whole);
    emq__buf_free(&pieces);

    as_answer(in);
    as_request(in);
    while (left.len) {
        const char *feed = memchr(left.ptr, '\n', left.len);
        size_t n = feed ? (size_t)(feed - left.ptr) : left.len;
        as_control(emq_strn(left.ptr, n));
        as_answer(emq_strn(left.ptr, n));
        n += feed ? 1 : 0;
        left = emq_strn(left.ptr + n, left.len - n);
    }
    return 0;
}
