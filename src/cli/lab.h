/* SPDX-License-Identifier: MIT
 *
 * emq lab: what its parts share.
 */
#ifndef EMQ_CLI_LAB_H
#define EMQ_CLI_LAB_H

#include "cli/cli.h"
#include "lab/cell.h"

struct lab_options {
    emq_str server, check;
    int64_t parallel, jobs, kill_every, lasting;
    int32_t mode, effect, fault, point;
    bool has_mode, has_effect, has_fault, has_point, markdown;
};

/* Ground that INT and TERM make stop; one a process. An exit code after its message. */
int cli_lab_open(struct cli *cli, struct lab_ground *g);
/* Nothing is left behind; `code`, or what went wrong. After a signal the process ends by it. */
int cli_lab_close(struct cli *cli, struct lab_ground *g, int code);
/* An exit code after the message of a failure; without one when the lab was stopped, which is told at its close: what
 * failed then did so because of it. */
int cli_lab_failure(const struct cli *cli, const struct lab_ground *g, emq_status s,
                    const emq_error *err);
/* The name of the engine that the lab runs on. */
const char *cli_lab_engine(const struct lab_ground *g);
/* "1 delivery, 2 effects, completed". */
enum { LAB_TEXT_MAX = 300 };
char *cli_lab_outcome(const struct lab_outcome *o, char out[LAB_TEXT_MAX]);

/* "clean", …, "not run", "not measured". */
const char *cli_lab_verdict(const struct lab_result *r);

/* The line of JSON of a cell. effect: its name; seen: NULL if it has not run. */
int cli_lab_json(const struct cli *cli, const struct lab_ground *g, const struct lab_cell *cell,
                 const char *effect, const struct lab_outcome *seen, const char *verdict,
                 int expected);

/* A table a mode: a row a fault and point, a column a strength, with the number of effects. */
void cli_lab_markdown(const struct lab_result *r, size_t n);

/* The parts. Each runs on open ground. */
int cli_lab_slide(struct cli *cli, struct lab_ground *g);
int cli_lab_soak(struct cli *cli, struct lab_ground *g);
int cli_lab_handler(struct cli *cli, struct lab_ground *g);

#endif
