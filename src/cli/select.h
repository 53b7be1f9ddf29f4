/* SPDX-License-Identifier: MIT
 *
 * "QUEUE (ID…|--state S|--all) [--dry-run]": what retry, promote, rm and cancel work on.
 */
#ifndef EMQ_CLI_SELECT_H
#define EMQ_CLI_SELECT_H

#include "cli/cli.h"

/* The first member of the options of a verb that selects. */
struct cli_selection {
    int32_t state;
    bool all, dry_run;
};

#define CLI_SELECTION_OPTIONS                                                                 \
    {.name = "--state",                                                                       \
     .type = CLI_STATE,                                                                       \
     .at = offsetof(struct cli_selection, state),                                             \
     .value = "S",                                                                            \
     .help = "every job of this state"},                                                      \
        {.name = "--all",                                                                     \
         .type = CLI_FLAG,                                                                    \
         .at = offsetof(struct cli_selection, all),                                           \
         .help = "every job that this can be done to"},                                       \
    {                                                                                         \
        .name = "--dry-run", .type = CLI_FLAG, .at = offsetof(struct cli_selection, dry_run), \
        .help = "only say what would be done"                                                 \
    }

struct cli_act {
    const char *done;  /* "retried" */
    const int *states; /* states this may be done to, ended by 0: --all, and the check of --state */
    /* *out_state: the state after it, where the verb knows it. */
    emq_status (*one)(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                      emq_error *err);
    emq_status (*many)(struct cli *cli, emq_str queue, int state, int64_t *count, emq_error *err);
    /* What a dry run asks about a job whose state allows it: EMQ_OK, or why it would be refused. NULL: nothing. */
    emq_status (*may)(struct cli *cli, const emq_job *job, emq_error *err);
    /* With `may`: says that so many of a state stay. */
    void (*stay)(const struct cli *cli, int state, int64_t n);
    bool spares_next_runs;   /* of schedulers */
    bool spares_locked;      /* with those: active jobs only when their locks have ended */
    const char *asked, *key; /* what is done to active jobs instead; the member that counts them */
};
/* Does it, reports each refusal; 1 if any id was refused or nothing matched an id. */
int cli_act_on(struct cli *cli, const struct cli_act *act);

#endif
