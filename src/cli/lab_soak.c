/* SPDX-License-Identifier: MIT
 *
 * emq lab soak.
 */
#include "cli/lab.h"
#include "lab/soak.h"

#include "base/json.h"

enum { JOBS = 300, KILL_EVERY_MS = 200 };

static int print_json(const struct cli *cli, const struct lab_ground *g, const struct lab_soak *s)
{
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "engine", emq_cstr(cli_lab_engine(g)));
    cli_json_str(&b, "mode", emq_cstr(cli_modes[s->mode]));
    emq__json_i64_member(&b, "jobs", s->jobs);
    emq__json_i64_member(&b, "kills", s->kills);
    emq__json_i64_member(&b, "lost", s->lost);
    emq__json_i64_member(&b, "expectedLost", s->expected_lost);
    emq__json_i64_member(&b, "duplicates", s->doubled);
    emq__json_i64_member(&b, "expectedDuplicates", s->expected_doubled);
    emq__json_i64_member(&b, "looks", s->looks);
    emq__json_i64_member(&b, "findings", s->found);
    return cli_json_end(cli, &b);
}

static void add_row(struct cli_table *t, const struct lab_soak *s)
{
    const int64_t values[] = {s->jobs,          s->kills,   s->lost,
                              s->expected_lost, s->doubled, s->expected_doubled,
                              s->looks,         s->found};
    char text[EMQ_ARRAY_LEN(values)][24];
    const char *cells[EMQ_ARRAY_LEN(values) + 1] = {cli_modes[s->mode]};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(values); i++) {
        (void)snprintf(text[i], sizeof text[i], "%lld", (long long)values[i]);
        cells[i + 1] = text[i];
    }
    cli_table_row(t, cells);
}

int cli_lab_soak(struct cli *cli, struct lab_ground *g)
{
    static const char *const columns[] = {"MODE",  "JOBS",      "KILLS", "LOST", "PREDICTED",
                                          "TWICE", "PREDICTED", "LOOKS", "FOUND"};
    static const bool right[] = {false, true, true, true, true, true, true, true, true};
    const struct lab_options *o = cli->options;
    struct cli_table *t =
        cli->globals.json ? NULL : cli_table_new(columns, right, EMQ_ARRAY_LEN(columns));
    int code = CLI_OK;
    bool differs = false;
    emq_error err = {0};

    for (int mode = 0; mode <= EMQ_FIRE_AND_FORGET && code == CLI_OK; mode++) {
        struct lab_soak s = {.mode = mode,
                             .jobs = o->jobs ? o->jobs : JOBS,
                             .for_ms = o->lasting,
                             .kill_every_ms = o->kill_every ? o->kill_every : KILL_EVERY_MS};
        if (o->has_mode && o->mode != mode)
            continue;
        cli_say(cli, "%s: %lld job%s", cli_modes[mode], (long long)s.jobs, s.jobs == 1 ? "" : "s");
        emq_status st = lab_soak_run(g, &s, &err);
        if (st != EMQ_OK || atomic_load(&g->stop)) {
            code = cli_lab_failure(cli, g, st, &err);
            break;
        }
        if (cli->globals.json)
            code = print_json(cli, g, &s);
        else
            add_row(t, &s);
        if (s.found) {
            differs = true;
            (void)cli_error(cli, CLI_NO, "%s: emq fsck has found %lld: %s", cli_modes[mode],
                            (long long)s.found, s.what);
        }
        if (s.lost != s.expected_lost || s.doubled != s.expected_doubled) {
            differs = true;
            (void)cli_error(cli, CLI_NO,
                            "%s: %lld lost and %lld twice; predicted were %lld and %lld",
                            cli_modes[mode], (long long)s.lost, (long long)s.doubled,
                            (long long)s.expected_lost, (long long)s.expected_doubled);
        }
    }
    if (t && cli_table_print(t) != 0 && code == CLI_OK)
        code = cli_error(cli, CLI_AGAIN, "out of memory");
    return code == CLI_OK && differs ? CLI_NO : code;
}
