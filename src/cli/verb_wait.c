/* SPDX-License-Identifier: MIT
 *
 * emq wait: waits until a job is finished and prints its result.
 */
#include "cli/wait.h"

int cli_wait_result(struct cli *cli, emq_str queue, emq_str id, int64_t timeout_ms)
{
    emq_error err;
    emq_job *job = NULL;
    emq_status s = emq_wait(cli->client, queue, id, timeout_ms, &job, &err);

    if (s == EMQ_TIMEOUT)
        return cli_error(cli, CLI_TIMED_OUT, "job %.*s is not finished yet", EMQ_STR_ARG(id));
    if (s == EMQ_NOT_FOUND)
        return cli_error(
            cli, CLI_NO,
            "queue %.*s has no job %.*s (any more): finished jobs that are not kept can't be "
            "waited for",
            EMQ_STR_ARG(queue), EMQ_STR_ARG(id));
    if (s != EMQ_OK && s != EMQ_FAILED)
        return cli_failure(cli, s, &err);
    emq_str text = cli->globals.json ? emq_job_json(job) : emq_job_result(job);
    if (s == EMQ_OK || cli->globals.json) {
        fwrite(text.ptr, 1, text.len, stdout);
        if (text.len == 0 || text.ptr[text.len - 1] != '\n')
            putchar('\n');
    }
    int code = CLI_OK;
    if (s == EMQ_FAILED)
        code = cli_error(cli, CLI_NO, "job %.*s failed: %.*s", EMQ_STR_ARG(id),
                         EMQ_STR_ARG(emq_job_failed_reason(job)));
    emq_job_free(job);
    return code;
}

struct wait_options {
    int64_t timeout;
    bool has_timeout;
};

static const struct cli_option wait_table[] = {
    {.name = "--timeout",
     .type = CLI_SPAN,
     .at = offsetof(struct wait_options, timeout),
     .value = "D",
     .seen_at = offsetof(struct wait_options, has_timeout),
     .help = "give up after D with 124"},
    {.name = NULL},
};

static int run(struct cli *cli)
{
    const struct wait_options *o = cli->options;
    return cli_wait_result(cli, emq_cstr(cli->args.words[0]), emq_cstr(cli->args.words[1]),
                           o->has_timeout ? o->timeout : -1);
}

const struct cli_verb cli_verb_wait = {
    .name = "wait",
    .summary = "wait until a job is finished, print its result",
    .usage = "QUEUE ID [--timeout D]",
    .help = "Exit 0 completed, 1 failed or gone, 124 at the deadline.",
    .options = wait_table,
    .options_size = sizeof(struct wait_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
