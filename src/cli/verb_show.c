/* SPDX-License-Identifier: MIT
 *
 * emq show: one job, everything that is known of it.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/json.h"

static void line(const char *label, emq_str value)
{
    if (value.len == 0)
        return;
    printf("%-14s ", label);
    cli_print_text(value);
    putchar('\n');
}

static void line_at(const char *label, int64_t at_ms)
{
    char text[40];
    if (at_ms)
        printf("%-14s %s\n", label, cli_time(at_ms, text));
}

static void print_lock(const emq_job *j, int64_t now_ms)
{
    if (emq_job_state(j) != EMQ_ACTIVE)
        return;
    char span[40];
    int64_t left = emq_job_lock_until_ms(j) - now_ms;
    emq_str by = emq_job_processed_by(j);
    if (left > 0)
        printf("%-14s held by %s%.*s for another %s\n", "lock",
               by.len ? "" : "a worker without a name", EMQ_STR_ARG(by),
               emq__duration_format(left, span));
    else
        printf("%-14s ended %s ago, its owner was not seen since; a sweep returns the job\n",
               "lock", emq__duration_format(-left, span));
}

static void print_cancel(const emq_job *j)
{
    struct emq__json asked;

    if (emq__json_get(emq__json_root(emq_job_json(j)), "cancelRequested", &asked))
        printf("%-14s its owner was asked to stop\n", "cancel");
}

static void print_job(const emq_job *j, int64_t now_ms)
{
    line("id", emq_job_id(j));
    line("name", emq_job_name(j));
    line("state", emq_cstr(emq_state_name(emq_job_state(j))));
    print_lock(j, now_ms);
    print_cancel(j);
    printf("%-14s %d of %d made, %d started, %d stalled\n", "attempts", emq_job_attempts_made(j),
           emq_job_attempts(j), emq_job_attempts_started(j), emq_job_stalled(j));
    if (emq_job_priority(j))
        printf("%-14s %d\n", "priority", emq_job_priority(j));
    line_at("added", emq_job_timestamp_at_ms(j));
    line_at("due", emq_job_due_at_ms(j));
    line_at("taken", emq_job_processed_at_ms(j));
    line("taken by", emq_job_processed_by(j));
    line_at("finished", emq_job_finished_at_ms(j));
    line("progress", emq_job_progress_json(j));
    line("dedup id", emq_job_dedup_id(j));
    line("options", emq_job_opts_json(j));
    line("data", emq_job_data(j));
    line("result", emq_job_result(j));
    line("failed because", emq_job_failed_reason(j));
    if (emq_job_stacktrace_json(j).len > sizeof "[]")
        line("stack traces", emq_job_stacktrace_json(j));
    line("effect key", emq_job_idempotency_key(j));
}

struct show_options {
    bool data, result;
};

static const struct cli_option show_table[] = {
    {.name = "--data",
     .type = CLI_FLAG,
     .at = offsetof(struct show_options, data),
     .help = "only the data, its exact bytes"},
    {.name = "--result",
     .type = CLI_FLAG,
     .at = offsetof(struct show_options, result),
     .help = "only the result, its exact bytes"},
    {.name = NULL},
};

static int run(struct cli *cli)
{
    const struct show_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);
    emq_error err;
    emq_job *job = NULL;
    emq_queue_stats stats = {.size = sizeof stats};

    if (o->data + o->result + cli->globals.json > 1)
        return cli_usage(cli, "give one of --data, --result and --json");
    emq_status s = emq_get(cli->client, queue, emq_cstr(cli->args.words[1]), &job, &err);
    if (s == EMQ_NOT_FOUND)
        return cli_no_job(cli);
    if (s == EMQ_OK)
        s = emq_stats(cli->client, queue, &stats, &err);
    if (s != EMQ_OK) {
        emq_job_free(job);
        return cli_failure(cli, s, &err);
    }
    if (o->data || o->result) {
        emq_str bytes = o->data ? emq_job_data(job) : emq_job_result(job);
        fwrite(bytes.ptr, 1, bytes.len, stdout);
    } else if (cli->globals.json) {
        emq_str json = emq_job_json(job);
        printf("%.*s\n", (int)json.len, json.ptr);
    } else {
        print_job(job, stats.now_ms);
    }
    emq_job_free(job);
    return CLI_OK;
}

const struct cli_verb cli_verb_show = {
    .name = "show",
    .summary = "show one job",
    .usage = "QUEUE ID [--data|--result]",
    .options = show_table,
    .options_size = sizeof(struct show_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
