/* SPDX-License-Identifier: MIT
 *
 * Other processes on the same file: busy, stopped, killed, fair, or careless with it.
 */
#include "ground.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* One that has the write lock, or the turn, by now. */
static struct helper holding(struct helper h)
{
    helper_expect(&h, "held");
    return h;
}

EMQ_TEST(writer_that_takes_no_turns_is_waited_for)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 10000);
    struct helper h = holding(HELPER("foreign-hold", path, "1000"));
    emq_error err = {0};

    CHECK_STATUS_ERR(ground_put(s, 1, &err), EMQ_OK, &err);
    CHECK_INT(helper_end(&h), 0);
    CHECK_INT(ground_count(s), 1);
    ground_close(s);
}

EMQ_TEST(writer_that_stays_longer_than_the_limit_is_busy_and_nothing_happened)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 300);
    struct helper h = holding(HELPER("foreign-hold", path, "60000"));
    emq_error err = {0};

    int64_t start = sq_monotonic_us();
    CHECK_STATUS(ground_put(s, 1, &err), EMQ_E_BUSY);
    CHECK_INT(err.cls, EMQ_CLASS_RETRY_SAFE);
    CHECK(sq_monotonic_us() - start < 5 * 300 * 1000);
    CHECK_STATUS(sq_write_renewal(s, NULL, NULL, &err), EMQ_E_BUSY);
    CHECK_INT(ground_count(s), 0); /* readers don't wait for writers */
    helper_killed(&h);
    CHECK_STATUS(ground_put(s, 1, &err), EMQ_OK);
    CHECK_INT(ground_count(s), 1);
    ground_close(s);
}

EMQ_TEST(opening_and_reading_wait_for_no_writer)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0), *reader;
    emq_error err = {0};

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    struct helper foreign = holding(HELPER("foreign-hold", path, "60000"));
    CHECK_STATUS_ERR(ground_open_only(path, NULL, 300, NULL, &reader, &err), EMQ_OK, &err);
    CHECK_INT(ground_count(reader), 1);
    ground_close(reader);
    helper_killed(&foreign);

    struct helper ours = holding(HELPER("hold", path)); /* this one has the turn, too */
    CHECK_STATUS_ERR(ground_open_only(path, NULL, 300, NULL, &reader, &err), EMQ_OK, &err);
    CHECK_INT(ground_count(reader), 1);
    ground_close(reader);
    helper_killed(&ours);
    ground_close(s);
}

EMQ_TEST(killed_holder_of_the_turn_stops_nobody)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 20000);
    struct helper h = holding(HELPER("hold", path));
    struct helper more[3];
    char line[64];

    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++)
        more[i] = HELPER("acks", path, "normal", i == 0 ? "1000" : i == 1 ? "2000000" : "4000000");
    helper_killed(&h);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++)
        for (int n = 0; n < 5; n++)
            helper_line(&more[i], line, sizeof line);
    /* Any of them may hold the turn when it dies. */
    for (size_t i = 0; i < EMQ_ARRAY_LEN(more); i++) {
        helper_killed(&more[i]);
        CHECK_STATUS(ground_put(s, 2 + (int64_t)i, NULL), EMQ_OK);
    }
    ground_close(s);
}

EMQ_TEST(stopped_holder_of_the_turn_makes_others_busy_not_stuck)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 500);
    struct helper h = holding(HELPER("hold", path));

    helper_kill(&h, SIGSTOP);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_E_BUSY);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_E_BUSY);
    helper_killed(&h);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    ground_close(s);
}

EMQ_TEST(turn_kept_by_an_orphan_child_is_gone_without)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "normal", 1000);
    struct helper h = holding(HELPER("hold-orphan", path));
    char line[64];

    helper_line(&h, line, sizeof line);
    helper_killed(&h);
    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    /* The turn is not trusted now: what follows does not wait for it again. */
    int64_t start = sq_monotonic_us();
    for (int i = 2; i < 12; i++)
        CHECK_STATUS(ground_put(s, i, NULL), EMQ_OK);
    CHECK(sq_monotonic_us() - start < 10 * 800 * 1000);
    CHECK_INT(kill((pid_t)strtoll(line, NULL, 10), SIGKILL), 0);
    ground_close(s);
}

EMQ_TEST(acknowledged_rows_survive_kill_at_any_moment)
{
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, NULL, 0);
    int64_t first = 1;

    for (int round = 0; round < 5; round++) {
        char from[32], line[64];
        int64_t last = 0;
        (void)snprintf(from, sizeof from, "%lld", (long long)first);
        struct helper h = HELPER("acks", path, "full", from);
        for (int n = 0; n < 20 + round; n++)
            helper_line(&h, line, sizeof line);
        last = strtoll(line, NULL, 10);
        helper_killed(&h);
        for (; first <= last; first++)
            CHECK(ground_has(s, first));
        first += 1000000; /* it may have written some more */
    }
    ground_close(s);
}

EMQ_TEST(four_processes_get_fair_shares)
{
    enum { N = 4 };
    static const char *const firsts[N] = {"1", "100000000", "200000000", "300000000"};
    const char *path = ground_path("q.db");
    struct sq *s = ground_open(path, "normal", 0);
    struct helper h[N];
    int64_t count[N], sum = 0;

    for (int i = 0; i < N; i++)
        h[i] = HELPER("loop", path, "normal", firsts[i], "1500");
    for (int i = 0; i < N; i++)
        helper_expect(&h[i], "waiting");
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("go")};
    struct emq__wake_res res;
    CHECK_STATUS(s->base.ops->wake(&s->base, &req, &res, NULL, NULL), EMQ_OK);
    for (int i = 0; i < N; i++) {
        char line[64];
        helper_line(&h[i], line, sizeof line);
        count[i] = strtoll(line, NULL, 10);
        sum += count[i];
        CHECK_INT(helper_end(&h[i]), 0);
    }
    for (int i = 0; i < N; i++)
        if (count[i] < sum / N / 2)
            fail_msg("shares %lld %lld %lld %lld", (long long)count[0], (long long)count[1],
                     (long long)count[2], (long long)count[3]);
    CHECK_INT(ground_count(s), sum);
    ground_close(s);
}

EMQ_TEST(file_replaced_by_another_program_is_opened_anew)
{
    const char *path = ground_path("q.db"), *other = ground_path("other.db");
    struct sq *s = ground_open(other, NULL, 0);

    CHECK_STATUS(ground_put(s, 1, NULL), EMQ_OK);
    CHECK_STATUS(ground_put(s, 2, NULL), EMQ_OK);
    ground_close(s);
    s = ground_open(path, NULL, 0);
    CHECK_STATUS(ground_put(s, 7, NULL), EMQ_OK);
    CHECK_INT(unlink(ground_path("q.db-wal")), 0);
    CHECK_INT(unlink(ground_path("q.db-shm")), 0);
    CHECK_INT(rename(other, path), 0);
    for (int i = 0; i < 2000 && ground_count(s) != 2; i++)
        (void)usleep(1000);
    CHECK_INT(ground_count(s), 2);
    CHECK_STATUS(ground_put(s, 3, NULL), EMQ_OK);
    CHECK_INT(ground_count(s), 3);
    ground_close(s);
}
