/* SPDX-License-Identifier: MIT
 *
 * Effects by hand: markers and their two clocks, zombies, doubts, manual retries, misuse; and what commits with
 * the acknowledgement, where the store can do that.
 */
#include "client_fixture.h"

#include "base/str.h"
#include "client/effect.h"
#include "engine/sqlite/effect_text.h"
#include "model/policy.h"

#include <sqlite3.h>

enum { LOCK_MS = 30000 };

static emq_effect_key key_of(const emq_job *job, const char *step)
{
    emq_effect_key k = {.size = sizeof k};

    emq_effect_key_of(job, &k);
    k.step = S(step);
    return k;
}

static emq_effect *claim(struct fixture *f, const emq_effect_key *k, int flags)
{
    emq_effect *e = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_effect_claim(f->c, k, flags, 0, &e, &err), EMQ_OK, &err);
    return e;
}

static int claimed(struct fixture *f, const emq_job *job, const char *step, int flags)
{
    emq_effect_key k = key_of(job, step);
    emq_effect *e = claim(f, &k, flags);
    int state = emq_effect_get_state(e);

    emq_effect_free(e);
    return state;
}

static emq_status done(struct fixture *f, const emq_job *job, const char *step, const char *result)
{
    emq_effect_key k = key_of(job, step);

    return emq_effect_done(f->c, &k, S(result), 0, NULL);
}

static emq_status release(struct fixture *f, const emq_job *job, const char *step)
{
    emq_effect_key k = key_of(job, step);

    return emq_effect_release(f->c, &k, NULL);
}

static void check_done(struct fixture *f, const emq_job *job, const char *step, const char *result)
{
    emq_effect_key k = key_of(job, step);
    emq_effect *e = claim(f, &k, 0);

    CHECK_INT(emq_effect_get_state(e), EMQ_EFFECT_IS_DONE);
    CHECK_STR(emq_effect_result(e), result);
    emq_effect_free(e);
}

/* The worker of this job is gone, its lock ends, and the job is handed out again. */
static emq_job *handed_out_again(struct fixture *f)
{
    int64_t recovered = 0;

    fixture_advance(f, LOCK_MS + 1);
    /* A server's sweep looks twice where there is no lock. */
    for (int i = 0; i < 3 && recovered == 0; i++) {
        CHECK_STATUS(emq_sweep(f->c, Q, NULL, &recovered, NULL, NULL), EMQ_OK);
        fixture_advance(f, 6000);
    }
    return take_one(f);
}

static void settle_done(struct fixture *f, emq_job *job)
{
    CHECK_STATUS(settle(f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
}

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
    CHECK_INT(emq_effect_expires_at_ms(e) - emq_effect_claimed_at_ms(e), 5000);
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

/* ---- administration ---------------------------------------------------------------------- */

EMQ_TEST(markers_are_listed_in_order_page_by_page)
{
    struct fixture f;
    emq_effect **page = NULL;
    char seen[200] = "";
    size_t n = 0;

    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        char id[3] = {'j', (char)('1' + i), 0};
        add_id(&f, id);
        emq_job *job = take_one(&f);
        CHECK_INT(claimed(&f, job, "x", 0), EMQ_EFFECT_FRESH);
        CHECK_INT(claimed(&f, job, "y", 0), EMQ_EFFECT_FRESH);
        CHECK_STATUS(done(&f, job, "y", "r"), EMQ_OK);
        settle_done(&f, job);
    }
    emq_effect *after = NULL;
    do {
        CHECK_STATUS(emq_effect_list(f.c, Q, NONE, after, 4, &page, &n, NULL), EMQ_OK);
        CHECK(page[n] == NULL);
        emq_effect_free(after);
        after = NULL;
        for (size_t i = 0; i < n; i++) {
            size_t at = strlen(seen);
            (void)snprintf(seen + at, sizeof seen - at, "%.*s.%.*s=%s ",
                           EMQ_STR_ARG(emq_effect_id(page[i])),
                           EMQ_STR_ARG(emq_effect_step(page[i])),
                           emq_effect_state_name(emq_effect_get_state(page[i])));
            emq_effect_free(i + 1 < n ? page[i] : NULL);
        }
        after = n ? page[n - 1] : NULL;
        free(page);
    } while (n == 4);
    emq_effect_free(after);
    CHECK_STR(S(seen), "j1.x=in-doubt j1.y=done j2.x=in-doubt j2.y=done j3.x=in-doubt j3.y=done ");
    CHECK_STATUS(emq_effect_list(f.c, Q, S("j2"), NULL, 0, &page, &n, NULL), EMQ_OK);
    CHECK_INT(n, 2);
    emq_str json = emq_effect_json(page[1]);
    CHECK(emq__str_starts(json, "{\"queue\":\"q\",\"id\":\"j2\",\"timestamp\":"));
    CHECK(strstr(json.ptr, "\"step\":\"y\",\"state\":\"done\",\"token\":\""));
    CHECK(strstr(json.ptr, "\"result\":\"r\"}"));
    for (size_t i = 0; i < n; i++)
        emq_effect_free(page[i]);
    free(page);
    fixture_close(&f);
}

EMQ_TEST(an_administrator_settles_what_is_in_doubt_either_way)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 0, NONE, NULL), EMQ_NOT_FOUND);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("nobody"), NONE, 1, NONE, NULL), EMQ_NOT_FOUND);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 1, S("seen"), NULL), EMQ_OK);
    check_done(&f, job, "", "seen");
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), NONE, 0, NONE, NULL), EMQ_OK);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    /* One that was never claimed, too. */
    CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), S("mail"), 1, S("sent"), NULL), EMQ_OK);
    check_done(&f, job, "mail", "sent");
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- manual retries ---------------------------------------------------------------------- */

static emq_job *job_done_and_failed(struct fixture *f, const char *id)
{
    add_id(f, id);
    emq_job *job = take_one(f);
    CHECK_INT(claimed(f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(done(f, job, "", "r"), EMQ_OK);
    CHECK_STATUS(settle(f, job, EMQ_SETTLE_FAILED, "late trouble", 0), EMQ_OK);
    return job;
}

EMQ_TEST(a_retry_of_a_job_whose_effect_is_done_asks_what_to_do_with_it)
{
    struct fixture f;

    fixture_open(&f);
    emq_job *failed = job_done_and_failed(&f, "a");
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_EFFECT_DONE);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 1);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), EMQ_RETRY_KEEP_EFFECT, NULL), EMQ_OK);
    emq_job *again = take_one(&f);
    check_done(&f, again, "", "r");
    CHECK_STR_EQ(emq_job_idempotency_key(again), emq_job_idempotency_key(failed));
    CHECK_STATUS(settle(&f, again, EMQ_SETTLE_FAILED, "again", 0), EMQ_OK);
    emq_job_free(again);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), EMQ_RETRY_REDO_EFFECT, NULL), EMQ_OK);
    again = take_one(&f);
    CHECK_INT(claimed(&f, again, "", 0), EMQ_EFFECT_FRESH);
    CHECK(!emq__str_eq(emq_job_idempotency_key(again), emq_job_idempotency_key(failed)));
    emq_job_free(failed);
    settle_done(&f, again);
    fixture_close(&f);
}

EMQ_TEST(a_retry_of_a_job_whose_effect_is_only_claimed_asks_nothing)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_FRESH);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "parked", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_OK);
    job = take_one(&f);
    CHECK_INT(claimed(&f, job, "", 0), EMQ_EFFECT_IN_DOUBT);
    settle_done(&f, job);
    fixture_close(&f);
}

EMQ_TEST(a_retry_of_all_passes_over_jobs_whose_effect_is_done_unless_it_is_told)
{
    struct fixture f;
    int64_t count = 0;

    fixture_open(&f);
    emq_job_free(job_done_and_failed(&f, "a"));
    add_id(&f, "b");
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 1);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, EMQ_RETRY_KEEP_EFFECT, &count, NULL),
                 EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), 0);
    fixture_close(&f);
}

/* More of them than one slice looks at. */
EMQ_TEST(a_retry_of_all_reaches_what_lies_behind_many_that_it_passes_over)
{
    enum { MANY = 600 };
    struct fixture f;
    int64_t count = 0;

    fixture_open(&f);
    for (int i = 0; i < MANY; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "d%d", i);
        add_id(&f, id);
        CHECK_STATUS(emq_effect_resolve(f.c, Q, S(id), NONE, 1, NONE, NULL), EMQ_OK);
        emq_job *job = take_one(&f);
        CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
        emq_job_free(job);
    }
    add_id(&f, "last");
    emq_job *job = take_one(&f);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "x", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, 0, &count, NULL), EMQ_OK);
    CHECK_INT(count, 1);
    CHECK_INT(count_of_state(&f, EMQ_FAILED_STATE), MANY);
    CHECK_STATUS(emq_retry_all(f.c, Q, EMQ_FAILED_STATE, EMQ_RETRY_REDO_EFFECT, &count, NULL),
                 EMQ_OK);
    CHECK_INT(count, MANY);
    fixture_close(&f);
}

/* ---- misuse ------------------------------------------------------------------------------ */

static void refused(emq_status s, const emq_error *err, const char *words)
{
    CHECK_STATUS_ERR(s, EMQ_E_INVALID, err);
    if (!strstr(err->text, words))
        fail_msg("\"%s\" lacks \"%s\"", err->text, words);
}

EMQ_TEST(misuse_of_markers_is_named_and_changes_nothing)
{
    struct fixture f;
    emq_effect *e = NULL, **list = NULL;
    emq_error err = {0};
    size_t n = 0;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key good = key_of(job, ""), k = good;
    refused(emq_effect_claim(NULL, &k, 0, 0, &e, &err), &err, "client is NULL");
    refused(emq_effect_claim(f.c, NULL, 0, 0, &e, &err), &err, "key is NULL");
    refused(emq_effect_claim(f.c, &k, 0, 0, NULL, &err), &err, "out is NULL");
    refused(emq_effect_claim(f.c, &k, 6, 0, &e, &err), &err, "flags is 0x6");
    refused(emq_effect_claim(f.c, &k, 0, -1, &e, &err), &err, "keep_ms is -1");
    refused(emq_effect_done(f.c, &k, NONE, -1, &err), &err, "keep_ms is -1");
    k.token = NONE;
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "the token has 0 bytes");
    k = good;
    k.step = S("two words");
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "\"two words\"");
    refused(emq_effect_release(f.c, &k, &err), &err, "\"two words\"");
    k.step = S("12345678901234567890123456789012345678901234567890123456789012345");
    refused(emq_effect_done(f.c, &k, NONE, 0, &err), &err, "0 to 64 bytes");
    k = good;
    k.queue = S("a:b");
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "a:b");
    k = good;
    k.size = 3;
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "size");
    k = good;
    k.payload = (emq_str){NULL, 7};
    refused(emq_effect_claim(f.c, &k, 0, 0, &e, &err), &err, "7 bytes at NULL");
    refused(emq_effect_list(f.c, Q, NONE, NULL, 1001, &list, &n, &err), &err, "limit is 1001");
    refused(emq_effect_list(f.c, Q, NONE, NULL, 0, NULL, &n, &err), &err, "out is NULL");
    refused(emq_effect_resolve(f.c, Q, S("a"), S("?"), 1, NONE, &err), &err, "\"?\"");
    refused(emq_retry(f.c, Q, S("a"), EMQ_RETRY_KEEP_EFFECT | EMQ_RETRY_REDO_EFFECT, &err), &err,
            "kept and redone");
    CHECK(e == NULL);
    CHECK_STATUS(emq_effect_list(f.c, Q, NONE, NULL, 0, &list, &n, NULL), EMQ_OK);
    CHECK_INT(n, 0);
    free(list);
    emq_effect_free(NULL);
    CHECK_INT(emq_effect_get_state(NULL), EMQ_EFFECT_NONE);
    CHECK_STR(emq_effect_result(NULL), "");
    settle_done(&f, job);
    fixture_close(&f);
}

/* ---- an inbox elsewhere ------------------------------------------------------------------ */

static int claim_inbox(sqlite3 *db, const char *key)
{
    sqlite3_stmt *st;

    CHECK_INT(sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CLAIM), -1, &st, NULL),
              SQLITE_OK);
    CHECK_INT(sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    return sqlite3_changes(db);
}

EMQ_TEST(an_inbox_lets_a_key_in_once)
{
    sqlite3 *db;

    CHECK_INT(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (int i = 0; i < 2; i++)
        CHECK_INT(sqlite3_exec(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_CREATE), 0, 0, NULL),
                  SQLITE_OK);
    CHECK_INT(claim_inbox(db, "k1"), 1);
    CHECK_INT(claim_inbox(db, "k1"), 0);
    CHECK_INT(claim_inbox(db, "k2"), 1);
    CHECK_INT(sqlite3_exec(db, "UPDATE emq_inbox SET at = at - 100 WHERE key = 'k1'", 0, 0, NULL),
              SQLITE_OK);
    sqlite3_stmt *st;
    CHECK_INT(sqlite3_prepare_v2(db, emq_inbox_sql(EMQ_SQL_SQLITE, EMQ_INBOX_TRIM), -1, &st, NULL),
              SQLITE_OK);
    CHECK_INT(sqlite3_bind_int(st, 1, 50), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_DONE);
    CHECK_INT(sqlite3_changes(db), 1);
    sqlite3_finalize(st);
    CHECK_INT(claim_inbox(db, "k1"), 1);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

EMQ_TEST(statements_that_do_not_exist_are_null)
{
    CHECK(emq_inbox_sql(EMQ_SQL_POSTGRESQL, EMQ_INBOX_TRIM) != NULL);
    CHECK(emq_inbox_sql(0, EMQ_INBOX_CREATE) == NULL);
    CHECK(emq_inbox_sql(3, EMQ_INBOX_CREATE) == NULL);
    CHECK(emq_inbox_sql(EMQ_SQL_SQLITE, 0) == NULL);
    CHECK(emq_inbox_sql(EMQ_SQL_SQLITE, 4) == NULL);
}
