/* SPDX-License-Identifier: MIT
 *
 * emq edit: changes priority, due time, data or progress of a job, or adds a line to its log.
 */
#include "cli/cli.h"

#include "base/json.h"

struct edit_options {
    emq_str data, progress, log, token;
    int64_t delay, priority;
    bool lifo, has_data, has_progress, has_log, has_delay, has_priority;
};
#define AT(member)   .at = offsetof(struct edit_options, member)
#define SEEN(member) .seen_at = offsetof(struct edit_options, member)

static const struct cli_option edit_table[] = {
    {.name = "--priority",
     .type = CLI_INT,
     AT(priority),
     SEEN(has_priority),
     .value = "N",
     .help = "0 to 2097151; 0 = none",
     .max = EMQ_PRIORITY_MAX},
    {.name = "--lifo",
     .type = CLI_FLAG,
     AT(lifo),
     .help = "with --priority: first among its equals"},
    {.name = "--delay",
     .type = CLI_SPAN,
     AT(delay),
     SEEN(has_delay),
     .value = "D",
     .help = "a delayed job becomes due D from now"},
    {.name = "--data",
     .type = CLI_TEXT,
     AT(data),
     SEEN(has_data),
     .may_be_empty = true,
     .value = "DATA|@FILE|-",
     .help = "new data"},
    {.name = "--progress",
     .type = CLI_TEXT,
     AT(progress),
     SEEN(has_progress),
     .value = "JSON",
     .help = "how far the job is: a number, or any JSON value"},
    {.name = "--log",
     .type = CLI_TEXT,
     AT(log),
     SEEN(has_log),
     .may_be_empty = true,
     .value = "TEXT",
     .help = "a line for the job's log"},
    {.name = "--token",
     .type = CLI_TEXT,
     AT(token),
     .value = "T",
     .help = "write as the owner, by the token of emq take; a lost lock changes nothing"},
    {.name = NULL},
};

static emq_status edit_data(struct cli *cli, emq_str queue, emq_str id, int *code, emq_error *err)
{
    const struct edit_options *o = cli->options;
    char *data = NULL;
    size_t len = 0;

    *code = cli_read_data(cli, o->data.ptr, EMQ_DATA_MAX, &data, &len);
    if (*code != CLI_OK)
        return EMQ_OK;
    emq_status s = emq_set_data(cli->client, queue, id, o->token, emq_strn(data, len), err);
    free(data);
    return s;
}

static emq_status edit_progress(struct cli *cli, emq_str queue, emq_str id, int *code,
                                emq_error *err)
{
    const struct edit_options *o = cli->options;
    size_t fault = 0;

    if (!emq__json_valid(o->progress, &fault)) {
        *code = cli_error(cli, CLI_DATA,
                          "--progress: \"%s\" is not JSON (at byte %zu): give a number or any JSON "
                          "value; nothing was changed",
                          o->progress.ptr, fault);
        return EMQ_OK;
    }
    return emq_set_progress(cli->client, queue, id, o->token, o->progress, err);
}

static int run(struct cli *cli)
{
    const struct edit_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]), id = emq_cstr(cli->args.words[1]);
    bool by_owner = o->has_data || o->has_progress || o->has_log;
    int code = CLI_OK;
    emq_status s;
    emq_error err;

    if (o->has_data + o->has_progress + o->has_log + o->has_delay + o->has_priority != 1)
        return cli_usage(cli, "give one of --priority, --delay, --data, --progress, --log");
    if (o->token.len > 0 && !by_owner)
        return cli_usage(cli, "--token goes with --data, --progress or --log");
    if (o->has_data)
        s = edit_data(cli, queue, id, &code, &err);
    else if (o->has_progress)
        s = edit_progress(cli, queue, id, &code, &err);
    else if (o->has_log)
        s = emq_add_log(cli->client, queue, id, o->token, o->log, &err);
    else if (o->has_delay)
        s = emq_set_delay(cli->client, queue, id, o->delay, &err);
    else
        s = emq_set_priority(cli->client, queue, id, (int32_t)o->priority, o->lifo, &err);
    if (code != CLI_OK)
        return code;
    if (s == EMQ_WRONG_STATE)
        return cli_error(cli, CLI_NO, "job %s is not delayed", cli->args.words[1]);
    return cli_job_answer(cli, s, &err, "changed");
}

const struct cli_verb cli_verb_edit = {
    .name = "edit",
    .summary = "change priority, due time, data or progress of a job, or add to its log",
    .usage = "QUEUE ID --priority N [--lifo] | --delay D | [--token T] --data DATA|--progress "
             "JSON|--log TEXT",
    .help = "DATA is any text or bytes: " CLI_DATA_HELP ".",
    .options = edit_table,
    .options_size = sizeof(struct edit_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .run = run,
};
