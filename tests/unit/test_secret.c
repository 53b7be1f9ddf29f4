/* SPDX-License-Identifier: MIT
 *
 * Passwords of URLs, well written or not, are in no message; other words stay.
 */
#include "lib/test.h"

#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/str.h"

static const char *hidden(const char *text, char out[400])
{
    (void)snprintf(out, 400, "%s", text);
    (void)emq__hide_secrets(out, strlen(out));
    return out;
}

EMQ_TEST(passwords_of_urls_are_hidden_however_the_url_is_mistyped)
{
    static const char *const texts[][2] = {
        {"redis://ann:hush@h:1/2", "redis://xxxxxxxx@h:1/2"},
        {"unknown verb \"redis://ann:hush@h\"", "unknown verb \"redis://xxxxxxxx@h\""},
        {"Redis+TLS://:hu@sh@h", "Redis+TLS://xxxxxx@h"},
        {"redis//ann:hush@h", "redis//xxxxxxxx@h"},
        {"redis:ann:hush@h", "redis:xxxxxxxx@h"},
        {"redis:/ann:hush@h", "redis:/xxxxxxxx@h"},
        {"redis;//ann:hush@h", "redis;//xxxxxxxx@h"},
        {"redis:\\\\ann:hush@h", "redis:\\\\xxxxxxxx@h"},
        {"redis://ann:hush", "redis://ann:xxxx"},
        {"redis://h:1,ann:hush", "redis://h:1,ann:xxxx"},
        {"redis://h:1/ann:hush", "redis://h:1/ann:xxxx"},
        {"redis//ann:1hush", "redis//ann:xxxxx"},
        {"redis//ann:1234567", "redis//ann:xxxxxxx"},
        {"redis://ann:hush\" is", "redis://ann:xxxxxxxx"},
        {"redis://ann@hush", "redis://xxx@xxxx"},
        {"redis://ann:hush@h:hush", "redis://xxxxxxxx@h:xxxx"},
        {"redis%3A%2F%2Fann%3Ahush%40h", "redisxxxxxxxxxxxxxxxxxxxxxxx"},
        {"redis+sentinel://h/m?sentinel_password=hush&wait=1",
         "redis+sentinel://h/m?sentinel_password=xxxxxxxxxxx"},
        {"EMQ_URL=rediss+sentinel://ann:hush@h", "EMQ_URL=rediss+sentinel://xxxxxxxx@h"},
        {"rediz://ann:hush@h", "rediz://xxxxxxxx@h"},
        {"//ann:hush@h and me@h", "//xxxxxxxx@h and me@h"},
    };
    char out[400];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++) {
        CHECK_STR(emq_cstr(hidden(texts[i][0], out)), texts[i][1]);
        CHECK_STR(emq_cstr(hidden(texts[i][1], out)), texts[i][1]);
    }
}

EMQ_TEST(words_that_hide_nothing_stay_as_they_are)
{
    static const char *const texts[] = {
        "",
        "redis",
        "redis:",
        "redis://",
        "redis://localhost:6379/3?wait=2",
        "redis://[::1]:6379: connection refused",
        "redis+sentinel://h1:26379,h2/NAME",
        "redis+unix:///run/redis.sock",
        "it is no cluster: write redis: instead of redis+cluster:",
        "several hosts belong to redis+sentinel: or redis+cluster:, not to one server",
        "queue redis: job redis:a:b of ann",
        "/srv/redis/queue.db: no such file",
        "job ann@h is not delayed",
        "http://h/a:b",
    };
    char out[400];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        CHECK_STR(emq_cstr(hidden(texts[i], out)), texts[i]);
}

static void keep_line(void *user, int level, emq_str message)
{
    (void)level;
    (void)snprintf(user, 400, "%.*s", EMQ_STR_ARG(message));
}

EMQ_TEST(no_error_and_no_line_of_the_log_carries_a_password)
{
    char line[400] = "";
    struct emq__log log = {keep_line, line};
    emq_error err;

    emq__fail(&err, EMQ_E_INVALID, 0, "here", "\"%s\" is wrong", "redis://ann:hush@h");
    CHECK_STR(emq_cstr(err.text), "\"redis://xxxxxxxx@h\" is wrong");
    emq__log_write(&log, EMQ_LOG_WARN, "to %s", "redis://ann:hush@h");
    CHECK_STR(emq_cstr(line), "to redis://xxxxxxxx@h");
}
