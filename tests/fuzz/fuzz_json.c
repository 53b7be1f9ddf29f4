/* SPDX-License-Identifier: MIT
 *
 * Any bytes through floor 0: as JSON, as a text to quote, as base64, as a number, as a message to
 * clean. Readers run on texts that are not valid, too.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/str.h"

enum { DEPTH_MAX = 50 };

static void walk(struct emq__json v, struct emq__arena *mem, int depth)
{
    struct emq__json member;
    emq_str key, text;
    int64_t i;
    double d;
    size_t pos = 0, last = 0;

    (void)emq__json_str(v, mem, &text);
    if (emq__json_i64(v, &i) && i > -(INT64_C(1) << 53) && i < INT64_C(1) << 53)
        FUZZ_CHECK(emq__json_double(v, &d) && d == (double)i);
    (void)emq__json_get(v, "a", &member);
    while (depth < DEPTH_MAX && emq__json_next(v, &pos, &key, &member)) {
        FUZZ_CHECK(pos > last && pos <= v.raw.len);
        FUZZ_CHECK(member.raw.ptr >= v.raw.ptr && member.raw.len <= v.raw.len);
        last = pos;
        (void)emq__json_unescape(key, mem, &text);
        walk(member, mem, depth + 1);
    }
}

/* Every value of a valid text is a valid text. */
static void walk_valid(struct emq__json v, int depth)
{
    struct emq__json member;
    size_t pos = 0;

    FUZZ_CHECK(v.type != 0);
    FUZZ_CHECK(emq__json_valid(v.raw, NULL));
    while (depth < 4 && emq__json_next(v, &pos, NULL, &member))
        walk_valid(member, depth + 1);
}

static void as_json(emq_str in, struct emq__arena *mem)
{
    size_t pos = SIZE_MAX;

    walk(emq__json_root(in), mem, 0);
    if (emq__json_valid(in, &pos)) {
        FUZZ_CHECK(pos == SIZE_MAX);
        FUZZ_CHECK(emq__utf8_valid(in));
        walk_valid(emq__json_root(in), 0);
    } else {
        FUZZ_CHECK(pos <= in.len);
        /* The place of the first fault depends on nothing behind it but a cut character. */
        size_t again = SIZE_MAX;
        FUZZ_CHECK(!emq__json_valid(emq_strn(in.ptr, pos), &again) || pos < in.len);
        FUZZ_CHECK(again == SIZE_MAX || again == pos);
    }
}

static void as_text(emq_str in, struct emq__arena *mem, struct emq__buf *b)
{
    emq_str out;

    emq__json_quote(b, in);
    FUZZ_CHECK(!b->failed);
    FUZZ_CHECK(emq__json_valid(emq__buf_view(b), NULL));
    FUZZ_CHECK(emq__json_str(emq__json_root(emq__buf_view(b)), mem, &out));
    FUZZ_CHECK(emq__utf8_valid(out));
    FUZZ_CHECK(!emq__utf8_valid(in) || emq__str_eq(in, out));

    emq__buf_clear(b);
    emq__base64(b, in);
    FUZZ_CHECK(emq__base64_decode(emq__buf_view(b), mem, &out) && emq__str_eq(in, out));
    emq__buf_clear(b);
    if (emq__base64_decode(in, mem, &out)) {
        emq__base64(b, out);
        FUZZ_CHECK(emq__str_eq(in, emq__buf_view(b)));
    }
}

static void as_message(emq_str in, struct emq__arena *mem)
{
    size_t max = in.len ? (size_t)(unsigned char)in.ptr[0] * 4 : 0;
    char *out = emq__arena_alloc(mem, max + 8);

    FUZZ_CHECK(out);
    size_t n = emq__text_clean(in, max, out);
    FUZZ_CHECK(n < max + 8 && out[n] == '\0');
    FUZZ_CHECK(emq__utf8_valid(emq_strn(out, n)));
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK((unsigned char)out[i] >= 0x20 || out[i] == '\t' || out[i] == '\n');
}

static void as_number(emq_str in, struct emq__buf *b)
{
    int64_t i, j;
    double d, back;

    emq__buf_clear(b);
    if (emq__str_to_i64(in, &i)) {
        emq__buf_i64(b, i);
        FUZZ_CHECK(emq__str_to_i64(emq__buf_view(b), &j) && i == j);
    }
    emq__buf_clear(b);
    if (emq__str_to_double(in, &d)) {
        emq__json_double_out(b, d);
        FUZZ_CHECK(emq__str_to_double(emq__buf_view(b), &back) && d == back);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct emq__arena mem = {0};
    struct emq__buf b;
    emq_str in = emq_strn((const char *)data, size);

    emq__buf_init(&b, size * 6 + 64);
    as_json(in, &mem);
    as_text(in, &mem, &b);
    as_message(in, &mem);
    as_number(in, &b);
    emq__buf_free(&b);
    emq__arena_free(&mem);
    return 0;
}
