/* SPDX-License-Identifier: MIT
 *
 * The library as a guest in somebody's process: what it leaves alone, whatever is open and at work.
 */
#include "worker_fixture.h"

#include "base/str.h"

#include <dirent.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

extern char **environ;

struct habits {
    struct sigaction act[65];
    char environment[1 << 16], locale[200];
    sigset_t blocked;
};

static void look(struct habits *h)
{
    size_t n = 0;

    memset(h, 0, sizeof *h);
    for (int sig = 1; sig <= 64; sig++)
        (void)sigaction(sig, NULL, &h->act[sig]); /* not all of them exist */
    for (char **e = environ; *e; e++)
        n += (size_t)snprintf(h->environment + n, sizeof h->environment - n, "%s\n", *e);
    CHECK(n < sizeof h->environment);
    (void)snprintf(h->locale, sizeof h->locale, "%s %s", setlocale(LC_ALL, NULL),
                   getenv("TZ") ? getenv("TZ") : "none");
    CHECK_INT(pthread_sigmask(SIG_SETMASK, NULL, &h->blocked), 0);
}

static void same(const struct habits *a, const struct habits *b)
{
    for (int sig = 1; sig <= 64; sig++)
        if (a->act[sig].sa_handler != b->act[sig].sa_handler)
            fail_msg("the handler of signal %d was changed", sig);
    assert_string_equal(a->environment, b->environment);
    assert_string_equal(a->locale, b->locale);
    CHECK(memcmp(&a->blocked, &b->blocked, sizeof a->blocked) == 0);
}

/* A client, a watch thread, a worker with a handler at work and one with a program. */
static void at_work(void (*look_now)(void *), void *arg)
{
    struct bench *b = bench_open("q");
    static const char *const program[] = {"cat", NULL};
    int fd = -1;

    CHECK_STATUS(emq_fd(b->f.c, S("q"), &fd, NULL), EMQ_OK);
    struct pollfd first = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&first, 1, PATIENCE_MS), 1); /* its thread runs */
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    struct wf_opts o;
    wf_opts(&o, "programs", &b->p);
    o.o.handler = NULL;
    o.o.argv = program;
    emq_worker *x = wf_start(&b->f, &o);
    wf_add(&b->f, "programs", "p", "data");
    WAIT_FOR(wf_state(&b->f, "programs", "p") == EMQ_COMPLETED_STATE);
    look_now(arg);
    b->p.gate = 1;
    wf_stop(w, 0);
    wf_stop(x, 0);
    bench_close(b);
}

static void must_be_unchanged(void *arg)
{
    static struct habits now;

    look(&now);
    same(arg, &now);
}

/* All signals but those that can't be blocked, the two that the C library keeps for itself, and the one
 * that the thread sanitizer takes. */
#define BIT(sig)  (1ULL << ((sig)-1))
#define BLOCKABLE (~0ULL & ~(BIT(SIGKILL) | BIT(SIGSTOP) | BIT(32) | BIT(33) | BIT(SIGSYS)))

static void threads_must_block_all(void *arg)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int *others = arg;

    CHECK(d != NULL);
    *others = 0;
    while ((e = readdir(d)) != NULL) {
        char path[400], line[200];
        unsigned long long blocked = 0;
        if (e->d_name[0] == '.' || strtol(e->d_name, NULL, 10) == getpid())
            continue;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f)
            continue; /* it has just ended */
        bool found = false;
        while (!found && fgets(line, sizeof line, f))
            found = sscanf(line, "SigBlk: %llx", &blocked) == 1;
        fclose(f);
        if (!found)
            continue;
        (*others)++;
        if ((blocked & BLOCKABLE) != BLOCKABLE)
            fail_msg("a thread of the library blocks only %llx", blocked);
    }
    closedir(d);
}

struct visit {
    struct habits before;
    int threads;
};

/* Whose signal masks are its own. */
static bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, "valgrind");
}

static void both(void *arg)
{
    struct visit *v = arg;

    must_be_unchanged(&v->before);
    if (!under_valgrind())
        threads_must_block_all(&v->threads);
}

/* One test: what an earlier one had left behind would be taken for the habit of the process. */
EMQ_TEST(the_process_keeps_its_signals_environment_and_locale_and_library_threads_block_all_signals)
{
    static struct visit v;

    look(&v.before);
    at_work(both, &v);
    must_be_unchanged(&v.before);
    if (!under_valgrind())
        CHECK(v.threads >= 9); /* checkpoints, watch, and two workers of four */
}
