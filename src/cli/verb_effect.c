/* SPDX-License-Identifier: MIT
 *
 * emq effect: markers around effects, for programs and for people.
 */
#include "cli/effect.h"
#include "cli/text.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

#define AT(member)   .at = offsetof(struct effect_options, member)
#define SEEN(member) .seen_at = offsetof(struct effect_options, member)

static const char *const policies[] = {"redo", "skip", "park", "probe", NULL};

static const struct cli_option effect_table[] = {
    {.name = "--policy",
     .type = CLI_CHOICE,
     AT(policy),
     SEEN(has_policy),
     .value = "P",
     .choices = policies,
     .help = "run, in doubt: redo (the default), skip, park or probe"},
    {.name = "--probe",
     .type = CLI_TEXT,
     AT(probe),
     .value = "CMD",
     .help = "run, in doubt: a shell command: 0 it happened (its output is the result), 1 it did "
             "not, other: parked"},
    {.name = "--payload",
     .type = CLI_TEXT,
     AT(payload),
     .may_be_empty = true,
     .value = "DATA|@FILE",
     .help = "run: what it is about; another one under the same KEY is refused"},
    {.name = "--keep",
     .type = CLI_SPAN,
     AT(keep),
     .value = "D",
     .min = 1,
     .max = INT64_C(400) * CLI_DAY_MS,
     .help = "run: how long it is known (as long as the job can come again)"},
    {.name = "--queue", .type = CLI_TEXT, AT(queue), .value = "Q", .help = "run, check: by hand"},
    {.name = "--job", .type = CLI_TEXT, AT(job), .value = "ID", .help = "run, check: by hand"},
    {.name = "--token",
     .type = CLI_TEXT,
     AT(token),
     .value = "T",
     .help = "run: by hand, as `emq take` printed it"},
    {.name = "--done",
     .type = CLI_TEXT,
     AT(result),
     .value = "RESULT|@FILE|-",
     .optional = true,
     SEEN(done),
     .may_be_empty = true,
     .help = "resolve: it has happened, with this result"},
    {.name = "--forget", .type = CLI_FLAG, AT(forget), .help = "resolve: it has not happened"},
    {.name = NULL},
};

static emq_str from_environment(const char *name)
{
    return emq_cstr(getenv(name));
}

int cli_effect_key(struct cli *cli, emq_str step, bool token, emq_effect_key *out)
{
    const struct effect_options *o = cli->options;
    bool by_hand = o->queue.len || o->job.len || o->token.len;

    *out = (emq_effect_key){.size = sizeof *out,
                            .queue = by_hand ? o->queue : from_environment("EMQ_QUEUE"),
                            .id = by_hand ? o->job : from_environment("EMQ_JOB_ID"),
                            .token = by_hand ? o->token : from_environment("EMQ_TOKEN"),
                            .step = step};
    if (step.len == 0)
        return cli_usage(cli, "the KEY is empty: name the effect");
    if (!by_hand && (!out->queue.len || !out->id.len || !out->token.len))
        return cli_usage(cli,
                         "of which job? Run it inside of `emq work` or `emq run`, which set "
                         "EMQ_QUEUE, EMQ_JOB_ID and EMQ_TOKEN, or give --queue, --job%s",
                         token ? " and --token" : "");
    if (!out->queue.len || !out->id.len || (token && !out->token.len))
        return cli_usage(cli, "%s is missing",
                         !out->queue.len ? "--queue"
                         : !out->id.len  ? "--job"
                                         : "--token");
    return CLI_OK;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Calls fn for each marker; what it answers but 0 ends the walk and is the answer. */
typedef int (*each_fn)(struct cli *cli, const emq_effect *e, void *user);

static int each_effect(struct cli *cli, emq_str queue, emq_str id, each_fn fn, void *user)
{
    enum { PAGE = 1000 };
    emq_effect *after = NULL;
    int code = CLI_OK;

    for (size_t n = PAGE; n == PAGE && code == CLI_OK;) {
        emq_effect **page = NULL;
        emq_error err;
        emq_status s = emq_effect_list(cli->client, queue, id, after, PAGE, &page, &n, &err);
        emq_effect_free(after);
        after = NULL;
        if (s != EMQ_OK)
            return cli_failure(cli, s, &err);
        for (size_t i = 0; i < n; i++) {
            if (code == CLI_OK)
                code = fn(cli, page[i], user);
            if (i + 1 == n)
                after = page[i];
            else
                emq_effect_free(page[i]);
        }
        free(page);
    }
    emq_effect_free(after);
    return code;
}

static char *instant(int64_t at_ms, char out[40])
{
    out[0] = '\0';
    return at_ms ? cli_time(at_ms, out) : out;
}

static void print_json(const emq_effect *e)
{
    emq_str json = emq_effect_json(e);

    (void)fwrite(json.ptr, 1, json.len, stdout);
    putchar('\n');
}

static int list_row(struct cli *cli, const emq_effect *e, void *user)
{
    char id[80], step[80], token[80], claimed[40], done[40];
    const char *cells[] = {cli_cell(emq_effect_id(e), 60, id, sizeof id),
                           cli_cell(emq_effect_step(e), 64, step, sizeof step),
                           emq_effect_state_name(emq_effect_get_state(e)),
                           instant(emq_effect_claimed_at_ms(e), claimed),
                           instant(emq_effect_done_at_ms(e), done),
                           cli_cell(emq_effect_token(e), 60, token, sizeof token)};

    if (cli->globals.json)
        print_json(e);
    else
        cli_table_row(user, cells);
    return CLI_OK;
}

static int run_ls(struct cli *cli, emq_str queue, emq_str id)
{
    static const char *const columns[] = {"JOB", "KEY", "STATE", "CLAIMED", "DONE", "TOKEN"};
    struct cli_table *table =
        cli->globals.json ? NULL : cli_table_new(columns, NULL, EMQ_ARRAY_LEN(columns));
    int code = each_effect(cli, queue, id, list_row, table);

    if (!cli->globals.json && cli_table_print(table) != 0 && code == CLI_OK)
        code = cli_error(cli, CLI_AGAIN, "out of memory");
    return code;
}

struct wanted {
    emq_str step;
    bool any_step;
    int64_t timestamp_at_ms; /* 0 = any */
    int found;               /* an emq_effect_state */
    int n;
    bool result_only;
};

static bool is_wanted(const struct wanted *w, const emq_effect *e)
{
    return (w->any_step || emq__str_eq(w->step, emq_effect_step(e))) &&
           (!w->timestamp_at_ms || w->timestamp_at_ms == emq_effect_timestamp_at_ms(e));
}

static int show_one(struct cli *cli, const emq_effect *e, void *user)
{
    struct wanted *w = user;
    char at[40];
    emq_str result = emq_effect_result(e), step = emq_effect_step(e), token = emq_effect_token(e);

    if (!is_wanted(w, e))
        return CLI_OK;
    w->found = emq_effect_get_state(e);
    if (w->n++ && !cli->globals.json && !w->result_only)
        putchar('\n');
    if (cli->globals.json) {
        print_json(e);
    } else if (w->result_only) {
        (void)fwrite(result.ptr, 1, result.len, stdout);
    } else {
        if (step.len)
            printf("key:     %.*s\n", EMQ_STR_ARG(step));
        printf("state:   %s\n", emq_effect_state_name(emq_effect_get_state(e)));
        printf("job:     ");
        cli_print_text(emq_effect_id(e));
        printf(", added %s\n", instant(emq_effect_timestamp_at_ms(e), at));
        printf("claimed: %s by ", instant(emq_effect_claimed_at_ms(e), at));
        cli_print_text(token.len ? token : EMQ_STR_LIT("an administrator"));
        if (emq_effect_done_at_ms(e))
            printf("\ndone:    %s", instant(emq_effect_done_at_ms(e), at));
        printf("\nknown:   until %s\n", instant(emq_effect_expires_at_ms(e), at));
        if (result.len) {
            printf("result:  ");
            cli_print_text(result);
            putchar('\n');
        }
    }
    return CLI_OK;
}

static int run_show(struct cli *cli, emq_str queue, emq_str id, const char *step)
{
    struct wanted w = {.any_step = !step, .step = emq_cstr(step)};
    int code = each_effect(cli, queue, id, show_one, &w);

    if (code == CLI_OK && w.n == 0)
        return cli_error(cli, CLI_NO, "job %.*s has no marker%s%s", EMQ_STR_ARG(id),
                         step ? " of " : "", step ? step : "");
    return code;
}

static int none(const struct cli *cli, const emq_effect_key *key)
{
    struct emq__buf b;

    if (!cli->globals.json)
        return CLI_NO;
    cli_json_begin(&b);
    cli_json_str(&b, "queue", key->queue);
    cli_json_str(&b, "id", key->id);
    cli_json_str(&b, "step", key->step);
    cli_json_str(&b, "state", emq_cstr(emq_effect_state_name(EMQ_EFFECT_NONE)));
    int code = cli_json_end(cli, &b);
    return code == CLI_OK ? CLI_NO : code;
}

/* Of the job as it is now: what an earlier one under its id did does not count. */
static int run_check(struct cli *cli, emq_str step)
{
    struct wanted w = {.step = step, .result_only = true};
    emq_effect_key key;
    emq_job *job = NULL;
    emq_error err;
    int code = cli_effect_key(cli, step, false, &key);

    if (code != CLI_OK)
        return code;
    emq_status s = emq_get(cli->client, key.queue, key.id, &job, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    w.timestamp_at_ms = emq_job_timestamp_at_ms(job);
    emq_job_free(job);
    code = each_effect(cli, key.queue, key.id, show_one, &w);
    if (code != CLI_OK)
        return code;
    switch ((emq_effect_state)w.found) {
    case EMQ_EFFECT_IS_DONE: return CLI_OK;
    case EMQ_EFFECT_IN_DOUBT: return CLI_IN_DOUBT;
    case EMQ_EFFECT_BUSY: return CLI_AGAIN;
    case EMQ_EFFECT_FRESH:
    case EMQ_EFFECT_NONE: break;
    }
    return none(cli, &key);
}

/* ---- resolving --------------------------------------------------------------------------- */

static int run_resolve(struct cli *cli, emq_str queue, emq_str id, const char *step)
{
    const struct effect_options *o = cli->options;
    char *result = NULL;
    size_t len = 0;
    emq_error err;
    int code = CLI_OK;

    if (o->done + o->forget != 1)
        return cli_usage(cli, "give exactly one of --done, --forget");
    if (o->result.ptr)
        code = cli_read_data(cli, o->result.ptr, EMQ_RESULT_MAX, &result, &len);
    if (code != CLI_OK)
        return code;
    emq_status s = emq_effect_resolve(cli->client, queue, id, emq_cstr(step), o->done,
                                      emq_strn(result, len), &err);
    free(result);
    if (s == EMQ_NOT_FOUND)
        return cli_error(cli, CLI_NO, "there is no job %.*s%s", EMQ_STR_ARG(id),
                         o->forget ? ", or no such marker of it" : "");
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    return cli_done(cli, "id", id, o->done ? "done" : "forgotten");
}

/* ---- the verb ---------------------------------------------------------------------------- */

static int check_words(const struct cli *cli, size_t min, size_t max, const char *usage)
{
    if (cli->args.rest)
        return cli_usage(cli, "a command goes with run only: emq effect %s", usage);
    if (cli->args.n_words < min || cli->args.n_words > max)
        return cli_usage(
            cli, "%s: emq effect %s",
            cli->args.n_words < min ? "an argument is missing" : "one argument too many", usage);
    return CLI_OK;
}

static int run_effect(struct cli *cli)
{
    const char *const *words = cli->args.words;
    size_t n = cli->args.n_words;
    const char *act = words[0], *step = n > 3 ? words[3] : NULL;
    emq_str first = emq_cstr(n > 1 ? words[1] : NULL), second = emq_cstr(n > 2 ? words[2] : NULL);
    int code;

    if (strcmp(act, "run") == 0)
        return cli_effect_run(cli);
    if (strcmp(act, "check") == 0) {
        code = check_words(cli, 2, 2, "check KEY");
        return code == CLI_OK ? run_check(cli, first) : code;
    }
    if (strcmp(act, "ls") == 0) {
        code = check_words(cli, 2, 3, "ls QUEUE [ID]");
        return code == CLI_OK ? run_ls(cli, first, second) : code;
    }
    if (strcmp(act, "show") == 0) {
        code = check_words(cli, 3, 4, "show QUEUE ID [KEY]");
        return code == CLI_OK ? run_show(cli, first, second, step) : code;
    }
    if (strcmp(act, "resolve") == 0) {
        code = check_words(cli, 3, 4, "resolve QUEUE ID [KEY] --done [RESULT] | --forget");
        return code == CLI_OK ? run_resolve(cli, first, second, step) : code;
    }
    return cli_usage(cli, "\"%s\" is none of run, check, ls, show, resolve", act);
}

const struct cli_verb cli_verb_effect = {
    .name = "effect",
    .summary = "make an effect happen once, and see which have happened",
    .usage =
        "run KEY [--policy P] [--probe CMD] -- CMD... | check KEY | ls QUEUE [ID] | show QUEUE "
        "ID [KEY] | resolve QUEUE ID [KEY] --done [RESULT]|--forget",
    .help =
        "A job may be handed out twice: its worker died, or its acknowledgement was lost. `run` "
        "puts "
        "a marker\n"
        "around a command that must not run twice for that. KEY names the effect within the "
        "job.\n\n"
        "run, inside of a program of `emq work` or `emq run`, or by hand with --queue, --job and "
        "--token:\n"
        "the first time the command is run; its standard output is passed on and stored, up to 1 "
        "MiB. "
        "Met again,\n"
        "done: it is not run, the stored output is printed. Exit 0 means in both cases that it has "
        "happened.\n"
        "The command ends with another code: it has not happened, the marker is given back, the "
        "code is "
        "ours too.\n"
        "A signal ends it or a program of it (128 + n), or the machine fails: nobody knows. The "
        "next hand-out\n"
        "then finds it in doubt.\n\n"
        "In doubt: redo (the default, what a plain handler does: it may happen twice), skip (never "
        "twice,\n"
        "perhaps not at all), park (exit 100, which fails the job for good, until somebody looks), "
        "probe "
        "(ask\n"
        "--probe CMD). Money wants probe or park. Other exits: 75 this hand-out is at it already, "
        "65 "
        "another\n"
        "--payload, 1 the lock was lost, 79 it has happened and may or may not be recorded.\n\n"
        "check: 0 done (prints its result), 1 not, 75 under way, 79 in doubt. ls and show: the "
        "markers. "
        "resolve:\n"
        "an administrator knows that it has happened (--done) or has not (--forget); `emq retry` "
        "then "
        "brings\n"
        "the job back.\n\n"
        "Where the effect is in the queue's own store nothing can be in doubt: the line \"sql "
        "FILE\" or "
        "\"redis FILE\"\n"
        "on descriptor 3 (emq-work(1)). Producer dedup (emq-dedup(1)) answers another question.",
    .options = effect_table,
    .options_size = sizeof(struct effect_options),
    .min_words = 1,
    .max_words = 4,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .takes_rest = true,
    .run = run_effect,
};
