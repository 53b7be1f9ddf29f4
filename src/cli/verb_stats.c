/* SPDX-License-Identifier: MIT
 *
 * emq stats: the counts of a queue.
 */
#include "cli/cli.h"

#include "base/json.h"

static int print_json(const struct cli *cli, emq_str queue, const emq_queue_stats *st)
{
    const struct {
        const char *name;
        int64_t n;
    } totals[] = {{"added", st->total_added},
                  {"started", st->total_started},
                  {"completed", st->total_completed},
                  {"failed", st->total_failed},
                  {"retried", st->total_retried},
                  {"recovered", st->total_recovered},
                  {"deduplicated", st->total_deduplicated},
                  {"removed", st->total_removed}};
    struct emq__buf b;
    cli_json_begin(&b);
    cli_json_str(&b, "queue", queue);
    cli_json_counts(&b, st);
    emq__json_i64_member(&b, "limited_ms", st->limited_ms);
    cli_json_bool(&b, "maxed", st->maxed);
    emq__json_i64_member(&b, "concurrency", st->concurrency);
    emq__json_i64_member(&b, "next_due_at_ms", st->next_due_at_ms);
    emq__json_i64_member(&b, "oldest_waiting_at_ms", st->oldest_waiting_at_ms);
    emq__json_i64_member(&b, "now_ms", st->now_ms);
    emq__json_key(&b, "totals");
    emq__buf_char(&b, '{');
    for (size_t i = 0; i < EMQ_ARRAY_LEN(totals); i++)
        emq__json_i64_member(&b, totals[i].name, totals[i].n);
    emq__buf_char(&b, '}');
    return cli_json_end(cli, &b);
}

static void print_text(emq_str queue, const emq_queue_stats *st)
{
    char span[40];
    printf("%.*s:", EMQ_STR_ARG(queue));
    for (int state = 1; state <= EMQ_STATE_COUNT; state++)
        printf(" %s %lld%s", emq_state_name(state), (long long)st->count[state],
               state < EMQ_STATE_COUNT ? "," : "");
    printf("%s%s\n", st->paused ? "; paused" : "", st->maxed ? "; at its concurrency limit" : "");
    if (st->limited_ms)
        printf("  rate limit ends in %s\n", emq__duration_format(st->limited_ms, span));
    if (st->oldest_waiting_at_ms)
        printf("  the next job has waited %s\n",
               emq__duration_format(st->now_ms - st->oldest_waiting_at_ms, span));
    if (st->next_due_at_ms > st->now_ms)
        printf("  the next delayed job is due in %s\n",
               emq__duration_format(st->next_due_at_ms - st->now_ms, span));
    printf("  in all: added %lld, started %lld, completed %lld, failed %lld, retried %lld, "
           "recovered %lld, "
           "deduplicated %lld, removed %lld\n",
           (long long)st->total_added, (long long)st->total_started, (long long)st->total_completed,
           (long long)st->total_failed, (long long)st->total_retried,
           (long long)st->total_recovered, (long long)st->total_deduplicated,
           (long long)st->total_removed);
}

static int run(struct cli *cli)
{
    emq_str queue = emq_cstr(cli->args.words[0]);
    emq_queue_stats stats = {.size = sizeof stats};
    emq_error err;
    emq_status s = emq_stats(cli->client, queue, &stats, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    if (cli->globals.json)
        return print_json(cli, queue, &stats);
    print_text(queue, &stats);
    return CLI_OK;
}

const struct cli_verb cli_verb_stats = {
    .name = "stats",
    .summary = "count the jobs of a queue by state",
    .usage = "QUEUE",
    .help = "The totals count what EchoMQ's programs did since the queue was made, BullMQ's on the "
            "same server not\n"
            "included. They survive trimming and restarts.",
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
