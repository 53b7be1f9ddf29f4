/* SPDX-License-Identifier: MIT
 *
 * A worker and a producer whose link breaks at any byte of a request or a reply, once or twice in a row: each
 * job runs once, is charged once, and no other waits for it.
 */
#include "engine/worker_fixture.h"
#include "field/audit.h"
#include "redis/proxy.h"
#include "redis/the_server.h"

enum { ROUND = 4, STEP = 41, BYTES = 2600, PROMISED_MS = 1000 };

struct lossy {
    struct proxy proxy;
    emq_client *c, *direct;
    struct probe p;
    emq_worker *w;
    int added;
};

static void lossy_open(struct lossy *l)
{
    struct wf_opts o;
    char url[60];

    (void)SERVER_DO("FLUSHALL");
    *l = (struct lossy){.added = 0};
    proxy_start(&l->proxy, the_server()->port);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", l->proxy.port);
    FIELD_OK(emq_open(&l->c, S(url), NULL, err));
    FIELD_OK(emq_open(&l->direct, S(the_server()->url), NULL, err));
    probe_init(&l->p);
    wf_opts(&o, "q", &l->p);
    o.o.concurrency = 2;
    o.o.max_stalled = -1; /* one charge too many, and the job fails */
    l->w = wf_start_on(l->c, &o);
}

static void lossy_close(struct lossy *l)
{
    wf_stop(l->w, 0);
    emq_queue_stats st = field_stats(l->direct, "q");
    CHECK_INT(st.total_added, l->added);
    CHECK_INT(st.total_started, l->added);
    CHECK_INT(st.total_completed, l->added);
    CHECK_INT(st.total_failed + st.total_recovered, 0);
    CHECK_INT(l->p.started, l->added);
    field_audit(l->direct, "q");
    CHECK_INT(l->p.wrong, 0);
    emq_close(l->c);
    emq_close(l->direct);
    probe_free(&l->p);
    proxy_end(&l->proxy);
}

/* Adds some jobs through the link, which breaks `times` times, each time n bytes on; false: it did not break. */
static bool one_round(struct lossy *l, bool replies, int64_t n, int times)
{
    (replies ? proxy_cut_replies : proxy_cut_requests)(&l->proxy, n);
    proxy_cut_again(&l->proxy, times);
    int64_t before = emq__mono_now().us / 1000;
    for (int i = 0; i < ROUND; i++)
        FIELD_OK(emq_add(l->c, S("q"), S("done"), NULL, NULL, err));
    l->added += ROUND;
    WAIT_FOR(field_stats(l->direct, "q").total_completed == l->added);
    int64_t took = emq__mono_now().us / 1000 - before;
    if (took > 5 * times * PROMISED_MS)
        fail_msg("cut behind byte %lld, it took %lld ms until all were done", (long long)n,
                 (long long)took);
    return proxy_was_cut(&l->proxy);
}

static void cut_while_working(bool replies, int times)
{
    struct lossy l;
    int cuts = 0;

    lossy_open(&l);
    for (int64_t n = 0; n < BYTES; n += STEP)
        cuts += one_round(&l, replies, n, times);
    CHECK(cuts > BYTES / STEP / 4);
    lossy_close(&l);
}

EMQ_TEST(a_lost_request_of_a_worker_or_a_producer_charges_nothing_and_delays_no_other_job)
{
    cut_while_working(false, 1);
}

EMQ_TEST(a_lost_reply_to_a_worker_or_a_producer_charges_nothing_and_delays_no_other_job)
{
    cut_while_working(true, 1);
}

EMQ_TEST(two_lost_replies_fail_no_job_whose_handler_never_ran)
{
    cut_while_working(true, 2);
}
