/* SPDX-License-Identifier: MIT
 *
 * Opening by URL, the default store, trace, and jobs inside the application's own transaction.
 */
#include <echomq/effect.h>

#include "base/str.h"
#include "client/client.h"
#include "lib/test.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define Q       EMQ_STR_LIT("q")
#define S(text) emq_cstr(text)

static char url_text[4200];

static emq_str url_of(const char *tail)
{
    (void)snprintf(url_text, sizeof url_text, "sqlite:%s/q.db%s", test_temp_dir(), tail);
    return S(url_text);
}

static emq_client *open_url(emq_str url, const emq_open_opts *o)
{
    emq_client *c = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_open(&c, url, o, &err), EMQ_OK, &err);
    return c;
}

static int64_t waiting(emq_client *c)
{
    emq_queue_stats st = {.size = sizeof st};

    CHECK_STATUS(emq_stats(c, Q, &st, NULL), EMQ_OK);
    return st.count[EMQ_WAITING];
}

EMQ_TEST(the_prefix_comes_from_the_options_then_the_url_then_is_emq)
{
    emq_open_opts o = {.size = sizeof o, .prefix = S("mine")};
    emq_job *job;

    emq_client *plain = open_url(url_of(""), NULL);
    emq_client *by_url = open_url(url_of("?prefix=bull&sync=off"), NULL);
    emq_client *by_opts = open_url(url_of("?prefix=bull"), &o);
    CHECK_STATUS(emq_add(plain, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_INT(waiting(by_url), 0);
    CHECK_STATUS(emq_add(by_opts, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_take(by_opts, Q, NULL, &job, NULL), EMQ_OK);
    CHECK_STR(emq_job_prefix(job), "mine");
    emq_job_free(job);
    CHECK_INT(waiting(plain), 1);
    emq_close(by_opts);
    emq_close(by_url);
    emq_close(plain);
}

EMQ_TEST(what_cannot_be_opened_is_refused_with_what_can)
{
    emq_client *c;
    emq_error err = {0};
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = -1};

    CHECK_STATUS(emq_open(&c, S("mysql://localhost"), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "redis") && strstr(err.text, "sqlite"));
    CHECK_STATUS(emq_open(&c, url_of("?colour=red"), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "colour"));
    CHECK_STATUS(emq_open(&c, url_of("?sync=perhaps"), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "perhaps"));
    CHECK_STATUS(emq_open(&c, url_of("?prefix="), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "prefix is empty"));
    CHECK_STATUS(emq_open(&c, url_of(""), &o, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "io_timeout_ms"));
    o = (emq_open_opts){.size = sizeof o, .who = S("two words")};
    CHECK_STATUS(emq_open(&c, url_of(""), &o, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_open(NULL, url_of(""), NULL, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_open(&c, S("no-scheme"), NULL, &err), EMQ_E_INVALID);
}

static void set_env(const char *name, const char *value)
{
    CHECK_INT(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static bool exists(const char *dir, const char *tail, mode_t mode)
{
    char path[4300];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", dir, tail);
    return stat(path, &st) == 0 && (st.st_mode & 0777) == mode;
}

EMQ_TEST(without_a_url_the_environment_then_the_state_folder_is_used)
{
    const char *dir = test_temp_dir();
    char text[4200];
    emq_client *c;
    emq_error err = {0};

    (void)snprintf(text, sizeof text, "%s/by-env.db", dir);
    set_env("EMQ_URL", text);
    emq_close(open_url(S(NULL), NULL));
    CHECK(exists(dir, "by-env.db", 0600));

    set_env("EMQ_URL", NULL);
    (void)snprintf(text, sizeof text, "%s/deep/state", dir);
    set_env("XDG_STATE_HOME", text);
    emq_close(open_url(S(NULL), NULL));
    CHECK(exists(dir, "deep/state/echomq", 0700));
    CHECK(exists(dir, "deep/state/echomq/queue.db", 0600));

    set_env("XDG_STATE_HOME", "relative/is/ignored");
    set_env("HOME", dir);
    emq_close(open_url(S(NULL), NULL));
    CHECK(exists(dir, ".local/state/echomq/queue.db", 0600));

    set_env("XDG_STATE_HOME", NULL);
    set_env("HOME", NULL);
    CHECK_STATUS(emq_open(&c, S(NULL), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "EMQ_URL"));
}

EMQ_TEST(the_folders_of_the_default_store_are_private_whatever_the_umask)
{
    const char *dir = test_temp_dir();
    char text[4200];

    set_env("EMQ_URL", NULL);
    (void)snprintf(text, sizeof text, "%s/umask/state", dir);
    set_env("XDG_STATE_HOME", text);
    mode_t old = umask(0777);
    emq_close(open_url(S(NULL), NULL));
    (void)umask(old);
    CHECK(exists(dir, "umask", 0700));
    CHECK(exists(dir, "umask/state", 0700));
    CHECK(exists(dir, "umask/state/echomq", 0700));
    CHECK(exists(dir, "umask/state/echomq/queue.db", 0600));
}

struct lines {
    int n, acts;
};

static void count_lines(void *user, int level, emq_str message)
{
    struct lines *l = user;

    (void)level;
    l->n++;
    l->acts += strstr(message.ptr, "add") != NULL;
}

EMQ_TEST(the_engine_is_traced_to_the_log_function_when_asked)
{
    struct lines lines = {0};
    emq_open_opts o = {.size = sizeof o, .log = count_lines, .log_user = &lines};

    set_env("EMQ_TRACE", "engine");
    emq_client *c = open_url(url_of(""), &o);
    CHECK_STATUS(emq_add(c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_INT(lines.acts, 1);
    emq_close(c);
    c = open_url(url_of(""), NULL); /* nobody listens: nothing is printed */
    CHECK_STATUS(emq_add(c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    emq_close(c);
    set_env("EMQ_TRACE", NULL);
}

EMQ_TEST(a_memory_store_works_and_ends_with_its_client)
{
    emq_client *c = open_url(S("sqlite::memory:"), NULL);
    emq_job *job;

    CHECK_STATUS(emq_add(c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_take(c, Q, NULL, &job, NULL), EMQ_OK);
    emq_job_free(job);
    emq_close(c);
    c = open_url(S("sqlite::memory:"), NULL);
    CHECK_STATUS(emq_take(c, Q, NULL, &job, NULL), EMQ_EMPTY);
    emq_close(c);
}

/* ---- many threads ------------------------------------------------------------------------ */

enum { THREADS = 8, PER_THREAD = 40 };

static void *add_and_work(void *arg)
{
    emq_client *c = arg;
    int64_t done = 0;
    emq_job *job;

    for (int i = 0; i < PER_THREAD; i++) {
        if (emq_add(c, Q, S("1"), NULL, NULL, NULL) != EMQ_OK)
            return NULL;
    }
    for (int i = 0; i < PER_THREAD; i++) {
        emq_take_opts take = {.size = sizeof take, .wait_ms = 20000};
        emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED};
        if (emq_take(c, Q, &take, &job, NULL) != EMQ_OK)
            break;
        done += emq_settle(c, Q, emq_job_id(job), emq_job_token(job), &o, NULL) == EMQ_OK;
        emq_job_free(job);
    }
    return done == PER_THREAD ? c : NULL;
}

EMQ_TEST(a_client_is_used_from_many_threads_at_once)
{
    pthread_t threads[THREADS];
    emq_queue_stats st = {.size = sizeof st};
    emq_client *c = open_url(url_of("?sync=off"), NULL);

    for (size_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, add_and_work, c), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *answer;
        CHECK_INT(pthread_join(threads[i], &answer), 0);
        CHECK(answer == c);
    }
    CHECK_STATUS(emq_stats(c, Q, &st, NULL), EMQ_OK);
    CHECK_INT(st.total_completed, THREADS * PER_THREAD);
    CHECK_INT(st.count[EMQ_WAITING] + st.count[EMQ_ACTIVE], 0);
    emq_close(c);
}

/* ---- the application's transaction --------------------------------------------------------- */

static void sql(sqlite3 *db, const char *text)
{
    char *message = NULL;

    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", text, message);
}

static sqlite3 *open_application(const char *name)
{
    char path[4200];
    sqlite3 *db;

    (void)snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 10000), SQLITE_OK);
    sql(db, "CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, item TEXT)");
    return db;
}

static int64_t orders(sqlite3 *db)
{
    sqlite3_stmt *st;

    CHECK_INT(sqlite3_prepare_v2(db, "SELECT count(*) FROM orders", -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    CHECK_INT(sqlite3_finalize(st), SQLITE_OK);
    return n;
}

EMQ_TEST(a_commit_of_the_application_brings_the_row_and_the_job)
{
    emq_client *c = open_url(url_of(""), NULL);
    sqlite3 *db = open_application("q.db");
    emq_added added = {.size = sizeof added};
    emq_add_opts o = {.size = sizeof o, .name = S("ship")};
    emq_error err = {0};
    emq_job *job;

    sql(db, "BEGIN IMMEDIATE; INSERT INTO orders(item) VALUES ('lamp')");
    CHECK_STATUS_ERR(emq_add_on(c, db, Q, S("{\"order\":1}"), &o, &added, &err), EMQ_OK, &err);
    CHECK_INT(sqlite3_get_autocommit(db), 0);
    CHECK_INT(waiting(c), 0);
    sql(db, "COMMIT");
    CHECK_STATUS(emq_wake(c, Q, NULL), EMQ_OK);
    CHECK_INT(waiting(c), 1);
    CHECK_INT(orders(db), 1);
    CHECK_STATUS(emq_take(c, Q, NULL, &job, NULL), EMQ_OK);
    CHECK_STR(emq_job_id(job), added.id);
    CHECK_STR(emq_job_name(job), "ship");
    CHECK_STR(emq_job_data(job), "{\"order\":1}");
    emq_job_free(job);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    emq_close(c);
}

EMQ_TEST(a_rollback_of_the_application_takes_both_back)
{
    emq_client *c = open_url(url_of(""), NULL);
    sqlite3 *db = open_application("q.db");

    sql(db, "BEGIN; INSERT INTO orders(item) VALUES ('lamp')");
    CHECK_STATUS(emq_add_on(c, db, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    sql(db, "ROLLBACK");
    CHECK_INT(waiting(c), 0);
    CHECK_INT(orders(db), 0);
    CHECK_STATUS(emq_add(c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    emq_close(c);
}

EMQ_TEST(a_duplicate_inside_the_transaction_leaves_the_transaction_as_it_was)
{
    emq_client *c = open_url(url_of(""), NULL);
    sqlite3 *db = open_application("q.db");
    emq_add_opts o = {.size = sizeof o, .id = S("order-1")};

    CHECK_STATUS(emq_add(c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    sql(db, "BEGIN; INSERT INTO orders(item) VALUES ('lamp')");
    CHECK_STATUS(emq_add_on(c, db, Q, S("1"), &o, NULL, NULL), EMQ_DUPLICATE);
    sql(db, "COMMIT");
    CHECK_INT(orders(db), 1);
    CHECK_INT(waiting(c), 1);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    emq_close(c);
}

EMQ_TEST(a_transaction_is_needed_and_must_be_on_the_file_of_the_queue)
{
    emq_client *c = open_url(url_of(""), NULL);
    sqlite3 *db = open_application("q.db"), *other = open_application("other.db");
    emq_error err = {0};

    CHECK_STATUS(emq_add_on(c, db, Q, S("1"), NULL, NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "transaction"));
    sql(other, "BEGIN");
    CHECK_STATUS(emq_add_on(c, other, Q, S("1"), NULL, NULL, &err), EMQ_E_INVALID);
    sql(other, "ROLLBACK");
    CHECK_STATUS(emq_add_on(c, NULL, Q, S("1"), NULL, NULL, &err), EMQ_E_INVALID);
    CHECK_INT(waiting(c), 0);
    CHECK_INT(sqlite3_close(other), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    emq_close(c);
}
