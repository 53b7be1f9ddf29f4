/* SPDX-License-Identifier: MIT
 *
 * What can be said about a job's record without a store: kind of payload, identity, token, fence,
 * stack traces. Two different jobs never have the same identity.
 */
#include "model/job.h"

#include "base/json.h"
#include "base/str.h"

#include <inttypes.h>

enum emq__kind emq__kind_of(emq_str bytes)
{
    if (bytes.len == 0)
        return EMQ__KIND_TEXT;
    if (emq__json_valid(bytes, NULL))
        return EMQ__KIND_JSON;
    return emq__utf8_valid(bytes) ? EMQ__KIND_TEXT : EMQ__KIND_BYTES;
}

size_t emq__job_bytes(const struct emq__job *j)
{
    return j->data.bytes.len + j->result.bytes.len + j->stacktrace.len + j->progress.len +
           j->opts.len;
}

/* With ':' and '%' encoded the joined parts can be split again: the identity is injective. */
static void add_part(struct emq__buf *out, emq_str part)
{
    size_t from = 0;

    for (size_t i = 0; i < part.len; i++) {
        if (part.ptr[i] != ':' && part.ptr[i] != '%')
            continue;
        emq__buf_add(out, part.ptr + from, i - from);
        emq__buf_text(out, part.ptr[i] == ':' ? "%3A" : "%25");
        from = i + 1;
    }
    if (from < part.len)
        emq__buf_add(out, part.ptr + from, part.len - from);
}

void emq__job_identity(const struct emq__job *j, struct emq__buf *out)
{
    add_part(out, j->prefix);
    emq__buf_char(out, ':');
    add_part(out, j->queue);
    emq__buf_char(out, ':');
    add_part(out, j->id);
    emq__buf_char(out, ':');
    emq__buf_i64(out, j->timestamp_at_ms);
    if (j->redo > 0) {
        emq__buf_char(out, ':');
        emq__buf_i64(out, j->redo);
    }
}

emq_str emq__detail(emq_str text)
{
    size_t n = text.len < EMQ__DETAIL_MAX ? text.len : EMQ__DETAIL_MAX;

    while (n < text.len && n > 0 && ((unsigned char)text.ptr[n] & 0xc0) == 0x80)
        n--;
    return emq_strn(text.ptr, n);
}

emq_str emq__effect_detail(const char *what, emq_str step, const struct emq__payload *answer,
                           char out[EMQ__DETAIL_MAX + 1])
{
    emq_str shown = answer->kind == EMQ__KIND_BYTES ? EMQ_STR_LIT("") : emq__detail(answer->bytes);
    char all[2 * EMQ__DETAIL_MAX];
    int n = snprintf(all, sizeof all, "%s%s%.*s%s%.*s", what, *what ? " " : "", EMQ_STR_ARG(step),
                     shown.len ? " " : "", EMQ_STR_ARG(shown));
    size_t len = (size_t)n < sizeof all ? (size_t)n : sizeof all - 1;
    emq_str detail = emq__detail(emq_strn(all, len));

    memcpy(out, detail.ptr, detail.len);
    return emq_strn(out, detail.len);
}

void emq__token_format(emq_str worker, int64_t fence, char out[EMQ_TOKEN_MAX + 1])
{
    int n = worker.len > EMQ_WORKER_NAME_MAX ? EMQ_WORKER_NAME_MAX : (int)worker.len;

    EMQ_ASSERT(worker.len <= EMQ_WORKER_NAME_MAX);
    snprintf(out, EMQ_TOKEN_MAX + 1, "%.*s:%" PRId64, n, worker.ptr ? worker.ptr : "", fence);
}

int64_t emq__fence_next(int64_t last, int64_t now_us)
{
    const int64_t top = (INT64_C(1) << 53) - 1, sane = INT64_C(1) << 52;
    int64_t next = last < 0 ? 1 : last < top ? last + 1 : top;

    return now_us > next && now_us < sane ? now_us : next;
}

void emq__stack_append(emq_str json, emq_str trace, int64_t limit, struct emq__buf *out)
{
    struct emq__json array = {0}, v;
    size_t pos = 0;
    int64_t count = trace.len ? 1 : 0;

    if (json.len && emq__json_valid(json, NULL))
        array = emq__json_root(json);
    if (array.type != EMQ__JSON_ARRAY)
        array = emq__json_root(EMQ_STR_LIT("[]"));
    while (emq__json_next(array, &pos, NULL, &v))
        count++;

    int64_t skip = limit < 0 || count <= limit ? 0 : count - limit;
    emq__buf_char(out, '[');
    for (pos = 0; emq__json_next(array, &pos, NULL, &v);) {
        if (skip > 0) {
            skip--;
            continue;
        }
        emq__json_sep(out);
        emq__buf_str(out, v.raw);
    }
    if (trace.len && skip == 0) {
        emq__json_sep(out);
        emq__json_quote(out, trace);
    }
    emq__buf_char(out, ']');
}
