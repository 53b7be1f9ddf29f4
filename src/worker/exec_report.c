/* SPDX-License-Identifier: MIT
 *
 * Collecting and storing what a program says. Writes are an owner's: when the store answers that the
 * lock is gone nothing more is written.
 */
#include "worker/exec_report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

#include <echomq/worker.h>

#include <stdarg.h>

enum {
    CLEAN_MORE = 16,          /* bytes that emq__text_clean() may need beyond its limit */
    DELAY_US = 20 * 1000,     /* lines that come within this are stored together */
    AGAIN_US = 1000 * 1000,   /* after a failure */
    ALONE_MAX = 8,            /* at most so many entries a flush: more lines share entries */
    PENDING_FULL = 64 * 1024, /* store now, whatever the clock says */
    PENDING_MAX = 1024 * 1024,
    LAST_LINE_MAX = 1024
};

emq_status emq__report_init(struct emq__report *r, emq_job *job, const struct emq__log *log,
                            emq_error *err)
{
    *r = (struct emq__report){.job = job, .log = *log, .due_us = INT64_MAX};
    /* One more than an entry holds: it is then marked as cut. */
    emq__lines_init(&r->err, EMQ_LOG_LINE_MAX + 1);
    emq__buf_init(&r->pending, PENDING_MAX);
    emq__buf_init(&r->progress, EMQ_RESULT_MAX);
    r->clean = malloc(EMQ_LOG_LINE_MAX + CLEAN_MORE);
    return r->clean ? EMQ_OK : emq__no_memory("exec", err);
}

void emq__report_free(struct emq__report *r)
{
    emq__lines_free(&r->err);
    emq__buf_free(&r->pending);
    emq__buf_free(&r->progress);
    free(r->clean);
    r->clean = NULL;
}

/* ---- collecting --------------------------------------------------------------------------- */

static void set_due(struct emq__report *r, int64_t delay_us)
{
    int64_t at = emq__mono_now().us + delay_us;

    at = at < r->hold_until_us ? r->hold_until_us : at;
    if (at < r->due_us)
        r->due_us = at;
}

static void add_line(struct emq__report *r, emq_str line)
{
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (r->over)
        return;
    /* Clean before lines are joined: cleaning may make them longer. */
    size_t n = emq__text_clean(line, EMQ_LOG_LINE_MAX, r->clean);
    if (n > EMQ_LOG_LINE_MAX)
        n = emq__text_clean(line, EMQ_LOG_LINE_MAX - 8, r->clean);
    if (!r->job) {
        emq__log_write(&r->log, EMQ_LOG_INFO, "the program, between jobs: %.*s",
                       EMQ_STR_ARG(emq_strn(r->clean, n)));
        return;
    }
    r->clean[n] = '\n';
    emq__buf_add(&r->pending, r->clean, n + 1);
    if (r->pending.failed) {
        r->pending.failed = EMQ_OK;
        r->n_lost++;
        return;
    }
    r->n_pending++;
    set_due(r, r->pending.len >= PENDING_FULL ? 0 : DELAY_US);
}

void emq__report_line(struct emq__report *r, emq_str line)
{
    const char *feed;

    while ((feed = memchr(line.ptr, '\n', line.len)) != NULL) {
        size_t n = (size_t)(feed - line.ptr);
        add_line(r, emq_strn(line.ptr, n));
        line = emq_strn(feed + 1, line.len - n - 1);
    }
    add_line(r, line);
}

void emq__report_warn(struct emq__report *r, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0)
        emq__report_line(r, emq_strn(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1));
}

static void stderr_line(void *user, emq_str line, bool cut)
{
    (void)cut; /* it is longer than an entry then, and marked for that */
    emq__report_line(user, line);
}

void emq__report_stderr(struct emq__report *r, emq_str bytes)
{
    emq_str last = bytes;

    if (last.len > sizeof r->tail)
        last = emq_strn(last.ptr + (last.len - sizeof r->tail), sizeof r->tail);
    size_t keep = sizeof r->tail - last.len;
    if (keep > r->tail_len)
        keep = r->tail_len;
    if (keep < r->tail_len || last.len < bytes.len)
        r->tail_cut = true;
    memmove(r->tail, r->tail + (r->tail_len - keep), keep);
    if (last.len)
        memcpy(r->tail + keep, last.ptr, last.len);
    r->tail_len = keep + last.len;
    emq__lines_feed(&r->err, bytes, stderr_line, r);
}

void emq__report_progress(struct emq__report *r, emq_str json)
{
    if (r->over || !r->job)
        return;
    emq__buf_clear(&r->progress);
    emq__buf_str(&r->progress, json);
    if (r->progress.failed)
        emq__buf_clear(&r->progress); /* the next one will do */
    else
        set_due(r, DELAY_US);
}

/* ---- storing ------------------------------------------------------------------------------ */

/* Lines, with their line feeds, for which there is no job in the store. */
static void log_gone(const struct emq__report *r, emq_str lines)
{
    while (lines.len) {
        const char *feed = memchr(lines.ptr, '\n', lines.len);
        size_t n = feed ? (size_t)(feed - lines.ptr) : lines.len;
        emq__log_write(&r->log, EMQ_LOG_INFO, "job %.*s of %.*s: %.*s",
                       EMQ_STR_ARG(emq_job_id(r->job)), EMQ_STR_ARG(emq_job_queue(r->job)),
                       EMQ_STR_ARG(emq_strn(lines.ptr, n)));
        n += feed ? 1 : 0;
        lines = emq_strn(lines.ptr + n, lines.len - n);
    }
}

/* false: not now. An unknown outcome counts as stored: a line twice would be worse than one in doubt. */
static bool stored(struct emq__report *r, emq_status s)
{
    if (s == EMQ_LOST)
        r->over = true;
    if (s == EMQ_NOT_FOUND)
        r->gone = true;
    return !emq__is_failure(s) || s == EMQ_E_IN_DOUBT || s == EMQ_E_INVALID;
}

/* The first entry of what is pending: one line, or with `join` as many as fit. */
static size_t entry_len(emq_str pending, bool join, int64_t *lines)
{
    size_t end = 0;

    *lines = 0;
    while (end < pending.len) {
        const char *feed = memchr(pending.ptr + end, '\n', pending.len - end);
        size_t next = feed ? (size_t)(feed - pending.ptr) + 1 : pending.len;
        if (*lines > 0 && (!join || next - 1 > EMQ_LOG_LINE_MAX))
            break;
        end = next;
        ++*lines;
    }
    return end;
}

static emq_status flush_lines(struct emq__report *r, emq_error *err)
{
    emq_str left = emq__buf_view(&r->pending);
    bool join = r->n_pending > ALONE_MAX;
    emq_status s = EMQ_OK;

    while (left.len && !r->over && !r->gone) {
        int64_t lines;
        size_t n = entry_len(left, join, &lines);
        s = emq_job_log(r->job, emq_strn(left.ptr, n - 1), err);
        if (!stored(r, s) || r->gone)
            break;
        left = emq_strn(left.ptr + n, left.len - n);
        r->n_pending -= lines;
    }
    if (r->gone)
        log_gone(r, left);
    if (r->over || r->gone)
        left.len = 0;
    if (left.len)
        memmove(r->pending.ptr, left.ptr, left.len);
    r->pending.len = left.len;
    if (left.len == 0)
        r->n_pending = 0;
    return s;
}

static emq_status flush_progress(struct emq__report *r, emq_error *err)
{
    if (r->progress.len == 0 || r->over || r->gone)
        return EMQ_OK;
    emq_status s = emq_job_report_progress(r->job, emq__buf_view(&r->progress), err);
    if (stored(r, s))
        emq__buf_clear(&r->progress);
    return s;
}

static emq_status flush_all(struct emq__report *r, emq_error *err)
{
    r->due_us = INT64_MAX;
    if (!r->job)
        return EMQ_OK;
    emq_status s = flush_lines(r, err);
    if (!emq__is_failure(s))
        s = flush_progress(r, err);
    return s;
}

void emq__report_flush(struct emq__report *r, int64_t now_us)
{
    emq_error err = {0};

    if (now_us < r->due_us)
        return;
    if (emq__is_failure(flush_all(r, &err)) && (r->pending.len || r->progress.len)) {
        r->hold_until_us = emq__mono_now().us + AGAIN_US;
        set_due(r, 0);
    }
}

void emq__report_finish(struct emq__report *r)
{
    emq_error err = {0};

    emq__lines_end(&r->err, stderr_line, r);
    emq_status s = flush_all(r, &err);
    r->n_lost += r->n_pending;
    if (r->n_lost > 0 && r->job)
        emq__log_write(&r->log, EMQ_LOG_WARN,
                       "job %.*s of %.*s: lines of its log that could not be stored: %lld: %s",
                       EMQ_STR_ARG(emq_job_id(r->job)), EMQ_STR_ARG(emq_job_queue(r->job)),
                       (long long)r->n_lost,
                       emq__is_failure(s) ? err.text : "they came faster than they were stored");
    r->n_pending = r->n_lost = 0;
    emq__buf_clear(&r->pending);
}

/* ---- the end of stderr -------------------------------------------------------------------- */

static bool is_blank(emq_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] > ' ')
            return false;
    return true;
}

static emq_str clean_copy(emq_str s, size_t max, struct emq__arena *mem)
{
    char *text = emq__arena_alloc(mem, max + CLEAN_MORE);

    return text ? emq_strn(text, emq__text_clean(s, max, text)) : emq_strn("", 0);
}

emq_str emq__report_last_line(const struct emq__report *r, struct emq__arena *mem)
{
    size_t end = r->tail_len;

    while (end > 0) {
        size_t from = end;
        while (from > 0 && r->tail[from - 1] != '\n')
            from--;
        emq_str line = emq_strn(r->tail + from, end - from);
        if (!is_blank(line)) {
            if (line.ptr[line.len - 1] == '\r')
                line.len--;
            return clean_copy(line, LAST_LINE_MAX, mem);
        }
        end = from > 0 ? from - 1 : 0;
    }
    return emq_strn("", 0);
}

emq_str emq__report_tail(const struct emq__report *r, struct emq__arena *mem)
{
    emq_str tail = emq_strn(r->tail, r->tail_len);

    if (is_blank(tail))
        return emq_strn("", 0);
    if (r->tail_cut) {
        /* From the first whole line on, when there is one. */
        const char *feed = memchr(tail.ptr, '\n', tail.len);
        size_t skip = feed ? (size_t)(feed - tail.ptr) + 1 : 0;
        if (skip < tail.len)
            tail = emq_strn(tail.ptr + skip, tail.len - skip);
    }
    /* Room for three bytes where one was invalid: nothing of the end is cut. */
    return clean_copy(tail, sizeof r->tail * 3, mem);
}
