/* SPDX-License-Identifier: MIT
 *
 * Effects of handlers: those that commit with the acknowledgement, and marked ones by each policy.
 */
#include "worker_effect.h"

/* ---- the store's own effects ------------------------------------------------------------- */

EMQ_TEST(a_job_that_its_effect_has_completed_is_not_settled_again_and_counts_as_any)
{
    struct bench *b = effects_open();
    struct wf_fault *settle = wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0);

    ledger_make(&b->f);
    todo.then = EMQ_FAIL; /* is not used */
    b->o.o.handler = own_handler;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_OK);
    CHECK_INT(settle->seen, 0);
    CHECK_INT(ledger_count(&b->f), 1);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: {\"by\":\"effect\"}");
    CHECK_INT(st.started, 1);
    CHECK_INT(st.completed, 1);
    CHECK_INT(st.failed + st.retried + st.lost + st.given_back + st.errors, 0);
    CHECK_INT(st.running + st.in_hand, 0);
    assert_string_equal(b->p.events, "ready: started:a completed:a finished: ");
    bench_close(b);
}

EMQ_TEST(many_jobs_with_effects_have_one_each)
{
    enum { JOBS = 60 };
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.concurrency = 4;
    b->o.o.lock_ms = 30000;
    wf_add_n(&b->f, "q", JOBS, "");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, JOBS);
    CHECK_INT(ledger_count(&b->f), JOBS);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), JOBS);
    bench_close(b);
}

static emq_verdict goes_on(emq_job *job, void *user)
{
    struct emq__mono until;
    emq_verdict v = own_handler(job, user);

    /* For three locks, of which nobody renews one. */
    until = emq__mono_add_ms(emq__mono_now(), 3 * LOCK_MS);
    while (emq__mono_diff_ms(emq__mono_now(), until) > 0) {
        if (emq_job_cancelled(job) != EMQ_GO_ON)
            atomic_fetch_add(&todo.p->wrong, 1);
        wf_nap(2);
    }
    return v;
}

EMQ_TEST(a_handler_that_goes_on_behind_its_effect_is_not_told_to_stop)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = goes_on;
    b->o.o.timeout_ms = 2 * LOCK_MS;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.completed, 1);
    CHECK_INT(st.lost, 0);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

static emq_verdict fails_first(emq_job *job, void *user)
{
    emq_error err = {0};

    if (emq_job_attempts_made(job) > 0)
        return own_handler(job, user);
    atomic_store(&todo.said, (int)own_effect(job, true, &err));
    return EMQ_RETRY;
}

EMQ_TEST(an_effect_that_can_t_be_made_leaves_nothing_and_the_job_goes_on)
{
    struct bench *b = effects_open();
    emq_add_opts o = {.backoff_type = EMQ_BACKOFF_NONE};

    ledger_make(&b->f);
    b->o.o.handler = fails_first;
    wf_add_opts(&b->f, "q", "a", "", o);
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.retried, 1);
    CHECK_INT(st.completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

EMQ_TEST(an_effect_behind_a_lost_lock_is_not_made)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = overruled_first;
    wf_add(&b->f, "q", "a", "");
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_LOST);
    CHECK_INT(st.lost, 1);
    CHECK_INT(ledger_count(&b->f), 0);
    bench_close(b);
}

EMQ_TEST(an_effect_under_at_most_once_completes_its_job_too)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.mode = EMQ_AT_MOST_ONCE;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    bench_close(b);
}

EMQ_TEST(a_job_without_a_lock_has_no_acknowledgement_to_commit_with)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    b->o.o.mode = EMQ_FIRE_AND_FORGET;
    wf_add(&b->f, "q", "a", "");
    (void)work_off(b);
    CHECK_STATUS(todo.said, EMQ_E_INVALID);
    CHECK_INT(ledger_count(&b->f), 0);
    bench_close(b);
}

/* A retry by hand that keeps the effect: the marker is done, so the function is left out. */
EMQ_TEST(an_effect_that_is_recorded_is_left_out_and_the_job_completed)
{
    struct bench *b = effects_open();

    ledger_make(&b->f);
    b->o.o.handler = own_handler;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).completed, 1);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), 0, NULL), EMQ_EFFECT_DONE);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), EMQ_RETRY_KEEP_EFFECT, NULL), EMQ_OK);
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 1);
    CHECK_STATUS(emq_retry(b->f.c, S("q"), S("a"), EMQ_RETRY_REDO_EFFECT, NULL), EMQ_OK);
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(ledger_count(&b->f), 2);
    bench_close(b);
}

static emq_verdict partial(emq_job *job, void *user)
{
    const emq_str set[] = {S("SET"), S("top"), S("1")};
    const emq_str first[] = {S("INCR"), S("ledger")},
                  last[] = {S("LSET"), S("list"), S("0"), S("a")};
    const emq_redis_command one = {sizeof one, set, 3}, two = {sizeof two, first, 2},
                            three = {sizeof three, last, 4};
    const emq_redis_command *const all[] = {&one, &two, &three};
    emq_error err = {0};

    (void)user;
    atomic_store(&todo.said, (int)emq_effect_redis(todo.c, job, all, 3, NULL, &err));
    return EMQ_RETRY;
}

/* Whether a list is that long only the command itself finds out. */
EMQ_TEST(an_effect_that_breaks_in_the_middle_on_a_server_ends_the_job_for_good)
{
    struct bench *b = effects_open();

    if (todo.server) {
        b->o.o.handler = partial;
        wf_add(&b->f, "q", "a", "");
        emq_worker_stats st = work_off(b);
        CHECK_STATUS(todo.said, EMQ_FAILED);
        CHECK_INT(st.failed, 1);
        CHECK_INT(st.retried, 0);
        CHECK(probe_saw(&b->p, "failed:a"));
        CHECK(strstr(wf_end(&b->f, "q", "a"), "failed: partial effect: command 3 (LSET)"));
        CHECK_INT(ledger_count(&b->f), 1);
    }
    bench_close(b);
}

/* ---- marked effects ---------------------------------------------------------------------- */

/* Job a, whose effect an earlier hand-out claimed before it died. */
static struct bench *doubt_open(int policy)
{
    struct bench *b = effects_open();
    emq_take_opts o = {.size = sizeof o, .worker = S("dead"), .lock_ms = LOCK_MS};
    emq_effect_key key = {.size = sizeof key};
    emq_effect *e = NULL;
    emq_job *job = NULL;
    emq_error err = {0};

    todo.policy = policy;
    b->o.o.handler = marked_handler;
    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS_ERR(emq_take(b->f.c, S("q"), &o, &job, &err), EMQ_OK, &err);
    emq_effect_key_of(job, &key);
    key.step = S("pay");
    CHECK_STATUS_ERR(emq_effect_claim(b->f.c, &key, 0, 0, &e, &err), EMQ_OK, &err);
    emq_effect_free(e);
    emq_job_free(job);
    return b;
}

static void doubt_close(struct bench *b, int effects, int said, const char *end, int marker)
{
    (void)work_off(b);
    CHECK_INT(todo.effects, effects);
    CHECK_STATUS(todo.said, said);
    CHECK_INT(marker_state(b), marker);
    if (!strstr(wf_end(&b->f, "q", "a"), end))
        fail_msg("the job is \"%s\", not \"%s\"", wf_end(&b->f, "q", "a"), end);
    bench_close(b);
}

EMQ_TEST(in_doubt_redo_does_it_again)
{
    doubt_close(doubt_open(EMQ_DOUBT_REDO), 1, EMQ_OK, "completed: receipt", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_skip_counts_it_as_done)
{
    doubt_close(doubt_open(EMQ_DOUBT_SKIP), 0, EMQ_OK, "completed", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_park_fails_the_job_for_good)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PARK);

    doubt_close(b, 0, EMQ_PARKED, "failed: its effect pay is in doubt: dead:", EMQ_EFFECT_IN_DOUBT);
}

EMQ_TEST(in_doubt_a_probe_that_found_it_counts_it_as_done)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_HAPPENED;
    doubt_close(b, 0, EMQ_OK, "completed", EMQ_EFFECT_IS_DONE);
    CHECK_INT(todo.probes, 1);
}

EMQ_TEST(in_doubt_a_probe_that_missed_it_does_it)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_DID_NOT;
    doubt_close(b, 1, EMQ_OK, "completed: receipt", EMQ_EFFECT_IS_DONE);
}

EMQ_TEST(in_doubt_a_probe_without_an_answer_parks)
{
    struct bench *b = doubt_open(EMQ_DOUBT_PROBE);

    todo.probe = EMQ_PROBE_UNKNOWN;
    doubt_close(b, 0, EMQ_PARKED, "failed: its effect pay is in doubt", EMQ_EFFECT_IN_DOUBT);
}

EMQ_TEST(an_effect_that_says_it_did_not_happen_is_free_again)
{
    struct bench *b = effects_open();

    b->o.o.handler = marked_handler;
    todo.effect_says = EMQ_RETRY;
    wf_add_opts(&b->f, "q", "a", "", (emq_add_opts){.backoff_type = EMQ_BACKOFF_NONE});
    emq_worker_stats st = work_off(b);
    CHECK_STATUS(todo.said, EMQ_FAILED);
    CHECK_INT(st.retried, 2);
    CHECK_INT(st.failed, 1);
    CHECK_INT(todo.effects, 3);
    CHECK_INT(marker_state(b), EMQ_EFFECT_NONE);
    bench_close(b);
}

static emq_verdict twice(emq_job *job, void *user)
{
    todo.then = emq_job_attempts_made(job) == 0 ? EMQ_RETRY : EMQ_DONE;
    return marked_handler(job, user);
}

EMQ_TEST(an_effect_met_again_is_left_out_and_its_result_is_the_job_s)
{
    struct bench *b = effects_open();

    b->o.o.handler = twice;
    wf_add_opts(&b->f, "q", "a", "", (emq_add_opts){.backoff_type = EMQ_BACKOFF_NONE});
    emq_worker_stats st = work_off(b);
    CHECK_INT(st.retried, 1);
    CHECK_INT(todo.effects, 1);
    assert_string_equal(wf_end(&b->f, "q", "a"), "completed: receipt");
    bench_close(b);
}

static emq_verdict claims_first(emq_job *job, void *user)
{
    emq_effect_key key = {.size = sizeof key};
    emq_effect *e = NULL;

    emq_effect_key_of(job, &key);
    key.step = S("pay");
    if (emq_effect_claim(todo.c, &key, 0, 0, &e, NULL) != EMQ_OK)
        atomic_fetch_add(&todo.p->wrong, 1);
    emq_effect_free(e);
    (void)marked_handler(job, user);
    return EMQ_FAIL;
}

EMQ_TEST(an_effect_that_this_hand_out_is_at_is_locked)
{
    struct bench *b = effects_open();

    b->o.o.handler = claims_first;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).failed, 1);
    CHECK_STATUS(todo.said, EMQ_LOCKED);
    CHECK_INT(todo.effects, 0);
    bench_close(b);
}

EMQ_TEST(a_plan_without_a_policy_or_an_effect_is_refused)
{
    struct bench *b = effects_open();
    emq_effect_plan good = plan_of(), plan = good;
    emq_error err = {0};
    emq_job *job = NULL;

    wf_add(&b->f, "q", "a", "");
    CHECK_STATUS(emq_take(b->f.c, S("q"), NULL, &job, NULL), EMQ_OK);
    CHECK_STATUS(emq_effect_run(NULL, job, &plan, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_effect_run(b->f.c, NULL, &plan, &err), EMQ_E_INVALID);
    CHECK_STATUS(emq_effect_run(b->f.c, job, NULL, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "plan is NULL"));
    plan.policy = 0;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "say what to do when the effect is in doubt"));
    plan.policy = EMQ_DOUBT_PROBE + 1;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    plan = good;
    plan.effect = NULL;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    plan = good;
    plan.policy = EMQ_DOUBT_PROBE;
    plan.probe = NULL;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK(strstr(err.text, "plan.probe is NULL"));
    plan = good;
    plan.size = 8;
    CHECK_STATUS(emq_effect_run(b->f.c, job, &plan, &err), EMQ_E_INVALID);
    CHECK_INT(todo.effects, 0);
    CHECK_INT(marker_state(b), EMQ_EFFECT_NONE);
    emq_job_free(job);
    bench_close(b);
}
