/* SPDX-License-Identifier: MIT
 *
 * suspects and mend: sound queues have none, and nothing that is sound is mended; what is broken is found, and
 * after its repair the invariants hold. Each kind of flaw is planted in tests/cli/fsck.bats.
 */
#include "lib/engine_fixture.h"

#include <sqlite3.h>

struct found {
    struct emq__suspect list[64];
    size_t n;
    int slices;
};

static struct found walk(struct fx *t, const char *queue)
{
    struct found f = {.n = 0};
    struct emq__suspect_ids met = {0};
    struct emq__suspects_req req = {.prefix = FX_PREFIX, .queue = S(queue), .met = &met};
    struct emq__suspects_res res;

    do {
        CHECK_STATUS(FX_CALL(t, suspects, &req, &res), EMQ_OK);
        for (size_t i = 0; i < res.n && f.n < EMQ_ARRAY_LEN(f.list); i++)
            f.list[f.n++] = res.suspects[i];
        req.after = res.next;
        f.slices++;
    } while (res.next.len > 0);
    emq__suspects_end(&met);
    return f;
}

static struct emq__mend_res mend(struct fx *t, const char *queue, const struct emq__suspect *x,
                                 bool repair)
{
    struct emq__mend_req req = {
        .prefix = FX_PREFIX, .queue = S(queue), .suspect = x, .repair = repair};
    struct emq__mend_res res;

    CHECK_STATUS(FX_CALL(t, mend, &req, &res), EMQ_OK);
    return res;
}

/* What is broken at the second look. */
static size_t broken(struct fx *t, const char *queue, struct found *f)
{
    size_t n = 0;

    *f = walk(t, queue);
    for (size_t i = 0; i < f->n; i++)
        if (mend(t, queue, &f->list[i], false).outcome == EMQ__MEND_BROKEN)
            f->list[n++] = f->list[i];
    f->n = n;
    return n;
}

static void furnish(struct fx *t)
{
    struct emq__dedup keep = {.id = S("k"), .keep_last = true};
    char text[3000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    must_add(t, "q", "1");
    settle_ok(t, must_take(t, "q"));
    must_add(t, "q", "2");
    fail_ok(t, must_take(t, "q"), "boom");
    must_add(t, "q", text);
    retry_ok(t, must_take(t, "q"), 60000);
    (void)add_dedup(t, "q", keep);
    (void)must_take(t, "q");
    (void)add_dedup(t, "q", keep);
    must_add(t, "q", "3");
    must_add(t, "q", text);
    must_add_delayed(t, "q", 60000);
    must_add_priority(t, "q", 5);
    must_add_priority(t, "q", 5);
    must_add_priority(t, "q", 1);
}

static void expect_sound(struct fx *t, const char *queue)
{
    struct found f;

    if (broken(t, queue, &f) > 0)
        fail_msg("%.*s of job %.*s (%.*s)", EMQ_STR_ARG(f.list[0].flaw), EMQ_STR_ARG(f.list[0].id),
                 EMQ_STR_ARG(f.list[0].text));
}

ENGINE_TEST(a_sound_queue_has_no_suspect_that_is_broken)
{
    furnish(t);
    expect_sound(t, "q");
    expect_sound(t, "");
    expect_sound(t, "nothing");
}

ENGINE_TEST(a_queue_is_sound_after_each_step_of_a_job)
{
    must_add(t, "q", "1");
    expect_sound(t, "q");
    struct emq__job *j = must_take(t, "q");
    expect_sound(t, "q");
    retry_ok(t, j, 1000);
    expect_sound(t, "q");
    advance(t, 2000);
    j = must_take(t, "q");
    release_ok(t, j, 0);
    expect_sound(t, "q");
    j = must_take(t, "q");
    advance(t, FX_LOCK_MS + 1);
    (void)sweep(t, "q", 3);
    expect_sound(t, "q");
    settle_ok(t, must_take(t, "q"));
    expect_sound(t, "q");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_RETRY, .admin = S("root")), EMQ_OK);
    expect_sound(t, "q");
    CHECK_STATUS(CHANGE(t, "q", j->id, .kind = EMQ__CHANGE_REMOVE, .admin = S("root")), EMQ_OK);
    expect_sound(t, "q");
}

ENGINE_TEST(a_job_whose_lock_has_ended_waits_for_a_sweep)
{
    struct found f;

    must_add(t, "q", "1");
    (void)must_take(t, "q");
    advance(t, FX_LOCK_MS + 1);
    if (t->kind == FX_NAIVE) /* which has no flaws */
        return;
    CHECK_INT(broken(t, "q", &f), 1);
    CHECK_STR(f.list[0].flaw, "stalled");
    CHECK_INT(mend(t, "q", &f.list[0], false).waits, true);
    CHECK_INT(mend(t, "q", &f.list[0], true).outcome, EMQ__MEND_REPAIRED);
    CHECK_INT(mend(t, "q", &f.list[0], true).outcome, EMQ__MEND_HEALTHY);
    CHECK_STATE(t, "q", f.list[0].id, EMQ_WAITING);
    expect_sound(t, "q");
}

ENGINE_TEST(what_is_sound_is_not_mended)
{
    static const char *const flaws[] = {"state", "staged", "line",  "owner",   "place",   "stalled",
                                        "ghost", "record", "twice", "nowhere", "parent",  "lock",
                                        "child", "due",    "event", "counter", "limiter", "marker"};
    static const char *const keys[] = {
        "job 1", "counter n_waiting", "dedup k", "stage 1", "at wait",  "at active",
        "twice", "nowhere",           "queue",   "key 1",   "event 0-1"};
    struct emq__dump_res before, after;

    furnish(t);
    before = dump(t, "q");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(flaws); i++)
        for (size_t k = 0; k < EMQ_ARRAY_LEN(keys); k++) {
            const struct emq__suspect x = {.flaw = S(flaws[i]), .id = S("1"), .key = S(keys[k])};
            CHECK_INT(mend(t, "q", &x, true).outcome, EMQ__MEND_HEALTHY);
        }
    after = dump(t, "q");
    CHECK_INT(after.n, before.n);
    for (size_t i = 0; i < after.n; i++) {
        CHECK_INT(after.jobs[i]->state, before.jobs[i]->state);
        assert_true(emq__str_eq(after.jobs[i]->id, before.jobs[i]->id));
    }
}

ENGINE_TEST(a_long_queue_is_read_in_slices)
{
    enum { BATCH = 1000, BATCHES = 11 };
    struct emq__add_entry *en = emq__arena_zalloc(&t->mem, BATCH, sizeof *en);
    struct found f;

    fx_unchecked(t);
    for (int i = 0; i < BATCH; i++)
        en[i] = fx_entry("q", "x");
    for (int i = 0; i < BATCHES; i++)
        (void)must_add_many(t, en, BATCH);
    CHECK_INT(broken(t, "q", &f), 0);
    assert_true(t->kind == FX_NAIVE || f.slices > 2);
}

/* ---- planted ------------------------------------------------------------------------------------- */

static void plant(struct fx *t, const char *sql)
{
    sqlite3 *db;
    char *problem = NULL;

    CHECK_INT(sqlite3_open(t->file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s: %s", sql, problem);
    sqlite3_close(db);
}

static void ignore(void *user, const char *line)
{
    (void)user, (void)line;
}

static void print(void *user, const char *line)
{
    (void)user;
    print_error("%s\n", line);
}

ENGINE_TEST(after_the_repairs_all_invariants_hold_and_no_job_is_gone)
{
    static const char *const chaos =
        "UPDATE emq_job SET state = 11 WHERE id = '1';"
        "UPDATE emq_job SET priority = 3 WHERE state = 1;"
        "UPDATE emq_job SET ord1 = 77, ord2 = 1 WHERE state IN (2, 4);"
        "UPDATE emq_job SET finished_at_ms = 0 WHERE state = 7;"
        "UPDATE emq_job SET side = 15, logs = 4 WHERE state = 3;"
        "UPDATE emq_queue SET n_waiting = 9, n_active = 0, n_failed = -1, t_added = 0, fence = 0, "
        "back = 0,"
        " last_id = 0, event_count = 7, n_retry_delayed = 5;"
        "UPDATE emq_dedup SET owner = 'gone', has_next = 0;"
        "INSERT INTO emq_history VALUES (12345, 1, 1, 'note', 'w', 'x');";
    struct found f;
    size_t jobs;

    if (t->kind != FX_SQLITE_FILE)
        return;
    fx_unchecked(t);
    furnish(t);
    jobs = dump(t, "q").n;
    plant(t, chaos);
    struct emq__dump_res d = dump(t, "q");
    assert_true(emq__check_dump(&d, ignore, NULL) > 0);
    for (int round = 0; round < 6; round++) {
        for (size_t n = broken(t, "", &f), i = 0; i < n; i++)
            (void)mend(t, "", &f.list[i], true);
        for (size_t n = broken(t, "q", &f), i = 0; i < n; i++)
            (void)mend(t, "q", &f.list[i], true);
    }
    expect_sound(t, "");
    expect_sound(t, "q");
    d = dump(t, "q");
    CHECK_INT(emq__check_dump(&d, print, NULL), 0);
    CHECK_INT(d.n, jobs + 1); /* the kept duplicate has come into line */
}
