/* SPDX-License-Identifier: MIT
 *
 * Doubts: the request or the answer of an act is lost. Nothing may be lost, doubled or charged, and
 * what can't be known is said.
 */
#include "client_fixture.h"

#include "base/str.h"

static const enum emq__fault losses[] = {EMQ__FAULT_LOSE_REQUEST, EMQ__FAULT_LOSE_REPLY};

static void plan(struct fixture *f, const char *act, enum emq__fault fault, int times)
{
    f->plan = (struct fault_plan){.act = act, .fault = fault, .times = times};
}

EMQ_TEST(a_lost_request_or_reply_of_an_add_adds_one_job)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(losses); i++) {
        struct fixture f;
        emq_added added = {.size = sizeof added};
        emq_error err = {.status = 77};

        fixture_open(&f);
        plan(&f, "add", losses[i], 3);
        CHECK_STATUS_ERR(emq_add(f.c, S("lossy"), S("1"), NULL, &added, &err), EMQ_OK, &err);
        CHECK_INT(err.status, 77); /* a doubt that was settled leaves no trace */
        CHECK_STR(S(added.id), "1");
        emq_queue_stats st = {.size = sizeof st};
        CHECK_STATUS(emq_stats(f.c, S("lossy"), &st, NULL), EMQ_OK);
        CHECK_INT(st.count[EMQ_WAITING], 1);
        CHECK_INT(st.total_added, 1);
        emq_close(f.c);
    }
}

EMQ_TEST(a_lost_request_or_reply_of_a_take_hands_out_one_job_once)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(losses); i++) {
        struct fixture f;

        fixture_open(&f);
        add_id(&f, "a");
        add_id(&f, "b");
        plan(&f, "take", losses[i], 2);
        emq_job *job = take_one(&f);
        CHECK_STR(emq_job_id(job), "a");
        CHECK_STR(emq_job_data(job), "{}");
        CHECK_INT(emq_job_attempts_started(job), 1);
        CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 1);
        CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
        emq_job_free(job);
        emq_close(f.c);
    }
}

EMQ_TEST(a_lost_request_or_reply_of_a_settlement_settles_once)
{
    static const int32_t kinds[] = {EMQ_SETTLE_COMPLETED, EMQ_SETTLE_FAILED, EMQ_SETTLE_RETRY,
                                    EMQ_SETTLE_RELEASE};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(losses) * EMQ_ARRAY_LEN(kinds); i++) {
        struct fixture f;
        int32_t kind = kinds[i / 2];

        fixture_open(&f);
        add_id(&f, "a");
        emq_job *job = take_one(&f);
        plan(&f, "settle", losses[i % 2], 2);
        CHECK_STATUS(settle(&f, job, kind, "\"x\"", 0), EMQ_OK);
        emq_job_free(job);
        job = get(&f, "a");
        CHECK_INT(emq_job_attempts_made(job), kind == EMQ_SETTLE_RELEASE ? 0 : 1);
        CHECK_INT(emq_job_attempts_started(job), kind == EMQ_SETTLE_RELEASE ? 0 : 1);
        CHECK_INT(count_of_state(&f, EMQ_ACTIVE), 0);
        emq_job_free(job);
        emq_close(f.c);
    }
}

EMQ_TEST(a_completed_job_that_keeps_nothing_is_still_known_to_have_been_settled)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .id = S("a"), .keep_completed_count = EMQ_KEEP_NONE};
    emq_job *gone;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    plan(&f, "settle", EMQ__FAULT_LOSE_REPLY, 1);
    CHECK_STATUS(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(emq_get(f.c, Q, S("a"), &gone, NULL), EMQ_NOT_FOUND);
    fixture_close(&f);
}

EMQ_TEST(a_lost_reply_of_a_publication_publishes_once)
{
    enum { N = 1001 };
    struct fixture f;
    static emq_new_job jobs[N];
    static const emq_new_job *list[N];

    fixture_open(&f);
    for (size_t i = 0; i < N; i++) {
        jobs[i] = (emq_new_job){.size = sizeof jobs[i], .queue = Q, .data = S("1")};
        list[i] = &jobs[i];
    }
    plan(&f, "publish", EMQ__FAULT_LOSE_REPLY, 1);
    CHECK_STATUS(emq_add_many(f.c, list, N, NULL, NULL), EMQ_OK);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), N);
    fixture_close(&f);
}

EMQ_TEST(a_doubt_that_stays_open_is_named_and_the_next_call_is_not_confused_by_it)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 30};
    emq_error err = {0};

    fixture_open_opts(&f, &o);
    plan(&f, "add", EMQ__FAULT_LOSE_REQUEST, 1000000);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, NULL, &err), EMQ_E_IN_DOUBT);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_DUPLICATE);
    CHECK(strstr(err.text, "may or may not"));
    plan(&f, "", EMQ__FAULT_NONE, 0);
    add_id(&f, "a");
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
}

/* A take whose answer never comes, under `worker`. */
static void take_in_doubt(struct fixture *f, emq_str worker, emq_error *err)
{
    emq_take_opts take = {.size = sizeof take, .worker = worker};
    emq_job *job;

    plan(f, "take", EMQ__FAULT_LOSE_REPLY, 1000000);
    CHECK_STATUS(emq_take(f->c, Q, &take, &job, err), EMQ_E_IN_DOUBT);
    plan(f, "", EMQ__FAULT_NONE, 0);
}

static emq_list *claims(struct fixture *f, emq_str worker)
{
    emq_list *l = NULL;
    emq_error err;

    CHECK_STATUS_ERR(emq_claims(f->c, worker, &l, &err), EMQ_OK, &err);
    return l;
}

EMQ_TEST(the_claims_of_a_worker_have_what_a_take_in_doubt_handed_out)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 30};
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_error err;

    fixture_open_opts(&f, &o);
    add_id(&f, "a");
    add_id(&f, "b");
    take_in_doubt(&f, S("me"), &err);
    emq_list *l = claims(&f, S("you"));
    CHECK_INT(emq_list_len(l), 0);
    emq_list_free(l);
    l = claims(&f, S("me"));
    CHECK_INT(emq_list_len(l), 1);
    const emq_job *job = emq_list_job(l, 0);
    CHECK_STR(emq_job_id(job), "a");
    CHECK_STR(emq_job_queue(job), "q");
    CHECK_STATUS(emq_extend(f.c, Q, S("a"), emq_job_token(job), 0, NULL), EMQ_OK);
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &done, NULL), EMQ_OK);
    emq_list_free(l);
    l = claims(&f, S("me"));
    CHECK_INT(emq_list_len(l), 0);
    emq_list_free(l);
    fixture_close(&f);
}

EMQ_TEST(a_take_in_doubt_names_the_worker_whose_claims_to_ask_for)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .io_timeout_ms = 30};
    emq_error err;

    fixture_open_opts(&f, &o);
    add_id(&f, "a");
    take_in_doubt(&f, NONE, &err);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_DUPLICATE);
    const char *name = strstr(err.text, "worker ");
    assert_non_null(name);
    name += strlen("worker ");
    emq_list *l = claims(&f, emq_strn(name, strcspn(name, " ")));
    CHECK_INT(emq_list_len(l), 1);
    emq_list_free(l);
    fixture_close(&f);
}

EMQ_TEST(what_was_not_sent_is_not_repeated_by_the_library)
{
    struct fixture f;
    emq_error err = {0};

    fixture_open(&f);
    plan(&f, "add", EMQ__FAULT_UNAVAIL, 1);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, NULL, &err), EMQ_E_UNAVAIL);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_SAFE);
    CHECK_INT(f.plan.seen, 1);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), NULL, NULL, &err), EMQ_OK);
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
}

/* Loses the reply first, then can't send, then the store answers. */
static enum emq__fault reply_then_unavailable(void *user, const char *act)
{
    static const enum emq__fault script[] = {EMQ__FAULT_LOSE_REPLY, EMQ__FAULT_UNAVAIL,
                                             EMQ__FAULT_UNAVAIL};
    size_t *at = user;

    if (strcmp(act, "add") != 0 || *at >= EMQ_ARRAY_LEN(script))
        return EMQ__FAULT_NONE;
    return script[(*at)++];
}

EMQ_TEST(a_store_that_goes_away_during_a_doubt_does_not_turn_it_into_not_sent)
{
    size_t at = 0;
    struct emq__engine *e = fixture_store();
    emq_client *c;
    emq_queue_stats st = {.size = sizeof st};

    CHECK_STATUS(emq__fault_wrap(&e, reply_then_unavailable, &at, NULL), EMQ_OK);
    CHECK_STATUS(emq__client_wrap(&c, e, S("test:"), NONE, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_add(c, Q, S("1"), NULL, NULL, NULL), EMQ_OK);
    CHECK_INT(at, 3);
    CHECK_STATUS(emq_stats(c, Q, &st, NULL), EMQ_OK);
    CHECK_INT(st.total_added, 1);
    emq_close(c);
}

EMQ_TEST(a_lost_reply_of_a_renewal_is_asked_again)
{
    struct fixture f;

    fixture_open(&f);
    add_id(&f, "a");
    emq_job *job = take_one(&f);
    plan(&f, "extend", EMQ__FAULT_LOSE_REPLY, 2);
    CHECK_STATUS(emq_extend(f.c, Q, S("a"), emq_job_token(job), 0, NULL), EMQ_OK);
    CHECK_INT(f.plan.seen, 3);
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(a_lost_reply_of_a_write_or_a_change_is_done_once)
{
    struct fixture f;
    emq_list *logs;

    fixture_open(&f);
    add_id(&f, "a");
    plan(&f, "write", EMQ__FAULT_LOSE_REPLY, 1);
    CHECK_STATUS(emq_add_log(f.c, Q, S("a"), NONE, S("once"), NULL), EMQ_OK);
    CHECK_STATUS(emq_logs(f.c, Q, S("a"), 0, 0, &logs, NULL), EMQ_OK);
    CHECK_INT(emq_list_len(logs), 1);
    emq_list_free(logs);
    plan(&f, "change", EMQ__FAULT_LOSE_REPLY, 1);
    CHECK_STATUS(emq_remove(f.c, Q, S("a"), NULL), EMQ_OK);
    fixture_close(&f);
}
