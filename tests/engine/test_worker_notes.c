/* SPDX-License-Identifier: MIT
 *
 * What a worker notes for the history of its jobs.
 */
#include "worker_effect.h"

static bool recorded(struct bench *b, const char *what, const char *words)
{
    struct emq__arena mem = {0};
    struct emq__history_req req = {.prefix = b->f.c->prefix, .queue = S("q"), .id = S("a")};
    struct emq__history_res res;
    char entry[40];
    bool found = false;

    (void)snprintf(entry, sizeof entry, "\"what\":\"%s\"", what);
    CHECK_STATUS(b->f.c->e->ops->history(b->f.c->e, &req, &res, &mem, NULL), EMQ_OK);
    for (size_t i = 0; i < res.n; i++) {
        if (getenv("EMQ_TEST_VERBOSE"))
            fprintf(stderr, "  history %.*s\n", EMQ_STR_ARG(res.json[i]));
        char *line = emq__str_dup(res.json[i]);
        CHECK(line != NULL);
        found = found || (strstr(line, entry) && strstr(line, words));
        free(line);
    }
    emq__arena_free(&mem);
    return found;
}

static bool noted(struct bench *b, const char *words)
{
    return recorded(b, "note", words);
}

EMQ_TEST(why_a_job_was_given_back_is_recorded)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "back after 1");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(probe_runs(&b->p, "a") >= 2);
    wf_stop(w, 0);
    CHECK(recorded(b, "released", "the handler gave it back"));
    bench_close(b);
}

EMQ_TEST(a_doubt_that_a_receipt_settled_is_noted)
{
    static const char *const acts[] = {"take", "settle"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(acts); i++) {
        struct bench *b = effects_open();
        char words[100];

        (void)wf_fault(&b->f, acts[i], EMQ__FAULT_LOSE_REPLY, 1);
        wf_add(&b->f, "q", "a", "done");
        CHECK_INT(work_off(b).completed, 1);
        (void)snprintf(words, sizeof words, "the answer of %s was lost; the receipt settled it",
                       acts[i]);
        CHECK(noted(b, words));
        bench_close(b);
    }
}

EMQ_TEST(a_path_without_trouble_is_noted_nowhere)
{
    struct bench *b = effects_open();

    wf_add(&b->f, "q", "a", "done");
    CHECK_INT(work_off(b).completed, 1);
    CHECK(!noted(b, ""));
    bench_close(b);
}

EMQ_TEST(a_refused_outcome_is_noted_with_how_long_renewals_had_stopped)
{
    struct bench *b = effects_open();
    int64_t recovered = 0;

    b->o.o.stalled_interval_ms = -1;
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1);
    wf_add(&b->f, "q", "a", "hold! done");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL) == EMQ_OK && recovered == 1);
    atomic_store(&b->p.gate, 1);
    WAIT_FOR(b->p.event_count[EMQ_EVENT_LOST] == 1);
    wf_stop(w, 0);
    CHECK(noted(b, "renewals had stopped for "));
    bench_close(b);
}

EMQ_TEST(an_outcome_that_an_administrator_overruled_says_nothing_of_renewals)
{
    struct bench *b = effects_open();

    b->o.o.handler = overruled_first;
    ledger_make(&b->f);
    b->o.o.lock_ms = 30000;
    wf_add(&b->f, "q", "a", "");
    CHECK_INT(work_off(b).lost, 1);
    CHECK(!noted(b, "renewals"));
    bench_close(b);
}
