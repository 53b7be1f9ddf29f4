/* SPDX-License-Identifier: MIT
 *
 * emq help, completion, version: made from the table of verbs. `help --man` writes the man pages.
 */
#include "cli/cli.h"
#include "cli/man.h"

#include <sqlite3.h>

static const struct cli_verb *find(const char *name)
{
    for (size_t i = 0; cli_verbs[i]; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    return NULL;
}

struct help_options {
    bool man;
};

static const struct cli_option help_table[] = {
    {.name = "--man",
     .type = CLI_FLAG,
     .at = offsetof(struct help_options, man),
     .help = "as the source of a man page"},
    {.name = NULL},
};

static int run_help(struct cli *cli)
{
    const struct help_options *o = cli->options;
    const struct cli_verb *verb = NULL;
    if (cli->args.n_words > 0 && !(verb = find(cli->args.words[0])))
        return cli_usage(cli, "unknown verb \"%s\"", cli->args.words[0]);
    if (o->man)
        cli_print_man(verb, stdout);
    else
        cli_print_help(verb, stdout);
    return CLI_OK;
}

const struct cli_verb cli_verb_help = {
    .name = "help",
    .summary = "say more about a verb",
    .usage = "[VERB] [--man]",
    .options = help_table,
    .options_size = sizeof(struct help_options),
    .max_words = 1,
    .run = run_help,
};

/* ---- completion -------------------------------------------------------------------------- */

static void print_words(const struct cli_option *o)
{
    for (; o && o->name; o++)
        printf(" %s", o->name);
}

static int run_completion(struct cli *cli)
{
    if (strcmp(cli->args.words[0], "bash") != 0)
        return cli_usage(cli, "\"%s\": only bash is known", cli->args.words[0]);
    puts("# bash completion of emq; use: source <(emq completion bash)\n"
         "_emq() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= i words\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        [[ ${COMP_WORDS[i]} == --url || ${COMP_WORDS[i]} == --prefix ]] && { ((i++)); "
         "continue; }\n"
         "        [[ ${COMP_WORDS[i]} == -* ]] || { verb=${COMP_WORDS[i]}; break; }\n"
         "    done\n"
         "    case $prev in\n"
         "    --state) words='waiting active delayed prioritized waiting-children completed "
         "failed' ;;\n"
         "    *) case $verb in");
    printf("    '') words='");
    for (size_t i = 0; cli_verbs[i]; i++)
        printf("%s%s", i ? " " : "", cli_verbs[i]->name);
    print_words(cli_global_options);
    puts("' ;;");
    for (size_t i = 0; cli_verbs[i]; i++) {
        printf("    %s) words='", cli_verbs[i]->name);
        print_words(cli_verbs[i]->options);
        print_words(cli_global_options);
        puts("'");
        puts("        [[ $cur != -* && $((COMP_CWORD - i)) -eq 1 ]] && words=$(emq ls --json "
             "2>/dev/null |\n"
             "            sed -nE 's/^\\{\"queue\":\"([^\"\\\\]*)\"\\}$/\\1/p') ;;");
    }
    puts("    esac ;;\n"
         "    esac\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -o default -F _emq emq");
    return CLI_OK;
}

const struct cli_verb cli_verb_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .usage = "bash",
    .help = "In ~/.bashrc: source <(emq completion bash)",
    .min_words = 1,
    .max_words = 1,
    .run = run_completion,
};

/* ---- version ----------------------------------------------------------------------------- */

static int run_version(struct cli *cli)
{
    if (cli->globals.json)
        printf("{\"version\":\"%s\",\"sqlite\":\"%s\"}\n", emq_version(), sqlite3_libversion());
    else
        printf("emq %s (SQLite %s)\n", emq_version(), sqlite3_libversion());
    return CLI_OK;
}

const struct cli_verb cli_verb_version = {
    .name = "version",
    .summary = "print the versions of emq and its libraries",
    .usage = "",
    .run = run_version,
};
