/* SPDX-License-Identifier: MIT
 *
 * What the end of a process means for its job: the table of exit codes, and the words for people.
 */
#include "worker/exec_internal.h"

#include "base/str.h"

#include <signal.h>
#include <stdarg.h>

enum {
    EXIT_DATA = 65,      /* sysexits.h: the input is wrong, and will be */
    EXIT_TEMPORARY = 75, /* sysexits.h: try again later */
    EXIT_NEVER = 100,    /* qmail: hard failure */
    EXIT_LATER = 111,    /* qmail: soft failure */
    EXIT_NOT_RUN = 126,  /* shells: found, can't be run */
    EXIT_NOT_FOUND = 127 /* shells */
};

int emq__exit_status(const struct emq__exit *e)
{
    if (!e->known)
        return -1;
    return e->by_signal ? 128 + e->code : e->code;
}

/* "what: last line", or what. */
static emq_str with_last_line(emq_str what, const struct emq__report *r, struct emq__arena *mem)
{
    emq_str last = emq__report_last_line(r, mem);

    if (last.len == 0 || !what.ptr)
        return what;
    return emq__arena_printf(mem, "%.*s: %.*s", EMQ_STR_ARG(what), EMQ_STR_ARG(last));
}

static emq_str or_text(emq_str s, const char *text)
{
    return s.ptr ? s : emq_cstr(text);
}

static emq_str signal_text(const struct emq__exit *e, struct emq__arena *mem)
{
    const char *name = sigabbrev_np(e->code);

    return emq__arena_printf(mem, "killed by signal %d (%s%s)%s%s", e->code, name ? "SIG" : "",
                             name ? name : "?", e->dumped ? ", core dumped" : "",
                             e->code == SIGKILL ? ", not sent by the worker: out of memory?" : "");
}

static emq_str exit_text(int code, struct emq__arena *mem)
{
    const char *hint = "";

    if (code == EXIT_NOT_RUN)
        hint = " (a command inside it could not be run: check its permissions)";
    else if (code == EXIT_NOT_FOUND)
        hint = " (a command inside it was not found: check PATH)";
    return emq__arena_printf(mem, "exited with %d%s", code, hint);
}

static enum emq__exec_kind kind_of_code(int code)
{
    switch (code) {
    case 0: return EMQ__EXEC_DONE;
    case EXIT_TEMPORARY:
    case EXIT_LATER: return EMQ__EXEC_GIVE_BACK;
    case EXIT_DATA:
    case EXIT_NEVER: return EMQ__EXEC_FAIL;
    default: return EMQ__EXEC_RETRY;
    }
}

void emq__exit_judge(const struct emq__exit *e, const struct emq__report *r, int64_t retry_after_ms,
                     struct emq__exec_result *out)
{
    emq_str what;

    out->stack = emq__report_tail(r, &out->mem);
    out->retry_after_ms = retry_after_ms;
    out->exit_status = emq__exit_status(e);
    if (!e->known) {
        out->kind = EMQ__EXEC_RETRY;
        out->reason =
            EMQ_STR_LIT("the program has ended, but another part of the worker's process took "
                        "its exit status (wait(), or an ignored SIGCHLD)");
        return;
    }
    what = e->by_signal ? signal_text(e, &out->mem) : exit_text(e->code, &out->mem);
    out->reason = or_text(with_last_line(what, r, &out->mem), "the program failed");
    out->kind = e->by_signal ? EMQ__EXEC_STALLED : kind_of_code(e->code);
}

void emq__exit_failed(const struct emq__report *r, struct emq__exec_result *out, const char *fmt,
                      ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    out->kind = EMQ__EXEC_RETRY;
    out->reason =
        or_text(emq__arena_str(&out->mem, emq_cstr(n > 0 ? text : "")), "the program failed");
    out->stack = emq__report_tail(r, &out->mem);
    out->result = emq_strn(NULL, 0);
}

void emq__exit_stopped(const struct emq__report *r, struct emq__exec_result *out)
{
    out->kind = EMQ__EXEC_STOPPED;
    out->reason = emq__report_last_line(r, &out->mem);
    out->stack = emq__report_tail(r, &out->mem);
    out->result = emq_strn(NULL, 0);
}
