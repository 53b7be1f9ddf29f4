/* SPDX-License-Identifier: MIT
 *
 * The options that every verb has.
 */
#include "cli/cli.h"

const struct cli_option cli_global_options[] = {
    {.name = "--url",
     .type = CLI_TEXT,
     .at = offsetof(struct cli_globals, url),
     .value = "URL",
     .help = "the store: sqlite:PATH, redis://HOST, …; default EMQ_URL, else the embedded file"},
    {.name = "--prefix",
     .type = CLI_TEXT,
     .at = offsetof(struct cli_globals, prefix),
     .value = "P",
     .help = "first part of every queue's name (emq)"},
    {.name = "--json",
     .type = CLI_FLAG,
     .at = offsetof(struct cli_globals, json),
     .help = "results as JSON, one object a line"},
    {.name = "--quiet",
     .type = CLI_FLAG,
     .at = offsetof(struct cli_globals, quiet),
     .letter = 'q',
     .help = "no talk on stderr"},
    {.name = "--verbose",
     .type = CLI_FLAG,
     .at = offsetof(struct cli_globals, verbose),
     .letter = 'v',
     .help = "say more"},
    {.name = "--help",
     .type = CLI_FLAG,
     .at = offsetof(struct cli_globals, help),
     .letter = 'h',
     .help = "this help"},
    {.name = NULL},
};
