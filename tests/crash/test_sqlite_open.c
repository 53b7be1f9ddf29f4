/* SPDX-License-Identifier: MIT
 *
 * Opening the SQLite engine's file: what is refused and how, who may see what stands beside it, what a
 * close leaves, what a child of fork may do.
 */
#include "ground.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static emq_status open_fails(const char *path, const char *sync, emq_error *err)
{
    struct sq *s = NULL;
    emq_status st = ground_try_open(path, sync, 1000, &s, err);

    if (st == EMQ_OK)
        ground_close(s);
    return st;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);

    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK_INT(close(fd), 0);
}

static void check_mode(const char *path, mode_t mode)
{
    struct stat st;

    if (stat(path, &st) != 0)
        fail_msg("%s: errno %d", path, errno);
    CHECK_INT(st.st_mode & 07777, mode);
}

EMQ_TEST(file_and_what_stands_beside_it_are_private_whatever_the_umask)
{
    static const mode_t masks[] = {0, 022, 0777};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(masks); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "q%zu.db", i);
        const char *path = ground_path(name);
        char beside[4096];
        mode_t old = umask(masks[i]);
        struct sq *s = ground_open(path, NULL, 0);
        (void)umask(old);
        CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
        check_mode(path, 0600);
        static const char *const tails[] = {"-wal", "-shm", "-emq"};
        for (size_t t = 0; t < EMQ_ARRAY_LEN(tails); t++) {
            (void)snprintf(beside, sizeof beside, "%s%s", path, tails[t]);
            check_mode(beside, 0600);
        }
        ground_close(s);
    }
}

EMQ_TEST(path_with_odd_characters_is_taken_as_it_is)
{
    static const char *const names[] = {"a b?c#d%41.db", "file:x?mode=memory",
                                        "\xc3\xa9'\"\n;--.db", ":x:"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(names); i++) {
        const char *path = ground_path(names[i]);
        struct sq *s = ground_open(path, NULL, 0);
        CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
        ground_close(s);
        CHECK_INT(access(path, F_OK), 0);
    }
}

EMQ_TEST(symbolic_link_leads_to_one_log)
{
    const char *path = ground_path("real.db"), *link = ground_path("link.db");
    struct sq *a = ground_open(path, NULL, 0);

    CHECK_INT(symlink(path, link), 0);
    struct sq *b = ground_open(link, NULL, 0);
    CHECK_STATUS(ground_put(a, 1, NULL), EMQ_OK);
    CHECK_STATUS(ground_put(b, 2, NULL), EMQ_OK);
    CHECK_INT(ground_count(a), 2);
    CHECK_INT(ground_count(b), 2);
    CHECK_INT(access(ground_path("link.db-wal"), F_OK), -1);
    ground_close(a);
    ground_close(b);
}

EMQ_TEST(missing_folder_is_named)
{
    emq_error err = {0};

    CHECK_STATUS(open_fails(ground_path("no/such/q.db"), NULL, &err), EMQ_E_STORE);
    CHECK(strstr(err.text, "no/such") != NULL);
    CHECK(strstr(err.text, "create it first") != NULL);
}

EMQ_TEST(folder_and_device_are_no_queue_files)
{
    emq_error err = {0};

    CHECK_STATUS(open_fails(test_temp_dir(), NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "folder") != NULL);
    CHECK_STATUS(open_fails("/dev/null", NULL, &err), EMQ_E_INVALID);
    CHECK_STATUS(open_fails("", NULL, &err), EMQ_E_INVALID);
}

EMQ_TEST(file_that_is_no_database_is_refused_and_left_alone)
{
    const char *path = ground_path("notes.txt");
    struct stat st;
    emq_error err = {0};
    char text[3000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    write_file(path, text, 0600);
    CHECK_STATUS(open_fails(path, NULL, &err), EMQ_E_CORRUPT);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_size, sizeof text - 1);
    CHECK_INT(access(ground_path("notes.txt-emq"), F_OK), -1);
}

EMQ_TEST(unknown_option_of_the_url_is_refused_with_its_name)
{
    emq_error err = {0};

    CHECK_STATUS(open_fails(ground_path("q.db"), "sometimes", &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "sometimes") != NULL);
}

/* Runs fn as an unprivileged user in a child; root may do everything. */
static void as_nobody(void (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        fn();
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : 128, 0);
}

static char refused_path[4096];

static void expect_refused(void)
{
    emq_error err = {0};

    if (open_fails(refused_path, NULL, &err) != EMQ_E_REFUSED || !strstr(err.text, "q.db")) {
        fprintf(stderr, "%s: %s\n", emq_status_name((emq_status)err.status), err.text);
        _exit(1);
    }
}

EMQ_TEST(missing_permissions_are_refusals_that_name_the_file)
{
    const char *dir = ground_path("locked");
    struct sq *s;

    CHECK_INT(chmod(test_temp_dir(), 0755), 0);
    CHECK_INT(mkdir(dir, 0755), 0);
    (void)snprintf(refused_path, sizeof refused_path, "%s/q.db", dir);
    if (geteuid() != 0)
        CHECK_INT(chmod(dir, 0555), 0);
    as_nobody(expect_refused); /* it can't be created */
    CHECK_INT(chmod(dir, 0755), 0);
    s = ground_open(refused_path, NULL, 0);
    ground_close(s);
    CHECK_INT(chmod(refused_path, 0444), 0);
    as_nobody(expect_refused); /* read-only */
    CHECK_INT(chmod(refused_path, 0000), 0);
    as_nobody(expect_refused); /* unreadable */
    CHECK_INT(chmod(refused_path, 0666), 0);
    if (geteuid() != 0)
        CHECK_INT(chmod(dir, 0555), 0);
    (void)unlink(ground_path("locked/q.db-wal"));
    (void)unlink(ground_path("locked/q.db-shm"));
    as_nobody(expect_refused); /* no room for the log beside it */
}

EMQ_TEST(store_in_memory_is_one_store_for_all_threads_and_leaves_no_file)
{
    struct sq *s = ground_open(":memory:", NULL, 0);
    struct sq *other = ground_open(":memory:", NULL, 0);

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    CHECK_INT(ground_count(s), 1);
    CHECK_INT(ground_count(other), 0);
    CHECK_INT(access(":memory:-emq", F_OK), -1);
    ground_close(s);
    ground_close(other);
}

EMQ_TEST(an_empty_file_as_a_kill_right_after_its_creation_leaves_it_opens)
{
    const char *path = ground_path("q.db");
    struct sq *s;

    write_file(path, "", 0600);
    s = ground_open(path, NULL, 0);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    ground_close(s);
}

EMQ_TEST(last_close_leaves_everything_in_the_database_file_alone)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    struct stat st;

    for (int i = 0; i < 10; i++)
        CHECK_STATUS(ground_put(s, i, NULL), EMQ_OK);
    ground_close(s);
    CHECK_INT(stat(ground_path("q.db-wal"), &st), 0);
    CHECK_INT(st.st_size, 0);
    (void)unlink(ground_path("q.db-wal"));
    (void)unlink(ground_path("q.db-shm"));
    s = ground_open(path, NULL, 0);
    CHECK_INT(ground_count(s), 10);
    ground_close(s);
}

EMQ_TEST(many_handles_can_open_a_new_file_at_once)
{
    struct helper h[6];
    const char *path = ground_path("q.db");

    for (size_t i = 0; i < EMQ_ARRAY_LEN(h); i++)
        h[i] = HELPER("ring", path, "q");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(h); i++)
        CHECK_INT(helper_end(&h[i]), 0);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void in_child_every_call_says_forked(struct sq *s)
{
    struct emq__stats_req req = {.prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("q")};
    struct emq__stats_res res;
    struct emq__arena mem = {0};
    int64_t n = 0;

    if (ground_put(s, 99, NULL) != EMQ_E_FORKED ||
        s->base.ops->stats(&s->base, &req, &res, &mem, NULL) != EMQ_E_FORKED ||
        sq_read(s, NULL, &n, NULL) != EMQ_E_FORKED)
        _exit(1);
    ground_close(s);
    _exit(0);
}

EMQ_TEST(child_of_fork_is_told_and_its_close_harms_nothing)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    int status = 0;

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        in_child_every_call_says_forked(s);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_STATUS(ground_put(s, 2, NULL), EMQ_OK);
    struct helper h = HELPER("foreign-look", path);
    CHECK_INT(helper_end(&h), 0);
    CHECK_STATUS(ground_put(s, 3, NULL), EMQ_OK);
    ground_close(s);
    s = ground_open(path, NULL, 0);
    CHECK_INT(ground_count(s), 3);
    ground_close(s);
}
