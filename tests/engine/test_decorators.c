/* SPDX-License-Identifier: MIT
 *
 * The decorators of the seam: what trace writes, what each planned fault does and does not do, and that
 * the check sees each kind of damage.
 */
#include "lib/engine_fixture.h"

static void open_naive(struct fx *t)
{
    *t = (struct fx){.kind = FX_NAIVE};
    CHECK_STATUS_ERR(fx_open(FX_NAIVE, NULL, &t->e, &t->mem, &t->err), EMQ_OK, &t->err);
}

static void close_it(struct fx *t)
{
    t->e->ops->close(t->e);
    emq__arena_free(&t->mem);
}

/* ---- trace */

struct lines {
    int n;
    char last[200];
};

static void collect(void *user, int level, emq_str message)
{
    struct lines *l = user;

    CHECK_INT(level, EMQ_LOG_DEBUG);
    l->n++;
    (void)snprintf(l->last, sizeof l->last, "%.*s", EMQ_STR_ARG(message));
}

EMQ_TEST(trace_writes_one_line_a_call_with_act_and_status)
{
    struct fx t;
    struct lines l = {0};
    struct emq__log log = {collect, &l};

    open_naive(&t);
    CHECK_STATUS_ERR(emq__trace_wrap(&t.e, &log, &t.err), EMQ_OK, &t.err);
    must_add(&t, "q", "secret data");
    CHECK_INT(l.n, 1);
    CHECK(strstr(l.last, " add OK ") != NULL);
    CHECK(strstr(l.last, "secret") == NULL);
    struct emq__publish_req req = {.prefix = FX_PREFIX, .stage = S("none")};
    struct emq__publish_res res;
    CHECK_STATUS(FX_CALL(&t, publish, &req, &res), EMQ_NOT_FOUND);
    CHECK_INT(l.n, 2);
    CHECK(strstr(l.last, " publish NOT_FOUND ") != NULL);
    close_it(&t);
}

/* ---- fault */

struct faults {
    enum emq__fault next;
    int asked;
    char act[20];
};

static enum emq__fault plan(void *user, const char *act)
{
    struct faults *f = user;
    enum emq__fault now = f->next;

    f->asked++;
    f->next = EMQ__FAULT_NONE;
    (void)snprintf(f->act, sizeof f->act, "%s", act);
    return now;
}

static emq_status add_plain(struct fx *t)
{
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1};
    struct emq__add_res res;

    return t->e->ops->add(t->e, &req, &res, &t->mem, &t->err);
}

static void fault_case(enum emq__fault fault, emq_status want, int64_t jobs)
{
    struct fx t;
    struct faults f = {.next = fault};

    open_naive(&t);
    CHECK_STATUS_ERR(emq__fault_wrap(&t.e, plan, &f, &t.err), EMQ_OK, &t.err);
    CHECK_STATUS(add_plain(&t), want);
    CHECK_INT(t.err.status, want);
    CHECK_INT(f.asked, 1);
    assert_string_equal(f.act, "add");
    CHECK_INT(stats(&t, "q").totals.added, jobs);
    CHECK_INT(f.asked, 1); /* reading is not asked about */
    CHECK_STATUS(add_plain(&t), EMQ_OK);
    close_it(&t);
}

EMQ_TEST(an_unavailable_store_does_nothing_and_says_so)
{
    fault_case(EMQ__FAULT_UNAVAIL, EMQ_E_UNAVAIL, 0);
}

EMQ_TEST(a_lost_request_does_nothing_and_leaves_a_doubt)
{
    fault_case(EMQ__FAULT_LOSE_REQUEST, EMQ_E_IN_DOUBT, 0);
}

EMQ_TEST(a_lost_reply_has_done_it_and_leaves_a_doubt)
{
    fault_case(EMQ__FAULT_LOSE_REPLY, EMQ_E_IN_DOUBT, 1);
}

EMQ_TEST(a_wait_can_fail_too)
{
    struct fx t;
    struct faults f = {.next = EMQ__FAULT_UNAVAIL};
    emq_str q = S("q");
    struct emq__wait_req req = {.prefix = FX_PREFIX, .queues = &q, .n = 1};
    struct emq__wait_res res;

    open_naive(&t);
    CHECK_STATUS_ERR(emq__fault_wrap(&t.e, plan, &f, &t.err), EMQ_OK, &t.err);
    CHECK_STATUS(t.e->ops->wait(t.e, &req, &res, &t.mem, &t.err), EMQ_E_UNAVAIL);
    assert_string_equal(f.act, "wait");
    close_it(&t);
}

EMQ_TEST(the_doubt_of_a_lost_reply_is_settled_by_the_receipt)
{
    struct fx t;
    struct faults f = {.next = EMQ__FAULT_LOSE_REPLY};
    struct emq__add_entry en = fx_entry("q", "x");
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.call = {S("s"), 1}, .entries = list, .n = 1};
    struct emq__add_res res;

    open_naive(&t);
    CHECK_STATUS_ERR(emq__fault_wrap(&t.e, plan, &f, &t.err), EMQ_OK, &t.err);
    CHECK_STATUS(t.e->ops->add(t.e, &req, &res, &t.mem, &t.err), EMQ_E_IN_DOUBT);
    CHECK_STATUS(t.e->ops->add(t.e, &req, &res, &t.mem, &t.err), EMQ_OK);
    CHECK_STATUS(res.added[0].outcome, EMQ_OK);
    CHECK_INT(stats(&t, "q").totals.added, 1);
    close_it(&t);
}

/* ---- check */

/* An engine whose dump shows what a test wants it to show. */
struct liar {
    struct emq__engine e;
    struct emq__engine *under;
    struct emq__engine_ops ops;
    void (*lie)(struct emq__dump_res *d);
};

static emq_status liar_dump(struct emq__engine *e, const struct emq__dump_req *req,
                            struct emq__dump_res *res, struct emq__arena *mem, emq_error *err)
{
    struct liar *l = (struct liar *)e;
    emq_status s = l->under->ops->dump(l->under, req, res, mem, err);
    if (s == EMQ_OK)
        l->lie(res);
    return s;
}

static emq_status liar_take(struct emq__engine *e, const struct emq__take_req *req,
                            struct emq__take_res *res, struct emq__arena *mem, emq_error *err)
{
    struct liar *l = (struct liar *)e;
    return l->under->ops->take(l->under, req, res, mem, err);
}

static void liar_close(struct emq__engine *e)
{
    struct liar *l = (struct liar *)e;
    l->under->ops->close(l->under);
}

static void note_line(void *user, const char *line)
{
    struct lines *l = user;

    if (l->n++ == 0)
        (void)snprintf(l->last, sizeof l->last, "%s", line);
}

/* Jobs 1 active, 2 delayed, 3 prioritized, 4 completed, 5 waiting, then the lie. */
static void lie_case(void (*lie)(struct emq__dump_res *d), const char *want)
{
    struct fx t;
    struct lines l = {0};
    struct emq__dump_res d;

    open_naive(&t);
    must_add(&t, "q", "x");
    must_take(&t, "q");
    must_add_delayed(&t, "q", 5000);
    must_add_priority(&t, "q", 2);
    must_add(&t, "q", "x");
    settle_ok(&t, must_take(&t, "q"));
    add_dedup(&t, "q", (struct emq__dedup){.id = S("k")});
    d = dump(&t, "q");
    CHECK_INT(emq__check_dump(&d, note_line, &l), 0);
    lie(&d);
    CHECK(emq__check_dump(&d, note_line, &l) > 0);
    if (!strstr(l.last, want))
        fail_msg("no \"%s\" in \"%s\"", want, l.last);
    close_it(&t);
}

static struct emq__job *job_of(struct emq__dump_res *d, const char *id)
{
    for (size_t i = 0; i < d->n; i++)
        if (emq__str_is(d->jobs[i]->id, id))
            return d->jobs[i];
    fail_msg("no job %s", id);
    abort();
}

#define LIE_TEST(test_name, want, statement)             \
    static void test_name##_lie(struct emq__dump_res *d) \
    {                                                    \
        statement;                                       \
    }                                                    \
    EMQ_TEST(test_name)                                  \
    {                                                    \
        lie_case(test_name##_lie, want);                 \
    }

LIE_TEST(check_sees_a_job_in_two_places, "two places", d->jobs[1] = d->jobs[0])
LIE_TEST(check_sees_a_missing_job, "counted as completed", d->n--)
LIE_TEST(check_sees_a_wrong_count, "counted as active", d->stats.count[EMQ_ACTIVE]++)
LIE_TEST(check_sees_a_broken_sum, "present", d->stats.totals.added++)
LIE_TEST(check_sees_an_active_job_without_a_token, "token", job_of(d, "1")->token = S(""))
LIE_TEST(check_sees_a_token_of_another_fence, "token", job_of(d, "1")->token = S("w:17"))
LIE_TEST(check_sees_a_fence_beyond_the_queues, "fence", d->last_fence = 1)
LIE_TEST(check_sees_an_active_job_that_was_never_started, "ats",
         job_of(d, "1")->attempts_started = 0)
LIE_TEST(check_sees_at_most_once_without_its_failure, "at-most-once",
         job_of(d, "1")->mode = EMQ_AT_MOST_ONCE)
LIE_TEST(check_sees_a_lock_outside_active, "outside active", job_of(d, "5")->lock_left_ms = 5)
LIE_TEST(check_sees_a_delayed_job_without_a_due_time, "due", job_of(d, "2")->due_at_ms = 0)
LIE_TEST(check_sees_a_waiting_job_with_a_priority, "priority", job_of(d, "5")->priority = 4)
LIE_TEST(check_sees_a_prioritized_job_without_one, "priority", job_of(d, "3")->priority = 0)
LIE_TEST(check_sees_a_finished_job_without_its_time, "finished", job_of(d, "4")->finished_at_ms = 0)
LIE_TEST(check_sees_an_unfinished_job_with_a_time, "finished", job_of(d, "5")->finished_at_ms = 1)
LIE_TEST(check_sees_a_finished_job_with_a_deferred_failure, "deferred",
         job_of(d, "4")->deferred_failure = S("later"))
LIE_TEST(check_sees_more_attempts_made_than_started, "atm", job_of(d, "4")->attempts_made = 9)
LIE_TEST(check_sees_a_job_without_options, "missing", job_of(d, "5")->opts = S(""))
LIE_TEST(check_sees_an_unknown_state, "state", job_of(d, "5")->state = 0)
LIE_TEST(check_sees_a_wrong_next_due, "next due", d->stats.next_due_at_ms++)
LIE_TEST(check_sees_a_wrong_oldest, "oldest", d->stats.oldest_waiting_at_ms++)
LIE_TEST(check_sees_a_wrong_retry_count, "retry_delayed", d->stats.retry_delayed++)
LIE_TEST(check_sees_a_wrong_maximum, "maxed", d->stats.maxed = true)
LIE_TEST(check_sees_a_dedup_id_without_a_living_owner, "dedup", d->dedup[0].owner = S("4"))
LIE_TEST(check_sees_a_kept_next_without_a_living_owner, "next", d->dedup[0].owner = S("4");
         d->dedup[0].ttl_ms = 5; d->dedup[0].has_next = true)
LIE_TEST(check_sees_stray_rows, "belong to no job", d->stray = 1)
LIE_TEST(check_sees_a_wrong_order, "behind", struct emq__job *j = d->jobs[0];
         d->jobs[0] = d->jobs[1]; d->jobs[1] = j)

static void a_total_falls(struct emq__dump_res *d)
{
    d->stats.totals.completed = 0;
}

static void nothing(struct emq__dump_res *d)
{
    (void)d;
}

EMQ_TEST(check_sees_a_total_that_falls_between_two_acts)
{
    struct fx t;
    struct lines l = {0};
    struct liar liar = {.lie = nothing};

    open_naive(&t);
    must_add(&t, "q", "x");
    settle_ok(&t, must_take(&t, "q"));
    liar.ops = *t.e->ops;
    liar.ops.dump = liar_dump;
    liar.ops.take = liar_take;
    liar.ops.close = liar_close;
    liar.e.ops = &liar.ops;
    liar.under = t.e;
    t.e = &liar.e;
    CHECK_STATUS_ERR(emq__check_wrap(&t.e, note_line, &l, &t.err), EMQ_OK, &t.err);
    take_n(&t, "q", 1);
    CHECK_INT(l.n, 0);
    liar.lie = a_total_falls;
    take_n(&t, "q", 1);
    CHECK(l.n > 0);
    CHECK(strstr(l.last, "after take on queue q") != NULL);
    CHECK(strstr(l.last, "completed fell") != NULL);
    close_it(&t);
}
