/* SPDX-License-Identifier: MIT
 *
 * emq: finds the verb, parses its arguments by its table, opens the store, runs it.
 */
#include "cli/cli.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; cli_verbs[i]; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    return NULL;
}

/* Index of the verb: the first argument that is neither a global option nor the value of one. */
static int verb_index(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        for (const struct cli_option *o = cli_global_options; o->name; o++)
            if (o->type != CLI_FLAG && strcmp(o->name, argv[i]) == 0)
                i++;
    }
    return argc;
}

static void log_line(void *user, int level, emq_str message)
{
    const struct cli *cli = user;
    bool shown = level <= EMQ_LOG_WARN   ? !cli->globals.quiet
                 : level == EMQ_LOG_INFO ? cli->globals.verbose
                                         : getenv("EMQ_TRACE") != NULL;
    if (shown)
        fprintf(stderr, "emq: %.*s\n", EMQ_STR_ARG(message));
}

static int open_store(struct cli *cli)
{
    emq_error err;
    emq_open_opts opts = {
        .size = sizeof opts, .prefix = cli->globals.prefix, .log = log_line, .log_user = cli};
    emq_status s = emq_open(&cli->client, cli->globals.url, &opts, &err);
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

/* Other users may read a process' arguments: a password in one of them is overwritten, and a copy of it used
 * instead, which lives as long as the process. */
static char *hide_password(char *arg)
{
    char *url = strncmp(arg, "--url=", 6) == 0 ? arg + 6 : arg;
    char *who = strncmp(url, "redis", 5) == 0 ? strstr(url, "://") : NULL;
    char *at = who ? strrchr(who, '@') : NULL, *param = who ? strstr(who, "password=") : NULL;
    char *copy = at || param ? strdup(arg) : NULL;

    if (!copy)
        return arg;
    for (char *p = at ? who + 3 : NULL; p && p < at; p++)
        *p = 'x';
    for (char *p = param ? param + 9 : NULL; p && *p && *p != '&'; p++)
        *p = 'x';
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

/* `emq run` passes on the program's status: what is emq's own must not look like one. */
static int own_code(const struct cli *cli, int code)
{
    return cli->verb->own_failure ? cli->verb->own_failure : code;
}

static int run_verb(struct cli *cli)
{
    if (cli->globals.help) {
        cli_print_help(cli->verb, stdout);
        return cli_finish(cli, CLI_OK);
    }
    int code = check_words(cli);
    if (code == CLI_OK && cli->verb->opens)
        code = open_store(cli);
    if (code == CLI_OK)
        code = cli->verb->run(cli);
    else
        code = own_code(cli, code);
    emq_close(cli->client);
    return cli_finish(cli, code);
}

static int run(struct cli *cli, int argc, char **argv)
{
    int at = verb_index(argc, argv);
    const char *name = at < argc ? argv[at] : NULL;

    if (!name) {
        for (int i = 1; i < argc; i++) {
            if (strcmp(argv[i], "--version") == 0)
                name = "version";
            else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
                name = "help";
        }
        if (!name) {
            if (argc > 1)
                return cli_usage(cli, "the verb is missing");
            cli_print_help(NULL, stderr);
            return CLI_USAGE;
        }
        at = argc - 1;
        argc = 1;
    }
    cli->verb = find_verb(name);
    if (!cli->verb)
        return cli_usage(cli, "unknown verb \"%s\"", name);

    /* What stands before the verb is parsed with what stands behind it. */
    char **all = calloc((size_t)argc + 1, sizeof *all);
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    cli->options = calloc(1, cli->verb->options_size + 1);
    int code = CLI_AGAIN;
    if (all && words && cli->options) {
        int n = 0;
        bool ours = true; /* behind "--" stands somebody else's command */
        for (int i = 1; i < argc; i++) {
            ours = ours && strcmp(argv[i], "--") != 0;
            if (i != at)
                all[n++] = ours ? hide_password(argv[i]) : argv[i];
        }
        cli->args.options[0] = cli->verb->options;
        cli->args.into[0] = cli->options;
        cli->args.options[1] = cli_global_options;
        cli->args.into[1] = &cli->globals;
        emq_error err;
        if (cli_parse(&cli->args, n, all, words, &err) == EMQ_OK) {
            join_rest(cli, words);
            code = run_verb(cli);
        } else {
            code = own_code(cli, cli_usage(cli, "%s", err.text));
        }
    } else {
        cli_error(cli, code, "out of memory");
    }
    free(cli->options);
    free(words);
    free(all);
    return code;
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
    return run(&cli, argc, argv);
}
