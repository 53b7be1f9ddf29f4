/* SPDX-License-Identifier: MIT
 *
 * emq add: one job, or a batch that is checked whole before anything is added.
 */
#include "cli/cli.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/stop.h"
#include "cli/wait.h"

#include <unistd.h>

struct add_options {
    emq_str name, id, dedup, group, batch;
    int64_t delay, priority, attempts, timeout, dedup_ttl, keep_logs, wait_ms;
    struct emq__backoff backoff;
    struct emq__keep keep_completed, keep_failed;
    int32_t dedup_mode;
    bool lifo, must_add, wait, has_backoff, has_keep_completed, has_keep_failed, has_batch,
        has_wait;
};
#define AT(member)      .at = offsetof(struct add_options, member)
#define PER_JOB(member) AT(member), .per_job = true
#define SEEN(member)    .seen_at = offsetof(struct add_options, member)

static const char *const dedup_modes[] = {"simple", "extend", "replace", "keep-last", NULL};
static const int64_t century_ms = INT64_C(100) * 365 * 24 * 3600 * 1000;

static const struct cli_option add_table[] = {
    {.name = "--name", .type = CLI_TEXT, PER_JOB(name), .value = "N", .help = "the job's name"},
    {.name = "--id",
     .type = CLI_TEXT,
     PER_JOB(id),
     .value = "ID",
     .help = "custom id; not all digits"},
    {.name = "--delay",
     .type = CLI_SPAN,
     PER_JOB(delay),
     .value = "D",
     .help = "not before D has passed",
     .max = century_ms},
    {.name = "--priority",
     .type = CLI_INT,
     PER_JOB(priority),
     .value = "N",
     .help = "1 runs first, up to 2097151; 0 = none: before all",
     .max = EMQ_PRIORITY_MAX},
    {.name = "--lifo", .type = CLI_FLAG, PER_JOB(lifo), .help = "to the front of the line"},
    {.name = "--attempts",
     .type = CLI_INT,
     PER_JOB(attempts),
     .value = "N",
     .help = "runs at most (3)",
     .min = 1,
     .max = INT32_MAX},
    {.name = "--backoff",
     .type = CLI_BACKOFF,
     PER_JOB(backoff),
     .value = "TYPE:D[,max=D][,jitter=F]",
     .help = "none, fixed:D or exponential:D",
     SEEN(has_backoff)},
    {.name = "--timeout",
     .type = CLI_SPAN,
     PER_JOB(timeout),
     .value = "D",
     .help = "run limit of one attempt",
     .max = century_ms},
    {.name = "--dedup",
     .type = CLI_TEXT,
     PER_JOB(dedup),
     .value = "ID",
     .help = "drop this add while another job holds ID (producer dedup)"},
    {.name = "--dedup-ttl",
     .type = CLI_SPAN,
     PER_JOB(dedup_ttl),
     .value = "D",
     .help = "window; without it: until that job is finished",
     .max = century_ms},
    {.name = "--dedup-mode",
     .type = CLI_CHOICE,
     PER_JOB(dedup_mode),
     .value = "M",
     .help = "simple, extend, replace or keep-last",
     .choices = dedup_modes},
    {.name = "--keep-completed",
     .type = CLI_KEEP,
     PER_JOB(keep_completed),
     .value = "K",
     .help = "all, none, 1000, 7d or 1000,7d",
     SEEN(has_keep_completed)},
    {.name = "--keep-failed",
     .type = CLI_KEEP,
     PER_JOB(keep_failed),
     .value = "K",
     .help = "the same for failed jobs",
     SEEN(has_keep_failed)},
    {.name = "--keep-logs",
     .type = CLI_INT,
     PER_JOB(keep_logs),
     .value = "N",
     .help = "log entries kept (1000); a burst of lines is one",
     .min = 1,
     .max = EMQ__KEEP_LOGS_MAX},
    {.name = "--group",
     .type = CLI_TEXT,
     PER_JOB(group),
     .value = "G",
     .help = "opaque group name"},
    {.name = "--must-add",
     .type = CLI_FLAG,
     AT(must_add),
     .help = "exit 1 when it was a duplicate or deduplicated"},
    {.name = "--wait",
     .type = CLI_SPAN,
     AT(wait_ms),
     .value = "D",
     .optional = true,
     .help = "wait for the result and print it",
     SEEN(has_wait),
     .max = century_ms},
    {.name = "--batch",
     .type = CLI_TEXT,
     AT(batch),
     .value = "FILE|-",
     .help = "one JSON object a line; all or nothing",
     SEEN(has_batch)},
    {.name = NULL},
};

static void public_opts(const struct add_options *o, emq_add_opts *out)
{
    *out = (emq_add_opts){.size = sizeof *out,
                          .id = o->id,
                          .name = o->name,
                          .dedup_id = o->dedup,
                          .group = o->group,
                          .delay_ms = o->delay,
                          .timeout_ms = o->timeout,
                          .dedup_ttl_ms = o->dedup_ttl,
                          .dedup_mode = o->dedup_mode,
                          .priority = (int32_t)o->priority,
                          .attempts = (int32_t)o->attempts,
                          .lifo = o->lifo,
                          .keep_logs = (int32_t)o->keep_logs};
    if (o->has_backoff)
        emq__backoff_to_public(&o->backoff, out);
    if (o->has_keep_completed)
        emq__keep_to_public(&o->keep_completed, &out->keep_completed_count,
                            &out->keep_completed_ms);
    if (o->has_keep_failed)
        emq__keep_to_public(&o->keep_failed, &out->keep_failed_count, &out->keep_failed_ms);
}

static const char *outcome_name(int32_t outcome)
{
    return outcome == EMQ_DUPLICATE      ? "duplicate"
           : outcome == EMQ_DEDUPLICATED ? "deduplicated"
                                         : "added";
}

static int print_added(const struct cli *cli, const emq_added *added)
{
    struct emq__buf b;
    if (!cli->globals.json) {
        printf("%s\n", added->id);
        return CLI_OK;
    }
    cli_json_begin(&b);
    cli_json_str(&b, "id", emq_cstr(added->id));
    cli_json_str(&b, "outcome", emq_cstr(outcome_name(added->outcome)));
    cli_json_str(&b, "state", emq_cstr(emq_state_name(added->state)));
    return cli_json_end(cli, &b);
}

static int add_one(struct cli *cli)
{
    const struct add_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);
    emq_add_opts opts;
    emq_added added = {.size = sizeof added};
    emq_error err;
    char *data = NULL;
    size_t len = 0;
    int code = CLI_OK;

    if (cli->args.n_words > 1)
        code = cli_read_data(cli, cli->args.words[1], EMQ_DATA_MAX, &data, &len);
    if (code != CLI_OK)
        return code;
    public_opts(o, &opts);
    emq_status s = emq_add(cli->client, queue, data ? emq_strn(data, len) : emq_cstr("{}"), &opts,
                           &added, &err);
    free(data);
    if (emq__is_failure(s))
        return cli_failure(cli, s, &err);
    cli_did("job %s %s", added.id, s == EMQ_OK ? "was added" : "is there already");
    if (!o->has_wait || cli->globals.json)
        code = print_added(cli, &added);
    if (code != CLI_OK)
        return code;
    if (s != EMQ_OK)
        cli_say(cli, "%s: job %s is %s", outcome_name(added.outcome), added.id,
                emq_state_name(added.state));
    if (s != EMQ_OK && o->must_add)
        return CLI_NO;
    if (o->has_wait)
        return cli_wait_result(cli, queue, emq_cstr(added.id), o->wait_ms);
    return CLI_OK;
}

/* ---- batches ----------------------------------------------------------------------------- */

struct batch {
    struct emq__arena mem;
    emq_new_job **jobs;
    size_t n, cap;
};

static bool batch_room(struct batch *b)
{
    if (b->n < b->cap)
        return true;
    size_t cap = b->cap ? b->cap * 2 : 1024;
    emq_new_job **jobs = realloc(b->jobs, cap * sizeof(*jobs));
    if (!jobs)
        return false;
    b->jobs = jobs;
    b->cap = cap;
    return true;
}

static int batch_line(struct cli *cli, struct batch *b, emq_str queue, emq_str line, size_t number)
{
    emq_error err;
    emq_new_job *job = emq__arena_zalloc(&b->mem, 1, sizeof *job);
    emq_add_opts *opts = emq__arena_zalloc(&b->mem, 1, sizeof *opts);
    if (!job || !opts || !batch_room(b))
        return cli_error(cli, CLI_AGAIN, "out of memory at line %zu; nothing was added", number);
    *job = (emq_new_job){.size = sizeof *job, .queue = queue, .opts = opts};
    emq_status s = emq__opts_from_batch(line, &b->mem, opts, &job->data, &err);
    if (s == EMQ_OK && job->data.len > EMQ_DATA_MAX)
        s = emq__fail(&err, EMQ_E_INVALID, 0, "batch", "data has %zu bytes, more than %d",
                      job->data.len, EMQ_DATA_MAX);
    if (s != EMQ_OK)
        return cli_error(cli, s == EMQ_E_NOMEM ? CLI_AGAIN : CLI_DATA,
                         "line %zu: %s; nothing was added", number, err.text);
    b->jobs[b->n++] = job;
    return CLI_OK;
}

static int batch_parse(struct cli *cli, struct batch *b, emq_str queue, emq_str text)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
    size_t number = 0;
    if (text.len >= 3 && memcmp(text.ptr, mark, 3) == 0)
        text = emq_strn(text.ptr + 3, text.len - 3);
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        emq_str line = emq_strn(text.ptr, len);
        size_t skip = end ? len + 1 : len;
        text = emq_strn(text.ptr + skip, text.len - skip);
        number++;
        while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1]))
            line.len--;
        if (line.len == 0)
            continue;
        int code = batch_line(cli, b, queue, line, number);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int show_progress(size_t done, size_t total, void *user)
{
    (void)total;
    cli_bar_step(user, (int64_t)done);
    return cli_kept_signal();
}

static int batch_tell(const struct cli *cli, const emq_added *all, size_t n, bool must_add)
{
    size_t added = 0, duplicate = 0, deduplicated = 0;
    for (size_t i = 0; i < n; i++) {
        added += all[i].outcome == EMQ_OK;
        duplicate += all[i].outcome == EMQ_DUPLICATE;
        deduplicated += all[i].outcome == EMQ_DEDUPLICATED;
    }
    size_t obliterated = n - added - duplicate - deduplicated;
    cli_did("%zu job%s added", added, added == 1 ? " was" : "s were");
    if (cli->globals.json && obliterated)
        printf("{\"added\":%zu,\"duplicate\":%zu,\"deduplicated\":%zu,\"obliterated\":%zu}\n",
               added, duplicate, deduplicated, obliterated);
    else if (cli->globals.json)
        printf("{\"added\":%zu,\"duplicate\":%zu,\"deduplicated\":%zu}\n", added, duplicate,
               deduplicated);
    else if (!cli->globals.quiet)
        printf("%zu\n", added);
    if (duplicate + deduplicated)
        cli_say(cli, "%zu duplicate, %zu deduplicated", duplicate, deduplicated);
    if (obliterated)
        cli_say(cli, "%zu not added: their queue was obliterated meanwhile", obliterated);
    return must_add && added < n ? CLI_NO : CLI_OK;
}

static int batch_send(struct cli *cli, struct batch *b, bool must_add)
{
    emq_error err;
    emq_added **out = emq__arena_zalloc(&b->mem, b->n + 1, sizeof(*out));
    emq_added *all = emq__arena_zalloc(&b->mem, b->n + 1, sizeof *all);
    if (!out || !all)
        return cli_error(cli, CLI_AGAIN, "out of memory; nothing was added");
    for (size_t i = 0; i < b->n; i++) {
        all[i].size = sizeof *all;
        out[i] = &all[i];
    }
    struct cli_bar bar;
    cli_keep_signals();
    cli_bar_start(&bar, cli, "adding", (int64_t)b->n);
    emq_status s = emq_add_many_watched(cli->client, (const emq_new_job *const *)b->jobs, b->n, out,
                                        show_progress, &bar, &err);
    cli_bar_end(&bar);
    if (s == EMQ_CANCELLED)
        return cli_die_of_signal(cli, "stopped by a signal; nothing was added");
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    return batch_tell(cli, all, b->n, must_add);
}

static int add_batch(struct cli *cli, const struct add_options *o)
{
    struct batch b = {0};
    char *text = NULL;
    size_t len = 0;

    if (cli->args.n_words > 1)
        return cli_usage(cli, "DATA and --batch exclude each other");
    if (o->has_wait)
        return cli_usage(cli, "--wait and --batch exclude each other");
    if (cli->args.per_job)
        return cli_usage(cli, "%s is per job: put it in the lines of the batch",
                         cli->args.per_job->name);
    int code = cli_read_file(cli, o->batch.ptr, SIZE_MAX / 4, &text, &len);
    if (code == CLI_OK)
        code = batch_parse(cli, &b, emq_cstr(cli->args.words[0]), emq_strn(text, len));
    if (code == CLI_OK)
        code = batch_send(cli, &b, o->must_add);
    emq__arena_free(&b.mem);
    free(b.jobs);
    free(text);
    return code;
}

static int run(struct cli *cli)
{
    const struct add_options *o = cli->options;
    return o->has_batch ? add_batch(cli, o) : add_one(cli);
}

const struct cli_verb cli_verb_add = {
    .name = "add",
    .summary = "add a job, or a batch of jobs all or nothing",
    .usage = "QUEUE [DATA|@FILE|-] [OPTIONS]",
    .help =
        "DATA is any text or bytes: " CLI_DATA_HELP ";\n"
        "default {}.\n"
        "Prints the job's id. With --wait prints the result; exit 1 if the job failed, 124 at the\n"
        "deadline.\n\n"
        "--batch reads one JSON object a line, with any of: \"text\" or \"data\" (any JSON), "
        "id, name,\n"
        "group, delay, timeout, timestamp, priority, attempts, lifo, backoff, dedup, dedupTtl, "
        "dedupMode,\n"
        "keepCompleted, keepFailed, keepLogs. A span is text (\"1h\") or a number of milliseconds, "
        "timestamp\n"
        "milliseconds since 1970. A line without text and data stores 0 bytes. The whole file is "
        "checked\n"
        "first; prints how many were added. A signal (INT, TERM, HUP) takes back what is staged of "
        "a batch\n"
        "of more than 1,000 jobs, unless it is being published; a second one ends the program at "
        "once. One\n"
        "that is killed before it is published adds none, too, but holds its ids for an hour: who "
        "brings\n"
        "one is told to try again (75). On a server, which publishes a thousand at a time, one "
        "that is\n"
        "killed in between comes to be as a whole with whoever adds to its queue, takes from it "
        "or sweeps\n"
        "it next, within a week.",
    .options = add_table,
    .options_size = sizeof(struct add_options),
    .min_words = 1,
    .max_words = 2,
    .opens = true,
    .run = run,
};
