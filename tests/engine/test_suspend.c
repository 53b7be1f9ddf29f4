/* SPDX-License-Identifier: MIT
 *
 * The machine sleeps, or starts again, while jobs are held: locks count the time of the sleep, and those
 * of another boot have ended.
 *
 * clock_gettime() of this program goes through the linker's --wrap.
 */
#include "worker_fixture.h"

#include "base/str.h"

#include <sqlite3.h>
#include <time.h>

static _Atomic int64_t slept_s;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (rc == 0 && (id == CLOCK_BOOTTIME || id == CLOCK_REALTIME))
        t->tv_sec += atomic_load(&slept_s);
    return rc;
}

enum { HOUR_S = 3600 };

static int64_t swept(struct bench *b)
{
    int64_t recovered = 0;

    CHECK_STATUS(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL), EMQ_OK);
    return recovered;
}

EMQ_TEST(a_lock_ends_while_the_machine_sleeps)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    wf_orphan(&b->f, "q", HOUR_S * 1000);
    CHECK_INT(swept(b), 0);
    slept_s += HOUR_S;
    CHECK_INT(swept(b), 1);
    bench_close(b);
}

EMQ_TEST(a_handler_that_slept_past_its_lock_is_told_when_it_wakes)
{
    struct bench *b = bench_open("q");

    b->o.o.lock_ms = HOUR_S * 1000;
    b->o.o.stalled_interval_ms = -1;
    wf_add(&b->f, "q", "a", "hold");
    emq_worker *w = wf_start(&b->f, &b->o);
    WAIT_FOR(b->p.running == 1);
    (void)wf_fault(&b->f, "extend", EMQ__FAULT_UNAVAIL, -1); /* no renewal comes first */
    slept_s += HOUR_S;
    WAIT_FOR(b->p.cancel_seen == EMQ_CANCEL_LOCK_LOST);
    wf_stop(w, 1);
    bench_close(b);
}

static void sql(struct bench *b, const char *text)
{
    char path[600];
    sqlite3 *db = NULL;
    char *why = NULL;

    (void)snprintf(path, sizeof path, "%s", b->f.url + strlen("sqlite:"));
    path[strcspn(path, "?")] = '\0';
    CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, PATIENCE_MS), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

EMQ_TEST(locks_of_another_boot_have_ended_however_long_they_were)
{
    struct bench *b = bench_open("q");

    wf_add(&b->f, "q", "a", "");
    wf_add(&b->f, "q", "b", "");
    wf_orphan(&b->f, "q", 24 * HOUR_S * 1000);
    wf_orphan(&b->f, "q", 24 * HOUR_S * 1000);
    CHECK_INT(swept(b), 0);
    CHECK_STATUS(emq_remove(b->f.c, S("q"), S("a"), NULL), EMQ_LOCKED);
    emq_close(b->f.c);
    /* What was this boot becomes an earlier one. */
    sql(b, "UPDATE emq_boot SET boot_id = '00000000-0000-0000-0000-000000000000'");
    CHECK_STATUS(emq_open(&b->f.c, S(b->f.url), NULL, NULL), EMQ_OK);
    CHECK_STATUS(emq_remove(b->f.c, S("q"), S("a"), NULL), EMQ_OK);
    CHECK_INT(swept(b), 1);
    CHECK_INT(wf_state(&b->f, "q", "b"), EMQ_WAITING);
    bench_close(b);
}
