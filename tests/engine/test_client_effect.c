/* SPDX-License-Identifier: MIT
 *
 * Effects by hand: markers and their two clocks, zombies, doubts, many claims at once.
 */
#include "client_effect.h"

/* ---- states ------------------------------------------------------------------------------ */

EMQ_TEST(the_first_claim_is_fresh_the_second_busy_and_what_is_done_is_known_with_its_result)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_BUSY);
    CHECK_STATUS(done(&f, job, "", "paid 7"), EMQ_OK);
    check_done(&f, job, "", "paid 7");
    /* The first result stays. */
    CHECK_STATUS(done(&f, job, "", "paid 8"), EMQ_OK);
    check_done(&f, job, "", "paid 7");
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_claim_that_died_with_its_lock_is_in_doubt_and_never_done)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *first = take_one(&f);
    CHECK_INT(claimed(&f, first, "pay", 0), EMQ_EFFECT_FRESH);
    emq_job *second = handed_out_again(&f);
    emq_effect_key k = key_of(second, "pay");
    emq_effect *e = claim(&f, &k, 0);
    CHECK_INT(emq_effect_get_state(e), EMQ_EFFECT_IN_DOUBT);
    CHECK_STR_EQ(emq_effect_token(e), emq_job_token(first));
    CHECK_INT(emq_effect_done_at_ms(e), 0);
    emq_effect_free(e);
    /* Asking changed nothing; it takes a decision. */
    CHECK_INT(claimed(&f, second, "pay", 0), EMQ_EFFECT_IN_DOUBT);
    CHECK_STATUS(done(&f, second, "pay", "x"), EMQ_WRONG_STATE);
    CHECK_STATUS(release(&f, second, "pay"), EMQ_WRONG_STATE);
    CHECK_INT(claimed(&f, second, "pay", EMQ_CLAIM_TAKE_OVER), EMQ_EFFECT_FRESH);
    CHECK_INT(claimed(&f, second, "pay", 0), EMQ_EFFECT_BUSY);
    CHECK_STATUS(done(&f, second, "pay", "x"), EMQ_OK);
    /* What is done is not taken over. */
    CHECK_INT(claimed(&f, second, "pay", EMQ_CLAIM_TAKE_OVER), EMQ_EFFECT_IS_DONE);
    emq_job_free(first);
    settle_done(&f, second);
    fixture_close(&f);
}

EMQ_TEST(a_released_claim_is_as_if_it_had_never_been)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(release(&f, job, ""), EMQ_WRONG_STATE);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(release(&f, job, ""), EMQ_OK);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(done(&f, job, "", ""), EMQ_OK);
    /* What has happened is not given back. */
    CHECK_STATUS(release(&f, job, ""), EMQ_WRONG_STATE);
    check_done(&f, job, "", "");
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(each_step_of_a_job_has_a_marker_of_its_own)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_INT(claimed(&f, job, "mail", 0), EMQ_EFFECT_FRESH);
    CHECK_INT(claimed(&f, job, "pay", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(done(&f, job, "mail", "sent"), EMQ_OK);
    CHECK_INT(claimed(&f, job, "pay", 0), EMQ_EFFECT_BUSY);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(results_of_any_bytes_come_back_as_they_were)
{
    static const emq_str results[] = {{"{\"n\": 1}", 8}, {"text", 4}, {"\0\xff bytes", 8}};
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(results); i++) {
        char step[2] = {(char)('a' + i), 0};
        emq_effect_key k = key_of(job, step);
        CHECK_INT(claimed(&f, job, step, 0), EMQ_EFFECT_FRESH);
        CHECK_STATUS(emq_effect_done(f.c, &k, results[i], 0, NULL), EMQ_OK);
        emq_effect *e = claim(&f, &k, 0);
        CHECK_STR_EQ(emq_effect_result(e), results[i]);
        emq_effect_free(e);
    }
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_custom_id_used_again_is_another_job_whose_effect_is_fresh)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(done(&f, job, "", "1"), EMQ_OK);
    settle_done(&f, job);
    CHECK_STATUS(emq_remove(f.c, Q, S("a"), NULL), EMQ_OK);
    fixture_advance(&f, 1);
    add_id(&f, "a");
    job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- zombies ----------------------------------------------------------------------------- */

EMQ_TEST(a_former_owner_is_refused_everywhere)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *zombie = take_one(&f);
    CHECK_INT(claimed(&f, zombie, "", 0), EMQ_EFFECT_FRESH);
    emq_job *owner = handed_out_again(&f);
    emq_str id = emq_job_id(zombie), token = emq_job_token(zombie);
    emq_effect_key k = key_of(zombie, "");
    emq_effect *e = NULL;

    CHECK_STATUS(emq_set_progress(f.c, Q, id, token, S("1"), NULL), EMQ_LOST);
    CHECK_STATUS(emq_add_log(f.c, Q, id, token, S("late"), NULL), EMQ_LOST);
    CHECK_STATUS(emq_set_data(f.c, Q, id, token, S("late"), NULL), EMQ_LOST);
    CHECK_STATUS(settle(&f, zombie, EMQ_SETTLE_COMPLETED, "late", 0), EMQ_LOST);
    CHECK_STATUS(done(&f, zombie, "", "late"), EMQ_LOST);
    CHECK_STATUS(release(&f, zombie, ""), EMQ_LOST);
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 0, &e, NULL), EMQ_LOST);
    CHECK_STATUS(emq_effect_claim(f.c, &k, EMQ_CLAIM_TAKE_OVER, 0, &e, NULL), EMQ_LOST);
    CHECK(e == NULL);
    CHECK_INT(claimed(&f, owner, "", EMQ_CLAIM_TAKE_OVER), EMQ_EFFECT_FRESH);
    /* Also when the new owner has claimed it, and has done it. */
    CHECK_STATUS(release(&f, zombie, ""), EMQ_LOST);
    CHECK_STATUS(done(&f, owner, "", "right"), EMQ_OK);
    CHECK_STATUS(done(&f, zombie, "", "late"), EMQ_LOST);
    check_done(&f, owner, "", "right");
    emq_job *now = get(&f, "a");
    CHECK_STR(emq_job_data(now), "{}");
    CHECK_STR(emq_job_progress_json(now), "0");
    emq_job_free(now);
    emq_job_free(zombie);
    settle_done(&f, owner);
    fixture_close(&f);
}

EMQ_TEST(an_effect_of_a_job_that_nobody_works_on_is_not_claimed)
{
    struct fixture f;
    emq_effect *e = NULL;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key k = key_of(job, "");
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 0, &e, NULL), EMQ_LOST);
    CHECK_STATUS(emq_remove(f.c, Q, S("a"), NULL), EMQ_OK);
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 0, &e, NULL), EMQ_NOT_FOUND);
    CHECK_STATUS(emq_effect_done(f.c, &k, NONE, 0, NULL), EMQ_NOT_FOUND);
    emq_job_free(job);
    fixture_close(&f);
}

/* ---- fingerprints ------------------------------------------------------------------------ */

EMQ_TEST(one_key_with_another_payload_is_refused)
{
    struct fixture f;
    emq_effect *e = NULL;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key k = key_of(job, "pay");
    k.payload = S("7 EUR");
    emq_effect_free(claim(&f, &k, 0));
    k.payload = S("8 EUR");
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 0, &e, NULL), EMQ_CONFLICT);
    CHECK_STATUS(emq_effect_claim(f.c, &k, EMQ_CLAIM_TAKE_OVER, 0, &e, NULL), EMQ_CONFLICT);
    k.payload = S("7 EUR");
    CHECK_STATUS(emq_effect_done(f.c, &k, S("ok"), 0, NULL), EMQ_OK);
    k.payload = S("8 EUR");
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 0, &e, NULL), EMQ_CONFLICT);
    CHECK(e == NULL);
    /* Without a payload nothing is compared. */
    check_done(&f, job, "pay", "ok");
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_fingerprint_is_fnv_1a_of_128_bits)
{
    static const struct {
        const char *payload, *print;
    } known[] = {{"a", "d228cb696f1a8caf78912b704e4a8964"},
                 {"foobar", "343e1662793c64bf6f0d3597ba446f18"}};
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(known); i++) {
        struct emq__arena mem = {0};
        struct emq__markers_req req = {.prefix = f.c->prefix, .queue = Q, .limit = 10};
        struct emq__markers_res res;
        emq_effect_key k = key_of(job, i ? "2" : "1");
        k.payload = S(known[i].payload);
        emq_effect_free(claim(&f, &k, 0));
        CHECK_STATUS(f.c->e->ops->markers(f.c->e, &req, &res, &mem, NULL), EMQ_OK);
        CHECK_INT(res.n, i + 1);
        CHECK_STR(res.markers[i].fingerprint, known[i].print);
        emq__arena_free(&mem);
    }
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- how long it is known ---------------------------------------------------------------- */

EMQ_TEST(what_is_done_is_known_for_as_long_as_the_job_can_come_again)
{
    enum { DAY = 24 * 3600 * 1000 };
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .attempts = 5, .delay_ms = 0};

    fixture_open(&f);
    o.backoff_type = EMQ_BACKOFF_FIXED;
    o.backoff_ms = 2 * (int64_t)DAY;
    o.keep_failed_count = 10;
    o.keep_failed_ms = 40 * (int64_t)DAY;
    o.keep_completed_count = EMQ_KEEP_NONE;
    CHECK_STATUS(emq_add(f.c, Q, S("{}"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    emq_effect_key k = key_of(job, "");
    emq_effect *e = claim(&f, &k, 0);
    CHECK_INT(emq_effect_expires_at_ms(e) - emq_effect_claimed_at_ms(e), 50 * (int64_t)DAY);
    emq_effect_free(e);
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_claim_is_known_for_as_long_as_the_job_can_come_again_however_short_what_is_done_is)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key k = key_of(job, "");
    for (int i = 0; i < 2; i++) {
        emq_effect *e = NULL;
        CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 1000, &e, NULL), EMQ_OK);
        CHECK_INT(emq_effect_get_state(e), i ? EMQ_EFFECT_BUSY : EMQ_EFFECT_FRESH);
        emq_effect_free(e);
        fixture_advance(&f, 2000);
    }
    CHECK_STATUS(emq_effect_done(f.c, &k, S("r"), 1000, NULL), EMQ_OK);
    check_done(&f, job, "", "r");
    fixture_advance(&f, 2000);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(the_time_of_knowing_is_between_a_week_and_400_days)
{
    struct emq__opts o = {.attempts = 1};

    CHECK_INT(emq__known_ms(&o), EMQ__KNOWN_MIN_MS);
    o.keep_failed.count = -1; /* for ever */
    CHECK_INT(emq__known_ms(&o), EMQ__KNOWN_MAX_MS);
    o = (struct emq__opts){.attempts = INT32_MAX,
                           .backoff = {.type = EMQ_BACKOFF_EXPONENTIAL, .delay_ms = INT64_MAX},
                           .delay_ms = INT64_MAX,
                           .timeout_ms = INT64_MAX};
    CHECK_INT(emq__known_ms(&o), EMQ__KNOWN_MAX_MS);
}

struct heard {
    int warnings;
    char last[400];
};

static void on_log(void *user, int level, emq_str message)
{
    struct heard *h = user;

    if (level != EMQ_LOG_WARN)
        return;
    h->warnings++;
    (void)snprintf(h->last, sizeof h->last, "%.*s", EMQ_STR_ARG(message));
}

EMQ_TEST(a_time_that_is_shorter_than_the_job_s_life_is_taken_and_warned_of_once)
{
    struct fixture f;
    struct heard h = {0};
    emq_open_opts o = {.size = sizeof o, .log = on_log, .log_user = &h};
    emq_effect *e = NULL;

    fixture_open_opts(&f, &o);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key k = key_of(job, "");
    CHECK_STATUS(emq_effect_claim(f.c, &k, 0, 5000, &e, NULL), EMQ_OK);
    CHECK(emq_effect_expires_at_ms(e) - emq_effect_claimed_at_ms(e) >= EMQ__KNOWN_MIN_MS);
    emq_effect_free(e);
    CHECK_INT(h.warnings, 1);
    CHECK(strstr(h.last, "may happen twice"));
    CHECK_STATUS(emq_effect_done(f.c, &k, S("x"), 5000, NULL), EMQ_OK);
    CHECK_INT(h.warnings, 1);
    /* It is forgotten by the store's clock. */
    check_done(&f, job, "", "x");
    fixture_advance(&f, 5001);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- doubts ------------------------------------------------------------------------------ */

EMQ_TEST(a_lost_request_or_reply_of_a_claim_is_one_fresh_claim)
{
    static const enum emq__fault losses[] = {EMQ__FAULT_LOSE_REQUEST, EMQ__FAULT_LOSE_REPLY};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(losses); i++) {
        struct fixture f;

        fixture_open(&f);
        add_id(&f, "a");
        emq_job *job = take_one(&f);
        f.plan = (struct fault_plan){.act = "mark", .fault = losses[i], .times = 2};
        CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
        f.plan.times = 2;
        CHECK_STATUS(done(&f, job, "", "once"), EMQ_OK);
        check_done(&f, job, "", "once");
        CHECK_INT(claimed(&f, job, "s", 0), EMQ_EFFECT_FRESH);
        f.plan.times = 2;
        CHECK_STATUS(release(&f, job, "s"), EMQ_OK);
        settle_done(&f, job);
        fixture_close(&f);
    }
}

/* ---- many at once ------------------------------------------------------------------------ */

enum { CLAIMERS = 100 };

struct race {
    struct fixture *f;
    const emq_job *job;
    pthread_barrier_t start;
    atomic_int fresh, busy, other;
};

static void *claimer(void *user)
{
    struct race *r = user;
    emq_effect_key k = {.size = sizeof k};
    emq_effect *e = NULL;

    emq_effect_key_of(r->job, &k);
    (void)pthread_barrier_wait(&r->start);
    emq_status s = emq_effect_claim(r->f->c, &k, 0, 0, &e, NULL);
    int state = s == EMQ_OK ? emq_effect_get_state(e) : -1;
    atomic_fetch_add(state == EMQ_EFFECT_FRESH  ? &r->fresh
                     : state == EMQ_EFFECT_BUSY ? &r->busy
                                                : &r->other,
                     1);
    emq_effect_free(e);
    return NULL;
}

EMQ_TEST(of_a_hundred_threads_that_claim_one_key_one_wins)
{
    struct fixture f;
    struct race r = {.f = &f};
    pthread_t threads[CLAIMERS];

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    r.job = job;
    CHECK_INT(pthread_barrier_init(&r.start, NULL, CLAIMERS), 0);
    for (int i = 0; i < CLAIMERS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, claimer, &r), 0);
    for (int i = 0; i < CLAIMERS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&r.start);
    CHECK_INT(r.fresh, 1);
    CHECK_INT(r.busy, CLAIMERS - 1);
    CHECK_INT(r.other, 0);
    settle_done(&f, job);
    fixture_close(&f);
}
