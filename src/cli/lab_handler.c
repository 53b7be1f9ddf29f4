/* SPDX-License-Identifier: MIT
 *
 * emq lab handler: at which point the user's own program does its effect twice.
 */
#include "cli/lab.h"
#include "lab/handler.h"

static const char *const when[] = {"before the take",
                                   "when it has taken the job",
                                   "before the program",
                                   "after the program, before the acknowledgement",
                                   "after the acknowledgement",
                                   "at the end",
                                   "in the middle of the program"};

/* --check may stand behind the command, where it is taken off. */
static int take_check(struct cli *cli, const char **out)
{
    const struct lab_options *o = cli->options;
    char *const *rest = cli->args.rest;
    size_t n = 0;

    while (rest && rest[n])
        n++;
    *out = o->check.len ? o->check.ptr : NULL;
    if (!*out && n > 2 && strcmp(rest[n - 2], "--check") == 0) {
        char **cut;
        memcpy(&cut, &rest, sizeof cut);
        *out = rest[n - 1];
        cut[n - 2] = NULL;
        n -= 2;
    }
    if (n == 0)
        return cli_usage(cli, "the command is missing: emq lab handler --check CMD -- CMD");
    if (!*out)
        return cli_usage(cli, "--check is missing: a shell command that prints how much has "
                              "happened, say --check 'wc -l <ledger'");
    return CLI_OK;
}

static int verdict(const struct lab_handler *h, const struct lab_outcome *o)
{
    return o->effects < h->unit ? LAB_LOST : o->effects > h->unit ? LAB_DUPLICATE : LAB_CLEAN;
}

static void print_row(struct cli_table *t, const struct lab_handler *h, int point,
                      const struct lab_outcome *o)
{
    char deliveries[24], effects[24];
    const char *const cells[] = {point == LAB_MIDDLE ? "P2-P3" : lab_points[point],
                                 deliveries,
                                 effects,
                                 lab_state(o->state),
                                 lab_verdicts[verdict(h, o)],
                                 when[point]};

    (void)snprintf(deliveries, sizeof deliveries, "%lld", (long long)o->deliveries);
    (void)snprintf(effects, sizeof effects, "%lld", (long long)o->effects);
    cli_table_row(t, cells);
}

static int run_points(struct cli *cli, struct lab_ground *g, struct lab_handler *h,
                      struct cli_table *t)
{
    /* In the order of a job's path. */
    static const int points[] = {EMQ__P0, EMQ__P1, EMQ__P2, LAB_MIDDLE, EMQ__P3, EMQ__P4, EMQ__P5};
    const struct lab_options *o = cli->options;
    int worst = CLI_OK;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(points); i++) {
        const struct lab_cell cell = {.mode = h->mode,
                                      .point = points[i],
                                      .fault = points[i] == LAB_MIDDLE ? LAB_CHILD : LAB_KILL};
        struct lab_outcome seen;
        emq_error err = {0};
        if ((o->has_point && o->point != points[i]) ||
            (h->mode == EMQ_FIRE_AND_FORGET && points[i] < LAB_MIDDLE && points[i] > EMQ__P3))
            continue;
        emq_status s = lab_handler_run(g, h, points[i], &seen, &err);
        if (s != EMQ_OK)
            return cli_lab_failure(cli, g, s, &err);
        int v = verdict(h, &seen);
        if (v != LAB_CLEAN)
            worst = cli_error(cli, CLI_NO, "its worker is killed %s: its effect %s",
                              when[points[i]], v == LAB_LOST ? "is lost" : "happens twice");
        if (t)
            print_row(t, h, points[i], &seen);
        else if (cli_lab_json(cli, g, &cell, "handler", &seen, lab_verdicts[v], LAB_CLEAN) !=
                 CLI_OK)
            return CLI_AGAIN;
    }
    return worst;
}

int cli_lab_handler(struct cli *cli, struct lab_ground *g)
{
    /* What a number that has grown once would do another time only another time tells. */
    enum { CALM_RUNS = 2 };
    static const char *const columns[] = {"POINT", "DELIVERIES", "EFFECT",
                                          "STATE", "VERDICT",    "KILLED"};
    static const bool right[] = {false, true, true, false, false, false};
    const struct lab_options *o = cli->options;
    struct lab_handler h = {.mode = o->has_mode ? o->mode : EMQ_AT_LEAST_ONCE};
    struct lab_outcome calm;
    emq_error err = {0};
    char *data = NULL;
    int code = take_check(cli, &h.check);

    h.argv = cli->args.rest;
    if (code == CLI_OK && cli->args.n_words > 1)
        code = cli_read_data(cli, cli->args.words[1], EMQ_DATA_MAX, &data, &h.data.len);
    if (code != CLI_OK)
        return code;
    h.data.ptr = data;
    struct cli_table *t =
        cli->globals.json ? NULL : cli_table_new(columns, right, EMQ_ARRAY_LEN(columns));
    emq_status s = EMQ_OK;
    for (int i = 0; s == EMQ_OK && i < CALM_RUNS; i++)
        s = lab_handler_run(g, &h, LAB_UNDISTURBED, &calm, &err);
    if (s == EMQ_OK)
        code = run_points(cli, g, &h, t);
    else
        code = h.unstartable ? cli_error(cli, CLI_CONFIG, "%s", err.text)
                             : cli_lab_failure(cli, g, s, &err);
    if (t && cli_table_print(t) != 0 && code == CLI_OK)
        code = cli_error(cli, CLI_AGAIN, "out of memory");
    if (code == CLI_OK)
        cli_say(cli, "its effect happens once, wherever the worker dies");
    free(data);
    return code;
}
