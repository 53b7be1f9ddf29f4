/* SPDX-License-Identifier: MIT
 *
 * What a job keeps by its own options, through the client: log lines and traces.
 */
#include "client_fixture.h"

#include "base/json.h"
#include "base/str.h"

static size_t log_lines(struct fixture *f, const char *id, emq_str *last)
{
    emq_list *l = NULL;
    static char text[64];

    CHECK_STATUS(emq_logs(f->c, Q, S(id), 0, 0, &l, NULL), EMQ_OK);
    size_t n = emq_list_len(l);
    (void)snprintf(text, sizeof text, "%.*s", EMQ_STR_ARG(emq_list_str(l, n - 1)));
    *last = S(text);
    emq_list_free(l);
    return n;
}

static void log_many(struct fixture *f, const char *id, emq_str token, int n)
{
    for (int i = 1; i <= n; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d", i);
        CHECK_STATUS(emq_add_log(f->c, Q, S(id), token, S(line), NULL), EMQ_OK);
    }
}

EMQ_TEST(a_job_keeps_as_many_log_lines_as_its_options_say)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .id = S("few"), .keep_logs = 3};
    emq_str last;

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    log_many(&f, "few", emq_job_token(job), 5);
    CHECK_INT(log_lines(&f, "few", &last), 3);
    CHECK_STR(last, "5");
    log_many(&f, "few", NONE, 2); /* as an administrator */
    CHECK_INT(log_lines(&f, "few", &last), 3);
    CHECK_STR(last, "2");
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(without_a_wish_a_thousand_log_lines_are_kept)
{
    struct fixture f;
    emq_str last;

    fixture_open(&f);
    add_id(&f, "a");
    log_many(&f, "a", NONE, 1005);
    CHECK_INT(log_lines(&f, "a", &last), 1000);
    CHECK_STR(last, "1005");
    fixture_close(&f);
}

EMQ_TEST(the_last_ten_traces_of_a_job_are_kept)
{
    struct fixture f;
    emq_add_opts o = {.size = sizeof o, .id = S("a"), .attempts = 20};
    struct emq__json v;
    size_t pos = 0, n = 0;
    emq_str key, trace = {0};
    struct emq__arena mem = {0};

    fixture_open(&f);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &o, NULL, NULL), EMQ_OK);
    for (int i = 1; i <= 12; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "trace %d", i);
        emq_job *job = take_one(&f);
        emq_settle_opts again = {
            .size = sizeof again, .kind = EMQ_SETTLE_RETRY, .value = S("again"), .stack = S(text)};
        CHECK_STATUS(emq_settle(f.c, Q, S("a"), emq_job_token(job), &again, NULL), EMQ_OK);
        emq_job_free(job);
    }
    emq_job *job = get(&f, "a");
    struct emq__json all = emq__json_root(emq_job_stacktrace_json(job));
    while (emq__json_next(all, &pos, &key, &v)) {
        CHECK(emq__json_str(v, &mem, &trace));
        if (n++ == 0)
            CHECK_STR(trace, "trace 3");
    }
    CHECK_INT(n, 10);
    CHECK_STR(trace, "trace 12");
    emq_job_free(job);
    emq__arena_free(&mem);
    fixture_close(&f);
}

EMQ_TEST(every_administrative_act_on_a_job_leaves_who_did_it_in_its_history)
{
    struct fixture f;
    emq_open_opts o = {.size = sizeof o, .who = S("ann@desk")};
    emq_add_opts late = {.size = sizeof late, .id = S("a"), .delay_ms = 3600000};
    struct emq__arena mem = {0};
    struct emq__history_req req = {.prefix = S("emq"), .queue = Q, .id = S("a")};
    struct emq__history_res res;

    fixture_open_opts(&f, &o);
    CHECK_STATUS(emq_add(f.c, Q, S("1"), &late, NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_set_delay(f.c, Q, S("a"), 1000, NULL), EMQ_OK);
    CHECK_STATUS(emq_promote(f.c, Q, S("a"), NULL), EMQ_OK);
    CHECK_STATUS(emq_set_priority(f.c, Q, S("a"), 4, 0, NULL), EMQ_OK);
    CHECK_STATUS(emq_set_data(f.c, Q, S("a"), NONE, S("2"), NULL), EMQ_OK);
    CHECK_STATUS(emq_cancel(f.c, Q, S("a"), NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_retry(f.c, Q, S("a"), 0, NULL), EMQ_OK);
    emq_job *job = take_one(&f);
    emq_settle_opts force = {
        .size = sizeof force, .kind = EMQ_SETTLE_FAILED, .force = 1, .value = S("enough")};
    CHECK_STATUS(emq_settle(f.c, Q, S("a"), NONE, &force, NULL), EMQ_OK);
    emq_job_free(job);
    CHECK_STATUS(f.store->ops->history(f.store, &req, &res, &mem, NULL), EMQ_OK);
    CHECK_INT(res.n, 7);
    for (size_t i = 0; i < res.n; i++)
        if (!memmem(res.json[i].ptr, res.json[i].len, "ann@desk", 8))
            fail_msg("nobody's name is in %.*s", EMQ_STR_ARG(res.json[i]));
    emq__arena_free(&mem);
    fixture_close(&f);
}
