/* SPDX-License-Identifier: MIT
 *
 * The options that every verb has, what their URL may be, and choices that several verbs have; and what is
 * the same for all: exit codes and limits.
 */
#include "cli/cli.h"

const struct cli_option cli_global_options[] = {
    {.name = "--url",
     .type = CLI_TEXT,
     .at = offsetof(struct cli_globals, url),
     .value = "URL",
     .help = "the store (emq help: URLs); default EMQ_URL (not of lab), else the embedded file"},
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

const struct cli_exit_help cli_exits[] = {
    {CLI_OK, "success"},
    {CLI_NO, "a negative answer: no job, lock lost, job failed, refused"},
    {CLI_USAGE, "the command line is wrong, values out of range included"},
    {CLI_DATA, "the contents of data, batch or JSON are wrong"},
    {CLI_NOINPUT, "no such input file"},
    {CLI_UNREACHABLE, "the store cannot be reached"},
    {CLI_BUG, "a bug"},
    {CLI_IO, "the storage or the output failed, or is full"},
    {CLI_AGAIN, "try again: busy, or out of a resource"},
    {CLI_REFUSED, "the store refused: password, permission, or read-only"},
    {CLI_CONFIG, "configuration: a store of another version, a command that cannot be started"},
    {CLI_IN_DOUBT, "in doubt: it may or may not have happened"},
    {CLI_PARKED, "emq effect run: an effect in doubt was parked"},
    {CLI_TIMED_OUT, "timed out"},
    {CLI_OWN_FAILURE, "emq run: a failure of emq itself"},
    {0, NULL},
};

const struct cli_limit cli_limits[] = {
    {"data of a job", EMQ_DATA_MAX, "bytes"},
    {"result of a job", EMQ_RESULT_MAX, "bytes"},
    {"line of a log, longer ones are cut", EMQ_LOG_LINE_MAX, "bytes"},
    {"id of a job", EMQ_ID_MAX, "bytes"},
    {"name of a queue", EMQ_QUEUE_NAME_MAX, "bytes"},
    {"name of a worker", EMQ_WORKER_NAME_MAX, "bytes"},
    {"priority, 1 runs first", EMQ_PRIORITY_MAX, ""},
    {NULL, 0, NULL},
};

const char *cli_limit_text(const struct cli_limit *l, char out[32])
{
    enum { KIB = 1024, MIB = 1024 * 1024 };
    int64_t unit = strcmp(l->unit, "bytes") != 0 ? 1
                   : l->max >= MIB               ? MIB
                   : l->max >= KIB               ? KIB
                                                 : 1;

    snprintf(out, 32, "%lld%s%s", (long long)(l->max / unit), l->unit[0] ? " " : "",
             unit == MIB   ? "MiB"
             : unit == KIB ? "KiB"
                           : l->unit);
    return out;
}

const char *const cli_modes[] = {"at-least-once", "at-most-once", "fire-and-forget", NULL};
