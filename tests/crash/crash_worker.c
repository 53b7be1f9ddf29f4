/* SPDX-License-Identifier: MIT
 *
 * A worker as a process of its own, to be killed. Each begun handler appends "B id pid" to the effects
 * file and each effect "E id pid", one write each, so that what a killed process did stays readable.
 *
 * crash_worker URL EFFECTS [key=value...]
 *   concurrency lock interval max_stalled max_jobs grace mode   as of emq_worker_opts
 *   empty=1       exit_when_empty
 *   add=N         adds N jobs "<pid>-i" while it works, each to run after delay=MS
 *   clock=MS      its wall clock is so far off
 *   poison=ID     abort() in the handler of this job
 *   work=MS       the handler sleeps so long
 *   go=FD         opens the store, then waits until FD is closed before it adds and works
 *   name=NAME
 * Prints "started N completed N failed N lost N recovered N" at its end. SIGTERM: stops.
 */
#include "base/str.h"

#include <echomq/worker.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

struct self {
    int effects, go;
    int64_t work_ms, add, delay_ms;
    const char *poison;
    emq_client *c;
};

static emq_worker *_Atomic the_worker;
static int64_t clock_off_ms;

/* Through the linker's --wrap. */
int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (rc == 0 && id == CLOCK_REALTIME)
        t->tv_sec += clock_off_ms / 1000;
    return rc;
}

static void die(const char *what, const emq_error *err)
{
    fprintf(stderr, "crash_worker: %s: %s\n", what, err ? err->text : strerror(errno));
    exit(1);
}

static void note(const struct self *s, char what, emq_str id)
{
    char line[400];
    int n = snprintf(line, sizeof line, "%c %.*s %ld\n", what, EMQ_STR_ARG(id), (long)getpid());

    if (n < 0 || write(s->effects, line, (size_t)n) != n)
        die("effects", NULL);
}

static emq_verdict handle(emq_job *job, void *user)
{
    const struct self *s = user;

    note(s, 'B', emq_job_id(job));
    if (s->poison && emq__str_is(emq_job_id(job), s->poison))
        abort();
    if (s->work_ms > 0) {
        struct timespec t = {.tv_sec = s->work_ms / 1000, .tv_nsec = (s->work_ms % 1000) * 1000000};
        (void)nanosleep(&t, NULL);
    }
    note(s, 'E', emq_job_id(job));
    return EMQ_DONE;
}

static void *add_jobs(void *user)
{
    struct self *s = user;

    for (int64_t i = 0; i < s->add; i++) {
        char id[64];
        emq_add_opts o = {
            .size = sizeof o, .delay_ms = s->delay_ms, .keep_completed_count = EMQ_KEEP_ALL};
        emq_error err = {0};
        (void)snprintf(id, sizeof id, "%ld-%lld", (long)getpid(), (long long)i);
        o.id = emq_cstr(id);
        if (emq_add(s->c, emq_cstr("q"), emq_cstr(""), &o, NULL, &err) != EMQ_OK)
            die("add", &err);
        note(s, 'A', o.id); /* acknowledged */
    }
    return NULL;
}

static void on_term(int sig)
{
    (void)sig;
    emq_worker_stop(the_worker, 0);
}

static void option(const char *arg, struct self *s, emq_worker_opts *o)
{
    const char *equals = strchr(arg, '=');
    int64_t n = 0;

    if (!equals)
        die(arg, NULL);
    emq_str key = emq_strn(arg, (size_t)(equals - arg));
    bool number = emq__str_to_i64(emq_cstr(equals + 1), &n);
    if (emq__str_is(key, "name"))
        o->name = emq_cstr(equals + 1);
    else if (emq__str_is(key, "poison"))
        s->poison = equals + 1;
    else if (!number)
        die(arg, NULL);
    else if (emq__str_is(key, "concurrency"))
        o->concurrency = (int32_t)n;
    else if (emq__str_is(key, "lock"))
        o->lock_ms = n;
    else if (emq__str_is(key, "interval"))
        o->stalled_interval_ms = n;
    else if (emq__str_is(key, "max_stalled"))
        o->max_stalled = n;
    else if (emq__str_is(key, "max_jobs"))
        o->max_jobs = n;
    else if (emq__str_is(key, "grace"))
        o->grace_ms = n;
    else if (emq__str_is(key, "mode"))
        o->mode = (int32_t)n;
    else if (emq__str_is(key, "empty"))
        o->exit_when_empty = (int32_t)n;
    else if (emq__str_is(key, "add"))
        s->add = n;
    else if (emq__str_is(key, "delay"))
        s->delay_ms = n;
    else if (emq__str_is(key, "clock"))
        clock_off_ms = n;
    else if (emq__str_is(key, "work"))
        s->work_ms = n;
    else if (emq__str_is(key, "go"))
        s->go = (int)n;
    else
        die(arg, NULL);
}

static void log_line(void *user, int level, emq_str message)
{
    (void)user;
    if (level <= EMQ_LOG_ERROR)
        fprintf(stderr, "crash_worker %ld: %.*s\n", (long)getpid(), EMQ_STR_ARG(message));
}

int main(int argc, char **argv)
{
    struct self s = {.effects = -1, .go = -1};
    emq_worker_queue q = {.size = sizeof q, .name = EMQ_STR_LIT("q")};
    const emq_worker_queue *pointer = &q;
    emq_worker_opts o = {
        .size = sizeof o, .queues = &pointer, .n_queues = 1, .handler = handle, .user = &s};
    emq_open_opts open_opts = {.size = sizeof open_opts, .log = log_line};
    emq_error err = {0};
    emq_worker *w = NULL;
    pthread_t adder;
    struct sigaction term = {.sa_handler = on_term};

    if (argc < 3)
        die("usage", NULL);
    for (int i = 3; i < argc; i++)
        option(argv[i], &s, &o);
    s.effects = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (s.effects < 0)
        die(argv[2], NULL);
    if (emq_open(&s.c, emq_cstr(argv[1]), &open_opts, &err) != EMQ_OK)
        die("open", &err);
    for (char byte; s.go >= 0 && read(s.go, &byte, 1) > 0;) {
    }
    if (s.add > 0 && pthread_create(&adder, NULL, add_jobs, &s) != 0)
        die("thread", NULL);
    if (emq_worker_start(&w, s.c, &o, &err) != EMQ_OK)
        die("start", &err);
    the_worker = w;
    (void)sigaction(SIGTERM, &term, NULL);
    if (emq_worker_join(w, -1, &err) != EMQ_OK)
        die("join", &err);
    emq_worker_stats st = {.size = sizeof st};
    emq_worker_get_stats(w, &st);
    printf("started %lld completed %lld failed %lld lost %lld recovered %lld\n",
           (long long)st.started, (long long)st.completed, (long long)st.failed, (long long)st.lost,
           (long long)st.recovered);
    if (s.add > 0)
        (void)pthread_join(adder, NULL);
    emq_worker_free(w);
    emq_close(s.c);
    return 0;
}
