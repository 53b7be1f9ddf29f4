/* SPDX-License-Identifier: MIT
 *
 * emq pause, resume, drain, clean, obliterate, sweep: acts on a whole queue.
 */
#include "cli/cli.h"

#include "base/json.h"

static emq_str queue_of(const struct cli *cli)
{
    return emq_cstr(cli->args.words[0]);
}

/* "{"queue":…,"removed":N}" or "N jobs removed" on stderr. */
static int report(struct cli *cli, emq_status s, const emq_error *err, const char *what,
                  int64_t count)
{
    if (s != EMQ_OK)
        return cli_failure(cli, s, err);
    if (!cli->globals.json) {
        cli_say(cli, "%lld job%s %s", (long long)count, count == 1 ? "" : "s", what);
        return CLI_OK;
    }
    struct emq__buf b;
    cli_json_begin(&b);
    cli_json_str(&b, "queue", queue_of(cli));
    emq__json_i64_member(&b, what, count);
    return cli_json_end(cli, &b);
}

/* ---- pause, resume ----------------------------------------------------------------------- */

static int report_paused(struct cli *cli, emq_status s, const emq_error *err, bool paused)
{
    struct emq__buf b;
    if (s != EMQ_OK)
        return cli_failure(cli, s, err);
    if (!cli->globals.json)
        return CLI_OK;
    cli_json_begin(&b);
    cli_json_str(&b, "queue", queue_of(cli));
    cli_json_bool(&b, "paused", paused);
    return cli_json_end(cli, &b);
}

static int run_pause(struct cli *cli)
{
    emq_error err;
    emq_status s = emq_pause(cli->client, queue_of(cli), &err);
    return report_paused(cli, s, &err, true);
}

const struct cli_verb cli_verb_pause = {
    .name = "pause",
    .summary = "hand out no more jobs of a queue",
    .usage = "QUEUE",
    .help = "Running jobs go on; adding goes on. It holds for every worker, until `emq resume`.",
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_pause,
};

static int run_resume(struct cli *cli)
{
    emq_error err;
    emq_status s = emq_resume(cli->client, queue_of(cli), &err);
    return report_paused(cli, s, &err, false);
}

const struct cli_verb cli_verb_resume = {
    .name = "resume",
    .summary = "hand out jobs of a paused queue again",
    .usage = "QUEUE",
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_resume,
};

/* ---- drain ------------------------------------------------------------------------------- */

struct drain_options {
    bool delayed;
};

static const struct cli_option drain_table[] = {
    {.name = "--delayed",
     .type = CLI_FLAG,
     .at = offsetof(struct drain_options, delayed),
     .help = "the delayed jobs too"},
    {.name = NULL},
};

static int run_drain(struct cli *cli)
{
    const struct drain_options *o = cli->options;
    emq_error err;
    int64_t count = 0;
    emq_status s = emq_drain(cli->client, queue_of(cli), o->delayed, &count, &err);
    return report(cli, s, &err, "removed", count);
}

const struct cli_verb cli_verb_drain = {
    .name = "drain",
    .summary = "remove all waiting jobs of a queue",
    .usage = "QUEUE [--delayed]",
    .help = "Active and finished jobs stay.",
    .options = drain_table,
    .options_size = sizeof(struct drain_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_drain,
};

/* ---- clean ------------------------------------------------------------------------------- */

struct clean_options {
    int64_t older, limit;
    int32_t state;
    bool has_older;
};

static const struct cli_option clean_table[] = {
    {.name = "--state",
     .type = CLI_STATE,
     .at = offsetof(struct clean_options, state),
     .value = "S",
     .help = "the state whose jobs are removed"},
    {.name = "--older",
     .type = CLI_SPAN,
     .at = offsetof(struct clean_options, older),
     .value = "D",
     .seen_at = offsetof(struct clean_options, has_older),
     .help = "only jobs finished (else: added) at least D ago; 0 = all"},
    {.name = "--limit",
     .type = CLI_INT,
     .at = offsetof(struct clean_options, limit),
     .value = "N",
     .help = "at most N jobs",
     .min = 1,
     .max = INT64_MAX},
    {.name = NULL},
};

static int run_clean(struct cli *cli)
{
    const struct clean_options *o = cli->options;
    emq_error err;
    int64_t count = 0;
    if (!o->state || !o->has_older)
        return cli_usage(cli, "--state and --older are needed");
    emq_status s =
        emq_clean(cli->client, queue_of(cli), o->state, o->older, o->limit, &count, &err);
    return report(cli, s, &err, "removed", count);
}

const struct cli_verb cli_verb_clean = {
    .name = "clean",
    .summary = "remove old jobs of a state",
    .usage = "QUEUE --state S --older D [--limit N]",
    .options = clean_table,
    .options_size = sizeof(struct clean_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_clean,
};

/* ---- obliterate -------------------------------------------------------------------------- */

struct obliterate_options {
    bool force;
};

static const struct cli_option obliterate_table[] = {
    {.name = "--force",
     .type = CLI_FLAG,
     .at = offsetof(struct obliterate_options, force),
     .help = "even if it is not paused or has active jobs"},
    {.name = NULL},
};

static int run_obliterate(struct cli *cli)
{
    const struct obliterate_options *o = cli->options;
    emq_error err;
    int64_t count = 0;
    emq_status s = emq_obliterate(cli->client, queue_of(cli), o->force, &count, &err);
    if (s == EMQ_WRONG_STATE)
        return cli_error(cli, CLI_NO, "queue %s is not paused: pause it first, or use --force",
                         cli->args.words[0]);
    if (s == EMQ_LOCKED)
        return cli_error(cli, CLI_NO, "queue %s has active jobs: wait for them, or use --force",
                         cli->args.words[0]);
    return report(cli, s, &err, "removed", count);
}

const struct cli_verb cli_verb_obliterate = {
    .name = "obliterate",
    .summary = "remove a queue and everything of it",
    .usage = "QUEUE [--force]",
    .help =
        "Its jobs in every state, with their data, logs and results; dedup ids, events, "
        "settings, totals and\n"
        "counters: ids begin at 1 again. On a server also what BullMQ has there: schedulers and "
        "metrics.\n"
        "None of it can be brought back. It goes in slices; if it is interrupted, call it again.",
    .options = obliterate_table,
    .options_size = sizeof(struct obliterate_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_obliterate,
};

/* ---- sweep ------------------------------------------------------------------------------- */

struct sweep_options {
    int64_t max_stalled;
    bool has_max;
};

static const struct cli_option sweep_table[] = {
    {.name = "--max-stalled",
     .type = CLI_INT,
     .at = offsetof(struct sweep_options, max_stalled),
     .value = "N",
     .seen_at = offsetof(struct sweep_options, has_max),
     .max = 1000000,
     .help = "recoveries a job may have (3); 0 = none: it fails"},
    {.name = NULL},
};

static int run_sweep(struct cli *cli)
{
    const struct sweep_options *o = cli->options;
    emq_error err;
    int64_t recovered = 0, failed = 0;
    emq_sweep_opts opts = {.size = sizeof opts,
                           .max_stalled = !o->has_max      ? 0
                                          : o->max_stalled ? o->max_stalled
                                                           : -1};
    emq_status s = emq_sweep(cli->client, queue_of(cli), &opts, &recovered, &failed, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    if (cli->globals.json)
        printf("{\"recovered\":%lld,\"failed\":%lld}\n", (long long)recovered, (long long)failed);
    else
        cli_say(cli, "%lld recovered, %lld failed", (long long)recovered, (long long)failed);
    return CLI_OK;
}

const struct cli_verb cli_verb_sweep = {
    .name = "sweep",
    .summary = "return jobs whose worker died",
    .usage = "QUEUE [--max-stalled N]",
    .help = "Every worker does this by itself; this is for a queue without a running worker.",
    .options = sweep_table,
    .options_size = sizeof(struct sweep_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_sweep,
};
