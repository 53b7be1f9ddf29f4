/* SPDX-License-Identifier: MIT
 *
 * The options that every verb has, and choices that several have.
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
     .help = "first part of every queue's name; default EMQ_PREFIX, else the URL's, else emq"},
    {.name = "--json",
     .type = CLI_FLAG,
     .at = offsetof(struct cli_globals, json),
     .help = "results and messages as JSON, one line each"},
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

const char *const cli_modes[] = {"at-least-once", "at-most-once", "fire-and-forget", NULL};
