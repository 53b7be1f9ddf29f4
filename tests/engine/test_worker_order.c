/* SPDX-License-Identifier: MIT
 *
 * Which job runs next: several queues, priorities, limits of a queue.
 */
#include "worker_fixture.h"

#include "base/str.h"

static void set_meta(struct bench *b, const char *field, const char *value)
{
    struct emq__meta_field f = {S(field), S(value)};
    struct emq__arena mem = {0};
    struct emq__meta_req req = {
        .prefix = b->f.c->prefix, .queue = S("q"), .admin = S("test"), .set = &f, .n_set = 1};
    struct emq__meta_res res;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq__do_meta(b->f.c, &req, &res, &mem, &err), EMQ_OK, &err);
    emq__arena_free(&mem);
}

EMQ_TEST(queues_in_strict_order_are_served_first_one_first)
{
    struct bench *b = bench_open("high low");

    for (int i = 0; i < 5; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "%d", i);
        char hid[24], lid[24];
        (void)snprintf(hid, sizeof hid, "h%s", id);
        (void)snprintf(lid, sizeof lid, "l%s", id);
        wf_add(&b->f, "low", lid, "");
        wf_add(&b->f, "high", hid, "");
    }
    (void)work_off(b);
    assert_string_equal(b->p.order, "high/h0 high/h1 high/h2 high/h3 high/h4 "
                                    "low/l0 low/l1 low/l2 low/l3 low/l4 ");
    bench_close(b);
}

EMQ_TEST(a_job_of_the_first_queue_overtakes_what_waits_in_the_second)
{
    struct bench *b = bench_open("high low");

    wf_add(&b->f, "low", "l1", "hold");
    wf_add(&b->f, "low", "l2", "");
    b->o.o.exit_when_empty = 1;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    wf_add(&b->f, "high", "h1", "");
    b->p.gate = 1;
    wf_finish(w);
    assert_string_equal(b->p.order, "low/l1 high/h1 low/l2 ");
    bench_close(b);
}

/* Of the first n starts, how many were of this queue? */
static int starts_of(const struct probe *p, const char *queue, int n)
{
    int of = 0;
    size_t len = strlen(queue);
    const char *at = p->order;

    for (int i = 0; i < n && *at; i++) {
        of += strncmp(at, queue, len) == 0 && at[len] == '/';
        at = strchr(at, ' ');
        if (!at)
            break;
        at++;
    }
    return of;
}

static void shares(int concurrency)
{
    struct bench *b = bench_open("a=3 b=1");

    b->o.o.concurrency = concurrency;
    wf_add_n(&b->f, "a", 400, "");
    wf_add_n(&b->f, "b", 400, "");
    (void)work_off(b);
    int of_a = starts_of(&b->p, "a", 400);
    if (of_a < 280 || of_a > 320)
        fail_msg("weights 3 and 1: %d of the first 400 starts were of the first queue", of_a);
    bench_close(b);
}

EMQ_TEST(queues_with_weights_share_one_place)
{
    shares(1);
}

EMQ_TEST(queues_with_weights_share_many_places)
{
    shares(8);
}

EMQ_TEST(a_queue_that_was_idle_has_saved_up_no_share)
{
    struct bench *b = bench_open("a=1 b=1");

    wf_add_n(&b->f, "a", 300, "");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_count(&b->f, "a", EMQ_COMPLETED_STATE) == 300);
    emq_worker_pause(w);
    for (int i = 0; i < 100; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "x%d", i);
        wf_add(&b->f, "a", id, "");
        wf_add(&b->f, "b", id, "");
    }
    emq_worker_resume(w);
    WAIT_FOR(wf_count(&b->f, "b", EMQ_COMPLETED_STATE) == 100 &&
             wf_count(&b->f, "a", EMQ_COMPLETED_STATE) == 400);
    int of_b = starts_of(&b->p, "b", 400);
    if (of_b < 40 || of_b > 60)
        fail_msg("equal weights: %d of 100 starts were of the queue that had been idle", of_b);
    wf_stop(w, 0);
    bench_close(b);
}

/* The order of starts, as priorities. */
static void check_priorities(struct probe *p, const char *expected)
{
    char got[ORDER_MAX] = "";
    size_t len = 0;

    for (const char *at = p->order; *at; at = strchr(at, ' ') + 1) {
        const char *id = strchr(at, '/') + 1;
        got[len++] = *id; /* ids begin with the priority */
    }
    got[len] = '\0';
    assert_string_equal(got, expected);
}

EMQ_TEST(retries_without_backoff_keep_their_priority)
{
    struct bench *b = bench_open("q");

    CHECK_STATUS(emq_pause(b->f.c, S("q"), NULL), EMQ_OK);
    for (int i = 0; i < 15; i++) {
        char id[20];
        int priority = i % 3 + 1;
        (void)snprintf(id, sizeof id, "%d-%d", priority, i);
        wf_add_opts(
            &b->f, "q", id, "retry",
            (emq_add_opts){.attempts = 2, .priority = priority, .backoff_type = EMQ_BACKOFF_NONE});
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    CHECK_STATUS(emq_resume(b->f.c, S("q"), NULL), EMQ_OK);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_FAILED_STATE) == 15);
    wf_stop(w, 0);
    check_priorities(&b->p, "111111111122222222223333333333");
    bench_close(b);
}

EMQ_TEST(rate_limited_jobs_keep_their_order_and_are_charged_nothing)
{
    struct bench *b = bench_open("q");

    set_meta(b, "max", "1");
    set_meta(b, "duration", "100");
    for (int i = 0; i < 9; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "%d-%d", i % 3 + 1, i);
        wf_add_opts(&b->f, "q", id, "", (emq_add_opts){.attempts = 1, .priority = i % 3 + 1});
    }
    b->o.o.concurrency = 3;
    int64_t before = emq__mono_now().us;
    (void)work_off(b);
    CHECK((emq__mono_now().us - before) / 1000 >= 800);
    assert_string_equal(b->p.order, "q/1-0 q/1-3 q/1-6 q/2-1 q/2-4 q/2-7 q/3-2 q/3-5 q/3-8 ");
    emq_job *j = wf_get(&b->f, "q", "3-8");
    CHECK_INT(emq_job_attempts_made(j), 1);
    CHECK_INT(emq_job_attempts_started(j), 1);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(a_concurrency_limit_holds_with_prefetch_and_is_freed_by_recovery)
{
    struct bench *b = bench_open("q");
    emq_client *c2 = wf_client(&b->f);

    wf_add_n(&b->f, "q", 300, "burn 1");
    CHECK_STATUS(emq_set_concurrency(b->f.c, S("q"), 2, NULL), EMQ_OK);
    wf_orphan(&b->f, "q", 300);
    wf_orphan(&b->f, "q", 300);
    b->o.o.concurrency = 4;
    b->o.o.prefetch = 64;
    emq_worker *one = wf_start(&b->f, &b->o);
    emq_worker *two = wf_start_on(c2, &b->o);
    while (wf_count(&b->f, "q", EMQ_COMPLETED_STATE) < 150)
        CHECK(wf_count(&b->f, "q", EMQ_ACTIVE) <= 2);
    CHECK_STATUS(emq_set_concurrency(b->f.c, S("q"), 20, NULL), EMQ_OK);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 300);
    wf_stop(one, 0);
    wf_stop(two, 0);
    emq_close(c2);
    bench_close(b);
}
