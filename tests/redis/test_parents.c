/* SPDX-License-Identifier: MIT
 *
 * Workers and jobs that got children while they ran: a store that does not let them complete says why, and the
 * handler runs as often as the job has attempts.
 */
#include "engine/worker_fixture.h"

enum child { CHILD_WAITS, CHILD_FAILS };

struct family {
    struct bench *b;
    enum child child;
};

/* A child of the job in queue c. */
static void add_child(emq_client *c, const emq_job *job)
{
    char key[100], parent[200];
    emq_str id = emq_job_id(job);
    struct emq__arena mem = {0};
    emq_error err = {0};

    (void)snprintf(key, sizeof key, "%.*s:q:%.*s", EMQ_STR_ARG(c->prefix), EMQ_STR_ARG(id));
    (void)snprintf(parent, sizeof parent, "{\"id\":\"%.*s\",\"queueKey\":\"%.*s:q\",\"fpof\":true}",
                   EMQ_STR_ARG(id), EMQ_STR_ARG(c->prefix));
    const struct emq__add_entry en = {.prefix = c->prefix,
                                      .queue = S("c"),
                                      .name = S("child"),
                                      .data = {EMQ__KIND_JSON, S("{}")},
                                      .opts = S("{}"),
                                      .parent_key = S(key),
                                      .parent = S(parent)};
    const struct emq__add_entry *list[] = {&en};
    struct emq__add_req req = {.entries = list, .n = 1};
    struct emq__add_res res;
    CHECK_STATUS_ERR(emq__do_add(c, &req, &res, &mem, &err), EMQ_OK, &err);
    emq__arena_free(&mem);
}

static void fail_child(emq_client *c)
{
    const emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_FAILED, .value = S("no")};
    emq_job *child = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_take(c, S("c"), NULL, &child, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq_settle(c, S("c"), emq_job_id(child), emq_job_token(child), &o, &err),
                     EMQ_OK, &err);
    emq_job_free(child);
}

static emq_verdict bear(emq_job *job, void *user)
{
    struct family *f = user;

    add_child(f->b->f.c, job);
    if (f->child == CHILD_FAILS)
        fail_child(f->b->f.c);
    return probe_handler(job, &f->b->p);
}

/* A worker of q, whose job "parent" has three attempts and gets such a child in each run. */
static void family_work(struct family *f, enum child child, int32_t mode)
{
    emq_add_opts o = {.size = sizeof o, .attempts = 3, .backoff_type = EMQ_BACKOFF_NONE};

    f->child = child;
    f->b = bench_open("q");
    wf_add_opts(&f->b->f, "q", "parent", "done", o);
    f->b->o.o.handler = bear;
    f->b->o.o.user = f;
    f->b->o.o.on_event = NULL;
    f->b->o.o.mode = mode;
    emq_worker_stats st = work_off(f->b);
    CHECK_INT(st.lost, 0);
    CHECK_INT(st.recovered, 0);
    CHECK_INT(st.failed, 1);
}

static void check_parent(struct bench *b, const char *end, int runs, int made)
{
    emq_job *j = wf_get(&b->f, "q", "parent");

    CHECK_STR(S(wf_end(&b->f, "q", "parent")), end);
    CHECK_INT(probe_runs(&b->p, "parent"), runs);
    CHECK_INT(emq_job_attempts_made(j), made);
    CHECK_INT(emq_job_stalled(j), 0);
    emq_job_free(j);
    bench_close(b);
}

EMQ_TEST(a_job_whose_children_are_not_done_is_failed_as_often_as_it_has_attempts)
{
    struct family f;

    family_work(&f, CHILD_WAITS, EMQ_AT_LEAST_ONCE);
    check_parent(f.b, "failed: not completed: children of the job are not done", 3, 3);
}

EMQ_TEST(a_job_that_a_child_has_failed_is_failed_for_good)
{
    struct family f;

    family_work(&f, CHILD_FAILS, EMQ_AT_LEAST_ONCE);
    check_parent(f.b, "failed: not completed: a child has failed, which fails the job", 1, 1);
}

EMQ_TEST(an_at_most_once_job_whose_children_are_not_done_is_not_run_again)
{
    struct family f;

    family_work(&f, CHILD_WAITS, EMQ_AT_MOST_ONCE);
    check_parent(f.b,
                 "failed: at-most-once: not run again: not completed: children of the job are not "
                 "done",
                 1, 1);
}
