/* SPDX-License-Identifier: MIT
 *
 * Lines of a batch file.
 */
#include "model/opts.h"

#include "model_expect.h"

EMQ_TEST(batch_line_fills_every_option)
{
    struct emq__arena mem = {0};
    emq_add_opts o;
    emq_str data;
    emq_error err = {0};
    const char *line =
        " {\"data\": {\"n\" : 1.50, \"big\":12345678901234567890}, "
        "\"name\":\"ma\\u0069l\",\"id\":\"a-1\","
        "\"group\":\"g\",\"delay\":\"5s\",\"timeout\":1500,\"timestamp\":1700000000000,"
        "\"priority\":7,"
        "\"attempts\":4,\"keepLogs\":9,\"lifo\":true,\"backoff\":\"fixed:2s,jitter=0.5\","
        "\"dedup\":{\"id\":\"d\",\"ttl\":\"1m\",\"mode\":\"extend\"},\"keepCompleted\":\"10,7d\","
        "\"keepFailed\":\"none\"}\r\n";

    CHECK_STATUS_ERR(emq__opts_from_batch(emq_cstr(line), &mem, &o, &data, &err), EMQ_OK, &err);
    CHECK_STR(data, "{\"n\" : 1.50, \"big\":12345678901234567890}");
    CHECK_INT(o.size, sizeof o);
    CHECK_STR(o.name, "mail");
    CHECK_STR(o.id, "a-1");
    CHECK_STR(o.group, "g");
    CHECK_INT(o.delay_ms, 5000);
    CHECK_INT(o.timeout_ms, 1500);
    CHECK_INT(o.timestamp_at_ms, 1700000000000);
    CHECK_INT(o.priority, 7);
    CHECK_INT(o.attempts, 4);
    CHECK_INT(o.keep_logs, 9);
    CHECK_INT(o.lifo, 1);
    CHECK_INT(o.backoff_type, EMQ_BACKOFF_FIXED);
    CHECK_INT(o.backoff_ms, 2000);
    CHECK_STR(o.dedup_id, "d");
    CHECK_INT(o.dedup_ttl_ms, 60000);
    CHECK_INT(o.dedup_mode, EMQ_DEDUP_EXTEND);
    CHECK_INT(o.keep_completed_count, 10);
    CHECK_INT(o.keep_completed_ms, 7 * 86400000);
    CHECK_INT(o.keep_failed_count, EMQ_KEEP_NONE);
    emq__arena_free(&mem);
}

EMQ_TEST(batch_line_takes_short_forms_and_keeps_the_bytes_of_data)
{
    static const struct {
        const char *line, *data;
    } table[] = {
        {"{}", ""},
        {"{\"text\":\"\"}", ""},
        {"{\"data\":null}", "null"},
        {"{\"data\":\"text\\u0020x\"}", "\"text\\u0020x\""},
        {"{\"data\":[1, 2]}", "[1, 2]"},
        {"{\"text\":\"a \\\"b\\\"\"}", "a \"b\""},
        {"{\"text\":\"\\ud83d\\uDE00 \\uFFFD \\\\ud800\"}",
         "\xF0\x9F\x98\x80 \xEF\xBF\xBD \\ud800"},
        {"{\"data\":\"\\ud800\"}", "\"\\ud800\""},
        {"{\"data\":1e2,\"delay\":0,\"dedup\":\"d\",\"dedupTtl\":5,\"dedupMode\":\"replace\"}",
         "1e2"},
        {"{\"data\":1,\"name\":null,\"delay\":null,\"keepFailed\":100}", "1"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++) {
        struct emq__arena mem = {0};
        emq_add_opts o;
        emq_str data;
        emq_error err = {0};
        CHECK_STATUS_ERR(emq__opts_from_batch(emq_cstr(table[i].line), &mem, &o, &data, &err),
                         EMQ_OK, &err);
        CHECK_STR(data, table[i].data);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(batch_line_is_refused_with_key_value_and_rule)
{
    static const struct {
        const char *line, *value, *rule;
    } bad[] = {
        {"", "byte 0", "JSON"},
        {"{\"data\":1,}", "byte 10", "JSON"},
        {"{\"data\":01}", "byte ", "JSON"},
        {"[1]", "[1] is no JSON object", "a line is one, such as {\"data\":{}"},
        {"7", "7 is no JSON object", "a line is one"},
        {"{} {}", "byte 3", "JSON"},
        {"{\"dat\":1}", "\"dat\"", "known: data, text, name"},
        {"{\"de\\u006cays\":1}", "\"delays\"", "known: data, text, name"},
        {"{\"\":1}", "\"\"", "known: data"},
        {"{\"queue\":\"q\"}", "\"queue\"", "known: data"},
        {"{\"data\":1,\"data\":2}", "\"data\"", "twice"},
        {"{\"data\":1,\"text\":\"b\"}", "\"text\"", "exclude"},
        {"{\"text\":\"b\",\"data\":1}", "\"text\"", "exclude"},
        {"{\"text\":\"\",\"data\":1}", "\"text\"", "exclude"},
        {"{\"text\":5}", "\"text\": 5", "a string"},
        {"{\"name\":5}", "\"name\": 5", "a string"},
        {"{\"name\":\"\"}", "\"name\"", "1 byte or more"},
        {"{\"delay\":\"5\"}", "\"delay\"", "unit"},
        {"{\"delay\":true}", "\"delay\": true", "span"},
        {"{\"delay\":1.5}", "\"delay\": 1.5", "whole milliseconds"},
        {"{\"delay\":-1}", "delay -1 ms", "100 years"},
        {"{\"delay\":\"36526d\"}", "36526d", "100 years"},
        {"{\"timeout\":1e30}", "\"timeout\": 1e30", "whole milliseconds"},
        {"{\"priority\":2097152}", "\"priority\": 2097152", "0..2097151"},
        {"{\"priority\":-1}", "\"priority\": -1", "whole number within 0..2097151"},
        {"{\"priority\":1.5}", "\"priority\": 1.5", "whole number within 0..2097151"},
        {"{\"priority\":99999999999}", "99999999999", "whole number within 0..2097151"},
        {"{\"priority\":\"1\"}", "\"priority\": \"1\"", "whole number within 0..2097151"},
        {"{\"attempts\":2.5}", "\"attempts\": 2.5", "whole number within 1..2147483647"},
        {"{\"attempts\":0}", "\"attempts\": 0", "whole number within 1..2147483647"},
        {"{\"attempts\":2147483648}", "2147483648", "whole number within 1..2147483647"},
        {"{\"keepLogs\":-1}", "\"keepLogs\": -1", "whole number within 1..1000000"},
        {"{\"keepLogs\":0}", "\"keepLogs\": 0", "whole number within 1..1000000"},
        {"{\"keepLogs\":1000001}", "1000001", "whole number within 1..1000000"},
        {"{\"text\":\"a\\ud800\"}", "\"text\": \"a\\ud800\"", "half of a surrogate pair"},
        {"{\"name\":\"\\udc00\\ud800\"}", "\"name\"", "half of a surrogate pair"},
        {"{\"id\":\"a\\ud800\\u0041\"}", "\"id\"", "half of a surrogate pair"},
        {"{\"group\":\"\\uDFFF\"}", "\"group\"", "half of a surrogate pair"},
        {"{\"dedup\":\"\\ud83d\"}", "\"dedup\"", "half of a surrogate pair"},
        {"{\"dedup\":{\"id\":\"\\ud83d\"}}", "\"id\"", "half of a surrogate pair"},
        {"{\"timestamp\":\"now\"}", "\"timestamp\": \"now\"", "whole number"},
        {"{\"lifo\":1}", "\"lifo\": 1", "true or false"},
        {"{\"backoff\":1000}", "\"backoff\": 1000", "a string"},
        {"{\"backoff\":\"fast\"}", "\"fast\"", "TYPE:DELAY"},
        {"{\"dedup\":{}}", "\"dedup\": {}", "no \"id\""},
        {"{\"dedup\":{\"id\":\"x\",\"window\":5}}", "\"window\"", "known: id, ttl, mode"},
        {"{\"dedup\":7}", "\"dedup\": 7", "dedup id"},
        {"{\"dedup\":{\"id\":\"x\",\"mode\":\"last\"}}", "\"last\"", "keep-last"},
        {"{\"dedupTtl\":5}", "dedup id", "without"},
        {"{\"keepCompleted\":true}", "\"keepCompleted\": true", "retention"},
        {"{\"keepCompleted\":\"7\\n\"}", "7?", "1000,7d"},
        {"{\"keepFailed\":-1}", "\"-1\"", "1000,7d"},
        {"{\"id\":\"12\"}", "\"12\"", "digits"},
        {"{\"group\":\"a\\u0000b\"}", "group", "0x00"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        struct emq__arena mem = {0};
        emq_add_opts o = {.size = 7};
        emq_str data = {0};
        emq_error err = {0};
        emq_status s = emq__opts_from_batch(emq_cstr(bad[i].line), &mem, &o, &data, &err);
        expect_refused(s, &err, bad[i].line, bad[i].value, bad[i].rule);
        CHECK_INT(o.size, 7);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(an_unknown_key_is_answered_with_every_known_one_however_long_it_is)
{
    static const char *const keys[] = {
        "data",    "text",      "name",     "id",        "group",         "delay",
        "timeout", "timestamp", "priority", "attempts",  "keepLogs",      "lifo",
        "backoff", "dedup",     "dedupTtl", "dedupMode", "keepCompleted", "keepFailed"};
    struct emq__arena mem = {0};
    emq_add_opts o;
    emq_str data;
    emq_error err = {0};

    CHECK_STATUS(
        emq__opts_from_batch(
            EMQ_STR_LIT("{\"a_key_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on\":1}"),
            &mem, &o, &data, &err),
        EMQ_E_INVALID);
    const char *at = strstr(err.text, "known: ");
    CHECK(at != NULL);
    at += strlen("known: ");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++) {
        CHECK(strncmp(at, keys[i], strlen(keys[i])) == 0);
        at += strlen(keys[i]);
        CHECK(strncmp(at, i + 1 < EMQ_ARRAY_LEN(keys) ? ", " : "", 2) == 0);
        at += 2;
    }
    emq__arena_free(&mem);
}
