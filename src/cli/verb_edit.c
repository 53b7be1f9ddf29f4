/* SPDX-License-Identifier: MIT
 *
 * emq edit: changes priority, due time or data of a job.
 */
#include "cli/cli.h"

struct edit_options {
    emq_str data;
    int64_t delay, priority;
    bool lifo, has_data, has_delay, has_priority;
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
    {.name = NULL},
};

static int edit_data(struct cli *cli, emq_str queue, emq_str id)
{
    const struct edit_options *o = cli->options;
    char *data = NULL;
    size_t len = 0;
    emq_error err;
    int code = cli_read_data(cli, o->data.ptr, EMQ_DATA_MAX, &data, &len);
    if (code != CLI_OK)
        return code;
    emq_status s = emq_set_data(cli->client, queue, id, emq_cstr(""), emq_strn(data, len), &err);
    free(data);
    return s == EMQ_OK ? cli_done(cli, "id", id, "changed") : cli_failure(cli, s, &err);
}

static int run(struct cli *cli)
{
    const struct edit_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]), id = emq_cstr(cli->args.words[1]);
    emq_error err;

    if (o->has_data + o->has_delay + o->has_priority != 1)
        return cli_usage(cli, "give one of --priority, --delay, --data");
    if (o->has_data)
        return edit_data(cli, queue, id);
    emq_status s = o->has_delay ? emq_set_delay(cli->client, queue, id, o->delay, &err)
                                : emq_set_priority(cli->client, queue, id, (int32_t)o->priority,
                                                   o->lifo, &err);
    if (s == EMQ_WRONG_STATE)
        return cli_error(cli, CLI_NO, "job %s is not delayed", cli->args.words[1]);
    return s == EMQ_OK ? cli_done(cli, "id", id, "changed") : cli_failure(cli, s, &err);
}

const struct cli_verb cli_verb_edit = {
    .name = "edit",
    .summary = "change priority, due time or data of a job",
    .usage = "QUEUE ID --priority N [--lifo] | --delay D | --data DATA",
    .options = edit_table,
    .options_size = sizeof(struct edit_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .run = run,
};
