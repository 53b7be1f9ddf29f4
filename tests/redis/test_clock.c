/* SPDX-License-Identifier: MIT
 *
 * Machines whose clocks differ: the server's alone decides what is due and which lock has ended.
 */
#include "crash/herd.h"
#include "field/audit.h"
#include "redis/the_server.h"

#include <signal.h>
#include <sys/wait.h>

enum { EACH = 20, DELAY_MS = 700, LOCK_MS = 900, WORK_MS = 1500 };

/* Of the server. */
static int64_t time_ms(void)
{
    return server_number(SERVER_DO(
        "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)"));
}

EMQ_TEST(clients_whose_clocks_are_ten_minutes_off_start_no_job_early_or_late_and_lose_no_lock)
{
    static const char *const clocks[] = {"-600000", "0", "600000"};
    enum { CLIENTS = EMQ_ARRAY_LEN(clocks), JOBS = CLIENTS * EACH };
    pid_t pid[CLIENTS];
    struct herd h;
    char args[200];

    herd_open(&h, "off");
    int64_t begin = time_ms();
    for (int i = 0; i < CLIENTS; i++) { /* each works with what the others add */
        (void)snprintf(args, sizeof args,
                       "clock=%s add=%d delay=%d concurrency=%d lock=%d work=%d interval=200",
                       clocks[i], EACH, DELAY_MS, 2 * EACH, LOCK_MS, WORK_MS);
        pid[i] = herd_start(&h, NULL, args);
    }
    HERD_WAIT_FOR(herd_state(&h, EMQ_COMPLETED_STATE) == JOBS);
    int64_t end = time_ms();
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_INT(kill(pid[i], SIGTERM), 0);
        int status = herd_wait(pid[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(strstr(herd_output(&h, i + 1), "failed 0 lost 0 recovered 0") != NULL);
    }
    CHECK_INT(herd_count(&h, 'B', NULL, 0), JOBS);
    CHECK_INT(field_stats(h.c, "q").total_recovered, 0);
    for (int i = 0; i < JOBS; i++) {
        char id[40];
        (void)snprintf(id, sizeof id, "%ld-%d", (long)pid[i % CLIENTS], i / CLIENTS);
        emq_job *j = herd_job(&h, id);
        CHECK(j != NULL);
        int64_t added = emq_job_timestamp_at_ms(j), started = emq_job_processed_at_ms(j);
        if (added < begin || started < added + DELAY_MS || emq_job_finished_at_ms(j) > end)
            fail_msg("%s: added %lld ms after the begin, started %lld ms after that", id,
                     (long long)(added - begin), (long long)(started - added));
        emq_job_free(j);
    }
    herd_close(&h);
}
