/* SPDX-License-Identifier: MIT
 *
 * See man.h. mdoc(7), so that `mandoc -Tlint` can check it.
 */
#include "cli/man.h"

static void text(const char *s, FILE *to)
{
    bool start = true;
    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", to);
        if (*s == '\\')
            fputs("\\e", to);
        else if (*s == '-')
            fputs("\\-", to);
        else
            fputc(*s, to);
        start = *s == '\n';
        if (start && s[1] == '\n') { /* a new paragraph */
            fputs(".Pp\n", to);
            s++;
        }
        if ((*s == '.' || *s == ':') && s[1] == ' ') { /* a new sentence, a new line */
            fputc('\n', to);
            start = true;
            s++;
        }
    }
}

static void option(const struct cli_option *o, FILE *to)
{
    fputs(".It Fl Fl ", to);
    text(o->name + 2, to);
    if (o->letter)
        fprintf(to, " , Fl %c", o->letter);
    if (o->value) {
        fprintf(to, o->optional ? " Op Ar " : " Ar ");
        text(o->value, to);
    }
    fputc('\n', to);
    text(o->help, to);
    fputs(".\n", to);
}

static void options(const char *title, const struct cli_option *o, FILE *to)
{
    if (!o || !o->name)
        return;
    fprintf(to, "%s\n.Bl -tag -width Ds\n", title);
    for (; o->name; o++)
        option(o, to);
    fputs(".El\n", to);
}

static void urls(FILE *to)
{
    fputs(".Sh URLS\nAny character may be written in percent form, as %40 for @.\n"
          ".Bl -tag -width Ds\n",
          to);
    for (const struct cli_url *u = cli_urls; u->form; u++) {
        fputs(".It ", to);
        text(u->form, to);
        fputc('\n', to);
        text(u->help, to);
        fputs(".\n", to);
    }
    fputs(".El\n", to);
}

static void exit_status(FILE *to)
{
    fputs(".Sh EXIT STATUS\n.Bl -tag -width \"124\" -compact\n", to);
    for (const struct cli_exit_help *x = cli_exits; x->help; x++) {
        fprintf(to, ".It %d\n", x->code);
        text(x->help, to);
        fputc('\n', to);
    }
    fputs(".El\n", to);
}

static void limits(FILE *to)
{
    fputs(".Sh LIMITS\n.Bl -tag -width Ds -compact\n", to);
    for (const struct cli_limit *l = cli_limits; l->of; l++) {
        char size[32];
        fputs(".It ", to);
        text(l->of, to);
        fprintf(to, "\n%s\n", cli_limit_text(l, size));
    }
    fputs(".El\n", to);
}

static void head(const char *name, FILE *to)
{
    fputs(".Dd November 29, 2026\n.Dt ", to);
    for (const char *s = name; *s; s++)
        fputc(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s, to);
    fprintf(to, " 1\n.Os EchoMQ\n.Sh NAME\n.Nm %s\n", name);
}

static void print_overview(FILE *to)
{
    head("emq", to);
    fputs(".Nd a job queue that is honest about delivery\n.Sh SYNOPSIS\n.Nm\n.Ar verb\n.Op Ar "
          "arguments\n"
          ".Op Ar options\n.Sh DESCRIPTION\n"
          "A job is taken under a lock with a TTL and leaves when it is acknowledged.\n"
          "When its worker dies, the lock ends and the job is returned: never lost, possibly run "
          "twice.\n"
          ".Pp\nThe verbs, each with a page of its own:\n.Bl -tag -width \"completion\" -compact\n",
          to);
    for (size_t i = 0; cli_verbs[i]; i++)
        fprintf(to, ".It Xr emq-%s 1\n%s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
    fputs(".El\n", to);
    options(".Pp\nOptions of every verb, before or after it:", cli_global_options, to);
    fputs(".Pp\nDurations need a unit: 500ms, 30s, 5m, 1h30m, 7d.\n"
          "Retention is a count, an age, or both: 1000, 7d, 1000,7d, all, none.\n",
          to);
    urls(to);
    limits(to);
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width EMQ_TRACE\n.It Ev EMQ_URL\nThe store, where\n.Fl Fl "
          "url\nis not given.\n"
          ".It Ev EMQ_PREFIX\nThe prefix, where\n.Fl Fl prefix\nis not given; it goes before that "
          "of the URL.\n"
          ".It Ev REDIS_URL\nThe store, where the URL is\n.Ql redis: .\n"
          ".It Ev XDG_STATE_HOME\nThe embedded file is\n.Pa echomq/queue.db\nin it; default\n.Pa "
          "~/.local/state .\n"
          ".It Ev EMQ_TRACE\nengine: one line on stderr for each call of the store.\n"
          ".El\n",
          to);
    exit_status(to);
    fputs(".Sh SEE ALSO\n.Xr echomq-delivery 7\n", to);
}

void cli_print_man(const struct cli_verb *verb, FILE *to)
{
    if (!verb) {
        print_overview(to);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "emq-%s", verb->name);
    head(name, to);
    fputs(".Nd ", to);
    text(verb->summary, to);
    fprintf(to, "\n.Sh SYNOPSIS\n.Nm emq %s\n", verb->name);
    if (verb->usage[0]) {
        text(verb->usage, to);
        fputc('\n', to);
    }
    fputs(".Sh DESCRIPTION\n", to);
    text(verb->help ? verb->help : verb->summary, to);
    fputs(verb->help ? "\n" : ".\n", to);
    options(".Pp\nThe options:", verb->options, to);
    fputs(".Pp\nThe options of every verb and the environment are described in\n.Xr emq 1 .\n", to);
    exit_status(to);
    fputs(".Sh SEE ALSO\n.Xr emq 1\n", to);
}
