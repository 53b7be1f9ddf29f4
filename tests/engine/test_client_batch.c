/* SPDX-License-Identifier: MIT
 *
 * Batches of more than one act, through the client: what is told of each entry, and what a batch that fails
 * leaves behind.
 */
#include "client_fixture.h"

enum { N = 1500, HALF = 1000 }; /* HALF: the first part */

static emq_new_job jobs[N];
static const emq_new_job *list[N];
static emq_added added[N], *out[N];
static emq_add_opts opts[N];
static char ids[N][8];

/* Each entry has an id. */
static void make_batch(void)
{
    for (int i = 0; i < N; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "a%d", i);
        opts[i] = (emq_add_opts){.size = sizeof opts[i], .id = S(ids[i])};
        jobs[i] =
            (emq_new_job){.size = sizeof jobs[i], .queue = Q, .data = S("1"), .opts = &opts[i]};
        list[i] = &jobs[i];
        added[i] = (emq_added){.size = sizeof added[i]};
        out[i] = &added[i];
    }
}

static emq_status add_batch(struct fixture *f, emq_progress_fn meanwhile, emq_error *err)
{
    return emq_add_many_watched(f->c, list, N, out, meanwhile, f, err);
}

/* The next `times` calls of an act fail so. */
static void plan(struct fixture *f, const char *act, enum emq__fault fault, int times)
{
    f->plan = (struct fault_plan){.act = act, .fault = fault, .times = times};
}

static int second_part_fails(size_t done, size_t total, void *user)
{
    if (done == HALF && total == N)
        plan(user, "add", EMQ__FAULT_UNAVAIL, 1);
    return 0;
}

static int second_part_in_doubt(size_t done, size_t total, void *user)
{
    if (done == HALF && total == N)
        plan(user, "add", EMQ__FAULT_LOSE_REPLY, 1000000);
    return 0;
}

static int publication_in_doubt(size_t done, size_t total, void *user)
{
    if (done == total)
        plan(user, "publish", EMQ__FAULT_LOSE_REQUEST, 1000000);
    return 0;
}

static int publication_fails(size_t done, size_t total, void *user)
{
    if (done == total)
        plan(user, "publish", EMQ__FAULT_UNAVAIL, 2);
    return 0;
}

static int cancel_half_way(size_t done, size_t total, void *user)
{
    (void)total;
    (void)user;
    return done == HALF;
}

static int cancel_at_the_end(size_t done, size_t total, void *user)
{
    (void)user;
    return done == total;
}

static int cancel_and_fail(size_t done, size_t total, void *user)
{
    (void)total;
    plan(user, "publish", EMQ__FAULT_UNAVAIL, 1);
    return done == HALF;
}

static void check_whole(struct fixture *f)
{
    emq_error err = {0};

    CHECK_STATUS_ERR(add_batch(f, NULL, &err), EMQ_OK, &err);
    for (int i = 0; i < N; i++)
        CHECK_STATUS(added[i].outcome, EMQ_OK);
    CHECK_INT(count_of_state(f, EMQ_WAITING), N);
}

EMQ_TEST(a_batch_that_failed_half_way_can_be_added_again_at_once)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    CHECK_STATUS(add_batch(&f, second_part_fails, &err), EMQ_E_UNAVAIL);
    CHECK(!strstr(err.text, "held"));
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 0);
    check_whole(&f);
    fixture_close(&f);
}

static void stage_elsewhere(struct fixture *f, const char *id)
{
    struct emq__add_entry en = {.prefix = S("emq"),
                                .queue = Q,
                                .id = S(id),
                                .name = S("x"),
                                .opts = S("{}"),
                                .data = {EMQ__KIND_JSON, S("1")}};
    const struct emq__add_entry *entries[] = {&en};
    struct emq__add_req req = {.entries = entries, .n = 1, .stage = S("other")};
    struct emq__add_res res;
    struct emq__arena mem = {0};
    emq_error err = {0};

    CHECK_STATUS_ERR(f->store->ops->add(f->store, &req, &res, &mem, &err), EMQ_OK, &err);
    emq__arena_free(&mem);
}

EMQ_TEST(a_batch_that_is_cancelled_before_its_publication_adds_nothing_and_holds_no_ids)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    CHECK_STATUS(add_batch(&f, cancel_half_way, &err), EMQ_CANCELLED);
    CHECK_STATUS(add_batch(&f, cancel_at_the_end, &err), EMQ_CANCELLED);
    CHECK_STATUS(add_batch(&f, cancel_and_fail, &err), EMQ_E_UNAVAIL);
    CHECK(strstr(err.text, "held for an hour"));
    fixture_advance(&f, 3600001);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 0);
    check_whole(&f);
    fixture_close(&f);
}

EMQ_TEST(a_batch_of_one_act_is_added_before_it_can_be_cancelled)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    CHECK_STATUS_ERR(emq_add_many_watched(f.c, list, HALF, out, cancel_half_way, &f, &err), EMQ_OK,
                     &err);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), HALF);
    fixture_close(&f);
}

EMQ_TEST(a_batch_that_meets_an_id_of_another_does_not_hold_its_own)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    stage_elsewhere(&f, "a1200");
    CHECK_STATUS(add_batch(&f, NULL, &err), EMQ_E_BUSY);
    CHECK(strstr(err.text, "a1200"));
    add_id(&f, "a0");
    fixture_close(&f);
}

EMQ_TEST(a_part_in_doubt_adds_nothing_and_says_that_its_ids_may_be_held)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 30};
    emq_error err = {0};

    fixture_open_over(&f, &o, false);
    make_batch();
    CHECK_STATUS(add_batch(&f, second_part_in_doubt, &err), EMQ_E_UNAVAIL);
    CHECK(strstr(err.text, "none of the batch was added"));
    CHECK(strstr(err.text, "held for an hour"));
    plan(&f, "", EMQ__FAULT_NONE, 0);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 0);
    CHECK_STATUS(add_batch(&f, NULL, &err), EMQ_E_BUSY);
    fixture_advance(&f, 3600001);
    check_whole(&f);
    fixture_close(&f);
}

EMQ_TEST(a_publication_in_doubt_is_left_as_it_is_and_says_so)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 30};
    emq_error err = {0};

    fixture_open_over(&f, &o, false);
    make_batch();
    CHECK_STATUS(add_batch(&f, publication_in_doubt, &err), EMQ_E_IN_DOUBT);
    CHECK(strstr(err.text, "the whole batch was added, or none of it"));
    CHECK(strstr(err.text, "held for an hour"));
    plan(&f, "", EMQ__FAULT_NONE, 0);
    CHECK_STATUS(add_batch(&f, NULL, &err), EMQ_E_BUSY);
    fixture_close(&f);
}

EMQ_TEST(a_stage_that_could_not_be_dropped_is_told)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    CHECK_STATUS(add_batch(&f, publication_fails, &err), EMQ_E_UNAVAIL);
    CHECK(strstr(err.text, "none of the batch was added"));
    CHECK(strstr(err.text, "held for an hour"));
    CHECK_STATUS(add_batch(&f, NULL, &err), EMQ_E_BUSY);
    fixture_close(&f);
}

static int obliterate_meanwhile(size_t done, size_t total, void *user)
{
    struct fixture *f = user;
    int64_t n;

    if (done == HALF && total == N)
        CHECK_STATUS(emq_obliterate(f->c, Q, 1, &n, NULL), EMQ_OK);
    return 0;
}

EMQ_TEST(what_was_obliterated_while_a_batch_was_staged_is_not_told_as_added)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    add_id(&f, "before");
    jobs[7].queue = S("other");
    CHECK_STATUS_ERR(add_batch(&f, obliterate_meanwhile, &err), EMQ_OK, &err);
    for (int i = 0; i < N; i++) {
        CHECK_STATUS(added[i].outcome, i < HALF && i != 7 ? EMQ_NOT_FOUND : EMQ_OK);
        CHECK_STR(S(added[i].id), ids[i]);
    }
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N - HALF);
    fixture_close(&f);
}

/* The owner of a dedup id comes and goes while the batch is staged; its window outlives it. */
static int owner_meanwhile(size_t done, size_t total, void *user)
{
    struct fixture *f = user;
    emq_add_opts o = {
        .size = sizeof o, .id = S("owner"), .dedup_id = S("d"), .dedup_ttl_ms = 3600000};

    if (done != total)
        return 0;
    CHECK_STATUS(emq_add(f->c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_cancel(f->c, Q, S("owner"), NULL, NULL), EMQ_OK);
    return 0;
}

EMQ_TEST(what_dedup_dropped_from_a_batch_is_told_with_what_was_in_its_way_then)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open_unchecked(&f);
    make_batch();
    opts[3].dedup_id = opts[1400].dedup_id = S("d");
    opts[1401].id = S("a4"); /* twice in the batch */
    CHECK_STATUS_ERR(add_batch(&f, owner_meanwhile, &err), EMQ_OK, &err);
    for (int i = 0; i < N; i++) {
        bool dropped = i == 3 || i == 1400;
        CHECK_STATUS(added[i].outcome, dropped     ? EMQ_DEDUPLICATED
                                       : i == 1401 ? EMQ_DUPLICATE
                                                   : EMQ_OK);
        CHECK_STR(S(added[i].id), dropped ? "owner" : i == 1401 ? "a4" : ids[i]);
        if (dropped)
            CHECK_INT(added[i].state, EMQ_FAILED_STATE);
    }
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N - 3);
    fixture_close(&f);
}
