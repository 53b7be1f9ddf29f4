/* SPDX-License-Identifier: MIT
 *
 * emq stats: the counts of a queue.
 */
#include "cli/cli.h"

#include "base/json.h"

static void print_json(emq_str queue, const emq_queue_stats *st)
{
    static const int order[] = {EMQ_WAITING,     EMQ_ACTIVE,           EMQ_DELAYED,
                                EMQ_PRIORITIZED, EMQ_WAITING_CHILDREN, EMQ_COMPLETED_STATE,
                                EMQ_FAILED_STATE};
    struct emq__buf b;
    emq__buf_init(&b, 8192);
    emq__buf_text(&b, "{\"queue\":");
    emq__json_quote(&b, queue);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(order); i++)
        emq__buf_printf(&b, ",\"%s\":%lld", emq_state_name(order[i]),
                        (long long)st->count[order[i]]);
    emq__buf_printf(&b, ",\"paused\":%s,\"limited_ms\":%lld,\"maxed\":%s",
                    st->paused ? "true" : "false", (long long)st->limited_ms,
                    st->maxed ? "true" : "false");
    emq__buf_printf(&b,
                    ",\"concurrency\":%lld,\"next_due_at_ms\":%lld,\"oldest_waiting_at_ms\":%lld,"
                    "\"now_ms\":%lld",
                    (long long)st->concurrency, (long long)st->next_due_at_ms,
                    (long long)st->oldest_waiting_at_ms, (long long)st->now_ms);
    emq__buf_printf(
        &b, ",\"totals\":{\"added\":%lld,\"started\":%lld,\"completed\":%lld,\"failed\":%lld",
        (long long)st->total_added, (long long)st->total_started, (long long)st->total_completed,
        (long long)st->total_failed);
    emq__buf_printf(&b,
                    ",\"retried\":%lld,\"recovered\":%lld,\"deduplicated\":%lld,\"removed\":%lld}}",
                    (long long)st->total_retried, (long long)st->total_recovered,
                    (long long)st->total_deduplicated, (long long)st->total_removed);
    printf("%.*s\n", (int)b.len, b.ptr);
    emq__buf_free(&b);
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
        print_json(queue, &stats);
    else
        print_text(queue, &stats);
    return CLI_OK;
}

const struct cli_verb cli_verb_stats = {
    .name = "stats",
    .summary = "count the jobs of a queue by state",
    .usage = "QUEUE",
    .help = "The totals since the queue was made survive trimming and restarts.",
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run,
};
