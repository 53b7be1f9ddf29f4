/* SPDX-License-Identifier: MIT
 *
 * emq ls: queues, or the jobs of a queue.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/json.h"

struct ls_options {
    emq_str state;
    int64_t limit;
    bool newest;
};

static const struct cli_option ls_table[] = {
    {.name = "--state",
     .type = CLI_TEXT,
     .at = offsetof(struct ls_options, state),
     .value = "S",
     .help = "waiting, active, delayed, prioritized, waiting-children, completed or failed"},
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

static int list_queues(struct cli *cli)
{
    emq_error err;
    emq_list *names = NULL;
    emq_status s = emq_queues(cli->client, &names, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);

    static const char *const columns[] = {"QUEUE",     "WAITING", "ACTIVE", "DELAYED",
                                          "COMPLETED", "FAILED",  "PAUSED"};
    static const bool right[] = {false, true, true, true, true, true, false};
    struct cli_table *table =
        cli->globals.json ? NULL : cli_table_new(columns, right, EMQ_ARRAY_LEN(columns));
    for (size_t i = 0; i < emq_list_len(names) && s == EMQ_OK; i++) {
        emq_str name = emq_list_str(names, i);
        if (cli->globals.json) {
            struct emq__buf b;
            emq__buf_init(&b, 4096);
            emq__buf_text(&b, "{\"queue\":");
            emq__json_quote(&b, name);
            emq__buf_char(&b, '}');
            printf("%.*s\n", (int)b.len, b.ptr);
            emq__buf_free(&b);
            continue;
        }
        emq_queue_stats st = {.size = sizeof st};
        s = emq_stats(cli->client, name, &st, &err);
        char cell[6][24], label[EMQ_QUEUE_NAME_MAX + 16];
        int64_t value[] = {st.count[EMQ_WAITING] + st.count[EMQ_PRIORITIZED], st.count[EMQ_ACTIVE],
                           st.count[EMQ_DELAYED], st.count[EMQ_COMPLETED_STATE],
                           st.count[EMQ_FAILED_STATE]};
        const char *cells[EMQ_ARRAY_LEN(columns)] = {
            cli_cell(name, EMQ_QUEUE_NAME_MAX, label, sizeof label)};
        for (size_t c = 0; c < EMQ_ARRAY_LEN(value); c++) {
            snprintf(cell[c], sizeof cell[c], "%lld", (long long)value[c]);
            cells[c + 1] = cell[c];
        }
        cells[6] = st.paused ? "yes" : "";
        cli_table_row(table, cells);
    }
    bool any = emq_list_len(names) > 0;
    emq_list_free(names);
    if (!cli->globals.json && any && cli_table_print(table) != 0)
        return cli_error(cli, CLI_AGAIN, "out of memory");
    if (!cli->globals.json && !any) {
        cli_table_print(table);
        cli_say(cli, "no queues yet");
    }
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

static void print_row(const emq_job *j)
{
    char at[40], id[80], name[80], data[80];
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
                              .limit = *left < 500 ? *left : 500,
                              .after_id = emq_cstr(last)};
        s = emq_find(cli->client, queue, &opts, &page, &err);
        if (s == EMQ_NOT_FOUND) {
            opts.after_id = emq_cstr("");
            opts.offset = done;
            s = emq_find(cli->client, queue, &opts, &page, &err);
        }
        if (s != EMQ_OK)
            break;
        size_t n = emq_list_len(page);
        for (size_t i = 0; i < n; i++) {
            const emq_job *j = emq_list_job(page, i);
            emq_str json = emq_job_json(j);
            if (cli->globals.json) {
                fwrite(json.ptr, 1, json.len, stdout);
                putchar('\n');
            } else {
                print_row(j);
            }
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

static int run(struct cli *cli)
{
    const struct ls_options *o = cli->options;
    if (cli->args.n_words == 0)
        return o->state.len ? cli_usage(cli, "--state needs a queue") : list_queues(cli);

    int state = emq_state_parse(o->state);
    int64_t left = o->limit ? o->limit : INT64_MAX;
    emq_str queue = emq_cstr(cli->args.words[0]);
    if (o->state.len && !state)
        return cli_usage(cli,
                         "--state: \"%.*s\" is none of waiting, active, delayed, prioritized, "
                         "waiting-children, completed, failed",
                         EMQ_STR_ARG(o->state));
    if (state)
        return list_jobs(cli, queue, state, &left);
    int code = CLI_OK;
    for (state = 1; state <= EMQ_STATE_COUNT && code == CLI_OK && !ferror(stdout); state++)
        code = list_jobs(cli, queue, state, &left);
    return code;
}

const struct cli_verb cli_verb_ls = {
    .name = "ls",
    .summary = "list queues, or the jobs of a queue",
    .usage = "[QUEUE [--state S]]",
    .help = "With --json one object a line: queues, or jobs as `emq show --json` prints them.",
    .options = ls_table,
    .options_size = sizeof(struct ls_options),
    .min_words = 0,
    .max_words = 1,
    .opens = true,
    .run = run,
};
