/* SPDX-License-Identifier: MIT
 *
 * emq: finds the verb, parses its arguments by its table, opens the store, runs it.
 */
#include "cli/cli.h"
#include "cli/text.h"

#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* The verb: the first argument that is neither a global option nor the value of one, or else what
 * --version or --help stand for. NULL: there is none. */
static const char *verb_name(int argc, char **argv, int *at)
{
    for (int i = 1; i < argc; i++) {
        *at = i;
        if (argv[i][0] != '-')
            return argv[i];
        for (const struct cli_option *o = cli_global_options; o->name; o++)
            if (o->type != CLI_FLAG && strcmp(o->name, argv[i]) == 0)
                i++;
    }
    for (*at = 1; *at < argc; ++*at) {
        if (strcmp(argv[*at], "--version") == 0)
            return "version";
        if (strcmp(argv[*at], "--help") == 0 || strcmp(argv[*at], "-h") == 0)
            return "help";
    }
    return NULL;
}

static void log_line(void *user, int level, emq_str message)
{
    const struct cli *cli = user;
    bool shown = level <= EMQ_LOG_WARN || (level == EMQ_LOG_INFO && cli->globals.verbose) ||
                 (level == EMQ_LOG_DEBUG && getenv("EMQ_TRACE"));
    if (shown)
        cli_say(cli, "%.*s", EMQ_STR_ARG(message));
}

static int open_store(struct cli *cli)
{
    emq_error err;
    const char *prefix = getenv("EMQ_PREFIX");
    if (!cli->globals.prefix.len && prefix)
        cli->globals.prefix = emq_cstr(prefix);
    emq_open_opts opts = {
        .size = sizeof opts, .prefix = cli->globals.prefix, .log = log_line, .log_user = cli};
    emq_status s = emq__open(&cli->client, cli->globals.url, cli->verb->making, &opts, &err);
    if (cli->verb->making != EMQ__MAKE_ANYWHERE && s == EMQ_E_STORE && err.native == ENODATA)
        return cli_error(cli, CLI_NOINPUT, "%s", err.text);
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

/* Other users may read a process' arguments: a password in one of them is overwritten, and a copy of it used
 * instead, which lives as long as the process. */
static char *hide_password(char *arg)
{
    char *copy = strdup(arg);

    if (!copy || !emq__hide_secrets(arg, strlen(arg))) {
        free(copy);
        return arg;
    }
    return copy;
}

/* For a verb without a command, "--" only says that no more options follow. */
static void join_rest(struct cli *cli, const char **words)
{
    if (cli->verb->takes_rest || !cli->args.rest)
        return;
    for (char *const *arg = cli->args.rest; *arg; arg++)
        words[cli->args.n_words++] = *arg;
    cli->args.rest = NULL;
}

static int check_words(const struct cli *cli)
{
    const struct cli_verb *verb = cli->verb;
    if (cli->args.n_words < verb->min_words)
        return cli_usage(cli, "%s is missing: emq %s %s",
                         cli->args.n_words ? "an argument" : "the first argument", verb->name,
                         verb->usage);
    if (cli->args.n_words > verb->max_words)
        return cli_usage(cli, "one argument too many: \"%s\"", cli->args.words[verb->max_words]);
    return CLI_OK;
}

static int run_verb(struct cli *cli)
{
    if (cli->globals.help)
        return cli_finish(cli, cli_help(cli, cli->verb));
    int code = check_words(cli);
    if (code == CLI_OK && cli->verb->opens)
        code = open_store(cli);
    if (code == CLI_OK)
        code = cli->verb->run(cli);
    emq_close(cli->client);
    return cli_finish(cli, code);
}

/* For messages about a line that can't be parsed. */
static bool mentions_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

/* What stands before the verb is parsed with what stands behind it. */
static int parse_and_run(struct cli *cli, int argc, char **argv, int verb_at)
{
    char **all = calloc((size_t)argc + 1, sizeof *all);
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    bool json = cli->globals.json;
    bool ours = true; /* behind "--" stands somebody else's command */
    int n = 0, code;
    emq_error err;

    cli->options = calloc(1, cli->verb->options_size + 1);
    if (!all || !words || !cli->options) {
        code = cli_error(cli, CLI_AGAIN, "out of memory");
        goto done;
    }
    for (int i = 1; i < argc; i++) {
        ours = ours && strcmp(argv[i], "--") != 0;
        if (i != verb_at)
            all[n++] = ours ? hide_password(argv[i]) : argv[i];
    }
    cli->args.options[0] = cli->verb->options;
    cli->args.into[0] = cli->options;
    cli->args.options[1] = cli_global_options;
    cli->args.into[1] = &cli->globals;
    cli->globals.json = false;
    if (cli_parse(&cli->args, n, all, words, &err) == EMQ_OK) {
        join_rest(cli, words);
        code = run_verb(cli);
    } else {
        cli->globals.json = json;
        code = cli_usage(cli, "%s", err.text);
    }
done:
    free(cli->options);
    free(words);
    free(all);
    return code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    int at = 0;
    const char *name = verb_name(argc, argv, &at);

    cli->globals.json = mentions_json(argc, argv);
    if (argc < 2) {
        cli_print_help(NULL, stderr);
        return CLI_USAGE;
    }
    if (!name)
        return cli_usage(cli, "the verb is missing");
    cli->verb = cli_find_verb(name);
    if (!cli->verb)
        return cli_usage(cli, "unknown verb \"%s\"", name);
    return parse_and_run(cli, argc, argv, at);
}

/* A file opened in place of a closed standard stream would be read as data, or be overwritten by
 * talk. In its place: what can only fail, and says so. */
static bool hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    if (!hold_streams())
        return CLI_AGAIN;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit too */
    return run(&cli, argc, argv);
}
