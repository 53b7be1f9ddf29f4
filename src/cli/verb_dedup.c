/* SPDX-License-Identifier: MIT
 *
 * emq dedup: who holds a dedup id, and its release.
 */
#include "cli/cli.h"

#include "base/json.h"

struct dedup_options {
    emq_str owner;
};

static const struct cli_option dedup_table[] = {
    {.name = "--owner",
     .type = CLI_TEXT,
     .at = offsetof(struct dedup_options, owner),
     .value = "JOB",
     .help = "release only if this job holds it"},
    {.name = NULL},
};

static int show(struct cli *cli, emq_str queue, emq_str id)
{
    char owner[EMQ_ID_MAX + 1], span[40];
    int64_t ttl_ms = 0;
    emq_error err;
    emq_status s = emq_dedup_show(cli->client, queue, id, owner, &ttl_ms, &err);
    if (s == EMQ_NOT_FOUND)
        return cli_error(cli, CLI_NO, "no job of queue %s holds dedup id %s", queue.ptr, id.ptr);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    if (!cli->globals.json) {
        printf("%s, %s%s\n", owner, ttl_ms ? "for another " : "until it is finished",
               ttl_ms ? emq__duration_format(ttl_ms, span) : "");
        return CLI_OK;
    }
    struct emq__buf b;
    cli_json_begin(&b);
    cli_json_str(&b, "dedupId", id);
    cli_json_str(&b, "owner", emq_cstr(owner));
    emq__json_i64_member(&b, "ttl_ms", ttl_ms);
    return cli_json_end(cli, &b);
}

static int release(struct cli *cli, emq_str queue, emq_str id)
{
    const struct dedup_options *o = cli->options;
    emq_error err;
    emq_status s = emq_dedup_release(cli->client, queue, id, o->owner, &err);
    if (s == EMQ_NOT_FOUND)
        return cli_error(cli, CLI_NO, "no job of queue %s%s%s holds dedup id %s", queue.ptr,
                         o->owner.len ? " with the id " : "", o->owner.len ? o->owner.ptr : "",
                         id.ptr);
    return s == EMQ_OK ? cli_done(cli, "dedupId", id, "released") : cli_failure(cli, s, &err);
}

static int run(struct cli *cli)
{
    emq_str queue = emq_cstr(cli->args.words[1]), id = emq_cstr(cli->args.words[2]);
    if (strcmp(cli->args.words[0], "show") == 0)
        return show(cli, queue, id);
    if (strcmp(cli->args.words[0], "release") == 0)
        return release(cli, queue, id);
    return cli_usage(cli, "\"%s\" is neither show nor release", cli->args.words[0]);
}

const struct cli_verb cli_verb_dedup = {
    .name = "dedup",
    .summary = "show or release a producer dedup id",
    .usage = "show|release QUEUE DEDUP_ID [--owner JOB]",
    .help = "Producer dedup drops a second add; it does not make a handler's effect happen once.",
    .options = dedup_table,
    .options_size = sizeof(struct dedup_options),
    .min_words = 3,
    .max_words = 3,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
