/* SPDX-License-Identifier: MIT
 *
 * What the verbs share: the table of verbs, the globals, exit codes, output.
 *
 * One file a verb, verb_<name>.c, each giving one `const struct cli_verb`; main.c has the table that is
 * dispatcher, help and completion.
 */
#ifndef EMQ_CLI_CLI_H
#define EMQ_CLI_CLI_H

#include "cli/args.h"
#include "engine/engine.h"

#include <stdio.h>

/* sysexits where they fit; the meaning is fixed (emq(1), EXIT STATUS). */
enum cli_exit {
    CLI_OK = 0,
    CLI_NO = 1,       /* a negative answer */
    CLI_USAGE = 64,   /* the command line, values out of range included */
    CLI_DATA = 65,    /* the contents of data, batch or JSON */
    CLI_NOINPUT = 66, /* no such input file */
    CLI_UNREACHABLE = 69,
    CLI_BUG = 70,
    CLI_IO = 74,
    CLI_AGAIN = 75,
    CLI_REFUSED = 77,
    CLI_CONFIG = 78,
    CLI_IN_DOUBT = 79,
    CLI_PARKED = 100, /* emq effect run: the worker fails the job for good */
    CLI_TIMED_OUT = 124,
    CLI_OWN_FAILURE = 125 /* emq run */
};

struct cli_globals {
    emq_str url, prefix;
    bool json, quiet, verbose, help;
};

struct cli {
    struct cli_globals globals;
    struct cli_args args; /* words[0] is the first word after the verb */
    const struct cli_verb *verb;
    void *options;      /* the verb's options struct, zeroed, then parsed into */
    emq_client *client; /* open when verb->opens */
};

struct cli_verb {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* "QUEUE [DATA|@FILE|-]" */
    const char *help;    /* paragraphs; NULL = none */
    const struct cli_option *options;
    size_t options_size;
    size_t min_words, max_words; /* SIZE_MAX = any number */
    bool opens;                  /* open the store first */
    enum emq__making making;     /* opens: where there is no store; 66 where none may be made */
    bool takes_rest;             /* "-- CMD…" */
    int own_failure;             /* exit code of every failure of emq itself; 0 = by the failure */
    int (*run)(struct cli *cli); /* returns an exit code */
};
extern const struct cli_verb *const cli_verbs[];        /* NULL-terminated, in the order of help */
const struct cli_verb *cli_find_verb(const char *name); /* NULL = none */
extern const struct cli_option cli_global_options[];
/* What --url may be; ends with a form of NULL. */
struct cli_url {
    const char *form, *help;
};
extern const struct cli_url cli_urls[];
/* Exit codes; ends with a help of NULL. */
struct cli_exit_help {
    int code; /* an enum cli_exit */
    const char *help;
};
extern const struct cli_exit_help cli_exits[];
/* Limits; ends with an `of` of NULL. */
struct cli_limit {
    const char *of;
    int64_t max;
    const char *unit; /* "bytes", or what it is */
};
extern const struct cli_limit cli_limits[];
const char *cli_limit_text(const struct cli_limit *l, char out[32]); /* "16 MiB" */
extern const char *const cli_modes[]; /* choices of --mode, by emq_mode */
enum { CLI_DAY_MS = 24 * 3600 * 1000 };

/* Messages go to stderr: "emq VERB: text", or with --json an object: {"verb","error","exit"}, with
 * "status" where the library failed, {"verb","note"} for talk. Any thread.
 * What is returned is the exit code: `code`, or the verb's own_failure; 0 stays 0. */
int cli_error(const struct cli *cli, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A failure of the library. Outcomes give 1, TIMEOUT 124. */
int cli_failure(const struct cli *cli, emq_status s, const emq_error *err);
int cli_exit_code(emq_status s);
/* There is no job words[1] in queue words[0]: 1. */
int cli_no_job(const struct cli *cli);
/* A wrong command line: 64. */
int cli_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Talk, unless --quiet. */
void cli_say(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line of JSON on stdout: an object's members between begin and end. end prints and frees it and
 * returns 0, or 75 after its message. */
void cli_json_begin(struct emq__buf *b);
void cli_json_str(struct emq__buf *b, const char *name, emq_str value);
void cli_json_bool(struct emq__buf *b, const char *name, bool value);
/* The jobs by state, and "paused". */
void cli_json_counts(struct emq__buf *b, const emq_queue_stats *st);
int cli_json_end(const struct cli *cli, struct emq__buf *b);
/* What was done, for verbs that print nothing else: with --json {"id","outcome"}. */
int cli_done(const struct cli *cli, const char *what, emq_str id, const char *outcome);
/* The same for what was done to job words[1] of queue words[0]; a lost lock and a job that is not there
 * have messages of their own. */
int cli_job_answer(const struct cli *cli, emq_status s, const emq_error *err, const char *done);

/* What was done and can't be undone: said if the result can't be printed. */
void cli_did(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A write to stdout has failed before the end: cli_finish() names this errno, not a later one. */
void cli_write_failed(int why);
/* Whether the reader of stdout has gone. */
bool cli_reader_gone(void);
/* Flushes stdout; a failed write (a full disk) is an error: CLI_IO, else `code`. When the reader has
 * gone, ends the process as any filter: silently, by SIGPIPE; but never silently after cli_did(). */
int cli_finish(const struct cli *cli, int code);

/* Reads DATA as given on the line: "@FILE" a file, "-" standard input, "@@TEXT" the text "@TEXT", else the
 * text itself. The bytes are malloc'ed. 0, or an exit code after its message (66 no such file, 65 too large, 74). */
int cli_read_data(const struct cli *cli, const char *arg, size_t max, char **out, size_t *out_len);
#define CLI_DATA_HELP \
    "the argument itself, @FILE a file, - standard input, @@TEXT text that begins with one @"
/* The same of a file's name; "-" is standard input. */
int cli_read_file(const struct cli *cli, const char *path, size_t max, char **out, size_t *out_len);

/* A table on stdout (libsmartcols): columns with names, right = 1 for numbers. */
struct cli_table;
struct cli_table *cli_table_new(const char *const *columns, const bool *right, size_t n);
void cli_table_row(struct cli_table *t, const char *const *cells);
int cli_table_print(struct cli_table *t); /* prints and frees */

/* A progress bar on stderr, only on a terminal and not with --quiet. total 0 = unknown. */
struct cli_bar {
    const struct cli *cli;
    int64_t total, shown_at_ms;
    bool on;
    const char *label;
};
void cli_bar_start(struct cli_bar *bar, const struct cli *cli, const char *label, int64_t total);
void cli_bar_step(struct cli_bar *bar, int64_t done);
void cli_bar_end(struct cli_bar *bar);

/* Help of a verb; NULL = of all. As text; or on stdout, with --json as an object. */
void cli_print_help(const struct cli_verb *verb, FILE *to);
int cli_help(const struct cli *cli, const struct cli_verb *verb);

#endif
