/* SPDX-License-Identifier: MIT
 *
 * emq why: the life of one job, and why it ran more than once.
 */
#include "cli/cli.h"
#include "cli/text.h"
#include "lab/why.h"

#include "base/json.h"

static const char *state_of(const struct emq__why *y)
{
    return y->job ? emq_state_name(y->job->state) : "gone";
}

/* A member that may be unknown: null then. */
static void json_known(struct emq__buf *b, const char *name, emq_str value)
{
    if (value.len)
        cli_json_str(b, name, value);
    else {
        emq__json_key(b, name);
        emq__buf_text(b, "null");
    }
}

static void json_handout(struct emq__buf *b, const struct emq__handout *h)
{
    emq__json_sep(b);
    emq__buf_char(b, '{');
    emq__json_i64_member(b, "attempt", h->attempt);
    emq__json_i64_member(b, "at", h->at_ms);
    json_known(b, "worker", h->worker);
    json_known(b, "host", h->host);
    emq__json_i64_member_if(b, "pid", h->pid);
    emq__json_i64_member_if(b, "fence", h->fence);
    cli_json_str(b, "end", emq_cstr(emq__handout_end_name(h->end)));
    emq__json_i64_member_if(b, "endedAt", h->ended_at_ms);
    emq__json_i64_member_if(b, "refusedAt", h->refused_at_ms);
    if (h->reason.len)
        cli_json_str(b, "reason", h->reason);
    if (h->stopped.len)
        cli_json_str(b, "renewalsStoppedFor", h->stopped);
    emq__buf_char(b, '}');
}

static void json_entry(struct emq__buf *b, const struct emq__why_entry *e)
{
    emq__json_sep(b);
    emq__buf_char(b, '{');
    emq__json_i64_member(b, "at", e->at_ms);
    cli_json_str(b, "what", emq_cstr(e->what));
    if (e->who.len)
        cli_json_str(b, "who", e->who);
    emq__json_i64_member_if(b, "attempt", e->attempt);
    cli_json_str(b, "text", e->text);
    emq__buf_char(b, '}');
}

static int print_json(const struct cli *cli, const struct emq__why *y)
{
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "queue", emq_cstr(cli->args.words[0]));
    cli_json_str(&b, "id", emq_cstr(cli->args.words[1]));
    cli_json_str(&b, "state", emq_cstr(state_of(y)));
    cli_json_bool(&b, "whole", emq__why_whole(y));
    emq__json_i64_member(&b, "logs", y->logs);
    emq__json_key(&b, "handouts");
    emq__buf_char(&b, '[');
    for (size_t i = 0; i < y->n_handouts; i++)
        json_handout(&b, &y->handouts[i]);
    emq__buf_char(&b, ']');
    emq__json_key(&b, "life");
    emq__buf_char(&b, '[');
    for (size_t i = 0; i < y->n; i++)
        json_entry(&b, &y->entries[i]);
    emq__buf_char(&b, ']');
    emq__json_key(&b, "because");
    emq__buf_char(&b, '[');
    for (size_t i = 0; i < y->n_because; i++) {
        emq__json_sep(&b);
        emq__json_quote(&b, y->because[i]);
    }
    emq__buf_char(&b, ']');
    return cli_json_end(cli, &b);
}

static void print_text(const struct emq__why *y)
{
    char at[40];

    for (size_t i = 0; i < y->n; i++) {
        printf("%s  ", cli_time(y->entries[i].at_ms, at));
        cli_print_text(y->entries[i].text);
        putchar('\n');
    }
    printf("\n%s", state_of(y));
    if (y->n_handouts == 1)
        printf(", handed out once");
    else
        printf(", handed out %zu times", y->n_handouts);
    if (y->logs)
        printf(", %lld line%s of log", (long long)y->logs, y->logs == 1 ? "" : "s");
    putchar('\n');
    for (size_t i = 0; i < y->n_because; i++) {
        cli_print_text(y->because[i]);
        putchar('\n');
    }
    if (!y->begins)
        puts("the events of its beginning are gone: the queue keeps the last of them only");
    if (y->nameless)
        printf("who took it is not known of %zu hand-out%s: a job's history has its last %d "
               "entries, while the job is there, and none by workers of BullMQ\n",
               y->nameless, y->nameless == 1 ? "" : "s", EMQ__HISTORY_MAX);
    else if (y->may_forget)
        printf("earlier entries of its history may be gone: it has the last %d\n",
               EMQ__HISTORY_MAX);
}

static int run(struct cli *cli)
{
    emq_str queue = emq_cstr(cli->args.words[0]), id = emq_cstr(cli->args.words[1]);
    struct emq__arena mem = {0};
    struct emq__why why;
    emq_error err;
    int code = CLI_OK;
    emq_status s = emq__why(cli->client, queue, id, &mem, &why, &err);

    if (s == EMQ_NOT_FOUND)
        code = cli_error(cli, CLI_NO, "queue %s has no job %s, and no event of one",
                         cli->args.words[0], cli->args.words[1]);
    else if (s != EMQ_OK)
        code = cli_failure(cli, s, &err);
    else if (cli->globals.json)
        code = print_json(cli, &why);
    else
        print_text(&why);
    emq__arena_free(&mem);
    return code;
}

const struct cli_verb cli_verb_why = {
    .name = "why",
    .summary = "tell the life of a job, and why it ran more than once",
    .usage = "QUEUE ID",
    .help =
        "In order: the add, each hand-out with its worker, host, process and fence, locks that "
        "were lost, late\n"
        "acknowledgements that were refused, doubts and how they were settled, what "
        "administrators did, the end.\n"
        "Below it a line for each attempt after the first says why it began. Host and process are "
        "of the name that a\n"
        "worker has by itself, host:pid:n: one that was given another with --name is told by "
        "that.\n"
        "\n"
        "It is put together of the record, of the job's history, of the markers of its effects and "
        "of the events\n"
        "that the queue still has. Hand-outs by workers of BullMQ are told by their events; only "
        "the last one\n"
        "names its worker, if that has a name. What is missing is told at the end: the history has "
        "the job's last\n"
        "100 entries. With --json \"whole\" is true only if the add and the worker of each "
        "hand-out "
        "are known and no\n"
        "entry can be gone.",
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
