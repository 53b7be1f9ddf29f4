/* SPDX-License-Identifier: MIT
 *
 * Dedup ids and custom ids: keys that outlive their job, and records that nobody can see or touch.
 */
#include "field.h"
#include "shell.h"

#include "base/str.h"

static const char KEY[] = "k";

static emq_added add_keyed(struct bench *b, const char *data, emq_add_opts o)
{
    emq_added added = {.size = sizeof added};

    o.size = sizeof o;
    o.dedup_id = S(KEY);
    emq_status s = emq_add(b->f.c, S("q"), S(data), &o, &added, NULL);
    CHECK(s == EMQ_OK || s == EMQ_DEDUPLICATED);
    return added;
}

/* ---- every way out releases the key ------------------------------------------------------ */

static void out_removed(struct bench *b, const char *id)
{
    FIELD_OK(emq_remove(b->f.c, S("q"), S(id), err));
}

static void out_cancelled(struct bench *b, const char *id)
{
    FIELD_OK(emq_cancel(b->f.c, S("q"), S(id), NULL, err));
}

static void out_drained(struct bench *b, const char *id)
{
    int64_t n = 0;

    (void)id;
    FIELD_OK(emq_drain(b->f.c, S("q"), 1, &n, err));
    CHECK_INT(n, 1);
}

static void out_cleaned(struct bench *b, const char *id)
{
    int64_t n = 0;

    (void)id;
    FIELD_OK(emq_clean(b->f.c, S("q"), EMQ_DELAYED, 0, 0, &n, err));
    CHECK_INT(n, 1);
}

static void out_obliterated(struct bench *b, const char *id)
{
    int64_t n = 0;

    (void)id;
    FIELD_OK(emq_obliterate(b->f.c, S("q"), 1, &n, err));
}

static void out_worked(struct bench *b, const char *id)
{
    FIELD_OK(emq_promote(b->f.c, S("q"), S(id), err));
    b->o.o.mode = EMQ_AT_LEAST_ONCE;
    (void)work_off(b);
}

static void out_forgotten(struct bench *b, const char *id)
{
    FIELD_OK(emq_promote(b->f.c, S("q"), S(id), err));
    b->o.o.mode = EMQ_FIRE_AND_FORGET;
    (void)work_off(b);
}

static void out_owner_died(struct bench *b, const char *id)
{
    emq_take_opts o = {.size = sizeof o, .lock_ms = EMQ_LOCK_MIN_MS, .mode = EMQ_AT_MOST_ONCE};
    emq_job *j = NULL;
    int64_t failed = 0;

    FIELD_OK(emq_promote(b->f.c, S("q"), S(id), err));
    FIELD_OK(emq_take(b->f.c, S("q"), &o, &j, err));
    emq_job_free(j);
    WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, NULL, &failed, NULL) == EMQ_OK && failed == 1);
}

EMQ_TEST(every_way_out_of_a_queue_releases_the_dedup_id)
{
    static const struct {
        const char *name;
        void (*leave)(struct bench *b, const char *id);
        const char *data;
        emq_add_opts o;
    } ways[] = {
        {"removed", out_removed, "", {0}},
        {"cancelled", out_cancelled, "", {0}},
        {"drained", out_drained, "", {0}},
        {"cleaned", out_cleaned, "", {0}},
        {"completed", out_worked, "done", {0}},
        {"completed, not kept", out_worked, "done", {.keep_completed_count = EMQ_KEEP_NONE}},
        {"failed", out_worked, "fail", {0}},
        {"failed, not kept", out_worked, "fail", {.keep_failed_count = EMQ_KEEP_NONE}},
        {"attempts used up",
         out_worked,
         "retry",
         {.attempts = 2, .backoff_type = EMQ_BACKOFF_NONE}},
        {"fire-and-forget", out_forgotten, "", {0}},
        {"its owner died", out_owner_died, "", {0}},
        {"obliterated", out_obliterated, "", {0}},
    };
    struct bench *b = bench_open("q");

    for (size_t i = 0; i < EMQ_ARRAY_LEN(ways); i++) {
        emq_add_opts o = ways[i].o;
        o.delay_ms = 3600000;
        emq_added first = add_keyed(b, ways[i].data, o);
        CHECK_STATUS(first.outcome, EMQ_OK);
        emq_added second = add_keyed(b, "", o);
        CHECK_STATUS(second.outcome, EMQ_DEDUPLICATED);
        assert_string_equal(second.id, first.id); /* the living job that blocks it */
        ways[i].leave(b, first.id);
        emq_added third = add_keyed(b, "", o);
        if (third.outcome != EMQ_OK)
            fail_msg("%s: the dedup id is still held by %s", ways[i].name, third.id);
        FIELD_OK(emq_remove(b->f.c, S("q"), S(third.id), err));
        field_audit(b->f.c, "q");
    }
    bench_close(b);
}

/* ---- dangling keys and ghosts ------------------------------------------------------------ */

SQLITE_TEST(a_dedup_id_whose_job_vanished_behind_our_back_blocks_nobody)
{
    struct bench *b = bench_open("q");
    char owner[EMQ_ID_MAX + 1];
    int64_t ttl;

    emq_added first = add_keyed(b, "", (emq_add_opts){0});
    field_sql(b->f.url, "DELETE FROM emq_job; UPDATE emq_queue SET n_waiting = 0, t_removed = 1");
    CHECK_STATUS(emq_dedup_show(b->f.c, S("q"), S(KEY), owner, &ttl, NULL), EMQ_NOT_FOUND);
    emq_added second = add_keyed(b, "", (emq_add_opts){0});
    CHECK_STATUS(second.outcome, EMQ_OK);
    assert_string_not_equal(second.id, first.id);
    FIELD_OK(emq_dedup_show(b->f.c, S("q"), S(KEY), owner, &ttl, err));
    assert_string_equal(owner, second.id);
    emq_added third = add_keyed(b, "", (emq_add_opts){0});
    CHECK_STATUS(third.outcome, EMQ_DEDUPLICATED);
    assert_string_equal(third.id, second.id);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_late_outcome_of_a_removed_queue_makes_no_ghost_that_blocks_the_id)
{
    static const int kinds[] = {EMQ_SETTLE_COMPLETED, EMQ_SETTLE_FAILED, EMQ_SETTLE_RETRY,
                                EMQ_SETTLE_RELEASE};
    struct bench *b = bench_open("q");
    int64_t n = 0;

    wf_add(&b->f, "q", "a", "");
    wf_add(&b->f, "q", "b", "");
    emq_job *j = NULL;
    FIELD_OK(emq_take(b->f.c, S("q"), NULL, &j, err));
    CHECK_STATUS(emq_obliterate(b->f.c, S("q"), 0, &n, NULL), EMQ_WRONG_STATE);
    FIELD_OK(emq_pause(b->f.c, S("q"), err));
    CHECK_STATUS(emq_obliterate(b->f.c, S("q"), 0, &n, NULL), EMQ_LOCKED);
    FIELD_OK(emq_obliterate(b->f.c, S("q"), 1, &n, err));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        emq_settle_opts o = {.size = sizeof o, .kind = kinds[i], .value = S("\"late\"")};
        CHECK_STATUS(emq_settle(b->f.c, S("q"), S("a"), emq_job_token(j), &o, NULL), EMQ_NOT_FOUND);
    }
    CHECK_STATUS(emq_extend(b->f.c, S("q"), S("a"), emq_job_token(j), 0, NULL), EMQ_LOST);
    CHECK_STATUS(emq_set_progress(b->f.c, S("q"), S("a"), emq_job_token(j), S("50"), NULL),
                 EMQ_NOT_FOUND);
    CHECK_STATUS(emq_add_log(b->f.c, S("q"), S("a"), emq_job_token(j), S("late"), NULL),
                 EMQ_NOT_FOUND);
    CHECK_INT(field_rows(b->f.url), 0);
    wf_add(&b->f, "q", "a", ""); /* not a duplicate of anything */
    wf_add(&b->f, "q", "b", "");
    CHECK_INT(work_off(b).completed, 2);
    emq_job_free(j);
    field_audit(b->f.c, "q");
    bench_close(b);
}

static bool reported(struct bench *b, const char *id)
{
    emq_job *j = wf_get(&b->f, "q", id);
    bool yes = emq__str_is(emq_job_progress_json(j), "5");

    emq_job_free(j);
    return yes;
}

EMQ_TEST(a_queue_obliterated_under_a_live_worker_leaves_no_row)
{
    struct bench *b = bench_open("q");
    int64_t n = 0;

    b->o.o.concurrency = 2;
    for (int i = 0; i < 20; i++) {
        emq_add_opts o = {.size = sizeof o,
                          .id = i == 0   ? S("h0")
                                : i == 1 ? S("h1")
                                         : NONE,
                          .delay_ms = i % 5 == 4 ? 3600000 : 0,
                          .dedup_id = i % 5 == 3 ? S(KEY) : NONE,
                          .priority = i % 5 == 2 ? 7 : 0};
        emq_status s =
            emq_add(b->f.c, S("q"), S(i < 2 ? "log line tell 5 hold!" : "done"), &o, NULL, NULL);
        CHECK(s == EMQ_OK || s == EMQ_DEDUPLICATED);
    }
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(reported(b, "h0") && reported(b, "h1"));
    FIELD_OK(emq_pause(b->f.c, S("q"), err));
    FIELD_OK(emq_obliterate(b->f.c, S("q"), 1, &n, err));
    b->p.gate = 1;
    WAIT_FOR(wf_stats(w).lost == 2);
    wf_stop(w, 0);
    CHECK_INT(field_rows(b->f.url), 0);
    bench_close(b);
}

/* ---- ids that stay occupied -------------------------------------------------------------- */

EMQ_TEST(an_id_is_free_as_soon_as_its_record_is_past_its_age_without_any_activity)
{
    struct bench *b = bench_open("q");
    emq_add_opts o = {.size = sizeof o, .id = S("a"), .keep_completed_ms = 300};
    emq_status s = EMQ_DUPLICATE;
    emq_job *j = NULL;

    wf_add_opts(&b->f, "q", "a", "done", o);
    (void)work_off(b);
    WAIT_FOR((s = emq_add(b->f.c, S("q"), NONE, &o, NULL, NULL)) != EMQ_DUPLICATE);
    CHECK_STATUS(s, EMQ_OK);
    FIELD_OK(emq_get(b->f.c, S("q"), S("a"), &j, err));
    CHECK_INT(emq_job_state(j), EMQ_WAITING);
    emq_job_free(j);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), 0);
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_job_that_failed_for_good_is_named_when_its_id_is_added_again)
{
    struct bench *b = bench_open("q");
    emq_add_opts o = {.size = sizeof o, .id = S("nightly"), .attempts = 1};
    emq_added added = {.size = sizeof added};

    wf_add_opts(&b->f, "q", "nightly", "retry", o);
    (void)work_off(b);
    CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &o, &added, NULL), EMQ_DUPLICATE);
    CHECK_INT(added.state, EMQ_FAILED_STATE);
    assert_string_equal(added.id, "nightly");
    FIELD_OK(emq_remove(b->f.c, S("q"), S("nightly"), err));
    FIELD_OK(emq_add(b->f.c, S("q"), NONE, &o, NULL, err));
    field_audit(b->f.c, "q");
    bench_close(b);
}

EMQ_TEST(a_trimmed_job_is_gone_whole_and_every_id_that_is_listed_can_be_removed)
{
    enum { JOBS = 100, KEPT = 10 };
    struct bench *b = bench_open("q");
    int found = 0;

    for (int i = 0; i < JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "f%d", i);
        wf_add_opts(&b->f, "q", id, "fail log line",
                    (emq_add_opts){.keep_failed_count = KEPT, .keep_failed_ms = 3600000});
    }
    (void)work_off(b);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "f%d", i);
        emq_job *j = NULL;
        emq_list *lines = NULL;
        emq_status s = emq_get(b->f.c, S("q"), S(id), &j, NULL);
        emq_job_free(j);
        found += s == EMQ_OK;
        CHECK_STATUS(emq_logs(b->f.c, S("q"), S(id), 0, 0, &lines, NULL), s);
        emq_list_free(lines);
        CHECK_STATUS(emq_remove(b->f.c, S("q"), S(id), NULL), s);
    }
    CHECK_INT(found, KEPT);
    field_audit(b->f.c, "q");
    emq_queue_stats st = field_stats(b->f.c, "q");
    CHECK_INT(st.total_removed, JOBS);
    for (int i = 0; i < JOBS; i++) { /* nothing is a duplicate of what is gone */
        char id[16];
        (void)snprintf(id, sizeof id, "f%d", i);
        wf_add(&b->f, "q", id, "");
    }
    bench_close(b);
}

EMQ_TEST(a_job_frozen_in_active_can_be_failed_by_force_and_removed)
{
    struct bench *b = bench_open("q");
    emq_settle_opts o = {
        .size = sizeof o, .kind = EMQ_SETTLE_FAILED, .force = 1, .value = S("its owner is gone")};

    wf_add(&b->f, "q", "a", "");
    wf_orphan(&b->f, "q", 3600000);
    CHECK_STATUS(emq_remove(b->f.c, S("q"), S("a"), NULL), EMQ_LOCKED);
    FIELD_OK(emq_settle(b->f.c, S("q"), S("a"), NONE, &o, err));
    FIELD_OK(emq_remove(b->f.c, S("q"), S("a"), err));
    field_audit(b->f.c, "q");
    bench_close(b);
}
