/* SPDX-License-Identifier: MIT
 *
 * The options that every verb has, what their URL may be, and choices that several verbs have.
 */
#include "cli/cli.h"

const struct cli_option cli_global_options[] = {
    {.name = "--url",
     .type = CLI_TEXT,
     .at = offsetof(struct cli_globals, url),
     .value = "URL",
     .help = "the store (emq help: URLs); default EMQ_URL, else the embedded file"},
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

const struct cli_url cli_urls[] = {
    {"sqlite:PATH[?sync=S]",
     "a file, S: full, normal or off; also a bare path with / or . in front"},
    {"sqlite::memory:", "in memory, for as long as the program runs"},
    {"redis://[USER:PASSWORD@]HOST[:PORT][/DB]",
     "a server, Redis or Valkey; redis: alone: REDIS_URL"},
    {"redis+unix:///SOCKET[?db=N]", "the same over a unix socket"},
    {"redis+sentinel://HOST,HOST/NAME[/DB]", "the primary that sentinels call NAME"},
    {"redis+cluster://HOST,HOST", "a cluster: the queue or the prefix has a hash tag, {mail}"},
    {"rediss://, rediss+sentinel://, ...", "with TLS: ?ca=FILE, ?cert=FILE&key=FILE, ?insecure=1"},
    {"...?prefix=P", "the prefix, for any of them; bull: the queues of BullMQ"},
    {"...?wait=N", "on a server: an act is done when N replicas have it"},
    {NULL, NULL},
};

const char *const cli_modes[] = {"at-least-once", "at-most-once", "fire-and-forget", NULL};
