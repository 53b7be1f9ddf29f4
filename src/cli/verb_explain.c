/* SPDX-License-Identifier: MIT
 *
 * emq explain: what a queue guarantees as it is used now.
 */
#include "cli/cli.h"
#include "cli/text.h"
#include "lab/explain.h"

#include "base/json.h"

enum { SWEEP_MS = 5000 };

struct explain_options {
    int64_t sweep_ms;
    bool has_sweep;
};

static const struct cli_option explain_table[] = {
    {.name = "--stalled-interval",
     .type = CLI_SPAN,
     .at = offsetof(struct explain_options, sweep_ms),
     .seen_at = offsetof(struct explain_options, has_sweep),
     .value = "D",
     .min = 10,
     .max = CLI_DAY_MS,
     .help = "how often the workers of the queue sweep (5s)"},
    {.name = NULL},
};

static int print_json(const struct cli *cli, const struct emq__explain *x)
{
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "queue", emq_cstr(cli->args.words[0]));
    emq__json_i64_member(&b, "active", x->active);
    emq__json_i64_member(&b, "concurrency", x->concurrency);
    emq__json_i64_member(&b, "atLeastOnce", x->at_least_once);
    emq__json_i64_member(&b, "atMostOnce", x->at_most_once);
    emq__json_i64_member(&b, "lockEnded", x->ended);
    emq__json_i64_member(&b, "recoveryMs", x->recovery_ms);
    emq__json_i64_member(&b, "crashTwice", x->at_least_once);
    emq__json_i64_member(&b, "processTwice", x->worker_most);
    cli_json_str(&b, "storeLost", emq_cstr(x->server_loss));
    return cli_json_end(cli, &b);
}

static void print_text(emq_str queue, const struct emq__explain *x, int64_t sweep_ms)
{
    char span[40], interval[40];

    cli_print_text(queue);
    printf(
        ": no job is lost by a crash of a worker. How often one may run is for its worker to say: "
        "at-least-once (the default), at-most-once, or fire-and-forget, which leaves no trace "
        "here.\n");
    printf("held now: %lld at-least-once, %lld at-most-once\n", (long long)x->at_least_once,
           (long long)x->at_most_once);
    printf(
        "a crash of all workers now: %lld may run twice, %lld end failed without running again\n",
        (long long)x->at_least_once, (long long)x->at_most_once);
    if (x->worker_most) {
        printf("a crash of one process: at most %lld may run twice", (long long)x->worker_most);
        if (x->worker.len) {
            fputs(" (", stdout);
            cli_print_text(x->worker);
            putchar(')');
        }
        putchar('\n');
    }
    if (x->ended > x->foreign_ended)
        printf("%lld of them have no lock any more: they go back with the next sweep, whoever "
               "still works on "
               "them\n",
               (long long)(x->ended - x->foreign_ended));
    if (x->foreign_ended)
        printf("%lld of them, taken by a BullMQ worker, have no lock: they go back when a second "
               "sweep finds none either\n",
               (long long)x->foreign_ended);
    if (x->active)
        printf("they are back in line within %s: the longest lock, and a sweep each %s%s; for as "
               "long as any "
               "EchoMQ worker of the queue lives\n",
               emq__duration_format(x->recovery_ms, span), emq__duration_format(sweep_ms, interval),
               x->foreign ? " (for what a BullMQ worker took the first one marks, a later one "
                            "takes back)"
                          : "");
    if (x->concurrency)
        printf("never more than %lld at once: the queue's concurrency limit\n",
               (long long)x->concurrency);
    else
        puts("there is no limit to how many are held at once");
    printf("a crash of the store: %s\n", x->server_loss);
    puts("an effect happens once when it is idempotent, commits with the acknowledgement, or has a "
         "marker: "
         "echomq-delivery(7)");
}

static int run(struct cli *cli)
{
    const struct explain_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);
    int64_t sweep_ms = o->has_sweep ? o->sweep_ms : SWEEP_MS;
    struct emq__arena mem = {0};
    struct emq__explain x;
    emq_error err;
    int code = CLI_OK;
    emq_status s = emq__explain(cli->client, queue, sweep_ms, &mem, &x, &err);

    if (s == EMQ_NOT_FOUND)
        code = cli_error(cli, CLI_NO, "there is no queue %s", cli->args.words[0]);
    else if (s != EMQ_OK)
        code = cli_failure(cli, s, &err);
    else if (cli->globals.json)
        code = print_json(cli, &x);
    else
        print_text(queue, &x, sweep_ms);
    emq__arena_free(&mem);
    return code;
}

const struct cli_verb cli_verb_explain = {
    .name = "explain",
    .summary = "say what a queue guarantees, and what a crash would do now",
    .usage = "QUEUE",
    .help = "How the active jobs are held, how many of them a crash would make run twice, when "
            "they would be back\n"
            "in line, and what a crash of the store loses. A queue that does not exist is exit 1.",
    .options = explain_table,
    .options_size = sizeof(struct explain_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
