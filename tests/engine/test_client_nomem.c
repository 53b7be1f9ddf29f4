/* SPDX-License-Identifier: MIT
 *
 * The client without memory: the nth allocation fails, for every n until none does. A call answers
 * E_NOMEM and has done nothing, or it has done all of it: no job is handed out into the void.
 */
#include "client_fixture.h"

#include "lib/failmalloc.h"

#include <echomq/effect.h>
#include <sqlite3.h>

enum { NTH_MAX = 20000 };

/* A failure may also be survived: then the call must have worked. Anything else is a fault. */
static bool went_without(emq_status s, emq_status good, const emq_error *err)
{
    if (s == good)
        return false;
    CHECK_STATUS_ERR(s, EMQ_E_NOMEM, err);
    return true;
}

EMQ_TEST(an_add_without_memory_adds_nothing)
{
    struct fixture f;
    bool failed = true;
    int64_t added = 0;

    fixture_open_unchecked(&f);
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_add_opts o = {.size = sizeof o, .name = S("n"), .group = S("g")};
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_add(f.c, Q, S("{\"a\":1}"), &o, NULL, &err);
        failed = test_alloc_failed();
        added += !went_without(s, EMQ_OK, &err);
        CHECK_INT(count_of_state(&f, EMQ_WAITING), added);
    }
    fixture_close(&f);
}

EMQ_TEST(many_adds_without_memory_are_all_or_none)
{
    enum { N = 1001 };
    struct fixture f;
    static emq_new_job jobs[N];
    static const emq_new_job *list[N];
    static emq_added added[N], *out[N];
    int64_t waiting = 0;
    bool failed = true;

    fixture_open_unchecked(&f);
    for (size_t i = 0; i < N; i++) {
        jobs[i] = (emq_new_job){.size = sizeof jobs[i], .queue = Q, .data = S("1")};
        list[i] = &jobs[i];
        added[i].size = sizeof added[i];
        out[i] = &added[i];
    }
    /* Thousands of allocations: each of the first ones, then ever wider steps. */
    for (size_t nth = 1; failed; nth += 1 + nth / 8) {
        emq_error err = {0};
        test_fail_alloc(nth);
        emq_status s = emq_add_many(f.c, list, N, out, &err);
        failed = test_alloc_failed();
        waiting += went_without(s, EMQ_OK, &err) ? 0 : N;
        CHECK_INT(count_of_state(&f, EMQ_WAITING), waiting);
    }
    fixture_close(&f);
}

EMQ_TEST(an_entry_of_a_batch_is_made_once)
{
    enum { N = 3000, ALLOCATIONS_PER_ENTRY = 4 };
    struct fixture f;
    static emq_new_job jobs[N];
    static const emq_new_job *list[N];

    fixture_open_unchecked(&f);
    for (size_t i = 0; i < N; i++) {
        jobs[i] = (emq_new_job){.size = sizeof jobs[i], .queue = Q, .data = S("1")};
        list[i] = &jobs[i];
    }
    test_fail_alloc(N * ALLOCATIONS_PER_ENTRY);
    CHECK_STATUS(emq_add_many(f.c, list, N, NULL, NULL), EMQ_OK);
    CHECK(!test_alloc_failed());
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N);
    fixture_close(&f);
}

EMQ_TEST(a_take_without_memory_leaves_the_job_in_its_line)
{
    struct fixture f;
    bool failed = true;

    fixture_open_unchecked(&f);
    add_id(&f, "a");
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_job *job = NULL;
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_take(f.c, Q, NULL, &job, &err);
        failed = test_alloc_failed();
        if (went_without(s, EMQ_OK, &err)) {
            CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
            continue;
        }
        CHECK_INT(emq_job_attempts_started(job), 1);
        CHECK_STATUS(settle(&f, job, EMQ_SETTLE_RELEASE, NULL, 0), EMQ_OK);
        emq_job_free(job);
    }
    fixture_close(&f);
}

EMQ_TEST(a_settlement_without_memory_settles_nothing)
{
    struct fixture f;
    bool failed = true;

    fixture_open_unchecked(&f);
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        char id[32];
        emq_settle_opts o = {
            .size = sizeof o, .kind = EMQ_SETTLE_COMPLETED, .value = S("{\"ok\":true}")};
        CHECK(nth < NTH_MAX);
        (void)snprintf(id, sizeof id, "job-%zu", nth);
        add_id(&f, id);
        emq_job *job = take_one(&f);
        test_fail_alloc(nth);
        emq_status s = emq_settle(f.c, Q, emq_job_id(job), emq_job_token(job), &o, &err);
        failed = test_alloc_failed();
        if (went_without(s, EMQ_OK, &err))
            CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
        CHECK_INT(count_of_state(&f, EMQ_COMPLETED_STATE), (int64_t)nth);
        emq_job_free(job);
    }
    fixture_close(&f);
}

EMQ_TEST(reads_without_memory_say_so)
{
    struct fixture f;
    bool failed = true;

    fixture_open_unchecked(&f);
    add_id(&f, "a");
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), NONE, S("line"), NULL), EMQ_OK);
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_job *job;
        emq_list *l;
        CHECK(nth < NTH_MAX);
        failed = false;
        test_fail_alloc(nth);
        emq_status s = emq_get(f.c, Q, S("a"), &job, &err);
        failed |= test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_job_free(job);
        test_fail_alloc(nth);
        s = emq_find(f.c, Q, NULL, &l, &err);
        failed |= test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_list_free(l);
        test_fail_alloc(nth);
        s = emq_logs(f.c, Q, S("a"), 0, 0, &l, &err);
        failed |= test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_list_free(l);
        test_fail_alloc(nth);
        s = emq_events(f.c, Q, NONE, 10, 0, &l, NULL, &err);
        failed |= test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_list_free(l);
        test_fail_alloc(nth);
        s = emq_claims(f.c, S("w"), &l, &err);
        failed |= test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_list_free(l);
    }
    fixture_close(&f);
}

EMQ_TEST(an_open_without_memory_leaves_nothing_behind)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_client *c;
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_open(&c, S("sqlite::memory:"), NULL, &err);
        failed = test_alloc_failed();
        if (!went_without(s, EMQ_OK, &err))
            emq_close(c);
    }
}

/* ---- effects ----------------------------------------------------------------------------- */

static size_t markers_of(struct fixture *f, int *state)
{
    emq_effect **list = NULL;
    size_t n = 0;

    CHECK_STATUS(emq_effect_list(f->c, Q, NONE, NULL, 0, &list, &n, NULL), EMQ_OK);
    *state = n ? emq_effect_get_state(list[0]) : EMQ_EFFECT_NONE;
    for (size_t i = 0; i < n; i++)
        emq_effect_free(list[i]);
    free(list);
    return n;
}

EMQ_TEST(a_claim_and_a_record_without_memory_are_whole_or_have_not_happened)
{
    struct fixture f;
    bool failed = true;
    int state;

    fixture_open_unchecked(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    emq_effect_key key = {.size = sizeof key};
    emq_effect_key_of(job, &key);
    key.payload = S("p");
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_effect *e = NULL;
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_effect_claim(f.c, &key, 0, 0, &e, &err);
        failed = test_alloc_failed();
        if (went_without(s, EMQ_OK, &err)) {
            CHECK(e == NULL);
            CHECK_INT(markers_of(&f, &state), 0);
            continue;
        }
        CHECK_INT(emq_effect_get_state(e), EMQ_EFFECT_FRESH);
        emq_effect_free(e);
        if (failed)
            CHECK_STATUS(emq_effect_release(f.c, &key, NULL), EMQ_OK);
    }
    failed = true;
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_effect_done(f.c, &key, S("result"), 0, &err);
        failed = test_alloc_failed();
        bool without = went_without(s, EMQ_OK, &err);
        CHECK_INT(markers_of(&f, &state), 1);
        if (without && state != EMQ_EFFECT_IS_DONE)
            CHECK_INT(state, EMQ_EFFECT_BUSY);
        if (!without)
            CHECK_INT(state, EMQ_EFFECT_IS_DONE);
    }
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_list_of_effects_without_memory_is_none_or_all)
{
    struct fixture f;
    bool failed = true;

    fixture_open_unchecked(&f);
    add_id(&f, "a");
    for (char step = 'a'; step < 'e'; step++)
        CHECK_STATUS(emq_effect_resolve(f.c, Q, S("a"), emq_strn(&step, 1), 1, S("r"), NULL),
                     EMQ_OK);
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        emq_effect **list = NULL;
        size_t n = 0;
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq_effect_list(f.c, Q, NONE, NULL, 0, &list, &n, &err);
        failed = test_alloc_failed();
        if (went_without(s, EMQ_OK, &err)) {
            CHECK(list == NULL);
            continue;
        }
        CHECK_INT(n, 4);
        for (size_t i = 0; i < n; i++)
            emq_effect_free(list[i]);
        free(list);
    }
    fixture_close(&f);
}

static int insert_row(struct sqlite3 *db, void *arg)
{
    int rc = sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS ledger (x)", NULL, NULL, NULL);

    (void)arg;
    return rc ? rc : sqlite3_exec(db, "INSERT INTO ledger VALUES (1)", NULL, NULL, NULL);
}

static int count_rows(struct sqlite3 *db, void *arg)
{
    sqlite3_stmt *st;

    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM ledger", -1, &st, NULL) != SQLITE_OK)
        return 1;
    *(int *)arg = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : -1;
    return sqlite3_finalize(st);
}

/* fn itself may be what has no memory: then the effect has failed, and nothing of it is left. */
EMQ_TEST(an_effect_without_memory_is_made_with_the_acknowledgement_or_not_at_all)
{
    struct fixture f;
    bool failed = true;
    int made = 0, rows = -1;

    fixture_open_unchecked(&f);
    if (strcmp(f.c->base->ops->name, "sqlite") != 0) {
        fixture_close(&f);
        return;
    }
    for (size_t nth = 1; failed; nth++) {
        emq_error err = {0};
        CHECK(nth < NTH_MAX);
        CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, NULL, &err), EMQ_OK);
        emq_job *job = take_one(&f);
        test_fail_alloc(nth);
        emq_status s = emq_effect_sqlite(f.c, job, insert_row, NULL, NULL, &err);
        failed = test_alloc_failed();
        if (s != EMQ_FAILED && !went_without(s, EMQ_OK, &err))
            made++;
        else
            CHECK_STATUS(settle(&f, job, EMQ_SETTLE_FAILED, "none", 0), EMQ_OK);
        emq_job_free(job);
    }
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    CHECK_STATUS(emq_effect_sqlite(f.c, job, count_rows, &rows, NULL, NULL), EMQ_OK);
    CHECK_INT(rows, made);
    emq_job_free(job);
    fixture_close(&f);
}
