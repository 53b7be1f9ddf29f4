/* SPDX-License-Identifier: MIT
 *
 * emq doctor: what this store can lose, and what should be changed.
 */
#include "cli/cli.h"
#include "cli/text.h"
#include "lab/doctor.h"

#include "base/json.h"

static int print_json(const struct cli *cli, const struct emq__doctor *d)
{
    struct emq__buf b;

    cli_json_begin(&b);
    emq__json_key(&b, "facts");
    emq__buf_char(&b, '{');
    for (size_t i = 0; i < d->n_facts; i++)
        cli_json_str(&b, d->facts[i].name.ptr, d->facts[i].value);
    emq__buf_char(&b, '}');
    emq__json_key(&b, "lost");
    emq__buf_char(&b, '{');
    for (int i = 0; i < EMQ__LOSSES; i++)
        cli_json_str(&b, emq__loss_name((enum emq__loss)i), emq_cstr(d->losses[i]));
    emq__buf_char(&b, '}');
    emq__json_key(&b, "advice");
    emq__buf_char(&b, '[');
    for (size_t i = 0; i < d->n_advice; i++) {
        emq__json_sep(&b);
        emq__json_quote(&b, d->advice[i]);
    }
    emq__buf_char(&b, ']');
    return cli_json_end(cli, &b);
}

static void print_text(const struct emq__doctor *d)
{
    for (size_t i = 0; i < d->n_facts; i++) {
        printf("%-22.*s ", EMQ_STR_ARG(d->facts[i].name));
        cli_print_text(d->facts[i].value);
        putchar('\n');
    }
    puts("\nwhat is lost");
    for (int i = 0; i < EMQ__LOSSES; i++)
        printf("  when the %-8s %s: %s\n", emq__loss_name((enum emq__loss)i),
               i == EMQ__LOSS_LINK ? "breaks" : "dies", d->losses[i]);
    puts(d->n_advice ? "\nwhat to change" : "\nnothing to change");
    for (size_t i = 0; i < d->n_advice; i++) {
        fputs("  ", stdout);
        cli_print_text(d->advice[i]);
        putchar('\n');
    }
}

static int run(struct cli *cli)
{
    struct emq__arena mem = {0};
    struct emq__doctor d;
    emq_error err;
    int code;
    emq_status s = emq__doctor(cli->client, &mem, &d, &err);

    if (s != EMQ_OK) {
        code = cli_failure(cli, s, &err);
    } else if (cli->globals.json) {
        code = print_json(cli, &d);
    } else {
        print_text(&d);
        code = CLI_OK;
    }
    if (code == CLI_OK && s == EMQ_OK && d.n_advice > 0)
        code = CLI_NO;
    emq__arena_free(&mem);
    return code;
}

const struct cli_verb cli_verb_doctor = {
    .name = "doctor",
    .summary = "say what this store can lose, and what to change",
    .usage = "",
    .help = "What the store is, what is lost when a process, the machine, the server or the link "
            "dies, and what is\n"
            "not as it should be: settings, clocks, room, programs that have the file open by "
            "another SQLite.\n"
            "\n"
            "Exit 1 when there is something to change, 66 when the file is not there or is no "
            "store: it is "
            "made none.",
    .opens = true,
    .making = EMQ__MAKE_NONE,
    .run = run,
};
