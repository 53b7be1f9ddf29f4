/* SPDX-License-Identifier: MIT
 *
 * emq logs: the log of a job. emq tail: the events of a queue as they happen.
 */
#include "cli/cli.h"
#include "cli/stop.h"
#include "cli/text.h"

#include "base/json.h"
#include "base/str.h"

struct logs_options {
    int64_t last;
};

static const struct cli_option logs_table[] = {
    {.name = "--last",
     .type = CLI_INT,
     .at = offsetof(struct logs_options, last),
     .value = "N",
     .help = "only the newest N lines",
     .min = 1,
     .max = 1000000},
    {.name = NULL},
};

static void print_line(const struct cli *cli, emq_str line)
{
    if (!cli->globals.json) {
        cli_print_text(line);
        putchar('\n');
        return;
    }
    struct emq__buf b;
    emq__buf_init(&b, 1 << 20);
    emq__json_quote(&b, line);
    printf("%.*s\n", (int)b.len, b.ptr);
    emq__buf_free(&b);
}

static int64_t count_lines(emq_str entry)
{
    int64_t n = 1;
    for (size_t i = 0; i < entry.len; i++)
        n += entry.ptr[i] == '\n';
    return n;
}

/* An entry has several lines when a program wrote them in a burst. Prints all but the first `skip`. */
static void print_entry(const struct cli *cli, emq_str entry, int64_t skip)
{
    for (;;) {
        const char *end = entry.len ? memchr(entry.ptr, '\n', entry.len) : NULL;
        size_t len = end ? (size_t)(end - entry.ptr) : entry.len;
        if (skip-- <= 0)
            print_line(cli, emq_strn(entry.ptr, len));
        if (!end)
            return;
        entry = emq_strn(end + 1, entry.len - len - 1);
    }
}

static int run_logs(struct cli *cli)
{
    const struct logs_options *o = cli->options;
    emq_error err;
    emq_list *entries = NULL;
    emq_status s = emq_logs(cli->client, emq_cstr(cli->args.words[0]), emq_cstr(cli->args.words[1]),
                            0, 0, &entries, &err);
    if (s == EMQ_NOT_FOUND)
        return cli_no_job(cli);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    size_t n = emq_list_len(entries), first = o->last ? n : 0;
    int64_t lines = 0;
    while (first > 0 && lines < o->last)
        lines += count_lines(emq_list_str(entries, --first));
    for (size_t i = first; i < n && !ferror(stdout); i++, lines = 0)
        print_entry(cli, emq_list_str(entries, i),
                    o->last && lines > o->last ? lines - o->last : 0);
    emq_list_free(entries);
    return CLI_OK;
}

const struct cli_verb cli_verb_logs = {
    .name = "logs",
    .summary = "print the log of a job",
    .usage = "QUEUE ID [--last N]",
    .options = logs_table,
    .options_size = sizeof(struct logs_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run_logs,
};

/* ---- tail -------------------------------------------------------------------------------- */

enum { LOOK_MS = 1000 }; /* how often a waiting tail looks whether its reader has gone */

struct tail_options {
    emq_str after;
    int64_t count, wait_ms;
    bool all, has_wait;
};

static const struct cli_option tail_table[] = {
    {.name = "--all",
     .type = CLI_FLAG,
     .at = offsetof(struct tail_options, all),
     .help = "begin with the oldest event kept, not with new ones"},
    {.name = "--after",
     .type = CLI_TEXT,
     .at = offsetof(struct tail_options, after),
     .value = "ID",
     .may_be_empty = true,
     .help = "begin behind this event"},
    {.name = "--count",
     .type = CLI_INT,
     .at = offsetof(struct tail_options, count),
     .value = "N",
     .help = "end after N events",
     .min = 1,
     .max = INT64_MAX},
    {.name = "--wait",
     .type = CLI_SPAN,
     .at = offsetof(struct tail_options, wait_ms),
     .value = "D",
     .seen_at = offsetof(struct tail_options, has_wait),
     .help = "end when nothing came for D and say how to go on; 0 = print what is there"},
    {.name = NULL},
};

static void print_event(const struct cli *cli, emq_str json)
{
    if (cli->globals.json) {
        printf("%.*s\n", (int)json.len, json.ptr);
        return;
    }
    struct emq__arena mem = {0};
    struct emq__json object = emq__json_root(json), value;
    emq_str key;
    size_t pos = 0;
    while (emq__json_next(object, &pos, &key, &value)) {
        emq_str text = value.raw;
        if (value.type == EMQ__JSON_STRING && !emq__json_str(value, &mem, &text))
            text = value.raw;
        if (!emq__str_is(key, "id") && !emq__str_is(key, "event"))
            printf(" %.*s=", EMQ_STR_ARG(key));
        cli_print_text(text);
        if (emq__str_is(key, "id"))
            putchar(' ');
    }
    putchar('\n');
    fflush(stdout);
    emq__arena_free(&mem);
}

static int run_tail(struct cli *cli)
{
    const struct tail_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);
    emq_str after = o->all ? emq_cstr("") : o->after.len ? o->after : emq_cstr("$");
    char cursor[EMQ_CURSOR_MAX + 1] = "";
    int64_t left = o->count ? o->count : INT64_MAX;
    int64_t idle = o->has_wait ? o->wait_ms : INT64_MAX;
    emq_error err;
    emq_status s = EMQ_OK;

    if (o->all && o->after.len)
        return cli_usage(cli, "--all and --after exclude each other");
    cli_interrupt_on_signals(cli->client);
    while (left > 0 && !ferror(stdout) && !cli_reader_gone()) {
        emq_list *events = NULL;
        int64_t slice = idle < LOOK_MS ? idle : LOOK_MS;
        s = emq_events(cli->client, queue, after, left < 500 ? (size_t)left : 500, slice, &events,
                       cursor, &err);
        after = emq_cstr(cursor);
        if (s == EMQ_TIMEOUT && (idle -= slice) > 0)
            continue;
        if (s != EMQ_OK)
            break;
        idle = o->has_wait ? o->wait_ms : INT64_MAX;
        for (size_t i = 0; i < emq_list_len(events); i++, left--)
            print_event(cli, emq_list_str(events, i));
        emq_list_free(events);
        fflush(stdout);
    }
    if (s == EMQ_TIMEOUT)
        cli_say(cli, "nothing more came; go on with --after %s", cursor);
    return s == EMQ_OK || s == EMQ_TIMEOUT || s == EMQ_CANCELLED ? CLI_OK
                                                                 : cli_failure(cli, s, &err);
}

const struct cli_verb cli_verb_tail = {
    .name = "tail",
    .summary = "print the events of a queue as they happen",
    .usage = "QUEUE [--all|--after ID] [--count N] [--wait D]",
    .help = "Ends on INT or TERM, after --count events, or when nothing came for --wait.",
    .options = tail_table,
    .options_size = sizeof(struct tail_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run_tail,
};
