/* SPDX-License-Identifier: MIT
 *
 * emq retry, promote, rm, cancel: acts on jobs named by id, state, or all.
 */
#include "cli/select.h"

struct retry_options {
    struct cli_selection selection;
    bool reset;
};

static const struct cli_option retry_table[] = {
    CLI_SELECTION_OPTIONS,
    {.name = "--reset-attempts",
     .type = CLI_FLAG,
     .at = offsetof(struct retry_options, reset),
     .help = "with the full budget and backoff; else one more run"},
    {.name = NULL},
};

static int retry_flags(const struct cli *cli)
{
    return ((const struct retry_options *)cli->options)->reset ? EMQ_RETRY_RESET_ATTEMPTS : 0;
}

static emq_status retry_one(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                            emq_error *err)
{
    (void)out_state;
    return emq_retry(cli->client, queue, id, retry_flags(cli), err);
}

static emq_status retry_many(struct cli *cli, emq_str queue, int state, int64_t *count,
                             emq_error *err)
{
    return emq_retry_all(cli->client, queue, state, retry_flags(cli), count, err);
}

static int run_retry(struct cli *cli)
{
    static const int states_all[] = {EMQ_FAILED_STATE, 0};
    static const int states_finished[] = {EMQ_FAILED_STATE, EMQ_COMPLETED_STATE, 0};
    const struct cli_selection *sel = cli->options;
    struct cli_act act = {.done = "retried",
                          .states = sel->all ? states_all : states_finished,
                          .one = retry_one,
                          .many = retry_many};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_retry = {
    .name = "retry",
    .summary = "put failed or completed jobs back to work",
    .usage = "QUEUE (ID...|--state S|--all) [--reset-attempts] [--dry-run]",
    .help = "--all means all failed jobs. Without --reset-attempts a job gets one more run.",
    .options = retry_table,
    .options_size = sizeof(struct retry_options),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .run = run_retry,
};

static const struct cli_option selection_table[] = {CLI_SELECTION_OPTIONS, {.name = NULL}};

/* ---- promote ----------------------------------------------------------------------------- */

static emq_status promote_one(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                              emq_error *err)
{
    (void)out_state;
    return emq_promote(cli->client, queue, id, err);
}

static emq_status promote_many(struct cli *cli, emq_str queue, int state, int64_t *count,
                               emq_error *err)
{
    (void)state;
    return emq_promote_all(cli->client, queue, count, err);
}

static int run_promote(struct cli *cli)
{
    static const int states[] = {EMQ_DELAYED, 0};
    const struct cli_act act = {
        .done = "promoted", .states = states, .one = promote_one, .many = promote_many};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_promote = {
    .name = "promote",
    .summary = "make delayed jobs ready now",
    .usage = "QUEUE (ID...|--state delayed|--all) [--dry-run]",
    .options = selection_table,
    .options_size = sizeof(struct cli_selection),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .run = run_promote,
};

/* ---- rm ---------------------------------------------------------------------------------- */

static emq_status remove_one(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                             emq_error *err)
{
    (void)out_state;
    return emq_remove(cli->client, queue, id, err);
}

static emq_status remove_many(struct cli *cli, emq_str queue, int state, int64_t *count,
                              emq_error *err)
{
    return emq_clean(cli->client, queue, state, 0, 0, count, err);
}

static int run_rm(struct cli *cli)
{
    static const int states[] = {
        EMQ_WAITING, EMQ_PRIORITIZED,     EMQ_DELAYED,      EMQ_WAITING_CHILDREN,
        EMQ_ACTIVE,  EMQ_COMPLETED_STATE, EMQ_FAILED_STATE, 0};
    const struct cli_act act = {.done = "removed",
                                .states = states,
                                .one = remove_one,
                                .many = remove_many,
                                .spares_locked = true};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_rm = {
    .name = "rm",
    .summary = "remove jobs",
    .usage = "QUEUE (ID...|--state S|--all) [--dry-run]",
    .help = "A job under a live lock is not removed: cancel it first. With --state and --all those "
            "that "
            "stay are\n"
            "counted; their ids are told with --verbose, and with --json as \"stayed\".",
    .options = selection_table,
    .options_size = sizeof(struct cli_selection),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .run = run_rm,
};

/* ---- cancel ------------------------------------------------------------------------------ */

static emq_status cancel_one(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                             emq_error *err)
{
    return emq_cancel(cli->client, queue, id, out_state, err);
}

static emq_status cancel_many(struct cli *cli, emq_str queue, int state, int64_t *count,
                              emq_error *err)
{
    return emq_cancel_all(cli->client, queue, state, count, err);
}

static int run_cancel(struct cli *cli)
{
    static const int states[] = {EMQ_WAITING,          EMQ_PRIORITIZED, EMQ_DELAYED,
                                 EMQ_WAITING_CHILDREN, EMQ_ACTIVE,      0};
    const struct cli_act act = {.done = "cancelled",
                                .states = states,
                                .one = cancel_one,
                                .many = cancel_many,
                                .asked = "asked to stop",
                                .key = "askedToStop"};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_cancel = {
    .name = "cancel",
    .summary = "stop running jobs, fail unfinished ones",
    .usage = "QUEUE (ID...|--state S|--all) [--dry-run]",
    .help =
        "The owner of an active job is asked to stop: its handler is told, a program gets "
        "TERM, then\n"
        "KILL. It ends failed, \"cancelled\", unless its owner completes it first. A job that is "
        "not active is\n"
        "failed at once with the same reason, and kept as its --keep-failed says: retention may "
        "remove it, or\n"
        "failed jobs before it, at once.\n"
        "It says which it was: \"cancelled\" or \"asked to stop\"; with --json the outcome of an "
        "id, or the "
        "members\n"
        "\"count\" and \"askedToStop\". Until it ends, emq show has the request.",
    .options = selection_table,
    .options_size = sizeof(struct cli_selection),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .run = run_cancel,
};
