/* SPDX-License-Identifier: MIT
 *
 * What a setting of a queue may be, the same on every engine: a value that can't be meant would stop a queue
 * without a word.
 */
#include "engine/engine.h"

#include "base/error.h"
#include "base/str.h"

static emq_status check_one(const struct emq__meta_field *f, emq_error *err)
{
    static const struct {
        const char *field;
        int64_t least;
    } numbers[] = {{"concurrency", 1}, {"max", 1}, {"duration", 1}, {"opts.maxLenEvents", 0}};
    int64_t v;

    if (!f->field.len || f->field.len > EMQ_ID_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "meta",
                         "the name of a setting has 1..%d bytes, not %zu", EMQ_ID_MAX,
                         f->field.len);
    if (emq__str_starts(f->field, "emq:"))
        return emq__fail(err, EMQ_E_INVALID, 0, "meta",
                         "\"%.*s\": names that begin with \"emq:\" are the engine's own",
                         EMQ_STR_ARG(f->field));
    for (size_t i = 0; f->value.len && i < EMQ_ARRAY_LEN(numbers); i++)
        if (emq__str_is(f->field, numbers[i].field) &&
            (!emq__str_to_i64(f->value, &v) || v < numbers[i].least || v > INT64_C(1) << 53))
            return emq__fail(err, EMQ_E_INVALID, 0, "meta",
                             "%s \"%.*s\" is no whole number of at least %lld", numbers[i].field,
                             EMQ_STR_ARG(f->value), (long long)numbers[i].least);
    return EMQ_OK;
}

emq_status emq__meta_check(const struct emq__meta_req *req, emq_error *err)
{
    emq_status s = EMQ_OK;

    for (size_t i = 0; i < req->n_set && s == EMQ_OK; i++)
        s = check_one(&req->set[i], err);
    return s;
}
