/* SPDX-License-Identifier: MIT
 *
 * Man pages from the table of verbs: emq(1) for NULL, emq-VERB(1) otherwise.
 */
#ifndef EMQ_CLI_MAN_H
#define EMQ_CLI_MAN_H

#include "cli/cli.h"

void cli_print_man(const struct cli_verb *verb, FILE *to);

#endif
