/* SPDX-License-Identifier: MIT
 *
 * emq effect run: a command whose effect is to happen once, between its claim and its record.
 *
 * The invariant: the command is begun only under a claim of this hand-out. How it ended decides what is known:
 * 0 it happened, another code it did not, a signal nobody knows, and then the claim stays.
 */
#include "cli/effect.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct effect {
    struct cli *cli;
    const struct effect_options *o;
    emq_effect_key key;
    const char *step;
};

/* What a command wrote, up to what is stored. */
struct output {
    char *bytes;
    size_t len;
    bool cut;
};

/* ---- the command ------------------------------------------------------------------------- */

static volatile sig_atomic_t child_pid;

/* A worker that wants us to stop signals the whole group; somebody else may have meant us alone. */
static void pass_on(int sig)
{
    if (child_pid > 0)
        (void)kill((pid_t)child_pid, sig);
}

static void take_signals(void)
{
    static const int sigs[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    const struct sigaction sa = {.sa_handler = pass_on, .sa_flags = SA_RESTART};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(sigs); i++)
        (void)sigaction(sigs[i], &sa, NULL);
}

static void become(char *const *argv, int out, pid_t parent)
{
    (void)signal(SIGPIPE, SIG_DFL);
    /* Nobody would record what it does after our death, while another may do it again. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(out, STDOUT_FILENO) >= 0)
        (void)execvp(argv[0], argv);
    int code = errno == ENOENT ? 127 : 126;
    (void)fprintf(stderr, "emq effect: %s: %s\n", argv[0], strerror(errno));
    _exit(code);
}

/* false: the reader of our output has gone; the effect goes on. */
static bool pass_output(const char *p, size_t n, struct output *out, bool pass)
{
    size_t room = EMQ_RESULT_MAX - out->len;

    out->cut = out->cut || n > room;
    memcpy(out->bytes + out->len, p, n < room ? n : room);
    out->len += n < room ? n : room;
    if (!pass)
        return false;
    if (fwrite(p, 1, n, stdout) == n && fflush(stdout) == 0)
        return true;
    cli_write_failed(errno);
    return false;
}

static void read_output(int fd, struct output *out, bool pass)
{
    char chunk[16 * 1024];

    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        pass = pass_output(chunk, (size_t)n, out, pass);
    }
}

/* Its wait status; -1 after a message: it was not begun. pass: its output is ours too. */
static int run_command(struct effect *x, char *const *argv, struct output *out, bool pass)
{
    int ends[2], status = 0;

    out->bytes = malloc(EMQ_RESULT_MAX);
    if (!out->bytes || pipe2(ends, O_CLOEXEC) != 0) {
        cli_error(x->cli, CLI_AGAIN, "%s", out->bytes ? strerror(errno) : "out of memory");
        return -1;
    }
    (void)fflush(stdout);
    (void)signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would lose how it ended */
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        become(argv, ends[1], parent);
    }
    int why = errno;
    child_pid = pid;
    take_signals();
    (void)close(ends[1]);
    if (pid > 0)
        read_output(ends[0], out, pass);
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return SIGKILL; /* how it ended is not known: as if by a signal */
    child_pid = 0;
    if (pid > 0)
        return status;
    cli_error(x->cli, CLI_AGAIN, "can't start %s: %s", argv[0], strerror(why));
    return -1;
}

/* ---- what became of it ------------------------------------------------------------------- */

static int lost(const struct effect *x, const char *what)
{
    return cli_error(x->cli, CLI_NO, "the lock of job %.*s is not this hand-out's any more; %s",
                     EMQ_STR_ARG(x->key.id), what);
}

static int answer(const struct effect *x, emq_status s, const emq_error *err)
{
    switch ((int)s) {
    case EMQ_LOST: return lost(x, "nothing was done");
    case EMQ_NOT_FOUND:
        return cli_error(x->cli, CLI_NO, "there is no job %.*s", EMQ_STR_ARG(x->key.id));
    case EMQ_CONFLICT:
        return cli_error(x->cli, CLI_DATA,
                         "%s was claimed with another --payload: one name for two effects",
                         x->step);
    default: return cli_failure(x->cli, s, err);
    }
}

static int record(struct effect *x, const struct output *out)
{
    emq_error err;

    if (out->cut)
        cli_say(x->cli, "%s: its output is longer than %d bytes: the rest is not stored", x->step,
                EMQ_RESULT_MAX);
    emq_status s =
        emq_effect_done(x->cli->client, &x->key, emq_strn(out->bytes, out->len), x->o->keep, &err);
    if (s == EMQ_LOST)
        return lost(x, "its effect has happened and could not be recorded: it is in doubt now");
    if (emq__is_failure(s))
        return cli_error(x->cli, CLI_IN_DOUBT,
                         "%s has happened, and may or may not be recorded: %s", x->step, err.text);
    if (s != EMQ_OK)
        return cli_error(x->cli, CLI_NO, "%s has happened, and was not recorded: %s", x->step,
                         emq_status_text(s));
    cli_did("%s is done and recorded", x->step);
    return CLI_OK;
}

/* The signal that ended the command, or one of its own of which it tells as a shell does; 0 = none. */
static int signal_of(int status)
{
    if (status < 0)
        return 0;
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    int told = WEXITSTATUS(status) - 128;
    return told > 0 && told <= SIGRTMAX ? told : 0;
}

static int act(struct effect *x)
{
    struct output out = {0};
    emq_error err;
    int code = CLI_AGAIN;
    int status = run_command(x, x->cli->args.rest, &out, true), by = signal_of(status);

    if (by) {
        code = 128 + by;
        cli_error(x->cli, code, "%s is in doubt: signal %d ended its command", x->step, by);
    } else if (status == 0) {
        code = record(x, &out);
    } else {
        code = status > 0 ? WEXITSTATUS(status) : code;
        emq_status s = emq_effect_release(x->cli->client, &x->key, &err);
        if (s != EMQ_OK)
            (void)answer(x, s, &err);
    }
    free(out.bytes);
    return code;
}

static int already(const emq_effect *e)
{
    emq_str result = emq_effect_result(e);

    (void)fwrite(result.ptr, 1, result.len, stdout);
    return CLI_OK;
}

/* ---- in doubt ---------------------------------------------------------------------------- */

/* Short: it becomes the reason of a failure, of which the history and `emq work` tell some 200 bytes. */
static int park(const struct effect *x)
{
    return cli_error(x->cli, CLI_PARKED,
                     "in doubt and parked: look, then emq effect resolve %.*s %.*s %s --done or "
                     "--forget, and emq retry",
                     EMQ_STR_ARG(x->key.queue), EMQ_STR_ARG(x->key.id), x->step);
}

/* found: what is known to have come of it; NULL: it is done now. */
static int take_over(struct effect *x, const struct output *found)
{
    emq_effect *e = NULL;
    emq_error err;
    int flags = EMQ_CLAIM_TAKE_OVER | (found ? EMQ_CLAIM_SETTLES : 0);
    emq_status s = emq_effect_claim(x->cli->client, &x->key, flags, x->o->keep, &e, &err);

    if (s != EMQ_OK)
        return answer(x, s, &err);
    bool done = emq_effect_get_state(e) == EMQ_EFFECT_IS_DONE;
    int code = done ? already(e) : found ? record(x, found) : act(x);
    if (!done && found && code == CLI_OK)
        (void)fwrite(found->bytes, 1, found->len, stdout);
    emq_effect_free(e);
    return code;
}

static int probe(struct effect *x)
{
    char sh[] = "/bin/sh", c[] = "-c";
    char *command = emq__str_dup(x->o->probe);
    char *const argv[] = {sh, c, command, NULL};
    struct output out = {0};
    int status = command ? run_command(x, argv, &out, false) : -1;
    int code;

    if (status == 0)
        code = take_over(x, &out);
    else if (status > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1)
        code = take_over(x, NULL);
    else
        code = park(x);
    free(out.bytes);
    free(command);
    return code;
}

static int decide(struct effect *x)
{
    char none[1] = "";
    const struct output nothing = {.bytes = none};
    int policy = x->o->has_policy  ? x->o->policy + EMQ_DOUBT_REDO
                 : x->o->probe.len ? EMQ_DOUBT_PROBE
                                   : EMQ_DOUBT_REDO;

    switch ((emq_doubt_policy)policy) {
    case EMQ_DOUBT_SKIP: return take_over(x, &nothing);
    case EMQ_DOUBT_PARK: return park(x);
    case EMQ_DOUBT_PROBE: return probe(x);
    case EMQ_DOUBT_REDO: break;
    }
    cli_say(x->cli, "%s is in doubt: it may have happened; it is done again (%s)", x->step,
            x->o->has_policy ? "--policy redo" : "the default; see --policy");
    return take_over(x, NULL);
}

/* ---- the verb ---------------------------------------------------------------------------- */

static int check_line(const struct cli *cli, const struct effect_options *o)
{
    int probe = EMQ_DOUBT_PROBE - EMQ_DOUBT_REDO;

    if (!cli->args.rest || !cli->args.rest[0])
        return cli_usage(cli, "the command is missing: emq effect run KEY -- CMD");
    if (cli->args.n_words != 2)
        return cli_usage(cli, "give one KEY, then -- CMD");
    if (o->has_policy && o->policy == probe && !o->probe.len)
        return cli_usage(cli, "--policy probe needs --probe CMD");
    if (o->has_policy && o->policy != probe && o->probe.len)
        return cli_usage(cli, "--probe goes with --policy probe");
    if (o->done || o->forget)
        return cli_usage(cli, "--done and --forget are for resolve");
    return CLI_OK;
}

int cli_effect_run(struct cli *cli)
{
    struct effect x = {.cli = cli, .o = cli->options, .step = ""};
    emq_effect *e = NULL;
    emq_error err;
    char *payload = NULL;
    int code = check_line(cli, x.o);

    if (code == CLI_OK)
        code = cli_effect_key(cli, emq_cstr(cli->args.words[1]), true, &x.key);
    if (code == CLI_OK && x.o->payload.len)
        code = cli_read_data(cli, x.o->payload.ptr, EMQ_DATA_MAX, &payload, &x.key.payload.len);
    if (code != CLI_OK)
        return code;
    x.step = cli->args.words[1];
    x.key.payload.ptr = payload;
    emq_status s = emq_effect_claim(cli->client, &x.key, 0, x.o->keep, &e, &err);
    if (s != EMQ_OK) {
        code = answer(&x, s, &err);
    } else {
        switch ((emq_effect_state)emq_effect_get_state(e)) {
        case EMQ_EFFECT_FRESH: code = act(&x); break;
        case EMQ_EFFECT_IS_DONE: code = already(e); break;
        case EMQ_EFFECT_IN_DOUBT: code = decide(&x); break;
        case EMQ_EFFECT_BUSY:
        case EMQ_EFFECT_NONE:
            code = cli_error(cli, CLI_AGAIN,
                             "%s: this hand-out is at it, or was and ended without a word", x.step);
        }
    }
    emq_effect_free(e);
    free(payload);
    return code;
}
