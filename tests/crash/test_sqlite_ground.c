/* SPDX-License-Identifier: MIT
 *
 * The ground of the SQLite engine: what opening says, what a busy or dead neighbour does, how calls
 * share commits, how processes share turns, how bells cross processes.
 */
#include "ground.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- opening -------------------------------------------------------------------------------- */

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

EMQ_TEST(kill_right_after_creating_the_file_leaves_a_file_that_opens)
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

/* ---- neighbours ------------------------------------------------------------------------------ */

EMQ_TEST(writer_that_takes_no_turns_is_waited_for)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 10000);
    struct helper h = HELPER("foreign-hold", path, "1000");
    emq_error err = {0};

    helper_expect(&h, "held");
    CHECK_STATUS_ERR(ground_put(s, 1, &err), EMQ_OK, &err);
    CHECK_INT(helper_end(&h), 0);
    CHECK_INT(ground_count(s), 1);
    ground_close(s);
}

EMQ_TEST(writer_that_stays_longer_than_the_limit_is_busy_and_nothing_happened)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 300);
    struct helper h = HELPER("foreign-hold", path, "60000");
    emq_error err = {0};

    helper_expect(&h, "held");
    int64_t start = sq_monotonic_us();
    CHECK_STATUS(ground_put(s, 1, &err), EMQ_E_BUSY);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_SAFE);
    CHECK(sq_monotonic_us() - start < 5 * 300 * 1000);
    CHECK_STATUS(sq_write_renewal(s, NULL, NULL, &err), EMQ_E_BUSY);
    CHECK_INT(ground_count(s), 0); /* readers don't wait for writers */
    helper_kill(&h, SIGKILL);
    CHECK_INT(helper_end(&h), 128 + SIGKILL);
    CHECK_STATUS(ground_put(s, 1, &err), EMQ_OK);
    CHECK_INT(ground_count(s), 1);
    ground_close(s);
}

EMQ_TEST(killed_holder_of_the_turn_stops_nobody)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 20000);
    struct helper h = HELPER("hold", path);
    struct helper more[3];
    char line[64];

    helper_expect(&h, "held");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++)
        more[i] = HELPER("acks", path, "normal", i == 0 ? "1000" : i == 1 ? "2000000" : "4000000");
    helper_kill(&h, SIGKILL);
    CHECK_INT(helper_end(&h), 128 + SIGKILL);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++)
        for (int n = 0; n < 5; n++)
            helper_line(&more[i], line, sizeof line);
    /* Any of them may hold the turn when it dies. */
    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++) {
        helper_kill(&more[i], SIGKILL);
        CHECK_INT(helper_end(&more[i]), 128 + SIGKILL);
        CHECK_STATUS(ground_put(s, 2 + (int64_t)i, NULL), EMQ_OK);
    }
    ground_close(s);
}

EMQ_TEST(stopped_holder_of_the_turn_makes_others_busy_not_stuck)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 500);
    struct helper h = HELPER("hold", path);

    helper_expect(&h, "held");
    helper_kill(&h, SIGSTOP);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_E_BUSY);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_E_BUSY);
    helper_kill(&h, SIGKILL);
    CHECK_INT(helper_end(&h), 128 + SIGKILL);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    ground_close(s);
}

EMQ_TEST(turn_kept_by_an_orphan_child_is_gone_without)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "normal", 1000);
    struct helper h = HELPER("hold-orphan", path);
    char line[64];

    helper_expect(&h, "held");
    helper_line(&h, line, sizeof line);
    helper_kill(&h, SIGKILL);
    CHECK_INT(helper_end(&h), 128 + SIGKILL);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    /* The turn is not trusted now: what follows does not wait for it again. */
    int64_t start = sq_monotonic_us();
    for (int i = 2; i < 12; i++)
        CHECK_STATUS(ground_put(s, i, NULL), EMQ_OK);
    CHECK(sq_monotonic_us() - start < 10 * 800 * 1000);
    CHECK_INT(kill((pid_t)strtoll(line, NULL, 10), SIGKILL), 0);
    ground_close(s);
}

EMQ_TEST(acknowledged_rows_survive_kill_at_any_moment)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    int64_t first = 1;

    for (int round = 0; round < 5; round++) {
        char from[32], line[64];
        int64_t last = 0;
        (void)snprintf(from, sizeof from, "%lld", (long long)first);
        struct helper h = HELPER("acks", path, "full", from);
        for (int n = 0; n < 20 + round; n++)
            helper_line(&h, line, sizeof line);
        last = strtoll(line, NULL, 10);
        helper_kill(&h, SIGKILL);
        CHECK_INT(helper_end(&h), 128 + SIGKILL);
        for (; first <= last; first++)
            CHECK(ground_has(s, first));
        first += 1000000; /* it may have written some more */
    }
    ground_close(s);
}

EMQ_TEST(four_processes_get_fair_shares)
{
    enum { N = 4 };
    static const char *const firsts[N] = {"1", "100000000", "200000000", "300000000"};
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "normal", 0);
    struct helper h[N];
    int64_t count[N], sum = 0;

    for (int i = 0; i < N; i++)
        h[i] = HELPER("loop", path, "normal", firsts[i], "1500");
    for (int i = 0; i < N; i++)
        helper_expect(&h[i], "waiting");
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("go")};
    struct emq__wake_res res;
    CHECK_STATUS(s->base.ops->wake(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    for (int i = 0; i < N; i++) {
        char line[64];
        helper_line(&h[i], line, sizeof line);
        count[i] = strtoll(line, NULL, 10);
        sum += count[i];
        CHECK_INT(helper_end(&h[i]), 0);
    }
    for (int i = 0; i < N; i++)
        if (count[i] < sum / N / 2)
            fail_msg("shares %lld %lld %lld %lld", (long long)count[0], (long long)count[1],
                     (long long)count[2], (long long)count[3]);
    CHECK_INT(ground_count(s), sum);
    ground_close(s);
}

EMQ_TEST(file_replaced_by_another_program_is_opened_anew)
{
    const char *path = ground_path("q.db"), *other = ground_path("other.db");
    struct sq *s = ground_open(other, NULL, 0);

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    CHECK_STATUS(ground_put(s, 2, NULL), EMQ_OK);
    ground_close(s);
    s = ground_open(path, NULL, 0);
    CHECK_STATUS(ground_put(s, 7, NULL), EMQ_OK);
    CHECK_INT(unlink(ground_path("q.db-wal")), 0);
    CHECK_INT(unlink(ground_path("q.db-shm")), 0);
    CHECK_INT(rename(other, path), 0);
    for (int i = 0; i < 2000 && ground_count(s) != 2; i++)
        (void)usleep(1000);
    CHECK_INT(ground_count(s), 2);
    CHECK_STATUS(ground_put(s, 3, NULL), EMQ_OK);
    CHECK_INT(ground_count(s), 3);
    ground_close(s);
}

/* ---- shared commits ---------------------------------------------------------------------------- */

struct crowd {
    struct sq *s;
    atomic_llong next;
    atomic_int good, refused;
    int each, threads;
};

static void *one_of_the_crowd(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++)
        if (ground_put(c->s, atomic_fetch_add(&c->next, 1), NULL) == EMQ_OK)
            atomic_fetch_add(&c->good, 1);
    return NULL;
}

/* Keeps the write transaction open until every thread is about to write. */
static emq_status gate(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct crowd *c = arg;

    (void)tx;
    (void)err;
    while (atomic_load(&c->next) < c->threads)
        (void)usleep(1000);
    return EMQ_OK;
}

static void *guard_of_the_gate(void *arg)
{
    struct crowd *c = arg;

    CHECK_STATUS(sq_write(c->s, gate, c, NULL), EMQ_OK);
    return NULL;
}

EMQ_TEST(sixty_four_threads_share_commits)
{
    enum { THREADS = 64, EACH = 10 };
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct crowd c = {.s = s, .each = EACH, .threads = THREADS};
    pthread_t t[THREADS], g;
    int64_t before = atomic_load(&s->n_commits);

    CHECK_INT(pthread_create(&g, NULL, guard_of_the_gate, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    CHECK_INT(pthread_join(g, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH);
    CHECK_INT(ground_count(s), THREADS * EACH);
    int64_t commits = atomic_load(&s->n_commits) - before;
    if (commits > THREADS * EACH / 2)
        fail_msg("%lld commits for %d acts", (long long)commits, THREADS * EACH);
    ground_close(s);
}

static void *duplicate_of_the_crowd(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++) {
        int64_t n = atomic_fetch_add(&c->next, 1);
        emq_status st = ground_put(c->s, n / 2, NULL); /* each number twice */
        if (st == EMQ_OK)
            atomic_fetch_add(&c->good, 1);
        else if (st == EMQ_E_STORE)
            atomic_fetch_add(&c->refused, 1);
    }
    return NULL;
}

EMQ_TEST(failure_of_one_call_in_a_shared_commit_touches_no_other)
{
    enum { THREADS = 16, EACH = 20 };
    struct sq *s = ground_open(ground_path("q.db"), "normal", 0);
    struct crowd c = {.s = s, .each = EACH};
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, duplicate_of_the_crowd, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH / 2);
    CHECK_INT(atomic_load(&c.refused), THREADS * EACH / 2);
    CHECK_INT(ground_count(s), THREADS * EACH / 2);
    ground_close(s);
}

static emq_status undo_everything(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    /* What SQLite does by itself when the disk is full. */
    (void)sqlite3_exec(tx->conn->db, "ROLLBACK", NULL, NULL, NULL);
    if (err)
        err->status = EMQ_E_FULL;
    return EMQ_E_FULL;
}

static void *undoer(void *arg)
{
    struct crowd *c = arg;

    for (int i = 0; i < c->each; i++)
        if (sq_write(c->s, undo_everything, NULL, NULL) == EMQ_E_FULL)
            atomic_fetch_add(&c->refused, 1);
    return NULL;
}

EMQ_TEST(transaction_undone_for_one_call_is_done_again_for_the_others)
{
    enum { THREADS = 12, EACH = 10 };
    struct sq *s = ground_open(ground_path("q.db"), "normal", 0);
    struct crowd c = {.s = s, .each = EACH};
    pthread_t t[THREADS], u;

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    CHECK_INT(pthread_create(&u, NULL, undoer, &c), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(pthread_join(u, NULL), 0);
    CHECK_INT(atomic_load(&c.refused), EACH);
    CHECK_INT(atomic_load(&c.good), THREADS * EACH);
    CHECK_INT(ground_count(s), THREADS * EACH);
    ground_close(s);
}

static emq_status renew(struct sq_tx *tx, void *arg, emq_error *err)
{
    int rc =
        sqlite3_exec(tx->conn->db, "UPDATE t SET pad = 'renewed' WHERE n = 1", NULL, NULL, NULL);

    atomic_fetch_add((atomic_int *)arg, 1);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "renew", err);
}

EMQ_TEST(renewals_get_through_a_crowd_of_writers)
{
    enum { THREADS = 16, RENEWALS = 50 };
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct crowd c = {.s = s, .each = 20};
    pthread_t t[THREADS];
    atomic_int runs = 0;
    emq_error err = {0};

    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, one_of_the_crowd, &c), 0);
    for (int i = 0; i < RENEWALS; i++)
        CHECK_STATUS_ERR(sq_write_renewal(s, renew, &runs, &err), EMQ_OK, &err);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    CHECK_INT(atomic_load(&runs), RENEWALS);
    CHECK_INT(atomic_load(&c.good), THREADS * 20);
    ground_close(s);
}

/* ---- log ---------------------------------------------------------------------------------------- */

struct overlap {
    struct sq *s;
    atomic_bool stop;
};

static emq_status dwell(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct timespec nap = {.tv_nsec = 2000000};

    (void)arg;
    int rc =
        sqlite3_exec(tx->conn->db, "SELECT count(*) FROM generate_series_of_100", NULL, NULL, NULL);
    (void)nanosleep(&nap, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "dwell", err);
}

static void *reader(void *arg)
{
    struct overlap *o = arg;

    while (!atomic_load(&o->stop))
        CHECK_STATUS(sq_read(o->s, dwell, NULL, NULL), EMQ_OK);
    return NULL;
}

static emq_status put_much(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc = sqlite3_exec(tx->conn->db,
                          "INSERT INTO t SELECT NULL, printf('%.3000c', 'y') FROM "
                          "generate_series_of_100",
                          NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put_much", err);
}

static emq_status make_series(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc = sqlite3_exec(
        tx->conn->db,
        "CREATE TABLE generate_series_of_100 AS WITH RECURSIVE c(x) AS (SELECT 1 UNION "
        "ALL SELECT x+1 FROM c WHERE x < 100) SELECT x FROM c",
        NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "series", err);
}

EMQ_TEST(log_is_bounded_while_readers_overlap)
{
    enum { READERS = 3, ACTS = 300, PAGE = 4096 };
    struct sq *s = ground_open(ground_path("q.db"), "full", 0);
    struct overlap o = {.s = s};
    pthread_t t[READERS];
    int64_t most = 0;
    emq_error err = {0};

    CHECK_STATUS_ERR(sq_write(s, make_series, NULL, &err), EMQ_OK, &err);
    for (int i = 0; i < READERS; i++)
        CHECK_INT(pthread_create(&t[i], NULL, reader, &o), 0);
    for (int i = 0; i < ACTS; i++) { /* about 30,000 pages in all */
        CHECK_STATUS_ERR(sq_write(s, put_much, NULL, &err), EMQ_OK, &err);
        int64_t bytes = sq_file_wal_bytes(&s->file);
        most = bytes > most ? bytes : most;
    }
    atomic_store(&o.stop, true);
    for (int i = 0; i < READERS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    if (most > (int64_t)15000 * PAGE)
        fail_msg("the log grew to %lld pages", (long long)(most / PAGE));
    ground_close(s);
}

/* ---- bells --------------------------------------------------------------------------------------- */

static emq_status ring_queue(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)err;
    sq_ring_later(tx, EMQ_STR_LIT("emq"), emq_cstr(arg));
    return EMQ_OK;
}

EMQ_TEST(bell_rung_after_a_commit_wakes_another_process)
{
    static char queue[] = "mail";
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    struct helper h = HELPER("wait", path, "mail");

    helper_expect(&h, "waiting");
    CHECK_STATUS(sq_write(s, ring_queue, queue, NULL), EMQ_OK);
    helper_expect(&h, "rung");
    CHECK_INT(helper_end(&h), 0);
    ground_close(s);
}

static struct emq__wait_req wait_for(struct sq *s, const emq_str *queues, size_t n,
                                     const atomic_int *cancelled)
{
    struct emq__wait_req req = {.prefix = EMQ_STR_LIT("emq"),
                                .queues = queues,
                                .n = n,
                                .timeout_ms = 1000,
                                .cancelled = cancelled};

    req.ticket = s->base.ops->ticket(&s->base, req.prefix, queues, n);
    return req;
}

EMQ_TEST(ring_between_looking_and_sleeping_is_seen)
{
    static char queue[] = "a";
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    emq_str queues[3] = {EMQ_STR_LIT("b"), EMQ_STR_LIT("a"), EMQ_STR_LIT("c")};
    struct emq__wait_req req = wait_for(s, queues, 3, NULL);
    struct emq__wait_res res;

    CHECK_STATUS(sq_write(s, ring_queue, queue, NULL), EMQ_OK);
    CHECK_STATUS(s->base.ops->wait(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    req = wait_for(s, queues, 3, NULL);
    req.timeout_ms = 0;
    CHECK_STATUS(s->base.ops->wait(&s->base, &req, &res, NULL, NULL), EMQ_TIMEOUT);
    ground_close(s);
}

struct sleeper {
    struct sq *s;
    atomic_int cancelled, rounds;
    emq_status last;
};

static void *sleeps(void *arg)
{
    struct sleeper *p = arg;
    emq_str queue = EMQ_STR_LIT("quiet");

    do {
        struct emq__wait_req req = wait_for(p->s, &queue, 1, &p->cancelled);
        struct emq__wait_res res;
        atomic_fetch_add(&p->rounds, 1);
        p->last = p->s->base.ops->wait(&p->s->base, &req, &res, NULL, NULL);
    } while (p->last == EMQ_TIMEOUT);
    return NULL;
}

EMQ_TEST(interrupt_ends_every_wait_of_the_handle)
{
    struct sq *s = ground_open(ground_path("q.db"), NULL, 0);
    struct sleeper p[4];
    pthread_t t[4];

    for (int i = 0; i < 4; i++) {
        p[i] = (struct sleeper){.s = s};
        CHECK_INT(pthread_create(&t[i], NULL, sleeps, &p[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        while (atomic_load(&p[i].rounds) == 0)
            (void)usleep(1000);
        atomic_store(&p[i].cancelled, 1);
    }
    s->base.ops->interrupt(&s->base);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_join(t[i], NULL), 0);
        CHECK_STATUS(p[i].last, EMQ_CANCELLED);
    }
    ground_close(s);
}

EMQ_TEST(queues_of_one_name_under_two_prefixes_have_two_bells)
{
    struct sq *s = ground_open(":memory:", NULL, 0);
    emq_str q = EMQ_STR_LIT("mail");
    uint64_t a = s->base.ops->ticket(&s->base, EMQ_STR_LIT("one"), &q, 1);
    uint64_t b = s->base.ops->ticket(&s->base, EMQ_STR_LIT("two"), &q, 1);
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("one"), .queue = q};
    struct emq__wake_res res;

    CHECK_STATUS(s->base.ops->wake(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    CHECK(s->base.ops->ticket(&s->base, EMQ_STR_LIT("one"), &q, 1) != a);
    CHECK(s->base.ops->ticket(&s->base, EMQ_STR_LIT("two"), &q, 1) == b);
    ground_close(s);
}

EMQ_TEST(without_shared_memory_waiters_look_at_the_file)
{
    const char *path = ground_path("q.db");
    char side[4096];
    struct sq *s;
    emq_str queue = EMQ_STR_LIT("mail");

    (void)snprintf(side, sizeof side, "%s-emq", path);
    CHECK_INT(mkdir(side, 0700), 0); /* no side file can be made */
    s = ground_open(path, NULL, 0);
    CHECK(s->bell.poll);
    struct emq__wait_req req = wait_for(s, &queue, 1, NULL);
    struct emq__wait_res res;
    emq_status st;
    struct helper h = HELPER("loop", path, "off", "1", "1");
    int rounds = 20;
    do
        st = s->base.ops->wait(&s->base, &req, &res, NULL, NULL);
    while (st == EMQ_TIMEOUT && --rounds > 0);
    CHECK_STATUS(st, EMQ_OK);
    char line[64];
    helper_line(&h, line, sizeof line);
    CHECK_INT(helper_end(&h), 0);
    ground_close(s);
}

EMQ_TEST(clocks_of_the_handle_move_forward_together)
{
    struct sq *s = ground_open(":memory:", NULL, 0);
    int64_t wall = sq_now_ms(s), boot = sq_boot_ms(s);

    CHECK_STATUS(s->base.ops->advance(&s->base, 86400000, NULL), EMQ_OK);
    CHECK(sq_now_ms(s) - wall >= 86400000);
    CHECK(sq_boot_ms(s) - boot >= 86400000);
    CHECK_STATUS(s->base.ops->advance(&s->base, -1, NULL), EMQ_E_INVALID);
    ground_close(s);
}
