/* SPDX-License-Identifier: MIT
 *
 * Waiting for a result, shared by `add --wait` and `wait`.
 */
#ifndef EMQ_CLI_WAIT_H
#define EMQ_CLI_WAIT_H

#include "cli/cli.h"

/* Prints the result (--json: the job); 1 if it failed or is gone, 124 at the deadline. */
int cli_wait_result(struct cli *cli, emq_str queue, emq_str id, int64_t timeout_ms);

#endif
