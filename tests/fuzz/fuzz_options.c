/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a stored options object, as a line of a batch file, and as a job's record. What is
 * read from others is in range and reads back as itself; what a batch line says passes the checks;
 * a job's JSON is valid.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/str.h"
#include "model/duration.h"
#include "model/job.h"
#include "model/policy.h"

#include <string.h>

static void check_ranges(const struct emq__opts *o)
{
    FUZZ_CHECK(o->attempts >= 1);
    FUZZ_CHECK(o->priority >= 0 && o->priority <= EMQ_PRIORITY_MAX);
    FUZZ_CHECK(o->delay_ms >= 0 && o->delay_ms <= EMQ__SPAN_MAX_MS);
    FUZZ_CHECK(o->timeout_ms >= 0 && o->timeout_ms <= EMQ__SPAN_MAX_MS);
    FUZZ_CHECK(o->timestamp_at_ms >= 0);
    FUZZ_CHECK(o->keep_logs == -1 || o->keep_logs > 0);
    FUZZ_CHECK(o->stack_limit >= -1);
    FUZZ_CHECK(o->keep_completed.count >= -1 && o->keep_failed.count >= -1);
    FUZZ_CHECK(o->keep_completed.age_ms >= 0 && o->keep_completed.age_ms <= EMQ__SPAN_MAX_MS);
    FUZZ_CHECK(o->keep_failed.age_ms >= 0 && o->keep_failed.age_ms <= EMQ__SPAN_MAX_MS);
    FUZZ_CHECK(o->backoff.jitter >= 0 && o->backoff.jitter <= 1);
    FUZZ_CHECK(o->backoff.type == 0 || (o->backoff.type >= 1 && o->backoff.type <= 3));
    FUZZ_CHECK(emq__utf8_valid(o->dedup.id) && emq__utf8_valid(o->group));
    for (int32_t a = 1; a < 80; a += 13) {
        int64_t ms = emq__backoff_ms(&o->backoff, a, 0.7);
        FUZZ_CHECK(ms >= 0 && ms <= EMQ__SPAN_MAX_MS);
    }
}

/* Written, read and written again it is the same text. */
static void check_round_trip(const struct emq__opts *o, struct emq__arena *mem)
{
    struct emq__buf a, b;
    struct emq__opts back;

    emq__buf_init(&a, 1 << 24);
    emq__buf_init(&b, 1 << 24);
    emq__opts_write(o, emq_cstr("id"), &a);
    FUZZ_CHECK(a.failed == EMQ_OK && emq__json_valid(emq__buf_view(&a), NULL));
    FUZZ_CHECK(emq__opts_read(emq__buf_view(&a), mem, &back));
    emq__opts_write(&back, emq_cstr("id"), &b);
    FUZZ_CHECK(emq__str_eq(emq__buf_view(&a), emq__buf_view(&b)));
    emq__buf_free(&a);
    emq__buf_free(&b);
}

static void as_batch(emq_str in, struct emq__arena *mem)
{
    emq_add_opts o;
    struct emq__opts checked;
    emq_str data, id, name;
    emq_error err;

    if (emq__opts_from_batch(in, mem, &o, &data, &err) != EMQ_OK) {
        FUZZ_CHECK(err.status == EMQ_E_INVALID && err.text[0] != '\0');
        FUZZ_CHECK(emq__utf8_valid(emq_cstr(err.text)));
        return;
    }
    FUZZ_CHECK(data.len == 0 || emq__json_valid(data, NULL));
    FUZZ_CHECK(emq__opts_from_public(&o, &checked, &id, &name, &err) == EMQ_OK);
    check_ranges(&checked);
    check_round_trip(&checked, mem);
}

static void as_record(emq_str in)
{
    struct emq__job j = {.id = in,
                         .queue = in,
                         .name = in,
                         .opts = in,
                         .stacktrace = in,
                         .progress = in,
                         .parent = in,
                         .failed_reason = in,
                         .data = {emq__kind_of(in), in}};
    struct emq__buf out;

    emq__buf_init(&out, 1 << 26);
    emq__job_json(&j, &out);
    FUZZ_CHECK(out.failed == EMQ_OK && emq__json_valid(emq__buf_view(&out), NULL));
    FUZZ_CHECK(!memchr(out.ptr, '\n', out.len) && !memchr(out.ptr, '\r', out.len));
    emq__buf_clear(&out);
    emq__stack_append(in, in, (int64_t)(in.len % 5) - 1, &out);
    FUZZ_CHECK(out.failed == EMQ_OK && emq__json_valid(emq__buf_view(&out), NULL));
    emq__buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    emq_str in = emq_strn((const char *)data, size);
    struct emq__arena mem = {0};
    struct emq__opts o;

    if (emq__opts_read(in, &mem, &o))
        check_round_trip(&o, &mem);
    check_ranges(&o);
    as_batch(in, &mem);
    as_record(in);
    emq__arena_free(&mem);
    return 0;
}
