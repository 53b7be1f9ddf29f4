/* SPDX-License-Identifier: MIT
 *
 * emq help, completion, version: made from the table of verbs. `help --man` writes the man pages.
 */
#include <echomq/effect.h>

#include "cli/cli.h"
#include "cli/man.h"

#ifdef EMQ_HAVE_TLS
#include <openssl/crypto.h>
#endif
#include <sqlite3.h>

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
    if (cli->args.n_words > 0 && !(verb = cli_find_verb(cli->args.words[0])))
        return cli_usage(cli, "unknown verb \"%s\"", cli->args.words[0]);
    if (!o->man)
        return cli_help(cli, verb);
    if (cli->globals.json)
        return cli_usage(cli, "--man and --json exclude each other");
    cli_print_man(verb, stdout);
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

static void put_words(struct emq__buf *b, const struct cli_option *o)
{
    for (; o && o->name; o++)
        emq__buf_printf(b, " %s", o->name);
}

/* What may stand behind an option. */
static void put_choices(struct emq__buf *b, const struct cli_option *o)
{
    for (; o && o->name; o++) {
        if (o->type != CLI_CHOICE)
            continue;
        emq__buf_printf(b, "        [[ $prev != %s ]] || words=(", o->name);
        for (size_t i = 0; o->choices[i]; i++)
            emq__buf_printf(b, "%s%s", i ? " " : "", o->choices[i]);
        emq__buf_text(b, ")\n");
    }
}

static bool begins_with_queue(const struct cli_verb *v)
{
    return strncmp(v->usage, "QUEUE", 5) == 0 || strncmp(v->usage, "[QUEUE", 6) == 0;
}

static void put_verb(struct emq__buf *b, const struct cli_verb *v)
{
    emq__buf_printf(b, "    %s) words=(", v->name);
    put_words(b, v->options);
    put_words(b, cli_global_options);
    emq__buf_text(b, ")\n");
    put_choices(b, v->options);
    if (begins_with_queue(v))
        emq__buf_text(b, "        place=queue\n");
    emq__buf_text(b, "        ;;\n");
}

/* A queue's name is anything that anybody chose: it is never evaluated, and is quoted when it is offered. */
static void put_script(struct emq__buf *b)
{
    emq__buf_text(b,
                  "# bash completion of emq; use: source <(emq completion bash)\n"
                  "_emq() {\n"
                  "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= "
                  "i word place=\n"
                  "    local -a words=() at=()\n"
                  "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                  "        [[ ${COMP_WORDS[i]} == --url || ${COMP_WORDS[i]} == --prefix ]] && {\n"
                  "            at+=(\"${COMP_WORDS[i]}\" \"${COMP_WORDS[++i]}\"); continue; }\n"
                  "        [[ ${COMP_WORDS[i]} == -* ]] || { verb=${COMP_WORDS[i]}; break; }\n"
                  "    done\n"
                  "    case $verb in\n"
                  "    '') words=(");
    for (size_t i = 0; cli_verbs[i]; i++)
        emq__buf_printf(b, "%s%s", i ? " " : "", cli_verbs[i]->name);
    put_words(b, cli_global_options);
    emq__buf_text(b, ") ;;\n");
    for (size_t i = 0; cli_verbs[i]; i++)
        put_verb(b, cli_verbs[i]);
    emq__buf_text(b, "    esac\n"
                     "    [[ $place != queue || $cur == -* || $((COMP_CWORD - i)) -ne 1 ]] ||\n"
                     "        mapfile -t words < <(emq \"${at[@]}\" ls --json 2>/dev/null |\n"
                     "            sed -nE 's/^\\{\"queue\":\"([^\"\\\\]*)\",.*/\\1/p')\n"
                     "    [[ $prev != --state ]] || words=(");
    for (int state = 1; state <= EMQ_STATE_COUNT; state++)
        emq__buf_printf(b, "%s%s", state > 1 ? " " : "", emq_state_name(state));
    emq__buf_text(b, ")\n"
                     "    COMPREPLY=()\n"
                     "    for word in \"${words[@]}\"; do\n"
                     "        [[ $word != \"$cur\"* ]] || COMPREPLY+=(\"$(printf %q \"$word\")\")\n"
                     "    done\n"
                     "}\n"
                     "complete -o default -F _emq emq\n");
}

static int print_script(const struct cli *cli, emq_str script)
{
    struct emq__buf b;
    if (!cli->globals.json) {
        fwrite(script.ptr, 1, script.len, stdout);
        return CLI_OK;
    }
    cli_json_begin(&b);
    cli_json_str(&b, "shell", emq_cstr(cli->args.words[0]));
    cli_json_str(&b, "script", script);
    return cli_json_end(cli, &b);
}

static int run_completion(struct cli *cli)
{
    struct emq__buf script;
    if (strcmp(cli->args.words[0], "bash") != 0)
        return cli_usage(cli, "\"%s\": only bash is known", cli->args.words[0]);
    emq__buf_init(&script, SIZE_MAX / 2);
    put_script(&script);
    int code = script.failed ? cli_error(cli, CLI_AGAIN, "out of memory")
                             : print_script(cli, emq__buf_view(&script));
    emq__buf_free(&script);
    return code;
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

/* NULL: the build does without. */
static const char *hiredis_version(void)
{
#ifdef EMQ_HIREDIS_VERSION
    return EMQ_HIREDIS_VERSION;
#else
    return NULL;
#endif
}

static const char *tls_version(void)
{
#ifdef EMQ_HAVE_TLS
    return OpenSSL_version(OPENSSL_VERSION_STRING);
#else
    return NULL;
#endif
}

static int run_version(struct cli *cli)
{
    const char *hiredis = hiredis_version(), *tls = tls_version();
    struct emq__buf b;

    if (!cli->globals.json) {
        printf("emq %s (SQLite %s, %s%s, %s%s)\n", emq_version(), sqlite3_libversion(),
               hiredis ? "hiredis " : "no Redis", hiredis ? hiredis : "",
               tls ? "OpenSSL " : "no TLS", tls ? tls : "");
        return CLI_OK;
    }
    cli_json_begin(&b);
    cli_json_str(&b, "version", emq_cstr(emq_version()));
    cli_json_str(&b, "sqlite", emq_cstr(sqlite3_libversion()));
    cli_json_str(&b, "sqliteSourceId", emq_cstr(emq_sqlite_source_id()));
    if (hiredis)
        cli_json_str(&b, "hiredis", emq_cstr(hiredis));
    if (tls)
        cli_json_str(&b, "openssl", emq_cstr(tls));
    return cli_json_end(cli, &b);
}

const struct cli_verb cli_verb_version = {
    .name = "version",
    .summary = "print the versions of emq and its libraries",
    .usage = "",
    .help =
        "SQLite; hiredis, where the build can use Redis and Valkey; OpenSSL, where it can use TLS.",
    .run = run_version,
};
