/* SPDX-License-Identifier: MIT
 *
 * Messages, exit codes, and results as JSON.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/error.h"
#include "base/json.h"
#include "base/secret.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

/* `emq run` passes on the program's status: what is emq's own must not look like one. */
static int own_code(const struct cli *cli, int code)
{
    return code && cli->verb && cli->verb->own_failure ? cli->verb->own_failure : code;
}

/* One write, so that the lines of threads do not mix. What a user wrote in the wrong place may be a URL. */
static void print_message(const struct cli *cli, const char *kind, const char *text, int code,
                          const char *status)
{
    const char *verb = cli->verb ? cli->verb->name : "";
    char *shown = strdup(text);
    struct emq__buf b;

    if (shown)
        (void)emq__hide_secrets(shown, strlen(shown));
    text = shown ? shown : "out of memory";
    fflush(stdout);
    cli_json_begin(&b);
    if (verb[0])
        cli_json_str(&b, "verb", emq_cstr(verb));
    cli_json_str(&b, kind, emq_cstr(text));
    if (status)
        cli_json_str(&b, "status", emq_cstr(status));
    emq__json_i64_member_if(&b, "exit", code);
    emq__buf_text(&b, "}\n");
    if (cli->globals.json && !b.failed)
        fwrite(b.ptr, 1, b.len, stderr);
    else
        fprintf(stderr, "emq%s%s: %s\n", verb[0] ? " " : "", verb, text);
    emq__buf_free(&b);
    free(shown);
}

__attribute__((format(printf, 4, 0))) static void
format_message(const struct cli *cli, const char *kind, int code, const char *fmt, va_list ap)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    print_message(cli, kind, text ? text : "out of memory", code, NULL);
    free(text);
}

int cli_error(const struct cli *cli, int code, const char *fmt, ...)
{
    va_list ap;
    code = own_code(cli, code);
    va_start(ap, fmt);
    format_message(cli, "error", code, fmt, ap);
    va_end(ap);
    return code;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;
    int code = own_code(cli, CLI_USAGE);
    va_start(ap, fmt);
    format_message(cli, "error", code, fmt, ap);
    va_end(ap);
    if (!cli->globals.json)
        fprintf(stderr, "try: emq help%s%s\n", cli->verb ? " " : "",
                cli->verb ? cli->verb->name : "");
    return code;
}

void cli_say(const struct cli *cli, const char *fmt, ...)
{
    if (cli->globals.quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    format_message(cli, "note", 0, fmt, ap);
    va_end(ap);
}

int cli_exit_code(emq_status s)
{
    switch (s) {
    case EMQ_OK: return CLI_OK;
    case EMQ_EMPTY:
    case EMQ_DUPLICATE:
    case EMQ_DEDUPLICATED:
    case EMQ_LOST:
    case EMQ_NOT_FOUND:
    case EMQ_WRONG_STATE:
    case EMQ_CANCELLED:
    case EMQ_FAILED:
    case EMQ_LOCKED:
    case EMQ_CONFLICT:
    case EMQ_PARKED:
    case EMQ_EFFECT_DONE:
    case EMQ_PENDING_CHILDREN:
    case EMQ_FAILED_CHILD:
    case EMQ_NEXT_RUN:
    case EMQ_CHILD_LOCKED: return CLI_NO;
    case EMQ_TIMEOUT: return CLI_TIMED_OUT;
    case EMQ_E_INVALID: return CLI_USAGE;
    case EMQ_E_STORE:
    case EMQ_E_CORRUPT:
    case EMQ_E_FULL: return CLI_IO;
    case EMQ_E_UNAVAIL: return CLI_UNREACHABLE;
    case EMQ_E_IN_DOUBT: return CLI_IN_DOUBT;
    case EMQ_E_VERSION: return CLI_CONFIG;
    case EMQ_E_REFUSED: return CLI_REFUSED;
    case EMQ_E_BUSY:
    case EMQ_E_NOMEM:
    case EMQ_E_SYSTEM: return CLI_AGAIN;
    case EMQ_E_FORKED:
    case EMQ_E_CLOSED: return CLI_BUG;
    }
    return CLI_BUG;
}

int cli_failure(const struct cli *cli, emq_status s, const emq_error *err)
{
    int code = own_code(cli, cli_exit_code(s));
    bool told = emq__is_failure(s) && err->text[0];
    print_message(cli, "error", told ? err->text : emq_status_text(s), code, emq_status_name(s));
    return code;
}

int cli_no_job(const struct cli *cli)
{
    int code = own_code(cli, CLI_NO);
    char *text = NULL;
    if (asprintf(&text, "queue %s has no job %s", cli->args.words[0], cli->args.words[1]) < 0)
        text = NULL;
    print_message(cli, "error", text ? text : "out of memory", code,
                  emq_status_name(EMQ_NOT_FOUND));
    free(text);
    return code;
}

static char did[512];
static int write_failed; /* errno of the first write that has failed; 0 = not known */

void cli_did(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(did, sizeof did, fmt, ap);
    va_end(ap);
}

void cli_write_failed(int why)
{
    if (!write_failed)
        write_failed = why;
}

bool cli_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

int cli_finish(const struct cli *cli, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    int why = write_failed ? write_failed : errno;
    if (did[0])
        return cli_error(cli, CLI_IO, "%s, but that could not be written to standard output: %s",
                         did, strerror(why));
    if (cli_reader_gone()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return cli_error(cli, CLI_IO, "standard output can't be written: %s", strerror(why));
}

/* ---- results as JSON --------------------------------------------------------------------- */

void cli_json_begin(struct emq__buf *b)
{
    emq__buf_init(b, SIZE_MAX / 2);
    emq__buf_char(b, '{');
}

void cli_json_str(struct emq__buf *b, const char *name, emq_str value)
{
    emq__json_key(b, name);
    emq__json_quote(b, value);
}

void cli_json_bool(struct emq__buf *b, const char *name, bool value)
{
    emq__json_key(b, name);
    emq__buf_text(b, value ? "true" : "false");
}

void cli_json_counts(struct emq__buf *b, const emq_queue_stats *st)
{
    for (int state = 1; state <= EMQ_STATE_COUNT; state++)
        emq__json_i64_member(b, emq_state_name(state), st->count[state]);
    cli_json_bool(b, "paused", st->paused);
}

int cli_json_end(const struct cli *cli, struct emq__buf *b)
{
    int code = CLI_OK;
    emq__buf_text(b, "}\n");
    if (b->failed)
        code = cli_error(cli, CLI_AGAIN, "out of memory");
    else
        fwrite(b->ptr, 1, b->len, stdout);
    emq__buf_free(b);
    return code;
}

int cli_done(const struct cli *cli, const char *what, emq_str id, const char *outcome)
{
    struct emq__buf b;
    if (!cli->globals.json)
        return CLI_OK;
    cli_did("%s %.*s: %s", what, EMQ_STR_ARG(id), outcome);
    cli_json_begin(&b);
    cli_json_str(&b, what, id);
    cli_json_str(&b, "outcome", emq_cstr(outcome));
    return cli_json_end(cli, &b);
}

int cli_job_answer(const struct cli *cli, emq_status s, const emq_error *err, const char *done)
{
    if (s == EMQ_LOST)
        return cli_error(cli, CLI_NO,
                         "the lock of job %s is not this token's any more; nothing was changed",
                         cli->args.words[1]);
    if (s == EMQ_NOT_FOUND)
        return cli_no_job(cli);
    return s == EMQ_OK ? cli_done(cli, "id", emq_cstr(cli->args.words[1]), done)
                       : cli_failure(cli, s, err);
}
