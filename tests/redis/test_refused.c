/* SPDX-License-Identifier: MIT
 *
 * What a server refuses, or cannot do now: each as what it is, named, and never with the password. And what
 * a URL may say.
 */
#include "engine/redis/error.h"
#include "redis/fake.h"
#include "redis/ground.h"

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>

static emq_status try_as(const char *user_password, const char *path, emq_error *err)
{
    struct emq__engine *e;
    char url[200];

    (void)snprintf(url, sizeof url, "redis://%s127.0.0.1:%d%s", user_password, the_server()->port,
                   path);
    emq_status s = try_url(url, PATIENCE_MS, &e, err);
    if (s == EMQ_OK)
        e->ops->close(e);
    return s;
}

/* ---- who may ------------------------------------------------------------------------------------- */

EMQ_TEST(a_wrong_password_is_refused_and_not_shown)
{
    emq_error err = {0};

    (void)SERVER_DO("ACL SETUSER ann on >%s ~* &* +@all", "p@ss:w/rd%");
    CHECK_STATUS_ERR(try_as("ann:p%40ss%3Aw%2Frd%25@", "", &err), EMQ_OK, &err);
    CHECK_STATUS(try_as("ann:hush-hush@", "", &err), EMQ_E_REFUSED);
    CHECK_TEXT(err, "user or password are wrong");
    assert_null(strstr(err.text, "hush"));
    CHECK_STATUS(try_as("ann@", "", &err), EMQ_E_INVALID);
    CHECK_TEXT(err, "user without a password");
    (void)SERVER_DO("ACL DELUSER ann");
}

EMQ_TEST(a_server_that_wants_a_password_says_so)
{
    struct server *s = START(.password = "secret");
    struct emq__engine *e;
    emq_error err = {0};
    char url[100];

    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_REFUSED);
    CHECK_TEXT(err, "it wants a password");
    (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main", s->port);
    CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_REFUSED);
    CHECK_TEXT(err, "?sentinel_password=");
    /* Beside one that is not there, whichever comes first. */
    for (int i = 0; i < 2; i++) {
        (void)snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main",
                       i ? s->port : 1, i ? 1 : s->port);
        CHECK_STATUS(try_url(url, PATIENCE_MS, &e, &err), EMQ_E_REFUSED);
        CHECK_TEXT(err, "?sentinel_password=");
    }
    CHECK_STATUS_ERR(try_url(s->url, PATIENCE_MS, &e, &err), EMQ_OK, &err);
    e->ops->close(e);
    server_end(s);
}

EMQ_TEST(a_user_who_may_not_run_scripts_is_told_which_right_is_missing)
{
    emq_error err = {0};
    struct emq__engine *e;
    char url[100];

    (void)SERVER_DO("ACL SETUSER bob on >pw ~* &* +@all -@scripting -info -client|setname");
    (void)snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", the_server()->port);
    /* Neither INFO nor a name are needed. */
    CHECK_STATUS_ERR(try_url(url, PATIENCE_MS, &e, &err), EMQ_OK, &err);
    struct add a = {.e = e};
    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_REFUSED);
    CHECK_TEXT(a.err, "may not do that");
    CHECK_TEXT(a.err, "script");
    e->ops->close(e);
    (void)SERVER_DO("ACL DELUSER bob");
}

static emq_status take_as(struct emq__engine *e, size_t *n, emq_error *err)
{
    struct emq__take_req req = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(5)};
    struct emq__take_res res = {0};
    struct emq__arena mem = {0};

    emq_status s = e->ops->take(e, &req, &res, &mem, err);
    *n = res.taken.n;
    emq__arena_free(&mem);
    return s;
}

EMQ_TEST(a_user_who_may_not_reach_a_key_is_told_which_and_no_job_is_taken_for_lost)
{
    static const char *const cases[][3] = {
        {"~emq:q:[^m]*", "~emq::*", "the key \"emq:q:meta\""},
        {"~emq:q:[^i]*", "~emq::*", "the key \"emq:q:id\""},
        {"~emq:q:*", "~emq:p:*", "the key \"emq::emq:q:"},
    };
    char url[100];
    emq_error err;
    size_t n;

    (void)SERVER_DO("DEL emq:q:wait emq:q:meta emq:q:id emq:q:events emq:q:marker");
    (void)snprintf(url, sizeof url, "redis://bob:pw@127.0.0.1:%d", the_server()->port);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        (void)SERVER_DO("ACL SETUSER bob reset on >pw %s %s &* +@all", cases[i][0], cases[i][1]);
        struct add a = {.e = open_url(url, PATIENCE_MS)};
        CHECK_STATUS(add_data(&a, S("1")), EMQ_E_REFUSED);
        CHECK_TEXT(a.err, cases[i][2]);
        CHECK_TEXT(a.err, "~emq:*");
        a.e->ops->close(a.e);
    }
    /* All but the records of jobs whose ids begin with a digit: a job that can't be read is not gone. */
    struct emq__engine *e = open_url(the_server()->url, PATIENCE_MS);
    must_add_to(e, "q");
    e->ops->close(e);
    (void)SERVER_DO("ACL SETUSER bob reset on >pw ~emq:q:[^0-9]* ~emq::* &* +@all");
    e = open_url(url, PATIENCE_MS);
    CHECK_STATUS(take_as(e, &n, &err), EMQ_E_REFUSED);
    CHECK_TEXT(err, "the key \"emq:q:1\"");
    e->ops->close(e);
    assert_string_equal(SERVER_DO("LRANGE emq:q:wait 0 -1"), "1");
    (void)SERVER_DO("ACL DELUSER bob");
}

EMQ_TEST(a_read_only_replica_can_be_looked_at_and_refuses_what_changes_anything)
{
    struct server *replica = start_plain();
    struct emq__stats_res res;
    emq_error err = {0};

    struct emq__engine *e = open_port(replica->port, PATIENCE_MS);
    must_add_to(e, "q");
    e->ops->close(e);
    (void)server_command(replica, "REPLICAOF 127.0.0.1 1");
    struct add a = {.e = open_port(replica->port, PATIENCE_MS)};
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &err), EMQ_OK, &err);
    CHECK_INT(res.count[EMQ_WAITING], 1);
    CHECK(res.read_only);
    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_REFUSED);
    CHECK_TEXT(a.err, "read-only replica of 127.0.0.1:1");
    (void)server_command(replica, "REPLICAOF NO ONE");
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    CHECK_STATUS_ERR(stats_of(a.e, "q", &res, &err), EMQ_OK, &err);
    CHECK(!res.read_only);
    CHECK_INT(res.count[EMQ_WAITING], 2);
    a.e->ops->close(a.e);
    server_end(replica);
}

EMQ_TEST(a_server_that_becomes_a_replica_is_waited_for_and_then_named)
{
    struct server *s = start_plain();
    struct add a = {.e = open_port(s->port, SHORT_MS), .session = ""};

    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    (void)server_command(s, "REPLICAOF 127.0.0.1 %d", the_server()->port);
    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_UNAVAIL);
    CHECK_TEXT(a.err, "read-only replica");
    (void)server_command(s, "REPLICAOF NO ONE");
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    a.e->ops->close(a.e);
    server_end(s);
}

/* ---- how old it may be ----------------------------------------------------------------------------- */

EMQ_TEST(a_server_that_is_too_old_is_refused_with_its_version)
{
    static const struct {
        const char *info;
        emq_status status;
        const char *text;
    } cases[] = {
        {"redis_version:6.0.16\r\n", EMQ_E_VERSION, "Redis 6.0.16: 6.2 or newer"},
        {"# Server\r\nredis_version:5.0.0\r\nos:Linux\r\n", EMQ_E_VERSION, "Redis 5.0.0"},
        {"redis_version:6.2.0\r\n", EMQ_OK, ""},
        {"redis_version:10.0.1\r\n", EMQ_OK, ""},
        {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.1.9\r\n", EMQ_E_VERSION,
         "Valkey 7.1.9: 7.2 or newer"},
        {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", EMQ_OK, ""},
        {"", EMQ_OK, ""}, /* one that does not say what it is */
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        struct emq__engine *e;
        struct fake f = {.info = cases[i].info};
        emq_error err = {0};
        char url[60];
        fake_start(&f);
        (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", f.port);
        CHECK_STATUS_ERR(try_url(url, PATIENCE_MS, &e, &err), cases[i].status, &err);
        if (cases[i].status == EMQ_OK)
            e->ops->close(e);
        else
            CHECK_TEXT(err, cases[i].text);
        fake_end(&f);
    }
}

/* ---- what it can't do now -------------------------------------------------------------------------- */

static void *run_for_ever(void *arg)
{
    struct emq__engine *e = arg;
    struct emq__arena mem = {0};
    const struct rd_reply *r;
    struct rd_cmd cmd;

    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "EVAL");
    rd_cmd_text(&cmd, "while true do end");
    rd_cmd_text(&cmd, "0");
    (void)rd_command_once(rd_of(e), 0, &cmd, &mem, PATIENCE_MS, &r, NULL);
    emq__arena_free(&mem);
    return NULL;
}

EMQ_TEST(a_server_held_by_a_script_is_busy_and_serves_again_later)
{
    struct server *s = START(.conf = "busy-reply-threshold 20");
    struct emq__engine *other = open_port(s->port, PATIENCE_MS);
    struct add a = {.e = open_port(s->port, SHORT_MS), .session = ""};
    pthread_t thread;

    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    CHECK_INT(pthread_create(&thread, NULL, run_for_ever, other), 0);
    while (strncmp(server_command(s, "PING"), "BUSY", 4) != 0)
        ;
    struct emq__mono start = emq__mono_now();
    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_BUSY);
    CHECK(since(start) < 5 * SHORT_MS);
    CHECK_TEXT(a.err, "script holds the server");
    (void)server_command(s, "SCRIPT KILL");
    (void)pthread_join(thread, NULL);
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    CHECK_INT(waiting_in(a.e, "q"), 2);
    a.e->ops->close(a.e);
    other->ops->close(other);
    server_end(s);
}

EMQ_TEST(a_server_out_of_memory_adds_nothing_and_says_so)
{
    struct server *s = start_plain();
    struct add a = {.e = open_port(s->port, PATIENCE_MS), .session = ""};

    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    (void)server_command(s, "CONFIG SET maxmemory 1");
    CHECK_STATUS(add_data(&a, S("1")), EMQ_E_FULL);
    CHECK_TEXT(a.err, "out of memory and nothing was changed");
    (void)server_command(s, "CONFIG SET maxmemory 0");
    CHECK_INT(waiting_in(a.e, "q"), 1);
    CHECK_STATUS_ERR(add_data(&a, S("1")), EMQ_OK, &a.err);
    a.e->ops->close(a.e);
    server_end(s);
}

struct seen {
    atomic_int warned;
};

static void look_for_policy(void *user, int level, emq_str text)
{
    struct seen *seen = user;

    if (level == EMQ_LOG_WARN && memmem(text.ptr, text.len, "allkeys-lru", 11))
        atomic_fetch_add(&seen->warned, 1);
}

EMQ_TEST(a_server_that_may_evict_jobs_is_warned_of)
{
    struct server *s = START(.conf = "maxmemory-policy allkeys-lru");
    struct seen seen = {0};
    struct emq__engine_config cfg = {.log = {look_for_policy, &seen}};
    struct emq__arena mem = {0};
    struct emq__engine *e;
    emq_error err = {0};

    CHECK_STATUS(emq__url_parse(emq_cstr(s->url), &mem, &cfg.url, &err), EMQ_OK);
    CHECK_STATUS_ERR(emq__redis_open(&e, &cfg, &mem, &err), EMQ_OK, &err);
    CHECK_INT(atomic_load(&seen.warned), 1);
    emq__arena_free(&mem);
    e->ops->close(e);
    server_end(s);
}

EMQ_TEST(a_key_that_belongs_to_something_else_is_named)
{
    struct emq__engine *e = open_port(the_server()->port, PATIENCE_MS);
    const char *keys[] = {"wait", "meta", "id"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++) {
        struct add a = {.e = e, .session = ""};
        char key[40];
        (void)SERVER_DO("FLUSHALL");
        (void)snprintf(key, sizeof key, "emq:q:%s", keys[i]);
        (void)SERVER_DO("SADD %s x", key);
        CHECK_STATUS(add_data(&a, S("1")), EMQ_E_INVALID);
        CHECK_TEXT(a.err, key);
        CHECK_TEXT(a.err, "is a set");
    }
    (void)SERVER_DO("FLUSHALL");
    e->ops->close(e);
}

/* ---- what replies mean ----------------------------------------------------------------------------- */

EMQ_TEST(every_refusal_is_said_with_what_to_do_and_asked_again_only_if_that_may_help)
{
    static const struct {
        const char *answer;
        emq_status status;
        bool again;
        const char *text;
    } cases[] = {
        {"-LOADING Redis is loading", EMQ_E_UNAVAIL, true, "is loading its data"},
        {"-MASTERDOWN Link with MASTER is down", EMQ_E_UNAVAIL, true, "has lost its primary"},
        {"-CLUSTERDOWN Hash slot not served", EMQ_E_UNAVAIL, true, "does not serve this slot now"},
        {"-TRYAGAIN Multiple keys request", EMQ_E_UNAVAIL, true, "slot is being moved"},
        {"-READONLY You can't write", EMQ_E_UNAVAIL, true, "read-only replica"},
        {"-NOSCRIPT No matching script.", EMQ_E_UNAVAIL, true, "forgets scripts at once"},
        {"-BUSY Redis is busy running a script", EMQ_E_BUSY, true, "script holds the server"},
        {"-OOM command not allowed", EMQ_E_FULL, false, "out of memory and nothing was changed"},
        {"-MISCONF Redis is configured to save", EMQ_E_FULL, false, "can't write its disk"},
        {"-NOAUTH Authentication required.", EMQ_E_REFUSED, false, "wants a password"},
        {"-NOPERM this user has no permissions", EMQ_E_REFUSED, false, "ACL SETUSER"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        struct fake f = {.info = "redis_version:7.0.15\r\n", .answer = cases[i].answer};
        fake_start(&f);
        struct add a = {.e = open_port(f.port, SHORT_MS), .session = ""};
        CHECK_STATUS_ERR(add_data(&a, S("1")), cases[i].status, &a.err);
        CHECK_TEXT(a.err, cases[i].text);
        if ((atomic_load(&f.asked) > 1) != cases[i].again)
            fail_msg("%s: asked %d times", cases[i].answer, atomic_load(&f.asked));
        a.e->ops->close(a.e);
        fake_end(&f);
    }
}

EMQ_TEST(error_replies_of_old_and_new_servers_mean_the_same)
{
    static const struct {
        const char *reply;
        enum rd_verdict verdict;
        emq_status status;
        const char *text;
    } cases[] = {
        {"LOADING Redis is loading the dataset in memory", RD_AGAIN, EMQ_E_UNAVAIL,
         "Redis is loading"},
        {"MASTERDOWN Link with MASTER is down", RD_AGAIN, EMQ_E_UNAVAIL, "Link"},
        {"CLUSTERDOWN The cluster is down", RD_AGAIN, EMQ_E_UNAVAIL, "The cluster"},
        {"TRYAGAIN Multiple keys request during rehashing of slot", RD_AGAIN, EMQ_E_UNAVAIL,
         "Multiple"},
        {"BUSY Redis is busy running a script.", RD_AGAIN, EMQ_E_BUSY, "Redis is busy"},
        {"READONLY You can't write against a read only replica.", RD_RECONNECT, EMQ_E_UNAVAIL,
         "You"},
        {"READONLY You can't write against a read only replica. script: 1f, on @user_script:3.",
         RD_RECONNECT, EMQ_E_UNAVAIL, "You can't write against a read only replica."},
        {"ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: -READONLY You "
         "can't "
         "write against a read only replica.",
         RD_RECONNECT, EMQ_E_UNAVAIL, "You can't write against a read only replica."},
        {"ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -OOM command "
         "not allowed "
         "when used memory > 'maxmemory'.",
         RD_FINAL, EMQ_E_FULL, "command not allowed when used memory > 'maxmemory'."},
        {"OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3.",
         RD_FINAL, EMQ_E_FULL, "command not allowed when used memory > 'maxmemory'."},
        {"ERR Error running script (call to f_ab): @user_script:7: WRONGTYPE Operation against a "
         "key "
         "holding the wrong kind of value",
         RD_FINAL, EMQ_E_INVALID, "Operation"},
        {"ERR WRONGTYPE Operation against a key holding the wrong kind of value script: 1f, on "
         "@user_script:3.",
         RD_FINAL, EMQ_E_INVALID, "Operation against a key holding the wrong kind of value"},
        {"ERR user_script:2: attempt to index a nil value script: 1f, on @user_script:2.", RD_FINAL,
         EMQ_E_STORE, "user_script:2: attempt to index a nil value"},
        {"NOSCRIPT No matching script.", RD_LOAD, EMQ_E_UNAVAIL, "No matching"},
        {"NOPERM this user has no permissions", RD_FINAL, EMQ_E_REFUSED, "this user"},
        {"ERR The user executing the script can't access at least one of the keys mentioned in the "
         "command arguments script: 1f, on @user_script:3.",
         RD_FINAL, EMQ_E_REFUSED, "The user executing the script can't access at least one"},
        {"ERR ACL failure in script: No permissions to access a key script: 1f, on @user_script:3.",
         RD_FINAL, EMQ_E_REFUSED, "ACL failure in script: No permissions to access a key"},
        {"ERR value is not an integer or out of range script: 1f, on @user_script:3.", RD_FINAL,
         EMQ_E_INVALID, "value is not an integer"},
        {"ERR max number of clients reached", RD_AGAIN, EMQ_E_UNAVAIL, "max number"},
        {"EMQ sequence 3 is behind 5", RD_FINAL, EMQ_E_INVALID, "sequence 3 is behind 5"},
        {"EMQCORRUPT no fence", RD_FINAL, EMQ_E_CORRUPT, "no fence"},
        {"", RD_FINAL, EMQ_E_STORE, ""},
        {"ERR", RD_FINAL, EMQ_E_STORE, ""},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        struct rd_said said;
        rd_error_read(emq_cstr(cases[i].reply), &said);
        if (said.verdict != cases[i].verdict || said.status != cases[i].status ||
            strncmp(said.text.ptr, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("\"%s\": %d %s \"%.*s\"", cases[i].reply, said.verdict,
                     emq_status_name(said.status), EMQ_STR_ARG(said.text));
    }
}

EMQ_TEST(redirections_name_the_node)
{
    struct rd_said said;

    rd_error_read(S("MOVED 3999 10.0.0.1:6381"), &said);
    CHECK(said.verdict == RD_MOVED && said.addr.port == 6381);
    assert_string_equal(said.addr.host, "10.0.0.1");
    rd_error_read(S("ASK 3999 2001:db8::7:6381"), &said);
    CHECK(said.verdict == RD_ASK && said.addr.port == 6381);
    assert_string_equal(said.addr.host, "2001:db8::7");
    rd_error_read(S("MOVED 3999 :6381"), &said);
    CHECK(said.verdict == RD_MOVED && said.addr.port == 6381 && said.addr.host[0] == '\0');
    const char *bad[] = {"MOVED", "MOVED 1", "MOVED 1 x", "MOVED 1 x:", "MOVED 1 x:99999"};
    for (size_t i = 0; i < EMQ_ARRAY_LEN(bad); i++) {
        rd_error_read(emq_cstr(bad[i]), &said);
        CHECK(said.verdict == RD_MOVED && said.addr.port == 0);
    }
}

/* ---- URLs -------------------------------------------------------------------------------------------- */

static emq_status read_url(const char *text, struct rd_config *c, struct emq__arena *mem,
                           emq_error *err)
{
    struct emq__url url;
    emq_status s = emq__url_parse(emq_cstr(text), mem, &url, err);

    return s == EMQ_OK ? rd_url_read(c, &url, mem, err) : s;
}

EMQ_TEST(urls_say_where_who_and_which_database)
{
    static const struct {
        const char *url, *where, *user, *password;
        int64_t db;
        bool tls;
    } cases[] = {
        {"redis:", "localhost:6379", "", "", 0, false},
        {"redis://", "localhost:6379", "", "", 0, false},
        {"redis://h", "h:6379", "", "", 0, false},
        {"redis://h:1234/7", "h:1234", "", "", 7, false},
        {"redis://h/?db=7", "h:6379", "", "", 7, false},
        {"redis://:pw@h", "h:6379", "", "pw", 0, false},
        {"redis://u:p:w@h:1", "h:1", "u", "p:w", 0, false},
        {"redis://u:p%40%2F%3Aw@h:1/2", "h:1", "u", "p@/:w", 2, false},
        {"rediss://[2001:db8::1]:6380/1", "[2001:db8::1]:6380", "", "", 1, true},
        {"redis://[::1]", "[::1]:6379", "", "", 0, false},
        {"redis+unix:///run/a@b/redis.sock", "/run/a@b/redis.sock", "", "", 0, false},
        {"redis+unix://u:pw@/run/a@b/redis.sock?db=3", "/run/a@b/redis.sock", "u", "pw", 3, false},
        {"redis+unix:/run/redis.sock", "/run/redis.sock", "", "", 0, false},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        struct emq__arena mem = {0};
        struct rd_config c;
        emq_error err = {0};
        char where[RD_ADDR_TEXT_MAX];
        CHECK_STATUS_ERR(read_url(cases[i].url, &c, &mem, &err), EMQ_OK, &err);
        assert_string_equal(rd_addr_text(&c.seeds[0], where), cases[i].where);
        CHECK_STR(c.user, cases[i].user);
        CHECK_STR(c.password, cases[i].password);
        CHECK(c.n_seeds == 1 && c.db == cases[i].db && c.tls == cases[i].tls);
        emq__arena_free(&mem);
    }
}

EMQ_TEST(urls_of_sentinels_and_clusters_have_several_hosts)
{
    struct emq__arena mem = {0};
    struct rd_config c;
    emq_error err = {0};

    CHECK_STATUS_ERR(
        read_url("redis+sentinel://u:p@a,b:1,[::1]:2/main/4?sentinel_password=s&wait=1", &c, &mem,
                 &err),
        EMQ_OK, &err);
    CHECK(c.mode == RD_SENTINEL && c.n_seeds == 3 && c.db == 4 && c.wait_replicas == 1);
    CHECK(c.seeds[0].port == 26379 && c.seeds[1].port == 1 && c.seeds[2].port == 2);
    CHECK_STR(c.primary, "main");
    CHECK_STR(c.sentinel_password, "s");
    CHECK_STATUS_ERR(read_url("rediss+cluster://a,b:1?insecure=1", &c, &mem, &err), EMQ_OK, &err);
    CHECK(c.mode == RD_CLUSTER && c.n_seeds == 2 && c.tls && c.tls_config.insecure);
    emq__arena_free(&mem);
}

EMQ_TEST(urls_that_can_not_be_meant_are_refused_without_their_password)
{
    static const struct {
        const char *url, *text;
    } cases[] = {
        {"redis://u:hush@h:0", "\"h:\" is not followed by a port"},
        {"redis://u:hush@h:65536", "\"h:\" is not followed by a port"},
        {"redis://u:hush@h:x", "\"h:\" is not followed by a port"},
        {"redis://u:hush", "\"u:\" is not followed by a port"},
        {"redis://h/u:hush", "\"...\" is no database number"},
        {"redis://u:p?hush=1@h", "\"u:\" is not followed by a port"},
        {"redis://u:1?hush=1@h", "a '?' of a password"},
        {"redis://u?hush!=1", "?...= is not known here"},
        {"redis://u:hush@[::1", "no host"},
        {"redis://u:hush@:1", "no host"},
        {"redis://u:hush@h/x", "no database number"},
        {"redis://u:hush@h/-1", "no database number"},
        {"redis://u:hush@a,b", "several hosts"},
        {"redis://u:hush@h?ca=/x", "belongs to another scheme"},
        {"redis://u:hush@h?insecure=1", "not known here"},
        {"rediss://u:hush@h?insecure=yes", "not known here"},
        {"rediss://u:hush@h?cert=/x", "go together"},
        {"redis://u:hush@h?wait=-1", "0 to 100"},
        {"redis://u:hush@h?bogus=1", "not known here"},
        {"redis+cluster://u:hush@h/1", "no databases but 0"},
        {"redis+sentinel://u:hush@h", "primary's name"},
        {"redis+unix://relative", "absolute path"},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(cases); i++) {
        struct emq__arena mem = {0};
        struct rd_config c;
        emq_error err = {0};
        CHECK_STATUS(read_url(cases[i].url, &c, &mem, &err), EMQ_E_INVALID);
        CHECK_TEXT(err, cases[i].text);
        assert_null(strstr(err.text, "hush"));
        emq__arena_free(&mem);
    }
}
