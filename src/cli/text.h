/* SPDX-License-Identifier: MIT
 *
 * Untrusted bytes and instants as text for people.
 */
#ifndef EMQ_CLI_TEXT_H
#define EMQ_CLI_TEXT_H

#include "cli/cli.h"

/* Prints bytes with control characters and invalid UTF-8 escaped: nothing can drive the terminal. */
void cli_print_text(emq_str s);
/* "2026-11-29 17:25:12.345" in local time. */
char *cli_time(int64_t at_ms, char out[40]);
/* At most `max` characters of a text for one table cell, control characters replaced. */
char *cli_cell(emq_str s, size_t max, char *out, size_t cap);

#endif
