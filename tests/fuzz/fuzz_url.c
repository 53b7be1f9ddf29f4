/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a store URL, and as every kind of name. What is accepted has no NUL inside; what is
 * refused says why in clean text.
 */
#include "fuzz.h"

#include "base/str.h"
#include "model/names.h"
#include "model/url.h"

#include <string.h>

static void check_text(emq_str s)
{
    FUZZ_CHECK(s.ptr && !memchr(s.ptr, '\0', s.len) && s.ptr[s.len] == '\0');
}

static void as_names(emq_str in)
{
    static emq_status (*const checks[])(emq_str, emq_error *) = {
        emq__check_queue,  emq__check_prefix,   emq__check_custom_id, emq__check_id,
        emq__check_worker, emq__check_job_name, emq__check_dedup_id,  emq__check_group,
    };
    emq_error err;

    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (checks[i](in, &err) == EMQ_OK)
            FUZZ_CHECK(in.len >= 1 && in.len <= 255 && emq__utf8_valid(in));
        else
            FUZZ_CHECK(err.text[0] != '\0' && emq__utf8_valid(emq_cstr(err.text)));
    }
    if (emq__check_custom_id(in, NULL) == EMQ_OK)
        FUZZ_CHECK(emq__check_id(in, NULL) == EMQ_OK);
    (void)emq_state_parse(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    emq_str in = emq_strn((const char *)data, size);
    struct emq__arena mem = {0};
    struct emq__url u;
    emq_error err;

    if (emq__url_parse(in, &mem, &u, &err) == EMQ_OK) {
        check_text(u.scheme);
        check_text(u.path);
        FUZZ_CHECK(u.scheme.len > 0 && u.n_params <= 16);
        for (size_t i = 0; i < u.n_params; i++) {
            check_text(u.params[i].key);
            check_text(u.params[i].value);
            FUZZ_CHECK(emq__url_param(&u, u.params[i].key.ptr) == &u.params[i].value);
        }
    } else {
        FUZZ_CHECK(err.status == EMQ_E_INVALID && err.text[0] != '\0');
        FUZZ_CHECK(emq__utf8_valid(emq_cstr(err.text)));
    }
    emq__arena_free(&mem);
    as_names(in);
    return 0;
}
