/* SPDX-License-Identifier: MIT
 *
 * Durability and failing disks, through a VFS that forgets what was not synced. SIGKILL can't show
 * this: the kernel keeps what a killed process wrote.
 */
#include "ground.h"
#include "vfs_shim.h"

#include <pthread.h>
#include <unistd.h>

enum { ROWS = 60, BIG_ROWS = 400 };

static void check_all_there(struct sq *s, const bool *acked, const bool *refused, int rows)
{
    for (int n = 0; n < rows; n++) {
        bool there = ground_has(s, n);
        if (acked[n] && !there)
            fail_msg("row %d was acknowledged and is lost", n);
        if (refused && refused[n] && there)
            fail_msg("row %d is there though nothing had happened", n);
    }
}

static void check_integrity(struct sq *s);

/* Opens what the disk would hold after a power cut now. */
static void check_after_cut(const char *path, const bool *acked, const bool *refused, int rows)
{
    uint64_t seed = test_seed();

    for (int i = 0; i < 3; i++) {
        const char *to = ground_path("after.db");
        (void)unlink(ground_path("after.db-shm"));
        shim_power_cut(path, to, i == 0 ? SHIM_LOSE_ALL : SHIM_KEEP_SOME, &seed);
        struct sq *s = ground_open(to, "off", 0);
        check_all_there(s, acked, refused, rows);
        check_integrity(s);
        ground_close(s);
        (void)unlink(to);
        (void)unlink(ground_path("after.db-wal"));
    }
}

static emq_status integrity(struct sq_tx *tx, void *arg, emq_error *err)
{
    sqlite3_stmt *st = NULL;
    bool *good = arg;
    int rc = sqlite3_prepare_v2(tx->conn->db, "PRAGMA integrity_check", -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    *good = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(st, 0), "ok") == 0;
    (void)sqlite3_finalize(st);
    return rc == SQLITE_ROW ? EMQ_OK : sq_error(tx->conn, rc, "integrity", err);
}

static void check_integrity(struct sq *s)
{
    bool good = false;

    CHECK_STATUS(sq_read(s, integrity, &good, NULL), EMQ_OK);
    CHECK(good);
}

EMQ_TEST(power_cut_loses_no_acknowledged_row_with_full_sync)
{
    shim_install();
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "full", 0);
    bool acked[ROWS] = {false};

    for (int n = 0; n < ROWS; n++) {
        acked[n] = ground_put(s, n, NULL) == EMQ_OK;
        CHECK(acked[n]);
        if (n % 20 == 7)
            check_after_cut(path, acked, NULL, n + 1);
    }
    ground_close(s);
    check_after_cut(path, acked, NULL, ROWS);
}

static emq_status put_page(struct sq_tx *tx, void *arg, emq_error *err)
{
    char sql[120];

    (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%d, printf('%%.9000c', 'z'))",
                   *(int *)arg);
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "put_page", err);
}

EMQ_TEST(power_cut_around_checkpoints_loses_nothing)
{
    shim_install();
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "full", 0);
    static bool acked[BIG_ROWS];

    memset(acked, 0, sizeof acked);
    for (int n = 0; n < BIG_ROWS;
         n++) { /* a few pages each: the checkpoint thread runs meanwhile */
        acked[n] = sq_write(s, put_page, &n, NULL) == EMQ_OK;
        CHECK(acked[n]);
        if (n % 80 == 79)
            check_after_cut(path, acked, NULL, n + 1);
    }
    ground_close(s);
    check_after_cut(path, acked, NULL, BIG_ROWS);
}

EMQ_TEST(renewals_are_not_synced_and_what_is_acknowledged_after_them_is)
{
    shim_install();
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "full", 0);
    bool acked[ROWS] = {false};
    emq_error err = {0};

    for (int n = 0; n < ROWS; n++) {
        if (n % 2) {
            CHECK_STATUS_ERR(sq_write_renewal(s, put_page, &n, &err), EMQ_OK, &err);
            continue;
        }
        acked[n] = ground_put(s, n, NULL) == EMQ_OK;
        if (n > 0)
            acked[n - 1] = true; /* in the log before it */
    }
    check_after_cut(path, acked, NULL, ROWS);
    ground_close(s);
}

EMQ_TEST(without_sync_a_power_cut_loses_the_last_rows_at_most_and_never_breaks_the_file)
{
    shim_install();
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "normal", 0);

    for (int n = 0; n < ROWS; n++)
        CHECK_STATUS(ground_put(s, n, NULL), EMQ_OK);
    uint64_t seed = test_seed();
    for (int i = 0; i < 4; i++) {
        shim_power_cut(path, ground_path("after.db"), SHIM_KEEP_SOME, &seed);
        (void)unlink(ground_path("after.db-shm"));
        struct sq *after = ground_open(ground_path("after.db"), "off", 0);
        int64_t left = ground_count(after);
        for (int n = 0; n < left; n++)
            CHECK(ground_has(after, n)); /* the first ones, without a gap */
        check_integrity(after);
        ground_close(after);
        (void)unlink(ground_path("after.db"));
        (void)unlink(ground_path("after.db-wal"));
    }
    ground_close(s);
}

/* One failing call, at every place where it can come; then the power goes. */
static void fail_everywhere(enum shim_op op, const char *tail, int rc, int times)
{
    enum { FEW = 12, PLACES = 34 };

    for (int nth = 1; nth < PLACES; nth += nth < 9 ? 1 : 5) {
        shim_install();
        const char *path = ground_path("f.db");
        (void)unlink(path);
        (void)unlink(ground_path("f.db-wal"));
        (void)unlink(ground_path("f.db-shm"));
        struct sq *s = ground_open(path, "full", 200);
        bool acked[FEW + 4] = {false}, refused[FEW + 4] = {false};
        shim_fail(op, tail, nth, rc, times);
        for (int n = 0; n < FEW; n++) {
            emq_error err = {0};
            int renewed = 1000 + n; /* an unsynced commit before each */
            (void)sq_write_renewal(s, put_page, &renewed, NULL);
            emq_status st = ground_put(s, n, &err);
            acked[n] = st == EMQ_OK;
            refused[n] = st != EMQ_OK && st != EMQ_E_IN_DOUBT;
            if (rc == SQLITE_FULL)
                CHECK(st == EMQ_OK || st == EMQ_E_FULL);
            if (refused[n])
                CHECK(err.cls == EMQ_CLASS_RETRY_SAFE || st == EMQ_E_STORE);
        }
        shim_fail(op, tail, 0, 0, 0);
        check_all_there(s, acked, refused, FEW);
        check_after_cut(path, acked, refused, FEW);
        for (int n = FEW; n < FEW + 4; n++) { /* it works again, and durably */
            acked[n] = ground_put(s, n, NULL) == EMQ_OK;
            CHECK(acked[n]);
        }
        check_after_cut(path, acked, refused, FEW + 4);
        ground_close(s);
        s = ground_open(path, "full", 0);
        check_all_there(s, acked, refused, FEW + 4);
        check_integrity(s);
        ground_close(s);
    }
}

EMQ_TEST(full_disk_at_any_write_of_the_log_means_nothing_happened)
{
    fail_everywhere(SHIM_WRITE, "-wal", SQLITE_FULL, 1);
}

EMQ_TEST(disk_that_stays_full_for_a_while_refuses_and_recovers)
{
    fail_everywhere(SHIM_WRITE, "-wal", SQLITE_FULL, 5);
}

EMQ_TEST(failing_write_of_the_log_is_never_reported_as_success)
{
    fail_everywhere(SHIM_WRITE, "-wal", SQLITE_IOERR_WRITE, 1);
}

EMQ_TEST(failing_sync_of_the_log_leaves_doubt_and_no_hole_behind_it)
{
    fail_everywhere(SHIM_SYNC, "-wal", SQLITE_IOERR_FSYNC, 1);
}

EMQ_TEST(failing_sync_of_the_database_file_loses_nothing)
{
    fail_everywhere(SHIM_SYNC, "f.db", SQLITE_IOERR_FSYNC, 2);
}

EMQ_TEST(failed_sync_during_commit_is_in_doubt)
{
    shim_install();
    struct sq *s = ground_open(ground_path("q.db"), "full", 0);
    emq_error err = {0};

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    shim_fail(SHIM_SYNC, "-wal", 1, SQLITE_IOERR_FSYNC, 1);
    CHECK_STATUS(ground_put(s, 2, &err), EMQ_E_IN_DOUBT);
    CHECK(shim_failed());
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_DUPLICATE);
    CHECK_STATUS_ERR(ground_put(s, 3, &err), EMQ_OK, &err);
    ground_close(s);
}
