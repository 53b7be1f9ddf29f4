/* SPDX-License-Identifier: MIT
 *
 * Statuses, errors and the log sink.
 */
#include "lib/test.h"

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

static const emq_status all[] = {
#define STATUS_ENTRY(name, number, text) EMQ_##name,
    EMQ_STATUS_MAP(STATUS_ENTRY)
#undef STATUS_ENTRY
};

EMQ_TEST(every_status_has_a_text_a_name_and_a_number_of_its_own)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(all); i++) {
        CHECK(strlen(emq_status_text(all[i])) > 3);
        CHECK(strcmp(emq_status_name(all[i]), "UNKNOWN") != 0);
        for (size_t k = 0; k < i; k++) {
            CHECK(all[i] != all[k]);
            CHECK(strcmp(emq_status_text(all[i]), emq_status_text(all[k])) != 0);
        }
    }
    CHECK_STR(emq_cstr(emq_status_name(EMQ_E_IN_DOUBT)), "E_IN_DOUBT");
    CHECK_STR(emq_cstr(emq_status_name(EMQ_OK)), "OK");
}

EMQ_TEST(a_status_from_the_future_has_a_text_and_is_not_retried)
{
    CHECK_STR(emq_cstr(emq_status_text((emq_status)-99)), "unknown status");
    CHECK_STR(emq_cstr(emq_status_name((emq_status)-99)), "UNKNOWN");
    CHECK_INT(emq__class_of((emq_status)-99), EMQ_CLASS_FATAL);
}

EMQ_TEST(only_failures_have_a_class)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(all); i++) {
        CHECK_INT(emq__class_of(all[i]) != EMQ_CLASS_NONE, emq__is_failure(all[i]));
    }
    CHECK_INT(emq__class_of(EMQ_E_UNAVAIL), EMQ_CLASS_RETRY_SAFE);
    CHECK_INT(emq__class_of(EMQ_E_IN_DOUBT), EMQ_CLASS_RETRY_DUPLICATE);
    CHECK_INT(emq__class_of(EMQ_E_CORRUPT), EMQ_CLASS_FATAL);
    CHECK_INT(emq__class_of(EMQ_E_INVALID), EMQ_CLASS_CALLER);
}

EMQ_TEST(the_version_is_the_projects)
{
    CHECK(emq_version()[0] >= '0' && emq_version()[0] <= '9');
    CHECK(strchr(emq_version(), '.'));
}

EMQ_TEST(a_failure_says_status_class_place_code_and_text)
{
    emq_error err;

    memset(&err, 0x5a, sizeof err);
    CHECK_STATUS(emq__fail(&err, EMQ_E_STORE, 11, "take", "page %d of %s", 7, "q.db"), EMQ_E_STORE);
    CHECK_INT(err.status, EMQ_E_STORE);
    CHECK_INT(err.cls, EMQ_CLASS_FATAL);
    CHECK_INT(err.native, 11);
    CHECK_INT(err.reserved, 0);
    CHECK_STR(emq_cstr(err.where), "take");
    CHECK_STR(emq_cstr(err.text), "page 7 of q.db");
}

EMQ_TEST(a_failure_without_an_error_to_fill_is_only_a_status)
{
    CHECK_STATUS(emq__fail(NULL, EMQ_E_NOMEM, 0, "x", "%s", "y"), EMQ_E_NOMEM);
}

EMQ_TEST(a_long_error_text_is_cut_at_a_character_and_marked)
{
    emq_error err;
    char text[5000];

    for (size_t i = 0; i + 4 <= sizeof text; i += 4)
        memcpy(text + i, "\xF0\x9F\x98\x80", 4);
    text[sizeof text - 4] = '\0';
    (void)emq__fail(&err, EMQ_E_INVALID, 0,
                    "a place whose name is far longer than the room for the name of a place", "x%s",
                    text);
    emq_str got = emq_cstr(err.text);
    CHECK(got.len < sizeof err.text);
    CHECK(got.len > 200);
    CHECK(emq__utf8_valid(got));
    CHECK_STR(emq_strn(got.ptr + got.len - 6, 6), " [cut]");
    CHECK_INT(strlen(err.where), sizeof err.where - 1);
}

EMQ_TEST(an_error_text_has_no_terminal_codes)
{
    emq_error err;

    (void)emq__fail(&err, EMQ_E_INVALID, 0, "add", "queue \"%s\"", "\x1b[2J\xff");
    CHECK_STR(emq_cstr(err.text), "queue \"?[2J\xEF\xBF\xBD\"");
}

struct sink {
    int calls, level;
    char text[2048];
    size_t len;
};

static void sink_fn(void *user, int level, emq_str message)
{
    struct sink *s = user;

    s->calls++;
    s->level = level;
    s->len = message.len;
    memcpy(s->text, message.ptr, message.len < sizeof s->text ? message.len : sizeof s->text);
}

EMQ_TEST(a_log_line_reaches_the_users_function_clean)
{
    struct sink s = {0};
    struct emq__log l = {sink_fn, &s};

    emq__log_write(&l, EMQ_LOG_WARN, "lock of %s lost\x07", "7");
    CHECK_INT(s.calls, 1);
    CHECK_INT(s.level, EMQ_LOG_WARN);
    CHECK_STR(emq_strn(s.text, s.len), "lock of 7 lost?");
}

EMQ_TEST(a_log_line_is_bounded)
{
    struct sink s = {0};
    struct emq__log l = {sink_fn, &s};
    char text[9000];

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    emq__log_write(&l, EMQ_LOG_INFO, "%s", text);
    CHECK_INT(s.len, 1024 + 6);
    CHECK_STR(emq_strn(s.text + s.len - 6, 6), " [cut]");
}

EMQ_TEST(without_a_log_function_nothing_is_written)
{
    struct emq__log l = {0};

    emq__log_write(&l, EMQ_LOG_ERROR, "%d", 1);
    emq__log_write(NULL, EMQ_LOG_ERROR, "%d", 1);
}
