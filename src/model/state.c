/* SPDX-License-Identifier: MIT
 *
 * The state table and the names of the states. A move that is not in this table does not happen in
 * any store.
 */
#include "model/state.h"

#include "base/str.h"

static const char *const state_names[EMQ_STATE_COUNT + 1] = {
    [EMQ_WAITING] = "waiting",
    [EMQ_ACTIVE] = "active",
    [EMQ_DELAYED] = "delayed",
    [EMQ_PRIORITIZED] = "prioritized",
    [EMQ_WAITING_CHILDREN] = "waiting-children",
    [EMQ_COMPLETED_STATE] = "completed",
    [EMQ_FAILED_STATE] = "failed",
};

const char *emq_state_name(int state)
{
    return state >= 1 && state <= EMQ_STATE_COUNT ? state_names[state] : "unknown";
}

int emq_state_parse(emq_str text)
{
    for (int s = 1; s <= EMQ_STATE_COUNT; s++)
        if (emq__str_is(text, state_names[s]))
            return s;
    return 0;
}

/* Sets of states, one bit each; bit 0 is "no such job". */
#define IN(state) (1u << (state))
enum {
    GONE = IN(0),
    WAITING = IN(EMQ_WAITING),
    ACTIVE = IN(EMQ_ACTIVE),
    DELAYED = IN(EMQ_DELAYED),
    PRIORITIZED = IN(EMQ_PRIORITIZED),
    CHILDREN = IN(EMQ_WAITING_CHILDREN),
    COMPLETED = IN(EMQ_COMPLETED_STATE),
    FAILED = IN(EMQ_FAILED_STATE),
    LINE = WAITING | PRIORITIZED,
    FINISHED = COMPLETED | FAILED,
    ANY = LINE | ACTIVE | DELAYED | CHILDREN | FINISHED
};

/* RETRY and RELEASE of a job that was asked to stop end it as failed. To GONE beside a final state: a retention that keeps nothing removes the job in the same act. A
 * take to GONE is fire-and-forget. */
static const struct {
    enum emq__move move;
    unsigned from, to;
} table[] = {
    {EMQ__MOVE_ADD, GONE, LINE | DELAYED | CHILDREN},
    {EMQ__MOVE_TAKE, LINE, ACTIVE | GONE},
    {EMQ__MOVE_COMPLETE, ACTIVE, COMPLETED | GONE},
    {EMQ__MOVE_FAIL, ACTIVE | LINE, FAILED | GONE},
    {EMQ__MOVE_RETRY, ACTIVE, LINE | DELAYED | FAILED | GONE},
    {EMQ__MOVE_RELEASE, ACTIVE, LINE | DELAYED | FAILED | GONE},
    {EMQ__MOVE_RECOVER, ACTIVE, LINE | FAILED | GONE},
    {EMQ__MOVE_PROMOTE, DELAYED, LINE},
    {EMQ__MOVE_REPROCESS, FINISHED, LINE},
    {EMQ__MOVE_CANCEL, LINE | DELAYED | CHILDREN, FAILED | GONE},
    {EMQ__MOVE_PRIORITIZE, LINE, LINE},
    {EMQ__MOVE_REMOVE, ANY, GONE},
};

bool emq__move_legal(enum emq__move move, int from, int to)
{
    if (from < 0 || from > EMQ_STATE_COUNT || to < 0 || to > EMQ_STATE_COUNT)
        return false;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++)
        if (table[i].move == move)
            return (table[i].from & IN(from)) != 0 && (table[i].to & IN(to)) != 0;
    return false;
}
