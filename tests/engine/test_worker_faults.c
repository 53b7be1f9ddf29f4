/* SPDX-License-Identifier: MIT
 *
 * A store that fails: answers lost, requests lost, acts refused, one entry that can't be digested.
 */
#include "hook_engine.h"
#include "lib/failmalloc.h"
#include "worker_fixture.h"

#include "base/str.h"

static void check_counts(struct bench *b, const char *id, int made, int started, int stalled)
{
    emq_job *j = wf_get(&b->f, "q", id);

    CHECK(j != NULL);
    CHECK_INT(emq_job_attempts_made(j), made);
    CHECK_INT(emq_job_attempts_started(j), started);
    CHECK_INT(emq_job_stalled(j), stalled);
    emq_job_free(j);
}

EMQ_TEST(a_job_whose_take_was_not_answered_runs_once_and_is_charged_once)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    (void)wf_fault(&b->f, "take", EMQ__FAULT_LOSE_REPLY, 3);
    emq_worker_stats st = work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    CHECK_INT(st.completed, 1);
    check_counts(b, "a", 1, 1, 0);
    bench_close(b);
}

enum { NTH_JOBS = 20 };
struct nth {
    bool begun[NTH_JOBS + 1];
    int hits;
};

/* In the thread that runs the programs, before one does: the nth allocation of the nth job fails, once. */
static void fail_nth(const emq_event *e, void *user)
{
    struct nth *n = user;

    if (e->kind != EMQ_EVENT_STARTED)
        return;
    size_t i = strtoul(e->id.ptr + 1, NULL, 10);
    n->hits += test_alloc_failed();
    test_fail_alloc(n->begun[i] ? 0 : i);
    n->begun[i] = true;
}

EMQ_TEST(the_result_of_a_program_is_not_lost_when_memory_ends)
{
    static const char *const argv[] = {"sh", "-c", "printf result", NULL};
    struct bench *b = bench_open("q");
    struct nth n = {0};

    wf_add_n(&b->f, "q", NTH_JOBS, "");
    b->o.o.handler = NULL;
    b->o.o.argv = argv;
    b->o.o.on_event = fail_nth;
    b->o.o.user = &n;
    (void)work_off(b);
    CHECK(n.hits > 0 && n.hits < NTH_JOBS / 2);
    for (int i = 1; i <= NTH_JOBS; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "j%d", i);
        CHECK_STR(S(wf_end(&b->f, "q", id)), "completed: result");
    }
    bench_close(b);
}

EMQ_TEST(a_take_that_never_arrived_is_sent_again)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    (void)wf_fault(&b->f, "take", EMQ__FAULT_LOSE_REQUEST, 3);
    (void)work_off(b);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    check_counts(b, "a", 1, 1, 0);
    bench_close(b);
}

static void settle_fault(enum emq__fault fault)
{
    struct bench *b = bench_open("q");

    wf_add_n(&b->f, "q", 20, "");
    wf_add_opts(&b->f, "q", "r", "retry",
                (emq_add_opts){.attempts = 3, .backoff_type = EMQ_BACKOFF_NONE});
    (void)wf_fault(&b->f, "settle", fault, 4);
    b->o.o.concurrency = 2;
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, 20);
    CHECK_INT(st.retried, 2);
    CHECK_INT(st.failed, 1);
    CHECK_INT(st.lost, 0);
    CHECK_INT(b->p.started, 23);
    check_counts(b, "r", 3, 3, 0);
    bench_close(b);
}

EMQ_TEST(an_acknowledgement_that_was_not_answered_is_settled_by_its_receipt)
{
    settle_fault(EMQ__FAULT_LOSE_REPLY);
}

EMQ_TEST(an_acknowledgement_that_never_arrived_is_sent_again)
{
    settle_fault(EMQ__FAULT_LOSE_REQUEST);
}

EMQ_TEST(outcomes_wait_for_a_store_that_can_not_be_reached_and_their_locks_live)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = 300;
    b->o.o.concurrency = 3;
    wf_add_n(&b->f, "q", 3, "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 3);
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_UNAVAIL, -1);
    b->p.gate = 1;
    WAIT_FOR(b->p.ended == 3);
    wf_nap(1200); /* four locks */
    CHECK_INT(wf_count(&b->f, "q", EMQ_ACTIVE), 3);
    CHECK_INT(b->p.event_count[EMQ_EVENT_ERROR], 1); /* once for all those attempts */
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 3);
    CHECK_INT(b->p.started, 3);
    CHECK_INT(wf_stats(w).lost, 0);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(an_outcome_is_given_up_when_the_lock_is_lost_and_that_is_said_once)
{
    struct bench *b = bench_open("q");
    emq_client *c2 = wf_client(&b->f);
    struct probe p2;
    struct wf_opts o2;

    probe_init(&p2);
    wf_opts(&o2, "q", &p2);
    b->o.o.lock_ms = 300;
    b->o.o.stalled_interval_ms = -1;
    p2.gate = 1;
    wf_add(&b->f, "q", "a", "hold!");
    emq_worker *one = wf_start(&b->f, &b->o);
    /* Before it runs nothing fails: a slow start would end in a release that can't be stored. */
    WAIT_FOR(b->p.running == 1);
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_UNAVAIL, -1);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    b->p.gate = 1;
    WAIT_FOR(b->p.ended == 1);
    emq_worker *two = wf_start_on(c2, &o2);
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    (void)wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    WAIT_FOR(wf_stats(one).lost == 1);
    CHECK_INT(p2.started, 1);
    wf_add(&b->f, "q", "b", "");
    WAIT_FOR(wf_state(&b->f, "q", "b") == EMQ_COMPLETED_STATE);
    CHECK_INT(b->p.event_count[EMQ_EVENT_LOST], 1);
    CHECK_INT(b->f.log_errors, 0);
    CHECK_INT(b->f.log_warnings, 1); /* that it does not sweep */
    wf_stop(one, 0);
    wf_stop(two, 0);
    emq_close(c2);
    probe_free(&p2);
    bench_close(b);
}

EMQ_TEST(what_goes_wrong_is_told_to_the_callback_alone_or_without_one_to_the_log)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    (void)wf_fault(&b->f, "take", EMQ__FAULT_UNAVAIL, 2);
    (void)work_off(b);
    CHECK_INT(b->p.event_count[EMQ_EVENT_ERROR], 1);
    CHECK_INT(b->f.log_errors + b->f.log_warnings, 0);

    b->o.o.on_event = NULL;
    wf_add(&b->f, "q", "b", "");
    (void)wf_fault(&b->f, "take", EMQ__FAULT_UNAVAIL, 2);
    (void)work_off(b);
    CHECK_INT(b->p.event_count[EMQ_EVENT_ERROR], 1);
    CHECK_INT(b->f.log_errors, 1);
    CHECK(wf_logged(&b->f, "taking jobs"));
    bench_close(b);
}

EMQ_TEST(a_worker_works_through_random_faults_of_every_act)
{
    struct bench *b = bench_open("q");
    uint64_t seed = test_seed();

    b->o.o.concurrency = 4;
    wf_add_n(&b->f, "q", 1500, "");
    emq_worker *w = wf_start(&b->f, &b->o);
    static const char *const acts[] = {"take", "settle", "extend", "sweep", "promote", "wait"};
    static const enum emq__fault faults[] = {EMQ__FAULT_UNAVAIL, EMQ__FAULT_LOSE_REQUEST,
                                             EMQ__FAULT_LOSE_REPLY};
    while (wf_count(&b->f, "q", EMQ_COMPLETED_STATE) < 1500) {
        (void)wf_fault(&b->f, acts[test_random(&seed) % 6], faults[test_random(&seed) % 3],
                       (int)(test_random(&seed) % 3));
        wf_nap(5);
    }
    CHECK_INT(b->p.started, 1500);
    CHECK_INT(wf_stats(w).lost + wf_stats(w).recovered + wf_stats(w).failed, 0);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(acts); i++)
        (void)wf_fault(&b->f, acts[i], EMQ__FAULT_NONE, 0);
    wf_stop(w, 0);
    bench_close(b);
}

/* ---- an entry that the store can't digest ------------------------------------------------ */

struct poison {
    struct hook hook;
    atomic_int bad_calls, good_calls;
    atomic_int status;   /* what the store says to it */
    bool only_completed; /* as a failure it is accepted */
};

static emq_status poison_before(void *user, const char *act, const void *req)
{
    struct poison *p = user;
    const struct emq__settle_req *r = req;

    if (strcmp(act, "settle") != 0)
        return EMQ_OK;
    for (size_t i = 0; i < r->n; i++) {
        if (emq__str_is(r->entries[i]->id, "bad") &&
            (!p->only_completed || r->entries[i]->kind == EMQ__SETTLE_COMPLETED)) {
            atomic_fetch_add(&p->bad_calls, 1);
            return (emq_status)p->status;
        }
    }
    atomic_fetch_add(&p->good_calls, 1);
    return EMQ_OK;
}

static void poison_wrap(struct bench *b, struct poison *p, emq_status status)
{
    atomic_store(&p->status, (int)status);
    p->hook.before = poison_before;
    p->hook.user = p;
    hook_wrap(&b->f.c->e, &p->hook);
}

EMQ_TEST(one_outcome_that_the_store_refuses_does_not_hold_up_the_others)
{
    struct bench *b = bench_open("q");
    struct poison p = {.bad_calls = 0};

    poison_wrap(b, &p, EMQ_E_STORE);
    b->o.o.concurrency = 8;
    wf_add(&b->f, "q", "bad", "");
    wf_add_n(&b->f, "q", 200, "");
    int64_t before = emq__mono_now().us;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 200);
    CHECK((emq__mono_now().us - before) / 1000 < 5000);
    CHECK_INT(wf_state(&b->f, "q", "bad"), EMQ_ACTIVE);
    CHECK(p.bad_calls > 0);
    /* Its lock lives on; when the store can take it, it is stored. */
    p.status = EMQ_OK;
    WAIT_FOR(wf_state(&b->f, "q", "bad") == EMQ_COMPLETED_STATE);
    CHECK_INT(probe_runs(&b->p, "bad"), 1);
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(a_result_that_can_never_be_stored_fails_its_job_with_the_reason)
{
    struct bench *b = bench_open("q");
    struct poison p = {.only_completed = true};

    poison_wrap(b, &p, EMQ_E_INVALID);
    wf_add(&b->f, "q", "bad", "");
    (void)work_off(b);
    assert_string_equal(wf_end(&b->f, "q", "bad"),
                        "failed: its outcome could not be stored: hooked");
    CHECK_INT(probe_runs(&b->p, "bad"), 1);
    bench_close(b);
}

EMQ_TEST(a_worker_that_is_to_end_by_itself_gives_up_when_the_store_stays_full)
{
    for (int by_count = 0; by_count < 2; by_count++) {
        struct bench *b = bench_open("q");
        struct poison p = {.bad_calls = 0};

        poison_wrap(b, &p, EMQ_E_FULL);
        b->o.o.lock_ms = 300;
        b->o.o.max_jobs = by_count;
        b->o.o.exit_when_empty = !by_count;
        wf_add(&b->f, "q", "bad", "");
        emq_worker *w = wf_start(&b->f, &b->o);
        CHECK_STATUS(emq_worker_join(w, PATIENCE_MS, NULL), EMQ_OK);
        CHECK_INT(wf_stats(w).gave_up, EMQ_E_FULL);
        CHECK_INT(wf_stats(w).completed, 0);
        CHECK(strstr(b->p.events, "error"));
        emq_worker_free(w);
        /* It comes back when there is room. */
        p.status = EMQ_OK;
        b->o.o.max_jobs = 0;
        CHECK_INT(work_off(b).gave_up, 0);
        CHECK_INT(wf_state(&b->f, "q", "bad"), EMQ_COMPLETED_STATE);
        CHECK_INT(probe_runs(&b->p, "bad"), 2);
        bench_close(b);
    }
}

/* As by a key that belongs to something else: not even the failure of the job can be stored. */
EMQ_TEST(a_worker_that_is_to_end_by_itself_gives_up_when_the_store_takes_an_outcome_in_no_form)
{
    struct bench *b = bench_open("q");
    struct poison p = {.bad_calls = 0};

    poison_wrap(b, &p, EMQ_E_INVALID);
    b->o.o.lock_ms = 300;
    b->o.o.exit_when_empty = 1;
    wf_add(&b->f, "q", "bad", "");
    emq_worker *w = wf_start(&b->f, &b->o);
    CHECK_STATUS(emq_worker_join(w, PATIENCE_MS, NULL), EMQ_OK);
    CHECK_INT(wf_stats(w).gave_up, EMQ_E_INVALID);
    emq_worker_free(w);
    bench_close(b);
}

EMQ_TEST(a_worker_that_gives_up_waits_for_what_runs)
{
    struct bench *b = bench_open("q");
    struct poison p = {.bad_calls = 0};

    poison_wrap(b, &p, EMQ_E_FULL);
    b->o.o.lock_ms = 200;
    b->o.o.concurrency = 2;
    b->o.o.exit_when_empty = 1;
    wf_add(&b->f, "q", "bad", "");
    wf_add(&b->f, "q", "good", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1 && p.bad_calls >= 8); /* behind many pauses: longer than a lock */
    CHECK_INT(wf_stats(w).ended, 0);
    b->p.gate = 1;
    CHECK_STATUS(emq_worker_join(w, PATIENCE_MS, NULL), EMQ_OK);
    CHECK_INT(wf_stats(w).gave_up, EMQ_E_FULL);
    CHECK_INT(wf_state(&b->f, "q", "good"), EMQ_COMPLETED_STATE);
    emq_worker_free(w);
    bench_close(b);
}

/* ---- doubts that no receipt settles ------------------------------------------------------ */

struct amnesia {
    struct hook hook;
    atomic_int state; /* 0: waits for a take that got something; 1: refuses; 2: over */
    atomic_int refused;
};

static emq_status amnesia_before(void *user, const char *act, const void *req)
{
    struct amnesia *a = user;

    (void)req;
    if (strcmp(act, "take") != 0 || atomic_load(&a->state) != 1)
        return EMQ_OK;
    if (atomic_fetch_add(&a->refused, 1) == 2)
        atomic_store(&a->state, 2);
    return EMQ_E_STORE;
}

static emq_status amnesia_after(void *user, const char *act, const void *req, emq_status s)
{
    struct amnesia *a = user;

    (void)req;
    if (s != EMQ_OK || strcmp(act, "take") != 0)
        return s;
    int waiting = 0;
    return atomic_compare_exchange_strong(&a->state, &waiting, 1) ? EMQ_E_IN_DOUBT : s;
}

EMQ_TEST(a_job_handed_out_in_a_doubt_that_is_never_settled_is_released_uncharged)
{
    struct bench *b = bench_open("q");
    struct amnesia a = {.state = 0};

    a.hook.before = amnesia_before;
    a.hook.after = amnesia_after;
    a.hook.user = &a;
    hook_wrap(&b->f.c->e, &a.hook);
    wf_add(&b->f, "q", "a", "");
    b->o.o.stalled_interval_ms = -1; /* no sweep brings it back */
    (void)work_off(b);
    CHECK_INT(a.state, 2);
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    check_counts(b, "a", 1, 1, 0);
    bench_close(b);
}

EMQ_TEST(jobs_held_under_the_same_name_by_another_worker_are_left_alone)
{
    struct bench *b = bench_open("q");
    struct probe p2;
    struct wf_opts o2;

    probe_init(&p2);
    wf_opts(&o2, "q", &p2);
    b->o.o.name = S("twin");
    o2.o.name = S("twin");
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *one = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    emq_worker *two = wf_start(&b->f, &o2);
    WAIT_FOR(wf_logged(&b->f, "held under this name"));
    (void)wf_fault(&b->f, "take", EMQ__FAULT_LOSE_REPLY, 2);
    wf_add(&b->f, "q", "b", "");
    WAIT_FOR(wf_state(&b->f, "q", "b") == EMQ_COMPLETED_STATE);
    CHECK_INT(wf_state(&b->f, "q", "a"), EMQ_ACTIVE);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "a") == EMQ_COMPLETED_STATE);
    CHECK_INT(wf_stats(one).lost, 0);
    wf_stop(one, 0);
    wf_stop(two, 0);
    probe_free(&p2);
    bench_close(b);
}
