/* SPDX-License-Identifier: MIT
 *
 * What scripts rely on: the exit code of each status.
 */
#include "cli/cli.h"

#include "lib/test.h"

EMQ_TEST(every_status_has_the_exit_code_of_the_table)
{
    static const struct {
        emq_status s;
        int code;
    } table[] = {
        {EMQ_OK, 0},
        {EMQ_EMPTY, 1},
        {EMQ_DUPLICATE, 1},
        {EMQ_DEDUPLICATED, 1},
        {EMQ_LOST, 1},
        {EMQ_NOT_FOUND, 1},
        {EMQ_WRONG_STATE, 1},
        {EMQ_CANCELLED, 1},
        {EMQ_FAILED, 1},
        {EMQ_LOCKED, 1},
        {EMQ_CONFLICT, 1},
        {EMQ_PARKED, 1},
        {EMQ_PENDING_CHILDREN, 1},
        {EMQ_FAILED_CHILD, 1},
        {EMQ_NEXT_RUN, 1},
        {EMQ_CHILD_LOCKED, 1},
        {EMQ_EFFECT_DONE, 1},
        {EMQ_TIMEOUT, 124},
        {EMQ_E_INVALID, 64},
        {EMQ_E_UNAVAIL, 69},
        {EMQ_E_FORKED, 70},
        {EMQ_E_CLOSED, 70},
        {EMQ_E_STORE, 74},
        {EMQ_E_CORRUPT, 74},
        {EMQ_E_FULL, 74},
        {EMQ_E_BUSY, 75},
        {EMQ_E_NOMEM, 75},
        {EMQ_E_SYSTEM, 75},
        {EMQ_E_REFUSED, 77},
        {EMQ_E_VERSION, 78},
        {EMQ_E_IN_DOUBT, 79},
    };
    enum {
#define COUNT(name, number, text) +1
        STATUSES = 0 EMQ_STATUS_MAP(COUNT)
#undef COUNT
        };

    CHECK_INT(EMQ_ARRAY_LEN(table), STATUSES);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++)
        if (cli_exit_code(table[i].s) != table[i].code)
            fail_msg("%s: %d, expected %d", emq_status_name(table[i].s), cli_exit_code(table[i].s),
                     table[i].code);
    CHECK_INT(cli_exit_code((emq_status)-999), 70);
}
