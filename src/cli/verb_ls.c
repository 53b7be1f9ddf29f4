/* SPDX-License-Identifier: MIT
 *
 * emq ls: queues, or the jobs of a queue.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/str.h"

struct ls_options {
    emq_str worker;
    int64_t limit;
    int32_t state;
    bool newest;
};

static const struct cli_option ls_table[] = {
    {.name = "--state",
     .type = CLI_STATE,
     .at = offsetof(struct ls_options, state),
     .value = "S",
     .help = "waiting, active, delayed, prioritized, waiting-children, completed or failed"},
    {.name = "--worker",
     .type = CLI_TEXT,
     .at = offsetof(struct ls_options, worker),
     .value = "WORKER",
     .help = "active jobs held under this name, with --json their tokens"},
    {.name = "--limit",
     .type = CLI_INT,
     .at = offsetof(struct ls_options, limit),
     .value = "N",
     .help = "at most N jobs (all)",
     .min = 1,
     .max = INT64_MAX},
    {.name = "--newest",
     .type = CLI_FLAG,
     .at = offsetof(struct ls_options, newest),
     .help = "newest first"},
    {.name = NULL},
};

/* The name, a count for each state, and whether it is paused. */
enum { COLUMNS = EMQ_STATE_COUNT + 2 };

static int print_queue_json(struct cli *cli, emq_str name, const emq_queue_stats *st)
{
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "queue", name);
    cli_json_counts(&b, st);
    return cli_json_end(cli, &b);
}

static void queue_row(struct cli_table *table, emq_str name, const emq_queue_stats *st)
{
    char text[EMQ_STATE_COUNT][24], label[EMQ_QUEUE_NAME_MAX + 16];
    const char *cells[COLUMNS] = {cli_cell(name, EMQ_QUEUE_NAME_MAX, label, sizeof label)};

    for (int i = 0; i < EMQ_STATE_COUNT; i++) {
        snprintf(text[i], sizeof text[i], "%lld", (long long)st->count[i + 1]);
        cells[i + 1] = text[i];
    }
    cells[COLUMNS - 1] = st->paused ? "yes" : "";
    cli_table_row(table, cells);
}

static struct cli_table *queue_table(void)
{
    char names[EMQ_STATE_COUNT][24];
    const char *columns[COLUMNS] = {"QUEUE"};
    bool right[COLUMNS] = {false};

    for (int i = 0; i < EMQ_STATE_COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%s", emq_state_name(i + 1));
        for (char *p = names[i]; *p; p++)
            *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
        columns[i + 1] = names[i];
        right[i + 1] = true;
    }
    columns[COLUMNS - 1] = "PAUSED";
    return cli_table_new(columns, right, COLUMNS);
}

/* A queue that can't be read for what is in its keys is told, and the others are listed. */
static int print_queues(struct cli *cli, const emq_list *names)
{
    struct cli_table *table = cli->globals.json ? NULL : queue_table();
    emq_status s = EMQ_OK;
    int code = CLI_OK;

    for (size_t i = 0; i < emq_list_len(names) && (s == EMQ_OK || s == EMQ_E_INVALID); i++) {
        emq_queue_stats st = {.size = sizeof st};
        emq_str name = emq_list_str(names, i);
        emq_error err;
        int failed = CLI_OK;
        s = emq_stats(cli->client, name, &st, &err);
        if (s != EMQ_OK)
            failed = cli_failure(cli, s, &err);
        else if (cli->globals.json)
            failed = print_queue_json(cli, name, &st);
        else
            queue_row(table, name, &st);
        code = failed ? failed : code;
    }
    if (!cli->globals.json && cli_table_print(table) != 0)
        return cli_error(cli, CLI_AGAIN, "out of memory");
    return code;
}

static int list_queues(struct cli *cli)
{
    emq_error err;
    emq_list *names = NULL;
    int code = CLI_OK;
    emq_status s = emq_queues(cli->client, &names, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    if (emq_list_len(names) > 0)
        code = print_queues(cli, names);
    else if (!cli->globals.json)
        cli_say(cli, "no queues yet");
    emq_list_free(names);
    return code;
}

static void print_job(const struct cli *cli, const emq_job *j)
{
    char at[40], id[80], name[80], data[80];
    if (cli->globals.json) {
        emq_str json = emq_job_json(j);
        fwrite(json.ptr, 1, json.len, stdout);
        putchar('\n');
        return;
    }
    printf("%-20s %-16s %-16s %s  %s\n", cli_cell(emq_job_id(j), 60, id, sizeof id),
           emq_state_name(emq_job_state(j)), cli_cell(emq_job_name(j), 40, name, sizeof name),
           cli_time(emq_job_timestamp_at_ms(j), at),
           cli_cell(emq_job_data(j), 40, data, sizeof data));
}

/* Pages by keyset: however long the list, a page costs the same. When the job that ended the last
 * page has left the state meanwhile, one page is found by rank instead. */
static int list_jobs(struct cli *cli, emq_str queue, int state, int64_t *left)
{
    const struct ls_options *o = cli->options;
    char last[EMQ_ID_MAX + 1] = "";
    int64_t done = 0;
    emq_error err;
    emq_list *page = NULL;
    emq_status s = EMQ_OK;

    while (*left > 0) {
        emq_find_opts opts = {.size = sizeof opts,
                              .state = state,
                              .newest_first = o->newest,
                              .offset = done,
                              .limit = *left < 500 ? *left : 500,
                              .after_id = emq_cstr(last)};
        s = emq_find(cli->client, queue, &opts, &page, &err);
        if (s == EMQ_NOT_FOUND) {
            opts.after_id = emq_cstr("");
            s = emq_find(cli->client, queue, &opts, &page, &err);
        }
        if (s != EMQ_OK)
            break;
        size_t n = emq_list_len(page);
        for (size_t i = 0; i < n; i++) {
            const emq_job *j = emq_list_job(page, i);
            print_job(cli, j);
            snprintf(last, sizeof last, "%.*s", EMQ_STR_ARG(emq_job_id(j)));
        }
        emq_list_free(page);
        *left -= (int64_t)n;
        done += (int64_t)n;
        if (n == 0 || ferror(stdout)) /* a page of long jobs may be shorter than its limit */
            break;
    }
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

/* What a worker holds is few and is read at once. */
static int list_claims(struct cli *cli, emq_str queue, int64_t left)
{
    const struct ls_options *o = cli->options;
    emq_error err;
    emq_list *claims = NULL;
    emq_status s = emq_claims(cli->client, o->worker, &claims, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    size_t n = emq_list_len(claims);
    for (size_t i = 0; i < n && left > 0; i++) {
        const emq_job *j = emq_list_job(claims, o->newest ? n - 1 - i : i);
        if (!emq__str_eq(emq_job_queue(j), queue))
            continue;
        print_job(cli, j);
        left--;
    }
    emq_list_free(claims);
    return CLI_OK;
}

static int run(struct cli *cli)
{
    const struct ls_options *o = cli->options;
    if (cli->args.n_words == 0)
        return o->state || o->worker.len ? cli_usage(cli, "--state and --worker need a queue")
                                         : list_queues(cli);

    int64_t left = o->limit ? o->limit : INT64_MAX;
    emq_str queue = emq_cstr(cli->args.words[0]);
    if (o->worker.len && o->state && o->state != EMQ_ACTIVE)
        return cli_usage(cli, "--worker: only active jobs are held by a worker");
    if (o->worker.len)
        return list_claims(cli, queue, left);
    if (o->state)
        return list_jobs(cli, queue, o->state, &left);
    int code = CLI_OK;
    for (int state = 1; state <= EMQ_STATE_COUNT && code == CLI_OK && !ferror(stdout); state++)
        code = list_jobs(cli, queue, state, &left);
    return code;
}

const struct cli_verb cli_verb_ls = {
    .name = "ls",
    .summary = "list queues, or the jobs of a queue",
    .usage = "[QUEUE [--state S|--worker WORKER]]",
    .help =
        "Queues come with their jobs by state, as emq stats counts them. With --json one object a "
        "line: queues, or\n"
        "jobs as `emq show --json` prints them. A queue that can't be read is told, the others are "
        "listed, and it exits 64.",
    .options = ls_table,
    .options_size = sizeof(struct ls_options),
    .min_words = 0,
    .max_words = 1,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
