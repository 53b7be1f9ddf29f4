/* SPDX-License-Identifier: MIT
 *
 * What a worker asks of the store, counted: one act settles and takes, outcomes share an act only with
 * what ended during the one before, and nothing is taken ahead of time where it could do harm.
 */
#include "hook_engine.h"
#include "worker_fixture.h"

#include "base/str.h"

/* Counts the acts of the pump, and can hold up its settlements. */
struct ledger {
    struct hook hook;
    atomic_int takes, settles, most_wanted;
    atomic_int entries[16]; /* of the first settlements */
    atomic_int held;        /* 1: a settlement that comes now waits */
};

static void wanted(struct ledger *l, const struct emq__take *t)
{
    int n = t ? (int)t->count : 0, most = atomic_load(&l->most_wanted);

    while (n > most && !atomic_compare_exchange_weak(&l->most_wanted, &most, n)) {
    }
}

static emq_status ledger_before(void *user, const char *act, const void *req)
{
    struct ledger *l = user;

    if (strcmp(act, "take") == 0) {
        atomic_fetch_add(&l->takes, 1);
        wanted(l, &((const struct emq__take_req *)req)->take);
    }
    if (strcmp(act, "settle") != 0)
        return EMQ_OK;
    const struct emq__settle_req *r = req;
    int at = atomic_fetch_add(&l->settles, 1);
    if (at < (int)EMQ_ARRAY_LEN(l->entries))
        atomic_store(&l->entries[at], (int)r->n);
    wanted(l, r->next);
    while (atomic_load(&l->held))
        wf_nap(1);
    return EMQ_OK;
}

static void ledger_wrap(struct bench *b, struct ledger *l)
{
    l->hook.before = ledger_before;
    l->hook.user = l;
    hook_wrap(&b->f.c->e, &l->hook);
}

EMQ_TEST(finishing_a_job_and_taking_the_next_are_one_act)
{
    enum { JOBS = 200 };
    struct bench *b = bench_open("q");
    struct ledger l = {.takes = 0};

    ledger_wrap(b, &l);
    wf_add_n(&b->f, "q", JOBS, "");
    CHECK_INT(work_off(b).completed, JOBS);
    CHECK_INT(l.settles, JOBS);
    if (l.takes > JOBS / 10) /* the first one, and looks while nothing is in hand */
        fail_msg("%d acts only took", l.takes);
    CHECK_INT(l.most_wanted, 1);
    bench_close(b);
}

EMQ_TEST(an_outcome_waits_for_no_other_and_those_that_end_during_an_act_share_the_next)
{
    struct bench *b = bench_open("q");
    struct ledger l = {.held = 1};

    ledger_wrap(b, &l);
    wf_add(&b->f, "q", "first", "");
    wf_add_n(&b->f, "q", 3, "hold");
    b->o.o.concurrency = 4;
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(l.settles == 1); /* the others still run */
    CHECK_INT(l.entries[0], 1);
    b->p.gate = 1;
    WAIT_FOR(wf_stats(w).running == 0);
    CHECK_INT(l.settles, 1);
    l.held = 0;
    WAIT_FOR(wf_count(&b->f, "q", EMQ_COMPLETED_STATE) == 4);
    CHECK_INT(l.settles, 2);
    CHECK_INT(l.entries[1], 3);
    wf_stop(w, 0);
    bench_close(b);
}

/* ---- prefetch ---------------------------------------------------------------------------- */

/* 400 jobs, one handler, prefetch allowed: the most that one act asked for. */
static int most_wanted(const char *field, const char *value)
{
    struct bench *b = bench_open("q");
    struct ledger l = {.takes = 0};

    ledger_wrap(b, &l);
    wf_add_n(&b->f, "q", 400, "");
    if (field) {
        struct emq__meta_field set = {S(field), S(value)};
        struct emq__arena mem = {0};
        struct emq__meta_req req = {
            .prefix = b->f.c->prefix, .queue = S("q"), .admin = S("test"), .set = &set, .n_set = 1};
        struct emq__meta_res res;
        emq_error err = {0};
        CHECK_STATUS_ERR(emq__do_meta(b->f.c, &req, &res, &mem, &err), EMQ_OK, &err);
        emq__arena_free(&mem);
    }
    b->o.o.prefetch = 32;
    CHECK_INT(work_off(b).completed, 400);
    bench_close(b);
    return l.most_wanted;
}

EMQ_TEST(nothing_is_prefetched_from_a_queue_with_a_maximum_of_hand_outs)
{
    CHECK(most_wanted(NULL, NULL) > 1); /* else this proves nothing */
    CHECK_INT(most_wanted("max", "100000"), 1);
}

EMQ_TEST(no_more_is_prefetched_than_was_allowed)
{
    CHECK(most_wanted(NULL, NULL) <= 33);
}

EMQ_TEST(slow_handlers_get_no_jobs_ahead_of_time)
{
    struct bench *b = bench_open("q");

    b->o.o.prefetch = 32;
    wf_add_n(&b->f, "q", 40, "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    int64_t takes = wf_stats(w).takes;
    wf_add(&b->f, "q", "one-more", ""); /* a reason to look again, if any were wanted */
    wf_nap(300);
    CHECK_INT(wf_stats(w).takes, takes);
    CHECK_INT(wf_stats(w).in_hand, 0);
    CHECK_INT(wf_count(&b->f, "q", EMQ_ACTIVE), 1);
    b->p.gate = 1;
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(nothing_is_prefetched_from_a_queue_with_groups)
{
    struct bench *b = bench_open("q");
    struct ledger l = {.takes = 0};

    ledger_wrap(b, &l);
    for (int i = 0; i < 600; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "g%d", i);
        wf_add_opts(&b->f, "q", id, "", (emq_add_opts){.group = S("g")});
    }
    wf_fault(&b->f, "settle", EMQ__FAULT_NONE, 0)->delay_ms = 3; /* acts slower than handlers */
    b->o.o.prefetch = 32;
    CHECK_INT(work_off(b).completed, 600);
    CHECK_INT(l.most_wanted, 1);
    bench_close(b);
}

EMQ_TEST(modes_that_can_not_give_back_take_only_for_free_places)
{
    static const int modes[] = {EMQ_AT_MOST_ONCE, EMQ_FIRE_AND_FORGET};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(modes); i++) {
        struct bench *b = bench_open("q");
        struct ledger l = {.takes = 0};
        ledger_wrap(b, &l);
        wf_add_n(&b->f, "q", 300, "");
        b->o.o.mode = modes[i];
        b->o.o.prefetch = 32;
        CHECK_INT(work_off(b).completed, 300);
        CHECK_INT(l.most_wanted, 1);
        bench_close(b);
    }
}

/* ---- defaults and events ----------------------------------------------------------------- */

EMQ_TEST(a_worker_without_options_has_the_documented_defaults)
{
    struct bench *b = bench_open("q");
    emq_worker_opts o = {.size = sizeof o,
                         .queues = b->o.o.queues,
                         .n_queues = 1,
                         .handler = probe_handler,
                         .user = &b->p};
    emq_worker *w = NULL;
    emq_error err = {0};

    wf_add(&b->f, "q", "a", "hold");
    CHECK_STATUS_ERR(emq_worker_start(&w, b->f.c, &o, &err), EMQ_OK, &err);
    CHECK_INT(w->cfg.concurrency, 1);
    CHECK_INT(w->cfg.lock_ms, 30000);
    CHECK_INT(w->cfg.stalled_interval_ms, 5000);
    CHECK_INT(w->cfg.max_stalled, 3);
    CHECK_INT(w->cfg.grace_ms, 25000);
    CHECK_INT(w->cfg.timeout_ms, 0);
    CHECK_INT(w->cfg.prefetch, 0);
    CHECK_INT(w->cfg.mode, EMQ_AT_LEAST_ONCE);
    WAIT_FOR(b->p.running == 1);
    emq_job *j = wf_get(&b->f, "q", "a"); /* and the store is asked for that lock */
    int64_t lock = emq_job_lock_until_ms(j) - emq_job_processed_at_ms(j);
    CHECK(lock > 29000 && lock < 60000);
    emq_job_free(j);
    b->p.gate = 1;
    wf_stop(w, 0);
    bench_close(b);
}

EMQ_TEST(concurrency_minus_one_is_a_place_for_each_cpu)
{
    struct bench *b = bench_open("q");
    cpu_set_t set;

    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    int cpus = CPU_COUNT(&set);
    b->o.o.concurrency = -1;
    wf_add_n(&b->f, "q", cpus + 1, "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == cpus);
    CHECK_INT(wf_count(&b->f, "q", EMQ_WAITING), 1);
    b->p.gate = 1;
    wf_stop(w, 0);
    bench_close(b);
}

/* What a program that embeds a worker hears of one job. */
struct heard {
    pthread_mutex_t mu;
    char text[3][500]; /* of the jobs a, b, c */
};

static void hear(const emq_event *e, void *user)
{
    static const char *const names[] = {[EMQ_EVENT_STARTED] = "started",
                                        [EMQ_EVENT_COMPLETED] = "completed",
                                        [EMQ_EVENT_FAILED] = "failed",
                                        [EMQ_EVENT_RETRIED] = "retried",
                                        [EMQ_EVENT_GIVEN_BACK] = "given back"};
    struct heard *h = user;

    if (e->kind > EMQ_EVENT_GIVEN_BACK)
        return;
    pthread_mutex_lock(&h->mu);
    char *text = h->text[e->id.ptr[0] - 'a'];
    size_t len = strlen(text);
    (void)snprintf(text + len, sizeof h->text[0] - len, "%s in %.*s at %d%s%.*s; ", names[e->kind],
                   EMQ_STR_ARG(e->queue), (int)e->attempt, e->text.len ? ": " : "",
                   EMQ_STR_ARG(e->text));
    pthread_mutex_unlock(&h->mu);
}

static emq_verdict by_word(emq_job *job, void *user)
{
    emq_str data = emq_job_data(job);

    (void)user;
    if (emq__str_is(data, "retry") && emq_job_set_failure(job, S("no luck"), NONE, NULL) == EMQ_OK)
        return EMQ_RETRY;
    if (emq__str_is(data, "fail") && emq_job_set_failure(job, S("bad"), NONE, NULL) == EMQ_OK)
        return EMQ_FAIL;
    return EMQ_DONE;
}

EMQ_TEST(the_embedding_program_is_told_each_start_and_end_with_attempt_and_reason)
{
    struct bench *b = bench_open("q");
    struct heard h = {.mu = PTHREAD_MUTEX_INITIALIZER};

    b->o.o.handler = by_word;
    b->o.o.on_event = hear;
    b->o.o.user = &h;
    wf_add(&b->f, "q", "a", "done");
    wf_add_opts(&b->f, "q", "b", "retry",
                (emq_add_opts){.attempts = 2, .backoff_type = EMQ_BACKOFF_NONE});
    wf_add(&b->f, "q", "c", "fail");
    (void)work_off(b);
    assert_string_equal(h.text[0], "started in q at 1; completed in q at 1; ");
    assert_string_equal(h.text[1], "started in q at 1; retried in q at 1: no luck; "
                                   "started in q at 2; failed in q at 2: no luck; ");
    assert_string_equal(h.text[2], "started in q at 1; failed in q at 1: bad; ");
    bench_close(b);
}
