/* SPDX-License-Identifier: MIT
 *
 * One process for many jobs: it is kept, gets a line of JSON a job and answers with lines.
 *
 * The invariant: an answer is taken for the job that the process was given last and for no other. A
 * process that says anything out of turn, or that had to be told to stop, is replaced, and what it
 * may still say goes with it.
 */
#include "worker/exec_internal.h"
#include "worker/stream_line.h"

#include "base/error.h"
#include "base/str.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 8 * 1024 * 1024,           /* of an answer: a result with every byte escaped */
    REQUEST_MAX = 6 * EMQ_DATA_MAX + 64 * 1024, /* the same of data */
    MUTE_US = 1000 * 1000, /* from the end of stdout to the end of the process */
    BIRTHS_MAX = 3 /* a job: processes that end between two jobs are replaced without a word */
};

struct emq__stream {
    struct emq__child child;
    struct emq__lines out;
};

struct serve {
    struct emq__exec *x;
    struct emq__slot *s;
    emq_job *job;
    struct emq__place *place;
    struct emq__stream *kept;
    struct emq__report report;
    struct emq__asked asked; /* effects */
    struct emq__buf request;
    emq_str left; /* of the request */
    struct emq__exec_result *out;
    bool answered;
    bool deaf;             /* it has closed its stdin */
    int64_t mute_until_us; /* it has closed its stdout; INT64_MAX = not */
    const char *problem;   /* it broke the protocol; static */
};

emq_status emq__stream_open(struct emq__exec *x, emq_error *err)
{
    for (int32_t i = 0; i < x->concurrency; i++) {
        struct emq__stream *kept = calloc(1, sizeof *kept);
        if (!kept)
            return emq__no_memory("exec", err);
        kept->child = (struct emq__child){.pidfd = -1, .in = -1, .out = -1, .err = -1, .ctl = -1};
        emq__lines_init(&kept->out, LINE_MAX_BYTES);
        x->places[i].stream = kept;
    }
    return EMQ_OK;
}

/* ---- answers ------------------------------------------------------------------------------ */

static emq_str keep_text(struct serve *v, emq_str s)
{
    emq_str copy = emq__arena_str(&v->out->mem, s);

    return copy.ptr ? copy : emq_strn("", 0);
}

static void end_with_result(struct serve *v, emq_str result)
{
    struct emq__exec_result *out = v->out;

    out->kind = EMQ__EXEC_DONE;
    if (!result.ptr)
        return;
    if (result.len > EMQ_RESULT_MAX) {
        emq__exit_failed(&v->report, out,
                         "the result has %zu bytes, at most %d are stored: write a reference to it",
                         result.len, EMQ_RESULT_MAX);
        return;
    }
    out->result = emq__arena_str(&out->mem, result);
    if (!out->result.ptr)
        emq__exit_failed(&v->report, out, "no memory for a result of %zu bytes", result.len);
}

static void end_with_error(struct serve *v, const struct emq__answer *a)
{
    struct emq__exec_result *out = v->out;
    char *clean = emq__arena_alloc(&out->mem, EMQ_LOG_LINE_MAX + 16);

    out->kind = a->end == EMQ__ANSWER_GIVE_BACK ? EMQ__EXEC_GIVE_BACK
                : a->final                      ? EMQ__EXEC_FAIL
                                                : EMQ__EXEC_RETRY;
    out->retry_after_ms = a->retry_after_ms;
    if (clean)
        out->reason = emq_strn(clean, emq__text_clean(a->error, EMQ_LOG_LINE_MAX, clean));
    if (out->reason.len == 0)
        out->reason = a->end == EMQ__ANSWER_GIVE_BACK ? EMQ_STR_LIT("the program gave it back")
                                                      : EMQ_STR_LIT("the program failed it");
    out->stack = a->stack.len ? keep_text(v, a->stack) : emq__report_tail(&v->report, &out->mem);
}

static void take_answer(void *user, emq_str line, bool cut)
{
    struct serve *v = user;
    struct emq__arena mem = {0};
    struct emq__answer a;

    if (v->problem)
        return;
    if (v->answered)
        v->problem = "a line after the answer";
    else if (cut)
        v->problem = "a line of more than 8 MiB";
    else
        v->problem = emq__answer_parse(line, &mem, &a);
    if (!v->problem && a.has_id && !emq__str_eq(a.id, emq_job_id(v->job)))
        v->problem = "an answer for another job";
    if (!v->problem && a.has_progress && a.progress.len > EMQ_RESULT_MAX)
        v->problem = "progress of more than 1 MiB";
    if (!v->problem) {
        if (a.has_log)
            emq__report_line(&v->report, a.log);
        if (a.has_progress)
            emq__report_progress(&v->report, a.progress);
        if (a.sql.len)
            emq__asked_add(&v->asked, a.sql, true, &v->out->mem);
        if (a.redis.len)
            emq__asked_add(&v->asked, a.redis, false, &v->out->mem);
        v->answered = a.end != EMQ__ANSWER_GOES_ON;
        if (a.end == EMQ__ANSWER_RESULT)
            end_with_result(v, a.result);
        else if (v->answered)
            end_with_error(v, &a);
    }
    emq__arena_free(&mem);
}

/* ---- pipes -------------------------------------------------------------------------------- */

static ssize_t take_out(struct serve *v)
{
    struct emq__child *c = &v->kept->child;
    ssize_t n = emq__pipe_read(c->out, v->place->chunk);

    if (n > 0) {
        emq__lines_feed(&v->kept->out, emq_strn(v->place->chunk, (size_t)n), take_answer, v);
    } else if (n < 0) {
        emq__fd_close(&c->out);
        v->mute_until_us = emq__mono_now().us + MUTE_US;
    }
    return n;
}

static ssize_t take_err(struct serve *v)
{
    struct emq__child *c = &v->kept->child;
    ssize_t n = emq__pipe_read(c->err, v->place->chunk);

    if (n > 0)
        emq__report_stderr(&v->report, emq_strn(v->place->chunk, (size_t)n));
    else if (n < 0)
        emq__fd_close(&c->err);
    return n;
}

/* What is there now. */
static void drain(struct serve *v, int fd, ssize_t (*taker)(struct serve *))
{
    ssize_t n = 1, left = fd >= 0 ? (ssize_t)emq__pipe_holds(fd) : 0;

    for (; left > 0 && n > 0; left -= n)
        n = taker(v);
}

/* ---- the process -------------------------------------------------------------------------- */

/* Ends it, if it has not ended. */
static struct emq__exit replace(struct serve *v, bool *supervisor_killed)
{
    struct emq__child *c = &v->kept->child;

    if (!emq__child_ended(c))
        emq__child_signal(c, SIGKILL);
    emq__lines_free(&v->kept->out);
    emq__lines_init(&v->kept->out, LINE_MAX_BYTES);
    return emq__child_finish(v->x, emq__slot_index(v->s), c, supervisor_killed);
}

static void say_replaced(struct serve *v, const char *why)
{
    emq__log_write(&v->x->log, EMQ_LOG_WARN, "the program \"%s\" is started again for job %.*s: %s",
                   v->x->path, EMQ_STR_ARG(emq_job_id(v->job)), why);
}

/* Between jobs nothing is expected but words on stderr, which are no job's. */
static emq_status hear_idle(struct serve *v, emq_error *err)
{
    struct emq__report of_job = v->report;
    emq_status st = emq__report_init(&v->report, NULL, &v->x->log, err);

    if (st == EMQ_OK) {
        drain(v, v->kept->child.err, take_err);
        emq__report_finish(&v->report);
    }
    emq__report_free(&v->report);
    v->report = of_job;
    return st;
}

/* A process that is alive and has said nothing out of turn. */
static emq_status ready_child(struct serve *v, emq_error *why)
{
    struct emq__child *c = &v->kept->child;
    bool killed;

    if (c->pid > 0) {
        emq_status st = hear_idle(v, why);
        if (st != EMQ_OK)
            return st;
        ssize_t n = c->out >= 0 ? emq__pipe_read(c->out, v->place->chunk) : -1;
        if (!emq__child_ended(c) && n == 0 && v->kept->out.part.len == 0 && c->in >= 0)
            return EMQ_OK;
        say_replaced(v, n > 0 || v->kept->out.part.len ? "it wrote a line that belongs to no job"
                                                       : "it has ended, or closed its pipes");
        (void)replace(v, &killed);
    }
    char **env = emq__exec_env(v->x, NULL, 0, &v->out->mem);
    if (!env)
        return emq__no_memory("exec", why);
    return emq__child_start(v->x, emq__slot_index(v->s), env, NULL, emq__slot_safe_until(v->s), c,
                            why);
}

static void give_request(struct serve *v)
{
    struct emq__child *c = &v->kept->child;

    if (v->left.len && !v->deaf)
        v->deaf = !emq__pipe_write(c->in, &v->left);
}

/* Until the answer, a broken rule, or the end of the process. true: it has ended. */
static bool converse(struct serve *v, struct emq__turn *t)
{
    struct emq__child *c = &v->kept->child;

    give_request(v);
    for (;;) {
        int64_t due_us = v->report.due_us < v->mute_until_us ? v->report.due_us : v->mute_until_us;
        emq__turn_wait(t, v->left.len > 0 && !v->deaf, due_us);
        if (t->ready[EMQ__TURN_IN])
            give_request(v);
        if (t->ready[EMQ__TURN_ERR])
            (void)take_err(v);
        if (t->ready[EMQ__TURN_OUT])
            (void)take_out(v);
        if (v->answered)
            drain(v, c->out, take_out);
        if (v->answered || v->problem)
            return false;
        if ((t->ready[EMQ__TURN_PID] || c->pidfd < 0) && emq__child_ended(c)) {
            drain(v, c->out, take_out);
            emq__lines_end(&v->kept->out, take_answer, v);
            return true;
        }
        if (emq__mono_now().us >= v->mute_until_us) {
            v->problem = "it closed its stdout";
            return false;
        }
        emq__report_flush(&v->report, emq__mono_now().us);
    }
}

/* The process ended, of its own will, before it looked at the job. Ask before the pipes are closed. */
static bool never_read(const struct serve *v)
{
    size_t sent = v->request.len - v->left.len;

    return !v->answered && !v->problem && emq__pipe_unread(v->kept->child.in) == sent;
}

static emq_status judge_end(struct serve *v, const struct emq__exit *e, bool stopping, bool killed,
                            emq_error *err)
{
    v->out->exit_status = emq__exit_status(e);
    if (v->answered && !v->problem)
        return EMQ_OK;
    if (stopping) {
        emq__exit_stopped(&v->report, v->out);
        return EMQ_OK;
    }
    if (killed && e->by_signal)
        return emq__exec_killed(v->s, &v->report, v->out, err);
    if (v->problem) {
        emq__exit_failed(&v->report, v->out, "the program broke the protocol of --stream: %s",
                         v->problem);
        return EMQ_OK;
    }
    emq__exit_judge(e, &v->report, -1, v->out);
    if (v->out->kind == EMQ__EXEC_DONE)
        emq__exit_failed(&v->report, v->out, "the program ended with 0 and without an answer");
    return EMQ_OK;
}

/* One process gets the job. *again: it ended without having looked at it. */
static emq_status serve_once(struct serve *v, bool *again, emq_error *err)
{
    struct emq__turn t;
    emq_error why = {0};
    bool killed = false;

    *again = false;
    if (ready_child(v, &why) != EMQ_OK)
        return emq__exec_not_started(&why, v->out, err);
    struct emq__child *c = &v->kept->child;
    v->left = emq__buf_view(&v->request);
    v->deaf = false;
    v->mute_until_us = INT64_MAX;
    v->asked = (struct emq__asked){0};
    emq__turn_init(&t, v->x, v->s, c);
    bool ended = converse(v, &t);
    drain(v, c->err, take_err);
    bool stopping = emq__turn_stopping(&t);
    if (!ended && !stopping && !v->problem && v->answered) {
        if (v->deaf || v->left.len) /* it can't be given another one */
            emq__fd_close(&c->in);
        return EMQ_OK;
    }
    if (v->problem)
        say_replaced(v, v->problem);
    bool unread = ended && never_read(v);
    struct emq__exit e = replace(v, &killed);
    if (unread && !stopping && !killed && e.known && !e.by_signal && e.code == 0) {
        *again = true;
        return EMQ_OK;
    }
    return judge_end(v, &e, stopping, killed, err);
}

emq_status emq__stream_run(struct emq__exec *x, struct emq__slot *s, struct emq__exec_result *out,
                           emq_error *err)
{
    struct emq__place *place = &x->places[emq__slot_index(s)];
    struct serve v = {
        .x = x, .s = s, .job = emq__slot_job(s), .place = place, .kept = place->stream, .out = out};
    emq_status st = emq__report_init(&v.report, v.job, &x->log, err);
    bool again = true;

    emq__buf_init(&v.request, REQUEST_MAX);
    if (st == EMQ_OK) {
        emq__stream_request(&v.job->rec, emq__slot_deadline_at_ms(s), &v.request);
        if (v.request.failed)
            st = emq__no_memory("exec", err);
    }
    if (st == EMQ_OK) {
        emq__exec_begin(x, s);
        for (int births = 0; st == EMQ_OK && again && births < BIRTHS_MAX; births++)
            st = serve_once(&v, &again, err);
        emq__exec_end(x, s);
        if (st == EMQ_OK && v.answered && out->kind == EMQ__EXEC_DONE)
            st = emq__asked_read(&v.asked, &v.report, out, err);
        if (st == EMQ_OK && again)
            emq__exit_failed(&v.report, out,
                             "the program ends with 0 again and again, without reading "
                             "a job");
        emq__report_finish(&v.report);
    }
    emq__buf_free(&v.request);
    emq__report_free(&v.report);
    return st;
}

/* ---- the end ------------------------------------------------------------------------------ */

enum { END_MS = 5000, TERM_MS = 1000, PAUSE_MS = 5 };

/* Waits for all; their words are read, so that none hangs in a write. true: all have ended. */
static bool wait_all(struct emq__exec *x, int64_t ms)
{
    const struct timespec pause = {0, PAUSE_MS * 1000000L};
    struct emq__mono until = emq__mono_add_ms(emq__mono_now(), ms);

    for (;;) {
        bool all = true;
        for (int32_t i = 0; i < x->concurrency; i++) {
            struct emq__place *at = &x->places[i];
            if (!at->stream || at->stream->child.pid <= 0 || emq__child_ended(&at->stream->child))
                continue;
            all = false;
            struct emq__child *c = &at->stream->child;
            if (c->out >= 0 && emq__pipe_read(c->out, at->chunk) < 0)
                emq__fd_close(&c->out);
            if (c->err >= 0 && emq__pipe_read(c->err, at->chunk) < 0)
                emq__fd_close(&c->err);
        }
        if (all || emq__mono_now().us >= until.us)
            return all;
        (void)nanosleep(&pause, NULL);
    }
}

static void signal_all(struct emq__exec *x, int sig)
{
    for (int32_t i = 0; i < x->concurrency; i++)
        if (x->places[i].stream)
            emq__child_signal(&x->places[i].stream->child, sig);
}

void emq__stream_close(struct emq__exec *x)
{
    bool ours = x->pid == getpid(), killed;

    if (!x->stream || !x->places)
        return;
    for (int32_t i = 0; i < x->concurrency; i++)
        if (x->places[i].stream)
            emq__fd_close(&x->places[i].stream->child.in);
    if (ours && !wait_all(x, END_MS)) {
        signal_all(x, SIGTERM);
        if (!wait_all(x, TERM_MS)) {
            signal_all(x, SIGKILL);
            (void)wait_all(x, END_MS);
        }
    }
    for (int32_t i = 0; i < x->concurrency; i++) {
        struct emq__stream *kept = x->places[i].stream;
        if (!kept)
            continue;
        if (ours && kept->child.pid > 0)
            (void)emq__child_finish(x, i, &kept->child, &killed);
        emq__child_close_fds(&kept->child);
        emq__fd_close(&kept->child.pidfd);
        emq__lines_free(&kept->out);
        free(kept);
        x->places[i].stream = NULL;
    }
}
