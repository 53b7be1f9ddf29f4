/* SPDX-License-Identifier: MIT
 *
 * emq fsck: checks queues, and repairs them.
 */
#include "cli/cli.h"
#include "cli/text.h"
#include "lab/fsck.h"

#include "base/json.h"

struct fsck_options {
    bool repair, dry_run;
    int64_t wait;
    bool has_wait;
};

static const struct cli_option fsck_table[] = {
    {.name = "--repair",
     .type = CLI_FLAG,
     .at = offsetof(struct fsck_options, repair),
     .help = "repair what can be without losing a job"},
    {.name = "--dry-run",
     .type = CLI_FLAG,
     .at = offsetof(struct fsck_options, dry_run),
     .help = "with --repair: only say what would be done"},
    {.name = "--wait",
     .type = CLI_SPAN,
     .at = offsetof(struct fsck_options, wait),
     .seen_at = offsetof(struct fsck_options, has_wait),
     .value = "D",
     .max = CLI_DAY_MS,
     .help = "how long a sweep has to take back a job whose lock has ended (15s)"},
    {.name = NULL},
};

struct printing {
    const struct cli *cli;
    const struct fsck_options *o;
    int code;
};

static const char *what_of(const struct printing *p, const struct emq__finding *f)
{
    if (f->repaired)
        return "repaired";
    if (!f->remedy.len)
        return "not repairable";
    return p->o->repair && !p->o->dry_run ? "still broken" : "repairable";
}

static void print_json(struct printing *p, const struct emq__finding *f)
{
    struct emq__buf b;

    cli_json_begin(&b);
    if (f->queue.len)
        cli_json_str(&b, "queue", f->queue);
    if (f->id.len)
        cli_json_str(&b, "id", f->id);
    cli_json_str(&b, "flaw", f->flaw);
    cli_json_str(&b, "text", f->text);
    if (f->remedy.len)
        cli_json_str(&b, "remedy", f->remedy);
    cli_json_str(&b, "outcome", emq_cstr(what_of(p, f)));
    int code = cli_json_end(p->cli, &b);
    if (code)
        p->code = code;
}

static void print(void *user, const struct emq__finding *f)
{
    struct printing *p = user;

    if (p->cli->globals.json) {
        print_json(p, f);
        return;
    }
    if (f->queue.len)
        cli_print_text(f->queue);
    else
        fputs("the store", stdout);
    if (f->id.len) {
        fputs(": job ", stdout);
        cli_print_text(f->id);
    }
    fputs(": ", stdout);
    cli_print_text(f->text);
    printf(" (%.*s): %s", EMQ_STR_ARG(f->flaw), what_of(p, f));
    if (f->remedy.len) {
        fputs(": ", stdout);
        cli_print_text(f->remedy);
    }
    putchar('\n');
}

static int run(struct cli *cli)
{
    const struct fsck_options *o = cli->options;
    struct printing p = {.cli = cli, .o = o};
    struct emq__fsck f = {
        .queue = emq_cstr(cli->args.n_words ? cli->args.words[0] : ""),
        .repair = o->repair && !o->dry_run,
        .patience_ms = o->has_wait ? o->wait : EMQ__FSCK_PATIENCE_MS,
        .found = print,
        .user = &p,
    };
    emq_error err;

    if (o->dry_run && !o->repair)
        return cli_usage(cli, "--dry-run goes with --repair");
    emq_status s = emq__fsck(cli->client, &f, &err);
    if (s != EMQ_OK)
        return cli_failure(cli, s, &err);
    if (f.queue.len && f.n_queues == 0)
        return cli_error(cli, CLI_NO, "there is no queue %s", cli->args.words[0]);
    cli_say(cli, "%lld queue%s checked, %lld found, %lld repaired", (long long)f.n_queues,
            f.n_queues == 1 ? "" : "s", (long long)f.n_found, (long long)f.n_repaired);
    return p.code ? p.code : f.n_found ? CLI_NO : CLI_OK;
}

const struct cli_verb cli_verb_fsck = {
    .name = "fsck",
    .summary = "check queues, and repair them",
    .usage = "[QUEUE] [--repair [--dry-run]]",
    .help = "Checks what must be true of a queue between any two acts, while it is used or not, "
            "also of one that\n"
            "BullMQ wrote; without QUEUE all of them, and what belongs to none. What a first "
            "reading shows counts\n"
            "when a second look shows it too, and a batch that is there in part 10 s after its "
            "program last went\n"
            "on with it. A line for each violation names the job.\n"
            "\n"
            "--repair never loses a job: what would have to be invented or thrown away stays as it "
            "is.\n"
            "\n"
            "Exit 1 when something was found, repaired or not, or when there is no QUEUE.",
    .options = fsck_table,
    .options_size = sizeof(struct fsck_options),
    .max_words = 1,
    .opens = true,
    .making = EMQ__MAKE_NEW,
    .run = run,
};
