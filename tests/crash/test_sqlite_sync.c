/* SPDX-License-Identifier: MIT
 *
 * Which commits are synced: all of them unless the URL says otherwise, and renewals never. Through the
 * VFS that forgets what was not synced and can fail a sync: a sync that is never made can't fail.
 */
#include "ground.h"
#include "vfs_shim.h"

#include <unistd.h>

enum { ROWS = 30 };

/* Rows that are there after the power went. */
static int after_cut(const char *path)
{
    uint64_t seed = test_seed();
    const char *to = ground_path("after.db");
    int there = 0;

    (void)unlink(ground_path("after.db-shm"));
    shim_power_cut(path, to, SHIM_LOSE_ALL, &seed);
    struct sq *s = ground_open(to, "off", 0);
    for (int n = 0; n < ROWS; n++)
        there += ground_has(s, n);
    ground_close(s);
    (void)unlink(to);
    (void)unlink(ground_path("after.db-wal"));
    return there;
}

static struct sq *with_rows(const char *sync)
{
    shim_install();
    struct sq *s = ground_open(ground_path("q.db"), sync, 0);

    for (int n = 0; n < ROWS; n++)
        CHECK_STATUS(ground_put(s, n, NULL), EMQ_OK);
    return s;
}

EMQ_TEST(without_a_word_in_the_url_every_acknowledged_row_survives_a_power_cut)
{
    struct sq *s = with_rows(NULL);

    CHECK_INT(after_cut(ground_path("q.db")), ROWS);
    ground_close(s);
}

/* The next sync of the log fails; was there one during these acts? */
static bool synced(struct sq *s, emq_status (*act)(struct sq *s, int n))
{
    shim_fail(SHIM_SYNC, "-wal", 1, SQLITE_IOERR_FSYNC, 1);
    for (int n = 0; n < 10; n++)
        (void)act(s, 1000 + n);
    bool yes = shim_failed();
    shim_fail(SHIM_SYNC, "-wal", 0, 0, 0);
    return yes;
}

static emq_status put_one(struct sq *s, int n)
{
    return ground_put(s, n, NULL);
}

static emq_status touch(struct sq_tx *tx, void *arg, emq_error *err)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%d, 'r')", *(int *)arg);
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "touch", err);
}

static emq_status renew_one(struct sq *s, int n)
{
    n += 1000;
    return sq_write_renewal(s, touch, &n, NULL);
}

EMQ_TEST(renewals_are_never_synced_whatever_the_url_says)
{
    static const char *const modes[] = {NULL, "full", "normal", "off"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(modes); i++) {
        struct sq *s = with_rows(modes[i]);
        CHECK(!synced(s, renew_one));
        ground_close(s);
        (void)unlink(ground_path("q.db"));
        (void)unlink(ground_path("q.db-wal"));
        (void)unlink(ground_path("q.db-shm"));
    }
}

EMQ_TEST(commits_are_synced_with_full_and_not_with_normal_and_off)
{
    static const struct {
        const char *mode;
        bool synced;
    } modes[] = {{NULL, true}, {"full", true}, {"normal", false}, {"off", false}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(modes); i++) {
        struct sq *s = with_rows(modes[i].mode);
        CHECK_INT(synced(s, put_one), modes[i].synced);
        ground_close(s);
        (void)unlink(ground_path("q.db"));
        (void)unlink(ground_path("q.db-wal"));
        (void)unlink(ground_path("q.db-shm"));
    }
}
