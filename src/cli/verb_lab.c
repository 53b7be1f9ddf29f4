/* SPDX-License-Identifier: MIT
 *
 * emq lab: the matrix of modes, strengths, faults and points, run for real and compared with theory.
 */
#include "cli/lab.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

#include <signal.h>
#include <unistd.h>

#define AT(member)   .at = offsetof(struct lab_options, member)
#define SEEN(member) .seen_at = offsetof(struct lab_options, member)

static const struct cli_option lab_table[] = {
    {.name = "--mode",
     .type = CLI_CHOICE,
     AT(mode),
     SEEN(has_mode),
     .value = "M",
     .choices = cli_modes,
     .help = "only this delivery mode"},
    {.name = "--effect",
     .type = CLI_CHOICE,
     AT(effect),
     SEEN(has_effect),
     .value = "E",
     .choices = lab_effects,
     .help = "only this strength; marker: all four policies"},
    {.name = "--fault",
     .type = CLI_CHOICE,
     AT(fault),
     SEEN(has_fault),
     .value = "F",
     .choices = lab_faults,
     .help = "only this fault"},
    {.name = "--point",
     .type = CLI_CHOICE,
     AT(point),
     SEEN(has_point),
     .value = "P",
     .choices = lab_points,
     .help = "only at this point"},
    {.name = "--server",
     .type = CLI_TEXT,
     AT(server),
     .value = "PROGRAM",
     .help = "run on servers that the lab starts itself: redis-server, valkey-server"},
    {.name = "--parallel",
     .type = CLI_INT,
     AT(parallel),
     .value = "N",
     .min = 1,
     .max = 64,
     .help = "cells side by side (16)"},
    {.name = "--jobs",
     .type = CLI_INT,
     AT(jobs),
     .value = "N",
     .min = 1,
     .max = 1000000,
     .help = "soak: how many jobs a mode; with --for, how many are kept in line (300)"},
    {.name = "--for",
     .type = CLI_SPAN,
     AT(lasting),
     .value = "D",
     .min = 1000,
     .max = CLI_DAY_MS,
     .help = "soak: go on for so long a mode, with more jobs (until the first ones are done)"},
    {.name = "--kill-every",
     .type = CLI_SPAN,
     AT(kill_every),
     .value = "T",
     .min = 10,
     .max = CLI_DAY_MS,
     .help = "soak: a worker dies so often, more or less (200ms)"},
    {.name = "--check",
     .type = CLI_TEXT,
     AT(check),
     .value = "CMD",
     .help = "handler: a shell command that prints how much has happened, a number"},
    {.name = "--markdown",
     .type = CLI_FLAG,
     AT(markdown),
     .help = "a table a mode: a row a fault, a column a strength, with the number of effects"},
    {.name = NULL},
};

/* ---- ground ------------------------------------------------------------------------------ */

static struct lab_ground *_Atomic the_ground; /* a signal handler can only reach a global */

static void on_signal(int sig)
{
    struct lab_ground *g = atomic_load(&the_ground);

    if (g)
        atomic_store(&g->stop, sig);
}

/* The folder of a store's file: what is proved there is proved on its disk. Malloc'ed; NULL = none. */
static char *folder_of(emq_str url)
{
    emq_str path = emq__str_starts(url, "sqlite:") ? emq_strn(url.ptr + 7, url.len - 7) : url;
    size_t n = path.len;

    while (n > 0 && path.ptr[n - 1] != '/')
        n--;
    return n ? emq__str_dup(emq_strn(path.ptr, n)) : emq__str_dup(EMQ_STR_LIT("."));
}

int cli_lab_open(struct cli *cli, struct lab_ground *g)
{
    static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction sa = {.sa_handler = on_signal};
    const struct lab_options *o = cli->options;
    emq_str url = cli->globals.url;
    emq_error err = {0};
    bool file = emq__str_starts(url, "sqlite:") || (url.len && strchr("/.", url.ptr[0]));

    if (!url.len && getenv("EMQ_URL") && !o->server.len)
        cli_say(cli, "on files of its own; EMQ_URL is left alone: give --url for that server");
    if (url.len && o->server.len)
        return cli_usage(cli, "--url and --server exclude each other");
    if (cli->globals.json && o->markdown)
        return cli_usage(cli, "--json and --markdown exclude each other");
    *g = (struct lab_ground){.url = url.len && !file ? url.ptr : NULL,
                             .where = file ? folder_of(url) : NULL,
                             .program = o->server.len ? o->server.ptr : NULL};
    atomic_store(&the_ground, g);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sigs); i++)
        (void)sigaction(sigs[i], &sa, NULL);
    emq_status s = lab_ground_open(g, &err);
    return s == EMQ_OK ? CLI_OK : cli_lab_close(cli, g, cli_lab_failure(cli, g, s, &err));
}

int cli_lab_failure(const struct cli *cli, const struct lab_ground *g, emq_status s,
                    const emq_error *err)
{
    return atomic_load(&g->stop) ? CLI_NO : cli_failure(cli, s, err);
}

int cli_lab_close(struct cli *cli, struct lab_ground *g, int code)
{
    emq_error err = {0};
    emq_status s = lab_ground_close(g, &err);
    int sig = atomic_load(&g->stop);
    char *where;

    atomic_store(&the_ground, NULL);
    memcpy(&where, &g->where, sizeof where);
    free(where);
    if (s != EMQ_OK && (code == CLI_OK || sig))
        code = cli_failure(cli, s, &err);
    if (!sig)
        return code;
    cli_say(cli, "stopped by a signal (%s)", strsignal(sig));
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
    return code;
}

const char *cli_lab_engine(const struct lab_ground *g)
{
    return lab_on_server(g) ? "redis" : "sqlite";
}

/* ---- cells ------------------------------------------------------------------------------- */

char *cli_lab_outcome(const struct lab_outcome *o, char out[LAB_TEXT_MAX])
{
    (void)snprintf(out, LAB_TEXT_MAX, "%lld %s, %lld %s, %s", (long long)o->deliveries,
                   o->deliveries == 1 ? "delivery" : "deliveries", (long long)o->effects,
                   o->effects == 1 ? "effect" : "effects", lab_state(o->state));
    return out;
}

static bool is_wanted(const struct lab_options *o, const struct lab_cell *c)
{
    return (!o->has_mode || o->mode == c->mode) && (!o->has_fault || o->fault == c->fault) &&
           (!o->has_point || o->point == c->point) &&
           (!o->has_effect || o->effect == c->effect ||
            (o->effect == LAB_ANY_MARKER && lab_marked(c->effect)));
}

static struct lab_result *wanted_cells(const struct lab_options *o, bool server, size_t *n)
{
    struct lab_cell *cells = calloc(LAB_CELLS_MAX, sizeof *cells);
    struct lab_result *r = calloc(LAB_CELLS_MAX, sizeof *r);
    size_t all = cells && r ? lab_cells(server, cells) : 0;

    *n = 0;
    for (size_t i = 0; i < all; i++)
        if (is_wanted(o, &cells[i]))
            r[(*n)++].cell = cells[i];
    free(cells);
    return r;
}

/* ---- the answer -------------------------------------------------------------------------- */

int cli_lab_json(const struct cli *cli, const struct lab_ground *g, const struct lab_cell *cell,
                 const char *effect, const struct lab_outcome *seen, const char *verdict,
                 int expected)
{
    static const char *const middle = "P2-P3";
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "engine", emq_cstr(cli_lab_engine(g)));
    cli_json_str(&b, "mode", emq_cstr(cli_modes[cell->mode]));
    cli_json_str(&b, "effect", emq_cstr(effect));
    cli_json_str(&b, "point",
                 emq_cstr(cell->point < EMQ__POINT_COUNT ? lab_points[cell->point] : middle));
    cli_json_str(&b, "fault", emq_cstr(lab_faults[cell->fault]));
    if (seen) {
        emq__json_i64_member(&b, "deliveries", seen->deliveries);
        emq__json_i64_member(&b, "effects", seen->effects);
        cli_json_str(&b, "state", emq_cstr(lab_state(seen->state)));
    } else {
        emq__buf_text(&b, ",\"deliveries\":null,\"effects\":null,\"state\":null");
    }
    cli_json_str(&b, "verdict", emq_cstr(verdict));
    cli_json_str(&b, "expected", emq_cstr(lab_verdicts[expected]));
    return cli_json_end(cli, &b);
}

const char *cli_lab_verdict(const struct lab_result *r)
{
    return r->how == LAB_RAN       ? lab_verdicts[lab_judge(&r->seen)]
           : r->how == LAB_NOT_RUN ? "not run"
                                   : "not measured";
}

struct row {
    char deliveries[24], effects[24], theory[LAB_TEXT_MAX + 20];
    const char *cells[7];
};

static void make_row(const struct lab_result *r, struct row *out)
{
    bool ran = r->how == LAB_RAN;
    char text[LAB_TEXT_MAX];

    (void)snprintf(out->deliveries, sizeof out->deliveries, "%lld", (long long)r->seen.deliveries);
    (void)snprintf(out->effects, sizeof out->effects, "%lld", (long long)r->seen.effects);
    if (r->how == LAB_NOT_RUN || lab_as_expected(r))
        (void)snprintf(out->theory, sizeof out->theory, "%s: %s",
                       lab_verdicts[lab_judge(&r->expected)], r->why);
    else
        (void)snprintf(out->theory, sizeof out->theory, "DIFFERS: %s: %s",
                       cli_lab_outcome(&r->expected, text), r->why);
    const char *const cells[] = {lab_points[r->cell.point],
                                 lab_faults[r->cell.fault],
                                 ran ? out->deliveries : "",
                                 ran ? out->effects : "",
                                 ran ? lab_state(r->seen.state) : "",
                                 cli_lab_verdict(r),
                                 out->theory};
    memcpy(out->cells, cells, sizeof cells);
}

static bool same_table(const struct lab_cell *a, const struct lab_cell *b)
{
    return a->mode == b->mode && a->effect == b->effect;
}

static int print_table(const struct cli *cli, const struct lab_result *r, size_t n)
{
    static const char *const columns[] = {"POINT", "FAULT",   "DELIVERIES", "EFFECTS",
                                          "STATE", "VERDICT", "THEORY"};
    static const bool right[] = {false, false, true, true, false, false, false};
    struct cli_table *t = cli_table_new(columns, right, EMQ_ARRAY_LEN(columns));
    struct row row;

    for (size_t i = 0; i < n; i++) {
        make_row(&r[i], &row);
        cli_table_row(t, row.cells);
    }
    return cli_table_print(t) == 0 ? CLI_OK : cli_error(cli, CLI_AGAIN, "out of memory");
}

static int print_tables(const struct cli *cli, const struct lab_result *r, size_t n)
{
    int code = CLI_OK;

    for (size_t i = 0, end; i < n && code == CLI_OK; i = end) {
        for (end = i; end < n && same_table(&r[i].cell, &r[end].cell);)
            end++;
        (void)printf("%s%s, %s\n", i ? "\n" : "", cli_modes[r[i].cell.mode],
                     lab_effects[r[i].cell.effect]);
        code = print_table(cli, r + i, end - i);
    }
    return code;
}

static int print_results(const struct cli *cli, const struct lab_ground *g,
                         const struct lab_result *r, size_t n)
{
    int code = CLI_OK;

    if (((const struct lab_options *)cli->options)->markdown)
        return cli_lab_markdown(r, n), CLI_OK;
    if (!cli->globals.json)
        return print_tables(cli, r, n);
    for (size_t i = 0; i < n && code == CLI_OK; i++)
        code = cli_lab_json(cli, g, &r[i].cell, lab_effects[r[i].cell.effect],
                            r[i].how == LAB_RAN ? &r[i].seen : NULL, cli_lab_verdict(&r[i]),
                            (int)lab_judge(&r[i].expected));
    return code;
}

/* What is to be said beside the results, and the exit code. */
static int conclude(const struct cli *cli, const struct lab_result *r, size_t n)
{
    char seen[LAB_TEXT_MAX], expected[LAB_TEXT_MAX];
    size_t differ = 0, broken = 0, left = 0;

    for (size_t i = 0; i < n; i++) {
        const struct lab_cell *c = &r[i].cell;
        const char *const names[] = {cli_modes[c->mode], lab_effects[c->effect],
                                     lab_faults[c->fault], lab_points[c->point]};
        left += r[i].how == LAB_NOT_RUN;
        broken += r[i].how == LAB_BROKEN;
        if (r[i].how == LAB_BROKEN)
            (void)cli_error(cli, CLI_AGAIN, "%s, %s, %s at %s: not measured: %s", names[0],
                            names[1], names[2], names[3], r[i].text);
        if (r[i].how != LAB_RAN || lab_as_expected(&r[i]))
            continue;
        differ++;
        (void)cli_error(cli, CLI_NO, "%s, %s, %s at %s: %s; theory says %s: %s%s", names[0],
                        names[1], names[2], names[3], cli_lab_outcome(&r[i].seen, seen),
                        cli_lab_outcome(&r[i].expected, expected), r[i].why, r[i].text);
    }
    size_t good = n - differ - broken - left;
    cli_say(cli, "%zu cell%s as theory says, %zu differ, %zu not measured, %zu not run", good,
            good == 1 ? "" : "s", differ, broken, left);
    return differ ? CLI_NO : broken ? CLI_AGAIN : CLI_OK;
}

static void step(size_t done, void *user)
{
    cli_bar_step(user, (int64_t)done);
}

static int run_matrix(struct cli *cli, struct lab_ground *g)
{
    enum { PARALLEL = 16 };
    const struct lab_options *o = cli->options;
    struct cli_bar bar;
    size_t n;
    struct lab_result *r = wanted_cells(o, lab_on_server(g), &n);

    if (!r || n == 0) {
        free(r);
        return cli_usage(cli, "there is no such cell: %s",
                         "see emq help lab for what strikes where");
    }
    cli_bar_start(&bar, cli, "cells", (int64_t)n);
    lab_cells_run(g, r, n, o->parallel ? (int)o->parallel : PARALLEL, step, &bar);
    cli_bar_end(&bar);
    int code = CLI_NO;
    if (!atomic_load(&g->stop)) {
        int told = print_results(cli, g, r, n);
        code = conclude(cli, r, n);
        code = told == CLI_OK ? code : told;
    }
    free(r);
    return code;
}

/* ---- the verb ---------------------------------------------------------------------------- */

static const struct part {
    const char *name;
    int (*run)(struct cli *cli, struct lab_ground *g);
    size_t words;
    bool rest;
} parts[] = {{"", run_matrix, 0, false},
             {"slide", cli_lab_slide, 1, false},
             {"soak", cli_lab_soak, 1, false},
             {"handler", cli_lab_handler, 2, true}};

/* An option that this part would not look at. */
static int refuse_others(struct cli *cli, const struct lab_options *o, size_t part)
{
    enum { MATRIX = 1, SLIDE = 2, SOAK = 4, HANDLER = 8 };
    const struct {
        const char *name;
        bool given;
        unsigned parts;
    } list[] = {{"--effect", o->has_effect, MATRIX | SLIDE},
                {"--fault", o->has_fault, MATRIX},
                {"--point", o->has_point, MATRIX | HANDLER},
                {"--parallel", o->parallel != 0, MATRIX},
                {"--jobs", o->jobs != 0, SOAK},
                {"--for", o->lasting != 0, SOAK},
                {"--kill-every", o->kill_every != 0, SOAK},
                {"--check", o->check.len > 0, HANDLER},
                {"--markdown", o->markdown, MATRIX}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(list); i++)
        if (list[i].given && !(list[i].parts & 1U << part))
            return cli_usage(cli, "emq lab%s%s does not take %s", *parts[part].name ? " " : "",
                             parts[part].name, list[i].name);
    return CLI_OK;
}

static int run_lab(struct cli *cli)
{
    static struct lab_ground g;
    const char *name = cli->args.n_words ? cli->args.words[0] : "";

    for (size_t i = 0; i < EMQ_ARRAY_LEN(parts); i++) {
        const struct part *p = &parts[i];
        if (strcmp(p->name, name) != 0)
            continue;
        if (cli->args.n_words > p->words)
            return cli_usage(cli, "one argument too many: \"%s\"", cli->args.words[p->words]);
        if (cli->args.rest && !p->rest)
            return cli_usage(cli, "a command goes with emq lab handler");
        int code = refuse_others(cli, cli->options, i);
        if (code == CLI_OK)
            code = cli_lab_open(cli, &g);
        return code == CLI_OK ? cli_lab_close(cli, &g, p->run(cli, &g)) : code;
    }
    return cli_usage(cli, "\"%s\" is no part of the lab: slide, soak or handler", name);
}

const struct cli_verb cli_verb_lab = {
    .name = "lab",
    .summary = "prove the delivery guarantees by crashing real workers",
    .usage = "[slide|soak|handler [DATA] -- CMD]",
    .help =
        "Runs one job in a queue of its own for each delivery mode, strength of effect, fault and "
        "point of a job's path: a real\n"
        "worker process, which the fault strikes there, and then another one that does what is "
        "left. What the store and\n"
        "the ledger of effects then say is printed beside what theory says. Exit 1 where they "
        "differ,\n"
        "75 where a cell could not be measured.\n\n"
        "The points: P0 before the take, P1 taken, P2 before the effect, P3 effect done and not "
        "acknowledged, P4 acknowledged\n"
        "and the reply not read, P5 all done. The strengths: plain (a line in a file), idempotent "
        "(a file renamed into\n"
        "place), transactional (a row or a counter in the queue's store), inbox (a row in another "
        "database), marker-redo,\n"
        "marker-skip, marker-park, marker-probe (the line, inside of emq effect run's marker; P2 "
        "and P3 are between claim\n"
        "and record), key (a payment, at a server that honours idempotency keys). The faults: "
        "kill, "
        "lost-request,\n"
        "lost-reply (the worker lives and asks again), lost-ack (and the worker dies before it "
        "can), freeze (past its lock),\n"
        "child (the handler is a program, and its worker dies), server (killed and started "
        "again).\n\n"
        "It runs on files in a folder of its own, below TMPDIR or beside the file of --url; or on "
        "the server of --url, under\n"
        "a prefix of its own, of which nothing stays; or, with --server, on servers that it starts "
        "itself: the only ones that\n"
        "it kills. It never looks at EMQ_URL. What a lab that was killed left, the next one "
        "removes: folders at once, keys on a\n"
        "server when the lab has been dead for ten minutes.\n\n"
        "slide: draws the points with the verdicts of a kill under them, for one mode and "
        "strength; "
        "on a terminal the arrow\n"
        "keys choose. soak: many jobs, and workers that die at random; counts what was lost and "
        "what came twice, beside what\n"
        "each death made predictable, while emq fsck looks at the queue again and again and has "
        "nothing to find. handler: your\n"
        "own program as handler, its worker killed at each point and in the middle; --check (also "
        "behind the command) says how\n"
        "much has happened, a number that grows by as much with each run; exit 1 if it happens "
        "twice or not at all, 75 if that\n"
        "can't be told. Where an effect overwrites the one before, let --check remove what it has "
        "counted.",
    .options = lab_table,
    .options_size = sizeof(struct lab_options),
    .max_words = 2,
    .takes_rest = true,
    .run = run_lab,
};

static int run_actor(struct cli *cli)
{
    return lab_actor(cli->args.words, cli->args.n_words, cli->args.rest);
}

const struct cli_verb cli_verb_lab_actor = {
    .name = LAB_VERB,
    .summary = "a process of the lab",
    .usage = "…",
    .min_words = 1,
    .max_words = SIZE_MAX,
    .takes_rest = true,
    .run = run_actor,
};
