/* SPDX-License-Identifier: MIT
 *
 * The table of verbs.
 */
#include "cli/cli.h"

/* clang-format off */
#define CLI_VERBS(X)                                                                             \
    X(add) X(work) X(run) X(take) X(extend) X(settle) X(wait) X(ls) X(show) X(stats) X(why)      \
    X(logs) X(tail) X(retry) X(promote) X(cancel) X(rm) X(edit) X(pause) X(resume) X(drain) X(clean)     \
    X(obliterate) X(sweep) X(dedup) X(effect) X(fsck) X(doctor) X(explain) X(lab) X(help) X(completion) X(version)
/* clang-format on */

#define DECLARE(verb) extern const struct cli_verb cli_verb_##verb;
CLI_VERBS(DECLARE)
#undef DECLARE

#define ENTRY(verb) &cli_verb_##verb,
const struct cli_verb *const cli_verbs[] = {CLI_VERBS(ENTRY) NULL};
#undef ENTRY

/* Of processes that emq starts itself: in no help. */
extern const struct cli_verb cli_verb_lab_actor;

const struct cli_verb *cli_find_verb(const char *name)
{
    if (strcmp(cli_verb_lab_actor.name, name) == 0)
        return &cli_verb_lab_actor;
    for (size_t i = 0; cli_verbs[i]; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    return NULL;
}
