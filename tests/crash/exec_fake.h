/* SPDX-License-Identifier: MIT
 *
 * A slot without a worker and a store: what exec needs of worker/slot.h, and emq_job_log() and
 * emq_job_report_progress() that remember what they were given.
 */
#ifndef EMQ_TESTS_EXEC_FAKE_H
#define EMQ_TESTS_EXEC_FAKE_H

#include "exec_proc.h"
#include "worker/exec_internal.h"

struct emq__slot {
    emq_job *job;
    int index, fd;     /* fd: an eventfd */
    atomic_int cancel; /* an emq_cancel_reason */
    _Atomic int64_t safe_until_us, run_until_us;
    int64_t deadline_at_ms;
    struct emq__buf log; /* lines, each with its line feed */
    struct emq__buf progress;
    atomic_int entries, progresses; /* calls */
    emq_status store;               /* what the writes answer */
};

/* A job with that data, id "7" of the queue "q", at its second attempt. */
struct emq__slot *fake_slot(emq_str data, int index);
void fake_free(struct emq__slot *s);

bool has(emq_str s, const char *part);

/* An open exec and the last result. */
struct rig {
    struct emq__exec *x;
    struct emq__slot *s;
    struct emq__exec_result res;
    emq_status status;
    emq_error err;
};
struct rig *rig_open(const char *const *argv, bool stream);
struct rig *rig_sh(const char *script); /* sh -c script */
/* The same and one run of it, over the data "data". */
enum emq__exec_kind rig_sh_run(struct rig **out, const char *script);
struct rig *rig_sh_stream(const char *script);
/* Runs a job with that data; a slot of its own, or the one that is set already. */
enum emq__exec_kind rig_run(struct rig *r, emq_str data);
void rig_slot(struct rig *r, emq_str data); /* a fresh slot for the next run */
void rig_close(struct rig *r);

#endif
