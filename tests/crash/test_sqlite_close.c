/* SPDX-License-Identifier: MIT
 *
 * What once destroyed a hundred acknowledged jobs: a process loses its POSIX locks on the file, because
 * something in it opened and closed the file; then another program, believing itself alone, deletes the
 * log at its own close. Nothing acknowledged may be missing afterwards, whoever closes what.
 */
#include "ground.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SECOND_COPY 0 /* sanitizers don't live in two link maps */
#else
#define SECOND_COPY 1
#endif

enum { ROUNDS = 12, EACH = 10 };

/* Was it there? */
static bool open_and_close(const char *path, const char *tail)
{
    char name[4096], byte;

    (void)snprintf(name, sizeof name, "%s%s", path, tail);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        CHECK_INT(errno, ENOENT);
        return false;
    }
    CHECK(read(fd, &byte, 1) >= 0);
    CHECK_INT(close(fd), 0);
    return true;
}

/* Like a handler that makes a backup. */
static void copy_all(const char *path)
{
    CHECK(open_and_close(path, ""));
    CHECK(open_and_close(path, "-wal"));
    CHECK(open_and_close(path, "-shm"));
}

static void fork_and_close(const char *path)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        copy_all(path);
        for (int fd = 3; fd < 256; fd++)
            (void)close(fd);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

static void *second; /* a copy of libsqlite3 with its own idea of which locks this process has */

static void second_copy(const char *path)
{
    int (*p_open)(const char *, sqlite3 **);
    int (*p_exec)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
    int (*p_close)(sqlite3 *);
    sqlite3 *db = NULL;

    if (!second) {
        Dl_info info;
        CHECK(dladdr((void *)(uintptr_t)sqlite3_open, &info) != 0);
        second = dlmopen(LM_ID_NEWLM, info.dli_fname, RTLD_NOW | RTLD_LOCAL);
        if (!second)
            fail_msg("%s", dlerror());
    }
    *(void **)&p_open = dlsym(second, "sqlite3_open");
    *(void **)&p_exec = dlsym(second, "sqlite3_exec");
    *(void **)&p_close = dlsym(second, "sqlite3_close");
    CHECK(p_open && p_exec && p_close && p_open != sqlite3_open);
    CHECK_INT(p_open(path, &db), SQLITE_OK);
    CHECK_INT(p_exec(db, "SELECT count(*) FROM t", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(p_close(db), SQLITE_OK);
}

static void nothing(const char *path)
{
    (void)path;
}

static void shell(const char *path)
{
    struct helper h = helper_start(
        (const char *const[]){"/usr/bin/sqlite3", path, "SELECT count(*) FROM t", NULL});
    char line[64];

    helper_line(&h, line, sizeof line);
    CHECK_INT(helper_end(&h), 0);
}

static void look(const char *path)
{
    struct helper h = HELPER("foreign-look", path);

    CHECK_INT(helper_end(&h), 0);
}

/* Puts rows; in between the harm, and another program that opens and closes the file. All that was
 * acknowledged must be there, for this handle and for whoever opens the file after it. */
static void survives(void (*harm)(const char *path), void (*visit)(const char *path))
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    bool acked[ROUNDS * EACH] = {false};
    int doubts = 0;

    for (int64_t n = 0; n < ROUNDS * EACH; n++) {
        if (n % EACH == 3)
            harm(path);
        if (n % EACH == 5)
            visit(path);
        emq_status st = ground_put(s, n, NULL);
        acked[n] = st == EMQ_OK;
        doubts += st == EMQ_E_IN_DOUBT;
        CHECK(st == EMQ_OK || st == EMQ_E_IN_DOUBT);
    }
    for (int n = 0; n < ROUNDS * EACH; n++)
        if (acked[n] && !ground_has(s, n))
            fail_msg("row %d was acknowledged and is not there", n);
    ground_close(s);
    visit(path);
    s = ground_open(path, NULL, 0);
    for (int n = 0; n < ROUNDS * EACH; n++)
        if (acked[n] && !ground_has(s, n))
            fail_msg("row %d was acknowledged and is gone after closing", n);
    CHECK_INT(doubts, 0); /* the guard prevents it, it is not only noticed */
    ground_close(s);
}

EMQ_TEST(file_opened_and_closed_in_the_process_loses_nothing)
{
    survives(copy_all, look);
}

EMQ_TEST(file_closed_by_a_forked_child_loses_nothing)
{
    survives(fork_and_close, look);
}

EMQ_TEST(second_copy_of_sqlite_in_the_process_loses_nothing)
{
    if (SECOND_COPY)
        survives(second_copy, look);
}

EMQ_TEST(second_copy_alone_does_not_delete_the_log)
{
    if (SECOND_COPY)
        survives(second_copy, nothing);
}

EMQ_TEST(sqlite3_shell_loses_nothing)
{
    test_require(access("/usr/bin/sqlite3", X_OK) == 0, "sqlite3", "apt-get install sqlite3");
    survives(copy_all, shell);
}

EMQ_TEST(another_handle_that_closes_takes_no_locks_away)
{
    const char *path = ground_path("q.db");
    struct sq *a = ground_open(path, NULL, 0), *b = ground_open(path, NULL, 0);

    for (int64_t n = 0; n < 40; n++) {
        if (n % 10 == 3) {
            struct sq *c = ground_open(path, NULL, 0);
            ground_close(c);
        }
        if (n % 10 == 4)
            copy_all(path);
        if (n % 10 == 5)
            look(path);
        CHECK_STATUS(ground_put(n % 2 ? a : b, n, NULL), EMQ_OK);
    }
    CHECK_INT(ground_count(a), 40);
    CHECK_INT(ground_count(b), 40);
    ground_close(a);
    look(path);
    CHECK_STATUS(ground_put(b, 40, NULL), EMQ_OK);
    CHECK_INT(ground_count(b), 41);
    ground_close(b);
}

enum { VISITS = 25, THREADS = 3, LIVES = 10 };

/* What a thread of the process that may die has written; kept in memory that its parent reads, too. */
struct stream {
    int64_t next, acked, doubtful[VISITS + LIVES];
    int doubts;
    char failure[512];
};

struct life {
    struct sq *s;
    struct stream *w;
    atomic_bool *stop;
};

static void *write_all_the_time(void *arg)
{
    struct life *l = arg;
    struct stream *w = l->w;

    while (!atomic_load(l->stop)) {
        emq_error err = {0};
        emq_status st = ground_put(l->s, w->next, &err);
        if (st == EMQ_E_BUSY) /* the locks were lost each time it was tried: nothing was changed */
            continue;
        if (st == EMQ_E_IN_DOUBT && w->doubts < VISITS) { /* the log went during the act */
            w->doubtful[w->doubts++] = w->next;
        } else if (st != EMQ_OK) {
            (void)snprintf(w->failure, sizeof w->failure, "row %lld: %s: %s", (long long)w->next,
                           emq_status_name(st), err.text);
            return NULL;
        } else {
            w->acked++;
        }
        w->next++;
    }
    return NULL;
}

static void live(const char *path, struct stream *w)
{
    struct sq *s = ground_open(path, "normal", 0);
    struct life l[THREADS];
    pthread_t t[THREADS];
    atomic_bool stop = false;

    for (int i = 0; i < THREADS; i++) {
        l[i] = (struct life){.s = s, .w = &w[i], .stop = &stop};
        CHECK_INT(pthread_create(&t[i], NULL, write_all_the_time, &l[i]), 0);
    }
    for (int i = 0; i < VISITS; i++) {
        CHECK(open_and_close(path, ""));
        (void)open_and_close(path, "-wal"); /* may be deleted by the visitor, until the next row */
        (void)open_and_close(path, "-shm");
        look(path);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(t[i], NULL), 0);
    ground_close(s);
}

/* Was it alive at its end? Where the locks are lost just while the file is opened anew, and before it is guarded,
 * the visitor cuts the index of the log short under SQLite, which is the end of the process. */
static bool lives_to_its_end(const char *path, struct stream *w)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGBUS, SIG_DFL);
        live(path, w);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < THREADS; i++)
        assert_string_equal(w[i].failure, "");
    if (status == 0)
        return true;
    CHECK(WIFSIGNALED(status));
    CHECK_INT(WTERMSIG(status), SIGBUS);
    for (int i = 0; i < THREADS; i++)
        w[i].doubtful[w[i].doubts++] = w[i].next++;
    return false;
}

EMQ_TEST(nothing_is_lost_while_threads_write_at_the_same_moment)
{
    const char *path = ground_path("q.db");
    size_t size = THREADS * sizeof(struct stream);
    struct stream *w = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int lives = 1;

    CHECK(w != MAP_FAILED);
    for (int i = 0; i < THREADS; i++)
        w[i].next = 1 + i * 10000000;
    while (!lives_to_its_end(path, w)) {
        look(path);
        CHECK(++lives <= LIVES);
    }
    look(path);
    struct sq *s = ground_open(path, NULL, 0);
    int64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        sum += w[i].acked;
        for (int k = 0; k < w[i].doubts; k++)
            sum += ground_has(s, w[i].doubtful[k]);
    }
    CHECK_INT(ground_count(s), sum);
    ground_close(s);
    CHECK_INT(munmap(w, size), 0);
}

/* ---- locks lost in the middle of a transaction --------------------------------------------------- */

struct careless {
    int64_t n;
    int runs;
    const char *path;
};

static emq_status put_carelessly(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct careless *c = arg;
    char sql[80];

    if (c->runs++ == 0)
        copy_all(c->path);
    (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%lld, '')", (long long)c->n);
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put", err);
}

EMQ_TEST(write_lock_lost_before_commit_is_noticed_and_the_act_is_run_again)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    struct careless c = {.n = 1, .path = path};
    emq_error err = {0};

    CHECK_STATUS_ERR(sq_write(s, put_carelessly, &c, &err), EMQ_OK, &err);
    CHECK_INT(c.runs, 2);
    CHECK_INT(ground_count(s), 1);
    ground_close(s);
}

/* ---- a log that is deleted without asking ---------------------------------------------------------- */

EMQ_TEST(deleted_log_loses_nothing_of_a_program_that_is_alone)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    emq_error err = {0};

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    CHECK_INT(unlink(ground_path("q.db-wal")), 0);
    emq_status st = ground_put(s, 2, &err);
    if (st == EMQ_E_IN_DOUBT) /* else it was noticed before anything was written */
        st = ground_has(s, 2) ? EMQ_OK : ground_put(s, 2, &err);
    CHECK_STATUS_ERR(st, EMQ_OK, &err);
    CHECK(ground_has(s, 1));
    CHECK(ground_has(s, 2));
    ground_close(s);
    s = ground_open(path, NULL, 0);
    CHECK(ground_has(s, 2));
    ground_close(s);
}

static emq_status put_and_delete_log(struct sq_tx *tx, void *arg, emq_error *err)
{
    (void)arg;
    int rc = sqlite3_exec(tx->conn->db, "INSERT INTO t VALUES (5, '')", NULL, NULL, NULL);
    CHECK_INT(unlink(ground_path("q.db-wal")), 0);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put", err);
}

EMQ_TEST(log_deleted_during_the_act_leaves_it_in_doubt)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    emq_error err = {0};

    CHECK_STATUS(sq_write(s, put_and_delete_log, NULL, &err), EMQ_E_IN_DOUBT);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_DUPLICATE);
    CHECK_STATUS_ERR(ground_put(s, 6, &err), EMQ_OK, &err);
    CHECK(ground_has(s, 6));
    ground_close(s);
    s = ground_open(path, NULL, 0);
    CHECK(ground_has(s, 6));
    ground_close(s);
}
