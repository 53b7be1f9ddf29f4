/* SPDX-License-Identifier: MIT
 *
 * The wall clock is set by a day, forward and back, while jobs are held. Locks count on a clock that
 * cannot be set: nobody loses a job. Due times are instants of the wall clock, as documented: a jump
 * forward makes due what lies in between, a jump back makes nothing early and loses nothing. On a server the
 * clock is the server's: tests/redis/test_clock.c.
 *
 * clock_gettime() of this program goes through the linker's --wrap.
 */
#include "field.h"

#include "base/str.h"

#include <time.h>

static _Atomic int64_t step_ms;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (rc == 0 && id == CLOCK_REALTIME)
        t->tv_sec += atomic_load(&step_ms) / 1000;
    return rc;
}

static const int64_t HOUR = 3600000, DAY = 86400000;

struct watch {
    struct bench *b;
    emq_worker *owner, *other;
    struct wf_fault *extend, *sweep;
};

/* Several renewals and several sweeps of both workers later, the held job is still the first owner's. */
static void nobody_lost_anything(struct watch *x)
{
    int renewals = x->extend->seen, sweeps = x->sweep->seen;

    WAIT_FOR(x->extend->seen >= renewals + 4 && x->sweep->seen >= sweeps + 10);
    CHECK_INT(x->b->p.cancel_seen, 0);
    CHECK_INT(probe_runs(&x->b->p, "held"), 1);
    CHECK_INT(wf_state(&x->b->f, "q", "held"), EMQ_ACTIVE);
    CHECK_INT(wf_stats(x->owner).lost + wf_stats(x->owner).recovered, 0);
    CHECK_INT(wf_stats(x->other).lost + wf_stats(x->other).recovered, 0);
}

static int64_t fence_of(struct bench *b, const char *id)
{
    emq_job *j = wf_get(&b->f, "q", id);
    int64_t fence = emq_job_fence(j);

    emq_job_free(j);
    return fence;
}

SQLITE_TEST(a_clock_that_is_set_by_a_day_costs_no_lock_and_no_delayed_job)
{
    struct watch x = {.b = bench_open("q")};
    struct bench *b = x.b;

    x.extend = wf_fault(&b->f, "extend", EMQ__FAULT_NONE, 0);
    x.sweep = wf_fault(&b->f, "sweep", EMQ__FAULT_NONE, 0);
    b->o.o.lock_ms = 900;
    b->o.o.stalled_interval_ms = 50;
    b->o.o.concurrency = 2;
    wf_add(&b->f, "q", "held", "hold!");
    x.owner = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    struct wf_opts other;
    wf_opts(&other, "q", &b->p);
    other.o.stalled_interval_ms = 50;
    x.other = wf_start(&b->f, &other);
    wf_add_opts(&b->f, "q", "hour", "done", (emq_add_opts){.delay_ms = HOUR});
    wf_add_opts(&b->f, "q", "week", "done", (emq_add_opts){.delay_ms = 7 * DAY});
    nobody_lost_anything(&x);
    CHECK_INT(probe_runs(&b->p, "hour"), 0);

    atomic_store(&step_ms, DAY);
    nobody_lost_anything(&x);
    WAIT_FOR(wf_state(&b->f, "q", "hour") == EMQ_COMPLETED_STATE); /* its instant has come */
    CHECK_INT(wf_state(&b->f, "q", "week"), EMQ_DELAYED);
    int64_t fence = fence_of(b, "hour");
    wf_add_opts(&b->f, "q", "tomorrow", "done",
                (emq_add_opts){.delay_ms = HOUR}); /* by that clock */

    atomic_store(&step_ms, -DAY);
    nobody_lost_anything(&x);
    wf_add(&b->f, "q", "plain", "done"); /* work goes on, fences and events still grow */
    WAIT_FOR(wf_state(&b->f, "q", "plain") == EMQ_COMPLETED_STATE);
    CHECK(fence_of(b, "plain") > fence);
    fence = fence_of(b, "plain");
    wf_add_opts(&b->f, "q", "soon", "done", (emq_add_opts){.delay_ms = 300});
    WAIT_FOR(wf_state(&b->f, "q", "soon") == EMQ_COMPLETED_STATE);
    CHECK(fence_of(b, "soon") > fence);
    CHECK_INT(wf_state(&b->f, "q", "week"), EMQ_DELAYED);
    CHECK_INT(wf_state(&b->f, "q", "tomorrow"), EMQ_DELAYED);

    atomic_store(&step_ms, 0);
    nobody_lost_anything(&x);
    CHECK_INT(wf_state(&b->f, "q", "tomorrow"), EMQ_DELAYED);
    atomic_store(&step_ms, DAY + HOUR + 1000);
    WAIT_FOR(wf_state(&b->f, "q", "tomorrow") == EMQ_COMPLETED_STATE);
    atomic_store(&step_ms, 8 * DAY);
    WAIT_FOR(wf_state(&b->f, "q", "week") == EMQ_COMPLETED_STATE);
    b->p.gate = 1;
    WAIT_FOR(wf_state(&b->f, "q", "held") == EMQ_COMPLETED_STATE);
    wf_stop(x.owner, 0);
    wf_stop(x.other, 0);
    emq_queue_stats st = field_stats(b->f.c, "q");
    CHECK_INT(st.total_recovered, 0);
    CHECK_INT(st.total_started, 6);
    atomic_store(&step_ms, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_dead_owners_job_is_recovered_in_time_though_the_clock_was_set_back)
{
    struct bench *b = bench_open("q");

    wf_add_opts(&b->f, "q", "a", "done", (emq_add_opts){.keep_completed_count = EMQ_KEEP_ALL});
    wf_orphan(&b->f, "q", 300);
    atomic_store(&step_ms, -DAY);
    int64_t before = emq__mono_now().us;
    CHECK_INT(work_off(b).completed, 1); /* stays for it, and recovers it when its lock ends */
    CHECK(emq__mono_now().us - before < 5 * (300 + 200) * INT64_C(1000));
    CHECK_INT(probe_runs(&b->p, "a"), 1);
    atomic_store(&step_ms, 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

SQLITE_TEST(a_dedup_window_that_saw_the_clock_go_back_still_ends)
{
    struct bench *b = bench_open("q");
    emq_add_opts o = {.size = sizeof o, .dedup_id = S("k"), .dedup_ttl_ms = 5000};
    char owner[EMQ_ID_MAX + 1];
    int64_t ttl = 0;

    FIELD_OK(emq_add(b->f.c, S("q"), S("done"), &o, NULL, err));
    (void)work_off(b);
    CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &o, NULL, NULL), EMQ_DEDUPLICATED);
    atomic_store(&step_ms, DAY); /* past its end by the wall clock */
    CHECK_STATUS(emq_add(b->f.c, S("q"), S("done"), &o, NULL, NULL), EMQ_OK);
    atomic_store(&step_ms, 0); /* its end is a day away now: visible, and in the user's hands */
    CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &o, NULL, NULL), EMQ_DEDUPLICATED);
    FIELD_OK(emq_dedup_show(b->f.c, S("q"), S("k"), owner, &ttl, err));
    CHECK(ttl > DAY - HOUR);
    FIELD_OK(emq_dedup_release(b->f.c, S("q"), S("k"), NONE, err));
    CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &o, NULL, NULL), EMQ_OK);
    field_audit(b->f.c, "q");
    bench_close(b);
}
