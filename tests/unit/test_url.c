/* SPDX-License-Identifier: MIT
 *
 * Store URLs.
 */
#include "model/url.h"

#include "model_expect.h"

EMQ_TEST(url_splits_scheme_path_and_parameters)
{
    static const struct {
        const char *text, *scheme, *path, *sync, *prefix;
    } table[] = {
        {"sqlite:queue.db", "sqlite", "queue.db", NULL, NULL},
        {"SQLite:/a/b?sync=full", "sqlite", "/a/b", "full", NULL},
        {"sqlite::memory:", "sqlite", ":memory:", NULL, NULL},
        {"sqlite:", "sqlite", "", NULL, NULL},
        {"sqlite:x?", "sqlite", "x", NULL, NULL},
        {"sqlite:a%20b%3F%25%c3%BC?prefix=bull%26co&sync=off", "sqlite", "a b?%\xc3\xbc", "off",
         "bull&co"},
        {"sqlite:a?sync=", "sqlite", "a", "", NULL},
        {"sqlite:a?sync=a=b?c", "sqlite", "a", "a=b?c", NULL},
        {"redis+unix:///run/x.sock?prefix=q", "redis+unix", "///run/x.sock", NULL, "q"},
        {"redis://u:p@h:1/0", "redis", "//u:p@h:1/0", NULL, NULL},
        {"/a?b%zz=c&d", "sqlite", "/a?b%zz=c&d", NULL, NULL},
        {"./q.db", "sqlite", "./q.db", NULL, NULL},
        {".", "sqlite", ".", NULL, NULL},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__arena mem = {0};
        struct emq__url u;
        emq_error err = {0};
        CHECK_STATUS_ERR(emq__url_parse(emq_cstr(table[i].text), &mem, &u, &err), EMQ_OK, &err);
        CHECK_STR(u.scheme, table[i].scheme);
        CHECK_STR(u.path, table[i].path);
        CHECK_INT(u.path.ptr[u.path.len], 0);
        const emq_str *sync = emq__url_param(&u, "sync"), *prefix = emq__url_param(&u, "prefix");
        CHECK_INT(sync != NULL, table[i].sync != NULL);
        CHECK_INT(prefix != NULL, table[i].prefix != NULL);
        if (sync)
            CHECK_STR(*sync, table[i].sync);
        if (prefix)
            CHECK_STR(*prefix, table[i].prefix);
        CHECK(emq__url_param(&u, "none") == NULL);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(url_takes_sixteen_parameters_and_refuses_the_seventeenth)
{
    char text[256] = "sqlite:x?";
    struct emq__arena mem = {0};
    struct emq__url u;
    emq_error err = {0};
    size_t n = strlen(text);

    for (int i = 0; i < 17; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%sp%d=%d", i ? "&" : "", i, i);
        if (i == 15) {
            CHECK_STATUS(emq__url_parse(emq_cstr(text), &mem, &u, NULL), EMQ_OK);
            CHECK_INT(u.n_params, 16);
        }
    }
    expect_refused(emq__url_parse(emq_cstr(text), &mem, &u, &err), &err, text, "16", "parameters");
    emq__arena_free(&mem);
}

EMQ_TEST(url_refuses_with_the_place_and_what_to_write)
{
    static const struct {
        const char *text;
        size_t len;
        const char *value, *rule;
    } bad[] = {
        {"", 0, "empty", "sqlite:PATH"},
        {"queue.db", 8, "\"queue.db\"", "sqlite:PATH"},
        {":memory:", 8, "\"...\"", "no scheme"},
        {"1a:x", 4, "\"...\"", "no scheme"},
        {"a b:x", 5, "\"...\"", "no scheme"},
        {"sqlite:%", 8, "offset 7", "two hex digits"},
        {"sqlite:a%2", 10, "offset 8", "two hex digits"},
        {"sqlite:a%2g", 11, "offset 8", "%25"},
        {"sqlite:a?x=%-1", 14, "offset 11", "two hex digits"},
        {"sqlite:a%00b", 12, "NUL", "none are allowed"},
        {"sqlite:a\0b", 10, "NUL", "none are allowed"},
        {"/a\0b", 4, "offset 2", "NUL"},
        {"sqlite:a?sync", 13, "offset 9", "key=value"},
        {"sqlite:a?=x", 11, "offset 9", "key=value"},
        {"sqlite:a?x=1&&y=2", 17, "offset 13", "key=value"},
        {"sqlite:a?x=1&", 13, "offset 12", "'&'"},
        {"sqlite:a?x=1&x=2", 16, "\"x\"", "twice"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__arena mem = {0};
        struct emq__url u;
        emq_error err = {0};
        emq_status s = emq__url_parse(emq_strn(bad[i].text, bad[i].len), &mem, &u, &err);
        expect_refused(s, &err, bad[i].text, bad[i].value, bad[i].rule);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(url_messages_never_carry_a_password)
{
    static const char *const bad[] = {
        "redis://u:hunter2@h?x",
        "redis://u:hunter2%@h",
        "redis://u:hunter2@h?a=1&a=hunter2",
        "redis://u:p?hunter2=1&hunter2=2@h",
        "redis//u:hunter2@h",
        "u@hunter2",
        ":hunter2@h",
        "hunter2@h",
        "redis%3A//u:hunter2@h",
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__arena mem = {0};
        struct emq__url u;
        emq_error err = {0};
        CHECK_STATUS(emq__url_parse(emq_cstr(bad[i]), &mem, &u, &err), EMQ_E_INVALID);
        CHECK(strstr(err.text, "hunter2") == NULL);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(url_takes_a_prefix_and_keeps_the_rest)
{
    static const struct {
        const char *url, *prefix, *out;
    } table[] = {
        {"sqlite:/a%20b.db", "yy", "sqlite:/a%20b.db?prefix=yy"},
        {"sqlite:q.db?sync=off", "yy", "sqlite:q.db?sync=off&prefix=yy"},
        {"sqlite:q.db?prefix=zz", "yy", "sqlite:q.db?prefix=yy"},
        {"sqlite:q.db?pre%66ix=zz&sync=off", "yy", "sqlite:q.db?sync=off&prefix=yy"},
        {"redis://u:p%40@h:1/2?wait=1&prefix=zz&db=3", "a&b%{c}:d",
         "redis://u:p%40@h:1/2?wait=1&db=3&prefix=a%26b%25%7Bc%7D:d"},
        {"/tmp/100% a?b.db", "yy", "sqlite:/tmp/100%25%20a%3Fb.db?prefix=yy"},
        {"./q.db", "\xc3\xbc", "sqlite:./q.db?prefix=%C3%BC"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__arena mem = {0};
        struct emq__url u;
        emq_error err = {0};
        emq_str out = {0};
        CHECK_STATUS_ERR(emq__url_with_prefix(emq_cstr(table[i].url), emq_cstr(table[i].prefix),
                                              &mem, &out, &err),
                         EMQ_OK, &err);
        CHECK_STR(out, table[i].out);
        CHECK_STATUS_ERR(emq__url_parse(out, &mem, &u, &err), EMQ_OK, &err);
        CHECK_STR(*emq__url_param(&u, "prefix"), table[i].prefix);
        emq__arena_free(&mem);
    }
}
