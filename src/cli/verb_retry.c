/* SPDX-License-Identifier: MIT
 *
 * emq retry, promote, rm, cancel: acts on jobs named by id, state, or all.
 */
#include "cli/select.h"

#include <echomq/effect.h>

struct retry_options {
    struct cli_selection selection;
    bool reset, keep_effect, redo;
};

static const struct cli_option retry_table[] = {
    CLI_SELECTION_OPTIONS,
    {.name = "--reset-attempts",
     .type = CLI_FLAG,
     .at = offsetof(struct retry_options, reset),
     .help = "with the full budget and backoff; else one more run"},
    {.name = "--keep-effect",
     .type = CLI_FLAG,
     .at = offsetof(struct retry_options, keep_effect),
     .help = "an effect that is recorded as done is left out by the next run"},
    {.name = "--redo",
     .type = CLI_FLAG,
     .at = offsetof(struct retry_options, redo),
     .help = "it is forgotten, and the job gets another idempotency key"},
    {.name = NULL},
};

static int retry_flags(const struct cli *cli)
{
    const struct retry_options *o = cli->options;

    return (o->reset ? EMQ_RETRY_RESET_ATTEMPTS : 0) |
           (o->keep_effect ? EMQ_RETRY_KEEP_EFFECT : 0) | (o->redo ? EMQ_RETRY_REDO_EFFECT : 0);
}

static emq_status retry_one(struct cli *cli, emq_str queue, emq_str id, int32_t *out_state,
                            emq_error *err)
{
    (void)out_state;
    return emq_retry(cli->client, queue, id, retry_flags(cli), err);
}

static void say_they_stay(const struct cli *cli, int state, int64_t n)
{
    cli_say(cli,
            "%lld job%s %s: one whose effect is recorded as done needs --keep-effect or --redo",
            (long long)n, n == 1 ? " stays" : "s stay", emq_state_name(state));
}

static emq_status retry_many(struct cli *cli, emq_str queue, int state, int64_t *count,
                             emq_error *err)
{
    const struct retry_options *o = cli->options;
    emq_queue_stats left = {.size = sizeof left};
    emq_status s = emq_retry_all(cli->client, queue, state, retry_flags(cli), count, err);

    if (s == EMQ_OK && !o->keep_effect && !o->redo)
        s = emq_stats(cli->client, queue, &left, err);
    if (s == EMQ_OK && left.count[state] > 0)
        say_they_stay(cli, state, left.count[state]);
    return s;
}

/* An effect that is recorded as done asks what shall become of it. */
static emq_status may_retry(struct cli *cli, const emq_job *job, emq_error *err)
{
    emq_effect **list = NULL;
    size_t n = 0;
    emq_status s = emq_effect_list(cli->client, emq_job_queue(job), emq_job_id(job), NULL, 1000,
                                   &list, &n, err);

    for (size_t i = 0; i < n; i++) {
        if (emq_effect_get_state(list[i]) == EMQ_EFFECT_IS_DONE &&
            emq_effect_timestamp_at_ms(list[i]) == emq_job_timestamp_at_ms(job))
            s = EMQ_EFFECT_DONE;
        emq_effect_free(list[i]);
    }
    free(list);
    return s;
}

static int run_retry(struct cli *cli)
{
    static const int states_all[] = {EMQ_FAILED_STATE, 0};
    static const int states_finished[] = {EMQ_FAILED_STATE, EMQ_COMPLETED_STATE, 0};
    const struct cli_selection *sel = cli->options;
    const struct retry_options *o = cli->options;
    if (o->keep_effect && o->redo)
        return cli_usage(cli, "--keep-effect and --redo exclude each other");
    struct cli_act act = {.done = "retried",
                          .states = sel->all ? states_all : states_finished,
                          .one = retry_one,
                          .many = retry_many,
                          .may = o->keep_effect || o->redo ? NULL : may_retry,
                          .stay = say_they_stay};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_retry = {
    .name = "retry",
    .summary = "put failed or completed jobs back to work",
    .usage = "QUEUE (ID...|--state S|--all) [--reset-attempts] [--keep-effect|--redo] [--dry-run]",
    .help = "--all means all failed jobs. Without --reset-attempts a job gets one more run.\n"
            "A job with an effect that is recorded as done (emq-effect(1)) is not retried unless "
            "--keep-effect\n"
            "or --redo says what shall become of the effect: by id that is exit 1, --all and "
            "--state pass over it\n"
            "and say how many jobs stay; --dry-run says it too.",
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
                                .spares_next_runs = true,
                                .spares_locked = true};
    return cli_act_on(cli, &act);
}

const struct cli_verb cli_verb_rm = {
    .name = "rm",
    .summary = "remove jobs",
    .usage = "QUEUE (ID...|--state S|--all) [--dry-run]",
    .help =
        "A job under a live lock is not removed: cancel it first. Nor is the next run of a BullMQ "
        "scheduler, which\n"
        "would make no more: remove the scheduler. With --state and --all those that stay are "
        "counted; their\n"
        "ids are told with --verbose, and with --json as \"stayed\".\n"
        "A parent that is removed by its id takes all its children along, from other queues "
        "too, unless one is\n"
        "being worked on; they are not counted.",
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
                                .spares_next_runs = true,
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
        "\"count\" and \"askedToStop\". Until it ends, emq show has the request.\n"
        "The next run of a BullMQ scheduler stays, as the scheduler would make no more: remove "
        "the scheduler.\n"
        "With --state and --all those that stay are counted; their ids are told with --verbose, "
        "and with --json\n"
        "as \"stayed\", which is there when some do.",
    .options = selection_table,
    .options_size = sizeof(struct cli_selection),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .run = run_cancel,
};
