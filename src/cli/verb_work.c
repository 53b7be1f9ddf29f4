/* SPDX-License-Identifier: MIT
 *
 * emq work: runs a program for each job. emq run: for one job.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

#include <echomq/worker.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { INTERVAL_MIN_MS = 10, MAX_QUEUES = 256 };

struct work_options {
    emq_str name;
    int64_t concurrency, lock, stalled_interval, max_stalled, timeout, grace, max_jobs;
    int32_t mode;
    bool exit_when_empty, stream, has_concurrency, has_max_stalled, has_interval, has_grace;
};
#define AT(member)   .at = offsetof(struct work_options, member)
#define SEEN(member) .seen_at = offsetof(struct work_options, member)

static const struct cli_option work_table[] = {
    {.name = "--concurrency",
     .type = CLI_INT,
     AT(concurrency),
     SEEN(has_concurrency),
     .value = "N",
     .help = "programs at once (1); 0 = number of CPUs",
     .max = 4096},
    {.name = "--mode",
     .type = CLI_CHOICE,
     AT(mode),
     .value = "M",
     .choices = cli_modes,
     .help = "at-least-once, at-most-once or fire-and-forget"},
    {.name = "--lock",
     .type = CLI_SPAN,
     AT(lock),
     .value = "D",
     .min = EMQ_LOCK_MIN_MS,
     .max = CLI_DAY_MS,
     .help = "length of a lock (30s), renewed at a third"},
    {.name = "--stalled-interval",
     .type = CLI_SPAN,
     AT(stalled_interval),
     SEEN(has_interval),
     .value = "D",
     .max = CLI_DAY_MS,
     .help = "how often dead workers' jobs are returned (5s); 0 = never"},
    {.name = "--max-stalled",
     .type = CLI_INT,
     AT(max_stalled),
     SEEN(has_max_stalled),
     .value = "N",
     .max = 1000000,
     .help = "recoveries a job may have (3)"},
    {.name = "--timeout",
     .type = CLI_SPAN,
     AT(timeout),
     .value = "D",
     .max = INT64_C(365) * CLI_DAY_MS,
     .help = "run limit for jobs without one of their own"},
    {.name = "--grace",
     .type = CLI_SPAN,
     AT(grace),
     SEEN(has_grace),
     .value = "D",
     .max = CLI_DAY_MS,
     .help = "how long running jobs may go on after TERM or INT (25s)"},
    {.name = "--exit-when-empty",
     .type = CLI_FLAG,
     AT(exit_when_empty),
     .help = "end when nothing that it may take is in line, active or to be retried"},
    {.name = "--max-jobs",
     .type = CLI_INT,
     AT(max_jobs),
     .value = "N",
     .min = 1,
     .max = INT64_MAX,
     .help = "end after N jobs"},
    {.name = "--name",
     .type = CLI_TEXT,
     AT(name),
     .value = "WORKER",
     .help = "name of this worker (host:pid:n)"},
    {.name = "--stream",
     .type = CLI_FLAG,
     AT(stream),
     .help = "keep one program per slot and exchange JSON lines"},
    {.name = NULL},
};

static void on_event(const emq_event *e, void *user)
{
    static const char *const texts[] = {[EMQ_EVENT_STARTED] = "started",
                                        [EMQ_EVENT_COMPLETED] = "completed",
                                        [EMQ_EVENT_FAILED] = "failed",
                                        [EMQ_EVENT_RETRIED] = "will be retried",
                                        [EMQ_EVENT_GIVEN_BACK] = "given back",
                                        [EMQ_EVENT_LOST] = "lock lost; its outcome was refused",
                                        [EMQ_EVENT_RECOVERED] = "recovered"};
    const struct cli *cli = user;

    if (e->kind == EMQ_EVENT_ERROR) {
        cli_error(cli, 0, "%.*s%s%.*s", EMQ_STR_ARG(e->queue), e->queue.len ? ": " : "",
                  EMQ_STR_ARG(e->text));
        return;
    }
    bool wordy = e->kind == EMQ_EVENT_STARTED || e->kind == EMQ_EVENT_COMPLETED ||
                 e->kind == EMQ_EVENT_READY || e->kind == EMQ_EVENT_FINISHED;
    if (wordy && !cli->globals.verbose)
        return;
    char clean[300], attempt[32] = "";
    cli_cell(e->text, 250, clean, sizeof clean);
    if (!e->id.len) {
        cli_say(cli, "%s%s", e->kind == EMQ_EVENT_READY ? "ready" : "ending: ", clean);
        return;
    }
    if (e->attempt > 0)
        snprintf(attempt, sizeof attempt, " (attempt %d)", e->attempt);
    cli_say(cli, "%.*s: job %.*s%s %s%s%s", EMQ_STR_ARG(e->queue), EMQ_STR_ARG(e->id), attempt,
            texts[e->kind], clean[0] ? ": " : "", clean);
}

/* ---- queues: "NAME" or "NAME=WEIGHT" ----------------------------------------------------- */

static int parse_queues(struct cli *cli, emq_worker_queue *queues,
                        const emq_worker_queue **pointers)
{
    size_t n = cli->args.n_words, weighted = 0;
    if (n > MAX_QUEUES)
        return cli_usage(cli, "%zu queues are more than %d", n, MAX_QUEUES);
    for (size_t i = 0; i < n; i++) {
        const char *word = cli->args.words[i], *equals = strrchr(word, '=');
        int64_t weight = 0;
        emq_error err;
        if (equals) {
            if (cli_parse_int("weight", emq_cstr(equals + 1), 1, 1000, &weight, &err) != EMQ_OK)
                return cli_usage(cli, "%s: %s", word, err.text);
            weighted++;
        }
        queues[i] = (emq_worker_queue){
            .size = sizeof *queues,
            .weight = (int32_t)weight,
            .name = emq_strn(word, equals ? (size_t)(equals - word) : strlen(word))};
        pointers[i] = &queues[i];
    }
    if (weighted && weighted != n)
        return cli_usage(cli, "give every queue a weight (Q=WEIGHT), or none");
    return CLI_OK;
}

/* ---- signals ----------------------------------------------------------------------------- */

static int open_signals(sigset_t *set)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction hangup;
    sigemptyset(set);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 &&
        hangup.sa_handler != SIG_IGN) /* nohup stays in force */
        sigaddset(set, SIGHUP);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(wanted); i++)
        sigaddset(set, wanted[i]);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would lose the exit status of programs */
    return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* TERM, INT, HUP: drain; again, or QUIT: now. USR1: quiet on and off. USR2: state to stderr. */
static void obey(struct cli *cli, emq_worker *w, uint32_t sig, int *stops)
{
    switch (sig) {
    case SIGUSR1: cli->globals.quiet = !cli->globals.quiet; break;
    case SIGUSR2: emq_worker_dump(w, STDERR_FILENO); break;
    default:
        (*stops)++;
        if (*stops == 1 && sig != SIGQUIT)
            cli_say(cli, "draining: running jobs may finish; signal again to stop now");
        emq_worker_stop(w, *stops > 1 || sig == SIGQUIT);
    }
}

/* What ends a worker beside its own options. */
struct end {
    int64_t first_job_ms; /* >= 0: no job came for so long, be it that the store failed */
    int stops;            /* signals that told it to stop, so far */
};

static emq_status serve(struct cli *cli, emq_worker *w, int signals, struct end *end,
                        emq_error *err)
{
    struct emq__mono start = emq__mono_now();
    for (;;) {
        struct pollfd poll_in = {.fd = signals, .events = POLLIN};
        poll(&poll_in, 1, end->first_job_ms >= 0 ? 10 : 100);
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            obey(cli, w, info.ssi_signo, &end->stops);
        emq_worker_stats stats = {.size = sizeof stats};
        emq_worker_get_stats(w, &stats);
        if (stats.ended)
            return emq_worker_join(w, -1, err);
        if (end->first_job_ms >= 0 && stats.takes > 0 && stats.started + stats.in_hand == 0 &&
            end->stops == 0 && emq__mono_diff_ms(start, emq__mono_now()) >= end->first_job_ms) {
            emq_worker_stop(w, 0);
            end->stops = 1;
        }
    }
}

/* Starts a worker, serves it to its end, frees it. An exit code, or CLI_OK with *stats filled in. */
static int work(struct cli *cli, const emq_worker_opts *opts, struct end *end,
                emq_worker_stats *stats)
{
    emq_error err;
    sigset_t set;
    emq_worker *w = NULL;
    int signals = open_signals(&set);
    if (signals < 0)
        return cli_error(cli, CLI_AGAIN, "signalfd: %s", strerror(errno));
    emq_status s = emq_worker_start(&w, cli->client, opts, &err);
    /* The system's reason why the program can't be started; EEXIST is the store's own. */
    if (s == EMQ_E_INVALID && err.native && err.native != EEXIST) {
        close(signals);
        return cli_error(cli, CLI_CONFIG, "%s", err.text);
    }
    if (s == EMQ_OK)
        s = serve(cli, w, signals, end, &err);
    if (s == EMQ_OK)
        emq_worker_get_stats(w, stats);
    emq_worker_free(w);
    close(signals);
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

static int print_counts(const struct cli *cli, const emq_worker_stats *st)
{
    struct emq__buf b;
    if (!cli->globals.json)
        return CLI_OK;
    cli_did("jobs completed: %lld, failed: %lld, retried: %lld, given back: %lld",
            (long long)st->completed, (long long)st->failed, (long long)st->retried,
            (long long)st->given_back);
    cli_json_begin(&b);
    emq__json_i64_member(&b, "started", st->started);
    emq__json_i64_member(&b, "completed", st->completed);
    emq__json_i64_member(&b, "failed", st->failed);
    emq__json_i64_member(&b, "retried", st->retried);
    emq__json_i64_member(&b, "given_back", st->given_back);
    emq__json_i64_member(&b, "lost", st->lost);
    emq__json_i64_member(&b, "recovered", st->recovered);
    return cli_json_end(cli, &b);
}

static int summary(const struct cli *cli, const emq_worker_stats *st)
{
    int code = print_counts(cli, st);
    if (!cli->globals.json)
        cli_say(cli,
                "completed %lld, failed %lld, retried %lld, given back %lld, lock lost %lld, "
                "recovered %lld",
                (long long)st->completed, (long long)st->failed, (long long)st->retried,
                (long long)st->given_back, (long long)st->lost, (long long)st->recovered);
    if (code != CLI_OK)
        return code;
    if (st->gave_up)
        return cli_exit_code((emq_status)st->gave_up); /* the worker's ERROR event said why */
    return st->unstartable ? CLI_CONFIG : st->failed ? CLI_NO : CLI_OK;
}

static bool has_program(const struct cli *cli)
{
    return cli->args.rest && cli->args.rest[0] && cli->args.rest[0][0];
}

static void fill(const struct work_options *o, emq_worker_opts *out)
{
    out->name = o->name;
    out->lock_ms = o->lock;
    out->stalled_interval_ms = !o->has_interval      ? 0
                               : o->stalled_interval ? o->stalled_interval
                                                     : -1;
    out->max_stalled = !o->has_max_stalled ? 0 : o->max_stalled ? o->max_stalled : -1;
    out->timeout_ms = o->timeout;
    out->grace_ms = o->has_grace && o->grace == 0 ? 1 : o->grace;
    out->concurrency = !o->has_concurrency ? 1 : o->concurrency ? (int32_t)o->concurrency : -1;
    out->mode = o->mode;
    out->exit_when_empty = o->exit_when_empty;
    out->max_jobs = o->max_jobs;
    out->stream = o->stream;
}

/* What --exit-when-empty leaves: the jobs of a paused queue, and those in line that are for others. */
static void say_left(const struct cli *cli, const emq_worker_queue *queues, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        emq_error err;
        emq_queue_stats st = {.size = sizeof st};
        if (emq_stats(cli->client, queues[i].name, &st, &err) != EMQ_OK)
            continue;
        long long stay = (long long)(st.count[EMQ_WAITING] + st.count[EMQ_PRIORITIZED]);
        if (stay && st.paused)
            cli_say(cli, "%.*s is paused: %lld job%s", EMQ_STR_ARG(queues[i].name), stay,
                    stay == 1 ? " stays" : "s stay");
        else if (stay)
            cli_say(cli, "%.*s: %lld job%s in line %s left to other workers (emq help work)",
                    EMQ_STR_ARG(queues[i].name), stay, stay == 1 ? "" : "s",
                    stay == 1 ? "is" : "are");
    }
}

static int run_work(struct cli *cli)
{
    emq_worker_queue queues[MAX_QUEUES];
    const emq_worker_queue *pointers[MAX_QUEUES];
    struct end end = {.first_job_ms = -1};
    emq_worker_stats stats = {.size = sizeof stats};

    if (!has_program(cli))
        return cli_usage(cli, "the program is missing: emq work %s", cli->verb->usage);
    const struct work_options *o = cli->options;
    if (o->stalled_interval > 0 && o->stalled_interval < INTERVAL_MIN_MS)
        return cli_usage(cli, "--stalled-interval: %lldms is outside %dms to 1d; 0 = never",
                         (long long)o->stalled_interval, INTERVAL_MIN_MS);
    int code = parse_queues(cli, queues, pointers);
    if (code != CLI_OK)
        return code;
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = pointers,
                            .n_queues = cli->args.n_words,
                            .argv = (const char *const *)cli->args.rest,
                            .on_event = on_event,
                            .user = cli};
    fill(cli->options, &opts);
    code = work(cli, &opts, &end, &stats);
    bool told = end.stops > 0 || stats.gave_up || stats.unstartable ||
                (opts.max_jobs > 0 && stats.started >= opts.max_jobs);
    if (code == CLI_OK && opts.exit_when_empty && !told)
        say_left(cli, queues, opts.n_queues);
    return code == CLI_OK ? summary(cli, &stats) : code;
}

const struct cli_verb cli_verb_work = {
    .name = "work",
    .summary = "run a program for each job of one or more queues",
    .usage = "QUEUE[=WEIGHT]... [OPTIONS] -- CMD [ARG...]",
    .help =
        "The data comes on standard input, standard output is the result, each line of "
        "standard error\n"
        "goes to the job's log. Several queues: strict priority in the given order, or shares "
        "by weight.\n\n"
        "Environment of the program: EMQ_URL, EMQ_PREFIX, EMQ_QUEUE, EMQ_WORKER, EMQ_JOB_ID, "
        "EMQ_JOB_NAME,\n"
        "EMQ_ATTEMPT, EMQ_FENCE, EMQ_TOKEN, EMQ_IDEMPOTENCY_KEY, EMQ_DEADLINE_AT_MS.\n"
        "Lines on descriptor 3: \"progress JSON\", \"log TEXT\", \"retry-after D\", \"sql FILE\", "
        "\"redis FILE\".\n\n"
        "sql FILE, redis FILE: when the program ends with 0, the statements of the file (or its "
        "commands, each\n"
        "line a JSON array of strings) are done in one transaction (one script) with the "
        "acknowledgement: both or\n"
        "neither. Tables emq_* and keys of queues under its prefix are refused. Several files, up "
        "to 64, are one\n"
        "effect. If it can't be done the attempt has failed; what is refused as it is, or has "
        "nothing in it,\n"
        "fails the job for good. A word that is not known may be an effect, mistyped: it fails "
        "the attempt.\n"
        "An effect elsewhere: emq-effect(1).\n\n"
        "Exit 0: completed. 75 or 111: given back after its backoff, no attempt charged, at "
        "most 100 hand-outs.\n"
        "65 or 100: failed for good. Any other: this attempt failed. Killed by a signal: "
        "counted as a stall.\n\n"
        "--stream keeps a program per slot. It reads a line of JSON a job: id, queue, name, data, "
        "dataEncoding\n"
        "(\"text\" or \"base64\", where data is not JSON itself), attempt, fence, token, "
        "idempotencyKey and\n"
        "deadlineAtMs (0 = none). It writes JSON objects, a line each, at most 8 MiB: "
        "{\"progress\":JSON} and\n"
        "{\"log\":TEXT} as often as it likes, {\"sql\":FILE} and {\"redis\":FILE} as above,\n"
        "then one answer: {\"result\":JSON}, with \"resultEncoding\" \"text\" or \"base64\" for a "
        "string that stands for\n"
        "its bytes; or {\"error\":TEXT}, with \"final\":true for good, \"stack\" and "
        "\"retryAfter\" (\"30s\"); or\n"
        "{\"giveBack\":true}. \"id\" may stand in any line, and must be the job's. A line that is "
        "wrong, or comes\n"
        "with the answer behind it, fails the attempt, and the program is started again.\n\n"
        "--exit-when-empty waits for jobs in line, for active ones (anyone's) and for retries, not "
        "for other\n"
        "delayed jobs. A paused queue counts as empty, and so do jobs in line that this worker "
        "leaves "
        "to others:\n"
        "the next run of a BullMQ scheduler, which needs a BullMQ worker, as that makes the run "
        "after "
        "it; with\n"
        "--mode fire-and-forget all jobs of schedulers and all that have a parent. A store that "
        "refuses "
        "all writes\n"
        "(it is full, say) for as long as a lock, at most 30s, ends it with 74, or what fits "
        "better; no job "
        "is\n"
        "lost: what it could not settle comes back when its lock ends.\n\n"
        "TERM, INT or HUP: takes nothing new, waits for running jobs for --grace, gives the "
        "rest back; again,\n"
        "or QUIT: now. USR1: no more talk on stderr, as with --quiet, and again: talk; errors are "
        "told in any "
        "case,\n"
        "and work goes on as before. USR2: state to stderr.\n"
        "Exits 1 if a job it ran failed for good, 78 if the program could not be started.",
    .options = work_table,
    .options_size = sizeof(struct work_options),
    .min_words = 1,
    .max_words = SIZE_MAX,
    .opens = true,
    .takes_rest = true,
    .run = run_work,
};

/* ---- run --------------------------------------------------------------------------------- */

struct run_options {
    int64_t wait_ms, lock, timeout;
};

static const struct cli_option run_table[] = {
    {.name = "--wait",
     .type = CLI_SPAN,
     .at = offsetof(struct run_options, wait_ms),
     .value = "D",
     .help = "wait so long for a job; else look once"},
    {.name = "--lock",
     .type = CLI_SPAN,
     .at = offsetof(struct run_options, lock),
     .value = "D",
     .min = EMQ_LOCK_MIN_MS,
     .max = CLI_DAY_MS,
     .help = "length of the lock (30s), renewed at a third"},
    {.name = "--timeout",
     .type = CLI_SPAN,
     .at = offsetof(struct run_options, timeout),
     .value = "D",
     .max = INT64_C(365) * CLI_DAY_MS,
     .help = "run limit if the job has none of its own"},
    {.name = NULL},
};

static int run_one(struct cli *cli)
{
    const struct run_options *o = cli->options;
    emq_worker_queue queue = {.size = sizeof queue, .name = emq_cstr(cli->args.words[0])};
    const emq_worker_queue *pointer = &queue;
    struct end end = {.first_job_ms = o->wait_ms};
    emq_worker_stats stats = {.size = sizeof stats};

    if (!has_program(cli))
        return cli_usage(cli, "the program is missing: emq run %s", cli->verb->usage);
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = &pointer,
                            .n_queues = 1,
                            .max_jobs = 1,
                            .concurrency = 1,
                            .lock_ms = o->lock,
                            .timeout_ms = o->timeout,
                            .argv = (const char *const *)cli->args.rest,
                            .on_event = on_event,
                            .user = cli};
    int code = work(cli, &opts, &end, &stats);
    if (code != CLI_OK)
        return code;
    if (stats.started == 0 && stats.takes > 0 && stats.takes_failed == stats.takes)
        return CLI_OWN_FAILURE; /* the worker's ERROR event said why */
    if (stats.started == 0) {
        cli_say(cli, "no job is ready");
        return CLI_TIMED_OUT;
    }
    code = print_counts(cli, &stats);
    if (code != CLI_OK)
        return code;
    bool ran = stats.exit_status >= 0 && !stats.unstartable;
    /* A result that can't be stored, or a lock that was lost: the program knows nothing of that. */
    return ran && (stats.exit_status != 0 || stats.completed > 0) ? stats.exit_status
                                                                  : CLI_OWN_FAILURE;
}

const struct cli_verb cli_verb_run = {
    .name = "run",
    .summary = "run a program for one job",
    .usage = "QUEUE [--wait D] -- CMD [ARG...]",
    .help =
        "As `emq work`, for one job. Exits with the program's status, 124 if there was no job,\n"
        "125 if emq itself failed, the command line included, or the job is not completed "
        "although\n"
        "the program ended well.",
    .options = run_table,
    .options_size = sizeof(struct run_options),
    .min_words = 1,
    .max_words = 1,
    .opens = true,
    .takes_rest = true,
    .own_failure = CLI_OWN_FAILURE,
    .run = run_one,
};
