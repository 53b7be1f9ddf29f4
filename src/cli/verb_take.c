/* SPDX-License-Identifier: MIT
 *
 * emq take, extend, settle: working by hand, with a token.
 */
#include "cli/cli.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

/* ---- take -------------------------------------------------------------------------------- */

struct take_options {
    emq_str name;
    int64_t lock, wait_ms;
    int32_t mode;
    bool has_wait; /* tells --wait from a wait of 0 ms */
};

static const struct cli_option take_table[] = {
    {.name = "--lock",
     .type = CLI_SPAN,
     .at = offsetof(struct take_options, lock),
     .value = "D",
     .help = "the lock's length (30s); extend it before it ends",
     .min = EMQ_LOCK_MIN_MS,
     .max = CLI_DAY_MS},
    {.name = "--wait",
     .type = CLI_SPAN,
     .at = offsetof(struct take_options, wait_ms),
     .value = "D",
     .seen_at = offsetof(struct take_options, has_wait),
     .optional = true,
     .help = "wait for a job"},
    {.name = "--mode",
     .type = CLI_CHOICE,
     .at = offsetof(struct take_options, mode),
     .value = "M",
     .choices = cli_modes,
     .help = "at-least-once, at-most-once or fire-and-forget"},
    {.name = "--name",
     .type = CLI_TEXT,
     .at = offsetof(struct take_options, name),
     .value = "WORKER",
     .help = "name of this worker (host:pid:n)"},
    {.name = NULL},
};

/* The job as `show` has it, with what its owner needs in front. */
static int print_taken(const struct cli *cli, const emq_job *j)
{
    emq_str json = emq_job_json(j);
    if (!cli->globals.json) {
        printf("id:    %.*s\ntoken: %.*s\nfence: %lld\ndata:  ", EMQ_STR_ARG(emq_job_id(j)),
               EMQ_STR_ARG(emq_job_token(j)), (long long)emq_job_fence(j));
        emq_str data = emq_job_data(j);
        fwrite(data.ptr, 1, data.len, stdout);
        putchar('\n');
        return CLI_OK;
    }
    struct emq__buf b;
    cli_json_begin(&b);
    cli_json_str(&b, "idempotencyKey", emq_job_idempotency_key(j));
    emq__buf_char(&b, ',');
    emq__buf_add(&b, json.ptr + 1, json.len - 2); /* its members */
    return cli_json_end(cli, &b);
}

static int run_take(struct cli *cli)
{
    const struct take_options *o = cli->options;
    emq_error err;
    emq_job *job = NULL;
    char lock[40];
    emq_take_opts opts = {.size = sizeof opts,
                          .worker = o->name,
                          .lock_ms = o->lock,
                          .wait_ms = o->wait_ms,
                          .mode = o->mode};
    emq_status s = emq_take(cli->client, emq_cstr(cli->args.words[0]), &opts, &job, &err);
    if (s == EMQ_EMPTY) {
        cli_say(cli, "no job is ready");
        return CLI_NO;
    }
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    cli_did("job %.*s was taken by worker %.*s under the lock of %s, token %.*s",
            EMQ_STR_ARG(emq_job_id(job)), EMQ_STR_ARG(emq_job_processed_by(job)),
            emq__duration_format(o->lock ? o->lock : 30000, lock), EMQ_STR_ARG(emq_job_token(job)));
    int code = print_taken(cli, job);
    emq_job_free(job);
    return code;
}

const struct cli_verb cli_verb_take = {
    .name = "take",
    .summary = "take one job under a lock, to work on it by hand",
    .usage = "QUEUE [--lock D] [--wait [D]] [--mode M] [--name WORKER]",
    .help = "Prints the job with its token and fence; no job: 1. Settle it with `emq settle`, "
            "renew the\n"
            "lock with `emq extend`; when the lock ends the job is recovered and runs again. In "
            "doubt (79):\n"
            "`emq ls QUEUE --worker WORKER` has the job if it was handed out.",
    .options = take_table,
    .options_size = sizeof(struct take_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .run = run_take,
};

/* ---- extend ------------------------------------------------------------------------------ */

struct extend_options {
    emq_str token;
    int64_t lock;
};

static const struct cli_option extend_table[] = {
    {.name = "--token",
     .type = CLI_TEXT,
     .at = offsetof(struct extend_options, token),
     .value = "T",
     .help = "of the hand-out, as `take` printed it"},
    {.name = "--lock",
     .type = CLI_SPAN,
     .at = offsetof(struct extend_options, lock),
     .value = "D",
     .help = "from now (30s)",
     .min = EMQ_LOCK_MIN_MS,
     .max = CLI_DAY_MS},
    {.name = NULL},
};

static int run_extend(struct cli *cli)
{
    const struct extend_options *o = cli->options;
    emq_error err;
    if (!o->token.len)
        return cli_usage(cli, "--token is missing");
    emq_status s = emq_extend(cli->client, emq_cstr(cli->args.words[0]),
                              emq_cstr(cli->args.words[1]), o->token, o->lock, &err);
    return cli_job_answer(cli, s, &err, "extended");
}

const struct cli_verb cli_verb_extend = {
    .name = "extend",
    .summary = "renew the lock of a job taken by hand",
    .usage = "QUEUE ID --token T [--lock D]",
    .help = "Exit 1 when the lock was lost.",
    .options = extend_table,
    .options_size = sizeof(struct extend_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .run = run_extend,
};

/* ---- settle ------------------------------------------------------------------------------ */

struct settle_options {
    emq_str token, result, reason, why, stack;
    int64_t delay;
    bool completed, failed, retry, has_delay, release, force;
};
#define AT(member)   .at = offsetof(struct settle_options, member)
#define SEEN(member) .seen_at = offsetof(struct settle_options, member)

static const struct cli_option settle_table[] = {
    {.name = "--token", .type = CLI_TEXT, AT(token), .value = "T", .help = "of the hand-out"},
    {.name = "--completed",
     .type = CLI_TEXT,
     AT(result),
     .value = "RESULT|@FILE|-",
     .optional = true,
     SEEN(completed),
     .may_be_empty = true,
     .help = "the ack, with a result"},
    {.name = "--failed",
     .type = CLI_TEXT,
     AT(reason),
     .value = "REASON",
     SEEN(failed),
     .may_be_empty = true,
     .help = "failed for good; with --retry: the reason of this attempt"},
    {.name = "--retry",
     .type = CLI_SPAN,
     AT(delay),
     .value = "D",
     .optional = true,
     SEEN(retry),
     .help = "this attempt failed: again after D, or by the job's own backoff"},
    {.name = "--release",
     .type = CLI_TEXT,
     AT(why),
     .value = "WHY",
     .optional = true,
     SEEN(release),
     .may_be_empty = true,
     .help = "give it back, nothing charged; emq why tells WHY"},
    {.name = "--stack",
     .type = CLI_TEXT,
     AT(stack),
     .value = "TEXT",
     .may_be_empty = true,
     .help = "a stack trace to keep"},
    {.name = "--force",
     .type = CLI_FLAG,
     AT(force),
     .help = "as administrator, without a token; the owner's later ack is refused"},
    {.name = NULL},
};

/* Why nothing was settled: another's job, nobody's, or one that may not go back. */
static int say_why_not(struct cli *cli, emq_str queue, emq_str id)
{
    const struct settle_options *o = cli->options;
    emq_error err;
    emq_job *job = NULL;
    int code;
    emq_status s = emq_get(cli->client, queue, id, &job, &err);

    if (s != EMQ_OK)
        return cli_job_answer(cli, s, &err, "");
    emq_str by = emq_job_processed_by(job);
    if (emq_job_state(job) != EMQ_ACTIVE)
        code =
            cli_error(cli, CLI_NO, "job %s is %s: nobody works on it, there is nothing to settle",
                      id.ptr, emq_state_name(emq_job_state(job)));
    else if (o->token.len || o->force)
        code = cli_error(cli, CLI_NO,
                         "job %s was handed out at-most-once and may not go back: settle it as "
                         "completed or failed",
                         id.ptr);
    else
        code = cli_error(cli, CLI_NO,
                         "job %s is owned by %s%.*s; give its --token, or --force to overrule",
                         id.ptr, by.len ? "worker " : "a worker without a name", EMQ_STR_ARG(by));
    emq_job_free(job);
    return code;
}

/* It was to go back, and did not. */
static void say_it_failed(struct cli *cli, emq_str queue, emq_str id)
{
    emq_error err;
    emq_job *job = NULL;

    if (emq_get(cli->client, queue, id, &job, &err) == EMQ_OK)
        cli_say(cli, "job %s does not go back: it failed: %.*s", id.ptr,
                EMQ_STR_ARG(emq_job_failed_reason(job)));
    else
        cli_say(cli, "job %s does not go back: it failed, and was removed by its retention",
                id.ptr);
    emq_job_free(job);
}

static int settled(struct cli *cli, emq_str id, int32_t state)
{
    struct emq__buf b;

    if (!cli->globals.json)
        return CLI_OK;
    cli_did("job %s: settled", id.ptr);
    cli_json_begin(&b);
    cli_json_str(&b, "id", id);
    cli_json_str(&b, "outcome", EMQ_STR_LIT("settled"));
    cli_json_str(&b, "state", emq_cstr(state ? emq_state_name(state) : "removed"));
    return cli_json_end(cli, &b);
}

static int run_settle(struct cli *cli)
{
    const struct settle_options *o = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]), id = emq_cstr(cli->args.words[1]);
    emq_error err;
    char *result = NULL;
    size_t len = 0;
    int32_t state = 0;
    emq_settle_opts opts = {
        .size = sizeof opts, .force = o->force, .stack = o->stack, .out_state = &state};

    if (o->completed + (o->failed || o->retry) + o->release != 1)
        return cli_usage(cli, "give exactly one of --completed, --failed, --retry, --release");
    if (!o->token.len && !o->force)
        return say_why_not(cli, queue, id);
    if (o->completed) {
        opts.kind = EMQ_SETTLE_COMPLETED;
        int code = o->result.ptr ? cli_read_data(cli, o->result.ptr, EMQ_RESULT_MAX, &result, &len)
                                 : CLI_OK;
        if (code != CLI_OK)
            return code;
        opts.value = emq_strn(result, len);
    } else if (o->release) {
        opts.kind = EMQ_SETTLE_RELEASE;
        opts.value = o->why;
    } else {
        opts.kind = o->retry ? EMQ_SETTLE_RETRY : EMQ_SETTLE_FAILED;
        opts.value = o->reason;
        opts.delay_ms = o->delay;
    }
    emq_status s = emq_settle(cli->client, queue, id, o->token, &opts, &err);
    free(result);
    if (s == EMQ_WRONG_STATE)
        return say_why_not(cli, queue, id);
    if (s == EMQ_PENDING_CHILDREN)
        return cli_error(cli, CLI_NO,
                         "job %s is not completed: children of it are not done, and it is still "
                         "held; settle it with --retry or --failed, or wait and extend its lock",
                         id.ptr);
    if (s == EMQ_FAILED_CHILD)
        return cli_error(cli, CLI_NO,
                         "job %s is not completed: a child of it has failed, which fails it; "
                         "settle it with --failed",
                         id.ptr);
    if (s != EMQ_OK)
        return cli_job_answer(cli, s, &err, "");
    bool back = opts.kind == EMQ_SETTLE_RETRY || opts.kind == EMQ_SETTLE_RELEASE;
    if (back && (state == EMQ_FAILED_STATE || state == 0))
        say_it_failed(cli, queue, id);
    return settled(cli, id, state);
}

const struct cli_verb cli_verb_settle = {
    .name = "settle",
    .summary = "end a hand-out: completed, failed, retry or release",
    .usage =
        "QUEUE ID --token T --completed [RESULT] | --failed REASON | --retry [D] | --release [WHY]",
    .help = "Exit 1 when the lock was lost, or when a parent can't be completed because of its "
            "children: then nothing\n"
            "was changed.\n"
            "RESULT is any text or bytes: " CLI_DATA_HELP ".\n"
            "A job that was asked to stop (emq cancel) does not go back, nor does one without an "
            "attempt left at\n"
            "--retry without D: it fails, which is said, and with --json stands in \"state\".",
    .options = settle_table,
    .options_size = sizeof(struct settle_options),
    .min_words = 2,
    .max_words = 2,
    .opens = true,
    .run = run_settle,
};
