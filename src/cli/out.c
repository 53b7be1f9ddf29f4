/* SPDX-License-Identifier: MIT
 *
 * Messages, exit codes, help, input files, tables, the progress bar.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <libsmartcols.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 2, 0))) static void say(const struct cli *cli, const char *fmt,
                                                      va_list ap)
{
    fflush(stdout);
    fprintf(stderr, "emq%s%s: ", cli->verb ? " " : "", cli->verb ? cli->verb->name : "");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

int cli_error(const struct cli *cli, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(cli, fmt, ap);
    va_end(ap);
    return code;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(cli, fmt, ap);
    va_end(ap);
    fprintf(stderr, "try: emq help%s%s\n", cli->verb ? " " : "", cli->verb ? cli->verb->name : "");
    return CLI_USAGE;
}

void cli_say(const struct cli *cli, const char *fmt, ...)
{
    if (cli->globals.quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    say(cli, fmt, ap);
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
    case EMQ_LOCKED: return CLI_NO;
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
    if (emq__is_failure(s))
        return cli_error(cli, cli_exit_code(s), "%s",
                         err->text[0] ? err->text : emq_status_text(s));
    return cli_error(cli, cli_exit_code(s), "%s", emq_status_text(s));
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
    int why = errno;
    if (cli_reader_gone()) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return cli_error(cli, CLI_IO, "standard output can't be written: %s", strerror(why));
}

/* ---- help -------------------------------------------------------------------------------- */

static void print_options(const struct cli_option *o, FILE *to)
{
    for (; o && o->name; o++) {
        char left[80];
        snprintf(left, sizeof left, "%s%s%s%s%s", o->name,
                 o->value ? (o->optional ? " [" : " ") : "", o->value ? o->value : "",
                 o->optional ? "]" : "", o->letter ? (char[]){',', ' ', '-', o->letter, 0} : "");
        fprintf(to, "  %-28s %s\n", left, o->help);
    }
}

void cli_print_help(const struct cli_verb *verb, FILE *to)
{
    if (!verb) {
        fputs("usage: emq VERB [ARGUMENTS] [OPTIONS]\n\n", to);
        for (size_t i = 0; cli_verbs[i]; i++)
            fprintf(to, "  %-12s %s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
        fputs("\noptions of every verb:\n", to);
        print_options(cli_global_options, to);
        fputs("\nemq help VERB says more. Durations need a unit: 500ms, 30s, 5m, 1h30m, 7d.\n", to);
        return;
    }
    fprintf(to, "usage: emq %s %s\n\n%s\n", verb->name, verb->usage, verb->summary);
    if (verb->help)
        fprintf(to, "\n%s\n", verb->help);
    if (verb->options && verb->options->name) {
        fputs("\noptions:\n", to);
        print_options(verb->options, to);
    }
    fputs("\noptions of every verb:\n", to);
    print_options(cli_global_options, to);
}

/* ---- input ------------------------------------------------------------------------------- */

static int read_all(const struct cli *cli, FILE *f, const char *name, size_t max, char **out,
                    size_t *out_len)
{
    struct emq__buf b;
    char chunk[65536];
    size_t n;

    emq__buf_init(&b, max + 1);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && b.failed == EMQ_OK && b.len <= max)
        emq__buf_add(&b, chunk, n);
    int code = CLI_OK;
    if (ferror(f))
        code = cli_error(cli, CLI_NOINPUT, "%s: %s", name, strerror(errno));
    else if (b.failed == EMQ_E_NOMEM)
        code = cli_error(cli, CLI_AGAIN, "%s: out of memory", name);
    else if (b.failed != EMQ_OK || b.len > max)
        code = cli_error(cli, CLI_DATA, "%s: more than the limit of %zu bytes", name, max);
    if (code != CLI_OK) {
        emq__buf_free(&b);
        return code;
    }
    if (!b.ptr)
        emq__buf_text(&b, "");
    *out = b.ptr;
    *out_len = b.len;
    return CLI_OK;
}

int cli_read_data(const struct cli *cli, const char *arg, size_t max, char **out, size_t *out_len)
{
    if (strcmp(arg, "-") == 0)
        return read_all(cli, stdin, "standard input", max, out, out_len);
    if (arg[0] != '@') {
        *out_len = strlen(arg);
        *out = strdup(arg);
        return *out ? CLI_OK : cli_error(cli, CLI_AGAIN, "out of memory");
    }
    if (!arg[1])
        return cli_usage(cli, "\"@\" names no file: give @FILE");
    struct stat st;
    FILE *f = fopen(arg + 1, "rbe");
    if (!f)
        return cli_error(cli, CLI_NOINPUT, "%s: %s", arg + 1, strerror(errno));
    int code = fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)
                   ? cli_error(cli, CLI_NOINPUT, "%s: is a directory", arg + 1)
                   : read_all(cli, f, arg + 1, max, out, out_len);
    fclose(f);
    return code;
}

/* ---- tables ------------------------------------------------------------------------------ */

struct cli_table {
    struct libscols_table *t;
    size_t columns;
    bool failed;
};

struct cli_table *cli_table_new(const char *const *columns, const bool *right, size_t n)
{
    struct cli_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->columns = n;
    table->t = scols_new_table();
    for (size_t i = 0; table->t && i < n; i++)
        if (!scols_table_new_column(table->t, columns[i], 0,
                                    right && right[i] ? SCOLS_FL_RIGHT : 0))
            table->failed = true;
    return table;
}

void cli_table_row(struct cli_table *table, const char *const *cells)
{
    struct libscols_line *line = table && table->t ? scols_table_new_line(table->t, NULL) : NULL;
    if (!line) {
        if (table)
            table->failed = true;
        return;
    }
    for (size_t i = 0; i < table->columns; i++)
        if (scols_line_set_data(line, i, cells[i]) != 0)
            table->failed = true;
}

int cli_table_print(struct cli_table *table)
{
    if (!table)
        return -1;
    bool failed = table->failed || !table->t || scols_print_table(table->t) != 0;
    if (table->t)
        scols_unref_table(table->t);
    free(table);
    return failed ? -1 : 0;
}

/* ---- progress ---------------------------------------------------------------------------- */

enum { BAR_WIDTH = 30, BAR_INTERVAL_MS = 100 };

void cli_bar_start(struct cli_bar *bar, const struct cli *cli, const char *label, int64_t total)
{
    *bar = (struct cli_bar){.cli = cli, .total = total, .label = label};
    bar->on = !cli->globals.quiet && isatty(STDERR_FILENO);
}

void cli_bar_step(struct cli_bar *bar, int64_t done)
{
    int64_t now = emq__mono_now().us / 1000;
    if (!bar->on || (now - bar->shown_at_ms < BAR_INTERVAL_MS && done != bar->total))
        return;
    bar->shown_at_ms = now;
    if (bar->total <= 0) {
        fprintf(stderr, "\r%s %lld", bar->label, (long long)done);
        return;
    }
    int full = (int)(BAR_WIDTH * done / bar->total);
    fprintf(stderr, "\r%s [%.*s%*s] %lld/%lld", bar->label, full, "##############################",
            BAR_WIDTH - full, "", (long long)done, (long long)bar->total);
}

void cli_bar_end(struct cli_bar *bar)
{
    if (bar->on && bar->shown_at_ms)
        fputc('\n', stderr);
}
