/* SPDX-License-Identifier: MIT
 *
 * Help, from the table of verbs: as text, or as JSON for programs.
 */
#include "cli/cli.h"

#include "base/json.h"

static void print_options(const struct cli_option *o, FILE *to)
{
    for (; o && o->name; o++) {
        char left[80];
        snprintf(left, sizeof left, "%s%s%s%s%s", o->name,
                 o->value ? (o->optional ? " [" : " ") : "", o->value ? o->value : "",
                 o->optional ? "]" : "", o->letter ? (char[]){',', ' ', '-', o->letter, 0} : "");
        fprintf(to, "  %-28s %s\n", left, o->help);
    }
}

void cli_print_help(const struct cli_verb *verb, FILE *to)
{
    if (!verb) {
        fputs("usage: emq VERB [ARGUMENTS] [OPTIONS]\n\n", to);
        for (size_t i = 0; cli_verbs[i]; i++)
            fprintf(to, "  %-12s %s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
        fputs("\noptions of every verb:\n", to);
        print_options(cli_global_options, to);
        fputs("\nURLs:\n", to);
        for (const struct cli_url *u = cli_urls; u->form; u++)
            fprintf(to, "  %-42s %s\n", u->form, u->help);
        fputs("\nexit codes:\n", to);
        for (const struct cli_exit_help *x = cli_exits; x->help; x++)
            fprintf(to, "  %-12d %s\n", x->code, x->help);
        fputs("\nlimits:\n", to);
        for (const struct cli_limit *l = cli_limits; l->of; l++) {
            char size[32];
            fprintf(to, "  %-12s %s\n", cli_limit_text(l, size), l->of);
        }
        fputs("\nemq help VERB says more. Durations need a unit: 500ms, 30s, 5m, 1h30m, 7d.\n", to);
        return;
    }
    fprintf(to, "usage: emq %s%s%s\n\n%s\n", verb->name, verb->usage[0] ? " " : "", verb->usage,
            verb->summary);
    if (verb->help)
        fprintf(to, "\n%s\n", verb->help);
    if (verb->options && verb->options->name) {
        fputs("\noptions:\n", to);
        print_options(verb->options, to);
    }
    fputs("\noptions of every verb:\n", to);
    print_options(cli_global_options, to);
}

/* ---- as JSON ----------------------------------------------------------------------------- */

static void put_choices(struct emq__buf *b, const struct cli_option *o)
{
    emq__json_key(b, "choices");
    emq__buf_char(b, '[');
    for (int32_t i = 0; cli_choice(o, i); i++) {
        emq__json_sep(b);
        emq__json_quote(b, emq_cstr(cli_choice(o, i)));
    }
    emq__buf_char(b, ']');
}

static void put_options(struct emq__buf *b, const char *name, const struct cli_option *o)
{
    emq__json_key(b, name);
    emq__buf_char(b, '[');
    for (; o && o->name; o++) {
        emq__json_sep(b);
        emq__buf_char(b, '{');
        cli_json_str(b, "name", emq_cstr(o->name));
        if (o->letter)
            cli_json_str(b, "letter", emq_strn(&o->letter, 1));
        if (o->value)
            cli_json_str(b, "value", emq_cstr(o->value));
        if (o->optional)
            cli_json_bool(b, "valueOptional", true);
        cli_json_str(b, "help", emq_cstr(o->help));
        if (cli_choice(o, 0))
            put_choices(b, o);
        emq__buf_char(b, '}');
    }
    emq__buf_char(b, ']');
}

static void put_verb(struct emq__buf *b, const struct cli_verb *verb)
{
    char synopsis[256];
    snprintf(synopsis, sizeof synopsis, "emq %s%s%s", verb->name, verb->usage[0] ? " " : "",
             verb->usage);
    cli_json_str(b, "name", emq_cstr(verb->name));
    cli_json_str(b, "summary", emq_cstr(verb->summary));
    cli_json_str(b, "synopsis", emq_cstr(synopsis));
}

static void put_urls(struct emq__buf *b)
{
    emq__json_key(b, "urls");
    emq__buf_char(b, '[');
    for (const struct cli_url *u = cli_urls; u->form; u++) {
        emq__json_sep(b);
        emq__buf_char(b, '{');
        cli_json_str(b, "form", emq_cstr(u->form));
        cli_json_str(b, "help", emq_cstr(u->help));
        emq__buf_char(b, '}');
    }
    emq__buf_char(b, ']');
}

static void put_exits(struct emq__buf *b)
{
    emq__json_key(b, "exits");
    emq__buf_char(b, '[');
    for (const struct cli_exit_help *x = cli_exits; x->help; x++) {
        emq__json_sep(b);
        emq__buf_char(b, '{');
        emq__json_i64_member(b, "code", x->code);
        cli_json_str(b, "help", emq_cstr(x->help));
        emq__buf_char(b, '}');
    }
    emq__buf_char(b, ']');
}

static void put_limits(struct emq__buf *b)
{
    emq__json_key(b, "limits");
    emq__buf_char(b, '[');
    for (const struct cli_limit *l = cli_limits; l->of; l++) {
        emq__json_sep(b);
        emq__buf_char(b, '{');
        cli_json_str(b, "of", emq_cstr(l->of));
        emq__json_i64_member(b, "max", l->max);
        cli_json_str(b, "unit", emq_cstr(l->unit));
        emq__buf_char(b, '}');
    }
    emq__buf_char(b, ']');
}

int cli_help(const struct cli *cli, const struct cli_verb *verb)
{
    struct emq__buf b;

    if (!cli->globals.json) {
        cli_print_help(verb, stdout);
        return CLI_OK;
    }
    cli_json_begin(&b);
    if (verb) {
        put_verb(&b, verb);
        cli_json_str(&b, "description", emq_cstr(verb->help));
        put_options(&b, "options", verb->options);
    } else {
        emq__json_key(&b, "verbs");
        emq__buf_char(&b, '[');
        for (size_t i = 0; cli_verbs[i]; i++) {
            emq__json_sep(&b);
            emq__buf_char(&b, '{');
            put_verb(&b, cli_verbs[i]);
            emq__buf_char(&b, '}');
        }
        emq__buf_char(&b, ']');
        put_urls(&b);
        put_exits(&b);
        put_limits(&b);
    }
    put_options(&b, "globalOptions", cli_global_options);
    return cli_json_end(cli, &b);
}
