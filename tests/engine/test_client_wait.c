/* SPDX-License-Identifier: MIT
 *
 * Waiting: for work, for the end of a job, for events; interrupts; descriptors for event loops;
 * fork.
 */
#include "client_fixture.h"

#include "base/str.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEADLINE_MS = 30000 };

struct taker {
    struct fixture *f;
    pthread_t thread;
    emq_status status;
    emq_job *job;
    int64_t wait_ms;
};

static void *take_in_thread(void *arg)
{
    struct taker *t = arg;
    emq_take_opts o = {.size = sizeof o, .wait_ms = t->wait_ms};

    t->status = emq_take(t->f->c, Q, &o, &t->job, NULL);
    return NULL;
}

static void start(struct taker *t, struct fixture *f, int64_t wait_ms)
{
    *t = (struct taker){.f = f, .wait_ms = wait_ms};
    CHECK_INT(pthread_create(&t->thread, NULL, take_in_thread, t), 0);
}

static size_t waiting_calls(const emq_client *c)
{
    size_t n = 0;

    for (const struct emq__waiter *w = atomic_load(&c->waiters); w; w = w->next)
        n += atomic_load(&w->state) == 1;
    return n;
}

static void until_waiting(const emq_client *c, size_t n)
{
    struct emq__mono begin = emq__mono_now();

    while (waiting_calls(c) < n) {
        CHECK(emq__mono_diff_ms(begin, emq__mono_now()) < DEADLINE_MS);
        (void)usleep(1000);
    }
}

EMQ_TEST(a_waiting_take_gets_a_job_that_is_added_meanwhile)
{
    struct fixture f;
    struct taker t;

    fixture_open(&f);
    start(&t, &f, DEADLINE_MS);
    until_waiting(f.c, 1);
    add_id(&f, "a");
    CHECK_INT(pthread_join(t.thread, NULL), 0);
    CHECK_STATUS(t.status, EMQ_OK);
    CHECK_STR(emq_job_id(t.job), "a");
    emq_job_free(t.job);
    fixture_close(&f);
}

EMQ_TEST(a_take_that_waits_in_vain_is_empty)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .wait_ms = 20};
    emq_job *job;

    fixture_open(&f);
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_EMPTY);
    fixture_close(&f);
}

EMQ_TEST(an_interrupt_ends_every_wait_at_once)
{
    struct fixture f;
    struct taker t[3];

    fixture_open(&f);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(t); i++)
        start(&t[i], &f, -1);
    until_waiting(f.c, EMQ_ARRAY_LEN(t));
    emq_interrupt(f.c);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(t); i++) {
        CHECK_INT(pthread_join(t[i].thread, NULL), 0);
        CHECK_STATUS(t[i].status, EMQ_CANCELLED);
    }
    CHECK_INT(waiting_calls(f.c), 0);
    fixture_close(&f);
}

EMQ_TEST(an_interrupt_that_meets_no_wait_ends_the_next_one_and_only_that)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .wait_ms = 20};
    emq_job *job;

    fixture_open(&f);
    emq_interrupt(f.c);
    CHECK_STATUS(emq_take(f.c, Q, NULL, &job, NULL), EMQ_EMPTY); /* does not wait */
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_CANCELLED);
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_EMPTY);
    fixture_close(&f);
}

static emq_client *client_of_handler;

static void interrupt_from_handler(int number)
{
    (void)number;
    emq_interrupt(client_of_handler);
}

EMQ_TEST(an_interrupt_from_a_signal_handler_ends_the_wait)
{
    struct fixture f;
    emq_take_opts o = {.size = sizeof o, .wait_ms = DEADLINE_MS};
    emq_job *job;
    struct sigaction act = {.sa_handler = interrupt_from_handler}, before;
    struct itimerspec in = {.it_value.tv_nsec = 50 * 1000 * 1000};
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;

    fixture_open(&f);
    client_of_handler = f.c;
    CHECK_INT(sigaction(SIGUSR1, &act, &before), 0);
    CHECK_INT(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
    CHECK_INT(timer_settime(timer, 0, &in, NULL), 0);
    CHECK_STATUS(emq_take(f.c, Q, &o, &job, NULL), EMQ_CANCELLED);
    CHECK_INT(timer_delete(timer), 0);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), 0);
    fixture_close(&f);
}

EMQ_TEST(waiting_for_a_job_tells_how_it_ended)
{
    struct fixture f;
    emq_job *done;

    fixture_open(&f);
    add_id(&f, "a");
    add_id(&f, "b");
    CHECK_STATUS(emq_wait(f.c, Q, S("a"), 0, NULL, NULL), EMQ_TIMEOUT);
    CHECK_STATUS(emq_wait(f.c, Q, S("a"), 30, NULL, NULL), EMQ_TIMEOUT);
    CHECK_STATUS(emq_wait(f.c, Q, S("nobody"), -1, NULL, NULL), EMQ_NOT_FOUND);
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "42", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_wait(f.c, Q, S("a"), -1, &done, NULL), EMQ_OK);
    CHECK_STR(emq_job_result(done), "42");
    emq_job_free(done);
    job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "no", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_wait(f.c, Q, S("b"), -1, &done, NULL), EMQ_FAILED);
    CHECK_STR(emq_job_failed_reason(done), "no");
    emq_job_free(done);
    CHECK_STATUS(emq_wait(f.c, Q, S("b"), -1, NULL, NULL), EMQ_FAILED);
    fixture_close(&f);
}

static void *complete_in_thread(void *arg)
{
    struct fixture *f = arg;

    until_waiting(f->c, 1);
    emq_job *job = take_one(f);
    CHECK_STATUS(settle(f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
    return NULL;
}

EMQ_TEST(a_wait_ends_when_the_job_does)
{
    struct fixture f;
    pthread_t thread;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_INT(pthread_create(&thread, NULL, complete_in_thread, &f), 0);
    CHECK_STATUS(emq_wait(f.c, Q, S("a"), DEADLINE_MS, NULL, NULL), EMQ_OK);
    CHECK_INT(pthread_join(thread, NULL), 0);
    fixture_close(&f);
}

EMQ_TEST(a_finished_job_past_its_age_is_read_and_counted_until_a_sweep_removes_it)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .id = S("a"), .keep_completed_ms = 1000};
    emq_queue_stats stats = {.size = sizeof stats};
    int64_t recovered, failed;
    emq_job *job;
    emq_list *list;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
    fixture_advance(&f, 1001);
    for (int swept = 0; swept < 2; swept++) {
        CHECK_STATUS(emq_get(f.c, Q, S("a"), &job, NULL), swept ? EMQ_NOT_FOUND : EMQ_OK);
        if (!swept)
            emq_job_free(job);
        CHECK_STATUS(emq_wait(f.c, Q, S("a"), 0, NULL, NULL), swept ? EMQ_NOT_FOUND : EMQ_OK);
        CHECK_STATUS(emq_find(f.c, Q, NULL, &list, NULL), EMQ_OK);
        CHECK_INT(emq_list_len(list), 1 - swept);
        emq_list_free(list);
        CHECK_STATUS(emq_stats(f.c, Q, &stats, NULL), EMQ_OK);
        CHECK_INT(stats.count[EMQ_COMPLETED_STATE], 1 - swept);
        CHECK_STATUS(emq_sweep(f.c, Q, NULL, &recovered, &failed, NULL), EMQ_OK);
    }
    fixture_close(&f);
}

EMQ_TEST(events_are_read_after_a_cursor)
{
    struct fixture f;
    emq_list *all, *more;
    emq_str id = {0};

    fixture_open(&f);
    CHECK_STATUS(emq_events(f.c, Q, NONE, 0, 0, &all, NULL, NULL), EMQ_TIMEOUT);
    add_id(&f, "a");
    CHECK_STATUS(emq_events(f.c, Q, NONE, 1, 0, &all, NULL, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(all), 1);
    CHECK(strstr(emq_list_str(all, 0).ptr, "\"added\""));
    const char *p = strstr(emq_list_str(all, 0).ptr, "\"id\":\"");
    assert_non_null(p);
    p += strlen("\"id\":\"");
    id = emq_strn(p, strcspn(p, "\""));
    CHECK_STATUS(emq_events(f.c, Q, id, 0, 0, &more, NULL, NULL), EMQ_OK);
    CHECK(strstr(emq_list_str(more, 0).ptr, "\"waiting\""));
    emq_list_free(more);
    emq_list_free(all);
    CHECK_STATUS(emq_events(f.c, Q, S("$"), 0, 20, &all, NULL, NULL), EMQ_TIMEOUT);
    fixture_close(&f);
}

EMQ_TEST(no_event_falls_between_two_calls)
{
    struct fixture f;
    emq_list *l;
    char cursor[EMQ_CURSOR_MAX + 1];

    fixture_open(&f);
    CHECK_STATUS(emq_events(f.c, Q, S("$"), 0, 20, &l, cursor, NULL), EMQ_TIMEOUT);
    add_id(&f, "a");
    CHECK_STATUS(emq_events(f.c, Q, S(cursor), 0, 0, &l, cursor, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(l), 2);
    CHECK(strstr(emq_list_str(l, 1).ptr, cursor)); /* the id of the last one */
    emq_list_free(l);
    CHECK_STATUS(emq_events(f.c, Q, S(cursor), 0, 0, &l, cursor, NULL), EMQ_TIMEOUT);

    emq_interrupt(f.c);
    CHECK_STATUS(emq_events(f.c, Q, S("$"), 0, -1, &l, cursor, NULL), EMQ_CANCELLED);
    add_id(&f, "b");
    CHECK_STATUS(emq_events(f.c, Q, S(cursor), 1, 0, &l, cursor, NULL), EMQ_OK);
    CHECK(strstr(emq_list_str(l, 0).ptr, "\"b\""));
    emq_list_free(l);
    fixture_close(&f);
}

/* ---- descriptors ------------------------------------------------------------------------- */

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t count;

    return poll(&p, 1, timeout_ms) == 1 && read(fd, &count, sizeof count) == (ssize_t)sizeof count;
}

EMQ_TEST(a_descriptor_becomes_readable_when_there_may_be_work)
{
    struct fixture f;
    int fd = -1, again = -1, other = -1;
    emq_job *job = NULL;

    fixture_open(&f);
    CHECK_STATUS(emq_fd(f.c, Q, &fd, NULL), EMQ_OK);
    CHECK_STATUS(emq_fd(f.c, Q, &again, NULL), EMQ_OK);
    CHECK_STATUS(emq_fd(f.c, S("other"), &other, NULL), EMQ_OK);
    CHECK_INT(again, fd);
    CHECK(other != fd);
    CHECK(readable(fd, DEADLINE_MS)); /* the first look */
    add_id(&f, "a");
    emq_status s = EMQ_EMPTY;
    for (int i = 0; s == EMQ_EMPTY && i < 30; i++) {
        CHECK(readable(fd, DEADLINE_MS));
        s = emq_take(f.c, Q, NULL, &job, NULL);
    }
    CHECK_STATUS(s, EMQ_OK);
    emq_job_free(job);
    fixture_close(&f);
}

/* ---- fork -------------------------------------------------------------------------------- */

EMQ_TEST(a_child_is_told_that_the_client_is_its_parents)
{
    struct fixture f;
    int fd, status;
    emq_job *job;

    fixture_open(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_fd(f.c, Q, &fd, NULL), EMQ_OK);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        emq_error err = {0};
        int faults = 0;
        faults += emq_add(f.c, Q, S("1"), NULL, NULL, &err) != EMQ_E_FORKED;
        faults += err.cls != EMQ_CLASS_CALLER;
        faults += emq_take(f.c, Q, NULL, &job, NULL) != EMQ_E_FORKED;
        faults += emq_fd(f.c, Q, &fd, NULL) != EMQ_E_FORKED;
        faults += emq_wait(f.c, Q, S("a"), -1, NULL, NULL) != EMQ_E_FORKED;
        emq_interrupt(f.c);
        emq_close(f.c);
        _exit(faults);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    /* The parent goes on as if nothing had been. */
    job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
    CHECK(readable(fd, DEADLINE_MS));
    fixture_close(&f);
}
