/* SPDX-License-Identifier: MIT
 *
 * The worker as a guest in its process: threads, signals, descriptors, fork, memory, a store that can't
 * be reached; and how much it takes at once.
 */
#include "hook_engine.h"
#include "lib/failmalloc.h"
#include "worker_fixture.h"

#include "base/str.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int fds_open(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

EMQ_TEST(workers_that_come_and_go_leave_no_descriptor_open)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    (void)work_off(b);
    int before = fds_open();
    for (int i = 0; i < 20; i++) {
        b->o.o.exit_when_empty = 0;
        emq_worker *w = wf_start(&b->f, &b->o);
        WAIT_FOR(wf_stats(w).takes > 0);
        wf_stop(w, 0);
    }
    /* The store opens a reader more when one is busy and keeps it; that is not one a worker. */
    CHECK(fds_open() - before < 10);
    bench_close(b);
}

/* The blocked signals of each thread whose name starts with "emq-". */
static int threads_blocking(int sig, int *threads)
{
    int n = 0;
    struct dirent *e;
    DIR *d = opendir("/proc/self/task");

    CHECK(d != NULL);
    *threads = 0;
    while ((e = readdir(d)) != NULL) {
        char path[400], line[200], name[40] = "";
        unsigned long long blocked = 0;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f)
            continue;
        while (fgets(line, sizeof line, f)) {
            (void)sscanf(line, "Name: %39s", name);
            (void)sscanf(line, "SigBlk: %llx", &blocked);
        }
        fclose(f);
        if (strncmp(name, "emq-", 4) != 0)
            continue;
        (*threads)++;
        n += (blocked >> (sig - 1)) & 1 ? 1 : 0;
    }
    closedir(d);
    return n;
}

EMQ_TEST(threads_of_a_worker_are_named_and_block_all_signals)
{
    struct bench *b = bench_open("q");
    int threads = 0;

    b->o.o.concurrency = 3;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(threads_blocking(SIGTERM, &threads) == threads && threads >= 6);
    CHECK_INT(threads_blocking(SIGCHLD, &threads), threads);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_worker_does_not_survive_fork_and_says_so)
{
    struct bench *b = bench_open("q");
    emq_worker *w = wf_start(&b->f, &b->o);

    WAIT_FOR(wf_stats(w).takes > 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        emq_worker_stop(w, 1); /* nothing happens to the parent's */
        emq_worker_pause(w);
        int bad = emq_worker_join(w, 0, NULL) != EMQ_E_FORKED;
        emq_worker_free(w);
        _exit(bad);
    }
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    wf_add(&b->f, "q", "a", "");
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    wf_stop(w, 0);
    bench_close(b);
}

static emq_status unreachable(void *user, const char *act, const void *req)
{
    (void)user;
    (void)act;
    (void)req;
    return EMQ_E_UNAVAIL;
}

EMQ_TEST(a_worker_does_not_start_without_its_store)
{
    struct bench *b = bench_open("q");
    struct hook h = {.before = unreachable};
    emq_worker *w = NULL;
    emq_error err = {0};

    struct emq__engine *real = b->f.c->e;
    hook_wrap(&b->f.c->e, &h);
    b->f.c->io_timeout_ms = 200;
    CHECK_STATUS(emq_worker_start(&w, b->f.c, &b->o.o, &err), EMQ_E_UNAVAIL);
    CHECK(w == NULL);
    CHECK(err.text[0] != '\0');
    b->f.c->e = real;
    bench_close(b);
}

EMQ_TEST(a_start_without_memory_fails_cleanly)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    for (size_t nth = 1;; nth++) {
        emq_worker *w = NULL;
        emq_error err = {0};
        test_fail_alloc(nth);
        emq_status s = emq_worker_start(&w, b->f.c, &b->o.o, &err);
        bool hit = test_alloc_failed();
        if (s == EMQ_OK)
            wf_stop(w, 0);
        else
            CHECK_STATUS_ERR(s, EMQ_E_NOMEM, &err);
        if (!hit)
            break;
        CHECK(nth < 1000);
    }
    (void)work_off(b);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_COMPLETED_STATE);
    bench_close(b);
}

/* ---- how much is taken at once ----------------------------------------------------------- */

static int64_t takes_for(int32_t priority, int32_t concurrency)
{
    struct bench *b = bench_open("q");

    b->o.o.prefetch = 32;
    for (int i = 0; i < 400; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "j%d", i);
        wf_add_opts(&b->f, "q", id, "", (emq_add_opts){.priority = priority});
    }
    CHECK_STATUS(emq_set_concurrency(b->f.c, S("q"), concurrency, NULL), EMQ_OK);
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, 400);
    bench_close(b);
    return st.takes;
}

EMQ_TEST(fast_handlers_get_jobs_in_hand_when_prefetch_is_on)
{
    CHECK(takes_for(0, 0) < 200);
}

EMQ_TEST(nothing_is_prefetched_from_a_queue_with_priorities)
{
    CHECK(takes_for(1, 0) >= 400);
}

EMQ_TEST(nothing_is_prefetched_from_a_queue_with_a_limit)
{
    CHECK(takes_for(0, 50) >= 400);
}
