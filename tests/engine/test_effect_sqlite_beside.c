/* SPDX-License-Identifier: MIT
 *
 * The transactional effect on SQLite beside others: who adds and works meanwhile, who makes the same effect, and a
 * process that dies in it.
 */
#include "effect_sqlite.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- others ------------------------------------------------------------------------------------- */

struct neighbour {
    struct fx *t;
    const struct emq__job *j;
    pthread_t thread;
    emq_status added, extended;
};

static void *work_beside(void *arg)
{
    struct neighbour *n = arg;
    struct emq__arena mem = {0};
    struct emq__add_entry en = fx_entry("q", "y");
    const struct emq__add_entry *list[] = {&en};
    const struct emq__add_req add = {.entries = list, .n = 1};
    struct emq__add_res added;
    const struct emq__extend_entry of = {FX_PREFIX, S("q"), n->j->id, n->j->token};
    const struct emq__extend_entry *entries[] = {&of};
    const struct emq__extend_req extend = {.entries = entries, .n = 1, .lock_ms = FX_LOCK_MS};
    struct emq__extend_res extended;

    n->added = n->t->e->ops->add(n->t->e, &add, &added, &mem, NULL);
    n->extended = n->t->e->ops->extend(n->t->e, &extend, &extended, &mem, NULL);
    if (n->extended == EMQ_OK)
        n->extended = extended.extended[0].outcome;
    emq__arena_free(&mem);
    return NULL;
}

static int start_neighbour(sqlite3 *db, void *arg)
{
    struct neighbour *n = arg;

    if (sqlite3_exec(db, INSERT, NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    return pthread_create(&n->thread, NULL, work_beside, n);
}

EFFECT_TEST(whoever_adds_or_renews_while_a_function_runs_is_served_behind_it)
{
    struct emq__job *other = start_with_table(t), *j = add_and_take(t);
    struct neighbour n = {.t = t, .j = other};

    CHECK_STATUS(effect_fn(t, j, start_neighbour, &n, LIMIT_MS, EMQ_OK).outcome, EMQ_OK);
    CHECK_INT(pthread_join(n.thread, NULL), 0);
    CHECK_STATUS(n.added, EMQ_OK);
    CHECK_STATUS(n.extended, EMQ_OK);
    CHECK_STATE(t, "q", j->id, EMQ_COMPLETED_STATE);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(nothing_is_held_while_an_effect_is_only_prepared)
{
    struct emq__job *j = start_with_table(t);
    struct neighbour n = {.t = t, .j = j};

    CHECK_STATUS(
        effect_fn(t, j, run_script, SCRIPT("INSERT INTO nowhere VALUES (1)"), LIMIT_MS, EMQ_OK)
            .outcome,
        EMQ_FAILED);
    (void)work_beside(&n);
    CHECK_STATUS(n.added, EMQ_OK);
    CHECK_STATUS(n.extended, EMQ_OK);
}

struct rival {
    struct fx *t;
    const struct emq__job *j;
    emq_status s;
    struct script script;
};

static void *make_effect(void *arg)
{
    struct rival *r = arg;
    struct emq__settle_entry en = fx_settle(r->j, EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    struct emq__effect_res res = {0};
    struct emq__arena mem = {0};

    r->s = emq__sqlite_effect(r->t->e, &req, run_script, &r->script, LIMIT_MS, &res, &mem, NULL);
    if (r->s == EMQ_OK)
        r->s = res.outcome;
    emq__arena_free(&mem);
    return NULL;
}

EFFECT_TEST(of_many_threads_with_one_hand_out_one_makes_the_effect)
{
    enum { THREADS = 16 };
    static const char *const sql[] = {INSERT, NULL};
    struct emq__job *j = start_with_table(t);
    struct rival r[THREADS];
    pthread_t id[THREADS];
    int ok = 0, lost = 0, runs = 0;

    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct rival){.t = t, .j = j, .script = {.sql = sql}};
        CHECK_INT(pthread_create(&id[i], NULL, make_effect, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        ok += r[i].s == EMQ_OK;
        lost += r[i].s == EMQ_LOST;
        runs += r[i].script.runs;
    }
    CHECK_INT(ok, 1);
    CHECK_INT(lost, THREADS - 1);
    CHECK_INT(runs, 1);
    CHECK_INT(ledger(t), 1);
}

EFFECT_TEST(effects_of_many_threads_are_all_made)
{
    enum { THREADS = 8 };
    static const char *const sql[] = {INSERT, NULL};
    struct rival r[THREADS];
    pthread_t id[THREADS];

    settle_ok(t, start_with_table(t));
    for (int i = 0; i < THREADS; i++) {
        r[i] = (struct rival){.t = t, .j = add_and_take(t), .script = {.sql = sql}};
        CHECK_INT(pthread_create(&id[i], NULL, make_effect, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        CHECK_STATUS(r[i].s, EMQ_OK);
    }
    CHECK_INT(ledger(t), THREADS);
}

/* ---- a crash ------------------------------------------------------------------------------------- */

static int die(sqlite3 *db, void *arg)
{
    (void)arg;
    (void)sqlite3_exec(db, INSERT, NULL, NULL, NULL);
    (void)kill(getpid(), SIGKILL);
    return 0;
}

/* Another process takes the job, makes its effect, and is killed: in the function, or behind the commit. */
static void killed_worker(const char *file, bool in_fn)
{
    struct emq__arena mem = {0};
    struct emq__engine *e;
    struct emq__take_req take = {.prefix = FX_PREFIX, .queue = S("q"), .take = fx_take(1)};
    struct emq__take_res taken;
    struct emq__effect_res res;

    if (fx_open(FX_SQLITE_FILE, file, &e, &mem, NULL) != EMQ_OK ||
        e->ops->take(e, &take, &taken, &mem, NULL) != EMQ_OK || taken.taken.n != 1)
        _exit(1);
    struct emq__settle_entry en = fx_settle(taken.taken.jobs[0], EMQ__SETTLE_COMPLETED);
    const struct emq__effect_req req = {
        .prefix = FX_PREFIX, .queue = S("q"), .entry = &en, .keep_ms = KEEP_MS};
    if (emq__sqlite_effect(e, &req, in_fn ? die : run_script, SCRIPT(INSERT), LIMIT_MS, &res, &mem,
                           NULL) != EMQ_OK)
        _exit(2);
    (void)kill(getpid(), SIGKILL);
}

static void run_killed_worker(struct fx *t, bool in_fn)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        killed_worker(t->file, in_fn);
        _exit(3);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#define CRASH_TEST(test_name)            \
    static void test_name(struct fx *t); \
    FX_ON_SQLITE_FILE(test_name)         \
    static void test_name(struct fx *t)

CRASH_TEST(nothing_of_an_effect_is_there_when_its_process_was_killed_in_it)
{
    settle_ok(t, start_with_table(t));
    emq_str id = must_add(t, "q", "x");
    run_killed_worker(t, true);
    CHECK_STATE(t, "q", id, EMQ_ACTIVE);
    advance(t, FX_LOCK_MS); /* the other process was later */
    struct emq__job *j = taken_again(t);
    CHECK_INT(j->attempts_started, 2);
    CHECK_INT(ledger(t), 0);
    CHECK_STATUS(effect(t, j, SCRIPT(INSERT)), EMQ_OK);
    CHECK_INT(ledger(t), 1);
}

CRASH_TEST(all_of_an_effect_is_there_when_its_process_was_killed_behind_the_commit)
{
    settle_ok(t, start_with_table(t));
    emq_str id = must_add(t, "q", "x");
    run_killed_worker(t, false);
    CHECK_STATE(t, "q", id, EMQ_COMPLETED_STATE);
    CHECK_INT(ledger(t), 1);
}
