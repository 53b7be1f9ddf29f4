/* SPDX-License-Identifier: MIT
 *
 * Touches every function that the shared library exports, through the public headers only: a name
 * that is declared and missing does not link. The table is compared with src/libechomq.sym (argv:
 * EMQ_SYM), and the built library by tests/engine/exports.sh.
 */
#include <echomq/echomq.h>
#include <echomq/effect.h>
#include <echomq/worker.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*any_fn)(void);

static const struct {
    const char *name;
    any_fn fn;
} exported[] = {
#define X(name) {#name, (any_fn)name},
    /* clang-format off */
    X(emq_add) X(emq_add_log) X(emq_add_many) X(emq_add_many_watched) X(emq_add_on) X(emq_cancel)
    X(emq_cancel_all) X(emq_claims) X(emq_clean) X(emq_clear_logs) X(emq_close)
    X(emq_dedup_release) X(emq_dedup_show) X(emq_drain) X(emq_effect_claim)
    X(emq_effect_claimed_at_ms) X(emq_effect_done) X(emq_effect_done_at_ms)
    X(emq_effect_expires_at_ms) X(emq_effect_free) X(emq_effect_get_state) X(emq_effect_id)
    X(emq_effect_json) X(emq_effect_key_of) X(emq_effect_list) X(emq_effect_redis)
    X(emq_effect_release) X(emq_effect_resolve) X(emq_effect_result) X(emq_effect_run)
    X(emq_effect_sqlite) X(emq_effect_state_name) X(emq_effect_step) X(emq_effect_timestamp_at_ms)
    X(emq_effect_token) X(emq_events) X(emq_extend) X(emq_fd) X(emq_find) X(emq_get)
    X(emq_inbox_sql) X(emq_interrupt) X(emq_job_attempts) X(emq_job_attempts_made)
    X(emq_job_attempts_started) X(emq_job_cancelled) X(emq_job_data) X(emq_job_dedup_id)
    X(emq_job_delay_ms) X(emq_job_due_at_ms) X(emq_job_failed_reason) X(emq_job_fence)
    X(emq_job_finished_at_ms) X(emq_job_free) X(emq_job_id) X(emq_job_idempotency_key)
    X(emq_job_is_mine) X(emq_job_is_next_run) X(emq_job_json) X(emq_job_lock_until_ms) X(emq_job_log) X(emq_job_name)
    X(emq_job_opts_json) X(emq_job_prefix) X(emq_job_priority) X(emq_job_processed_at_ms)
    X(emq_job_processed_by) X(emq_job_progress_json) X(emq_job_queue) X(emq_job_replace_data)
    X(emq_job_report_progress) X(emq_job_result) X(emq_job_set_failure) X(emq_job_set_result)
    X(emq_job_set_retry_after) X(emq_job_stacktrace_json) X(emq_job_stalled) X(emq_job_state)
    X(emq_job_timeout_ms) X(emq_job_timestamp_at_ms) X(emq_job_token) X(emq_list_free)
    X(emq_list_job) X(emq_list_len) X(emq_list_str) X(emq_logs) X(emq_obliterate) X(emq_open)
    X(emq_pause) X(emq_promote) X(emq_promote_all) X(emq_queues) X(emq_remove) X(emq_resume)
    X(emq_retry) X(emq_retry_all) X(emq_set_concurrency) X(emq_set_data) X(emq_set_delay)
    X(emq_set_priority) X(emq_set_progress) X(emq_settle) X(emq_sqlite_source_id)
    X(emq_state_name) X(emq_state_parse) X(emq_stats) X(emq_status_name) X(emq_status_text)
    X(emq_sweep) X(emq_take) X(emq_version) X(emq_wait) X(emq_wake) X(emq_worker_dump)
    X(emq_worker_free) X(emq_worker_get_stats) X(emq_worker_join) X(emq_worker_pause)
    X(emq_worker_resume) X(emq_worker_start) X(emq_worker_stop)
/* clang-format on */
#undef X
};

static int listed(const char *sym, const char *name)
{
    char line[128], want[128];
    int found = 0;
    FILE *in = fopen(sym, "r");

    if (!in) {
        perror(sym);
        exit(1);
    }
    snprintf(want, sizeof want, "    %s;\n", name);
    while (!found && fgets(line, sizeof line, in))
        found = strcmp(line, want) == 0;
    fclose(in);
    return found;
}

static size_t lines_of(const char *sym)
{
    char line[128];
    size_t n = 0;
    FILE *in = fopen(sym, "r");

    if (!in) {
        perror(sym);
        exit(1);
    }
    while (fgets(line, sizeof line, in))
        n += strncmp(line, "    emq_", 8) == 0;
    fclose(in);
    return n;
}

int main(int argc, char **argv)
{
    size_t n = sizeof exported / sizeof exported[0];
    int faults = 0;

    if (argc != 2)
        return fprintf(stderr, "usage: %s libechomq.sym\n", argv[0]), 2;
    for (size_t i = 0; i < n; i++) {
        if (!exported[i].fn || !listed(argv[1], exported[i].name)) {
            fprintf(stderr, "%s is not in %s\n", exported[i].name, argv[1]);
            faults++;
        }
    }
    if (lines_of(argv[1]) != n) {
        fprintf(stderr, "%s has %zu names, this table %zu\n", argv[1], lines_of(argv[1]), n);
        faults++;
    }
    /* Those that need no store do what they say. */
    faults += strcmp(emq_version(), VERSION) != 0;
    faults += strcmp(emq_status_name(EMQ_E_IN_DOUBT), "E_IN_DOUBT") != 0;
    faults += emq_status_text((emq_status)999) == NULL;
    faults += strcmp(emq_state_name(EMQ_WAITING_CHILDREN), "waiting-children") != 0;
    faults += emq_state_parse(emq_cstr("delayed")) != EMQ_DELAYED;
    return faults != 0;
}
