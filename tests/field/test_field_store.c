/* SPDX-License-Identifier: MIT
 *
 * The file: bytes that must come back, disks that fill up, files that grow, totals that must last.
 */
#include "field.h"
#include "shell.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- all bytes --------------------------------------------------------------------------- */

/* 4 KiB of all byte values, with NULs at the start, in the middle and at the end. */
static emq_str all_bytes(void)
{
    static char bytes[4096 + 1];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(unsigned char)(i % 256);
    bytes[sizeof bytes / 2] = '\0';
    bytes[sizeof bytes - 1] = '\0';
    return emq_strn(bytes, sizeof bytes);
}

static emq_verdict echo_bytes(emq_job *job, void *user)
{
    atomic_int *wrong = user;
    emq_str data = emq_job_data(job);

    if (!emq__str_eq(data, all_bytes()) || emq_job_set_result(job, data, NULL) != EMQ_OK)
        atomic_fetch_add(wrong, 1);
    return EMQ_DONE;
}

EMQ_TEST(all_bytes_pass_from_the_add_through_the_handler_to_the_result)
{
    struct bench *b = bench_open("q");
    atomic_int wrong = 0;
    emq_settle_opts o = {.size = sizeof o, .kind = EMQ_SETTLE_COMPLETED, .value = all_bytes()};
    emq_job *j = NULL;

    FIELD_OK(emq_add(b->f.c, S("q"), all_bytes(), NULL, NULL, err));
    j = wf_get(&b->f, "q", "1");
    CHECK_STR_EQ(emq_job_data(j), all_bytes());
    emq_job_free(j);
    b->o.o.handler = echo_bytes;
    b->o.o.user = &wrong;
    b->o.o.on_event = NULL;
    CHECK_INT(work_off(b).completed, 1);
    CHECK_INT(wrong, 0);
    FIELD_OK(emq_wait(b->f.c, S("q"), S("1"), 0, &j, err));
    CHECK_STR_EQ(emq_job_result(j), all_bytes());
    CHECK_STR_EQ(emq_job_data(j), all_bytes());
    emq_job_free(j);

    FIELD_OK(emq_add(b->f.c, S("q"), all_bytes(), NULL, NULL, err)); /* and by hand */
    FIELD_OK(emq_take(b->f.c, S("q"), NULL, &j, err));
    CHECK_STR_EQ(emq_job_data(j), all_bytes());
    FIELD_OK(emq_set_data(b->f.c, S("q"), S("2"), emq_job_token(j), all_bytes(), err));
    FIELD_OK(emq_settle(b->f.c, S("q"), S("2"), emq_job_token(j), &o, err));
    emq_job_free(j);
    j = wf_get(&b->f, "q", "2");
    CHECK_STR_EQ(emq_job_result(j), all_bytes());
    emq_job_free(j);
    field_audit(b->f.c, "q");
    bench_close(b);
}

/* ---- a full disk ------------------------------------------------------------------------- */

struct disk {
    char folder[500], ballast[600], url[600];
    emq_client *c;
};

/* A small file system, seen by this process alone and gone with it; false: no mount is allowed here. */
static bool disk_open(struct disk *d)
{
    static char zeros[256 * 1024];

    memset(d, 0, sizeof *d);
    (void)snprintf(d->folder, sizeof d->folder, "%s/disk", test_temp_dir());
    (void)snprintf(d->ballast, sizeof d->ballast, "%s/ballast", d->folder);
    (void)snprintf(d->url, sizeof d->url, "sqlite:%s/q.db?sync=full", d->folder);
    CHECK_INT(mkdir(d->folder, 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("emq-test", d->folder, "tmpfs", 0, "size=2m") != 0)
        return false;
    int fd = open(d->ballast, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < 2; i++)
        CHECK_INT(write(fd, zeros, sizeof zeros), sizeof zeros);
    close(fd);
    FIELD_OK(emq_open(&d->c, S(d->url), NULL, err));
    return true;
}

static void disk_close(struct disk *d)
{
    emq_close(d->c);
    CHECK_INT(umount(d->folder), 0);
}

/* Adds until the store says that it is full; the number of jobs that were acknowledged. */
static int64_t fill(struct disk *d)
{
    static char data[8000];
    emq_error err = {0};
    int64_t n = 0;

    memset(data, 'x', sizeof data);
    for (;;) {
        emq_status s = emq_add(d->c, S("q"), emq_strn(data, sizeof data), NULL, NULL, &err);
        if (s != EMQ_OK) {
            CHECK_STATUS_ERR(s, EMQ_E_FULL, &err);
            CHECK(strstr(err.text, "space") != NULL);
            return n;
        }
        n++;
        CHECK(n < 2000);
    }
}

SQLITE_TEST(a_full_disk_refuses_adds_whole_and_work_goes_on_once_space_is_free)
{
    enum { HELD = 3 };
    struct disk d;
    emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED};
    emq_job *held[HELD];

    test_require(disk_open(&d), "mount", "run as root, with CAP_SYS_ADMIN");
    for (int i = 0; i < HELD; i++) {
        FIELD_OK(emq_add(d.c, S("q"), S("first"), NULL, NULL, err));
        FIELD_OK(emq_take(d.c, S("q"), NULL, &held[i], err));
    }
    int64_t added = fill(&d);
    CHECK(added > 10);
    for (int i = 0; i < 20; i++) { /* many refusals, and none of them does anything */
        emq_status s = emq_add(d.c, S("q"), all_bytes(), NULL, NULL, NULL);
        added += s == EMQ_OK;
        CHECK(s == EMQ_OK || s == EMQ_E_FULL);
    }
    emq_queue_stats st = field_stats(d.c, "q");
    CHECK_INT(st.total_added, added + HELD);
    CHECK_INT(st.count[EMQ_WAITING], added);
    CHECK_INT(st.count[EMQ_ACTIVE], HELD);
    /* Settling while it is full either works or says so and leaves the job held. */
    emq_status s =
        emq_settle(d.c, S("q"), emq_job_id(held[0]), emq_job_token(held[0]), &done, NULL);
    CHECK(s == EMQ_OK || s == EMQ_E_FULL);
    bool first_done = s == EMQ_OK;
    CHECK_INT(field_stats(d.c, "q").count[EMQ_ACTIVE], HELD - first_done);
    field_audit(d.c, "q");

    CHECK_INT(unlink(d.ballast), 0);
    for (int i = first_done; i < HELD; i++)
        FIELD_OK(emq_settle(d.c, S("q"), emq_job_id(held[i]), emq_job_token(held[i]), &done, err));
    for (int i = 0; i < HELD; i++)
        emq_job_free(held[i]);
    int64_t removed = 0;
    FIELD_OK(emq_drain(d.c, S("q"), 0, &removed, err));
    CHECK_INT(removed, added);
    FIELD_OK(emq_add(d.c, S("q"), S("again"), NULL, NULL, err));
    field_audit(d.c, "q");

    /* What the removed jobs took is used again: as many fit as before. */
    int64_t more = fill(&d);
    if (more < added / 2)
        fail_msg("%lld jobs fitted before, %lld now", (long long)added, (long long)more);
    emq_close(d.c);
    d.c = NULL;
    emq_error err = {0};
    s = emq_open(&d.c, S(d.url), NULL, &err); /* its side files need room too */
    CHECK(s == EMQ_OK || s == EMQ_E_FULL);
    if (s == EMQ_OK) {
        CHECK_INT(field_stats(d.c, "q").count[EMQ_WAITING], more + 1);
        CHECK_INT(field_stats(d.c, "q").count[EMQ_COMPLETED_STATE], HELD);
    }
    disk_close(&d);
}

/* ---- growth ------------------------------------------------------------------------------ */

/* Bytes of the database, with what is still in the log. */
static int64_t database_bytes(const char *url)
{
    return field_sql_i64(url,
                         "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
}

/* Bytes of the log on the disk. */
static int64_t log_bytes(const char *url)
{
    char path[700];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s-wal", field_path(url));
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* One cycle: jobs of about a kilobyte are added, worked off and mostly forgotten. */
static void cycle(struct bench *b, int jobs, bool keep)
{
    static char data[1200] = "result ok ";
    static const emq_add_opts kept = {.size = sizeof kept, .keep_completed_count = 100},
                              gone = {.size = sizeof gone, .keep_completed_count = EMQ_KEEP_NONE};
    emq_new_job job = {sizeof job, S("q"), {0}, keep ? &kept : &gone};
    const emq_new_job *pointers[500];

    memset(data + 10, ' ', sizeof data - 10);
    job.data = emq_strn(data, sizeof data);
    CHECK(jobs <= 500);
    for (int i = 0; i < jobs; i++)
        pointers[i] = &job;
    FIELD_OK(emq_add_many(b->f.c, pointers, (size_t)jobs, NULL, err));
    (void)work_off(b);
}

static void must_reach_a_plateau(struct bench *b, bool keep)
{
    enum { CYCLES = 14, WARM = 4, JOBS = 300, LOG_MAX = 40 << 20 };
    int64_t early = 0, late = 0;

    b->o.o.on_event = NULL;
    b->o.o.concurrency = 4;
    for (int i = 0; i < CYCLES; i++) {
        cycle(b, JOBS, keep);
        int64_t bytes = database_bytes(b->f.url);
        if (i >= WARM && i < (CYCLES + WARM) / 2)
            early = bytes > early ? bytes : early;
        else if (i >= WARM)
            late = bytes > late ? bytes : late;
    }
    CHECK(log_bytes(b->f.url) < LOG_MAX);
    if (late > early + early / 10)
        fail_msg("the database grew from %lld to %lld bytes in %d cycles", (long long)early,
                 (long long)late, CYCLES);
    CHECK_INT(wf_count(&b->f, "q", EMQ_COMPLETED_STATE), keep ? 100 : 0);
    CHECK_INT(field_stats(b->f.c, "q").total_completed, CYCLES * JOBS + 1);
    field_audit(b->f.c, "q");
}

/* Fewer events are kept than one cycle makes, so that their number is at its limit as well. */
static void few_events(struct bench *b)
{
    wf_add(&b->f, "q", "first", "done");
    field_sql(b->f.url,
              "INSERT INTO emq_meta SELECT qid, 'opts.maxLenEvents', '500' FROM emq_queue");
    (void)work_off(b);
    FIELD_OK(emq_remove(b->f.c, S("q"), S("first"), err));
}

SQLITE_TEST(the_file_stops_growing_when_retention_keeps_a_hundred_jobs)
{
    struct bench *b = bench_open("q");

    few_events(b);
    must_reach_a_plateau(b, true);
    bench_close(b);
}

SQLITE_TEST(one_old_parked_job_does_not_pin_the_space_of_thousands_behind_it)
{
    struct bench *b = bench_open("q");

    few_events(b);
    wf_add_opts(&b->f, "q", "parked", "fail", (emq_add_opts){.keep_failed_count = EMQ_KEEP_ALL});
    wf_add_opts(&b->f, "q", "later", "done", (emq_add_opts){.delay_ms = INT64_C(86400000) * 30});
    (void)work_off(b);
    must_reach_a_plateau(b, false);
    CHECK_INT(wf_state(&b->f, "q", "parked"), EMQ_FAILED_STATE);
    CHECK_INT(wf_state(&b->f, "q", "later"), EMQ_DELAYED);
    bench_close(b);
}

/* ---- totals ------------------------------------------------------------------------------ */

EMQ_TEST(totals_survive_trimming_and_restarts_and_the_sum_is_right)
{
    enum { JOBS = 200, RETRIED = 20, FAILED = 10, KEPT = 5, DEAD = 2 };
    struct bench *b = bench_open("q");
    emq_add_opts o = {.keep_completed_count = KEPT,
                      .keep_failed_count = KEPT,
                      .attempts = 2,
                      .backoff_type = EMQ_BACKOFF_NONE};
    char url[sizeof b->f.url], id[16];
    emq_client *c = NULL;
    int64_t recovered = 0;

    memcpy(url, b->f.url, sizeof url);
    for (int i = 0; i < DEAD; i++) { /* before the others, so that they are taken first */
        (void)snprintf(id, sizeof id, "dead%d", i);
        wf_add_opts(&b->f, "q", id, "done", o);
        wf_orphan(&b->f, "q", 200);
    }
    WAIT_FOR(emq_sweep(b->f.c, S("q"), NULL, &recovered, NULL, NULL) == EMQ_OK &&
             field_stats(b->f.c, "q").total_recovered == DEAD);
    for (int i = 0; i < JOBS - DEAD; i++) {
        emq_add_opts dedup = o;
        (void)snprintf(id, sizeof id, "j%d", i);
        dedup.size = sizeof dedup;
        dedup.dedup_id = S("k");
        if (i == 0)
            o.dedup_id = S("k");
        wf_add_opts(&b->f, "q", id,
                    i < RETRIED            ? "retry"
                    : i < RETRIED + FAILED ? "fail"
                                           : "done",
                    o);
        o.dedup_id = NONE;
        if (i < 3)
            CHECK_STATUS(emq_add(b->f.c, S("q"), NONE, &dedup, NULL, NULL), EMQ_DEDUPLICATED);
    }
    (void)work_off(b); /* those that ask for a retry fail at their second attempt */
    bench_close(b);

    FIELD_OK(emq_open(&c, S(url), NULL, err));
    emq_queue_stats st = field_stats(c, "q");
    CHECK_INT(st.total_added, JOBS);
    CHECK_INT(st.total_started, JOBS + RETRIED + DEAD);
    CHECK_INT(st.total_completed, JOBS - RETRIED - FAILED);
    CHECK_INT(st.total_failed, RETRIED + FAILED);
    CHECK_INT(st.total_retried, RETRIED);
    CHECK_INT(st.total_recovered, DEAD);
    CHECK_INT(st.total_deduplicated, 3);
    CHECK_INT(st.total_removed, JOBS - 2 * KEPT);
    CHECK_INT(st.count[EMQ_COMPLETED_STATE], KEPT);
    CHECK_INT(st.count[EMQ_FAILED_STATE], KEPT);
    field_audit(c, "q");
    emq_close(c);
}
