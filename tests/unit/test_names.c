/* SPDX-License-Identifier: MIT
 *
 * Rules for names.
 */
#include "model/names.h"

#include "model_expect.h"

typedef emq_status (*check_fn)(emq_str, emq_error *);

static const struct {
    const char *what;
    check_fn check;
    size_t max;
} rules[] = {
    {"queue name", emq__check_queue, 128},  {"prefix", emq__check_prefix, 128},
    {"job id", emq__check_custom_id, 255},  {"job id", emq__check_id, 255},
    {"job name", emq__check_job_name, 255}, {"worker name", emq__check_worker, 128},
    {"dedup id", emq__check_dedup_id, 255}, {"group", emq__check_group, 255},
};

EMQ_TEST(every_name_takes_one_byte_up_to_its_maximum)
{
    char text[300];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(rules); i++) {
        emq_error err = {0};
        char range[32];
        CHECK_STATUS(rules[i].check(emq_strn(text, 1), NULL), EMQ_OK);
        CHECK_STATUS(rules[i].check(emq_strn(text, rules[i].max), NULL), EMQ_OK);
        snprintf(range, sizeof range, "1..%zu", rules[i].max);
        expect_refused(rules[i].check(emq_strn(text, rules[i].max + 1), &err), &err, rules[i].what,
                       "\"xxx", range);
        CHECK(strstr(err.text, rules[i].what) != NULL);
        expect_refused(rules[i].check(emq_strn(NULL, 0), &err), &err, rules[i].what, "empty",
                       range);
    }
}

EMQ_TEST(every_name_refuses_control_bytes_and_broken_utf8)
{
    static const char *const broken[] = {"a\xff", "\xc0\x80", "\xed\xa0\x80", "a\xe2\x82"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(rules); i++) {
        emq_error err = {0};
        for (int ch = 0; ch < 128; ch = ch == 31 ? 127 : ch + 1) {
            char name[3] = {'a', (char)ch, 'b'}, hex[8];
            snprintf(hex, sizeof hex, "0x%02x", (unsigned)ch);
            expect_refused(rules[i].check(emq_strn(name, 3), &err), &err, rules[i].what, hex,
                           "offset 1");
        }
        for (size_t b = 0; b < EMQ_ARRAY_LEN(broken); b++)
            expect_refused(rules[i].check(emq_cstr(broken[b]), &err), &err, rules[i].what, NULL,
                           "UTF-8");
        CHECK_STATUS(rules[i].check(emq_cstr("gr\xc3\xbc\xc3\x9f-\xf0\x9f\x90\x8b"), NULL), EMQ_OK);
    }
}

EMQ_TEST(queue_name_has_no_colon_and_a_prefix_may)
{
    emq_error err = {0};

    expect_refused(emq__check_queue(emq_cstr("a:b"), &err), &err, "a:b", "\"a:b\"",
                   "':' at offset 1");
    CHECK_STATUS(emq__check_prefix(emq_cstr("a:b"), NULL), EMQ_OK);
    CHECK_STATUS(emq__check_queue(emq_cstr("{a} b%*"), NULL), EMQ_OK);
}

EMQ_TEST(worker_name_has_no_space)
{
    emq_error err = {0};

    expect_refused(emq__check_worker(emq_cstr("my host"), &err), &err, "my host", "\"my host\"",
                   "space at offset 2");
    CHECK_STATUS(emq__check_worker(emq_cstr("host:12:3"), NULL), EMQ_OK);
}

EMQ_TEST(custom_id_leaves_the_counter_and_markers_alone)
{
    static const char *const good[] = {"a",   "1a",  "-1",  "1.0",     "repeat:x:123",
                                       "a::", "00x", "ids", "failed1", "de"};
    static const struct {
        const char *id, *rule;
    } bad[] = {
        {"0", "digits"},      {"7", "digits"},
        {"00123", "digits"},  {"0:", "0:"},
        {"0:1:2", "0:"},      {"id", "key"},
        {"failed", "key"},    {"waiting-children", "key"},
        {"de:a:b", "key"},    {"a:b", "exactly two"},
        {":", "exactly two"}, {"a:b:c:d", "exactly two"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(good); i++)
        CHECK_STATUS(emq__check_custom_id(emq_cstr(good[i]), NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        emq_error err = {0};
        expect_refused(emq__check_custom_id(emq_cstr(bad[i].id), &err), &err, bad[i].id, bad[i].id,
                       bad[i].rule);
        CHECK_STATUS(emq__check_id(emq_cstr(bad[i].id), NULL), EMQ_OK);
    }
}
