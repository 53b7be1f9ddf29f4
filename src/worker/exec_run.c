/* SPDX-License-Identifier: MIT
 *
 * One process for one job: data on its stdin, its stdout is the result, stderr and descriptor 3 are
 * what it says meanwhile.
 *
 * The invariants: all data are on its stdin before it begins, because a program whose worker is killed must
 * not take a part for the whole. The run is over when the process has ended, whoever still holds its pipes;
 * what is in them then is read, what comes later is not.
 */
#include "worker/exec_internal.h"

#include "base/error.h"
#include "base/str.h"

#include <signal.h>

enum { CTL_LINE_MAX = EMQ_RESULT_MAX + 64 };

struct run {
    struct emq__exec *x;
    struct emq__place *place;
    emq_job *job;
    struct emq__child child;
    struct emq__report report;
    struct emq__lines ctl;
    struct emq__buf result;
    uint64_t too_long; /* bytes of stdout beyond the limit */
    int64_t retry_after_ms;
    struct emq__asked asked;
    struct emq__arena *mem; /* of the result */
};

static void take_ctl_line(void *user, emq_str line, bool cut)
{
    struct run *r = user;
    struct emq__exec_line l = emq__exec_line_parse(line);

    if (cut && (l.kind == EMQ__EXEC_LINE_SQL || l.kind == EMQ__EXEC_LINE_REDIS))
        l = (struct emq__exec_line){.kind = EMQ__EXEC_LINE_WRONG,
                                    .problem = "it has more than 1 MiB"};
    if (cut && l.kind != EMQ__EXEC_LINE_LOG && l.kind != EMQ__EXEC_LINE_WRONG) {
        emq__report_warn(&r->report, "emq: a line on descriptor 3 has more than 1 MiB: ignored");
        return;
    }
    switch (l.kind) {
    case EMQ__EXEC_LINE_EMPTY: break;
    case EMQ__EXEC_LINE_PROGRESS: emq__report_progress(&r->report, l.text); break;
    case EMQ__EXEC_LINE_LOG: emq__report_line(&r->report, l.text); break;
    case EMQ__EXEC_LINE_RETRY_AFTER: r->retry_after_ms = l.ms; break;
    case EMQ__EXEC_LINE_SQL: emq__asked_add(&r->asked, l.text, true, r->mem); break;
    case EMQ__EXEC_LINE_REDIS: emq__asked_add(&r->asked, l.text, false, r->mem); break;
    case EMQ__EXEC_LINE_BAD:
        emq__report_warn(&r->report, "emq: a line on descriptor 3 was ignored: \"%.*s\": %s",
                         line.len > 200 ? 200 : (int)line.len, line.ptr, l.problem);
        break;
    case EMQ__EXEC_LINE_WRONG: emq__asked_wrong(&r->asked, line, l.problem, r->mem); break;
    }
}

static void take_result(struct run *r, emq_str bytes)
{
    size_t room = EMQ_RESULT_MAX - r->result.len;
    size_t n = bytes.len < room ? bytes.len : room;

    emq__buf_add(&r->result, bytes.ptr, n);
    r->too_long += bytes.len - n;
}

static ssize_t take_out(struct run *r)
{
    ssize_t n = emq__pipe_read(r->child.out, r->place->chunk);

    if (n > 0)
        take_result(r, emq_strn(r->place->chunk, (size_t)n));
    else if (n < 0)
        emq__fd_close(&r->child.out);
    return n;
}

static ssize_t take_err(struct run *r)
{
    ssize_t n = emq__pipe_read(r->child.err, r->place->chunk);

    if (n > 0)
        emq__report_stderr(&r->report, emq_strn(r->place->chunk, (size_t)n));
    else if (n < 0)
        emq__fd_close(&r->child.err);
    return n;
}

static ssize_t take_ctl(struct run *r)
{
    ssize_t n = emq__pipe_read(r->child.ctl, r->place->chunk);

    if (n > 0)
        emq__lines_feed(&r->ctl, emq_strn(r->place->chunk, (size_t)n), take_ctl_line, r);
    else if (n < 0)
        emq__fd_close(&r->child.ctl);
    return n;
}

/* The process has ended: what it wrote is in the pipes. One that it left behind may write for ever. */
static void drain(struct run *r)
{
    static ssize_t (*const takers[])(struct run *) = {take_out, take_err, take_ctl};
    const int *fds[] = {&r->child.out, &r->child.err, &r->child.ctl};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(takers); i++) {
        ssize_t n = 1, left = *fds[i] >= 0 ? (ssize_t)emq__pipe_holds(*fds[i]) : 0;
        for (; left > 0 && n > 0; left -= n) {
            n = takers[i](r);
            emq__report_flush(&r->report, emq__mono_now().us);
        }
    }
    emq__lines_end(&r->ctl, take_ctl_line, r);
}

static void loop(struct run *r, struct emq__turn *t)
{
    for (;;) {
        emq__turn_wait(t, false, r->report.due_us);
        if (t->ready[EMQ__TURN_OUT])
            (void)take_out(r);
        if (t->ready[EMQ__TURN_CTL])
            (void)take_ctl(r);
        if (t->ready[EMQ__TURN_ERR])
            (void)take_err(r);
        if ((t->ready[EMQ__TURN_PID] || r->child.pidfd < 0) && emq__child_ended(&r->child))
            break;
        emq__report_flush(&r->report, emq__mono_now().us);
    }
}

static emq_status judge(struct run *r, const struct emq__exit *e, bool stopping,
                        bool supervisor_killed, struct emq__slot *s, struct emq__exec_result *out,
                        emq_error *err)
{
    out->exit_status = emq__exit_status(e);
    if (stopping) {
        emq__exit_stopped(&r->report, out);
        return EMQ_OK;
    }
    if (supervisor_killed && e->by_signal)
        return emq__exec_killed(s, &r->report, out, err);
    emq__exit_judge(e, &r->report, r->retry_after_ms, out);
    if (out->kind != EMQ__EXEC_DONE)
        return EMQ_OK;
    out->reason = out->stack = emq_strn("", 0);
    if (r->too_long > 0) {
        emq__exit_failed(
            &r->report, out,
            "the result has %llu bytes, at most %d are stored: write a reference to it",
            (unsigned long long)r->too_long + EMQ_RESULT_MAX, EMQ_RESULT_MAX);
    } else if (r->result.failed) {
        return emq__no_memory("exec", err);
    } else if (r->result.len) {
        out->result = emq__arena_str(&out->mem, emq__buf_view(&r->result));
        if (!out->result.ptr)
            return emq__no_memory("exec", err);
    }
    return out->kind == EMQ__EXEC_DONE ? emq__asked_read(&r->asked, &r->report, out, err) : EMQ_OK;
}

static emq_status start(struct run *r, struct emq__slot *s, struct emq__exec_result *out,
                        emq_error *err)
{
    emq_error why = {0};
    emq_str data = emq_job_data(r->job);
    char **env = emq__exec_env(r->x, r->job, emq__slot_deadline_at_ms(s), &out->mem);

    if (!env)
        return emq__no_memory("exec", err);
    if (emq__child_start(r->x, emq__slot_index(s), env, &data, emq__slot_safe_until(s), &r->child,
                         &why) == EMQ_OK)
        return EMQ_OK;
    return emq__exec_not_started(&why, out, err);
}

emq_status emq__exec_run_once(struct emq__exec *x, struct emq__slot *s,
                              struct emq__exec_result *out, emq_error *err)
{
    int index = emq__slot_index(s);
    struct run r = {.x = x,
                    .place = &x->places[index],
                    .job = emq__slot_job(s),
                    .retry_after_ms = -1,
                    .mem = &out->mem};
    struct emq__turn t;
    bool supervisor_killed = false;
    emq_status st = emq__report_init(&r.report, r.job, &x->log, err);

    emq__lines_init(&r.ctl, CTL_LINE_MAX);
    emq__buf_init(&r.result, EMQ_RESULT_MAX);
    if (st != EMQ_OK)
        goto done;
    emq__exec_begin(x, s);
    st = start(&r, s, out, err);
    if (st == EMQ_OK && r.child.pid > 0) {
        emq__turn_init(&t, x, s, &r.child);
        loop(&r, &t);
        drain(&r);
        struct emq__exit e = emq__child_finish(x, index, &r.child, &supervisor_killed);
        emq__exec_end(x, s);
        emq__report_finish(&r.report);
        st = judge(&r, &e, emq__turn_stopping(&t), supervisor_killed, s, out, err);
    } else {
        emq__exec_end(x, s);
    }
done:
    emq__buf_free(&r.result);
    emq__lines_free(&r.ctl);
    emq__report_free(&r.report);
    return st;
}
