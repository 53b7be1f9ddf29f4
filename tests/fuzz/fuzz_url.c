/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a store URL, and as every kind of name. What is accepted has no NUL inside; what is
 * refused says why in clean text. As the password of a URL, mistyped or not, they are in no message.
 */
#include "fuzz.h"

#include "base/secret.h"
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

/* One with an 'x' might be found in what is written over it. One that begins with a digit may be a port,
 * and one that begins with a space may be the next word. */
static bool is_password(emq_str in)
{
    return in.len >= 6 && in.len < 400 && !emq__is_digit(in.ptr[0]) && in.ptr[0] != ' ' &&
           in.ptr[0] != '\n' && !memchr(in.ptr, 'x', in.len) && !memchr(in.ptr, '\0', in.len);
}

static void as_password(emq_str in)
{
    static const char *const around[][2] = {
        {"redis://u:", "@h"},    {"redis//u:", "@h"},
        {"redis:u:", "@h"},      {"redis:/u:", "@h,h2:2/"},
        {"Redis+TLS://:", "@h"}, {"redis://u:", ""},
        {"redis;//:", ""},       {"redis+sentinel://h/m?sentinel_password=", ""},
    };
    static const char *const message[][2] = {
        {"", ""}, {"", ": no such file"}, {"\"", "\" is no number: write 1"}};
    char text[800];

    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        if (!around[i][1][0] && memchr(in.ptr, '@', in.len))
            continue; /* what stands behind it is the host */
        for (size_t j = 0; j < sizeof message / sizeof message[0]; j++) {
            (void)snprintf(text, sizeof text, "%s%s%.*s%s%s", message[j][0], around[i][0],
                           EMQ_STR_ARG(in), around[i][1], message[j][1]);
            (void)emq__hide_secrets(text, strlen(text));
            const char *seen = memmem(text, strlen(text), in.ptr, in.len);
            FUZZ_CHECK(!seen || memmem(around[i][0], strlen(around[i][0]), in.ptr, in.len) ||
                       memmem(message[j][1], strlen(message[j][1]), in.ptr, in.len));
        }
    }
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
    if (is_password(in))
        as_password(in);
    return 0;
}
