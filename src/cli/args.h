/* SPDX-License-Identifier: MIT
 *
 * Command-line arguments: tables of options drive parsing, help and completion alike.
 */
#ifndef EMQ_CLI_ARGS_H
#define EMQ_CLI_ARGS_H

#include "model/duration.h"
#include "model/opts.h"

enum cli_type {
    CLI_FLAG,    /* bool */
    CLI_TEXT,    /* emq_str */
    CLI_INT,     /* int64_t in [min, max] */
    CLI_SPAN,    /* int64_t ms in [min, max]; needs a unit */
    CLI_NUMBER,  /* double in [min, max] */
    CLI_KEEP,    /* struct emq__keep */
    CLI_BACKOFF, /* struct emq__backoff */
    CLI_CHOICE,  /* int32_t: index into `choices` */
    CLI_STATE    /* int32_t: an emq_state */
};

struct cli_option {
    const char *name; /* "--delay" */
    enum cli_type type;
    size_t at;         /* offset of the value in the verb's options struct */
    const char *value; /* name of the value in help: "D"; NULL for flags */
    const char *help;
    int64_t min, max;           /* both 0 = no range but the type's */
    const char *const *choices; /* NULL-terminated */
    size_t seen_at;             /* offset of a bool set when the option was given; 0 = not wanted.
                                   So the first member of an options struct is never such a bool */
    bool optional;     /* the value may be left out: then seen_at is set, and a span is -1 */
    bool may_be_empty; /* CLI_TEXT: "" is a value. Else it is refused: it comes from a
                                   shell variable that is not set */
    bool per_job;      /* about one job: a verb of many may refuse it, see cli_args */
    char letter;       /* 'v' for -v; 0 = none */
};

struct cli_args {
    const struct cli_option *options[2]; /* tables, each ended by a NULL name; [1] may be NULL */
    void *into[2];
    const char *const *words; /* out: arguments that are no options, in order */
    size_t n_words;
    char *const *rest;                /* out: what follows "--", NULL if there was none */
    const struct cli_option *per_job; /* out: the first such option that was given; NULL = none */
};

/* Parses argv (no program name, no verb). `words` needs room for argc pointers. EMQ_E_INVALID with a
 * message that names the option, the value, and what is allowed; nothing else is written then. */
emq_status cli_parse(struct cli_args *a, int argc, char *const *argv, const char **words,
                     emq_error *err);
/* The ith word that a CLI_CHOICE or CLI_STATE takes; NULL behind the last, and for other types. */
const char *cli_choice(const struct cli_option *o, int32_t i);
/* An integer in a range, or a message that names both. */
emq_status cli_parse_int(const char *what, emq_str text, int64_t min, int64_t max, int64_t *out,
                         emq_error *err);

#endif
