/* SPDX-License-Identifier: MIT
 *
 * Descriptors: too few of them is a failure that passes, never half an engine; and none of ours is the
 * standard input, output or error of the program.
 */
#include "ground.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* From now on the process may open this many more; -1: as many as before. */
static void allow_descriptors(int more)
{
    static struct rlimit before;
    struct rlimit now;

    if (before.rlim_cur == 0)
        CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    if (more >= 0) {
        int next = dup(STDERR_FILENO);
        CHECK(next >= 0);
        CHECK_INT(close(next), 0);
        now.rlim_cur = (rlim_t)(next + more);
    }
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void check_says_what_to_do(emq_status st, const emq_error *err)
{
    CHECK_STATUS_ERR(st, EMQ_E_SYSTEM, err);
    CHECK_INT(err->cls, EMQ_CLASS_RETRY_SAFE);
    if (!strstr(err->text, "ulimit -n"))
        fail_msg("\"%s\" does not say what to do", err->text);
}

/* One descriptor more each time, until it opens; then nothing of it may be missing. */
static void opens_whole_or_not_at_all(const char *(*path_of)(int n))
{
    for (int n = 0;; n++) {
        const char *path = path_of(n);
        struct sq *s = NULL;
        emq_error err = {0};
        CHECK(n < 50);
        allow_descriptors(n);
        emq_status st = ground_open_only(path, NULL, 1000, NULL, &s, &err);
        allow_descriptors(-1);
        if (st != EMQ_OK) {
            check_says_what_to_do(st, &err);
            continue;
        }
        CHECK(n > 5);
        CHECK(s->file.guarded);
        CHECK(!s->bell.poll);
        CHECK(s->group.turn && s->renewal.turn && s->checkpoint.turn);
        ground_close(s);
        return;
    }
}

static const char *same_path(int n)
{
    (void)n;
    return ground_path("q.db");
}

static const char *new_path(int n)
{
    char name[32];

    (void)snprintf(name, sizeof name, "q%d.db", n);
    return ground_path(name);
}

EMQ_TEST(too_few_descriptors_to_open_a_file_may_be_tried_again)
{
    ground_close(ground_open(same_path(0), NULL, 0));
    opens_whole_or_not_at_all(same_path);
}

EMQ_TEST(too_few_descriptors_to_make_a_file_may_be_tried_again)
{
    opens_whole_or_not_at_all(new_path);
}

static emq_status nothing(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return EMQ_OK;
}

EMQ_TEST(too_few_descriptors_for_another_connection_fail_that_call_only)
{
    emq_status (*const call[])(struct sq *, sq_fn, void *, emq_error *) = {sq_read,
                                                                           sq_write_renewal};
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);

    for (size_t i = 0; i < EMQ_ARRAY_LEN(call); i++) {
        emq_status st = EMQ_E_SYSTEM;
        for (int n = 0; st != EMQ_OK && n < 10; n++) {
            emq_error err = {0};
            allow_descriptors(n);
            st = call[i](s, nothing, NULL, &err);
            allow_descriptors(-1);
            CHECK(n > 0 || st != EMQ_OK);
            if (st != EMQ_OK)
                check_says_what_to_do(st, &err);
            CHECK_STATUS(ground_put(s, (int64_t)i * 100 + n, NULL), EMQ_OK);
        }
        CHECK_STATUS(st, EMQ_OK);
        CHECK(s->file.guarded);
    }
    ground_close(s);
}

/* In a program that was started without standard descriptors. 0: all is well. */
static int open_without_standard_descriptors(const char *path, int64_t n_put)
{
    struct sq *s = NULL;
    char link[64], name[4096];

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)close(fd);
    if (ground_try_open(path, NULL, 0, &s, NULL) != EMQ_OK ||
        ground_put(s, n_put, NULL) != EMQ_OK ||
        sq_write_renewal(s, nothing, NULL, NULL) != EMQ_OK ||
        sq_read(s, nothing, NULL, NULL) != EMQ_OK)
        return 1;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, name, sizeof name - 1);
        name[n < 0 ? 0 : n] = '\0';
        if (n >= 0 && strcmp(name, "/dev/null") != 0) /* SQLite fills the gap with that */
            return 10 + fd;
    }
    ground_close(s);
    return 0;
}

static void no_file_is_standard_output(const char *path, int64_t n_put)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        _exit(open_without_standard_descriptors(path, n_put));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

EMQ_TEST(no_file_of_ours_becomes_standard_input_output_or_error)
{
    no_file_is_standard_output(ground_path("q.db"), 1); /* makes it */
    no_file_is_standard_output(ground_path("q.db"), 2);
    /* Without a side file that can be opened. */
    CHECK_INT(mkdir(ground_path("other.db-emq"), 0700), 0);
    no_file_is_standard_output(ground_path("other.db"), 1);
}
