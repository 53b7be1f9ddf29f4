/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a span, a retention, a backoff. What is accepted lies in its range; a span that was
 * accepted is the same after formatting and parsing.
 */
#include "fuzz.h"

#include "base/str.h"
#include "model/duration.h"
#include "model/policy.h"

static void as_span(emq_str in)
{
    int64_t ms, again;
    char text[40];
    emq_error err;

    if (emq__duration_parse(in, &ms, &err) != EMQ_OK) {
        FUZZ_CHECK(err.status == EMQ_E_INVALID && emq__utf8_valid(emq_cstr(err.text)));
        return;
    }
    FUZZ_CHECK(ms >= 0 && ms <= EMQ__SPAN_MAX_MS);
    emq__duration_format(ms, text);
    FUZZ_CHECK(emq__duration_parse(emq_cstr(text), &again, NULL) == EMQ_OK && again == ms);
}

static void as_backoff(emq_str in)
{
    struct emq__backoff b;
    emq_error err;

    if (emq__backoff_parse(in, &b, &err) != EMQ_OK) {
        FUZZ_CHECK(err.status == EMQ_E_INVALID && emq__utf8_valid(emq_cstr(err.text)));
        return;
    }
    emq_add_opts o = {.size = sizeof o};
    struct emq__opts checked;
    emq_str id, name;
    emq__backoff_to_public(&b, &o);
    FUZZ_CHECK(emq__opts_from_public(&o, &checked, &id, &name, &err) == EMQ_OK);
    for (int32_t a = 1; a > 0 && a < INT32_MAX / 2; a *= 2) {
        int64_t ms = emq__backoff_ms(&checked.backoff, a, 0.99);
        FUZZ_CHECK(ms >= 0 && ms <= EMQ__SPAN_MAX_MS && (b.max_ms == 0 || ms <= b.max_ms));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    emq_str in = emq_strn((const char *)data, size);
    struct emq__keep k;
    char text[40];
    int64_t ms = 0;

    as_span(in);
    as_backoff(in);
    if (emq__keep_parse(in, &k, NULL) == EMQ_OK) {
        FUZZ_CHECK(k.count >= -1 && k.age_ms >= 0 && k.age_ms <= EMQ__SPAN_MAX_MS);
        emq_add_opts o = {.size = sizeof o};
        struct emq__opts checked;
        emq_str id, name;
        emq__keep_to_public(&k, &o.keep_failed_count, &o.keep_failed_ms);
        FUZZ_CHECK(emq__opts_from_public(&o, &checked, &id, &name, NULL) == EMQ_OK);
        FUZZ_CHECK(checked.keep_failed.count == k.count && checked.keep_failed.age_ms == k.age_ms);
    }
    for (size_t i = 0; i < size && i < sizeof ms; i++)
        ms = (int64_t)((uint64_t)ms << 8 | data[i]);
    emq__duration_format(ms, text);
    return 0;
}
