/* SPDX-License-Identifier: MIT
 *
 * What the files of `emq effect` share.
 */
#ifndef EMQ_CLI_EFFECT_H
#define EMQ_CLI_EFFECT_H

#include "cli/cli.h"

#include <echomq/effect.h>

struct effect_options {
    emq_str queue, job, token, probe, payload, result;
    int64_t keep;
    int32_t policy;
    bool has_policy, done, forget;
};

/* Of which job: the options, or the environment of a program that works on one. 0, or 64 after its message. */
int cli_effect_key(struct cli *cli, emq_str step, bool token, emq_effect_key *out);
/* `emq effect run`: words[1] is the step, cli->args.rest the command. */
int cli_effect_run(struct cli *cli);

#endif
